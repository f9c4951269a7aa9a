"""``run``: molecules x LPs x models into runs of the store; and going on with one that was stopped."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.cli.generate import (
    add_model_options,
    add_plan_options,
    count,
    entry_of,
    plan_of,
    read_molecules,
    set_threads,
    smiles_of,
)
from engine.cli.log_logits import add_log_options, recording
from engine.cli.output import bar, json_option, path_of
from engine.cli.profiled import add_profile_options, check_profile, profiling
from engine.cli.run_elsewhere import (
    add_elsewhere_options,
    check_elsewhere,
    elsewhere,
    loaded_for,
    opened,
    parts_of,
    submit_runs,
)
from engine.cli.run_tables import run_row, show_rows
from engine.cli.watched import add_watched_options, reporting, without_watching
from engine.errors import DriftscopeError, RunError

if TYPE_CHECKING:
    from engine.cli.run_elsewhere import Where
    from engine.cli.watched import Say
    from engine.logits.recorder import LogFile
    from engine.records import Molecule
    from engine.runner.account import Account
    from engine.runner.plan import Progress
    from engine.store.entries import Entry
    from engine.store.store import Store

DRAW_S = 0.2
DEFAULT_MOLECULES = 64
MOST_MOLECULES = 10_000_000


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "run",
        parents=[json_option()],
        help="many molecules under models and LPs, kept as runs",
        description="Each model writes the molecules under each LP; each pair becomes a run of the store.",
    )
    parser.add_argument("smiles", nargs="*", metavar="SMILES", help="molecules; - reads standard input, one a line")
    group = parser.add_argument_group("molecules")
    group.add_argument(
        "--smiles-file", metavar="FILE", help="SMILES, CSV, TSV, SDF, JSON lines or Parquet, also as .gz"
    )
    group.add_argument("--smiles-column", metavar="NAME", help="of a CSV or Parquet file; found by its name without it")
    group.add_argument(
        "--sample-size",
        type=count("molecules", MOST_MOLECULES),
        metavar="N",
        help=f"the first N; without a file, of the held-out molecules that ship ({DEFAULT_MOLECULES} without it)",
    )
    add_model_options(parser, several=True)
    add_plan_options(parser, several=True)
    group = parser.add_argument_group("the run")
    add_store_option(group)
    group.add_argument("--label", default="", help="a name of your own")
    group.add_argument(
        "--keep-steps", type=count("samples", MOST_MOLECULES), metavar="N", help="keep the steps of the first N samples"
    )
    group.add_argument(
        "--rmsd", type=count("conformers", 1_000), nargs="?", const=10, metavar="K", help="to the nearest of K (10)"
    )
    group.add_argument("--no-closing", action="store_true", help="do not ask what the model wanted at forced closes")
    group.add_argument(
        "--group", type=count("molecules", MOST_MOLECULES), metavar="N", help="written together: what a kill loses"
    )
    group.add_argument("--resume", metavar="RUN", help="go on with a run that was stopped (see `runs --unfinished`)")
    group.add_argument("--json-report", metavar="FILE", help="also write the run as a report file; .gz by its name")
    add_profile_options(parser, "run")
    add_log_options(parser)
    add_elsewhere_options(parser)
    add_watched_options(parser)
    parser.set_defaults(run=run)


def add_store_option(parser: Any) -> None:
    parser.add_argument("--store", metavar="PLACE", help="a folder or s3://bucket/prefix; DRIFTSCOPE_STORE without it")


def store_command(commands: Any, name: str, work: Any, what: str) -> argparse.ArgumentParser:
    """A command about what a store holds."""
    parser: argparse.ArgumentParser = commands.add_parser(name, parents=[json_option()], help=what, description=what)
    add_store_option(parser)
    parser.set_defaults(run=work)
    return parser


def run(args: argparse.Namespace) -> int:
    from engine.store.store import Store

    check_elsewhere(args)
    if args.json_report and args.submit:
        raise RunError("a submitted run is written later", "Leave --json-report out, and use `export`")
    if args.progress and args.submit:
        raise RunError("a submitted run is written elsewhere", "Leave --progress out, and see `runs --unfinished`")
    if args.log_logits and (args.submit or args.engine != "here"):
        raise RunError("logits are logged where they are computed", "Leave --log-logits out, or run it here")
    store = Store.open(args.store)
    parts = 1 if args.resume else len(args.model or [None]) * len(args.lp or [None])
    check_profile(args, elsewhere=bool(args.submit) or args.engine != "here", parts=parts)
    with reporting(args) as say, elsewhere(args) as where, recording(args, say) as log:
        asked = _resumed(args, store, where) if args.resume else _asked(args, store, where)
        if args.submit:
            return submit_runs(args, store, asked, where)
        entries = [
            _profiled(args, _logged(one, log), partial(say, part=number, parts=parts))
            for number, one in enumerate(asked)
        ]
    if args.json_report:
        from engine.store.reports.exporting import export_report

        export_report(entries[0], path_of(args.json_report))
    show_rows([run_row(entry) for entry in entries], is_json=args.json)
    return 0


def _asked(args: argparse.Namespace, store: Store, where: Where) -> Iterator[Account]:
    """One run after the other, each begun when the one before is in the store, or handed out."""
    from engine.lp.catalogue import full_name

    names = args.model or [None]
    lps = [full_name(name) for name in args.lp or ["exact"]]
    if args.step and len(names) > 1:
        raise RunError("--step with several models is ambiguous", "Give each as ALIAS:STEP")
    if args.json_report and len(names) * len(lps) > 1:
        raise RunError(f"--json-report is one file, and these are {len(names) * len(lps)} runs", "Use `export`")
    entries = [entry_of(args, name) for name in names]
    plans = [[plan_of(args, entry.numbers, lp) for lp in lps] for entry in entries]
    molecules = _molecules(args)
    set_threads(args.threads)
    from engine.runner.plan import ModelChoice, RunPlan
    from engine.runner.run import begin

    for name, entry, some in zip(names, entries, plans, strict=True):
        loaded = loaded_for(where, entry, args)
        folder = "" if args.model_path is None else str(path_of(args.model_path).absolute())
        choice = ModelChoice(
            alias=entry.alias if name else "",
            step=entry.step if name else "",
            folder=folder,
            tokenizer=args.tokenizer_name,
            device=args.device,
            dtype=args.dtype,
            attention=args.attention,
        )
        for plan in some:
            whole = RunPlan(
                choice,
                plan,
                keep_steps=args.keep_steps or 0,
                closing=not args.no_closing,
                rmsd=args.rmsd or 0,
                group=args.group or 0,
                label=args.label,
                source=_command(),
            )
            staging = begin(store.home, loaded, molecules, whole, **parts_of(where, args.device))
            yield opened(where, staging, loaded, molecules, RunPlan.read(staging.sheet["plan"]))


def _resumed(args: argparse.Namespace, store: Store, where: Where) -> Iterator[Account]:
    from engine.models.loading import load_model
    from engine.runner.run import molecules_of, resume

    staging, plan = resume(store.home, args.resume)
    if staging.is_being_written:  # under whatever rank
        raise RunError(f"{staging.id} is being written by another process", "Wait for it, or stop it")
    choice = plan.model if args.device == "auto" else replace(plan.model, device=args.device)
    loaded = None
    if where is None:
        set_threads(args.threads)
        staging.lock()
        loaded = load_model(choice.entry(), choice.device, choice.dtype, choice.attention)
    yield opened(where, staging, loaded, molecules_of(staging), replace(plan, model=choice))


def _logged(one: Account, log: LogFile | None) -> Account:
    """With its logits in the log, where there is one."""
    from engine.runner.run import Run

    if log is not None and isinstance(one, Run):
        plan = one.plan.plan
        one.tap = log.tap(one.loaded, plan.sampling, plan.seed, one.staging.id)
    return one


def _profiled(args: argparse.Namespace, one: Account, say: Say) -> Entry:
    """Carried out, under the profiler where that was asked for."""
    from engine.runner.run import Run

    row, plan = one.staging.sheet["row"], one.plan.plan
    label = one.plan.label or f"{row['model_alias']}:{row['model_step']}, {plan.lp}"
    with profiling(args, backend=plan.backend, label=label, run_id=one.staging.id) as watch:
        if isinstance(one, Run):
            one.watch = watch
        return _carried_out(one, say, is_quiet=args.json)


def _carried_out(one: Account, say: Say, *, is_quiet: bool) -> Entry:
    show = _Show(one, say, is_quiet=is_quiet)
    try:
        for progress in one.progress():
            show.progress(progress)
        entry = one.publish()
    except KeyboardInterrupt:
        show.close()
        sys.stderr.write(f"stopped; `python -m engine run --resume {one.staging.id}` goes on\n")
        raise
    except DriftscopeError:
        show.close()
        sys.stderr.write(f"what is written stays; `python -m engine run --resume {one.staging.id}` goes on\n")
        raise
    finally:
        one.staging.release()
    show.close()
    show.tell(one.now(), now=True, state="done")
    return entry


class _Show:
    """How far a run is, on a terminal that somebody watches, and for a program that does."""

    def __init__(self, one: Account, say: Say, *, is_quiet: bool) -> None:
        self.is_watched, self.drawn, self.one = sys.stderr.isatty(), 0.0, one
        row = one.staging.sheet["row"]
        self.say = partial(say, **{name: row[name] for name in ("run_id", "model_alias", "model_step", "lp")})
        self.tell(one.now(), now=True)
        if not is_quiet:
            name = f"{row['model_alias']}:{row['model_step']}"
            sys.stderr.write(
                f"{one.staging.id}: {name}, {row['lp']}, {row['backend']}, {row['device'] or 'by actors'}\n"
            )

    def tell(self, how: Progress, **more: Any) -> None:
        said = asdict(how)
        del said["run_id"], said["notes"]
        self.say(**said, **more)

    def progress(self, now: Progress) -> None:
        self.tell(now)
        if not self.is_watched or (time.monotonic() - self.drawn < DRAW_S and now.done < now.samples):
            return
        self.drawn = time.monotonic()
        left = f", {now.seconds * (1 - now.work) / now.work:,.0f} s left" if 0 < now.work < 1 else ""
        bad = f", {now.bad_blocks} of {now.blocks} blocks bad" if now.bad_blocks else ""
        sys.stderr.write(
            f"\r{bar(now.work)} {now.done}/{now.samples} samples, {now.samples_a_second:,.1f} a second{left}, "
            f"{now.pass_rate:.1%} passed{bad}\033[K"
        )
        sys.stderr.flush()

    def close(self) -> None:
        if self.is_watched:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        for note in self.one.notes:
            sys.stderr.write(note + "\n")


def _molecules(args: argparse.Namespace) -> list[Molecule]:
    given = bool(args.smiles) + bool(args.smiles_file)
    if given > 1:
        raise RunError("give either SMILES or --smiles-file", "Leave one of the two out")
    if args.smiles_file:
        from engine.chem.molecule_files import read_molecule_file

        found, skipped = read_molecule_file(
            path_of(args.smiles_file), column=args.smiles_column, limit=args.sample_size
        )
        for one in skipped:
            sys.stderr.write(f"left out, line {one.line}: {one.error}\n")
        return found
    if args.smiles:
        args.file = None
        return read_molecules(smiles_of(args)[: args.sample_size])[0]
    from engine.chem.molecule_sets import load_run_set
    from engine.chem.smiles import parse_smiles

    return [parse_smiles(smiles) for smiles in load_run_set(args.sample_size or DEFAULT_MOLECULES)]


def _command() -> str:
    """What was typed, for the run's source; paths as they were given."""
    words = without_watching(sys.argv[1:]) if Path(sys.argv[0]).name in ("__main__.py", "main.py") else ["run"]
    return shlex.join(["python", "-m", "engine", *words])
