"""Operations as rows: for the page's table, stream by stream, and as a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import streamlit as st

from engine.figures.statistics import quotient
from engine.figures.words import number, shortened
from engine.profile.compare import Change, KernelRow, TraceComparison, kernel_row
from engine.profile.stored_trace import StoredTrace, Totals
from engine.profile.words import is_alone
from pages._shared.html_table import ColumnGroup, TableCell, TableRow
from pages._shared.table_files import csv_text
from pages._shared.words import visible_text

MOST_NAME = 120
KEY_LENGTH = 12
CHANGES: dict[str, Change] = {
    "only in B": "added",
    "only in A": "gone",
    "more calls": "grown",
    "fewer calls": "shrunk",
    "as many calls": "same",
}
_WORDS = {change: words for words, change in CHANGES.items()}


def key_of(row: KernelRow) -> str:
    """Names it in an address: its own name may be too long for one."""
    return hashlib.sha256(row.name.encode("utf-8", "surrogatepass")).hexdigest()[:KEY_LENGTH]


def short(row: KernelRow) -> str:
    return shortened(visible_text(row.short_name), MOST_NAME)


Column = tuple[Callable[[KernelRow], object], Any]  # a cell's value, and the column's look


BY_TIME = ("name", "difference", "ms_a", "ms_b", "calls_a", "calls_b", "family")
BY_CALLS = ("name", "calls_a", "calls_b", "calls_x", "difference", "family")
"""Columns of two traces that come first, by what the rows are sorted by: not all of them fit a small window."""


def shown(comparison: TraceComparison, rows: Sequence[KernelRow], *, by_calls: bool) -> tuple[pa.Table, dict[str, Any]]:
    """For the page: the rows, and how their columns look, the most important first."""
    columns = _columns(comparison)
    first: Sequence[str] = () if is_alone(comparison) else BY_CALLS if by_calls else BY_TIME
    columns = {name: columns[name] for name in (*first, *columns)}
    table = pa.table({name: [value(row) for row in rows] for name, (value, _) in columns.items()})
    return table, {name: look for name, (_, look) in columns.items()}


def _columns(comparison: TraceComparison) -> dict[str, Column]:
    text, figure = st.column_config.TextColumn, st.column_config.NumberColumn
    columns: dict[str, Column] = {
        "name": (short, text("operation", width=190, pinned=True, help="Short; tick the row for the full name")),
        "family": (lambda row: row.family, text("family", width=84)),
    }
    if is_alone(comparison):
        whole = max(0.0, sum(row.control.total_us for row in comparison.kernels))
        share = st.column_config.ProgressColumn("share", width=110, format="%.1f %%", min_value=0, max_value=100)
        return columns | {
            "ms": (lambda row: row.control.total_us / 1000, figure("time, ms", width=90, format="%.3f")),
            "share": (lambda row: quotient(row.control.total_us, whole, 100), share),
            "calls": (lambda row: row.control.calls, figure("calls", width=90, format="localized")),
            "each": (lambda row: row.control.mean_us, figure("each, µs", width=90, format="%.2f")),
        }
    change = text("calls in B", width=90, help="More, fewer or as many as in A, or only in one of them")
    difference = figure("B − A, ms", width=80, format="%+.3f", help="Difference of time")
    time_ratio, calls_ratio = (figure(f"× {what}", width=62, format="%.3g×", help="B over A")
                               for what in ("time", "calls"))  # fmt: skip
    return columns | {
        "change": (lambda row: _WORDS[row.change], change),
        "difference": (lambda row: row.difference_us / 1000, difference),
        "ms_a": (lambda row: _ms(row.control), figure("A, ms", width=74, format="%.3f")),
        "ms_b": (lambda row: _ms(row.test), figure("B, ms", width=68, format="%.3f")),
        "ms_x": (lambda row: quotient(row.test.total_us, row.control.total_us), time_ratio),
        "calls_a": (lambda row: row.control.calls, figure("A, calls", width=76, format="localized")),
        "calls_b": (lambda row: row.test.calls, figure("B, calls", width=76, format="localized")),
        "calls_x": (lambda row: quotient(row.test.calls, row.control.calls), calls_ratio),
        "each_a": (lambda row: row.control.mean_us, figure("A, each µs", width=86, format="%.2f")),
        "each_b": (lambda row: row.test.mean_us, figure("B, each µs", width=86, format="%.2f")),
    }


def _ms(totals: Totals) -> float | None:
    return totals.total_us / 1000 if totals.calls else None


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
    names = ["name", "short_name", "family", "calls", "total_us", "mean_us"]
    if not is_alone(comparison):
        names = [
            *("name", "short_name", "family", "change", "calls_control", "calls_test", "calls_ratio"),
            *("total_us_control", "total_us_test", "total_us_ratio", "mean_us_control", "mean_us_test"),
            "difference_us",
        ]
    rows = [kernel_row(row) for row in comparison.kernels]
    return csv_text(names, [[row.get(name, row.get(f"{name}_control")) for name in names] for row in rows])
