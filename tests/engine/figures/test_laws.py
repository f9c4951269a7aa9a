"""Figures of a law by cells, against those of the distribution that it was made of."""

from __future__ import annotations

import numpy as np
import pytest

from engine.figures.laws import NumberLaw


def law_of(low: list[float], high: list[float], p: list[float], rest: float = 0.0) -> NumberLaw:
    return NumberLaw(np.array(low), np.array(high), np.array(p), rest)


def test_figures_are_those_of_uniform_cells() -> None:
    law = law_of([-2.0, 1.0], [-1.0, 3.0], [0.198, 0.792], 0.01)
    draws = np.random.default_rng(0)
    is_first = draws.random(400_000) < 0.2
    values = np.where(is_first, draws.uniform(-2, -1, 400_000), draws.uniform(1, 3, 400_000))
    assert law.mean == pytest.approx(values.mean(), abs=0.01) and law.spread == pytest.approx(values.std(), abs=0.01)
    for share in (0.05, 0.19, 0.5, 0.95):
        assert law.quantile(share) == pytest.approx(np.quantile(values, share), abs=0.02)
        assert law.below(law.quantile(share)) == pytest.approx(share)
    assert law.below(-3) == 0 and law.below(0) == pytest.approx(0.2) and law.below(9) == pytest.approx(1)


def test_modes_are_dense_runs_the_greatest_first() -> None:
    law = law_of([0, 1, 2, 3, 5], [1, 2, 3, 4, 6], [0.3, 0.1, 0.01, 0.34, 0.25])
    assert [middle for middle, _ in law.modes] == [0.5, 3.5, 5.5]
    assert [share for _, share in law.modes] == pytest.approx([0.4, 0.34, 0.25])


def test_reach_is_one_at_the_ends_of_the_90_percent_interval() -> None:
    edges = np.linspace(0, 1, 101)
    law = NumberLaw(edges[:-1], edges[1:], np.full(100, 0.01))
    assert [law.reach(value) for value in (0.05, 0.5, 0.95)] == pytest.approx([1, 0, 1])
    assert law.reach(1.4) == pytest.approx(2)
