"""What alignments are tried on, and what holds for every one of them."""

from __future__ import annotations

from collections.abc import Sequence

from engine.lp_records import DEFAULT_PLACEHOLDER, LPS, SHORT_PLACEHOLDER, UNKNOWN_LP
from engine.text.align import AlignedToken, Alignment
from engine.text.template import GUESSED_PLACEHOLDER, Template

LP_NAMES = (*LPS, UNKNOWN_LP.name)
CLOSED_BY_MODEL = frozenset(name for name, record in LPS.items() if record.closed_by == "model")
NAMES = ("qwen3", "llama3")
PLACEHOLDERS = (DEFAULT_PLACEHOLDER, SHORT_PLACEHOLDER, GUESSED_PLACEHOLDER, "-0.0000,-0.0000,0.0000")


def check_complete(alignment: Alignment, template: Template, ids: Sequence[int]) -> None:
    """Every token of both sides stands in the rows once, in order."""
    assert [row.pos for row in alignment.rows if row.pos is not None] == list(range(len(ids)))
    assert [row.token_id for row in alignment.rows if row.pos is not None] == list(ids)
    there = [row.template_pos for row in alignment.rows if row.template_pos is not None]
    assert there == list(range(template.tokens))
    assert [row.template_id for row in alignment.rows if row.template_pos is not None] == template.ids.tolist()
    for row in alignment.rows:
        assert row.pos is not None or row.template_pos is not None
        check_sides(row)
    assert [block.block for block in alignment.blocks] == list(range(len(alignment.blocks)))
    atoms = [block.atom for block in alignment.blocks if block.atom >= 0]
    assert atoms == sorted(set(atoms))


def check_sides(row: AlignedToken) -> None:
    if row.pos is None:
        assert (row.token_id, row.piece, row.start, row.end, row.text_role) == (None, "", None, None, None)
        assert (row.text_block, row.forced) == (-1, None)
        assert row.mark in ("", "left_over")
    if row.template_pos is None:
        assert (row.template_id, row.template_piece, row.role, row.block) == (None, "", None, -1)
        assert row.mark != "left_over"
    if row.mark == "beyond":
        assert row.template_pos is None
        assert row.text_role == "FREE"
    if row.mark == "left_over":
        assert row.role == "FREE"
