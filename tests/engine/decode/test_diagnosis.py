"""The numbers of a step against the plainest way to have them, and at their edges."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from engine.decode.diagnosis import END_RULE, FORCED_RULE, LOST_RULE, blocks_and_rules, diagnose
from engine.decode.plan import Sampling
from engine.decode.steps import Candidate, Diagnosis
from engine.lp.driver import LOST, State, Tables
from tests.engine.decode.hf_tiny import END, LETTERS_ONLY, OPEN

INF = math.inf


def one(raw: list[float], allowed: list[int], token: int, candidates: int = 10) -> Diagnosis:
    mask = torch.zeros((1, len(raw)), dtype=torch.bool)
    mask[0, allowed] = True
    (found,) = diagnose(torch.tensor([raw]), mask, torch.tensor([token]), candidates, [3], ["a rule"])
    assert (found.block, found.rule) == (3, "a rule")
    return found


@given(st.integers(0, 2**32), st.sampled_from([0.1, 3.0, 20.0]), st.sampled_from([torch.float32, torch.bfloat16]))
def test_each_number_by_its_definition(seed: int, scale: float, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(seed)
    raw = (torch.randn((3, 30), generator=generator) * scale).to(dtype)
    allowed = torch.rand((3, 30), generator=generator) < 0.3
    tokens = torch.randint(0, 30, (3,), generator=generator)
    allowed[torch.arange(3), tokens] = True
    found = diagnose(raw, allowed, tokens, 4, [0, 1, -1], ["a", "b", "c"])
    for row, (diagnosis, token) in enumerate(zip(found, tokens.tolist(), strict=True)):
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
    found = one([1.0, 2.0, -INF, 2.0], [1], 1)
    assert [(candidate.token_id, candidate.allowed) for candidate in found.top_k] == [(1, True), (3, False), (0, False)]
    assert one([1.0, 2.0], [0], 0, candidates=0).top_k == ()
    assert isinstance(one([1.0, 2.0], [0], 0, candidates=1).top_k[0], Candidate)


def test_a_lone_token_has_all_of_the_lps_mass_however_unlikely_it_was() -> None:
    for raw in (-200.0, -INF):
        found = one([0.0, raw, 1.0], [1], 1)
        assert (found.p_raw, found.p_lp, found.allowed_mass, found.rank_raw) == (0.0, 1.0, 0.0, 3)


def test_tokens_too_unlikely_for_a_sum_share_it_all_the_same() -> None:
    found = one([0.0, -300.0, -300.0], [1, 2], 1)
    assert found.p_raw == 0.0
    assert found.p_lp == pytest.approx(0.5, rel=1e-5)


def test_where_nothing_that_is_allowed_can_come() -> None:
    assert one([0.0, -INF, -INF], [1, 2], 1).p_lp == 0.0
    assert one([0.0, 1.0, 2.0], [], 1).p_lp == 0.0


def test_a_token_that_was_not_allowed_has_no_part() -> None:
    found = one([0.0, 1.0, 2.0], [0], 2)
    assert found.p_lp == 0.0
    assert found.p_raw > 0.6


def test_no_entropy_where_one_token_is_certain() -> None:
    found = one([0.0, -INF, -INF], [0, 1], 0)
    assert (found.entropy_nat, found.p_raw, found.p_lp, found.allowed_mass) == (0.0, 1.0, 1.0, 1.0)


def test_chances_are_numbers_that_json_has_or_none() -> None:
    allowed = torch.tensor([[False, True]])
    (found,) = diagnose(
        torch.tensor([[0.0, -INF]]), allowed, torch.tensor([1]), 2, [0], ["forced"], sampling=Sampling()
    )
    assert (found.ln_p, found.ln_p_tempered, found.ln_mass, found.ln_q) == (None, None, None, 0.0)
    assert one([1.0, 2.0], [0], 0).ln_q is None, "how it was drawn is not said"


class NoHost(TorchDispatchMode):
    """Refuses operators that read a tensor's values one by one."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert "local_scalar" not in str(func) and "nonzero" not in str(func), func
        return func(*args, **(kwargs or {}))


def test_one_copy_to_the_host_serves_the_batch() -> None:
    with NoHost():
        found = diagnose(torch.zeros(4, 9), torch.ones(4, 9, dtype=torch.bool), torch.arange(4), 3, [0] * 4, ["r"] * 4)
    assert len(found) == 4


def test_blocks_and_rules_along_an_answer() -> None:
    programs = [LETTERS_ONLY.program()] * 2
    tables = Tables.of(LETTERS_ONLY.automaton, programs)
    state, told = tables.start(), []
    for tokens in ((OPEN[0], OPEN[0]), (OPEN[1], OPEN[1]), (10, 1), (7, 7), (END, END), (END, END)):
        blocks, rules = blocks_and_rules(LETTERS_ONLY.automaton, programs, state)
        told.append([*zip(blocks, rules, strict=True)])
        state = tables.step(state, torch.tensor(tokens))
    assert [row[0] for row in told] == [
        (-1, FORCED_RULE),
        (-1, FORCED_RULE),
        (0, "any letter"),
        (0, "a letter, or the close"),
        (-1, END_RULE),
        (-1, END_RULE),
    ]
    assert [row[1] for row in told[3:]] == [(-1, LOST_RULE)] * 3


def test_a_row_that_has_ended_may_stand_in_the_padding_of_its_batch() -> None:
    state = State(torch.tensor([99, LOST]), torch.tensor([0, 0]))
    programs = [LETTERS_ONLY.program()] * 2
    assert blocks_and_rules(LETTERS_ONLY.automaton, programs, state) == ([-1, -1], [END_RULE, LOST_RULE])
