"""The Compare page's table as files: long rows for a program, a table in Markdown for a paper."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from engine.errors import one_line
from pages._shared.compare import table_words as words
from pages._shared.compare.table_cells import Cell, Row
from pages._shared.compare.table_html import Column
from pages._shared.table_files import csv_text

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""
COLUMNS = (
    "run_id name origin figure unit value low high figure_origin ratio mark pairs_ratio ratio_low ratio_high "
    "difference difference_low difference_high answers molecules reason"
).split()


def records(columns: Sequence[Column], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One row a run and figure; shares are shares, not per cent, and what nobody knows is None."""
    return [
        _record(column, row, cell)
        for number, column in enumerate(columns)
        for row, cell in ((row, row.cells[number]) for row in rows)
        if cell.value is not None or cell.ratio is not None
    ]


def _record(column: Column, row: Row, cell: Cell) -> dict[str, Any]:
    told = cell.told
    ratio, difference = (None, None) if told is None else (told.ratio, told.difference)
    found = (
        *(column.run_id, column.name, column.origin, row.line.figure),
        row.line.unit.replace("%", "share"),
        *(cell.value, cell.low, cell.high, cell.origin, cell.ratio, words.MARK_WORDS[cell.mark]),
        *((None,) * 3 if ratio is None else (ratio.value, ratio.low, ratio.high)),
        *((None,) * 3 if difference is None else (difference.value, difference.low, difference.high)),
        *((None, None) if told is None else (told.answers, told.molecules)),
        cell.reason,
    )
    return dict(zip(COLUMNS, map(_finite, found), strict=True))


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_of(columns: Sequence[Column], rows: Sequence[Row], said: Sequence[str]) -> bytes:
    document = {"control": columns[0].run_id, "says": list(said), "figures": records(columns, rows)}
    return json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace")


def csv_of(columns: Sequence[Column], rows: Sequence[Row]) -> bytes:
    texts = [[_text(record[name]) for name in COLUMNS] for record in records(columns, rows)]
    return csv_text(COLUMNS, texts).encode("utf-8", "backslashreplace")


def _text(value: Any) -> Any:
    """A text that a spreadsheet would compute is led by an apostrophe."""
    if not isinstance(value, str):
        return value
    plain = one_line(value)
    return f"'{plain}" if plain.startswith(FORMULA) else plain


def markdown_of(columns: Sequence[Column], rows: Sequence[Row], said: Sequence[str]) -> bytes:
    """The table as it is shown, with what it says and which runs these are."""
    head = ["", *(one.name + _origin(one) for one in columns)]
    lines = [_line(head), _line([":--", *["--:"] * len(columns)], is_rule=True)]
    lines += [_line([row.line.heading, *(_both(row, cell) for cell in row.cells)]) for row in rows]
    notes = [f"- {_plain(one)}" for one in said]
    runs = [f"- {_plain(one.name)}: {_plain(one.run_id)}{_origin(one)}" for one in columns]
    signs = ", ".join(f"{sign} {words.MARK_WORDS[mark]}" for mark, sign in words.MARK_SIGNS.items() if mark)
    legend = f"Ratios are test over control, intervals 95 % over molecules drawn anew. {signs}."
    document = "\n".join([*lines, "", legend, "", *notes, "", *runs, ""])
    return document.encode("utf-8", "backslashreplace")


def _origin(column: Column) -> str:
    return "" if column.origin in ("measured", "") or column.origin in column.name else f" ({column.origin})"


def _both(row: Row, cell: Cell) -> str:
    parts = [words.number(cell.value, row.line.form)]
    if own := words.own_interval(cell, row.line.form):
        parts.append(f"[{own}]")
    if cell.ratio is not None or cell.mark:
        ratio = "" if cell.ratio is None else words.times(cell.ratio)
        inside = " ".join(part for part in (ratio, words.range_words(cell), words.MARK_SIGNS[cell.mark]) if part)
        parts.append(f"({inside})" if inside else "")
    return " ".join(part for part in parts if part)


def _line(cells: Sequence[str], *, is_rule: bool = False) -> str:
    return f"| {' | '.join(cells if is_rule else map(_plain, cells))} |"


def _plain(text: str) -> str:
    """As text in Markdown: nothing of it is a cell's end, a link or markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~])", r"\\\1", one_line(text))
