"""``run``: molecules x LPs x models into runs of the store, here or on a cluster; resuming a stopped run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from engine.cli import terminal as cli
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
)
from engine.errors import DriftscopeError
from engine.figures.words import counted
from engine.lp_records import full_name, split_cleanup
from engine.records import Molecule
from engine.store.schema import RUN

if TYPE_CHECKING:
    from engine.runner.plan import RunProgress
    from engine.runner.run_state import RunState
    from engine.store.entries import Entry
    from engine.store.references import ReferenceSet
    from engine.store.store import Store

app = cli.new_app()
SubmitKind = Literal["local", "debug", "slurm", "h100", "a100"]


def minutes(text: str) -> int:
    match = re.fullmatch(r"(?:(\d{1,5}):([0-5]\d):([0-5]\d))|(\d{1,6})", text)
    hours, minutes, seconds, only = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    if total := only + 60 * hours + minutes + (seconds > 0):
        return total
    raise ValueError(f"{text!r} is not a time such as 90 (minutes) or 01:30:00")


@dataclass(frozen=True, slots=True)
class Cluster:
    kind: SubmitKind | None = cli.option(None, "by submitit: processes here, or Slurm, with that GPU", "--submit")
    tasks: int | None = cli.option(None, "number of tasks (1)", "--array", of=cli.most(10_000), metavar="N")
    partition: str | None = cli.option(None, "for Slurm", metavar="P")
    minutes: int | None = cli.option(None, "per task: minutes or HH:MM:SS (Slurm: 04:00:00)", "--time", of=minutes)
    slurm: list[str] | None = cli.option(None, "more options of sbatch, such as account", metavar="KEY=VALUE")
    logs: str | None = cli.option(None, "folder of the tasks' logs (default: beside the runs)", metavar="DIR")
    wait: bool = cli.option(False, "wait until the tasks have ended")
    engine: Literal["here", "ray"] = cli.option("here", "ray: a pool of actors")
    count: int | None = cli.option(None, "default: one per GPU, or one per machine", "--actors", of=cli.most(10_000))
    address: str | None = cli.option(None, "of the Ray cluster (default: RAY_ADDRESS, or this machine)")
    gpus: int | None = cli.option(None, "or per actor (default: one, if any)", "--gpus-per-task", of=cli.most(64, 0))

    @contextmanager
    def workers(self, model: Model) -> Iterator[Any]:
        """The cluster or the pool of actors that writes the runs, for as long as this lasts; None: this process."""
        if self.kind and self.engine == "ray":
            raise DriftscopeError("give either --submit or --engine ray", "Ray can start inside a Slurm job")
        of_task = cli.picked(self, "partition slurm logs wait") | {"time": self.minutes, "array": self.tasks}
        cli.only_with("--submit", self.kind, **of_task)
        cli.only_with("--engine ray", self.engine == "ray", actors=self.count, address=self.address)
        is_elsewhere = self.kind or self.engine == "ray"
        cli.only_with("--submit and --engine ray", is_elsewhere, gpus_per_task=self.gpus is not None)
        if self.kind:
            from engine.runner.submit import Cluster as Submitting
            from engine.runner.submit import check

            more = {key: value for key, _, value in (option.partition("=") for option in self.slurm or [])}
            cluster = Submitting(**cli.given(Submitting, self), threads=model.threads, more=more)
            check(cluster)
            yield cluster
        elif self.engine == "ray":
            from engine.runner.ray_run import Actors, connected

            with connected(Actors(**cli.given(Actors, self), threads=model.threads), model.device) as pool:
                yield pool
        else:
            yield None


@dataclass(frozen=True, slots=True)
class Molecules:
    smiles: list[str] | None = SMILES
    smiles_file: str | None = cli.option(None, "SMILES, CSV, TSV, SDF, JSON lines or Parquet, .gz", metavar="FILE")
    smiles_column: str | None = cli.option(None, "of a CSV or Parquet file (default: found by name)")
    order: Literal["canonical", "written"] = cli.option("canonical", "of the atoms: written keeps the input's")
    sample_size: int | None = cli.option(None, "the first N; alone: of the held-out ones (64)", of=cli.MANY_MOLECULES)
    references: str | None = cli.option(None, "those of a set (see `references`); --rmsd is to its conformers")
    per_reference: int | None = cli.option(None, "N samples per conformer of --references", of=cli.most(1_000))

    def read(self, references: ReferenceSet | None, *, is_quiet: bool) -> Sequence[Molecule]:
        """Of ``references`` each once, or under --per-reference so many times its conformers in the set."""
        from engine.chem.molecule_sets import load_run_set

        smiles: Sequence[str] = self.smiles or []
        if not (smiles or self.smiles_file):
            smiles = load_run_set(self.sample_size or 64) if references is None else references.molecules()
        molecules, _ = read_molecules(
            smiles, self.smiles_file, is_quiet=is_quiet,
            order=self.order, limit=self.sample_size, column=self.smiles_column,
        )  # fmt: skip
        if references is None:
            return molecules
        asked: list[Molecule] = []
        for molecule in molecules:
            conformers = references.conformers(molecule.smiles)
            if conformers is None:
                cli.note(f"left out: {references.name} has no conformer of {molecule.smiles}")
            else:
                asked += [molecule] * ((self.per_reference or 0) * conformers.GetNumConformers() or 1)
        if not asked:
            raise DriftscopeError(f"{references.name} has none of these molecules", "Without SMILES all are taken")
        return asked


@dataclass(frozen=True, slots=True)
class Run:
    label: str = cli.option("", "a name of your own")
    keep_steps: int | None = cli.option(None, "keep the steps of the first N samples", of=cli.MANY_MOLECULES)
    rmsd: int | None = cli.RMSD
    judge: bool = cli.option(False, "judge the molecules while the model writes (see `judge`)")
    strain: bool = cli.option(False, "judge them, with their strain (MMFF94)")
    no_closing: bool = cli.option(False, "skip the check of blocks that were closed by force")
    group: int | None = cli.option(None, "molecules saved at a time: a killed run loses these", of=cli.MANY_MOLECULES)
    resume: str | None = cli.option(None, "resume a stopped run (see `runs --unfinished`)", metavar="RUN")
    json_report: str | None = cli.option(None, "also write the run as a report file, plain or .gz", metavar="FILE")


@cli.command(app, "run", rules=True)
def run(
    io: cli.Io,
    molecules: Molecules,
    of_model: Model,
    of_plan: Plan,
    of_run: Run,
    profiled: Profiling,
    logged: Logging,
    cluster: Cluster,
    progress: cli.Progress,
    model: list[str] | None = cli.option(None, "ALIAS or ALIAS:STEP; may be repeated", "--model", "--model-alias"),
    lp: list[str] | None = cli.option(None, f"{LPS_HELP}; may be repeated", "--lp", "--processor-type"),
    no_logit_processor: bool | None = cli.option(None, "--lp none"),
) -> int:
    """many molecules under models and LPs, stored as runs

    Each model writes the molecules under each LP. Every pair of model and LP becomes a run of the store.
    """
    from engine.runner.batch import begun, resumed
    from engine.runner.plan import RunPlan
    from engine.runner.run import Run as Written
    from engine.store.references import reference_set

    models: Sequence[str | None] = model or [None]
    lps = [*(lp or []), *(["none"] if no_logit_processor else [])] or ["exact"]
    per_reference = molecules.references and of_plan.generations == 1
    cli.only_with("--references, in place of --n", per_reference, per_reference=molecules.per_reference)
    report, trace = of_run.json_report, profiled.profile_output
    cli.only_with("a run that is not submitted", not cluster.kind, json_report=report, progress=progress.progress)
    is_here = not cluster.kind and cluster.engine == "here"
    cli.only_with("a run of this process", is_here, log_logits=logged.log_logits, profile=profiled.profile)
    profiled.check(io)
    parts = 1 if of_run.resume else len(models) * len(lps)
    if (report or trace) and parts > 1:
        name, fix = ("--json-report", "Use `export`") if report else ("--profile-output", "Leave it out")
        raise DriftscopeError(f"{name} is one file, but there are {parts} runs", fix)
    if of_model.step and len(models) > 1:
        raise DriftscopeError("--step with several models is ambiguous", "Give each as ALIAS:STEP")
    if of_plan.bins and any(split_cleanup(full_name(name))[0] not in ("exact", "none") for name in lps):
        problem = "a run with --bins is for the LPs exact and none; the others write decimals"
        raise DriftscopeError(problem, "Leave --bins or --lp out")
    if of_plan.bins and report:
        raise DriftscopeError("the report format does not say what a bin is", "Use `export --as`")
    to = io.opened()

    more = cli.given(RunPlan, of_run) | {"closing": not of_run.no_closing, "source": cli.typed_command("run")}

    def states() -> Iterator[RunState]:
        if of_run.resume:
            yield resumed(to.home, workers, of_run.resume, of_model.device)
            return
        chosen = list(map(of_model.chosen, models))
        plans = [RunPlan(choice, of_plan.of(entry.numbers, name), **more) for entry, choice in chosen for name in lps]
        references = None if molecules.references is None else reference_set(to, molecules.references)
        asked = molecules.read(references, is_quiet=io.is_json)
        yield from begun(to.home, workers, asked, plans, references)

    with (
        progress.reporting(is_quiet=io.is_json) as say,
        cluster.workers(of_model) as workers,
        logged.recording(io, of_run.label, say) as log,
    ):
        if not workers:
            set_threads(of_model.threads)
        if cluster.kind:
            return _submit(io, to, states(), workers, cluster)
        entries = []
        for number, written in enumerate(states()):
            row, plan = written.staging.sheet["row"], written.plan.plan
            label = written.plan.label or f"{row['model_alias']}:{row['model_step']}, {plan.lp}"
            with profiled.recording(io, plan.backend, label, "run --profile", written.staging.id) as watch:
                if isinstance(written, Written):
                    written.watch = watch
                    if log is not None:
                        written.tap = log.tap(written.loaded, plan.sampling, plan.seed, written.staging.id)
                entries.append(_write(written, partial(say, part=number, parts=parts), is_quiet=io.is_json))
    if report:
        from engine.store.reports.exporting import export_report

        export_report(entries[0], cli.path_of(report))
    return show_entries(io, RUN, entries)


def _write(state: RunState, say: cli.Say, *, is_quiet: bool) -> Entry:
    """The whole run, into the store; how far it is on the terminal and in the progress file."""
    row, first, id_ = state.staging.sheet["row"], state.now(), state.staging.id
    say = partial(say, **{name: row[name] for name in ("model_alias", "model_step", "lp")})
    say(**asdict(first), now=True)
    if not is_quiet:
        end = f", {counted(row['threads'], 'thread')}" if row["threads"] else ""
        model = f"{row['model_alias']}:{row['model_step']}"
        cli.note(f"{id_}: {model}, {row['lp']}, {row['backend']}, {row['device'] or 'Ray actors'}{end}")
    try:
        for now in state.progress():
            say(progress_words(now, first.work), now=now.done == now.samples, **asdict(now))
        entry = state.publish()
    except (KeyboardInterrupt, DriftscopeError) as error:
        what = "stopped" if isinstance(error, KeyboardInterrupt) else "saved samples stay"
        state.notes.append(f"{what}; `python -m engine run --resume {id_}` resumes the run")
        raise
    finally:
        state.staging.release()
        for text in state.notes:
            cli.note(text)
    say(**asdict(state.now()), now=True, state="done")
    return entry


def progress_words(progress: RunProgress, began: float) -> str:
    """``began``: the share of a resumed run that others wrote."""
    left_s = progress.left_s(began)
    left = f", {left_s:,.0f} s left" if left_s is not None and progress.work < 1 else ""
    rates = f"{progress.pass_rate:.1%} passed, {progress.decodes_rate:.1%} decode, {progress.clean_rate:.1%} clean"
    return f"{progress.done}/{progress.samples} samples, {progress.samples_a_second:,.1f} samples/s{left}, {rates}"


def _submit(io: cli.Io, store: Store, states: Iterator[RunState], workers: Any, asked: Cluster) -> int:
    """Submits all runs; with --wait, waits until they are in the store."""
    from engine.runner.submit import submit

    logs = None if asked.logs is None else cli.path_of(asked.logs).absolute()
    submitted = [(state, submit(state, workers, logs)) for state in states]
    for state, tasks in submitted:
        if not tasks.jobs:  # all groups are written, but the last writer could not publish the run
            state.publish_if_whole()
    if not asked.wait and workers.kind != "debug":
        rows = []
        for state, tasks in submitted:
            row = {"run_id": tasks.run_id, "molecules": len(state.molecules), "samples": state.now().samples}
            rows.append(row | {"jobs": tasks.ids, "cancel": tasks.cancel, "logs": str(tasks.logs)})
        return io.show(rows)
    for state, tasks in submitted:
        run_id, groups = tasks.run_id, len(state.groups)
        try:
            with cli.status(is_quiet=io.is_json) as say:
                for written in tasks.wait():
                    say(f"{run_id} {written}/{groups} groups", work=written / groups, now=True)
                is_shown = state.publish_if_whole()
        except KeyboardInterrupt:
            if tasks.cancel:
                cli.note(f"the tasks of {run_id} keep running; `{tasks.cancel}` ends them")
            raise
        if not is_shown:
            problem = next(iter(tasks.problems()), "no task gave a reason")
            how = f"See {tasks.logs}; `python -m engine run --resume {run_id}`"
            raise DriftscopeError(f"{run_id} is unfinished: {problem}", how)
    return show_entries(io, RUN, [store.entry(tasks.run_id) for _, tasks in submitted])
