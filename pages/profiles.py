"""The Profiles page: profiler traces of the store, a test beside its control, and where the difference comes from."""

import streamlit as st

from engine.store.store import Store
from pages._shared.errors import shown_errors
from pages._shared.frame import page
from pages._shared.profiles import families, kernels, launches, manage, questions, reports, timeline
from pages._shared.profiles.traces import chosen_traces
from pages._shared.sections import show_open

TITLE = "Profiles"
ICON = ":material/speed:"
LEAD = (
    "A profiler's trace, or two beside each other: **where the time goes, and what makes the difference**, family by "
    "family and kernel by kernel, over the tokens that were made meanwhile."
)

SECTIONS = {
    "Families": families.show,
    "Launches": launches.show,
    "Kernels": kernels.show,
    "Timeline": timeline.show,
    "Reports": reports.show,
    "SQL": questions.show,
    "Traces": manage.show,
}
WITHOUT_CHOICE = ("Reports", "SQL", "Traces")  # what these show does not hang on it

page(TITLE, ICON, LEAD)
with shown_errors():
    store = Store.open().still()
    chosen = chosen_traces(store, is_open=st.query_params.get("view") not in WITHOUT_CHOICE)
show_open(SECTIONS, store, chosen)
