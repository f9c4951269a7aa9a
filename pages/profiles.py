"""The Profiles page: profiler traces of the store, a test with its control, and where the difference comes from."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from engine.profile.traces import cautions, traces_of
from engine.questions import PAGES
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from pages._kit.card import cards
from pages._profiles import manage, queries
from pages._profiles.traces import trace_picker
from pages._shared.errors import escape_markdown, shown_errors
from pages._shared.frame import page
from pages._shared.sections import show_open
from pages._shared.shown import put_shown
from pages._shared.words import unbroken

TITLE = "Profiles"
ICON = ":material/speed:"
LEAD = "A profiler's trace, or two side by side: **where the time goes, and what makes the difference**."
SECTIONS: dict[str, Callable[..., None]] = {view: partial(cards, keys) for (view, _), keys in PAGES["profiles"].items()}
SECTIONS |= {"SQL": queries.show, "Traces": manage.show}

page(TITLE, ICON, LEAD)
with shown_errors():
    store = Store.open().snapshot()
    picker = trace_picker({entry.id: entry.row for entry in store.found().entries})
    chosen = picker.show(store.found(TRACE))
    ids = [entry.id for entry in chosen]
with shown_errors(stops=False):
    if chosen and (notes := list(cautions(*traces_of(store, chosen)))):
        st.caption(unbroken(escape_markdown(f"{' '.join(notes)}")))
show_open(SECTIONS, store, ids)
put_shown(page="profiles", traces=ids)
