"""The traces that a report describes, as entries of a store: ``data/reported_traces.toml`` made into traces.

    python -m engine.profile.reported --into data/demo

Each has the operations that its report names and null for all else, and ``origin = reported``: its figures are not
measured ones. The file also holds figures that the report derived wrongly. Whether the counts are right is not known.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import shown
from engine.figures.statistics import quotient
from engine.paths import DATA, read_toml
from engine.profile.tables import operation_row
from engine.store.entries import NAME, Entry
from engine.store.reported import check_columns, publish_entry, publish_into
from engine.store.store import Store
from engine.store.trace_schema import TRACE, TRACE_OPS, TRACES

FILE = DATA / "reported_traces.toml"
Row = dict[str, Any]


def load_reported(path: Path = FILE) -> tuple[list[Row], list[Row]]:
    """Rows of ``traces``, each with ``operations``, rows of ``trace_ops``; and what was derived wrongly.

    A derived figure has what, stated, ours (None where the counts give nothing), unit, from, why.
    """
    return read_toml(path, "file of reported traces", _parsed)


def reported_counts() -> list[Row]:
    """What report 003 counts in its traces, a row a trace and operation."""
    return [
        {"trace": f"{trace['label']} (reported)", "what": op["name"], "calls": op["calls"], "total_us": op["total_us"],
         "mean_us": quotient(op["total_us"], op["calls"]), "a_token": quotient(op["calls"], trace.get("tokens"))}
        for trace in sorted(load_reported()[0], key=lambda trace: str(trace["trace_id"]))
        for op in trace["operations"]
    ]  # fmt: skip


def publish_reported(store: Store) -> list[Entry]:
    """Write the traces into the store, in place of what has their ids."""
    entries = []
    for trace in load_reported()[0]:
        row = {key: value for key, value in trace.items() if key != "operations"}
        operations = {TRACE_OPS.name: TRACE_OPS.rows(trace["operations"])}
        entries.append(publish_entry(store, TRACE, trace["trace_id"], row, operations))
    return entries


def _parsed(document: Mapping[str, Any]) -> tuple[list[Row], list[Row]]:
    traces = []
    for table in document["trace"]:
        trace_id, ops = table["trace_id"], table["op"]
        if not NAME.fullmatch(trace_id):
            raise ValueError(f"{shown(trace_id)} is no trace_id")
        row = {"origin": "reported", "form": "table"} | {key: value for key, value in table.items() if key != "op"}
        row["events"] = sum(op["calls"] for op in ops)
        check_columns(TRACES, row)
        row["operations"] = [
            operation_row(trace_id, number, op["side"], op["family"], op["name"], op["name"], op["calls"],
                          round(op["total_s"] * 1_000_000_000))
            for number, op in enumerate(ops)
        ]  # fmt: skip
        traces.append(row)
    derived = [{"ours": None, "from": "", **row, "why": " ".join(row["why"].split())} for row in document["derived"]]
    return traces, derived


def main(arguments: Sequence[str] | None = None) -> int:
    return publish_into("engine.profile.reported", __doc__ or "", publish_reported, "traces", arguments)


if __name__ == "__main__":
    sys.exit(main())
