"""The Evidence page: what the reports state, each claim beside what comes out here, and the query behind it."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from engine.questions import PAGES, ask, question_of
from engine.questions.evidence_claims import SIGNS, figures, judged, standing, why
from engine.store.store import Store
from pages._kit.card import cards
from pages._shared.errors import escape_markdown, shown_errors
from pages._shared.frame import page
from pages._shared.links import lab_address, sql_address
from pages._shared.sections import VIEW, show_open
from pages._shared.shown import put_shown
from pages._shared.words import unbroken

TITLE = "Evidence"
ICON = ":material/fact_check:"
LEAD = "Which claims of the group's reports hold? Each is quoted, beside the figure computed **here**."
VIEWS = PAGES["evidence"]
ALL, LOST_THIRD = "All claims", "The lost third"
COLOURS: Any = {"✓": "green", "✗": "red", "≠": "yellow", "∼": "blue", "?": "gray"}
MOST_LINK = 6_000  # characters of a link; a longer one is not taken by every browser and proxy


def open_claim(id_: str) -> None:
    st.query_params["claim"] = id_
    st.session_state[VIEW] = ALL


def in_two_minutes(store: Store) -> None:
    st.markdown(unbroken(escape_markdown(standing())))
    with shown_errors(LOST_THIRD, stops=False), st.container(border=True, key="lost-third"):
        answered = ask(store, "evidence_lost_third", [])
        st.markdown(f"**{question_of('evidence_lost_third').TITLE}**")
        st.markdown(unbroken(escape_markdown(answered.answer.partition("\n\n")[0])))
        st.button("Show how", type="tertiary", on_click=st.session_state.update, args=({VIEW: LOST_THIRD},))
    st.subheader("What the conclusions rest on", anchor=False)
    highlights = [pair for pair in judged() if pair[0].highlight]
    for start in range(0, len(highlights), 3):
        for column, (claim, verdict) in zip(st.columns(3), highlights[start : start + 3], strict=False):
            with column, st.container(border=True, height="stretch", gap="small", key=f"card-{claim.id}"):
                st.badge(f"{SIGNS[verdict.verdict]} {verdict.verdict}", color=COLOURS[SIGNS[verdict.verdict]])
                st.caption(escape_markdown(f"report {claim.report}, {claim.section}"))
                st.markdown(escape_markdown(f"“{claim.statement.strip()}”"))
                st.markdown(escape_markdown(figures(claim, verdict)))
                st.caption(escape_markdown(why(verdict)))
                st.button("Open", key=f"open-{claim.id}", type="tertiary", on_click=open_claim, args=(claim.id,))
    cards(VIEWS["In two minutes", ""], store, [])


def all_claims(store: Store) -> None:
    for claim, verdict in judged():
        if claim.id == st.query_params.get("claim"):
            sql, text = verdict.query.partition(" -- ")[0], claim.check.get("text")
            if verdict.source == "store" and len(sql_address(sql)) <= MOST_LINK:
                st.link_button("Open its query in the SQL console", sql_address(sql), icon=":material/database:")
            if text and claim.check["by"] == "tokens":
                st.link_button("Open its text in the Tokenizer lab", lab_address(text=text), icon=":material/token:")
    cards(VIEWS[ALL, ""], store, [])


SECTIONS = {
    "In two minutes": in_two_minutes,
    LOST_THIRD: partial(cards, VIEWS[LOST_THIRD, ""], ids=[]),
    ALL: all_claims,
}

page(TITLE, ICON, LEAD)
with shown_errors():
    store = Store.open().snapshot()
if "claim" in st.query_params and VIEW not in st.query_params:  # a link that names a claim means the view that has them
    st.session_state.setdefault(VIEW, ALL)
show_open(SECTIONS, store)
put_shown(page="evidence")
