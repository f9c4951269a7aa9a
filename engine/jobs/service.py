"""The app's queue: pages submit jobs, which run whole, one at a time, each in a thread of its own; owners take turns.

Torch runs in these threads alone, so that a page answers while a model computes. A job without a heartbeat is stopped,
since a closed tab must not hold the machine; it is looked for at each poll, and before a job is refused.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import logging
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from engine.errors import DriftscopeError, shown
from engine.figures.queue_words import ENDED, QueueState
from engine.models.devices import spare_cores
from engine.models.registry import ModelEntry
from engine.processes import give_back_memory, made_once

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel

log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[["Job[T]"], T]

MOST_MODELS, IDLE_S, EXIT_S = 2, 180.0, 2.0
"""Models that are kept, how long without a job, and how long the end of the process waits for its job. A model of 2.4 M
weights in the layers takes 300 MB with its vocabulary, and a second to load."""


_threads = functools.cache(spare_cores)  # the same for all jobs: their times are compared


class Models:
    """The last used models, so that a second job does not load its model again. A failed load is not kept."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], LoadedModel] = {}  # least recently used first

    def get(self, entry: ModelEntry, device: str = "auto", dtype: str | None = None) -> LoadedModel:
        """For the thread that has its turn; torch may not take all cores there. Loaded again where its tokenizer, or
        where its texts end, was changed."""
        import torch

        from engine.models.loading import load_model
        from engine.models.tags import tokenizer_of

        torch.set_num_threads(_threads())
        how = (entry, device, dtype or entry.dtype)
        key = (*how, tokenizer_of(entry))
        loaded = self._kept.pop(key, None)
        if loaded is None and len(self._kept) >= MOST_MODELS:  # room first: there may be no memory for one more
            del self._kept[next(iter(self._kept))]
            give_back_memory()  # else the check of free memory would count this as taken
        self._kept[key] = loaded = loaded or load_model(*how)
        return loaded

    def __bool__(self) -> bool:
        return bool(self._kept)

    def release(self) -> None:
        """All of them, and what was made of their weights."""
        self._kept.clear()
        give_back_memory()


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job at one moment, for a page."""

    state: QueueState
    ahead: int  # jobs before its turn, the running one too; one of another owner may still come between
    note: str  # what is done now; of a stopped job why, unless its owner stopped it
    error: str  # one line; empty unless failed
    elapsed_s: float

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


class Job(Generic[T]):
    """A job as its owner and its work hold it: safe in any thread, at any time, also after its end."""

    def __init__(self, queue: Service, owner: str, work: Work[T], is_there: Callable[[], bool]) -> None:
        self.owner = owner
        self.is_there = is_there  # whether the owner's page is open
        self.state: QueueState = "waiting"
        self.note = self.error = ""
        self.result: T | None = None  # once it is done
        self.models = queue.models
        self.thread: threading.Thread | None = None  # from its turn on
        self._queue, self._work = queue, work
        self._began: float | None = None  # by the queue's clock
        self._ended: float | None = None
        self.polled = queue.clock()

    # For its owner.
    def poll(self) -> JobSnapshot:
        """The job as it is now. It counts as a heartbeat."""
        with self._queue.lock:
            self._queue.stop_abandoned()
            self.polled = now = self._queue.clock()
            ahead = self._queue.order().index(self) + 1 if self.state == "waiting" else 0
            elapsed_s = 0.0 if self._began is None else (self._ended or now) - self._began
            return JobSnapshot(self.state, ahead, self.note, self.error, elapsed_s)

    def stop(self, note: str = "") -> None:
        """A waiting job never runs; a running one ends when its work asks. ``note`` says why."""
        with self._queue.lock:
            if self.state in ("waiting", "running"):
                self.state, self.note = "stopping", note
                if self.thread is None:
                    self._queue.waiting.remove(self)
                    self._finish()

    # For its work, in its thread.
    def cancelled(self) -> bool:
        with self._queue.lock:
            self._queue.stop_abandoned()
            return self.state == "stopping" or self.state in ENDED

    def go_on(self) -> None:
        """An error where it is cancelled."""
        if self.cancelled():
            raise DriftscopeError("it was stopped")

    def say(self, note: str) -> None:
        """What is done now."""
        with self._queue.lock:
            if not self.cancelled():  # else the reason of its end would be lost
                self.note = note

    # For the queue, with the lock.
    def begin(self) -> None:
        self.state, self._began = "running", self._queue.clock()
        self.thread = threading.Thread(target=self._run, name="driftscope-job", daemon=True)
        self.thread.start()

    def _finish(self, error: str = "") -> None:
        """A job that is being stopped ends as stopped, whatever its work raised."""
        self._ended = self._queue.clock()
        if self.state == "stopping":
            self.state, self.error = "stopped", ""
        else:
            self.state = "failed" if error else "done"
            self.error = error
        del self._work  # and what it holds

    def _run(self) -> None:
        """Whatever it raises ends this job alone."""
        failure = ""
        try:
            if not self.cancelled():
                self.result = self._work(self)
        except DriftscopeError as error:
            failure = str(error)
        except BaseException as error:  # SystemExit too; Ctrl-C goes to another thread
            log.exception("a job failed")
            message = "".join(traceback.format_exception_only(error)).strip()  # works where str(error) fails
            failure = f"the job failed unexpectedly: {shown(message, 200)}. See the app's terminal"
        with self._queue.lock:
            self._finish(failure)
            self._queue.take_next()


class Service:
    """The queue, and who has its turn."""

    def __init__(
        self,
        *,
        most_queued: int = 64,
        heartbeat_s: float = 90.0,
        grace_s: float = 10.0,
        idle_s: float = IDLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A job is stopped ``heartbeat_s`` after its last heartbeat; after ``grace_s`` where its page is closed. Models
        go ``idle_s`` after the last job."""
        self.most_queued, self.heartbeat_s, self.grace_s, self.idle_s = most_queued, heartbeat_s, grace_s, idle_s
        self.clock, self.models = clock, Models()
        self.lock = threading.RLock()
        self.waiting: list[Job[Any]] = []  # as they came
        self._current: Job[Any] | None = None  # the one that has its turn
        self._turns = itertools.count(1)
        self._served: dict[str, int] = {}  # by owner, the last turn
        self._is_closed = False
        self._idle = threading.Timer(idle_s, self._release_models)  # started where no job is left

    def submit(
        self, owner: str, work: Work[T], *, replace: bool = False, is_there: Callable[[], bool] = lambda: True
    ) -> Job[T]:
        """Queues a job; with ``replace`` the owner's other jobs are stopped, unless this one is refused. ``is_there``
        tells, without waiting, whether the owner's page is still open."""
        with self.lock:
            self.stop_abandoned()
            if self._is_closed:
                raise DriftscopeError("this server is shutting down and takes no jobs", "Start the app again")
            count = sum(not (replace and job.owner == owner) for job in self.waiting)
            if count >= self.most_queued:
                problem = f"the queue is full: {count} jobs are waiting, and the limit is {self.most_queued}"
                raise DriftscopeError(problem, "Try again when one of them has ended")
            for other in self._open():
                if replace and other.owner == owner:
                    other.stop("a newer job replaced it")
            job = Job(self, owner, work, is_there)
            self.waiting.append(job)
            if self._current is None:
                self.take_next()
            return job

    @property
    def is_unused(self) -> bool:
        """Whether no job was submitted yet."""
        return not self._served

    def owners(self) -> int:
        """How many have jobs that run or wait."""
        with self.lock:
            return len({job.owner for job in self._open()})

    def close(self, timeout_s: float) -> None:
        """Stops every job, takes no more, and waits for the one that runs."""
        with self.lock:
            self._is_closed, current = True, self._current
            self._idle.cancel()
            for job in self._open():
                job.stop("the service was closed")
        if current is not None and current.thread is not None:
            current.thread.join(timeout_s)

    # What jobs call, with the lock.
    def order(self) -> list[Job[Any]]:
        """Those that wait, in the order of their turns: each owner's first, then each one's second, and so on; the
        owner that was served longest ago first."""
        of_owners: dict[str, list[Job[Any]]] = {}
        for job in sorted(self.waiting, key=lambda job: self._served.get(job.owner, 0)):
            of_owners.setdefault(job.owner, []).append(job)
        return [job for turn in itertools.zip_longest(*of_owners.values()) for job in turn if job is not None]

    def stop_abandoned(self) -> None:
        for job in self._open():
            silent_s = self.clock() - job.polled
            if silent_s > self.heartbeat_s or (silent_s > self.grace_s and not job.is_there()):
                job.stop(f"no page asked for it for {silent_s:.0f} s")

    def take_next(self) -> None:
        self._current = next(iter(self.order()), None)
        self._idle.cancel()
        if self._current is not None:
            self.waiting.remove(self._current)
            self._served[self._current.owner] = next(self._turns)
            self._current.begin()
        elif self.models and not self._is_closed:
            self._idle = threading.Timer(self.idle_s, self._release_models)
            self._idle.daemon = True
            self._idle.start()

    def _release_models(self) -> None:
        with self.lock:
            if self._current is None:
                self.models.release()

    def _open(self) -> list[Job[Any]]:
        return [*([] if self._current is None else [self._current]), *self.waiting]


@made_once()
def service() -> Service:
    made = Service()
    atexit.register(made.close, EXIT_S)  # a thread inside torch may crash a process that ends
    return made
