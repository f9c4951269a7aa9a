"""Generated blocks: where they stand in any text, of which kinds they are, and the exact span of their junk.

Works on text that may be junk from end to end. The kinds are those of ``engine.records.Kind``; what only a model's
probabilities can tell (``cut`` or ``exact`` of a clean triple under a position LP) is ``unverified`` without them.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, get_args

from engine.chem.codes import find_codes, read_code
from engine.chem.other_forms import SPECIAL
from engine.lp_records import lp_of_text
from engine.records import (
    MOST_DECIMALS,
    MOST_INTEGER_DIGITS,
    SHORTEST4,
    WIDEST,
    BinFormat,
    CodeFormat,
    Kind,
    NumberFormat,
)
from engine.text.bin_blocks import find_bare, read_bare

READ_FORMAT = SHORTEST4
"""What counts as a number when nothing is known of the model: up to four decimals and three integer digits."""

RULES = 2
"""The version of the rules by which kinds are decided. Before it, a z with all its decimals could be cut, and a
continuation did not count."""
KINDS: tuple[Kind, ...] = get_args(Kind)
SOUND: frozenset[Kind] = frozenset({"exact", "unverified"})
CUT_KINDS: frozenset[Kind] = frozenset({"cut"})
JUNK_KINDS: frozenset[Kind] = frozenset(
    {"letters", "punctuation", "extra_digit", "fourth_number", "missing_comma", "trailing_mark"}
)
"""Of a block that is not three numbers. It has junk where its reading finds a text too many; ``JunkCount`` has the
reports' two counts."""
NUMERIC = frozenset("0123456789.,-")
_DIGITS = frozenset("0123456789.-")

SPECIAL_TOKEN = re.compile(SPECIAL)
_TAGS = ("[SMILES]", "[/SMILES]", "[CONFORMER]", "[/CONFORMER]")
PROMPT = re.compile(r"\[SMILES\]((?:[^\[]|\[(?!/?SMILES\]))*+)\[/SMILES\]")
"""A whole prompt, and its SMILES."""
MOST_CONFORMERS = 64
"""Of an answer that are read, each next to its template: 5,000 tokens, the most that the group asks for, hold 8."""
_PROMPT_OR_OPENING = re.compile(rf"(?P<prompt>{PROMPT.pattern})|\[CONFORMER\]")

# A number as it may be damaged: (whole)(points)(decimals), with the points or what is before them missing.
_NUMBER = re.compile(r"-?(?=\d|(?<!\.)\.++\d)(\d*+)(\.*+)(\d*)", re.ASCII)
_DECIMAL = re.compile(rf"-?\d{{1,{MOST_INTEGER_DIGITS}}}\.\d{{1,{MOST_DECIMALS}}}(?!\d)", re.ASCII)
# An integer that nothing follows may be the beginning of a longer number.
_ANY_NUMBER = re.compile(rf"{_DECIMAL.pattern}|-?\d{{1,{MOST_INTEGER_DIGITS}}}(?=,)", re.ASCII)


@dataclass(frozen=True, slots=True)
class FoundBlock:
    """A block in generated text: ``text[start:end]`` with its brackets, ``content`` without."""

    start: int
    end: int
    content: str
    closed: bool
    descriptor: str = ""  # the "[C]" that it follows; empty when it follows none
    is_last: bool = False  # of bare bins: not closed, and the text ends in it
    is_shared: bool = (
        False  # of bare bins: it stands for two atoms; of codes: it stands behind the wrong token, or none
    )
    is_code: bool = False

    @property
    def content_start(self) -> int:
        return self.end - self.closed - len(self.content)

    @property
    def is_of_atom(self) -> bool:
        """Of codes, those of brackets and bonds are not."""
        return not self.is_code or self.descriptor.startswith("[")

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last character that are just outside of what it states: of ``<1,2,3>`` the angle brackets,
        of a code, which is one token with its own, what is around these. One without an end is widened by one, so that
        its last token still is inside."""
        if self.is_code:
            return self.start - 1, self.end + 1
        return self.content_start - 1, self.end + (not self.closed)


@dataclass(frozen=True, slots=True)
class BlockReading:
    """What a block's content is. The junk span counts characters of the content; its ends are equal without junk."""

    content: str
    kinds: tuple[Kind, ...]
    is_clean_triple: bool
    junk_start: int
    junk_end: int
    numbers: tuple[str, ...]  # the complete ones, three at most

    @property
    def junk_text(self) -> str:
        return self.content[self.junk_start : self.junk_end]


@dataclass(frozen=True, slots=True)
class CloseMass:
    """The model's own probability, where a block was closed, of closing it and of going on with the number; and how it
    would have ended the block by its greedy continuation, where that was asked for."""

    closing: float
    going_on: float
    continued: str = ""


@dataclass(frozen=True, slots=True)
class JunkCount:
    """Both counts of the reports side by side, and ours, over blocks."""

    blocks: int
    not_triples: int  # blocks that are not a clean triple
    letters: int  # the reports' first rule: a letter in the block
    nonnumeric: int  # the reports' second rule: anything but digits . , -
    by_kind: dict[Kind, int]


def find_blocks(text: str, form: NumberFormat = READ_FORMAT) -> list[FoundBlock]:
    """All coordinate blocks of a text, closed or not, however damaged. Bonds, special tokens and prompts are none."""
    if isinstance(form, BinFormat) and form.is_bare:
        return [FoundBlock(*found) for found in find_bare(text, form)]
    if isinstance(form, CodeFormat):
        return [FoundBlock(*found, is_code=True) for found in find_codes(text)]
    blocks = []
    prompt = _next_prompt(text, 0)
    close = behind = 0  # the first '>' at or after where we are; where the last block, bond or special token ended
    start = text.find("<")
    while start >= 0:
        while prompt and prompt[1] <= start:
            prompt = _next_prompt(text, prompt[1])
        special = SPECIAL_TOKEN.match(text, start)
        if special:
            behind = special.end()
        elif prompt and prompt[0] < start:
            behind = prompt[1]
        else:
            close = text.find(">", start) if 0 <= close <= start else close
            block = _block_at(text, start, close, behind)
            behind = start + 1 if block is None else block.end
            if block is not None:
                blocks.append(block)
        start = text.find("<", max(behind, start + 1))
    return blocks


def block_places(text: str, blocks: Sequence[FoundBlock]) -> list[tuple[int, int]]:
    """Of each block how many prompts are before it, and which conformer of the last of them it is in, from 1."""
    places = []
    prompt = 0
    conformer = 0
    tags = _PROMPT_OR_OPENING.finditer(text)
    tag = next(tags, None)
    for block in blocks:
        while tag is not None and tag.start() < block.start:
            is_prompt = tag["prompt"] is not None
            prompt, conformer = (prompt + 1, 0) if is_prompt else (prompt, conformer + 1)
            tag = next(tags, None)
        places.append((prompt, max(conformer, 1)))
    return places


def conformer_numbers(text: str, blocks: Sequence[FoundBlock]) -> list[int]:
    """Of each block of an answer its conformer, from 1; 0 behind a further prompt, where the answer is over. The last
    one that is read has all blocks behind it too."""
    places = block_places(text, blocks)
    return [min(number, MOST_CONFORMERS) if prompt == places[0][0] else 0 for prompt, number in places]


def read_block(
    content: str,
    *,
    form: NumberFormat = READ_FORMAT,
    lp: str = "none",
    mass: CloseMass | None = None,
    closed: bool = True,
    is_last: bool = False,
    is_shared: bool = False,
) -> BlockReading:
    """The kinds of one block's content, under the LP that made it and, where known, with the model's own mass.
    ``is_last`` and ``is_shared`` are those of its ``FoundBlock``."""
    if isinstance(form, BinFormat) and form.is_bare:
        read = read_bare(content, form, closed=closed, is_last=is_last, is_shared=is_shared)
        return BlockReading(content, tuple(sorted(read.kinds, key=KINDS.index)), *read[1:])
    if isinstance(form, CodeFormat):
        code = read_code(content, form, closed=closed, is_last=is_last, is_misplaced=is_shared)
        return BlockReading(content, tuple(sorted(code.kinds, key=KINDS.index)), *code[1:])
    start, end = _junk_span(content, form)
    forced_close = lp_of_text(lp).closed_by != "model"
    clean, without_junk = _patterns(form)[0], content[:start] + content[end:]
    is_clean, is_whole = clean.fullmatch(content) is not None, clean.fullmatch(without_junk) is not None
    if is_clean and isinstance(form, BinFormat) and None in map(form.index_of, content.split(",")):
        kinds: set[Kind] = {"outside_bins"}
    elif is_clean:
        kinds = {_kind_of_clean(content, form, mass, closed, forced_close)}
    else:
        kinds = _kinds_of_damaged(content, form, is_whole, may_be_cut=forced_close or not closed)
    is_triple = is_whole and not _joins_digits(content, start, end)
    numbers = tuple(without_junk.split(",")) if is_triple else _first_numbers(content, form)
    return BlockReading(content, tuple(sorted(kinds, key=KINDS.index)), is_clean, start, end, numbers)


def read_blocks(
    blocks: Sequence[FoundBlock],
    *,
    form: NumberFormat = READ_FORMAT,
    lp: str,
    masses: Mapping[int, CloseMass] | None = None,
) -> list[BlockReading]:
    """Each by its text, and by the model's own ``masses`` where these are known."""
    return [
        read_block(
            block.content,
            form=form,
            lp=lp,
            mass=(masses or {}).get(index),
            closed=block.closed,
            is_last=block.is_last,
            is_shared=block.is_shared,
        )
        for index, block in enumerate(blocks)
    ]


def displacement_ang(cut: str, whole: str) -> float | None:
    """Between the two as read. None where no z is left of a cut one, or only digits: of 73.2 that may be 7."""
    points = [[float(number) for number in read_block(text, form=WIDEST).numbers] for text in (cut, whole)]
    is_begun = cut != whole and "." not in cut.rpartition(",")[2]
    return math.dist(*points) if not is_begun and all(len(point) == 3 for point in points) else None


def count_junk(readings: Sequence[BlockReading]) -> JunkCount:
    """The reports' two counts and ours over these blocks."""
    return JunkCount(
        blocks=len(readings),
        not_triples=sum(not reading.is_clean_triple for reading in readings),
        letters=sum(has_letter(reading.content) for reading in readings),
        nonnumeric=sum(has_nonnumeric(reading.content) for reading in readings),
        by_kind=dict(Counter(kind for reading in readings for kind in reading.kinds)),
    )


def missing_axes(content: str) -> tuple[str, ...]:
    """Those of which a block has no number, however damaged, before what is no number: ``z`` of ``2.5,-0.2,``."""
    return tuple("xyz")[len(_NUMBER.findall(content[: _first_foreign(content)])) :]


def has_letter(content: str) -> bool:
    return any(char.isalpha() for char in content)


def has_nonnumeric(content: str) -> bool:
    """The joint of two codes in one place, ``3><2``, is none."""
    return any(char not in NUMERIC for char in content.replace("><", ""))


# --- where blocks stand -------------------------------------------------------------------------------------------


def _next_prompt(text: str, position: int) -> tuple[int, int] | None:
    """The next whole ``[SMILES]...[/SMILES]``: a plain SMILES, where every ``<`` is a bond."""
    start = text.find(_TAGS[0], position)
    end = text.find(_TAGS[1], start) if start >= 0 else -1
    return (start, end + len(_TAGS[1])) if end >= 0 else None


def _end_of_open(text: str, start: int, reopen: int) -> int:
    """Where a block without a ``>`` ends: at the tag, or at the next atom, else at the text's end or the next ``<``."""
    if reopen < 0:
        tag = text.find("[/", start)
        return tag if tag >= 0 else len(text)
    atom = text.rfind("[", start, reopen)
    return atom if atom >= 0 else reopen


def _block_at(text: str, start: int, close: int, behind: int) -> FoundBlock | None:
    """The block that opens at ``start``; None where that ``<`` is a bond or stray."""
    before = text[max(0, start - 1) : start]
    reopen = text.find("<", start + 1)
    closed = _is_closed(text, start, close, reopen)
    if not closed and text.startswith("<-[", start):
        return None  # a dative bond before a bracket atom
    end = close if closed else _end_of_open(text, start, reopen)
    content = text[start + 1 : end]
    opening = text.rfind("[", behind, start) if before == "]" else -1
    descriptor = text[opening:start] if opening >= 0 else ""
    follows_atom = before == "]" and not descriptor.endswith(_TAGS)
    stands_alone = closed and (not before or before.isspace()) and not content[:1].isspace()
    is_triple = bool(set(".,") & set(content)) and any(map(str.isdigit, content))
    if not (follows_atom or stands_alone or is_triple):
        return None  # a dative bond ('<-1') or stray: a triple has a point or a comma
    return FoundBlock(start, end + closed, content, closed, descriptor if follows_atom else "")


def _is_closed(text: str, start: int, close: int, reopen: int) -> bool:
    """Whether the block has its ``>`` before the next one opens.

    A stray ``<`` in an atom's block opens none, as the group's reader has it: ``[C]<1.0,<2.0,3.0>``. With a ``[``
    before it, it may be the next atom's, or behind a tag; an end token ends the text."""
    if close < 0 or reopen < 0 or close < reopen:
        return close >= 0
    if start == 0 or text[start - 1] != "]":
        return False
    last = text.rfind("<", start + 1, close)
    return text.find("[", start, last) < 0 and SPECIAL_TOKEN.search(text, start + 1, close + 1) is None


# --- what a block's content is ------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _patterns(form: NumberFormat) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A clean triple, and the longest beginning that could still become one."""
    if isinstance(form, BinFormat):
        number, part = rf"\d{{{form.digits}}}", rf"\d{{0,{form.digits}}}"
    else:
        integer = rf"-?(?:0|[1-9]\d{{0,{form.most_integer_digits - 1}}})"
        number = rf"{integer}(?:\.\d{{1,{form.most_decimals}}}){'' if form.least_decimals else '?'}"
        part = rf"(?:{integer}(?:\.\d{{0,{form.most_decimals}}})?|-?)"
    start = f"{number},{number},{part}|{number},{part}|{part}"
    return re.compile(f"{number},{number},{number}", re.ASCII), re.compile(start, re.ASCII)


def _junk_span(content: str, form: NumberFormat) -> tuple[int, int]:
    """The characters that are no part of the triple; an empty span where the content only stops short."""
    (clean, begun), length = _patterns(form), len(content)
    match = begun.match(content)
    start = match.end() if match else 0
    if start == length:
        return length, length
    if clean.fullmatch(content, 0, start):
        return start, length
    longest = 3 * (form.most_integer_digits + form.most_decimals + 2) + 2
    ends = range(max(start + 1, length - longest), length)
    whole = [
        end for end in ends if clean.fullmatch(content[:start] + content[end:]) and not _beheads(content, start, end)
    ]
    if whole:
        apart = [end for end in whole if not _joins_digits(content, start, end)]
        is_surplus = content[start : whole[0]].isdigit()  # digits too many, as in 1234.0
        return start, whole[0] if is_surplus or not apart else apart[0]
    foreign = _first_foreign(content)
    return (length, length) if foreign == length else (foreign, length)


def _joins_digits(content: str, junk_start: int, junk_end: int) -> bool:
    """Whether without its junk the content would have a number that nobody wrote."""
    return content[:junk_start][-1:] in _DIGITS and content[junk_end:][:1] in _DIGITS


def _beheads(content: str, junk_start: int, junk_end: int) -> bool:
    """Whether the junk would take a number's point and leave its decimals: ``.5`` is not ``5``."""
    is_behind_point = content[junk_end - 1] == "." and content[junk_end : junk_end + 1].isdigit()
    return is_behind_point and content[:junk_start][-1:] != "."


def _first_foreign(content: str) -> int:
    return next((index for index, char in enumerate(content) if char not in NUMERIC), len(content))


def _first_numbers(content: str, form: NumberFormat) -> tuple[str, ...]:
    """From x on and no further than all is whole: the second number of a block with a damaged x is not its x."""
    numbers: list[str] = []
    position = 0
    number = _DECIMAL if form.least_decimals else _ANY_NUMBER
    while len(numbers) < 3 and (match := number.match(content, position)):
        numbers.append(match.group())
        position = match.end() + content.startswith(",", match.end())
    return tuple(numbers)


def _kind_of_clean(content: str, form: NumberFormat, mass: CloseMass | None, closed: bool, forced_close: bool) -> Kind:
    """A z with all decimals that the model writes is complete. Where its mass says that it wanted to go on and its
    continuation is the very text, nothing was lost."""
    if not closed:
        return "cut"  # the text ends inside the block
    if not forced_close or (mass is not None and (mass.closing > 0.5 or mass.continued == content)):
        return "exact"
    is_short = any(len(number.partition(".")[2]) < form.least_decimals for number in content.split(","))
    wanted_more = mass is not None and mass.going_on > 0.5 and not form.is_full(content.rpartition(",")[2])
    return "cut" if is_short or wanted_more else "unverified"


def _kinds_of_damaged(content: str, form: NumberFormat, is_whole_without_junk: bool, *, may_be_cut: bool) -> set[Kind]:
    kinds: set[Kind] = set()
    foreign = _first_foreign(content)
    if has_letter(content):
        kinds.add("letters")
    if any(char not in NUMERIC and not char.isalpha() for char in content):
        kinds.add("punctuation")
    is_numeric = foreign == len(content)
    if is_numeric or not is_whole_without_junk:
        kinds |= _kinds_of_numbers(content[:foreign], form, is_whole=is_numeric, may_be_cut=may_be_cut)
    return kinds


class _Number(NamedTuple):
    """A number as it may be damaged; any part may be missing, but not all digits."""

    start: int
    text: str  # with its sign
    whole: str
    points: str
    decimals: str

    def is_begun(self, form: NumberFormat) -> bool:
        """It ends before what the format wants of every number: its point, or all digits of a bin."""
        if isinstance(form, BinFormat):
            return len(self.whole) < form.digits
        return form.least_decimals > 0 and not self.points

    def is_too_long(self, form: NumberFormat) -> bool:
        if isinstance(form, BinFormat):
            return len(self.text) > form.digits  # a sign and a point are too many as well
        has_leading_zero = self.whole[:1] == "0" != self.whole
        is_long = len(self.decimals) > form.most_decimals or len(self.whole) > form.most_integer_digits
        return is_long or has_leading_zero


def _has_stray_mark(numbers: Sequence[_Number], gaps: Sequence[str]) -> bool:
    """A mark where none belongs, such as ``,,`` or ``--1`` or ``1..0`` or ``.5`` or ``1.,``."""
    is_bare = any(number.points and not number.decimals for number in numbers[:-1])
    is_doubled = any(len(number.points) > 1 or not number.whole for number in numbers)
    is_led = any(number.start > 0 for number in numbers[:1])
    return is_led or is_bare or is_doubled or any("," in gap and gap != "," for gap in gaps)


def _is_short(numbers: Sequence[_Number], form: NumberFormat, *, is_whole: bool, ends_in_mark: bool) -> bool:
    """A number is missing, or z ends before it is whole."""
    if len(numbers) != 3:
        return len(numbers) < 3
    return (is_whole and numbers[2].is_begun(form)) or (ends_in_mark and not numbers[2].decimals)


def _kinds_of_numbers(head: str, form: NumberFormat, *, is_whole: bool, may_be_cut: bool) -> set[Kind]:
    """Kinds of the numeric beginning of a block; ``is_whole`` when nothing foreign follows it.

    ``cut`` holds only where an LP or the end of the text closed the block.
    """
    found = list(_NUMBER.finditer(head))
    numbers = [_Number(number.start(), number.group(), *number.groups()) for number in found]
    gaps = [head[left.end() : right.start()] for left, right in pairwise(found)]
    begun = [number.is_begun(form) for number in numbers]
    ends_in_mark = is_whole and head[-1:] in (".", ",", "-")
    applies: dict[Kind, bool] = {
        "extra_digit": any(number.is_too_long(form) for number in numbers),
        "integer": any(begun[:3] if is_whole and not may_be_cut else begun[:-1][:3]),
        "fourth_number": len(numbers) > 3,
        "missing_comma": not all("," in gap for gap in gaps),
        "punctuation": _has_stray_mark(numbers, gaps),
        "trailing_mark": ends_in_mark,
        "missing_z": len(numbers) < 3,
        "cut": may_be_cut and _is_short(numbers, form, is_whole=is_whole, ends_in_mark=ends_in_mark),
    }
    return {kind for kind, is_so in applies.items() if is_so}


# --- the format of all numbers ------------------------------------------------------------------------------------

ENOUGH = 200
"""Numbers. Of so many, a writer that drops trailing zeros has shown it: one number in ten ends with one."""

# Below 100, as all coordinates of the field: what an LP made of 2.67 may be 267.
_USUAL = rf"-?(?:0|[1-9]\d?)(?:\.(\d{{1,{MOST_DECIMALS}}}))?"
_NUMBERS = re.compile(rf"<{_USUAL},(?:{_USUAL}(,)(?:{_USUAL}(>))?)?", re.ASCII)


def found_form(texts: Iterable[str], *, forced_close: bool) -> tuple[NumberFormat | None, int]:
    """The format that a model's texts show, None where there are too few numbers or mostly integers; and how many
    numbers there are.

    Only numbers that the model ended itself count: x and y, behind which it wrote the comma, and z where it closed the
    block too. Every writer truncates to as many decimals as most numbers have; the known ones always write them all, or
    drop zeros down to one decimal, or all and the point. Which it is, the fewest numbers contradict; if equal, it is
    the one with more decimals, so that an integer is a number where integers were seen.
    """
    seen: Counter[tuple[int, bool]] = Counter()  # by decimals, and whether the last is a zero
    for text in texts:
        for x, y, comma, z, close in _NUMBERS.findall(text):
            ended = [x, *([y] if comma else ()), *([z] if close and not forced_close else ())]
            seen.update((len(decimals), decimals.endswith("0")) for decimals in ended)
    most = max(range(MOST_DECIMALS + 1), key=lambda length: seen[length, False] + seen[length, True])
    if seen.total() < ENOUGH or most == 0:
        return None, seen.total()

    def contradicting(least: int) -> int:
        """Numbers with fewer decimals, and longer ones that end in a zero."""
        return sum(count for (length, is_zero), count in seen.items() if length < least or (is_zero and length > least))

    return NumberFormat(min((most, 1, 0), key=contradicting), most), seen.total()
