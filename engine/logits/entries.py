"""One line of a log file as an entry: its values as numbers, however they are spelled, and its metadata.

Valid lines go through a typed decoder; others are read leniently: numbers that
JSON does not have (``nan``, ``-Infinity``, ``1.#INF``), numbers as texts, null for a value, rows in a row
(``[[...]]``). A line that is no entry is an error that says why.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from engine.errors import shown
from engine.user_files import parsed_json

MOST_TEXT = 200
MOST_INDEX = 2**31 - 1
MOST_ID = 2**20
"""More than any vocabulary, 0.9 million: larger ids are not counted by position, which takes 8 bytes for each of them
in each log of a file, and no entry has so many values."""

_NOT_JSON = re.compile(
    # Possessive: a text is read over once, to the line's end where it has none, and texts in a row are one match.
    r'(?:"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)[\s,:\[\]{}]*+)++'
    r'|(?<![\w.])[-+]?(?:nan(?:\([^()",]*\))?|inf(?:inity)?|1\.#[a-z]+\d*)(?![\w.])|(?<![\w.])\+(?=[\d.])',
    re.IGNORECASE,
)
_INFINITE = re.compile(r"([-+]?)(?:inf(?:inity)?|1\.#inf\d*)", re.IGNORECASE)
_TEXTS = ("checkpoint", "team", "engine", "model", "precision", "dtype", "source", "origin", "ts")
_MOST_BESIDE = 1_024
"""Bytes of a line beside its values and their ids; a longer one has texts that are shown cut."""
_NO_NUMBER = re.compile(r"[-+]?(?:nan.*|1\.#(?:ind|[qs]nan).*)", re.IGNORECASE | re.DOTALL)


class LogLine(msgspec.Struct, gc=False):
    """What a line says. Other keys are ignored; without ``ids`` the values are the first of their row."""

    values: list[float]
    checkpoint: str | None = None
    team: str | None = None
    engine: str | None = None
    model: str | None = None
    precision: str | None = None
    token_idx: int | None = None
    dtype: str | None = None
    shape: str | list[int] | None = None
    ids: list[int] | None = None
    ts: str | float | None = None
    source: str | None = None
    origin: str | None = None


class NoEntryError(ValueError):
    """A line that is no entry, and why."""


_decoder = msgspec.json.Decoder(LogLine)


def read_line(line: bytes) -> LogLine:
    try:
        entry = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            entry = _leniently(line)
        except RecursionError as error:  # where a value is written again as text
            raise NoEntryError("its lists and objects are nested too deep") from error
    if not entry.values:
        raise NoEntryError("it has no values")
    if len(entry.values) > MOST_ID:
        raise NoEntryError(f"it has {len(entry.values):,} values, the limit is {MOST_ID:,}")
    ids = entry.ids
    if ids is not None:
        if len(ids) != len(entry.values):
            raise NoEntryError(f"it has {len(ids)} ids for {len(entry.values)} values")
        if len(set(ids)) < len(ids) or not all(0 <= id_ <= MOST_ID for id_ in ids):
            raise NoEntryError(f"its ids are not different numbers from 0 to {MOST_ID:,}")
    if entry.token_idx is not None and not 0 <= entry.token_idx <= MOST_INDEX:
        raise NoEntryError(f"its token_idx is {shown(entry.token_idx, 20)}")
    if len(line) > 64 * len(entry.values) + _MOST_BESIDE:
        _cut_texts(entry)
    return entry


def _cut_texts(entry: LogLine) -> None:
    """To what is kept of them: entries wait in memory for their batch."""
    for name in _TEXTS:
        if isinstance(text := getattr(entry, name), str):
            setattr(entry, name, text[:MOST_TEXT])
    if entry.shape is not None:
        entry.shape = entry.shape[:MOST_TEXT] if isinstance(entry.shape, str) else entry.shape[-1:]


def clean_text(value: object) -> str | None:
    """Text that every store and terminal can hold; None for an empty one."""
    if value is None:
        return None
    text = str(value)[:MOST_TEXT]
    return (text if text.isascii() else text.encode("utf-8", "replace").decode()) or None


def row_length(shape: str | Sequence[int] | None) -> int | None:
    """The last number of a shape: ``[151936]``, ``"[1,151936]"``."""
    numbers = re.findall(r"\d+", shape[:MOST_TEXT]) if isinstance(shape, str) else shape
    length = int(numbers[-1]) if numbers else 0
    return length if 0 < length <= MOST_INDEX else None


# --- leniently ------------------------------------------------------------------------------------------------------


def _leniently(line: bytes) -> LogLine:
    entry = _object(line.decode("utf-8", "replace"))
    values, shape, ids = entry.get("values"), entry.get("shape"), entry.get("ids")
    if not isinstance(values, list):
        raise NoEntryError("it has no values")
    while values and isinstance(values[-1], list):  # rows in a row: the last one is the token that was computed last
        values = values[-1]
    if ids is not None and not (isinstance(ids, list) and all(isinstance(id_, int) for id_ in ids)):
        raise NoEntryError("its ids are no list of numbers")
    return LogLine(
        values=[_number(value) for value in values],
        token_idx=_whole(entry.get("token_idx")),
        shape=[size for size in shape if isinstance(size, int)] if isinstance(shape, list) else _plain(shape),
        ids=ids,
        **{name: _plain(entry.get(name)) for name in _TEXTS},
    )


def _object(text: str) -> Mapping[str, Any]:
    try:
        entry = parsed_json(text)
    except ValueError:
        # Texts stay, what is no JSON number becomes a text, and a plus before a number goes.
        plain = _NOT_JSON.sub(lambda m: m[0] if m[0].startswith('"') else "" if m[0] == "+" else f'"{m[0]}"', text)
        try:
            entry = parsed_json(plain)
        except ValueError as error:
            raise NoEntryError("it is no JSON") from error
    if not isinstance(entry, dict):
        raise NoEntryError("it is no JSON object")
    return entry


def _number(value: object) -> float:
    """A value; null is what some writers make of NaN and infinities."""
    if value is None:
        return math.nan
    if isinstance(value, str):
        return _spelled(value.strip())
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise NoEntryError(f"a value is a {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:  # whole numbers of more than 308 digits
        return math.inf if value > 0 else -math.inf


def _spelled(text: str) -> float:
    if match := _INFINITE.fullmatch(text):
        return -math.inf if match[1] == "-" else math.inf
    if _NO_NUMBER.fullmatch(text):
        return math.nan
    try:
        return float(text)
    except ValueError as error:
        raise NoEntryError(f"a value is {text[:20]!r}") from error


def _whole(value: object) -> int | None:
    if value is None:
        return None
    try:
        number = float(str(value))
        if number != int(number):
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise NoEntryError(f"its token_idx is {str(value)[:20]!r}") from error
    return int(number)


def _plain(value: object) -> str | None:
    """A text, or another value as text."""
    return None if value is None else value if isinstance(value, str) else json.dumps(value)
