"""Work along time as a plotly figure: stacked shares and, below them, spans in lanes, on one axis that zooms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from engine.figures.words import fixed
from engine.questions.question import Chart, Column
from pages._kit.chart import safe
from pages._kit.theme import palette, plotly_template

if TYPE_CHECKING:
    import plotly.graph_objects as go

AREA_PX, LANE_PX, AROUND_PX = 150, 22, 110


def time_figure(chart: Chart, tables: Mapping[str, pa.Table], columns: Mapping[str, Column]) -> go.Figure:
    """A panel for each value of ``split``: an area, and a row of lanes where it has spans."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    table, spans = tables[chart.table], tables[chart.spans].to_pylist()
    panel_of = np.array(table[chart.split].to_pylist())
    kind_of = np.array(table[chart.colour].to_pylist())
    start, end, share = (table[name].to_numpy() for name in (chart.x, chart.high, chart.y))
    panels, kinds = (list(dict.fromkeys(panel_of.tolist())), list(dict.fromkeys(kind_of.tolist())))
    colours = palette()
    hues = [hue for hue in colours.series if hue != colours.neutral]
    hue_of = {kind: hues[index] if index < len(hues) else colours.neutral for index, kind in enumerate(kinds)}
    lanes = {panel: list(dict.fromkeys(s["lane"] for s in spans if s[chart.split] == panel)) for panel in panels}
    heights: list[int] = []
    for panel in panels:
        heights += [AREA_PX, LANE_PX * max(1, len(lanes[panel]))]
    titles = [title for panel in panels for title in (safe(panel), "")]
    figure = make_subplots(
        rows=len(heights),
        cols=1,
        shared_xaxes="all",
        row_heights=heights,
        subplot_titles=titles,
        vertical_spacing=0.12 / len(heights),
    )
    for index, panel in enumerate(panels):
        is_panel = panel_of == panel
        # Steps: a value from each edge on, none where no stretch begins.
        edges = np.unique(np.concatenate([start[is_panel], end[is_panel]]))
        for kind in kinds:
            is_kind = is_panel & (kind_of == kind)
            values = np.zeros(len(edges), np.float32)
            values[np.searchsorted(edges, start[is_kind])] = share[is_kind]
            figure.add_trace(
                go.Scatter(
                    x=edges,
                    y=values,
                    name=safe(kind),
                    legendgroup=safe(kind),
                    showlegend=index == 0,
                    stackgroup=str(index),
                    mode="lines",
                    line={"width": 0, "shape": "hv"},
                    fillcolor=hue_of[kind],
                    hovertemplate="%{y:.1%}",
                ),
                row=2 * index + 1,
                col=1,
            )
        panel_spans: list[dict[str, Any]] = [s for s in spans if s[chart.split] == panel]
        figure.add_trace(
            go.Bar(
                orientation="h",
                base=[s["start"] for s in panel_spans],
                x=[s["end"] - s["start"] for s in panel_spans],
                y=[s["lane"] for s in panel_spans],
                showlegend=False,
                hovertemplate="%{hovertext}<extra></extra>",
                hovertext=[f"{safe(s['what'], 200)}<br>{fixed(s['end'] - s['start'], 3)} ms" for s in panel_spans],
                marker={
                    "color": [hue_of.get(s[chart.colour], colours.muted) for s in panel_spans],
                    "line": {"width": 0.5, "color": colours.background},
                },
            ),
            row=2 * index + 2,
            col=1,
        )
        figure.update_yaxes(row=2 * index + 1, col=1, fixedrange=True, tickformat=".0%", rangemode="tozero")
        figure.update_yaxes(
            row=2 * index + 2,
            col=1,
            fixedrange=True,
            type="category",
            categoryorder="array",
            categoryarray=lanes[panel][::-1],
            showgrid=False,
        )
    figure.update_annotations(font={"size": 12})
    figure.update_layout(
        template=plotly_template(colours),
        height=AROUND_PX + sum(heights) + 30 * len(panels),
        dragmode="pan",
        hovermode="x unified",
        barmode="overlay",
        bargap=0.2,
        margin={"t": 60},
    )
    low, high = float(start.min()), float(end.max())
    figure.update_xaxes(range=[low, high], minallowed=low, maxallowed=high, showticklabels=False)
    column = columns.get(chart.x, Column(chart.x))
    figure.update_xaxes(
        row=len(heights), col=1, showticklabels=True, title={"text": safe(f"{column.words} ({column.unit})")}
    )
    return figure
