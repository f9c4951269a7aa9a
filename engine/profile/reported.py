"""The traces that a report tells of, as entries of a store: ``data/reported_traces.toml`` made into traces.

    python -m engine.profile.reported --into data/demo

Each has the operations that its report names and null for all else, and ``origin = reported``, so that nobody takes its
figures for measured ones. The file also holds figures that the report derived and got wrong; whether the counts
themselves are right is not known here.
"""

from __future__ import annotations

import logging
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import FileFormatError, shown
from engine.paths import DATA
from engine.store.entries import NAME, Entry
from engine.store.reported import publish_into
from engine.store.staging import Staging
from engine.store.store import Store
from engine.store.trace_schema import TRACE, TRACE_OPS, TRACES

log = logging.getLogger(__name__)

FILE = DATA / "reported_traces.toml"
ORIGIN, FORM = "reported", "table"


@dataclass(frozen=True, slots=True)
class ReportedTrace:
    """``row`` has columns of ``traces``, ``operations`` rows of ``trace_ops``."""

    trace_id: str
    row: Mapping[str, Any]
    operations: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Derived:
    """A figure that the report derived, and what the same counts give. ``ours`` is None where they give nothing."""

    what: str
    claim: str  # its id among the claims
    stated: float
    unit: str
    ours: float | None
    computed_from: str
    why: str


@dataclass(frozen=True, slots=True)
class Reported:
    traces: tuple[ReportedTrace, ...]
    derived: tuple[Derived, ...]


def load_reported(path: Path = FILE) -> Reported:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        traces = tuple(map(_trace, document["trace"]))
        derived = tuple(map(_derived, document.get("derived", [])))
    except OSError as error:
        raise FileFormatError(f"{shown(path, 200)} cannot be read: {error.strerror}", "Check its path") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{shown(path, 200)} is no file of reported traces: {error}", "Mend it there") from error
    return Reported(traces, derived)


def publish_reported(store: Store, traces: Sequence[ReportedTrace] | None = None) -> list[Entry]:
    """Write the traces into the store, in place of what stands there under their ids."""
    return [_publish(store, one) for one in (load_reported().traces if traces is None else traces)]


def _publish(store: Store, one: ReportedTrace) -> Entry:
    store.home.remove(f"{TRACE.folder}/{TRACE.key}={one.trace_id}")
    staging = Staging.create(store.home, TRACE, one.trace_id, one.row)
    try:
        staging.add({TRACE_OPS.name: TRACE_OPS.rows(one.operations)})
        return staging.publish({})
    except BaseException:
        staging.abandon()
        raise


def _trace(table: Mapping[str, Any]) -> ReportedTrace:
    trace_id = table["trace_id"]
    if not NAME.fullmatch(trace_id):
        raise ValueError(f"{shown(trace_id)} is no trace_id")
    row = {"origin": ORIGIN, "form": FORM} | {key: value for key, value in table.items() if key != "op"}
    operations = tuple(_operation(trace_id, number, one) for number, one in enumerate(table["op"]))
    row["events"] = sum(one["calls"] for one in operations)
    columns = {column.name: column for column in TRACES}
    for name, value in row.items():
        if name not in columns:
            raise ValueError(f"{trace_id}: {name} is no column of traces")
        columns[name].value(value)  # of another type: TypeError
    return ReportedTrace(trace_id, row, operations)


def _operation(trace_id: str, number: int, table: Mapping[str, Any]) -> dict[str, Any]:
    total_ns = round(table["total_s"] * 1_000_000_000)
    return {
        "trace_id": trace_id,
        "op": number,
        "side": table["side"],
        "family": table["family"],
        "name": table["name"],
        "short_name": table["name"],
        "calls": table["calls"],
        "total_ns": total_ns,
        "total_us": total_ns / 1000,
    }


def _derived(table: Mapping[str, Any]) -> Derived:
    ours, origin = table.get("ours"), table.get("from", "")
    if (ours is None) != (not origin):
        raise ValueError(f"{table['what']}: what is ours has to say from what")
    return Derived(
        table["what"],
        table["claim"],
        float(table["stated"]),
        table["unit"],
        None if ours is None else float(ours),
        origin,
        table["why"],
    )


def main(arguments: Sequence[str] | None = None) -> int:
    return publish_into("engine.profile.reported", __doc__ or "", publish_reported, "traces", arguments)


if __name__ == "__main__":
    sys.exit(main())
