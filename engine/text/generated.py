"""The generated side of an alignment: tokens, text, blocks, their readings, and which atom each block belongs to.

Under a position LP the template's positions say where blocks are, whatever the text says; everywhere else the text
says it, and its atoms are matched with the template's by what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.lp_records import lp_of_text
from engine.records import NumberFormat
from engine.text.blocks import BlockReading, CloseMass, FoundBlock, find_blocks, read_block
from engine.text.drift import needed_by_content
from engine.text.match import match_units
from engine.text.template import FREE, Template, token_roles
from engine.text.tokenizers import SpannedText, TextTokenizer

Mode = Literal["position", "structure"]


@dataclass(frozen=True, slots=True)
class Generated:
    """The generated side: its tokens, its text, and which block of the template each of its blocks is."""

    ids: Sequence[int]
    spanned: SpannedText
    blocks: list[FoundBlock]
    block_of: NDArray[np.int32]  # [tokens]
    roles: NDArray[np.int8]  # [tokens]
    template_block: list[int]  # [blocks] -1 for a block that the template has not
    readings: list[BlockReading]  # [blocks]
    is_junk: NDArray[np.bool_]  # [tokens] holds at least one character of junk


def mode_of(lp: str) -> Mode:
    """How text made under an LP has to be aligned."""
    return "position" if lp_of_text(lp).closed_by == "lp" else "structure"


def read_generated(
    template: Template,
    ids: Sequence[int],
    tokenizer: TextTokenizer,
    *,
    mode: Mode,
    lp: str,
    masses: dict[int, CloseMass],
    form: NumberFormat,
) -> Generated:
    spanned = tokenizer.spans(ids)
    if mode == "position":
        blocks = _blocks_by_position(template, spanned)
        template_block = list(range(len(blocks)))
    else:
        blocks = find_blocks(spanned.text)
        units = units_between(spanned.text, [(block.start, block.end) for block in blocks])
        template_block = match_units(units_between(template.text, template.block_spans.tolist()), units)
    readings = [
        read_block(block.content, form=form, lp=lp, mass=masses.get(index), closed=block.closed)
        for index, block in enumerate(blocks)
    ]
    roles, block_of = roles_of(spanned.starts, spanned.ends, blocks, len(spanned.text))
    is_junk = junk_mask(spanned.starts, spanned.ends, blocks, readings)
    return Generated(ids, spanned, blocks, block_of, roles, template_block, readings, is_junk)


def roles_of(
    starts: NDArray[np.integer], ends: NDArray[np.integer], blocks: Sequence[FoundBlock], length: int
) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """Role and block of tokens of any text, by the blocks that were found in it."""
    # An unclosed block has no '>' of its own; its span is widened by one so that its last token still lies inside.
    spans = np.array([(block.start, block.end + (not block.closed)) for block in blocks], dtype=np.int64).reshape(-1, 2)
    roles, block_of = token_roles(starts, ends, spans, length + 1)
    for index, block in enumerate(blocks):
        if not block.closed:  # the widening must not take what follows the block
            behind = (block_of == index) & (starts >= block.end)
            is_next = index + 1 < len(blocks) and blocks[index + 1].start == block.end
            block_of[behind] = np.where(is_next, index + 1, -1)
    return roles, block_of


def junk_mask(
    starts: NDArray[np.integer],
    ends: NDArray[np.integer],
    blocks: Sequence[FoundBlock],
    readings: Sequence[BlockReading],
) -> NDArray[np.bool_]:
    """Which tokens hold at least one character of junk: [tokens]."""
    mask = np.zeros(len(starts), dtype=np.bool_)
    for block, reading in zip(blocks, readings, strict=True):
        if reading.junk_end > reading.junk_start:
            first, last = block.start + 1 + reading.junk_start, block.start + 1 + reading.junk_end
            mask |= (starts < last) & (ends > first)
    return mask


def needed_by_blocks(
    blocks: Sequence[FoundBlock], readings: Sequence[BlockReading], tokenizer: TextTokenizer
) -> list[int]:
    """Tokens that the complete numbers of each block need."""
    contents = [(block.descriptor, ",".join(reading.numbers)) for block, reading in zip(blocks, readings, strict=True)]
    return needed_by_content(contents, tokenizer)


def _blocks_by_position(template: Template, spanned: SpannedText) -> list[FoundBlock]:
    """The blocks that the template's positions cut out of the text, as far as the text goes."""
    blocks: list[FoundBlock] = []
    tokens, length, behind = len(spanned.starts), len(spanned.text), 0
    spans = template.block_spans
    openings = np.searchsorted(template.ends, spans[:, 0], side="right").tolist()  # the tokens that hold '<'
    closings = np.searchsorted(template.ends, spans[:, 1] - 1, side="right").tolist()  # the tokens that hold '>'
    for index, (left, right) in enumerate(spans.tolist()):
        opening, closing = openings[index], closings[index]
        if opening >= tokens:
            break
        # Kept in order and inside the text, should the tokens not be those that the LP forces.
        start = min(max(_shifted(template, spanned, opening, left), behind), length)
        closed = closing < tokens
        end = _shifted(template, spanned, closing, right) if closed else length
        end = min(max(end, start + 1 + closed), length)
        content = spanned.text[start + 1 : end - closed]
        descriptor = template.text[template.text.rfind("[", 0, left) : left]
        blocks.append(FoundBlock(start, end, content, closed, descriptor))
        behind = end
    return blocks


def _shifted(template: Template, spanned: SpannedText, token: int, character: int) -> int:
    """Where a character of the template stands in the generated text, given the token that holds it in both."""
    return int(spanned.starts[token]) + character - int(template.starts[token])


def units_between(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
    """For each block the descriptor before it and the bonds, branches and ring digits before that."""
    units = []
    position = 0
    for start, end in spans:
        between = text[position:start]
        cut = max(between.rfind("["), 0)
        units.append((between[cut:], between[:cut]))
        position = end
    return units


def free_ranges(roles: NDArray[np.int8], block_of: NDArray[np.int32], blocks: int) -> list[range]:
    """The positions of each block's FREE tokens: [blocks]."""
    first, last = np.zeros(blocks, dtype=np.int64), np.full(blocks, -1, dtype=np.int64)
    positions = np.flatnonzero((roles == FREE) & (block_of >= 0))
    first[block_of[positions][::-1]] = positions[::-1]
    last[block_of[positions]] = positions
    return [range(start, end + 1) for start, end in zip(first.tolist(), last.tolist(), strict=True)]
