"""The advice's chart: what a usable conformer costs under each LP, with intervals, on a logarithmic axis.

The advised LP, those that fit and those that do not differ by marker as well as by colour; an LP that never gave a
usable answer stands at the right edge as an arrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

from engine.evidence.advice import words
from engine.evidence.advice.figures import LpFigures
from engine.evidence.advice.rule import Standing
from engine.evidence.advisor import Advice
from engine.inspection.statistics import Interval
from pages._shared.compare.state import Chosen
from pages._shared.errors import escape_markdown
from pages._shared.theme import Palette, palette, plotly_template

ROW_HEIGHT, LEAST_HEIGHT = 46, 150
FEW_DECADES = 2
QUIET = {"displayModeBar": False}
ADVISED, TIES, FITS, UNFIT = "advised", "ties", "fits", "does not fit"
SYMBOLS = {ADVISED: "diamond", TIES: "diamond-open", FITS: "circle", UNFIT: "x"}


@dataclass(frozen=True, slots=True)
class Row:
    lp: str
    label: str
    group: str  # of SYMBOLS
    cost: Interval
    rate: str
    run_id: str


def show_cost(advice: Advice, chosen: Chosen | None) -> None:
    """Draw the chart, its question and its answer."""
    want = advice.asked.want
    rows = rows_of(advice, chosen)
    with st.container(border=True, key="advice-cost"):
        st.markdown(
            f"#### What does a {want} conformer cost?",
            help="All seconds of a run over its usable answers, those that are thrown away paid for. 95 % intervals, "
            "molecules drawn anew.",
        )
        st.markdown(escape_markdown(answer(advice)))
        if any(math.isfinite(row.cost.value) for row in rows):
            figure = cost_figure(rows, want, palette(), chosen)
            st.plotly_chart(figure, theme=None, config=QUIET, key="figure-advice-cost", alt=alt(rows, want))


def rows_of(advice: Advice, chosen: Chosen | None) -> list[Row]:
    """The chart's rows, in the order of the table."""
    want = advice.asked.want
    return [
        Row(
            one.lp,
            label_of(one, chosen),
            standing_word(advice, standing),
            one.cost(want),
            words.rate_words(one, want),
            one.run_id,
        )
        for one, standing in zip(advice.measured.lps, advice.decision.standings, strict=True)
    ]


def standing_word(advice: Advice, standing: Standing) -> str:
    """How an LP stands, in a word that is a key of SYMBOLS."""
    if standing.lp == advice.decision.lp:
        return ADVISED
    if standing.lp in advice.decision.ties:
        return TIES
    return FITS if standing.counts else UNFIT


def label_of(one: LpFigures, chosen: Chosen | None) -> str:
    """The LP, with the letter of its run where that is compared on this page."""
    is_chosen = chosen is not None and one.run_id in chosen.ids
    return f"{chosen.letter(one.run_id)} · {one.lp}" if chosen is not None and is_chosen else one.lp


def answer(advice: Advice) -> str:
    """The chart's question answered from the figures."""
    want = advice.asked.want
    told = [one for one in advice.measured.lps if math.isfinite(one.cost(want).value)]
    never = [words.name_of(one.lp) for one in advice.measured.lps if one not in told]
    tail = f" None at all under {words.joined(never, 'and')}." if never else ""
    if not told:
        return f"No LP gave a {want} answer."
    order = sorted(told, key=lambda one: one.cost(want).value)
    first, last = order[0], order[-1]
    said = f"Least under {words.name_of(first.lp)}: {words.seconds(first.cost(want))}"
    if len(order) > 1:
        said += f". Most under {words.name_of(last.lp)}: {words.seconds(last.cost(want))}"
    return f"{said}.{tail}"


def cost_figure(rows: Sequence[Row], want: str, colours: Palette, chosen: Chosen | None = None) -> go.Figure:
    """A row an LP, in the order of the table."""
    edge = _edge(rows)
    figure = go.Figure()
    for group in SYMBOLS:
        some = [row for row in rows if row.group == group]
        if some:
            figure.add_trace(_trace(some, group, edge, colours, chosen))
            # Points have their runs' colours; the legend is about shapes.
            shape = {"size": 12, "symbol": SYMBOLS[group], "color": colours.muted}
            figure.add_trace(go.Scatter(x=[None], y=[None], mode="markers", name=group, marker=shape))
    for row in rows:
        if math.isinf(row.cost.value):
            figure.add_annotation(
                x=math.log10(edge), y=row.label, text="never →", showarrow=False, xanchor="right", xshift=-10,
                font={"color": colours.muted},
            )  # fmt: skip
    low, high = _range(rows, edge)
    ticks = _ticks(low, high)
    figure.update_xaxes(
        type="log",
        title=f"seconds a {want} conformer",
        range=[low, high],
        tickvals=ticks,
        ticktext=[words.number(tick) for tick in ticks],
    )
    figure.update_yaxes(
        categoryorder="array", categoryarray=[row.label for row in reversed(rows)], range=[-0.6, len(rows) - 0.4]
    )
    figure.update_layout(
        template=plotly_template(colours),
        title=None,
        height=max(LEAST_HEIGHT, 70 + ROW_HEIGHT * len(rows)),
        margin={"t": 30},
    )
    return figure


def _trace(some: Sequence[Row], group: str, edge: float, colours: Palette, chosen: Chosen | None) -> go.Scatter:
    values = [edge if math.isinf(row.cost.value) else row.cost.value for row in some]
    lows = [
        value if row.cost.low is None else min(row.cost.low, value) for row, value in zip(some, values, strict=True)
    ]
    highs = [
        value if row.cost.high is None else min(row.cost.high, edge) for row, value in zip(some, values, strict=True)
    ]
    return go.Scatter(
        x=values,
        y=[row.label for row in some],
        name=group,
        mode="markers",
        showlegend=False,
        marker={
            "size": 13,
            "symbol": SYMBOLS[group],
            "color": [_colour(row, colours, chosen) for row in some],
            "line": {"width": 2 if SYMBOLS[group].endswith("open") else 0},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, high - value) for high, value in zip(highs, values, strict=True)],
            "arrayminus": [max(0.0, value - low) for low, value in zip(lows, values, strict=True)],
            "color": colours.muted,
            "thickness": 1.4,
        },
        customdata=[[words.seconds(row.cost), row.rate] for row in some],
        hovertemplate="%{y}<br>%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
    )


def _colour(row: Row, colours: Palette, chosen: Chosen | None) -> str:
    """The run's own, where it is one of those that are compared."""
    if chosen is not None and row.run_id in chosen.ids:
        return chosen.colour(row.run_id, colours)
    return colours.accent if row.group in (ADVISED, TIES) else colours.muted


def _ends(rows: Sequence[Row]) -> list[float]:
    parts = [part for row in rows for part in (row.cost.value, row.cost.low, row.cost.high)]
    return [part for part in parts if part is not None and math.isfinite(part) and part > 0]


def _edge(rows: Sequence[Row]) -> float:
    """Beyond all that is finite; what is infinite stands there."""
    return 3 * max(_ends(rows), default=1.0)


def _range(rows: Sequence[Row], edge: float) -> list[float]:
    is_open = any(math.isinf(part) for row in rows for part in (row.cost.value, row.cost.high or 0))
    ends = _ends(rows)
    high = 1.15 * edge if is_open else 1.6 * max(ends)  # at the edge no more than a marker needs
    return [math.log10(min(ends) / 1.6), math.log10(high)]


def _ticks(low: float, high: float) -> list[float]:
    """Whole decades; of few decades 2 and 5 as well."""
    steps = (1, 2, 5) if high - low < FEW_DECADES else (1,)
    ticks = [step * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    return [tick for tick in ticks if low <= math.log10(tick) <= high]


def alt(rows: Sequence[Row], want: str) -> str:
    """What a screen reader gets in the chart's place."""
    told = "; ".join(f"{row.label} ({row.group}): {words.seconds(row.cost)}" for row in rows)
    return f"Seconds a {want} conformer by LP. {told}."
