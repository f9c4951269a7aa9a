"""The Compare page's tables as HTML: real tables with headings of rows and columns, in the theme's colours.

Whatever comes from a run is escaped, and what cannot be seen of it is spelt out. Streamlit keeps classes, styles and
titles of such HTML and drops scripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path
from urllib.parse import urlencode

from engine.comparing.paired import PairedRuns
from pages._shared.compare import table_words as words
from pages._shared.compare.table_cells import COMPUTED, Cell, Line, Row
from pages._shared.drift.words import visible_text
from pages._shared.theme import DARK, LIGHT

_CSS = Path(__file__).with_name("table.css")
MOST_NAME = 120


@dataclass(frozen=True, slots=True)
class Column:
    """One run's heading; ``paired`` is a test's."""

    run_id: str
    name: str
    colour: str
    origin: str
    samples: int | None
    has_samples: bool
    paired: PairedRuns | None = None
    ratio_is: str = ""  # "reported ÷ measured", where a ratio is of unlike origins


def style() -> str:
    return f"<style>{_variables()}{_css()}</style>"


def table(columns: Sequence[Column], rows: Iterable[Row], caption: str) -> str:
    """Figures as rows in their groups, runs as columns."""
    groups = groupby(rows, key=lambda row: row.line.group)
    bodies = "".join(_body(name, columns, list(some)) for name, some in groups)
    return _frame(caption, f"<thead><tr><td></td>{''.join(map(_heading, columns))}</tr></thead>{bodies}")


def plain_table(headings: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """A table of texts, the first of each row its heading."""
    head = "".join(f'<th scope="col" class="run" style="--run:transparent">{safe(one)}</th>' for one in headings[1:])
    body = "".join(
        f'<tr><th scope="row">{safe(first)}</th>{"".join(f"<td>{safe(one)}</td>" for one in rest)}</tr>'
        for first, *rest in rows
    )
    inside = f"<thead><tr><td>{safe(headings[0])}</td>{head}</tr></thead><tbody>{body}</tbody>"
    return _frame(caption, inside, "beside plain")


def safe(text: str) -> str:
    return escape(visible_text(text), quote=True)


def _frame(caption: str, inside: str, kind: str = "beside") -> str:
    return (
        f'<div class="beside-frame" role="region" aria-label="{safe(caption)}" tabindex="0">'
        f'<table class="{kind}"><caption>{safe(caption)}</caption>{inside}</table></div>'
    )


def _heading(column: Column) -> str:
    role = "control" if column.paired is None else "test"
    origin = "" if column.origin == "measured" else f' <span class="origin">{safe(column.origin)}</span>'
    named = column.name if len(column.name) <= MOST_NAME else column.name[: MOST_NAME - 1] + "…"
    link = ""
    if column.has_samples:
        address = safe("drift?" + urlencode({"run": column.run_id}))
        words_of_link = f"{column.samples or 0:,} samples →"
        link = f'<a href="{address}" target="_self" title="Open them in the Drift inspector">{words_of_link}</a>'
    about = f'style="--run:{safe(column.colour)}" title="{safe(column.run_id)}"'
    return (
        f'<th scope="col" class="run {_kind(column)}" {about}>'
        f'<span class="role">{role}{origin}</span>{safe(named)}<br>{link}</th>'
    )


def _body(group: str, columns: Sequence[Column], rows: Sequence[Row]) -> str:
    head = f'<tr><th scope="rowgroup" colspan="{len(columns) + 1}"><span>{safe(group)}</span></th></tr>'
    return f"<tbody>{head}{''.join(_row(columns, row) for row in rows)}</tbody>"


def _row(columns: Sequence[Column], row: Row) -> str:
    line = row.line
    unit = f'<span class="unit">{safe(line.unit)}</span>' if line.unit else ""
    cells = "".join(_cell(column, line, cell) for column, cell in zip(columns, row.cells, strict=True))
    return f'<tr><th scope="row" title="{safe(line.help)}">{safe(line.words)}{unit}</th>{cells}</tr>'


def _cell(column: Column, line: Line, cell: Cell) -> str:
    own = words.own_interval(cell, line.form)
    origin = cell.origin if cell.value is not None and cell.origin in (COMPUTED, "stated") else ""
    beside = f'<span class="own">{safe(own or origin)}</span>' if own or origin else ""
    value = f'<span class="value">{words.number(cell.value, line.form)}</span>{beside}'
    told = words.hover(line, cell, column.paired)
    title = f' title="{safe(told)}"' if told else ""
    return f'<td class="{_kind(column)}"{title}>{value}{_second(column, cell)}</td>'


def _second(column: Column, cell: Cell) -> str:
    """The ratio with its mark, and under it the interval."""
    if not cell.mark and cell.ratio is None:
        return ""
    ratio = "" if cell.ratio is None else f"<span>{words.times(cell.ratio)}</span>"
    said = words.MARK_WORDS[cell.mark]
    mark = f'<span class="mark {cell.mark}">{words.MARK_SIGNS[cell.mark]} {said}</span>' if cell.mark else ""
    of_unlike = column.ratio_is if cell.ratio is not None else ""
    under = "; ".join(part for part in (words.range_words(cell), of_unlike) if part)
    beyond = f'<span class="range">{safe(under)}</span>' if under else ""
    return f'<span class="second">{ratio}{mark}</span>{beyond}'


def _kind(column: Column) -> str:
    return "reported" if column.origin == "reported" else ""


@cache
def _css() -> str:
    return _CSS.read_text(encoding="utf-8")


def _variables() -> str:
    both = {
        "ink": (LIGHT.text, DARK.text),
        "quiet": (LIGHT.muted, DARK.muted),
        "line": (LIGHT.grid, DARK.grid),
        "hatch": (LIGHT.grid, DARK.grid),
        "ground": (LIGHT.background, DARK.background),
        "surface": (LIGHT.surface, DARK.surface),
        "accent": (LIGHT.accent, "#5fc3cd"),  # the theme's colour of links: the accent itself is too deep for text
    }
    said = "".join(f"--{name}:light-dark({light},{dark});" for name, (light, dark) in both.items())
    return f".beside-frame{{{said}}}"
