"""The chart of a statement's rows: their columns suggest one, the reader may choose another. Nothing is averaged.

The choice is in the address. Its widgets have no ``bind``, since the options are known only when the statement has
ended; a choice that does not suit the rows is ignored. Names and values are anybody's text: the chart kit escapes them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import streamlit as st
from numpy.typing import NDArray

from engine.errors import one_line
from engine.figures.statistics import spearman, spearman_interval
from engine.figures.words import counted, number
from pages._shared.charts.card import draw
from pages._shared.charts.chart import PATTERNS, SYMBOLS, Axis, Chart, Marks, Row, chart
from pages._shared.charts.text import safe
from pages._shared.errors import escape_markdown
from pages._shared.shown import put_shown
from pages._shared.sql_plot import KINDS, Plot, across, default_plot, groups, is_number, is_text, numbers, suited
from pages._shared.theme import Palette, palette

KIND, X, Y, COLOUR = "sql_chart", "sql_x", "sql_y", "sql_colour"
"""In the address."""
ORIGIN, REPORTED = "origin", "reported"
NO_COLOUR = "one for all"
MOST_ROWS = 5_000  # that are drawn
MOST_LABEL, FEW_LABELS, MOST_BINS = 34, 12, 60
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px 2px", "2px 4px")


class ComparedRuns(Protocol):
    """Runs that have a name and a colour of their own on the page."""

    @property
    def ids(self) -> tuple[str, ...]: ...
    def name(self, run_id: str) -> str: ...
    def colour(self, run_id: str, colours: Palette) -> str: ...


def show(table: pa.Table, statement: str, runs: ComparedRuns | None) -> None:
    suggested = default_plot(table)
    if suggested is None:
        st.info("Nothing to draw: a chart takes two rows, and a column of numbers.", icon=":material/bar_chart:")
        return
    plot = _chosen_plot(table, suggested, statement)
    drawn = sql_chart(table, plot, runs)
    st.markdown(f"##### {escape_markdown(plot.question)}")
    st.markdown(escape_markdown(drawn.alt.removeprefix(plot.question).strip()))
    draw(drawn, key=f"sql_figure_{hash((statement, plot))}")


def _chosen_plot(table: pa.Table, suggested: Plot, statement: str) -> Plot:
    """The widgets' choice. Another statement or kind has other widgets, so that no old choice remains."""
    places = st.columns([2.7, 1.5, 1.5, 1.5], vertical_alignment="bottom")
    kinds = [kind for kind in KINDS if across(table, kind)]
    of = f"{hash(statement)}"
    with places[0]:
        kind = _choice("Chart", kinds, suggested.kind, KIND, of)
    start = suited(table, next(known for known in KINDS if known == kind), suggested)
    of = f"{of} {kind}"
    with places[1]:
        x = _choice("x", across(table, start.kind), start.x, X, of)
    with places[2]:
        y = "" if start.kind == "histogram" else _choice("y", numbers(table), start.y, Y, of)
    with places[3]:
        colour = _choice("Colour", [NO_COLOUR, *groups(table)], start.colour or NO_COLOUR, COLOUR, of)
    put_shown(**{KIND: kind, X: x, Y: y, COLOUR: colour})
    return Plot(start.kind, x, y, "" if colour == NO_COLOUR else colour)


def _choice(label: str, options: Sequence[str], default: str, name: str, of: str) -> str:
    """The choice of the address if the rows have it, else the default, which no address needs to name."""
    named = st.query_params.get(name, "")
    value = named if named in options else default
    key = f"{name} {of}"
    st.session_state[key] = value
    put = partial(_put, name, key, default)
    if name == KIND:
        st.segmented_control(label, options, key=key, format_func=str.capitalize, required=True, on_change=put)
    else:
        st.selectbox(label, options, key=key, on_change=put)
    return value


def _put(name: str, key: str, default: str) -> None:
    """Into the address; another kind drops the columns of the one before, in the same step."""
    value = st.session_state[key]
    dropped = [column for column in (X, Y, COLOUR) if name == KIND and st.query_params.get(column)]
    st.query_params.update({name: "" if value == default else value} | dict.fromkeys(dropped, ""))


# --- the chart ------------------------------------------------------------------------------------------------------


def sql_chart(table: pa.Table, plot: Plot, runs: ComparedRuns | None = None, colours: Palette | None = None) -> Chart:
    """The first rows, as many as a browser draws at ease."""
    colours = colours or palette()
    rows = table.slice(0, MOST_ROWS)
    edges = _bins(rows, plot.x) if plot.kind == "histogram" else np.empty(0)
    layers = []
    for place, (value, part) in enumerate(_grouped(rows, plot.colour)):
        colour = colours.series[place % len(colours.series)]
        if runs is not None and value in runs.ids:
            colour = runs.colour(str(value), colours)
        layers.append(
            Marks(
                kind={"line": "lines", "scatter": "points"}.get(plot.kind, "bars"),  # type: ignore[arg-type]
                rows=_bin_rows(part, plot.x, edges) if plot.kind == "histogram" else _rows(part, plot, place, runs),
                name=_name(value, runs) if plot.colour else "",
                colour=colour,
                pattern=PATTERNS[place % len(PATTERNS)],
                dash=DASHES[place % len(DASHES)],
                size=7,
                opacity=0.75 if plot.kind == "scatter" else 0.65 if plot.kind == "histogram" and plot.colour else 1,
                hover=lambda row: row["hover"],
            )
        )
    labels = {row["x"] for layer in layers for row in layer.rows} if plot.kind == "bar" else set()
    return chart(
        *layers,
        x=Axis(title=_short(plot.x), more={"tickangle": -38} if len(labels) > FEW_LABELS else {}),
        y=Axis(title=_short(plot.y) or "rows", from_zero=plot.kind in ("bar", "histogram")),
        alt=f"{plot.question} {_sentence(rows, plot, runs)}{_notes(table, rows, plot)}",
        height=420,
        top=50 if plot.colour else 16,
        bars="overlay" if plot.kind == "histogram" else "group",
        more={"dragmode": False, "legend": {"title": {"text": safe(_short(plot.colour))}}},
    )


def _grouped(table: pa.Table, name: str) -> list[tuple[object, pa.Table]]:
    """The rows by the value of a column, in the order in which values first come."""
    places: dict[object, list[int]] = {}
    for row, value in enumerate(table[name].to_pylist() if name else [None] * table.num_rows):
        places.setdefault(value, []).append(row)
    return [(value, table.take(rows)) for value, rows in places.items()]


def _rows(part: pa.Table, plot: Plot, place: int, runs: ComparedRuns | None) -> list[Row]:
    """A mark for each row: hollow, or named so, where it is reported."""
    part = part.sort_by(plot.x) if plot.kind == "line" else part
    kind, xs = part[plot.x].type, part[plot.x].to_pylist()
    if plot.kind == "bar" or is_text(kind):
        xs = [_name(x, runs) for x in xs]
    elif not pa.types.is_temporal(kind):
        xs = _numbers(part, plot.x)
    symbol = SYMBOLS[place % len(SYMBOLS)]
    rows: list[Row] = []
    seen: Counter[str] = Counter()
    for x, y, is_reported in zip(xs, _numbers(part, plot.y), _is_reported(part, plot), strict=True):
        if plot.kind == "bar":
            x += f" · {REPORTED}" if is_reported else ""
            seen[x] += 1  # a second row of one name is a bar of its own: stacked, they would be a sum
            x += f" ({seen[x]})" if seen[x] > 1 else ""
        shown = number(x) if isinstance(x, int | float) else str(x)
        rows.append(
            {
                "x": safe(x) if isinstance(x, str) else x,
                "y": y,
                "symbol": f"{symbol}-open" if is_reported else symbol,
                "hover": [f"{_short(plot.x)} {shown}", f"{_short(plot.y)} {number(y)}"],
            }
        )
    return rows


def _bins(table: pa.Table, name: str) -> NDArray[np.float64]:
    """Edges of at most MOST_BINS bins; those of whole numbers lie between them."""
    values = _floats(table, name)
    values = values[~np.isnan(values)]
    low, high = float(values.min()), float(values.max())
    if pa.types.is_integer(table[name].type):
        width = max(1, math.ceil((high - low + 1) / MOST_BINS))
        return np.arange(low - 0.5, high + width, width)
    edges = np.histogram_bin_edges(values, bins="auto" if len(values) < MOST_ROWS else MOST_BINS)
    return edges if len(edges) <= MOST_BINS + 1 else np.linspace(low, high, MOST_BINS + 1)


def _bin_rows(part: pa.Table, name: str, edges: NDArray[np.float64]) -> list[Row]:
    values = _floats(part, name)
    counts, _ = np.histogram(values[~np.isnan(values)], edges)
    width = float(edges[1] - edges[0])
    is_whole = pa.types.is_integer(part[name].type) and width == 1
    rows: list[Row] = []
    for low, count in zip(edges.tolist(), counts.tolist(), strict=False):
        span = number(round(low + 0.5)) if is_whole else f"{number(low)} to {number(low + width)}"
        hover = f"{_short(name)} {span}: {counted(count, 'row')}"
        rows.append({"x": low + width / 2, "y": count, "width": width, "hover": [hover]})
    return rows


def _is_reported(table: pa.Table, plot: Plot) -> list[bool]:
    """For each row, whether only a text states it; nothing is marked where the chart tells origins apart."""
    if ORIGIN not in table.column_names or ORIGIN in (plot.x, plot.colour):
        return [False] * table.num_rows
    return [origin == REPORTED for origin in table[ORIGIN].to_pylist()]


def _numbers(table: pa.Table, name: str) -> list[int | float | None]:
    """A column of numbers, counts as counts."""
    values: list[int | float | None]
    values = table[name].to_pylist() if pa.types.is_integer(table[name].type) else _floats(table, name).tolist()
    return values


def _floats(table: pa.Table, name: str) -> NDArray[np.float64]:
    """A column of numbers; NaN where it has none."""
    values: NDArray[np.float64] = table[name].cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def _name(value: object, runs: ComparedRuns | None) -> str:
    """Compared runs are called as everywhere on the page."""
    if runs is not None and value in runs.ids:
        return runs.name(str(value))
    return "null" if value is None else _short(str(value))


def _short(text: str) -> str:
    """Beginning and end: ids of runs begin alike, and SMILES end alike."""
    text, half = one_line(text), MOST_LABEL // 2
    return text if len(text) <= MOST_LABEL else f"{text[: half - 3]}…{text[-half - 2 :]}"


# --- the answer in words --------------------------------------------------------------------------------------------


def _sentence(table: pa.Table, plot: Plot, runs: ComparedRuns | None) -> str:
    if plot.kind == "histogram":
        return _spread(table, plot, runs)
    if plot.kind == "scatter" and is_number(table[plot.x].type):
        return _correlation(table, plot)
    return _extremes(table, plot, runs)


def _notes(table: pa.Table, rows: pa.Table, plot: Plot) -> str:
    """How reported rows are marked, and how many rows are not drawn."""
    count, note = sum(_is_reported(rows, plot)), ""
    if count and plot.kind == "histogram":
        note = f" {count:,} of the rows are {REPORTED}, not measured."
    elif count:
        note = f" Bars of {REPORTED} rows say so." if plot.kind == "bar" else f" Hollow marks are {REPORTED} rows."
    return note + (f" Only the first {MOST_ROWS:,} rows are drawn." if rows.num_rows < table.num_rows else "")


def _extremes(table: pa.Table, plot: Plot, runs: ComparedRuns | None) -> str:
    values = _floats(table, plot.y)
    if np.isnan(values).all():
        return f"No row has a {plot.y}."
    ends = []
    for row in (int(np.nanargmax(values)), int(np.nanargmin(values))):
        where = [table[name][row].as_py() for name in (plot.x, plot.colour) if name]
        names = [number(value) if isinstance(value, float) else _name(value, runs) for value in where]
        value = table[plot.y][row].as_py()
        ends.append(f"{plot.y} is {number(value if isinstance(value, int) else float(value))} at {', '.join(names)}")
    count = int((~np.isnan(values)).sum())
    drawn = "Each row is drawn as it is, without an interval."
    return f"Of {counted(count, 'row')}, highest: {ends[0]}; lowest: {ends[1]}. {drawn}"


def _correlation(table: pa.Table, plot: Plot) -> str:
    xs, ys = _floats(table, plot.x), _floats(table, plot.y)
    both = ~(np.isnan(xs) | np.isnan(ys))
    count = int(both.sum())
    rho = spearman(xs[both], ys[both]) if count > 4 else math.nan
    if math.isnan(rho):
        return f"{counted(count, 'row has', 'rows have')} both values: too few, or too many equal, to tell."
    low, high = spearman_interval(rho, count).ends or (rho, rho)
    word = "Both rise together" if low > 0 else "One falls as the other rises" if high < 0 else "No clear relation"
    shown, first, last = (f"{round(value, 2) + 0.0:.2f}".replace("-", "−") for value in (rho, low, high))
    interval = f"Spearman's ρ {shown} [{first}, {last}] over {count:,} rows"
    return f"{word}: {interval}, taken as independent of each other."


def _spread(table: pa.Table, plot: Plot, runs: ComparedRuns | None) -> str:
    parts = []
    for value, part in _grouped(table, plot.colour):
        values = _floats(part, plot.x)
        values = values[~np.isnan(values)]
        if len(values):
            quarter, half, three = (number(float(one)) for one in np.percentile(values, [25, 50, 75]))
            group = f"{_name(value, runs)}: " if plot.colour else ""
            parts.append(f"{group}median {half}, middle half {quarter} to {three} ({counted(len(values), 'row')})")
    return "; ".join(parts) + "."
