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
import tomllib
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from engine.errors import DriftscopeError, FileFormatError, shown
from engine.paths import DATA
from engine.store.entries import NAME, Entry
from engine.store.files import LocalFiles
from engine.store.schema import RUN, RUNS
from engine.store.staging import Staging
from engine.store.store import Store

log = logging.getLogger(__name__)

RUNS_FILE = DATA / "reported_runs.toml"
ORIGIN = "reported"
_PLACE = ("report", "section")
_OURS = ("run_id", "origin", "source", "extra")


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """One run as one report states it. ``row`` has columns of ``runs``, as JSON values."""

    run_id: str
    report: str
    section: str
    row: Mapping[str, Any]


def load_reported(path: Path = RUNS_FILE) -> list[ReportedRun]:
    """The runs in the file's order; an error names the one that is wrong."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))["run"]
        found = [_run(table) for table in tables]
    except OSError as error:
        raise FileFormatError(f"{shown(path, 200)} cannot be read: {error.strerror}", "Check its path") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{shown(path, 200)} is no file of reported runs: {error}", "Mend it there") from error
    ids = [run.run_id for run in found]
    twice = next((id_ for id_ in ids if ids.count(id_) > 1), None)
    if twice is not None:
        raise FileFormatError(f"{shown(path, 200)} has {shown(twice)} twice", "Two reports on one run get two ids")
    return found


def publish_reported(store: Store, runs: Sequence[ReportedRun] | None = None) -> list[Entry]:
    """Write the runs into the store, in place of what stands there under their ids."""
    return [_publish(store, run) for run in (load_reported() if runs is None else runs)]


def _publish(store: Store, run: ReportedRun) -> Entry:
    store.home.remove(f"{RUN.folder}/{RUN.key}={run.run_id}")
    staging = Staging.create(store.home, RUN, run.run_id, run.row)
    try:
        return staging.publish({})
    except BaseException:
        staging.abandon()
        raise


def _run(table: Mapping[str, Any]) -> ReportedRun:
    run_id, report, section = (table[key] for key in ("run_id", *_PLACE))
    if not NAME.fullmatch(run_id):
        raise ValueError(f"{shown(run_id)} is no run_id")
    said = {key: value for key, value in table.items() if key not in (*_OURS, *_PLACE)}
    unknown = [key for key in said if key not in RUNS.names]
    if unknown:
        raise ValueError(f"{run_id}: {unknown[0]} is no column of runs, so it belongs into extra")
    if len(report) != 3 or not report.isdigit() or not section:
        raise ValueError(f"{run_id}: report and section say where it stands, such as 002 and 1.1")
    row = {"origin": ORIGIN, "source": f"report {report}, section {section}"}
    row |= {key: value.isoformat() if isinstance(value, date) else value for key, value in said.items()}
    if "extra" in table:
        row["extra"] = json.dumps(table["extra"], ensure_ascii=False, sort_keys=True)
    for column in RUNS:
        if column.name in row:
            column.value(row[column.name])  # of another type: TypeError
    return ReportedRun(run_id, report, section, row)


def main(arguments: Sequence[str] | None = None) -> int:
    return publish_into("engine.store.reported", __doc__ or "", publish_reported, "runs", arguments)


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
