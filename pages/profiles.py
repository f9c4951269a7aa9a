"""The Profiles page: profiler traces of the store, a test beside its control, and where the difference comes from."""

from pathlib import Path

import streamlit as st

from engine.store.store import Store
from pages._profiles import families, kernels, launches, manage, queries, reports, timeline
from pages._profiles.traces import chosen_traces
from pages._shared.errors import shown_errors
from pages._shared.frame import page
from pages._shared.html_table import style
from pages._shared.sections import of_choice, show_open
from pages._shared.shown import put_shown

TITLE = "Profiles"
ICON = ":material/speed:"
LEAD = "A profiler's trace, or two side by side: **where the time goes, and what makes the difference**."

SECTIONS = {
    "Families": of_choice(families.show),
    "Launches": of_choice(launches.show),
    "Kernels": of_choice(kernels.show),
    "Timeline": of_choice(timeline.show),
    "Reports": reports.show,
    "SQL": queries.show,
    "Traces": manage.show,
}

page(TITLE, ICON, LEAD)
st.html(style())
st.html(Path(__file__).parent / "_profiles" / "profiles.css")
with shown_errors():
    store = Store.open().snapshot()
    chosen = chosen_traces(store)
show_open(SECTIONS, store, chosen)
put_shown(page="profiles", traces=chosen.ids if chosen else ())
