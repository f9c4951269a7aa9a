"""Work along time as a plotly figure: stacked shares and, below them, spans in lanes, on one axis that zooms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.figures.words import fixed
from engine.questions.chart_rows import Row
from engine.questions.question import Chart, Column
from pages._kit.chart import FADED, entry_colour, safe
from pages._kit.theme import mixed, palette, plotly_template

if TYPE_CHECKING:
    import plotly.graph_objects as go

AREA_PX, LANE_PX, AROUND_PX = 150, 28, 110
LEAST_TEXT_PX, TEXT_PX, MOST_NAME = 10, 11, 60


def time_figure(chart: Chart, tables: Mapping[str, pa.Table], columns: Mapping[str, Column]) -> go.Figure:
    """A panel for each value of ``split``: an area, and a row of lanes where it has spans."""
    from plotly.subplots import make_subplots

    table = tables[chart.table]
    # A lane is a mark's name in a file of anybody's, and plotly reads labels as HTML.
    spans = [{**span, "lane": safe(span["lane"])} for span in tables[chart.spans].to_pylist()]
    names = list(dict.fromkeys(table[chart.split].to_pylist()))
    hues = hues_of(list(dict.fromkeys(table[chart.colour].to_pylist())))
    spans_of = {name: [span for span in spans if span[chart.split] == name] for name in names}
    lanes_of = {name: list(dict.fromkeys(span["lane"] for span in of)) for name, of in spans_of.items()}
    low, high = pc.min(table[chart.x]).as_py(), pc.max(table[chart.high]).as_py()
    heights = []
    for name in names:
        heights += [AREA_PX, LANE_PX * max(1, len(lanes_of[name]))]
    figure = make_subplots(
        rows=len(heights),
        cols=1,
        shared_xaxes="all",
        row_heights=heights,
        subplot_titles=[title for name in names for title in (safe(name), "")],
        vertical_spacing=0.12 / len(heights),
    )
    for index, name in enumerate(names):
        row = 2 * index + 1
        for trace in areas(chart, table.filter(pc.field(chart.split) == name), hues):
            is_first = index == 0
            figure.add_trace(trace | {"stackgroup": str(index), "showlegend": is_first}, row=row, col=1)
        figure.add_trace(slices(chart, spans_of[name], hues, (low, high)), row=row + 1, col=1)
        lanes = {"type": "category", "categoryorder": "array", "categoryarray": lanes_of[name][::-1], "showgrid": False}
        figure.update_yaxes(row=row, col=1, fixedrange=True, tickformat=".0%", rangemode="tozero")
        figure.update_yaxes(row=row + 1, col=1, fixedrange=True, **lanes)
    figure.update_annotations(font={"size": 12})
    figure.update_layout(
        template=plotly_template(palette()),
        height=AROUND_PX + sum(heights) + 30 * len(names),
        dragmode="pan",
        hovermode="x unified",
        barmode="overlay",
        bargap=0.1,
        margin={"t": 60},
        uniformtext={"minsize": LEAST_TEXT_PX, "mode": "hide"},  # a name is where its slice has room for it
    )
    figure.update_xaxes(range=[low, high], minallowed=low, maxallowed=high, showticklabels=False)
    column = columns.get(chart.x, Column(chart.x))
    title = {"text": safe(f"{column.words} ({column.unit})")}
    figure.update_xaxes(row=len(heights), col=1, showticklabels=True, title=title)
    return figure


def hues_of(kinds: Sequence[str]) -> dict[str, str]:
    """The last one of more kinds than there are colours is grey."""
    most = len([hue for hue in palette().series if hue != palette().neutral])
    return {kind: entry_colour(place) if place <= most else palette().neutral for place, kind in enumerate(kinds, 1)}


def faded(colour: str, is_faint: bool) -> str:
    return mixed(palette().background, colour, FADED) if is_faint else colour


def areas(chart: Chart, table: pa.Table, hues: Mapping[str, str]) -> Iterator[Row]:
    """Of one panel, a step at each edge: a share from there on, 0 where no stretch begins."""
    kinds = np.array(table[chart.colour].to_pylist())
    start, end, share = (table[name].to_numpy() for name in (chart.x, chart.high, chart.y))
    faint = table[chart.faint].to_numpy()
    edges = np.unique(np.concatenate([start, end]))
    for kind, hue in hues.items():
        is_kind = kinds == kind
        values = np.zeros(len(edges), np.float32)
        values[np.searchsorted(edges, start[is_kind])] = share[is_kind]
        yield {
            "type": "scatter",
            "x": edges,
            "y": values,
            "name": safe(kind),
            "legendgroup": safe(kind),
            "mode": "lines",
            "line": {"width": 0, "shape": "hv"},
            "fillcolor": faded(hue, bool(is_kind.any() and faint[is_kind].all())),
            "hovertemplate": "%{y:.1%}",
        }


def slices(chart: Chart, spans: Sequence[Mapping[str, Any]], hues: Mapping[str, str], axis: tuple[float, float]) -> Row:
    """Of one panel, as far as the axis goes, with the names of those that are wide enough."""
    bounds = np.clip([(span["start"], span["end"]) for span in spans], *axis).reshape(-1, 2)
    fills = [faded(hues.get(span[chart.colour], palette().muted), span[chart.faint]) for span in spans]
    return {
        "type": "bar",
        "orientation": "h",
        "base": bounds[:, 0],
        "x": bounds[:, 1] - bounds[:, 0],
        "y": [span["lane"] for span in spans],
        "showlegend": False,
        "hovertemplate": "%{hovertext}<extra></extra>",
        "hovertext": [f"{safe(span['what'], 200)}<br>{fixed(span['end'] - span['start'], 3)} ms" for span in spans],
        "marker": {"color": fills, "line": {"width": 0.5, "color": palette().background}},
        "text": [safe(span["what"], MOST_NAME) for span in spans],
        "textposition": "inside",
        "insidetextanchor": "start",
        "textangle": 0,
        "textfont": {"size": TEXT_PX},
    }
