"""A run written by a pool of actors on a Ray cluster: molecules as a Ray Data set, a block of it for each group.

Each actor loads the model once and writes its groups into the run's staging folder under a rank of its own; it returns
the content of a group's file. Ray repeats the blocks of a worker or machine that died, and the process that began the
run publishes it. Store, checkpoint and checkout have to be visible on the cluster's machines. No dashboard is started,
and Ray's usage reports are off.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from engine.chem.smiles import parse_written
from engine.errors import RunError, StoreError, one_line, shown
from engine.folders import keep_private
from engine.jobs.group import GroupWriter
from engine.jobs.mute_output import muted_output
from engine.jobs.plan import RunPlan, RunProgress
from engine.jobs.run import CHECKED, resume
from engine.jobs.run_state import RunState
from engine.models.loading import load_model
from engine.models.registry import ModelEntry
from engine.records import Molecule
from engine.store.groups import Group, group_of, group_sheet
from engine.store.staging import Staging
from engine.store.store import files_at

CHECK = -1
"""In place of a group's number: molecules of a finished group, to be generated again and compared."""
BLOCK = pa.schema([("group", pa.int64()), ("place", pa.int64()), ("smiles", pa.string())])
"""A molecule, its place in the run and its group."""
WRITTEN = pa.schema([("name", pa.string()), ("sheet", pa.string())])
"""A group as in its file."""
RETRIED = (OSError, RuntimeError, StoreError)
"""Errors that may be temporary, such as a full GPU or a store that does not answer. Ray also retries dead workers."""
TRIES = 3
"""Attempts per group."""
STORE_MB = 128  # of Ray's object store; a group's figures are small
CONNECT_S = 10.0
_RAISED = re.compile(r"engine\.errors\.\w+: (.+)")


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

    def __init__(
        self, staging: Staging, molecules: Sequence[Molecule], plan: RunPlan, entry: ModelEntry, pool: Pool
    ) -> None:
        super().__init__(staging, molecules, plan)
        self.entry, self.pool = entry, pool
        self.device = plan.model.device if pool.gpus or plan.model.device != "auto" else "cpu"

    def progress(self) -> Iterator[RunProgress]:
        """Has the actors write the groups that are left; yields the progress after every group."""
        if self.finished:
            yield self.now()
        if not self.left():
            return
        with _actor_errors():
            for row in self._dataset().iter_rows():
                group = group_of(row["sheet"].encode(), row["name"])
                if group is not None:
                    self.finished.append(group)
                    self._written_here += len(group.members)
                    yield self.now()
        self.notes = self.staging.notes().get("notes", [])

    def _dataset(self) -> Any:
        import ray.data

        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.actor_task_retry_on_errors = cast("Any", list(RETRIED))  # its type says instances, it takes classes
        return ray.data.from_arrow(list(self._blocks())).map_batches(
            RayWorker,
            fn_constructor_args=(self.staging.files.where, self.staging.id, self.entry, self.device, self.pool.threads),
            batch_size=None,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=self.pool.count, max_tasks_in_flight_per_actor=1),
            num_cpus=self.pool.threads,
            num_gpus=self.pool.gpus,
        )

    def _blocks(self) -> Iterator[pa.Table]:
        if self.finished:
            yield self._block(CHECK, sorted(self.places_of(self.finished[-1]))[:CHECKED])
        for number in self.left():
            yield self._block(number, self.groups[number])

    def _block(self, number: int, places: Sequence[int]) -> pa.Table:
        rows = [{"group": number, "place": place, "smiles": self.molecules[place].smiles} for place in places]
        return pa.Table.from_pylist(rows, schema=BLOCK)


class RayWorker:
    """An actor: one model, one rank, and its groups."""

    def __init__(self, place: str, run_id: str, entry: ModelEntry, device: str, threads: int) -> None:
        self.place, self.run_id, self.entry, self.device, self.threads = place, run_id, entry, device, threads
        keep_private()

    def __call__(self, block: pa.Table) -> pa.Table:
        number = block["group"][0].as_py()
        places = block["place"].to_pylist()
        molecules = [parse_written(smiles) for smiles in block["smiles"].to_pylist()]
        written = self._checked(places, molecules) if number == CHECK else self._written(number, places, molecules)
        rows = [{"name": group.name, "sheet": json.dumps(group_sheet(group))} for group in written]
        return pa.Table.from_pylist(rows, schema=WRITTEN)

    @functools.cached_property
    def writer(self) -> GroupWriter:
        """Made with the first group, so that errors of the model are reported like errors of a group."""
        import torch

        torch.set_num_threads(self.threads)
        staging, plan = resume(files_at(self.place), self.run_id)
        rank = _rank()
        staging.lock(rank)
        loaded = load_model(self.entry, self.device, plan.model.dtype, plan.model.attention)
        writer = GroupWriter(staging, loaded, plan, rank)
        writer.note_device()
        return writer

    def _written(self, number: int, places: Sequence[int], molecules: Sequence[Molecule]) -> list[Group]:
        """Writes the group, unless a worker that died has already written it."""
        there = self.writer.staging.groups(number)
        if there:
            return there
        failed = self._try(number)
        try:
            work = self.writer.work(places, molecules)
            for _ in work.events(lambda: False):
                pass
            return [self.writer.add(work, number)]
        except RETRIED as error:
            if failed + 1 < TRIES:
                raise
            raise RunError(f"group {number} failed {TRIES} times ({one_line(str(error))})", "See --group") from error

    def _try(self, number: int) -> int:
        """Marks a new attempt at this group; the number of earlier ones, by this process or a dead one."""
        staging = self.writer.staging
        mark = f"try-{_job()}-{number:05d}-"
        before = sum(name.startswith(mark) for name in staging.files.sizes(staging.folder))
        if before >= TRIES:
            raise RunError(
                f"group {number} ended its actor {before} times", "Check the memory; --group makes smaller groups"
            )
        content = f"{socket.gethostname()} {os.getpid()}\n"
        staging.files.write(f"{staging.folder}/{mark}{time.time_ns()}", content.encode())
        return before

    def _checked(self, places: Sequence[int], molecules: Sequence[Molecule]) -> list[Group]:
        member = places[0] * self.writer.plan.plan.generations
        for group in self.writer.staging.groups():
            if member in group.members:
                self.writer.check(group, places, molecules)
        return []


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
            if address:
                check_port(address)
            own = {} if address else {"include_dashboard": False, "object_store_memory": STORE_MB * 2**20}
            ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, RuntimeError, ValueError) as error:
        where = shown(address) if address else "this machine"
        raise RunError(f"Ray does not start or answer at {where} ({one_line(str(error))})", "See --address") from error


def check_port(address: str) -> None:
    """An error at once where nothing listens: Ray itself waits for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), CONNECT_S).close()


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


def _rank() -> int:
    """A number unique to this actor, kept when Ray restarts it."""
    import ray

    return int(str(ray.get_runtime_context().get_actor_id())[:12], 16)


def _job() -> str:
    import ray

    return str(ray.get_runtime_context().get_job_id())


@contextmanager
def _actor_errors() -> Iterator[None]:
    import ray.exceptions

    try:
        yield
    except ray.exceptions.RayError as error:
        raised = _RAISED.findall(str(error))
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise RunError(f"the actors failed: {one_line(raised[-1] if raised else lines[-1])}") from error


def _ray(*, is_own: bool) -> Any:
    """Ray, set up by variables that it reads at import."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if is_own:  # a cluster of one machine then listens on loopback only, as on a Mac
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # it writes to standard error of this process
    os.environ.setdefault("RAY_DATA_LOG_LEVEL", "CRITICAL")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise RunError(
            "--engine ray needs Ray, which is not installed", "Install it: pip install 'ray[data]'"
        ) from error
    return ray
