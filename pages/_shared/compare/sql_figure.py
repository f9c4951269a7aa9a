"""A statement's rows as a plotly figure, and in one sentence what it shows. Rows are drawn one by one, never averaged.

Names and values are anybody's text: plotly reads some markup in its texts, so all of them are escaped.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import one_line
from engine.store.comparison import Z_95
from pages._shared.compare.sql_plot import Plot
from pages._shared.compare.state import Chosen
from pages._shared.theme import Palette, plotly_template

ORIGIN, REPORTED = "origin", "reported"
MOST_ROWS = 5_000
MOST_LABEL = 34
FEW_LABELS = 12  # so many fit below an axis level
HEIGHT_PX = 420
PATTERNS = ("", "/", "x", ".", "\\", "-", "|", "+")
SYMBOLS = ("circle", "diamond", "square", "x", "cross", "triangle-up", "star", "pentagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px 2px", "2px 4px")


@dataclass(frozen=True, slots=True)
class Look:
    """How values are called and coloured: compared runs as everywhere on the page."""

    colours: Palette
    chosen: Chosen | None = None

    def name(self, value: object) -> str:
        if value is None:
            return "null"
        if self.chosen is not None and value in self.chosen.ids:
            return escape(self.chosen.name(str(value)))
        return escape(_short(one_line(str(value))))

    def colour(self, value: object, place: int) -> str:
        if self.chosen is not None and value in self.chosen.ids:
            return self.chosen.colour(str(value), self.colours)
        return self.colours.series[place % len(self.colours.series)]


def question(plot: Plot) -> str:
    """The chart's title."""
    if plot.kind == "histogram":
        return f"How are values of {plot.x} spread?"
    if plot.kind == "bar":
        return f"How does {plot.y} differ by {plot.x}?"
    return f"How does {plot.y} change along {plot.x}?" if plot.kind == "line" else f"Does {plot.y} go with {plot.x}?"


def figure(table: pa.Table, plot: Plot, look: Look) -> go.Figure:
    """The first rows, as many as a browser draws at ease."""
    rows = table.slice(0, MOST_ROWS)
    drawn = go.Figure()
    trace = {"bar": _bars, "line": _lines, "scatter": _points, "histogram": _spread}[plot.kind]
    for place, (value, part) in enumerate(_groups(rows, plot.colour)):
        name = look.name(value) if plot.colour else ""
        drawn.add_trace(trace(part, plot, look, name, look.colour(value, place), place))
    texts = [_label(plot.x), "rows" if plot.kind == "histogram" else _label(plot.y)]
    labels = len({text for one in drawn.data for text in (one.x or ())}) if plot.kind == "bar" else 0
    drawn.update_layout(
        template=plotly_template(look.colours),
        height=HEIGHT_PX,
        barmode="overlay" if plot.kind == "histogram" else "group",
        showlegend=bool(plot.colour),
        legend={"title": {"text": _label(plot.colour)}},
        margin={"t": 50 if plot.colour else 16, "b": 8},
        dragmode=False,
    )
    drawn.update_xaxes(title=texts[0], tickangle=-38 if labels > FEW_LABELS else None)
    drawn.update_yaxes(title=texts[1], rangemode="tozero" if plot.kind in ("bar", "histogram") else "normal")
    return drawn


def sentence(table: pa.Table, plot: Plot, look: Look) -> str:
    """The answer in words, as Markdown would have to be told; what it is of comes with it."""
    rows = table.slice(0, MOST_ROWS)
    tell: Mapping[str, Callable[[pa.Table, Plot, Look], str]]
    tell = {"bar": _extremes, "line": _extremes, "scatter": _together, "histogram": _middle}
    left_out = f" Drawn are the first {MOST_ROWS:,} of {table.num_rows:,} rows." if table.num_rows > MOST_ROWS else ""
    return tell[plot.kind](rows, plot, look) + _marked(rows, plot) + left_out


def _marked(table: pa.Table, plot: Plot) -> str:
    count = sum(reported(table, plot))
    if not count or plot.kind == "histogram":
        return f" {count:,} of the rows are {REPORTED}, not measured." if count else ""
    return f" Bars of {REPORTED} rows say so." if plot.kind == "bar" else f" Hollow marks are {REPORTED} rows."


# --- traces -------------------------------------------------------------------------------------------------------


def _groups(table: pa.Table, name: str) -> list[tuple[object, pa.Table]]:
    """The rows by the value of a column, in the order in which values first come."""
    if not name:
        return [(None, table)]
    values = table[name].to_pylist()
    places: dict[object, list[int]] = {}
    for row, value in enumerate(values):
        places.setdefault(value, []).append(row)
    return [(value, table.take(rows)) for value, rows in places.items()]


def _bars(part: pa.Table, plot: Plot, look: Look, name: str, colour: str, place: int) -> go.Bar:
    names = [look.name(value) for value in part[plot.x].to_pylist()]
    said = [f"{one} · {REPORTED}" if is_said else one for one, is_said in zip(names, reported(part, plot), strict=True)]
    labels = _told_apart(said)
    return go.Bar(
        x=labels,
        y=known(part, plot.y),
        name=name,
        marker={"color": colour, "pattern": {"shape": PATTERNS[place % len(PATTERNS)]}},
        hovertemplate=_hover(plot, name),
    )


def _told_apart(labels: Sequence[str]) -> list[str]:
    """A second row of one name gets a bar of its own: stacked, they would be a sum that nobody asked for."""
    seen: Counter[str] = Counter()
    found = []
    for label in labels:
        seen[label] += 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found


def _lines(part: pa.Table, plot: Plot, look: Look, name: str, colour: str, place: int) -> go.Scatter:
    ordered = part.sort_by(plot.x)
    dash = DASHES[place % len(DASHES)]
    return go.Scatter(
        x=_along(ordered, plot.x, look),
        y=known(ordered, plot.y),
        mode="lines+markers",
        name=name,
        line={"color": colour, "dash": dash},
        marker={"symbol": _symbols(ordered, plot, place), "size": 7},
        hovertemplate=_hover(plot, name),
    )


def _points(part: pa.Table, plot: Plot, look: Look, name: str, colour: str, place: int) -> go.Scatter:
    return go.Scatter(
        x=_along(part, plot.x, look),
        y=known(part, plot.y),
        mode="markers",
        name=name,
        marker={"color": colour, "symbol": _symbols(part, plot, place), "size": 7, "opacity": 0.75},
        hovertemplate=_hover(plot, name),
    )


def reported(table: pa.Table, plot: Plot) -> list[bool]:
    """For each row, whether only a text states it; nothing is to be marked where the chart tells origins apart."""
    if ORIGIN not in table.column_names or ORIGIN in (plot.x, plot.colour):
        return [False] * table.num_rows
    return [origin == REPORTED for origin in table[ORIGIN].to_pylist()]


def _symbols(part: pa.Table, plot: Plot, place: int) -> list[str]:
    """Hollow where a row is reported."""
    symbol = SYMBOLS[place % len(SYMBOLS)]
    return [f"{symbol}-open" if one else symbol for one in reported(part, plot)]


def _spread(part: pa.Table, plot: Plot, look: Look, name: str, colour: str, place: int) -> go.Histogram:
    return go.Histogram(
        x=known(part, plot.x),
        name=name,
        bingroup="all",
        opacity=0.65 if plot.colour else 1,
        marker={"color": colour, "pattern": {"shape": PATTERNS[place % len(PATTERNS)]}},
        hovertemplate=f"{_label(plot.x)} %{{x}}: %{{y:,}} rows<extra>{_plain(name)}</extra>",
    )


def _along(table: pa.Table, name: str, look: Look) -> Sequence[Any]:
    column = table[name]
    if pa.types.is_temporal(column.type):
        values: list[Any] = column.to_pylist()
        return values
    is_text = pa.types.is_string(column.type) or pa.types.is_boolean(column.type) or pa.types.is_dictionary(column.type)
    return [look.name(value) for value in column.to_pylist()] if is_text else list(known(table, name))


def _hover(plot: Plot, name: str) -> str:
    return f"{_label(plot.x)} %{{x}}<br>{_label(plot.y)} %{{y:.4~g}}<extra>{_plain(name)}</extra>"


def _label(name: str) -> str:
    """A column's name in plotly's texts."""
    return _plain(escape(_short(one_line(name))))


def _short(text: str) -> str:
    """Beginning and end: ids of runs begin alike, and SMILES end alike."""
    half = MOST_LABEL // 2
    return text if len(text) <= MOST_LABEL else f"{text[: half - 3]}…{text[-half - 2 :]}"


def _plain(text: str) -> str:
    """In a template, plotly fills in what stands behind a per cent sign and a brace."""
    return text.replace("{", "(").replace("}", ")")


def known(table: pa.Table, name: str) -> NDArray[np.float64]:
    """A column of numbers; NaN where it has none."""
    values: NDArray[np.float64] = table[name].cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)


# --- words --------------------------------------------------------------------------------------------------------


def _extremes(table: pa.Table, plot: Plot, look: Look) -> str:
    values = known(table, plot.y)
    if np.isnan(values).all():
        return f"No row has a {plot.y}."
    high, low = int(np.nanargmax(values)), int(np.nanargmin(values))
    count = int((~np.isnan(values)).sum())
    told = [f"{plot.y} is {number(values[row])} at {_where(table, plot, look, row)}" for row in (high, low)]
    return (
        f"Of {count:,} rows, highest: {told[0]}; lowest: {told[1]}. "
        "Each row is drawn as the statement gives it; its noise is not in it."
    )


def _where(table: pa.Table, plot: Plot, look: Look, row: int) -> str:
    """Names as words, which are not plotly's."""
    names = [name for name in (plot.x, plot.colour) if name]
    return ", ".join(_unescaped(look, table[name][row].as_py()) for name in names)


def _unescaped(look: Look, value: object) -> str:
    if look.chosen is not None and value in look.chosen.ids:
        return look.chosen.name(str(value))
    return number(value) if isinstance(value, float) else one_line(str(value))


def _together(table: pa.Table, plot: Plot, look: Look) -> str:
    if not _is_numeric(table, plot.x):
        return _extremes(table, plot, look)
    xs, ys = known(table, plot.x), known(table, plot.y)
    both = ~(np.isnan(xs) | np.isnan(ys))
    count = int(both.sum())
    rho = spearman(xs[both], ys[both]) if count > 4 else math.nan
    if math.isnan(rho):
        return f"{count:,} rows have both: too few, or too much alike, to say."
    low, high = spearman_interval(rho, count)
    word = "rise together" if low > 0 else "go against each other" if high < 0 else "may go together by chance"
    interval = f"Spearman's ρ {rho:.2f} [{low:.2f}, {high:.2f}] over {count:,} rows"
    return f"The two {word}: {interval}, taken as independent of each other."


def _middle(table: pa.Table, plot: Plot, look: Look) -> str:
    parts = []
    for value, part in _groups(table, plot.colour):
        values = known(part, plot.x)
        values = values[~np.isnan(values)]
        if len(values):
            quarter, half, three = np.percentile(values, [25, 50, 75])
            of = f"{_unescaped(look, value)}: " if plot.colour else ""
            spread = f"median {number(half)}, middle half {number(quarter)} to {number(three)}"
            parts.append(f"{of}{spread} ({len(values):,} rows)")
    return "; ".join(parts) + "."


def _is_numeric(table: pa.Table, name: str) -> bool:
    kind = table[name].type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def spearman(xs: NDArray[np.float64], ys: NDArray[np.float64]) -> float:
    """Rank correlation, ties sharing their mean rank; NaN where one side is all the same."""
    a, b = _ranks(xs), _ranks(ys)
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum() / scale) if scale else math.nan


def spearman_interval(rho: float, count: int) -> tuple[float, float]:
    """95 %, by Fisher's transform with Bonett and Wright's error."""
    if abs(rho) >= 1:
        return rho, rho
    middle, half = math.atanh(rho), Z_95 * math.sqrt((1 + rho * rho / 2) / (count - 3))
    return math.tanh(middle - half), math.tanh(middle + half)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts).astype(np.float64)
    ranks: NDArray[np.float64] = (ends - (counts - 1) / 2)[places]
    return ranks


def number(value: object) -> str:
    """Four digits that count, thousands apart."""
    if not isinstance(value, float | np.floating):
        return str(value)
    size = abs(float(value))
    return f"{value:,.0f}" if size >= 1_000 else f"{value:.4g}"
