"""``run``: molecules x LPs x models into runs of the store, here or on a cluster; resuming a stopped run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from engine.cli.entries import show_entries
from engine.cli.generate import (
    LPS_HELP,
    SMILES,
    Logging,
    Model,
    Plan,
    Profiling,
    read_molecules,
    set_threads,
    smiles_of,
)
from engine.cli.terminal import (
    MANY_MOLECULES,
    RMSD,
    Io,
    Progress,
    Say,
    StatusLine,
    command,
    new_app,
    note,
    only_with,
    option,
    path_of,
    typed_command,
    whole,
)
from engine.errors import DriftscopeError
from engine.figures.words import counted
from engine.lp_records import full_name, split_cleanup
from engine.models.registry import ModelEntry
from engine.records import Molecule
from engine.store.schema import RUN

if TYPE_CHECKING:
    from engine.runner.plan import RunPlan, RunProgress
    from engine.runner.ray_run import Pool
    from engine.runner.run_state import RunState
    from engine.runner.submit import Cluster as Submitting
    from engine.runner.submit import Submitted
    from engine.store.entries import Entry
    from engine.store.references import ReferenceSet
    from engine.store.store import Store

    RemoteWorkers: TypeAlias = Submitting | Pool | None  # None: this process alone

app = new_app()
DEFAULT_MOLECULES = 64
SubmitKind = Literal["local", "debug", "slurm", "h100", "a100"]
_TIME = re.compile(r"(\d{1,5}):([0-5]\d):([0-5]\d)|(\d{1,6})")


def minutes(text: str) -> int:
    match = _TIME.fullmatch(text)
    hours, minutes, seconds, only_minutes = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    total = only_minutes + 60 * hours + minutes + (seconds > 0)
    if not total:
        raise ValueError(f"{text!r} is not a time such as 90 (minutes) or 01:30:00")
    return total


@dataclass(frozen=True, slots=True)
class Cluster:
    submit: SubmitKind | None = option(None, "tasks through submitit: processes here, or Slurm, with that GPU")
    array: int | None = option(None, "number of tasks (1)", of=whole(10_000), metavar="N")
    partition: str | None = option(None, "for Slurm", metavar="P")
    time: int | None = option(None, "per task: minutes or HH:MM:SS (Slurm: 04:00:00)", of=minutes)
    slurm: list[str] | None = option(None, "more options of sbatch, such as account", metavar="KEY=VALUE")
    logs: str | None = option(None, "folder of the tasks' logs (default: beside the runs)", metavar="DIR")
    wait: bool = option(False, "wait until the tasks have ended")
    engine: Literal["here", "ray"] = option("here", "ray: a pool of actors")
    actors: int | None = option(None, "default: one per GPU, or one per machine", of=whole(10_000))
    address: str | None = option(None, "of the Ray cluster (default: RAY_ADDRESS, or this machine)")
    gpus_per_task: int | None = option(None, "or per actor (default: one if there are any)", of=whole(64, 0))

    def check(self) -> None:
        if self.submit and self.engine == "ray":
            raise DriftscopeError("give either --submit or --engine ray", "Ray can start inside a Slurm job")
        for_submit = {name: getattr(self, name) for name in ("partition", "time", "array", "slurm", "logs", "wait")}
        only_with("--submit", self.submit, **for_submit)
        only_with("--engine ray", self.engine == "ray", actors=self.actors, address=self.address)
        is_elsewhere = self.submit or self.engine == "ray"
        only_with("--submit and --engine ray", is_elsewhere, gpus_per_task=self.gpus_per_task is not None)

    @contextmanager
    def workers(self, model: Model) -> Iterator[RemoteWorkers]:
        """The cluster or the pool of actors that writes the runs, for as long as this lasts; None: this process."""
        if self.submit:
            from engine.runner.submit import Cluster as Submitting
            from engine.runner.submit import check

            more = {key: value for key, _, value in (option.partition("=") for option in self.slurm or [])}
            cluster = Submitting(
                self.submit, self.array or 1, self.partition or "", self.time, self.gpus_per_task, model.threads, more
            )
            check(cluster)
            yield cluster
        elif self.engine == "ray":
            from engine.runner.ray_run import Actors, connected

            actors = Actors(self.actors, self.gpus_per_task, model.threads, self.address or "")
            with connected(actors, model.device) as pool:
                yield pool
        else:
            yield None


@dataclass(frozen=True, slots=True)
class Molecules:
    smiles: list[str] | None = SMILES
    smiles_file: str | None = option(None, "SMILES, CSV, TSV, SDF, JSON lines or Parquet, .gz", metavar="FILE")
    smiles_column: str | None = option(None, "of a CSV or Parquet file (default: found by name)")
    order: Literal["canonical", "written"] = option("canonical", "of the atoms: written keeps the input's")
    sample_size: int | None = option(None, "the first N; without SMILES, of the held-out ones (64)", of=MANY_MOLECULES)
    references: str | None = option(None, "those of a set of the store (see `references`); --rmsd is to its conformers")
    per_reference: int | None = option(None, "N samples per conformer of --references", of=whole(1_000))

    def read(self, references: ReferenceSet | None, *, is_quiet: bool) -> Sequence[Molecule]:
        """Of ``references`` each once, or under --per-reference so many times its conformers in the set."""
        from engine.chem.molecule_sets import load_run_set
        from engine.chem.smiles import in_text_order, parse_smiles, parse_written

        if self.smiles and self.smiles_file:
            raise DriftscopeError("give either SMILES or --smiles-file", "Leave one of the two out")
        molecules: Sequence[Molecule]
        if self.smiles_file:
            from engine.chem.molecule_files import read_molecule_file

            with StatusLine(is_quiet=is_quiet) as line:
                molecules, skipped = read_molecule_file(
                    path_of(self.smiles_file),
                    column=self.smiles_column,
                    limit=self.sample_size,
                    parse=parse_smiles if self.order == "canonical" else parse_written,
                    progress=lambda done: line.draw(f"{done:,} molecules read"),
                )
            for left_out in skipped:
                note(f"left out, line {left_out.line}: {left_out.error}")
            if skipped.total > len(skipped):
                note(f"left out, {skipped.total - len(skipped):,} lines more")
        elif self.smiles:
            molecules = read_molecules(smiles_of(self.smiles)[: self.sample_size])[0]
        elif references is not None:
            molecules = [parse_smiles(smiles) for smiles in references.molecules()[: self.sample_size]]
        else:
            molecules = [parse_smiles(smiles) for smiles in load_run_set(self.sample_size or DEFAULT_MOLECULES)]
        if self.order == "written" and not self.smiles_file and (self.smiles or references is None):
            molecules = [in_text_order(molecule, molecule.source) for molecule in molecules]
        if references is None:
            return molecules
        asked: list[Molecule] = []
        for molecule in molecules:
            conformers = references.conformers(molecule.smiles)
            if conformers is None:
                note(f"left out: {references.name} has no conformer of {molecule.smiles}")
            else:
                asked += [molecule] * ((self.per_reference or 0) * conformers.GetNumConformers() or 1)
        if not asked:
            raise DriftscopeError(f"{references.name} has none of these molecules", "Without SMILES all are taken")
        return asked


@dataclass(frozen=True, slots=True)
class Run:
    label: str = option("", "a name of your own")
    keep_steps: int | None = option(None, "keep the steps of the first N samples", of=MANY_MOLECULES)
    rmsd: int | None = RMSD
    judge: bool = option(False, "judge the molecules while the model writes (see `judge`)")
    strain: bool = option(False, "judge them, with their strain (MMFF94)")
    no_closing: bool = option(False, "skip the check of blocks that were closed by force")
    group: int | None = option(None, "molecules saved at a time: what a killed run loses at most", of=MANY_MOLECULES)
    resume: str | None = option(None, "resume a stopped run (see `runs --unfinished`)", metavar="RUN")
    json_report: str | None = option(None, "also write the run as a report file, plain or .gz", metavar="FILE")


@command(app, "run", rules=True)
def run(
    io: Io,
    molecules: Molecules,
    of_model: Model,
    of_plan: Plan,
    of_run: Run,
    profiled: Profiling,
    logged: Logging,
    cluster: Cluster,
    progress: Progress,
    model: list[str] | None = option(None, "ALIAS or ALIAS:STEP; may be repeated", "--model", "--model-alias"),
    lp: list[str] | None = option(None, f"{LPS_HELP}; may be repeated", "--lp", "--processor-type"),
    no_logit_processor: bool | None = option(None, "--lp none"),
) -> int:
    """many molecules under models and LPs, stored as runs

    Each model writes the molecules under each LP. Every pair of model and LP becomes a run of the store.
    """
    from engine.runner.run import Run as Written

    cluster.check()
    lps = [*(lp or []), *(["none"] if no_logit_processor else [])] or ["exact"]
    per_reference = molecules.references and of_plan.n == 1
    only_with("--references, in place of --n", per_reference, per_reference=molecules.per_reference)
    report, said = of_run.json_report, progress.progress
    only_with("a run that is not submitted", not cluster.submit, json_report=report, progress=said)
    is_here = not cluster.submit and cluster.engine == "here"
    only_with("a run of this process", is_here, log_logits=logged.log_logits, profile=profiled.profile)
    to = io.opened()
    parts = 1 if of_run.resume else len(model or [None]) * len(lps)
    if of_run.json_report and parts > 1:
        raise DriftscopeError(f"--json-report is one file, but there are {parts} runs", "Use `export`")
    profiled.check(io, parts=parts)
    with (
        progress.reporting() as say,
        cluster.workers(of_model) as workers,
        logged.recording(io, of_run.label, say) as log,
    ):
        if of_run.resume:
            states = _resumed(to, of_run.resume, of_model, workers)
        else:
            plans = _plans(model, lps, of_model, of_plan, of_run)  # all of them, before the first molecule is read
            states = _begun(to, plans, molecules, of_model, workers, is_quiet=io.is_json)
        if cluster.submit:
            return _submit(io, to, states, workers, cluster)
        entries = []
        for number, state in enumerate(states):
            row, plan = state.staging.sheet["row"], state.plan.plan
            label = state.plan.label or f"{row['model_alias']}:{row['model_step']}, {plan.lp}"
            with profiled.recording(io, plan.backend, label, "run --profile", run_id=state.staging.id) as watch:
                if isinstance(state, Written):
                    state.watch = watch
                    if log is not None:
                        state.tap = log.tap(state.loaded, plan.sampling, plan.seed, state.staging.id)
                entries.append(_write(state, partial(say, part=number, parts=parts), is_quiet=io.is_json))
    if of_run.json_report:
        from engine.store.reports.exporting import export_report

        export_report(entries[0], path_of(of_run.json_report))
    return show_entries(io, RUN, entries)


def _plans(
    models: Sequence[str] | None, lps: Sequence[str], of_model: Model, of_plan: Plan, of_run: Run
) -> list[tuple[ModelEntry, list[RunPlan]]]:
    from engine.runner.plan import ModelChoice, RunPlan

    names: Sequence[str | None] = models or [None]
    if of_model.step and len(names) > 1:
        raise DriftscopeError("--step with several models is ambiguous", "Give each as ALIAS:STEP")
    lps = [full_name(name) for name in lps]
    if of_plan.bins and any(split_cleanup(lp)[0] not in ("exact", "none") for lp in lps):
        problem = "a run with --bins is for the LPs exact and none; the others write decimals"
        raise DriftscopeError(problem, "Leave --bins or --lp out")
    if of_plan.bins and of_run.json_report:
        raise DriftscopeError("the report format does not say what a bin is", "Use `export --as`")
    plans = []
    for name, entry in [(name, of_model.entry(name)) for name in names]:
        model = ModelChoice(
            alias=entry.alias if name else "",
            step=entry.step if name else "",
            folder="" if of_model.model_path is None else str(path_of(of_model.model_path).absolute()),
            tokenizer=of_model.tokenizer_name,
            device=of_model.device,
            dtype=of_model.dtype,
            attention=of_model.attention,
        )
        of_entry = [
            RunPlan(
                model,
                of_plan.of(entry.numbers, lp),
                keep_steps=of_run.keep_steps or 0,
                closing=not of_run.no_closing,
                rmsd=of_run.rmsd or 0,
                judge=of_run.judge,
                strain=of_run.strain,
                group=of_run.group or 0,
                label=of_run.label,
                source=typed_command("run"),
            )
            for lp in lps
        ]
        plans.append((entry, of_entry))
    return plans


def _begun(
    store: Store,
    plans: list[tuple[ModelEntry, list[RunPlan]]],
    asked: Molecules,
    model: Model,
    workers: RemoteWorkers,
    *,
    is_quiet: bool,
) -> Iterator[RunState]:
    """Begins one run after the other: each when the one before is in the store, or submitted."""
    from engine.store.references import reference_set

    references = None if asked.references is None else reference_set(store, asked.references)
    molecules = asked.read(references, is_quiet=is_quiet)
    set_threads(model.threads)
    from engine.models.loading import load_model, load_outline
    from engine.runner.plan import RunPlan
    from engine.runner.run import begin
    from engine.runner.submit import Cluster as Submitting

    more: dict[str, Any] = {}
    if isinstance(workers, Submitting):
        more = {"parts": workers.tasks, "on_gpu": workers.gpus_a_task(model.device) > 0}
    elif workers is not None:
        more = {"parts": workers.count, "on_gpu": workers.gpus > 0}
    for entry, of_entry in plans:
        if workers is None:
            loaded = load_model(entry, model.device, model.dtype, model.attention)
        else:  # other processes compute
            loaded = load_outline(entry, model.dtype, model.attention)
        for plan in of_entry:
            staging = begin(store.home, loaded, molecules, plan, references=references, **more)
            yield _state(workers, staging, molecules, RunPlan.read(staging.sheet["plan"]), loaded)


def _resumed(store: Store, run_id: str, model: Model, workers: RemoteWorkers) -> Iterator[RunState]:
    from engine.models.loading import load_model
    from engine.runner.run import molecules_of, resume

    staging, plan = resume(store.home, run_id)
    if staging.is_being_written:
        raise DriftscopeError(f"{staging.id} is being written by another process", "Wait for it, or stop it")
    choice = plan.model if model.device == "auto" else replace(plan.model, device=model.device)
    loaded = None
    if workers is None:
        set_threads(model.threads)
        staging.lock()
        loaded = load_model(choice.entry(), choice.device, choice.dtype, choice.attention)
    yield _state(workers, staging, molecules_of(staging), replace(plan, model=choice), loaded)


def _state(workers: RemoteWorkers, staging: Any, molecules: Any, plan: RunPlan, loaded: Any) -> RunState:
    """The run: to be written by this process or by actors, or to be submitted."""
    from engine.runner.ray_run import Pool, RayRun
    from engine.runner.run import Run as Written
    from engine.runner.run_state import RunState

    if isinstance(workers, Pool):
        return RayRun(staging, molecules, plan, plan.model.entry(), workers)
    return Written(staging, loaded, molecules, plan) if workers is None else RunState(staging, molecules, plan)


def _write(state: RunState, say: Say, *, is_quiet: bool) -> Entry:
    """The whole run, into the store; how far it is on the terminal and in the progress file."""
    from engine.models.devices import threads_of

    row, first, id_ = state.staging.sheet["row"], state.now(), state.staging.id
    say = partial(say, **{name: row[name] for name in ("run_id", "model_alias", "model_step", "lp")})

    def figures(progress: RunProgress) -> dict[str, Any]:
        return {name: value for name, value in asdict(progress).items() if name not in ("run_id", "notes")}

    say(**figures(first), now=True)
    if not is_quiet:
        loaded = getattr(state, "loaded", None)  # in this process, if it is a part of the run
        threads = None if loaded is None else threads_of(loaded.device)
        end = "" if threads is None else f", {counted(threads, 'thread')}"
        model = f"{row['model_alias']}:{row['model_step']}"
        note(f"{id_}: {model}, {row['lp']}, {row['backend']}, {row['device'] or 'Ray actors'}{end}")
    end = ""
    try:
        with StatusLine() as line:
            for progress in state.progress():
                say(**figures(progress))
                line.draw(progress_words(progress, first.work), progress.work, now=progress.done == progress.samples)
            entry = state.publish()
    except (KeyboardInterrupt, DriftscopeError) as error:
        what = "stopped" if isinstance(error, KeyboardInterrupt) else "saved samples stay"
        end = f"{what}; `python -m engine run --resume {id_}` resumes the run"
        raise
    finally:
        state.staging.release()
        for text in filter(None, [*state.notes, end]):
            note(text)
    say(**figures(state.now()), now=True, state="done")
    return entry


def progress_words(progress: RunProgress, began: float) -> str:
    """``began``: the share of a resumed run that others wrote."""
    left_s = progress.left_s(began)
    left = f", {left_s:,.0f} s left" if left_s is not None and progress.work < 1 else ""
    rates = f"{progress.pass_rate:.1%} passed, {progress.decodes_rate:.1%} decode, {progress.clean_rate:.1%} clean"
    return f"{progress.done}/{progress.samples} samples, {progress.samples_a_second:,.1f} samples/s{left}, {rates}"


def _submit(io: Io, store: Store, states: Iterator[RunState], workers: Any, asked: Cluster) -> int:
    """Submits all runs; with --wait, waits until they are in the store."""
    from engine.runner.submit import submit

    logs = None if asked.logs is None else path_of(asked.logs).absolute()
    submitted = [(state, submit(state, workers, logs)) for state in states]
    for state, tasks in submitted:
        if not tasks.jobs:  # all groups are written, but the last writer could not publish the run
            state.publish_if_whole()
    if asked.wait or workers.kind == "debug":
        return show_entries(io, RUN, [_await(store, *one, is_quiet=io.is_json) for one in submitted])
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
    return io.show(rows)


def _await(store: Store, state: RunState, tasks: Submitted, *, is_quiet: bool) -> Entry:
    groups = len(state.groups)
    try:
        with StatusLine(is_quiet=is_quiet) as line:
            for written in tasks.wait():
                line.draw(f"{tasks.run_id} {written}/{groups} groups", written / groups, now=True)
            is_shown = state.publish_if_whole()
    except KeyboardInterrupt:
        if tasks.cancel:
            note(f"the tasks of {tasks.run_id} keep running; `{tasks.cancel}` ends them")
        raise
    if not is_shown:
        problems = tasks.problems() or ["no task gave a reason"]
        what = f"{tasks.run_id} is unfinished: {problems[0]}"
        raise DriftscopeError(what, f"See {tasks.logs}; `python -m engine run --resume {tasks.run_id}`")
    return store.entry(tasks.run_id)
