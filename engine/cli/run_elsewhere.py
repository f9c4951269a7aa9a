"""``run`` past one machine: tasks of a cluster (``--submit``), actors of a Ray cluster (``--engine ray``)."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from engine.cli.generate import count
from engine.cli.main import emit_json
from engine.cli.output import bar, path_of, table, write
from engine.cli.run_tables import run_row, show_rows
from engine.errors import RunError

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel
    from engine.models.registry import ModelEntry
    from engine.records import Molecule
    from engine.runner.account import Account
    from engine.runner.plan import RunPlan
    from engine.runner.ray_run import Pool
    from engine.runner.submit import Cluster, Submitted
    from engine.store.entries import Entry
    from engine.store.staging import Staging
    from engine.store.store import Store

    Where: TypeAlias = Cluster | Pool | None

SUBMIT_KINDS = ("local", "debug", "slurm", "h100", "a100")
MOST_TASKS, MOST_GPUS = 10_000, 64
SHOWN_IDS = 4
FOR_SUBMIT = ("partition", "time", "array", "slurm", "logs", "wait")
FOR_RAY = ("actors", "address")
_TIME = re.compile(r"(\d{1,5}):([0-5]\d):([0-5]\d)|(\d{1,6})")


def add_elsewhere_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("past one machine")
    group.add_argument(
        "--submit",
        choices=SUBMIT_KINDS,
        metavar="WHERE",
        help="tasks through submitit: local (processes here), slurm, h100 or a100 (Slurm with that GPU), debug",
    )
    group.add_argument("--array", type=count("tasks", MOST_TASKS), metavar="N", help="tasks (1)")
    group.add_argument("--partition", metavar="P", help="of Slurm")
    group.add_argument("--time", type=_minutes, metavar="T", help="of a task: minutes or HH:MM:SS (Slurm: 04:00:00)")
    group.add_argument(
        "--slurm", action="append", metavar="KEY=VALUE", help="another option of sbatch, such as account"
    )
    group.add_argument("--logs", metavar="DIR", help="of the tasks; beside the runs without it")
    group.add_argument("--wait", action="store_true", help="until the tasks have ended")
    group.add_argument("--engine", choices=("here", "ray"), default="here", help="ray: a pool of actors")
    group.add_argument("--actors", type=count("actors", MOST_TASKS), metavar="N", help="one a GPU, or one a machine")
    group.add_argument("--address", metavar="A", help="of the Ray cluster; RAY_ADDRESS, or this machine, without it")
    group.add_argument(
        "--gpus-per-task", type=_whole, metavar="N", help="or an actor; one where there are some without it"
    )


def check_elsewhere(args: argparse.Namespace) -> None:
    """Options that belong to another place than the one that was chosen."""
    if args.submit and args.engine == "ray":
        raise RunError("give either --submit or --engine ray", "A Ray cluster can be started inside a Slurm job")
    for names, is_chosen, chooser in (
        (FOR_SUBMIT, args.submit, "--submit"),
        (FOR_RAY, args.engine == "ray", "--engine ray"),
    ):
        for name in names:
            if getattr(args, name) and not is_chosen:
                raise RunError(f"--{name} belongs to {chooser}", "Leave it out, or give both")
    if args.gpus_per_task is not None and not args.submit and args.engine != "ray":
        raise RunError("--gpus-per-task belongs to --submit and --engine ray", "Leave it out")


@contextmanager
def elsewhere(args: argparse.Namespace) -> Iterator[Where]:
    """Where the runs are written, for as long as this lasts; None is here."""
    if args.submit:
        from engine.runner.submit import check

        cluster = _cluster(args)
        check(cluster)
        yield cluster
    elif args.engine == "ray":
        from engine.runner.ray_run import Actors, connected

        with connected(Actors(args.actors, args.gpus_per_task, args.threads, args.address or ""), args.device) as pool:
            yield pool
    else:
        yield None


def loaded_for(where: Where, entry: ModelEntry, args: argparse.Namespace) -> LoadedModel:
    """The model; its outline where others compute."""
    from engine.models.loading import load_model, load_outline

    if where is None:
        return load_model(entry, args.device, args.dtype, args.attention)
    return load_outline(entry, args.dtype, args.attention)


def parts_of(where: Where, device: str) -> dict[str, Any]:
    """What ``begin`` has to know of those who write a run."""
    from engine.runner.submit import Cluster

    if where is None:
        return {}
    if isinstance(where, Cluster):
        return {"parts": where.tasks, "on_gpu": where.gpus_a_task(device) > 0}
    return {"parts": where.count, "on_gpu": where.gpus > 0}


def opened(
    where: Where, staging: Staging, loaded: LoadedModel | None, molecules: Sequence[Molecule], plan: RunPlan
) -> Account:
    """The run as the one who writes it has it: to be carried out here or by actors, or to be handed to tasks."""
    from engine.runner.account import Account
    from engine.runner.ray_run import Pool, RayRun
    from engine.runner.run import Run

    if isinstance(where, Pool):
        return RayRun(staging, molecules, plan, plan.model.entry(), where)
    if loaded is None or loaded.is_outline:
        return Account(staging, molecules, plan)
    return Run(staging, loaded, molecules, plan)


def submit_runs(args: argparse.Namespace, store: Store, accounts: Iterable[Account], where: Where) -> int:
    """Hand out all runs; with --wait, see to it that they come to the store."""
    cluster = cast("Cluster", where)
    submitted = [_submitted(args, account, cluster) for account in accounts]
    if args.wait or cluster.kind == "debug":
        entries = [_awaited(store, *one, is_quiet=args.json) for one in submitted]
        show_rows([run_row(entry) for entry in entries], is_json=args.json)
        return 0
    rows = [_row(*one) for one in submitted]
    if args.json:
        emit_json(rows)
    else:
        lines = [(row["run_id"], len(row["jobs"]), _shortened(row["jobs"]), row["cancel"], row["logs"]) for row in rows]
        write(table(("run", "tasks", "jobs", "to end them", "logs"), lines))
    return 0


def _submitted(args: argparse.Namespace, account: Account, cluster: Cluster) -> tuple[Account, Submitted]:
    from engine.runner.submit import submit

    logs = None if args.logs is None else path_of(args.logs).absolute()
    one = submit(account, cluster, logs)
    if not one.jobs:  # all is written, and whoever wrote the last of it could not show it
        account.publish_if_whole()
    return account, one


def _awaited(store: Store, account: Account, one: Submitted, *, is_quiet: bool) -> Entry:
    watched = sys.stderr.isatty() and not is_quiet
    try:
        for written in one.wait():
            if watched:
                share = written / len(account.groups)
                sys.stderr.write(f"\r{one.run_id} {bar(share)} {written}/{len(account.groups)} groups\033[K")
                sys.stderr.flush()
        is_shown = account.publish_if_whole()
    except KeyboardInterrupt:
        if one.cancel:
            sys.stderr.write(
                f"the tasks of {one.run_id} go on, and show it when it is whole; `{one.cancel}` ends them\n"
            )
        raise
    finally:
        if watched:
            sys.stderr.write("\r\033[K")
    if not is_shown:
        problems = one.problems() or ["no task says why"]
        raise RunError(
            f"{one.run_id} is not whole: {problems[0]}", f"See {one.logs}; `python -m engine run --resume {one.run_id}`"
        )
    return store.entry(one.run_id)


def _row(account: Account, one: Submitted) -> dict[str, Any]:
    return {
        "run_id": one.run_id,
        "molecules": len(account.molecules),
        "samples": account.now().samples,
        "jobs": one.ids,
        "cancel": one.cancel,
        "logs": str(one.logs),
    }


def _shortened(ids: Sequence[str]) -> str:
    return " ".join(ids) if len(ids) <= SHOWN_IDS else f"{ids[0]} ... {ids[-1]}"


def _cluster(args: argparse.Namespace) -> Cluster:
    from engine.runner.submit import Cluster

    more = dict(one.split("=", 1) if "=" in one else (one, "") for one in args.slurm or [])
    return Cluster(
        args.submit, args.array or 1, args.partition or "", args.time, args.gpus_per_task, args.threads, more
    )


def _minutes(text: str) -> int:
    found = _TIME.fullmatch(text)
    hours, minutes, seconds, alone = (int(part or 0) for part in found.groups()) if found else (0, 0, 0, 0)
    total = alone + 60 * hours + minutes + (seconds > 0)
    if not total:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 90 (minutes) or 01:30:00")
    return total


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MOST_GPUS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of GPUs from 0 to {MOST_GPUS}")
    return int(text)
