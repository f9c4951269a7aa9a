"""A service in a test's hands: work that goes on when it is told, and a clock that stands still until it is set."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from engine.figures.queue_words import ENDED
from engine.jobs.service import Job, Service

PATIENCE_S = 60.0  # only where something hangs


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Hand:
    """Work in a test's hands: at each step it asks whether it is cancelled, and it says when it was begun and left."""

    def __init__(self) -> None:
        self.begun, self.left = threading.Event(), threading.Event()
        self.job: Job[Any] | None = None
        self.steps: list[object] = []
        self._given: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def __call__(self, job: Job[Any]) -> list[object]:
        self.job = job
        self.begun.set()
        try:
            while (step := self._given.get(timeout=PATIENCE_S)) is not self and not job.cancelled():
                self.steps.append(step)
        finally:
            self.left.set()
        return self.steps

    def give(self, *steps: object) -> None:
        for step in steps:
            self._given.put(step)

    def let_go(self) -> None:
        self._given.put(self)


class ServiceHarness:
    """A service, its clock, and the hands that hold its work; all of it ends with the test."""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        self.service = Service(**{"clock": self.clock, "heartbeat_s": 20.0, **options})
        self._hands: list[Hand] = []

    def hand(self) -> Hand:
        self._hands.append(Hand())
        return self._hands[-1]

    def busy(self, owner: str = "busy") -> tuple[Job[Any], Hand]:
        """A job that was begun, and that runs until it is let go."""
        hand = self.hand()
        job = self.service.submit(owner, hand)
        assert hand.begun.wait(PATIENCE_S)
        return job, hand

    def clean(self) -> None:
        self.service.close(0)
        for hand in self._hands:
            hand.let_go()
        self.service.close(PATIENCE_S)


def nothing(job: Job[Any]) -> None:
    return None


def awaited(is_so: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.001)


def ended(job: Job[Any]) -> str:
    awaited(lambda: job.state in ENDED)
    return job.state
