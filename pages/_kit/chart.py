"""One function from a question's chart and its table to a plotly figure.

Texts may be anybody's: they are escaped here and go into the figure as data, never into a template. Colour is never
alone: series differ by symbol or pattern too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape, unescape
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from engine.errors import one_line
from engine.figures.words import counted, hundredths, large, number, shortened, significant, times
from engine.questions.question import Chart, Column
from pages._shared.theme import ink_on, mixed, palette, plotly_template

if TYPE_CHECKING:
    import plotly.graph_objects as go

Row = dict[str, Any]
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "pentagon")
PATTERNS = ("", "/", "x", ".", "\\", "-", "|", "+")
MOST_CHARS, MOST_SERIES, MOST_PANELS = 60, 40, 12
SIGNS = {"exact": ("exact", ""), "junk-prone": ("junk", "/"), "cut": ("cut", "x"), "hypothetical": ("neutral", "")}
FADED = 0.3
WEBGL_FROM = 1_000  # points, from which on the graphics card draws them
LOG_TICKS = [digit * 10.0**power for power in range(-6, 10) for digit in (1, 2, 5)]


def safe(text: object, most: int = MOST_CHARS) -> str:
    return escape(shortened(one_line(str(text)), most))


def on_axis(text: object) -> str:
    """Words as a label of an axis, whole in up to three lines."""
    lines = wrap(unescape(one_line(str(text))), 30, max_lines=3, placeholder=" …", break_on_hyphens=False)
    return "<br>".join(map(escape, lines))


def value_words(value: object, column: Column) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return safe("–" if value is None else value)
    if column.unit == "%":
        return f"{hundredths(value)} %"
    if column.unit == "×":
        return times(value)
    return f"{number(round(value) if value == round(value) else value)} {column.unit}".rstrip()


def figure_of(
    chart: Chart, rows: Sequence[Row], columns: Mapping[str, Column], order: Sequence[str], names: Mapping[str, str]
) -> go.Figure:
    """``order`` has the chosen entries' ids, the control first: a run has one colour everywhere on a page."""
    import plotly.graph_objects as go  # half a second, and only pages with charts pay it
    from plotly.subplots import make_subplots

    colours = palette()
    # Texts on an axis are escaped here, once: plotly shows a category's own text where a tick has none.
    rows = [
        row | {axis: escape(one_line(row[axis])) for axis in (chart.x, chart.y) if isinstance(row[axis], str)}
        for row in rows
        if row[chart.x] is not None and row[chart.y] is not None
    ]
    panels = list(dict.fromkeys(row[chart.split] for row in rows))[:MOST_PANELS] if chart.split else [None]
    kinds = list(dict.fromkeys(row[chart.colour] for row in rows))[:MOST_SERIES] if chart.colour else [None]
    categories = (
        list(dict.fromkeys(row[chart.y] for row in rows)) if any(isinstance(r[chart.y], str) for r in rows) else []
    )
    across = chart.across or (1 if chart.kind == "bars" else min(2, len(panels)))
    down = -(-len(panels) // across)
    titles = [on_axis(panel) for panel in panels] if chart.split else None
    is_drift = "all" if chart.colour == "sign" else False  # on one scale
    empty = make_subplots(
        rows=down,
        cols=across,
        subplot_titles=titles,
        shared_yaxes=is_drift,
        shared_xaxes=is_drift or chart.kind == "bars",
        vertical_spacing=0.25 / down,
        horizontal_spacing=0.12 if across < 3 else 0.02,
    )
    traces, shown = [], set()
    for index, panel in enumerate(panels):
        of_panel = [row for row in rows if panel is None or row[chart.split] == panel]
        axes = {"xaxis": f"x{index + 1 if index else ''}", "yaxis": f"y{index + 1 if index else ''}"}
        if chart.kind == "heat":
            traces.append(heat(chart, of_panel, columns) | axes)
            continue
        for kind in kinds:
            series = [row for row in of_panel if not chart.colour or row[chart.colour] == kind]
            for dashed in (False, True) if chart.dash else (False,):
                part = [row for row in series if not chart.dash or row[chart.dash] == dashed]
                if not part:
                    continue
                colour_index = order.index(kind) if kind in order else index_of(kind, names, kinds)
                name = names.get(str(kind), str(kind)) + (" (baseline)" if dashed else "")
                trace = (bars if chart.kind == "bars" else marks)(chart, part, colour_index)
                trace |= {
                    "name": safe(name),
                    "legendgroup": safe(name),
                    **axes,
                    "hovertemplate": "%{hovertext}<extra></extra>",
                }
                trace["showlegend"] = bool(chart.colour) and len(kinds) > 1 and name not in shown and not repeats(chart)
                trace["hovertext"] = ["<br>".join(hover(chart, row, columns, names)) for row in part]
                trace["customdata"] = [row.get(chart.picks.rpartition(":")[2]) for row in part] if chart.picks else None
                shown.add(name)
                traces.append(trace)
    most_lines = max((on_axis(name).count("<br>") for name in categories), default=0)
    of_panels = panel_categories(chart, rows, panels)
    lanes = max(map(len, of_panels), default=1) * (1 + most_lines / 2)
    legend = 34 if any(trace.get("showlegend") for trace in traces) else 0
    height = 330 if not categories and not chart.split else (90 + legend + 30 * lanes) * (down if chart.split else 1)
    height = (
        70 + legend + (190 if chart.across else 120) * down
        if chart.kind == "bars" and chart.split
        else max(height, 150)
    )
    figure = go.Figure(traces, empty.layout)
    top, dragmode = (26 + legend if chart.split or legend else 8, False if chart.picks else "zoom")
    figure.update_layout(
        template=plotly_template(colours),
        height=height,
        margin={"t": top},
        dragmode=dragmode,
        barmode="relative",
        bargap=0.25,
    )
    if titles:  # the legend above them
        lines = max(title.count("<br>") for title in titles[:across])
        figure.update_layout(legend_y=1 + (24 + 16 * lines) / (height - top), margin_t=top + 16 * lines)
    figure.update_annotations(font={"size": 12})
    for axis, column, update in (("x", chart.x, figure.update_xaxes), ("y", chart.y, figure.update_yaxes)):
        update(**axis_of(chart, axis, column, rows, columns.get(column, Column(column)), categories))
    for index, kinds in enumerate(of_panels, start=1):
        figure.update_layout({f"yaxis{index}": {"categoryarray": kinds, **ticks_of(kinds)}})
    if down > 1 and chart.kind == "bars":  # one scale for all panels, named once
        above = range(1, (down - 1) * across + 1)
        figure.update_layout({f"xaxis{index if index > 1 else ''}": {"title": None} for index in above})
    if chart.across > 1:
        figure.update_layout({f"yaxis{index + 1}": {"title": None} for index in range(len(panels)) if index % across})
    lines_across(chart, figure, rows)
    return figure


def panel_categories(chart: Chart, rows: Sequence[Row], panels: Sequence[Any]) -> list[list[str]]:
    """Of each small chart those of its own rows; none where y has numbers."""
    if not any(isinstance(row[chart.y], str) for row in rows):
        return []
    of_panels = ([row for row in rows if panel is None or row[chart.split] == panel] for panel in panels)
    return [list(dict.fromkeys(row[chart.y] for row in of_panel)) for of_panel in of_panels]


def ticks_of(kinds: Sequence[str]) -> dict[str, Any]:
    return {"tickvals": kinds, "ticktext": [on_axis(kind) for kind in kinds]}


def index_of(kind: object, names: Mapping[str, str], kinds: Sequence[object]) -> int:
    return list(names.values()).index(str(kind)) if kind in names.values() else kinds.index(kind)


def repeats(chart: Chart) -> bool:
    """A legend would say what the axis says."""
    return chart.colour == chart.y or (chart.colour == "run" and chart.y == "name")


def hover(chart: Chart, row: Row, columns: Mapping[str, Column], names: Mapping[str, str]) -> list[str]:
    shown = chart.hover or tuple(
        dict.fromkeys(c for c in ("name", chart.split, chart.y, chart.x, chart.low, chart.high) if c)
    )
    lines = []
    for name in shown:
        column = columns.get(name, Column(name))
        words = (
            safe(unescape(names.get(str(row.get(name)), str(row.get(name))))) if isinstance(row.get(name), str) else ""
        )
        lines.append(words or f"{safe(column.words or name)}: {value_words(row.get(name), column)}")
    return lines


def axis_of(
    chart: Chart, axis: str, name: str, rows: Sequence[Row], column: Column, categories: Sequence[str]
) -> dict[str, Any]:
    values = [row[name] for row in rows]
    unit = f" ({column.unit})" if column.unit not in ("", "%", "×") else ""
    layout: dict[str, Any] = {"title": {"text": safe(f"{column.words or name}{unit}"), "font": {"size": 13}}}
    if any(isinstance(value, str) for value in values):
        kinds = categories if axis == "y" else list(dict.fromkeys(values))
        layout = ticks_of(kinds) | {"showgrid": False}
        layout |= {"categoryorder": "array", "categoryarray": kinds}
        position = {"autorange": "reversed"} if axis == "y" else {"side": "top"} if chart.kind == "heat" else {}
        return layout | {"type": "category"} | position
    if column.unit == "%":
        ends = [
            value for row in rows for value in (row[name], row.get(chart.low), row.get(chart.high)) if value is not None
        ]
        layout |= {"tickformat": ".0%"} | (
            {"range": [-0.03, 1.05]} if ends and min(ends) >= 0 and max(ends) > 0.5 else {}
        )
    if chart.kind == "bars" and chart.text and axis not in chart.log:  # room for the words at both ends
        ends = [0.0, *values, *(row[chart.low] for row in rows if chart.low)]
        room = 0.18 * (max(ends) - min(ends))
        layout["range"] = [min(ends) - room * (min(ends) < 0), max(ends) + room * (max(ends) > 0)]
    if axis in chart.log:
        layout |= {
            "type": "log",
            "tickvals": LOG_TICKS,
            "ticktext": [large(tick) if tick >= 1e4 else significant(tick) for tick in LOG_TICKS],
        }
        ends = (
            [v for row in rows for v in (row[name], row.get(chart.low), row.get(chart.high)) if v]
            if chart.interval == axis
            else values
        )
        positive = [end for end in [*ends, level_of(chart, rows)] if end and end > 0]
        if positive:
            low, high = math.log10(min(positive)), math.log10(max(positive))
            room = max(0.08 * (high - low), 0.12)
            layout["range"] = [low - room, high + room]
            if high - low > 3:  # a tick for each power of ten
                layout |= {
                    "tickvals": LOG_TICKS[::3],
                    "ticktext": [large(tick) if tick >= 1e4 else significant(tick) for tick in LOG_TICKS[::3]],
                }
    return layout


def level_of(chart: Chart, rows: Sequence[Row]) -> float | None:
    return chart.line_at if not isinstance(chart.line_at, str) else rows[0][chart.line_at] if rows else None


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


def colour_of(index: int, chart: Chart) -> str:
    return entry_colour(index if chart.colour in ("run", "name") else index + 1)


def marks(chart: Chart, rows: Sequence[Row], index: int) -> Row:
    """Points or lines, with whiskers from ``low`` to ``high`` where both are known."""
    colours = palette()
    colour = colour_of(index, chart)
    faint = [bool(row.get(chart.faint)) for row in rows]
    is_line = chart.kind == "lines"
    labels = (
        ["  " + safe(row.get(chart.text) or "", 30) if row.get(chart.text) else "" for row in rows]
        if chart.text
        else []
    )
    trace: Row = {
        "type": "scattergl" if len(rows) >= WEBGL_FROM and not chart.low else "scatter",
        "x": [row[chart.x] for row in rows],
        "y": [row[chart.y] for row in rows],
        "mode": "lines" if is_line else "markers+text" if any(labels) else "markers",
        "marker": {
            "color": [colours.muted if f else colour for f in faint],
            "symbol": SYMBOLS[index % len(SYMBOLS)],
            "size": [row.get(chart.size) or 9 for row in rows] if chart.size else [7 if f else 11 for f in faint],
            "opacity": [0.45 if f else 0.85 for f in faint],
            "line": {"color": colours.background, "width": 1},
        },
    }
    if is_line:
        is_dashed = bool(chart.dash and rows[0][chart.dash])
        trace["line"] = {
            "color": colours.muted if is_dashed else colour,
            "width": 2,
            "dash": "dash" if is_dashed else "solid",
        }
        del trace["marker"]
    if any(labels):
        trace |= {
            "text": labels,
            "textposition": "top center" if chart.interval == "x" else "middle right",
            "cliponaxis": False,
            "textfont": {"size": 12},
        }
    if chart.low and not is_line:
        middle = [row[chart.x if chart.interval == "x" else chart.y] for row in rows]
        ends: dict[str, list[float]] = {"arrayminus": [], "array": []}
        for value, row in zip(middle, rows, strict=True):
            low, high = row.get(chart.low), row.get(chart.high)
            ends["arrayminus"].append(0 if low is None else max(0.0, value - low))
            ends["array"].append(0 if high is None else max(0.0, high - value))
        whisker = {"type": "data", "symmetric": False, "color": colours.muted, "thickness": 1.4, **ends}
        trace[f"error_{chart.interval}"] = whisker
    return trace


def bars(chart: Chart, rows: Sequence[Row], index: int) -> Row:
    """From ``low`` to x where bars have a begin of their own; else stacked, upright where y is no category."""
    colours = palette()
    colour, across = colour_of(index, chart), isinstance(rows[0][chart.y], str)
    shape = PATTERNS[index % len(PATTERNS)]
    if chart.colour == "sign":
        purpose, shape = SIGNS[rows[0]["sign"]]
        colour = getattr(colours, purpose)
    pattern = {"shape": shape, "fillmode": "overlay", "fgcolor": colours.background, "size": 6, "solidity": 0.22}
    trace: Row = {
        "type": "bar",
        "orientation": "h" if across else "v",
        "marker": {"color": colour, "pattern": pattern, "line": {"color": colour, "width": 1}},
        "x": [row[chart.x] for row in rows],
        "y": [row[chart.y] for row in rows],
    }
    if chart.faint:
        trace["marker"]["opacity"] = [FADED if row[chart.faint] else 1 for row in rows]
    if chart.low:
        trace |= {"base": [row[chart.low] for row in rows], "x": [row[chart.x] - row[chart.low] for row in rows]}
    if chart.size:
        trace["width"] = [row[chart.size] for row in rows]
    if chart.text:
        texts = [row.get(chart.text) for row in rows]
        words = [times(text) if isinstance(text, float) else safe(text or "", 30) for text in texts]
        trace |= {"text": words, "textposition": "outside", "cliponaxis": False}
    return trace


def heat(chart: Chart, rows: Sequence[Row], columns: Mapping[str, Column]) -> Row:
    """Cells with their text; the darker, the larger ``size``."""
    colours = palette()
    x, y = (list(dict.fromkeys(row[axis] for row in rows)) for axis in (chart.x, chart.y))
    cells = {(row[chart.y], row[chart.x]): row for row in rows}
    high = max((row[chart.size] for row in rows), default=1) or 1
    ends, texts, hovers, values = (colours.surface, colours.accent), [], [], []
    for line in y:
        line_cells = [cells.get((line, name)) for name in x]
        values.append([None if cell is None else cell[chart.size] for cell in line_cells])
        hovers.append(["" if c is None else "<br>".join(hover(chart, c, columns, {})) for c in line_cells])
        texts.append(
            [
                ""
                if c is None
                else f'<span style="color:{ink_on(mixed(*ends, c[chart.size] / high))}">'
                f"{value_words(c[chart.text], Column())}</span>"
                for c in line_cells
            ]
        )
    cells_of = {"x": x, "y": y, "z": values, "zmin": 0, "zmax": high, "colorscale": list(enumerate(ends))}
    words = {
        "text": texts,
        "texttemplate": "%{text}",
        "textfont": {"size": 13},
        "hovertext": hovers,
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
    return {"type": "heatmap", "showscale": False, "xgap": 3, "ygap": 3, **cells_of, **words}


def alt_of(title: str, answer: str, rows: Sequence[Row], chart: Chart) -> str:
    """What a screen reader gets in the chart's place."""
    return one_line(f"{title} {answer} A chart of {counted(len(rows), 'row')}, {chart.y} by {chart.x}.")
