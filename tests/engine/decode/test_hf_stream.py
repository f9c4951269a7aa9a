"""How the backend ``hf`` streams, and how a row comes to its end: limits, time, cancelling, errors, memory."""

from __future__ import annotations

import functools
import gc
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.decode.hf import AHEAD, HfBackend
from engine.decode.plan import DecodeOptions
from engine.decode.steps import Counters, Event, Step, Stop
from engine.errors import ModelError
from engine.lp.table import NO_ID
from tests.engine.decode.hf_tiny import (
    END,
    GREEDY,
    LETTERS_ONLY,
    NO_LP,
    PLAIN,
    ROWS,
    TOKENS,
    decoded,
    requests,
    stops,
    texts,
    tiny_model,
)

WAIT_S = 60  # for a thread that has something to do; a test that waits so long has failed

NEVER_ENDS = 100.0 * (torch.arange(ROWS) == END)


@pytest.fixture
def model() -> Any:
    return tiny_model()


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def each_pass(model: Any, do: Callable[[int, int], None]) -> None:
    """Before each pass, with its number from 0 and its rows."""
    forward, passes = model.forward, iter(range(10**6))

    @functools.wraps(forward)
    def passed(*args: Any, **kwargs: Any) -> Any:
        do(next(passes), len(kwargs["input_ids"]))
        return forward(*args, **kwargs)

    model.forward = passed


def test_rows_end_by_themselves_or_at_their_limits(model: Any) -> None:
    asked = [replace(one, limit=limit) for one, limit in zip(requests(8), (1, 2, 3, 40, 40, 40, 40, 40), strict=True)]
    events = decoded(model, asked, PLAIN, seed=1)
    assert set(stops(events)) == {one.sample for one in asked}
    for request, ids in ((one, texts(events)[one.sample]) for one in asked):
        assert stops(events)[request.sample] == ("end" if ids[-1] == END else "length")
        assert len(ids) <= request.limit
        assert len(ids) == request.limit or ids[-1] == END
    assert set(stops(events).values()) == {"end", "length"}


def test_the_end_at_the_limit_is_an_end(model: Any) -> None:
    (request,) = requests(1, limit=100)
    length = len(texts(decoded(model, [request], PLAIN))[request.sample])
    assert length < 100
    assert stops(decoded(model, [replace(request, limit=length)], PLAIN)) == {request.sample: "end"}
    assert stops(decoded(model, [replace(request, limit=length - 1)], PLAIN)) == {request.sample: "length"}


def test_no_requests_are_no_events(model: Any) -> None:
    assert decoded(model, []) == []


@pytest.mark.parametrize("diagnostics", [False, True])
def test_a_row_without_a_legal_token_is_ended_and_the_others_go_on(model: Any, diagnostics: bool) -> None:
    asked = requests(4)
    asked[1] = replace(asked[1], program=LETTERS_ONLY.program(NO_ID, 2))
    counters = Counters()
    events = decoded(model, asked, counters=counters, diagnostics=diagnostics)
    assert stops(events)[101] == "empty_mask"
    assert len(texts(events)[101]) == 2  # the opening
    others = [one for one in asked if one.sample != 101]
    assert texts(decoded(model, others)) == {key: ids for key, ids in texts(events).items() if key != 101}
    assert counters.tokens == sum(map(len, texts(events).values()))


def test_a_program_that_begins_without_a_legal_token(model: Any) -> None:
    (request,) = requests(1, program=LETTERS_ONLY.program(NO_ID, 2), start=(2, 2))
    assert decoded(model, [request]) == [Stop(request.sample, "empty_mask")]


def test_the_stream_is_live(model: Any) -> None:
    """The third pass waits until the first pass's tokens have been read."""
    is_read = threading.Event()
    each_pass(model, lambda number, _: None if number < 2 else assert_set(is_read))
    for event in HfBackend(model, LETTERS_ONLY, END, TOKENS).run(requests(3), DecodeOptions(GREEDY), Counters()):
        assert isinstance(event, Step | Stop)
        is_read.set()


def assert_set(event: threading.Event) -> None:
    assert event.wait(WAIT_S)


def test_the_thread_runs_ahead_of_its_reader_but_not_far(model: Any) -> None:
    is_ahead, passes = threading.Event(), []

    def count(number: int, rows: int) -> None:
        passes.append(number)
        if number == AHEAD:
            is_ahead.set()

    each_pass(model, count)
    model.lm_head.register_forward_hook(lambda module, inputs, logits: logits - NEVER_ENDS)
    stream = HfBackend(model, NO_LP, END, TOKENS).run(requests(2, NO_LP, limit=200), DecodeOptions(GREEDY), Counters())
    next(stream)
    assert_set(is_ahead)
    stream.close()
    assert len(passes) <= AHEAD + 2


def test_time_is_over_before_it_begins(model: Any) -> None:
    events = decoded(model, requests(5), batch_size=2, time_limit_s=1e-9)
    assert events == [Stop(100 + number, "time") for number in range(5)]


def test_time_is_over_in_the_middle(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that a pass takes a second of: in the second batch, and before the third."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], perf_counter=time.perf_counter)
    monkeypatch.setattr("engine.decode.hf.time", clock)
    each_pass(model, lambda number, rows: now.__setitem__(0, now[0] + 1))
    asked = requests(6, NO_LP, limit=5)
    model.lm_head.register_forward_hook(lambda module, inputs, logits: logits - NEVER_ENDS)
    events = decoded(model, asked, GREEDY, NO_LP, batch_size=2, time_limit_s=7.5)
    assert [len(ids) for ids in texts(events).values()] == [5, 5, 3, 3, 0, 0]
    assert list(stops(events).values()) == ["length"] * 2 + ["time"] * 4


@pytest.mark.parametrize("after", [0, 1, 5, 60])
def test_cancelled_rows_and_rows_that_wait_are_told_once(model: Any, after: int) -> None:
    seen: list[Event] = []
    backend = HfBackend(model, LETTERS_ONLY, END, TOKENS)
    options, counters = DecodeOptions(PLAIN, batch_size=3), Counters()
    list(map(seen.append, backend.run(requests(8), options, counters, lambda: len(seen) >= after)))
    assert len(stops(seen)) == 8
    assert "cancelled" in stops(seen).values()
    assert counters.tokens == sum(isinstance(event, Step) for event in seen) <= after + 3
    whole = texts(decoded(model, requests(8), PLAIN))
    assert all(whole[sample][: len(ids)] == ids for sample, ids in texts(seen).items())


@pytest.mark.parametrize("count", [1, 4, 40])
def test_a_stream_that_is_closed_leaves_nothing_behind(model: Any, count: int) -> None:
    stream = HfBackend(model, LETTERS_ONLY, END, TOKENS).run(requests(4, limit=100), DecodeOptions(GREEDY), Counters())
    for _ in range(count):
        next(stream)
    assert any(thread.name == "generate" for thread in threading.enumerate())
    stream.close()
    assert not any(thread.name == "generate" for thread in threading.enumerate())


def test_a_stream_that_nobody_holds_any_more_ends_too(model: Any) -> None:
    stream = HfBackend(model, LETTERS_ONLY, END, TOKENS).run(requests(4, limit=100), DecodeOptions(GREEDY), Counters())
    next(stream)
    del stream
    gc.collect()
    assert not any(thread.name == "generate" for thread in threading.enumerate())


def test_what_is_raised_in_the_thread_is_raised_here_behind_the_steps_before_it(model: Any) -> None:
    def fails(number: int, rows: int) -> None:
        if number == 3:
            raise ZeroDivisionError("here")

    each_pass(model, fails)
    seen: list[Event] = []
    stream = HfBackend(model, LETTERS_ONLY, END, TOKENS).run(requests(2), DecodeOptions(GREEDY), Counters())
    with pytest.raises(ZeroDivisionError, match="here"):
        list(map(seen.append, stream))
    assert [event.pos for event in seen if isinstance(event, Step)] == [0, 0, 1, 1, 2, 2]


def short_from(rows_at_once: int, first: int = 0, kind: type[RuntimeError] = torch.OutOfMemoryError) -> Any:
    """Memory for so many rows; only the passes from ``first`` on notice."""

    def check(number: int, rows: int) -> None:
        if number >= first and rows > rows_at_once:
            raise kind("DefaultCPUAllocator: can't allocate memory")

    return check


@pytest.mark.parametrize(
    ("constraint", "kind", "first"),
    [
        *((constraint, torch.OutOfMemoryError, first) for constraint in (LETTERS_ONLY, NO_LP) for first in (0, 1, 4)),
        (LETTERS_ONLY, RuntimeError, 1),
    ],
    ids=lambda given: getattr(given, "name", None) or getattr(given, "__name__", None),
)
def test_where_memory_is_short_the_samples_are_the_same(
    model: Any, constraint: Any, kind: type[RuntimeError], first: int
) -> None:
    asked = requests(10, constraint)
    expected = decoded(model, asked, PLAIN, constraint, seed=1)
    each_pass(model, short_from(2, first, kind))
    counters = Counters()
    events = decoded(model, asked, PLAIN, constraint, seed=1, batch_size=8, counters=counters, diagnostics=True)
    assert texts(events) == texts(expected)
    assert stops(events) == stops(expected)
    assert counters.batch_size == 2
    assert counters.notes == [f"memory was short: batches of {size} from here on" for size in (4, 2)]
    assert counters.tokens == sum(map(len, texts(events).values()))


def test_memory_that_is_short_for_one_row_is_an_error(model: Any) -> None:
    each_pass(model, short_from(0))
    with pytest.raises(ModelError, match="memory is too short for a single row"):
        decoded(model, requests(4), batch_size=4)


def test_another_error_of_the_model_is_no_shortage(model: Any) -> None:
    def fails(number: int, rows: int) -> None:
        raise RuntimeError("shapes do not fit")

    each_pass(model, fails)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        decoded(model, requests(2))
