"""A trace's file made into an entry of the store: streamed, summed, joined, and never held whole.

Chrome traces of torch.profiler, plain or gz, and tables made of one (``engine.profile.tables``). Oddities of a file
that could be handled are stored as warnings; what would make a sum wrong is an error. Memory is bounded: 7 million
events take half a gigabyte, the process included, and longer traces spill to disk.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from engine.decode.steps import STEP
from engine.errors import DriftscopeError, FileError, one_line, shown
from engine.figures.words import counted
from engine.profile.columns import EventCollector
from engine.profile.events import TraceFile
from engine.profile.families import load_families
from engine.profile.summary import Summary, event_table
from engine.profile.tables import looks_like_a_table, read_table
from engine.store.entries import Entry
from engine.store.schema import RUN, TRACE, TRACE_EVENTS, TRACE_MARKS, TRACE_STEPS
from engine.store.staging import sweep, write_entry
from engine.store.store import Store
from engine.user_files import open_file

MOST_NAME = 60
FILES, SUFFIXES = "profiles", (".json", ".json.gz")  # where trace files lie in a store
OF_DEVICES = ("cuda", "gpu", "hip", "mtia", "xpu")
ODDITIES = {
    "pair": "with only a begin or an end: left out",
    "no_duration": "without a readable duration: calls of no time",
    "negative": "with a negative duration: in the sums as it is",
    "no_time": "without a readable time: in the sums, not in the timeline",
    "lenient": "in invalid JSON: read leniently",
    "named": "without a category, work of a device by the name of its process",
    "unnamed": "without a category, read as operators of the host",
}
COUNTS = ("samples", "tokens", "forced_tokens", "forward_passes")
Progress = Callable[[int, float], None]
"""Called with the number of events with a duration so far, and the share of the file that they come from."""


def read_trace(
    db: duckdb.DuckDBPyConnection, path: Path, say: Progress = lambda *_: None
) -> tuple[Counter[str], TraceFile]:
    """All events with a duration, into the database."""
    collector, events = EventCollector(db), 0
    with open_file(path) as file:
        trace = TraceFile(path, file)
        for batch in trace.events():
            events += collector.add(batch)
            say(events, trace.share)
    if not events:
        raise FileError(f"{shown(path, 200)} has no event with a duration", "Record a trace with events")
    collector.finish()
    return collector.counts, trace


def add_trace(
    store: Store,
    path: Path,
    about: Mapping[str, Any] | None = None,
    written: Sequence[Mapping[str, Any]] = (),
    steps: int = 0,
    *,
    with_events: bool = False,
    keep_file: bool = False,
    say: Progress = lambda *_: None,
) -> Entry:
    """Read a trace or a table of one, and publish it in the store. ``about`` has columns of ``traces`` that the file
    does not know; ``written`` are rows of ``trace_steps`` without the trace_id, of so many ``steps``."""
    families = load_families()
    sweep(store.home, TRACE)
    row = row_of(store, path, about or {})
    trace_id = row["trace_id"]
    if looks_like_a_table(path):
        table, figures = read_table(path, trace_id, families)
        return write_entry(store.home, TRACE, trace_id, row | figures, [table])
    with event_table() as db:
        counts, file = read_trace(db, path, say)
        summariser = Summary(db, trace_id, families)
        figures, tables = summariser.summary()
        odd = {name: file.lenient if name == "lenient" else counts[name] for name in ODDITIES}
        warnings = [f"{counted(count, 'event')} {ODDITIES[name]}" for name, count in odd.items() if count]
        warnings += no_work(summariser)
        if written:
            marks = tables.get(TRACE_MARKS.name)
            marked = 0 if marks is None else marks["name"].to_pylist().count(STEP)
            of_steps, problem = what_steps_wrote(trace_id, written, marked, steps)
            tables, warnings = {**tables, **of_steps}, [*warnings, *problem]
        events = summariser.events() if with_events else iter(())
        row = {
            **row,
            **figures,
            "form": "events",
            "device": device_of(file.head),
            "is_complete": True,
            "flows": counts["flow"],
            "others": counts["other"],
            "warnings": "\n".join(warnings) or None,
            "file": kept(store, path, trace_id) if keep_file else None,
        }
        try:
            groups = chain([tables], ({TRACE_EVENTS.name: batch} for batch in events))
            return write_entry(store.home, TRACE, trace_id, row, groups)
        except BaseException:
            if keep_file:
                with contextlib.suppress(DriftscopeError):
                    store.home.remove(row["file"])
            raise


def what_steps_wrote(
    trace_id: str, written: Sequence[Mapping[str, Any]], marked: int, steps: int
) -> tuple[dict[str, pa.Table], list[str]]:
    """Its table where each step has its mark, else why there is none."""
    if marked != steps:
        return {}, [f"{marked:,} marks of {steps:,} steps: what each wrote is left out"]
    return {TRACE_STEPS.name: TRACE_STEPS.rows([{"trace_id": trace_id, **step} for step in written])}, []


def row_of(store: Store, path: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """What is known before the file is read. A run is named whole, and has the counts where none are given."""
    given = {name: value for name, value in about.items() if value not in ("", None)}
    run = store.entry(given["run_id"], RUN) if "run_id" in given else None
    counts: dict[str, Any] = {}
    if not given.keys().isdisjoint(COUNTS):
        counts = {"counted_by": "user"}
    elif run is not None and (of_run := {name: run.row[name] for name in COUNTS if run.row.get(name) is not None}):
        counts = {**of_run, "counted_by": "run"}
    return {
        "source": path.name,
        "origin": "imported",
        **counts,
        **given,
        **({} if run is None else {"run_id": run.id}),  # whole: the beginning of an id may be given
        "trace_id": new_trace_id(given.get("label") or path.name),
        "created_at": datetime.now(UTC).isoformat(),
    }


def no_work(summariser: Summary) -> list[str]:
    """A trace of a device's host alone, or of bookkeeping alone: its figures are not what they seem to be."""
    if not {"device", "host"} & set(summariser.sides):
        return ["no work is in it: neither kernels nor operators"]
    categories = [op["category"].casefold() for op in summariser.operations]
    if "device" not in summariser.sides and any(category.startswith(OF_DEVICES) for category in categories):
        return ["no work of a device is in it: its figures are of operators on the CPU"]
    return []


def device_of(head: Mapping[str, Any]) -> str | None:
    """``2 x NVIDIA H100``"""
    devices = head.get("deviceProperties")
    named = [item.get("name") for item in devices if isinstance(item, dict)] if isinstance(devices, list) else []
    kinds = Counter(one_line(name)[:200] for name in named if isinstance(name, str))
    device = ", ".join(f"{count} x {name}" if count > 1 else name for name, count in kinds.items())
    return device.encode("utf-8", "replace").decode() or None


def kept(store: Store, path: Path, trace_id: str) -> str:
    """Where the store has a copy of the file now."""
    with path.open("rb") as source:
        is_packed = source.read(2) == b"\x1f\x8b"
        source.seek(0)
        file = f"{FILES}/{trace_id}{SUFFIXES[is_packed]}"
        with store.home.writing(file) as target:
            shutil.copyfileobj(source, target, 1024 * 1024)
    return file


def remove_trace(store: Store, trace_id: str) -> None:
    """The entry of this whole id, and the trace's file if the store keeps it."""
    store.remove(trace_id, TRACE)
    for suffix in SUFFIXES:
        store.home.remove(f"{FILES}/{trace_id}{suffix}")


def new_trace_id(name: str) -> str:
    """Readable, sorted by time, and unique."""
    plain = re.sub(r"\.(?:json|pt\.trace|gz|tsv|csv|txt)\b", "", name)
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", plain).strip("-.")[:MOST_NAME].rstrip("-.")
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{plain or 'trace'}-{uuid.uuid4().hex[:6]}"
