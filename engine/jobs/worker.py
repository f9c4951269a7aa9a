"""The service: a fair and bounded queue, and the turns in which its jobs run, one at a time.

A turn lasts a few seconds where other owners wait. Then the job pauses where it next asks whether it is cancelled, and
goes on from there in its next turn: its thread waits meanwhile, and another thread runs the next job. A single owner's
jobs run in one thread.

A job without a heartbeat is stopped: a closed tab must not hold the machine. No timer is needed for that, since
abandoned jobs are looked for wherever they could delay others: before a job's work begins, at each of its events and
questions, at every poll, and before a job is refused. One lock guards jobs and queue; work runs without it.
What this module does not know: what jobs do, and what their events mean.
"""

from __future__ import annotations

import functools
import itertools
import logging
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, TypeVar

from engine.errors import DriftscopeError, shown
from engine.jobs.fair_queue import FairQueue
from engine.jobs.job import Control, Job, Work
from engine.models.cache import Models
from engine.models.devices import spare_cores

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_EVENTS = 1_000_000
TURN_S = 5.0
"""Longest turn of a job while other owners wait."""
ROUND_S = 10.0
"""In which every owner has a turn: with more than two owners, turns are shorter."""
KEPT, KEPT_OF_AN_OWNER = 64, 4
"""Ended jobs that can still be found."""


class ServiceError(DriftscopeError):
    """A job that is refused, grew too large, or failed unexpectedly."""


class Service:
    """The worker, whose first thread starts with the first job, and the queue before it."""

    def __init__(
        self,
        *,
        most_queued: int = 64,
        most_queued_per_owner: int = 4,
        heartbeat_s: float = 90.0,
        grace_s: float = 10.0,
        most_events: int = MOST_EVENTS,
        threads: int | None = None,
        prepare: Callable[[], None] | None = None,
        models: Models | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A job is stopped ``heartbeat_s`` after its last heartbeat; after ``grace_s`` where its page is closed.

        ``prepare`` is called once in each of the worker's threads; without it, torch gets ``threads`` of the cores."""
        self.most_queued = most_queued
        self.most_queued_per_owner = most_queued_per_owner
        self.heartbeat_s = heartbeat_s
        self.grace_s = grace_s
        self.most_events = most_events
        self.models = models or Models()
        self.clock = clock
        self.lock = threading.RLock()
        self._prepare = prepare or functools.partial(_limit_threads, threads)
        self._prepared = threading.local()
        self._wake = threading.Condition(self.lock)
        self._threads: set[threading.Thread] = set()  # they hold paused jobs, one runs, one at most is idle
        self._idle = 0
        self._closed = False
        self._current: Job[Any] | None = None  # the one whose turn it is
        self._turn_began = 0.0
        self._queue = FairQueue[Job[Any]]()
        self._leaving = deque[Job[Any]]()  # paused and then stopped: they take one more turn, to clean up
        self._is_busy_with_chore = False
        self._chores: dict[str, Callable[[Models], object]] = {}  # to be done, by name
        self._done_chores: set[str] = set()
        self._jobs: dict[str, Job[Any]] = {}  # those that have ended in the order of their ends
        self._numbers = itertools.count(1)

    def submit(
        self,
        owner: str,
        work: Work[T],
        *,
        label: str = "",
        total: int | None = None,
        replace: bool = False,
        is_there: Callable[[], bool] = lambda: True,
    ) -> Job[T]:
        """Queues a job. With ``replace`` it takes the owner's turn, and the owner's other jobs are stopped.

        ``is_there`` tells whether the owner's page is still open; it must not wait.
        """
        with self.lock:
            self.stop_abandoned()
            self._check_room(owner, replace)
            others = [job for job in self._open() if replace and job.owner == owner]
            job = Job(self, owner, work, label, total, next(self._numbers), is_there)
            self._jobs[job.id] = job
            self._queue.add(owner, job)
            for other in others:
                self.stop(other, "a newer job replaced it")
            self._take_next()
            return job

    def wake(self, name: str, chore: Callable[[Models], object]) -> None:
        """Has the worker do something before the first job, such as imports that jobs need, while it is idle.

        Once for a name. Jobs go first; one that comes meanwhile waits. A chore that fails is only logged.
        """
        with self.lock:
            if self._closed or name in self._done_chores:
                return
            self._done_chores.add(name)
            self._chores[name] = chore
            self._call_thread()

    def jobs(self, owner: str) -> list[Job[Any]]:
        """An owner's jobs, newest first: the open ones, and the last few ended ones."""
        with self.lock:
            jobs = [job for job in self._jobs.values() if job.owner == owner]
        return sorted(jobs, key=lambda job: job.number, reverse=True)

    def owners(self) -> int:
        """How many have jobs that run or wait."""
        with self.lock:
            return len({job.owner for job in self._open()})

    def find(self, job_id: str, owner: str) -> Job[Any] | None:
        """A job of this owner; None for another owner's, and for a forgotten one."""
        with self.lock:
            job = self._jobs.get(job_id)
        return job if job is not None and job.owner == owner else None

    def close(self, timeout_s: float | None = None) -> None:
        """Stops every job, takes no more, and waits for the worker to end."""
        with self.lock:
            self._closed = True
            for job in self._open():
                self.stop(job, "the service was closed")
            self._wake.notify_all()
            threads = self._threads - {threading.current_thread()}
        until = None if timeout_s is None else time.monotonic() + timeout_s
        for thread in threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))

    # What jobs and controls call.

    def ahead(self, job: Job[Any]) -> int:
        with self.lock:
            return self._queue.order().index(job) + 1 if job.state == "waiting" else 0

    def stop(self, job: Job[Any], note: str = "") -> None:
        with self.lock:
            if job.has_ended or job.state == "stopping":
                return
            was_waiting, was_paused = job.state == "waiting", job.is_paused
            job.begin_stop(note)
            if was_waiting:
                self._queue.remove(job.owner, job)
            if was_paused:
                self._leaving.append(job)
            elif was_waiting:
                self._end(job)

    def stop_abandoned(self) -> None:
        with self.lock:
            for job in self._open():
                seconds = job.unpolled_s()
                if seconds > self.heartbeat_s or (seconds > self.grace_s and not job.is_there()):
                    self.stop(job, f"no page asked for it for {seconds:.0f} s")

    def is_stopped(self, job: Job[Any]) -> bool:
        with self.lock:
            self.stop_abandoned()
            return job.state == "stopping" or job.has_ended

    def pass_turn(self, job: Job[Any]) -> None:
        """Called by a job's work: where its turn is over, it returns in the job's next turn."""
        with self.lock:
            self.stop_abandoned()
            if job is not self._current or job.thread != threading.get_ident() or not self._is_turn_over(job):
                return
            if job.state == "stopping":  # it is about to end, and needs no turn for that
                return
            began = time.perf_counter()
            job.pause()
            self._queue.put_back(job.owner, job)
            self._current = None
            self._take_next()
            self._wake.wait_for(lambda: self._current is job)
            job.paused_s += time.perf_counter() - began

    # The queue; all of it is called with the lock.

    def _is_turn_over(self, job: Job[Any]) -> bool:
        others = self._queue.owners_besides(job.owner)
        turn_s = min(TURN_S, ROUND_S / (others + 1))
        return bool(others or self._leaving) and self.clock() - self._turn_began >= turn_s

    def _open(self) -> list[Job[Any]]:
        return [*([] if self._current is None else [self._current]), *self._queue.order()]

    def _check_room(self, owner: str, replace: bool) -> None:
        """Refuses a job for which there is no room; then nothing is replaced either."""
        if self._closed:
            raise ServiceError("the worker has ended and takes no jobs", "Start the app again")
        owners = Counter(job.owner for job in self._queue.order())
        if replace:
            del owners[owner]
        if owners[owner] >= self.most_queued_per_owner:
            raise ServiceError(
                f"{owners[owner]} of your jobs are waiting, and the limit is {self.most_queued_per_owner}",
                "Wait until one of them has ended, or stop one",
            )
        if owners.total() >= self.most_queued:
            raise ServiceError(
                f"the queue is full: {owners.total()} jobs are waiting, and the limit is {self.most_queued}",
                "Try again when one of them has ended",
            )

    def _take_next(self) -> None:
        """Gives the next job its turn, at once: no job waits while the worker is idle."""
        if self._current is not None:
            return
        job = self._leaving.popleft() if self._leaving else self._queue.take()
        if job is None:
            return
        self._current, self._turn_began = job, self.clock()
        if job.state == "waiting":
            job.begin()
        if job.thread is None:
            self._call_thread()
        self._wake.notify_all()

    def _end(self, job: Job[Any], error: DriftscopeError | None = None) -> None:
        """Ended jobs are kept: some, a few per owner, with no more events in all than one job may have."""
        job.finish(error)
        self._jobs[job.id] = self._jobs.pop(job.id)
        owners: Counter[str] = Counter()
        events = 0
        for ended in [job for job in reversed(self._jobs.values()) if job.has_ended]:
            is_full = owners.total() >= KEPT or owners[ended.owner] >= KEPT_OF_AN_OWNER
            if is_full or events + ended.event_count > self.most_events:
                del self._jobs[ended.id]
            else:
                owners[ended.owner] += 1
                events += ended.event_count

    # The worker.

    def _call_thread(self) -> None:
        """Has a thread take what is to be begun."""
        if self._idle or self._is_busy_with_chore or (self._current is not None and self._current.thread is not None):
            self._wake.notify_all()
            return
        thread = threading.Thread(target=self._work, name="driftscope-worker", daemon=True)
        self._threads.add(thread)
        self._idle += 1
        thread.start()

    def _work(self) -> None:
        while self._run_next():
            pass

    def _to_begin(self) -> Job[Any] | None:
        job = self._current
        return job if job is not None and job.thread is None else None

    def _run_next(self) -> bool:
        """Waits for a job to begin, or a chore where no job runs; False when this thread is no longer needed."""
        with self.lock:
            self._wake.wait_for(lambda: self._to_begin() or self._closed or (self._chores and self._current is None))
            self._idle -= 1
            job = self._to_begin()
            chore = self._chores.popitem() if job is None and self._chores and not self._closed else None
            if job is not None:
                job.thread = threading.get_ident()
            self._is_busy_with_chore = chore is not None
            if job is None and chore is None:
                return False
        if chore is not None:
            try:
                self._get_ready()
                chore[1](self.models)
            except Exception:  # whatever it is, the job that needs it will say so
                log.warning("the chore %s failed", chore[0], exc_info=True)
        error = None if job is None else self._failure(job)
        with self.lock:
            self._is_busy_with_chore = False
            if job is not None:
                self._current = None
                self._end(job, error)
                self._take_next()
            return self._stay()

    def _stay(self) -> bool:
        """Whether this thread waits for what comes next: one that is idle is enough."""
        if self._idle and not self._closed:
            self._threads.discard(threading.current_thread())
            return False
        self._idle += 1
        return True

    def _get_ready(self) -> None:
        if not hasattr(self._prepared, "done"):
            self._prepare()
            self._prepared.done = True

    def _failure(self, job: Job[Any]) -> DriftscopeError | None:
        """Runs a job. Whatever it raises ends this job alone."""
        try:
            self._run(job)
        except DriftscopeError as error:
            error.__cause__ = error.__context__ = None  # frames would keep a model's tensors as long as the job is kept
            return error.with_traceback(None)
        except BaseException as error:  # SystemExit too; Ctrl-C goes to another thread
            log.exception("the job %s failed", shown(job.label))
            message = "".join(traceback.format_exception_only(error)).strip()  # works where str(error) fails
            return ServiceError(f"the job failed unexpectedly: {shown(message, 200)}", "See the app's terminal")
        return None

    def _run(self, job: Job[Any]) -> None:
        self._get_ready()
        work = job.work
        if work is None or self.is_stopped(job):
            return
        events = iter(work(Control(self, job)))
        try:
            for event in events:
                if not self._add_event(job, event):
                    break
        finally:
            if (close := getattr(events, "close", None)) is not None:
                close()

    def _add_event(self, job: Job[Any], event: Any) -> bool:
        """Whether the job continues; if not, the event is dropped."""
        with self.lock:
            if self.is_stopped(job):
                return False
            if job.event_count >= self.most_events:
                raise ServiceError(
                    f"the job has more than {self.most_events:,} events", "Ask for fewer or smaller molecules at a time"
                )
            job.add_event(event)
            return True


def _limit_threads(threads: int | None) -> None:
    """Holds for the thread that calls it. Importing torch takes seconds, so no page may do it."""
    import torch

    torch.set_num_threads(threads or spare_cores())
