"""Templates, a molecule's skeleton with a placeholder in every block, cut into tokens with their roles; and drift.

A token is FREE only when all its characters lie strictly inside ``<...>``. A token with characters on both sides of a
``<`` or ``>`` is BOUNDARY; the LPs force it like COPY. Templates are made of text alone: canonicalise a SMILES first
(``engine.chem.smiles``).

Drift of known coordinates is the template's FREE count minus the tokens that a block needs, in the canonical
tokenisation of the whole enriched text. Positive drift leaves FREE positions over, which a position LP fills with junk;
negative drift cuts the number before its last digits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG
from engine.errors import EnrichedError, PlaceholderError, shown
from engine.lp_records import DEFAULT_PLACEHOLDER, SHORT_PLACEHOLDER
from engine.records import FIXED4, CodeFormat, NumberFormat, Role
from engine.text.tokenizers import TextTokenizer, check_text

GUESSED_PLACEHOLDER = "1.23,-4.56,7.89"
"""What the reports guessed to fit the Qwen tokenizer better."""
PLACEHOLDERS = (DEFAULT_PLACEHOLDER, SHORT_PLACEHOLDER, GUESSED_PLACEHOLDER, "-0.0000,0.0000,0.0000")

ROLES: tuple[Role, ...] = ("COPY", "FREE", "BOUNDARY")
COPY, FREE, BOUNDARY = range(3)

MOST_PLACEHOLDER_CHARACTERS = 100
_CONTENT = re.compile(r"[^<>\[\]]*")
_DESCRIPTOR = re.compile(r"\[[^<>\[\]\r\n]+\]")
_BLOCK = re.compile(r"(?<=\])<([^<>\[\]]*)>")
_BARE_BLOCK = re.compile(r"\]([^<>\[\];]*);")
_CODE = re.compile(r"<([0-9]*)>")


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

    def repeated(self, times: int) -> Template:
        """For an answer of so many conformers, each in its tags, which share no token with what is next to them."""
        if times == 1:
            return self
        of_token, of_each = np.repeat(np.arange(times, dtype=np.int32), self.tokens), np.arange(times, dtype=np.int32)
        block_of = np.tile(self.block_of, times)
        return Template(
            self.text * times,
            np.tile(self.ids, times),
            np.tile(self.roles, times),
            np.where(block_of < 0, -1, block_of + of_token * self.blocks).astype(np.int32),
            np.tile(self.starts, times) + of_token * len(self.text),
            np.tile(self.ends, times) + of_token * len(self.text),
            (self.block_spans[None] + of_each[:, None, None] * len(self.text)).reshape(-1, 2),
        )


def check_placeholder(placeholder: str) -> str:
    """The placeholder, if it can stand inside a block."""
    check_text(placeholder)
    fix = f"Use for example {DEFAULT_PLACEHOLDER}"
    if not 0 < len(placeholder) <= MOST_PLACEHOLDER_CHARACTERS:
        problem = f"the placeholder has {len(placeholder)} characters, the limit is {MOST_PLACEHOLDER_CHARACTERS}"
        raise PlaceholderError(problem if placeholder else "the placeholder is empty", fix)
    for char in placeholder:
        if char in "<>[]" or not char.isprintable():
            raise PlaceholderError(f"the placeholder {shown(placeholder)} contains {shown(char)}", "Leave it out")
    return placeholder


def skeleton(enriched: str, placeholder: str = DEFAULT_PLACEHOLDER, form: NumberFormat = FIXED4) -> str:
    """Enriched text with every block's content replaced by the placeholder."""
    before = form.opening or "]"
    return _pattern(form).sub(lambda _: f"{before}{placeholder}{form.closing}", enriched)


def block_spans(text: str, form: NumberFormat = FIXED4) -> NDArray[np.int32]:
    """Where the blocks of well-formed enriched text stand, from '<' to past '>': [blocks, 2]. Of bare bins from the
    ``]`` before them to past ``;``, of codes one character more on both sides: the first and the last character are no
    part of what is written in any of them, and a code is one token with its brackets."""
    spans = np.array([match.span() for match in _pattern(form).finditer(text)], dtype=np.int32).reshape(-1, 2)
    return spans + np.array([-1, 1], dtype=np.int32) if isinstance(form, CodeFormat) else spans


def _pattern(form: NumberFormat) -> re.Pattern[str]:
    if isinstance(form, CodeFormat):
        return _CODE
    return _BLOCK if form.opening else _BARE_BLOCK


def build_template(
    enriched: str,
    tokenizer: TextTokenizer,
    placeholder: str = DEFAULT_PLACEHOLDER,
    *,
    tags: bool = False,
    form: NumberFormat = FIXED4,
) -> Template:
    """The template of one molecule, given as enriched text or as a skeleton with any block content."""
    return build_templates([enriched], tokenizer, placeholder, tags=tags, form=form)[0]


def build_templates(
    enriched: Sequence[str],
    tokenizer: TextTokenizer,
    placeholder: str = DEFAULT_PLACEHOLDER,
    *,
    tags: bool = False,
    form: NumberFormat = FIXED4,
) -> list[Template]:
    """Templates of many molecules, tokenised in one batch. Of ``form`` only its brackets count."""
    check_placeholder(placeholder)
    if not isinstance(form, CodeFormat) and tokenizer.id_of(f"<{placeholder}>") in tokenizer.added:
        problem = f"the placeholder {shown(placeholder)} makes every block a special token"
        raise PlaceholderError(problem, f"Use for example {DEFAULT_PLACEHOLDER}")
    texts = [skeleton(text, placeholder, form) for text in enriched]
    if tags:
        texts = [f"{OPEN_TAG}{text}{CLOSE_TAG}" for text in texts]
    templates = []
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        spans = block_spans(text, form)
        if len(spans) == 0:
            raise EnrichedError("there is no block to put a placeholder into", text=text)
        starts, ends = tokenizer.offsets(text, ids)
        roles, block_of = token_roles(starts, ends, spans, len(text) + 1)
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


# --- drift --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DriftSummary:
    """Blocks by the sign of their drift, and how many blocks have each drift."""

    tokenizer: str
    placeholder: str
    blocks: int
    exact: int
    junk_prone: int
    cut: int
    histogram: dict[int, int]
    mean_drift: float
    mean_distance: float  # mean number of tokens, of either sign, by which a block misses the template
    tokens_per_atom: float  # that the numbers need, whatever the placeholder

    def share(self, count: int) -> float:
        return count / self.blocks if self.blocks else 0.0


def needed_tokens(
    texts: Sequence[str], tokenizer: TextTokenizer, form: NumberFormat = FIXED4
) -> list[NDArray[np.int64]]:
    """For each enriched text, the tokens that lie wholly inside each of its blocks."""
    needs = []
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        spans = block_spans(text, form)
        roles, block_of = token_roles(*tokenizer.offsets(text, ids), spans, len(text) + 1)
        needs.append(np.bincount(block_of[roles == FREE], minlength=len(spans)).astype(np.int64))
    return needs


def needed_by_content(
    blocks: Sequence[tuple[str, str]], tokenizer: TextTokenizer, form: NumberFormat = FIXED4
) -> list[int]:
    """Tokens that single contents need, each given with the descriptor before it, which may merge with a sign."""
    # One text with a line for each: a call a block would cost more than all the rest of an alignment.
    sound = [
        index
        for index, (_, content) in enumerate(blocks)
        if _CONTENT.fullmatch(content) and form.closing not in content
    ]
    probes = []
    for descriptor, content in (blocks[index] for index in sound):
        before = descriptor if _DESCRIPTOR.fullmatch(descriptor) else "[C]"
        probes.append(f"{before}{form.opening}{content}{form.closing}[")
    needs = needed_tokens(["\n".join(probes)], tokenizer, form)[0].tolist()
    by_block = dict(zip(sound, needs, strict=True))
    return [by_block.get(index, 0) for index in range(len(blocks))]


def drift_sign(drift: int) -> Literal["exact", "junk-prone", "cut"]:
    """What a number does under the template: leaves positions over, or needs more than there are."""
    if drift == 0:
        return "exact"
    return "junk-prone" if drift > 0 else "cut"


def drift_summary(
    texts: Sequence[str], tokenizer: TextTokenizer, placeholder: str, form: NumberFormat = FIXED4
) -> DriftSummary:
    """How the blocks of these texts would fare under a position LP with this placeholder."""
    nothing = np.zeros(0, dtype=np.int64)
    made = build_templates(texts, tokenizer, placeholder, form=form)
    free = np.concatenate([nothing, *(template.free_per_block for template in made)])
    needed = np.concatenate([nothing, *needed_tokens(texts, tokenizer, form)])
    every, blocks = free - needed, len(free)
    values, counts = np.unique(every, return_counts=True)
    return DriftSummary(
        tokenizer=tokenizer.name,
        placeholder=placeholder,
        blocks=blocks,
        exact=int((every == 0).sum()),
        junk_prone=int((every > 0).sum()),
        cut=int((every < 0).sum()),
        histogram=dict(zip(values.tolist(), counts.tolist(), strict=True)),
        mean_drift=int(every.sum()) / max(blocks, 1),
        mean_distance=int(np.abs(every).sum()) / max(blocks, 1),
        tokens_per_atom=int(needed.sum()) / max(blocks, 1),
    )
