"""Traces that were summed up already: tables of name, count, total_ms, avg_ms, one operation per line.

Separated by tabs, semicolons or commas, with or without a header, with decimal points or commas. Such a trace has no
timeline, no gaps and no joins. Its sums are the table's.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.errors import FileError, shown
from engine.figures.statistics import quotient
from engine.figures.words import counted, fixed, listed
from engine.profile.families import HOST_WORK, PROFILER, Families
from engine.store.schema import TRACE_OPS
from engine.user_files import declared_separator, open_file

COLUMNS, NUMBERS = {"name": 0, "count": 1, "total_ms": 2}, ("count", "total_ms")
MOST_LINES, MOST_CALLS, MOST_MS = 200_000, 2**53, 2**63 // 1_000_000
LOOKED_AT_BYTES, MOST_CHARS = 64 * 1024, 100_000
MOST_NAMES, MOST_NAMED = 3, 60
_SPELLED = {"calls": "count", "kernel": "name", "operation": "name", "total": "total_ms", "total (ms)": "total_ms"}
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_POINTS = re.compile(r"\d{1,3}(?:\.\d{3})+")
_ONE_COMMA, _POINT = re.compile(r"[\d.]*\d,\d+"), re.compile(r"[\d,]*\d\.\d+")
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def looks_like_a_table(path: Path) -> bool:
    """A trace begins with a bracket, or is packed."""
    with open_file(path) as file:
        start = file.read(LOOKED_AT_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    return bool(start) and start[:1] not in (b"{", b"[") and not _BINARY.search(start)


def unclear_spans(operations: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was set apart from the work, largest first."""
    unclear = [op for op in operations if op["side"] == op["family"] == "mark" and op["total_ns"]]
    if not unclear:
        return []
    names = [shown(op["name"], MOST_NAMED) for op in sorted(unclear, key=lambda op: -op["total_ns"])]
    more = [f"{len(names) - MOST_NAMES:,} more"] if len(names) > MOST_NAMES else []
    spent_ms = fixed(sum(op["total_ns"] for op in unclear) / 1e6, 0)
    return [
        f"{counted(len(names), 'name')} may be spans, not kernels, and left out of the work: "
        f"{listed(names[:MOST_NAMES] + more)} ({spent_ms} ms); a kernel among them needs a rule of your own"
    ]


def overlaps(operations: Sequence[Mapping[str, Any]], total_ns: int) -> list[str]:
    """Whether the kernels take longer than the profiler's own longest span."""
    spans_ns = [op["total_ns"] for op in operations if (op["side"], op["family"]) == ("mark", PROFILER)]
    longest_ns = max(spans_ns, default=0)
    if not 0 < longest_ns < total_ns:
        return []
    return [
        f"the kernels' {fixed(total_ns / 1e6, 0)} ms are more than the profiler's own "
        f"{fixed(longest_ns / 1e6, 0)} ms: they overlap, or some of them are spans"
    ]


def read_table(path: Path, trace_id: str, families: Families) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """The table of operations, and columns of the trace's own row."""
    rows = _rows(path)
    named = [families.of_name(name) for name, _, _ in rows]
    work = "device" if any(side == "device" for side, _ in named) else "host"
    operations: list[dict[str, Any]] = [
        {
            "trace_id": trace_id,
            "op": number,
            "side": side,
            "name": name,
            "short_name": families.short_name(name),
            "family": HOST_WORK if side == "host" != work else family,
            "calls": calls,
            "total_ns": total_ns,
            "total_us": total_ns / 1000,
        }
        for number, ((name, calls, total_ns), (side, family)) in enumerate(zip(rows, named, strict=True))
    ]
    of_work = [op for op in operations if op["side"] == work]
    total = sum(op["total_ns"] for op in of_work)
    warnings = unclear_spans(operations)
    if work == "device":
        warnings += overlaps(operations, total)
    figures: dict[str, Any] = {
        "form": "table",
        "events": sum(op["calls"] for op in operations),
        "device_us": total / 1000 if work == "device" else None,
        "other_share": quotient(sum(op["total_ns"] for op in of_work if op["family"] == "other"), total),
        "warnings": "\n".join(warnings) or None,
    }
    return {TRACE_OPS.name: TRACE_OPS.rows(operations)}, figures


def _rows(path: Path) -> list[tuple[str, int, int]]:
    """Name, count and nanoseconds of each line that is neither empty nor a comment."""
    rows, name = list[tuple[str, int, int]](), shown(path, 200)
    columns, mark, lines = _table_lines(path)
    read = _number_reader([cells[columns[n]] for _, cells in lines for n in NUMBERS if columns[n] < len(cells)], mark)
    for number, cells in lines:
        try:
            rows.append(_row(cells, columns, read))
        except (ValueError, IndexError, ArithmeticError) as error:
            is_table = rows or columns is not COLUMNS  # else it may be any file, which is not quoted
            line = shown(" ".join(cells)) if is_table else "this is no trace, and it"
            problem = f"{name}, line {number}: {line} is no name, count, total_ms, avg_ms"
            raise FileError(problem, "Fix the file, or give a Chrome trace of torch.profiler") from error
    if not rows:
        raise FileError(f"{name} is no trace: it has no line of an operation", "Give a table of operations")
    if sum(calls for _, calls, _ in rows) > MOST_CALLS or sum(ns for _, _, ns in rows) >= 2**63:
        raise FileError(f"{name} adds up to over 2^53 calls or 292 years", "Fix the file")
    return rows


def _table_lines(path: Path) -> tuple[Mapping[str, int], str, list[tuple[int, list[str]]]]:
    """Where the columns are, the separator, which the first line shows, and the cells of each line with its number."""
    columns = COLUMNS
    lines = list[tuple[int, list[str]]]()
    mark = ""
    with TextIOWrapper(open_file(path), encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or line[0] == "#":
                continue
            if not mark and (mark := declared_separator(line)):
                continue
            is_first = not lines and columns is COLUMNS
            mark = mark or next((mark for mark in "\t;" if mark in line), ",")
            cells = next(csv.reader([line[:MOST_CHARS].replace("\0", "")], delimiter=mark), [])
            names = [cell.strip().lower() for cell in cells] if is_first else []
            head = {_SPELLED.get(name, name): column for column, name in enumerate(names)}
            if {"name", *NUMBERS} <= head.keys():
                columns = head
                continue
            if len(lines) >= MOST_LINES:
                raise FileError(f"{shown(path, 200)} has over {MOST_LINES:,} lines", "Give one line for each operation")
            lines.append((number, cells))
    return columns, mark, lines


def _row(cells: Sequence[str], head: Mapping[str, int], read: Callable[[str], Decimal]) -> tuple[str, int, int]:
    name, (calls, total_ms) = cells[head["name"]].strip(), (read(cells[head[n]]) for n in NUMBERS)
    if not name or calls > MOST_CALLS or calls != calls.to_integral_value() or total_ms > MOST_MS:
        raise ValueError(name)
    return name.encode("utf-8", "replace").decode(), int(calls), round(total_ms * 1_000_000)


def _number_reader(texts: Sequence[str], mark: str) -> Callable[[str], Decimal]:
    """How the numbers of a table are read: with decimal commas where one can be nothing else, as ``13545,078``, or any
    where semicolons part the cells; unless a point has to be a decimal one."""
    plain = [text.strip() for text in texts]
    has_commas = any(_ONE_COMMA.fullmatch(text) and (mark == ";" or not _GROUPED.fullmatch(text)) for text in plain)
    has_points = any(_POINT.fullmatch(text) and not _POINTS.fullmatch(text) for text in plain)
    return _with_comma if has_commas and not has_points else _number


def _with_comma(text: str) -> Decimal:
    """``13.545,078`` and ``13545,078``."""
    plain = text.strip()
    whole, comma, decimals = plain.partition(",")
    return _number((whole.replace(".", "") if _POINTS.fullmatch(whole) else whole) + comma.replace(",", ".") + decimals)


def _number(text: str) -> Decimal:
    plain = text.strip()
    number = Decimal(plain.replace(",", "") if _GROUPED.fullmatch(plain) else plain)
    if not 0 <= number < 2**63:  # before a number of 1e99999999 is written out; NaN raises by itself
        raise ValueError(text)
    return number
