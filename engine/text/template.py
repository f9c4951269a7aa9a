"""Templates: a molecule's skeleton with a placeholder in every block, cut into tokens with their roles.

A token is FREE only when all its characters lie strictly inside ``<...>``. A token with characters on both sides of
a ``<`` or ``>`` is BOUNDARY; the LPs force it like COPY. What a model writes into the FREE positions is not known
here. Templates are made of text alone: canonicalise a SMILES first (``engine.chem.smiles``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG
from engine.errors import EnrichedError, PlaceholderError, shown
from engine.lp_records import DEFAULT_PLACEHOLDER
from engine.records import Role
from engine.text.tokenizers import TextTokenizer, check_text

GUESSED_PLACEHOLDER = "1.23,-4.56,7.89"
"""What the reports guessed to fit the Qwen tokenizer better."""

ROLES: tuple[Role, ...] = ("COPY", "FREE", "BOUNDARY")
COPY, FREE, BOUNDARY = range(3)

MOST_PLACEHOLDER_CHARACTERS = 100
_BLOCK = re.compile(r"(?<=\])<([^<>\[\]]*)>")


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A skeleton's tokens: what a position LP believes will be written, position by position."""

    text: str
    ids: NDArray[np.int32]  # [tokens]
    roles: NDArray[np.int8]  # [tokens] index into ROLES
    block_of: NDArray[np.int32]  # [tokens] the block that a token touches, -1 for none
    starts: NDArray[np.int32]  # [tokens] first character
    ends: NDArray[np.int32]  # [tokens] last character plus one
    block_spans: NDArray[np.int32]  # [blocks, 2] from '<' to past '>'

    @property
    def tokens(self) -> int:
        return len(self.ids)

    @property
    def free(self) -> int:
        return int((self.roles == FREE).sum())

    @property
    def boundary(self) -> int:
        return int((self.roles == BOUNDARY).sum())

    @property
    def copy(self) -> int:
        """Forced tokens: all that are not FREE."""
        return self.tokens - self.free

    @property
    def blocks(self) -> int:
        return len(self.block_spans)

    @property
    def free_per_block(self) -> NDArray[np.int64]:  # [blocks]
        return np.bincount(self.block_of[self.roles == FREE], minlength=self.blocks)


def check_placeholder(placeholder: str) -> str:
    """The placeholder, if it can stand inside a block."""
    check_text(placeholder)
    fix = f"Use for example {DEFAULT_PLACEHOLDER}"
    if not 0 < len(placeholder) <= MOST_PLACEHOLDER_CHARACTERS:
        what = f"the placeholder has {len(placeholder)} characters, the limit is {MOST_PLACEHOLDER_CHARACTERS}"
        raise PlaceholderError(what if placeholder else "the placeholder is empty", fix)
    for char in placeholder:
        if char in "<>[]" or not char.isprintable():
            raise PlaceholderError(f"the placeholder {shown(placeholder)} contains {shown(char)}", "Leave it out")
    return placeholder


def skeleton(enriched: str, placeholder: str = DEFAULT_PLACEHOLDER) -> str:
    """Enriched text with every block's content replaced by the placeholder."""
    return _BLOCK.sub(lambda _: f"<{placeholder}>", enriched)


def block_spans(text: str) -> NDArray[np.int32]:
    """Where the blocks of well-formed enriched text stand, from '<' to past '>': [blocks, 2]."""
    return np.array([match.span() for match in _BLOCK.finditer(text)], dtype=np.int32).reshape(-1, 2)


def build_template(
    enriched: str, tokenizer: TextTokenizer, placeholder: str = DEFAULT_PLACEHOLDER, *, tags: bool = False
) -> Template:
    """The template of one molecule, given as enriched text or as a skeleton with any block content."""
    return build_templates([enriched], tokenizer, placeholder, tags=tags)[0]


def build_templates(
    enriched: Sequence[str], tokenizer: TextTokenizer, placeholder: str = DEFAULT_PLACEHOLDER, *, tags: bool = False
) -> list[Template]:
    """Templates of many molecules, tokenised in one batch."""
    check_placeholder(placeholder)
    texts = [skeleton(text, placeholder) for text in enriched]
    if tags:
        texts = [f"{OPEN_TAG}{text}{CLOSE_TAG}" for text in texts]
    templates = []
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        spans = block_spans(text)
        if len(spans) == 0:
            raise EnrichedError("there is no block to put a placeholder into", text=text)
        starts, ends = tokenizer.offsets(text, ids)
        roles, block_of = token_roles(starts, ends, spans, len(text))
        columns = (np.array(ids, dtype=np.int32), roles, block_of, starts.astype(np.int32), ends.astype(np.int32))
        templates.append(Template(text, *columns, spans))
    return templates


def token_roles(
    starts: NDArray[np.integer], ends: NDArray[np.integer], spans: NDArray[np.integer], length: int
) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """Role and block of tokens that cover characters ``starts`` to ``ends`` of a text with blocks at ``spans``."""
    steps = np.zeros(length + 1, dtype=np.int32)
    np.add.at(steps, spans[:, 0] + 1, 1)
    np.add.at(steps, spans[:, 1] - 1, -1)
    inside = np.concatenate(([0], np.cumsum(np.cumsum(steps)[:length])))  # characters inside before each position
    count = inside[ends] - inside[starts]
    roles = np.where(count == 0, COPY, np.where(count == ends - starts, FREE, BOUNDARY)).astype(np.int8)
    if len(spans) == 0:
        return roles, np.full(len(starts), -1, dtype=np.int32)
    nearest = np.searchsorted(spans[:, 1], starts, side="right")
    block = np.minimum(nearest, len(spans) - 1)
    touches = (starts < spans[block, 1]) & (ends > spans[block, 0])
    return roles, np.where(touches, block, -1).astype(np.int32)
