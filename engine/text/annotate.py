"""A pasted text: what it is, and what its blocks need of a placeholder's template.

Nothing is known here of a model or an LP: roles are where the text really is, marks are what the text alone shows.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from engine.chem.other_forms import OtherForm, other_form
from engine.text.blocks import find_blocks
from engine.text.drift import needed_by_content
from engine.text.generated import ReadText, ReadToken, needed_by_blocks
from engine.text.template import check_placeholder
from engine.text.tokenizers import TextTokenizer

InputKind = Literal["smiles", "enriched", "coordinate", "text"] | OtherForm

MOST_CHARACTERS = 20_000

_COORDINATE = re.compile(r"<?\s*-?\d+(?:\.\d*)?\s*,[-\d.,\s]*>?", re.ASCII)
_ATOM_AND_BLOCK = re.compile(r"\]<(?!-\[)")


def kind_of_input(text: str) -> InputKind:
    """What somebody has pasted, by its shape: no tokenizer and no molecule is needed to say so."""
    bare = text.strip()
    if (form := other_form(bare)) is not None:
        return form
    if _ATOM_AND_BLOCK.search(bare):
        return "enriched"
    if _COORDINATE.fullmatch(bare) or (bare.startswith("<") and find_blocks(bare)):
        return "coordinate"
    return "smiles" if bare and not any(char.isspace() for char in bare) and bare.isascii() else "text"


@dataclass(frozen=True, slots=True)
class BlockNeed:
    """What one block needs under one tokenizer, beside what the placeholder's template gives it."""

    template_free: int
    needed: int | None  # None where the block has no three complete numbers

    @property
    def drift(self) -> int | None:
        return None if self.needed is None else self.template_free - self.needed


def block_needs(text: ReadText, tokenizer: TextTokenizer, placeholder: str) -> list[BlockNeed]:
    """Need and drift of each block of a text whose numbers are complete, whatever junk follows them."""
    check_placeholder(placeholder)
    free = needed_by_content([(block.descriptor, placeholder) for block in text.blocks], tokenizer)
    needed = needed_by_blocks(text.blocks, text.readings, tokenizer)
    return [
        BlockNeed(positions, tokens if len(reading.numbers) == 3 else None)
        for positions, tokens, reading in zip(free, needed, text.readings, strict=True)
    ]


def beyond_template(tokens: list[ReadToken], needs: list[BlockNeed]) -> set[int]:
    """Indices of the tokens for which the template has no position left: what a position LP would cut off."""
    seen: Counter[int] = Counter()
    beyond = set()
    for index, item in enumerate(tokens):
        if item.block is not None and item.role == "FREE" and not item.is_junk:
            seen[item.block] += 1
            if seen[item.block] > needs[item.block].template_free:
                beyond.add(index)
    return beyond
