"""One chart: rows and a declaration of how they are drawn, from which plotly's figure is made.

A row is a dict. Its columns ``colour``, ``pattern``, ``symbol``, ``size``, ``opacity``, ``base``, ``width`` and
``text`` go before what its layer says of all rows; ``low`` and ``high`` are the ends of an interval. Texts may be
anybody's: they are escaped here and go into the figure as data, never into a template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pages._shared.charts.text import safe
from pages._shared.theme import Palette, palette, plotly_template

if TYPE_CHECKING:
    import plotly.graph_objects as go

Row = Mapping[str, Any]
Trace = dict[str, Any]
"""In plotly's own words."""
Hover = Callable[[Row], str | Sequence[str]]
Shared = bool | Literal["all"]
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "pentagon")
PATTERNS = ("", "/", "x", ".", "\\", "-", "|", "+")
"""Of groups by their place: colour never stands alone."""
PER_CENT = {f"{tick}%": f"{tick} %" for tick in (*range(121), *(f"{tenths / 10:.1f}" for tenths in range(121)))}
"""Ticks of shares as texts have them: plotly's own form of a tick has no room for a space."""
FAST = 1_000
"""From so many points on the graphics card draws them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """``range`` of a logarithmic axis is in powers of ten; ``more`` is plotly's own words."""

    title: str = ""
    is_log: bool = False
    is_share: bool = False
    from_zero: bool = False
    range: Sequence[float] | None = None
    ticks: Mapping[float, str] | None = None
    has_grid: bool = True
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """One layer: rows drawn by one kind of mark, in a trace for each value of the column ``group``.

    A layer with a group or a name stands in the legend. ``interval`` is the axis along which ``low`` and ``high`` lie.
    """

    kind: Literal["bars", "points", "lines"]
    rows: Sequence[Row]
    x: str = "x"
    y: str = "y"
    group: str = ""
    name: str = ""
    hover: Hover | None = None
    colour: str = ""
    pattern: str = ""
    is_hatched: bool = True  # a pattern on the ground; else on the fill
    symbol: str = "circle"
    size: float = 9
    opacity: float = 1
    outline: str = ""
    outline_width: float = 1
    dash: str = "solid"
    thickness: float = 2
    is_across: bool = False  # bars from left to right
    interval: Literal["", "x", "y"] = ""
    text_at: str = ""
    has_points: bool = True  # a line's own
    is_selectable: bool = False  # what a click leaves out fades only then
    in_legend: bool = True
    clicked: str = ""  # the column that a click hands on, as its custom data
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RefLine:
    """A reference line; an end that is None lies at the edge of the panel."""

    x0: float | None
    y0: float | None
    x1: float | None
    y1: float | None
    dash: str = "dash"
    width: float = 1.5
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Words at a place of a panel; ``more`` is plotly's own words, and a ``domain`` is the panel's."""

    x: float
    y: Any
    text: str
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    layers: Sequence[Marks]
    x: Axis = Axis()
    y: Axis = Axis()
    title: str = ""
    lines: Sequence[RefLine] = ()
    notes: Sequence[Note] = ()
    height: float = 1  # beside the other panels'


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Panels and what stands around them; ``alt`` is what a screen reader gets in their place."""

    panels: Sequence[Panel]
    alt: str
    height: int
    top: int = 8  # pixels above the panels
    columns: int = 1
    shared_x: Shared = False
    shared_y: Shared = False
    spacing: tuple[float, float] = (0.06, 0.1)
    bars: Literal["overlay", "stack", "group"] = "overlay"
    has_legend: bool = True
    more: Mapping[str, Any] = field(default_factory=dict)

    def figure(self, colours: Palette | None = None) -> go.Figure:
        """In the colours of the theme that the reader sees."""
        import plotly.graph_objects as go  # half a second, and only pages with charts pay it

        colours = colours or palette()
        titles = tuple(safe(panel.title) for panel in self.panels) if any(p.title for p in self.panels) else None
        heights = tuple(panel.height for panel in self.panels[:: self.columns])
        # Plotly checks each change to a figure again, which takes longer than all else here: it is made at once.
        layout = deepcopy(_places(heights, self.columns, self.shared_x, self.shared_y, self.spacing, titles))
        traces: list[Trace] = []
        for place, panel in enumerate(self.panels):
            traces += _draw(layout, panel, colours, str(place + 1) if place else "")
        layout |= {
            "template": plotly_template(colours),
            "height": self.height,
            "barmode": self.bars,
            "margin": {"t": self.top},
            "showlegend": self.has_legend and any(trace.get("showlegend") for trace in traces),
            "legend": {"traceorder": "normal", "font": {"size": 12}},
        }
        return go.Figure(traces, layout).update_layout(self.more)


@lru_cache(64)
def _places(
    heights: tuple[float, ...],
    columns: int,
    shared_x: Shared,
    shared_y: Shared,
    spacing: tuple[float, float],
    titles: tuple[str, ...] | None,
) -> dict[str, Any]:
    """The layout of empty panels; plotly takes as long for it as for a whole figure."""
    from plotly.subplots import make_subplots

    rows = len(heights)
    empty = make_subplots(
        rows=rows,
        cols=columns,
        shared_xaxes=shared_x,
        shared_yaxes=shared_y,
        row_heights=list(heights),
        horizontal_spacing=spacing[0],
        vertical_spacing=spacing[1] if rows > 1 else 0,
        subplot_titles=titles,
    )
    empty.update_annotations(font={"size": 12})
    return {"shapes": [], "annotations": [], **empty.layout.to_plotly_json()}


def chart(
    *layers: Marks,
    x: Axis = Axis(),
    y: Axis = Axis(),
    lines: Sequence[RefLine] = (),
    notes: Sequence[Note] = (),
    **around: Any,
) -> Chart:
    return Chart(panels=[Panel(layers=layers, x=x, y=y, lines=lines, notes=notes)], **around)


# --- axes -----------------------------------------------------------------------------------------------------------


def lanes(names: Sequence[str], **more: Any) -> Axis:
    """A row for each name, the first at the top."""
    ticks = dict(enumerate(names))
    axis = Axis(ticks=ticks, range=[len(names) - 0.4, -0.6], has_grid=False, more={"zeroline": False})  # type: ignore[arg-type]
    return replace(axis, **more)


def around(low: float, high: float, share: float = 0.06) -> list[float]:
    room = share * ((high - low) or 1.0)
    return [low - room, high + room]


def _axis(axis: Axis) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "title": safe(axis.title) or None,
        "title_font_size": 13,
        "tickfont_size": 12,
        "type": "log" if axis.is_log else None,
        "tickformat": ".0%" if axis.is_share else None,
        "labelalias": PER_CENT if axis.is_share else None,
        "rangemode": "tozero" if axis.from_zero else None,
        "range": None if axis.range is None else list(axis.range),
        "showgrid": None if axis.has_grid else False,
    }
    if axis.ticks is not None:
        settings |= {"tickvals": list(axis.ticks), "ticktext": [safe(text) for text in axis.ticks.values()]}
    return settings | dict(axis.more)


# --- traces ---------------------------------------------------------------------------------------------------------


def _draw(layout: dict[str, Any], panel: Panel, colours: Palette, number: str) -> list[Trace]:
    """The traces of a panel, which plotly knows by the number of its axes; what is around them goes into the layout."""
    x, y = f"x{number}", f"y{number}"
    layout[f"xaxis{number}"] |= _axis(panel.x)
    layout[f"yaxis{number}"] |= {"ticklabelstandoff": 6} | _axis(panel.y)
    for line in panel.lines:
        ends = {"x0": line.x0, "x1": line.x1, "y0": line.y0, "y1": line.y1}
        edges: dict[str, float | None] = {name: int(name[1]) for name, value in ends.items() if value is None}
        layout["shapes"] += [{
            "type": "line",
            **ends | edges,
            "xref": f"{x} domain" if line.x0 is None else x,
            "yref": f"{y} domain" if line.y0 is None else y,
            "line": {"color": line.colour or colours.muted, "width": line.width, "dash": line.dash},
            "layer": "below" if line.dash == "dash" else "above",
        }]  # fmt: skip
    for note in panel.notes:
        words: dict[str, Any] = {"x": note.x, "y": note.y, "text": safe(note.text), "showarrow": False}
        words |= {"xref": x, "yref": y, "font": {"size": 12}} | dict(note.more)
        for name, axis in (("xref", x), ("yref", y)):
            if words[name] == "domain":
                words[name] = f"{axis} domain"
        layout["annotations"] += [words]
    made = [_traces(layer, colours) for layer in panel.layers]
    return [trace | {"xaxis": x, "yaxis": y} for traces in made for trace in traces]


def _traces(layer: Marks, colours: Palette) -> Iterator[Trace]:
    groups: dict[Any, list[Row]] = {}
    for row in layer.rows:
        groups.setdefault(row[layer.group] if layer.group else layer.name, []).append(row)
    for name, rows in groups.items():
        trace = (_bars if layer.kind == "bars" else _points)(layer, rows, colours)
        if name != "":
            trace |= {"name": safe(str(name)), "legendgroup": safe(str(name))}
        trace |= {"showlegend": layer.in_legend and name != "", **_hovers(layer, rows), **layer.more}
        if layer.clicked:
            trace["customdata"] = [row[layer.clicked] for row in rows]
        yield trace


def _hovers(layer: Marks, rows: Sequence[Row]) -> dict[str, Any]:
    if layer.hover is None:
        return {"hoverinfo": "skip"}
    lines = [layer.hover(row) for row in rows]
    texts = ["<br>".join(map(safe, [said] if isinstance(said, str) else said)) for said in lines]
    return {"hovertext": texts, "hovertemplate": "%{hovertext}<extra></extra>"}


def _channel(layer: Marks, rows: Sequence[Row], name: str) -> Any:
    """The rows' own, else the layer's; one value where all rows agree."""
    values = [row.get(name, getattr(layer, name)) for row in rows]
    return values[0] if all(value == values[0] for value in values) else values


def _labels(layer: Marks, rows: Sequence[Row], place: str) -> dict[str, Any]:
    if not any(row.get("text") for row in rows):
        return {}
    texts, places = [safe(row.get("text") or "") for row in rows], [row.get("text_at", place) for row in rows]
    return {"text": texts, "textposition": places if len(set(places)) > 1 else places[0], "cliponaxis": False}


def _bars(layer: Marks, rows: Sequence[Row], colours: Palette) -> Trace:
    colour, shape = _channel(layer, rows, "colour"), _channel(layer, rows, "pattern")
    if layer.is_hatched:
        pattern = {"shape": shape, "fillmode": "replace", "fgcolor": colour, "size": 6}
    else:
        pattern = {"shape": shape, "fillmode": "overlay", "fgcolor": colours.background, "size": 6, "solidity": 0.22}
    outline = {"color": layer.outline or colour, "width": layer.outline_width}
    placed = {name: [row[name] for row in rows] for name in ("base", "width") if rows[0].get(name) is not None}
    return {
        "type": "bar",
        "x": [row[layer.x] for row in rows],
        "y": [row[layer.y] for row in rows],
        "orientation": "h" if layer.is_across else "v",
        "marker": {
            "color": colour, "line": outline, "pattern": pattern, "opacity": _channel(layer, rows, "opacity"),
        },
        "unselected": None if layer.is_selectable else {"marker": {"opacity": 1}},
        **_labels(layer, rows, layer.text_at or "outside"),
        **placed,
    }  # fmt: skip


def _points(layer: Marks, rows: Sequence[Row], colours: Palette) -> Trace:
    colour, opacity = _channel(layer, rows, "colour"), _channel(layer, rows, "opacity")
    labels = _labels(layer, rows, layer.text_at or "top center")
    modes = ["lines"] if layer.kind == "lines" else []
    modes += ["markers"] if layer.kind == "points" or layer.has_points else []
    settings: Trace = {
        "type": "scattergl" if len(rows) >= FAST or layer.is_selectable else "scatter",
        "x": [row[layer.x] for row in rows],
        "y": [row[layer.y] for row in rows],
        "mode": "+".join([*modes, *(["text"] if labels else [])]),
        "marker": {
            "color": colour or None,
            "size": _channel(layer, rows, "size"),
            "symbol": _channel(layer, rows, "symbol"),
            "opacity": opacity,
            "line": {"color": layer.outline, "width": layer.outline_width} if layer.outline else {},
        },
        **labels,
    }
    if layer.kind == "lines":
        settings["line"] = {"color": colour, "width": layer.thickness, "dash": layer.dash}
    if layer.interval:
        settings[f"error_{layer.interval}"] = _interval(layer, rows, colours)
    if layer.is_selectable:
        settings |= {"selected": {"marker": {"opacity": 1}}, "unselected": {"marker": {"opacity": opacity}}}
    return settings


def _interval(layer: Marks, rows: Sequence[Row], colours: Palette) -> dict[str, Any]:
    """Whiskers from ``low`` to ``high``; none where an end is not known."""
    values = [row[getattr(layer, layer.interval)] for row in rows]
    lows = [value if row.get("low") is None else row["low"] for value, row in zip(values, rows, strict=True)]
    highs = [value if row.get("high") is None else row["high"] for value, row in zip(values, rows, strict=True)]
    return {
        "type": "data",
        "symmetric": False,
        "array": [max(0.0, high - value) for high, value in zip(highs, values, strict=True)],
        "arrayminus": [max(0.0, value - low) for low, value in zip(lows, values, strict=True)],
        "color": layer.outline or colours.muted,
        "thickness": 1.4,
    }
