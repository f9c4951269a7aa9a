"""``generate``, ``run`` and ``prepare``: molecules that models write under any LP, also many, stored
as runs, here or on a cluster; the app's parts."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.cli import terminal as cli
from engine.cli.entries import MOLECULES_HELP, read_molecules, show_entries
from engine.cli.text import BINS, READER, Bins, form_of
from engine.errors import DriftscopeError, ModelError, ServerError, shown
from engine.figures.words import counted, fixed
from engine.lp_records import (
    DEFAULT_LP,
    GUARD_CHECKS,
    LPS,
    NO_LP,
    GuardSettings,
    full_name,
    guard_checks,
    lp_record,
    split_cleanup,
)
from engine.models.registry import ModelEntry
from engine.paths import STATIC, user_path
from engine.records import Alphabet, Molecule, NumberFormat, ReaderName
from engine.store.schema import RUN
from engine.user_files import writing

if TYPE_CHECKING:
    from engine.decode.generation import Generation
    from engine.decode.log_recorder import LogFile
    from engine.decode.plan import Plan as DecodePlan
    from engine.decode.steps import StepObserver
    from engine.inspection.constrained import Verdict
    from engine.jobs.cluster import TaskRun
    from engine.jobs.plan import ModelChoice, RunPlan
    from engine.jobs.run import Run
    from engine.store.entries import Entry
    from engine.store.references import ReferenceSet
    from engine.store.store import Store

app = cli.new_app()
DESCRIPTORS_HELP = "of bare heteroatoms: [O], or [OH] with-hydrogens (default: the LP's own, else the model's)"
BACKEND_HELP = "fast (ours), hf (plain generate), server (see --url), or auto: fast where it runs the model, else hf"
URL_HELP = "of the server of --backend server, such as http://127.0.0.1:8000 (default: DRIFTSCOPE_SERVER)"
LPS_HELP = f"{', '.join(LPS)}; default: {DEFAULT_LP}"
SMILES = cli.words(None, "SMILES", "molecules; - reads standard input, one per line")
SubmitKind = Literal["local", "debug", "slurm", "h100", "a100"]
FROM_0, SHARE = cli.most(1_000_000, 0), cli.most(1, 0)


# --- options of generate and run: fields have the names of the engine's dataclasses, which ``cli.given`` fills -------


@dataclass(frozen=True, slots=True)
class Model:
    step: str | None = cli.option(None, "the checkpoint (default: the last one)", "--step", "--model-step")
    folder: str | None = cli.option(None, "of a checkpoint that is not registered", "--model-path", metavar="DIR")
    tokenizer: str | None = cli.option(None, "for --model-path: qwen3, llama3 or a path", "--tokenizer-name")
    device: str = cli.option("auto", "auto (a GPU if there is one), cpu, cuda, mps")
    threads: int | None = cli.THREADS
    dtype: Literal["float32", "bfloat16", "float16"] | None = cli.option(None, "default: as registered")
    attention: Literal["sdpa", "eager"] = cli.option("sdpa", "for the backend hf")
    url: str | None = cli.option(None, URL_HELP, metavar="URL")

    def chosen(self, model: str | None) -> tuple[ModelEntry, ModelChoice]:
        from engine.jobs.plan import ModelChoice

        cli.only_with("--model-path", self.folder, tokenizer_name=self.tokenizer)
        cli.one_of("--model or --model-path", model, self.folder, hint="`models` lists the registered ones")
        cli.only_with("--model", model, step=self.step)
        folder = "" if self.folder is None else str(Path(self.folder).absolute())
        choice = ModelChoice(**cli.given(ModelChoice, self) | {"alias": model or "", "folder": folder})
        entry = choice.entry()
        return entry, choice if folder else replace(choice, alias=entry.alias, step=entry.step)

    def check_server(self, backend: str, profile: bool, log_logits: Any, resume: str | None = None) -> None:
        """An error for what a server has not, or what no server is asked for. A run that is resumed has its backend."""
        is_local = backend != "server"
        cli.only_with("--backend server", not is_local or resume, url=self.url)
        cli.only_with("another backend than server", is_local, profile=profile, log_logits=log_logits)

    def check_step(self, models: Sequence[str | None]) -> None:
        if self.step and len(models) > 1:
            raise DriftscopeError("--step with several models is ambiguous", "Give each as ALIAS:STEP")


@dataclass(frozen=True, slots=True)
class Plan:
    placeholder: str = cli.option("", "for a position LP (default: the LP's own)")
    decimals: str | None = cli.option(None, "such as 0-4 (default: the model's)")
    integer_digits: int | None = cli.option(None, "at most (default: the model's)", of=cli.most(6), metavar="N")
    descriptors: Literal["plain", "with-hydrogens"] | None = cli.option(None, DESCRIPTORS_HELP)
    retries: int | None = cli.option(None, "how often a block is drawn again (3)", of=FROM_0)
    back: int | None = cli.option(
        None, "how often a block may send the text back further (guarded 3, shaped 6)", of=FROM_0
    )
    most_thrown: float | None = cli.option(None, "blocks thrown away, of each one's (guarded 1, shaped 2)", of=FROM_0)
    checks: str = cli.option(",".join(GUARD_CHECKS), "lp guarded or shaped: what is checked", "--guard")
    backend: str = cli.option("auto", BACKEND_HELP)
    compile: bool = cli.option(False, "compile the fast backend (takes minutes; for a GPU)")
    sampling: str = cli.option("qwen3", "a preset, such as greedy", "--sampling", "--sampling-config")
    temperature: float | None = cli.option(None, "overrides the preset", of=FROM_0)
    top_k: int | None = cli.option(None, "overrides the preset", of=FROM_0)
    top_p: float | None = cli.option(None, "overrides the preset", of=SHARE)
    min_p: float | None = cli.option(None, "overrides the preset", of=SHARE)
    generations: int = cli.option(1, "samples per molecule", "--n", "--num-generations", of=cli.most(1_000))
    conformers: int = cli.option(1, "in one answer (lp exact, none, group-conformers)", of=cli.most(64))
    examples: str = cli.option("", "text file: SMILES with conformers before each prompt", metavar="FILE")
    seed: int = cli.option(0, "", of=cli.most(cli.MOST_SEED, -cli.MOST_SEED))
    batch_size: int = cli.option(32, "", of=cli.most(4_096))
    limit: int | None = cli.option(None, "default: by the molecule's size", "--max-new-tokens", of=FROM_0)
    time_limit_s: float | None = cli.option(None, "seconds for all molecules together", "--time-limit", of=FROM_0)
    equal_work: bool = cli.option(False, "every sample as long as the exact LP's")
    candidates: int = cli.option(10, "likely tokens kept per step", of=cli.most(1_000))
    diagnostics: bool = cli.option(False, "token probabilities at each step; slower")
    bins: Bins = BINS

    def of(self, numbers: NumberFormat, lp: str) -> DecodePlan:
        from engine.decode.plan import Plan as DecodePlan
        from engine.decode.plan import Sampling, preset

        least, _, most = (self.decimals or f"{numbers.least_decimals}-{numbers.most_decimals}").partition("-")
        form = form_of(self.bins, least, most or least, self.integer_digits or numbers.most_integer_digits)
        if isinstance(numbers, Alphabet) and (self.bins, self.decimals, self.integer_digits) == (None, None, None):
            form = numbers
        sampling = replace(preset(self.sampling), **cli.given(Sampling, self))
        usual = lp_record(split_cleanup(full_name(lp))[0]).guard
        guard = replace(usual, **cli.given(GuardSettings, self) | {"checks": guard_checks(self.checks)})
        values = {"lp": full_name(lp), "form": form, "sampling": sampling, "guard": guard}
        if self.examples:
            from engine.text.examples import read_examples

            values["examples"] = read_examples(user_path(self.examples, "--examples"))
        return DecodePlan(**cli.given(DecodePlan, self) | values)


LOG_HELP = "log the first N logits per token, or those of token ids (17,24,25 or 17,); slower"
LOG_FILE = "logits.jsonl.gz"


@dataclass(frozen=True, slots=True)
class Profiling:
    profile: bool = cli.option(False, "record a trace of torch's profiler into the store (see `trace list`)")
    profile_output: str | None = cli.option(None, "also write it, as Chrome's JSON, plain or .gz", metavar="FILE")
    profile_sums: bool = cli.option(False, "keep the figures only, not the trace's file")
    profile_steps: int = cli.option(64, "forward passes; with --backend hf, to the end of a batch", of=cli.most(10_000))
    profile_skip: int = cli.option(0, "forward passes to skip (default: record the templates)", of=cli.most(10_000, 0))

    def check(self, io: cli.Io, run: str | None = None) -> None:
        """Before hours of work."""
        of_trace = {"profile_output": self.profile_output, "profile_sums": self.profile_sums, "profile_run": run}
        cli.only_with("--profile", self.profile, **of_trace)
        if self.profile_output and not (folder := Path(self.profile_output).absolute().parent).is_dir():
            raise DriftscopeError(f"there is no folder {shown(folder, 200)} for the trace", "Create it")
        if run:
            io.opened().entry(run)

    def recording(
        self, io: cli.Io, backend: str, about: tuple[str, str, str | None], align: Callable[[Any], Any] = lambda _: {}
    ) -> AbstractContextManager[StepObserver | None]:
        """``about``: the trace's label and source, and the run that it is of. None without --profile."""
        if not self.profile:
            return nullcontext()
        from engine.jobs.recording import traced

        return traced(
            io.opened(),
            dict(zip(("label", "source", "run_id"), about, strict=True)),
            align,
            cli.note,
            steps=self.profile_steps,
            skip=self.profile_skip,
            runs_ahead=backend == "hf",
            keep_file=not self.profile_sums,
            output=Path(self.profile_output) if self.profile_output else None,
        )

    def of_run(self, io: cli.Io, state: Run | TaskRun) -> AbstractContextManager[StepObserver | None]:
        row, plan = state.staging.sheet["row"], state.plan.plan
        label = state.plan.label or f"{row['model_alias']}:{row['model_step']}, {plan.lp}"
        return self.recording(io, plan.backend, (label, "run --profile", state.staging.id))


def count_or_ids(text: str) -> Any:
    """``4`` -> 4; ``17,24`` or ``17,`` -> ids."""
    if not re.fullmatch(r"[1-9]\d{0,5}|\d{1,9},(\d{1,9},?)*", text := text.replace(" ", ""), re.ASCII):
        raise ValueError(f"{shown(text)} is neither a number from 1 to 999,999 nor ids")
    ids = list(map(int, text.rstrip(",").split(",")))
    return ids if "," in text else ids[0]


@dataclass(frozen=True, slots=True)
class Logging:
    log_logits: Any = cli.option(None, LOG_HELP, of=count_or_ids, metavar="N")
    logit_log: str | None = cli.option(None, f"the log's file, plain or .gz (default: {LOG_FILE})", metavar="FILE")
    add_log: bool = cli.option(False, "read it into the store, as `logits add` does; keeps no file by default")

    @contextmanager
    def recording(self, io: cli.Io, label: str = "", say: cli.Say | None = None) -> Iterator[LogFile | None]:
        """Yields the log to write to, or None without --log-logits. Afterwards it is checked, and read into the
        store."""
        cli.only_with("--log-logits", self.log_logits, logit_log=self.logit_log, add_log=self.add_log)
        if not self.log_logits:
            yield None
            return
        from engine.decode.log_recorder import LogFile
        from engine.logits.ingest import LogNames, add_file

        is_kept = bool(self.logit_log) or not self.add_log
        with tempfile.TemporaryDirectory(prefix="driftscope-log-") as folder:
            path = Path(self.logit_log or LOG_FILE) if is_kept else Path(folder) / LOG_FILE
            with LogFile(path, self.log_logits) as log:
                yield log
            cli.note(f"{path if is_kept else 'the log'}: {log.sentence()}")
            for entry in add_file(io.opened(), path, LogNames(label=label or None)) if self.add_log else ():
                cli.note(f"{entry.id} is in the store")
                if say is not None:  # the first part of the progress gets the log's id
                    say(now=True, part=0, parts=1, state="done", made=entry.id)


@cli.command(app, "generate", rules=True)
def generate(
    io: cli.Io,
    of_model: Model,
    of_plan: Plan,
    profiled: Profiling,
    logged: Logging,
    smiles: list[str] | None = SMILES,
    file: str | None = cli.option(None, MOLECULES_HELP),
    model: str | None = cli.option(None, "ALIAS or ALIAS:STEP (see `models`)", "--model", "--model-alias", metavar="A"),
    lp: str = cli.option(DEFAULT_LP, f"{LPS_HELP}; NAME+cleanup cleans up after", "--lp", "--processor-type"),
    no_logit_processor: bool | None = cli.option(None, "--lp none"),
    sdf: str | None = cli.option(None, "write all readable conformers as SDF", metavar="FILE"),
    reader: ReaderName = READER,
    profile_run: str | None = cli.option(None, "link the trace to this run, if it has the same tokens"),
) -> int:
    """3D structures of molecules, written by a model as text, under any LP or under none"""
    if no_logit_processor and lp != DEFAULT_LP:
        raise DriftscopeError("--no-logit-processor is --lp none", "Give one of the two")
    entry, choice = of_model.chosen(model)
    plan = of_plan.of(entry.numbers, NO_LP if no_logit_processor else lp)
    of_model.check_server(plan.backend, profiled.profile, logged.log_logits)
    profiled.check(io, profile_run)
    molecules, skipped = read_molecules(io, smiles or [], file)
    # Imported here: torch takes seconds.
    from engine.decode.generation import Generation, backend_for, document, names_of
    from engine.inspection.trace_steps import aligned_samples
    from engine.models.devices import set_threads

    set_threads(of_model.threads)
    loaded = choice.load(plan, of_model.url)
    plan = replace(plan, backend=backend_for(loaded, plan.backend))
    stopped, about = False, (f"{entry.name}, {plan.lp}", "generate --profile", profile_run)
    with (
        logged.recording(io) as log,
        profiled.recording(io, plan.backend, about, lambda ids: aligned_samples(generation, ids)) as watch,
        cli.status(is_quiet=io.is_json) as say,
    ):
        generation = Generation(loaded, molecules, plan)
        generation.watch = watch
        if log is not None:
            generation.tap = log.tap(loaded, plan.sampling, plan.seed, names_of(generation))
        try:
            for tokens, _ in enumerate(generation.events()):
                done, of = len(generation.samples), len(generation.requests)
                say(f"{done}/{of} molecules, {tokens:,} tokens", work=done / of)
        except KeyboardInterrupt:  # finished samples are kept
            stopped = True
    if sdf:
        _write_conformers(generation, Path(sdf), reader)
    written = document(generation) | {"skipped": skipped}
    checked, stopped = _checked(generation, is_stopped=stopped)
    if checked is not None:
        written |= asdict(checked)
    if io.is_json:
        io.show(written)
    else:
        _show_samples(generation, written)
    if checked is not None and not io.is_json:
        cli.note(f"constrained: {checked.constrained}: {checked.constrained_why}")
    for text in generation.counters.notes:
        cli.note(text)
    if stopped:
        raise KeyboardInterrupt
    return 0


def _checked(generation: Generation, *, is_stopped: bool) -> tuple[Verdict | None, bool]:
    """Whether its LP acted, and whether somebody stopped it, now or before; what was written is kept."""
    from engine.inspection.constrained import of_generation

    try:
        return of_generation(generation, probes=not is_stopped), is_stopped
    except KeyboardInterrupt:  # while a server was asked once more
        return of_generation(generation, probes=False), True


def _write_conformers(generation: Generation, path: Path, reader: ReaderName) -> None:
    from engine.chem.structure_files import to_sdf
    from engine.decode.generation import conformers_of

    mols = conformers_of(generation, reader)
    with writing(path) as file:
        file.write(to_sdf(mols).encode())
    unread = generation.conformers - len(mols)
    failed = f", {unread} cannot be read, by the {reader} reader" if unread else ""
    cli.note(f"{path}: {len(mols)} conformers{failed}")


def _show_samples(generation: Generation, written: dict[str, Any]) -> None:
    """Each text below the best that its check says of it; what they took, on standard error."""
    for sample in generation.in_order():
        stop = "" if sample.stop_reason == "end" else f" (stopped: {sample.stop_reason})"
        best = [word for word in ("clean", "decodes", "passed") if getattr(sample.check, word)][:1]
        cli.write(f"{sample.smiles} {', '.join([*best, *sample.check.issues])}{stop}\n{sample.text}")
    checks = [sample.check for sample in generation.samples]
    sums = [f"{sum(getattr(check, word) for check in checks)} {word}" for word in ("passed", "decodes", "clean")]
    names = [name for name in ("model", "lp", "backend", "device", "threads") if written[name] is not None]
    setting = [f"{name} {written[name]}" for name in names]
    tokens = f"{written['tokens']:,} tokens ({written['forced_tokens']:,} forced)"
    spent = f"{tokens} in {fixed(written['decode_s'], 2)} s"
    cli.note(f"of {len(checks)}: {', '.join(sums)}; {spent}; {', '.join(setting)}")


@dataclass(frozen=True, slots=True)
class Cluster:
    submit: SubmitKind | None = cli.option(None, "by submitit: processes here, or Slurm, with that GPU", "--submit")
    array: int | None = cli.option(None, "number of tasks (1)", "--array", of=cli.most(10_000), metavar="N")
    partition: str | None = cli.option(None, "for Slurm", metavar="P")
    minutes: str | None = cli.option(None, "per task: minutes or HH:MM:SS (Slurm: 04:00:00)", "--time")
    slurm: list[str] | None = cli.option(None, "more options of sbatch, such as account", metavar="KEY=VALUE")
    logs: str | None = cli.option(None, "folder of the tasks' logs (default: next to the runs)", metavar="DIR")
    wait: bool = cli.option(False, "wait until the tasks have ended")
    engine: Literal["here", "ray"] = cli.option("here", "ray: a pool of actors")
    count: int | None = cli.option(None, "default: one per GPU, or one per machine", "--actors", of=cli.most(10_000))
    address: str | None = cli.option(None, "of the Ray cluster (default: RAY_ADDRESS, or this machine)")
    gpus: int | None = cli.option(None, "or per actor (default: one, if any)", "--gpus-per-task", of=cli.most(64, 0))

    def check(self, report: str | None, progress: str | None, profile: bool, log_logits: Any, backend: str) -> None:
        """An error for what a run that is written elsewhere, or not waited for, has not."""
        cli.only_with("a run that is not submitted", not self.submit, json_report=report, progress=progress)
        is_here = not self.submit and self.engine == "here"
        cli.only_with("a run of this process", is_here, log_logits=log_logits, profile=profile)
        self.check_backend(backend)

    def check_backend(self, backend: str) -> None:
        if backend == "server" and (self.submit or self.engine != "here"):
            raise DriftscopeError("a server is asked by this process alone", "Leave --submit and --engine out")

    def submitted(self, tasks: Iterable[TaskRun]) -> list[TaskRun]:
        """All are submitted before any is waited for."""
        logs = Path(self.logs).absolute() if self.logs else None
        submitted = []
        for task in tasks:
            task.submit(logs)
            submitted.append(task)
        return submitted

    @contextmanager
    def elsewhere(self, model: Model) -> Iterator[Any]:
        """The cluster that writes the runs, for as long as this lasts; None: this process."""
        if self.submit and self.engine == "ray":
            raise DriftscopeError("give either --submit or --engine ray", "Ray can start inside a Slurm job")
        cli.only_with("--submit", self.submit, **cli.picked(self, "array partition slurm logs wait"), time=self.minutes)
        cli.only_with("--engine ray", self.engine == "ray", actors=self.count, address=self.address)
        kind = self.submit or ("ray" if self.engine == "ray" else None)
        cli.only_with("--submit and --engine ray", kind, gpus_per_task=self.gpus is not None)
        if kind is None:
            yield None
            return
        from engine.jobs.cluster import Cluster as JobCluster
        from engine.jobs.cluster import connected, minutes_of

        more = {key: value for key, _, value in (option.partition("=") for option in self.slurm or [])}
        values: dict[str, Any] = {"kind": kind, "tasks": self.array or self.count, "minutes": minutes_of(self.minutes)}
        values |= {"threads": model.threads, "more": more}
        with connected(JobCluster(**cli.given(JobCluster, self) | values), model.device) as cluster:
            yield cluster


@dataclass(frozen=True, slots=True)
class Molecules:
    smiles: list[str] | None = SMILES
    smiles_file: str | None = cli.option(None, MOLECULES_HELP, metavar="FILE")
    smiles_column: str | None = cli.option(None, "of a CSV or Parquet file (default: found by name)")
    order: Literal["canonical", "written"] = cli.option("canonical", "of the atoms: written keeps the input's")
    sample_size: int | None = cli.option(None, "the first N; alone: of the held-out ones (64)", of=cli.MANY_MOLECULES)
    references: str | None = cli.option(None, "those of a set (see `references`); --rmsd is to its conformers")
    per_reference: int | None = cli.option(None, "N samples per conformer of --references", of=cli.most(1_000))

    def reference_set(self, store: Store, generations: int) -> ReferenceSet | None:
        """The set that is named. ``generations``: samples of each molecule, where they are not per conformer of it."""
        from engine.store.references import reference_set

        per_reference = self.references and generations == 1
        cli.only_with("--references, in place of --n", per_reference, per_reference=self.per_reference)
        return None if self.references is None else reference_set(store, self.references)

    def read(self, io: cli.Io, references: ReferenceSet | None) -> Sequence[Molecule]:
        """Of ``references`` each once, or under --per-reference so many times its conformers in the set."""
        from engine.chem.molecule_sets import load_run_set

        smiles: Sequence[str] = self.smiles or []
        if not (smiles or self.smiles_file):
            smiles = load_run_set(self.sample_size or 64) if references is None else references.molecules()
        how: dict[str, Any] = {"order": self.order, "limit": self.sample_size, "column": self.smiles_column}
        molecules, _ = read_molecules(io, smiles, self.smiles_file, **how)
        if references is None:
            return molecules
        requested, unknown = references.repeated(molecules, self.per_reference)
        cli.note_left_out([f"{references.name} has no conformer of {smiles}" for smiles in unknown])
        return requested


@dataclass(frozen=True, slots=True)
class RunOptions:
    label: str = cli.option("", "a name of your own")
    keep_steps: int | None = cli.option(None, "keep the steps of the first N samples", of=cli.MANY_MOLECULES)
    rmsd: int | None = cli.RMSD
    judge: bool = cli.option(False, "judge the molecules while the model writes (see `judge`)")
    strain: bool = cli.option(False, "judge them, with their strain (MMFF94)")
    no_closing: bool = cli.option(False, "skip the check of blocks that were closed by force")
    group: int | None = cli.option(None, "molecules saved at a time: a killed run loses these", of=cli.MANY_MOLECULES)
    resume: str | None = cli.option(None, "resume a stopped run (see `runs --unfinished`)", metavar="RUN")
    json_report: str | None = cli.option(None, "also write the run as a report file, plain or .gz", metavar="FILE")

    def stored_backend(self, store: Store) -> str:
        """Of the run to resume."""
        from engine.jobs.plan import RunPlan
        from engine.store.staging import Staging

        return RunPlan.read(Staging.open(store.home, RUN, self.resume or "").sheet.get("plan", {})).plan.backend

    def plans(
        self,
        models: Sequence[tuple[ModelEntry, ModelChoice]],
        plan: Plan,
        lps: Sequence[str],
        references: ReferenceSet | None,
    ) -> list[RunPlan]:
        """Of each pair of model and LP, those of one model next to each other."""
        from engine.jobs.plan import RunPlan

        if plan.bins and self.json_report:
            raise DriftscopeError("the report format does not say what a bin is", "Use `export --as`")
        values = cli.given(RunPlan, self) | {"closing": not self.no_closing, "source": cli.typed_command("run")}
        if references is not None and self.rmsd:
            values["rmsd_references"] = references.name
        return [RunPlan(choice, plan.of(entry.numbers, lp), **values) for entry, choice in models for lp in lps]


@cli.command(app, "run", rules=True)
def run(
    io: cli.Io,
    molecules: Molecules,
    of_model: Model,
    of_plan: Plan,
    of_run: RunOptions,
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
    from engine.models.devices import set_threads

    models: Sequence[str | None] = model or [None]
    lps = [*(lp or []), *([NO_LP] if no_logit_processor else [])] or [DEFAULT_LP]
    parts = 1 if of_run.resume else len(models) * len(lps)
    cluster.check(of_run.json_report, progress.progress, profiled.profile, logged.log_logits, of_plan.backend)
    of_model.check_server(of_plan.backend, profiled.profile, logged.log_logits, resume=of_run.resume)
    profiled.check(io)
    one_file = {"json_report": of_run.json_report, "profile_output": profiled.profile_output}
    cli.only_with("one run, not several", parts == 1, **one_file)
    store = io.opened()
    listed: Sequence[Molecule] = ()
    plans: list[RunPlan] = []
    references = molecules.reference_set(store, of_plan.generations)
    of_model.check_step(models)
    if of_run.resume:
        cluster.check_backend(of_run.stored_backend(store))
    else:
        plans = of_run.plans(list(map(of_model.chosen, models)), of_plan, lps, references)
        listed = molecules.read(io, references)
    from engine.jobs.cluster import begun, resumed  # torch: seconds, so after all that may be refused

    with (
        progress.reporting(is_quiet=io.is_json) as say,
        cluster.elsewhere(of_model) as elsewhere,
        logged.recording(io, of_run.label, say) as log,
    ):
        if not elsewhere:
            set_threads(of_model.threads)
        states: Iterable[Any] = begun(store.home, elsewhere, listed, plans, of_model.url)  # each as it is asked for
        if of_run.resume:
            states = [resumed(store.home, elsewhere, of_run.resume, of_model.device, of_model.url)]
        if cluster.submit:
            states = cluster.submitted(states)
            if not cluster.wait and cluster.submit != "debug":
                return io.show(list(map(_submitted_row, states)))
        entries = []
        for number, written in enumerate(states):
            written.part, written.parts = number, parts
            with profiled.of_run(io, written) as watch:
                if elsewhere is None:
                    written.observe(watch, log)
                entries.append(_write(written, say, is_quiet=io.is_json))
    if of_run.json_report:
        from engine.store.reports.exporting import export_report

        export_report(entries[0], Path(of_run.json_report))
    return show_entries(io, RUN, entries)


def _submitted_row(task: TaskRun) -> dict[str, Any]:
    row = {"run_id": task.staging.id, "molecules": len(task.molecules), "samples": task.samples}
    return row | {"jobs": task.ids, "cancel": task.cancel, "logs": str(task.logs)}


def _write(state: Run | TaskRun, say: cli.Say, *, is_quiet: bool) -> Entry:
    row, id_ = state.staging.sheet["row"], state.staging.id
    say(**asdict(state.now()), now=True)
    if not is_quiet:
        threads = row.get("threads")  # of none in runs of earlier versions
        end = f", {counted(threads, 'thread')}" if threads else ""
        model = f"{row['model_alias']}:{row['model_step']}"
        cli.note(f"{id_}: {model}, {row['lp']}, {row['backend']}, {row['device'] or 'tasks'}{end}")
    before = [*state.notes]
    for text in before:
        cli.note(text)
    try:
        for now in state.progress():
            say(now.words(), now=now.done == now.samples, **asdict(now))
        entry = state.publish()
    except (KeyboardInterrupt, DriftscopeError) as error:
        outcome = "stopped" if isinstance(error, KeyboardInterrupt) else "saved samples stay"
        if isinstance(error, KeyboardInterrupt) and (cancel := getattr(state, "cancel", "")):
            outcome = f"the tasks of {id_} keep running; `{cancel}` ends them"
        # Its model cannot write it, now or when it is resumed; that it is this process's own is known by then.
        # A server that is away may be back when it is resumed.
        is_lost = isinstance(error, ModelError) and not isinstance(error, ServerError)
        if is_lost and not state.staging.groups():
            state.staging.abandon()
        if state.staging.is_there:
            state.notes.append(f"{outcome}; `python -m engine run --resume {id_}` resumes the run")
        raise
    finally:
        state.staging.release()
        for text in state.notes[len(before) :]:
            cli.note(text)
    say(**asdict(replace(state.now(), state="done")), now=True)
    return entry


@cli.command(app, "branch")
def branch(
    io: cli.Io,
    name: str = cli.words(..., "RUN/SAMPLE", "the sample that is gone on from"),
    at: int | None = cli.option(None, "the token, from 0 (default: the one that lost the molecule)", of=FROM_0),
    token: int | None = cli.option(None, "its id in place of the sample's own (default: it is drawn)", of=FROM_0),
    lp: str | None = cli.option(None, f"{LPS_HELP}; without --at shaped, else the sample's own"),
    is_all: bool = cli.option(False, "each other token that is likely there, one sample each", "--all"),
    least: float = cli.option(0.05, "of --all: its probability after the LP", of=SHARE),
    device: str = cli.option("auto", "auto (a GPU if there is one), cpu, cuda, mps"),
    threads: int | None = cli.THREADS,
) -> int:
    """an answer that goes on from a token of a stored sample, under any LP

    The first ids are the sample's own, the rest is written anew; the sample's seed draws it. It is stored as a run that
    names its sample and the place. `alternatives` are the likely tokens there, before and after the LP.
    """
    from engine.inspection.sample import inspect_sample
    from engine.jobs import branching
    from engine.models.devices import set_threads
    from engine.models.loading import load_model
    from engine.questions import ask, sample_of

    if is_all and token is not None:
        raise DriftscopeError("--token and --all exclude each other", "Give one of the two")
    store = io.opened()
    sample = sample_of(store, name)
    inspected = inspect_sample(store, sample.entry.id, sample.sample_id)
    if at is None:
        at, lp = branching.lost_place(inspected), lp or branching.PUT_RIGHT
    place = branching.place_of(store, inspected, at)
    set_threads(threads)
    lp = lp or branching.usual_lp(place.plan.plan.lp)
    loaded = load_model(place.plan.model.entry(), device, place.plan.model.dtype)
    found = branching.alternatives_at(loaded, place, lp)
    tokens = branching.likely_tokens(place, found, least) if is_all else [token] if token is not None else []
    entry, first_s = branching.write_branch(store.home, loaded, place, place.branch(lp, tokens, device))
    if not io.is_json:
        from engine.cli.questions import write_answer

        return write_answer(store.snapshot(), "drift_branches", [entry.id])
    rows = ask(store.snapshot(), "drift_branches", [entry.id]).tables["main"].to_pylist()
    of_run = {name: entry.row.get(name) for name in ("run_id", "branch_of", "branch_at", "lp")}
    return cli.emit_json({**of_run, "first_token_s": first_s, "alternatives": list(map(asdict, found)), "rows": rows})


@cli.command(app, "prepare")
def prepare(out: cli.Output, check: bool = cli.option(False, "make nothing; exit 2 when anything is missing")) -> int:
    """build the tokenizers' caches and download 3Dmol.js

    Ready parts are left as they are. Without 3Dmol.js the app works, except for its 3D view.
    """
    from engine import assets
    from engine.text.tokenizer_build import built_in, folder_of
    from engine.text.tokenizers import load_tokenizer

    if not check:
        cli.note("preparing the tokenizers and 3Dmol.js: up to a minute the first time")
    parts = []
    for name in ("qwen3", "llama3", assets.FILE_NAME):
        is_needed, problem = name != assets.FILE_NAME, ""
        try:
            if not is_needed:
                (assets.three_d_mol if check else assets.bring_three_d_mol)(STATIC)
            elif check and not folder_of(name).is_dir():
                raise DriftscopeError(f"the tokenizer {name} is not built yet", "Run `make prepare`")
            else:
                if not check:
                    built_in(name)
                load_tokenizer(name)
        except DriftscopeError as error:
            problem = str(error)
            cli.note(f"{name}: {problem}{'' if is_needed else '. The app works without it, except for the 3D view'}")
        parts.append({"name": name, "ready": not problem, "needed": is_needed, "problem": problem})
    out.show({"ready": not any(part["problem"] for part in parts), "parts": parts})
    return 2 if any(part["problem"] and (part["needed"] or check) for part in parts) else 0
