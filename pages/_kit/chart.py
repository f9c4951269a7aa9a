"""One function from a question's chart and its table to a plotly figure.

Texts may be anybody's: they are escaped here and go into the figure as data, never into a template. Colour is never
alone: series differ by symbol or pattern too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from itertools import product
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from engine.errors import one_line
from engine.figures.words import counted, large, shortened, significant, times
from engine.questions.chart_rows import (
    LOG_TICKS,
    Panel,
    Row,
    Texts,
    figure_words,
    hover_lines,
    in_one_unit,
    kind_of,
    level_of,
    panels_of,
    place_of,
    repeats,
    with_ends,
)
from engine.questions.question import Chart, Column
from pages._kit.theme import ink_on, mixed, palette, plotly_template

if TYPE_CHECKING:
    import plotly.graph_objects as go

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "pentagon")
PATTERNS = ("", "/", "x", ".", "\\", "-", "|", "+")
MOST_CHARS, MOST_SERIES = 60, 40
SIGNS = {"exact": ("exact", ""), "junk-prone": ("junk", "/"), "cut": ("cut", "x"), "hypothetical": ("neutral", "")}
FADED = 0.3
WEBGL_FROM = 1_000  # points, from which on the graphics card draws them


def safe(text: object, most: int = MOST_CHARS) -> str:
    return escape(shortened(one_line(str(text)), most))


def on_axis(text: object) -> str:
    """Words as a label of an axis, whole in up to three lines."""
    lines = wrap(unescape(one_line(str(text))), 30, max_lines=3, placeholder=" …", break_on_hyphens=False)
    return "<br>".join(map(escape, lines))


def value_words(value: object, column: Column) -> str:
    return safe(value) if isinstance(value, str) else figure_words(value, column)


@dataclass(frozen=True, slots=True)
class Series:
    """Rows of a panel that share colour and dash; ``place`` decides its symbol and pattern."""

    name: str
    place: int
    colour: str
    rows: list[Row]


def figure_of(
    chart: Chart, rows: Sequence[Row], columns: Mapping[str, Column], names: Texts, colours: Mapping[str, str] = {}
) -> go.Figure:
    """``colours`` are the runs' own; of other entries the control is neutral, and tests have theirs by their place."""
    import plotly.graph_objects as go  # half a second, and only pages with charts pay it

    rows = [with_escaped(chart, row) for row in rows if None not in (row[chart.x], row[chart.y])]
    rows, columns = in_one_unit(chart, rows, columns)
    panels = panels_of(chart, rows)
    across = chart.across or (1 if chart.kind == "bars" else min(2, len(panels)))
    if chart.kind == "heat":
        traces = [heat(chart, panel.rows, columns) | axes_of(index) for index, panel in enumerate(panels)]
        traces += kind_legend(chart, rows) if chart.kinds else ()
    else:
        traces = series_traces(chart, panels, columns, names, colours)
    legend_px = 34 if any(trace.get("showlegend") for trace in traces) else 0
    height = height_px(chart, panels, -(-len(panels) // across), legend_px)
    top = 26 + legend_px if chart.split or legend_px else 8
    figure = go.Figure(traces, layout_of(chart, panels, across))
    figure.update_layout(
        template=plotly_template(palette()),
        height=height,
        margin={"t": top},
        dragmode=False if chart.picks else "zoom",
        barmode="relative",
        bargap=0.25,
    )
    if chart.split:  # the legend above the titles
        lines = max(on_axis(panel.value).count("<br>") for panel in panels[:across])
        figure.update_layout(legend_y=1 + (24 + 16 * lines) / (height - top), margin_t=top + 16 * lines)
    figure.update_annotations(font={"size": 12})
    figure.update_xaxes(**axis_of(chart, "x", rows, columns.get(chart.x, Column(chart.x))))
    figure.update_yaxes(**axis_of(chart, "y", rows, columns.get(chart.y, Column(chart.y))))
    figure.update_layout(panel_axes(chart, panels, across))
    lines_across(chart, figure, rows)
    return figure


def layout_of(chart: Chart, panels: Sequence[Panel], across: int) -> go.Layout:
    """Plotly's layout of panels in rows of ``across``, with their titles."""
    from plotly.subplots import make_subplots

    down = -(-len(panels) // across)
    is_drift = "all" if chart.colour == "sign" else False  # on one scale
    return make_subplots(
        rows=down,
        cols=across,
        subplot_titles=[on_axis(panel.value) for panel in panels] if chart.split else None,
        shared_yaxes=is_drift,
        shared_xaxes=is_drift or chart.kind == "bars",
        vertical_spacing=0.25 / down,
        horizontal_spacing=0.12 if across < 3 else 0.02,
    ).layout


def panel_axes(chart: Chart, panels: Sequence[Panel], across: int) -> Row:
    """What is a panel's own: its categories, and no title where another panel's says the same."""
    first_of_last_row = (len(panels) - 1) // across * across
    layout: dict[str, Row] = {}
    for index, panel in enumerate(panels):
        layout[f"yaxis{index + 1}"] = ticks_of(panel.categories) if panel.categories else {}
        if chart.across > 1 and index % across:
            layout[f"yaxis{index + 1}"]["title"] = None
        if chart.kind == "bars" and index < first_of_last_row:  # one scale for all
            layout[f"xaxis{index + 1}"] = {"title": None}
    return layout


def with_escaped(chart: Chart, row: Row) -> Row:
    """Texts on an axis are escaped here, once: plotly shows a category's own text where a tick has none."""
    texts = {axis: escape(one_line(row[axis])) for axis in (chart.x, chart.y) if isinstance(row[axis], str)}
    return row | texts


def series_traces(
    chart: Chart, panels: Sequence[Panel], columns: Mapping[str, Column], names: Texts, colours: Texts
) -> list[Row]:
    """Points, lines or bars, a trace for each series of each panel; the legend has a name once."""
    draw = {"bars": bars, "lines": lines, "points": points}[chart.kind]
    kinds = list(dict.fromkeys(kind_of(chart, row) for panel in panels for row in panel.rows))[:MOST_SERIES]
    has_legend = len(kinds) > 1 and not repeats(chart)
    traces: list[Row] = []
    in_legend: set[str] = set()
    for index, panel in enumerate(panels):
        for series in series_of(chart, panel, kinds, names, colours):
            some: Row = {}
            if chart.kind == "bars" and chart.text:
                of_text = columns.get(chart.text, Column())
                some["text"] = [bar_text(row.get(chart.text), of_text) for row in series.rows]
            if chart.picks:
                some["customdata"] = [row.get(chart.picks.rpartition(":")[2]) for row in series.rows]
            traces.append(
                {
                    **draw(chart, series),
                    **axes_of(index),
                    "name": safe(series.name),
                    "legendgroup": safe(series.name),
                    "showlegend": has_legend and series.name not in in_legend,
                    "hovertext": [hover(chart, row, columns, names) for row in series.rows],
                    "hovertemplate": "%{hovertext}<extra></extra>",
                    **some,
                }
            )
            in_legend.add(series.name)
    return traces


def series_of(chart: Chart, panel: Panel, kinds: Sequence[Any], names: Texts, colours: Texts) -> Iterator[Series]:
    """Those of a panel that have rows, a dashed one after its solid one; equal dashed ones share a name."""
    parts: dict[tuple[Any, bool], list[Row]] = {}
    for row in panel.rows:
        is_dashed = bool(chart.dash and row[chart.dash])
        parts.setdefault((kind_of(chart, row), is_dashed), []).append(row)
    dashed = [[row[chart.y] for row in rows] for (_, is_dashed), rows in parts.items() if is_dashed]
    are_equal = dashed[1:] == dashed[:-1]
    for kind, is_dashed in product(kinds, (False, True)):
        if rows := parts.get((kind, is_dashed)):
            name = names.get(str(kind), str(kind))
            if is_dashed:
                name = "baseline" if are_equal else f"{name} (baseline)"
            place = place_of(kind, kinds, names)
            yield Series(name, place, colour_of(chart, kind, place, names, colours), rows)


def axes_of(index: int) -> Row:
    """Plotly's names for a panel's axes: the first ones have no number."""
    number = index + 1 if index else ""
    return {"xaxis": f"x{number}", "yaxis": f"y{number}"}


def height_px(chart: Chart, panels: Sequence[Panel], down: int, legend_px: int) -> float:
    if chart.kind == "bars" and chart.split:
        return 70 + legend_px + (190 if chart.across else 120) * down
    categories = [category for panel in panels for category in panel.categories]
    if not categories and not chart.split:
        return 330
    most_breaks = max((on_axis(category).count("<br>") for category in categories), default=0)
    lanes = max(1, *(len(panel.categories) for panel in panels)) * (1 + most_breaks / 2)
    return max(150, (90 + legend_px + 30 * lanes) * down)


def ticks_of(kinds: Sequence[str]) -> Row:
    return {"categoryarray": kinds, "tickvals": kinds, "ticktext": [on_axis(kind) for kind in kinds]}


def hover(chart: Chart, row: Row, columns: Mapping[str, Column], names: Texts) -> str:
    return "<br>".join(safe(unescape(words), 2 * MOST_CHARS) for words in hover_lines(chart, row, columns, names))


def axis_of(chart: Chart, axis: Literal["x", "y"], rows: Sequence[Row], column: Column) -> Row:
    """Plotly's layout of all panels' axes; categories of y are each panel's own."""
    name = chart.x if axis == "x" else chart.y
    values = [row[name] for row in rows]
    if any(isinstance(value, str) for value in values):
        return category_axis(chart, axis, values)
    title = {"text": safe(column.head(name)), "font": {"size": 13}}
    if axis in chart.log:
        ends = with_ends(chart, name, rows) if chart.interval == axis else values
        return {"title": title, **log_axis(chart, [*ends, level_of(chart, rows) or 0.0])}
    ticks = percent_axis(with_ends(chart, name, rows), has_words=bool(chart.text)) if column.unit == "%" else {}
    if chart.kind == "bars" and chart.text:
        begins = [row[chart.low] for row in rows] if chart.low else []
        return {"title": title, **ticks, "range": with_room([0.0, *values, *begins])}
    return {"title": title, **ticks}


def percent_axis(values: Sequence[float], *, has_words: bool) -> Row:
    """Whole from 0 to 1 where some are in the upper half; higher where words may be above a mark."""
    is_whole = min(values, default=-1) >= 0 and max(values) > 0.5
    return {"tickformat": "~p"} | ({"range": [-0.03, 1.12 if has_words else 1.05]} if is_whole else {})


def with_room(values: Sequence[float]) -> list[float]:
    """An axis from the least to the largest, with room for the words at both ends of bars."""
    least, most = min(values), max(values)
    room = 0.18 * (most - least)
    return [least - room if least < 0 else least, most + room if most > 0 else most]


def category_axis(chart: Chart, axis: Literal["x", "y"], values: Sequence[str]) -> Row:
    layout: Row = {"type": "category", "categoryorder": "array", "showgrid": False}
    if axis == "y":
        return {**layout, "autorange": "reversed"}
    side = {"side": "top"} if chart.kind == "heat" else {}
    return {**layout, **side, **ticks_of(list(dict.fromkeys(values)))}


def log_axis(chart: Chart, values: Sequence[float]) -> Row:
    """With ticks at 1, 2 and 5, beyond three powers of ten at 1 alone; what is not positive has no place."""
    # Shares of the axis at its ends: words left of a bar, slower by 1.08×, are the longer ones.
    left, right = (0.5, 0.25) if chart.kind == "bars" and chart.text else (0.08, 0.08)
    if chart.kind == "points" and chart.interval == "y" and chart.text:
        right = 0.2  # for the words to the right of the last mark
    positive = [math.log10(value) for value in values if value > 0]
    ends: Row = {}
    ticks = LOG_TICKS
    if positive:
        low, high = min(positive), max(positive)
        ends = {"range": [low - max(left * (high - low), 0.12), high + max(right * (high - low), 0.12)]}
        ticks = LOG_TICKS[::3] if high - low > 3 else LOG_TICKS
    words = [large(tick) if tick >= 1e4 else significant(tick) for tick in ticks]
    return {"type": "log", **ends, "tickvals": ticks, "ticktext": words}


def lines_across(chart: Chart, figure: go.Figure, rows: Sequence[Row]) -> None:
    line = {"color": palette().muted, "width": 1.5, "dash": "dash"}
    if (at := level_of(chart, rows)) is not None:
        (figure.add_vline if chart.interval == "x" else figure.add_hline)(at, line=line, layer="below")
    if chart.has_diagonal and rows:
        ends = [row[axis] for row in rows for axis in (chart.x, chart.y)]
        figure.add_shape(type="line", x0=min(ends), y0=min(ends), x1=max(ends), y1=max(ends), line=line, layer="below")


def entry_colour(index: int) -> str:
    """Of chosen entries the control is neutral, and tests share seven colours in turn."""
    colours = palette()
    hues = [hue for hue in colours.series if hue != colours.neutral]
    return hues[(index - 1) % len(hues)] if index else colours.neutral


def colour_of(chart: Chart, kind: Any, place: int, names: Texts, colours: Texts) -> str:
    """A run's own, named by its id or its name; else by place."""
    if chart.colour not in ("run", "name"):
        return entry_colour(place + 1)
    named = {name: colours[id_] for id_, name in names.items() if id_ in colours}
    return colours.get(kind) or named.get(kind) or entry_colour(place)


def lines(chart: Chart, series: Series) -> Row:
    is_dashed = bool(chart.dash and series.rows[0][chart.dash])
    colour = palette().muted if is_dashed else series.colour
    line = {"color": colour, "width": 2, "dash": "dash" if is_dashed else "solid"}
    return {**scatter(chart, series.rows), "mode": "lines", "line": line}


def points(chart: Chart, series: Series) -> Row:
    """With whiskers from ``low`` to ``high``, where these are known."""
    colours, rows, place = palette(), series.rows, series.place
    faint = [bool(row.get(chart.faint)) for row in rows]
    sizes = [7 if is_faint else 11 for is_faint in faint]
    if chart.size:
        sizes = [row.get(chart.size) or 9 for row in rows]
    some: Row = {}
    if chart.text:
        some = labels_of(chart, rows, is_first=place == 0 or chart.colour in ("run", "name"))
    if chart.low:
        some[f"error_{chart.interval}"] = whiskers(chart, rows) | {"color": colours.muted, "thickness": 1.4}
    return {
        **scatter(chart, rows),
        "mode": "markers",
        "marker": {
            "color": [colours.muted if is_faint else series.colour for is_faint in faint],
            "symbol": SYMBOLS[place % len(SYMBOLS)],
            "size": sizes,
            "opacity": [0.45 if is_faint else 0.85 for is_faint in faint],
            "line": {"color": colours.background, "width": 1},
        },
        **some,
    }


def labels_of(chart: Chart, rows: Sequence[Row], *, is_first: bool) -> Row:
    """Texts next to points; nothing where no row has one. On one line with others, the first colour's are above."""
    texts = [row.get(chart.text) for row in rows]
    if not any(texts):
        return {}

    def position(row: Row) -> str:
        if chart.interval == "y":
            return "top right"  # a line of the axis may cross the mark
        height = "top" if is_first else "bottom"
        # At the very left, where the axis has its labels, to the right of the mark.
        return f"{height} center" if round(row[chart.x], 2) else f"{height} right"

    return {
        "mode": "markers+text",
        "text": [f"  {safe(text, 30)}" if text else "" for text in texts],
        "textposition": [position(row) for row in rows],
        "textfont": {"size": 12},
        "cliponaxis": False,
    }


def scatter(chart: Chart, rows: Sequence[Row]) -> Row:
    kind = "scattergl" if len(rows) >= WEBGL_FROM and not chart.low else "scatter"
    return {"type": kind, "x": [row[chart.x] for row in rows], "y": [row[chart.y] for row in rows]}


def whiskers(chart: Chart, rows: Sequence[Row]) -> Row:
    """Down and up from each value; an unknown end has none."""
    name = chart.x if chart.interval == "x" else chart.y
    down, up = [], []
    for row in rows:
        low, high = row.get(chart.low), row.get(chart.high)
        down.append(0.0 if low is None else max(0.0, row[name] - low))
        up.append(0.0 if high is None else max(0.0, high - row[name]))
    return {"type": "data", "symmetric": False, "arrayminus": down, "array": up}


def bars(chart: Chart, series: Series) -> Row:
    """From ``low`` to x where bars have a begin of their own; else stacked, upright where y is no category."""
    colours, rows = palette(), series.rows
    colour, shape = series.colour, PATTERNS[series.place % len(PATTERNS)]
    if chart.colour == "sign":
        purpose, shape = SIGNS[rows[0]["sign"]]
        colour = getattr(colours, purpose)
    pattern = {"shape": shape, "fillmode": "overlay", "fgcolor": colours.background, "size": 6, "solidity": 0.22}
    x = [row[chart.x] for row in rows]
    begins = [row[chart.low] for row in rows] if chart.low else None
    if begins is not None:
        x = [end - begin for end, begin in zip(x, begins, strict=True)]

    return {
        "type": "bar",
        "orientation": "h" if isinstance(rows[0][chart.y], str) else "v",
        "marker": {
            "color": colour,
            "pattern": pattern,
            "line": {"color": colour, "width": 1},
            "opacity": [FADED if row[chart.faint] else 1 for row in rows] if chart.faint else None,
        },
        "x": x,
        "y": [row[chart.y] for row in rows],
        "base": begins,
        "width": [row[chart.size] for row in rows] if chart.size else None,
        **({"textposition": "outside", "cliponaxis": False} if chart.text else {}),
    }


def bar_text(value: object, column: Column) -> str:
    if isinstance(value, float):
        return value_words(value, column) if column.unit else times(value)
    return safe(value or "", 30)


def heat(chart: Chart, rows: Sequence[Row], columns: Mapping[str, Column]) -> Row:
    """Cells with their text: a colour for each of ``kinds``, or the darker, the larger ``size``."""
    colours = palette()
    fills = [colours.surface, *kind_fills(chart)] if chart.kinds else [colours.surface, colours.accent]
    across = list(dict.fromkeys(row[chart.x] for row in rows))
    down = list(dict.fromkeys(row[chart.y] for row in rows))
    most = 1 if chart.kinds else max((row[chart.size] for row in rows), default=1) or 1

    def grid(cell: Callable[[Row], Any], none: Any = "") -> list[list[Any]]:
        """[down, across]"""
        cells = {(row[chart.y], row[chart.x]): cell(row) for row in rows}
        return [[cells.get((y, x), none) for x in across] for y in down]

    def level(row: Row) -> float:
        """0 is the ground; a kind's is its place."""
        if chart.kinds:
            return chart.kinds.index(row[chart.colour]) + 1 if row[chart.colour] else 0
        return float(row[chart.size])

    def text(row: Row) -> str:
        fill = fills[int(level(row))] if chart.kinds else mixed(fills[0], fills[1], level(row) / most)
        return f'<span style="color:{ink_on(fill)}">{value_words(row[chart.text], Column())}</span>'

    count = len(fills)
    edges = [(place + side) / count for place in range(count) for side in (0, 1)]
    steps = [(edge, fills[number // 2]) for number, edge in enumerate(edges)]
    return {
        "type": "heatmap",
        "x": across,
        "y": down,
        "z": grid(level, None),
        "zmin": -0.5 if chart.kinds else 0,
        "zmax": count - 0.5 if chart.kinds else most,
        "colorscale": steps if chart.kinds else list(enumerate(fills)),
        "showscale": False,
        "xgap": 3,
        "ygap": 3,
        "text": grid(text),
        "texttemplate": "%{text}",
        "textfont": {"size": 13},
        "hovertext": grid(lambda row: hover(chart, row, columns, {})),
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def kind_fills(chart: Chart) -> list[str]:
    """A colour for each kind; the last one's is neutral."""
    return [*(entry_colour(place) for place in range(1, len(chart.kinds))), palette().neutral]


def kind_legend(chart: Chart, rows: Sequence[Row]) -> Iterator[Row]:
    """A mark for each kind that is drawn: a map of colours has no legend of its own."""
    drawn = {row[chart.colour] for row in rows}
    for kind, fill in zip(chart.kinds, kind_fills(chart), strict=True):
        if kind in drawn:
            marker = {"symbol": "square", "size": 12, "color": fill}
            yield {
                "type": "scatter",
                "x": [None],
                "y": [None],
                "mode": "markers",
                "marker": marker,
                "name": safe(kind),
                "showlegend": True,
            }


def alt_of(title: str, answer: str, rows: int, chart: Chart) -> str:
    """What a screen reader gets in the chart's place."""
    return one_line(f"{title} {answer} A chart of {counted(rows, 'row')}, {chart.y} by {chart.x}.")
