"""Timelines as a chart: each trace's families along time, below them marks, pauses and events in rows of their own.

All rows share one axis. Families differ by colour and by pattern, and keep both in both traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.errors import one_line
from engine.figures.words import microseconds, percent, shortened
from pages._profiles.timeline_view import MOST_GAPS, REST, TimelineView
from pages._shared.charts.chart import PATTERNS, Axis, Chart, HeatmapCells, Marks, Note, Panel
from pages._shared.charts.phases import phase_colours
from pages._shared.charts.text import Markup, safe
from pages._shared.theme import Palette

COLUMNS = 240
AREA_PX, LANE_PX, STRIP_PX, GAP_PX, EDGE_PX = 150, 19, 24, 28, 96
MOST_LANES = 12
PAUSES = "longest pauses"
Families = Mapping[str, tuple[str, ...]]
Style = dict[str, str]  # a row's colour and pattern


def timeline_chart(
    views: Sequence[TimelineView], families: Families, colours: Palette, *, is_areas: bool, alt: str = ""
) -> Chart:
    styles, panels = _styles(families, colours), []
    most = max(100.0, *(view.most_percent for view in views))
    for view in views:
        if is_areas:
            layers: list[Marks | HeatmapCells] = [_area(view, name, families[name], styles[name]) for name in families]
            y = Axis(title="% of the time", range=[0, most])
        else:
            layers = _strips(view, families, colours)
            y = Axis(has_grid=False, more={"autorange": "reversed"})
        title = Markup(f"<b>{safe(view.name, 90)}</b>")
        over = {"xref": "paper", "xanchor": "left", "yref": "domain", "yanchor": "bottom", "font": {"size": 13}}
        height = AREA_PX if is_areas else STRIP_PX * max(2, len(families))
        panels.append(Panel(layers=layers, y=y, notes=[Note(0, 1, title, over)], height=height))
        if names := _lane_names(view):
            panels.append(_lanes(view, names, styles, colours))
    if is_areas:  # one entry for both traces
        entries = [{"x": None, "y": None, "family": one_line(name), **styles[name]} for name in families]
        legend = Marks(kind="bars", rows=entries, group="family", is_hatched=False)
        panels[0] = replace(panels[0], layers=[*panels[0].layers, legend])
    along = Axis(range=views[0].window_ms, has_grid=False, more={"zeroline": False})
    panels = [replace(panel, x=along) for panel in panels]
    panels[-1] = replace(panels[-1], x=replace(along, title="ms"))
    pixels = sum(panel.height for panel in panels)
    return Chart(
        panels=panels,
        shared_x=True,
        spacing=(0, GAP_PX / (pixels + GAP_PX * len(panels))),
        height=round(pixels) + GAP_PX * len(panels) + EDGE_PX,
        top=64 if is_areas else 28,
        more={
            "dragmode": "select",
            "selectdirection": "h",
            "hovermode": "closest",
            "margin": {"b": 8},
            "legend": {"y": 1.0, "yref": "container", "yanchor": "top"},
        },
        alt=alt,
    )


def _styles(families: Families, colours: Palette) -> dict[str, Style]:
    styles: dict[str, Style] = {}
    hues = [hue for hue in colours.series if hue != colours.neutral]
    for place, (name, members) in enumerate(families.items()):
        hue = colours.neutral if name == REST else hues[place % len(hues)]
        style = {"colour": hue, "pattern": PATTERNS[place % len(PATTERNS)]}
        styles |= {name: style, **dict.fromkeys(members, style)}
    return styles


# --- families -------------------------------------------------------------------------------------------------------


def _area(view: TimelineView, name: str, members: Sequence[str], style: Style) -> Marks:
    shares = view.share_of(members)
    edges = [view.axis_ms(edge) for edge in view.stretch.edges_us.tolist()]
    steps = [{"x": edge, "y": share, **style} for edge, share in zip(edges, [*shares, shares[-1]], strict=True)]
    family = one_line(name)
    return Marks(
        kind="areas",
        rows=steps,
        name=family,
        in_legend=False,
        stack=view.name,
        hover=lambda row: (f"{family}: {percent(row['y'] / 100)}", f"from {row['x']:.3f} ms"),
    )


def _strips(view: TimelineView, families: Families, colours: Palette) -> list[Marks | HeatmapCells]:
    """A row a family; the deeper the colour, the more of a column's time it takes."""
    names = [shortened(one_line(name), 24) for name in families]
    edges = [view.axis_ms(edge) for edge in view.stretch.edges_us.tolist()]
    shares = [view.share_of(members) for members in families.values()]
    cells = HeatmapCells(
        x=edges,
        y=names,
        values=shares,
        high=100,
        scale=[[0, colours.surface], [1, colours.series[0]]],
        hover=[
            [f"{safe(name)}: {share:.1f} %<br>{(low + high) / 2:.3f} ms"
             for share, low, high in zip(row, edges, edges[1:], strict=False)]
            for name, row in zip(names, shares, strict=True)
        ],
    )  # fmt: skip
    # A heat map has nothing to select, so invisible points take the drag.
    ends = [{"x": end, "y": safe(names[0])} for end in view.window_ms]
    return [cells, Marks(kind="points", rows=ends, more={"opacity": 0})]


# --- rows below -----------------------------------------------------------------------------------------------------


def _lane_names(view: TimelineView) -> list[str]:
    """Rows below the families, from the top."""
    names = [*view.phases[:MOST_LANES], *([PAUSES] if view.gaps else [])]
    if view.events is not None:
        lanes = sorted(dict.fromkeys(event.lane for event in view.events.events))
        names += lanes[:MOST_LANES]
    return names


def _lanes(view: TimelineView, names: Sequence[str], styles: Mapping[str, Style], colours: Palette) -> Panel:
    labels = {name: safe(shortened(one_line(name), 24)) for name in names}
    bars: list[dict[str, Any]] = [
        {
            "lane": labels[lane],
            "base": view.axis_ms(start_us),
            "size": dur_us / 1000,
            "width": 0.8,
            "name": shortened(one_line(name), 160),
            "time": microseconds(dur_us),
            **style,
        }
        for lane, start_us, dur_us, name, style in _spans(view, styles, colours)
        if lane in labels
    ]
    marks = Marks(
        kind="bars",
        rows=bars,
        x="size",
        y="lane",
        is_across=True,
        is_hatched=False,
        outline_width=0,
        hover=lambda row: (row["name"], f"{row['time']} from {row['base']:,.3f} ms"),
    )
    order = {"type": "category", "categoryorder": "array", "categoryarray": list(reversed(labels.values()))}
    axis = Axis(range=[-0.5, len(names) - 0.5], has_grid=False, more={**order, "tickfont_size": 11})
    return Panel(layers=[marks], y=axis, height=LANE_PX * len(names) + 6)


def _spans(
    view: TimelineView, styles: Mapping[str, Style], colours: Palette
) -> Iterator[tuple[str, float, float, str, Style]]:
    """Lane, start, length, name and look of what is drawn below: phases, pauses, single events."""
    for place, phase in enumerate(view.phases[:MOST_LANES]):
        style = {"colour": _phase_colour(phase, place, colours), "pattern": ""}
        yield from ((phase, mark.start_us, mark.dur_us, mark.name, style) for mark in view.marks if mark.phase == phase)
    for gap in view.gaps[:MOST_GAPS]:
        words = f"pause between {gap.before} and {gap.after}"
        yield PAUSES, gap.start_us, gap.gap_us, words, {"colour": colours.cut, "pattern": "x"}
    other = {"colour": colours.neutral, "pattern": ""}
    for event in view.events.events if view.events is not None else ():
        style = styles.get(event.family, other)
        yield event.lane, event.start_us, event.dur_us, f"{event.family}: {event.name}", style


def _phase_colour(phase: str, place: int, colours: Palette) -> str:
    """As a run's time is coloured on the Compare page."""
    known = phase_colours(colours) | {"decode": colours.muted, "step": colours.neutral}
    return known.get(phase) or colours.series[place % len(colours.series)]
