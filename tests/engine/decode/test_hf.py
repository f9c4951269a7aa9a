"""What only the backend ``hf`` has: a thread that runs ``generate``, and the model's own generation config."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from engine.decode.hf import AHEAD, HfBackend
from engine.decode.plan import DecodeOptions, Sampling
from engine.decode.steps import Counters, Event, Step, Stop
from engine.errors import ConstraintError
from engine.lp.constraint import HasAutomaton
from engine.lp.unconstrained import Unconstrained
from tests.engine.decode.reference import (
    CLOSE,
    END,
    GREEDY,
    LETTERS_ONLY,
    NO_LP,
    OPEN,
    ROWS,
    TOKENS,
    collected,
    each_pass,
    events_of,
    tiny_model,
    tiny_requests,
)

WAIT_S = 60  # for a thread that has something to do; a test that waits so long has failed


@pytest.fixture
def model() -> Any:
    return tiny_model()


@pytest.fixture(autouse=True)
def _no_thread_is_left_and_transformers_says_nothing() -> Iterator[None]:
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("transformers").addHandler(handler)
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before
    logging.getLogger("transformers").removeHandler(handler)
    assert lines == []


def backend(model: Any, constraint: HasAutomaton = LETTERS_ONLY) -> HfBackend:
    return HfBackend(model, constraint, END, TOKENS)


def stream_of(backend: HfBackend, count: int = 4, constraint: HasAutomaton = LETTERS_ONLY, limit: int = 100) -> Any:
    requests = tiny_requests(count, constraint, limit=limit)
    return backend.run(requests, DecodeOptions(GREEDY), Counters())


def never_ends(model: Any) -> Any:
    model.lm_head.register_forward_hook(lambda module, given, logits: logits - 100.0 * (torch.arange(ROWS) == END))
    return model


def test_the_models_own_generation_config_takes_no_part(model: Any) -> None:
    expected = events_of(backend(model), tiny_requests(4), Sampling(1.2))
    drawing: dict[str, Any] = {"do_sample": True, "temperature": 0.01, "top_k": 1, "min_p": 0.9, "num_beams": 2}
    lengths: dict[str, Any] = {"max_length": 3, "min_new_tokens": 20, "eos_token_id": [OPEN[1], 12], "pad_token_id": 33}
    words: dict[str, Any] = {"suppress_tokens": [*range(10, 28)], "bad_words_ids": [[CLOSE]], "no_repeat_ngram_size": 1}
    own = GenerationConfig(**drawing, **lengths, **words, repetition_penalty=9.0)
    model.generation_config = own
    values = own.to_dict()
    assert events_of(backend(model), tiny_requests(4), Sampling(1.2)) == expected
    assert model.generation_config is own
    assert own.to_dict() == values


def test_a_constraint_of_another_size_is_refused(model: Any) -> None:
    with pytest.raises(ConstraintError, match="the model has 48 rows, the constraint was built for 50"):
        backend(model, Unconstrained(TOKENS, 50))


def test_the_stream_is_live(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third pass waits until the first pass's tokens have been read."""
    is_read, of = threading.Event(), backend(model)

    def waits(number: int, rows: int) -> None:
        assert number < 2 or is_read.wait(WAIT_S)

    each_pass(monkeypatch, of, waits)
    for event in stream_of(of, 3):
        assert isinstance(event, Step | Stop)
        is_read.set()


def test_the_thread_runs_ahead_of_its_reader_but_not_far(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    is_ahead, passes = threading.Event(), []

    def count(number: int, rows: int) -> None:
        passes.append(number)
        if number == AHEAD:
            is_ahead.set()

    of = backend(never_ends(model), NO_LP)
    each_pass(monkeypatch, of, count)
    stream = stream_of(of, 2, NO_LP, 200)
    next(stream)
    assert is_ahead.wait(WAIT_S)
    stream.close()
    assert len(passes) <= AHEAD + 2


def test_time_is_over_in_the_middle(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that a pass takes a second of: in the second batch, and before the third."""
    now, of = [0.0], backend(never_ends(model), NO_LP)
    clock = SimpleNamespace(monotonic=lambda: now[0], perf_counter=time.perf_counter)
    monkeypatch.setattr("engine.decode.hf.time", clock)
    each_pass(monkeypatch, of, lambda number, rows: now.__setitem__(0, now[0] + 1))
    requests = tiny_requests(6, NO_LP, limit=5)
    found = collected(events_of(of, requests, GREEDY, batch_size=2, time_limit_s=7.5))
    assert [len(sample.ids) for sample in found.values()] == [5, 5, 3, 3, 0, 0]
    assert [sample.reason for sample in found.values()] == ["length"] * 2 + ["time"] * 4


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_stream_that_is_closed_or_let_go_of_leaves_no_thread(model: Any, is_closed: bool) -> None:
    stream = stream_of(backend(model))
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

    of = backend(model)
    each_pass(monkeypatch, of, fails)
    seen: list[Event] = []
    with pytest.raises(ZeroDivisionError, match="here"):
        list(map(seen.append, stream_of(of, 2)))
    assert [event.pos for event in seen if isinstance(event, Step)] == [0, 0, 1, 1, 2, 2]
