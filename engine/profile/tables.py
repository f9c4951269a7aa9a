"""Traces that were summed up already: tables of name, count, total_ms, avg_ms, one operation per line.

Separated by tabs or commas, with or without a header. Such a trace has no timeline, no gaps and no joins. Its sums are
the table's; lines whose average does not match their total are counted in a warning.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from io import StringIO, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.errors import FileFormatError, shown
from engine.figures.words import counted, listed
from engine.profile.families import HOST_WORK, OTHERS, PROFILER, Families, short_name
from engine.store.trace_schema import TRACE_OPS
from engine.user_files import open_file

PLACES = {"name": 0, "count": 1, "total_ms": 2, "avg_ms": 3}
MOST_LINES, MOST_CALLS, MOST_MS = 200_000, 2**53, 2**63 // 1_000_000
LOOKED_AT_BYTES = 64 * 1024
MOST_NAMES, MOST_NAMED = 3, 60
_SPELLED = {"calls": "count", "kernel": "name", "operation": "name", "total": "total_ms", "total (ms)": "total_ms",
            "mean_ms": "avg_ms", "avg (ms)": "avg_ms", "average_ms": "avg_ms"}  # fmt: skip
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_TEXT = re.compile(rb"[^\x00-\x08\x0e-\x1f]*")


def looks_like_a_table(path: Path) -> bool:
    """By its first lines, of which one may be damaged; False for a file that cannot be read."""
    try:
        with open_file(path) as file:
            start = file.read(LOOKED_AT_BYTES)
    except (OSError, FileFormatError):
        return False
    if start.lstrip()[:1] in (b"{", b"[", b"") or not _TEXT.fullmatch(start):
        return False
    lines = [line for _, line in islice(_filled(StringIO(start.decode("utf-8-sig", "replace"), newline=None)), 2)]
    cells = [_cells(line, mark) for line in lines for mark in "\t,"]
    return any(_head(some) for some in cells[:2]) or any(map(_is_row, cells))


def read_table(path: Path, trace_id: str, families: Families) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """The table of operations, and columns of the trace's own row."""
    rows, odd = _rows(path)
    named = [families.of_name(name) for name, _, _ in rows]
    has_device = any(side == "device" for side, _ in named)
    operations = []
    for number, ((name, calls, total_ns), (side, family)) in enumerate(zip(rows, named, strict=True)):
        family = HOST_WORK if side == "host" and has_device else family
        operations.append(operation_row(trace_id, number, side, family, name, short_name(name), calls, total_ns))
    work = [row for row in operations if row["side"] == ("device" if has_device else "host")]
    total = sum(row["total_ns"] for row in work)
    other = sum(row["total_ns"] for row in work if row["family"] == "other")
    figures: dict[str, Any] = {
        "form": "table",
        "events": sum(row["calls"] for row in operations),
        "device_us": total / 1000 if has_device else None,
        "other_share": other / total if total else None,
        "warnings": "\n".join(_warnings(operations, total, odd)) or None,
    }
    return {TRACE_OPS.name: TRACE_OPS.rows(operations)}, figures


def _warnings(operations: Sequence[Mapping[str, Any]], work_ns: int, odd: int) -> Iterator[str]:
    """What is odd, what was set apart, and a sum of work that is longer than what was recorded."""
    if odd:
        yield f"lines whose average is not the total over the count: {odd:,}"
    marks = [row for row in operations if row["side"] == "mark"]
    unclear = sorted((row for row in marks if row["family"] == OTHERS["mark"]), key=lambda row: -row["total_ns"])
    if unclear:
        names = [shown(row["name"], MOST_NAMED) for row in unclear]
        more = [f"{len(names) - MOST_NAMES:,} more"] if len(names) > MOST_NAMES else []
        total_ms = sum(row["total_ns"] for row in unclear) / 1e6
        yield (
            f"{counted(len(names), 'name')} may be spans, not kernels, and left out of the work: "
            f"{listed(names[:MOST_NAMES] + more)} ({total_ms:,.0f} ms); a kernel among them needs a rule of your own"
        )
    span_ns = max((row["total_ns"] for row in marks if row["family"] == PROFILER), default=0)
    if 0 < span_ns < work_ns and any(row["side"] == "device" for row in operations):
        yield (
            f"the kernels' {work_ns / 1e6:,.0f} ms are more than the profiler's own {span_ns / 1e6:,.0f} ms: they "
            "overlap, or some of them are spans"
        )


def operation_row(
    trace_id: str, number: int, side: str, family: str, name: str, short: str, calls: int, total_ns: int
) -> dict[str, Any]:
    """A row of ``trace_ops`` of which only the sums are known."""
    row = {"trace_id": trace_id, "op": number, "side": side, "family": family, "name": name, "short_name": short}
    return row | {"calls": calls, "total_ns": total_ns, "total_us": total_ns / 1000}


def _rows(path: Path) -> tuple[list[tuple[str, int, int]], int]:
    """Name, count and nanoseconds of each line, and the number of lines whose average does not match."""
    with TextIOWrapper(open_file(path), encoding="utf-8-sig", errors="replace") as file:
        filled = list(islice(_filled(file), MOST_LINES + 1))
    if len(filled) > MOST_LINES:
        raise FileFormatError(f"{shown(path, 200)} has over {MOST_LINES:,} lines", "Give one line for each operation")
    mark = "\t" if "\t" in filled[0][1] else ","
    places = _head(_cells(filled[0][1], mark))
    found, odd = [], 0
    for number, line in filled[bool(places) :]:
        try:
            name, calls, total_ns, is_odd = _row(_cells(line, mark), places or PLACES)
        except (ValueError, IndexError, ArithmeticError) as error:
            what = f"{shown(path, 200)}, line {number}: {shown(line)} is no name, count, total_ms, avg_ms"
            raise FileFormatError(what, "Fix the file") from error
        found.append((name, calls, total_ns))
        odd += is_odd
    if not found:
        raise FileFormatError(f"{shown(path, 200)} has a header and no line", "Give a table of operations")
    if sum(calls for _, calls, _ in found) > MOST_CALLS or sum(ns for _, _, ns in found) >= 2**63:
        raise FileFormatError(f"{shown(path, 200)} adds up to over 2^53 calls or 292 years", "Fix the file")
    return found, odd


def _filled(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Lines that are neither empty nor a comment, by number."""
    return ((number, line.rstrip("\n")) for number, line in enumerate(lines, 1) if line.strip() and line[0] != "#")


def _row(cells: Sequence[str], places: Mapping[str, int]) -> tuple[str, int, int, bool]:
    name, calls = cells[places["name"]].strip(), _number(cells[places["count"]])
    total = _number(cells[places["total_ms"]])
    if not name or not 0 <= calls <= MOST_CALLS or calls != calls.to_integral_value() or not 0 <= total <= MOST_MS:
        raise ValueError(name)  # before a number of 1e99999999 is written out
    is_odd = False
    if "avg_ms" in places:
        average = _number(cells[places["avg_ms"]])
        exponent = average.as_tuple().exponent
        half = Decimal(1).scaleb(exponent) if isinstance(exponent, int) else Decimal(0)
        # Within the average's own digits and one per cent.
        is_odd = calls > 0 and abs(average - total / calls) > half + abs(total / calls) / 100
    return name.encode("utf-8", "replace").decode(), int(calls), round(total * 1_000_000), is_odd


def _number(text: str) -> Decimal:
    plain = text.strip()
    found = Decimal(plain.replace(",", "") if _GROUPED.fullmatch(plain) else plain)
    if not found.is_finite():
        raise ValueError(text)
    return found


def _cells(line: str, mark: str) -> list[str]:
    try:
        return next(csv.reader([line.replace("\0", "")], delimiter=mark), [])
    except csv.Error:  # a cell of over 131,072 characters
        return []


def _head(cells: Sequence[str]) -> dict[str, int]:
    """Places of the columns; empty where this is no header."""
    names = [cell.strip().lower() for cell in cells]
    places = {_SPELLED.get(name, name): place for place, name in enumerate(names)}
    return places if {"name", "count", "total_ms"} <= places.keys() else {}


def _is_row(cells: Sequence[str]) -> bool:
    try:
        return len(cells) == len(PLACES) and bool(_row(cells, PLACES))
    except (ValueError, ArithmeticError):
        return False
