"""The rule that an advice follows. It is written here once, and the page and the terminal show these words.

1. An LP *fits* where at least nine in ten of its answers are usable (clean, or passed where that is wanted). It fits
   for sure where Wilson's interval lies above that, fails where it lies below, and is open between; an open one counts
   where its own rate reaches it.
2. Among those that fit, the least seconds a usable conformer wins.
3. Who costs the same within noise ties with the winner: the ratio's interval holds 1, or it is under ``SAME_TIME``,
   because no interval knows what the machine did meanwhile. Of those that tie, the surest usable rate is named first.
4. How sure: the share of draws of molecules in which the same rule picks it.
5. Where none fits, none is advised; the cheapest usable conformer is named all the same.
6. Of fewer than two LPs, or fewer than six molecules, nothing is advised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.comparing.bootstrap import LEAST_MOLECULES
from engine.evidence.advice.commands import LEAST_LPS
from engine.evidence.advice.figures import LpFigures, Measured, Want, interval
from engine.inspection.statistics import Interval

Array = NDArray[np.float64]
Fits = Literal["yes", "no", "open"]
Verdict = Literal["one", "tie", "none fits", "too little"]

LEAST_RATE = 0.9
SAME_TIME = 1.1


@dataclass(frozen=True, slots=True)
class Standing:
    """One LP under the rule."""

    lp: str
    fits: Fits
    counts: bool  # among those that the cost decides
    cost: Interval  # seconds a usable conformer
    over_least: Interval | None  # its cost over the least among those that count; None of that one itself
    wins: float | None  # share of draws


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    lp: str  # that is advised; empty where none is
    ties: tuple[str, ...]  # those that cost the same within noise
    cheapest: str  # of a usable conformer, whether it fits or not; empty where no answer is usable
    sureness: float | None  # share of draws in which it wins, or one that ties with it
    standings: tuple[Standing, ...]
    why_too_little: str


def rule_words(want: Want, least: float) -> str:
    """The rule in a few sentences, for whoever reads an advice."""
    verb = "are clean" if want == "clean" else "pass"
    return (
        f"An LP fits where at least {100 * least:g} % of its answers {verb}. Among those that fit, the least seconds a "
        f"{want} conformer wins. A ratio to the winner whose interval holds 1, or that is under {SAME_TIME}, is a tie, "
        "because no interval knows what else the machine did."
    )


def decide(measured: Measured, want: Want = "clean", least: float = LEAST_RATE) -> Decision:
    lps = measured.lps
    counting = [one for one in lps if _fits(one.rate(want), least) == "yes" or _is_open_above(one, want, least)]
    best = _least_cost(counting, want)
    wins = _wins(measured, want, least)
    standings = tuple(_standing(one, best, measured, want, least, wins) for one in lps)
    cheapest = _least_cost(lps, want)
    too_little = _too_little(measured)
    if too_little or best is None:
        verdict: Verdict = "too little" if too_little else "none fits"
        return Decision(verdict, "", (), "" if cheapest is None else cheapest.lp, None, standings, too_little)
    tied = [one.lp for one in standings if one.counts and one.over_least is not None and _is_tie(one.over_least)]
    first, *others = _surest([best.lp, *tied], measured, want)
    sureness = None if wins is None else min(1.0, sum(wins[lp] for lp in (first, *others)))
    return Decision(
        "tie" if others else "one", first, tuple(others), cheapest.lp if cheapest else "", sureness, standings, ""
    )


def _fits(rate: Interval, least: float) -> Fits:
    if rate.low is not None and rate.low >= least:
        return "yes"
    return "no" if rate.high is not None and rate.high < least else "open"


def _is_open_above(one: LpFigures, want: Want, least: float) -> bool:
    rate = one.rate(want)
    return _fits(rate, least) == "open" and rate.value >= least


def _least_cost(some: Sequence[LpFigures], want: Want) -> LpFigures | None:
    finite = [one for one in some if math.isfinite(one.cost(want).value)]
    return min(finite, key=lambda one: one.cost(want).value, default=None)


def _standing(
    one: LpFigures, best: LpFigures | None, measured: Measured, want: Want, least: float, wins: dict[str, float] | None
) -> Standing:
    fits = _fits(one.rate(want), least)
    counts = fits == "yes" or _is_open_above(one, want, least)
    over = None if best is None or best is one else _over(one, best, measured, want)
    return Standing(one.lp, fits, counts, one.cost(want), over, None if wins is None else wins[one.lp])


def _over(one: LpFigures, best: LpFigures, measured: Measured, want: Want) -> Interval:
    value = one.cost(want).value / best.cost(want).value
    if measured.costs is None:
        return Interval(value)
    mine, theirs = (measured.costs[want][:, measured.names.index(side.lp)] for side in (one, best))
    with np.errstate(invalid="ignore"):  # a draw in which neither has a usable answer tells nothing
        return interval(value, mine / theirs, measured.molecules)


def _is_tie(over: Interval) -> bool:
    return over.value < SAME_TIME or over.low is None or over.low <= 1


def _surest(lps: Sequence[str], measured: Measured, want: Want) -> list[str]:
    def key(lp: str) -> tuple[float, float]:
        one = measured.figures(lp)
        return -(one.rate(want).low or 0.0), one.cost(want).value

    return sorted(lps, key=key)


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
        return f"{'One LP was' if measured.lps else 'No LP was'} measured, so there is nothing to choose from."
    if measured.molecules < LEAST_MOLECULES:
        return (
            f"{measured.molecules} molecule{'s are' if measured.molecules != 1 else ' is'} shared by these runs; "
            f"of fewer than {LEAST_MOLECULES} nothing tells what is chance."
        )
    return ""
