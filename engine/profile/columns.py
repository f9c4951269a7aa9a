"""The events of a trace as columns of numbers, in memory while a file is read.

Names, streams and devices are stored once, as an *operation*; an event is 32 bytes. Times are whole nanoseconds from
the trace's own zero. An event with an implausible time keeps its duration only: it is in every sum, and in no timeline.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.errors import FileFormatError
from engine.profile.events import AnyEvent, Mixed

Ints = npt.NDArray[np.int64]
NOWHERE = int(np.iinfo(np.int64).min)
"""The time of an event that has none."""
NONE = -1
MOST_NS = 2.0**62
MOST_OPERATIONS = 300_000  # real traces have thousands; each takes two kilobytes until it is stored
TIMED, FLOWS, BEGINS_AND_ENDS = "X", frozenset("stf"), frozenset("BE")


class Operation(NamedTuple):
    """What makes events one operation."""

    category: str
    name: str
    stream: str | None
    device: str | None


@dataclass(frozen=True, slots=True)
class EventColumns:
    """All events with a duration, in the order of the file."""

    operations: Sequence[Operation]
    op: npt.NDArray[np.int32]
    thread: npt.NDArray[np.int32]
    start_ns: Ints
    dur_ns: Ints
    correlation: Ints

    def __len__(self) -> int:
        return len(self.op)


class Numbering(dict[Any, int]):
    """Numbers keys in the order of their first use."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


@dataclass(slots=True)
class OddEvents:
    """Events without a duration, and oddities of those with one."""

    flows: int = 0
    begins_and_ends: int = 0
    others: int = 0  # names of threads, moments, counters
    without_duration: int = 0
    negative: int = 0
    without_time: int = 0


@dataclass(slots=True)
class EventCollector:
    counts: OddEvents = field(default_factory=OddEvents)
    _operations: Numbering = field(default_factory=Numbering)
    _threads: Numbering = field(default_factory=Numbering)
    _parts: list[tuple[npt.NDArray[Any], ...]] = field(default_factory=list)

    def add(self, events: Sequence[AnyEvent]) -> int:
        """How many of these have a duration."""
        for kind, number in Counter(event.ph for event in events).items():
            if kind in FLOWS:
                self.counts.flows += number
            elif kind in BEGINS_AND_ENDS:
                self.counts.begins_and_ends += number
            elif kind != TIMED:
                self.counts.others += number
        timed = [event for event in events if event.ph == TIMED]
        if not timed:
            return 0
        dur_ns = _nanoseconds([event.dur for event in timed])
        start_ns = _nanoseconds([event.ts for event in timed])
        is_unknown = dur_ns == NOWHERE
        self.counts.without_duration += int(is_unknown.sum())
        dur_ns[is_unknown] = 0
        self.counts.negative += int((dur_ns < 0).sum())
        self.counts.without_time += int((start_ns == NOWHERE).sum())
        operations, threads = self._operations, self._threads
        if len(operations) > MOST_OPERATIONS:
            what = f"the trace has over {MOST_OPERATIONS:,} operations, each a name on a stream"
            raise FileFormatError(what, "Record names without numbers in them")
        self._parts.append((
            np.array([operations[_key(event)] for event in timed], np.int32),
            np.array([threads[event.pid, event.tid] for event in timed], np.int32),
            start_ns,
            dur_ns,
            np.array([NONE if event.args is None else _whole(event.args.correlation) for event in timed], np.int64),
        ))  # fmt: skip
        return len(timed)

    def columns(self) -> EventColumns:
        """All events. The collector is empty then: memory is freed column by column."""
        parts, self._parts = self._parts, []
        columns: list[Any] = [list(column) for column in zip(*parts, strict=True)]
        del parts
        for number, pieces in enumerate(columns):
            columns[number] = np.concatenate(pieces)
        merged = Numbering()  # ``7``, ``7.0`` and ``"7"`` are one stream
        numbers = np.array(
            [merged[Operation(category, name, _label(stream), _label(device))]
             for category, name, stream, device in self._operations], np.int32,
        )  # fmt: skip
        if not columns:
            return EventColumns([], *(np.empty(0, kind) for kind in (np.int32, np.int32, *[np.int64] * 3)))
        return EventColumns(list(merged), numbers[columns[0]], *columns[1:])


def _key(event: AnyEvent) -> tuple[str, str, Mixed, Mixed]:
    args = event.args
    return (event.cat, event.name, None, None) if args is None else (event.cat, event.name, args.stream, args.device)


def _nanoseconds(times_us: Sequence[float | Decimal | None]) -> Ints:
    """Whole nanoseconds, rounded; NOWHERE where there is no time, or an implausible one."""
    if any(isinstance(one, Decimal) for one in times_us):
        return np.array([_exact(one) for one in times_us], np.int64)
    values = np.array([math.nan if one is None else one for one in times_us], np.float64)
    is_known = np.abs(values) < MOST_NS / 1000  # NaN is not
    known = np.where(is_known, values, 0)
    whole = np.floor(known)  # apart, since a product would be rounded once more
    found = whole.astype(np.int64) * 1000 + np.rint((known - whole) * 1000).astype(np.int64)
    return np.where(is_known, found, NOWHERE)


def _exact(time_us: float | Decimal | None) -> int:
    if time_us is None or not Decimal(time_us).is_finite() or not -MOST_NS / 1000 < time_us < MOST_NS / 1000:
        return NOWHERE
    return round(time_us * 1000)


def _whole(number: Mixed) -> int:
    """A correlation: a whole number, also as text; else none."""
    if isinstance(number, int) and 0 <= number < 2**63:
        return number
    if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < 19:
        return int(number)
    if isinstance(number, float) and number.is_integer() and 0 <= number < 2**53:
        return int(number)
    return NONE


def _label(value: Mixed) -> str | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return None if value is None else str(value)
