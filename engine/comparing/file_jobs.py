"""Jobs that each leave one file of arrays: in parallel, in order, and only where it is not there already.

A job's result depends on its payload alone, never on the number of workers or on what ran before. Its file carries a
key, the digest of payload and versions: one with the same key is kept, a damaged one is named and made again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.comparing.array_files import Arrays, Meta, read_arrays, write_arrays
from engine.errors import DriftscopeError, FileError
from engine.sandbox import Answer, Pool, SandboxError

log = logging.getLogger(__name__)

Make = Callable[[Any], tuple[Meta, Arrays]]


@dataclass(frozen=True, slots=True)
class FileJob:
    """One file to make: ``make`` must be a function that another process can import."""

    path: Path
    make: Make
    payload: Any  # of what JSON can hold
    versions: Mapping[str, str]
    needs: tuple[str, ...] = ()  # arrays: a file that lacks one is made again

    @property
    def key(self) -> str:
        return key_of(f"{self.make.__module__}.{self.make.__qualname__}", self.payload, self.versions)


@dataclass(frozen=True, slots=True)
class FinishedJob:
    path: Path
    meta: Meta
    was_there: bool


def key_of(name: str, payload: Any, versions: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps([name, payload, dict(versions)], sort_keys=True).encode()).hexdigest()


def run_jobs(jobs: Iterable[FileJob], workers: int) -> Generator[FinishedJob]:
    """The finished jobs in their order. Jobs are taken from the iterable as they are needed."""
    if workers < 1:
        raise DriftscopeError(f"{workers} workers were asked for", "Ask for one or more")
    return (run_job(job) for job in jobs) if workers == 1 else _in_parallel(jobs, workers)


def run_job(job: FileJob) -> FinishedJob:
    """Keep the job's file if it is whole and has the job's key; make it else."""
    if job.path.exists():
        try:
            meta, arrays = read_arrays(job.path)
            if meta.get("key") == job.key and set(job.needs) <= set(arrays):
                return FinishedJob(job.path, meta, was_there=True)
        except FileError as error:
            log.warning("%s: made again", error.what)
    new_meta, arrays = job.make(job.payload)
    meta = {**new_meta, "key": job.key}
    write_arrays(job.path, meta, arrays)
    return FinishedJob(job.path, meta, was_there=False)


def _in_parallel(jobs: Iterable[FileJob], workers: int) -> Generator[FinishedJob]:
    with Pool(workers, _jobs) as pool:  # a worker may be stopped at any time: files are renamed into place
        for job, future in pool.in_order(jobs, lambda job: (job,)):
            try:
                done = future.result()[0]
            except SandboxError as error:
                problem = "a worker process ended before its work was done (killed, or out of memory)"
                fix = "Run the same command again: what is finished is kept. Fewer --workers need less memory"
                raise DriftscopeError(problem, fix) from error
            yield FinishedJob(job.path, *done)


def _jobs() -> Callable[[FileJob], Answer]:
    def work(job: FileJob) -> Answer:
        done = run_job(job)
        return (done.meta, done.was_there), b""

    return work
