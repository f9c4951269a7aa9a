"""The app's queue: pages submit jobs, which run one at a time, each in a thread of its own; owners take turns.

Torch runs in these threads alone, so that a page answers while a model computes. A turn lasts a few seconds where other
owners wait: then the job pauses where it next asks whether it is cancelled, and goes on from there in its next turn.
A job without a heartbeat is stopped: a closed tab must not hold the machine. That needs no timer: it is looked for at
each poll and question, and before a job is refused. One lock guards jobs and queue; work runs without it.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import logging
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from engine.errors import DriftscopeError, shown
from engine.figures.queue_words import ENDED, QueueState
from engine.models.cache import Models
from engine.models.devices import spare_cores

log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[["Job[T]"], T]

TURN_S = 5.0
"""Longest turn of a job while other owners wait."""
ROUND_S = 10.0
"""In which every owner has a turn: with more than two owners, turns are shorter."""
EXIT_S = 2.0
"""How long the end of the process waits for the jobs."""
_MAKING = threading.Lock()


class ServiceError(DriftscopeError):
    """A job that is refused, or failed unexpectedly."""


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    state: QueueState
    ahead: int  # jobs before its next turn, the running one too; 0: running or ended
    note: str  # what is done now; of a stopped job why, unless its owner stopped it
    error: str  # one line; empty unless failed
    elapsed_s: float

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


class Job(Generic[T]):
    """A job as its owner and its work hold it: safe in any thread, at any time, also after its end."""

    def __init__(self, queue: Service, owner: str, work: Work[T], label: str, is_there: Callable[[], bool]) -> None:
        self.owner, self.label = owner, label
        self.is_there = is_there  # whether the owner's page is open
        self.state: QueueState = "waiting"
        self.note = ""
        self.error = ""
        self.result: T | None = None  # once it is done
        self.work: Work[T] | None = work
        self.thread: threading.Thread | None = None  # from its first turn on
        self.paused_s = 0.0  # between its turns
        self._queue = queue
        self._began: float | None = None  # by the queue's clock
        self._ended: float | None = None
        self._polled = queue.clock()

    # For its owner.

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def ahead(self) -> int:
        """As things stand: a later job of another owner may still come between."""
        with self._queue.lock:
            return self._queue.order().index(self) + 1 if self.state == "waiting" else 0

    @property
    def elapsed_s(self) -> float:
        began, ended = self._began, self._ended
        return 0.0 if began is None else (self._queue.clock() if ended is None else ended) - began

    def poll(self) -> JobSnapshot:
        """The job as it is now. It counts as a heartbeat."""
        with self._queue.lock:
            self._queue.stop_abandoned()
            self._polled = self._queue.clock()
            return JobSnapshot(self.state, self.ahead, self.note, self.error, self.elapsed_s)

    def stop(self, note: str = "") -> None:
        """A waiting job never runs; a running one ends when its work asks. ``note`` says why."""
        with self._queue.lock:
            if self.state not in ("waiting", "running"):
                return
            self.state, self.note = "stopping", note
            if self.thread is None:
                self._queue.take_out(self)
                self.finish()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it has ended within that time."""
        with self._queue.changed:
            return self._queue.changed.wait_for(lambda: self.has_ended, timeout_s)

    # For its work, in its thread.

    @property
    def models(self) -> Models:
        return self._queue.models

    def cancelled(self) -> bool:
        """Whether the work should stop. Where other owners wait and the turn is over, they have theirs first."""
        with self._queue.lock:
            if not self.is_stopped() and self.thread is threading.current_thread():
                self.paused_s += self._queue.pass_turn(self)
            return self.is_stopped()

    def is_stopped(self) -> bool:
        """The same, without a pause."""
        with self._queue.lock:
            self._queue.stop_abandoned()
            return self.state == "stopping" or self.has_ended

    def clock(self) -> float:
        """Seconds for differences, without the job's pauses. It is ``time.perf_counter`` where there were none."""
        return time.perf_counter() - self.paused_s

    def say(self, note: str) -> None:
        """What is done now."""
        with self._queue.lock:
            if not self.is_stopped():  # else the reason of its end would be lost
                self.note = note

    # For the queue, with the lock.

    @property
    def silent_s(self) -> float:
        """Since its last heartbeat."""
        return self._queue.clock() - self._polled

    def begin(self) -> None:
        """Its first turn, or the next one."""
        if self.state == "waiting":
            self.state = "running"
        if self.thread is None:
            self._began = self._queue.clock()
            self.thread = threading.Thread(target=self._run, name="driftscope-job", daemon=True)
            self.thread.start()

    def finish(self, error: str = "") -> None:
        """A job that is being stopped ends as stopped, whatever its work raised."""
        self._ended, self.work = self._queue.clock(), None
        self.error = "" if self.state == "stopping" else error
        self.state = "stopped" if self.state == "stopping" else "failed" if error else "done"
        self._queue.changed.notify_all()

    def _run(self) -> None:
        """Whatever it raises ends this job alone."""
        failure = ""
        try:
            self._queue.prepare()
            if self.work is not None and not self.is_stopped():
                self.result = self.work(self)
        except DriftscopeError as error:
            failure = str(error)
        except BaseException as error:  # SystemExit too; Ctrl-C goes to another thread
            log.exception("the job %s failed", shown(self.label))
            message = "".join(traceback.format_exception_only(error)).strip()  # works where str(error) fails
            failure = f"the job failed unexpectedly: {shown(message, 200)}. See the app's terminal"
        with self._queue.lock:
            self.finish(failure)
            self._queue.end_turn()


class Service:
    """The queue, and whose turn it is."""

    def __init__(
        self,
        *,
        most_queued: int = 64,
        heartbeat_s: float = 90.0,
        grace_s: float = 10.0,
        prepare: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A job is stopped ``heartbeat_s`` after its last heartbeat; after ``grace_s`` where its page is closed.

        ``prepare`` is called in each job's thread; without it, torch is kept from taking all cores."""
        self.most_queued, self.heartbeat_s, self.grace_s = most_queued, heartbeat_s, grace_s
        self.prepare, self.clock = prepare or _spare_cores, clock
        self.models = Models()
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._waiting: list[Job[Any]] = []  # as they came; a paused one comes before others of its owner
        self._current: Job[Any] | None = None  # the one whose turn it is
        self._turn_began = 0.0
        self._turns = itertools.count(1)
        self._served: dict[str, int] = {}  # by owner, the last turn
        self._is_closed = False

    def submit(
        self,
        owner: str,
        work: Work[T],
        *,
        label: str = "",
        replace: bool = False,
        is_there: Callable[[], bool] = lambda: True,
    ) -> Job[T]:
        """Queues a job; with ``replace`` the owner's other jobs are stopped.

        ``is_there`` tells whether the owner's page is still open; it must not wait.
        """
        with self.lock:
            self.stop_abandoned()
            self._check_room(owner, replace)
            for other in [job for job in self._open() if replace and job.owner == owner]:
                other.stop("a newer job replaced it")
            job = Job(self, owner, work, label, is_there)
            self._waiting.append(job)
            self._take_next()
            return job

    @property
    def is_unused(self) -> bool:
        """Whether no job was submitted yet."""
        return not self._served

    def owners(self) -> int:
        """How many have jobs that run or wait."""
        with self.lock:
            return len({job.owner for job in self._open()})

    def close(self, timeout_s: float | None = None) -> None:
        """Stops every job, takes no more, and waits for their ends."""
        with self.lock:
            self._is_closed = True
            open_ = self._open()
            for job in open_:
                job.stop("the service was closed")
        until = None if timeout_s is None else time.monotonic() + timeout_s
        for thread in (job.thread for job in open_):
            if thread is not None:
                thread.join(None if until is None else max(0.0, until - time.monotonic()))

    # What jobs call, with the lock.

    def order(self) -> list[Job[Any]]:
        """Those that wait, in the order of their turns: each owner's first, then each one's second, and so on; the
        owner that was served longest ago first. One that is being stopped needs one more turn, to clean up."""
        rounds: Counter[str] = Counter()
        places = {}
        for number, job in enumerate(self._waiting):
            places[job] = (job.state != "stopping", rounds[job.owner], self._served.get(job.owner, 0), number)
            rounds[job.owner] += 1
        return sorted(places, key=lambda job: places[job])

    def stop_abandoned(self) -> None:
        for job in self._open():
            if job.silent_s > self.heartbeat_s or (job.silent_s > self.grace_s and not job.is_there()):
                job.stop(f"no page asked for it for {job.silent_s:.0f} s")

    def take_out(self, job: Job[Any]) -> None:
        self._waiting.remove(job)

    def pass_turn(self, job: Job[Any]) -> float:
        """Where the job's turn is over, waits for its next one; for so many seconds."""
        others = {other.owner for other in self._waiting} - {job.owner}
        is_over = self.clock() - self._turn_began >= min(TURN_S, ROUND_S / (len(others) + 1))
        if job is not self._current or not is_over or not (others or any(j.state == "stopping" for j in self._waiting)):
            return 0.0
        began = time.perf_counter()
        job.state = "waiting"
        self._waiting.insert(0, job)
        self.end_turn()
        self.changed.wait_for(lambda: self._current is job)
        return time.perf_counter() - began

    def end_turn(self) -> None:
        self._current = None
        self._take_next()

    def _take_next(self) -> None:
        """Gives the next job its turn, at once."""
        if self._current is None and self._waiting:
            self._current, self._turn_began = self.order()[0], self.clock()
            self._waiting.remove(self._current)
            self._served[self._current.owner] = next(self._turns)
            self._current.begin()
            self.changed.notify_all()

    def _open(self) -> list[Job[Any]]:
        return [*([] if self._current is None else [self._current]), *self._waiting]

    def _check_room(self, owner: str, replace: bool) -> None:
        """Refuses a job for which there is no room; then nothing is replaced either."""
        if self._is_closed:
            raise ServiceError("this server is shutting down and takes no jobs", "Start the app again")
        count = sum(not (replace and job.owner == owner) for job in self._waiting)
        if count >= self.most_queued:
            what = f"the queue is full: {count} jobs are waiting, and the limit is {self.most_queued}"
            raise ServiceError(what, "Try again when one of them has ended")


def service() -> Service:
    """The process's one service."""
    with _MAKING:  # a cache alone may make two, when two pages come at once
        return _service()


@functools.cache
def _service() -> Service:
    made = Service()
    atexit.register(made.close, EXIT_S)  # a thread inside torch may crash a process that ends
    return made


def _spare_cores() -> None:
    """Holds for the thread that calls it. Importing torch takes seconds, so no page may do it."""
    import torch

    torch.set_num_threads(_threads())


@functools.cache
def _threads() -> int:
    """The same for all jobs, whose times are compared."""
    return spare_cores()
