"""A trace as the store has it: its row and its operations, with sums of them.

Work is what devices did, or where a trace has no device, what operators did without those inside them. What a trace
does not know is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import StoreError
from engine.store.columns import REAL, Table
from engine.store.entries import Entry
from engine.store.inflated import StoredFileError, open_stored
from engine.store.trace_schema import TRACE_EVENTS, TRACE_OPS

Rows = Sequence[Mapping[str, Any]]
COMPUTE = ("attention", "gemm")
"""What the reports call real compute; all other work is overhead to them."""
MOST_US = 2**63 / 1000
"""Of a time: what the store holds of nanoseconds."""
SOME_TIMELESS = (TRACE_OPS, TRACE_EVENTS)
"""Tables whose rows may lack times."""


def stored_table(entry: Entry, table: Table) -> pa.Table | None:
    """One of the trace's tables; None where it has no such table."""
    if table.name not in entry.parts:
        return None
    try:
        with open_stored(entry.files, entry.folder, entry.parts[table.name], table) as file:
            rows = file.read().select(table.names).cast(table.schema)
    except StoredFileError as error:
        raise StoreError(f"{table.name} of {entry.id} is damaged: {error}", "Add the trace again") from error
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise StoreError(f"{table.name} of {entry.id} does not read", "Add the trace again") from error
    for column in table:
        if column.type == REAL:
            is_time = pc.less_equal(pc.abs(rows[column.name]), MOST_US)  # of no number it is false
            if table not in SOME_TIMELESS:
                is_time = is_time.fill_null(False)
            if not pc.all(is_time, min_count=0).as_py():
                raise damaged(entry, table, column.name)
    return rows


def damaged(entry: Entry, table: Table, column: str) -> StoreError:
    return StoreError(f"{table.name} of {entry.id} is damaged: its {column} is none of a trace", "Add the trace again")


@dataclass(frozen=True, slots=True)
class Totals:
    """Calls of something, and their time."""

    calls: int
    total_us: float

    @classmethod
    def of(cls, rows: Rows) -> Totals:
        """Of rows of ``trace_ops``: the time of operators is without those inside them."""
        times = [row["total_us"] if row.get("self_us") is None else row["self_us"] for row in rows]
        return cls(sum(row["calls"] for row in rows), sum(times))

    @property
    def mean_us(self) -> float | None:
        return self.total_us / self.calls if self.calls else None


def work_side(rows: Rows) -> str:
    """``device``, or ``host`` where no operation is of a device."""
    return "device" if any(row["side"] == "device" for row in rows) else "host"


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A trace's entry, and its rows of ``trace_ops``."""

    entry: Entry
    rows: Rows

    @classmethod
    def of(cls, entry: Entry) -> StoredTrace:
        operations = stored_table(entry, TRACE_OPS)
        if operations is None:
            raise StoreError(f"{entry.id} has no table of operations", "Look at it with `verify`, or add it again")
        return cls(entry, operations.to_pylist())

    @property
    def work_side(self) -> str:
        return work_side(self.rows)

    @property
    def work(self) -> list[Mapping[str, Any]]:
        return self.on(self.work_side)

    @property
    def is_whole(self) -> bool:
        """False for a reported trace: the report names some operations only."""
        return self.entry.row.get("origin") != "reported"

    def on(self, side: str) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if row["side"] == side]

    def known(self, name: str) -> float | None:
        """A figure of the trace's own row."""
        value = self.entry.row.get(name)
        return None if value is None else float(value)

    def totals(self, *families: str, side: str | None = None) -> Totals:
        """Of some families of the work, or of another side."""
        return Totals.of([row for row in self.on(side or self.work_side) if row["family"] in families])
