"""The figures of the Drift inspector's third section, and what a screen reader gets in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import plotly.graph_objects as go

from engine.inspection.effect import RunEffect, SamplePoint, Tenth
from engine.inspection.effect_words import NOTHING, number
from engine.inspection.statistics import Correlation, Interval
from pages._shared.theme import palette, plotly_template

HEIGHT = 250
LEAST_NAT, LEAST_MASS = 0.1, 0.01
"""Axes reach at least so far: next to nothing shall look like it."""
FINE_MASS = 0.05
_Of = Callable[[Tenth], Interval | None]


def surprise_along(effect: RunEffect) -> go.Figure:
    """Surprise of forced tokens by tenth of the answer."""
    figure = _line(effect.tenths, lambda tenth: tenth.surprise_nat, lambda tenth: tenth.forced, palette().copy, "nat")
    highest = _highest(tenth.surprise_nat for tenth in effect.tenths)
    figure.update_yaxes(title="surprise, −ln p (nat)", range=[0, max(1.08 * highest, LEAST_NAT)])
    figure.update_layout(title="Forced tokens: how unlikely to the model")
    return figure


def removed_along(effect: RunEffect) -> go.Figure:
    """Mass taken at free tokens by tenth of the answer."""
    figure = _line(effect.tenths, lambda tenth: tenth.removed, lambda tenth: tenth.free, palette().cut, "of the mass")
    highest = max(1.08 * _highest(tenth.removed for tenth in effect.tenths), LEAST_MASS)
    figure.update_yaxes(title="mass taken", tickformat=_percents(highest), range=[0, highest])
    figure.update_layout(title="Free tokens: mass that the LP took away")
    return figure


def _highest(figures: Iterable[Interval | None]) -> float:
    return max((one.value if one.high is None else one.high for one in figures if one is not None), default=0.0)


def _percents(highest: float) -> str:
    return ".0%" if highest > FINE_MASS else ".1%"


def _line(tenths: Sequence[Tenth], of: _Of, count: Callable[[Tenth], int], colour: str, unit: str) -> go.Figure:
    told = [(tenth, figure) for tenth in tenths if (figure := of(tenth)) is not None]
    figures = [figure for _, figure in told]
    figure = go.Figure(
        go.Scatter(
            x=[10 * tenth.tenth + 5 for tenth, _ in told],
            y=[one.value for one in figures],
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [0 if one.high is None else one.high - one.value for one in figures],
                "arrayminus": [0 if one.low is None else one.value - one.low for one in figures],
                "color": palette().muted,
                "thickness": 1.2,
            },
            mode="lines+markers",
            line={"color": colour, "width": 2},
            marker={"size": 7},
            customdata=[[count(tenth)] for tenth, _ in told],
            hovertemplate="%{y:.3f} " + unit + "<br>%{customdata[0]:,} tokens<extra></extra>",
        )
    )
    figure.update_xaxes(title="along the answer", ticksuffix=" %", range=[0, 100], dtick=20)
    figure.update_layout(template=plotly_template(palette()), height=HEIGHT, margin={"t": 36})
    return figure


def against_rmsd(points: Sequence[SamplePoint], effect: RunEffect, what: str) -> go.Figure:
    """A point a sample: how much the LP bent the model against how far off its conformer is."""
    is_surprise = what == "surprise"
    told = [(point, value) for point in points if (value := _value(point, what)) is not None]
    figure = go.Figure(
        go.Scatter(
            x=[value for _, value in told],
            y=[point.rmsd_ang for point, _ in told],
            mode="markers",
            marker={
                "size": 9,
                "color": palette().copy if is_surprise else palette().cut,
                "symbol": "circle" if is_surprise else "diamond",
                "line": {"width": 1, "color": palette().background},
            },
            customdata=[point.sample_id for point, _ in told],
            hovertemplate="sample %{customdata}<br>%{x:.3f} · RMSD %{y:.2f} Å<extra></extra>",
        )
    )
    title = "mean surprise of forced tokens (nat)" if is_surprise else "mean mass taken at free tokens"
    if is_surprise:
        figure.update_xaxes(title=title, exponentformat="e", rangemode="tozero")
    else:
        highest = max([1.08 * value for _, value in told] + [LEAST_MASS])
        figure.update_xaxes(title=title, tickformat=_percents(highest), range=[-0.02 * highest, highest])
    figure.update_yaxes(title="RMSD (Å)", rangemode="tozero")
    figure.update_layout(
        template=plotly_template(palette()), height=HEIGHT + 20, margin={"t": 36}, title=_correlation(effect, what)
    )
    return figure


def words_along(effect: RunEffect, *, of_forced: bool) -> str:
    parts = [
        f"{10 * tenth.tenth} to {10 * tenth.tenth + 10} %: {number(figure)}"
        for tenth in effect.tenths
        if (figure := tenth.surprise_nat if of_forced else tenth.removed) is not None
    ]
    what = "Mean surprise of forced tokens in nat" if of_forced else "Mean share of the mass taken at free tokens"
    return f"{what} along the answer. {'; '.join(parts)}."


def words_against_rmsd(effect: RunEffect, what: str) -> str:
    named = "surprise of forced tokens" if what == "surprise" else "mass taken at free tokens"
    return f"RMSD against {named}, a point a sample. {_correlation(effect, what)}."


def _value(point: SamplePoint, what: str) -> float | None:
    return point.surprise_nat if what == "surprise" else point.removed


def _correlation(effect: RunEffect, what: str) -> str:
    found: Correlation | None = effect.rmsd_surprise if what == "surprise" else effect.rmsd_removed
    if what == "removed" and (effect.removed is None or effect.removed.value < NOTHING):
        return "next to nothing was taken"
    return "no rank correlation can be told" if found is None else f"rank correlation {number(found.plain)}"
