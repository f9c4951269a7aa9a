"""The Tokenizer lab's third section: the reports' figures on tokens, each beside what the tokenizer gives now."""

from __future__ import annotations

import streamlit as st

from engine.evidence.tokenisation import QUANTITIES, TokenFinding, findings, load_claims
from engine.text.tokenizers import BUILT_IN, load_tokenizer
from pages._shared.lab.choices import NAMES
from pages._shared.table_files import csv_text

SECTIONS = {
    "002 · Vocabulary (2.1)": ("002", {"2.1"}),
    "002 · Coordinates (2.2)": ("002", {"2.2"}),
    "002 · Skeleton (2.3)": ("002", {"2.3"}),
    "000 · Evidence of junk tokens": ("000", None),
    "001 · LLaMA against Qwen": ("001", None),
}
SHOWN_PIECES = 40
UNTRIED = "<-1.2345,0.6789,2.1234>"


def show() -> None:
    """Draw the section."""
    found = _findings()
    wrong = sum(finding.verdict == "contradicted" for finding in found)
    st.markdown(
        f"Of **{len(found)}** figures on tokens in reports 000, 001 and 002, **{len(found) - wrong}** come out again "
        f"with the real tokenizers and **{wrong}** do not. *Measured* is counted as the page is drawn; *reported* "
        "stands beside it, also where it is wrong."
    )
    only_wrong = st.toggle("Only what is contradicted", key="contradicted", bind="query-params")
    for title, (report, sections) in SECTIONS.items():
        rows = [
            _row(finding)
            for finding in found
            if finding.claim.report == report
            and (sections is None or finding.claim.section in sections)
            and (finding.verdict == "contradicted" or not only_wrong)
        ]
        if rows:
            st.subheader(title, anchor=False)
            hidden = {"place"} if sections else set()
            if all(row["verdict"].startswith("✓") for row in rows):
                hidden.add("why")
            order = [name for name in rows[0] if name not in hidden]
            st.dataframe(rows, hide_index=True, height="content", column_order=order, column_config=_COLUMNS, alt=title)
            if (report, sections) == SECTIONS["002 · Coordinates (2.2)"]:
                st.caption(_untried())
    st.download_button("Download all as CSV", _csv(found), "token_figures.csv", "text/csv", icon=":material/download:")


def _untried() -> str:
    """The commonest block of all, which report 002 did not try: its drift has the other sign."""
    drift = QUANTITIES["drift"].measure
    drifts = " and ".join(f"{drift(UNTRIED, load_tokenizer(name)):+d} under {NAMES[name]}" for name in BUILT_IN)
    return f"All drifts of this table are positive. A block that it does not hold, `{UNTRIED}`: {drifts}, so cut."


@st.cache_data(show_spinner="Measuring …")
def _findings() -> list[TokenFinding]:
    return findings(load_claims())


_COLUMNS = {
    "reported": st.column_config.TextColumn("reported", help="What the report states"),
    "measured": st.column_config.TextColumn("measured", help="What the tokenizer gives here, now"),
    "cut into": st.column_config.TextColumn("cut into", width="large"),
    "why": st.column_config.TextColumn("why", width="large"),
}


def _row(finding: TokenFinding) -> dict[str, str]:
    claim = finding.claim
    is_right = finding.verdict == "reproduced"
    return {
        "place": claim.section,
        "text": claim.text or "whole vocabulary",
        "tokenizer": NAMES[claim.tokenizer],
        "quantity": QUANTITIES[claim.quantity].label,
        "reported": claim.reported,
        "measured": f"{finding.measured:,}",
        "verdict": "✓ reproduced" if is_right else "✗ contradicted",
        "why": "" if is_right else claim.note,
        "cut into": _pieces(claim.text, claim.tokenizer),
    }


def _pieces(text: str, tokenizer: str) -> str:
    pieces = [token.piece for token in load_tokenizer(tokenizer).tokens(text)]
    return " ".join(pieces[:SHOWN_PIECES]) + (" …" if len(pieces) > SHOWN_PIECES else "")


def _csv(found: list[TokenFinding]) -> str:
    rows = [{"report": finding.claim.report, **_row(finding)} for finding in found]
    return csv_text(list(rows[0]), [list(row.values()) for row in rows])
