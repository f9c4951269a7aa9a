"""One claim: what it states and where, its figure beside the one here, the verdict's reason, and the query."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.evidence.claims import Claim
from engine.evidence.verdicts import Verdict
from pages._evidence import charts, state
from pages._evidence.claims import Judged, related
from pages._evidence.words import (
    SOURCES,
    apart_words,
    basis_words,
    lab_address,
    measured_words,
    range_words,
    reported_words,
    rich,
    sql_and_rest,
)
from pages._shared.charts.card import draw
from pages._shared.errors import escape_markdown
from pages._shared.links import sql_address
from pages._shared.theme import palette
from pages._shared.verdicts import look_of, word_of
from pages._shared.words import visible_text

HOW_TO_BRING = {
    "run": "Import the run with `.venv/bin/python -m engine import FILE`, then re-check.",
    "texts": "Import the report's file with `.venv/bin/python -m engine import FILE`, then re-check.",
}
_LEFT = ".st-key-related button { justify-content: flex-start; text-align: left; }"  # sentences, not words
MOST_LINK = 6_000
"""Characters of a link; a longer one is not taken by every browser and proxy."""


def show(judged: Judged, rows: Sequence[Judged], *, lacks_runs: bool) -> None:
    """Draw the claim. ``lacks_runs``: its check reads runs that are not in the store that is open."""
    claim = judged.claim
    look = look_of(judged.name)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="claim-heading"):
        st.badge(f"{look.sign} {word_of(judged.name)}", color=look.badge, help=look.means)
        st.badge(escape_markdown(judged.id), color="gray", help="The claim's id, for links and the command line")
    st.markdown(f"#### “{rich(claim.statement)}”")
    st.caption(escape_markdown(place_words(claim)))
    if lacks_runs:
        words = (
            "This check reads the runs that ship with the project. The open store does not have them. "
            "A re-check here gives “not testable”."
        )
        st.info(words, icon=":material/inventory_2:")
    if charts.can_compare(judged):
        words = beside_words(judged)
        st.markdown("**Reported and computed here**")
        draw(charts.beside(judged, palette(), words), key=f"beside-{judged.id}")
        st.caption(escape_markdown(words))
    _reason(judged)
    if judged.verdict is not None:
        _query(judged, judged.verdict)
    _related(related(judged, rows))


def place_words(claim: Claim) -> str:
    """Where the report states it, also repeatedly."""
    also = f"; also in {', '.join(claim.also)}" if claim.also else ""
    return f"Report {claim.report}, {claim.section}{also} · about: {claim.subject}"


def beside_words(judged: Judged) -> str:
    """Both figures in one or two sentences."""
    claim, verdict = judged.claim, judged.verdict
    assert verdict is not None  # there is a figure
    rounded = range_words(claim)
    report = f"The report has {reported_words(claim)}" + (f", rounded from {rounded}" if rounded else "")
    apart = apart_words(judged)
    same = ", inside that range" if rounded or claim.value is None else ", the same"
    how = same if apart == "=" else f" ({apart})" if apart else ""
    return f"{report}. {SOURCES[verdict.source][1]}: {measured_words(judged)}{how}."


def _reason(judged: Judged) -> None:
    verdict = judged.verdict
    if verdict is None:
        st.markdown("This claim has not been checked yet. Use *Re-check all claims* at the top.")
        return
    figure = measured_words(judged)
    if not charts.can_compare(judged):
        st.markdown(SOURCES[verdict.source][1] + (f": **{escape_markdown(figure)}**" if figure else "."))
    st.markdown(f"**Why:** {rich(verdict.reason)}")
    if basis := basis_words(judged):
        st.caption(escape_markdown(basis))
    how = HOW_TO_BRING.get(str(judged.claim.arguments.get("needs", "")))
    if judged.name == "not testable here" and how:
        st.caption(how)


# --- the query ----------------------------------------------------------------------------------------------------


def _query(judged: Judged, verdict: Verdict) -> None:
    st.markdown("**Query**")
    sql, rest = sql_and_rest(verdict.query)
    if sql:
        st.code(sql, language="sql", wrap_lines=True)
        if rest:
            st.caption("Computed from its rows:")
            st.code(rest, language="python", wrap_lines=True)
    else:
        st.code(
            verdict.query.replace("; ", "\n"),
            language="python" if verdict.source == "tokenizers" else None,
            wrap_lines=True,
        )
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        if sql and len(sql_address(sql)) <= MOST_LINK:
            st.link_button("Open in the SQL console", sql_address(sql), icon=":material/database:")
        lab = lab_address(judged.claim)
        if lab:
            st.link_button("Open in the Tokenizer lab", lab, icon=":material/token:")
    st.caption(f"From a terminal: `.venv/bin/python -m engine claims {visible_text(judged.id)}`")


# --- other claims -------------------------------------------------------------------------------------------------


def _related(relations: Sequence[tuple[str, Judged]]) -> None:
    if not relations:
        return
    st.html(f"<style>{_LEFT}</style>")
    st.markdown("**Related claims**")
    with st.container(gap=None, key="related"):
        heading = ""
        for how, judged in relations:
            if how != heading:
                heading = how
                st.caption(how[0].upper() + how[1:])
            look, claim = look_of(judged.name), judged.claim
            figure = f" ({reported_words(claim)})" if claim.reported and claim.check != "tokens" else ""
            st.button(
                escape_markdown(f"{look.sign} {claim.report}, {claim.section}: {claim.statement}{figure}"),
                key=f"related-{judged.id}",
                type="tertiary",
                on_click=state.put_claim,
                args=(judged.id,),
                help=word_of(judged.name),
            )
