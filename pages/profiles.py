"""The Profiles page: profiler traces of the store, a test with its control, and where the difference comes from."""

import streamlit as st

from engine.profile.traces import cautions, traces_of
from engine.questions import PAGES
from engine.store.store import Store
from pages._kit.card import cards
from pages._profiles import manage, queries
from pages._profiles.traces import chosen_traces
from pages._shared.errors import escape_markdown, shown_errors
from pages._shared.frame import page
from pages._shared.sections import of_choice, show_open
from pages._shared.shown import put_shown
from pages._shared.words import unbroken

TITLE = "Profiles"
ICON = ":material/speed:"
LEAD = "A profiler's trace, or two side by side: **where the time goes, and what makes the difference**."


def section(view: str):  # type: ignore[no-untyped-def]  # what show_open calls
    keys = PAGES["profiles"][view, ""]
    return of_choice(lambda store, chosen: cards(keys, store, chosen.ids))


SECTIONS = {view: section(view) for view, _ in PAGES["profiles"]}
SECTIONS |= {"SQL": queries.show, "Traces": manage.show}

page(TITLE, ICON, LEAD)
with shown_errors():
    store = Store.open().snapshot()
    chosen = chosen_traces(store)
with shown_errors(stops=False):
    if chosen and (notes := list(cautions(*traces_of(store, chosen.entries)))):
        st.caption(unbroken(escape_markdown(f"{' '.join(notes)}")))
show_open(SECTIONS, store, chosen)
put_shown(page="profiles", traces=chosen.ids if chosen else ())
