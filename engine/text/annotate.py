"""A pasted text read for display: what it is, and each token with its role, its block and its mark.

Nothing is known here of a model or an LP: roles are where the text really is, marks are what the text alone shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.chem.other_forms import OtherForm, other_form
from engine.records import Role, Token
from engine.text.blocks import BlockReading, FoundBlock, find_blocks, read_block
from engine.text.drift import needed_by_content
from engine.text.generated import junk_mask, needed_by_blocks, roles_of
from engine.text.template import ROLES, Template, check_placeholder
from engine.text.tokenizers import TextTokenizer

InputKind = Literal["smiles", "enriched", "coordinate", "text"] | OtherForm

MOST_CHARACTERS = 20_000

_COORDINATE = re.compile(r"<?\s*-?\d+(?:\.\d*)?\s*,[-\d.,\s]*>?", re.ASCII)
_ATOM_AND_BLOCK = re.compile(r"\]<(?!-\[)")


@dataclass(frozen=True, slots=True)
class AnnotatedToken:
    """A token of a text, with what it stands in."""

    token: Token
    role: Role
    block: int | None
    is_junk: bool


@dataclass(frozen=True, slots=True)
class AnnotatedText:
    tokens: tuple[AnnotatedToken, ...]
    blocks: tuple[FoundBlock, ...]
    readings: tuple[BlockReading, ...]

    @property
    def free(self) -> int:
        return sum(item.role == "FREE" for item in self.tokens)


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


def annotate(text: str, tokenizer: TextTokenizer) -> AnnotatedText:
    """Tokens of any text with roles by its own blocks, and the junk in them."""
    blocks = find_blocks(text)
    readings = [read_block(block.content, closed=block.closed) for block in blocks]
    tokens = tokenizer.tokens(text)
    starts = np.array([token.start for token in tokens], dtype=np.int64)
    ends = np.array([token.end for token in tokens], dtype=np.int64)
    roles, block_of = roles_of(starts, ends, blocks, len(text))
    is_junk = junk_mask(starts, ends, blocks, readings)
    annotated = tuple(
        AnnotatedToken(token, ROLES[role], block if block >= 0 else None, junk)
        for token, role, block, junk in zip(tokens, roles.tolist(), block_of.tolist(), is_junk.tolist(), strict=True)
    )
    return AnnotatedText(annotated, tuple(blocks), tuple(readings))


def annotate_template(template: Template, tokenizer: TextTokenizer) -> AnnotatedText:
    """A template's own tokens in the same form."""
    blocks = template.block_of.tolist()
    columns = zip(template.ids.tolist(), template.starts.tolist(), template.ends.tolist(), blocks, strict=True)
    tokens = tuple(
        AnnotatedToken(
            Token(id_, tokenizer.piece(id_), start, end), template.role(position), block if block >= 0 else None, False
        )
        for position, (id_, start, end, block) in enumerate(columns)
    )
    return AnnotatedText(tokens, (), ())


@dataclass(frozen=True, slots=True)
class BlockNeed:
    """What one block needs under one tokenizer, beside what the placeholder's template gives it."""

    template_free: int
    needed: int | None  # None where the block has no three complete numbers

    @property
    def drift(self) -> int | None:
        return None if self.needed is None else self.template_free - self.needed


def block_needs(text: AnnotatedText, tokenizer: TextTokenizer, placeholder: str) -> list[BlockNeed]:
    """Need and drift of each block of a text whose numbers are complete, whatever junk follows them."""
    check_placeholder(placeholder)
    free = needed_by_content([(block.descriptor, placeholder) for block in text.blocks], tokenizer)
    needed = needed_by_blocks(text.blocks, text.readings, tokenizer)
    return [
        BlockNeed(positions, tokens if len(reading.numbers) == 3 else None)
        for positions, tokens, reading in zip(free, needed, text.readings, strict=True)
    ]


def beyond_template(text: AnnotatedText, needs: list[BlockNeed]) -> set[int]:
    """Indices of the tokens for which the template has no position left: what a position LP would cut off."""
    seen: dict[int, int] = {}
    beyond = set()
    for index, item in enumerate(text.tokens):
        if item.block is None or item.role != "FREE" or item.is_junk:
            continue
        seen[item.block] = seen.get(item.block, 0) + 1
        if seen[item.block] > needs[item.block].template_free:
            beyond.add(index)
    return beyond
