"""Each backend against the plainest loop: the same tokens, whatever the batch, LP and sampling; and how it ends."""

from __future__ import annotations

import functools
import gc
import logging
import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from engine.decode import fast, loop
from engine.decode.diagnosis import diagnose
from engine.decode.fast import FastBackend
from engine.decode.hf import AHEAD, HfBackend
from engine.decode.plan import DecodeOptions, Sampling, preset
from engine.decode.sampling import sample
from engine.decode.steps import Counters, Event, Step, Stop
from engine.errors import ConstraintError, ModelError
from engine.lp.constraint import HasAutomaton
from engine.lp.table import NO_ID, Program
from engine.lp.unconstrained import Unconstrained
from engine.lp_records import LPS
from tests.engine.decode import reference as ref

QWEN3 = preset("qwen3")
SAMPLINGS = [ref.GREEDY, ref.PLAIN, Sampling(0.7, top_k=6, top_p=0.8), Sampling(1.3, top_k=3), Sampling(1.2, min_p=0.1)]
MIXED = ("CC=O", "C", "C[C@H](N)C(=O)O", "[NH4+]")
LIKE_OTHERS = ("grammar", "group-v3.4", "group-v3.8", "group-v3.9", "group-v4.0", "adaptive-placeholder", "guarded")
CASES = [
    *((lp, "qwen3", QWEN3) for lp in LPS if lp not in LIKE_OTHERS),
    *((lp, "llama3", QWEN3) for lp in ("none", "exact")),
    *((lp, "qwen3-bins", QWEN3) for lp in ("none", "group-v4.3", "exact", "shaped")),
    ("none", "llama3", preset("p0.8_t1.2")),  # sorts the vocabulary at each step of each row
]
each_backend = pytest.mark.parametrize("kind", ref.BACKENDS)
each_toy = pytest.mark.parametrize("constraint", [ref.LETTERS_ONLY, ref.NO_LP], ids=lambda constraint: constraint.name)


@pytest.fixture(scope="module")
def tiny() -> Any:
    return ref.tiny_model()


def written_by(kind: str, model: Any, *given: Any, **options: Any) -> dict[int, ref.Written]:
    """Of the toy under LETTERS_ONLY, unless a ``constraint`` is given."""
    constraint = options.pop("constraint", ref.LETTERS_ONLY)
    return ref.collected(ref.events_of(ref.backend_of(kind, model, constraint), *given, **options))


# --- the same tokens --------------------------------------------------------------------------------------------------
@functools.cache
def plainest(lp: str, name: str, sampling: Sampling) -> dict[int, ref.Written]:
    tokenizer, constraint = ref.made(lp, name)
    end = tokenizer.end_id or 0
    return {
        request.sample: ref.written(ref.small_model(name), constraint, request, sampling, end=end)
        for request in ref.requests_of(constraint, tokenizer, MIXED, limit_of(sampling))
    }


def limit_of(sampling: Sampling) -> int:
    return 34 if sampling == QWEN3 else 12  # two looks of fixed shapes


@each_backend
@pytest.mark.parametrize(("lp", "name", "sampling"), CASES, ids=str)
def test_the_same_tokens_as_the_plainest_loop(lp: str, name: str, sampling: Sampling, kind: str) -> None:
    """Prompts of mixed length, rows that end and are given on, runs of other length in each row."""
    tokenizer, constraint = ref.made(lp, name)
    requests = ref.requests_of(constraint, tokenizer, MIXED, limit_of(sampling))
    counters = Counters()
    backend = ref.backend_of(kind, ref.small_model(name), constraint, tokenizer)
    samples = ref.collected(ref.events_of(backend, requests, sampling, counters=counters))
    assert samples == plainest(lp, name, sampling)
    assert counters.tokens == sum(len(sample.ids) for sample in samples.values())
    assert counters.forced_tokens == sum(sum(sample.forced) for sample in samples.values())
    assert counters.batch_size == 3


@each_backend
@each_toy
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_draws_of_each_sampling_are_the_plainest_loops(
    tiny: Any, kind: str, constraint: HasAutomaton, sampling: Sampling
) -> None:
    requests = ref.tiny_requests(6, constraint)
    samples = written_by(kind, tiny, requests, sampling, constraint=constraint)
    assert samples == {request.sample: ref.written(tiny, constraint, request, sampling) for request in requests}


@each_backend
@each_toy
def test_a_sample_is_the_same_in_any_batch_and_order(tiny: Any, kind: str, constraint: HasAutomaton) -> None:
    requests = ref.tiny_requests(9, constraint)
    requests[4] = replace(requests[4], limit=7)
    first = written_by(kind, tiny, requests, constraint=constraint)
    assert len({tuple(sample.ids) for sample in first.values()}) > 5
    for size, order in ((1, requests), (4, requests[::-1]), (10, requests[3:] + requests[:3])):
        assert written_by(kind, tiny, order, constraint=constraint, batch_size=size) == first
    assert written_by(kind, tiny, requests, constraint=constraint, seed=2) != first


@each_backend
def test_a_row_may_start_inside_an_answer(tiny: Any, kind: str) -> None:
    """Behind the opening and a letter that may come at the first place only."""
    (whole,) = ref.tiny_requests(1)
    ids = ref.written(tiny, ref.LETTERS_ONLY, whole, ref.GREEDY).ids
    inside = replace(whole, prompt=(*whole.prompt, *ids[:3]), limit=whole.limit - 3, start=(len(ref.OPEN), 1))
    assert written_by(kind, tiny, [inside], ref.GREEDY)[whole.sample].ids == ids[3:]


def test_forced_tokens_take_no_pass_of_their_own() -> None:
    tokenizer, constraint = ref.made("exact")
    requests = ref.requests_of(constraint, tokenizer, ["CC(C)C=O"])
    counters = Counters()
    backend = ref.backend_of("fast", ref.small_model(), constraint, tokenizer)
    (answer,) = ref.collected(ref.events_of(backend, requests, counters=counters)).values()
    assert answer.reason == "end"
    choices = sum(not forced for forced in answer.forced)
    assert counters.forward_passes == choices  # the prompt's pass makes the first one, none is made behind the last


@each_backend
@pytest.mark.parametrize("sampling", [ref.GREEDY, ref.PLAIN, Sampling(0.7, top_k=20, top_p=0.8)], ids=str)
def test_rows_without_a_token_never_come(kind: str, sampling: Sampling) -> None:
    """However likely they are; nor does the end where it is taken away."""
    model, endless = ref.tiny_model(), Unconstrained(ref.TOKENS, ref.ROWS, [ref.END])
    head = model.lm_head.weight.detach().clone()
    head[ref.TOKENS :] *= 30
    head[ref.END] *= 30
    model.lm_head.weight = torch.nn.Parameter(head)
    requests = ref.tiny_requests(4, ref.NO_LP, limit=15)
    free, kept = (written_by(kind, model, requests, sampling, constraint=lp) for lp in (ref.NO_LP, endless))
    assert "end" in {sample.reason for sample in free.values()}
    assert {sample.reason for sample in kept.values()} == {"length"}
    assert all(id_ < ref.TOKENS for sample in free.values() for id_ in sample.ids)
    assert all(0 < id_ < ref.TOKENS for sample in kept.values() for id_ in sample.ids)


# --- diagnoses --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["fast", "hf"])
@each_toy
def test_diagnoses_are_what_a_plain_loop_finds(tiny: Any, kind: str, constraint: HasAutomaton) -> None:
    requests = ref.tiny_requests(4, constraint)
    backend = ref.backend_of(kind, tiny, constraint)
    events = ref.events_of(backend, requests, seed=4, diagnostics=True, candidates=3)
    assert ref.collected(events) == ref.collected(ref.events_of(backend, requests, seed=4))
    for request in requests:
        steps = [event for event in events if isinstance(event, Step) and event.sample == request.sample]
        diagnoses = [step.diagnosis for step in steps if step.diagnosis]
        seen = ref.written(tiny, constraint, request, ref.PLAIN, 4).seen
        tokens = torch.tensor([step.token_id for step in steps])
        raw, mask = (torch.stack(rows)[:, : ref.TOKENS] for rows in zip(*seen, strict=True))
        labels = [d.block for d in diagnoses], [d.rule for d in diagnoses]
        ref.same(diagnoses, diagnose(raw, mask, tokens, 3, *labels, sampling=ref.PLAIN))
        if constraint is ref.LETTERS_ONLY:
            inner, last = ["a letter, or the close"] * (len(steps) - 4), "the end of the template: only the end token"
            assert [d.rule for d in diagnoses] == [*["forced by the template"] * 2, "any letter", *inner, last]
            assert [d.block for d in diagnoses] == [-1, -1, *[0] * (len(steps) - 3), -1]


# --- ends -------------------------------------------------------------------------------------------------------------
@each_backend
@pytest.mark.parametrize("limit", [1, 9])
def test_a_limit_holds_inside_an_opening_and_inside_a_run(kind: str, limit: int) -> None:
    tokenizer, constraint = ref.made("exact")
    requests = ref.requests_of(constraint, tokenizer, ["CC=O", "C"], limit=limit)
    samples = ref.collected(ref.events_of(ref.backend_of(kind, ref.small_model(), constraint, tokenizer), requests))
    assert {(sample.reason, len(sample.ids)) for sample in samples.values()} == {("length", limit)}


@pytest.mark.parametrize("kind", ["fast", "static"])
def test_the_last_position_of_a_model_may_be_used(kind: str) -> None:
    tokenizer, constraint = ref.made("exact")
    requests = ref.requests_of(constraint, tokenizer, ["CC=O"], limit=40)
    texts = []
    for positions in (1_000, len(requests[0].prompt) + 40):
        backend = ref.backend_of(kind, ref.small_model(), constraint, tokenizer)
        assert isinstance(backend, FastBackend)
        body = backend.body
        body.cos, body.sin = body.cos[:positions], body.sin[:positions]
        texts.append({key: sample.ids for key, sample in ref.collected(ref.events_of(backend, requests)).items()})
    assert texts[0] == texts[1] and [len(ids) for ids in texts[0].values()] == [40]


@each_backend
def test_the_end_at_the_limit_is_an_end(tiny: Any, kind: str) -> None:
    (request,) = ref.tiny_requests(1, limit=100)
    length = len(written_by(kind, tiny, [request])[request.sample].ids)
    assert length < 100
    for limit, reason in ((length, "end"), (length - 1, "length")):
        assert written_by(kind, tiny, [replace(request, limit=limit)])[request.sample].reason == reason


@each_backend
@pytest.mark.parametrize("after", [0, 1, 5, 20])
def test_cancelled_rows_and_rows_that_wait_stop_once(tiny: Any, kind: str, after: int) -> None:
    requests, backend, counters = ref.tiny_requests(8, ref.NO_LP), ref.backend_of(kind, tiny, ref.NO_LP), Counters()
    seen: list[Event] = []
    options = DecodeOptions(ref.PLAIN, seed=5, batch_size=3)
    list(map(seen.append, backend.run(requests, options, counters, lambda: len(seen) >= after)))
    samples, whole = ref.collected(seen), ref.collected(ref.events_of(backend, requests))
    assert len(samples) == 8
    assert "cancelled" in {sample.reason for sample in samples.values()}
    assert counters.tokens == sum(isinstance(event, Step) for event in seen)
    assert all(whole[number].ids[: len(sample.ids)] == sample.ids for number, sample in samples.items())


@each_backend
def test_time_that_is_over_is_named(tiny: Any, kind: str) -> None:
    events = ref.events_of(
        ref.backend_of(kind, tiny, ref.LETTERS_ONLY), ref.tiny_requests(5), batch_size=2, time_limit_s=1e-9
    )
    assert events == [Stop(100 + number, "time") for number in range(5)]


def without_symbols(program: Program) -> Program:
    """A program in which nothing closes a block."""
    return Program(program.forced, program.entry, program.symbols * 0 + NO_ID, program.jump, program.block)


@each_backend
@pytest.mark.parametrize("diagnostics", [False, True])
def test_a_row_without_a_legal_token_stops_and_the_others_go_on(kind: str, diagnostics: bool) -> None:
    tokenizer, constraint = ref.made("exact")
    requests = ref.requests_of(constraint, tokenizer, ["CC=O", "CCO", "CO"])
    requests[1] = replace(requests[1], program=without_symbols(requests[1].program))
    backend = ref.backend_of(kind, ref.small_model(), constraint, tokenizer)
    samples = ref.collected(ref.events_of(backend, requests, QWEN3, diagnostics=diagnostics))
    assert [samples[number].reason for number in range(3)] == ["end", "empty_mask", "end"]
    assert tokenizer.decode(samples[1].ids).count(",") == 2, "it came as far as the first block's end"


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
    tokenizer, constraint = ref.made("exact")
    backend = ref.backend_of(kind, ref.small_model(), constraint, tokenizer)
    samples = ref.collected(ref.events_of(backend, ref.requests_of(constraint, tokenizer, ["CC=O", "CCO"])))
    assert sorted(sample.reason for sample in samples.values()) == ["desync", "end"]


# --- logits that are no numbers ---------------------------------------------------------------------------------------
@each_backend
@each_toy
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("value", [math.nan, 3e38])
def test_logits_that_are_not_finite_end_the_call(
    kind: str, constraint: HasAutomaton, sampling: Sampling, value: float
) -> None:
    """At the first pass: NaN, or two products of which one overflows to plus infinity."""
    model = ref.tiny_model()
    model.name_or_path = "mine"
    with torch.no_grad():
        model.get_output_embeddings().weight[ref.LETTERS[0]] = value
        model.get_output_embeddings().weight[ref.LETTERS[1]] = -value
    backend = ref.backend_of(kind, model, constraint)
    for diagnostics in (False, True):
        counters = Counters()
        with pytest.raises(ModelError, match="logits of the model 'mine' are not finite"):
            ref.events_of(
                backend, ref.tiny_requests(4, constraint), sampling, counters=counters, diagnostics=diagnostics
            )
        assert counters.tokens == counters.forced_tokens


# --- memory -----------------------------------------------------------------------------------------------------------
@each_backend
@each_toy
@pytest.mark.parametrize("first", [0, 1, 6])
def test_where_memory_is_short_the_samples_are_the_same(
    monkeypatch: pytest.MonkeyPatch, kind: str, constraint: HasAutomaton, first: int
) -> None:
    """Also where steps of fixed shapes were taken, and not yet handed out, when it happened."""
    requests, backend = ref.tiny_requests(10, constraint), ref.backend_of(kind, ref.tiny_model(), constraint)
    expected = ref.collected(ref.events_of(backend, requests))

    def short(number: int, rows: int) -> None:
        if number >= first and rows > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    ref.each_pass(monkeypatch, backend, short)
    counters = Counters()
    samples = ref.collected(ref.events_of(backend, requests, batch_size=8, counters=counters))
    assert samples == expected
    sizes = [4, 2] if first < 2 else [int(counters.notes[0].split()[5])]  # some rows were done by then
    assert counters.notes[: len(sizes)] == [f"memory was short: batches of {size} from here on" for size in sizes]
    assert counters.tokens == sum(len(sample.ids) for sample in samples.values())


@each_backend
@pytest.mark.parametrize(
    ("words", "message"), [("can't allocate memory", "for a single row"), ("shapes do not fit", "shapes do not fit")]
)
def test_what_halving_cannot_mend_is_an_error(
    monkeypatch: pytest.MonkeyPatch, kind: str, words: str, message: str
) -> None:
    def broken(number: int, rows: int) -> None:
        raise RuntimeError(words)

    backend = ref.backend_of(kind, ref.tiny_model(), ref.LETTERS_ONLY)
    ref.each_pass(monkeypatch, backend, broken)
    with pytest.raises((ModelError, RuntimeError), match=message):
        ref.events_of(backend, ref.tiny_requests(4))


# --- what only hf has: a thread that runs ``generate``, and the model's own generation config -------------------------
WAIT_S = 60  # for a thread that has something to do; a test that waits so long has failed


@pytest.fixture
def model() -> Iterator[Any]:
    """No thread is left when the test is over, and transformers has said nothing."""
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("transformers").addHandler(handler)
    before = set(threading.enumerate())
    yield ref.tiny_model()
    assert set(threading.enumerate()) <= before
    logging.getLogger("transformers").removeHandler(handler)
    assert lines == []


def hf(model: Any, constraint: HasAutomaton = ref.LETTERS_ONLY) -> HfBackend:
    return HfBackend(model, constraint, ref.END, ref.TOKENS)


def stream_of(of: HfBackend, count: int = 4, constraint: HasAutomaton = ref.LETTERS_ONLY, limit: int = 100) -> Any:
    return of.run(ref.tiny_requests(count, constraint, limit=limit), DecodeOptions(ref.GREEDY), Counters())


def never_ends(model: Any) -> Any:
    model.lm_head.register_forward_hook(
        lambda module, given, logits: logits - 100.0 * (torch.arange(ref.ROWS) == ref.END)
    )
    return model


def test_the_models_own_generation_config_takes_no_part(model: Any) -> None:
    expected = ref.events_of(hf(model), ref.tiny_requests(4), Sampling(1.2))
    drawing: dict[str, Any] = {"do_sample": True, "temperature": 0.01, "top_k": 1, "min_p": 0.9, "num_beams": 2}
    lengths: dict[str, Any] = {
        "max_length": 3,
        "min_new_tokens": 20,
        "eos_token_id": [ref.OPEN[1], 12],
        "pad_token_id": 33,
    }
    words: dict[str, Any] = {
        "suppress_tokens": [*range(10, 28)],
        "bad_words_ids": [[ref.CLOSE]],
        "no_repeat_ngram_size": 1,
    }
    own = GenerationConfig(**drawing, **lengths, **words, repetition_penalty=9.0)
    model.generation_config = own
    values = own.to_dict()
    assert ref.events_of(hf(model), ref.tiny_requests(4), Sampling(1.2)) == expected
    assert model.generation_config is own
    assert own.to_dict() == values


def test_a_constraint_of_another_size_is_refused(model: Any) -> None:
    with pytest.raises(ConstraintError, match="the model has 48 rows, the constraint was built for 50"):
        hf(model, Unconstrained(ref.TOKENS, 50))


def test_the_thread_runs_ahead_of_its_reader_but_not_far(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    is_ahead, passes = threading.Event(), []

    def count(number: int, rows: int) -> None:
        passes.append(number)
        if number == AHEAD:
            is_ahead.set()

    of = hf(never_ends(model), ref.NO_LP)
    ref.each_pass(monkeypatch, of, count)
    stream = stream_of(of, 2, ref.NO_LP, 200)
    next(stream)
    assert is_ahead.wait(WAIT_S)
    stream.close()
    assert len(passes) <= AHEAD + 2


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_stream_that_is_closed_or_let_go_of_leaves_no_thread(model: Any, is_closed: bool) -> None:
    stream = stream_of(hf(model))
    next(stream)
    assert any(thread.name == "generate" for thread in threading.enumerate())
    if is_closed:
        stream.close()
    else:
        del stream
        gc.collect()
    assert not any(thread.name == "generate" for thread in threading.enumerate())


def test_what_is_raised_in_the_thread_is_raised_here_behind_the_steps_before_it(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(number: int, rows: int) -> None:
        if number == 3:
            raise ZeroDivisionError("here")

    of = hf(model)
    ref.each_pass(monkeypatch, of, fails)
    seen: list[Event] = []
    with pytest.raises(ZeroDivisionError, match="here"):
        list(map(seen.append, stream_of(of, 2)))
    assert [event.pos for event in seen if isinstance(event, Step)] == [0, 0, 1, 1, 2, 2]
