"""The runs and traces that the reports tell of, as entries of a store: ``data/reported_runs.toml`` made into runs
without samples, ``data/reported_traces.toml`` into traces of the operations that a report names.

    python -m tools.reported --into data/demo

Each has what its report states and null for the rest, and ``origin = reported``, so that nobody takes its figures
for measured ones. Whether they are true is not known here; where two reports differ, both runs are there.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence, Sized
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.errors import FileFormatError, shown
from engine.paths import DATA, read_toml
from engine.store.columns import Kind, Table
from engine.store.entries import NAME, Entry
from engine.store.files import LocalFiles
from engine.store.schema import RUN, RUNS
from engine.store.staging import write_entry
from engine.store.store import Store
from engine.store.trace_schema import TRACE, TRACE_OPS, TRACES
from tools.terminal import ToolParser, run_tool

log = logging.getLogger(__name__)

RUNS_FILE, TRACES_FILE = DATA / "reported_runs.toml", DATA / "reported_traces.toml"
ORIGIN = "reported"
Row = dict[str, Any]
"""An entry's columns, as JSON values."""


def load_reported(path: Path = RUNS_FILE) -> list[Row]:
    """The runs in the file's order; an error names the one that is wrong."""
    runs = read_toml(path, "file of reported runs", lambda document: [_run(table) for table in document["run"]])
    ids = [run["run_id"] for run in runs]
    twice = next((id_ for id_ in ids if ids.count(id_) > 1), None)
    if twice is not None:
        raise FileFormatError(f"{shown(path, 200)} has {shown(twice)} twice", "Two reports on one run get two ids")
    return runs


def publish_reported(store: Store, runs: Sequence[Row] | None = None) -> list[Entry]:
    """Write the runs into the store, in place of what stands there under their ids."""
    entries = []
    for run in load_reported() if runs is None else runs:
        sheet = {key: value for key, value in run.items() if key != RUN.key}
        entries.append(_publish(store, RUN, run[RUN.key], sheet))
    return entries


def _run(table: Mapping[str, Any]) -> Row:
    run_id, report, section = (table[key] for key in ("run_id", "report", "section"))
    if len(report) != 3 or not report.isdigit() or not section:
        raise ValueError(f"{run_id}: report and section say where it stands, such as 002 and 1.1")
    row = {"run_id": run_id, "origin": ORIGIN, "source": f"report {report}, section {section}"}
    for key, value in table.items():
        if key == "extra":
            row[key] = json.dumps(value, ensure_ascii=False, sort_keys=True)
        elif key not in ("report", "section"):
            row[key] = value.isoformat() if isinstance(value, date) else value
    return _checked(RUNS, row)


def publish_traces(store: Store, path: Path = TRACES_FILE) -> list[Entry]:
    """Write the traces into the store, in place of what stands there under their ids."""
    traces = read_toml(path, "file of reported traces", lambda document: [_trace(table) for table in document["trace"]])
    return [_publish(store, TRACE, row[TRACE.key], row, {TRACE_OPS.name: TRACE_OPS.rows(ops)}) for row, ops in traces]


def _trace(table: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    """A row of ``traces``, and rows of ``trace_ops``, of which only the sums are known."""
    ops = []
    for number, op in enumerate(table["op"]):
        known = {name: op[name] for name in ("side", "family", "name", "calls")} | {"short_name": op["name"]}
        total_ns = round(op["total_s"] * 1_000_000_000)
        sums = {"total_ns": total_ns, "total_us": total_ns / 1000}
        ops.append({"trace_id": table["trace_id"], "op": number, **known, **sums})
    row = {"origin": ORIGIN, "form": "table"} | {key: value for key, value in table.items() if key != "op"}
    row["events"] = sum(op["calls"] for op in ops)
    return _checked(TRACES, row), ops


def _checked(table: Table, row: Row) -> Row:
    """ValueError for an id that names no folder, a name that is no column, or a value of another type."""
    key = table.columns[0].name
    if not NAME.fullmatch(row[key]):
        raise ValueError(f"{shown(row[key])} is no {key}")
    if unknown := row.keys() - table.by_name.keys():
        raise ValueError(f"{row[key]}: {min(unknown)} is no column of {table.name}")
    table.row_of(row)
    return row


def _publish(store: Store, kind: Kind, id_: str, row: Row, tables: Mapping[str, pa.Table] | None = None) -> Entry:
    store.home.remove(f"{kind.folder}/{kind.key}={id_}")
    return write_entry(store.home, kind, id_, row, [tables] if tables else [])


def publish_into(
    module: str, about: str, publish: Callable[[Store], Sized], what: str, arguments: Sequence[str] | None = None
) -> int:
    """``python -m MODULE --into PLACE``: what reports state, put into a store."""
    parser = ToolParser(prog=f"python -m {module}", description=about.split("\n")[0])
    parser.add_argument("--into", type=Path, required=True, help="the store's folder, such as data/demo")
    into = parser.parse_args(arguments).into
    return run_tool(lambda: log.info("%d %s in %s", len(publish(Store(LocalFiles(into)))), what, into))


def main(arguments: Sequence[str] | None = None) -> int:
    def publish(store: Store) -> list[Entry]:
        return [*publish_reported(store), *publish_traces(store)]

    return publish_into("tools.reported", __doc__ or "", publish, "runs and traces", arguments)


if __name__ == "__main__":
    sys.exit(main())
