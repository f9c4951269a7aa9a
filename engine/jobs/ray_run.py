"""A run written by actors of a Ray cluster, a group at a time each.

Each actor loads the model once and writes groups into the run's staging folder under a rank of its own. A group whose
actor died is given to another one, and the process that began the run publishes it. Store, checkpoint and checkout have
to be visible on the cluster's machines. No dashboard is started, and Ray's usage reports are off.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import socket
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine.chem.judges import JudgePool
from engine.errors import RunError, StoreError, one_line, shown
from engine.folders import keep_private
from engine.jobs.cluster import muted_output, reason_of
from engine.jobs.group import Judges
from engine.jobs.plan import RunPlan
from engine.jobs.progress import RunProgress
from engine.jobs.run import BESIDE, Run, RunState, molecules_of, resume
from engine.models.loading import load_model
from engine.records import Molecule
from engine.store.groups import Group
from engine.store.staging import Staging
from engine.store.store import files_at

RETRIED = (OSError, RuntimeError, StoreError)
"""Errors that may be temporary, such as a full GPU or a store that does not answer."""
CHECK, START = -1, -2
"""In place of a group's number: some finished samples are generated again; an actor gets its place."""
TRIES = 3
"""Attempts per group, those of actors that died too."""
STORE_MB = 128  # of Ray's object store; a group's figures are small
CONNECT_S = 10.0


@dataclass(frozen=True, slots=True)
class Actors:
    """The requested pool. None: one actor per GPU, else one per machine."""

    count: int | None = None
    gpus: int | None = None  # per actor
    threads: int | None = None  # per actor
    address: str = ""  # of the cluster; default: ``RAY_ADDRESS``, else this machine alone


@dataclass(frozen=True, slots=True)
class Pool:
    """The actual pool, on the connected cluster."""

    count: int
    gpus: int
    threads: int


class RayRun(RunState):
    """Iterate over ``progress``; then ``publish`` it."""

    def __init__(self, staging: Staging, molecules: Sequence[Molecule], plan: RunPlan, pool: Pool) -> None:
        super().__init__(staging, molecules, plan)
        self.pool = pool
        self.device = plan.model.device if pool.gpus or plan.model.device != "auto" else "cpu"

    def progress(self) -> Iterator[RunProgress]:
        """Has the actors write the groups that are left; yields the progress after every group."""
        left = self.left()
        if self.finished:
            yield self.now()
        if left:
            for group in self._written([*([CHECK] if self.finished else []), *left]):
                self._finish(group)
                self._written_here += len(group.members)
                yield self.now()
            self.notes = self.staging.notes().get("notes", [])

    def _written(self, numbers: Sequence[int]) -> Iterator[Group]:
        """Groups as they come; one whose actor died, or that failed for a while, is tried again."""
        import ray

        kind: Any = ray.remote(num_cpus=self.pool.threads, num_gpus=self.pool.gpus)(RayWorker)
        place, ranks = self.staging.files.where, itertools.count(1)
        waiting, failed = deque(numbers), Counter[int]()
        running: dict[Any, tuple[Any, int]] = {}  # actors, and what they write

        def begin() -> None:
            actor = kind.remote(place, self.staging.id, self.device, self.pool.threads, next(ranks))
            running[actor.start.remote()] = actor, START

        for _ in range(min(self.pool.count, len(numbers))):
            begin()
        while waiting or any(number != START for _, number in running.values()):
            (done, *_), _ = ray.wait(list(running))
            actor, number = running.pop(done)
            try:
                group = ray.get(done)
            except ray.exceptions.RayError as error:
                failed[number] += 1
                has_died = isinstance(error, ray.exceptions.RayActorError)
                reason = reason_of(str(error) or type(error).__name__)
                if not (has_died or isinstance(getattr(error, "cause", None), RETRIED)):
                    raise RunError(f"the actors failed: {reason}") from error
                if failed[number] >= TRIES:
                    what = f"group {number}" if number >= 0 else "an actor"
                    raise RunError(f"{what} failed {TRIES} times ({reason})", "See --group") from error
                if number != START:
                    waiting.append(number)
                if has_died:
                    begin()
                    continue
            else:
                if group is not None:
                    yield group
            if waiting:
                number = waiting.popleft()
                running[actor.write.remote(number)] = actor, number


class RayWorker:
    """An actor: one model, one rank, and its groups."""

    def __init__(self, place: str, run_id: str, device: str, threads: int, rank: int) -> None:
        self.place, self.run_id, self.device, self.threads, self.rank = place, run_id, device, threads, rank
        keep_private()

    def start(self) -> None:
        """Returns when the actor has its place."""

    def write(self, number: int) -> Group | None:
        """Writes the group, unless an actor that died has written it; or generates some samples again and compares."""
        if number == CHECK:
            self.run.check(range(len(self.run.groups)))
            return None
        if there := self.run.staging.groups(number):
            return there[0]
        for _ in self.run.progress(groups=[number]):
            pass
        return self.run.finished[-1]

    @functools.cached_property
    def run(self) -> Run:
        """Made with the first group, so that errors of the model are reported like errors of a group."""
        import torch

        torch.set_num_threads(self.threads)
        staging, plan = resume(files_at(self.place), self.run_id)
        loaded = load_model(plan.model.entry(), self.device, plan.model.dtype, plan.model.attention)
        settings = plan.judge_settings
        judges = None if settings is None else Judges(JudgePool(settings, workers=BESIDE))
        return Run(staging, loaded, molecules_of(staging), plan, rank=self.rank, judges=judges)


@contextmanager
def connected(actors: Actors, device: str = "auto") -> Iterator[Pool]:
    """A connection to the named cluster, or to a new one of this machine, for as long as the block lasts."""
    address = actors.address or os.environ.get("RAY_ADDRESS", "")
    ray = _ray(is_own=not address)
    was_there = ray.is_initialized()
    if not was_there:
        _connect(ray, address)
    try:
        yield _pool(ray, actors, device)
    finally:
        if not was_there:
            ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    try:
        with muted_output(2):  # Ray's native part prints the environment there
            host, _, port = address.rpartition("://")[2].rpartition(":")
            if host and port.isdigit():  # an error at once where nothing listens: Ray itself waits for minutes
                socket.create_connection((host, int(port)), CONNECT_S).close()
            own = {} if address else {"include_dashboard": False, "object_store_memory": STORE_MB * 2**20}
            ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, RuntimeError, ValueError) as error:
        where = shown(address) if address else "this machine"
        raise RunError(f"Ray does not start or answer at {where} ({one_line(str(error))})", "See --address") from error


def _pool(ray: Any, actors: Actors, device: str) -> Pool:
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    all_gpus = int(sum(machine.get("GPU", 0) for machine in machines))
    gpus = actors.gpus if actors.gpus is not None else int(all_gpus > 0 and device != "cpu")
    threads = actors.threads or 1
    if not any(machine.get("GPU", 0) >= gpus and machine.get("CPU", 0) >= threads for machine in machines):
        raise RunError(
            f"no machine of the cluster has {threads} cores and {gpus} GPUs for an actor",
            "Give fewer with --threads and --gpus-per-task",
        )
    return Pool(actors.count or (all_gpus // gpus if gpus else len(machines)), gpus, threads)


def _ray(*, is_own: bool) -> Any:
    """Ray, set up by variables that it reads at import."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if is_own:  # a cluster of one machine then listens on loopback only, as on a Mac
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # it writes to standard error of this process
    try:
        import ray
    except ImportError as error:
        raise RunError("--engine ray needs Ray, which is not installed", "Install it: pip install ray") from error
    return ray
