"""``run``: molecules x LPs x models into runs of the store, and resuming a run that was stopped."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.cli.cluster import (
    add_cluster_options,
    begin_args,
    check_cluster_options,
    load_for,
    remote_workers,
    run_state,
    submit_runs,
)
from engine.cli.log_logits import add_log_options, recording
from engine.cli.options import (
    MOST_GENERATIONS,
    add_bins_option,
    add_command,
    add_model_options,
    add_molecule_option,
    add_plan_options,
    add_rmsd_option,
    entry_of,
    open_store,
    plan_of,
    read_molecules,
    set_threads,
    smiles_of,
    whole,
)
from engine.cli.output import StatusLine, bar, note, path_of
from engine.cli.profile_options import add_profile_options, check_profile, profiling
from engine.cli.progress_option import add_progress_options, reporting, typed_command
from engine.cli.store_entries import show_runs
from engine.errors import DriftscopeError, RunError
from engine.figures.words import counted
from engine.models.devices import threads_of

if TYPE_CHECKING:
    from engine.cli.cluster import RemoteWorkers
    from engine.cli.progress_option import Say
    from engine.logits.recorder import LogFile
    from engine.models.registry import ModelEntry
    from engine.records import Molecule
    from engine.runner.plan import RunPlan, RunProgress
    from engine.runner.run_state import RunState
    from engine.store.entries import Entry
    from engine.store.references import ReferenceSet
    from engine.store.store import Store

DEFAULT_MOLECULES = 64


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "run",
        run,
        "many molecules under models and LPs, stored as runs",
        "Each model writes the molecules under each LP. Every pair of model and LP becomes a run of the store.",
        store=True,
        rules=True,
    )
    parser.add_argument("smiles", nargs="*", metavar="SMILES", help="molecules; - reads standard input, one per line")
    group = parser.add_argument_group("molecules")
    group.add_argument(
        "--smiles-file", metavar="FILE", help="SMILES, CSV, TSV, SDF, JSON lines or Parquet, also as .gz"
    )
    group.add_argument("--smiles-column", metavar="NAME", help="of a CSV or Parquet file (default: found by name)")
    group.add_argument(
        "--order", choices=("canonical", "written"), default="canonical", help="of the atoms: written keeps the input's"
    )
    add_molecule_option(
        group, "--sample-size", f"the first N; without SMILES, of the held-out molecules ({DEFAULT_MOLECULES})"
    )
    group.add_argument(
        "--references",
        metavar="NAME",
        help="those of a set of the store (see `references`); --rmsd is to its conformers",
    )
    group.add_argument(
        "--per-reference", type=whole(MOST_GENERATIONS), metavar="N", help="N samples per conformer of --references"
    )
    add_model_options(parser, several=True)
    add_plan_options(parser, several=True)
    add_bins_option(parser)
    group = parser.add_argument_group("run")
    group.add_argument("--label", default="", help="a name of your own")
    add_molecule_option(group, "--keep-steps", "keep the steps of the first N samples")
    add_rmsd_option(group)
    group.add_argument("--judge", action="store_true", help="judge the molecules while the model writes (see `judge`)")
    group.add_argument("--strain", action="store_true", help="judge them, with their strain (MMFF94)")
    group.add_argument("--no-closing", action="store_true", help="skip the check of blocks that were closed by force")
    add_molecule_option(group, "--group", "molecules saved at a time: what a killed run loses at most")
    group.add_argument("--resume", metavar="RUN", help="resume a stopped run (see `runs --unfinished`)")
    group.add_argument("--json-report", metavar="FILE", help="also write the run as a report file, plain or .gz")
    add_profile_options(parser, "run")
    add_log_options(parser)
    add_cluster_options(parser)
    add_progress_options(parser)


def run(args: argparse.Namespace) -> int:
    check_cluster_options(args)
    if args.per_reference and (args.references is None or args.n > 1):
        raise RunError("--per-reference is of --references, in place of --n", "Leave --n out, name --references")
    is_remote = bool(args.submit) or args.engine != "here"
    if args.json_report and args.submit:
        raise RunError("a submitted run is written later", "Leave --json-report out, and use `export`")
    if args.progress and args.submit:
        raise RunError("a submitted run is written elsewhere", "Leave --progress out, and see `runs --unfinished`")
    if args.log_logits and is_remote:
        raise RunError("--log-logits works in this process only", "Leave it out, or run without a cluster")
    store = open_store(args)
    parts = 1 if args.resume else len(args.model or [None]) * len(args.lp or [None])
    if args.json_report and parts > 1:
        raise RunError(f"--json-report is one file, but there are {parts} runs", "Use `export`")
    check_profile(args, elsewhere=is_remote, parts=parts)
    with reporting(args) as say, remote_workers(args) as workers, recording(args, say) as log:
        states = _resumed(args, store, workers) if args.resume else _new_runs(args, store, workers)
        if args.submit:
            return submit_runs(args, store, states, workers)
        entries = [
            _write(args, state, partial(say, part=number, parts=parts), log) for number, state in enumerate(states)
        ]
    if args.json_report:
        from engine.store.reports.exporting import export_report

        export_report(entries[0], path_of(args.json_report))
    show_runs(entries, is_json=args.json)
    return 0


def _new_runs(args: argparse.Namespace, store: Store, workers: RemoteWorkers) -> Iterator[RunState]:
    """Begins one run after the other: each when the one before is in the store, or submitted."""
    from engine.store.references import reference_set

    plans = _plans(args)  # all of them, before the first molecule is read
    references = None if args.references is None else reference_set(store, args.references)
    molecules = _molecules(args) if references is None else _molecules_of_references(args, references)
    set_threads(args.threads)
    from engine.runner.plan import RunPlan
    from engine.runner.run import begin

    for entry, plans_of_model in plans:
        loaded = load_for(workers, entry, args)
        for plan in plans_of_model:
            staging = begin(
                store.home, loaded, molecules, plan, references=references, **begin_args(workers, args.device)
            )
            yield run_state(workers, staging, loaded, molecules, RunPlan.read(staging.sheet["plan"]))


def _plans(args: argparse.Namespace) -> list[tuple[ModelEntry, list[RunPlan]]]:
    from engine.lp_records import full_name, split_cleanup
    from engine.runner.plan import ModelChoice, RunPlan

    names = args.model or [None]
    if args.step and len(names) > 1:
        raise RunError("--step with several models is ambiguous", "Give each as ALIAS:STEP")
    lps = [full_name(name) for name in args.lp or ["exact"]]
    if args.bins and any(split_cleanup(lp)[0] not in ("exact", "none") for lp in lps):
        problem = "a run with --bins is for the LPs exact and none; the others write decimals"
        raise RunError(problem, "Leave --bins or --lp out")
    if args.bins and args.json_report:
        raise RunError("the report format does not say what a bin is", "Leave --json-report out, and use `export --as`")
    plans = []
    for name, entry in [(name, entry_of(args, name)) for name in names]:
        model = ModelChoice(
            alias=entry.alias if name else "",
            step=entry.step if name else "",
            folder="" if args.model_path is None else str(path_of(args.model_path).absolute()),
            tokenizer=args.tokenizer_name,
            device=args.device,
            dtype=args.dtype,
            attention=args.attention,
        )
        plans_of_model = [
            RunPlan(
                model,
                plan_of(args, entry.numbers, lp),
                keep_steps=args.keep_steps or 0,
                closing=not args.no_closing,
                rmsd=args.rmsd or 0,
                judge=args.judge,
                strain=args.strain,
                group=args.group or 0,
                label=args.label,
                source=typed_command("run"),
            )
            for lp in lps
        ]
        plans.append((entry, plans_of_model))
    return plans


def _resumed(args: argparse.Namespace, store: Store, workers: RemoteWorkers) -> Iterator[RunState]:
    from engine.models.loading import load_model
    from engine.runner.run import molecules_of, resume

    staging, plan = resume(store.home, args.resume)
    if staging.is_being_written:
        raise RunError(f"{staging.id} is being written by another process", "Wait for it, or stop it")
    model = plan.model if args.device == "auto" else replace(plan.model, device=args.device)
    loaded = None
    if workers is None:
        set_threads(args.threads)
        staging.lock()
        loaded = load_model(model.entry(), model.device, model.dtype, model.attention)
    yield run_state(workers, staging, loaded, molecules_of(staging), replace(plan, model=model))


def _write(args: argparse.Namespace, state: RunState, say: Say, log: LogFile | None) -> Entry:
    """The whole run, into the store; with its logits logged and under the profiler where that is asked for."""
    from engine.runner.run import Run

    row, plan = state.staging.sheet["row"], state.plan.plan
    label = state.plan.label or f"{row['model_alias']}:{row['model_step']}, {plan.lp}"
    with profiling(args, backend=plan.backend, label=label, run_id=state.staging.id) as watch:
        if isinstance(state, Run):
            state.watch = watch
            if log is not None:
                state.tap = log.tap(state.loaded, plan.sampling, plan.seed, state.staging.id)
        display = _RunDisplay(state, say, is_quiet=args.json)
        try:
            for progress in state.progress():
                display.draw(progress)
            entry = state.publish()
        except (KeyboardInterrupt, DriftscopeError) as error:
            display.close()
            what = "stopped" if isinstance(error, KeyboardInterrupt) else "saved samples stay"
            note(f"{what}; `python -m engine run --resume {state.staging.id}` resumes the run")
            raise
        finally:
            state.staging.release()
        display.close()
        display.report(state.now(), now=True, state="done")
        return entry


class _RunDisplay:
    """How far a run is: on the terminal, and in the progress file."""

    def __init__(self, state: RunState, say: Say, *, is_quiet: bool) -> None:
        self.line, self.state = StatusLine(), state
        row = state.staging.sheet["row"]
        self.say = partial(say, **{name: row[name] for name in ("run_id", "model_alias", "model_step", "lp")})
        first = state.now()
        self.began = first.work  # of a resumed run, what others wrote
        self.report(first, now=True)
        if not is_quiet:
            model = f"{row['model_alias']}:{row['model_step']}"
            loaded = getattr(state, "loaded", None)  # in this process, if it is a part of the run
            threads = None if loaded is None else threads_of(loaded.device)
            end = "" if threads is None else f", {counted(threads, 'thread')}"
            note(f"{state.staging.id}: {model}, {row['lp']}, {row['backend']}, {row['device'] or 'Ray actors'}{end}")

    def report(self, progress: RunProgress, **more: Any) -> None:
        values = asdict(progress)
        del values["run_id"], values["notes"]
        self.say(**values, **more)

    def draw(self, progress: RunProgress) -> None:
        self.report(progress)
        work = progress.work
        left_s = progress.left_s(self.began)
        left = f", {left_s:,.0f} s left" if left_s is not None and work < 1 else ""
        bad = f", {progress.bad_blocks} of {progress.blocks} blocks bad" if progress.bad_blocks else ""
        rates = f"{progress.pass_rate:.1%} passed, {progress.decodes_rate:.1%} decode, {progress.clean_rate:.1%} clean"
        self.line.draw(
            f"{bar(work)} {progress.done}/{progress.samples} samples, {progress.samples_a_second:,.1f} samples/s"
            f"{left}, {rates}{bad}",
            now=progress.done == progress.samples,
        )

    def close(self) -> None:
        self.line.clear()
        for text in self.state.notes:
            note(text)


def _molecules_of_references(args: argparse.Namespace, references: ReferenceSet) -> list[Molecule]:
    """Each once, or under --per-reference as often as it is asked for: so many times its conformers in the set."""
    from engine.chem.smiles import parse_smiles

    if args.smiles or args.smiles_file:
        molecules = _molecules(args)
    else:
        molecules = [parse_smiles(smiles) for smiles in references.molecules()[: args.sample_size]]
    asked: list[Molecule] = []
    for molecule in molecules:
        conformers = references.conformers(molecule.smiles)
        if conformers is None:
            note(f"left out: {references.name} has no conformer of {molecule.smiles}")
        else:
            asked += [molecule] * ((args.per_reference or 0) * conformers.GetNumConformers() or 1)
    if not asked:
        raise RunError(f"{references.name} has none of these molecules", "Without SMILES all of the set are taken")
    return asked


def _molecules(args: argparse.Namespace) -> Sequence[Molecule]:
    if args.smiles and args.smiles_file:
        raise RunError("give either SMILES or --smiles-file", "Leave one of the two out")
    if args.smiles_file:
        return _molecules_of_file(args)
    molecules = _molecules_read(args)
    if args.order == "canonical":
        return molecules
    from engine.chem.smiles import in_text_order

    return [in_text_order(molecule, molecule.source) for molecule in molecules]


def _molecules_of_file(args: argparse.Namespace) -> Sequence[Molecule]:
    from engine.chem.molecule_files import read_molecule_file
    from engine.chem.smiles import parse_smiles, parse_written

    parse, line = parse_smiles if args.order == "canonical" else parse_written, StatusLine(is_quiet=args.json)
    try:
        molecules, skipped = read_molecule_file(
            path_of(args.smiles_file),
            column=args.smiles_column,
            limit=args.sample_size,
            parse=parse,
            progress=lambda done: line.draw(f"{done:,} molecules read") if line.is_due else None,
        )
    finally:
        line.clear()
    for left_out in skipped:
        sys.stderr.write(f"left out, line {left_out.line}: {left_out.error}\n")
    if skipped.total > len(skipped):
        sys.stderr.write(f"left out, {skipped.total - len(skipped):,} lines more\n")
    return molecules


def _molecules_read(args: argparse.Namespace) -> list[Molecule]:
    if args.smiles:
        return read_molecules(smiles_of(args.smiles)[: args.sample_size])[0]
    from engine.chem.molecule_sets import load_run_set
    from engine.chem.smiles import parse_smiles

    return [parse_smiles(smiles) for smiles in load_run_set(args.sample_size or DEFAULT_MOLECULES)]
