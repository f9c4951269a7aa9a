"""The Evidence page: what the reports state, each claim next to what comes out here, and the query behind it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from engine.questions import PAGES, ask, question_of
from engine.store.store import Store
from pages._kit.card import cards
from pages._kit.components.address import put_quietly
from pages._kit.errors import escaped, shown_errors
from pages._kit.frame import page
from pages._kit.sections import VIEW, show_open
from pages._kit.shown import put_shown
from pages._kit.words import unbroken

TITLE = "Evidence"
ICON = ":material/fact_check:"
LEAD = "Which claims of the group's reports hold? Each is quoted, next to the figure computed **here**."
ALL, LOST_THIRD = "All claims", "The lost third"


def open_view(view: str, **options: str) -> None:
    st.query_params.update({VIEW: view, **options})


def in_two_minutes(store: Store) -> None:
    claims = ask(store, "evidence_claims", [])
    st.markdown(unbroken(escaped(claims.answer)))
    with st.container(border=True, key="lost-third"), shown_errors(LOST_THIRD, stops=False):
        st.markdown(f"**{question_of('evidence_lost_third').TITLE}**")
        answered = ask(store, "evidence_lost_third", [])
        st.markdown(unbroken(escaped(answered.answer.partition("\n\n")[0])))
        st.button("Show how", type="tertiary", on_click=open_view, args=(LOST_THIRD,))
    st.header("What the conclusions rest on", anchor=False)
    highlights = [row["claim_id"] for row in claims.tables["main"].to_pylist() if row["highlight"]]
    for start in range(0, len(highlights), 3):
        for column, id_ in zip(st.columns(3), highlights[start : start + 3], strict=False):
            statement, source, *more = ask(store, "evidence_claims", [], {"claim": id_}).answer.splitlines()
            with column, st.container(border=True, height="stretch", gap="small", key=f"card-{id_}"):
                st.markdown(escaped(statement, has_code=True))
                for line in (source, *more[:-1]):  # the last one is its query
                    st.caption(escaped(line, has_code=True))
                st.button("Open", key=f"open-{id_}", type="tertiary", on_click=partial(open_view, ALL, claim=id_))
    cards(PAGES["evidence"]["In two minutes", ""], store, [])


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
put_shown(page="evidence")
