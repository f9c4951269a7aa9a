"""Entries of one log as columns of numbers, a batch at a time: for the search for damage, and as rows of the store.

A *sequence* is one text that a checkpoint was logged for: entries of one source whose ``token_idx`` rises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import FileFormatError
from engine.logits.entries import MOST_INDEX, LogLine, NoEntryError, clean_text, row_length
from engine.logits.rules import FLAGS, LOGITS, Flags, Marks, Real, Whole
from engine.store.schema import LOGIT_ENTRIES, LOGIT_VALUES

MEASURED = "measured"
"""A line's ``origin`` where this project wrote it from an engine that ran here."""
MOST_SOURCES, MOST_CHECKPOINTS = 5, 2_000  # named; different ones in a log
Key = tuple[str, str | None]


@dataclass(frozen=True, slots=True, eq=False)
class EntryBatch:
    """E entries with N values, in the order of the file. ``starts`` [E + 1] says where an entry's values are."""

    line: Whole  # [E]
    token_idx: Whole  # [E]
    sequence: Whole  # [E]
    checkpoint: NDArray[np.object_]  # [E]
    source: list[str | None]
    ts: list[str | None]
    starts: Whole  # [E + 1]
    values: Real  # [N]
    positions: Whole  # [N]

    @property
    def entry_of_value(self) -> Whole:
        """[N] the place in the batch of the entry that a value belongs to."""
        return np.repeat(np.arange(len(self.line)), np.diff(self.starts))

    def parts(self) -> Iterator[tuple[str, Whole, Whole]]:
        """Of one checkpoint and one width W: the places of E' entries in the batch, and [E', W] of their values."""
        widths = np.diff(self.starts)
        for checkpoint in dict.fromkeys(self.checkpoint.tolist()):
            of_it = np.flatnonzero(self.checkpoint == checkpoint)
            for width in np.unique(widths[of_it]):
                entries = of_it[widths[of_it] == width]
                yield checkpoint, entries, self.starts[entries][:, None] + np.arange(width)


@dataclass(slots=True)
class BatchBuilder:
    """Lines of one log for the next batch, and what is known of the log from all its lines."""

    lines: list[LogLine] = field(default_factory=list)
    numbers: list[tuple[int, int, int]] = field(default_factory=list)  # line, token, sequence
    keys: list[Key] = field(default_factory=list)
    values: int = 0
    dtypes: dict[str, None] = field(default_factory=dict)
    sources: dict[str, None] = field(default_factory=dict)
    checkpoints: dict[str, int] = field(default_factory=dict)  # with the number of their sequences
    length: int | None = None
    counted: int = 0  # lines without a token_idx
    is_measured: bool = True  # every line says so
    _texts: dict[Key, tuple[int, int]] = field(default_factory=dict)  # last token and sequence
    _seen: tuple[object, ...] = ()  # dtype, shape and origin of the line before

    def add(self, line: LogLine, number: int) -> None:
        checkpoint, source = key = clean_text(line.checkpoint) or LOGITS, clean_text(line.source)
        last, sequence = self._texts.get(key, (MOST_INDEX, -1))
        token = line.token_idx
        if token is None:
            token, self.counted = 0 if sequence < 0 else last + 1, self.counted + 1
        if token > MOST_INDEX:
            raise NoEntryError(f"its token_idx is {token}")
        if token <= last:
            sequence = self.checkpoints.get(checkpoint, 0)
            self.checkpoints[checkpoint] = sequence + 1
            if len(self.checkpoints) > MOST_CHECKPOINTS:
                what = f"the log has over {MOST_CHECKPOINTS:,} checkpoints"
                raise FileFormatError(what, "A checkpoint is a tensor's name, the same in each token's entry")
        self._texts[key] = token, sequence
        if source is not None and len(self.sources) < MOST_SOURCES:
            self.sources[source] = None
        if (line.dtype, line.shape, line.origin) != self._seen:
            self._seen = (line.dtype, line.shape, line.origin)
            self.is_measured &= line.origin == MEASURED
            if (dtype := clean_text(line.dtype)) is not None and len(self.dtypes) < MOST_SOURCES:
                self.dtypes[dtype] = None
            if LOGITS in checkpoint:
                self.length = max(self.length or 0, row_length(line.shape) or 0) or None
        self.lines.append(line)
        self.numbers.append((number, token, sequence))
        self.keys.append(key)
        self.values += len(line.values)

    def batch(self) -> EntryBatch:
        """The lines so far; the builder is empty then."""
        lines, numbers = self.lines, np.array(self.numbers, dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum([len(line.values) for line in lines], dtype=np.int64)])
        positions = np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))
        for place, line in enumerate(lines):
            if line.ids is not None:
                positions[starts[place] : starts[place + 1]] = line.ids
        batch = EntryBatch(
            numbers[:, 0],
            numbers[:, 1],
            numbers[:, 2],
            np.array([checkpoint for checkpoint, _ in self.keys], dtype=np.object_),
            [source for _, source in self.keys],
            [clean_text(line.ts) for line in lines],
            starts,
            np.fromiter(chain.from_iterable(line.values for line in lines), np.float64, starts[-1]),
            positions,
        )
        self.lines, self.numbers, self.keys, self.values = [], [], [], 0
        return batch


def tables_of(
    log_id: str, first: int, batch: EntryBatch, flags: Flags, middle: Real, spread: Real, is_garbage: Marks
) -> dict[str, pa.Table]:
    """A flagged batch as rows of the store; ``first`` counts the log's entries before it."""
    entry, starts, widths = batch.entry_of_value, batch.starts[:-1], np.diff(batch.starts)
    finite = np.where(np.isfinite(batch.values), batch.values, np.nan)
    # The position of each entry's largest value without a flag; null where there is none.
    sound = np.where((flags == 0) & np.isfinite(batch.values), batch.values, -np.inf)
    best = np.maximum.reduceat(sound, starts)
    place = np.where(sound == np.repeat(best, widths), np.arange(len(sound)), len(sound))
    top = batch.positions[np.minimum.reduceat(place, starts)]
    checkpoints = pa.array(batch.checkpoint, pa.string())
    entries = {
        "log_id": pa.repeat(pa.scalar(log_id), len(starts)),
        "entry": np.arange(first, first + len(starts)),
        "line": batch.line,
        "checkpoint": checkpoints,
        "token_idx": batch.token_idx,
        "sequence": batch.sequence,
        "source": batch.source,
        "ts": batch.ts,
        "values_logged": widths,
        "middle": pa.array(middle, mask=np.isnan(middle)),
        "spread": pa.array(spread, mask=np.isnan(spread)),
        "least": np.fmin.reduceat(finite, starts),
        "largest": np.fmax.reduceat(finite, starts),
        "top": pa.array(top, mask=np.isneginf(best)),
        "flagged": np.add.reduceat((flags != 0).astype(np.int64), starts),
        "flags": flag_lists(np.bitwise_or.reduceat(flags, starts)),
        "is_garbage": is_garbage,
    }
    values = {
        "log_id": pa.repeat(pa.scalar(log_id), len(entry)),
        "entry": entry + first,
        "checkpoint": checkpoints.take(pa.array(entry)),
        "token_idx": batch.token_idx[entry],
        "position": batch.positions,
        "value": batch.values,
        "flags": flag_lists(flags),
    }
    return {
        table.name: pa.table([pa.array(rows[c.name]).cast(c.type) for c in table], schema=table.schema)
        for table, rows in ((LOGIT_ENTRIES, entries), (LOGIT_VALUES, values))
    }


def flag_lists(flags: Flags) -> pa.ListArray:
    """The names of each value's flags."""
    offsets = np.concatenate([[0], np.cumsum(np.bitwise_count(flags), dtype=np.int32)]).astype(np.int32)
    some = flags[flags != 0]  # most have none
    is_set = (some[:, None] >> np.arange(len(FLAGS), dtype=np.uint8)) & 1
    names = pa.array(FLAGS, pa.string()).take(pa.array(np.nonzero(is_set)[1]))
    return pa.ListArray.from_arrays(pa.array(offsets), names)
