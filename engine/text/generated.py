"""A text read as tokens and blocks: each token's role, block and junk, and which atom each block belongs to.

Under a position LP the template's positions say where blocks are, whatever the text says; everywhere else the text
says it, and its atoms are matched with the template's by what they are, in order, tolerant of missing and invented
ones. An atom is its descriptor and the bonds, branches and ring digits before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.chem.enriched import OPEN_TAG
from engine.chem.smiles import element_of
from engine.lp_records import NO_LP, lp_of_text
from engine.records import Block, CodeFormat, NumberFormat, Role
from engine.text.blocks import (
    READ_FORMAT,
    BlockReading,
    CloseMass,
    FoundBlock,
    block_places,
    conformer_numbers,
    find_blocks,
    read_blocks,
)
from engine.text.template import FREE, ROLES, Template, block_spans, check_placeholder, needed_by_content, token_roles
from engine.text.tokenizers import TextTokenizer

Mode = Literal["position", "structure"]
Unit = tuple[str, str]  # descriptor, what is before it

SAME, SAME_ATOM, OTHER, GAP = 4, 2, -3, -2
MOST_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class ReadText:
    """A text, its tokens and its blocks."""

    text: str
    ids: Sequence[int]
    starts: NDArray[np.integer]  # [tokens] first character
    ends: NDArray[np.integer]  # [tokens]
    roles: NDArray[np.int8]  # [tokens]
    block_of: NDArray[np.int32]  # [tokens] -1 for none
    is_junk: NDArray[np.bool_]  # [tokens] holds at least one character of junk
    blocks: list[FoundBlock]
    readings: list[BlockReading]  # [blocks]
    template_block: list[int]  # [blocks] of the template, over all conformers; -1 for a block that it has not
    conformer: list[int]  # [blocks] of the answer, from 1; 0 behind a further prompt


@dataclass(frozen=True, slots=True)
class ReadToken:
    id: int
    piece: str
    start: int
    end: int
    role: Role
    block: int | None
    is_junk: bool


def mode_of(lp: str) -> Mode:
    """How text made under an LP has to be aligned."""
    return "position" if lp_of_text(lp).closed_by == "lp" else "structure"


def read_generated(
    template: Template,
    ids: Sequence[int],
    tokenizer: TextTokenizer,
    *,
    lp: str,
    masses: Mapping[int, CloseMass] | None = None,
    form: NumberFormat = READ_FORMAT,
) -> ReadText:
    """What a model wrote under an LP, next to its template; ``masses`` by block, where they are known. Several
    conformers are each next to the same template."""
    text, starts, ends = tokenizer.spans(ids)
    if mode_of(lp) == "position":
        blocks = _blocks_by_position(template, text, starts)
        template_block, conformer = list(range(len(blocks))), [1] * len(blocks)
    else:
        blocks = find_blocks(text, form)
        atoms, conformer = match_blocks(template_units(template.text, form), text, blocks)
        offsets = (template.blocks * (number - 1) for number in conformer)
        template_block = [-1 if atom < 0 else atom + offset for atom, offset in zip(atoms, offsets, strict=True)]
    readings = read_blocks(blocks, form=form, lp=lp, masses=masses)
    return _read(text, ids, starts, ends, blocks, readings, template_block, conformer)


def read_text(text: str, tokenizer: TextTokenizer, form: NumberFormat = READ_FORMAT) -> ReadText:
    """A text of which neither the model nor an LP is known."""
    ids, blocks = tokenizer.encode(text), find_blocks(text, form)
    readings = read_blocks(blocks, form=form, lp=NO_LP)
    conformers = [number for _, number in block_places(text, blocks)]
    return _read(text, ids, *tokenizer.offsets(text, ids), blocks, readings, [-1] * len(blocks), conformers)


def _read(
    text: str,
    ids: Sequence[int],
    starts: NDArray[np.integer],
    ends: NDArray[np.integer],
    blocks: list[FoundBlock],
    readings: list[BlockReading],
    template_block: list[int],
    conformer: list[int],
) -> ReadText:
    spans = np.array([block.span for block in blocks], dtype=np.int64).reshape(-1, 2)
    roles, block_of = token_roles(starts, ends, spans, len(text) + 1)
    is_junk = np.zeros(len(starts), dtype=np.bool_)
    for index, (block, reading) in enumerate(zip(blocks, readings, strict=True)):
        if block.is_code or not block.closed:  # the widening must not take what follows the block
            behind = (block_of == index) & (starts >= block.end)
            is_next = index + 1 < len(blocks) and spans[index + 1, 0] == block.end
            block_of[behind] = np.where(is_next, index + 1, -1)
        if reading.junk_end > reading.junk_start:
            first, last = block.content_start + reading.junk_start, block.content_start + reading.junk_end
            is_junk |= (starts < last) & (ends > first)
    return ReadText(text, ids, starts, ends, roles, block_of, is_junk, blocks, readings, template_block, conformer)


def read_tokens(of: ReadText | Template, tokenizer: TextTokenizer) -> list[ReadToken]:
    """The tokens of a text or a template, one by one."""
    junk: list[bool] = of.is_junk.tolist() if isinstance(of, ReadText) else [False] * of.tokens
    columns: list[list[Any]] = [part.tolist() for part in (of.starts, of.ends, of.roles, of.block_of)]
    return [
        ReadToken(id_, tokenizer.piece(id_), start, end, ROLES[role], None if block < 0 else block, is_junk)
        for id_, start, end, role, block, is_junk in zip(map(int, of.ids), *columns, junk, strict=True)
    ]


def blocks_of(
    blocks: Sequence[FoundBlock],
    readings: Sequence[BlockReading],
    atoms: Sequence[int],
    free: Sequence[int] | None,
    tokenizer: TextTokenizer | None,
    form: NumberFormat = READ_FORMAT,
    conformers: Sequence[int] | None = None,
) -> list[Block]:
    """Blocks as they were found and read, next to the FREE positions that a template has for their atoms."""
    conformers = conformers or [1] * len(blocks)
    numbers = [
        (block.descriptor, form.comma.join(reading.numbers)) for block, reading in zip(blocks, readings, strict=True)
    ]
    needs = needed_by_content(numbers, tokenizer, form) if free and tokenizer else []
    records = []
    for index, (block, reading, atom, conformer) in enumerate(zip(blocks, readings, atoms, conformers, strict=True)):
        x, y, z = [form.value_ang(number) for number in reading.numbers] + [None] * (3 - len(reading.numbers))
        template_free = free[atom] if free and atom >= 0 else 0
        # Known are three complete numbers that the model itself ended: cleanly, or by going on with junk; or a code.
        is_ended = len(reading.numbers) == (1 if block.is_code else 3) and not {"cut", "unverified"} & set(
            reading.kinds
        )
        needed = needs[index] if needs and is_ended and atom >= 0 else None
        drift = None if needed is None else template_free - needed
        text = block.content
        element = element_of(block.descriptor)
        kinds = reading.kinds
        junk = reading.junk_text
        fields = (index, atom, element, text, x, y, z, template_free, needed, drift, kinds, junk)
        records.append(Block(*fields, junk_tokens=0, conformer=conformer))
    return records


def _blocks_by_position(template: Template, text: str, starts: NDArray[np.integer]) -> list[FoundBlock]:
    """The blocks that the template's positions cut out of the text, as far as the text goes."""
    blocks: list[FoundBlock] = []
    tokens = len(starts)
    length = len(text)
    behind = 0
    spans = template.block_spans

    def shifted(token: int, character: int) -> int:
        """Where a character of the template is in the text, given the token that holds it in both."""
        return int(starts[token]) + character - int(template.starts[token])

    openings = np.searchsorted(template.ends, spans[:, 0], side="right").tolist()  # the tokens that hold '<'
    closings = np.searchsorted(template.ends, spans[:, 1] - 1, side="right").tolist()  # the tokens that hold '>'
    for index, (left, right) in enumerate(spans.tolist()):
        opening, closing = openings[index], closings[index]
        if opening >= tokens:
            break
        # Kept in order and inside the text, should the tokens not be those that the LP forces.
        start = min(max(shifted(opening, left), behind), length)
        closed = closing < tokens
        end = shifted(closing, right) if closed else length
        end = min(max(end, start + 1 + closed), length)
        content = text[start + 1 : end - closed]
        descriptor = template.text[template.text.rfind("[", 0, left) : left]
        blocks.append(FoundBlock(start, end, content, closed, descriptor))
        behind = end
    return blocks


def free_ranges(roles: NDArray[np.int8], block_of: NDArray[np.int32], blocks: int) -> list[range]:
    """The positions of each block's FREE tokens: [blocks]."""
    first, last = np.zeros(blocks, dtype=np.int64), np.full(blocks, -1, dtype=np.int64)
    positions = np.flatnonzero((roles == FREE) & (block_of >= 0))
    first[block_of[positions][::-1]] = positions[::-1]
    last[block_of[positions]] = positions
    return [range(start, end + 1) for start, end in zip(first.tolist(), last.tolist(), strict=True)]


def block_needs(
    text: ReadText, tokenizer: TextTokenizer, placeholder: str, form: NumberFormat = READ_FORMAT
) -> list[Block]:
    """The blocks of a text, with their need and drift against a template of this placeholder."""
    check_placeholder(placeholder)
    free = needed_by_content([(block.descriptor, placeholder) for block in text.blocks], tokenizer, form)
    return blocks_of(text.blocks, text.readings, range(len(free)), free, tokenizer, form)


# --- matching atoms -----------------------------------------------------------------------------------------------


def units_between(text: str, spans: Sequence[tuple[int, int]], position: int = 0) -> list[tuple[str, str]]:
    """For each block the descriptor before it and the bonds, branches and ring digits before that, from ``position``
    on. The span of a bare block may begin with the descriptor's last character."""
    units = []
    for start, end in spans:
        between = text[position:start]
        cut = max(between.rfind("["), 0)
        units.append((between[cut:].removesuffix("]"), between[:cut]))
        position = end
    return units


def template_units(skeleton: str, form: NumberFormat) -> list[Unit]:
    """Those of a template's text."""
    spans = block_spans(skeleton, form)
    if isinstance(form, CodeFormat):
        spans = spans + np.array([1, -1])
    return units_between(skeleton, [(start, end) for start, end in spans.tolist()])


def atoms_of_units(units: Sequence[Unit], form: NumberFormat) -> list[int]:
    """The atom of each block of a template: its number; of codes -1 for those of brackets, bonds and ring digits."""
    if not isinstance(form, CodeFormat):
        return list(range(len(units)))
    numbers = count()
    return [next(numbers) if descriptor.startswith("[") else -1 for descriptor, _ in units]


def match_blocks(template: Sequence[Unit], text: str, blocks: Sequence[FoundBlock]) -> tuple[list[int], list[int]]:
    """For each block of an answer its atom in the template, -1 for none, and its conformer, 0 behind the answer."""
    conformers = conformer_numbers(text, blocks)
    atoms, end = list[int](), 0
    for conformer, of_it in groupby(zip(conformers, blocks, strict=True), key=lambda each: each[0]):
        spans = [(block.start, block.end) for _, block in of_it]
        start = max(text.rfind(OPEN_TAG, end, spans[0][0]), end)
        units = units_between(text, spans, start)
        atoms += match_units(template, units) if conformer else [-1] * len(units)
        end = spans[-1][1]
    return atoms, conformers


def match_units(template: Sequence[Unit], generated: Sequence[Unit]) -> list[int]:
    """For each generated atom the index of its template atom, rising; -1 where the template has none."""
    head, tail = shared_ends(template, generated)  # no tail after a missing one: what is there is at the beginning
    middle = _align(template[head : len(template) - tail], generated[head : len(generated) - tail])
    matched = [index if index < 0 else index + head for index in middle]
    return [*range(head), *matched, *range(len(template) - tail, len(template))]


def shared_ends(left: Sequence[object], right: Sequence[object]) -> tuple[int, int]:
    """How many items both begin with, and how many of the rest both end with."""
    shortest = min(len(left), len(right))
    head = next((i for i in range(shortest) if left[i] != right[i]), shortest)
    tail = next((i for i in range(shortest - head) if left[-1 - i] != right[-1 - i]), shortest - head)
    return head, tail


def first_difference(left: Sequence[int], right: Sequence[int]) -> int | None:
    """The first index where they differ, which may be the end of one of them; None where they are equal."""
    head, _ = shared_ends(left, right)
    return None if head == len(left) == len(right) else head


def _align(template: Sequence[Unit], generated: Sequence[Unit]) -> list[int]:
    """Global alignment by dynamic programming."""
    rows, columns = len(generated), len(template)
    if not 0 < rows * columns <= MOST_CELLS:
        # Text thousands of blocks long follows no template; pair from the left as far as both go.
        return [index if index < columns else -1 for index in range(rows)]
    units = {unit: number for number, unit in enumerate({*generated, *template})}
    atoms = {atom: number for number, atom in enumerate({unit[0] for unit in units})}
    mine = np.array([(atoms[unit[0]], units[unit]) for unit in generated])  # [rows, 2]
    theirs = np.array([(atoms[unit[0]], units[unit]) for unit in template])  # [columns, 2]
    same = mine[:, None, :] == theirs[None, :, :]  # [rows, columns, 2]: the same atom, the same unit
    similarity = np.where(same[..., 1], SAME, np.where(same[..., 0], SAME_ATOM, OTHER)).astype(np.int32)
    score = np.empty((rows + 1, columns + 1), dtype=np.int32)  # the best one of each pair of beginnings
    score[0] = gaps = GAP * np.arange(columns + 1, dtype=np.int32)
    for i in range(rows):
        best = score[i] + GAP
        np.maximum(best[1:], score[i, :-1] + similarity[i], out=best[1:])
        # A gap may follow from any column to the left: the running maximum, each step to the right at the price of one.
        score[i + 1] = np.maximum.accumulate(best - gaps) + gaps
    matched = [-1] * rows
    i, j = rows, columns
    while i > 0 and j > 0:
        if score[i, j] == score[i - 1, j - 1] + similarity[i - 1, j - 1]:
            matched[i - 1] = j - 1
            i, j = i - 1, j - 1
        elif score[i, j] == score[i - 1, j] + GAP:
            i -= 1
        else:
            j -= 1
    return matched
