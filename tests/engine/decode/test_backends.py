"""Each backend against the plainest loop: the same tokens, whatever the batch, LP and sampling; and how it ends."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.decode import fast, loop
from engine.decode.diagnosis import diagnose
from engine.decode.plan import DecodeOptions, Sampling, preset
from engine.decode.sampling import sample
from engine.decode.steps import Counters, Event, Step, Stop
from engine.errors import ModelError
from engine.lp.constraint import HasAutomaton
from engine.lp.table import NO_ID, Program
from engine.lp.unconstrained import Unconstrained
from engine.lp_records import LPS
from tests.engine.decode.reference import (
    BACKENDS,
    END,
    GREEDY,
    LETTERS_ONLY,
    NO_LP,
    OPEN,
    PLAIN,
    ROWS,
    TOKENS,
    Written,
    asked,
    backend_of,
    collected,
    each_pass,
    events_of,
    made,
    same,
    small_model,
    tiny_model,
    tiny_requests,
    written,
)

QWEN3 = preset("qwen3")
SAMPLINGS = [GREEDY, PLAIN, Sampling(0.7, top_k=6, top_p=0.8), Sampling(1.3, top_k=3), Sampling(1.2, min_p=0.1)]
MIXED = ("CC=O", "C", "C[C@H](N)C(=O)O", "[NH4+]")
LIKE_OTHERS = ("group-v3.4", "group-v3.8", "group-v3.9", "group-v4.0", "guarded")  # tables like v4.3's and exact's
CASES = [
    *((lp, "qwen3", QWEN3) for lp in LPS if lp not in LIKE_OTHERS),
    *((lp, "llama3", QWEN3) for lp in ("none", "truncating", "exact")),
    # Sorts the vocabulary at each step of each row: where a row may write anything, and where few ids are legal.
    *((lp, "llama3", preset("p0.8_t1.2")) for lp in ("none", "exact")),
]
each_backend = pytest.mark.parametrize("kind", BACKENDS)
each_toy = pytest.mark.parametrize("constraint", [LETTERS_ONLY, NO_LP], ids=lambda constraint: constraint.name)


@pytest.fixture(scope="module")
def tiny() -> Any:
    return tiny_model()


def written_by(kind: str, model: Any, *given: Any, **options: Any) -> dict[int, Written]:
    """Of the toy under LETTERS_ONLY, unless a ``constraint`` is given."""
    constraint = options.pop("constraint", LETTERS_ONLY)
    return collected(events_of(backend_of(kind, model, constraint), *given, **options))


# --- the same tokens --------------------------------------------------------------------------------------------------


@functools.cache
def plainest(lp: str, name: str, sampling: Sampling) -> dict[int, Written]:
    tokenizer, constraint = made(lp, name)
    end = tokenizer.end_id or 0
    return {
        request.sample: written(small_model(name), constraint, request, sampling, end=end)
        for request in asked(constraint, tokenizer, MIXED, limit_of(sampling))
    }


def limit_of(sampling: Sampling) -> int:
    return 34 if sampling == QWEN3 else 12  # two looks of fixed shapes


@each_backend
@pytest.mark.parametrize(("lp", "name", "sampling"), CASES, ids=str)
def test_the_same_tokens_as_the_plainest_loop(lp: str, name: str, sampling: Sampling, kind: str) -> None:
    """Prompts of mixed length, rows that end and are given on, runs of other length in each row."""
    tokenizer, constraint = made(lp, name)
    requests = asked(constraint, tokenizer, MIXED, limit_of(sampling))
    counters = Counters()
    backend = backend_of(kind, small_model(name), constraint, tokenizer)
    found = collected(events_of(backend, requests, sampling, counters=counters))
    assert found == plainest(lp, name, sampling)
    assert counters.tokens == sum(len(sample.ids) for sample in found.values())
    assert counters.forced_tokens == sum(sum(sample.forced) for sample in found.values())
    assert counters.batch_size == 3


@each_backend
@each_toy
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_draws_of_each_sampling_are_the_plainest_loops(
    tiny: Any, kind: str, constraint: HasAutomaton, sampling: Sampling
) -> None:
    requests = tiny_requests(6, constraint)
    found = written_by(kind, tiny, requests, sampling, constraint=constraint)
    assert found == {request.sample: written(tiny, constraint, request, sampling) for request in requests}


@each_backend
@each_toy
def test_a_sample_is_the_same_in_any_batch_and_order(tiny: Any, kind: str, constraint: HasAutomaton) -> None:
    requests = tiny_requests(9, constraint)
    requests[4] = replace(requests[4], limit=7)
    first = written_by(kind, tiny, requests, constraint=constraint)
    assert len({tuple(sample.ids) for sample in first.values()}) > 5
    for size, order in ((1, requests), (4, requests[::-1]), (10, requests[3:] + requests[:3])):
        assert written_by(kind, tiny, order, constraint=constraint, batch_size=size) == first
    assert written_by(kind, tiny, requests, constraint=constraint, seed=2) != first


@each_backend
def test_a_row_may_start_inside_an_answer(tiny: Any, kind: str) -> None:
    """Behind the opening and a letter that may come at the first place only."""
    (whole,) = tiny_requests(1)
    ids = written(tiny, LETTERS_ONLY, whole, GREEDY).ids
    inside = replace(whole, prompt=(*whole.prompt, *ids[:3]), limit=whole.limit - 3, start=(len(OPEN), 1))
    assert written_by(kind, tiny, [inside], GREEDY)[whole.sample].ids == ids[3:]


def test_forced_tokens_take_no_pass_of_their_own() -> None:
    tokenizer, constraint = made("exact")
    requests = asked(constraint, tokenizer, ["CC(C)C=O"])
    counters = Counters()
    found = collected(events_of(backend_of("fast", small_model(), constraint, tokenizer), requests, counters=counters))[
        0
    ]
    assert found.reason == "end"
    choices = sum(not forced for forced in found.forced)
    assert counters.forward_passes == choices  # the prompt's pass makes the first one, none is made behind the last


@each_backend
@pytest.mark.parametrize("sampling", [GREEDY, PLAIN, Sampling(0.7, top_k=20, top_p=0.8)], ids=str)
def test_rows_without_a_token_never_come(kind: str, sampling: Sampling) -> None:
    """However likely they are; nor does the end where it is taken away."""
    model, endless = tiny_model(), Unconstrained(TOKENS, ROWS, [END])
    head = model.lm_head.weight.detach().clone()
    head[TOKENS:] *= 30
    head[END] *= 30
    model.lm_head.weight = torch.nn.Parameter(head)
    requests = tiny_requests(4, NO_LP, limit=15)
    free, kept = (written_by(kind, model, requests, sampling, constraint=one) for one in (NO_LP, endless))
    assert "end" in {sample.reason for sample in free.values()}
    assert {sample.reason for sample in kept.values()} == {"length"}
    assert all(id_ < TOKENS for sample in free.values() for id_ in sample.ids)
    assert all(0 < id_ < TOKENS for sample in kept.values() for id_ in sample.ids)


# --- diagnoses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fast", "hf"])
@each_toy
def test_diagnoses_are_what_a_plain_loop_finds(tiny: Any, kind: str, constraint: HasAutomaton) -> None:
    requests = tiny_requests(4, constraint)
    backend = backend_of(kind, tiny, constraint)
    events = events_of(backend, requests, seed=4, diagnostics=True, candidates=3)
    assert collected(events) == collected(events_of(backend, requests, seed=4))
    for request in requests:
        steps = [event for event in events if isinstance(event, Step) and event.sample == request.sample]
        diagnoses = [step.diagnosis for step in steps if step.diagnosis]
        seen = written(tiny, constraint, request, PLAIN, 4).seen
        tokens = torch.tensor([step.token_id for step in steps])
        raw, mask = (torch.stack(rows)[:, :TOKENS] for rows in zip(*seen, strict=True))
        places = [one.block for one in diagnoses], [one.rule for one in diagnoses]
        same(diagnoses, diagnose(raw, mask, tokens, 3, *places, sampling=PLAIN))
        if constraint is LETTERS_ONLY:
            inner = ["a letter, or the close"] * (len(steps) - 4)
            opening = ["forced by the template"] * 2
            assert [one.rule for one in diagnoses] == [
                *(*opening, "any letter", *inner),
                "the end of the template: only the end token",
            ]
            assert [one.block for one in diagnoses] == [-1, -1, *[0] * (len(steps) - 3), -1]


# --- ends -------------------------------------------------------------------------------------------------------------


@each_backend
@pytest.mark.parametrize("limit", [1, 3, 9, 17])
def test_a_limit_holds_inside_an_opening_and_inside_a_run(kind: str, limit: int) -> None:
    tokenizer, constraint = made("exact")
    requests = asked(constraint, tokenizer, ["CC=O", "C"], limit=limit)
    found = collected(events_of(backend_of(kind, small_model(), constraint, tokenizer), requests))
    assert {(sample.reason, len(sample.ids)) for sample in found.values()} == {("length", limit)}


@each_backend
def test_the_end_at_the_limit_is_an_end(tiny: Any, kind: str) -> None:
    (request,) = tiny_requests(1, limit=100)
    length = len(written_by(kind, tiny, [request])[request.sample].ids)
    assert length < 100
    for limit, reason in ((length, "end"), (length - 1, "length")):
        assert written_by(kind, tiny, [replace(request, limit=limit)])[request.sample].reason == reason


@each_backend
def test_nothing_asked_is_nothing_done(tiny: Any, kind: str) -> None:
    assert events_of(backend_of(kind, tiny, LETTERS_ONLY), []) == []


@each_backend
@pytest.mark.parametrize("after", [0, 1, 5, 20])
def test_cancelled_rows_and_rows_that_wait_stop_once(tiny: Any, kind: str, after: int) -> None:
    requests, backend, counters = tiny_requests(8, NO_LP), backend_of(kind, tiny, NO_LP), Counters()
    seen: list[Event] = []
    options = DecodeOptions(PLAIN, seed=5, batch_size=3)
    list(map(seen.append, backend.run(requests, options, counters, lambda: len(seen) >= after)))
    found, whole = collected(seen), collected(events_of(backend, requests))
    assert len(found) == 8
    assert "cancelled" in {sample.reason for sample in found.values()}
    assert counters.tokens == sum(isinstance(event, Step) for event in seen)
    assert all(whole[number].ids[: len(sample.ids)] == sample.ids for number, sample in found.items())


@each_backend
def test_time_that_is_over_is_named(tiny: Any, kind: str) -> None:
    events = events_of(backend_of(kind, tiny, LETTERS_ONLY), tiny_requests(5), batch_size=2, time_limit_s=1e-9)
    assert events == [Stop(100 + number, "time") for number in range(5)]


def without_symbols(program: Program) -> Program:
    """A program in which nothing closes a block."""
    return Program(program.forced, program.entry, program.symbols * 0 + NO_ID, program.jump, program.block)


@each_backend
@pytest.mark.parametrize("diagnostics", [False, True])
def test_a_row_without_a_legal_token_stops_and_the_others_go_on(kind: str, diagnostics: bool) -> None:
    tokenizer, constraint = made("exact")
    requests = asked(constraint, tokenizer, ["CC=O", "CCO", "CO"])
    requests[1] = replace(requests[1], program=without_symbols(requests[1].program))
    backend = backend_of(kind, small_model(), constraint, tokenizer)
    found = collected(events_of(backend, requests, QWEN3, diagnostics=diagnostics))
    assert [found[number].reason for number in range(3)] == ["end", "empty_mask", "end"]
    assert tokenizer.decode(found[1].ids).count(",") == 2, "it came as far as the first block's end"


@pytest.mark.parametrize("kind", ["fast", "static"])
def test_a_token_outside_the_mask_is_named(tiny: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that goes wrong for one row: that row stops, with the token shown, and the other goes on."""
    right = sample

    def wrong(logits: torch.Tensor, *given: Any) -> torch.Tensor:
        column = right(logits, *given)
        if len(column) == 2:
            column[1] = int(torch.isneginf(logits[1]).nonzero()[0])
        return column

    monkeypatch.setattr(loop, "sample", wrong)
    monkeypatch.setattr(fast, "sample", wrong)
    tokenizer, constraint = made("exact")
    backend = backend_of(kind, small_model(), constraint, tokenizer)
    found = collected(events_of(backend, asked(constraint, tokenizer, ["CC=O", "CCO"])))
    assert sorted(sample.reason for sample in found.values()) == ["desync", "end"]


# --- memory -----------------------------------------------------------------------------------------------------------


@each_backend
@each_toy
@pytest.mark.parametrize("first", [0, 1, 6])
def test_where_memory_is_short_the_samples_are_the_same(
    monkeypatch: pytest.MonkeyPatch, kind: str, constraint: HasAutomaton, first: int
) -> None:
    """Also where steps of fixed shapes were taken, and not yet handed out, when it happened."""
    requests, backend = tiny_requests(10, constraint), backend_of(kind, tiny_model(), constraint)
    expected = collected(events_of(backend, requests))

    def short(number: int, rows: int) -> None:
        if number >= first and rows > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    each_pass(monkeypatch, backend, short)
    counters = Counters()
    found = collected(events_of(backend, requests, batch_size=8, counters=counters))
    assert found == expected
    sizes = [4, 2] if first < 2 else [int(counters.notes[0].split()[5])]  # some rows were done by then
    assert counters.notes[: len(sizes)] == [f"memory was short: batches of {size} from here on" for size in sizes]
    assert counters.tokens == sum(len(sample.ids) for sample in found.values())


@each_backend
@pytest.mark.parametrize(
    ("words", "error", "told"),
    [
        ("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory", ModelError, "for a single row"),
        ("shapes do not fit", RuntimeError, "shapes do not fit"),
    ],
)
def test_what_halving_cannot_mend_is_an_error(
    monkeypatch: pytest.MonkeyPatch, kind: str, words: str, error: type[Exception], told: str
) -> None:
    def broken(number: int, rows: int) -> None:
        raise RuntimeError(words)

    backend = backend_of(kind, tiny_model(), LETTERS_ONLY)
    each_pass(monkeypatch, backend, broken)
    with pytest.raises(error, match=told):
        events_of(backend, tiny_requests(4))
