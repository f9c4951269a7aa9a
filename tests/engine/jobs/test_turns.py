"""Turns: long jobs pause for other owners and go on from where they were. The clock is the test's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from engine.jobs.service import Control, Job
from engine.jobs.worker import ROUND_S, TURN_S
from tests.service_harness import PATIENCE_S, ServiceHarness, ended

Writing = Callable[[Control], Iterator[str]]


@pytest.fixture
def harness(make_harness: Callable[..., ServiceHarness]) -> ServiceHarness:
    """The clock runs with the work here, so that silence would count."""
    return make_harness(heartbeat_s=1e6)


def writer(harness: ServiceHarness, log: list[str], name: str, steps: int, step_s: float = 1.0) -> Writing:
    """Work of so many steps, each of which takes its time by the clock and is noted in the log."""

    def work(control: Control) -> Iterator[str]:
        for step in range(steps):
            if control.cancelled():
                log.append(f"{name} is stopped")
                return
            log.append(name)
            harness.clock.now += step_s
            yield f"{name}{step}"

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


def test_a_long_job_pauses_for_other_owners_and_goes_on_where_it_was(harness: ServiceHarness) -> None:
    log: list[str] = []
    busy, hand = harness.busy("z")
    long = harness.service.submit("a", writer(harness, log, "a", 13))
    then = harness.service.submit("a", writer(harness, log, "A", 1))
    short = harness.service.submit("b", writer(harness, log, "b", 7))
    assert [job.ahead for job in (long, short, then)] == [1, 2, 3]
    hand.let_go()
    assert [ended(job) for job in (busy, short, long, then)] == ["done"] * 4
    assert turns_of(log) == [("a", 5), ("b", 5), ("a", 5), ("b", 2), ("a", 3), ("A", 1)]
    assert list(long.events()) == [f"a{step}" for step in range(13)]


def test_without_other_owners_nothing_pauses(harness: ServiceHarness) -> None:
    log: list[str] = []
    busy, hand = harness.busy("a")
    jobs = [harness.service.submit("a", writer(harness, log, name, 20)) for name in "ab"]
    hand.let_go()
    assert [ended(job) for job in (busy, *jobs)] == ["done"] * 3
    assert turns_of(log) == [("a", 20), ("b", 20)]


@pytest.mark.parametrize(("readers", "turn_s"), [(2, TURN_S), (5, ROUND_S / 5), (10, ROUND_S / 10)])
def test_everybody_has_a_turn_within_a_round(harness: ServiceHarness, readers: int, turn_s: float) -> None:
    log: list[str] = []
    busy, hand = harness.busy("busy")
    names = "abcdefghij"[:readers]
    jobs = [harness.service.submit(name, writer(harness, log, name, 40, 0.25)) for name in names]
    hand.let_go()
    assert [ended(job) for job in (busy, *jobs)] == ["done"] * (readers + 1)
    assert turns_of(log)[:readers] == [(name, turn_s / 0.25) for name in names]


def test_who_comes_during_a_turn_is_next_and_the_number_ahead_is_true(harness: ServiceHarness) -> None:
    first, second, late = harness.hand(), harness.hand(), harness.hand()
    asked: list[str] = []

    def asking(name: str, hand: Writing) -> Writing:
        def work(control: Control) -> Iterator[str]:
            for event in hand(control):
                control.cancelled()
                asked.append(name)
                yield event

        return work

    def step(job: Job, hand: object) -> None:
        """Has a job that runs write one thing more."""
        known = job.poll().next_index
        hand.give("x")  # type: ignore[attr-defined]
        events = job.events()
        for _ in range(known + 1):
            next(events)

    one = harness.service.submit("one", asking("one", first))
    two = harness.service.submit("two", asking("two", second))
    assert first.begun.wait(PATIENCE_S)
    step(one, first)
    harness.clock.now += TURN_S
    three = harness.service.submit("three", asking("three", late))
    assert [job.poll().ahead for job in (one, two, three)] == [0, 1, 2]
    first.give("x")  # its turn is over
    assert second.begun.wait(PATIENCE_S)
    seen = one.poll()
    assert (seen.state, seen.ahead) == ("waiting", 2) and one.is_paused
    assert [job.poll().ahead for job in (two, three)] == [0, 1]
    assert asked == ["one"]
    second.let_go()
    assert late.begun.wait(PATIENCE_S) and one.poll().ahead == 1
    late.let_go()
    first.let_go()
    assert [ended(job) for job in (two, three, one)] == ["done"] * 3
    assert one.poll().events == ("x", "x") and one.started_at == 1000.0


def test_a_paused_job_that_is_stopped_cleans_up_and_takes_no_more(harness: ServiceHarness) -> None:
    log: list[str] = []
    _, first = harness.busy("z")
    hand = harness.hand()
    long = harness.service.submit("a", writer(harness, log, "a", 100))
    harness.service.submit("b", hand)
    first.let_go()
    assert hand.begun.wait(PATIENCE_S) and long.is_paused
    long.stop()
    assert (long.poll().state, log[-1]) == ("stopping", "a")
    hand.let_go()
    assert ended(long) == "stopped" and log[-1] == "a is stopped"
    assert harness.service.submit("c", writer(harness, log, "c", 1)).wait(PATIENCE_S)


def test_pauses_are_not_counted_as_work(harness: ServiceHarness) -> None:
    job, hand = harness.busy("a")
    control = hand.control
    assert control is not None
    before = control.clock()
    job.paused_s += 1000.0
    assert control.clock() < before - 900.0
    hand.let_go()


def test_a_closed_service_ends_its_paused_jobs_and_its_threads(harness: ServiceHarness) -> None:
    log: list[str] = []
    of_others = {*threading.enumerate()}
    busy, hand = harness.busy("z")
    jobs = [harness.service.submit(name, writer(harness, log, name, 100)) for name in "abc"]
    last = harness.hand()
    jobs.append(harness.service.submit("d", last))
    hand.let_go()
    assert last.begun.wait(PATIENCE_S)
    assert [job.is_paused for job in jobs] == [True, True, True, False]
    threads = [thread for thread in {*threading.enumerate()} - of_others if thread.name == "driftscope-worker"]
    assert len(threads) >= 4
    harness.service.close(0)
    last.let_go()
    harness.service.close(PATIENCE_S)
    assert [job.state for job in (*jobs, busy)] == ["stopped"] * 4 + ["done"]
    assert sorted(log[-3:]) == ["a is stopped", "b is stopped", "c is stopped"]
    assert not any(thread.is_alive() for thread in threads)
