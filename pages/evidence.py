"""The Evidence page: which claims of the reports fell, each with its figure and ours, and the query behind it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from engine.questions import PAGES, ask, question_of
from engine.store.store import Store
from pages._kit.card import cards
from pages._kit.components.address import put_quietly
from pages._kit.components.charts_ready import charts_ready
from pages._kit.errors import escaped, shown_errors
from pages._kit.frame import page
from pages._kit.sections import VIEW, fold, is_unfolded, show_open
from pages._kit.shown import put_shown
from pages._kit.words import glossed, unbroken

TITLE = "Evidence"
ICON = ":material/fact_check:"
LEAD = "Which claims of the group's reports hold? Each with the figure computed **here**."
ALL, LOST_THIRD, MISREAD = "All claims", "The lost third", "misread"


def in_two_minutes(store: Store) -> None:
    figures, misread = PAGES["evidence"]["In two minutes", ""]
    cards([figures], store, [])
    with st.container(border=True, key="lost-third"), shown_errors(LOST_THIRD, stops=False):
        st.header(question_of("evidence_lost_third").TITLE, anchor=False)
        lead = ask(store, "evidence_lost_third", []).answer.partition("\n\n")[0]
        st.markdown(glossed(unbroken(escaped(lead, has_code=True))), unsafe_allow_html=True)
        st.button("Show how", type="tertiary", on_click=lambda: st.query_params.update({VIEW: LOST_THIRD}))
    is_open = is_unfolded(MISREAD, at_first=False)
    with fold(question_of(misread).TITLE, MISREAD, is_open, ":material/rule:"):
        if is_open:
            cards([misread], store, [])


SECTIONS: dict[str, Callable[..., None]] = {
    "In two minutes": in_two_minutes,
    **{view: partial(cards, PAGES["evidence"][view, ""], ids=[]) for view in (LOST_THIRD, ALL)},
}

page(TITLE, LEAD)
with shown_errors():
    store = Store.open().snapshot()
# A link that names a claim means the view that has them.
put_quietly({VIEW: ALL} if "claim" in st.query_params and VIEW not in st.query_params else {})
show_open(SECTIONS, store)
charts_ready()
put_shown(page="evidence")
