"""A log file's lines, plain or gz, each line as an entry, its values as numbers however they are spelled; and entries
as columns, a batch at a time: for the search for damage, and as rows of the store.

Valid lines go through a typed decoder; others are read leniently: numbers that JSON does not have (``nan``,
``-Infinity``, ``1.#INF``), numbers as texts, null for a value, rows in a row (``[[...]]``). A compressed file that
breaks off gives all that it still holds. A *sequence* is one text that a checkpoint was logged for: entries of one
source whose ``token_idx`` rises.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from engine.errors import FileError, shown
from engine.logits.rules import FLAGS, Flags, Marks, Real, Whole
from engine.store.schema import LOGIT_ENTRIES, LOGIT_VALUES
from engine.user_files import open_file, parsed_json

MOST_LINE_BYTES = 1 << 24
REPORT_LINES = 5_000  # between two words about how far the file is read
BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)
MOST_TEXT = 200
MOST_INDEX = 2**31 - 1
MOST_ID = 2**20
"""More than any vocabulary: values are counted by position, which takes memory for each up to the largest."""
_NOT_JSON = re.compile(
    r'"(?:[^"\\]++|\\.)*+"?'  # a text stays, whatever it says
    r"|(?<![\w.])(-?)\+?(?:(nan(?:\([^()\",]*\))?|1\.#(?!inf)[a-z]+\d*)|(?:inf(?:inity)?|1\.#inf\d*))(?![\w.])"
    r"|(?<![\w.])\+(?=[\d.])",
    re.IGNORECASE,
)


class LogLine(msgspec.Struct, gc=False):
    """What a line says, and its place in a log. Without ``ids`` the values are the first of their row."""

    values: list[float]
    token_idx: int | None = None
    ids: list[int] | None = None
    checkpoint: Any = None  # these are texts, or taken as such
    team: Any = None
    engine: Any = None
    model: Any = None
    precision: Any = None
    dtype: Any = None
    shape: Any = None
    source: Any = None
    origin: Any = None
    ts: Any = None
    line: Any = 0  # of the file
    sequence: Any = 0


class NoEntryError(ValueError):
    """A line that is no entry, and why."""


_decoder = msgspec.json.Decoder(LogLine)


def fingerprint(path: Path) -> str:
    """SHA-256 of the file's lines: the same for a file and its compressed form."""
    digest = hashlib.sha256()
    with suppress(*BROKEN):
        for line in read_lines(path):
            digest.update(line)
    return digest.hexdigest()


def read_lines(path: Path, progress: Callable[[int, float], None] = lambda *_: None) -> Iterator[bytes]:
    """Each line; ``progress`` gets their number and share. One of ``BROKEN`` where the compressed form breaks off."""
    with open_file(path) as file:
        size = max(1, path.stat().st_size)
        is_packed = file.peek(2)[:2] == b"\x1f\x8b"
        text: Any = gzip.GzipFile(fileobj=file) if is_packed else file
        for number, line in enumerate(iter(partial(text.readline, MOST_LINE_BYTES + 1), b""), start=1):
            if len(line) > MOST_LINE_BYTES:
                problem = f"a line of {shown(path.name)} is over {MOST_LINE_BYTES >> 20} MB"
                raise FileError(problem, "A logit log has one JSON object a line")
            if number % REPORT_LINES == 0:
                progress(number, min(1.0, file.tell() / size))
            yield line


def read_line(line: bytes) -> LogLine:
    try:
        entry = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        entry = _leniently(line)
    ids, token = entry.ids, entry.token_idx or 0
    if not 0 < len(entry.values) <= MOST_ID or not 0 <= token <= MOST_INDEX:
        raise NoEntryError(f"an entry has 1 to {MOST_ID:,} values, and a token_idx from 0 to {MOST_INDEX:,}")
    if ids is not None and not len({*ids}) == len(ids) == len(entry.values) <= MOST_ID >= max(ids) >= min(ids) >= 0:
        raise NoEntryError(f"its ids are not as many different numbers from 0 to {MOST_ID:,} as its values")
    return entry


def _leniently(line: bytes) -> LogLine:
    try:
        document = parsed_json(_NOT_JSON.sub(_as_json, line.decode("utf-8-sig", "replace")))
    except ValueError as error:
        raise NoEntryError("it is no JSON") from error
    try:
        values = document["values"]
        while isinstance(values[-1], list):
            values = values[-1]  # rows in a row: the last one is the token that was computed last
        # null is what some writers make of NaN and infinities
        document["values"] = ["nan" if value is None else str(value) for value in values]
        return msgspec.convert(document, LogLine, strict=False)
    except (TypeError, KeyError, IndexError, msgspec.ValidationError) as error:
        raise NoEntryError("it is no entry with values that are numbers") from error


def _as_json(match: re.Match[str]) -> str:
    """What is no JSON number as a text, without a plus before a number."""
    text, (sign, nan) = match[0], match.groups()
    if text[0] == '"':
        return text
    if text == "+":
        return ""
    return '"nan"' if nan else f'"{sign}inf"'


def clean_text(value: object) -> str | None:
    """Text that every store and terminal can hold; None for an empty one."""
    return None if value is None else str(value)[:MOST_TEXT].encode("utf-8", "replace").decode() or None


def row_length(shape: object) -> int:
    """The last number of a shape: ``[151936]``, ``"[1,151936]"``; 0 where there is none."""
    length = int((re.findall(r"\d+", str(shape)[:MOST_TEXT]) or [0])[-1])
    return length if length <= MOST_INDEX else 0


# --- as columns -----------------------------------------------------------------------------------------------------

NAMES = [[flag for number, flag in enumerate(FLAGS) if flags >> number & 1] for flags in range(1 << len(FLAGS))]
FLAG_LISTS = pa.array(NAMES, pa.list_(pa.string()))  # by the bits of a value's flags
MEASURED = "measured"
"""A line's ``origin`` where this project wrote it from an engine that ran here."""


@dataclass(frozen=True, slots=True, eq=False)
class EntryBatch:
    """E entries with N values, in the order of the file. ``starts`` [E + 1] says where an entry's values are."""

    lines: Sequence[LogLine]  # [E]
    starts: Whole  # [E + 1]
    values: Real  # [N]
    positions: Whole  # [N]
    entry: Whole  # [N] the place in the batch of the entry that a value belongs to

    @classmethod
    def of(cls, lines: Sequence[LogLine]) -> EntryBatch:
        widths = np.array([len(line.values) for line in lines], dtype=np.int64)
        starts, entry = np.concatenate([[0], np.cumsum(widths)]), np.repeat(np.arange(len(lines)), widths)
        positions = np.arange(len(entry)) - starts[entry]
        for index, line in enumerate(lines):
            if line.ids is not None:
                positions[starts[index] : starts[index + 1]] = line.ids
        values = np.fromiter(chain.from_iterable(line.values for line in lines), np.float64, len(entry))
        return cls(lines, starts, values, positions, entry)

    def column(self, name: str) -> Whole:
        """[E] whole numbers of the lines."""
        return np.array([getattr(line, name) for line in self.lines], dtype=np.int64)


def tables_of(
    log_id: str, first: int, batch: EntryBatch, flags: Flags, middle: Real, spread: Real, is_garbage: Marks
) -> dict[str, pa.Table]:
    """A flagged batch as rows of the store; ``first`` counts the log's entries before it."""
    entry = batch.entry
    starts = batch.starts[:-1]
    widths = np.diff(batch.starts)
    tokens = batch.column("token_idx")
    finite = np.where(np.isfinite(batch.values), batch.values, np.nan)
    # The position of each entry's largest value without a flag; null where there is none.
    sound = np.where((flags == 0) & np.isfinite(batch.values), batch.values, -np.inf)
    best = np.maximum.reduceat(sound, starts)
    index = np.where(sound == np.repeat(best, widths), np.arange(len(sound)), len(sound))
    top = batch.positions[np.minimum.reduceat(index, starts)]
    checkpoints = pa.array([line.checkpoint for line in batch.lines], pa.string())
    entries = {
        "log_id": pa.repeat(pa.scalar(log_id), len(starts)),
        "entry": np.arange(first, first + len(starts)),
        "line": batch.column("line"),
        "checkpoint": checkpoints,
        "token_idx": tokens,
        "sequence": batch.column("sequence"),
        "source": [line.source for line in batch.lines],
        "ts": [clean_text(line.ts) for line in batch.lines],
        "values_logged": widths,
        "middle": pa.array(middle, mask=np.isnan(middle)),
        "spread": pa.array(spread, mask=np.isnan(spread)),
        "least": np.fmin.reduceat(finite, starts),
        "largest": np.fmax.reduceat(finite, starts),
        "top": pa.array(top, mask=np.isneginf(best)),
        "flagged": np.add.reduceat((flags != 0).astype(np.int64), starts),
        "flags": FLAG_LISTS.take(pa.array(np.bitwise_or.reduceat(flags, starts))),
        "is_garbage": is_garbage,
    }
    values = {
        "log_id": pa.repeat(pa.scalar(log_id), len(entry)),
        "entry": entry + first,
        "checkpoint": checkpoints.take(pa.array(entry)),
        "token_idx": tokens[entry],
        "position": batch.positions,
        "value": batch.values,
        "flags": FLAG_LISTS.take(pa.array(flags)),
    }
    return {
        table.name: pa.table([pa.array(rows[c.name]).cast(c.type) for c in table], schema=table.schema)
        for table, rows in ((LOGIT_ENTRIES, entries), (LOGIT_VALUES, values))
    }
