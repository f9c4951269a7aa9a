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
from engine.text.match import match_units
from engine.text.template import FREE, Template, token_roles
from engine.text.tokenizers import SpannedText, TextTokenizer

Mode = Literal["position", "structure"]


@dataclass(frozen=True, slots=True)
class Generated:
    """The generated side: its tokens, its text, and which block of the template each of its blocks is."""

    ids: Sequence[int]
    spanned: SpannedText
    found: list[FoundBlock]
    block_of: NDArray[np.int32]  # [tokens]
    roles: NDArray[np.int8]  # [tokens]
    template_block: list[int]  # [found] -1 for a block that the template has not
    readings: list[BlockReading]
    is_junk: NDArray[np.bool_]  # [tokens] holds at least one character of junk

    @property
    def closed_blocks(self) -> set[int]:
        """The template's blocks that the text has and has ended: only these can leave positions over."""
        matched = zip(self.template_block, self.found, strict=True)
        return {block for block, found in matched if block >= 0 and found.closed}


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
        found = _blocks_by_position(template, spanned)
        template_block = list(range(len(found)))
    else:
        found = find_blocks(spanned.text)
        template_block = match_units(_units(template), _generated_units(spanned.text, found))
    readings = [
        read_block(block.content, form=form, lp=lp, mass=masses.get(index), closed=block.closed)
        for index, block in enumerate(found)
    ]
    roles, block_of = roles_of(spanned.starts, spanned.ends, found, len(spanned.text))
    is_junk = _junk_mask(spanned, found, readings)
    return Generated(ids, spanned, found, block_of, roles, template_block, readings, is_junk)


def roles_of(
    starts: NDArray[np.integer], ends: NDArray[np.integer], found: Sequence[FoundBlock], length: int
) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """Role and block of tokens of any text, by the blocks that were found in it."""
    # An unclosed block has no '>' of its own; its span is widened by one so that its last token still lies inside.
    spans = np.array([(block.start, block.end + (not block.closed)) for block in found], dtype=np.int64).reshape(-1, 2)
    roles, block_of = token_roles(starts, ends, spans, length + 1)
    for index, block in enumerate(found):
        if not block.closed:  # the widening must not take what follows the block
            behind = (block_of == index) & (starts >= block.end)
            is_next = index + 1 < len(found) and found[index + 1].start == block.end
            block_of[behind] = np.where(is_next, index + 1, -1)
    return roles, block_of


def _junk_mask(
    spanned: SpannedText, found: Sequence[FoundBlock], readings: Sequence[BlockReading]
) -> NDArray[np.bool_]:
    mask = np.zeros(len(spanned.starts), dtype=np.bool_)
    for block, reading in zip(found, readings, strict=True):
        if reading.junk_end > reading.junk_start:
            first, last = block.start + 1 + reading.junk_start, block.start + 1 + reading.junk_end
            mask |= (spanned.starts < last) & (spanned.ends > first)
    return mask


def _blocks_by_position(template: Template, spanned: SpannedText) -> list[FoundBlock]:
    """The blocks that the template's positions cut out of the text, as far as the text goes."""
    found: list[FoundBlock] = []
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
        found.append(FoundBlock(start, end, content, closed, _descriptor_before(template, index)))
        behind = end
    return found


def _shifted(template: Template, spanned: SpannedText, token: int, character: int) -> int:
    """Where a character of the template stands in the generated text, given the token that holds it in both."""
    return int(spanned.starts[token]) + character - int(template.starts[token])


def _descriptor_before(template: Template, block: int) -> str:
    start = int(template.block_spans[block, 0])
    return template.text[template.text.rfind("[", 0, start) : start]


def _units(template: Template) -> list[tuple[str, str]]:
    spans = [(int(left), int(right)) for left, right in template.block_spans]
    return units_between(template.text, spans)


def _generated_units(text: str, found: Sequence[FoundBlock]) -> list[tuple[str, str]]:
    return units_between(text, [(block.start, block.end) for block in found])


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
