"""What a cut cost, from how the model would have gone on: digits that were lost, and how far the atom moved.

These are estimates: the continuation is greedy, behind a text that may hold earlier cuts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.records import WIDEST, Molecule
from engine.text.blocks import read_block
from engine.text.drift import needed_by_content
from engine.text.tokenizers import TextTokenizer


@dataclass(frozen=True, slots=True)
class BlockEstimate:
    """How a block would have ended, had the LP let it."""

    text: str  # its three numbers
    needed: int | None  # tokens inside the block; None without a tokenizer
    digits_lost: int | None  # None where what was written is no beginning of the text
    displacement_ang: float | None  # of the atom, by the cut; None where the block as written has no three numbers


def estimates_of(
    blocks: Sequence[Mapping[str, Any]], molecule: Molecule, tokenizer: TextTokenizer | None
) -> dict[int, BlockEstimate]:
    """By block, for those whose row has a continuation."""
    return {
        row["block"]: estimate(row["text"] or "", row["continued_text"], _descriptor(row, molecule), tokenizer)
        for row in blocks
        if row["continued_text"]
    }


def estimate(written: str, continued: str, descriptor: str, tokenizer: TextTokenizer | None) -> BlockEstimate:
    """What is lost between a block as written and as the model would have finished it."""
    goes_on = continued.startswith(written)
    return BlockEstimate(
        text=continued,
        needed=needed_by_content([(descriptor, continued)], tokenizer)[0] if tokenizer is not None else None,
        digits_lost=sum(map(str.isdigit, continued[len(written) :])) if goes_on else None,
        displacement_ang=_distance(written, continued),
    )


def _descriptor(row: Mapping[str, Any], molecule: Molecule) -> str:
    atom = row["atom"]
    return molecule.descriptors[atom] if atom is not None and 0 <= atom < molecule.atoms else "[C]"


def _distance(before: str, after: str) -> float | None:
    points = [[float(number) for number in read_block(text, form=WIDEST).numbers] for text in (before, after)]
    return math.dist(*points) if all(len(point) == 3 for point in points) else None
