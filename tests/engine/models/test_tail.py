"""The tail of the vocabulary: its rows are the same everywhere, and the loss holds their mass."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
import torch

from engine.models.tail import tail_logit, tail_rows

WIDTH = 64
SIGMA = 0.02


def test_rows_are_what_they_were_when_the_first_model_was_shipped() -> None:
    rows = tail_rows(np.zeros(8, dtype=np.float32), SIGMA, "demo-qwen 0", 100)
    assert hashlib.sha256(rows.tobytes()).hexdigest() == (
        "6d0fa00ff67c889d85a83eadcb28bafe835c7e367408946e50654ebbd033ef6c"
    )


def test_each_row_has_noise_of_its_own_about_the_common_row() -> None:
    row = np.linspace(-1, 1, WIDTH, dtype=np.float32)
    rows = tail_rows(row, SIGMA, "a", 20_000)
    noise = rows - row
    assert abs(noise.mean()) < 1e-4
    assert noise.std() == pytest.approx(SIGMA, rel=0.01)
    assert abs(np.corrcoef(noise[:-1, 0], noise[1:, 0])[0, 1]) < 0.03
    assert len(np.unique(rows.round(6), axis=0)) == len(rows)


def test_another_seed_gives_other_rows_and_a_longer_tail_begins_alike() -> None:
    row = np.zeros(WIDTH, dtype=np.float32)
    first = tail_rows(row, SIGMA, "a", 40_000)  # over more than one part
    assert not np.array_equal(first, tail_rows(row, SIGMA, "b", 40_000))
    np.testing.assert_array_equal(first[:100], tail_rows(row, SIGMA, "a", 100))


@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_the_logit_is_the_mass_of_the_rows(scale: float) -> None:
    """What training sees as one logit is what the softmax over all expanded rows sees."""
    random = np.random.default_rng(1)
    row = random.normal(0, 0.1, WIDTH).astype(np.float32)
    rows = torch.from_numpy(tail_rows(row, SIGMA, "mass", 130_000))
    hidden = torch.from_numpy(random.normal(0, scale, (5, WIDTH)).astype(np.float32))
    exact = torch.logsumexp((hidden @ rows.T).double(), dim=-1)
    expected = tail_logit(hidden, torch.from_numpy(row), SIGMA, len(rows))
    torch.testing.assert_close(expected.double(), exact, atol=0.01, rtol=0)


def test_a_tail_of_one_silent_row_weighs_one() -> None:
    assert tail_logit(torch.zeros(3, WIDTH), torch.ones(WIDTH), SIGMA, 1).tolist() == [0.0] * 3
    assert tail_logit(torch.zeros(WIDTH), torch.ones(WIDTH), SIGMA, 1000).item() == pytest.approx(math.log(1000))
