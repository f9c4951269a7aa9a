"""A question's chart as SVG, without plotly: points, lines, bars and heat maps.

Colours are classes of the page's style, so that one drawing is for light and dark. What it cannot draw (timelines, the
table of LPs and models, thousands of marks) gives None. Texts inside an SVG are escaped here; a panel's title is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from engine.errors import one_line
from engine.figures.words import large, shortened, significant
from engine.handover.records import ChartView
from engine.questions.chart_rows import (
    LOG_TICKS,
    Panel,
    Row,
    figure_words,
    in_one_unit,
    kind_of,
    level_of,
    panels_of,
    place_of,
    with_ends,
)
from engine.questions.question import Chart, Column

WIDTH, HEIGHT, BAND = 660.0, 300.0, 34.0  # px; a band is of one category
LEFT, RIGHT, TOP, BOTTOM, TEXT = 62.0, 24.0, 24.0, 46.0, 130.0
CHAR = 6.9  # px, about the width of a letter
MOST_LABEL, MOST_MARKS, COLOURS = 40, 1_000, 8
SIGNS = {"exact": "exact", "junk-prone": "junk", "cut": "cut", "hypothetical": "neutral"}
CORNERS = ("", "-1 -1 1 -1 1 1 -1 1", "0 -1.3 1.3 0 0 1.3 -1.3 0", "0 -1.2 1.2 1 -1.2 1")
"""Of a mark, by its series; the first is a circle."""
HEAD = '<svg xmlns="http://www.w3.org/2000/svg"'


def drawn(chart: Chart, rows: Sequence[Row], columns: Mapping[str, Column], names: Mapping[str, str]) -> Any:
    """A `ChartView` or None. ``names`` are of the chosen entries by id, the control first."""
    rows = [row for row in rows if None not in (row[chart.x], row[chart.y])]
    if chart.kind not in DRAWN_BY or chart.kinds or not 0 < len(rows) <= MOST_MARKS:
        return None
    rows, columns = in_one_unit(chart, rows, columns)
    kinds = [] if chart.kind == "heat" else list(dict.fromkeys(kind_of(chart, row) for row in rows))
    style = Style(chart, columns, names, kinds)
    is_shared = chart.colour == "sign" or chart.kind == "bars"
    panels = [
        (one_line(str(panel.value or "")), svg_of(panel, style, rows if is_shared else panel.rows))
        for panel in panels_of(chart, rows)
    ]
    legend = []
    if len(kinds) > 1 and chart.colour != chart.y:
        legend = [style.legend_of(kind) for kind in kinds]
    return ChartView(legend, panels)


# --- axes and words -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Axis:
    """From values, or from categories by their place, to pixels."""

    start: float
    end: float
    low: float = 0.0
    high: float = 1.0
    is_log: bool = False
    unit: str = ""
    categories: Sequence[str] = ()

    def px(self, value: Any) -> float:
        if self.categories:
            share = (self.categories.index(value) + 0.5) / len(self.categories)
        elif self.is_log:
            share = math.log(max(value, self.low / 1e3) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    @property
    def band(self) -> float:
        return abs(self.end - self.start) / max(len(self.categories), 1)

    def ticks(self) -> list[tuple[float, str]]:
        if self.categories:
            return [(self.px(category), category) for category in self.categories]
        if self.is_log:
            every = 3 if self.high / self.low > 1_000 else 1
            values = [tick for tick in LOG_TICKS[::every] if self.low <= tick <= self.high]
        else:
            step = nice_step((self.high - self.low) / 5)
            values = [step * number for number in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        if self.unit == "%":
            return [(self.px(value), f"{significant(100 * value)} %") for value in values]
        return [(self.px(value), large(value) if abs(value) >= 1e4 else significant(value)) for value in values]


def nice_step(least: float) -> float:
    """The next of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least * 0.999)


def label(x: float, y: float, text: object, anchor: str = "middle", css: str = "", most: int = MOST_LABEL) -> str:
    """A text; ``anchor`` is the end of it that is at ``x``."""
    words = escape(shortened(one_line(str(text)), most))
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


@dataclass(frozen=True, slots=True)
class Style:
    """What all panels of a chart share: words, and which colour and mark a row has."""

    chart: Chart
    columns: Mapping[str, Column]
    names: Mapping[str, str]
    kinds: Sequence[Any]

    def look(self, row: Row) -> tuple[int, str]:
        """The number of its mark, and the class of its colour: where colours are used again, with other marks."""
        faint = " faint" if self.chart.faint and row.get(self.chart.faint) else ""
        place = place_of(kind_of(self.chart, row), self.kinds, self.names)
        hue = SIGNS[row["sign"]] if self.chart.colour == "sign" else f"s{place % COLOURS}"
        return place + place // COLOURS, hue + faint

    def title(self, name: str) -> str:
        column = self.columns.get(name, Column())
        unit = f" ({column.unit})" if column.unit not in ("", "%", "×") else ""
        return f"{column.words or name}{unit}"

    def figure(self, row: Row, name: str) -> str:
        return figure_words(row.get(name), self.columns.get(name, Column()))

    def told(self, row: Row) -> str:
        """What a mark says on hover."""
        usual = dict.fromkeys(("name", self.chart.split, self.chart.y, self.chart.x, self.chart.low, self.chart.high))
        told = []
        for name in self.chart.hover or usual:
            if isinstance(row.get(name), str):
                told.append(self.names.get(row[name], row[name]))
            elif row.get(name) is not None:
                told.append(f"{self.title(name)}: {self.figure(row, name)}")
        return f"<title>{escape(one_line(', '.join(told)))}</title>"

    def legend_of(self, kind: Any) -> tuple[str, str]:
        place, css = self.look({self.chart.colour: kind})
        mark = bar(0, 0, 14, 14, place, css) if self.chart.kind == "bars" else symbol(7, 7, 5, place, css)
        return f'{HEAD} viewBox="0 0 14 14" width="14" height="14">{mark}</svg>', self.names.get(str(kind), str(kind))


def svg_of(panel: Panel, style: Style, rows: Sequence[Row]) -> str:
    """Axes and marks of one panel; ``rows`` are those that its scale is of."""
    chart, left, height = style.chart, LEFT, HEIGHT
    if panel.categories:
        left = min(24 + CHAR * min(max(map(len, panel.categories)), MOST_LABEL), WIDTH / 2)
        height = TOP + BOTTOM + BAND * len(panel.categories)
    room = TEXT if chart.kind == "bars" and chart.text and panel.categories else RIGHT
    x = axis_of(style, "x", rows, left, WIDTH - room)
    y = Axis(TOP, height - BOTTOM, categories=panel.categories)
    if not panel.categories:
        y = axis_of(style, "y", rows, height - BOTTOM, TOP)
    parts = [*axis_marks(x, y, style, rows), *DRAWN_BY[chart.kind](panel.rows, style, x, y)]
    name = escape(one_line(f"{panel.value or ''} {style.title(chart.y)} by {style.title(chart.x)}".strip()))
    return f'{HEAD} viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{name}">{"".join(parts)}</svg>'


def axis_of(style: Style, side: str, rows: Sequence[Row], start: float, end: float) -> Axis:
    chart = style.chart
    name = chart.x if side == "x" else chart.y
    values = values_along(chart, side, name, rows)
    if isinstance(values[0], str):
        return Axis(start, end, categories=list(dict.fromkeys(values)))
    if side in chart.log:
        positive = [value for value in values if value > 0] or [1.0]
        room = max((max(positive) / min(positive)) ** 0.12, 1.1)
        return Axis(start, end, min(positive) / room, max(positive) * room, is_log=True)
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.5
    low = low if chart.kind == "bars" and low == 0 else low - room
    return Axis(start, end, low, high + room, unit=style.columns.get(name, Column()).unit)


def values_along(chart: Chart, side: str, name: str, rows: Sequence[Row]) -> list[Any]:
    """All values, the ends of their intervals, the line across them, and the ends of bars."""
    values: list[Any] = [row[name] for row in rows]
    if isinstance(values[0], str):
        return values
    level = level_of(chart, rows)
    if chart.interval == side:
        values += with_ends(chart, name, rows) + ([] if level is None else [level])
    if chart.kind == "bars" and side == length_side(chart, rows):
        values += [end for span in spans_of(chart, rows) for end in span]
    elif chart.kind == "bars":
        half = max(row[chart.size] for row in rows) / 2 if chart.size else 0.5
        values = [value + way * half for value in values for way in (-1, 1)]
    return values


def axis_marks(x: Axis, y: Axis, style: Style, rows: Sequence[Row]) -> Iterator[str]:
    chart, (top, bottom) = style.chart, sorted((y.start, y.end))
    for at, text in x.ticks():
        if not x.categories:
            yield f'<path class="grid" d="M{at:.1f} {top:g}V{bottom:g}"/>'
        yield label(at, bottom + 17, text, most=max(int(x.band / CHAR), 6) if x.categories else MOST_LABEL)
    for at, text in y.ticks():
        if not y.categories:
            yield f'<path class="grid" d="M{x.start:g} {at:.1f}H{x.end:g}"/>'
        yield label(x.start - 8, at + 4, text, "end")
    if not x.categories:
        yield label((x.start + x.end) / 2, bottom + 38, style.title(chart.x), css="title", most=80)
    if not y.categories:
        yield label(4, 13, style.title(chart.y), "start", "title", most=80)
    level = level_of(chart, rows)
    if level is not None and chart.interval == "x":
        yield f'<path class="level" d="M{x.px(level):.1f} {top:g}V{bottom:g}"/>'
    elif level is not None:
        yield f'<path class="level" d="M{x.start:g} {y.px(level):.1f}H{x.end:g}"/>'
    if chart.has_diagonal:
        low, high = max(x.low, y.low), min(x.high, y.high)
        yield f'<path class="level" d="M{x.px(low):.1f} {y.px(low):.1f}L{x.px(high):.1f} {y.px(high):.1f}"/>'


# --- marks --------------------------------------------------------------------------------------------------------


def symbol(x: float, y: float, size: float, place: int, css: str, told: str = "") -> str:
    """Series differ by symbol, too."""
    numbers = [float(part) * size for part in CORNERS[place % len(CORNERS)].split()]
    if not numbers:
        return f'<circle class="mark {css}" cx="{x:.1f}" cy="{y:.1f}" r="{size:g}">{told}</circle>'
    corners = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in zip(numbers[::2], numbers[1::2], strict=True))
    return f'<polygon class="mark {css}" points="{corners}">{told}</polygon>'


def points(rows: Sequence[Row], style: Style, x: Axis, y: Axis) -> Iterator[str]:
    chart = style.chart
    for row in rows:
        at, height = x.px(row[chart.x]), y.px(row[chart.y])
        low, high = (row.get(name) if name else None for name in (chart.low, chart.high))
        if low is not None and high is not None:
            upright = f"M{at:.1f} {y.px(low):.1f}V{y.px(high):.1f}" if chart.interval == "y" else ""
            yield f'<path class="whisker" d="{upright or f"M{x.px(low):.1f} {height:.1f}H{x.px(high):.1f}"}"/>'
        size = (row.get(chart.size) or 9) / 2 if chart.size else 5
        yield symbol(at, height, size, *style.look(row), style.told(row))
        # Names of many would cover each other.
        if chart.text and row.get(chart.text) and (y.categories or len(style.kinds) <= COLOURS):
            text = style.figure(row, chart.text)
            half = CHAR * len(text) / 2 + 4
            beside = half + size if chart.interval == "y" else 0  # of a whisker that stands
            yield label(min(max(at + beside, half), WIDTH - half), height - 9, text, most=60)


def lines(rows: Sequence[Row], style: Style, x: Axis, y: Axis) -> Iterator[str]:
    chart, series = style.chart, dict[Any, list[Row]]()
    for row in rows:
        series.setdefault((kind_of(chart, row), bool(chart.dash and row[chart.dash])), []).append(row)
    for (_, is_dashed), part in series.items():
        path = "L".join(f"{x.px(row[chart.x]):.1f} {y.px(row[chart.y]):.1f}" for row in part)
        look = f"{style.look(part[0])[1]}{' dashed' if is_dashed else ''}"
        yield f'<path class="line {look}" d="M{path}">{style.told(part[-1])}</path>'


def length_side(chart: Chart, rows: Sequence[Row]) -> str:
    """The axis along which bars are long."""
    return "x" if any(isinstance(row[chart.y], str) for row in rows) else "y"


def spans_of(chart: Chart, rows: Sequence[Row]) -> list[tuple[float, float]]:
    """Where each bar begins and ends: from ``low``, or on those before it that have its place and sign."""
    ends, spans = dict[Any, float](), list[tuple[float, float]]()
    along, at = (chart.x, chart.y) if length_side(chart, rows) == "x" else (chart.y, chart.x)
    for row in rows:
        key = row.get(chart.split), row[at], row[along] < 0
        start = row[chart.low] if chart.low else ends.get(key, 0.0)
        ends[key] = row[along] if chart.low else start + row[along]
        spans.append((start, ends[key]))
    return spans


def bars(rows: Sequence[Row], style: Style, x: Axis, y: Axis) -> Iterator[str]:
    chart = style.chart
    for row, (start, end) in zip(rows, spans_of(chart, rows), strict=True):
        (place, css), told = style.look(row), style.told(row)
        if y.categories:
            (left, right), middle = sorted((x.px(start), x.px(end))), y.px(row[chart.y])
            yield bar(left, middle - y.band * 0.36, right - left, y.band * 0.72, place, css, told)
            if chart.text and row.get(chart.text):
                yield label(right + 5, middle + 4, style.figure(row, chart.text), "start")
            continue
        middle, half = x.px(row[chart.x]), x.band * 0.38
        if not x.categories:
            half = x.px(row[chart.x] + (row[chart.size] if chart.size else 0.76) / 2) - middle
        top, foot = sorted((y.px(start), y.px(end)))
        yield bar(middle - half, top, 2 * half, foot - top, place, css, told)


def bar(x: float, y: float, width: float, height: float, place: int, css: str, told: str = "") -> str:
    """Every second series is hatched, and so is what is damaged: colour is never alone."""
    size = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{max(height, 0.5):.1f}"'
    is_hatched = css.startswith(("junk", "cut")) or (css.startswith("s") and place % 2)
    return f'<rect class="bar {css}" {size}>{told}</rect>' + f'<rect class="hatch" {size}/>' * is_hatched


def heat(rows: Sequence[Row], style: Style, x: Axis, y: Axis) -> Iterator[str]:
    """Cells that are the stronger, the larger ``size``."""
    chart = style.chart
    most = max(row[chart.size] or 0 for row in rows) or 1.0
    for row in rows:
        at, height, share = x.px(row[chart.x]), y.px(row[chart.y]), (row[chart.size] or 0) / most
        size = f'width="{x.band - 2:.1f}" height="{y.band - 2:.1f}" fill-opacity="{0.55 * share:.3f}"'
        spot = f'x="{at - x.band / 2 + 1:.1f}" y="{height - y.band / 2 + 1:.1f}"'
        yield f'<rect class="cell accent" {spot} {size}>{style.told(row)}</rect>'
        if chart.text:
            yield label(at, height + 4, style.figure(row, chart.text))


DRAWN_BY = {"points": points, "lines": lines, "bars": bars, "heat": heat}
