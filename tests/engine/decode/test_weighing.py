"""A row's weight, against shares that are known: simulated draws, no model."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.decode.weighing import LogWeight, RowWeighing


def weighed(draws: np.random.Generator, shares: tuple[float, ...], wanted: int) -> LogWeight:
    """Of a row whose blocks pass with these chances."""
    row = RowWeighing(wanted, np.inf)
    for share in shares:
        is_kept = False
        while not is_kept:
            passes = draws.random() < share
            is_kept = not row.wants_another(passes=passes) and passes
    assert row.result is not None
    return row.result


def test_a_block_is_drawn_until_enough_have_passed() -> None:
    row = RowWeighing(2, np.inf)
    assert [row.wants_another(passes=passes) for passes in (False, True, False, True)] == [False, True, True, False]
    assert row.thrown == 2  # of what fails before the first that passes, the guard keeps count
    assert row.result == LogWeight(math.log(1 / 3), 1.0)
    assert [row.wants_another(passes=True) for _ in range(2)] == [True, False]
    assert row.result == LogWeight(math.log(1 / 3), 1.0)  # a share of 1 changes nothing


def test_a_row_that_is_not_weighed_has_no_weight() -> None:
    row = RowWeighing(0, np.inf)
    assert not row.wants_another(passes=True)
    assert row.result is None


@pytest.mark.parametrize("passes", [True, False])
def test_draws_to_weigh_are_limited(passes: bool) -> None:
    row = RowWeighing(3, 2)
    assert row.wants_another(passes=True) and row.wants_another(passes=passes)
    assert not row.wants_another(passes=False)
    assert row.result is None and not row.wants_another(passes=True)


@pytest.mark.parametrize("wanted", [2, 3, 8])
def test_the_weight_has_no_bias_and_its_spread_is_not_told_too_small(wanted: int) -> None:
    draws = np.random.default_rng(wanted)
    rows = [weighed(draws, (0.9, 0.6, 0.3), wanted) for _ in range(4_000)]
    logs = np.array([row.value for row in rows])
    weights = np.exp(logs)
    assert abs(weights.mean() - 0.162) < 4 * weights.std() / len(rows) ** 0.5
    told = np.mean([row.sd**2 for row in rows]) ** 0.5
    assert 1 <= told / logs.std() < 1.5
    assert abs(np.log(0.162) - logs.mean() - logs.var() / 2) < 0.1 * logs.var() + 0.02
