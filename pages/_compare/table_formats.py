"""The Compare page's table as HTML, and as files: CSV and JSON rows for a program, Markdown for a paper.

Whatever comes from a run is escaped, and invisible characters are spelt out. Streamlit keeps classes, styles and titles
of such HTML and drops scripts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from engine.comparing.paired import PairedRuns
from engine.errors import one_line
from engine.figures.words import counted, shortened
from pages._compare import table_words as words
from pages._compare.table_cells import COMPUTED, HYPOTHETICAL, FigureCell, FigureLine, FigureRow
from pages._shared.html_table import frame, safe
from pages._shared.links import inspector_address
from pages._shared.table_files import csv_text, safe_cell

MOST_NAME = 120
COLUMNS = (
    "run_id name origin figure unit value low high figure_origin ratio mark pairs_ratio ratio_low ratio_high "
    "difference difference_low difference_high answers molecules reason"
).split()


@dataclass(frozen=True, slots=True)
class RunColumn:
    """One run's heading; ``paired`` is a test's."""

    run_id: str
    name: str
    colour: str
    origin: str
    samples: int | None
    has_samples: bool
    paired: PairedRuns | None = None
    ratio_is: str = ""  # "reported ÷ measured", where a ratio is of unlike origins
    pin: int | None = None  # its place among those that come first and stay in sight when the table scrolls sideways


def table(columns: Sequence[RunColumn], rows: Iterable[FigureRow], caption: str) -> str:
    order = sorted(range(len(columns)), key=lambda place: (columns[place].pin is None, columns[place].pin or 0))
    columns = [columns[place] for place in order]
    placed = [replace(row, cells=tuple(row.cells[place] for place in order)) for row in rows]
    groups = groupby(placed, key=lambda row: row.line.group)
    bodies = "".join(_body(name, columns, list(some)) for name, some in groups)
    return frame(caption, f"<thead><tr><td></td>{''.join(map(_heading, columns))}</tr></thead>{bodies}")


def _heading(column: RunColumn) -> str:
    role = "control" if column.paired is None else "test"
    origin = "" if column.origin == "measured" else f' <span class="origin">{safe(column.origin)}</span>'
    named = shortened(column.name, MOST_NAME)
    link = ""
    if column.has_samples:
        address = safe(inspector_address(column.run_id))
        title = 'target="_self" title="Open them in the Drift inspector"'
        link = f'<a href="{address}" {title}>{counted(column.samples or 0, "sample")} →</a>'
    about = f'style="--run:{safe(column.colour)};{_pin(column)}" title="{safe(column.run_id)}"'
    return (
        f'<th scope="col" class="run {_kind(column)}" {about}>'
        f'<span class="role">{role}{origin}</span>{safe(named)}<br>{link}</th>'
    )


def _body(group: str, columns: Sequence[RunColumn], rows: Sequence[FigureRow]) -> str:
    head = f'<tr><th scope="rowgroup" colspan="{len(columns) + 1}"><span>{safe(group)}</span></th></tr>'
    return f"<tbody>{head}{''.join(_row(columns, row) for row in rows)}</tbody>"


def _row(columns: Sequence[RunColumn], row: FigureRow) -> str:
    line = row.line
    unit = f'<span class="unit">{safe(line.unit)}</span>' if line.unit else ""
    cells = "".join(_cell(column, line, cell) for column, cell in zip(columns, row.cells, strict=True))
    return f'<tr><th scope="row" title="{safe(line.help)}">{safe(line.words)}{unit}</th>{cells}</tr>'


def _cell(column: RunColumn, line: FigureLine, cell: FigureCell) -> str:
    interval = words.own_interval(cell, line.form)
    origin = cell.origin if cell.value is not None and cell.origin in (COMPUTED, HYPOTHETICAL, "stated") else ""
    beside = f'<span class="own">{safe(interval or origin)}</span>' if interval or origin else ""
    value = f'<span class="value">{words.value_words(cell.value, line.form)}</span>{beside}'
    hover = words.hover(line, cell, column.paired)
    title = f' title="{safe(hover)}"' if hover else ""
    style = f' style="{_pin(column)}"' if column.pin is not None else ""
    return f'<td class="{_kind(column)}"{style}{title}>{value}{_second(column, line, cell)}</td>'


def _second(column: RunColumn, line: FigureLine, cell: FigureCell) -> str:
    if not cell.mark and cell.ratio is None:
        return ""
    ratio = "" if cell.ratio is None else f"<span>{words.ratio_words(line, cell.ratio)}</span>"
    mark = f'<span class="mark {cell.mark}">{" ".join(words.MARKS[cell.mark])}</span>' if cell.mark else ""
    of_unlike = column.ratio_is if cell.ratio is not None else ""
    under = "; ".join(part for part in (words.range_words(cell, line), of_unlike) if part)
    beyond = f'<span class="range">{safe(under)}</span>' if under else ""
    return f'<span class="second">{ratio}{mark}</span>{beyond}'


def _kind(column: RunColumn) -> str:
    return f"{'reported' if column.origin == 'reported' else ''} {'' if column.pin is None else 'pinned'}".strip()


def _pin(column: RunColumn) -> str:
    return "" if column.pin is None else f"--pin:{column.pin}"


# --- files ------------------------------------------------------------------------------------------------------------


def records(columns: Sequence[RunColumn], rows: Sequence[FigureRow]) -> list[dict[str, Any]]:
    """One row per run and figure; shares are not per cent, and None is unknown."""
    return [
        _record(column, row, cell)
        for number, column in enumerate(columns)
        for row, cell in ((row, row.cells[number]) for row in rows)
        if cell.value is not None or cell.ratio is not None
    ]


def _record(column: RunColumn, row: FigureRow, cell: FigureCell) -> dict[str, Any]:
    compared = cell.compared
    ratio, difference = (None, None) if compared is None else (compared.ratio, compared.difference)
    values = (
        *(column.run_id, column.name, column.origin, row.line.figure),
        row.line.unit.replace("%", "share"),
        *(cell.value, cell.low, cell.high, cell.origin, cell.ratio, words.MARKS[cell.mark][1]),
        *((None,) * 3 if ratio is None else (ratio.value, ratio.low, ratio.high)),
        *((None,) * 3 if difference is None else (difference.value, difference.low, difference.high)),
        *((None, None) if compared is None else (compared.answers, compared.molecules)),
        cell.reason,
    )
    return dict(zip(COLUMNS, map(_finite, values), strict=True))


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_of(columns: Sequence[RunColumn], rows: Sequence[FigureRow], summary: Sequence[str]) -> bytes:
    document = {"control": columns[0].run_id, "says": list(summary), "figures": records(columns, rows)}
    return json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace")


def csv_of(columns: Sequence[RunColumn], rows: Sequence[FigureRow]) -> bytes:
    texts = [[_text(record[name]) for name in COLUMNS] for record in records(columns, rows)]
    return csv_text(COLUMNS, texts).encode("utf-8", "backslashreplace")


def _text(value: Any) -> Any:
    return one_line(value) if isinstance(value, str) else value


def markdown_of(columns: Sequence[RunColumn], rows: Sequence[FigureRow], summary: Sequence[str]) -> bytes:
    """The table as shown, with its summary and the runs' ids."""
    head = ["", *(safe_cell(column.name) + _origin_note(column) for column in columns)]
    lines = [_markdown_row(head), _markdown_row([":--", *["--:"] * len(columns)], is_rule=True)]
    lines += [_markdown_row([row.line.heading, *(_both(row, cell) for cell in row.cells)]) for row in rows]
    notes = [f"- {_escaped(sentence)}" for sentence in summary]
    runs = [f"- {_escaped(column.name)}: {_escaped(column.run_id)}{_origin_note(column)}" for column in columns]
    signs = ", ".join(" ".join(mark) for mark in words.MARKS.values() if any(mark))
    legend = f"Ratios are test over control; 95 % bootstrap intervals over molecules. {signs}."
    document = "\n".join([*lines, "", legend, "", *notes, "", *runs, ""])
    return document.encode("utf-8", "backslashreplace")


def _origin_note(column: RunColumn) -> str:
    return "" if column.origin in ("measured", "") or column.origin in column.name else f" ({column.origin})"


def _both(row: FigureRow, cell: FigureCell) -> str:
    parts = [words.value_words(cell.value, row.line.form)]
    if interval := words.own_interval(cell, row.line.form):
        parts.append(f"[{interval}]")
    if cell.ratio is not None or cell.mark:
        ratio = "" if cell.ratio is None else words.ratio_words(row.line, cell.ratio)
        inside = " ".join(
            part for part in (ratio, words.range_words(cell, row.line), words.MARKS[cell.mark][0]) if part
        )
        parts.append(f"({inside})" if inside else "")
    return " ".join(part for part in parts if part)


def _markdown_row(cells: Sequence[str], *, is_rule: bool = False) -> str:
    return f"| {' | '.join(cells if is_rule else map(_escaped, cells))} |"


def _escaped(text: str) -> str:
    """As text in Markdown, without cell ends, links or markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~])", r"\\\1", one_line(text))
