"""One line of a log file as an entry: its values as numbers, whatever the spelling, and what it says of itself.

Lines as engines should write them go through a typed decoder; what it does not take is read leniently: numbers that
JSON does not have (``nan``, ``-Infinity``, ``1.#INF``), numbers as texts, null for a value, rows in a row
(``[[...]]``). A line that is no entry is an error that says why.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

MOST_TEXT = 200
MOST_INDEX = 2**31 - 1
MOST_ID = 2**22
"""Larger vocabularies than any have no place in the counts by position."""

_NOT_JSON = re.compile(
    r'"(?:[^"\\]|\\.)*"|(?<![\w.])[-+]?(?:nan(?:\([^()",]*\))?|inf(?:inity)?|1\.#[a-z]+\d*)(?![\w.])|(?<![\w.])\+(?=[\d.])',
    re.IGNORECASE,
)
_INFINITE = re.compile(r"([-+]?)(?:inf(?:inity)?|1\.#inf\d*)", re.IGNORECASE)
_NO_NUMBER = re.compile(r"[-+]?(?:nan.*|1\.#(?:ind|[qs]nan).*)", re.IGNORECASE | re.DOTALL)


class Line(msgspec.Struct, gc=False):
    """What a line says. Other keys are passed by; without ``ids`` the values are the first of their row."""

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


_decoder = msgspec.json.Decoder(Line)


def read_line(line: bytes) -> Line:
    try:
        said = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        said = _leniently(line)
    if not said.values:
        raise NoEntryError("it has no values")
    if said.ids is not None:
        _check_ids(said.ids, len(said.values))
    if said.token_idx is not None and not 0 <= said.token_idx <= MOST_INDEX:
        raise NoEntryError(f"its token_idx is {said.token_idx}")
    return said


def clean_text(said: object) -> str | None:
    """Text that every store and terminal can hold; None for an empty one."""
    if said is None:
        return None
    text = str(said)[:MOST_TEXT]
    return (text if text.isascii() else text.encode("utf-8", "replace").decode()) or None


def row_length(shape: str | Sequence[int] | None) -> int | None:
    """The last number of a shape: ``[151936]``, ``"[1,151936]"``."""
    numbers = re.findall(r"\d+", shape[:MOST_TEXT]) if isinstance(shape, str) else shape
    found = int(numbers[-1]) if numbers else 0
    return found if 0 < found <= MOST_INDEX else None


def _check_ids(ids: Sequence[int], values: int) -> None:
    if len(ids) != values:
        raise NoEntryError(f"it has {len(ids)} ids for {values} values")
    if len(set(ids)) < len(ids) or not all(0 <= one <= MOST_ID for one in ids):
        raise NoEntryError(f"its ids are not different numbers from 0 to {MOST_ID:,}")


# --- leniently ------------------------------------------------------------------------------------------------------


def _leniently(line: bytes) -> Line:
    said = _object(line)
    if not isinstance(said.get("values"), list):
        raise NoEntryError("it has no values")
    shape = said.get("shape")
    texts = {
        key: said.get(key)
        for key in ("checkpoint", "team", "engine", "model", "precision", "dtype", "source", "origin")
    }
    return Line(
        values=[_number(value) for value in _flat(said["values"])],
        token_idx=_whole(said.get("token_idx")),
        shape=[one for one in shape if isinstance(one, int)] if isinstance(shape, list) else _plain(shape),
        ids=_ids(said.get("ids")),
        ts=_plain(said.get("ts")),
        **{key: _plain(value) for key, value in texts.items()},
    )


def _object(line: bytes) -> Mapping[str, Any]:
    text = line.decode("utf-8", "replace")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        try:
            said = json.loads(_NOT_JSON.sub(_quoted, text))
        except (ValueError, RecursionError) as error:
            raise NoEntryError("it is no JSON") from error
    if not isinstance(said, dict):
        raise NoEntryError("it is no JSON object")
    return said


def _quoted(found: re.Match[str]) -> str:
    """Texts stay, what is no JSON number becomes a text, and a plus before a number goes."""
    text = found[0]
    return text if text.startswith('"') else "" if text == "+" else f'"{text}"'


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    """Rows in a row give their last one: the token that was computed last."""
    while len(values) > 0 and isinstance(values[-1], list):
        values = values[-1]
    return chain(values)


def _number(value: object) -> float:
    """A value; null is what some writers make of NaN and infinities."""
    if value is None:
        return math.nan
    if isinstance(value, str):
        return _spelled(value.strip())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _as_float(value)
    raise NoEntryError(f"a value is a {type(value).__name__}")


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # whole numbers of more than 308 digits
        return math.inf if value > 0 else -math.inf


def _spelled(text: str) -> float:
    if found := _INFINITE.fullmatch(text):
        return -math.inf if found[1] == "-" else math.inf
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


def _ids(value: object) -> list[int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, int) for one in value):
        raise NoEntryError("its ids are no list of numbers")
    return value


def _plain(value: object) -> str | None:
    """A text, or what stands in a text's place, as text."""
    return None if value is None else value if isinstance(value, str) else json.dumps(value)
