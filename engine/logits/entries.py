"""A log file's lines, plain or gz, and each line as an entry: its values as numbers, however they are spelled.

Valid lines go through a typed decoder; others are read leniently: numbers that JSON does not have (``nan``,
``-Infinity``, ``1.#INF``), numbers as texts, null for a value, rows in a row (``[[...]]``). A compressed file that
breaks off gives all that it still holds.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any

import msgspec

from engine.errors import FileFormatError, shown
from engine.user_files import open_file, parsed_json

BLOCK_BYTES, MOST_LINE_BYTES = 1 << 20, 1 << 24
REPORT_LINES = 5_000  # between two looks at how far the file is read
BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)
MOST_TEXT = 200
MOST_INDEX = 2**31 - 1
MOST_ID = 2**20
"""More than any vocabulary: values are counted by position, which takes memory for each up to the largest."""
_NOT_JSON = re.compile(
    r'"(?:[^"\\]++|\\.)*+"?'  # a text stays, whatever it says
    r"|(?<![\w.])[-+]?(?:nan(?:\([^()\",]*\))?|inf(?:inity)?|1\.#[a-z]+\d*)(?![\w.])|(?<![\w.])\+(?=[\d.])",
    re.IGNORECASE,
)
_INFINITE = re.compile(r"([-+]?)(?:inf(?:inity)?|1\.#inf\d*)", re.IGNORECASE)
_NO_NUMBER = re.compile(r"[-+]?(?:nan.*|1\.#(?:ind|[qs]nan).*)", re.IGNORECASE | re.DOTALL)
_TEXTS = ("checkpoint", "team", "engine", "model", "precision", "dtype", "source", "origin", "ts")


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


def fingerprint(path: Path) -> str:
    """SHA-256 of the file's text: the same for a file and its compressed form."""
    digest = hashlib.sha256()
    with open_file(path) as file, suppress(*BROKEN):
        text = _text(file)
        while block := text.read1(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def read_lines(path: Path) -> Iterator[tuple[bytes, float]]:
    """Each line, with the share of the file that is read; one of ``BROKEN`` where its compressed form breaks off."""
    with open_file(path) as file:
        if file.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff"):  # type: ignore[attr-defined]
            raise FileFormatError(f"{shown(path.name)} is UTF-16", "Save it as UTF-8")
        text, size, share = _text(file), max(1, path.stat().st_size), 0.0
        for number, line in enumerate(iter(partial(text.readline, MOST_LINE_BYTES + 1), b"")):
            if number % REPORT_LINES == 0:
                share = min(1.0, file.tell() / size)
            if len(line) > MOST_LINE_BYTES:
                what = f"a line of {shown(path.name)} is over {MOST_LINE_BYTES >> 20} MB"
                raise FileFormatError(what, "A logit log has one JSON object a line")
            yield line, share


class _Inflated(RawIOBase):
    """What stands before a break is read: a gzip file's own buffer would throw it away."""

    def __init__(self, file: Any) -> None:
        self.gz = gzip.GzipFile(fileobj=file)

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        block = self.gz.read1(len(room))
        room[: len(block)] = block
        return len(block)


def _text(file: Any) -> BufferedReader:
    return BufferedReader(_Inflated(file), BLOCK_BYTES) if file.peek(2)[:2] == b"\x1f\x8b" else file


def read_line(line: bytes) -> LogLine:
    try:
        entry = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        entry = _leniently(line)
    if not entry.values:
        raise NoEntryError("it has no values")
    if len(entry.values) > MOST_ID:
        raise NoEntryError(f"it has {len(entry.values):,} values, the limit is {MOST_ID:,}")
    if (ids := entry.ids) is not None:
        if len(ids) != len(entry.values):
            raise NoEntryError(f"it has {len(ids)} ids for {len(entry.values)} values")
        if len(set(ids)) < len(ids) or not all(0 <= id_ <= MOST_ID for id_ in ids):
            raise NoEntryError(f"its ids are not different numbers from 0 to {MOST_ID:,}")
    if entry.token_idx is not None and not 0 <= entry.token_idx <= MOST_INDEX:
        raise NoEntryError(f"its token_idx is {shown(entry.token_idx, 20)}")
    return entry


def _leniently(line: bytes) -> LogLine:
    text = line.decode("utf-8-sig", "replace")
    # What is no JSON number becomes a text, and a plus before a number goes.
    plain = _NOT_JSON.sub(lambda m: m[0] if m[0].startswith('"') else "" if m[0] == "+" else f'"{m[0]}"', text)
    try:
        entry = parsed_json(plain)
    except ValueError as error:
        raise NoEntryError("it is no JSON") from error
    if not isinstance(entry, dict):
        raise NoEntryError("it is no JSON object")
    values, shape, ids, token = (entry.get(name) for name in ("values", "shape", "ids", "token_idx"))
    if not isinstance(values, list):
        raise NoEntryError("it has no values")
    while values and isinstance(values[-1], list):  # rows in a row: the last one is the token that was computed last
        values = values[-1]
    if ids is not None and not (isinstance(ids, list) and all(isinstance(id_, int) for id_ in ids)):
        raise NoEntryError("its ids are no list of numbers")
    try:
        if token is not None and float(str(token)) != int(float(str(token))):
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise NoEntryError(f"its token_idx is {str(token)[:20]!r}") from error
    texts: dict[str, Any] = {name: entry[name] for name in (*_TEXTS, "shape") if entry.get(name) is not None}
    texts = {name: said if isinstance(said, str) else json.dumps(said) for name, said in texts.items()}
    if isinstance(shape, list):
        texts["shape"] = [size for size in shape if isinstance(size, int)]
    number = None if token is None else int(float(str(token)))
    return LogLine(values=[_number(value) for value in values], token_idx=number, ids=ids, **texts)


def _number(value: object) -> float:
    """A value; null is what some writers make of NaN and infinities."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise NoEntryError(f"a value is a {type(value).__name__}")
    text = str(value).strip()
    if match := _INFINITE.fullmatch(text):
        return -math.inf if match[1] == "-" else math.inf
    if _NO_NUMBER.fullmatch(text):
        return math.nan
    try:
        return float(text)
    except ValueError as error:
        raise NoEntryError(f"a value is {text[:20]!r}") from error


@lru_cache(4_096)
def clean_text(value: object) -> str | None:
    """Text that every store and terminal can hold; None for an empty one."""
    return None if value is None else str(value)[:MOST_TEXT].encode("utf-8", "replace").decode() or None


def row_length(shape: str | Sequence[int] | None) -> int | None:
    """The last number of a shape: ``[151936]``, ``"[1,151936]"``."""
    numbers = re.findall(r"\d+", shape[:MOST_TEXT]) if isinstance(shape, str) else shape
    length = int(numbers[-1]) if numbers else 0
    return length if 0 < length <= MOST_INDEX else None
