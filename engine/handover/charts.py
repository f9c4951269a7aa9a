"""A question's chart as rows of marks, which ``charts.js`` draws as SVG when the report is opened.

What its words, colours and panels are is decided here, as for a page's charts; where a mark is on the screen, there.
Colours are classes of the page's style, so that one chart is for light and dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from engine.errors import one_line
from engine.figures.words import to_digits
from engine.questions.chart_rows import (
    Row,
    figure_words,
    hover_lines,
    in_one_unit,
    kind_of,
    level_of,
    panels_of,
    place_of,
    repeats,
)
from engine.questions.question import Chart, Column
from engine.store.columns import rows_of

MOST_MARKS, COLOURS = 1_000, 8
SIGNS = {"exact": "exact", "junk-prone": "junk", "cut": "cut", "hypothetical": "neutral"}
GLYPHS = {"points": "●■◆▲", "lines": "━╍┅┉", "bars": "■▨"}
"""In legends, as the marks are."""


def chart_view(
    chart: Chart, tables: Mapping[str, pa.Table], columns: Mapping[str, Column], names: Mapping[str, str]
) -> dict[str, Any] | None:
    """None of the table of LPs and models, of colours by kind, and of too many marks to be told apart. ``names`` are of
    the chosen entries by id, the control first."""
    rows = [dict(row) for row in rows_of(tables[chart.table]) if None not in (row[chart.x], row[chart.y])]
    if rows and chart.kind == "time":
        return timeline(chart, rows, tables[chart.spans].to_pylist(), columns)
    if chart.kind == "matrix" or chart.kinds or not 0 < len(rows) <= MOST_MARKS:
        return None
    rows, columns = in_one_unit(chart, rows, columns)
    chart = replace(chart, colour="") if chart.kind == "heat" else chart
    return view_of(Style(chart, columns, names, list(dict.fromkeys(kind_of(chart, row) for row in rows))), rows)


def timeline(chart: Chart, rows: Sequence[Row], spans: Sequence[Row], columns: Mapping[str, Column]) -> dict[str, Any]:
    """Shares as bars on top of each other and, below those of each panel, its longest spans in lanes, on one axis."""
    kinds = list(dict.fromkeys(row[chart.colour] for row in rows))
    columns = {**columns, **dict.fromkeys(("at", "end"), columns[chart.x])}
    bars = [
        {**row, "at": (row[chart.x] + row[chart.high]) / 2, "width": row[chart.high] - row[chart.x]} for row in rows
    ]
    longest = sorted(spans, key=lambda span: span["start"] - span["end"])[:MOST_MARKS]
    shares = replace(chart, kind="bars", x="at", size="width", low="", high="")
    lanes = replace(chart, kind="bars", x="end", y="lane", low="start", high="", hover=("what", "start", "end"))
    view = view_of(Style(shares, columns, {}, kinds), bars)
    below = {panel["title"]: panel for panel in view_of(Style(lanes, columns, {}, kinds), longest)["panels"]}
    pairs = [(panel, {**below.get(panel["title"], {"marks": []}), "title": ""}) for panel in view["panels"]]
    ends = [min(row[chart.x] for row in rows), max(row[chart.high] for row in rows)]
    panels = [panel for pair in pairs for panel in pair if panel["marks"]]
    return {**view, "x": {**view["x"], "ends": ends}, "is_shared": False, "panels": panels}


def view_of(style: Style, rows: Sequence[Row]) -> dict[str, Any]:
    chart, panels = style.chart, panels_of(style.chart, rows)
    has_legend = len(style.kinds) > 1 and not repeats(chart)
    return {
        "kind": chart.kind,
        "x": style.axis("x"),
        "y": style.axis("y"),
        "interval": chart.interval,
        "level": level_of(chart, rows),
        "has_diagonal": chart.has_diagonal,
        "is_shared": chart.colour == "sign" or chart.kind == "bars",  # one scale for all panels
        "legend": [style.legend_of(kind) for kind in style.kinds] if has_legend else [],
        "panels": [
            {"title": one_line(str(panel.value or "")), "marks": [style.mark(row, len(rows)) for row in panel.rows]}
            for panel in panels
        ],
        "panels_left_out": len({row.get(chart.split) for row in rows}) - len(panels),
    }


@dataclass(frozen=True, slots=True)
class Style:
    """What all panels of a chart share: words, and how the marks of a row look."""

    chart: Chart
    columns: Mapping[str, Column]
    names: Mapping[str, str]
    kinds: Sequence[Any]

    def axis(self, side: str) -> dict[str, Any]:
        name = self.chart.x if side == "x" else self.chart.y
        column = self.columns.get(name, Column())
        return {"head": column.head(name), "unit": column.unit, "is_log": side in self.chart.log}

    def look(self, row: Row) -> dict[str, Any]:
        """Classes of its colour, and the number of its shape: where colours are used again, shapes are others."""
        chart, kind = self.chart, kind_of(self.chart, row)
        if kind not in self.kinds:  # a phase and a pause are of no family
            return {"look": "neutral"}
        place = place_of(kind, self.kinds, self.names)
        turn, hue = divmod(place + (chart.colour not in ("run", "name")), COLOURS)  # of runs the control is grey
        colour, shape = f"s{hue}", turn if chart.kind == "lines" else place + turn
        if chart.colour == "sign":
            colour, shape = SIGNS[row["sign"]], int(row["sign"] in ("cut", "junk-prone"))
        faint = " faint" if chart.faint and row.get(chart.faint) else ""
        return {"look": f"{colour} d{turn}{faint}", "shape": shape}

    def legend_of(self, kind: Any) -> tuple[str, str, str]:
        """Classes, a glyph, a name."""
        look, glyphs = self.look({self.chart.colour: kind, "sign": kind}), GLYPHS[self.chart.kind]
        return look["look"], glyphs[look["shape"] % len(glyphs)], self.names.get(str(kind), str(kind))

    def mark(self, row: Row, of: int) -> dict[str, Any]:
        """``low`` and ``high`` are the ends of an interval, or ``low`` is where a bar begins. One ``of`` so many has a
        colour alone, if these are too many to be told apart."""
        chart, parts = self.chart, dict[str, Any]()
        for name in ("x", "y", "low", "high", "size", "dash"):
            value = row.get(getattr(chart, name))
            if value is not None:
                parts[name] = to_digits(value, 6) if isinstance(value, float) else value
        if of > MOST_MARKS:
            return {**parts, "look": self.look(row)["look"]}
        if chart.text and row.get(chart.text):
            parts["text"] = figure_words(row[chart.text], self.columns.get(chart.text, Column()))
        return {**parts, **self.look(row), "about": ", ".join(hover_lines(chart, row, self.columns, self.names))}
