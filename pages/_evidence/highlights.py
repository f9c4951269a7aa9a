"""The Evidence page's first section: verdicts by report, and the claims behind the reports' conclusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from engine.evidence.checks.finding import VERDICTS
from engine.evidence.lost_third import load_usable
from engine.figures.words import percent
from engine.store.store import Store
from pages._evidence import charts, lost_third, misread, state
from pages._evidence.claims import Judged
from pages._evidence.words import (
    apart_words,
    basis_words,
    found_word,
    measured_words,
    reported_words,
    rich,
    short_reason,
)
from pages._shared.charts.card import draw
from pages._shared.errors import escape_markdown
from pages._shared.theme import palette
from pages._shared.verdicts import look_of, word_of
from pages._shared.words import unbroken

CHART = "verdicts by report"
COLUMNS = 3


def show(store: Store, rows: Sequence[Judged]) -> None:
    _lost_third(store, rows)
    st.subheader("What the conclusions rest on", anchor=False)
    highlights = [row for row in rows if row.claim.highlight]
    for start in range(0, len(highlights), COLUMNS):
        for column, row in zip(st.columns(COLUMNS), highlights[start : start + COLUMNS], strict=False):
            with column, st.container(border=True, height="stretch", gap="small", key=f"card-{row.id}"):
                _card(row)
    st.subheader("How much of each report reproduces?", anchor=False)
    st.markdown(escape_markdown(by_report_sentence(rows)))
    draw(charts.by_report(rows, palette()), key=CHART, on_select=_take, selection_mode="points")
    st.caption("Click a bar segment to see its claims.")
    misread.show(store)


def _lost_third(store: Store, rows: Sequence[Judged]) -> None:
    """The answer to the question that made a group give up its LP."""
    documents, _ = load_usable(store.places)
    answer = lost_third.answer(documents)
    if answer:
        with st.container(border=True, gap="small", key="lost-third"):
            st.markdown(f"**{lost_third.QUESTION}** {unbroken(escape_markdown(lost_third.third(rows)))}")
            st.markdown(unbroken(escape_markdown(answer)))
            st.button(
                "Show how",
                icon=":material/arrow_forward:",
                icon_position="right",
                type="tertiary",
                on_click=state.open_section,
                args=(state.LOST_THIRD,),
            )


def by_report_sentence(rows: Sequence[Judged]) -> str:
    """The share of decidable claims that reproduce, and the reports with the lowest and highest share."""
    decided = [row for row in rows if row.name not in (None, "not testable here")]
    if not decided:
        return "No claim has been decided yet."
    shares = {}
    for report in dict.fromkeys(row.claim.report for row in decided):
        names = [row.name for row in decided if row.claim.report == report]
        shares[report] = names.count("reproduced") / len(names)
    right = sum(row.name == "reproduced" for row in decided)
    sentence = f"Of the {len(decided):,} claims that can be decided here, {percent(right / len(decided))} reproduce"
    if len(shares) < 2:
        return f"{sentence}."
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    return (
        f"{sentence}: from {percent(shares[least])} of report {least}'s to {percent(shares[most])} of report {most}'s."
    )


def _card(row: Judged) -> None:
    look = look_of(row.name)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.badge(f"{look.sign} {word_of(row.name)}", color=look.badge)
        st.caption(escape_markdown(f"report {row.claim.report}, {row.claim.section}"), width="content")
    st.markdown(f"**“{rich(row.claim.statement)}”**")
    figures = figure_words(row)
    if figures:
        st.markdown(escape_markdown(figures))
    st.caption(rich(short_reason(row)))
    if row.verdict is not None and row.verdict.source in ("store", "experiment"):
        st.caption(escape_markdown(basis_words(row)))
    st.button(
        "Open",
        icon=":material/arrow_forward:",
        icon_position="right",
        type="tertiary",
        key=f"open-{row.id}",
        on_click=state.open_claim,
        args=(row.id,),
    )


def figure_words(row: Judged) -> str:
    """The report's figure and the one here in one line, for claims that have either."""
    parts = [f"report: {reported_words(row.claim)}" if row.has_figure else ""]
    measured = measured_words(row)
    if measured:
        apart = apart_words(row)
        parts.append(f"{found_word(row)}: {measured}" + (f" ({apart})" if apart not in ("", "=") else ""))
    return " · ".join(part for part in parts if part)


def _take() -> None:
    """Show the claims of the clicked bar segment."""
    points: list[Mapping[str, Any]] = st.session_state[CHART]["selection"]["points"]
    match points[0].get("customdata") if points else None:
        case [str(report), str(word)]:
            state.show_all([report], [word] if word in VERDICTS else [])
