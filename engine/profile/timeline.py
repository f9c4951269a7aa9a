"""A trace along time: the families' work, the longest pauses, the marks, and events where they were kept.

Times are microseconds from the trace's first event. A timeline has some thousands of bins for the whole trace: within a
bin only the sum is known, so no stretch is finer than a bin. What a trace does not have is None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.inspection.memo import computed_once
from engine.profile.stored_trace import damaged, stored_table
from engine.profile.summary import BINS
from engine.store.entries import Entry
from engine.store.store import Store
from engine.store.trace_schema import TRACE_EVENTS, TRACE_GAPS, TRACE_MARKS, TRACE_OPS, TRACE_TIMELINE

Floats = npt.NDArray[np.float64]
SIDES = ("device", "call", "host")
OURS = "driftscope::"
MOST_ASKED = 10_000
"""Estimated events of a window: above this they are not queried."""
MOST_FAMILIES = 1_000
"""Of a side: more than any rules name."""
_NUMBERED = re.compile(r"[\s#:_-]*\d[\d\s.,:#-]*$")
MOST_NUMBER = 100
"""Characters at the end of a name that may be its number."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """One side of a trace. ``busy_us`` is [families, bins], ``edges_us`` where bins begin, and the last one's end."""

    side: str
    families: tuple[str, ...]  # those that take most first
    edges_us: Floats
    busy_us: Floats

    @property
    def width_us(self) -> float:
        return float(self.edges_us[1] - self.edges_us[0])

    @property
    def first_us(self) -> float:
        """Where its work begins, to a bin."""
        return float(self.edges_us[int(np.argmax(self.busy_us.sum(axis=0) > 0))])

    @property
    def total_us(self) -> Floats:
        found: Floats = self.busy_us.sum(axis=1)
        return found

    def stretch(self, start_us: float, end_us: float, columns: int) -> Stretch:
        """A window in equal columns, at most so many and none narrower than a bin."""
        count = max(1, min(columns, round((end_us - start_us) / self.width_us)))
        edges = np.linspace(start_us, end_us, count + 1)
        summed = np.concatenate([np.zeros((len(self.families), 1)), np.cumsum(self.busy_us, axis=1)], axis=1)
        at = np.array([np.interp(edges, self.edges_us, row) for row in summed])
        return Stretch(self.families, edges, np.diff(at, axis=1) / (edges[1] - edges[0]))


@dataclass(frozen=True, slots=True)
class Stretch:
    """A window. ``share`` is [families, columns] of each column's time; concurrent work adds up to more than 1."""

    families: tuple[str, ...]
    edges_us: Floats
    share: Floats


@dataclass(frozen=True, slots=True)
class Gap:
    """A pause of a device, between two operations."""

    device: str
    start_us: float
    gap_us: float
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class TraceMark:
    """A named span. ``phase`` is its name without a number and without our prefix."""

    phase: str
    name: str
    start_us: float
    dur_us: float


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    name: str
    family: str
    lane: str  # a device's stream, or a thread
    start_us: float
    dur_us: float


@dataclass(frozen=True, slots=True)
class EventWindow:
    """The longest events of a window, by their start, and how many there are in all."""

    events: tuple[TimelineEvent, ...]
    count: int


@computed_once(16)
def timelines(entry: Entry) -> Mapping[str, Timeline]:
    """By side; empty where the trace has no time."""
    table = stored_table(entry, TRACE_TIMELINE)
    if table is None or not table.num_rows:
        return {}
    width = float(table["width_us"][0].as_py())
    ends = pc.min_max(table["bin"]).as_py()
    bins = ends["max"] + 1
    span = entry.row.get("span_us") or bins * width
    if not 0 <= ends["min"] < bins <= BINS:
        raise damaged(entry, TRACE_TIMELINE, "bin")
    if not 0 < span <= (BINS + 1) * width:
        raise damaged(entry, TRACE_TIMELINE, "width_us")
    bins = max(bins, int(np.ceil(span / width)))
    edges = np.arange(bins + 1, dtype=np.float64) * width
    edges[-1] = max(span, edges[-2] + width / 1e3)  # the last bin reaches beyond the end, and nothing is there
    table = table.filter(pc.greater(table["busy_us"], 0))
    by_side = {side: table.filter(pc.equal(table["side"], side)) for side in SIDES}
    return {side: _timeline(entry, side, rows, edges) for side, rows in by_side.items() if rows.num_rows}


def _timeline(entry: Entry, side: str, table: pa.Table, edges: Floats) -> Timeline:
    coded = table["family"].combine_chunks().dictionary_encode()
    names: list[str] = coded.dictionary.to_pylist()
    if len(names) > MOST_FAMILIES:
        raise damaged(entry, TRACE_TIMELINE, "family")
    busy = np.zeros((len(names), len(edges) - 1))
    np.add.at(busy, (coded.indices.to_numpy(), table["bin"].to_numpy()), table["busy_us"].to_numpy())
    order = np.argsort(-busy.sum(axis=1), kind="stable")
    return Timeline(side, tuple(names[place] for place in order), edges, busy[order])


@computed_once(16)
def gaps(entry: Entry) -> tuple[Gap, ...]:
    """The longest pauses of its devices, longest first."""
    table, ops = stored_table(entry, TRACE_GAPS), stored_table(entry, TRACE_OPS)
    if table is None or ops is None:
        return ()
    names = {row["op"]: row["short_name"] or row["name"] for row in ops.to_pylist()}
    ends = ("before_op", "after_op")
    pauses = [
        Gap(row["device"] or "", row["start_us"], row["gap_us"], *(names.get(row[end], "?") for end in ends))
        for row in table.to_pylist()
    ]
    return tuple(sorted(pauses, key=lambda gap: -gap.gap_us))


@computed_once(16)
def _marks(entry: Entry) -> pa.Table:
    """With ``phase``, a number for each."""
    table = stored_table(entry, TRACE_MARKS)
    if table is None:
        return TRACE_MARKS.schema.empty_table().append_column("phase", pa.array([], pa.int64()))
    table = table.filter(pc.not_equal(table["family"], "gpu_annotation"))
    names = table["name"].combine_chunks().dictionary_encode()
    numbers: dict[str, int] = {}
    of_name = [numbers.setdefault(phase_of(name), len(numbers)) for name in names.dictionary.to_pylist()]
    phases = np.array(of_name, np.int64)[names.indices.to_numpy()] if len(table) else np.empty(0, np.int64)
    return table.append_column("phase", pa.array(phases))


def marks_within(entry: Entry, start_us: float, end_us: float, most: int) -> tuple[list[TraceMark], int]:
    """The longest marks of each phase in a window, at most so many in all, and how many there are.

    Devices' own copies are left out.
    """
    table = _marks(entry)
    start, length = (table[name].to_numpy() for name in ("start_us", "dur_us"))
    inside = np.flatnonzero((start < end_us) & (start + length > start_us))
    inside = inside[np.argsort(-length[inside], kind="stable")]
    phase = table["phase"].to_numpy()[inside]
    numbers = np.unique(phase)
    each = most // max(1, len(numbers))
    longest = np.sort(np.concatenate([inside[phase == number][:each] for number in numbers] or [inside]))
    rows = table.take(pa.array(longest)).to_pylist()
    return [TraceMark(phase_of(row["name"]), row["name"], row["start_us"], row["dur_us"]) for row in rows], len(inside)


def has_events(entry: Entry) -> bool:
    return TRACE_EVENTS.name in entry.parts


def events_in(entry: Entry, start_us: float, end_us: float) -> float:
    """About how many events lie in a window, if they are spread evenly."""
    span = entry.row.get("span_us") or 0.0
    inside = max(0.0, min(end_us, span) - max(start_us, 0.0))
    return (inside / span if span else 1.0) * float(entry.row.get("events") or 0)


def events_within(
    store: Store, entry: Entry, side: str, start_us: float, end_us: float, most: int
) -> EventWindow | None:
    """The longest events of a side; None where none were kept, or too many lie there for a query."""
    if not has_events(entry) or events_in(entry, start_us, end_us) > MOST_ASKED:
        return None
    rows = store.table(_EVENTS, [entry.id, side, end_us, start_us, most], of=(entry.id,)).to_pylist()
    rows.sort(key=lambda row: row["start_us"])
    events = (TimelineEvent(row["name"], row["family"], _lane(row), row["start_us"], row["dur_us"]) for row in rows)
    return EventWindow(tuple(events), rows[0]["count"] if rows else 0)


def phase_of(name: str) -> str:
    """``driftscope::forward`` is forward, ``ProfilerStep#12`` is ProfilerStep."""
    plain = name.removeprefix(OURS)
    return plain[:-MOST_NUMBER] + _NUMBERED.sub("", plain[-MOST_NUMBER:]) or plain


_EVENTS = """
SELECT coalesce(o.short_name, o.name) AS name, o.family, o.stream, o.device, e.thread, e.start_us, e.dur_us,
       count(*) OVER () AS count
FROM trace_events e JOIN trace_ops o ON e.trace_id = o.trace_id AND e.op = o.op
WHERE e.trace_id = ? AND o.side = ? AND e.start_us < ? AND e.start_us + e.dur_us > ? AND isfinite(e.dur_us)
ORDER BY e.dur_us DESC, e.start_us LIMIT ?
"""


def _lane(row: Mapping[str, Any]) -> str:
    if row["stream"] is None:
        return f"thread {row['thread']}"
    return f"stream {row['stream']}" if row["device"] in (None, "0") else f"device {row['device']}, {row['stream']}"
