"""Entries of one log as columns of numbers, a batch at a time: for the search for damage, and for the store.

A *sequence* is one text that a checkpoint was logged for: entries of one source whose ``token_idx`` rises. Files and
rules are not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from engine.errors import FileFormatError
from engine.logits.entries import MOST_INDEX, LogLine, NoEntryError, clean_text, row_length
from engine.logits.rules import LOGITS

Whole = NDArray[np.int64]
Real = NDArray[np.float64]

MEASURED = "measured"
"""A line's ``origin`` where this project wrote it from an engine that ran here."""
MOST_SOURCES = 5
"""Sources that are named; a log of a thousand samples has a thousand."""
MOST_CHECKPOINTS, MOST_TEXTS = 2_000, 200_000
"""A model of a hundred layers has some hundreds; a text is a checkpoint of a source. Each is looked at by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class EntryBatch:
    """E entries with N values, in the order of the file. ``starts`` [E + 1] says where an entry's values are."""

    line: Whole  # [E]
    token_idx: Whole  # [E]
    sequence: Whole  # [E]
    checkpoint: NDArray[np.object_]  # [E]
    source: tuple[str | None, ...]
    ts: tuple[str | None, ...]
    starts: Whole  # [E + 1]
    values: Real  # [N]
    positions: Whole  # [N]

    def __len__(self) -> int:
        return len(self.line)

    @property
    def widths(self) -> Whole:
        return np.diff(self.starts)

    @property
    def entry_of_value(self) -> Whole:
        """[N] the place in the batch of the entry that a value belongs to."""
        return np.repeat(np.arange(len(self)), self.widths)

    def parts(self) -> Iterator[tuple[str, Whole]]:
        """Entries of one checkpoint and one width, as places in the batch."""
        widths = self.widths
        for checkpoint in dict.fromkeys(self.checkpoint.tolist()):
            entries = np.flatnonzero(self.checkpoint == checkpoint)
            for width in np.unique(widths[entries]):
                yield checkpoint, entries[widths[entries] == width]

    def columns(self, entries: Whole) -> Whole:
        """[E', W] where the values of entries of one width are."""
        width = int(self.widths[entries[0]])
        return self.starts[entries][:, None] + np.arange(width)


@dataclass(slots=True)
class TextProgress:
    """One checkpoint's text of one source, and its last token so far."""

    checkpoint: str
    source: str | None
    last: int = MOST_INDEX  # so that the first entry begins a sequence
    sequence: int = -1


@dataclass(slots=True)
class BatchBuilder:
    """Lines of one log for the next batch, and what is known of the log from all its lines."""

    # Of the next batch, line by line. One list of tuples would take a fifth longer: Python's collector walks them.
    lines: list[LogLine] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    texts: list[TextProgress] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    values: int = 0
    dtypes: dict[str, None] = field(default_factory=dict)
    sources: dict[str, None] = field(default_factory=dict)
    checkpoints: dict[str, None] = field(default_factory=dict)
    length: int | None = None
    counted: int = 0  # lines without a token_idx
    _known: dict[tuple[str | None, str | None], TextProgress] = field(default_factory=dict)
    _begun: dict[str, int] = field(default_factory=dict)  # sequences, by checkpoint
    is_measured: bool = True  # every line says so
    _seen: tuple[object, ...] = ()  # dtype, shape and origin of the line before

    def add(self, line: LogLine, number: int) -> None:
        key = (line.checkpoint, line.source)
        text = self._known.get(key) or self._new_text(key)
        token = line.token_idx
        if token is None:
            token, self.counted = (0 if text.sequence < 0 else text.last + 1), self.counted + 1
        if token > MOST_INDEX:
            raise NoEntryError(f"its token_idx is {token}")
        if token <= text.last:
            text.sequence = self._begun.get(text.checkpoint, 0)
            self._begun[text.checkpoint] = text.sequence + 1
        text.last = token
        if (line.dtype, line.shape, line.origin) != self._seen:
            self._know(line, text.checkpoint)
        self.lines.append(line)
        self.numbers.append(number)
        self.texts.append(text)
        self.tokens.append(token)
        self.sequences.append(text.sequence)
        self.values += len(line.values)

    def batch(self) -> EntryBatch:
        """The lines so far; the builder is empty then."""
        lines = self.lines
        widths = [len(line.values) for line in lines]
        starts = np.concatenate([[0], np.cumsum(widths, dtype=np.int64)])
        total = int(starts[-1])
        positions = np.arange(total) - np.repeat(starts[:-1], widths)
        for place, line in enumerate(lines):
            if line.ids is not None:
                positions[starts[place] : starts[place + 1]] = line.ids
        batch = EntryBatch(
            np.array(self.numbers, dtype=np.int64),
            np.array(self.tokens, dtype=np.int64),
            np.array(self.sequences, dtype=np.int64),
            np.array([text.checkpoint for text in self.texts], dtype=np.object_),
            tuple(text.source for text in self.texts),
            tuple(clean_text(line.ts) for line in lines),
            starts,
            np.fromiter(chain.from_iterable(line.values for line in lines), np.float64, total),
            positions,
        )
        self.lines, self.numbers, self.texts, self.tokens, self.sequences, self.values = [], [], [], [], [], 0
        return batch

    def _new_text(self, key: tuple[str | None, str | None]) -> TextProgress:
        text = self._known[key] = TextProgress(clean_text(key[0]) or LOGITS, clean_text(key[1]))
        self.checkpoints[text.checkpoint] = None
        if len(self.checkpoints) > MOST_CHECKPOINTS or len(self._known) > MOST_TEXTS:
            what = f"the log has over {MOST_CHECKPOINTS:,} checkpoints, or {MOST_TEXTS:,} texts"
            raise FileFormatError(what, "A checkpoint is a tensor's name, the same in each token's entry")
        if text.source is not None and len(self.sources) < MOST_SOURCES:
            self.sources[text.source] = None
        return text

    def _know(self, line: LogLine, checkpoint: str) -> None:
        self._seen = (line.dtype, line.shape, line.origin)
        self.is_measured &= line.origin == MEASURED
        if (dtype := clean_text(line.dtype)) is not None and len(self.dtypes) < MOST_SOURCES:
            self.dtypes[dtype] = None
        if LOGITS in checkpoint:
            self.length = max(self.length or 0, row_length(line.shape) or 0) or None
