"""A trace's file made into an entry of the store: streamed, summed, joined, and never held whole.

Chrome traces of torch.profiler, plain or gz, and tables that somebody made of one (``engine.profile.tables``). What was
odd about a file and could be handled is told with the trace; what would make a sum wrong is an error. Memory grows by
some 40 bytes an event with a duration: 7 million events take half a gigabyte with all that a process needs anyway.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.decode.phases import STEP
from engine.errors import DriftscopeError, FileFormatError, one_line, shown
from engine.profile.columns import Collector, Columns, Counts
from engine.profile.cutting import Around, Cutter
from engine.profile.families import Families, load_families
from engine.profile.opening import opened
from engine.profile.summary import Summariser
from engine.profile.tables import looks_like_a_table, read_table
from engine.store.entries import Entry
from engine.store.schema import RUN
from engine.store.staging import Staging, sweep
from engine.store.store import Store
from engine.store.trace_schema import TRACE, TRACE_EVENTS, TRACE_MARKS, TRACE_STEPS

FOLDER = "profiles"
"""Where kept traces lie in a store, beside its entries."""
MOST_NAME = 60
COUNTED = ("samples", "tokens", "forced_tokens", "forward_passes")


@dataclass(frozen=True, slots=True)
class Reading:
    """How far it is: bytes of the file, and events with a duration so far."""

    read_bytes: int
    bytes: int
    events: int


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of a trace beside its file."""

    run_id: str = ""
    label: str = ""
    source: str = ""  # else the file's name
    origin: str = "imported"
    samples: int | None = None
    tokens: int | None = None
    forced_tokens: int | None = None
    forward_passes: int | None = None
    counted_by: str = "user"  # of those four
    counters: Mapping[str, float] = field(default_factory=dict)
    versions: str = ""
    steps: int = 0
    written: Sequence[Mapping[str, Any]] = ()  # rows of trace_steps, but for the trace's id: what those steps wrote

    def row(self) -> dict[str, Any]:
        counted = {name: value for name in COUNTED if (value := getattr(self, name)) is not None}
        return {
            "origin": self.origin,
            "label": self.label or None,
            "run_id": self.run_id or None,
            "counters": json.dumps(self.counters, sort_keys=True) if self.counters else None,
            "versions": self.versions or None,
            **counted,
            **({"counted_by": self.counted_by} if counted else {}),
        }


@dataclass(frozen=True, slots=True)
class Read:
    """A Chrome trace as it was read."""

    columns: Columns
    counts: Counts
    around: Around


def quiet(_: Reading) -> None:
    """Nobody watches."""


def read_trace(path: Path, *, partial: bool = False, say: Callable[[Reading], None] = quiet) -> Read:
    """All events with a duration. ``partial``: of a file that ends too early, take what is there."""
    collector, events = Collector(), 0
    with opened(path, may_end_early=partial) as (source, pieces):
        cutter = Cutter(path, pieces, may_end_early=partial)
        for some in cutter:
            events += collector.add(some)
            say(Reading(source.read_bytes, source.bytes, events))
    columns = collector.columns()
    if not len(columns):
        raise FileFormatError(f"{shown(path, 200)} has no event with a duration", "Record what you want to look at")
    return Read(columns, collector.counts, cutter.around)


def add_trace(
    store: Store,
    path: Path,
    told: Told | None = None,
    *,
    with_events: bool = False,
    keep_file: bool = False,
    partial: bool = False,
    families: Families | None = None,
    say: Callable[[Reading], None] = quiet,
) -> Entry:
    """Read a trace or a table of one, and show it in the store."""
    told = told or Told()
    told = _linked(store, told)
    families = families or load_families()
    sweep(store.home, TRACE)
    trace_id = new_trace_id(told.label or path.name)
    row = {"trace_id": trace_id, "created_at": datetime.now(UTC).isoformat(), "source": told.source or path.name}
    row |= told.row()
    if looks_like_a_table(path):
        table, figures = read_table(path, trace_id, families)
        return _published(store, trace_id, row | figures, iter([table]))
    read = read_trace(path, partial=partial, say=say)
    one = Summariser(read.columns, families)
    summary = one.summary(trace_id)
    tables, steps_unknown = _with_steps(summary.tables, trace_id, told)
    groups = _groups(tables, one.events(trace_id, summary.order) if with_events else iter(()))
    row |= dict(summary.figures) | _described(read, steps_unknown)
    if keep_file:
        row["file"] = _kept(store, path, trace_id)
    try:
        return _published(store, trace_id, row, groups)
    except BaseException:
        if keep_file:
            with contextlib.suppress(DriftscopeError):
                store.home.remove(row["file"])
        raise


def remove_trace(store: Store, id_: str) -> str:
    """The entry, and the trace's own file where the store keeps it; its whole id. One that is damaged is named so."""
    is_there = f"{TRACE.key}={id_}" in store.home.folders(TRACE.folder)
    entry = None if is_there and id_ not in {one.id for one in store.found(TRACE).entries} else store.own(id_, TRACE)
    trace_id = id_ if entry is None else entry.id
    files = _own_names(trace_id) if entry is None else [entry.row.get("file")]
    store.remove(trace_id, TRACE)
    for file in files:
        if isinstance(file, str) and re.fullmatch(rf"{FOLDER}/[A-Za-z0-9._-]+", file):
            store.home.remove(file)
    return trace_id


def new_trace_id(name: str, now: datetime | None = None) -> str:
    """Readable, sorted by time, and no two alike."""
    moment = (now or datetime.now(UTC)).strftime("%Y%m%d-%H%M%S")
    plain = re.sub(r"\.(?:json|pt\.trace|gz|tsv|csv|txt)\b", "", name)
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", plain).strip("-.")[:MOST_NAME].rstrip("-.")
    return f"{moment}-{plain or 'trace'}-{uuid.uuid4().hex[:6]}"


def _groups(tables: Mapping[str, pa.Table], events: Iterator[pa.Table]) -> Iterator[Mapping[str, pa.Table]]:
    yield tables
    for some in events:
        yield {TRACE_EVENTS.name: some}


def _published(store: Store, trace_id: str, row: Mapping[str, Any], groups: Iterator[Mapping[str, pa.Table]]) -> Entry:
    staging = Staging.create(store.home, TRACE, trace_id, row)
    try:
        for tables in groups:
            staging.add(tables)
        return staging.publish({})
    except BaseException:
        with contextlib.suppress(DriftscopeError):
            staging.abandon()
        raise


def _linked(store: Store, told: Told) -> Told:
    """The run's whole name; and its counts, where nobody gave others."""
    if not told.run_id:
        return told
    run = store.entry(told.run_id, RUN)
    if any(getattr(told, name) is not None for name in COUNTED):
        return replace(told, run_id=run.id)
    counted: dict[str, Any] = {name: run.row.get(name) for name in COUNTED}
    return replace(told, run_id=run.id, counted_by="run", **counted)


def _own_names(trace_id: str) -> list[str]:
    """What a trace's file can be called."""
    return [f"{FOLDER}/{trace_id}.json{end}" for end in ("", ".gz")]


def _kept(store: Store, path: Path, trace_id: str) -> str:
    name = _own_names(trace_id)[_is_packed(path)]
    with path.open("rb") as source, store.home.writing(name) as target:
        shutil.copyfileobj(source, target, 1024 * 1024)
    return name


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _with_steps(
    tables: Mapping[str, pa.Table], trace_id: str, told: Told
) -> tuple[Mapping[str, pa.Table], Sequence[str]]:
    """With what the steps wrote, where each has its mark; else why it is left out."""
    if not told.written:
        return tables, ()
    marks = tables.get(TRACE_MARKS.name)
    marked = 0 if marks is None else pc.sum(pc.equal(marks["name"], STEP)).as_py() or 0
    if marked != told.steps:
        return tables, (f"{marked:,} marks of {told.steps:,} steps: what each wrote is left out",)
    rows = [{"trace_id": trace_id, **row} for row in told.written]
    return {**tables, TRACE_STEPS.name: TRACE_STEPS.rows(rows)}, ()


def _described(read: Read, more: Sequence[str] = ()) -> dict[str, Any]:
    counts = read.counts
    return {
        "form": "events",
        "device": _device_name(read.around.head),
        "is_complete": read.around.is_closed,
        "flows": counts.flows,
        "others": counts.others,
        "warnings": "\n".join((*_warnings(read), *more)) or None,
    }


def _warnings(read: Read) -> Iterator[str]:
    """How many events are odd, and what became of them."""
    counts, around = read.counts, read.around
    odd = {
        "a begin or an end alone: left out": counts.begins_and_ends,
        "without a duration that reads: calls of no time": counts.without_duration,
        "with a negative duration: sums take it as it is": counts.negative,
        "without a time that reads: in the sums, and not in the timeline": counts.without_time,
        "not quite JSON: read all the same": around.lenient,
        "no event at all: left out": around.others,
    }
    if not around.is_closed:
        yield "the file ends too early or is damaged: sums are of what could be read"
    yield from (f"{number:,} {what}" for what, number in odd.items() if number)


def _device_name(head: Mapping[str, Any]) -> str | None:
    """Each kind once, with how many there are."""
    devices = head.get("deviceProperties")
    given = [one.get("name") for one in devices if isinstance(one, dict)] if isinstance(devices, list) else []
    names = [one_line(name)[:200] for name in given if isinstance(name, str)]
    found = [f"{names.count(name)} x {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    return ", ".join(found).encode("utf-8", "replace").decode() or None
