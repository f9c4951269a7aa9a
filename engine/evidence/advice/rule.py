"""The rule that an advice follows. It is written here once, and the page and the terminal show these words.

1. An LP *fits* where at least nine in ten of its answers are as wanted (usable, else clean, or passed). It fits
   for sure where Wilson's interval lies above that, fails where it lies below, and is open between; an open one counts
   where its own rate reaches it.
2. Of those that fit, the one with the fewest seconds per wanted conformer wins.
3. An LP that costs the same within noise ties with the winner: the ratio's interval contains 1, or the ratio is under
   ``SAME_TIME``, because no interval covers other load on the machine. Of ties, the surest rate comes first.
4. How sure: the share of draws of molecules in which the same rule picks it.
5. Where none fits, the LP of the cheapest wanted conformer is named all the same, and the one with most wanted answers,
   which comes first where it costs the same within noise. Costs are told over those of the cheapest.
6. Of fewer than two LPs, or fewer than six molecules, nothing is advised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.evidence.advice.commands import LEAST_LPS
from engine.evidence.advice.figures import LpFigures, Measured, Want
from engine.figures.statistics import LEAST_MOLECULES, Interval, interval
from engine.figures.words import counted

Array = NDArray[np.float64]
Fits = Literal["yes", "no", "open"]
Verdict = Literal["one", "tie", "none fits", "too little"]

LEAST_RATE = 0.9
SAME_TIME = 1.1


@dataclass(frozen=True, slots=True)
class Standing:
    lp: str
    fits: Fits
    counts: bool  # among those that the cost decides
    cost: Interval  # seconds a wanted conformer
    over_least: Interval | None  # its cost over the least of those that count, or of all; None of that one and of never
    wins: float | None  # share of draws


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    lp: str  # that is advised; empty where none is
    ties: tuple[str, ...]  # those that cost the same within noise
    cheapest: str  # of a wanted conformer, whether it fits or not; empty where no answer is as wanted
    sureness: float | None  # share of draws in which it wins, or one that ties with it
    standings: tuple[Standing, ...]
    why_too_little: str


def rule_words(want: Want, least: float) -> str:
    verb = "pass" if want == "passed" else f"are {want}"
    return (
        f"An LP fits where at least {100 * least:g} % of its answers {verb}. Of those that fit, the one with "
        f"the fewest seconds per {want} conformer wins. A ratio to the winner is a tie if its interval contains 1 or "
        f"it is under {SAME_TIME}, because no interval covers other load on the machine. Where none fits, the one "
        f"with the fewest seconds per {want} conformer is named all the same, and the one with most {want} answers, "
        "which comes first where the two tie."
    )


def decide(measured: Measured, want: Want = "clean", least: float = LEAST_RATE) -> Decision:
    lps = measured.lps
    counting = [figures for figures in lps if _counts(figures, want, least)]
    best, least_of_all = _least_cost(counting, want), _least_cost(lps, want)
    wins = _wins(measured, want, least)
    standings = tuple(
        Standing(
            figures.lp,
            _fits(figures.rate(want), least),
            _counts(figures, want, least),
            figures.cost(want),
            _over(figures, best or least_of_all, measured, want),
            None if wins is None else wins[figures.lp],
        )
        for figures in lps
    )
    cheapest = "" if least_of_all is None else least_of_all.lp
    too_little = _too_little(measured)
    if too_little or best is None:
        verdict: Verdict = "too little" if too_little else "none fits"
        return Decision(verdict, "", (), cheapest, None, standings, too_little)
    tied = [standing.lp for standing in standings if standing.counts and costs_the_same(standing.over_least)]
    figures = [measured.figures(lp) for lp in (best.lp, *tied)]
    first, *others = (
        lp.lp for lp in sorted(figures, key=lambda lp: (-(lp.rate(want).low or 0.0), lp.cost(want).value))
    )
    sureness = None if wins is None else min(1.0, sum(wins[lp] for lp in (first, *others)))
    return Decision("tie" if others else "one", first, tuple(others), cheapest, sureness, standings, "")


def named(decision: Decision, measured: Measured, want: Want) -> tuple[str, ...]:
    """The LPs that the advice names, the first of them advised: also where none fits."""
    if decision.lp:
        return (decision.lp, *decision.ties)
    if decision.verdict != "none fits" or not decision.cheapest:
        return ()
    most = max(measured.lps, key=lambda lp: (lp.rate(want).value, lp.lp == decision.cheapest)).lp
    over = next(standing.over_least for standing in decision.standings if standing.lp == most)
    both = (most, decision.cheapest) if costs_the_same(over) else (decision.cheapest, most)
    return tuple(dict.fromkeys(both))


def costs_the_same(over: Interval | None) -> bool:
    """Within noise, by its cost over the least."""
    return over is not None and (over.value < SAME_TIME or over.low is None or over.low <= 1)


def _fits(rate: Interval, least: float) -> Fits:
    if rate.low is not None and rate.low >= least:
        return "yes"
    return "no" if rate.high is not None and rate.high < least else "open"


def _counts(figures: LpFigures, want: Want, least: float) -> bool:
    rate = figures.rate(want)
    fits = _fits(rate, least)
    return fits == "yes" or (fits == "open" and rate.value >= least)


def _least_cost(some: Sequence[LpFigures], want: Want) -> LpFigures | None:
    finite = [figures for figures in some if math.isfinite(figures.cost(want).value)]
    return min(finite, key=lambda figures: figures.cost(want).value, default=None)


def _over(figures: LpFigures, best: LpFigures | None, measured: Measured, want: Want) -> Interval | None:
    if best is None or figures is best or math.isinf(figures.cost(want).value):
        return None
    value = figures.cost(want).value / best.cost(want).value
    if measured.costs is None:
        return Interval(value)
    mine, theirs = (measured.costs[want][:, measured.names.index(side.lp)] for side in (figures, best))
    with np.errstate(invalid="ignore"):  # a draw in which neither has a wanted answer tells nothing
        return interval(value, mine / theirs, measured.molecules)


def _wins(measured: Measured, want: Want, least: float) -> dict[str, float] | None:
    """In each draw: the least cost among those whose rate reaches the least, else among all."""
    if measured.costs is None or measured.rates is None or not measured.lps:
        return None
    costs, fits = measured.costs[want], measured.rates[want] >= least
    costs = np.where(np.isfinite(costs) & (fits | ~fits.any(axis=1, keepdims=True)), costs, math.inf)
    winner = np.where(np.isfinite(costs).any(axis=1), costs.argmin(axis=1), -1)
    return {lp: float((winner == place).mean()) for place, lp in enumerate(measured.names)}


def _too_little(measured: Measured) -> str:
    if len(measured.lps) < LEAST_LPS:
        return f"{'One LP was' if measured.lps else 'No LP was'} measured, so there is nothing to choose between."
    if measured.molecules < LEAST_MOLECULES:
        return (
            f"These runs share {counted(measured.molecules, 'molecule')}; with fewer than {LEAST_MOLECULES} a "
            "difference cannot be told from chance."
        )
    return ""
