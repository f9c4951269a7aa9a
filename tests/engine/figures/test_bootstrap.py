"""Drawing molecules anew, against answers that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.figures import statistics
from engine.figures.statistics import (
    RESAMPLES,
    Sums,
    difference,
    paired_means,
    percentiles,
    ratio,
    sums_by_molecule,
    unpaired_means,
)


def sums(values: list[float], counts: list[float] | None = None) -> Sums:
    counted = np.array([1.0] * len(values) if counts is None else counts)[:, None]
    return Sums(np.array(values, dtype=float)[:, None], counted, counted)


def one(drawn: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return drawn[0][:, 0], drawn[1][:, 0]


def test_sums_leave_out_what_is_not_known() -> None:
    values = np.array([[1.0, np.nan], [2.0, 5.0], [4.0, np.nan]])
    weights = np.array([[1.0, 7.0], [1.0, 3.0], [1.0, 7.0]])
    found = sums_by_molecule(values, weights, np.array([0, 0, 1]), 2)
    assert found.values.tolist() == [[3, 15], [4, 0]]
    assert found.weights.tolist() == [[2, 3], [1, 0]]
    assert found.answers.tolist() == [[2, 1], [1, 0]]
    assert (found.only(0).mean, found.only(1).mean) == (7 / 3, 5)
    assert sums([0.0], [0.0]).mean is None


def test_a_shift_that_all_molecules_share_has_no_width() -> None:
    drawn = one(paired_means(sums([1, 5, 9, 20, 3, 8]), sums([3, 7, 11, 22, 5, 10])))
    found = difference(46 / 6, 58 / 6, drawn, 6)
    assert (found.low, found.high) == pytest.approx((2, 2))
    assert found.contains(0) is False


def test_a_means_interval_is_as_wide_as_its_standard_error_says() -> None:
    differences = np.random.default_rng(5).normal(0.3, 2.0, 500)
    drawn = one(paired_means(sums([0.0] * 500), sums(differences.tolist())))
    found = difference(0.0, differences.mean(), drawn, 500)
    half = 1.96 * differences.std() / math.sqrt(500)
    assert found.low == pytest.approx(differences.mean() - half, abs=0.1 * half)
    assert found.high == pytest.approx(differences.mean() + half, abs=0.1 * half)


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
    told = 0
    for seed in range(200):
        control, test = rng.normal(10.0, 2.0, (2, molecules))
        drawn = one(paired_means(sums(control.tolist()), sums(test.tolist()), seed))
        told += difference(control.mean(), test.mean(), drawn, molecules).contains(0) is False
    assert told <= 0.08 * 200


def test_answers_of_one_molecule_are_one_draw() -> None:
    """Ten alike answers of a molecule tell no more than one."""
    control, test = [1.0, 5, 9, 20, 3, 8], [2.0, 4, 12, 18, 6, 9]
    single = one(paired_means(sums(control), sums(test)))
    tenfold = [sums([10 * value for value in side], [10.0] * 6) for side in (control, test)]
    repeated = one(paired_means(tenfold[0], tenfold[1]))
    assert np.allclose(single[0], repeated[0]) and np.allclose(single[1], repeated[1])


def test_the_same_molecules_are_drawn_for_both_sides() -> None:
    values = [1.0, 5, 9, 20, 3, 8]
    drawn = one(paired_means(sums(values), sums(values)))
    assert drawn[0].std() > 0 and np.array_equal(drawn[0], drawn[1])
    apart = one(unpaired_means(sums(values), sums(values)))
    assert not np.allclose(apart[0], apart[1])


def test_draws_are_those_of_a_plain_loop() -> None:
    values, counts = [2.0, 0, 7, 1], [2.0, 1, 3, 1]
    drawn = one(paired_means(sums(values, counts), sums(values, counts), seed=3))[0]
    weights = np.concatenate(list(statistics._draws(4, np.random.default_rng(3))))
    for row, mean in zip(weights[:50], drawn[:50], strict=True):
        parts = [molecule for molecule, times in enumerate(row) for _ in range(int(times))]
        assert mean == pytest.approx(sum(values[part] for part in parts) / sum(counts[part] for part in parts))


def test_draws_come_in_pieces_where_there_are_many_molecules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MOST_AT_ONCE", 90)
    pieces = list(statistics._draws(20, np.random.default_rng(0)))
    assert {len(piece) for piece in pieces} == {4} and sum(map(len, pieces)) == RESAMPLES
    assert all((piece.sum(axis=1) == 20).all() for piece in pieces)


def test_sums_of_very_many_molecules_are_drawn_as_what_they_are_like(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    control, test = rng.gamma(2.0, 3.0, 900), rng.gamma(2.0, 3.3, 900)
    sides = sums(control.tolist()), sums(test.tolist(), (1.0 + (test > 5)).tolist())
    drawn = one(paired_means(*sides))
    monkeypatch.setattr(statistics, "MOST_DRAWN", 10)
    normal = one(paired_means(*sides))
    for mine, theirs in zip(drawn, normal, strict=True):
        width = np.diff(np.percentile(mine, (2.5, 97.5)))[0]
        assert np.percentile(theirs, (2.5, 97.5)) == pytest.approx(np.percentile(mine, (2.5, 97.5)), abs=0.06 * width)


def test_a_control_that_is_rare_leaves_the_ratio_open_above() -> None:
    """In a third of the draws the only molecule that has any does not come."""
    drawn = one(paired_means(sums([1.0, 0, 0, 0, 0, 0]), sums([1.0, 1, 1, 1, 1, 1])))
    found = ratio(1 / 6, 1.0, drawn, 6)
    assert found is not None and found.high == math.inf and found.low is not None and found.low > 1
    assert found.contains(1) is False


def test_no_difference_at_all_is_noise() -> None:
    drawn = one(paired_means(sums([0.1, 0.2, 0.3]), sums([0.1, 0.2, 0.3])))
    same, alike = difference(0.2, 0.2, drawn, 3), ratio(0.2, 0.2, drawn, 3)
    assert same.contains(0) is True and alike is not None and alike.contains(1) is True
