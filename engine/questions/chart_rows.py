"""A chart's rows as whatever draws them needs them: in one unit, in panels, in series, with a figure's words.

Nothing here draws: a page does so with plotly, a report as SVG. Texts are as they are stored, and escaped by neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from engine.figures.words import UNKNOWN, hundredths, number, time_unit, times
from engine.questions.question import Chart, Column

Row = dict[str, Any]
Texts = Mapping[str, str]  # by the ids of the chosen entries, the control first
MOST_PANELS = 12
LOG_TICKS = [digit * 10.0**power for power in range(-6, 10) for digit in (1, 2, 5)]


def figure_words(value: object, column: Column) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return UNKNOWN if value is None else str(value)
    if column.unit == "%":
        return f"{hundredths(value)} %"
    if column.unit == "×":
        return times(value)
    shown = round(value) if value == round(value) else value
    return f"{number(shown)} {column.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Panel:
    """A small chart of a value of ``split``, or the only one; categories of its y, none where y has numbers."""

    value: Any
    rows: list[Row]
    categories: list[str]


def in_one_unit(chart: Chart, rows: list[Row], columns: Mapping[str, Column]) -> tuple[list[Row], Mapping[str, Column]]:
    """Columns of ms in the unit that suits the largest time, points in hundredths: the same on the axis, in words and
    on hover."""
    usual = dict.fromkeys((chart.x, chart.y, chart.low, chart.high, chart.text, *chart.hover))
    points = [name for name in usual if columns.get(name, Column()).unit == "points"]
    rows = [row | {name: 100 * row[name] for name in points if row[name] is not None} for row in rows]
    names = [name for name in usual if columns.get(name, Column()).unit == "ms"]
    unit, unit_us = time_unit(max((1000 * abs(row[name] or 0.0) for row in rows for name in names), default=0.0))
    rows = [row | {name: (row[name] or 0.0) * 1000 / unit_us for name in names} for row in rows]
    return rows, {**columns, **{name: replace(columns[name], unit=unit) for name in names}}


def panels_of(chart: Chart, rows: Sequence[Row]) -> list[Panel]:
    has_categories = any(isinstance(row[chart.y], str) for row in rows)
    by_value: dict[Any, list[Row]] = {} if chart.split else {None: []}
    for row in rows:
        by_value.setdefault(row[chart.split] if chart.split else None, []).append(row)
    panels = []
    for value, of_panel in islice(by_value.items(), MOST_PANELS):
        categories = list(dict.fromkeys(row[chart.y] for row in of_panel)) if has_categories else []
        panels.append(Panel(value, of_panel, categories))
    return panels


def kind_of(chart: Chart, row: Row) -> Any:
    return row[chart.colour] if chart.colour else None


def place_of(kind: Any, kinds: Sequence[Any], names: Texts) -> int:
    """An entry's place among the chosen ones, by its id or its name; of all else that among what is drawn."""
    for places in (list(names), list(names.values())):
        if kind in places:
            return places.index(kind)
    return kinds.index(kind)


def repeats(chart: Chart) -> bool:
    """A legend would say what the axis says."""
    return chart.colour == chart.y or (chart.colour == "run" and chart.y == "name")


def hover_lines(chart: Chart, row: Row, columns: Mapping[str, Column], names: Texts) -> Iterator[str]:
    """What a mark says, a line a column: names as they are, figures after their column's words."""
    usual = ("name", chart.split, chart.y, chart.x, chart.low, chart.high)
    for name in dict.fromkeys(name for name in chart.hover or usual if name in row):
        value, column = row[name], columns.get(name, Column())
        is_name = isinstance(value, str) and value
        yield names.get(value, value) if is_name else f"{column.words or name}: {figure_words(value, column)}"


def with_ends(chart: Chart, name: str, rows: Sequence[Row]) -> list[float]:
    """A column's values, and the ends of their intervals."""
    ends = (row.get(column) for row in rows for column in (name, chart.low, chart.high))
    return [end for end in ends if end is not None]


def level_of(chart: Chart, rows: Sequence[Row]) -> float | None:
    if isinstance(chart.line_at, str):
        return rows[0][chart.line_at] if rows else None
    return chart.line_at
