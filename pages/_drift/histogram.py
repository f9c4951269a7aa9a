"""The Drift inspector's histogram: blocks by drift, both signs, one panel per group; a clicked bar filters the table.

How negative a cut block's drift is, only the model could tell, so cut blocks have a bar of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.figures.words import counted, percent
from engine.inspection.axes import AXES, axis_drifts
from engine.inspection.drifts import By, DriftBin, drift_counts, unknown_counts
from engine.inspection.runs import RunFacts
from engine.inspection.sample import Inspected
from engine.store.store import Store
from pages._drift import state
from pages._shared.charts.card import draw
from pages._shared.charts.chart import Axis, Chart, Marks, Panel
from pages._shared.choices import one_of
from pages._shared.errors import escape_markdown
from pages._shared.theme import drift_colour, palette
from pages._shared.words import TOKENIZER_NAMES, signed

BYS: dict[str, By] = {"LP": "lp", "Tokenizer": "tokenizer", "Element": "element", "Axis": "axis", "Run": "run"}
MOST_GROUPS = 8
ONE_BELOW_ANOTHER = 3
PANEL_HEIGHT = {1: 250, 2: 175, 3: 130, 4: 105}  # by rows of panels
FADED = 0.3
PINK_HELP = (
    "Where numbers fill the positions with shorter tokens, pink is no junk. And junk is not pink where its drift is "
    "unknown: in blocks that were cut or have no three numbers."
)


@dataclass(slots=True)
class DriftGroup:
    """One panel. ``cut`` blocks have no known drift; ``other`` ones are unread or unverified."""

    name: str
    title: str
    drifts: dict[int, int]
    cut: int = 0
    other: int = 0
    is_hypothetical: bool = False  # of texts that no template wrote: their drift did nothing

    @property
    def blocks(self) -> int:
        return sum(self.drifts.values()) + self.cut + self.other


def show(store: Store, runs: Sequence[RunFacts], inspection: Inspected | None) -> None:
    by = BYS[one_of("Drift by", list(BYS), "by", wrap=True)]
    groups, left_out = _groups(store, runs, by)
    if not groups:
        st.info("No block of these runs has a known drift.", icon=":material/info:")
        return
    bar = state.bar()
    bar = bar if bar is not None and bar.by == by else None
    mine = {} if inspection is None else _of_sample(store, inspection, by)
    # A key for each bar: a click redraws the figure with the bar highlighted, and a second click clears it.
    key = f"histogram-{by}-{state.only_cut()}-{'' if bar is None else f'{bar.group}-{bar.drift}'}"
    traces = [trace for group in groups for trace in ((group, None) if mine.get(group.name) else (group,))]
    draw(
        _chart(groups, bar, mine, "coordinates" if by == "axis" else "blocks"),
        key=key,
        on_select=lambda: _take(key, by, traces, bar),
        selection_mode="points",
    )
    has_real = any(not group.is_hypothetical for group in groups)
    st.caption(_words(groups, left_out, by, bool(mine)), help=PINK_HELP if has_real else None)


def words(bar: DriftBin) -> str:
    """A bar in words, for the button that clears it."""
    of = {"axis": "axis ", "element": "element ", "tokenizer": "", "lp": "LP ", "run": "run "}[bar.by]
    group = TOKENIZER_NAMES.get(bar.group, bar.group)
    return f"drift {signed(bar.drift)} · {of}{group}"


# --- what is counted ----------------------------------------------------------------------------------------------


def _groups(store: Store, runs: Sequence[RunFacts], by: By) -> tuple[list[DriftGroup], int]:
    known, unknown = _counts(store, tuple(run.key for run in runs), by)
    names = {run.run_id: run.name for run in runs} if by == "run" else TOKENIZER_NAMES
    by_name: dict[str, DriftGroup] = {}
    for row in known:
        name = row["group"]
        by_name.setdefault(name, DriftGroup(name, names.get(name, name), {})).drifts[row["drift"]] = row["blocks"]
    for row in unknown:
        if by != "axis":
            name = row["group"]
            group = by_name.setdefault(name, DriftGroup(name, names.get(name, name), {}))
            group.cut, group.other = int(row["cut"]), int(row["unverified"]) + int(row["other"])
    kept = list(by_name.values())
    if by != "axis":
        kept = sorted(kept, key=lambda group: -group.blocks)[:MOST_GROUPS]
    for group in kept:
        members = [run for run in runs if _of_run(run).get(by, group.name) == group.name]
        group.is_hypothetical = all(run.is_hypothetical for run in members)
        group.title += " (hypothetical)" if group.is_hypothetical else ""
    return kept, len(by_name) - len(kept)


def _of_run(run: RunFacts) -> dict[By, str]:
    """The groups that a run is in whole."""
    return {"run": run.run_id, "tokenizer": run.tokenizer or "unknown", "lp": run.lp or "unknown"}


@st.cache_resource(max_entries=48, show_spinner="Counting drift …")
def _counts(
    _store: Store, keys: tuple[tuple[str, ...], ...], by: By
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Blocks by group and drift, and those of unknown drift. Runs never change, so their checksums name the counts."""
    run_ids = [key[0] for key in keys]
    return drift_counts(_store, run_ids, by).to_pylist(), unknown_counts(_store, run_ids, by).to_pylist()


def _of_sample(store: Store, inspection: Inspected, by: By) -> dict[str, Counter[int | None]]:
    """Drifts of the open sample's blocks, by group; None counts cut blocks."""
    if by == "axis":
        drifts = axis_drifts(store, inspection.run)
        mine = drifts.drift[drifts.sample == inspection.sample["sample_id"]]
        return {axis: Counter(mine[:, place].tolist()) for place, axis in enumerate(AXES)}
    of_run = _of_run(inspection.run)
    by_group: dict[str, Counter[int | None]] = {}
    for block in inspection.blocks:
        is_cut = block["drift"] is None and "cut" in (block["kinds"] or ())
        if block["drift"] is not None or is_cut:
            group = (block["element"] or "unknown") if by == "element" else of_run[by]
            by_group.setdefault(group, Counter())[block["drift"]] += 1
    return by_group


# --- the chart ----------------------------------------------------------------------------------------------------


def _chart(
    groups: Sequence[DriftGroup], bar: DriftBin | None, mine: Mapping[str, Counter[int | None]], what: str
) -> Chart:
    columns = 1 if len(groups) <= ONE_BELOW_ANOTHER else 2
    rows = -(-len(groups) // columns)
    drifts = [drift for group in groups for drift in group.drifts]
    least, most = min([*drifts, -1]), max([*drifts, 1])
    cut = least - 1.5  # the position of the cut blocks' bar, between two numbers
    has_cut = any(group.cut for group in groups)
    step = 1 if most - least < 9 else 2
    ticks: dict[float, str] = {cut: "cut"} if has_cut else {}
    ticks |= {drift: signed(drift) for drift in range(least, most + 1) if drift % step == 0}
    highest = max(_share(group, count) for group in groups for count in (*group.drifts.values(), group.cut))
    small = {"tickfont_size": 11}
    x = Axis(ticks=ticks, range=[(cut if has_cut else least) - 0.7, most + 0.7], more=small)
    y = Axis(is_share=True, range=[0, 1.2 * highest], more={**small, "nticks": 3})
    lines = []
    for group in groups:
        junk = sum(count for drift, count in group.drifts.items() if drift > 0)
        missing = sum(count for drift, count in group.drifts.items() if drift < 0) + group.cut
        signs = ("above 0", "below 0") if group.is_hypothetical else ("junk-prone", "cut")
        lines.append(
            f"{group.title}: {percent(_share(group, junk))} {signs[0]}, {percent(_share(group, missing))} {signs[1]}"
        )
    return Chart(
        panels=[
            Panel(layers=[_bars(group, cut, bar, what), *_diamonds(mine.get(group.name), cut, 1.1 * highest)],
                  x=x, y=y, title=group.title)
            for group in groups
        ],
        columns=columns,
        shared_y="all",
        spacing=(0.06, 0.34 / rows),
        height=40 + PANEL_HEIGHT[rows] * rows,
        top=26,
        more={"dragmode": False, "margin": {"b": 6}},
        alt="Drift of blocks. " + ". ".join(lines) + ".",
    )  # fmt: skip


def _bars(group: DriftGroup, cut: float, bar: DriftBin | None, what: str) -> Marks:
    colours = palette()
    bars: list[dict[str, Any]] = [
        {
            "x": drift,
            "count": group.drifts[drift],
            "words": f"drift {signed(drift)}",
            "colour": colours.neutral if group.is_hypothetical else drift_colour(drift, colours),
            "pattern": "" if drift == 0 else "/" if drift > 0 else "x",
        }
        for drift in sorted(group.drifts)
    ]
    if group.cut:
        unknown = {"words": "cut, by an unknown amount", "colour": colours.cut, "pattern": "+"}
        bars.append({"x": cut, "count": group.cut, **unknown})
    for row in bars:
        is_bar = bar is None or (bar.group, bar.drift) == (group.name, row["x"])
        is_chosen = row["x"] == cut if state.only_cut() else is_bar
        row |= {"y": _share(group, row["count"]), "width": 0.84, "opacity": 1 if is_chosen else FADED}
    return Marks(
        kind="bars",
        rows=bars,
        is_hatched=False,
        is_selectable=True,
        hover=lambda row: (group.title, f"{row['words']}: {row['count']:,} {what}, {percent(row['y'])}"),
    )


def _diamonds(mine: Counter[int | None] | None, cut: float, height: float) -> list[Marks]:
    """Above the bars in which the open sample has blocks."""
    if not mine:
        return []
    spots = [{"x": cut if drift is None else drift, "y": height, "count": count} for drift, count in mine.items()]
    colour = palette().text
    return [Marks(kind="points", rows=spots, symbol="diamond", size=8, colour=colour,
                  hover=lambda row: f"the molecule below: {row['count']}")]  # fmt: skip


def _share(group: DriftGroup, count: int) -> float:
    return count / group.blocks if group.blocks else 0.0


# --- clicks and words ---------------------------------------------------------------------------------------------


def _take(key: str, by: By, traces: Sequence[DriftGroup | None], bar: DriftBin | None) -> None:
    """``traces`` has the group of each of the figure's traces; None for diamonds."""
    points: list[Mapping[str, Any]] = st.session_state[key]["selection"]["points"]
    hits = ((traces[point["curve_number"]], float(point["x"])) for point in points)
    group, place = next(((group, place) for group, place in hits if group is not None), (None, 0.0))
    if group is None:
        return
    if place != round(place):  # only the bar of cut blocks is between two numbers
        if state.only_cut():
            state.put_bar(None)
        else:
            state.put_only_cut()
        return
    chosen = DriftBin(by, group.name, int(place))
    state.put_bar(None if chosen == bar else chosen)


def _words(groups: Sequence[DriftGroup], left_out: int, by: By, has_marks: bool) -> str:
    cut, other = sum(group.cut for group in groups), sum(group.other for group in groups)
    what = "coordinates" if by == "axis" else "blocks"
    has_real = any(not group.is_hypothetical for group in groups)
    parts = [
        f"Share of {what}. Click a bar to filter.",
        f"Pink, striped: {what} with positions left over, which junk or shorter tokens fill: not the share with junk."
        if has_real
        else "",
        "Orange, crossed: too few positions." if has_real else "",
        "Grey: hypothetical drift, of texts that no template wrote."
        if any(group.is_hypothetical for group in groups)
        else "",
        f"{counted(cut, 'cut block')}: missing length unknown." if cut else "",
        f"Not drawn: {other:,} unread or unverified." if other else "",
        f"The {MOST_GROUPS} largest of {MOST_GROUPS + left_out} groups." if left_out else "",
        "Only blocks whose drift is known." if by == "axis" else "",
        "Diamonds: the open molecule." if has_marks else "",
    ]
    return escape_markdown(" ".join(part for part in parts if part))
