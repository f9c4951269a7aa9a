"""What the LP ``shaped`` struck at a token of a text, in words: likely tokens that may not come there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.inspection.sample import Inspected
from engine.records import Molecule
from engine.text.align import Alignment

MOST_NAMED = 6
"""Pieces of one token; the others are counted."""


def struck_of(inspection: Inspected, steps: Mapping[int, Mapping[str, Any]]) -> dict[int, str]:
    """Of a stored sample, as far as these rows of ``steps`` tell, by position."""
    if inspection.alignment is None or inspection.tokenizer is None:
        return {}
    struck = {pos: ids for pos, row in steps.items() if (ids := row.get("struck"))}
    return struck_words(struck, inspection.alignment, inspection.molecule, inspection.tokenizer.piece)


def struck_words(
    struck: Mapping[int, Sequence[int]], alignment: Alignment, molecule: Molecule, piece: Callable[[int], str]
) -> dict[int, str]:
    """``struck here: `3`, `-` — no right place found for this atom``, by position, of the ids struck there."""
    words = {}
    for row in alignment.rows:
        ids = struck.get(-1 if row.pos is None else row.pos)
        if row.pos is not None and row.start is not None and ids:
            pieces = [piece(id_) for id_ in ids]
            why = reason(molecule, alignment.text[: row.start], pieces)
            words[row.pos] = f"struck here: {_named(pieces)} — {why}"
    return words


def reason(molecule: Molecule, written: str, pieces: Sequence[str]) -> str:
    """Why none of these pieces may follow what is ``written`` of the answer. The points that ``shaped`` asks find no
    right place; which check leaves none is not known of them."""
    return "no right place found for this atom"


def _named(pieces: Sequence[str]) -> str:
    named = [f"`{piece.replace('`', 'ʼ')}`" for piece in pieces[:MOST_NAMED]]
    more = [f"{len(pieces) - MOST_NAMED} more"] if len(pieces) > MOST_NAMED else []
    return ", ".join([*named, *more])
