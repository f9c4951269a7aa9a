"""Runs one after the other, written by this process or by tasks elsewhere: processes of this machine or of Slurm,
through ``submitit``, or a Ray cluster's.

A task finds all it needs in the run's staging folder; store, checkpoint and this checkout are visible where it runs.
One that is pre-empted, at its time limit, or loses its Ray worker, begins again and resumes; the groups of a killed
one are left to ``run --resume``. Whoever writes the last group publishes the run.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from engine.errors import DriftscopeError, RunError, StoreError, one_line, shown
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.progress import PartProgress
from engine.jobs.run import Run, RunState, begin, molecules_of, resume
from engine.jobs.slurm import QueueWatcher, check_not_queued
from engine.models.devices import usable_cores
from engine.models.loading import load_model, load_outline
from engine.records import SPELLED, Molecule
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.staging import Staging
from engine.store.store import Store, files_at
from engine.user_files import keep_private

log = logging.getLogger(__name__)

Kind = Literal["local", "debug", "slurm", "h100", "a100", "ray"]
"""Processes of this machine, this process itself, Slurm, Slurm with that GPU, and Ray."""
GPUS, LOGS = ("h100", "a100"), "submitted"  # the folder next to the runs with the tasks' output
SLURM_MINUTES, LOCAL_MINUTES = 240, 60 * 24 * 365
WARNING_S, RESTARTS = 90, 10**6
"""How long before its time limit a Slurm task is queued again, and how often: as long as it saves something."""
POLL_S, CONNECT_S, LOG_EACH = 1.0, 10.0, 100
RETRIED, TRIES = (OSError, RuntimeError, StoreError), 3
"""Errors after which Ray tries again, as after a death: they may be temporary, such as a full GPU."""
STORE_BYTES = 2**27  # of Ray's object store; what a task returns is small
WITHOUT = {
    "rmsd_references": "no set of reference conformers",
    "judge": "molecules not judged",
    "strain": "strain not measured",
    "bos": "no begin token before the prompt",
}
"""In words, what a run does whose plan has nothing for a setting."""
_RAISED = re.compile(r"engine\.errors\.\w+: (.+)")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where tasks run, and the resources of each."""

    kind: Kind = "local"
    tasks: int | None = None  # None: one; with Ray one per GPU, else one per machine
    partition: str = ""
    minutes: int | None = None
    gpus: int | None = None  # per task; None: one if there are any
    threads: int | None = None  # per task
    address: str = ""  # of the Ray cluster; default: ``RAY_ADDRESS``, else this machine alone
    more: Mapping[str, str] = field(default_factory=dict)  # other options of sbatch

    @property
    def is_slurm(self) -> bool:
        return self.kind == "slurm" or self.kind in GPUS

    def gpus_a_task(self, device: str = "auto") -> int:
        if self.gpus is not None or device == "cpu":
            return self.gpus or 0
        return 1 if self.kind in GPUS or (not self.is_slurm and _gpus_here()) else 0

    def for_slurm(self, device: str) -> dict[str, Any]:
        """As submitit's parameters."""
        gpus, minutes = self.gpus_a_task(device), self.minutes or SLURM_MINUTES
        parameters = {
            "job_name": "driftscope",
            "time": minutes,
            "signal_delay_s": min(WARNING_S, 15 * minutes),
            "gres": gpus and ":".join(["gpu", *([self.kind] if self.kind in GPUS else []), str(gpus)]),
            "partition": self.partition,
            "cpus_per_task": self.threads,
            "array_parallelism": self.tasks or 1,
            "additional_parameters": {"requeue": True, **self.more},  # also where a cluster's default is not to
        }
        return {name: value for name, value in parameters.items() if value}


@dataclass(frozen=True, slots=True)
class ClusterTask:
    """One task: a run, and the groups that it writes."""

    kind: Kind
    location: str
    run_id: str
    rank: int
    groups: tuple[int, ...]
    device: str
    threads: int | None = None
    saved: int = 0  # groups when it was queued again, and how often it was without a further one
    idle: int = 0

    def __call__(self) -> None:
        """Writes its groups that are left, and publishes the run if these were the last ones."""
        keep_private()
        if self.kind not in ("debug", "ray"):
            logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
        if self.kind == "local":  # so that `kill` ends it
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with _or_shown(Staging(files_at(self.location), RUN, self.run_id, {})):
            staging, plan = resume(files_at(self.location), self.run_id)
            import torch

            torch.set_num_threads(self.threads or min(torch.get_num_threads(), usable_cores()))
            loaded = load_model(plan.model.entry(), self.device, plan.model.dtype, plan.model.attention)
            run = Run(staging, loaded, molecules_of(staging), plan, rank=self.rank)
            for now in run.progress(groups=self.groups):
                if now.written % LOG_EACH == 0:
                    log.info("%d samples here, %.0f %% of the run: %s", now.written, now.work * 100, now.words())
            staging.release()
            run.finished = staging.groups()
            if not run.left():
                run.publish()

    def checkpoint(self) -> Any:
        """What submitit queues again when the task has to go: the task itself, which resumes. An error where it would
        go on so forever."""
        staging = Staging(files_at(self.location), RUN, self.run_id, {})
        names = staging.files.sizes(staging.folder)
        saved = sum(name.startswith(f"group-{self.rank:04d}-") for name in names)
        idle = 0 if saved > self.saved else self.idle + 1
        if idle == TRIES:
            problem = f"task {self.rank} was stopped {TRIES} times in a row before it saved anything"
            raise RunError(problem, "Give it more time, or a smaller --group")
        return _needed("submitit").helpers.DelayedSubmission(replace(self, saved=saved, idle=idle))


class TaskRun(RunState):
    """A run that tasks write. Iterate over ``progress``; then ``publish`` it. Or only ``submit`` them."""

    def __init__(self, staging: Staging, molecules: Sequence[Molecule], plan: RunPlan, cluster: Cluster) -> None:
        super().__init__(staging, molecules, plan)
        self.cluster = cluster
        self.logs = staging.files.folder_within(f"{LOGS}/{staging.id}")  # a disk that all tasks share
        self.jobs: list[Any] | None = None  # each has done() and exception()

    @property
    def ids(self) -> list[str]:
        return [str(job.job_id) for job in self.jobs or () if hasattr(job, "job_id")]

    @property
    def cancel(self) -> str:
        """The command that ends tasks which keep running when this process ends."""
        ids = dict.fromkeys(id_.partition("_")[0] for id_ in self.ids)  # an array's tasks have a common number
        return " ".join(["scancel" if self.cluster.is_slurm else "kill", *ids]) if ids else ""

    def submit(self, logs: Path | None = None) -> None:
        """Hands out the groups that are left. Where there are none, the last writer could not publish the run."""
        self.logs = logs or self.logs
        cluster = self.cluster
        device = self.plan.model.device
        left = self.left()
        count, threads = cluster.tasks or 1, cluster.threads
        if cluster.kind == "local" and not threads:
            threads = max(1, usable_cores() // count)
        if cluster.kind == "ray" and not cluster.gpus and device == "auto":
            device = "cpu"
        tasks = [
            ClusterTask(cluster.kind, self.staging.files.where, self.staging.id, rank, groups, device, threads)
            for rank, groups in enumerate(shares(left, count, set(range(len(self.groups))) - set(left)))
        ]
        try:
            self.jobs = _jobs(tasks, cluster, device, self.logs) if tasks else []
        except (RuntimeError, OSError) as error:
            reason = one_line(str(error)).rstrip(".") or type(error).__name__
            problem = f"{'Slurm' if cluster.is_slurm else cluster.kind} refused the tasks: {reason}"
            raise RunError(problem, f"Resume with --resume {self.staging.id}") from error
        if not tasks:
            self.publish()

    def progress(self) -> Iterator[PartProgress]:
        """After every group that the tasks write, until they have ended."""
        if self.jobs is None:
            self.submit()
        if self.finished:
            yield self.now()
        while True:
            has_ended = all(job.done() for job in self.jobs or ())
            yield from self._taken()
            if has_ended:
                break
            time.sleep(POLL_S)
        self.notes += self.staging.notes().get("notes", [])

    def publish(self) -> Entry:
        """An error has the reason of the first task that failed."""
        try:
            with _or_shown(self.staging):
                super().publish()
        except (RunError, StoreError, OSError) as error:
            reason = next(filter(None, map(problem_of, self.jobs or ())), str(error))
            fix = f"See {self.logs}; `python -m engine run --resume {self.staging.id}`"
            raise RunError(f"{self.staging.id} is unfinished: {reason}", fix) from error
        return Store(self.staging.files).entry(self.staging.id)

    def _taken(self) -> Iterator[PartProgress]:
        """Groups that were written since."""
        names = self.staging.files.sizes(self.staging.folder)
        if sum(name.startswith("group-") for name in names) > len(self.finished):
            finished = {group.name for group in self.finished}
            for group in self.staging.groups():
                if group.name not in finished:
                    self._finish(group)
                    self._written_here += len(group.members)
                    yield self.now()


def begun(
    files: Files,
    cluster: Cluster | None,
    molecules: Sequence[Molecule],
    plans: Sequence[RunPlan],
    url: str | None = None,
) -> Iterator[Run | TaskRun]:
    """Each when the one before is in the store, or submitted. Plans of one model are next to each other: it is loaded
    once. Its outline is enough where tasks compute. ``url``: of the server, where one writes."""
    loaded_for: tuple[ModelChoice, bool] | None = None
    for plan in plans:
        chosen = plan.model
        is_outline = plan.plan.backend == "server" and not plan.scores
        if loaded_for != (chosen, is_outline):
            loaded_for = chosen, is_outline
            if cluster:
                loaded = load_outline(chosen.entry(), chosen.dtype, chosen.attention)
            else:
                loaded = chosen.load(plan.plan, url, scores=plan.scores)
        parts, on_gpu = (1, None) if cluster is None else (cluster.tasks or 1, cluster.gpus_a_task(chosen.device) > 0)
        staging = begin(files, loaded, molecules, plan, parts=parts, on_gpu=on_gpu)
        saved = RunPlan.read(staging.sheet["plan"])
        yield Run(staging, loaded, molecules, saved) if cluster is None else TaskRun(staging, molecules, saved, cluster)


def resumed(
    files: Files, cluster: Cluster | None, run_id: str, device: str = "auto", url: str | None = None
) -> Run | TaskRun:
    """``device``: another than it began on; ``url``: of the server, which no run keeps. What it had to assume is in
    its notes."""
    staging, plan = resume(files, run_id)
    if staging.is_being_written:
        raise RunError(f"{staging.id} is being written by another process", "Wait for it, or stop it")
    check_not_queued(staging.id)
    notes = [f"group {name} is damaged: its samples are written again" for name in staging.drop_damaged()]
    notes += _differences(staging, plan)
    if notes:
        staging.write_note(0, notes=notes)
    if device != "auto":
        plan = replace(plan, model=replace(plan.model, device=device))
    if cluster is not None:
        run: Run | TaskRun = TaskRun(staging, molecules_of(staging), plan, cluster)
    else:
        staging.lock()
        try:
            loaded = plan.model.load(plan.plan, url, scores=plan.scores)
        except DriftscopeError:
            staging.release()  # it can be resumed at once, such as with the server's address
            raise
        run = Run(staging, loaded, molecules_of(staging), plan)
    run.notes += notes
    return run


def _differences(staging: Staging, plan: RunPlan) -> Iterator[str]:
    """In what the rest of a run that is resumed may differ from its beginning, a sentence each."""
    if assumed := plan.assumed(staging.sheet["plan"]):
        named = {name: f"{name.replace('_', ' ')} {value}" for name, value in assumed.items() if value}
        if descriptors := assumed.get("descriptors"):
            named["descriptors"] = f"descriptors {SPELLED[descriptors]}"
        missing = {name: WITHOUT.get(name, f"no {name.replace('_', ' ')}") for name in assumed}
        settings = ", ".join((missing | named).values())
        begun = f"{staging.id} was begun by an earlier program (schema version {staging.sheet['schema']})"
        yield f"{begun}, which had fewer settings. The rest is written with: {settings}."
    began, now = staging.sheet["row"].get("weights"), plan.model.entry().sha256
    if began and now and began != now:
        yield f"Its weights are {now[:8]} from here on; the samples before were written with {began[:8]}."


@contextlib.contextmanager
def _or_shown(staging: Staging) -> Iterator[None]:
    """An error does not count where the run is in the store: another process was faster."""
    try:
        yield
    except (RunError, StoreError, OSError):
        if not staging.is_shown:
            raise


def problem_of(job: Any) -> str:
    """Of an error that came with its traceback as text: our own line, else the first one. Empty where there is none."""
    if hasattr(job, "paths") and not job.paths.result_pickle.exists():
        return f"task {job.job_id} ended without a message ({job.state.lower()})"
    if (error := job.exception()) is None:
        return ""
    trace = str(error) or type(error).__name__
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


def shares(left: Sequence[int], tasks: int, finished: Collection[int] = ()) -> list[tuple[int, ...]]:
    """Every n-th group for each task. The first also gets the finished ones, to check some of their samples."""
    parts = [tuple(left[rank::tasks]) for rank in range(min(tasks, len(left)))]
    return [(*sorted(finished), *parts[0]), *parts[1:]] if parts else []


@contextlib.contextmanager
def connected(cluster: Cluster, device: str = "auto") -> Iterator[Cluster]:
    """The cluster, with what was left open, for as long as the block lasts; an error where it cannot be reached."""
    if cluster.kind != "ray":
        _check_submission(cluster)
        yield cluster
        return
    ray = _started_ray(cluster.address or os.environ.get("RAY_ADDRESS", ""))
    try:
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        yield _filled(cluster, machines, device)
    finally:
        ray.shutdown()


def _check_submission(cluster: Cluster) -> None:
    _needed("submitit")
    if not cluster.is_slurm and (cluster.partition or cluster.more):
        raise RunError(f"--submit {cluster.kind} has no partition", "Leave out what is for Slurm, or submit there")
    if "comment" in cluster.more:  # by it the queue is searched for a run's tasks
        raise RunError("--slurm comment is taken: it is the run's id", "Leave it out")
    if cluster.is_slurm and not shutil.which("sbatch"):
        raise RunError(
            "sbatch is not installed here, so there is no Slurm", "Submit from a login node, or --submit local"
        )


def _started_ray(address: str) -> Any:
    """Ray, connected to the cluster at this address, or to one of this machine alone."""
    # Ray reads these at import: no usage reports, and nothing written to this process's standard error.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    if not address:  # a cluster of one machine then listens on loopback only, as on a Mac
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray = _needed("ray")
    try:
        with muted_output(2):  # Ray's native part prints the environment there
            host, _, port = address.rpartition("://")[2].rpartition(":")
            if host and port.isdigit():  # an error at once where nothing listens: Ray itself waits for minutes
                socket.create_connection((host, int(port)), CONNECT_S).close()
            options: Any = {} if address else {"include_dashboard": False, "object_store_memory": STORE_BYTES}
            ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, RuntimeError, ValueError) as error:
        where = shown(address) if address else "this machine"
        raise RunError(f"Ray does not start or answer at {where} ({one_line(str(error))})", "See --address") from error
    return ray


def _filled(cluster: Cluster, machines: Sequence[Mapping[str, float]], device: str) -> Cluster:
    """With tasks, GPUs and threads as these machines have them; an error where an actor fits none of them."""
    all_gpus = int(sum(machine.get("GPU", 0) for machine in machines))
    gpus = cluster.gpus if cluster.gpus is not None else int(all_gpus > 0 and device != "cpu")
    threads = cluster.threads or 1
    if not any(machine.get("GPU", 0) >= gpus and machine.get("CPU", 0) >= threads for machine in machines):
        problem = f"no machine of the cluster has {threads} cores and {gpus} GPUs for an actor"
        raise RunError(problem, "Give fewer with --threads and --gpus-per-task")
    tasks = cluster.tasks or (all_gpus // gpus if gpus else len(machines))
    return replace(cluster, tasks=tasks, gpus=gpus, threads=threads)


def _jobs(tasks: Sequence[ClusterTask], cluster: Cluster, device: str, folder: Path) -> list[Any]:
    if cluster.kind == "debug":
        with ThreadPoolExecutor(1) as pool:
            return [pool.submit(task) for task in tasks]
    if cluster.kind == "ray":
        options = {"num_cpus": cluster.threads, "num_gpus": cluster.gpus, "max_retries": TRIES - 1}
        remote = _needed("ray").remote(**options, retry_exceptions=list(RETRIED))(ClusterTask.__call__)
        return [remote.remote(task).future() for task in tasks]
    submitit = _needed("submitit")
    if cluster.kind == "local":
        return list(_local_jobs(tasks, cluster, device, submitit.LocalExecutor(folder)))
    submitit.slurm.slurm.SlurmJob.watcher = QueueWatcher()
    executor = submitit.SlurmExecutor(folder, max_num_timeout=RESTARTS)
    executor.update_parameters(**cluster.for_slurm(device), comment=tasks[0].run_id)
    with contextlib.redirect_stderr(io.StringIO()):  # it prints its error there, too
        return list(executor.submit_array(tasks))


def _local_jobs(tasks: Sequence[ClusterTask], cluster: Cluster, device: str, executor: Any) -> Iterator[Any]:
    """They ignore Ctrl-C, which a terminal sends to all of its processes."""
    count, gpus = cluster.gpus_a_task(device), _gpus_here()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with muted_output(1, 2):  # else a reader of this process's output would wait for the tasks
            for task in tasks:
                devices = [gpus[(task.rank * count + index) % len(gpus)] for index in range(count if gpus else 0)]
                minutes = cluster.minutes or LOCAL_MINUTES
                executor.update_parameters(timeout_min=minutes, gpus_per_node=len(devices), visible_gpus=devices)
                yield executor.submit(task)
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def muted_output(*numbers: int) -> Iterator[None]:
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


def _needed(package: Literal["ray", "submitit"]) -> Any:
    logging.getLogger("submitit").setLevel(logging.CRITICAL)  # it logs to standard output
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise RunError(f"this needs {package}, which is not installed", f"Install it: pip install {package}") from error
