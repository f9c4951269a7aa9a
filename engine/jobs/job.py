"""A job: what its owner sees of it and may ask for, what its work may use, and what the worker notes down on it.

Every job shares the lock of its service. Events are kept in their order, and read by index, so that a page that is
redrawn at any moment misses none. What this module does not know: what events are, and which job comes next.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from engine.errors import DriftscopeError
from engine.figures.queue_words import ENDED, QueueState
from engine.models.cache import Models

T = TypeVar("T")
Work = Callable[["Control"], Iterable[T]]


class JobHost(Protocol):
    """What a job needs of the service that runs it."""

    lock: threading.RLock
    clock: Callable[[], float]
    models: Models

    def ahead(self, job: Job[Any]) -> int: ...

    def stop(self, job: Job[Any]) -> None: ...

    def stop_abandoned(self) -> None: ...

    def is_stopped(self, job: Job[Any]) -> bool: ...

    def pass_turn(self, job: Job[Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is, in whatever its work counts."""

    done: int = 0
    total: int | None = None  # None: not known
    note: str = ""  # of a stopped job: why, unless its owner stopped it


@dataclass(frozen=True, slots=True)
class JobSnapshot(Generic[T]):
    state: QueueState
    ahead: int  # jobs before its next turn, the running one too; 0: running or ended
    progress: JobProgress
    events: tuple[T, ...]  # from the index on that was asked for
    next_index: int  # what to ask for the next time
    error: str  # one line; empty unless failed
    elapsed_s: float

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


class Job(Generic[T]):
    """A job as its owner holds it: safe in any thread, at any time, also after its end."""

    def __init__(
        self,
        host: JobHost,
        owner: str,
        work: Work[T],
        label: str,
        total: int | None,
        number: int,
        is_there: Callable[[], bool] = lambda: True,
    ) -> None:
        self.id = secrets.token_urlsafe(16)
        self.number = number  # later jobs have higher ones
        self.owner = owner
        self.is_there = is_there  # whether the owner's page is open
        self.label = label
        self.state: QueueState = "waiting"
        self.progress = JobProgress(total=total)
        self.error: DriftscopeError | None = None
        self.started_at: float | None = None  # by the service's clock
        self.ended_at: float | None = None
        self.paused_s = 0.0  # between its turns
        self.thread: int | None = None  # that its work runs in
        self.work: Work[T] | None = work
        self._host = host
        self._events: list[T] = []
        self._polled_at = host.clock()
        self._readers = 0
        self._changed = threading.Condition(host.lock)

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def ahead(self) -> int:
        """Jobs before its next turn as things stand, the running one too; a later one of another owner may still come
        between."""
        return self._host.ahead(self)

    @property
    def elapsed_s(self) -> float:
        with self._host.lock:
            if self.started_at is None:
                return 0.0
            return (self._host.clock() if self.ended_at is None else self.ended_at) - self.started_at

    def poll(self, after: int = 0) -> JobSnapshot[T]:
        """The job as it is now, with its events from index ``after`` on. It counts as a heartbeat."""
        with self._host.lock:
            self._host.stop_abandoned()
            self.beat()
            return JobSnapshot(
                state=self.state,
                ahead=self.ahead,
                progress=self.progress,
                events=tuple(self._events[max(after, 0) :]),
                next_index=len(self._events),
                error="" if self.error is None else str(self.error),
                elapsed_s=self.elapsed_s,
            )

    def beat(self) -> None:
        """The heartbeat: the owner still needs the job."""
        self._polled_at = self._host.clock()

    def stop(self) -> None:
        """A waiting job never runs; a running one takes no more events, and ends when its work returns."""
        self._host.stop(self)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it has ended within that time. Waiting counts as a heartbeat."""
        with self._reading(), self._changed:
            return self._changed.wait_for(lambda: self.has_ended, timeout_s)

    def events(self) -> Iterator[T]:
        """All events as they come, until the end; then the error, if it failed. Reading counts as a heartbeat."""
        index = 0
        with self._reading():
            while batch := self._next_events(index):
                yield from batch
                index += len(batch)
        if self.error is not None:
            raise self.error.with_traceback(None)

    def _next_events(self, index: int) -> list[T]:
        """Waits for events from ``index`` on; none when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._events) > index or self.has_ended)
            return self._events[index:]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._host.lock:
            self._readers += 1
        try:
            yield
        finally:
            with self._host.lock:
                self._readers -= 1
                self.beat()

    # What the worker calls, with the lock.

    @property
    def event_count(self) -> int:
        return len(self._events)

    def unpolled_s(self) -> float:
        """Seconds since the last heartbeat."""
        return 0.0 if self._readers else self._host.clock() - self._polled_at

    @property
    def is_paused(self) -> bool:
        """Whether it was begun and waits for its next turn."""
        return self.state == "waiting" and self.started_at is not None

    def begin(self) -> None:
        """Its first turn, or the next one."""
        self.state = "running"
        if self.started_at is None:
            self.started_at = self._host.clock()

    def pause(self) -> None:
        self.state = "waiting"

    def add_event(self, event: T) -> None:
        self._events.append(event)
        self._changed.notify_all()

    def begin_stop(self, note: str) -> None:
        """From here on it takes no event; ``note`` says why."""
        self.state = "stopping"
        self.progress = replace(self.progress, note=note or self.progress.note)

    def finish(self, error: DriftscopeError | None = None) -> None:
        """A job that is being stopped ends as stopped, whatever its work raised."""
        self.ended_at = self._host.clock()
        is_stopped = self.state == "stopping"
        self.error = None if is_stopped else error
        self.work = None  # and what it holds
        self.state = "stopped" if is_stopped else "done" if error is None else "failed"
        self._changed.notify_all()


class Control:
    """What a job's work may use, in the worker's thread."""

    def __init__(self, host: JobHost, job: Job[Any]) -> None:
        self.models = host.models
        self._host = host
        self._job = job

    def cancelled(self) -> bool:
        """Whether the work should stop. Work that takes long between two events asks for it.

        Where other owners wait and the turn is over, they have theirs before this returns."""
        self._host.pass_turn(self._job)
        return self.is_stopped()

    def is_stopped(self) -> bool:
        """The same, without a pause."""
        return self._host.is_stopped(self._job)

    def clock(self) -> float:
        """Seconds for differences, without the job's pauses. It is ``time.perf_counter`` where there were none."""
        return time.perf_counter() - self._job.paused_s

    def progress(self, done: int, total: int | None = None, note: str = "") -> None:
        """Without ``total``, the one that was given before stays."""
        with self._host.lock:
            if not self.is_stopped():  # else the reason of its end would be lost
                known = self._job.progress.total if total is None else total
                self._job.progress = JobProgress(done, known, note)
