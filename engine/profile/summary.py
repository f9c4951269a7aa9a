"""A trace's columns made into the store's tables: sums by operation, a timeline, idle gaps, launches joined to kernels,
and the trace's own row.

Sums are of whole nanoseconds and exact. All but the sums leaves out events without a plausible time. Rows are taken a
quarter million at a time, so that memory stays near that of the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.errors import FileFormatError
from engine.profile.columns import NONE, NOWHERE, EventColumns, Ints
from engine.profile.families import PROFILER, SIDES, Families, Side, short_name
from engine.profile.spans import binned, both_ns, covered_ns, gaps, own_times, shared_ns
from engine.store.columns import Table
from engine.store.trace_schema import TRACE_EVENTS, TRACE_GAPS, TRACE_MARKS, TRACE_OPS, TRACE_TIMELINE

BINS = 4096
MOST_GAPS = 1_000
MOST_MARKS = 100_000
SHORT_NS = 50_000
COPIES = ("memcpy", "memset")
TIMED_SIDES: tuple[Side, ...] = ("device", "call", "host")
EVENTS_A_GROUP = 1_000_000
BLOCK = 250_000
_LOW_BITS = 31


class Summariser:
    def __init__(self, columns: EventColumns, families: Families) -> None:
        self.columns, self.operations = columns, columns.operations
        has_device = any(families.side(operation.category) == "device" for operation in self.operations)
        found = [families.of(one.category, one.name, has_device=has_device) for one in self.operations]
        self.sides, self.families = [side for side, _ in found], [family for _, family in found]
        self.start, self.has_time = columns.start_ns, columns.start_ns != NOWHERE
        seen = self.has_time & ~self.among([PROFILER])[columns.op]
        self.zero = int(self.start[seen].min()) if seen.any() else 0
        self.last = max((int(self.end(rows).max()) for rows in _blocks(np.flatnonzero(seen))), default=0)

    def summary(self, trace_id: str) -> tuple[dict[str, Any], Mapping[str, pa.Table], Ints]:
        """Columns of ``traces``, the tables, and the place of each operation in them."""
        host = self._rows("host")
        own, parent = own_times(self.columns.thread[host], self.start[host], self.end(host))
        joins = self._joins()
        ops, order = self._ops(trace_id, host, own, joins)
        joined = len(joins[0])
        del own, joins  # of large traces each is as large as what is still to come
        tables = {TRACE_OPS.name: ops, TRACE_TIMELINE.name: self._timeline(trace_id, host, parent)}
        del host, parent
        tables[TRACE_MARKS.name] = self._marks(trace_id)
        figures, tables[TRACE_GAPS.name] = self._devices(trace_id, order)
        figures |= {"events": len(self.columns), "span_us": (self.last - self.zero) / 1000, "joined": joined}
        # Of the work: that of devices, or where there is none, of operators.
        work, columns = "device" if "device" in self.sides else "host", ("side", "family", "self_us")
        times = [
            (one, us) for side, one, us in zip(*(ops[n].to_pylist() for n in columns), strict=True) if side == work
        ]
        total = sum(us for _, us in times)
        figures["other_share"] = sum(us for one, us in times if one == "other") / total if total > 0 else None
        return figures, {name: table for name, table in tables.items() if table.num_rows}, order

    def events(self, trace_id: str, order: Ints) -> Iterator[pa.Table]:
        """Every event, a million at a time."""
        for first in range(0, len(self.columns), EVENTS_A_GROUP):
            rows = slice(first, first + EVENTS_A_GROUP)
            correlation = self.columns.correlation[rows]
            yield _table(
                TRACE_EVENTS,
                trace_id,
                op=order[self.columns.op[rows]],
                thread=self.columns.thread[rows],
                start_us=pa.array((self.start[rows] - self.zero) / 1000, mask=~self.has_time[rows]),
                dur_us=self.columns.dur_ns[rows] / 1000,
                correlation=pa.array(correlation, mask=correlation == NONE),
            )

    def on(self, *sides: Side) -> npt.NDArray[np.bool_]:
        """Of each operation, whether it is on one of these sides."""
        return np.array([side in sides for side in self.sides], bool)

    def among(self, families: Sequence[str]) -> npt.NDArray[np.bool_]:
        return np.array([family in families for family in self.families], bool)

    def end(self, rows: Ints) -> Ints:
        """Of events that have a time."""
        found: Ints = self.start[rows] + np.maximum(self.columns.dur_ns[rows], 0)
        return found

    def _rows(self, *sides: Side) -> Ints:
        """Numbers of the events of these sides that have a time."""
        return np.flatnonzero(self.on(*sides)[self.columns.op] & self.has_time)

    def _ops(self, trace_id: str, host: Ints, own: Ints, joins: tuple[Any, ...]) -> tuple[pa.Table, Ints]:
        columns, count = self.columns, len(self.operations)
        totals = exact_sums(columns.op, columns.dur_ns, count)
        self_ns = np.array(totals, np.float64)
        self_ns -= np.array(exact_sums(columns.op[host], columns.dur_ns[host] - own, count), np.float64)
        least, most = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
        np.minimum.at(least, columns.op, columns.dur_ns)
        np.maximum.at(most, columns.op, columns.dur_ns)
        by = sorted(range(count), key=lambda op: (SIDES.index(self.sides[op]), -totals[op], op))
        pick, order = np.array(by, np.int64), np.empty(count, np.int64)
        order[pick] = np.arange(count)
        event, call_us, delay_us = joins
        joined, is_host = columns.op[event], ~self.on("device")
        operations = [self.operations[op] for op in by]
        table = _table(
            TRACE_OPS,
            trace_id,
            op=np.arange(count),
            side=[self.sides[op] for op in by],
            family=[self.families[op] for op in by],
            short_name=[short_name(operation.name) for operation in operations],
            **{name: [getattr(one, name) for one in operations] for name in ("name", "category", "stream", "device")},
            calls=np.bincount(columns.op, minlength=count)[pick],
            total_ns=[totals[op] for op in by],
            total_us=np.array(totals, np.float64)[pick] / 1000,
            self_us=self_ns[pick] / 1000,
            min_us=least[pick] / 1000,
            max_us=most[pick] / 1000,
            short_calls=np.bincount(columns.op[columns.dur_ns < SHORT_NS], minlength=count)[pick],
            launched=pa.array(np.bincount(joined, minlength=count)[pick], mask=is_host[pick]),
            launch_us=pa.array(np.bincount(joined, call_us, count)[pick], mask=is_host[pick]),
            delay_us=pa.array(np.bincount(joined, delay_us, count)[pick], mask=is_host[pick]),
        )
        return table, order

    def _timeline(self, trace_id: str, host: Ints, parent: Ints) -> pa.Table:
        """The time of operators inside an operator is subtracted from its family."""
        pairs = list(zip(self.sides, self.families, strict=True))
        names = sorted({pair for pair in pairs if pair[0] in TIMED_SIDES})
        number = {name: place for place, name in enumerate(names)}
        group_of = np.array([number.get(pair, NONE) for pair in pairs], np.int64)
        span = max(self.last - self.zero, 1)
        width = -(-span // BINS)
        count = -(-span // width)  # the last bin may reach beyond the end
        busy = np.zeros((len(names), count), np.int64)
        for rows in _blocks(self._rows(*TIMED_SIDES)):
            groups = group_of[self.columns.op[rows]]
            busy += binned(self.zero, width, count, groups, len(names), self.start[rows], self.end(rows))
        for rows in _blocks(np.flatnonzero(parent >= 0)):
            child, above = host[rows], host[parent[rows]]
            until = np.minimum(self.end(child), self.end(above))
            groups = group_of[self.columns.op[above]]
            busy -= binned(self.zero, width, count, groups, len(names), self.start[child], until)
        group, place = np.nonzero(busy)
        return _table(
            TRACE_TIMELINE,
            trace_id,
            side=[names[index][0] for index in group],
            family=[names[index][1] for index in group],
            bin=place,
            start_us=place * width / 1000,
            width_us=np.full(len(place), width / 1000),
            busy_us=busy[group, place] / 1000,
        )

    def _marks(self, trace_id: str) -> pa.Table:
        rows = np.flatnonzero(self.among(["annotation", "gpu_annotation"])[self.columns.op] & self.has_time)
        rows = rows[np.argsort(self.start[rows], kind="stable")][:MOST_MARKS]
        ops = self.columns.op[rows].tolist()
        return _table(
            TRACE_MARKS,
            trace_id,
            family=[self.families[op] for op in ops],
            name=[self.operations[op].name for op in ops],
            thread=self.columns.thread[rows],
            start_us=(self.start[rows] - self.zero) / 1000,
            dur_us=self.columns.dur_ns[rows] / 1000,
        )

    def _devices(self, trace_id: str, order: Ints) -> tuple[dict[str, Any], pa.Table]:
        """Busy and idle time of each device, and the longest gaps."""
        rows = self._rows("device")
        if not len(rows):
            return {}, TRACE_GAPS.schema.empty_table()
        names = [one.device or "" for one in self.operations]
        numbers = [int(name) if name.isascii() and name.isdigit() and len(name) < 10 else NONE for name in names]
        devices = np.array(numbers, np.int64)[self.columns.op[rows]]
        sums_ns = dict.fromkeys(("busy", "idle", "overlap", "copy_overlap"), 0)
        parts: list[tuple[Ints, ...]] = []  # of each device's longest gaps: an operation there, start, length, ends
        count = 0
        for device in np.unique(devices):
            some = rows[devices == device]
            start, end, ops = self.start[some], self.end(some), self.columns.op[some]
            idle, is_copy = gaps(start, end), self.among(COPIES)[ops]
            count += len(idle.length)
            sums_ns["busy"] += covered_ns(start, end)
            sums_ns["idle"] += int(idle.length.sum())
            sums_ns["overlap"] += shared_ns(start, end)
            if is_copy.any():
                sums_ns["copy_overlap"] += both_ns((start[is_copy], end[is_copy]), (start[~is_copy], end[~is_copy]))
            pick = np.argsort(-idle.length, kind="stable")[:MOST_GAPS]
            first = np.full(len(pick), ops[0])
            parts.append((first, idle.start[pick], idle.length[pick], ops[idle.before[pick]], ops[idle.after[pick]]))
        op, start, length, before, after = (np.concatenate(column) for column in zip(*parts, strict=True))
        pick = np.argsort(-length, kind="stable")[:MOST_GAPS]
        pick = pick[np.argsort(start[pick], kind="stable")]
        table = _table(
            TRACE_GAPS,
            trace_id,
            device=[self.operations[one].device for one in op[pick]],
            start_us=(start[pick] - self.zero) / 1000,
            gap_us=length[pick] / 1000,
            before_op=order[before[pick]],
            after_op=order[after[pick]],
        )
        work_ns = self.columns.dur_ns[self.on("device")[self.columns.op]]  # those without a time, too
        total = sum(exact_sums(np.zeros(len(work_ns), np.int64), work_ns, 1))
        figures = {f"{name}_us": ns / 1000 for name, ns in sums_ns.items()}
        return figures | {"gaps": count, "device_us": total / 1000}, table

    def _joins(self) -> tuple[Ints, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Device events whose launch is known, its time, and the delay from it.

        The time of a launch of several (a graph) is divided among them.
        """
        columns = self.columns
        event, call = (rows[columns.correlation[rows] != NONE] for rows in (self._rows("device"), self._rows("call")))
        if not len(call) or not len(event):
            return np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, np.float64)
        is_launch = self.among(["launch"])[columns.op[call]]
        call = call[np.lexsort((~is_launch, columns.correlation[call]))]  # of two with one number, the launch
        known, first = np.unique(columns.correlation[call], return_index=True)
        call = call[first]
        place = np.minimum(np.searchsorted(known, columns.correlation[event]), len(known) - 1)
        matches = known[place] == columns.correlation[event]
        event, place = event[matches], place[matches]
        shared_by = np.bincount(place, minlength=len(call))[place]
        began = call[place]
        return event, columns.dur_ns[began] / shared_by / 1000, (self.start[event] - self.start[began]) / 1000


def _blocks(rows: Ints) -> Iterator[Ints]:
    for first in range(0, len(rows), BLOCK):
        yield rows[first : first + BLOCK]


def exact_sums(group: npt.NDArray[Any], values: Ints, groups: int) -> list[int]:
    """Sums of each group, exact at any size."""
    high, low = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    for first in range(0, len(values), BLOCK):
        some, part = group[first : first + BLOCK], values[first : first + BLOCK]
        np.add.at(high, some, part >> _LOW_BITS)
        np.add.at(low, some, part & ((1 << _LOW_BITS) - 1))
    found = [(one << _LOW_BITS) + other for one, other in zip(high.tolist(), low.tolist(), strict=True)]
    if any(abs(one) >= 2**63 for one in found):
        raise FileFormatError("durations of this trace add up to over 292 years", "Record it again")
    return found


def _table(table: Table, trace_id: str, **columns: Any) -> pa.Table:
    """The given columns in the table's types; the others are null."""
    size = len(next(iter(columns.values())))
    columns["trace_id"] = pa.repeat(trace_id, size)
    arrays = []
    for column in table:
        given = columns.get(column.name)
        given = pa.nulls(size, column.type) if given is None else given
        arrays.append(given.cast(column.type) if isinstance(given, pa.Array) else pa.array(given, column.type))
    return pa.Table.from_arrays(arrays, schema=table.schema)
