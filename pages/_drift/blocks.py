"""The Drift inspector's table of one molecule's blocks; a selected row selects its atom in every view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from engine.inspection.sample import BlockEstimate, Inspected
from pages._drift import state
from pages._drift.state import spot_of
from pages._shared.rows import ONE_ROW, picked_rows, show_rows, table_height
from pages._shared.words import kind_words, visible_text

KEY = "drift_blocks"
MOST_ROWS = 60  # as many heavy atoms as most molecules have; a longer table scrolls


def show(inspection: Inspected, estimates: Mapping[int, BlockEstimate], atom: int | None, estimated_by: str) -> None:
    """Draw the table, with columns for estimates where there are some."""
    if not inspection.blocks:
        return
    spot, atoms = spot_of(inspection), [block["atom"] for block in inspection.blocks]
    blocks = [(spot, place) for place in range(len(atoms))]
    key = show_rows(KEY, blocks, blocks[(first := atoms.index(atom)) : first + 1] if atom in atoms else ())

    def select_atom() -> None:
        rows = picked_rows(key)
        if rows is not None:
            state.put_atom(spot, atoms[rows[0]] if rows and rows[0] < len(atoms) else None)

    rows = [_row(block, estimates.get(block["block"]), bool(estimates)) for block in inspection.blocks]
    st.dataframe(
        rows,
        hide_index=True,
        height=table_height(min(len(inspection.blocks), MOST_ROWS)),
        column_config=_COLUMNS,
        column_order=list(rows[0]),
        key=key,
        on_select=select_atom,
        selection_mode=ONE_ROW,
        placeholder="–",
        alt="Blocks of the molecule: select a row to highlight its atom and tokens",
    )
    words = (
        "FREE: the template's positions for the block. Drift: FREE minus the tokens that its numbers need. The"
        " strip counts the sampled tokens, which may differ."
    )
    if inspection.run.is_hypothetical:
        words += " Here it is hypothetical: no template wrote the text, so it did nothing."
    if estimates:
        words += (
            f" ≈ Estimates: the greedy continuation of each cut block by {estimated_by or 'the model'}, after a text"
            " that may contain earlier cuts."
        )
    if any(estimate.digits_lost == 0 for estimate in estimates.values()):
        words += " 0 lost: the likeliest token closed the number, but most of the model's probability went on."
    st.caption(words)


def _row(block: Mapping[str, Any], estimate: BlockEstimate | None, with_estimates: bool) -> dict[str, Any]:
    atom = block["atom"]
    needed, free = None if estimate is None else estimate.needed, block["template_free"]
    estimated = {
        "finished": None if estimate is None else visible_text(estimate.text),
        "drift then": None if needed is None or free is None else free - needed,
        "digits lost": None if estimate is None else estimate.digits_lost,
        "moved": None if estimate is None else estimate.displacement_ang,
    }
    return {  # the most important first
        "atom": None if atom is None or atom < 0 else atom,
        "element": block["element"],
        "text": visible_text(block["text"] or ""),
        **(estimated if with_estimates else {}),
        "free": free,
        "needed": block["needed"],
        "drift": block["drift"],
        "kinds": kind_words(block),
        "junk": visible_text(block["junk_text"] or ""),
        **({"needed then": needed} if with_estimates else {}),
    }


_config = st.column_config
_COLUMNS: dict[str, Any] = {
    "atom": _config.NumberColumn("atom", width=52, pinned=True),
    "element": _config.TextColumn("", width=40, pinned=True),
    "text": _config.TextColumn("block as written", width=160),
    "free": _config.NumberColumn("FREE", width=52, help="Positions that the template has for the block"),
    "needed": _config.NumberColumn("needed", width=70, help="Tokens that its numbers need; empty where unknown"),
    "drift": _config.NumberColumn("drift", width=54, help="FREE minus needed: above 0 is junk-prone, below is cut"),
    "kinds": _config.TextColumn("kind", width=130),
    "junk": _config.TextColumn("junk", width=100),
    "finished": _config.TextColumn("≈ would have been", width=150, help="An estimate, by a model's continuation"),
    "needed then": _config.NumberColumn("≈ needed", width=74, help="An estimate: tokens of the finished block"),
    "drift then": _config.NumberColumn("≈ drift", width=62, help="An estimate: FREE minus ≈ needed"),
    "digits lost": _config.NumberColumn("≈ digits lost", width=88, help="An estimate"),
    "moved": _config.NumberColumn(
        "≈ moved (Å)", width=95, help="An estimate: how far the cut moved the atom", format="%.4f"
    ),
}
