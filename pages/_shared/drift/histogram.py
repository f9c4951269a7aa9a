"""The Drift inspector's histogram: blocks by drift, both signs, a panel a group; a clicked bar filters the table.

A cut block's drift is negative by an amount that only the model could tell, so cut blocks stand in a bar of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from engine.inspection.axes import AXES, axis_drifts
from engine.inspection.drifts import By, DriftBin
from engine.inspection.runs import RunFacts
from engine.inspection.sample import Inspected
from engine.store.store import Store
from pages._shared.drift import state
from pages._shared.drift import store as drift_store
from pages._shared.drift.words import signed
from pages._shared.errors import escape_markdown
from pages._shared.lab.choices import NAMES
from pages._shared.theme import Palette, drift_colour, palette, plotly_template

BYS: dict[str, By] = {"LP": "lp", "Tokenizer": "tokenizer", "Element": "element", "Axis": "axis", "Run": "run"}
MOST_GROUPS = 8
ONE_BELOW_ANOTHER = 3
PANEL_HEIGHT = {1: 250, 2: 175, 3: 130, 4: 105}  # by rows of panels
FADED = 0.3


@dataclass(slots=True)
class Group:
    """One panel. ``cut`` blocks have no known drift; nor do ``other`` ones, which nobody could read or judge."""

    name: str
    title: str
    drifts: dict[int, int]
    cut: int = 0
    other: int = 0

    @property
    def blocks(self) -> int:
        return sum(self.drifts.values()) + self.cut + self.other


def show(store: Store, runs: Sequence[RunFacts], one: Inspected | None) -> None:
    """Draw the choice, the panels and what they leave out."""
    chosen = st.segmented_control(
        "Drift by", list(BYS), default="LP", required=True, key="by", bind="query-params", wrap=True
    )
    by = BYS.get(chosen or "LP", "lp")
    groups, left_out = _groups(store, runs, by)
    if not groups:
        st.info("None of these runs' blocks has a drift that is known.", icon=":material/info:")
        return
    bar = state.bar()
    bar = bar if bar is not None and bar.by == by else None
    mine = {} if one is None else _of_sample(store, one, by)
    figure = _figure(groups, bar, mine, "coordinates" if by == "axis" else "blocks")
    # A key for each bar: a click draws the figure anew with the bar standing out, and a second click lets go of it.
    key = f"histogram-{by}-{state.only_cut()}-{'' if bar is None else f'{bar.group}-{bar.drift}'}"
    st.plotly_chart(
        figure,
        theme=None,
        key=key,
        on_select=lambda: _take(key, by, groups, bar),
        selection_mode="points",
        config={"displayModeBar": False},
        alt=_alt(groups),
    )
    st.caption(_words(groups, left_out, by, bool(mine)))


def words(bar: DriftBin) -> str:
    """A bar in words, for the chip that takes it away again."""
    of = {"axis": "axis ", "element": "element ", "tokenizer": "", "lp": "LP ", "run": "run "}[bar.by]
    group = NAMES.get(bar.group, bar.group)
    return f"drift {signed(bar.drift)} · {of}{group}"


# --- what is counted ----------------------------------------------------------------------------------------------


def _groups(store: Store, runs: Sequence[RunFacts], by: By) -> tuple[list[Group], int]:
    known, unknown = drift_store.counts(store, runs, by)
    names = {run.run_id: run.name for run in runs} if by == "run" else NAMES
    found: dict[str, Group] = {}
    for row in known:
        name = row["group"]
        found.setdefault(name, Group(name, names.get(name, name), {})).drifts[row["drift"]] = row["blocks"]
    for row in unknown:
        if by != "axis":
            group = found.setdefault(row["group"], Group(row["group"], names.get(row["group"], row["group"]), {}))
            group.cut, group.other = int(row["cut"]), int(row["unverified"]) + int(row["other"])
    kept = list(found.values())
    if by != "axis":
        kept = sorted(kept, key=lambda group: -group.blocks)[:MOST_GROUPS]
    return kept, len(found) - len(kept)


def _of_sample(store: Store, one: Inspected, by: By) -> dict[str, Counter[int | None]]:
    """Where the blocks of the sample that is open stand; None is the bar of cut ones."""
    found: dict[str, Counter[int | None]] = {}
    if by == "axis":
        drifts = axis_drifts(store, one.run)
        mine = drifts.drift[drifts.sample == one.sample["sample_id"]]
        return {axis: Counter(mine[:, place].tolist()) for place, axis in enumerate(AXES)}
    of_run = {"run": one.run.run_id, "tokenizer": one.run.tokenizer or "unknown", "lp": one.run.lp or "unknown"}
    for block in one.blocks:
        is_cut = block["drift"] is None and "cut" in (block["kinds"] or ())
        if block["drift"] is not None or is_cut:
            group = (block["element"] or "unknown") if by == "element" else of_run[by]
            found.setdefault(group, Counter())[block["drift"]] += 1
    return found


# --- the figure ---------------------------------------------------------------------------------------------------


def _figure(
    groups: Sequence[Group], bar: DriftBin | None, mine: Mapping[str, Counter[int | None]], what: str
) -> go.Figure:
    columns = 1 if len(groups) <= ONE_BELOW_ANOTHER else 2
    rows = -(-len(groups) // columns)
    panels = make_subplots(
        rows=rows,
        cols=columns,
        shared_yaxes="all",
        horizontal_spacing=0.06,
        vertical_spacing=0.34 / rows if rows > 1 else 0,
        subplot_titles=[escape(group.title) for group in groups],
    )
    ticks = _Ticks.of(groups)
    highest = max(_share(group, count) for group in groups for count in (*group.drifts.values(), group.cut))
    for place, group in enumerate(groups):
        at = {"row": place // columns + 1, "col": place % columns + 1}
        panels.add_trace(_bars(group, ticks, bar, what), **at)
    for place, group in enumerate(groups):
        at = {"row": place // columns + 1, "col": place % columns + 1}
        if group.name in mine:
            panels.add_trace(_marks(mine[group.name], ticks, 1.1 * highest), **at)
    panels.update_xaxes(range=ticks.range, tickvals=ticks.values, ticktext=ticks.texts, tickfont={"size": 11})
    panels.update_yaxes(tickformat=".0%", range=[0, 1.2 * highest], tickfont={"size": 11}, nticks=3)
    panels.update_annotations(font={"size": 12})
    panels.update_layout(
        template=plotly_template(palette()),
        height=40 + PANEL_HEIGHT[rows] * rows,
        margin={"t": 26, "b": 6},
        dragmode=False,
    )
    return panels


@dataclass(frozen=True, slots=True)
class _Ticks:
    least: int
    most: int
    with_cut: bool

    @classmethod
    def of(cls, groups: Sequence[Group]) -> _Ticks:
        drifts = [drift for group in groups for drift in group.drifts]
        return cls(min([*drifts, -1]), max([*drifts, 1]), any(group.cut for group in groups))

    @property
    def cut(self) -> float:
        return self.least - 1.5

    @property
    def values(self) -> list[float]:
        step = 1 if self.most - self.least < 9 else 2
        whole = [drift for drift in range(self.least, self.most + 1) if drift % step == 0]
        return [*([self.cut] if self.with_cut else []), *whole]

    @property
    def texts(self) -> list[str]:
        return ["cut" if value == self.cut else signed(round(value)) for value in self.values]

    @property
    def range(self) -> tuple[float, float]:
        return (self.cut if self.with_cut else self.least) - 0.7, self.most + 0.7


def _bars(group: Group, ticks: _Ticks, bar: DriftBin | None, what: str) -> go.Bar:
    colours = palette()
    drifts = sorted(group.drifts)
    counts = [group.drifts[drift] for drift in drifts]
    places: list[float] = [*drifts]
    said = [f"drift {signed(drift)}" for drift in drifts]
    fills, shapes = _fills(drifts, colours)
    if group.cut:
        places.append(ticks.cut)
        counts.append(group.cut)
        said.append("cut, by an amount that nobody knows")
        fills.append(colours.cut)
        shapes.append("+")
    is_chosen = [_is_chosen(group, place, bar, ticks.cut) for place in places]
    return go.Bar(
        x=places,
        y=[_share(group, count) for count in counts],
        width=0.84,
        marker={"color": fills, "pattern": {"shape": shapes}, "opacity": [1 if one else FADED for one in is_chosen]},
        # Names of groups may be anybody's text: they go in as data, never into the template.
        customdata=[[escape(group.title), word, count] for word, count in zip(said, counts, strict=True)],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}: %{customdata[2]:,} " + what + ", %{y:.1%}<extra></extra>",
        showlegend=False,
    )


def _is_chosen(group: Group, place: float, bar: DriftBin | None, cut: float) -> bool:
    """With no bar chosen all stand out."""
    if state.only_cut():
        return place == cut
    return bar is None or (bar.group == group.name and bar.drift == place)


def _fills(drifts: Sequence[int], colours: Palette) -> tuple[list[str], list[str]]:
    fills = [drift_colour(drift, colours) for drift in drifts]
    return fills, ["" if drift == 0 else "/" if drift > 0 else "x" for drift in drifts]


def _marks(mine: Counter[int | None], ticks: _Ticks, height: float) -> go.Scatter:
    """Diamonds above the bars in which the open sample has blocks."""
    places = [ticks.cut if drift is None else drift for drift in mine]
    return go.Scatter(
        x=places,
        y=[height] * len(places),
        mode="markers",
        marker={"symbol": "diamond", "size": 8, "color": palette().text},
        customdata=[[count] for count in mine.values()],
        hovertemplate="the molecule below: %{customdata[0]}<extra></extra>",
        showlegend=False,
    )


def _share(group: Group, count: int) -> float:
    return count / group.blocks if group.blocks else 0.0


# --- clicks and words ---------------------------------------------------------------------------------------------


def _take(key: str, by: By, groups: Sequence[Group], bar: DriftBin | None) -> None:
    points: list[Mapping[str, Any]] = st.session_state[key]["selection"]["points"]
    hit = next((point for point in points if point["curve_number"] < len(groups)), None)
    if hit is None:
        return
    group, place = groups[hit["curve_number"]], float(hit["x"])
    if place != round(place):  # only cut blocks stand between two numbers
        if state.only_cut():
            state.put_bar(None)
        else:
            state.put_only_cut()
        return
    chosen = DriftBin(by, group.name, int(place))
    state.put_bar(None if chosen == bar else chosen)


def _words(groups: Sequence[Group], left_out: int, by: By, has_marks: bool) -> str:
    cut, other = sum(group.cut for group in groups), sum(group.other for group in groups)
    what = "coordinates" if by == "axis" else "blocks"
    parts = [
        f"Share of {what}. Violet, striped: positions left over. Red, crossed: too few. Click a bar to filter.",
        f"What {cut:,} cut {'block' if cut == 1 else 'blocks'} lacked only the model could say." if cut else "",
        f"Not drawn: {other:,} unread or unverified." if other else "",
        f"The {MOST_GROUPS} largest of {MOST_GROUPS + left_out} groups." if left_out else "",
        "Only blocks whose drift is known." if by == "axis" else "",
        "Diamonds: the molecule below." if has_marks else "",
    ]
    return escape_markdown(" ".join(part for part in parts if part))


def _alt(groups: Sequence[Group]) -> str:
    """What a screen reader gets in place of the panels."""
    lines = []
    for group in groups:
        junk = sum(count for drift, count in group.drifts.items() if drift > 0)
        missing = sum(count for drift, count in group.drifts.items() if drift < 0) + group.cut
        lines.append(f"{group.title}: {_share(group, junk):.0%} junk-prone, {_share(group, missing):.0%} cut")
    return "Drift of blocks. " + ". ".join(lines) + "."
