"""The runs and traces that the reports tell of, as entries of a store: ``data/reported_runs.toml`` made into runs
without samples, ``data/reported_traces.toml`` into traces of the operations that a report names.

    python -m tools.reported --into data/demo

Each has what its report states and null for the rest, and ``origin = reported``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Sized
from datetime import date
from pathlib import Path
from typing import Any

from engine.errors import FileError, shown
from engine.paths import DATA, read_toml
from engine.store.columns import Kind, Table
from engine.store.entries import NAME, Entry, entry_folder
from engine.store.files import Files
from engine.store.schema import RUN, RUNS, TRACE, TRACE_OPS, TRACES
from engine.store.staging import write_entry
from engine.store.store import Store
from tools.terminal import ToolParser, log, run_tool

RUNS_FILE, TRACES_FILE = DATA / "reported_runs.toml", DATA / "reported_traces.toml"
Row = dict[str, Any]


def load_reported(path: Path = RUNS_FILE) -> dict[str, Row]:
    """Rows of ``runs`` by id, in the file's order; an error names the one that is wrong."""
    runs = read_toml(path, "file of reported runs", lambda document: [_run(table) for table in document["run"]])
    ids = [id_ for id_, _ in runs]
    if twice := [id_ for id_ in ids if ids.count(id_) > 1]:
        raise FileError(f"{shown(path, 200)} has {shown(twice[0])} twice", "Two reports on one run get two ids")
    return dict(runs)


def _run(table: Mapping[str, Any]) -> tuple[str, Row]:
    run_id, report, section = (table[key] for key in ("run_id", "report", "section"))
    if len(report) != 3 or not report.isdigit() or not section:
        raise ValueError(f"{run_id}: report and section say where it is, such as 002 and 1.1")
    row = {"origin": "reported", "source": f"report {report}, section {section}"}
    columns = {key: value for key, value in table.items() if key not in (*row, "run_id", "report", "section", "extra")}
    row |= {key: value.isoformat() if isinstance(value, date) else value for key, value in columns.items()}
    if "extra" in table:
        row["extra"] = json.dumps(table["extra"], ensure_ascii=False, sort_keys=True)
    return run_id, checked(RUNS, run_id, row)


def publish_reported(store: Store, runs: Mapping[str, Row] | None = None) -> list[Entry]:
    """Write the runs into the store, in place of what is there under their ids."""
    return [_publish(store, RUN, id_, row) for id_, row in (load_reported() if runs is None else runs).items()]


def publish_traces(store: Store, path: Path = TRACES_FILE) -> list[Entry]:
    traces = read_toml(path, "file of reported traces", lambda document: [_trace(table) for table in document["trace"]])
    return [_publish(store, TRACE, row["trace_id"], row, ops) for row, ops in traces]


def _trace(table: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    """A row of ``traces``, and rows of ``trace_ops``, of which only the sums are known."""
    ops = []
    for number, op in enumerate(table["op"]):
        columns = {name: op[name] for name in ("side", "family", "name", "calls")} | {"short_name": op["name"]}
        total_ns = round(op["total_s"] * 1_000_000_000)
        ids = {"trace_id": table["trace_id"], "op": number}
        ops.append({**ids, **columns, "total_ns": total_ns, "total_us": total_ns / 1000})
    row = {"origin": "reported", "form": "table"} | {key: value for key, value in table.items() if key != "op"}
    return checked(TRACES, table["trace_id"], {**row, "events": sum(op["calls"] for op in ops)}), ops


def checked(table: Table, id_: str, row: Row) -> Row:
    if not NAME.fullmatch(id_):
        raise ValueError(f"{shown(id_)} is no {table.names[0]}")
    if unknown := row.keys() - table.by_name.keys():
        raise ValueError(f"{min(unknown)} is no column of {table.name}, so it belongs into extra")
    table.row_of({table.names[0]: id_, **row})
    return row


def _publish(store: Store, kind: Kind, id_: str, row: Row, ops: Sequence[Row] = ()) -> Entry:
    store.home.remove(entry_folder(kind, id_))
    return write_entry(store.home, kind, id_, row, [{TRACE_OPS.name: TRACE_OPS.rows(ops)}] if ops else [])


def publish_into(
    module: str, about: str, publish: Callable[[Store], Sized], noun: str, arguments: Sequence[str] | None = None
) -> int:
    """``python -m MODULE --into PLACE``: what reports state, put into a store."""
    parser = ToolParser(prog=f"python -m {module}", description=about.split("\n")[0])
    parser.add_argument("--into", type=Path, required=True, help="the store's folder, such as data/demo")
    into = parser.parse_args(arguments).into
    return run_tool(lambda: log.info("%d %s in %s", len(publish(Store(Files(into)))), noun, into))


def main(arguments: Sequence[str] | None = None) -> int:
    def publish(store: Store) -> list[Entry]:
        return [*publish_reported(store), *publish_traces(store)]

    return publish_into("tools.reported", __doc__ or "", publish, "runs and traces", arguments)


if __name__ == "__main__":
    raise SystemExit(main())
