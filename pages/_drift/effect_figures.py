"""The figures of the Drift inspector's third section, and their text alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.figures.statistics import Correlation
from engine.figures.words import with_interval
from engine.inspection.effect import RunEffect, SamplePoint
from engine.inspection.effect_words import NOTHING
from pages._shared.charts.chart import Axis, Chart, Marks, chart
from pages._shared.theme import palette

HEIGHT = 250
LEAST_NAT, LEAST_MASS = 0.1, 0.01
"""The least length of the axes, so that a tiny effect looks tiny."""
FINE_MASS = 0.05


def along(effect: RunEffect, *, of_forced: bool) -> Chart:
    """Surprise of forced tokens, or mass removed at free ones, by tenth of the answer."""
    tenths = [
        (tenth, figure)
        for tenth in effect.tenths
        if (figure := tenth.surprise_nat if of_forced else tenth.removed) is not None
    ]
    unit = "nat" if of_forced else "of the mass"
    points = [
        {
            "x": 10 * tenth.tenth + 5,
            "y": figure.value,
            "low": figure.low,
            "high": figure.high,
            "tokens": tenth.forced if of_forced else tenth.free,
        }
        for tenth, figure in tenths
    ]
    highest = 1.08 * max((figure.value if figure.high is None else figure.high for _, figure in tenths), default=0.0)
    if of_forced:
        y = Axis(title="surprise, −ln p (nat)", range=[0, max(highest, LEAST_NAT)])
        title, what = "Forced tokens: how unlikely to the model", "Mean surprise of forced tokens in nat"
    else:
        y = _mass("mass removed", max(highest, LEAST_MASS), 0)
        title, what = "Free tokens: mass that the LP removed", "Mean share of the mass removed at free tokens"
    parts = [f"{10 * tenth.tenth} to {10 * tenth.tenth + 10} %: {with_interval(figure)}" for tenth, figure in tenths]
    marks = Marks(
        kind="lines",
        rows=points,
        interval="y",
        size=7,
        colour=palette().copy if of_forced else palette().cut,
        hover=lambda row: (f"{row['y']:.3f} {unit}", f"{row['tokens']:,} tokens"),
    )
    return chart(
        marks,
        x=Axis(title="along the answer", range=[0, 100], more={"ticksuffix": " %", "dtick": 20}),
        y=y,
        height=HEIGHT,
        top=36,
        more={"title": title},
        alt=f"{what} along the answer. {'; '.join(parts)}.",
    )


def _mass(title: str, highest: float, lowest: float) -> Axis:
    fine = {"tickformat": ".1%"} if highest <= FINE_MASS else {}
    return Axis(title=title, is_share=True, range=[lowest, highest], more=fine)


def against_rmsd(points: Sequence[SamplePoint], effect: RunEffect, what: str) -> Chart:
    """One point per sample: how much the LP overruled the model, against its conformer's RMSD."""
    is_surprise, colours = what == "surprise", palette()
    rows: list[dict[str, Any]] = [
        {"x": value, "y": point.rmsd_ang, "sample": point.sample_id}
        for point in points
        if (value := point.surprise_nat if is_surprise else point.removed) is not None
    ]
    if is_surprise:
        x = Axis(title="mean surprise of forced tokens (nat)", from_zero=True, more={"exponentformat": "e"})
    else:
        highest = max([1.08 * row["x"] for row in rows] + [LEAST_MASS])
        x = _mass("mean mass removed at free tokens", highest, -0.02 * highest)
    marks = Marks(
        kind="points",
        rows=rows,
        colour=colours.copy if is_surprise else colours.cut,
        symbol="circle" if is_surprise else "diamond",
        outline=colours.background,
        clicked="sample",
        hover=lambda row: (f"sample {row['sample']}", f"{row['x']:.3f} · RMSD {row['y']:.2f} Å"),
    )
    named = "surprise of forced tokens" if is_surprise else "mass removed at free tokens"
    return chart(
        marks,
        x=x,
        y=Axis(title="RMSD (Å)", from_zero=True),
        height=HEIGHT + 20,
        top=36,
        more={"title": _correlation(effect, what)},
        alt=f"RMSD against {named}, one point per sample. {_correlation(effect, what)}.",
    )


def _correlation(effect: RunEffect, what: str) -> str:
    correlation: Correlation | None = effect.rmsd_surprise if what == "surprise" else effect.rmsd_removed
    if what == "removed" and (effect.removed is None or effect.removed.value < NOTHING):
        return "almost no mass was removed"
    return "rank correlation unknown" if correlation is None else f"rank correlation {with_interval(correlation.plain)}"
