"""The numbers of a step, and the chance of its token, against the plainest way to have them, and at their edges."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.decode.diagnosis import diagnose, log_chances
from engine.decode.plan import Sampling
from engine.decode.steps import Diagnosis
from tests.engine.decode.reference import probabilities

INF = math.inf


def diagnosis_of(raw: list[float], allowed: list[int], token: int, candidates: int = 10) -> Diagnosis:
    mask = torch.zeros((1, len(raw)), dtype=torch.bool)
    mask[0, allowed] = True
    (diagnosis,) = diagnose(torch.tensor([raw]), mask, torch.tensor([token]), candidates, [3], ["a rule"])
    assert (diagnosis.block, diagnosis.rule) == (3, "a rule")
    return diagnosis


@given(st.integers(0, 2**32), st.sampled_from([0.1, 3.0, 20.0]), st.sampled_from([torch.float32, torch.bfloat16]))
def test_each_number_by_its_definition(seed: int, scale: float, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(seed)
    raw = (torch.randn((3, 30), generator=generator) * scale).to(dtype)
    allowed = torch.rand((3, 30), generator=generator) < 0.3
    tokens = torch.randint(0, 30, (3,), generator=generator)
    allowed[torch.arange(3), tokens] = True
    diagnoses = diagnose(raw, allowed, tokens, 4, [0, 1, -1], ["a", "b", "c"])
    for row, (diagnosis, token) in enumerate(zip(diagnoses, tokens.tolist(), strict=True)):
        p = [math.exp(value - float(raw[row].double().logsumexp(0))) for value in raw[row].double().tolist()]
        mass = sum(chance for chance, legal in zip(p, allowed[row].tolist(), strict=True) if legal)
        order = sorted(range(30), key=lambda id_: (-p[id_], id_))
        close: Any = lambda value: pytest.approx(value, rel=1e-4, abs=1e-9)  # noqa: E731
        assert diagnosis.p_raw == close(p[token])
        assert diagnosis.allowed_mass == close(mass)
        assert diagnosis.p_lp == close(p[token] / mass)
        assert diagnosis.rank_raw == 1 + sum(chance > p[token] for chance in p)
        assert diagnosis.entropy_nat == pytest.approx(
            -sum(chance * math.log(chance) for chance in p), rel=1e-4, abs=1e-6
        )
        assert [candidate.p_raw for candidate in diagnosis.top_k] == [close(p[id_]) for id_ in order[:4]]
        assert all(candidate.allowed == allowed[row, candidate.token_id] for candidate in diagnosis.top_k)
        assert (diagnosis.block, diagnosis.rule) == [(0, "a"), (1, "b"), (-1, "c")][row]


def test_candidates_are_those_that_can_come_likeliest_first() -> None:
    stats = diagnosis_of([1.0, 2.0, -INF, 2.0], [1], 1)
    assert [(candidate.token_id, candidate.allowed) for candidate in stats.top_k] == [(1, True), (3, False), (0, False)]
    assert diagnosis_of([1.0, 2.0], [0], 0, candidates=0).top_k == ()
    assert diagnosis_of([0.0, -INF, -INF], [0, 1], 0).entropy_nat == 0


@pytest.mark.parametrize(
    ("raw", "allowed", "token", "p_raw", "p_lp", "allowed_mass"),
    [
        ([0.0, -200.0, 1.0], [1], 1, 0.0, 1.0, 0.0),  # a lone token has all of the LP's mass, however unlikely it was
        ([0.0, -INF, 1.0], [1], 1, 0.0, 1.0, 0.0),
        ([0.0, -300.0, -300.0], [1, 2], 1, 0.0, 0.5, 0.0),  # too unlikely for a sum, they share it all the same
        ([0.0, -INF, -INF], [1, 2], 1, 0.0, 0.0, 0.0),  # nothing that is allowed can come
        ([0.0, 1.0, 2.0], [], 1, 0.2447, 0.0, 0.0),
        ([0.0, 1.0, 2.0], [0], 2, 0.6652, 0.0, 0.0900),  # it was not allowed
        ([0.0, -INF, -INF], [0, 1], 0, 1.0, 1.0, 1.0),
    ],
)
def test_at_the_edges(
    raw: list[float], allowed: list[int], token: int, p_raw: float, p_lp: float, allowed_mass: float
) -> None:
    stats = diagnosis_of(raw, allowed, token)
    assert (stats.p_raw, stats.p_lp, stats.allowed_mass) == pytest.approx((p_raw, p_lp, allowed_mass), abs=1e-4)


def test_chances_are_numbers_that_json_has_or_none() -> None:
    raw, allowed = torch.tensor([[0.0, -INF]]), torch.tensor([[False, True]])
    (diagnosis,) = diagnose(raw, allowed, torch.tensor([1]), 2, [0], ["forced"], sampling=Sampling())
    assert (diagnosis.ln_p, diagnosis.ln_p_tempered, diagnosis.ln_mass, diagnosis.ln_q) == (None, None, None, 0.0)
    assert diagnosis_of([1.0, 2.0], [0], 0).ln_q is None, "how it was drawn is not said"


# --- the chance of a token that was drawn ---------------------------------------------------------------------------
FILTERS = [
    Sampling(),
    Sampling(0.7),
    Sampling(top_p=0.8),
    Sampling(1.4, top_k=7),
    Sampling(0.7, top_k=20, top_p=0.8),
    Sampling(1.2, min_p=0.1),
    Sampling(0.8, top_p=0.9, min_p=0.05),
]


def chances(raw: Tensor, allowed: Tensor, token: int, sampling: Sampling) -> list[float]:
    rows = log_chances(raw.log_softmax(dim=-1), allowed, torch.full((len(raw),), token), sampling)
    return [float(value) for value in rows[0]]


@given(st.sampled_from(FILTERS), st.integers(0, 2**32), st.sampled_from([0.2, 3.0, 12.0]), st.booleans())
def test_each_chance_by_its_definition(sampling: Sampling, seed: int, scale: float, is_wide: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    width = 1_500 if is_wide else 30
    raw = torch.randn((1, width), generator=generator) * scale
    allowed = torch.rand((1, width), generator=generator) < 0.7
    q = probabilities(raw.masked_fill(~allowed, -torch.inf), sampling).double()[0]
    token = int(torch.multinomial(q, 1, generator=generator))
    scores = raw.double()
    tempered = (scores / sampling.temperature).log_softmax(dim=-1)[0]
    expected = [
        float(scores.log_softmax(dim=-1)[0, token]),
        float(tempered[token]),
        float(tempered[allowed[0]].logsumexp(dim=0)),
        math.log(float(q[token])),
    ]
    assert chances(raw, allowed, token, sampling) == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("sampling", [*FILTERS, Sampling(0.0)])
def test_what_is_forced_comes_for_certain_and_what_is_not_allowed_has_no_chance(sampling: Sampling) -> None:
    raw, allowed = torch.tensor([[0.0, -90.0, 1.0]]), torch.tensor([[False, True, False]])
    ln_p, _, ln_mass, ln_q = chances(raw, allowed, 1, sampling)
    assert ln_p == pytest.approx(-91.3133, abs=1e-3)
    assert ln_mass == pytest.approx(chances(raw, allowed, 1, sampling)[1], abs=1e-6)
    assert ln_q == 0
    assert math.isnan(chances(raw, allowed, 0, sampling)[3])


def test_a_token_at_the_edge_counts_as_kept_since_it_came() -> None:
    """Another pass of the model gives scores that differ in the last digit."""
    raw = torch.tensor([[0.5, 0.3, 0.2]]).log()
    allowed = torch.ones((1, 3), dtype=torch.bool)
    assert chances(raw, allowed, 2, Sampling(top_p=0.79))[3] == pytest.approx(math.log(0.2), abs=1e-5)
    assert chances(raw, allowed, 1, Sampling(top_p=0.79))[3] == pytest.approx(math.log(0.375), abs=1e-5)
    assert math.isfinite(chances(raw, allowed, 2, Sampling(top_k=2))[3])
