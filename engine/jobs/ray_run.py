"""A run written on a Ray cluster, by the same tasks as on another one: each writes its share of the groups.

Ray starts a task again whose worker or machine died: it goes on with what is left of its share. The process that began
the run publishes it. No dashboard is started, and Ray's usage reports are off.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine.errors import RunError, StoreError, one_line, shown
from engine.folders import keep_private
from engine.jobs.cluster import POLL_S, ClusterTask, muted_output, reason_of, shares
from engine.jobs.plan import RunPlan
from engine.jobs.progress import RunProgress
from engine.jobs.run import RunState
from engine.records import Molecule
from engine.store.staging import Staging

RETRIED = (OSError, RuntimeError, StoreError)
"""Errors that may be temporary, such as a full GPU or a store that does not answer."""
TRIES = 3
"""Attempts per task, also of those that died."""
STORE_MB = 128  # of Ray's object store; a group's figures are small
CONNECT_S = 10.0


@dataclass(frozen=True, slots=True)
class Actors:
    """The requested tasks. None: one per GPU, else one per machine."""

    count: int | None = None
    gpus: int | None = None  # per task
    threads: int | None = None  # per task
    address: str = ""  # of the cluster; default: ``RAY_ADDRESS``, else this machine alone


@dataclass(frozen=True, slots=True)
class Pool:
    """The tasks on the connected cluster."""

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
        """Has the tasks write the groups that are left; yields the progress after every group."""
        import ray

        left = self.left()
        if self.finished:
            yield self.now()
        parts = shares(left, self.pool.count, set(range(len(self.groups))) - set(left))
        place, id_, threads = self.staging.files.where, self.staging.id, self.pool.threads
        tasks = [ClusterTask("ray", place, id_, rank, part, self.device, threads) for rank, part in enumerate(parts, 1)]
        how: Any = {"num_cpus": threads, "num_gpus": self.pool.gpus, "max_retries": TRIES - 1}
        how["retry_exceptions"] = list(RETRIED)
        remote: Any = ray.remote(**how)(_written)
        waiting = [remote.remote(task) for task in tasks]
        while waiting:
            done, waiting = ray.wait(waiting, timeout=POLL_S)
            yield from self._taken()
            try:
                ray.get(done)
            except ray.exceptions.RayError as error:
                raise RunError(f"the tasks failed: {reason_of(str(error) or type(error).__name__)}") from error
        self.notes = self.staging.notes().get("notes", [])

    def _taken(self) -> Iterator[RunProgress]:
        """Groups that were written since."""
        names = self.staging.files.sizes(self.staging.folder)
        if sum(name.startswith("group-") for name in names) > len(self.finished):
            known = {group.name for group in self.finished}
            for group in self.staging.groups():
                if group.name not in known:
                    self._finish(group)
                    self._written_here += len(group.members)
                    yield self.now()


def _written(task: ClusterTask) -> None:
    keep_private()
    task()


@contextmanager
def connected(actors: Actors, device: str = "auto") -> Iterator[Pool]:
    """A connection to the named cluster, or to a new one of this machine, for as long as the block lasts."""
    address = actors.address or os.environ.get("RAY_ADDRESS", "")
    # Ray reads these at import.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if not address:  # a cluster of one machine then listens on loopback only, as on a Mac
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # it writes to standard error of this process
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise RunError("--engine ray needs Ray, which is not installed", "Install it: pip install ray") from error
    was_there = ray.is_initialized()
    try:
        with muted_output(2):  # Ray's native part prints the environment there
            host, _, port = address.rpartition("://")[2].rpartition(":")
            if host and port.isdigit():  # an error at once where nothing listens: Ray itself waits for minutes
                socket.create_connection((host, int(port)), CONNECT_S).close()
            own: Any = {} if address else {"include_dashboard": False, "object_store_memory": STORE_MB * 2**20}
            if not was_there:
                ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, RuntimeError, ValueError) as error:
        where = shown(address) if address else "this machine"
        raise RunError(f"Ray does not start or answer at {where} ({one_line(str(error))})", "See --address") from error
    try:
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        all_gpus = int(sum(machine.get("GPU", 0) for machine in machines))
        gpus = actors.gpus if actors.gpus is not None else int(all_gpus > 0 and device != "cpu")
        threads = actors.threads or 1
        if not any(machine.get("GPU", 0) >= gpus and machine.get("CPU", 0) >= threads for machine in machines):
            raise RunError(
                f"no machine of the cluster has {threads} cores and {gpus} GPUs for an actor",
                "Give fewer with --threads and --gpus-per-task",
            )
        yield Pool(actors.count or (all_gpus // gpus if gpus else len(machines)), gpus, threads)
    finally:
        if not was_there:
            ray.shutdown()
