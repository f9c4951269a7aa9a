"""Files of named arrays, and jobs that each leave one: in parallel, in order, and only where it is not there already.

A file is safetensors in an xz stream, whose own checksum tells damage; the same content gives the same bytes. A job's
result depends on its payload alone, never on the number of workers or on what ran before. Its file carries a key, the
digest of payload and versions: one with the same key is kept, a damaged one is named and made again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import lzma
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from engine.errors import AssetError, DriftscopeError, FileFormatError
from engine.folders import writing
from engine.sandbox import Answer, Pool, SandboxError

log = logging.getLogger(__name__)

Arrays = dict[str, NDArray[Any]]
Meta = dict[str, Any]
META = "meta"
"""The array that has the meta, as bytes of JSON."""
Make = Callable[[Any], tuple[Meta, Arrays]]


def write_arrays(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the file, or leave what was there before. ``AssetError`` where the disk does not take it."""
    write_bytes(path, packed_bytes(meta, arrays))


def packed_bytes(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    said = np.frombuffer(json.dumps(dict(meta), sort_keys=True, allow_nan=False).encode(), np.uint8)
    named = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return lzma.compress(save({**named, META: said}), preset=1)


def read_arrays(path: Path) -> tuple[Meta, Arrays]:
    """What was written, or ``FileFormatError`` that names the file: missing, cut, changed, or of another kind."""
    try:
        arrays = load(lzma.decompress(path.read_bytes()))
        return json.loads(arrays.pop(META).tobytes()), arrays
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror or error}", "Make it again") from error
    except (ValueError, KeyError, lzma.LZMAError, SafetensorError) as error:
        raise FileFormatError(f"{path} is damaged: {error}", "Make it again") from error


def write_bytes(path: Path, content: bytes) -> None:
    """No reader meets half a file, and a full disk leaves nothing behind."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path) as file:
            file.write(content)
    except OSError as error:
        raise AssetError(
            f"{path} cannot be written: {error.strerror or error}", "Look at the folder and the space left there"
        ) from error


# --- jobs ------------------------------------------------------------------------------------------------------------


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
    path: Path
    meta: Meta
    was_there: bool


def key_of(what: str, payload: Any, versions: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps([what, payload, dict(versions)], sort_keys=True).encode()).hexdigest()


def run_jobs(jobs: Iterable[FileJob], workers: int) -> Generator[FinishedJob]:
    """The finished jobs in their order. Jobs are taken from the iterable as they are needed."""
    if workers < 1:
        raise DriftscopeError(f"{workers} workers were asked for", "Ask for one or more")
    return (run_job(job) for job in jobs) if workers == 1 else _in_parallel(jobs, workers)


def run_job(job: FileJob) -> FinishedJob:
    """Keep the job's file if it is whole and has the job's key; make it else."""
    if job.path.exists():
        try:
            meta, _ = read_arrays(job.path)
            if meta.get("key") == job.key:
                return FinishedJob(job.path, meta, was_there=True)
        except FileFormatError as error:
            log.warning("%s: made again", error.what)
    made, arrays = job.make(job.payload)
    meta = {**made, "key": job.key}
    write_arrays(job.path, meta, arrays)
    return FinishedJob(job.path, meta, was_there=False)


def _in_parallel(jobs: Iterable[FileJob], workers: int) -> Generator[FinishedJob]:
    """Hand jobs to workers, a few ahead of the one that is waited for, and yield what is finished in order."""
    queue = iter(jobs)
    with Pool(workers, _jobs) as pool:  # a worker may be stopped at any time: files are renamed into place
        waiting = deque((job.path, pool.submit(job)) for job in islice(queue, 2 * workers))
        while waiting:
            path, future = waiting.popleft()
            try:
                done = future.result()[0]
            except SandboxError as error:
                what = "a worker process ended before its work was done (killed, or out of memory)"
                fix = "Run the same command again: what is finished is kept. Fewer --workers need less memory"
                raise DriftscopeError(what, fix) from error
            waiting.extend((job.path, pool.submit(job)) for job in islice(queue, 1))
            yield FinishedJob(path, *done)


def _jobs() -> Callable[[FileJob], Answer]:
    def work(job: FileJob) -> Answer:
        done = run_job(job)
        return (done.meta, done.was_there), b""

    return work
