"""What the backend ``hf`` writes: against loops by hand, with any LP, in any batch."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import GenerationConfig

from engine.chem.smiles import parse_smiles
from engine.decode.hf import HfBackend, KeyedDraw
from engine.decode.plan import DecodeOptions, Sampling, requests_for
from engine.decode.rows import Work
from engine.decode.sampling import draw, uniform
from engine.decode.steps import Counters, Diagnosis, Step
from engine.errors import ConstraintError
from engine.lp.constraint import HasAutomaton, build_constraint
from engine.lp.unconstrained import Unconstrained
from engine.lp_records import LPS
from engine.text.tokenizers import load_tokenizer
from tests.engine.decode.hf_tiny import (
    CLOSE,
    END,
    GREEDY,
    LETTERS_ONLY,
    NO_LP,
    OPEN,
    PLAIN,
    ROWS,
    TOKENS,
    by_hand,
    decoded,
    requests,
    stops,
    texts,
    tiny_model,
)
from tests.engine.decode.reference import probabilities
from tests.small_models import SMALL

TOKENIZER = load_tokenizer("llama3")
LLAMA_ROWS = 128_330
MOLECULES = [parse_smiles(smiles) for smiles in ("C#N", "C")]
SAMPLINGS = [
    PLAIN,
    Sampling(0.7, top_k=6, top_p=0.8),
    Sampling(1.3, top_k=3),
    Sampling(0.9, top_p=0.7),
    Sampling(1.2, min_p=0.1),
    Sampling(0.8, top_k=1000),
]
CONSTRAINTS: list[HasAutomaton] = [LETTERS_ONLY, NO_LP]


@pytest.fixture(autouse=True)
def _transformers_has_nothing_to_say() -> Iterator[None]:
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("transformers").addHandler(handler)
    yield
    logging.getLogger("transformers").removeHandler(handler)
    assert lines == []


@pytest.fixture(scope="module")
def tiny() -> Any:
    return tiny_model()


@pytest.fixture(scope="module")
def llama() -> Any:
    torch.manual_seed(0)
    shape = SMALL["llama3"]
    return shape.model(shape.config(LLAMA_ROWS, end=TOKENIZER.end_id or 0)).eval()


@pytest.mark.parametrize("name", LPS)
def test_greedy_is_the_plain_loop_with_every_lp(llama: Any, name: str) -> None:
    constraint = build_constraint(name, TOKENIZER, LLAMA_ROWS)
    end = TOKENIZER.end_id or 0
    asked = requests_for(MOLECULES, constraint, TOKENIZER, positions=4096, limits=[9, 24])
    counters = Counters()
    backend = HfBackend(llama, constraint, end, TOKENIZER.vocab_size)
    events = list(backend.run(asked, DecodeOptions(GREEDY), counters))
    for request in asked:
        ids, forced, _ = by_hand(llama, constraint, request, end)
        steps = [event for event in events if isinstance(event, Step) and event.sample == request.sample]
        assert [step.token_id for step in steps] == ids
        assert [step.forced for step in steps] == forced
        assert stops(events)[request.sample] == ("end" if ids[-1] == end else "length")
    assert counters.tokens == sum(map(len, texts(events).values()))
    assert counters.forced_tokens == sum(event.forced for event in events if isinstance(event, Step))
    assert counters.forward_passes == max(map(len, texts(events).values()))
    assert counters.decode_s > 0
    assert counters.batch_size == 32


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: constraint.name)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_keyed_draws_are_the_plain_loops(tiny: Any, constraint: HasAutomaton, sampling: Sampling) -> None:
    asked = requests(6, constraint)
    found = texts(decoded(tiny, asked, sampling, constraint, seed=5))
    for request in asked:
        assert found[request.sample] == by_hand(tiny, constraint, request, END, sampling, 5)[0]


@given(st.sampled_from(SAMPLINGS), st.integers(0, 2**32), st.booleans())
def test_what_is_left_out_before_the_filters_could_not_be_drawn(sampling: Sampling, seed: int, masked: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn((5, 300), generator=generator)
    if masked:
        scores = scores.masked_fill(torch.rand((5, 300), generator=generator) < 0.95, -torch.inf)
        scores[:, seed % 300] = 1.0
    rows = [Work(request) for request in requests(5)]
    found = KeyedDraw(sampling, seed, rows, 4, torch.device("cpu"))(torch.zeros((5, 6), dtype=torch.int64), scores)
    numbers = uniform(seed, torch.tensor([row.request.key for row in rows]), torch.full((5,), 2))
    assert found.argmax(dim=1).tolist() == draw(probabilities(scores, sampling), numbers).tolist()
    assert torch.isfinite(found).sum(dim=1).tolist() == [1] * 5


def test_the_buffer_of_drawn_ids_is_clean_at_each_step() -> None:
    drawing = KeyedDraw(PLAIN, 0, [Work(request) for request in requests(3)], 4, torch.device("cpu"))
    for step in range(5):
        found = drawing(torch.zeros((3, 4 + step), dtype=torch.int64), torch.zeros((3, 40)))
        assert torch.isfinite(found).sum(dim=1).tolist() == [1] * 3


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: constraint.name)
def test_a_sample_is_the_same_in_any_batch_and_order(tiny: Any, constraint: HasAutomaton) -> None:
    asked = requests(9, constraint)
    asked[4] = requests(5, constraint, limit=7)[4]
    first = texts(decoded(tiny, asked, PLAIN, constraint, seed=1))
    assert len({tuple(ids) for ids in first.values()}) > 5
    for size, order in ((1, asked), (4, asked[::-1]), (5, asked[3:] + asked[:3])):
        assert texts(decoded(tiny, order, PLAIN, constraint, seed=1, batch_size=size)) == first
    assert texts(decoded(tiny, asked, PLAIN, constraint, seed=2)) != first


def test_batches_are_taken_in_the_order_of_their_limits(tiny: Any) -> None:
    asked = [requests(6, limit=limit)[number] for number, limit in enumerate((2, 9, 3, 9, 2, 4))]
    events = decoded(tiny, asked, batch_size=2)
    assert list(texts(events)) == [101, 103, 105, 102, 100, 104]


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: constraint.name)
@pytest.mark.parametrize("sampling", [PLAIN, Sampling(1.5, top_k=12, top_p=0.9), Sampling(0.8, min_p=0.05)], ids=str)
def test_the_first_free_token_is_distributed_as_it_should_be(
    tiny: Any, constraint: HasAutomaton, sampling: Sampling
) -> None:
    """It must not be filtered by the 50 likeliest, which is the default of ``generate``, nor by a folder's."""
    free = 2 if constraint is LETTERS_ONLY else 0
    one, count = requests(1, constraint, limit=free + 1)[0], 3_000
    asked = [replace(one, sample=number, key=number) for number in range(count)]
    events = decoded(tiny, asked, sampling, constraint, seed=3, batch_size=600)
    drawn = Counter(event.token_id for event in events if isinstance(event, Step) and event.pos == free)
    raw, mask = by_hand(tiny, constraint, one, END)[2][free]
    expected = probabilities(raw.masked_fill(~mask, -torch.inf)[None], sampling)[0] * count
    assert sum(drawn.values()) == count
    assert all(expected[id_] > 0 for id_ in drawn)
    likely = (expected >= 5).nonzero()[:, 0].tolist()
    assert len(likely) > 4
    rest = count - sum(float(expected[id_]) for id_ in likely)
    pairs = [(drawn[id_], float(expected[id_])) for id_ in likely]
    if rest > 1:
        pairs.append((count - sum(drawn[id_] for id_ in likely), rest))
    chi_square, freedom = sum((seen - mean) ** 2 / mean for seen, mean in pairs), len(pairs) - 1
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5


def test_a_row_may_start_inside_an_answer(tiny: Any) -> None:
    """Behind the opening and a letter that may come at the first place only."""
    (whole,) = requests(1)
    ids = by_hand(tiny, LETTERS_ONLY, whole, END)[0]
    begun = (*whole.prompt, *ids[:3])
    inside = replace(whole, prompt=begun, limit=27, start=(len(OPEN), 1))
    assert texts(decoded(tiny, [inside]))[whole.sample] == ids[3:]


@pytest.mark.parametrize("sampling", [GREEDY, PLAIN, Sampling(0.7, top_k=20, top_p=0.8)], ids=str)
def test_rows_without_a_token_never_come(sampling: Sampling) -> None:
    """However likely they are; nor does the end where it is taken away."""
    model = tiny_model()
    shift = 50.0 * (torch.arange(ROWS) >= TOKENS) + 40.0 * (torch.arange(ROWS) == END)
    model.lm_head.register_forward_hook(lambda module, inputs, logits: logits + shift)
    endless = Unconstrained(TOKENS, ROWS, [END])
    ended = texts(decoded(model, requests(4, NO_LP), sampling, NO_LP))
    assert all(ids == [END] for ids in ended.values())
    events = decoded(model, requests(4, endless, limit=15), sampling, endless, diagnostics=True)
    assert set(stops(events).values()) == {"length"}
    assert all(0 < id_ < TOKENS for ids in texts(events).values() for id_ in ids)
    for event in events:
        if isinstance(event, Step):
            assert event.diagnosis is not None
            assert event.diagnosis.top_k[0].token_id == END  # a token, and the likeliest, but not allowed
            assert not event.diagnosis.top_k[0].allowed
            assert event.diagnosis.allowed_mass < 1e-6


def test_the_models_own_generation_config_takes_no_part() -> None:
    model = tiny_model()
    expected = decoded(model, requests(4), Sampling(1.2))
    own = GenerationConfig(
        suppress_tokens=list(range(10, 28)),
        begin_suppress_tokens=[OPEN[0]],
        bad_words_ids=[[CLOSE]],
        do_sample=True,
        temperature=0.01,
        top_k=1,
        min_p=0.9,
        max_length=3,
        min_new_tokens=20,
        repetition_penalty=9.0,
        no_repeat_ngram_size=1,
        eos_token_id=[OPEN[1], 12],
        pad_token_id=33,
        num_beams=2,
    )
    model.generation_config = own
    said = own.to_dict()
    assert decoded(model, requests(4), Sampling(1.2)) == expected
    assert model.generation_config is own
    assert own.to_dict() == said


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: constraint.name)
def test_diagnoses_are_what_a_plain_loop_finds(tiny: Any, constraint: HasAutomaton) -> None:
    asked = requests(5, constraint)
    plain = decoded(tiny, asked, PLAIN, constraint, seed=4)
    events = decoded(tiny, asked, PLAIN, constraint, seed=4, diagnostics=True, candidates=3)
    assert texts(events) == texts(plain)
    for request in asked:
        _, _, seen = by_hand(tiny, constraint, request, END, PLAIN, 4)
        steps = [event for event in events if isinstance(event, Step) and event.sample == request.sample]
        for step, (raw, mask) in zip(steps, seen, strict=True):
            assert step.diagnosis is not None
            assert_diagnosis(step.diagnosis, raw[:TOKENS].softmax(dim=0), mask[:TOKENS], step.token_id)
        if constraint is LETTERS_ONLY:
            rules = [step.diagnosis.rule for step in steps if step.diagnosis]
            inner = ["a letter, or the close"] * (len(steps) - 4)
            opening = ["forced by the template"] * 2
            assert rules == [*opening, "any letter", *inner, "the end of the template: only the end token"]
            assert [step.diagnosis.block for step in steps if step.diagnosis] == [-1, -1, *[0] * (len(steps) - 3), -1]


def assert_diagnosis(found: Diagnosis, p: torch.Tensor, mask: torch.Tensor, token: int) -> None:
    mass = float(p[mask].sum())
    assert found.p_raw == pytest.approx(float(p[token]), rel=1e-3, abs=1e-7)
    assert found.allowed_mass == pytest.approx(mass, rel=1e-3)
    assert found.p_lp == pytest.approx(float(p[token]) / mass, rel=1e-3)
    assert found.rank_raw == 1 + int((p > p[token]).sum())
    assert found.entropy_nat == pytest.approx(float(-(p * p.log()).sum()), rel=1e-3)
    best = p.topk(3).indices.tolist()
    assert [one.token_id for one in found.top_k] == best
    assert [one.allowed for one in found.top_k] == mask[best].tolist()


def test_a_constraint_of_another_size_is_refused(tiny: Any) -> None:
    with pytest.raises(ConstraintError, match="the model has 48 rows, the constraint was built for 50"):
        HfBackend(tiny, Unconstrained(TOKENS, 50), END, TOKENS)
