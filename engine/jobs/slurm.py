"""What Slurm says of the user's jobs, by ``squeue``: it also answers on clusters without accounting, where ``sacct``,
which submitit asks, fails. A job's comment is the run that it writes."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from dataclasses import replace

from engine.errors import RunError
from engine.store.files import Files
from engine.store.staging import Unfinished, unfinished_runs

ASK_EACH_S, ANSWER_S = 10.0, 5.0
PURGED = "PURGED"  # some minutes after its end Slurm forgets a job
ENDED = frozenset(
    {*"BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT".split(), PURGED}
)


def slurm_jobs() -> dict[str, tuple[str, str]] | None:
    """State and comment of this user's jobs, by id. None where there is no Slurm, or it does not answer."""
    which = ["--states=all", "--array", f"--user={os.getuid()}"]
    command = ["squeue", "--noheader", *which, "--format=%i|%T|%k"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=True).stdout
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    rows = [line.split("|", 2) for line in answer.splitlines() if line.count("|") >= 2]
    return {id_: (state, comment) for id_, state, comment in rows}


class KeptAnswer:
    """What Slurm said last, or that it did not answer, for ``ASK_EACH_S``: pages look every 2 s, in each tab."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, tuple[str, str]] | None = None
        self._next_s = 0.0

    def jobs(self) -> dict[str, tuple[str, str]] | None:
        with self._lock:
            if time.monotonic() >= self._next_s:
                self._jobs = slurm_jobs()
                self._next_s = time.monotonic() + ASK_EACH_S
            return self._jobs


KEPT = KeptAnswer()


def check_not_queued(run_id: str) -> None:
    """An error where Slurm has tasks of the run that may still write it. It is asked anew."""
    jobs = slurm_jobs() or {}
    ids = [id_ for id_, (state, comment) in jobs.items() if comment == run_id and state not in ENDED]
    if ids:
        arrays = dict.fromkeys(id_.partition("_")[0] for id_ in ids)
        raise RunError(f"Slurm has tasks of {run_id} in its queue", f"Wait for them, or `scancel {' '.join(arrays)}`")


def listed_unfinished(files: Files) -> list[Unfinished]:
    """The store's unfinished runs. One that no process writes, but of which Slurm has tasks, is queued: as Slurm said
    within the last ``ASK_EACH_S``."""
    runs = unfinished_runs(files)
    stopped = {run.run_id for run in runs if run.state == "stopped"}
    jobs = KEPT.jobs() if stopped else None
    queued = stopped.intersection(run_id for state, run_id in (jobs or {}).values() if state not in ENDED)
    return [replace(run, state="queued") if run.run_id in queued else run for run in runs]


class QueueWatcher:
    """Tells submitit's jobs their states, in place of its own one: the last ones, where Slurm does not answer."""

    def __init__(self) -> None:
        self._answer = KeptAnswer()
        self._jobs: dict[str, tuple[str, str]] | None = None

    def register_job(self, job_id: str) -> None:
        self._answer = KeptAnswer()  # the last one does not have it

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        jobs = self._answer.jobs()
        self._jobs = self._jobs if jobs is None else jobs
        return "UNKNOWN" if self._jobs is None else self._jobs.get(job_id, (PURGED,))[0]

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        return self.get_state(job_id) in ENDED
