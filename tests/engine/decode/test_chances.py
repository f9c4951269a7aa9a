"""The chance of a token that was drawn, against the probabilities that are drawn from; and what the LP left, along
whole answers: every LP, both backends, and the pass that scores them later."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.decode.body import Body
from engine.decode.diagnosis import log_chances
from engine.decode.fast import FastBackend
from engine.decode.hf import HfBackend
from engine.decode.plan import DecodeOptions, Sampling, preset
from engine.decode.scoring import Stored, score
from engine.decode.steps import Counters, Diagnosis, Step
from engine.lp_records import LPS
from tests.engine.decode.hf_tiny import CLOSE, END, LETTERS, LETTERS_ONLY, OPEN, TOKENS, tiny_model
from tests.engine.decode.reference import SMILES, admitted, asked, made, probabilities, small_model

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
def test_each_by_its_definition(sampling: Sampling, seed: int, scale: float, is_wide: bool) -> None:
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


def test_of_a_nucleus_that_is_wider_than_what_is_sorted_first() -> None:
    raw, allowed = torch.zeros((1, 2_000)), torch.ones((1, 2_000), dtype=torch.bool)
    raw[0, 7] = 1e-3
    assert chances(raw, allowed, 7, Sampling(top_p=0.5))[3] == pytest.approx(-math.log(1_000), abs=3e-3)


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


def test_greedy_takes_its_token_for_certain() -> None:
    raw, allowed = torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.tensor([[False, True, True]])
    found = chances(raw, allowed, 1, Sampling(0.0))
    assert found == pytest.approx([math.log(0.3), math.log(0.3), math.log(0.5), 0.0], abs=1e-6)


# --- a toy model, enumerated --------------------------------------------------------------------------------------


def language(most_letters: int) -> list[list[int]]:
    """All answers of the toy's LP with so many letters or fewer."""
    later = list(LETTERS)[1::2]  # half of the letters are legal at the first place only
    tails = [tail for count in range(most_letters) for tail in itertools.product(later, repeat=count)]
    return [[*OPEN, first, *tail, CLOSE, END] for first in LETTERS for tail in tails]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.6), Sampling(1.7)])
def test_the_mean_weight_is_the_models_mass_on_the_language_by_enumeration(sampling: Sampling) -> None:
    """Of every answer in C: its probability under q, by hand, times the weight that the scoring pass gives it."""
    model, prompt = tiny_model(3), (31, 32)
    answers = language(2)
    body, program = Body(model, 512), LETTERS_ONLY.program()
    stored = [Stored(prompt, tuple(ids), program) for ids in answers]
    scored = list(score(body, LETTERS_ONLY, stored, TOKENS, candidates=0, sampling=sampling, batch_size=64))
    assert all(admitted(LETTERS_ONLY, stored, END))
    sums = torch.zeros(4, dtype=torch.float64)
    for ids, one in zip(answers, scored, strict=True):
        p, tempered, q = by_hand(model, prompt, ids, sampling)
        log_w, log_w_tempered = log_weights(one.diagnoses)
        sums += torch.tensor([q * math.exp(log_w), p, q * math.exp(log_w_tempered), tempered], dtype=torch.float64)
    by_weight, by_sum, by_weight_tempered, by_sum_tempered = sums.tolist()
    assert 0 < by_sum < 1
    assert by_weight == pytest.approx(by_sum, rel=1e-6, abs=1e-12)
    assert by_weight_tempered == pytest.approx(by_sum_tempered, rel=1e-6, abs=1e-12)


def log_weights(diagnoses: Sequence[Diagnosis]) -> tuple[float, float]:
    """Raw, and at the sampling's temperature."""
    return tuple(  # type: ignore[return-value]
        math.fsum(getattr(one, name) - (one.ln_q or 0.0) for one in diagnoses) for name in ("ln_p", "ln_p_tempered")
    )


@torch.inference_mode()
def by_hand(model: torch.nn.Module, prompt: tuple[int, ...], ids: list[int], sampling: Sampling) -> list[float]:
    """p raw and tempered of the whole answer, and q under the toy's LP, from plain passes in double precision."""
    logits = model(torch.tensor([[*prompt, *ids]]), use_cache=False).logits[0, len(prompt) - 1 : -1, :TOKENS].double()
    found = [0.0, 0.0, 0.0]
    letters = list(LETTERS)
    for place, (scores, token) in enumerate(zip(logits, ids, strict=True)):
        if token in letters:
            legal = letters if place == len(OPEN) else [*letters[1::2], CLOSE]
        else:
            legal = [*letters[1::2], CLOSE] if token == CLOSE else [token]
        tempered = scores / sampling.temperature
        found[0] += float(scores.log_softmax(dim=0)[token])
        found[1] += float(tempered.log_softmax(dim=0)[token])
        found[2] += float(tempered[token] - tempered[legal].logsumexp(dim=0))
    return [math.exp(value) for value in found]


# --- whole answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lp", list(LPS))
def test_both_backends_and_the_scoring_pass_say_the_same_under_every_lp(lp: str) -> None:
    short = {"placeholder": "0.0,0.0,0.00"} if "position" in lp else {}
    tokenizer, constraint = made(lp, **short)
    model, sampling = small_model(), preset("p0.8_t1.2") if lp == "exact" else Sampling(1.2)
    requests = asked(constraint, tokenizer, SMILES[1:2], limit=10)
    end, size = tokenizer.end_id or 0, tokenizer.vocab_size
    options = DecodeOptions(sampling, seed=5, batch_size=2, diagnostics=True, candidates=0)
    rows: list[list[list[Step]]] = []
    for backend in (FastBackend(model, constraint, end, size), HfBackend(model, constraint, end, size)):
        events = list(backend.run(requests, options, Counters()))
        steps = [event for event in events if isinstance(event, Step)]
        rows.append([[step for step in steps if step.sample == request.sample] for request in requests])
    stored = [
        Stored(request.prompt, tuple(step.token_id for step in own), request.program)
        for request, own in zip(requests, rows[0], strict=True)
    ]
    scored = score(Body(model, 512), constraint, stored, size, candidates=0, sampling=sampling)
    for fast, hf, again in zip(*rows, scored, strict=True):
        assert [step.token_id for step in fast] == [step.token_id for step in hf]
        for step, other, third in zip(fast, hf, again.diagnoses, strict=True):
            one = step.diagnosis
            assert one is not None and other.diagnosis is not None and one.ln_q is not None
            for found in (other.diagnosis, third):
                for name in ("ln_p", "ln_p_tempered", "ln_mass", "ln_q"):
                    assert getattr(found, name) == pytest.approx(getattr(one, name), abs=2e-4), name
            assert (one.ln_q == 0) >= step.forced
            if not sampling.has_filters:
                assert (one.ln_p_tempered or 0) - one.ln_q == pytest.approx(one.ln_mass, abs=1e-4)
            else:
                assert (one.ln_p_tempered or 0) - one.ln_q <= (one.ln_mass or 0) + 1e-4


def test_membership_is_judged_on_ids_to_the_end() -> None:
    program = LETTERS_ONLY.program()
    whole = (*OPEN, 10, 11, CLOSE, END)
    others = (whole[:-1], (*OPEN, 11, 10, CLOSE, END), (*whole[:-1], 3), ())
    stored = [Stored((31,), answer, program) for answer in (whole, *others)]
    assert admitted(LETTERS_ONLY, stored[:-1], END) == [True, False, False, False]
