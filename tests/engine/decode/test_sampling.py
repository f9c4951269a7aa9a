"""Sampling against ``transformers``' own warpers, on full vocabularies and on legal rows alone."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.decode.plan import PRESETS, Sampling, preset
from engine.decode.sampling import CHUNK, draw, sample, uniform
from engine.errors import ConstraintError
from tests.engine.decode.reference import probabilities

samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.3, 0.7, 1.0, 1.4]),
    top_k=st.sampled_from([0, 1, 2, 5, 20, 1000]),
    top_p=st.sampled_from([1.0, 0.95, 0.8, 0.4, 0.01]),
    min_p=st.sampled_from([0.0, 0.05, 0.1, 1.0]),
)


@given(samplings, st.integers(0, 2**32), st.sampled_from([30, 2000, 5 * CHUNK + 1]))
def test_the_short_way_draws_what_the_long_way_draws(sampling: Sampling, seed: int, width: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn((5, width), generator=generator) * 3
    logits[1, torch.rand(width, generator=generator) < 0.9] = -torch.inf
    logits[:, 3] = 1.0
    numbers = torch.rand(5, generator=generator, dtype=torch.float64)
    assert sample(logits, sampling, numbers).tolist() == draw(probabilities(logits, sampling), numbers).tolist()


def test_a_flat_nucleus_is_wider_than_the_first_look() -> None:
    """Nine tenths of 5,000 even columns: more than are sorted at first."""
    numbers = torch.linspace(0, 1, 101, dtype=torch.float64)[:-1]
    logits = torch.zeros((100, 5_000)) - torch.linspace(0, 1e-3, 5_000)
    drawn = sample(logits, Sampling(1.0, top_p=0.9), numbers)
    assert 4_400 < int(drawn.max()) < 4_500
    assert drawn.tolist() == draw(probabilities(logits, Sampling(1.0, top_p=0.9)), numbers).tolist()


@pytest.mark.parametrize("width", [4 * CHUNK + 1, 5 * CHUNK])
def test_a_wide_row_is_drawn_from_as_by_one_running_sum(width: int) -> None:
    """Most rows of few likely ids, as a model's are, some with none in the first and the last chunks."""
    random = torch.Generator().manual_seed(width)
    chances = (torch.randn((400, width), generator=random) * 4).softmax(dim=-1)
    chances[:150] = torch.where(torch.rand((150, width), generator=random) < 0.999, 0.0, chances[:150])
    chances[:, CHUNK + 7] += 1e-3
    chances[100:200, :CHUNK] = chances[100:200, 2 * CHUNK :] = 0.0
    edges = torch.tensor([0.0, 1 - 2**-53, 0.5], dtype=torch.float64)
    numbers = torch.cat((torch.rand(100, generator=random, dtype=torch.float64), edges.repeat(100)))
    sums = chances.double().cumsum(dim=-1)
    drawn = sample(chances.log(), Sampling(1.0), numbers)[:, None]
    target = (numbers * sums[:, -1])[:, None]
    rounding = 1e-6 * sums[:, -1:]  # exponentials and the sums of chunks are in single precision
    assert (sums.gather(1, drawn) > target - rounding).all()
    assert ((sums - chances).gather(1, drawn) <= target + rounding).all()
    assert (drawn.squeeze(1) == draw(chances, numbers)).float().mean() > 0.98
    assert (chances.gather(1, drawn) > 0).all()


def test_numbers_are_even_and_of_no_order() -> None:
    count = 20_000
    samples, steps = torch.arange(count) // 200, torch.arange(count) % 200
    drawn = uniform(7, samples, steps)
    assert drawn.dtype == torch.float64
    assert float(drawn.min()) >= 0 and float(drawn.max()) < 1
    counts = torch.histc(drawn.float(), 50, 0, 1)
    chi_square = float(((counts - count / 50) ** 2 / (count / 50)).sum())
    assert 20 < chi_square < 95  # 49 degrees of freedom: outside by chance once in ten thousand
    for shift in (1, 200, 201):
        pairs = torch.stack([drawn[:-shift], drawn[shift:]])
        assert abs(float(torch.corrcoef(pairs)[0, 1])) < 5 / count**0.5
    assert len(drawn.unique()) == count


def test_a_number_belongs_to_its_seed_sample_and_step() -> None:
    samples, steps = torch.tensor([3, 4, 3, 3]), torch.tensor([5, 5, 6, 5])
    first = uniform(1, samples, steps)
    assert len(first.unique()) == 3
    assert first[0] == first[3] == uniform(1, samples[:1], steps[:1])[0]
    assert (first != uniform(2, samples, steps)).all()
    assert uniform(2**63 + 5, samples, steps).isfinite().all()


def test_all_presets_of_the_reports_are_there() -> None:
    assert preset("qwen3") == Sampling(0.7, 20, 0.8)
    assert preset("p0.8_t1.2") == Sampling(1.2, top_p=0.8)
    assert preset("minp0.1_t1.0") == Sampling(1.0, min_p=0.1)
    assert preset("greedy").is_greedy
    assert len(PRESETS) == 1 + 12 + 1 + 12 + 1


WRONG: list[dict[str, Any]] = [
    {"temperature": -1.0}, {"temperature": math.inf}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": math.nan}, {"min_p": 2},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_parameters_that_do_not_fit(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConstraintError, match="do not fit"):
        Sampling(**wrong)
