"""What the LP ``shaped`` struck at a token of a text, in words: likely tokens that may not come there, and why.

``shaped`` asks points, which does not tell what stands in the way. So the reason is looked for here, by bounds: a check
that fails at every place that is left by these tokens, in the widest tolerance in which there is one. Where several
checks leave no place only together, or points missed a narrow one, none is named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from engine.chem.frame import Array
from engine.chem.stereo import stereo_goals
from engine.figures.words import quoted
from engine.inspection.lost_token import Splits, boxes_of, molecule_of_text, place_written, splits_of, why_none
from engine.inspection.runs import number_format
from engine.inspection.sample import Inspected
from engine.lp.places import TOLERANCES
from engine.records import BinFormat, Molecule, NumberFormat
from engine.text.align import Alignment
from engine.text.blocks import FoundBlock, find_blocks
from engine.text.tokenizers import TextTokenizer

MOST_NAMED = 6
"""Pieces of one token; the others are counted."""
NO_PLACE = "no right place found for this atom"
_NUMBER = r"-?\d+(?:\.\d*)?"
_DIGITS = re.compile(r"[\d,]*", re.ASCII)
_BEGUN = re.compile(rf"(?:{_NUMBER},){{0,2}}(?:-?|{_NUMBER})")


def struck_of(inspection: Inspected, steps: Mapping[int, Mapping[str, Any]]) -> dict[int, str]:
    """Of a stored sample, as far as these rows of ``steps`` tell, by position."""
    if inspection.alignment is None or inspection.tokenizer is None:
        return {}
    struck = {pos: row["struck"] for pos, row in steps.items() if row.get("struck")}
    how = inspection.tokenizer, number_format(inspection.run)
    return struck_words(struck, inspection.alignment, inspection.molecule, *how)


def struck_words(
    struck: Mapping[int, Sequence[int]],
    alignment: Alignment,
    molecule: Molecule,
    tokenizer: TextTokenizer,
    form: NumberFormat,
) -> dict[int, str]:
    """``struck here: `3`, `-` — atom 2, to which it is bonded, is then at least 2.90 Å away, at most 1.69 is allowed``,
    by position, of the ids struck there."""
    words = {}
    for row in alignment.rows:
        ids = struck.get(-1 if row.pos is None else row.pos)
        if row.pos is not None and row.start is not None and ids:
            pieces = tuple(map(tokenizer.piece, ids))
            why = reason(molecule.smiles, alignment.text[: row.start], pieces, splits_of(tokenizer), form)
            more = [f"{len(pieces) - MOST_NAMED} more"] if len(pieces) > MOST_NAMED else []
            words[row.pos] = f"struck here: {', '.join([*map(quoted, pieces[:MOST_NAMED]), *more])} — {why}"
    return words


@lru_cache(4096)  # a lane that is being written asks again and again
def reason(smiles: str, written: str, pieces: tuple[str, ...], splits: Splits, form: NumberFormat) -> str:
    """Why none of the pieces may follow what is ``written`` of an answer for this molecule, in its order."""
    molecule = molecule_of_text(smiles, "mol_fast")
    before = [block.content for block in find_blocks(written, form) if block.closed]
    text_atoms = list(molecule.text_atoms)
    atom = text_atoms.index(len(before)) if len(before) in text_atoms else 0
    places = [place_written(content, form) for content in before]
    if not atom or None in places:  # a hydrogen, nothing to measure from, a damaged text
        return NO_PLACE
    positions = np.zeros((len(text_atoms), 3))
    positions[:atom] = [places[other] or () for other in text_atoms[:atom]]
    boxes = [_boxes(find_blocks(written + piece, form)[len(before) :], splits, form) for piece in pieces]
    if None in boxes:
        return NO_PLACE
    low, high = (np.concatenate(ends) for ends in zip(*filter(None, boxes), strict=True))
    checks = molecule.checks(atom, positions, np.arange(len(text_atoms)) <= atom, stereo_goals(molecule.heavy))
    for tolerance in (None, *reversed(TOLERANCES)):  # the verdict's own first
        if tolerance is not None:
            checks.set_tolerance(tolerance.bonded, tolerance.clash)
        if (why := why_none(checks, (low, high), text_atoms)) is not None:
            return why
    return NO_PLACE


def _boxes(blocks: Sequence[FoundBlock], splits: Splits, form: NumberFormat) -> tuple[Array, Array] | None:
    """What the first block leaves, with which a text ends; None where there is none, or it is no beginning of one."""
    begun = _DIGITS if isinstance(form, BinFormat) else _BEGUN
    if not blocks or not begun.fullmatch(blocks[0].content):
        return None
    return boxes_of(blocks[0].content, form.closing * blocks[0].closed, splits, form)
