"""Figures with what they may be off by: binomial rates, means and ratios over molecules, and rank correlations.

Answers of one molecule are not independent, nor are tokens of one sample: each bootstrap draw takes whole units
(molecules, or samples), with all that belongs to them. Two runs that share their molecules are drawn together, others
apart. Intervals are 95 %, seeded, between percentiles that lie the farther out the fewer units there are. They say how
much depends on which units were drawn, and nothing else: not what the machine did meanwhile, and not what another seed
would write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

Z_95 = 1.959963984540054
RESAMPLES = 2_000
LEAST_MOLECULES = 6
"""Of fewer that all differ one way, chance alone makes more than one case in twenty."""
LEAST_SAMPLES = 8
"""For a correlation: of fewer almost any value comes by chance."""
MOST_AT_ONCE = 200_000
"""Units drawn in one go: what they take stays in the processor's cache, which makes it five times as fast."""
MOST_DRAWN = 20_000
"""Beyond so many units a drawn sum is normal for all that counts, and is drawn as such, in no time."""
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure and its 95 % interval; ``low`` and ``high`` are None where too few units tell it.

    A ratio's ``high`` is infinite where more than one draw in forty has nothing of the control's.
    """

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    def contains(self, value: float) -> bool | None:
        """Such as 0 of a difference, or 1 of a ratio; None without an interval."""
        if self.low is None or self.high is None:
            return None
        return self.low <= value + ROUNDING and self.high >= value - ROUNDING

    @property
    def excludes_zero(self) -> bool:
        return self.contains(0) is False

    def mapped(self, change: Callable[[float], float]) -> Interval:
        """The same on another scale, which may run the other way."""
        return Interval(change(self.value), *sorted(map(change, self.ends or ())))


def quotient(part: float | None, whole: float | None, scale: float = 1) -> float | None:
    """None where one of them is not known, or the whole is nothing."""
    if part is None or not whole:
        return None
    value = float(scale * part / whole)
    return value if math.isfinite(value) else None


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """The interval of a binomial rate; all of it where there is no trial."""
    if not trials:
        return 0.0, 1.0
    rate, square = hits / trials, Z_95 * Z_95 / trials
    middle = (rate + square / 2) / (1 + square)
    half = Z_95 * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials)) / (1 + square)
    return middle - half if hits else 0.0, middle + half if hits < trials else 1.0


# --- the bootstrap ----------------------------------------------------------------------------------------------------


class Bootstrap:
    """The same units drawn again for all figures that are asked of it."""

    def __init__(self, units: int) -> None:
        self.units = units
        draws = list(_draws(units, np.random.default_rng(0))) if units else []
        self.weights: Array = np.concatenate(draws) if draws else np.zeros((RESAMPLES, 0))  # [resamples, units]

    def ratio(self, parts: Array, wholes: Array) -> Interval | None:
        """Sum over sum; None where the whole is nothing."""
        if not wholes.sum():
            return None
        drawn = _divided(self.weights @ parts, self.weights @ wholes)  # [resamples]; of a difference [resamples, 2]
        return self._interval(parts.sum() / wholes.sum(), drawn)

    def share(self, hits: Array, tokens: Array) -> Interval | None:
        """Of tokens. At least as wide as if they were independent: where all hit, no draw differs."""
        ratio = self.ratio(hits, tokens)
        if ratio is None or ratio.low is None or ratio.high is None:
            return ratio
        low, high = wilson(int(hits.sum()), int(tokens.sum()))
        return Interval(ratio.value, min(low, ratio.low), max(high, ratio.high))

    def difference(self, parts: Array, wholes: Array) -> Interval | None:
        """Of two ratios, the second less the first: [units, 2]."""
        if not wholes.sum(axis=0).all():
            return None
        first, second = parts.sum(axis=0) / wholes.sum(axis=0)
        drawn = _divided(self.weights @ parts, self.weights @ wholes)  # [resamples]; of a difference [resamples, 2]
        return self._interval(second - first, drawn[:, 1] - drawn[:, 0])

    def _interval(self, value: float, drawn: Array) -> Interval:
        return interval(float(value), drawn if self.units > 1 else None, self.units)


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """One side, summed by molecule: [molecules, measures]. A mean is of ``values`` over ``weights``."""

    values: Array
    weights: Array
    answers: Array  # with a known value

    def only(self, column: int) -> Sums:
        """One measure."""
        return Sums(*(part[:, column : column + 1] for part in (self.values, self.weights, self.answers)))

    @property
    def mean(self) -> float | None:
        """Of the one measure; None where no answer has it."""
        return quotient(float(self.values.sum()), float(self.weights.sum()))


def sums_by_molecule(values: Array, weights: Array, molecule: NDArray[np.int64], molecules: int) -> Sums:
    """[answers, measures] each: values, NaN where not known, and what each counts for; ``molecule`` is the answer's."""
    is_known = np.isfinite(values)
    parts = (np.where(is_known, values * weights, 0.0), np.where(is_known, weights, 0.0), is_known.astype(np.float64))
    totals = np.zeros((len(parts), molecules, values.shape[1]))  # values, weights and answers
    for part, sums in zip(parts, totals, strict=True):
        for column in range(values.shape[1]):
            sums[:, column] = np.bincount(molecule, part[:, column], molecules)
    return Sums(*totals)


def paired_means(control: Sums, test: Sums, seed: int = 0) -> tuple[Array, Array]:
    """Means of both sides in each draw, [resamples, measures] each: the same molecules are drawn for both."""
    parts = np.concatenate([control.values, control.weights, test.values, test.weights], axis=1)
    values, weights, others, other_weights = np.split(_drawn_sums(parts, np.random.default_rng(seed)), 4, axis=1)
    return _divided(values, weights), _divided(others, other_weights)


def unpaired_means(control: Sums, test: Sums) -> tuple[Array, Array]:
    """The same where each side has molecules of its own."""
    rng = np.random.default_rng(0)
    parts = (np.concatenate([side.values, side.weights], axis=1) for side in (control, test))
    first, second = (_divided(*np.split(_drawn_sums(part, rng), 2, axis=1)) for part in parts)
    return first, second


def difference(control: float, test: float, drawn: tuple[Array, Array] | None, molecules: int) -> Interval:
    """Test less control. ``drawn`` are the means of one measure; None where there are too few molecules."""
    return interval(test - control, None if drawn is None else drawn[1] - drawn[0], molecules)


def ratio(control: float, test: float, drawn: tuple[Array, Array] | None, molecules: int) -> Interval | None:
    """Test over control; None where the control has nothing of it."""
    if not control:
        return None
    return interval(test / control, None if drawn is None else _divided(drawn[1], drawn[0]), molecules)


def interval(value: float, drawn: Array | None, units: int) -> Interval:
    """The value, and where its draws of so many units lie. A draw may be infinite; one that is NaN tells nothing."""
    usable = np.empty(0) if drawn is None else drawn[~np.isnan(drawn)]
    if not len(usable):
        return Interval(value)
    low, high = np.percentile(usable, percentiles(units), method="nearest")  # some draws may be infinite
    return Interval(value, float(low), float(high))


def percentiles(units: int) -> tuple[float, float]:
    """2.5 and 97.5 of very many units, and farther out of few.

    Draws of n units spread by a factor of sqrt((n - 1) / n) too little, and as a normal variable where Student's t is
    right: of six, one interval in seven would miss. The normal percentiles are moved to where t would have them
    (Hesterberg, 2015, calls that expanded percentiles).
    """
    if units < 2:
        return 0.0, 100.0
    reach = math.sqrt(units / (units - 1)) * _student(units - 1)
    tail = 100 * NormalDist().cdf(-reach)
    return tail, 100 - tail


def _student(freedom: int) -> float:
    """Where Student's t leaves 2.5 % beyond: Fisher's expansion about the normal one, right to 0.3 % from 4 on."""
    z = Z_95
    terms: tuple[float, ...] = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))


def _drawn_sums(parts: Array, rng: np.random.Generator) -> Array:
    """[resamples, columns] sums over drawn units; of very many, what such sums are distributed like."""
    if len(parts) <= MOST_DRAWN:
        return np.concatenate([weights @ parts for weights in _draws(len(parts), rng)])
    spread, directions = np.linalg.eigh(len(parts) * np.cov(parts, rowvar=False, bias=True))
    steps = rng.standard_normal((RESAMPLES, parts.shape[1])) * np.sqrt(np.maximum(spread, 0.0))  # along directions
    sums: Array = np.maximum(parts.sum(axis=0) + steps @ directions.T, 0.0)  # no measure is negative
    return sums


def _draws(units: int, rng: np.random.Generator) -> Iterator[Array]:
    """How often each unit comes in each draw, [some draws, units], until there are enough."""
    for drawn in _drawn_units(units, rng):
        rows = len(drawn)
        codes = drawn + np.arange(rows)[:, None] * units  # a number for each draw and unit
        yield np.bincount(codes.ravel(), minlength=rows * units).reshape(rows, units).astype(np.float64)


def _drawn_units(units: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Which units come in each draw, [some draws, units], until there are enough."""
    most = max(1, MOST_AT_ONCE // max(1, units))
    for first in range(0, RESAMPLES, most):
        yield rng.integers(0, units, (min(most, RESAMPLES - first), units))


def _divided(parts: Array, wholes: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw may have none of what is rare
        ratios: Array = parts / wholes
    return ratios


# --- rank correlation -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Correlation:
    """Spearman's rank correlation, and the same with a third quantity held constant, where that is known."""

    plain: Interval
    adjusted: Interval | None
    samples: int


def rank_correlation(x: Array, y: Array, held: Array | None = None) -> Correlation | None:
    """Between two quantities of the same samples; ``held`` is a third, whose part in it is taken out of ``adjusted``.

    None of too few samples, or where one of the two is the same for all.
    """
    codes = [np.unique(column, return_inverse=True)[1] for column in (x, y, held) if column is not None]
    samples = len(x)
    values = _correlations([_ranks(column) for column in codes]) if samples >= LEAST_SAMPLES else (math.nan, math.nan)
    if math.isnan(values[0]):
        return None
    rows = (row for drawn in _drawn_units(samples, np.random.default_rng(0)) for row in drawn)
    draws = np.array([_correlations([_ranks(column[row]) for column in codes]) for row in rows])
    plain, adjusted = (interval(value, draws[:, column], samples) for column, value in enumerate(values))
    return Correlation(plain, None if math.isnan(values[1]) else adjusted, samples)


def correlation_within(x: Array, y: Array, groups: Sequence[str]) -> tuple[Interval | None, int, int]:
    """Of ranks within groups, such as a molecule's samples, over groups with two known pairs or more; and how many
    pairs and groups these are. Intervals are over groups."""
    is_known = np.isfinite(x) & np.isfinite(y)
    sums, samples = [], 0
    for group in dict.fromkeys(groups):
        in_group = is_known & np.array([name == group for name in groups])
        if (count := int(in_group.sum())) < 2:
            continue
        samples += count
        codes = (np.unique(values[in_group], return_inverse=True)[1] for values in (x, y))
        left, right = (_ranks(code) / count - (count + 1) / (2 * count) for code in codes)
        sums.append((left @ right, left @ left, right @ right))
    figures = np.array(sums).reshape(-1, 3)
    if samples < LEAST_SAMPLES or not figures[:, 1:].sum(axis=0).all():
        return None, samples, len(figures)

    def correlation(sums: Array) -> Array:
        return _divided(sums[:, 0], np.sqrt(sums[:, 1] * sums[:, 2]))  # a draw may have nothing that differs

    draws = Bootstrap(len(figures))
    drawn = correlation(draws.weights @ figures) if draws.units > 1 else None
    value = float(correlation(figures.sum(axis=0, keepdims=True))[0])
    return interval(value, drawn, draws.units), samples, len(figures)


def _ranks(codes: NDArray[np.int64]) -> Array:
    """Of values that are numbered in their order."""
    counts = np.bincount(codes)
    ranks: Array = (np.cumsum(counts) - (counts - 1) / 2)[codes]
    return ranks


def _correlations(columns: list[Array]) -> tuple[float, float]:
    """Of the first two columns of ranks, and the same with the third held constant; NaN where there is none."""
    plain = _pearson(columns[0], columns[1])
    if len(columns) < 3:
        return plain, math.nan
    first, second = (_pearson(column, columns[2]) for column in columns[:2])
    left = (1 - first**2) * (1 - second**2)
    return plain, (plain - first * second) / math.sqrt(left) if left > 1e-12 else math.nan


def _pearson(x: Array, y: Array) -> float:
    left, right = x - x.mean(), y - y.mean()
    size = math.sqrt(float(left @ left) * float(right @ right))
    return float(left @ right) / size if size > 0 else math.nan
