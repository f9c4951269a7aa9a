"""The traces that a report describes, as entries of a store: ``data/reported_traces.toml`` made into traces.

    python -m engine.profile.reported --into data/demo

Each has the operations that its report names and null for all else, and ``origin = reported``: its figures are not
measured ones. The file also holds figures that the report derived wrongly. Whether the counts are right is not known.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import shown
from engine.paths import DATA, read_toml
from engine.profile.tables import operation_row
from engine.store.entries import NAME, Entry
from engine.store.reported import check_columns, publish_entry, publish_into
from engine.store.store import Store
from engine.store.trace_schema import TRACE, TRACE_OPS, TRACES

FILE = DATA / "reported_traces.toml"


@dataclass(frozen=True, slots=True)
class ReportedTrace:
    """``row`` has columns of ``traces``, ``operations`` rows of ``trace_ops``."""

    trace_id: str
    row: Mapping[str, Any]
    operations: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class DerivedFigure:
    """A figure that the report derived, and what the same counts give. ``ours`` is None where they give nothing."""

    what: str
    claim: str  # its id among the claims
    stated: float
    unit: str
    ours: float | None
    computed_from: str
    why: str


@dataclass(frozen=True, slots=True)
class ReportedTraces:
    traces: tuple[ReportedTrace, ...]
    derived: tuple[DerivedFigure, ...]


def load_reported(path: Path = FILE) -> ReportedTraces:
    return read_toml(path, "file of reported traces", _parsed)


def publish_reported(store: Store, traces: Sequence[ReportedTrace] | None = None) -> list[Entry]:
    """Write the traces into the store, in place of what has their ids."""
    return [
        publish_entry(store, TRACE, trace.trace_id, trace.row, {TRACE_OPS.name: TRACE_OPS.rows(trace.operations)})
        for trace in (load_reported().traces if traces is None else traces)
    ]


def _parsed(document: Mapping[str, Any]) -> ReportedTraces:
    traces, derived = document["trace"], document.get("derived", [])
    return ReportedTraces(tuple(map(_trace, traces)), tuple(map(_derived, derived)))


def _trace(table: Mapping[str, Any]) -> ReportedTrace:
    trace_id = table["trace_id"]
    if not NAME.fullmatch(trace_id):
        raise ValueError(f"{shown(trace_id)} is no trace_id")
    operations = tuple(_operation(trace_id, number, op) for number, op in enumerate(table["op"]))
    row = {"origin": "reported", "form": "table"} | {key: value for key, value in table.items() if key != "op"}
    row["events"] = sum(op["calls"] for op in operations)
    check_columns(TRACES, row)
    return ReportedTrace(trace_id, row, operations)


def _operation(trace_id: str, number: int, table: Mapping[str, Any]) -> dict[str, Any]:
    side, family, name, calls = (table[key] for key in ("side", "family", "name", "calls"))
    return operation_row(trace_id, number, side, family, name, name, calls, round(table["total_s"] * 1_000_000_000))


def _derived(table: Mapping[str, Any]) -> DerivedFigure:
    ours, origin = table.get("ours"), table.get("from", "")
    if (ours is None) != (not origin):
        raise ValueError(f"{table['what']}: a figure of ours names what it is computed from")
    what, claim, unit, why = (table[name] for name in ("what", "claim", "unit", "why"))
    stated = float(table["stated"])
    return DerivedFigure(what, claim, stated, unit, None if ours is None else float(ours), origin, why)


def main(arguments: Sequence[str] | None = None) -> int:
    return publish_into("engine.profile.reported", __doc__ or "", publish_reported, "traces", arguments)


if __name__ == "__main__":
    sys.exit(main())
