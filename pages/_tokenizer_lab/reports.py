"""The Tokenizer lab's third section: the reports' figures on tokens, each beside what the tokenizer gives now."""

from __future__ import annotations

import streamlit as st

from engine.evidence.claims import Claim, token_claims
from engine.evidence.tokenisation import QUANTITIES
from engine.text.tokenizers import BUILT_IN, load_tokenizer
from pages._shared.errors import escape_markdown
from pages._shared.table_files import csv_text, file_button
from pages._shared.words import TOKENIZER_NAMES, signed

SECTIONS = {
    "002 · Vocabulary (2.1)": ("002", {"2.1"}),
    "002 · Coordinates (2.2)": ("002", {"2.2"}),
    "002 · Skeleton (2.3)": ("002", {"2.3"}),
    "000 · Evidence of junk tokens": ("000", None),
    "001 · LLaMA against Qwen": ("001", None),
}
SHOWN_PIECES = 40
UNTRIED = "<-1.2345,0.6789,2.1234>"
RIGHT, WRONG = "✓\u00a0reproduced", "✗\u00a0contradicted"


def show() -> None:
    all_rows = _rows()
    wrong = sum(row["verdict"] == WRONG for row in all_rows)
    right = len(all_rows) - wrong
    st.markdown(
        f"Of **{len(all_rows)}** figures on tokens in reports 000, 001 and 002, **{right}** reproduce "
        f"with the real tokenizers and **{wrong}** do not. *Measured* is computed when the page loads; *reported* is "
        "what the report states."
    )
    only_wrong = st.toggle("Contradicted only", key="contradicted", bind="query-params")
    for title, (report, sections) in SECTIONS.items():
        rows = [
            row
            for row in all_rows
            if row["report"] == report
            and (sections is None or row["place"] in sections)
            and (row["verdict"] == WRONG or not only_wrong)
        ]
        if rows:
            st.subheader(title, anchor=False)
            cells = [_in_cells(row, has_place=sections is None) for row in rows]
            st.table(cells, hide_index=True, border="horizontal", alt=title)
            if (report, sections) == SECTIONS["002 · Coordinates (2.2)"]:
                st.caption(_untried())
    data = csv_text(list(all_rows[0]), [list(row.values()) for row in all_rows])
    file_button("All as CSV", lambda: data, "token_figures.csv")


def _untried() -> str:
    """The most frequent kind of block, which report 002 did not try: its drift has the other sign."""
    drift = QUANTITIES["drift"].measure
    drifts = " and ".join(
        f"{signed(drift(UNTRIED, load_tokenizer(name)))} under {TOKENIZER_NAMES[name]}" for name in BUILT_IN
    )
    return f"No drift in this table is negative. A block that report 002 did not try, `{UNTRIED}`: {drifts}, so cut."


@st.cache_data(show_spinner="Measuring …")
def _rows() -> list[dict[str, str]]:
    return [_row(claim) for claim in token_claims()]


def _in_cells(row: dict[str, str], *, has_place: bool) -> dict[str, str]:
    """Cells are Markdown: the verdict in its colour with its reason, the pieces with their text; few enough to fit."""
    cells = {name: escape_markdown(text) for name, text in row.items()}
    colour = {RIGHT: "green", WRONG: "red"}[row["verdict"]]
    return {
        **({"place": cells["place"]} if has_place else {}),
        "text": cells["text"] + (f" :small[split into {cells['split into']}]" if row["split into"] else ""),
        "tokenizer": cells["tokenizer"],
        "quantity": cells["quantity"],
        "reported": cells["reported"],
        "measured": cells["measured"],
        "verdict": f":{colour}[{row['verdict']}]" + (f" :small[{cells['why']}]" if row["why"] else ""),
    }


def _row(claim: Claim) -> dict[str, str]:
    quantity, text = QUANTITIES[claim.arguments["quantity"]], claim.arguments["text"]
    tokenizer = load_tokenizer(claim.arguments["tokenizer"])
    measured = quantity.measure(text, tokenizer)
    is_right = quantity.agrees(measured, claim.least, claim.most)
    pieces = [token.piece for token in tokenizer.tokens(text)]
    return {
        "report": claim.report,
        "place": claim.section,
        "text": text or "whole vocabulary",
        "tokenizer": TOKENIZER_NAMES[tokenizer.name],
        "quantity": quantity.label,
        "reported": claim.reported,
        "measured": f"{measured:,}",
        "verdict": RIGHT if is_right else WRONG,
        "why": "" if is_right else claim.note,
        "split into": " ".join(pieces[:SHOWN_PIECES]) + (" …" if len(pieces) > SHOWN_PIECES else ""),
    }
