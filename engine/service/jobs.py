"""A job: what its owner sees of it and may ask for, what its work may use, and what the worker notes down on it.

Every job shares the lock of its service. Events are kept in their order, and read by index, so that a page that is
drawn anew at any moment misses none. What this module does not know: what events are, and whose turn it is.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from engine.errors import DriftscopeError

if TYPE_CHECKING:
    from engine.service.worker import Service

T = TypeVar("T")
Work = Callable[["Control"], Iterable[T]]
State = Literal["queued", "running", "done", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is, in whatever its work counts."""

    done: int = 0
    total: int | None = None  # None: not known
    note: str = ""  # of a cancelled job: why, unless its owner did it


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[T]):
    """A job at one moment."""

    state: State
    cancelling: bool  # it runs still, and ends as soon as its work lets go
    position: int  # 1: next; 0: running or ended
    progress: Progress
    events: tuple[T, ...]  # from the index on that was asked for
    next_index: int  # what to ask for the next time
    error: str  # one line; empty unless failed
    elapsed_s: float

    @property
    def ended(self) -> bool:
        return has_ended(self.state)

    @property
    def ahead(self) -> int:
        """Jobs before it as things stand. It is the position: nothing waits unless another job runs."""
        return self.position


class Job(Generic[T]):
    """A job as its owner holds it: safe in any thread, at any time, also after its end."""

    def __init__(
        self,
        service: Service,
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
        self.state: State = "queued"
        self.cancelling = False
        self.progress = Progress(total=total)
        self.error: DriftscopeError | None = None
        self.started_at: float | None = None  # by the service's clock
        self.ended_at: float | None = None
        self.work: Work[T] | None = work
        self._service = service
        self._events: list[T] = []
        self._seen_at = service.clock()
        self._watchers = 0
        self._news = threading.Condition(service.lock)

    @property
    def ended(self) -> bool:
        return has_ended(self.state)

    @property
    def position(self) -> int:
        """1: next; 0: running or ended."""
        return self._service.position(self)

    @property
    def ahead(self) -> int:
        """Jobs before it as things stand; a later one of another owner may still come between."""
        return self.position

    @property
    def elapsed_s(self) -> float:
        """Seconds that it has run."""
        with self._service.lock:
            if self.started_at is None:
                return 0.0
            return (self._service.clock() if self.ended_at is None else self.ended_at) - self.started_at

    def poll(self, after: int = 0) -> Snapshot[T]:
        """The job as it is now, with its events from index ``after`` on. It is a sign of life."""
        with self._service.lock:
            self._service.cancel_silent()
            self.beat()
            return Snapshot(
                state=self.state,
                cancelling=self.cancelling and not self.ended,
                position=self.position,
                progress=self.progress,
                events=tuple(self._events[max(after, 0) :]),
                next_index=len(self._events),
                error="" if self.error is None else str(self.error),
                elapsed_s=self.elapsed_s,
            )

    def beat(self) -> None:
        """Somebody still wants it."""
        self._seen_at = self._service.clock()

    def cancel(self) -> None:
        """A queued job never runs; a running one takes no more events, and ends when its work lets go."""
        self._service.cancel(self)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it has ended within that time. Waiting is a sign of life."""
        with self._watched(), self._news:
            return self._news.wait_for(lambda: self.ended, timeout_s)

    def events(self) -> Iterator[T]:
        """All events as they come, until the end; then the error, if it failed. A job that is read lives."""
        index = 0
        with self._watched():
            while batch := self._more(index):
                yield from batch
                index += len(batch)
        if self.error is not None:
            raise self.error.with_traceback(None)

    def _more(self, index: int) -> list[T]:
        """Waits for events from ``index`` on; none when there will be no more."""
        with self._news:
            self._news.wait_for(lambda: len(self._events) > index or self.ended)
            return self._events[index:]

    @contextmanager
    def _watched(self) -> Iterator[None]:
        with self._service.lock:
            self._watchers += 1
        try:
            yield
        finally:
            with self._service.lock:
                self._watchers -= 1
                self.beat()

    # What the worker calls, with the lock.

    @property
    def kept(self) -> int:
        """How many events it has."""
        return len(self._events)

    def silence_s(self) -> float:
        return 0.0 if self._watchers else self._service.clock() - self._seen_at

    def begin(self) -> None:
        self.state = "running"
        self.started_at = self._service.clock()

    def keep(self, event: T) -> None:
        self._events.append(event)
        self._news.notify_all()

    def stop(self, note: str) -> None:
        """It is not wanted any more, and this is why."""
        self.cancelling = True
        self.progress = replace(self.progress, note=note or self.progress.note)

    def finish(self, error: DriftscopeError | None = None) -> None:
        """What was cancelled is cancelled, whatever its work made of that."""
        self.ended_at = self._service.clock()
        self.error = None if self.cancelling else error
        self.work = None  # and what it holds
        self.state = "cancelled" if self.cancelling else "done" if error is None else "failed"
        self._news.notify_all()


class Control:
    """What a job's work may use, in the worker's thread."""

    def __init__(self, service: Service, job: Job[Any]) -> None:
        self.models = service.models
        self._service = service
        self._job = job

    def cancelled(self) -> bool:
        """Whether the work should stop. Work that takes long between two events asks for it."""
        return self._service.unwanted(self._job)

    def progress(self, done: int, total: int | None = None, note: str = "") -> None:
        """Without ``total``, the one that was given before stays."""
        with self._service.lock:
            if not self.cancelled():  # else the reason of its end would be lost
                known = self._job.progress.total if total is None else total
                self._job.progress = Progress(done, known, note)


def has_ended(state: State) -> bool:
    return state not in ("queued", "running")
