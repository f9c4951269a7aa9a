"""Differences and ratios of two means with what they may be off by: molecules drawn anew, seeded.

Answers of one molecule are not independent, molecules are: each draw takes whole molecules, with all their answers on
both sides where the runs share them, and from each side by itself where they do not. Intervals are 95 %, between
percentiles that lie the farther out the fewer molecules there are. They say how much hangs on which molecules were
asked, and nothing else: not what the machine did meanwhile, and not what another seed would write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RESAMPLES = 2_000
TAIL = 0.025  # on either side of an interval
LEAST_MOLECULES = 6
"""Of fewer that all differ one way, chance alone makes more than one case in twenty."""
MOST_AT_ONCE = 200_000
"""Molecules drawn in one go: what they take stays in the processor's cache, which makes it five times as fast."""
MOST_DRAWN = 20_000
"""Beyond so many molecules a drawn sum is normal for all that counts, and is drawn as such, in no time."""
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its interval; ``low`` and ``high`` are None where too few molecules tell it.

    A ratio's ``high`` is infinite where more than one draw in forty has nothing of the control's.
    """

    value: float
    low: float | None
    high: float | None
    nothing: float  # 0 for a difference, 1 for a ratio

    @property
    def within_noise(self) -> bool | None:
        """Whether the interval contains what no difference would give; None without one."""
        if self.low is None or self.high is None:
            return None
        return self.low <= self.nothing + ROUNDING and self.high >= self.nothing - ROUNDING


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """One side, summed a molecule: [molecules, measures]. A mean is of ``values`` over ``weights``."""

    values: Array
    weights: Array
    answers: Array  # whose value is known

    def only(self, place: int) -> Sums:
        """One measure."""
        return Sums(*(part[:, place : place + 1] for part in (self.values, self.weights, self.answers)))

    @property
    def mean(self) -> float | None:
        """Of the one measure; None where no answer has it."""
        whole = float(self.weights.sum())
        return float(self.values.sum()) / whole if whole else None


def sums_by_molecule(values: Array, weights: Array, molecule: NDArray[np.int64], molecules: int) -> Sums:
    """[answers, measures] each: values, NaN where not known, and what each counts for; ``molecule`` is the answer's."""
    is_known = np.isfinite(values)
    parts = (np.where(is_known, values * weights, 0.0), np.where(is_known, weights, 0.0), is_known.astype(np.float64))
    found = np.zeros((len(parts), molecules, values.shape[1]))
    for part, sums in zip(parts, found, strict=True):
        for column in range(values.shape[1]):
            sums[:, column] = np.bincount(molecule, part[:, column], molecules)
    return Sums(*found)


def paired_means(control: Sums, test: Sums, seed: int = 0) -> tuple[Array, Array]:
    """Means of both sides in each draw, [resamples, measures] each: the same molecules are drawn for both."""
    parts = np.concatenate([control.values, control.weights, test.values, test.weights], axis=1)
    return _means(*np.split(_drawn_sums(parts, np.random.default_rng(seed)), 4, axis=1))


def unpaired_means(control: Sums, test: Sums, seed: int = 0) -> tuple[Array, Array]:
    """The same where each side has molecules of its own."""
    rng = np.random.default_rng(seed)
    sides = []
    for side in (control, test):
        parts = np.concatenate([side.values, side.weights], axis=1)
        sides += np.split(_drawn_sums(parts, rng), 2, axis=1)
    return _means(*sides)


def difference(control: float, test: float, drawn: tuple[Array, Array] | None, molecules: int) -> Estimate:
    """Test less control. ``drawn`` are the means of one measure; None where there are too few molecules."""
    low, high = ends_of(None if drawn is None else drawn[1] - drawn[0], molecules)
    return Estimate(test - control, low, high, 0.0)


def ratio(control: float, test: float, drawn: tuple[Array, Array] | None, molecules: int) -> Estimate | None:
    """Test over control; None where the control has nothing of it."""
    if not control:
        return None
    low, high = ends_of(None if drawn is None else _over(drawn[1], drawn[0]), molecules)
    return Estimate(test / control, low, high, 1.0)


def ends_of(drawn: Array | None, molecules: int) -> tuple[float | None, float | None]:
    """Of the interval that draws of so many molecules give; None where no draw is known."""
    known = np.empty(0) if drawn is None else drawn[~np.isnan(drawn)]
    if not len(known):
        return None, None
    low, high = np.percentile(known, percentiles(molecules), method="nearest")  # some draws may be infinite
    return float(low), float(high)


def percentiles(molecules: int) -> tuple[float, float]:
    """2.5 and 97.5 of very many molecules, and farther out of few.

    Draws of n molecules spread by a factor of sqrt((n - 1) / n) too little, and as a normal variable where Student's t
    is right: of six, one interval in seven would miss. The normal percentiles are moved to where t would have them
    (Hesterberg, 2015, calls that expanded percentiles).
    """
    if molecules < 2:
        return 0.0, 100.0
    reach = math.sqrt(molecules / (molecules - 1)) * _student(molecules - 1)
    tail = 100 * NormalDist().cdf(-reach)
    return tail, 100 - tail


def _student(freedom: int) -> float:
    """Of Student's t, what ``TAIL`` lies beyond: Fisher's expansion about the normal one, right to 0.3 % from 4 on."""
    z = NormalDist().inv_cdf(1 - TAIL)
    terms: tuple[float, ...] = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))


def _drawn_sums(parts: Array, rng: np.random.Generator) -> Array:
    """[resamples, columns] sums over molecules drawn anew; of very many, what such sums are distributed like."""
    if len(parts) <= MOST_DRAWN:
        return np.concatenate([weights @ parts for weights in _draws(len(parts), rng)])
    spread, directions = np.linalg.eigh(len(parts) * np.cov(parts, rowvar=False, bias=True))
    steps = rng.standard_normal((RESAMPLES, parts.shape[1])) * np.sqrt(np.maximum(spread, 0.0))
    found: Array = np.maximum(parts.sum(axis=0) + steps @ directions.T, 0.0)  # no measure is negative
    return found


def _draws(molecules: int, rng: np.random.Generator) -> Iterator[Array]:
    """How often each molecule comes in each draw, [some draws, molecules], until there are enough."""
    most = max(1, MOST_AT_ONCE // max(1, molecules))
    for first in range(0, RESAMPLES, most):
        rows = min(most, RESAMPLES - first)
        drawn = rng.integers(0, molecules, (rows, molecules))
        drawn += np.arange(rows)[:, None] * molecules
        yield np.bincount(drawn.ravel(), minlength=rows * molecules).reshape(rows, molecules).astype(np.float64)


def _means(values: Array, weights: Array, others: Array, other_weights: Array) -> tuple[Array, Array]:
    return _over(values, weights), _over(others, other_weights)


def _over(parts: Array, wholes: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw may have none of what is rare
        found: Array = parts / wholes
    return found
