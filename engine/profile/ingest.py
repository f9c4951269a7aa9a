"""A trace's file made into an entry of the store: streamed, summed, joined, and never held whole.

Chrome traces of torch.profiler, plain or gz, and tables made of one (``engine.profile.tables``). Oddities of a file
that could be handled are stored as warnings; what would make a sum wrong is an error. Memory grows by about 40 bytes
per event with a duration: 7 million events take half a gigabyte, the process included.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from engine.decode.phases import STEP
from engine.errors import DriftscopeError, FileFormatError, one_line, shown
from engine.figures.words import counted
from engine.profile.columns import EventCollector, EventColumns, OddEvents
from engine.profile.events import TraceFile
from engine.profile.families import Families, load_families
from engine.profile.summary import Summariser
from engine.profile.tables import looks_like_a_table, read_table
from engine.profile.trace_file import keep_trace_file, possible_names, trace_file_name
from engine.store.entries import Entry
from engine.store.schema import RUN
from engine.store.staging import sweep
from engine.store.store import Store
from engine.store.trace_schema import TRACE, TRACE_EVENTS, TRACE_MARKS, TRACE_STEPS
from engine.store.writing import write_entry
from engine.user_files import open_file

MOST_NAME = 60
OF_DEVICES = ("cuda", "gpu", "hip", "mtia", "xpu")
Tables = Mapping[str, pa.Table]
COUNTS = ("samples", "tokens", "forced_tokens", "forward_passes")


class ReadProgress(NamedTuple):
    """Bytes of the file, and events with a duration so far."""

    read_bytes: int
    bytes: int
    events: int


@dataclass(frozen=True, slots=True)
class TraceMetadata:
    """What is known of a trace besides its file."""

    run_id: str = ""
    label: str = ""
    source: str = ""  # else the file's name
    origin: str = "imported"
    samples: int | None = None
    tokens: int | None = None
    forced_tokens: int | None = None
    forward_passes: int | None = None
    counted_by: str = "user"  # who counted these four
    counters: Mapping[str, float] = field(default_factory=dict)
    versions: str = ""
    steps: int = 0
    written: Sequence[Mapping[str, Any]] = ()  # rows of trace_steps without the trace_id

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {"origin": self.origin, "label": self.label or None, "run_id": self.run_id or None}
        row["counters"] = json.dumps(self.counters, sort_keys=True) if self.counters else None
        counts = {name: value for name in COUNTS if (value := getattr(self, name)) is not None}
        return row | {"versions": self.versions or None, **counts} | ({"counted_by": self.counted_by} if counts else {})


def read_trace(
    path: Path, say: Callable[[ReadProgress], None] = lambda _: None
) -> tuple[EventColumns, OddEvents, TraceFile]:
    """All events with a duration."""
    collector, events = EventCollector(), 0
    with open_file(path) as file:
        trace = TraceFile(path, file)
        for batch in trace.events():
            events += collector.add(batch)
            say(ReadProgress(trace.read_bytes, trace.bytes, events))
    if not events:
        raise FileFormatError(f"{shown(path, 200)} has no event with a duration", "Record a trace with events")
    return collector.columns(), collector.counts, trace


def add_trace(
    store: Store,
    path: Path,
    metadata: TraceMetadata | None = None,
    *,
    with_events: bool = False,
    keep_file: bool = False,
    families: Families | None = None,
    say: Callable[[ReadProgress], None] = lambda _: None,
) -> Entry:
    """Read a trace or a table of one, and publish it in the store."""
    metadata = _with_run(store, metadata or TraceMetadata())
    families = families or load_families()
    sweep(store.home, TRACE)
    trace_id = new_trace_id(metadata.label or path.name)
    row = {"trace_id": trace_id, "created_at": datetime.now(UTC).isoformat(), "source": metadata.source or path.name}
    row |= metadata.row()
    if looks_like_a_table(path):
        table, figures = read_table(path, trace_id, families)
        return write_entry(store.home, TRACE, trace_id, row | figures, [table])
    columns, counts, file = read_trace(path, say)
    summariser = Summariser(columns, families)
    figures, tables, order = summariser.summary(trace_id)
    tables, warnings = _with_steps(tables, trace_id, metadata)
    events = summariser.events(trace_id, order) if with_events else iter(())
    row |= figures | {
        "form": "events",
        "device": _device_name(file.head),
        "is_complete": True,
        "flows": counts.flows,
        "others": counts.others,
        "warnings": "\n".join((*_warnings(counts, file.lenient), *_no_work(summariser), *warnings)) or None,
    }
    if keep_file:
        row["file"] = keep_trace_file(store, path, trace_id)
    try:
        groups = chain([tables], ({TRACE_EVENTS.name: some} for some in events))
        return write_entry(store.home, TRACE, trace_id, row, groups)
    except BaseException:
        if keep_file:
            with contextlib.suppress(DriftscopeError):
                store.home.remove(row["file"])
        raise


def remove_trace(store: Store, id_: str) -> str:
    """Remove the entry, damaged ones by their whole id, and the trace's file if the store keeps it; the whole id."""
    is_there = f"{TRACE.key}={id_}" in store.home.folders(TRACE.folder)
    is_damaged = is_there and id_ not in {entry.id for entry in store.found(TRACE).entries}
    entry = None if is_damaged else store.own(id_, TRACE)
    trace_id = id_ if entry is None else entry.id
    files = possible_names(trace_id) if entry is None else [trace_file_name(entry)]
    store.remove(trace_id, TRACE)
    for file in filter(None, files):
        store.home.remove(file)
    return trace_id


def new_trace_id(name: str) -> str:
    """Readable, sorted by time, and unique."""
    plain = re.sub(r"\.(?:json|pt\.trace|gz|tsv|csv|txt)\b", "", name)
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", plain).strip("-.")[:MOST_NAME].rstrip("-.")
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{plain or 'trace'}-{uuid.uuid4().hex[:6]}"


def _with_run(store: Store, metadata: TraceMetadata) -> TraceMetadata:
    """With the run's whole name, and its counts where none are given."""
    if not metadata.run_id:
        return metadata
    run = store.entry(metadata.run_id, RUN)
    if any(getattr(metadata, name) is not None for name in COUNTS):
        return replace(metadata, run_id=run.id)
    counts: dict[str, Any] = {name: run.row.get(name) for name in COUNTS}
    return replace(metadata, run_id=run.id, counted_by="run", **counts)


def _with_steps(tables: Tables, trace_id: str, metadata: TraceMetadata) -> tuple[Tables, Sequence[str]]:
    """With what the steps wrote, where each step has its mark; else a warning."""
    if not metadata.written:
        return tables, ()
    marks = tables.get(TRACE_MARKS.name)
    marked = 0 if marks is None else marks["name"].to_pylist().count(STEP)
    if marked != metadata.steps:
        return tables, (f"{marked:,} marks of {metadata.steps:,} steps: what each wrote is left out",)
    rows = [{"trace_id": trace_id, **row} for row in metadata.written]
    return {**tables, TRACE_STEPS.name: TRACE_STEPS.rows(rows)}, ()


def _warnings(counts: OddEvents, lenient: int) -> Iterator[str]:
    """How many events are odd, and what was done with them."""
    odd = {
        "with only a begin or an end: left out": counts.begins_and_ends,
        "without a readable duration: calls of no time": counts.without_duration,
        "with a negative duration: in the sums as it is": counts.negative,
        "without a readable time: in the sums, not in the timeline": counts.without_time,
        "in invalid JSON: read leniently": lenient,
    }
    yield from (f"{counted(count, 'event')} {what}" for what, count in odd.items() if count)


def _no_work(found: Summariser) -> Iterator[str]:
    """A trace of a device's host alone, or of bookkeeping alone: its figures are not what they seem to be."""
    if not {"device", "host"} & set(found.sides):
        yield "no work is in it: neither kernels nor operators"
    elif "device" not in found.sides and any(o.category.casefold().startswith(OF_DEVICES) for o in found.operations):
        yield "no work of a device is in it: its figures are of operators on the CPU"


def _device_name(head: Mapping[str, Any]) -> str | None:
    """Each kind once, with how many there are."""
    devices = head.get("deviceProperties")
    named = [device.get("name") for device in devices if isinstance(device, dict)] if isinstance(devices, list) else []
    names = Counter(one_line(name)[:200] for name in named if isinstance(name, str))
    texts = [f"{count} x {name}" if count > 1 else name for name, count in names.items()]
    return ", ".join(texts).encode("utf-8", "replace").decode() or None
