"""Owners take turns, with and without threads: held against serving whoever waits longest since its turn ended."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.jobs.fair_queue import FairQueue
from engine.jobs.service import Job
from tests.service_harness import Hand, ServiceHarness, ended


class SlowQueue:
    """Serves the owner that waits longest since it came or since its turn ended, by comparing all."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Any]] = {}
        self.since: dict[str, int] = {}  # when an owner came, or began its last turn
        self.served = ""
        self.tick = 0

    def add(self, owner: str, job: Any, *, first: bool = False) -> None:
        self.tick += 1
        if not self.waiting.get(owner):
            self.since[owner] = self.tick
        self.waiting.setdefault(owner, []).insert(0 if first else len(self.waiting[owner]), job)

    def take(self) -> Any:
        self.tick += 1
        owners = [owner for owner in self.waiting if self.waiting[owner]]
        if not owners:
            return None
        owner = min(owners, key=lambda owner: (owner == self.served, self.since[owner]))
        if self.served in self.since:
            self.since[self.served] = self.tick
        self.tick += 1
        self.since[owner], self.served = self.tick, owner
        return self.waiting[owner].pop(0)

    def order(self) -> list[Any]:
        """What is served when nobody comes any more."""
        copy = SlowQueue()
        copy.waiting = {owner: list(jobs) for owner, jobs in self.waiting.items()}
        copy.since, copy.served, copy.tick = dict(self.since), self.served, self.tick
        return [copy.take() for _ in range(sum(map(len, copy.waiting.values())))]


@given(st.lists(st.sampled_from("abcd-x<"), max_size=60))
def test_turns_follow_who_waits_longest_since_its_turn_ended(script: list[str]) -> None:
    turns, slow = FairQueue[tuple[str, int]](), SlowQueue()
    running: tuple[str, int] | None = None
    for tick, letter in enumerate(script):
        expected = slow.order()
        assert turns.order() == expected
        if letter == "-":
            running = turns.take()
            assert running == slow.take() == (expected[0] if expected else None)
        elif letter == "<" and running is not None:  # a turn is over, and the job is not
            turns.put_back(running[0], running)
            slow.add(running[0], running, first=True)
            running = None
        elif letter == "x" and expected:
            gone = expected[tick % len(expected)]
            turns.remove(gone[0], gone)
            slow.waiting[gone[0]].remove(gone)
        elif letter in "abcd":
            slow.add(letter, (letter, tick))
            turns.add(letter, (letter, tick))
        assert turns.owners_besides("a") == sum(bool(slow.waiting.get(owner)) for owner in "bcd")


@given(st.lists(st.sampled_from("abc-"), max_size=25))
def test_jobs_run_in_turns_and_show_their_positions(script: list[str]) -> None:
    harness, slow = ServiceHarness(most_queued=99, most_queued_per_owner=99), SlowQueue()
    running: tuple[Job, Hand] | None = None
    for letter in script:
        if letter != "-":
            hand = harness.hand()
            slow.add(letter, (harness.service.submit(letter, hand), hand))
        elif running is not None:
            running[1].let_go()
            assert ended(running[0]) == "done"
            running = None
        if running is None:
            running = slow.take()
        queued = [job for job, _ in slow.order()]
        assert [job.ahead for job in queued] == list(range(1, len(queued) + 1))
        assert all(job.state == "waiting" for job in queued)
        assert running is None or (running[0].state, running[0].ahead) == ("running", 0)
    harness.clean()
