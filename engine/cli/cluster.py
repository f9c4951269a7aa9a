"""``run`` past one machine: tasks of a cluster (``--submit``), actors of a Ray cluster (``--engine ray``)."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from engine.cli.options import whole
from engine.cli.output import StatusLine, bar, path_of, show
from engine.cli.store_entries import show_runs
from engine.errors import RunError

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel
    from engine.models.registry import ModelEntry
    from engine.records import Molecule
    from engine.runner.plan import RunPlan
    from engine.runner.ray_run import Pool
    from engine.runner.run_state import RunState
    from engine.runner.submit import Cluster, Submitted
    from engine.store.entries import Entry
    from engine.store.staging import Staging
    from engine.store.store import Store

    RemoteWorkers: TypeAlias = Cluster | Pool | None  # None: this process alone

SUBMIT_KINDS = ("local", "debug", "slurm", "h100", "a100")
MOST_TASKS, MOST_GPUS = 10_000, 64
SHOWN_IDS = 4
FOR_SUBMIT = ("partition", "time", "array", "slurm", "logs", "wait")
FOR_RAY = ("actors", "address")
RAY = "--engine ray"
_TIME = re.compile(r"(\d{1,5}):([0-5]\d):([0-5]\d)|(\d{1,6})")


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--submit",
        choices=SUBMIT_KINDS,
        metavar="WHERE",
        help="tasks through submitit: local (processes here), slurm, h100 or a100 (Slurm with that GPU), debug",
    )
    group.add_argument("--array", type=whole(MOST_TASKS), metavar="N", help="number of tasks (1)")
    group.add_argument("--partition", metavar="P", help="for Slurm")
    group.add_argument("--time", type=_minutes, metavar="T", help="per task: minutes or HH:MM:SS (Slurm: 04:00:00)")
    group.add_argument("--slurm", action="append", metavar="KEY=VALUE", help="more options of sbatch, such as account")
    group.add_argument("--logs", metavar="DIR", help="folder of the tasks' logs (default: beside the runs)")
    group.add_argument("--wait", action="store_true", help="wait until the tasks have ended")
    group.add_argument("--engine", choices=("here", "ray"), default="here", help="ray: a pool of actors")
    group.add_argument("--actors", type=whole(MOST_TASKS), metavar="N", help="default: one per GPU, or one per machine")
    group.add_argument("--address", metavar="A", help="of the Ray cluster (default: RAY_ADDRESS, or this machine)")
    group.add_argument(
        "--gpus-per-task", type=whole(MOST_GPUS, 0), metavar="N", help="or per actor (default: one if there are any)"
    )


def check_cluster_options(args: argparse.Namespace) -> None:
    if args.submit and args.engine == "ray":
        raise RunError("give either --submit or --engine ray", "A Ray cluster can be started inside a Slurm job")
    for names, is_chosen, owner in ((FOR_SUBMIT, args.submit, "--submit"), (FOR_RAY, args.engine == "ray", RAY)):
        for name in names:
            if getattr(args, name) and not is_chosen:
                raise RunError(f"--{name} belongs to {owner}", "Leave it out, or give both")
    if args.gpus_per_task is not None and not args.submit and args.engine != "ray":
        raise RunError("--gpus-per-task belongs to --submit and --engine ray", "Leave it out")


@contextmanager
def remote_workers(args: argparse.Namespace) -> Iterator[RemoteWorkers]:
    """The cluster or the pool of actors that writes the runs, for as long as this lasts; None: this process."""
    if args.submit:
        from engine.runner.submit import Cluster, check

        more = dict(option.split("=", 1) if "=" in option else (option, "") for option in args.slurm or [])
        cluster = Cluster(
            args.submit, args.array or 1, args.partition or "", args.time, args.gpus_per_task, args.threads, more
        )
        check(cluster)
        yield cluster
    elif args.engine == "ray":
        from engine.runner.ray_run import Actors, connected

        with connected(Actors(args.actors, args.gpus_per_task, args.threads, args.address or ""), args.device) as pool:
            yield pool
    else:
        yield None


def load_for(workers: RemoteWorkers, entry: ModelEntry, args: argparse.Namespace) -> LoadedModel:
    """The model; only its outline where other processes compute."""
    from engine.models.loading import load_model, load_outline

    if workers is None:
        return load_model(entry, args.device, args.dtype, args.attention)
    return load_outline(entry, args.dtype, args.attention)


def begin_args(workers: RemoteWorkers, device: str) -> dict[str, Any]:
    """What ``engine.runner.run.begin`` has to know of other processes."""
    from engine.runner.submit import Cluster

    if workers is None:
        return {}
    if isinstance(workers, Cluster):
        return {"parts": workers.tasks, "on_gpu": workers.gpus_a_task(device) > 0}
    return {"parts": workers.count, "on_gpu": workers.gpus > 0}


def run_state(
    workers: RemoteWorkers, staging: Staging, loaded: LoadedModel | None, molecules: Sequence[Molecule], plan: RunPlan
) -> RunState:
    """The run: to be written by this process or by actors, or to be submitted."""
    from engine.runner.ray_run import Pool, RayRun
    from engine.runner.run import Run
    from engine.runner.run_state import RunState

    if isinstance(workers, Pool):
        return RayRun(staging, molecules, plan, plan.model.entry(), workers)
    if loaded is None or loaded.is_outline:
        return RunState(staging, molecules, plan)
    return Run(staging, loaded, molecules, plan)


def submit_runs(args: argparse.Namespace, store: Store, states: Iterable[RunState], workers: RemoteWorkers) -> int:
    """Submits all runs; with --wait, waits until they are in the store."""
    from engine.runner.submit import submit

    cluster = cast("Cluster", workers)
    logs = None if args.logs is None else path_of(args.logs).absolute()
    submitted = [(state, submit(state, cluster, logs)) for state in states]
    for state, tasks in submitted:
        if not tasks.jobs:  # all groups are written, but the last writer could not publish the run
            state.publish_if_whole()
    if args.wait or cluster.kind == "debug":
        show_runs([_await(store, state, tasks, is_quiet=args.json) for state, tasks in submitted], is_json=args.json)
        return 0
    rows = [
        {
            "run_id": tasks.run_id,
            "molecules": len(state.molecules),
            "samples": state.now().samples,
            "jobs": tasks.ids,
            "cancel": tasks.cancel,
            "logs": str(tasks.logs),
        }
        for state, tasks in submitted
    ]
    show(rows, COLUMNS, is_json=args.json)
    return 0


def _await(store: Store, state: RunState, tasks: Submitted, *, is_quiet: bool) -> Entry:
    line, groups = StatusLine(is_quiet=is_quiet), len(state.groups)
    try:
        for written in tasks.wait():
            line.draw(f"{tasks.run_id} {bar(written / groups)} {written}/{groups} groups", now=True)
        is_shown = state.publish_if_whole()
    except KeyboardInterrupt:
        if tasks.cancel:
            sys.stderr.write(f"the tasks of {tasks.run_id} keep running; `{tasks.cancel}` ends them\n")
        raise
    finally:
        line.clear()
    if not is_shown:
        problems = tasks.problems() or ["no task gave a reason"]
        what = f"{tasks.run_id} is unfinished: {problems[0]}"
        raise RunError(what, f"See {tasks.logs}; `python -m engine run --resume {tasks.run_id}`")
    return store.entry(tasks.run_id)


def _shortened(ids: Sequence[str]) -> str:
    return " ".join(ids) if len(ids) <= SHOWN_IDS else f"{ids[0]} ... {ids[-1]}"


COLUMNS = (
    ("run", "run_id"),
    ("tasks", lambda row: len(row["jobs"])),
    ("jobs", lambda row: _shortened(row["jobs"])),
    ("to end them", "cancel"),
    ("logs", lambda row: row["logs"]),  # whole, however long
)


def _minutes(text: str) -> int:
    match = _TIME.fullmatch(text)
    hours, minutes, seconds, only_minutes = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    total = only_minutes + 60 * hours + minutes + (seconds > 0)
    if not total:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90 (minutes) or 01:30:00")
    return total
