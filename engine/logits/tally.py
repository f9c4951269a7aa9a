"""Sums over the flagged values of a log: the evidence for causes, and the shares that are shown.

It takes a batch at a time and keeps counts, and of values only the few that repeat.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.logits.batches import EntryBatch, Real, Whole
from engine.logits.detect import BatchFlags, is_mask
from engine.logits.flags import Flags, has
from engine.logits.repeats import Marks
from engine.logits.rules import Rules

HUGE = 1e10
MOST_VALUES = 4_096
"""Different values that are counted; the most common are kept."""
HEAD = 4
"""Positions at the start of a row where an allocator keeps two addresses."""


@dataclass(slots=True)
class PositionCounts:
    """How often something was at a position."""

    counts: Counter[int] = field(default_factory=Counter)
    entries: int = 0

    def add(self, positions: Whole, entries: Whole) -> None:
        different, counts = np.unique(positions, return_counts=True)
        self.counts.update(dict(zip(different.tolist(), counts.tolist(), strict=True)))
        self.entries += _different(entries)


@dataclass(slots=True)
class DamageTally:
    """Of one log. ``kinds`` are counts by what a value is, one kind each."""

    rules: Rules
    entries: int = 0
    values: int = 0
    flagged_entries: int = 0
    flagged_values: int = 0
    garbage_entries: int = 0
    least: float | None = None
    largest: float | None = None
    first_token: int | None = None
    last_token: int | None = None
    seen: Whole = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # values logged, by position
    kinds: defaultdict[str, PositionCounts] = field(default_factory=lambda: defaultdict(PositionCounts))
    outliers: Counter[float] = field(default_factory=Counter)
    masks: Counter[float] = field(default_factory=Counter)
    least_outlier: float | None = None  # in size, of those that are no masks
    most_outlier: float | None = None
    addresses: int = 0  # entries that begin like freed memory
    repeated_outliers: int = 0
    rows_repeated: int = 0
    rows_of_nan: int = 0
    rows_of_zeros: int = 0
    rows_constant: int = 0

    def add(self, batch: EntryBatch, judged: BatchFlags) -> None:
        entry = batch.entry_of_value
        is_flagged = judged.flags != 0
        self.entries += len(batch)
        self.values += len(batch.values)
        self.flagged_values += int(is_flagged.sum())
        self.flagged_entries += _different(entry[is_flagged])
        self.garbage_entries += int(is_garbage(batch, self.rules).sum())
        finite = batch.values[np.isfinite(batch.values)]
        self.least, self.largest = _least(self.least, finite), _most(self.largest, finite)
        first, last = int(batch.token_idx.min()), int(batch.token_idx.max())
        self.first_token = first if self.first_token is None else min(self.first_token, first)
        self.last_token = last if self.last_token is None else max(self.last_token, last)
        self._see(batch.positions)
        if is_flagged.any():
            self._flagged(batch, judged.flags, entry, is_flagged)

    def _see(self, positions: Whole) -> None:
        """Grows with the largest position."""
        seen = np.bincount(positions)
        if len(seen) > len(self.seen):
            self.seen = np.concatenate([self.seen, np.zeros(len(seen) - len(self.seen), dtype=np.int64)])
        self.seen[: len(seen)] += seen

    def _flagged(self, batch: EntryBatch, flags: Flags, entry: Whole, is_flagged: Marks) -> None:
        where = np.flatnonzero(is_flagged)
        values, positions, codes, entries = batch.values[where], batch.positions[where], flags[where], entry[where]
        kinds = _kinds(values, codes, is_mask(values, np.array(self.rules.masks)))
        for kind, own in kinds.items():
            self.kinds[kind].add(positions[own], entries[own])
        is_out = kinds["huge"] | kinds["far"]
        _count(self.masks, values[kinds["mask"]])
        _count(self.outliers, values[is_out])
        self.least_outlier = _least(self.least_outlier, np.abs(values[is_out]))
        self.most_outlier = _most(self.most_outlier, np.abs(values[is_out]))
        self.repeated_outliers += int((is_out & has(codes, "repeated")).sum())
        self._rows(batch, codes, entries, values)
        self.addresses += _begin_with_addresses(positions, entries, values, codes, kinds)

    def _rows(self, batch: EntryBatch, codes: Flags, entries: Whole, values: Real) -> None:
        """Entries that are damaged as a whole."""
        widths = batch.widths

        def whole(own: Marks) -> int:
            return int((np.bincount(entries[own], minlength=len(batch)) == widths)[widths > 1].sum())

        is_still = has(codes, "repeated") | has(codes, "zero") | np.isneginf(values)
        self.rows_repeated += whole(is_still & ~has(codes, "constant"))
        self.rows_of_nan += whole(np.isnan(values))
        self.rows_of_zeros += whole(has(codes, "constant") & (values == 0))
        self.rows_constant += whole(has(codes, "constant") & (values != 0))


def is_garbage(batch: EntryBatch, rules: Rules) -> NDArray[np.bool_]:
    """[E] by the reports' own rule."""
    is_huge = np.isfinite(batch.values) & (np.abs(batch.values) > rules.report.above)
    return np.asarray(np.bincount(batch.entry_of_value[is_huge], minlength=len(batch)) > 0)


def _kinds(values: Real, codes: Flags, masks: Marks) -> dict[str, Marks]:
    """What each flagged value is, the first kind that fits."""
    is_out = has(codes, "outlier") | has(codes, "pointer")
    tests = {
        "constant": has(codes, "constant"),
        "mask": masks,
        "nan": np.isnan(values),
        "overflow": np.isposinf(values),
        "address": has(codes, "pointer"),
        "denormal": has(codes, "denormal"),
        "zero": has(codes, "zero"),
        "huge": is_out & (np.abs(values) >= HUGE),
        "far": is_out,
        "stale": has(codes, "repeated"),
    }
    left, found = np.ones(len(values), dtype=np.bool_), {}
    for kind, test in tests.items():
        found[kind] = left & test
        left &= ~test
    return found


def _begin_with_addresses(
    positions: Whole, entries: Whole, values: Real, codes: Flags, kinds: Mapping[str, Marks]
) -> int:
    """Entries with lower halves of addresses at positions 0 or 2, each followed by its upper half.

    An upper half is a denormal, which many logs print as zero.
    """
    low = (kinds["huge"] | kinds["far"] | kinds["address"] | has(codes, "pointer")) & (positions % 2 == 0)
    high = kinds["denormal"] | kinds["zero"] | kinds["address"]
    lows = {*zip(entries[low & (positions < HEAD)].tolist(), positions[low & (positions < HEAD)].tolist(), strict=True)}
    highs = zip(entries[high & (positions < HEAD)].tolist(), positions[high & (positions < HEAD)].tolist(), strict=True)
    return len({entry for entry, position in highs if position % 2 and (entry, position - 1) in lows})


def _count(counter: Counter[float], values: Real) -> None:
    found, counts = np.unique(values, return_counts=True)
    counter.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
    if len(counter) > MOST_VALUES:
        kept = counter.most_common(MOST_VALUES // 2)
        counter.clear()
        counter.update(dict(kept))


def _least(known: float | None, values: Real) -> float | None:
    if len(values) == 0:
        return known
    found = float(values.min())
    return found if known is None else min(known, found)


def _most(known: float | None, values: Real) -> float | None:
    found = _least(None if known is None else -known, -values)
    return None if found is None else -found


def _different(ordered: Whole) -> int:
    return int((np.diff(ordered) != 0).sum()) + 1 if len(ordered) else 0
