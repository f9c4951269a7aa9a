"""One claim whole: what it states and where, its figure beside the one here, the verdict's reason, and the query."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.evidence.claims import Claim
from engine.evidence.verdicts import Verdict
from pages._shared.compare.state import sql_address
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown
from pages._shared.evidence import charts, state
from pages._shared.evidence.claims import Judged, Related, related
from pages._shared.evidence.words import (
    SOURCES,
    apart_words,
    lab_address,
    look_of,
    measured_words,
    range_words,
    reported_words,
    rich,
    sql_and_rest,
    word_of,
)
from pages._shared.theme import palette

HOW_TO_BRING = {
    "run": "Bring the run in with `python -m engine import FILE`; then it is compared.",
    "texts": "Bring the report's file in with `python -m engine import FILE`.",
}
_LEFT = ".st-key-related button { justify-content: flex-start; text-align: left; }"  # sentences, not words
MOST_LINK = 6_000
"""Characters of a link; a longer one is not taken by every browser and proxy."""


def show(one: Judged, rows: Sequence[Judged], *, lacks_runs: bool) -> None:
    """Draw the claim. ``lacks_runs``: its check reads runs that are not in the store that is open."""
    claim = one.claim
    _heading(one)
    st.markdown(f"#### {rich(claim.statement)}")
    st.caption(escape_markdown(place_words(claim)))
    if lacks_runs:
        words = (
            "Its check reads the runs that ship with the project, and the store that is open does not hold them. "
            "Judged anew here, it cannot be tested."
        )
        st.info(words, icon=":material/inventory_2:")
    if charts.can_compare(one):
        _beside(one)
    _reason(one)
    if one.verdict is not None:
        _query(one, one.verdict)
    _related(related(one, rows))


def place_words(claim: Claim) -> str:
    """Where it stands, and where it is said again."""
    also = f"; also in {', '.join(claim.also)}" if claim.also else ""
    return f"Report {claim.report}, {claim.section}{also} · about: {claim.subject}"


def _heading(one: Judged) -> None:
    look = look_of(one.name)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="claim-heading"):
        st.badge(f"{look.sign} {word_of(one.name)}", color=look.badge, help=look.means)
        st.badge(escape_markdown(one.id), color="gray", help="Its name, for links and for the terminal")


def _beside(one: Judged) -> None:
    words = beside_words(one)
    st.markdown("**Does the same figure come out?**")
    st.plotly_chart(
        charts.beside(one, palette()),
        theme=None,
        key=f"beside-{one.id}",
        config={"displayModeBar": False},
        alt=words,
    )
    st.caption(escape_markdown(words))


def beside_words(one: Judged) -> str:
    """Both figures in one or two sentences."""
    claim, verdict = one.claim, one.verdict
    assert verdict is not None  # there is a figure
    rounded = range_words(claim)
    report = f"The report has {reported_words(claim)}" + (f", rounded from {rounded}" if rounded else "")
    apart = apart_words(one)
    same = ", inside of that" if rounded or claim.value is None else ", the same"
    how = same if apart == "=" else f" ({apart})" if apart else ""
    return f"{report}. {SOURCES[verdict.source][1]}: {measured_words(one)}{how}."


def _reason(one: Judged) -> None:
    verdict = one.verdict
    if verdict is None:
        st.markdown("Nobody has judged this claim yet. *Judge anew*, at the top, does.")
        return
    figure = measured_words(one)
    if figure and not charts.can_compare(one):
        st.markdown(f"{SOURCES[verdict.source][1]}: **{escape_markdown(figure)}**")
    st.markdown(f"**Why:** {rich(verdict.reason)}")
    how = HOW_TO_BRING.get(str(one.claim.arguments.get("needs", "")))
    if one.name == "not testable here" and how:
        st.caption(how)


# --- the query ----------------------------------------------------------------------------------------------------


def _query(one: Judged, verdict: Verdict) -> None:
    st.markdown(f"**The query behind it** · {escape_markdown(SOURCES[verdict.source][1].lower())}")
    sql, rest = sql_and_rest(verdict.query)
    if sql:
        st.code(sql, language="sql", wrap_lines=True)
        if rest:
            st.caption("Of the rows that it gives:")
            st.code(rest, language="python", wrap_lines=True)
    else:
        st.code(
            verdict.query.replace("; ", "\n"),
            language="python" if verdict.source == "tokenizers" else None,
            wrap_lines=True,
        )
    _links(one.claim, sql)


def _links(claim: Claim, sql: str) -> None:
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        if sql and len(sql_address(sql)) <= MOST_LINK:
            st.link_button("Open in the SQL console", sql_address(sql), icon=":material/database:")
        lab = lab_address(claim)
        if lab:
            st.link_button("Open in the Tokenizer lab", lab, icon=":material/token:")
    st.caption(f"From a terminal: `.venv/bin/python -m engine claims {visible_text(claim.id)}`")


# --- other claims -------------------------------------------------------------------------------------------------


def _related(found: Sequence[Related]) -> None:
    if not found:
        return
    st.html(f"<style>{_LEFT}</style>")
    st.markdown("**Related claims**")
    with st.container(gap=None, key="related"):
        how = ""
        for one in found:
            if one.how != how:
                how = one.how
                st.caption(how[0].upper() + how[1:])
            look, claim = look_of(one.judged.name), one.judged.claim
            figure = f" ({reported_words(claim)})" if claim.reported and claim.check != "tokens" else ""
            st.button(
                escape_markdown(f"{look.sign} {claim.report}, {claim.section}: {claim.statement}{figure}"),
                key=f"related-{one.judged.id}",
                type="tertiary",
                on_click=state.put_claim,
                args=(one.judged.id,),
                help=word_of(one.judged.name),
            )
