"""A run written by the tasks of a cluster, through ``submitit``: each writes its share, the last one publishes the run.

A task finds all it needs in the run's staging folder, so the store, the checkpoint and this checkout have to be visible
on the cluster's machines. A task that reaches its time limit or is pre-empted is queued again and resumes; the groups
of a killed task are left to ``run --resume``. What this module does not know: molecules and models.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from engine.errors import DriftscopeError, RunError, StoreError, one_line, shown
from engine.jobs.run import Run, RunState, molecules_of, resume
from engine.models.devices import usable_cores
from engine.models.loading import load_model
from engine.store.files import ASIDE, Files
from engine.store.schema import RUN
from engine.store.staging import Staging
from engine.store.store import files_at

log = logging.getLogger(__name__)

Kind = Literal["local", "debug", "slurm", "h100", "a100"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Processes of this machine, this process itself, Slurm, and Slurm with that GPU."""
GPUS = ("h100", "a100")
LOGS = "submitted"
"""The folder beside the runs with the tasks' output."""
SLURM_MINUTES, LOCAL_MINUTES = 240, 60 * 24 * 365
POLL_S, LOG_S = 1.0, 30.0
_OPTION = re.compile(r"[a-z][a-z-]*")
_RAISED = re.compile(r"engine\.errors\.\w+: (.+)")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where tasks run, and the resources of each."""

    kind: Kind = "local"
    tasks: int = 1
    partition: str = ""
    minutes: int | None = None
    gpus: int | None = None  # per task; None: one if there are any
    threads: int | None = None  # per task
    more: Mapping[str, str] = field(default_factory=dict)  # other options of sbatch

    def __post_init__(self) -> None:
        if not self.is_slurm and (self.partition or self.more):
            raise RunError(f"--submit {self.kind} has no partition", "Leave out what is for Slurm, or submit there")
        for name, value in {"partition": self.partition or "any", **self.more}.items():
            if not _OPTION.fullmatch(name) or not value or not value.isprintable():
                raise RunError(f"sbatch has no option {shown(f'{name}={value}')}", "Give for example account=chem")

    @property
    def is_slurm(self) -> bool:
        return self.kind not in ("local", "debug")

    def gpus_a_task(self, device: str = "auto") -> int:
        if self.gpus is not None or device == "cpu":
            return self.gpus or 0
        return 1 if self.kind in GPUS or (not self.is_slurm and _gpus_here()) else 0

    def for_slurm(self, device: str) -> dict[str, Any]:
        """As submitit's parameters."""
        parameters: dict[str, Any] = {"job_name": "driftscope", "time": self.minutes or SLURM_MINUTES}
        if gpus := self.gpus_a_task(device):
            parameters["gres"] = ":".join(["gpu", *([self.kind] if self.kind in GPUS else []), str(gpus)])
        if self.partition:
            parameters["partition"] = self.partition
        if self.threads:
            parameters["cpus_per_task"] = self.threads
        return {**parameters, "array_parallelism": self.tasks, "additional_parameters": dict(self.more)}


@dataclass(frozen=True, slots=True)
class ClusterTask:
    """One task: a run, and the groups that it writes."""

    kind: Kind | Literal["ray"]
    place: str
    run_id: str
    rank: int
    groups: tuple[int, ...]
    device: str
    threads: int | None = None

    def __call__(self) -> bool:
        """Writes its groups that are left; whether the run is in the store now. Ray's are published by who waits."""
        if self.kind not in ("debug", "ray"):
            logging.basicConfig(format="%(asctime)s %(message)s")
            log.setLevel(logging.INFO)
        if self.kind == "local":  # so that `kill` ends it
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            return self._write()
        except (RunError, StoreError, OSError):
            if not Staging(files_at(self.place), RUN, self.run_id, {}).is_shown:  # else another task was faster
                raise
            return True

    def checkpoint(self) -> Any:
        """What submitit queues again when the task is pre-empted: the task itself, which resumes."""
        return _submitit().helpers.DelayedSubmission(self)

    def _write(self) -> bool:
        staging, plan = resume(files_at(self.place), self.run_id)
        if self.threads:
            import torch

            torch.set_num_threads(self.threads)
        loaded = load_model(plan.model.entry(), self.device, plan.model.dtype, plan.model.attention)
        run = Run(staging, loaded, molecules_of(staging), plan, rank=self.rank)
        logged_s = 0.0
        for now in run.progress(groups=self.groups):
            if now.seconds - logged_s >= LOG_S:
                logged_s = now.seconds
                log.info("%d samples here, %.0f %% of the run: %s", now.written, now.work * 100, now.words(0.0))
        staging.release()
        return self.kind != "ray" and run.publish_if_whole()


@dataclass(slots=True)
class Submitted:
    """The tasks of a run. Those of a debug cluster run here, while they are waited for."""

    run_id: str
    cluster: Cluster
    tasks: Sequence[ClusterTask]
    jobs: Sequence[Any]  # submitit's, of other processes
    logs: Path
    files: Files
    raised: list[str] = field(default_factory=list)  # by tasks of this process

    @property
    def ids(self) -> list[str]:
        return [str(job.job_id) for job in self.jobs]

    @property
    def cancel(self) -> str:
        """The command that ends all tasks."""
        ids = dict.fromkeys(id_.partition("_")[0] for id_ in self.ids)  # an array's tasks have a common number
        return " ".join(["scancel" if self.cluster.is_slurm else "kill", *ids]) if ids else ""

    def wait(self) -> Iterator[int]:
        """The number of written groups, once per second, until all tasks have ended."""
        for task in self.tasks if self.cluster.kind == "debug" else ():
            try:
                task()
            except (DriftscopeError, OSError, RuntimeError, MemoryError) as error:  # the other tasks go on
                self.raised.append(f"task {task.rank}: {reason_of(str(error) or type(error).__name__)}")
            yield self._written()
        while not all(job.done() for job in self.jobs):
            yield self._written()
            time.sleep(POLL_S)

    def problems(self) -> list[str]:
        """The errors of failed tasks, one line each."""
        problems = [*self.raised]
        for job in self.jobs:
            if not job.paths.result_pickle.exists():
                problems.append(f"task {job.job_id} ended without a message ({job.state.lower()})")
            elif (error := job.exception()) is not None:
                problems.append(f"task {job.job_id}: {reason_of(str(error) or type(error).__name__)}")
        return problems

    def finish(self, state: RunState, note: Callable[[str], None]) -> Iterator[tuple[int, int]]:
        """Waits until the run is in the store; yields how many of its groups are written. An error has the reason of
        the first task that failed."""
        try:
            for written in self.wait():
                yield written, len(state.groups)
            is_shown = state.publish_if_whole()
        except KeyboardInterrupt:
            if self.cancel:
                note(f"the tasks of {self.run_id} keep running; `{self.cancel}` ends them")
            raise
        if not is_shown:
            problem = next(iter(self.problems()), "no task gave a reason")
            how = f"See {self.logs}; `python -m engine run --resume {self.run_id}`"
            raise RunError(f"{self.run_id} is unfinished: {problem}", how)

    def _written(self) -> int:
        return sum(name.startswith("group-") for name in self.files.sizes(f"{ASIDE}/{self.run_id}"))


def reason_of(trace: str) -> str:
    """Of an error that came with its traceback as text: our own line, else the first one."""
    lines = [line for line in trace.splitlines() if line.strip()]
    return one_line([*lines[:1], *_RAISED.findall(trace)][-1])


def minutes_of(text: str | None) -> int | None:
    """``90``, or ``01:30:00``."""
    if text is None:
        return None
    match = re.fullmatch(r"(?:(\d{1,5}):([0-5]\d):([0-5]\d))|(\d{1,6})", text, re.ASCII)
    hours, minutes, seconds, only = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    if total := only + 60 * hours + minutes + (seconds > 0):
        return total
    raise RunError(f"{shown(text)} is not a time", "Give minutes, such as 90, or 01:30:00")


def check(cluster: Cluster) -> None:
    """An error where this cluster cannot be reached; called before a run is created."""
    _submitit()
    missing = [name for name in ("sbatch", "srun") if cluster.is_slurm and not shutil.which(name)]
    if missing:
        raise RunError(
            f"{missing[0]} is not installed here, so there is no Slurm", "Submit from a login node, or --submit local"
        )


def submit(state: RunState, cluster: Cluster, logs: Path | None = None) -> Submitted:
    """Submits the groups that are left. The tasks keep running when this process ends."""
    staging, device, left = state.staging, state.plan.model.device, state.left()
    if logs is None:  # on the disk of the store, which is shared where tasks run on other machines
        logs = staging.files.root / LOGS / staging.id
    threads = cluster.threads
    if cluster.kind == "local" and not threads:
        threads = max(1, usable_cores() // cluster.tasks)
    tasks = [
        ClusterTask(cluster.kind, staging.files.where, staging.id, rank, groups, device, threads)
        for rank, groups in enumerate(shares(left, cluster.tasks, set(range(len(state.groups))) - set(left)))
    ]
    try:
        jobs = _jobs(tasks, cluster, device, logs) if tasks else []
    except (RuntimeError, OSError) as error:
        reason = one_line(str(error)).rstrip(".") or type(error).__name__
        raise RunError(f"{cluster.kind} refused the tasks: {reason}", f"Resume with --resume {staging.id}") from error
    return Submitted(staging.id, cluster, tasks, jobs, logs, staging.files)


def shares(left: Sequence[int], tasks: int, finished: Collection[int] = ()) -> list[tuple[int, ...]]:
    """Every n-th group for each task. The first also gets the finished ones, to check some of their samples."""
    parts = [tuple(left[rank::tasks]) for rank in range(min(tasks, len(left)))]
    return [(*sorted(finished), *parts[0]), *parts[1:]] if parts else []


def _jobs(tasks: Sequence[ClusterTask], cluster: Cluster, device: str, folder: Path) -> list[Any]:
    submitit = _submitit()
    if cluster.kind == "debug":
        return []
    if cluster.kind == "local":
        return list(_local_jobs(tasks, cluster, device, submitit.LocalExecutor(folder)))
    executor = submitit.SlurmExecutor(folder)
    executor.update_parameters(**cluster.for_slurm(device))
    with contextlib.redirect_stderr(io.StringIO()):  # it prints its error there, too
        return list(executor.submit_array(tasks))


def _local_jobs(tasks: Sequence[ClusterTask], cluster: Cluster, device: str, executor: Any) -> Iterator[Any]:
    """They ignore Ctrl-C, which a terminal sends to all of its processes."""
    count, gpus = cluster.gpus_a_task(device), _gpus_here()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with muted_output(1, 2):  # else a reader of this process's output would wait for the tasks
            for task in tasks:
                own = [gpus[(task.rank * count + place) % len(gpus)] for place in range(count if gpus else 0)]
                minutes = cluster.minutes or LOCAL_MINUTES
                executor.update_parameters(timeout_min=minutes, gpus_per_node=len(own), visible_gpus=own)
                yield executor.submit(task)
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def muted_output(*numbers: int) -> Iterator[None]:
    """Output to these descriptors (1, 2), of native code and of child processes too, is discarded."""
    with contextlib.ExitStack() as stack:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, nowhere)
        for number in numbers:
            kept = os.dup(number)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, number)
            os.dup2(nowhere, number)
        yield


def _gpus_here() -> list[int]:
    """The numbers of this machine's CUDA devices, as ``CUDA_VISIBLE_DEVICES`` counts them."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return list(map(int, named)) if all(map(str.isdigit, named)) else list(range(torch.cuda.device_count()))


def _submitit() -> Any:
    try:
        import submitit
    except ImportError as error:
        raise RunError("--submit needs submitit, which is not installed", "Install it: pip install submitit") from error
    logging.getLogger("submitit").setLevel(logging.CRITICAL)  # it logs to standard output
    return submitit
