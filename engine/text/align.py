"""Alignment of generated tokens with the template, position by position.

Two modes. ``position``: an LP that forces by position made the text, so generated token i stands at template index i,
whatever it says. ``structure``: the model was free to end a block (no LP, ``truncating``, ``exact``), so atoms are
matched by what they are, blocks to blocks, and the rest token by token; junk, missing and invented atoms and a missing
tail leave gaps. The running drift counts the FREE positions that the text left over so far, minus the tokens for
which the template had no position: how far off a position LP's pointer would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.records import Block, NumberFormat, Role
from engine.text.blocks import (
    CLOSED_BY_MODEL,
    READ_FORMAT,
    BlockReading,
    CloseMass,
    FoundBlock,
    find_blocks,
    read_block,
)
from engine.text.drift import needed_by_content
from engine.text.match import match_units
from engine.text.template import FREE, ROLES, Template, token_roles
from engine.text.tokenizers import SpannedText, TextTokenizer

Mode = Literal["position", "structure"]
Mark = Literal["", "junk", "cut", "beyond", "left_over"]


@dataclass(frozen=True, slots=True)
class AlignedToken:
    """One column of the alignment: a generated token, a template token, or both."""

    pos: int | None
    token_id: int | None
    piece: str
    start: int | None  # first character in the generated text
    end: int | None
    text_role: Role | None  # where the text really is
    text_block: int  # the generated block that the token touches, -1 for none
    template_pos: int | None
    template_id: int | None
    template_piece: str
    role: Role | None  # where the template thinks it is
    block: int  # the template's block, -1 for none
    forced: bool | None
    mark: Mark
    running_drift: int


@dataclass(frozen=True, slots=True)
class Alignment:
    """Generated tokens against the template, and each block's reading."""

    mode: Mode
    text: str
    rows: tuple[AlignedToken, ...]
    blocks: tuple[Block, ...]
    readings: tuple[BlockReading, ...]


@dataclass(frozen=True, slots=True)
class _Generated:
    """The generated side: its tokens, its text, and which block of the template each of its blocks is."""

    ids: Sequence[int]
    spanned: SpannedText
    found: list[FoundBlock]
    block_of: NDArray[np.int16]  # [tokens]
    roles: NDArray[np.int8]  # [tokens]
    template_block: list[int]  # [found] -1 for a block that the template has not
    readings: list[BlockReading]

    @property
    def closed_blocks(self) -> set[int]:
        """The template's blocks that the text has and has ended: only these can leave positions over."""
        matched = zip(self.template_block, self.found, strict=True)
        return {block for block, found in matched if block >= 0 and found.closed}


def mode_of(lp: str) -> Mode:
    """How text made under an LP has to be aligned."""
    return "structure" if lp in CLOSED_BY_MODEL else "position"


def align(
    template: Template,
    ids: Sequence[int],
    tokenizer: TextTokenizer,
    *,
    lp: str = "none",
    forced: Sequence[bool] | None = None,
    masses: dict[int, CloseMass] | None = None,
    form: NumberFormat = READ_FORMAT,
) -> Alignment:
    """Align generated ids with the template they were meant to follow (both with tags, or both without).

    ``forced`` tells per token what the LP forced; without it a position LP's roles tell, and free text has no forced
    tokens. ``masses`` holds the model's closing mass by generated block, where diagnostics were kept.
    """
    mode = mode_of(lp)
    generated = _read_generated(template, ids, tokenizer, mode=mode, lp=lp, masses=masses or {}, form=form)
    pairs = _position_pairs(template, len(ids)) if mode == "position" else _structure_pairs(template, generated)
    if forced is None and mode == "structure":
        forced = [False] * len(ids)
    rows = _rows(template, generated, pairs, tokenizer, mode=mode, forced=forced)
    blocks = _blocks(template, generated, tokenizer)
    return Alignment(mode, generated.spanned.text, tuple(rows), tuple(blocks), tuple(generated.readings))


# --- reading the generated side -----------------------------------------------------------------------------------


def _read_generated(
    template: Template,
    ids: Sequence[int],
    tokenizer: TextTokenizer,
    *,
    mode: Mode,
    lp: str,
    masses: dict[int, CloseMass],
    form: NumberFormat,
) -> _Generated:
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
    # An unclosed block has no '>' of its own; its span is widened by one so that its last token still lies inside.
    spans = np.array([(block.start, block.end + (not block.closed)) for block in found], dtype=np.int64).reshape(-1, 2)
    roles, block_of = token_roles(spanned.starts, spanned.ends, spans, len(spanned.text) + 1)
    return _Generated(ids, spanned, found, block_of, roles, template_block, readings)


def _blocks_by_position(template: Template, spanned: SpannedText) -> list[FoundBlock]:
    """The blocks that the template's positions cut out of the text, as far as the text goes."""
    found = []
    length = len(spanned.starts)
    for index, (left, right) in enumerate(template.block_spans.tolist()):
        opening = int(np.searchsorted(template.ends, left, side="right"))  # the token that holds '<'
        closing = int(np.searchsorted(template.ends, right - 1, side="right"))  # the token that holds '>'
        if opening >= length:
            break
        start = int(spanned.starts[opening]) + left - int(template.starts[opening])
        closed = closing < length
        end = int(spanned.starts[closing]) + right - int(template.starts[closing]) if closed else len(spanned.text)
        content = spanned.text[start + 1 : end - closed]
        found.append(FoundBlock(start, end, content, closed, _descriptor_before(template, index)))
    return found


def _descriptor_before(template: Template, block: int) -> str:
    start = int(template.block_spans[block, 0])
    return template.text[template.text.rfind("[", 0, start) : start]


def _units(template: Template) -> list[tuple[str, str]]:
    spans = [(int(left), int(right)) for left, right in template.block_spans]
    return _units_between(template.text, spans)


def _generated_units(text: str, found: Sequence[FoundBlock]) -> list[tuple[str, str]]:
    return _units_between(text, [(block.start, block.end) for block in found])


def _units_between(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
    """For each block the descriptor before it and the bonds, branches and ring digits before that."""
    units = []
    position = 0
    for start, end in spans:
        between = text[position:start]
        cut = max(between.rfind("["), 0)
        units.append((between[cut:], between[:cut]))
        position = end
    return units


# --- pairing positions --------------------------------------------------------------------------------------------

_Pair = tuple[int | None, int | None]  # generated position, template position


def _position_pairs(template: Template, length: int) -> list[_Pair]:
    return list(zip_longest(range(length), range(template.tokens)))


def _structure_pairs(template: Template, generated: _Generated) -> list[_Pair]:
    """Matched blocks are anchors: inside them tokens pair one to one from the left, between them by equal ids."""
    pairs: list[_Pair] = []
    here, there = 0, 0  # next generated and template position
    for index, block in enumerate(generated.template_block):
        if block < 0:
            continue
        mine = _inside(generated.roles, generated.block_of, index)
        theirs = _inside(template.roles, template.block_of, block)
        if mine is None or theirs is None:
            continue
        pairs += _gap_pairs(template, generated, (here, mine[0]), (there, theirs[0]))
        pairs += zip_longest(range(*mine), range(*theirs))
        here, there = mine[1], theirs[1]
    return pairs + _gap_pairs(template, generated, (here, len(generated.ids)), (there, template.tokens))


def _inside(roles: NDArray[np.int8], block_of: NDArray[np.int16], block: int) -> tuple[int, int] | None:
    where = np.flatnonzero((block_of == block) & (roles == FREE))
    return (int(where[0]), int(where[-1]) + 1) if len(where) else None


def _gap_pairs(
    template: Template, generated: _Generated, mine: tuple[int, int], theirs: tuple[int, int]
) -> list[_Pair]:
    left = list(generated.ids[mine[0] : mine[1]])
    right = template.ids[theirs[0] : theirs[1]].tolist()
    pairs: list[_Pair] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        here = range(mine[0] + i1, mine[0] + i2)
        there = range(theirs[0] + j1, theirs[0] + j2)
        if tag == "equal":
            pairs += zip(here, there, strict=True)
        else:
            pairs += [(position, None) for position in here]
            pairs += [(None, position) for position in there]
    return pairs


# --- rows and blocks ----------------------------------------------------------------------------------------------


def _rows(
    template: Template,
    generated: _Generated,
    pairs: Sequence[_Pair],
    tokenizer: TextTokenizer,
    *,
    mode: Mode,
    forced: Sequence[bool] | None,
) -> list[AlignedToken]:
    junk = _junk_tokens(generated)
    cut = _last_tokens_of_cut_blocks(generated)
    closed = generated.closed_blocks
    rows = []
    running = 0
    for pos, there in pairs:
        mark = _mark(pos, there, template, generated, mode=mode, junk=junk, cut=cut, closed=closed)
        running += _drift_step(mark, there)
        row_forced = None
        if pos is not None:
            row_forced = forced[pos] if forced is not None else there is not None and template.roles[there] != FREE
        rows.append(_row(pos, there, template, generated, tokenizer, forced=row_forced, mark=mark, running=running))
    return rows


def _drift_step(mark: Mark, there: int | None) -> int:
    if mark == "beyond":
        return -1
    return int(mark == "left_over" or (mark == "junk" and there is not None))


def _row(
    pos: int | None,
    there: int | None,
    template: Template,
    generated: _Generated,
    tokenizer: TextTokenizer,
    *,
    forced: bool | None,
    mark: Mark,
    running: int,
) -> AlignedToken:
    token_id = None if pos is None else int(generated.ids[pos])
    template_id = None if there is None else int(template.ids[there])
    return AlignedToken(
        pos=pos,
        token_id=token_id,
        piece="" if token_id is None else tokenizer.piece(token_id),
        start=None if pos is None else int(generated.spanned.starts[pos]),
        end=None if pos is None else int(generated.spanned.ends[pos]),
        text_role=None if pos is None else ROLES[int(generated.roles[pos])],
        text_block=-1 if pos is None else int(generated.block_of[pos]),
        template_pos=there,
        template_id=template_id,
        template_piece="" if template_id is None else tokenizer.piece(template_id),
        role=None if there is None else template.role(there),
        block=-1 if there is None else int(template.block_of[there]),
        forced=None if forced is None else bool(forced),
        mark=mark,
        running_drift=running,
    )


def _junk_tokens(generated: _Generated) -> set[int]:
    """Positions of tokens that hold at least one character of junk."""
    positions: set[int] = set()
    for block, reading in zip(generated.found, generated.readings, strict=True):
        if reading.junk_end > reading.junk_start:
            offset = block.start + 1
            first, last = offset + reading.junk_start, offset + reading.junk_end
            touched = (generated.spanned.starts < last) & (generated.spanned.ends > first)
            positions.update(np.flatnonzero(touched).tolist())
    return positions


def _last_tokens_of_cut_blocks(generated: _Generated) -> set[int]:
    """Where numbers were cut: the last token inside each block of kind ``cut``."""
    positions = set()
    for index, reading in enumerate(generated.readings):
        inside = _inside(generated.roles, generated.block_of, index) if "cut" in reading.kinds else None
        if inside is not None:
            positions.add(inside[1] - 1)
    return positions


def _mark(
    pos: int | None,
    there: int | None,
    template: Template,
    generated: _Generated,
    *,
    mode: Mode,
    junk: set[int],
    cut: set[int],
    closed: set[int],
) -> Mark:
    if pos is None:
        is_free = mode == "structure" and there is not None and template.roles[there] == FREE
        return "left_over" if is_free and int(template.block_of[there]) in closed else ""
    if pos in junk:
        return "junk"
    if mode == "structure" and there is None and generated.roles[pos] == FREE and _is_matched(generated, pos):
        return "beyond"
    return "cut" if pos in cut else ""


def _is_matched(generated: _Generated, pos: int) -> bool:
    block = int(generated.block_of[pos])
    return block >= 0 and generated.template_block[block] >= 0


def _blocks(template: Template, generated: _Generated, tokenizer: TextTokenizer) -> list[Block]:
    contents = [
        (block.descriptor, ",".join(reading.numbers))
        for block, reading in zip(generated.found, generated.readings, strict=True)
    ]
    needs = needed_by_content(contents, tokenizer)
    free = template.free_per_block
    junk = _junk_tokens(generated)
    blocks = []
    for index, reading in enumerate(generated.readings):
        atom = generated.template_block[index]
        template_free = int(free[atom]) if atom >= 0 else 0
        needed = needs[index] if _is_need_known(reading) and atom >= 0 else None
        junk_tokens = sum(position in junk for position in np.flatnonzero(generated.block_of == index).tolist())
        blocks.append(_block(index, atom, generated, template_free, needed, junk_tokens))
    return blocks


def _is_need_known(reading: BlockReading) -> bool:
    """Three complete numbers that the model itself ended: cleanly, or by going on with junk."""
    return len(reading.numbers) == 3 and not {"cut", "unverified"} & set(reading.kinds)


def _block(
    index: int, atom: int, generated: _Generated, template_free: int, needed: int | None, junk_tokens: int
) -> Block:
    reading, found = generated.readings[index], generated.found[index]
    x, y, z = [float(number) for number in reading.numbers] + [None] * (3 - len(reading.numbers))
    return Block(
        block=index,
        atom=atom,
        element=element_of(found.descriptor),
        text=found.content,
        x=x,
        y=y,
        z=z,
        template_free=template_free,
        needed=needed,
        drift=None if needed is None else template_free - needed,
        kinds=reading.kinds,
        junk_text=reading.junk_text,
        junk_tokens=junk_tokens,
    )


def element_of(descriptor: str) -> str:
    """The element symbol in a bracketed descriptor; empty where there is none."""
    letters = descriptor.strip("[]").lstrip("0123456789")
    symbol = letters[:2] if letters[1:2].islower() and letters[:2] in _TWO_LETTERS else letters[:1]
    return symbol[:1].upper() + symbol[1:] if symbol[:1].isalpha() else ""


_TWO_LETTERS = frozenset(
    "He Li Be Ne Na Mg Al Si Cl Ar Ca Sc Ti Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Zr Nb Mo Tc Ru Rh Pd Ag Cd "
    "In Sn Sb Te Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr "
    "Ra Ac Th Pa Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og as se te si".split()
)
