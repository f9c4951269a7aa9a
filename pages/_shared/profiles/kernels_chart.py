"""The operations that make the largest difference, as bars; of a trace alone those that take longest."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from engine.profile.compare import Comparison, KernelRow
from engine.profile.figures import number, per_cent, signed_time, time_of
from engine.profile.words import is_alone
from pages._shared.compare.charts_card import card
from pages._shared.compare.charts_words import drawn, shortened
from pages._shared.profiles.kernels_table import short, size
from pages._shared.profiles.state import Chosen
from pages._shared.theme import palette

HELP = """
Of the operations that the filters leave, the largest by time or by calls. Bars to the right are what the test has more
of, to the left what it has less of; hatched ones are operations that only one of the two has.
"""
HELP_ALONE = "Of the operations that the filters leave, the largest by time or by calls."
MOST = 12
MOST_NAME = 34
LANE_HEIGHT = 26


def show(chosen: Chosen, found: Comparison, rows: Sequence[KernelRow], *, by_calls: bool) -> None:
    """Draw the chart."""
    some = [row for row in rows if size(row, found, by_calls=by_calls)][:MOST]
    what = "calls" if by_calls else "time"
    question = f"Which take most {what}?" if is_alone(found) else f"Which differ most in {what}?"
    with card("kernels", question, HELP_ALONE if is_alone(found) else HELP) as here:
        here.tell(words(found, rows, some, by_calls=by_calls))
        if some:
            here.draw(figure(found, some, by_calls=by_calls), alt=alt(found, some, by_calls=by_calls))


def words(found: Comparison, rows: Sequence[KernelRow], some: Sequence[KernelRow], *, by_calls: bool) -> str:
    """How much of all these few are."""
    if not some:
        return "None of these operations differs."
    whole, part = (sum(abs(size(row, found, by_calls=by_calls)) for row in group) for group in (rows, some))
    what = "calls" if by_calls else "time"
    if is_alone(found):
        of, verb = f"their {what}", "takes"
    else:
        of, verb = f"all changes of {what}, up and down", "differs"
    first = f"{short(some[0])} {verb} most, {_value(found, some[0], by_calls=by_calls)}."
    if len(some) == len(rows):
        return first
    return f"{first} {_of(rows, some)} {'are' if len(some) > 1 else 'is'} {per_cent(part / whole)} of {of}."


def _of(rows: Sequence[KernelRow], some: Sequence[KernelRow]) -> str:
    return f"The {len(some)} drawn of {len(rows):,}" if len(some) > 1 else f"It alone of {len(rows):,}"


def _value(found: Comparison, row: KernelRow, *, by_calls: bool) -> str:
    value = size(row, found, by_calls=by_calls)
    if is_alone(found):
        return f"{value:,.0f} calls" if by_calls else time_of(value)
    return f"{'+' if value > 0 else ''}{number(value)} calls" if by_calls else signed_time(value)


def figure(found: Comparison, rows: Sequence[KernelRow], *, by_calls: bool) -> go.Figure:
    colours = palette()
    values = [size(row, found, by_calls=by_calls) for row in rows]
    most = max(abs(value) for value in values)
    scale, unit = (1.0, "calls") if by_calls else (1000.0, "ms") if most >= 1000 else (1.0, "µs")
    hues = [colours.muted if is_alone(found) else colours.text if value > 0 else colours.accent for value in values]
    drawing = go.Figure(
        go.Bar(
            orientation="h",
            y=list(range(len(rows))),
            x=[value / scale for value in values],
            marker={
                "color": hues,
                "line": {"color": hues, "width": 1},
                "pattern": {
                    "shape": ["/" if row.change in ("added", "gone") else "" for row in rows],
                    "fillmode": "replace",
                    "fgcolor": hues,
                    "size": 5,
                },
            },
            text=[_value(found, row, by_calls=by_calls) for row in rows],
            textposition="outside",
            cliponaxis=False,
            customdata=[[drawn(row.name), row.family, f"{row.control.calls:,}", f"{row.test.calls:,}"] for row in rows],
            hovertemplate="%{customdata[0]}<br>%{customdata[1]}, %{text}<br>calls: A %{customdata[2]}, "
            "B %{customdata[3]}<extra></extra>",
        )
    )
    low, high = min(0.0, *values) / scale, max(0.0, *values) / scale
    room = 0.28 * (high - low)
    drawing.update_xaxes(
        title=f"{unit}{'' if is_alone(found) else ', B − A'}",
        range=[low - (room if low < 0 else 0), high + (room if high > 0 else 0)],
        zeroline=True,
    )
    drawing.update_yaxes(
        tickvals=list(range(len(rows))),
        ticktext=[drawn(shortened(short(row), MOST_NAME)) for row in rows],
        range=[len(rows) - 0.4, -0.6],
        showgrid=False,
        zeroline=False,
    )
    drawing.update_layout(height=90 + LANE_HEIGHT * len(rows), margin={"t": 8, "r": 48}, showlegend=False)
    return drawing


def alt(found: Comparison, rows: Sequence[KernelRow], *, by_calls: bool) -> str:
    return ", ".join(f"{short(row)[:60]} {_value(found, row, by_calls=by_calls)}" for row in rows) + "."
