"""The app's queue: what an owner sees of a job and does to it, turns, limits, and what failing work does to others."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DriftscopeError, ModelError
from engine.jobs.service import ROUND_S, TURN_S, Job, Service, ServiceError, service
from engine.processes import usable_cores
from tests.service_harness import PATIENCE_S, Hand, ServiceHarness, ended, nothing
from tests.support import ROOT

MANY = 80


def test_notes_times_and_the_result(harness: ServiceHarness) -> None:
    _, first = harness.busy()
    hand = harness.hand()
    job = harness.service.submit("one", hand, label="seven molecules")
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
    assert (job.elapsed_s, job.result, job.poll().error, job.work) == (3.0, ["x"], "", None)


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_a_stopped_waiting_job_never_runs(harness: ServiceHarness) -> None:
    _, first = harness.busy()
    hand = harness.hand()
    job, next_one = harness.service.submit("one", hand), harness.service.submit("one", nothing)
    assert next_one.ahead == 2
    job.stop()
    job.stop()
    assert (job.state, job.ahead, next_one.ahead) == ("stopped", 0, 1)
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


def test_stopping_after_the_end_changes_nothing(harness: ServiceHarness) -> None:
    job = harness.service.submit("one", nothing)
    assert ended(job) == "done"
    job.stop()
    assert job.poll().state == "done"


def test_what_stopped_work_raises_harms_nobody(harness: ServiceHarness, caplog: pytest.LogCaptureFixture) -> None:
    def stubborn(job: Job[Any]) -> None:
        hand(job)
        raise ValueError("not now")

    hand = harness.hand()
    job = harness.service.submit("one", stubborn)
    assert hand.begun.wait(PATIENCE_S)
    job.stop()
    hand.give(1)
    assert ended(job) == "stopped" and job.error == ""
    assert "not now" in caplog.text
    assert ended(harness.service.submit("one", nothing)) == "done"


def test_a_new_job_takes_the_place_of_the_owners_others(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_queued=2)
    job, hand = harness.busy("one")
    old = harness.service.submit("one", nothing)
    other = harness.service.submit("two", nothing)
    new = harness.service.submit("one", nothing, replace=True)  # where there was no room for one more
    assert (old.state, job.poll().state, other.state) == ("stopped", "stopping", "waiting")
    assert old.poll().note == job.poll().note == "a newer job replaced it"
    assert (other.ahead, new.ahead) == (1, 2)  # it is the other owner's turn
    hand.give("late")
    assert [ended(one) for one in (job, other, new)] == ["stopped", "done", "done"]


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


def test_silent_waiting_jobs_take_no_room_and_do_not_run(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_queued=2)
    first, hand = harness.busy()
    silent = harness.hand()
    gone, waiting = harness.service.submit("one", silent), harness.service.submit("two", nothing)
    harness.clock.now += 15
    first.poll()
    waiting.poll()
    harness.clock.now += 15
    third = harness.service.submit("three", nothing)
    assert (gone.state, gone.note, waiting.ahead) == ("stopped", "no page asked for it for 30 s", 1)
    hand.let_go()
    assert [ended(one) for one in (first, waiting, third)] == ["done"] * 3 and not silent.begun.is_set()


# --- turns ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def paced(make_harness: Callable[..., ServiceHarness]) -> ServiceHarness:
    """The clock runs with the work here, so that silence would count."""
    return make_harness(heartbeat_s=1e6)


def writer(harness: ServiceHarness, log: list[str], name: str, steps: int, step_s: float = 1.0) -> Any:
    """Work of so many steps, each of which takes its time by the clock and is noted in the log."""

    def work(job: Job[Any]) -> None:
        for _ in range(steps):
            if job.cancelled():
                log.append(f"{name} is stopped")
                return
            log.append(name)
            harness.clock.now += step_s

    return work


def turns_of(log: list[str]) -> list[tuple[str, int]]:
    """What ran, and how many steps without a pause."""
    turns: list[tuple[str, int]] = []
    for name in log:
        if turns and turns[-1][0] == name:
            turns[-1] = name, turns[-1][1] + 1
        else:
            turns.append((name, 1))
    return turns


def test_a_long_job_pauses_for_other_owners_and_goes_on_where_it_was(paced: ServiceHarness) -> None:
    log: list[str] = []
    busy, hand = paced.busy("z")
    long = paced.service.submit("a", writer(paced, log, "a", 13))
    then = paced.service.submit("a", writer(paced, log, "A", 1))
    short = paced.service.submit("b", writer(paced, log, "b", 7))
    assert [job.ahead for job in (long, short, then)] == [1, 2, 3]
    hand.let_go()
    assert [ended(job) for job in (busy, short, long, then)] == ["done"] * 4
    assert turns_of(log) == [("a", 5), ("b", 5), ("a", 5), ("b", 2), ("a", 3), ("A", 1)]


def test_without_other_owners_nothing_pauses(paced: ServiceHarness) -> None:
    log: list[str] = []
    busy, hand = paced.busy("a")
    jobs = [paced.service.submit("a", writer(paced, log, name, 20)) for name in "ab"]
    hand.let_go()
    assert [ended(job) for job in (busy, *jobs)] == ["done"] * 3
    assert turns_of(log) == [("a", 20), ("b", 20)]


@pytest.mark.parametrize(("readers", "turn_s"), [(2, TURN_S), (5, ROUND_S / 5), (10, ROUND_S / 10)])
def test_everybody_has_a_turn_within_a_round(paced: ServiceHarness, readers: int, turn_s: float) -> None:
    log: list[str] = []
    busy, hand = paced.busy("busy")
    names = "abcdefghij"[:readers]
    jobs = [paced.service.submit(name, writer(paced, log, name, 40, 0.25)) for name in names]
    hand.let_go()
    assert [ended(job) for job in (busy, *jobs)] == ["done"] * (readers + 1)
    assert turns_of(log)[:readers] == [(name, turn_s / 0.25) for name in names]


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
            running = max(waiting, key=lambda one: (last[one[0].owner], -waiting.index(one)))
            waiting.remove(running)
            turns.append(running[0].owner)
        assert sorted(job.ahead for job, _ in waiting) == list(range(1, len(waiting) + 1))
        assert all(job.state == "waiting" for job, _ in waiting)
        assert running is None or (running[0].state, running[0].ahead) == ("running", 0)
    harness.clean()


def test_a_paused_job_that_is_stopped_cleans_up(paced: ServiceHarness) -> None:
    log: list[str] = []
    _, first = paced.busy("z")
    hand = paced.hand()
    long = paced.service.submit("a", writer(paced, log, "a", 100))
    paced.service.submit("b", hand)
    first.let_go()
    assert hand.begun.wait(PATIENCE_S) and long.state == "waiting"
    long.stop()
    assert (long.poll().state, log[-1]) == ("stopping", "a")
    hand.let_go()
    assert ended(long) == "stopped" and log[-1] == "a is stopped"
    assert paced.service.submit("c", writer(paced, log, "c", 1)).wait(PATIENCE_S)


def test_pauses_are_not_counted_as_work(harness: ServiceHarness) -> None:
    job, hand = harness.busy("a")
    before = job.clock()
    job.paused_s += 1000.0
    assert job.clock() < before - 900.0
    hand.let_go()


def test_a_closed_service_ends_its_paused_jobs_and_its_threads(paced: ServiceHarness) -> None:
    log: list[str] = []
    busy, hand = paced.busy("z")
    jobs = [paced.service.submit(name, writer(paced, log, name, 100)) for name in "abc"]
    last = paced.hand()
    jobs.append(paced.service.submit("d", last))
    hand.let_go()
    assert last.begun.wait(PATIENCE_S)
    queued = paced.service.submit("e", nothing)
    paced.service.close(0)
    last.give("late")
    paced.service.close(PATIENCE_S)
    assert [ended(job) for job in (*jobs, queued, busy)] == ["stopped"] * 5 + ["done"]
    assert jobs[0].note == "the service was closed"
    assert sorted(log[-3:]) == ["a is stopped", "b is stopped", "c is stopped"]
    for job in jobs:
        assert job.thread is not None
        job.thread.join(PATIENCE_S)
        assert not job.thread.is_alive()
    with pytest.raises(ServiceError, match="takes no jobs"):
        paced.service.submit("one", nothing)


# --- limits and failures ----------------------------------------------------------------------------------------------


def test_a_full_queue_refuses_with_the_numbers(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_queued=3)
    job, _ = harness.busy("a")
    for owner in "aab":
        harness.service.submit(owner, nothing)
    with pytest.raises(ServiceError, match=r"^the queue is full: 3 jobs are waiting, and the limit is 3\. Try again"):
        harness.service.submit("c", nothing, replace=True)
    assert job.state == "running" and harness.service.owners() == 2


class NoWordsError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(error: BaseException) -> Callable[[Job[Any]], None]:
    def work(job: Job[Any]) -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\nlines"), r"'ValueError: two\nlines'"),
        (SystemExit(3), "'SystemExit: 3'"),
        (KeyboardInterrupt(), "'KeyboardInterrupt'"),
        (MemoryError(), "'MemoryError'"),
        (NoWordsError(), "NoWordsError: <exception str"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_failing_job_harms_no_other(
    harness: ServiceHarness, caplog: pytest.LogCaptureFixture, error: BaseException, line: str
) -> None:
    job = harness.service.submit("one", raising(error), label="first")
    after = harness.service.submit("one", nothing)
    assert (ended(job), ended(after)) == ("failed", "done")
    seen = job.poll()
    assert seen.error.startswith("the job failed unexpectedly: ") and line in seen.error and seen.error.isprintable()
    [record] = caplog.records
    assert record.levelno == logging.ERROR and record.exc_info and "'first'" in record.message


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


def test_each_job_is_prepared_before_its_work(make_harness: Callable[..., ServiceHarness]) -> None:
    told: list[str] = []

    def prepare() -> None:
        told.append("prepared")
        if len(told) == 1:
            raise ModelError("no torch", "Install it")

    harness = make_harness(prepare=prepare)
    first = harness.service.submit("one", nothing)
    assert ended(first) == "failed" and first.poll().error == "no torch. Install it"
    assert ended(harness.service.submit("one", lambda job: told.append("work"))) == "done"
    assert told == ["prepared", "prepared", "work"]


def at_once(task: Callable[[int], Any]) -> list[Any]:
    """What ``task`` returns in many threads that begin together."""
    barrier = threading.Barrier(MANY)

    def run(number: int) -> Any:
        barrier.wait(PATIENCE_S)
        return task(number)

    with ThreadPoolExecutor(MANY) as pool:
        return list(pool.map(run, range(MANY)))


def test_nothing_is_lost_when_many_submit_and_poll_at_once(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_queued=MANY)

    def page(number: int) -> Any:
        job = harness.service.submit(f"tab {number}", lambda job: number)
        while not job.poll().has_ended:
            job.wait(0.01)  # as a page that draws itself anew
        return job.result

    assert at_once(page) == list(range(MANY))


def test_the_limit_holds_when_many_submit_at_once(make_harness: Callable[..., ServiceHarness]) -> None:
    harness = make_harness(most_queued=50)
    harness.busy()

    def page(number: int) -> int | str:
        try:
            return harness.service.submit(f"tab {number}", nothing).ahead
        except ServiceError as error:
            return str(error)

    answers = at_once(page)
    refused = [answer for answer in answers if isinstance(answer, str)]
    assert sorted(answer for answer in answers if isinstance(answer, int)) == list(range(1, 51))
    assert len(refused) == MANY - 50 and all("50 jobs are waiting, and the limit is 50" in line for line in refused)


def test_a_process_has_one_service() -> None:
    assert len(set(at_once(lambda number: service()))) == 1
    before = threading.active_count()
    Service().close()
    assert threading.active_count() == before


LEAN = """
import sys
from engine.jobs.service import Service
heavy = {"torch", "transformers", "streamlit", "numpy", "tokenizers"} & set(sys.modules)
assert not heavy, heavy
made = Service()
def work(job):
    import torch
    return torch.get_num_threads()
job = made.submit("one", work)
job.wait()
print(job.result)
made.close()
"""


def test_torch_is_imported_by_jobs_alone_and_leaves_cores_free() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAN], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 1 <= int(done.stdout) <= max(1, usable_cores() - 1)
