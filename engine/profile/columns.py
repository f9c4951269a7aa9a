"""The events of a trace as rows of numbers, in a database of their own while a file is read.

Names, streams and devices are stored once, as the kinds of events, numbered in the order of their first use. Times are
whole nanoseconds. An event with an implausible time keeps its duration only: it is in every sum, and in no timeline.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import count
from operator import attrgetter

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import FileError
from engine.profile.events import AnyEvent, Args, Mixed
from engine.profile.process_names import Place, ProcessNames

MOST_NS = 2.0**62
MOST_OPERATIONS = 300_000  # real traces have thousands; each takes two kilobytes until it is stored
NO_ARGS = Args()
TIMED, NAMES, KINDS = "X", "M", dict.fromkeys("stf", "flow") | dict.fromkeys("BE", "pair")


class EventCollector:
    """Fills ``events`` of a database, and in the end ``ops``."""

    def __init__(self, db: duckdb.DuckDBPyConnection) -> None:
        self.db = db
        # flow; pair, a begin or an end alone; other, such as names of threads; no_duration, negative, no_time;
        # named and unnamed: without a category, of a device by its process, and of the host
        self.counts: Counter[str] = Counter()
        self._operations = operations = defaultdict[tuple[str | None, ...], int](count().__next__)
        self._number = lru_cache(None)(lambda *key: operations[*map(_label, key)])
        self._processes = ProcessNames()
        self._threads = defaultdict[tuple[Mixed, Mixed], int](count().__next__)
        db.execute("CREATE TABLE events (kind INTEGER, thread INTEGER, start BIGINT, dur BIGINT, correlation BIGINT)")

    def add(self, events: Sequence[AnyEvent]) -> int:
        """How many of these have a duration."""
        timed = self._timed(events)
        start, dur = _nanoseconds([event.ts for event in timed]), _nanoseconds([event.dur for event in timed])
        negative = pc.sum(pc.less(dur, 0)).as_py() or 0
        self.counts.update(no_duration=dur.null_count, no_time=start.null_count, negative=negative)
        number, threads = self._number, self._threads
        if len(self._operations) > MOST_OPERATIONS:
            problem = f"the trace has over {MOST_OPERATIONS:,} operations, each a name on a stream"
            raise FileError(problem, "Record names without numbers in them")
        args = [event.args or NO_ARGS for event in timed]
        kinds = [
            number(event.name, *((event.cat, of.stream, of.device) if event.cat else self._place(event)))
            for event, of in zip(timed, args, strict=True)
        ]
        correlations = [_whole(of.correlation) for of in args]
        columns = {
            "kind": pa.array(kinds, pa.int32()),
            "thread": pa.array([threads[event.pid, event.tid] for event in timed], pa.int32()),
            "start": start,
            "dur": pc.fill_null(dur, 0),
            "correlation": pa.array(correlations, pa.int64()),
        }
        self.db.register("batch", pa.table(columns))
        self.db.execute("INSERT INTO events FROM batch")
        return len(timed)

    def _timed(self, events: Sequence[AnyEvent]) -> list[AnyEvent]:
        """Those that have a duration; the others are counted, and names of processes noted."""
        kinds = Counter(map(attrgetter("ph"), events))
        for kind in kinds.keys() - {TIMED}:
            self.counts[KINDS.get(kind, "other")] += kinds[kind]
        for event in events if NAMES in kinds else ():
            if event.ph == NAMES:
                self._processes.note(event)
        return [event for event in events if event.ph == TIMED]

    def _place(self, event: AnyEvent) -> Place:
        """Of an event without a category."""
        place = self._processes.place(event)
        self.counts["named" if place.category else "unnamed"] += 1
        return place

    def finish(self) -> None:
        columns = zip(*self._operations, strict=True)
        names = ("name", "category", "stream", "device")
        rows = {"kind": range(len(self._operations)), **dict(zip(names, columns, strict=True))}
        self.db.register("batch", pa.table(rows))
        self.db.execute("CREATE TABLE ops AS FROM batch")


def _nanoseconds(times_us: Sequence[float | Decimal | None]) -> pa.Array:
    """Whole nanoseconds, rounded; null where there is no time, or an implausible one."""
    if Decimal in {*map(type, times_us)}:
        return pa.array(list(map(_exact, times_us)), pa.int64())
    values = np.array(times_us, np.float64)  # None is NaN
    is_known = np.abs(values) < MOST_NS / 1000  # NaN is not
    us = np.where(is_known, values, 0)
    whole = np.floor(us)  # apart, since a product would be rounded once more
    return pa.array(whole.astype(np.int64) * 1000 + np.rint((us - whole) * 1000).astype(np.int64), mask=~is_known)


def _exact(time_us: float | Decimal | None) -> int | None:
    if time_us is None or not Decimal(time_us).is_finite() or not -MOST_NS / 1000 < time_us < MOST_NS / 1000:
        return None
    return round(time_us * 1000)


def _whole(number: Mixed) -> int | None:
    """A correlation: a whole number, also as text; else none."""
    if isinstance(number, int) and 0 <= number < 2**63:
        return number
    text = _label(number) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


@lru_cache(1024)
def _label(value: Mixed) -> str | None:
    """``7``, ``7.0`` and ``"7"`` are one stream."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return None if value is None else str(value)
