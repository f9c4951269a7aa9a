"""Operations as rows: for the page's table, stream by stream, and as a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import streamlit as st

from engine.figures.words import number
from engine.profile.compare import KernelRow, TraceComparison
from engine.profile.stored_trace import StoredTrace, Totals
from engine.profile.words import is_alone
from pages._shared.html_table import ColumnGroup, TableCell, TableRow
from pages._shared.table_files import csv_text
from pages._shared.words import visible_text

MOST_NAME = 120
KEY_LENGTH = 12


def key_of(row: KernelRow) -> str:
    """Names it in an address: its own name may be too long for one."""
    return hashlib.sha256(row.name.encode("utf-8", "surrogatepass")).hexdigest()[:KEY_LENGTH]


def sorted_rows(rows: Sequence[KernelRow], comparison: TraceComparison, *, by_calls: bool) -> list[KernelRow]:
    """The largest difference first; of a trace alone the largest."""
    return sorted(rows, key=lambda row: (-abs(size(row, comparison, by_calls=by_calls)), row.name))


def size(row: KernelRow, comparison: TraceComparison, *, by_calls: bool) -> float:
    """What is sorted and drawn: calls, or microseconds."""
    if is_alone(comparison):
        return row.control.calls if by_calls else row.control.total_us
    return row.test.calls - row.control.calls if by_calls else row.difference_us


def short(row: KernelRow) -> str:
    name = visible_text(row.short_name)
    return name if len(name) <= MOST_NAME else name[: MOST_NAME - 1] + "…"


def shown(comparison: TraceComparison, rows: Sequence[KernelRow]) -> pa.Table:
    """For the page."""
    if is_alone(comparison):
        whole = sum(row.control.total_us for row in comparison.kernels)
        told = {
            "name": [short(row) for row in rows],
            "family": [row.family for row in rows],
            "ms": [row.control.total_us / 1000 for row in rows],
            "share": [100 * row.control.total_us / whole if whole > 0 else None for row in rows],
            "calls": [row.control.calls for row in rows],
            "each": [row.control.mean_us for row in rows],
        }
        return pa.table(told)
    told = {
        "name": [short(row) for row in rows],
        "family": [row.family for row in rows],
        "change": [row.change for row in rows],
        "difference": [row.difference_us / 1000 for row in rows],
        "ms_a": [_ms(row.control) for row in rows],
        "ms_b": [_ms(row.test) for row in rows],
        "ms_x": [_ratio(row.control.total_us, row.test.total_us) for row in rows],
        "calls_a": [row.control.calls for row in rows],
        "calls_b": [row.test.calls for row in rows],
        "calls_x": [_ratio(row.control.calls, row.test.calls) for row in rows],
        "each_a": [row.control.mean_us for row in rows],
        "each_b": [row.test.mean_us for row in rows],
    }
    return pa.table(told)


def _ms(totals: Totals) -> float | None:
    return totals.total_us / 1000 if totals.calls else None


def _ratio(control: float, test: float) -> float | None:
    return test / control if control else None


def columns(comparison: TraceComparison) -> dict[str, Any]:
    config = st.column_config
    number_of = config.NumberColumn
    said: dict[str, Any] = {
        "name": config.TextColumn("operation", width=270, pinned=True, help="Short; tick the row for the full name"),
        "family": config.TextColumn("family", width=90),
    }
    if is_alone(comparison):
        return said | {
            "ms": number_of("time, ms", width=90, format="%.3f"),
            "share": config.ProgressColumn("share", width=110, format="%.1f %%", min_value=0, max_value=100),
            "calls": number_of("calls", width=90, format="localized"),
            "each": number_of("each, µs", width=90, format="%.2f"),
        }
    return said | {
        "change": config.TextColumn("calls in B", width=76, help="added, gone, grown, shrunk or the same, by calls"),
        "difference": number_of("B − A, ms", width=84, format="%+.3f", help="Difference of time"),
        "ms_a": number_of("A, ms", width=80, format="%.3f"),
        "ms_b": number_of("B, ms", width=80, format="%.3f"),
        "ms_x": number_of("× time", width=66, format="%.3g×", help="B over A"),
        "calls_a": number_of("A, calls", width=76, format="localized"),
        "calls_b": number_of("B, calls", width=76, format="localized"),
        "calls_x": number_of("× calls", width=66, format="%.3g×", help="B over A"),
        "each_a": number_of("A, each µs", width=86, format="%.2f"),
        "each_b": number_of("B, each µs", width=86, format="%.2f"),
    }


def by_stream(comparison: TraceComparison, row: KernelRow) -> tuple[list[ColumnGroup], list[TableRow]]:
    """A line a trace and stream."""
    names = ("time, ms", "calls", "each, µs", "shortest, µs", "longest, µs", "after its launch, µs")
    traces = [("", comparison.control)] if is_alone(comparison) else [("A", comparison.control), ("B", comparison.test)]
    lines = [_stream(letter, one) for letter, trace in traces for one in _rows_of(trace, row.name)]
    return [ColumnGroup(name) for name in names], lines


def _rows_of(trace: StoredTrace, name: str) -> list[Mapping[str, Any]]:
    return sorted((one for one in trace.work if one["name"] == name), key=lambda one: -one["total_us"])


def _stream(letter: str, one: Mapping[str, Any]) -> TableRow:
    where = f"stream {one['stream']}" if one["stream"] not in (None, "") else "no stream"
    device = f"device {one['device']}" if one["device"] not in (None, "") else ""
    launched = one["launched"]
    time_us = one["total_us"] if one["self_us"] is None else one["self_us"]
    values = (
        time_us / 1000,
        one["calls"],
        time_us / one["calls"] if one["calls"] else None,
        one["min_us"],
        one["max_us"],
        one["delay_us"] / launched if launched and one["delay_us"] is not None else None,
    )
    name = ", ".join(part for part in (letter, device, where) if part)
    return TableRow(name, tuple(TableCell(number(value)) for value in values))


def csv_of(comparison: TraceComparison) -> str:
    """All operations, with whole names."""
    if is_alone(comparison):
        rows = [
            (row.name, row.short_name, row.family, row.control.calls, row.control.total_us, row.control.mean_us)
            for row in comparison.kernels
        ]
        return csv_text(("name", "short_name", "family", "calls", "total_us", "mean_us"), rows)
    return csv_text(_NAMES, map(_csv_row, comparison.kernels))


_NAMES = (
    *("name", "short_name", "family", "change", "calls_control", "calls_test", "calls_ratio"),
    *("total_us_control", "total_us_test", "total_us_ratio", "mean_us_control", "mean_us_test", "difference_us"),
)


def _csv_row(row: KernelRow) -> tuple[object, ...]:
    one, other = row.control, row.test
    calls = (one.calls, other.calls, _ratio(one.calls, other.calls))
    times = (one.total_us, other.total_us, _ratio(one.total_us, other.total_us))
    return (row.name, row.short_name, row.family, row.change, *calls, *times, one.mean_us, other.mean_us,
            row.difference_us)  # fmt: skip
