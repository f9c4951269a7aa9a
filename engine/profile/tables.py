"""Traces that were summed up already: tables of name, count, total_ms, avg_ms, one operation per line.

Separated by tabs or commas, with or without a header. Such a trace has no timeline, no gaps and no joins. Its sums are
the table's.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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
LOOKED_AT_BYTES, MOST_CHARS = 64 * 1024, 100_000
MOST_NAMES, MOST_NAMED = 3, 60
_SPELLED = {"calls": "count", "kernel": "name", "operation": "name", "total": "total_ms", "total (ms)": "total_ms",
            "mean_ms": "avg_ms", "avg (ms)": "avg_ms", "average_ms": "avg_ms"}  # fmt: skip
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def looks_like_a_table(path: Path) -> bool:
    """By its first two lines, of which one may be damaged."""
    with open_file(path) as file:
        start = file.read(LOOKED_AT_BYTES)
    if start.lstrip()[:1] in (b"{", b"[", b"") or _BINARY.search(start):
        return False
    first = [cells for _, cells in islice(_lines(StringIO(start.decode("utf-8-sig", "replace"), newline=None)), 2)]
    return bool(first) and (
        bool(_head(first[0])) or any(len(cells) == len(PLACES) and _is_row(cells) for cells in first)
    )


def read_table(path: Path, trace_id: str, families: Families) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """The table of operations, and columns of the trace's own row."""
    rows = _rows(path)
    named = [families.of_name(name) for name, _, _ in rows]
    has_device = any(side == "device" for side, _ in named)
    operations: list[dict[str, Any]] = [
        {"trace_id": trace_id, "op": number, "side": side, "name": name, "short_name": short_name(name),
         "family": HOST_WORK if side == "host" and has_device else family,
         "calls": calls, "total_ns": total_ns, "total_us": total_ns / 1000}
        for number, ((name, calls, total_ns), (side, family)) in enumerate(zip(rows, named, strict=True))
    ]  # fmt: skip

    def summed_ns(side: str, family: str = "") -> int:
        return sum(one["total_ns"] for one in operations if one["side"] == side and family in ("", one["family"]))

    work = "device" if has_device else "host"
    total, unclear_ns = summed_ns(work), summed_ns("mark", OTHERS["mark"])
    warnings = []
    if unclear_ns:  # what was set apart
        unclear = [one for one in operations if (one["side"], one["family"]) == ("mark", OTHERS["mark"])]
        names = [shown(one["name"], MOST_NAMED) for one in sorted(unclear, key=lambda one: -one["total_ns"])]
        more = [f"{len(names) - MOST_NAMES:,} more"] if len(names) > MOST_NAMES else []
        warnings.append(
            f"{counted(len(names), 'name')} may be spans, not kernels, and left out of the work: "
            f"{listed(names[:MOST_NAMES] + more)} ({unclear_ns / 1e6:,.0f} ms); a kernel among them needs a rule of "
            "your own"
        )
    spans = [one["total_ns"] for one in operations if (one["side"], one["family"]) == ("mark", PROFILER)]
    if has_device and 0 < max(spans, default=0) < total:
        warnings.append(
            f"the kernels' {total / 1e6:,.0f} ms are more than the profiler's own {max(spans) / 1e6:,.0f} ms: they "
            "overlap, or some of them are spans"
        )
    figures: dict[str, Any] = {
        "form": "table",
        "events": sum(one["calls"] for one in operations),
        "device_us": total / 1000 if has_device else None,
        "other_share": summed_ns(work, "other") / total if total else None,
        "warnings": "\n".join(warnings) or None,
    }
    return {TRACE_OPS.name: TRACE_OPS.rows(operations)}, figures


def _rows(path: Path) -> list[tuple[str, int, int]]:
    """Name, count and nanoseconds of each line."""
    with TextIOWrapper(open_file(path), encoding="utf-8-sig", errors="replace") as file:
        filled = list(islice(_lines(file), MOST_LINES + 1))
    if len(filled) > MOST_LINES:
        raise FileFormatError(f"{shown(path, 200)} has over {MOST_LINES:,} lines", "Give one line for each operation")
    places, found = _head(filled[0][1]), []
    for number, cells in filled[bool(places) :]:
        try:
            found.append(_row(cells, places or PLACES))
        except (ValueError, IndexError, ArithmeticError) as error:
            what = f"{shown(path, 200)}, line {number}: {shown(' '.join(cells))} is no name, count, total_ms, avg_ms"
            raise FileFormatError(what, "Fix the file") from error
    if not found:
        raise FileFormatError(f"{shown(path, 200)} has a header and no line", "Give a table of operations")
    if sum(calls for _, calls, _ in found) > MOST_CALLS or sum(ns for _, _, ns in found) >= 2**63:
        raise FileFormatError(f"{shown(path, 200)} adds up to over 2^53 calls or 292 years", "Fix the file")
    return found


def _lines(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line that is neither empty nor a comment, with its number; the first shows the separator."""
    mark = ""
    for number, line in enumerate(lines, 1):
        if line.strip() and line[0] != "#":
            mark = mark or ("\t" if "\t" in line else ",")
            yield number, next(csv.reader([line[:MOST_CHARS].replace("\0", "")], delimiter=mark), [])


def _row(cells: Sequence[str], places: Mapping[str, int]) -> tuple[str, int, int]:
    name, (calls, total_ms) = cells[places["name"]].strip(), (_number(cells[places[n]]) for n in ("count", "total_ms"))
    if "avg_ms" in places:
        _number(cells[places["avg_ms"]])
    if not name or calls > MOST_CALLS or calls != calls.to_integral_value() or total_ms > MOST_MS:
        raise ValueError(name)
    return name.encode("utf-8", "replace").decode(), int(calls), round(total_ms * 1_000_000)


def _number(text: str) -> Decimal:
    plain = text.strip()
    found = Decimal(plain.replace(",", "") if _GROUPED.fullmatch(plain) else plain)
    if not 0 <= found < 2**63:  # before a number of 1e99999999 is written out; NaN raises by itself
        raise ValueError(text)
    return found


def _head(cells: Sequence[str]) -> dict[str, int]:
    """Places of the columns; empty where this is no header."""
    names = [cell.strip().lower() for cell in cells]
    places = {_SPELLED.get(name, name): place for place, name in enumerate(names)}
    return places if {"name", "count", "total_ms"} <= places.keys() else {}


def _is_row(cells: Sequence[str]) -> bool:
    with suppress(ValueError, ArithmeticError):
        return bool(_row(cells, PLACES))
    return False
