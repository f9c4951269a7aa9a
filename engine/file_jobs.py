"""Jobs that each leave one file: in parallel, in order, and only where the file is not there already.

A job's result depends on its payload alone, never on the number of workers or on what ran before. Its file carries a
key, the digest of payload and versions: a file with the same key is kept, one that is damaged is named and made again.
What this module does not know: what the jobs do.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from engine.array_files import Arrays, Meta, read_arrays, write_arrays
from engine.errors import DriftscopeError, FileFormatError
from engine.sandbox import Answer, Sandbox, SandboxError

log = logging.getLogger(__name__)

Make = Callable[[Any], tuple[Meta, Arrays]]


@dataclass(frozen=True, slots=True)
class FileJob:
    """One file to make: ``make`` must be a function that another process can import."""

    path: Path
    make: Make
    payload: Any  # of what JSON can hold
    versions: Mapping[str, str]

    @property
    def key(self) -> str:
        return key_of(f"{self.make.__module__}.{self.make.__qualname__}", self.payload, self.versions)


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A finished file, its meta, and what was wrong with the one that it took the place of."""

    path: Path
    meta: Meta
    was_there: bool
    damage: str = ""


def key_of(what: str, payload: Any, versions: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps([what, payload, dict(versions)], sort_keys=True).encode()).hexdigest()


def run_jobs(jobs: Iterable[FileJob], workers: int) -> Generator[FinishedJob, None, None]:
    """The finished jobs in their order. Jobs are taken from the iterable as they are needed."""
    if workers < 1:
        raise DriftscopeError(f"{workers} workers were asked for", "Ask for one or more")
    finished = (run_job(job) for job in jobs) if workers == 1 else _in_parallel(jobs, workers)
    with closing(finished):  # left to the garbage collector, a Ctrl-C while it waits for workers would be swallowed
        for done in finished:
            if done.damage:
                log.warning("%s: made again", done.damage)
            yield done


def run_job(job: FileJob) -> FinishedJob:
    """Keep the job's file if it is whole and has the job's key; make it else."""
    damage = ""
    if job.path.exists():
        try:
            meta, _ = read_arrays(job.path)
            if meta.get("key") == job.key:
                return FinishedJob(job.path, meta, was_there=True)
        except FileFormatError as error:
            damage = error.what
    made, arrays = job.make(job.payload)
    meta = {**made, "key": job.key}
    write_arrays(job.path, meta, arrays)
    return FinishedJob(job.path, meta, was_there=False, damage=damage)


def _in_parallel(jobs: Iterable[FileJob], workers: int) -> Generator[FinishedJob, None, None]:
    """Hand jobs to workers, a few ahead of the one that is waited for, and yield what is finished in order."""
    pool = [Sandbox(_jobs) for _ in range(workers)]
    idle, queue = SimpleQueue[Sandbox](), iter(jobs)

    def work(job: FileJob) -> FinishedJob:
        worker = idle.get()
        try:
            return FinishedJob(job.path, *worker.ask(job)[0])
        except SandboxError as error:
            what = "a worker process ended before its work was done (killed, or out of memory)"
            fix = "Run the same command again: what is finished is kept. Fewer --workers need less memory"
            raise DriftscopeError(what, fix) from error
        finally:
            idle.put(worker)

    for worker in pool:
        idle.put(worker)
    threads = ThreadPoolExecutor(workers)
    try:
        waiting = deque(threads.submit(work, job) for job in islice(queue, 2 * workers))
        while waiting:
            done = waiting.popleft().result()
            waiting.extend(threads.submit(work, job) for job in islice(queue, 1))
            yield done
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        for worker in pool:  # at once: files are renamed into place
            worker.stop()
        threads.shutdown()
        for worker in pool:
            worker.end()


def _jobs() -> Callable[[FileJob], Answer]:
    def work(job: FileJob) -> Answer:
        done = run_job(job)
        return (done.meta, done.was_there, done.damage), b""

    return work
