"""Owners take turns, with and without threads: held against serving whoever waits longest since it was served."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.service import Job
from engine.service.fair_queue import FairQueue
from tests.service_harness import Hand, ServiceHarness, ended


@given(st.lists(st.sampled_from("abcd-x"), max_size=60))
def test_turns_follow_who_waits_longest_since_it_was_served(script: list[str]) -> None:
    turns = FairQueue[tuple[str, int]]()
    waiting: dict[str, list[tuple[str, int]]] = {}
    since: dict[str, int] = {}  # when an owner joined, or was served last
    for tick, letter in enumerate(script):
        expected = simulated(waiting, since)
        assert turns.order() == expected
        if letter == "-":
            assert turns.take() == (expected[0] if expected else None)
            if expected:
                serve(waiting, since, tick)
        elif letter == "x" and expected:
            gone = expected[tick % len(expected)]
            turns.remove(gone[0], gone)
            waiting[gone[0]].remove(gone)
        elif letter != "x":
            if not waiting.get(letter):
                since[letter] = tick
            waiting.setdefault(letter, []).append((letter, tick))
            turns.add(letter, (letter, tick))


def serve(waiting: dict[str, list], since: dict[str, int], tick: int) -> Any:
    owner = min((owner for owner in waiting if waiting[owner]), key=since.__getitem__)
    since[owner] = tick
    return waiting[owner].pop(0)


def simulated(waiting: dict[str, list], since: dict[str, int]) -> list:
    """Who is served when nobody comes any more."""
    left, stamps = {owner: list(jobs) for owner, jobs in waiting.items()}, dict(since)
    return [serve(left, stamps, 10_000 + turn) for turn in range(sum(map(len, left.values())))]


@given(st.lists(st.sampled_from("abc-"), max_size=25))
def test_jobs_run_in_turns_and_show_their_positions(script: list[str]) -> None:
    harness = ServiceHarness(most_queued=99, most_queued_per_owner=99)
    waiting: dict[str, list[tuple[Job, Hand]]] = {}
    since: dict[str, int] = {}
    running: tuple[Job, Hand] | None = None
    for tick, letter in enumerate(script):
        if letter != "-":
            hand = harness.hand()
            if not waiting.get(letter):
                since[letter] = tick
            waiting.setdefault(letter, []).append((harness.service.submit(letter, hand), hand))
        elif running is not None:
            running[1].let_go()
            assert ended(running[0]) == "done"
            running = None
        if running is None and any(waiting.values()):
            running = serve(waiting, since, tick)
        queued = [job for job, _ in simulated(waiting, since)]
        assert [job.ahead for job in queued] == list(range(1, len(queued) + 1))
        assert all(job.state == "waiting" for job in queued)
        assert running is None or (running[0].state, running[0].ahead) == ("running", 0)
    harness.clean()
