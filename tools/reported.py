"""The runs and traces that the reports tell of, as entries of a store: ``data/reported_runs.toml`` made into runs
without samples, ``data/reported_traces.toml`` into traces of the operations that a report names.

    python -m tools.reported --into data/demo

Each has what its report states and null for the rest, and ``origin = reported``, so that nobody takes its figures
for measured ones. Whether they are true is not known here; where two reports differ, both runs are there.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.errors import DriftscopeError, FileFormatError, shown
from engine.paths import DATA, read_toml
from engine.store.columns import Kind, Table
from engine.store.entries import NAME, Entry
from engine.store.files import LocalFiles
from engine.store.schema import RUN, RUNS
from engine.store.staging import write_entry
from engine.store.store import Store
from engine.store.trace_schema import TRACE, TRACE_OPS, TRACES

log = logging.getLogger(__name__)

RUNS_FILE, TRACES_FILE = DATA / "reported_runs.toml", DATA / "reported_traces.toml"
ORIGIN = "reported"
_PLACE = ("report", "section")
_OURS = ("run_id", "origin", "source", "extra")


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """One run as one report states it. ``row`` has columns of ``runs``, as JSON values."""

    run_id: str
    row: Mapping[str, Any]


def load_reported(path: Path = RUNS_FILE) -> list[ReportedRun]:
    """The runs in the file's order; an error names the one that is wrong."""
    runs = read_toml(path, "file of reported runs", lambda document: [_run(table) for table in document["run"]])
    ids = [run.run_id for run in runs]
    twice = next((id_ for id_ in ids if ids.count(id_) > 1), None)
    if twice is not None:
        raise FileFormatError(f"{shown(path, 200)} has {shown(twice)} twice", "Two reports on one run get two ids")
    return runs


def publish_reported(store: Store, runs: Sequence[ReportedRun] | None = None) -> list[Entry]:
    """Write the runs into the store, in place of what stands there under their ids."""
    return [publish_entry(store, RUN, run.run_id, run.row) for run in (load_reported() if runs is None else runs)]


def _run(table: Mapping[str, Any]) -> ReportedRun:
    run_id, report, section = (table[key] for key in ("run_id", *_PLACE))
    if not NAME.fullmatch(run_id):
        raise ValueError(f"{shown(run_id)} is no run_id")
    columns = {key: value for key, value in table.items() if key not in (*_OURS, *_PLACE)}
    unknown = [key for key in columns if key not in RUNS.names]
    if unknown:
        raise ValueError(f"{run_id}: {unknown[0]} is no column of runs, so it belongs into extra")
    if len(report) != 3 or not report.isdigit() or not section:
        raise ValueError(f"{run_id}: report and section say where it stands, such as 002 and 1.1")
    row = {"origin": ORIGIN, "source": f"report {report}, section {section}"}
    row |= {key: value.isoformat() if isinstance(value, date) else value for key, value in columns.items()}
    if "extra" in table:
        row["extra"] = json.dumps(table["extra"], ensure_ascii=False, sort_keys=True)
    check_columns(RUNS, row)
    return ReportedRun(run_id, row)


def publish_traces(store: Store, path: Path = TRACES_FILE) -> list[Entry]:
    """Write the traces into the store, in place of what stands there under their ids."""
    traces = read_toml(path, "file of reported traces", lambda document: [_trace(table) for table in document["trace"]])
    return [
        publish_entry(store, TRACE, row["trace_id"], row, {TRACE_OPS.name: TRACE_OPS.rows(ops)}) for row, ops in traces
    ]


def _trace(table: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A row of ``traces``, and rows of ``trace_ops``, of which only the sums are known."""
    trace_id = table["trace_id"]
    if not NAME.fullmatch(trace_id):
        raise ValueError(f"{shown(trace_id)} is no trace_id")
    ops = []
    for number, op in enumerate(table["op"]):
        known = {name: op[name] for name in ("side", "family", "name", "calls")} | {"short_name": op["name"]}
        total_ns = round(op["total_s"] * 1_000_000_000)
        ops.append({"trace_id": trace_id, "op": number, **known, "total_ns": total_ns, "total_us": total_ns / 1000})
    row = {"origin": ORIGIN, "form": "table"} | {key: value for key, value in table.items() if key != "op"}
    row["events"] = sum(op["calls"] for op in ops)
    check_columns(TRACES, row)
    return row, ops


def main(arguments: Sequence[str] | None = None) -> int:
    def publish(store: Store) -> list[Entry]:
        return [*publish_reported(store), *publish_traces(store)]

    return publish_into("tools.reported", __doc__ or "", publish, "runs and traces", arguments)


def check_columns(table: Table, row: Mapping[str, Any]) -> None:
    """ValueError for a name that is no column of the table, or a value of another type."""
    if unknown := row.keys() - table.by_name.keys():
        raise ValueError(f"{min(unknown)} is no column of {table.name}")
    table.row_of({table.columns[0].name: "its id", **row})


def publish_entry(
    store: Store, kind: Kind, id_: str, row: Mapping[str, Any], tables: Mapping[str, pa.Table] | None = None
) -> Entry:
    """Write one entry, in place of what has its id."""
    store.home.remove(f"{kind.folder}/{kind.key}={id_}")
    return write_entry(store.home, kind, id_, row, [tables] if tables else [])


def publish_into(
    module: str, about: str, publish: Callable[[Store], Sized], what: str, arguments: Sequence[str] | None = None
) -> int:
    """``python -m MODULE --into PLACE``: what reports state, put into a store."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about.split("\n")[0])
    parser.add_argument("--into", type=Path, required=True, help="the store's folder, such as data/demo")
    into = parser.parse_args(arguments).into
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        entries = publish(Store(LocalFiles(into)))
    except DriftscopeError as error:
        sys.stderr.write(f"driftscope: {error}\n")
        return 2
    log.info("%d %s in %s", len(entries), what, into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
