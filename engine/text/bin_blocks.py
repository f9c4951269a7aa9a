"""Blocks of bare bins, ``[C]128130125;``: where they stand in any text, and of which kinds they are.

A block is what follows an atom's descriptor up to ``;``. Where that is missing before the next atom, it is as many
digits as three numbers have: more of them are ring digits, as the group's decoder has it. An atom without any digits
has no block; the next one then stands for two atoms. `engine.text.blocks` makes its records of this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from engine.chem.other_forms import BARE_ATOM, NO_ATOM, SPECIAL
from engine.records import BinFormat, Kind

_PIECE = re.compile(rf"(?P<none>{NO_ATOM}|{SPECIAL})|{BARE_ATOM}", re.DOTALL)
_DIGITS = re.compile(r"[0-9]*")
_TO_LINK = re.compile(r"[^=#$:~/\\.()%-]*")  # as far as a block without ``;`` may go
_ONE_ATOM = re.compile(
    r"\[\d*(?:[A-Z][a-z]?|se|as|te|si|[a-z])@*(?:[A-Z]{2}\d+)?(?:H\d*)?(?:[+-]+\d*)?(?::\d+)?\]", re.ASCII
)
_ATOMS = re.compile(r"\[(?:Cl|Br|[A-Z]|[bcnops]){2,}\]", re.ASCII)


class Found(NamedTuple):
    """A block: ``text[start:end]`` with its ``;``, ``content`` without."""

    start: int
    end: int
    content: str
    closed: bool
    descriptor: str
    is_last: bool  # not closed, and the text ends in it
    is_shared: bool  # it stands for two atoms


class Read(NamedTuple):
    """What a content is, in the order of `engine.text.blocks.BlockReading`."""

    kinds: set[Kind]
    is_clean_triple: bool
    junk_start: int
    junk_end: int
    numbers: tuple[str, ...]


def find_bare(text: str, form: BinFormat) -> Iterator[Found]:
    """All blocks of a text, however damaged. What follows a prompt, a tag or the group's note of the form is none."""
    pieces = list(_PIECE.finditer(text))
    is_naked = False  # the atom before has no block
    for index, piece in enumerate(pieces):
        if piece["none"] is not None:
            is_naked = False
            continue
        start, is_end = piece.end(), index + 1 == len(pieces)
        end = len(text) if is_end else pieces[index + 1].start()
        semicolon = text.find(";", start, end)
        content = text[start:semicolon] if semicolon >= 0 else _open_content(text[start:end], form, is_end=is_end)
        if semicolon < 0 and not content:
            is_naked = True
            continue
        closed, descriptor = semicolon >= 0, piece.group()
        behind = start + len(content)
        is_last = not closed and behind == len(text)
        is_of_several = _ATOMS.fullmatch(descriptor) is not None and _ONE_ATOM.fullmatch(descriptor) is None
        yield Found(start, behind + closed, content, closed, descriptor, is_last, is_naked or is_of_several)
        is_naked = False


def _open_content(behind: str, form: BinFormat, *, is_end: bool) -> str:
    """Of what is between an atom and the next without a ``;``. A digit or two are those of rings."""
    digits = _DIGITS.match(behind)
    count = digits.end() if digits else 0
    if count >= 3 * form.digits:
        return behind[: 3 * form.digits]
    if count < form.digits and not is_end:
        return ""
    match = _TO_LINK.match(behind)
    return match.group() if match and count else ""


def read_bare(content: str, form: BinFormat, *, closed: bool, is_last: bool, is_shared: bool) -> Read:
    """A sound block is exact whatever closed it: all numbers have the same digits, and none can be cut."""
    width = form.digits
    junk_start, junk_end = _junk(content, form)
    without_junk = content[:junk_start] + content[junk_end:]
    is_numeric, is_whole = _is_digits(content), _is_digits(without_junk) and len(without_junk) == 3 * width
    joins_digits = junk_start % width > 0 and junk_end < len(content)  # into a number that nobody wrote
    digits = without_junk if is_whole and not joins_digits else content[:junk_start]
    numbers = tuple(digits[at : at + width] for at in range(0, len(digits) - width + 1, width))[:3]
    kinds = set(_kinds_of_numbers(numbers, form))
    if not is_numeric:
        kinds.update(_kinds_of_junk(content))
    if (is_numeric or not is_whole) and not is_last:
        kinds |= _kinds_of_digits(len(content if is_numeric else digits), width)
    applies: dict[Kind, bool] = {
        "cut": is_last,
        "missing_semicolon": not closed and not is_last,
        "two_atoms": is_shared,
    }
    kinds |= {kind for kind, is_so in applies.items() if is_so}
    return Read(kinds or {"exact"}, not kinds, junk_start, junk_end, numbers)


def _kinds_of_numbers(numbers: Iterable[str], form: BinFormat) -> Iterator[Kind]:
    for number in numbers:
        if form.index_of(number) is None:
            yield "outside_bins"
        elif form.is_tail(number):
            yield "tail_bin"


def _kinds_of_junk(content: str) -> Iterator[Kind]:
    if any(map(str.isalpha, content)):
        yield "letters"
    if any(not _is_digits(char) and not char.isalpha() for char in content):
        yield "punctuation"


def _kinds_of_digits(count: int, width: int) -> set[Kind]:
    if count <= 2 * width:
        return {"missing_z"}
    if count < 3 * width:
        return {"missing_digit"}
    if count == 3 * width:
        return set()
    return {"extra_digit"} if count < 4 * width else {"fourth_number"}


def _junk(content: str, form: BinFormat) -> tuple[int, int]:
    """What is no part of three numbers: all between the first and the last foreign character, if whole without it, or
    what follows the first of these; or digits too many."""
    foreign = [index for index, char in enumerate(content) if not _is_digits(char)]
    most = 3 * form.digits
    if not foreign:
        return min(most, len(content)), len(content)
    first, behind = foreign[0], foreign[-1] + 1
    return (first, behind) if first + len(content) - behind == most else (min(first, most), len(content))


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdecimal()
