"""Timelines as a figure: each trace's families along time, below them marks, pauses and events in rows of their own.

All rows share one axis. Families differ by colour and by pattern, and keep both in both traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from engine.profile.figures import time_of
from pages._shared.compare.charts_words import drawn, shortened
from pages._shared.profiles.timeline_view import MOST_GAPS, REST, View
from pages._shared.theme import Palette

COLUMNS = 240
AREA_PX, LANE_PX, STRIP_PX, GAP_PX, EDGE_PX = 150, 19, 24, 28, 96
MOST_LANES = 12
PATTERNS = ("", "/", "x", ".", "\\", "-", "|", "+")
PAUSES = "longest pauses"
Families = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Style:
    colour: str
    pattern: str


def figure(views: Sequence[View], families: Families, colours: Palette, *, is_areas: bool) -> go.Figure:
    heights = [px for view in views for px in (_work_px(families, is_areas=is_areas), _lanes_px(view)) if px]
    found = make_subplots(
        rows=len(heights), cols=1, shared_xaxes=True, row_heights=heights,
        vertical_spacing=GAP_PX / (sum(heights) + GAP_PX * len(heights)),
    )  # fmt: skip
    styles, row = _styles(families, colours), 0
    for view in views:
        row += 1
        (_areas if is_areas else _strips)(found, view, families, styles, colours, row)
        found.update_yaxes(title="% of the time" if is_areas else None, row=row)
        _title(found, view, row)
        if _lanes_px(view):
            row += 1
            _lanes(found, view, styles, colours, row)
    if is_areas:
        most = max(100.0, *(view.most_percent for view in views))
        for number in _work_rows(views):
            found.update_yaxes(range=[0, most], row=number)
        for name in families:
            _legend(found, name, styles[name])
    found.update_xaxes(range=list(views[0].window_ms), showgrid=False, zeroline=False)
    found.update_xaxes(title="ms", row=len(heights))
    found.update_layout(
        height=sum(heights) + GAP_PX * len(heights) + EDGE_PX,
        barmode="overlay",
        dragmode="select",
        selectdirection="h",
        hovermode="closest",
        margin={"t": 64 if is_areas else 28, "b": 8},
        legend={"font": {"size": 12}, "y": 1.0, "yref": "container", "yanchor": "top"},
    )
    return found


def _work_px(families: Families, *, is_areas: bool) -> int:
    return AREA_PX if is_areas else STRIP_PX * max(2, len(families))


def _lanes_px(view: View) -> int:
    return LANE_PX * len(_lane_names(view)) + (6 if _lane_names(view) else 0)


def _lane_names(view: View) -> list[str]:
    """Rows below the families, from the top."""
    names = [*view.phases[:MOST_LANES], *([PAUSES] if view.gaps else [])]
    if view.events is not None:
        lanes = sorted(dict.fromkeys(one.lane for one in view.events.events))
        names += lanes[:MOST_LANES]
    return names


def _work_rows(views: Sequence[View]) -> Iterator[int]:
    row = 1
    for view in views:
        yield row
        row += 1 + bool(_lanes_px(view))


def _styles(families: Families, colours: Palette) -> dict[str, Style]:
    found: dict[str, Style] = {}
    hues = [one for one in colours.series if one != colours.neutral]
    for place, (name, held) in enumerate(families.items()):
        hue = colours.neutral if name == REST else hues[place % len(hues)]
        style = Style(hue, PATTERNS[place % len(PATTERNS)])
        found |= {name: style, **dict.fromkeys(held, style)}
    return found


# --- families -------------------------------------------------------------------------------------------------------


def _areas(
    found: go.Figure, view: View, families: Families, styles: Mapping[str, Style], colours: Palette, row: int
) -> None:
    edges = [view.axis_ms(one) for one in view.stretch.edges_us.tolist()]
    for name, held in families.items():
        share, style = view.share_of(held), styles[name]
        found.add_trace(
            go.Scatter(
                x=edges,
                y=[*share, share[-1]],
                name=drawn(name),
                mode="lines",
                line={"shape": "hv", "width": 0, "color": style.colour},
                stackgroup=f"row {row}",
                fillcolor=style.colour,
                fillpattern=_pattern(style, colours),
                legendgroup=name,
                showlegend=False,
                hovertemplate=f"{drawn(name)}: %{{y:.1f}} %<br>from %{{x:.3f}} ms<extra></extra>",
            ),
            row=row,
            col=1,
        )


def _pattern(style: Style, colours: Palette) -> dict[str, object]:
    return {
        "shape": style.pattern,
        "fillmode": "overlay",
        "fgcolor": colours.background,
        "fgopacity": 0.45,
        "size": 6,
        "solidity": 0.25,
    }


def _legend(found: go.Figure, name: str, style: Style) -> None:
    """One entry for both traces."""
    found.add_trace(
        go.Bar(
            x=[None],
            y=[None],
            name=drawn(name, 40),
            marker={"color": style.colour, "pattern": {"shape": style.pattern, "size": 6, "solidity": 0.3}},
            legendgroup=name,
            showlegend=True,
        ),
        row=1,
        col=1,
    )


def _strips(
    found: go.Figure, view: View, families: Families, styles: Mapping[str, Style], colours: Palette, row: int
) -> None:
    """A row a family; the deeper the colour, the more of a column's time it takes."""
    names = list(families)
    found.add_trace(
        go.Heatmap(
            x=[view.axis_ms(one) for one in view.stretch.edges_us.tolist()],
            y=[drawn(shortened(name, 24)) for name in names],
            z=[view.share_of(families[name]) for name in names],
            zmin=0,
            zmax=100,
            colorscale=[[0, colours.surface], [1, colours.series[0]]],
            showscale=False,
            hovertemplate="%{y}: %{z:.1f} %<br>%{x:.3f} ms<extra></extra>",
        ),
        row=row,
        col=1,
    )
    found.update_yaxes(autorange="reversed", showgrid=False, row=row)
    # A heat map cannot be drawn over to choose a stretch; a line that nobody sees can.
    found.add_trace(
        go.Scatter(
            x=list(view.window_ms),
            y=[drawn(shortened(names[0], 24))] * 2,
            opacity=0,
            mode="markers",
            showlegend=False,
            hoverinfo="skip",
        ),
        row=row,
        col=1,
    )


def _title(found: go.Figure, view: View, row: int) -> None:
    found.add_annotation(
        text=f"<b>{drawn(view.name, 90)}</b>",
        xref="paper",
        x=0,
        xanchor="left",
        yref=f"y{row if row > 1 else ''} domain",
        y=1,
        yanchor="bottom",
        showarrow=False,
        font={"size": 13},
    )


# --- rows below -----------------------------------------------------------------------------------------------------


def _lanes(found: go.Figure, view: View, styles: Mapping[str, Style], colours: Palette, row: int) -> None:
    names = _lane_names(view)
    labels = {name: drawn(shortened(name, 24)) for name in names}
    for place, phase in enumerate(view.phases[:MOST_LANES]):
        marks = [mark for mark in view.marks if mark.phase == phase]
        spans = [(mark.start_us, mark.dur_us, mark.name) for mark in marks]
        colour = _phase_colour(phase, place, colours)
        _bars(found, view, labels[phase], spans, Style(colour, ""), row)
    if view.gaps:
        spans = [
            (gap.start_us, gap.gap_us, f"pause between {gap.before} and {gap.after}") for gap in view.gaps[:MOST_GAPS]
        ]
        _bars(found, view, labels[PAUSES], spans, Style(colours.cut, "x"), row)
    if view.events is not None:
        _events(found, view, labels, styles, colours, row)
    found.update_yaxes(
        type="category", categoryorder="array", categoryarray=[labels[name] for name in reversed(names)],
        range=[-0.5, len(names) - 0.5], showgrid=False, tickfont_size=11, row=row,
    )  # fmt: skip


def _events(
    found: go.Figure, view: View, labels: Mapping[str, str], styles: Mapping[str, Style], colours: Palette, row: int
) -> None:
    assert view.events is not None
    for family in dict.fromkeys(one.family for one in view.events.events):
        style = styles.get(family, Style(colours.neutral, ""))
        for lane in dict.fromkeys(one.lane for one in view.events.events if one.family == family):
            if lane in labels:
                some = [one for one in view.events.events if (one.family, one.lane) == (family, lane)]
                spans = [(one.start_us, one.dur_us, f"{one.family}: {one.name}") for one in some]
                _bars(found, view, labels[lane], spans, style, row)


def _bars(
    found: go.Figure, view: View, lane: str, spans: Sequence[tuple[float, float, str]], style: Style, row: int
) -> None:
    found.add_trace(
        go.Bar(
            orientation="h",
            y=[lane] * len(spans),
            base=[view.axis_ms(start) for start, _, _ in spans],
            x=[length / 1000 for _, length, _ in spans],
            customdata=[[drawn(name, 160), time_of(length), f"{view.axis_ms(start):,.3f}"]
                        for start, length, name in spans],
            marker={"color": style.colour, "line": {"width": 0},
                    "pattern": {"shape": style.pattern, "size": 5, "solidity": 0.3}},
            width=0.8,
            showlegend=False,
            hovertemplate="%{customdata[0]}<br>%{customdata[1]} from %{customdata[2]} ms<extra></extra>",
        ),
        row=row,
        col=1,
    )  # fmt: skip


def _phase_colour(phase: str, place: int, colours: Palette) -> str:
    """As a run's time is coloured on the Compare page."""
    known = {
        "template": colours.copy,
        "prefill": colours.accent,
        "forward": colours.accent,
        "decode": colours.muted,
        "step": colours.neutral,
        "constraint": colours.boundary,
        "sample": colours.free,
    }
    return known.get(phase) or colours.series[place % len(colours.series)]
