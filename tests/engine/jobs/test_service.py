"""The app's queue: what an owner sees of a job and does to it, turns, limits, and what failing work does to others."""

from __future__ import annotations

import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DriftscopeError
from engine.jobs.service import Job, Models
from engine.models import loading
from engine.models.registry import ModelEntry, load_registry
from engine.processes import usable_cores
from tests.service_harness import PATIENCE_S, Hand, ServiceHarness, ended, nothing

MANY = 40


def test_notes_times_and_the_result(harness: ServiceHarness) -> None:
    _, first = harness.busy()
    hand = harness.hand()
    job = harness.service.submit("one", hand)
    assert (job.poll().ahead, job.poll().elapsed_s, job.poll().state) == (1, 0.0, "waiting")
    harness.clock.now += 5
    first.let_go()
    assert hand.begun.wait(PATIENCE_S)
    assert hand.job is job
    harness.clock.now += 2
    job.say("writing")
    seen = job.poll()
    assert (seen.state, seen.ahead, seen.note, seen.elapsed_s, seen.has_ended) == ("running", 0, "writing", 2.0, False)
    harness.clock.now += 1
    hand.give("x")
    hand.let_go()
    assert ended(job) == "done"
    harness.clock.now += 50
    assert (job.poll().elapsed_s, job.result, job.poll().error) == (3.0, ["x"], "")


# --- stopping ---------------------------------------------------------------------------------------------------------
def test_a_stopped_waiting_job_never_runs(harness: ServiceHarness) -> None:
    _, first = harness.busy()
    hand = harness.hand()
    job, next_one = harness.service.submit("one", hand), harness.service.submit("one", nothing)
    assert next_one.poll().ahead == 2
    job.stop()
    job.stop()
    assert (job.state, job.poll().ahead, next_one.poll().ahead) == ("stopped", 0, 1)
    first.let_go()
    assert ended(next_one) == "done" and not hand.begun.is_set()


def test_a_stopped_running_job_learns_it_when_it_asks(harness: ServiceHarness) -> None:
    job, hand = harness.busy()
    hand.give("a")
    job.stop()
    assert (job.poll().state, job.poll().has_ended) == ("stopping", False)
    hand.give("b", "c")
    assert hand.left.wait(PATIENCE_S) and ended(job) == "stopped"
    job.say("of a thread that outlives its job")
    assert job.note == job.error == "" and job.cancelled()
    job.stop("again")
    assert (job.state, job.note) == ("stopped", "")


def test_a_new_job_takes_the_place_of_the_owners_others(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_queued=2)
    job, hand = harness.busy("one")
    old = harness.service.submit("one", nothing)
    other = harness.service.submit("two", nothing)
    new = harness.service.submit("one", nothing, replace=True)  # where there was no room for one more
    assert (old.state, job.poll().state, other.state) == ("stopped", "stopping", "waiting")
    assert old.poll().note == job.poll().note == "a newer job replaced it"
    assert (other.poll().ahead, new.poll().ahead) == (1, 2)  # it is the other owner's turn
    hand.give("late")
    assert [ended(submitted) for submitted in (job, other, new)] == ["stopped", "done", "done"]


# --- heartbeats -------------------------------------------------------------------------------------------------------
def test_a_job_that_no_page_asks_for_is_stopped(harness: ServiceHarness) -> None:
    job, hand = harness.busy()
    for _ in range(2):
        harness.clock.now += 20  # just in time
        assert job.poll().state == "running"
    harness.clock.now += 21
    hand.give("a")
    assert hand.left.wait(PATIENCE_S) and ended(job) == "stopped"
    assert job.poll().note == "no page asked for it for 21 s"


def test_a_job_whose_page_is_gone_is_stopped_sooner(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(grace_s=5.0)
    open_pages = {"one": True, "two": True}
    first, second = harness.hand(), harness.hand()
    gone = harness.service.submit("one", first, is_there=lambda: open_pages["one"])
    there = harness.service.submit("two", second, is_there=lambda: open_pages["two"])
    assert first.begun.wait(PATIENCE_S)
    open_pages["one"] = False
    harness.clock.now += 4.0
    assert there.poll().ahead == 1 and gone.state == "running"  # a page that is loaded anew is back within that time
    harness.clock.now += 2.0
    assert there.poll().ahead == 1
    first.let_go()
    assert ended(gone) == "stopped" and gone.poll().note == "no page asked for it for 6 s"
    assert second.begun.wait(PATIENCE_S)
    harness.clock.now += 10.0
    assert there.poll().state == "running"


# --- turns ------------------------------------------------------------------------------------------------------------
@given(st.lists(st.sampled_from("abc-"), max_size=25))
def test_jobs_run_in_turns_and_show_their_positions(script: list[str]) -> None:
    """Held against serving the owner who was served longest ago, by comparing all."""
    harness = ServiceHarness(most_queued=99)
    waiting: list[tuple[Job[Any], Hand]] = []
    running: tuple[Job[Any], Hand] | None = None
    turns: list[str] = []
    for letter in script:
        if letter != "-":
            hand = harness.hand()
            waiting.append((harness.service.submit(letter, hand), hand))
        elif running is not None:
            running[1].let_go()
            assert ended(running[0]) == "done"
            running = None
        if running is None and waiting:
            last = {owner: turns[::-1].index(owner) if owner in turns else 99 for owner in "abc"}
            running = max(waiting, key=lambda pair: (last[pair[0].owner], -waiting.index(pair)))
            waiting.remove(running)
            turns.append(running[0].owner)
        assert sorted(job.poll().ahead for job, _ in waiting) == list(range(1, len(waiting) + 1))
        assert all(job.state == "waiting" for job, _ in waiting)
        assert running is None or (running[0].state, running[0].poll().ahead) == ("running", 0)
    harness.clean()


def test_a_closed_service_stops_all_and_ends_its_thread(harness: ServiceHarness) -> None:
    job, hand = harness.busy()
    queued = harness.service.submit("one", nothing)
    harness.service.close(0)
    hand.give("late")
    harness.service.close(PATIENCE_S)
    assert job.thread is not None and not job.thread.is_alive() and queued.thread is None
    assert [ended(job), ended(queued)] == ["stopped"] * 2 and job.note == "the service was closed"
    with pytest.raises(DriftscopeError, match="takes no jobs"):
        harness.service.submit("one", nothing)


# --- limits and failures ----------------------------------------------------------------------------------------------
def test_a_full_queue_refuses_and_silent_waiting_jobs_take_no_room(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_queued=2)
    first, hand = harness.busy()
    silent = harness.hand()
    gone, waiting = harness.service.submit("one", silent), harness.service.submit("two", nothing)
    with pytest.raises(DriftscopeError, match=r"^the queue is full: 2 jobs are waiting, and the limit is 2\. Try"):
        harness.service.submit("three", nothing, replace=True)
    for _ in range(2):
        harness.clock.now += 15
        first.poll()
        waiting.poll()
    third = harness.service.submit("three", nothing)
    assert (gone.state, gone.note, waiting.poll().ahead) == ("stopped", "no page asked for it for 30 s", 1)
    hand.let_go()
    assert [ended(job) for job in (first, waiting, third)] == ["done"] * 3 and not silent.begun.is_set()


@pytest.mark.parametrize("error", [ValueError("two\nlines"), SystemExit(3)])
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_failing_job_harms_no_other(
    harness: ServiceHarness, caplog: pytest.LogCaptureFixture, error: BaseException, is_stopped: bool
) -> None:
    def work(job: Job[Any]) -> None:
        hand(job)
        raise error

    hand = harness.hand()
    job, after = harness.service.submit("one", work), harness.service.submit("one", nothing)
    assert hand.begun.wait(PATIENCE_S)
    if is_stopped:
        job.stop()
    hand.let_go()
    assert (ended(job), ended(after)) == ("stopped" if is_stopped else "failed", "done")
    assert job.error.isprintable() and (type(error).__name__ in job.error) is not is_stopped
    assert [record.levelno for record in caplog.records if record.exc_info] == [logging.ERROR] or is_stopped


def test_nothing_is_lost_when_many_submit_and_poll_at_once(make_harness: Callable[..., ServiceHarness]) -> None:
    harness, barrier = make_harness(most_queued=MANY), threading.Barrier(MANY)

    def page(number: int) -> Any:
        barrier.wait(PATIENCE_S)
        job = harness.service.submit(f"tab {number}", lambda job: number)
        while not job.poll().has_ended:
            time.sleep(0.01)  # as a page that draws itself anew
        return job.result

    with ThreadPoolExecutor(MANY) as pool:
        assert list(pool.map(page, range(MANY))) == list(range(MANY))


def test_a_known_error_keeps_its_line_and_the_job_nothing_of_its_work(
    harness: ServiceHarness, caplog: pytest.LogCaptureFixture
) -> None:
    class Tensor:
        pass

    def outer(job: Job[Any]) -> None:
        tensor = Tensor()
        kept.append(weakref.ref(tensor))
        try:
            raise ValueError("inner")
        except ValueError as error:
            raise DriftscopeError("it does not fit", "Take another") from error

    kept: list[weakref.ref] = []
    job = harness.service.submit("one", outer)
    assert ended(job) == "failed" and job.poll().error == "it does not fit. Take another" and not caplog.records
    assert ended(harness.service.submit("one", nothing)) == "done"  # the worker is past it
    gc.collect()
    assert kept[0]() is None


# --- models -----------------------------------------------------------------------------------------------------------
def test_models_are_loaded_once_and_the_least_recently_used_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[tuple[str, str, str]] = []
    alive: list[int] = []  # of the models made before, when one is loaded
    made: list[weakref.ref] = []

    def load(entry: ModelEntry, device: str, dtype: str) -> Any:
        loads.append((entry.alias, device, dtype))
        alive.append(sum(model() is not None for model in made))
        model = type("Model", (), {})()
        made.append(weakref.ref(model))
        return model

    threads: list[int] = []
    monkeypatch.setattr(loading, "load_model", load)
    monkeypatch.setattr("torch.set_num_threads", threads.append)
    models, (a, b, c) = Models(), [replace(load_registry().entries[0], alias=alias) for alias in "abc"]
    for entry in (a, b, a, c, a, b):
        models.get(entry)
    assert [alias for alias, *_ in loads] == ["a", "b", "c", "b"] and alive == [0, 1, 1, 1]
    assert models.get(b) is models.get(b, "auto", b.dtype)
    models.get(b, "cpu")
    models.get(b, "auto", "bfloat16")
    models.get(replace(b, sha256="0" * 64))
    assert all(1 <= count <= max(1, usable_cores() - 1) for count in threads) and threads  # pages go on answering
    assert loads[4:] == [("b", "cpu", "float32"), ("b", "auto", "bfloat16"), ("b", "auto", "float32")]


def test_models_go_when_no_job_has_come_for_a_while(
    monkeypatch: pytest.MonkeyPatch, make_harness: Callable[..., ServiceHarness]
) -> None:
    made: list[weakref.ref] = []

    def load(entry: ModelEntry, device: str, dtype: str) -> Any:
        model = type("Model", (), {})()
        made.append(weakref.ref(model))
        return model

    def asked(job: Job[None]) -> None:
        job.models.get(load_registry().entries[0])

    monkeypatch.setattr(loading, "load_model", load)
    patient, hasty = make_harness().service, make_harness(idle_s=0.01).service
    for service in (patient, patient, hasty):
        assert ended(service.submit("one", asked)) == "done"
    until = time.monotonic() + PATIENCE_S
    while made[-1]() is not None:
        assert time.monotonic() < until
        time.sleep(0.001)
    assert not hasty.models and len(made) == 2 and made[0]() is not None
    assert ended(hasty.submit("one", asked)) == "done" and len(made) == 3
