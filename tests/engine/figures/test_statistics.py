"""Intervals, ratios, rank correlations, and molecules drawn anew, against answers that are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.figures import statistics
from engine.figures.statistics import (
    LEAST_SAMPLES,
    Bootstrap,
    Interval,
    Sums,
    difference,
    paired_means,
    percentiles,
    quotient,
    rank_correlation,
    ratio,
    sums_by_molecule,
    unpaired_means,
    wilson,
)

KNOWN = [  # exact to the digits that are given, by Wilson's formula with z = 1.959964
    (0, 10, 0.0, 0.2775),
    (1, 10, 0.0179, 0.4042),
    (10, 10, 0.7225, 1.0),
    (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I
    (15, 148, 0.0624, 0.1605),
    (64, 64, 0.9434, 1.0),
]


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)


def test_sums_of_samples_drawn_anew() -> None:
    """A hundred equal tokens a sample say no more than one; a share without a miss still has an interval."""
    interval: Any = Bootstrap(2).ratio(array(1, 9), array(1, 99))
    assert interval.value == pytest.approx(0.1)  # sum over sum, and no mean of ratios
    hits = np.array([1.0, 0.0] * 10)
    assert Bootstrap(20).ratio(hits, np.ones(20)) == Bootstrap(20).ratio(100 * hits, np.full(20, 100.0))
    interval = Bootstrap(4).share(array(5, 5, 5, 5), array(5, 5, 5, 5))
    assert (interval.value, interval.low, interval.high) == (1.0, pytest.approx(wilson(20, 20)[0]), 1.0)
    assert Bootstrap(1).share(array(3), array(4)) == Interval(0.75)
    assert Bootstrap(0).ratio(array(), array()) is None is Bootstrap(2).ratio(array(0, 0), array(0, 0))
    parts, wholes = np.array([[1.0, 3.0], [1.0, 3.0]]), np.full((2, 2), 10.0)
    interval = Bootstrap(2).difference(parts, wholes)  # second less first
    assert (interval.value, interval.low, interval.high) == pytest.approx((0.2, 0.2, 0.2)) and interval.excludes_zero
    assert Bootstrap(2).difference(parts, wholes * [1, 0]) is None


@pytest.mark.parametrize(("value", "expected"), [(1.0, True), (2.0, True), (0.9, False), (2.1, False)])
def test_an_interval_contains_its_ends(value: float, expected: bool) -> None:
    assert Interval(1.5, 1.0, 2.0).contains(value) is expected and Interval(1.5).contains(value) is None
    assert [ci.excludes_zero for ci in (Interval(1, 0.5, 2), Interval(1, -1, 2), Interval(1))] == [True, False, False]


def test_a_correlation_needs_samples_and_two_quantities() -> None:
    few = np.arange(LEAST_SAMPLES - 1.0)
    assert rank_correlation(few, few) is None
    enough = np.arange(float(LEAST_SAMPLES))
    assert rank_correlation(enough, np.ones(LEAST_SAMPLES)) is None
    correlation = rank_correlation(enough, enough)
    assert correlation is not None and correlation.plain == Interval(1.0, 1.0, 1.0) and correlation.adjusted is None
    assert correlation.samples == LEAST_SAMPLES


def test_a_partial_correlation_by_hand() -> None:
    columns = np.arange(8.0), array(1, 0, 3, 2, 5, 4, 7, 6), array(0, 2, 1, 4, 3, 6, 5, 7)
    xy, xz, yz = (np.corrcoef(columns[i], columns[j])[0, 1] for i, j in ((0, 1), (0, 2), (1, 2)))  # ranks already
    correlation = rank_correlation(columns[0], columns[1], columns[2])
    assert correlation is not None and correlation.adjusted is not None
    assert correlation.adjusted.value == pytest.approx((xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2)))


# --- single figures ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("passes", "samples", "low", "high"), KNOWN)
def test_intervals_that_are_known(passes: int, samples: int, low: float, high: float) -> None:
    assert wilson(passes, samples) == pytest.approx((low, high), abs=6e-5)


def test_none_and_all_of_them_have_an_end_of_the_range() -> None:
    assert wilson(0, 3)[0] == 0.0 and wilson(3, 3)[1] == 1.0


@given(st.integers(1, 10**9).flatmap(lambda samples: st.tuples(st.integers(0, samples), st.just(samples))))
def test_an_interval_solves_its_equation(counts: tuple[int, int]) -> None:
    """Its ends are the rates from which what was seen is just z standard deviations away."""
    passes, samples = counts
    rate = passes / samples
    low, high = wilson(passes, samples)
    assert 0 <= low <= rate + 1e-12 and rate - 1e-12 <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            away = abs(rate - end) / math.sqrt(end * (1 - end) / samples)
            assert away == pytest.approx(1.959964, rel=1e-3) or end == pytest.approx(rate, abs=1e-9)
    assert wilson(samples - passes, samples) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [(1, 4, 0.25), (None, 4, None), (1, None, None), (1, 0, None), (0, 4, 0.0), (1e308, 1e-308, None)],
)
def test_a_quotient_of_what_is_not_known_is_none(
    part: float | None, whole: float | None, expected: float | None
) -> None:
    assert quotient(part, whole) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((106, 100, 86, 101, 99, 103, 97, 113, 112, 110), (7, 27, 2, 50, 28, 29, 20, 12, 6, 17), -29 / 165),  # textbook
        ((1, 2, 2, 4, 5, 6, 7, 8), (1, 3, 2, 4, 5, 6, 7, 8), 41.5 / math.sqrt(41.5 * 42)),  # a tie
    ],
)
def test_rank_correlation_against_known_answers(
    left: tuple[float, ...], right: tuple[float, ...], expected: float
) -> None:
    correlation = rank_correlation(array(*left), array(*right))
    assert correlation is not None and correlation.plain.value == pytest.approx(expected)


def sums(values: list[float], counts: list[float] | None = None) -> Sums:
    counted = np.array([1.0] * len(values) if counts is None else counts)[:, None]
    return Sums(np.array(values, dtype=float)[:, None], counted, counted)


def first_column(drawn: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return drawn[0][:, 0], drawn[1][:, 0]


def test_sums_leave_out_what_is_not_known() -> None:
    values = np.array([[1.0, np.nan], [2.0, 5.0], [4.0, np.nan]])
    weights = np.array([[1.0, 7.0], [1.0, 3.0], [1.0, 7.0]])
    totals = sums_by_molecule(values, weights, np.array([0, 0, 1]), 2)
    assert totals.values.tolist() == [[3, 15], [4, 0]]
    assert totals.weights.tolist() == [[2, 3], [1, 0]]
    assert totals.answers.tolist() == [[2, 1], [1, 0]]
    assert (totals.only(0).mean, totals.only(1).mean) == (7 / 3, 5)
    assert sums([0.0], [0.0]).mean is None


@pytest.mark.parametrize(("molecules", "student"), [(6, 2.5706), (30, 2.0452), (64, 1.9983)])
def test_percentiles_lie_where_students_t_has_them(molecules: int, student: float) -> None:
    low, high = percentiles(molecules)
    reach = math.sqrt(molecules / (molecules - 1)) * student
    assert low == pytest.approx(50 * math.erfc(reach / math.sqrt(2)), rel=0.02)
    assert low + high == pytest.approx(100)


@pytest.mark.parametrize("molecules", [6, 10])
def test_few_molecules_that_do_not_differ_are_seldom_told_apart(molecules: int) -> None:
    """Between the 2.5th and the 97.5th percentile of six molecules, one comparison in seven would find a difference."""
    rng = np.random.default_rng(4)
    detected = 0
    for seed in range(200):
        control, test = rng.normal(10.0, 2.0, (2, molecules))
        drawn = first_column(paired_means(sums(control.tolist()), sums(test.tolist()), seed))
        detected += difference(control.mean(), test.mean(), drawn, molecules).contains(0) is False
    assert detected <= 0.08 * 200


def test_the_same_molecules_are_drawn_for_both_sides() -> None:
    values = [1.0, 5, 9, 20, 3, 8]
    drawn = first_column(paired_means(sums(values), sums(values)))
    assert drawn[0].std() > 0 and np.array_equal(drawn[0], drawn[1])
    assert difference(0.2, 0.2, drawn, 3).contains(0) is True  # no difference at all is noise
    apart = first_column(unpaired_means(sums(values), sums(values)))
    assert not np.allclose(apart[0], apart[1])


def test_draws_are_those_of_a_plain_loop() -> None:
    values, counts = [2.0, 0, 7, 1], [2.0, 1, 3, 1]
    drawn = first_column(paired_means(sums(values, counts), sums(values, counts), seed=3))[0]
    weights = np.concatenate(list(statistics._draws(4, np.random.default_rng(3))))
    for row, mean in zip(weights[:50], drawn[:50], strict=True):
        parts = [molecule for molecule, times in enumerate(row) for _ in range(int(times))]
        assert mean == pytest.approx(sum(values[part] for part in parts) / sum(counts[part] for part in parts))


def test_sums_of_very_many_molecules_are_drawn_as_what_they_are_like(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    control, test = rng.gamma(2.0, 3.0, 900), rng.gamma(2.0, 3.3, 900)
    sides = sums(control.tolist()), sums(test.tolist(), (1.0 + (test > 5)).tolist())
    drawn = first_column(paired_means(*sides))
    monkeypatch.setattr(statistics, "MOST_DRAWN", 10)
    normal = first_column(paired_means(*sides))
    for mine, theirs in zip(drawn, normal, strict=True):
        width = np.diff(np.percentile(mine, (2.5, 97.5)))[0]
        assert np.percentile(theirs, (2.5, 97.5)) == pytest.approx(np.percentile(mine, (2.5, 97.5)), abs=0.06 * width)


def test_a_control_that_is_rare_leaves_the_ratio_open_above() -> None:
    """In a third of the draws the only molecule that has any does not come."""
    drawn = first_column(paired_means(sums([1.0, 0, 0, 0, 0, 0]), sums([1.0, 1, 1, 1, 1, 1])))
    interval = ratio(1 / 6, 1.0, drawn, 6)
    assert interval is not None and interval.high == math.inf and interval.low is not None and interval.low > 1
    assert interval.contains(1) is False
