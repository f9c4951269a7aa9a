"""What a cut cost, by the model's continuation of the block: digits lost, and how far the atom moved.

These are estimates: the continuation is greedy, after a text that may contain earlier cuts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.records import Molecule
from engine.text.blocks import displacement_ang
from engine.text.drift import needed_by_content
from engine.text.tokenizers import TextTokenizer


@dataclass(frozen=True, slots=True)
class BlockEstimate:
    """How the model would have finished a cut block."""

    text: str  # its three numbers
    needed: int | None  # tokens inside the block; None without a tokenizer
    digits_lost: int | None  # None where the written text is no prefix of it
    displacement_ang: float | None  # of the atom, by the cut; None where the block as written has no three numbers


def estimates_of(
    blocks: Sequence[Mapping[str, Any]], molecule: Molecule, tokenizer: TextTokenizer | None
) -> dict[int, BlockEstimate]:
    """By block, for those whose row has a continuation."""
    estimates = {}
    for row in blocks:
        if row["continued_text"]:
            is_known = row["atom"] is not None and 0 <= row["atom"] < molecule.atoms
            descriptor = molecule.descriptors[row["atom"]] if is_known else "[C]"
            estimates[row["block"]] = estimate(row["text"] or "", row["continued_text"], descriptor, tokenizer)
    return estimates


def estimate(written: str, continued: str, descriptor: str, tokenizer: TextTokenizer | None) -> BlockEstimate:
    """What is lost between a block as written and as the model would have finished it."""
    has_prefix = continued.startswith(written)
    return BlockEstimate(
        text=continued,
        needed=needed_by_content([(descriptor, continued)], tokenizer)[0] if tokenizer is not None else None,
        digits_lost=sum(map(str.isdigit, continued[len(written) :])) if has_prefix else None,
        displacement_ang=displacement_ang(written, continued),
    )
