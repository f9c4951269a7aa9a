"""The runs that the reports tell of, as entries of a store without samples: ``data/reported_runs.toml`` made into runs.

    python -m engine.store.reported --into data/demo

Each run has what its report states and null for the rest, and ``origin = reported``, so that nobody takes its figures
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
from engine.store.entries import NAME, Entry
from engine.store.files import LocalFiles
from engine.store.schema import RUN, RUNS, Kind, Table
from engine.store.store import Store
from engine.store.writing import write_entry

log = logging.getLogger(__name__)

RUNS_FILE = DATA / "reported_runs.toml"
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


def main(arguments: Sequence[str] | None = None) -> int:
    return publish_into("engine.store.reported", __doc__ or "", publish_reported, "runs", arguments)


def check_columns(table: Table, row: Mapping[str, Any]) -> None:
    """ValueError for a name that is no column of the table, TypeError for a value of another type."""
    columns = {column.name: column for column in table}
    for name, value in row.items():
        if name not in columns:
            raise ValueError(f"{name} is no column of {table.name}")
        columns[name].value(value)


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
