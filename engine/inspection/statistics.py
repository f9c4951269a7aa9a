"""Figures with what they may be off by: shares and means over samples, rank correlations between samples.

Tokens of one sample are not independent, samples are: so intervals come from drawing samples anew, with all their
tokens (a cluster bootstrap), seeded. All are 95 % intervals between percentiles, and say nothing of a bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.store.comparison import wilson

Array = NDArray[np.float64]

RESAMPLES = 1_000
PERCENTILES = (2.5, 97.5)
LEAST_SAMPLES = 8
"""For a correlation: of fewer almost any value comes by chance."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure. ``low`` and ``high`` are None where there is one sample only, and so nothing to tell them from."""

    value: float
    low: float | None = None
    high: float | None = None

    def mapped(self, change: Callable[[float], float]) -> Interval:
        """The same on another scale, which may run the other way."""
        ends = [change(end) for end in (self.low, self.high) if end is not None]
        return Interval(change(self.value), *sorted(ends))

    @property
    def excludes_zero(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True, slots=True)
class Correlation:
    """Spearman's rank correlation, and the same with a third quantity held constant, where that is known."""

    plain: Interval
    adjusted: Interval | None
    samples: int


class Resamples:
    """The same samples drawn anew many times: how often each came, for all figures alike."""

    def __init__(self, samples: int, seed: int = 0) -> None:
        self.samples = samples
        drawn = np.zeros((RESAMPLES, 0))
        if samples:
            chances = np.full(samples, 1 / samples)
            drawn = np.random.default_rng(seed).multinomial(samples, chances, size=RESAMPLES).astype(np.float64)
        self.weights: Array = drawn  # [resamples, samples]

    def ratio(self, parts: Array, wholes: Array) -> Interval | None:
        """Sum over sum; None where the whole is nothing."""
        if not wholes.sum():
            return None
        return self._interval(parts.sum() / wholes.sum(), _over(self.weights @ parts, self.weights @ wholes))

    def share(self, hits: Array, tokens: Array) -> Interval | None:
        """Of tokens. At least as wide as if they were independent: where all hit, drawing anew tells nothing."""
        found = self.ratio(hits, tokens)
        if found is None or found.low is None or found.high is None:
            return found
        low, high = wilson(int(hits.sum()), int(tokens.sum()))
        return Interval(found.value, min(low, found.low), max(high, found.high))

    def difference(self, parts: Array, wholes: Array) -> Interval | None:
        """Of two ratios, the second less the first: [samples, 2]."""
        if not wholes.sum(axis=0).all():
            return None
        first, second = parts.sum(axis=0) / wholes.sum(axis=0)
        drawn = _over(self.weights @ parts, self.weights @ wholes)
        return self._interval(second - first, drawn[:, 1] - drawn[:, 0])

    def _interval(self, value: float, drawn: Array) -> Interval:
        known = drawn[np.isfinite(drawn)]
        if self.samples < 2 or not len(known):
            return Interval(float(value))
        low, high = np.percentile(known, PERCENTILES)
        return Interval(float(value), float(low), float(high))


def rank_correlation(one: Array, other: Array, held: Array | None = None, seed: int = 0) -> Correlation | None:
    """Between two quantities of the same samples; ``held`` is a third, whose part in it is taken out of ``adjusted``.

    None of too few samples, or where one of the two is the same for all.
    """
    columns = np.array([one, other] if held is None else [one, other, held], dtype=float)
    if columns.shape[1] < LEAST_SAMPLES or np.isnan(_plain(columns)):
        return None
    rng = np.random.default_rng(seed)
    drawn = [columns[:, rng.integers(0, columns.shape[1], columns.shape[1])] for _ in range(RESAMPLES)]
    adjusted = None if held is None or np.isnan(_partial(columns)) else _drawn(_partial, columns, drawn)
    return Correlation(_drawn(_plain, columns, drawn), adjusted, columns.shape[1])


def ranks(values: Array) -> Array:
    """From 1; those that are equal share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    found: Array = (last - (counts - 1) / 2)[place]
    return found


def spearman(one: Array, other: Array) -> float:
    """NaN where one of the two is the same throughout."""
    left, right = ranks(one), ranks(other)
    left, right = left - left.mean(), right - right.mean()
    size = np.sqrt((left @ left) * (right @ right))
    return float(left @ right / size) if size > 0 else float("nan")


def _plain(columns: Array) -> float:
    return spearman(columns[0], columns[1])


def _partial(columns: Array) -> float:
    """First-order partial correlation of ranks; NaN where the third explains one of the two wholly."""
    one, first, second = (spearman(columns[i], columns[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    left = (1 - first**2) * (1 - second**2)
    return float((one - first * second) / np.sqrt(left)) if left > 1e-12 else float("nan")


def _drawn(figure: Callable[[Array], float], columns: Array, drawn: list[Array]) -> Interval:
    found = np.array([figure(one) for one in drawn])
    low, high = np.percentile(found[np.isfinite(found)], PERCENTILES)
    return Interval(figure(columns), float(low), float(high))


def _over(parts: Array, wholes: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw may have none of what is rare
        found: Array = parts / wholes
    return found
