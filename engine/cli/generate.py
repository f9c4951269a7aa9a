"""``models``, ``generate`` and ``prepare``: models, molecules written live under any LP, the app's parts."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.cli import terminal as cli
from engine.cli.text import BINS, READER, form_of
from engine.errors import DriftscopeError, EnrichedError, shown, unquoted
from engine.folders import exporting
from engine.lp_records import LPS, GuardSettings, full_name, guard_checks, lp_record, split_cleanup
from engine.models.registry import ModelEntry, load_registry
from engine.paths import STATIC
from engine.records import CHECK_COLUMNS, Molecule, NumberFormat, ReaderName

if TYPE_CHECKING:
    from engine.decode.generation import Generation
    from engine.decode.plan import Plan as DecodePlan
    from engine.decode.steps import StepObserver
    from engine.logits.recorder import LogFile
    from engine.runner.plan import ModelChoice

app = cli.new_app()
OF_SAMPLE = "sample_id generation smiles text token_ids forced stop_reason tokens forced_tokens"
"""Keys of a sample's JSON, beside those of its check."""
MOST_LINES = 100_000  # all are held parsed, 20 KB each; ``run --smiles-file`` holds none
DESCRIPTORS_HELP = "of bare heteroatoms: [O], or [OH] with-hydrogens (default: the LP's own, else the model's)"
LPS_HELP = f"{', '.join(LPS)}; default: exact"
GUARD = GuardSettings()
SMILES = cli.words(None, "SMILES", "molecules; - reads standard input, one per line")
COUNT, NUMBER = cli.whole(cli.MOST_COUNT, -cli.MOST_COUNT), cli.finite()


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

    def chosen(self, model: str | None) -> tuple[ModelEntry, ModelChoice]:
        from engine.runner.plan import ModelChoice

        cli.only_with("--model-path", self.folder, tokenizer_name=self.tokenizer)
        cli.one_of("--model or --model-path", model, self.folder, hint="`models` lists the registered ones")
        cli.only_with("--model", model, step=self.step)
        folder = "" if self.folder is None else str(cli.path_of(self.folder).absolute())
        choice = ModelChoice(**cli.given(ModelChoice, self) | {"alias": model or "", "folder": folder})
        entry = choice.entry()
        return entry, choice if folder else replace(choice, alias=entry.alias, step=entry.step)


def set_threads(threads: int | None) -> None:
    import torch

    from engine.models.devices import idle_cores

    torch.set_num_threads(threads or min(torch.get_num_threads(), idle_cores()))


@dataclass(frozen=True, slots=True)
class Plan:
    placeholder: str = cli.option("", "for a position LP (default: the LP's own)")
    decimals: str | None = cli.option(None, "such as 0-4 (default: the model's)")
    integer_digits: int | None = cli.option(None, "at most (default: the model's)", of=cli.whole(6), metavar="N")
    descriptors: Literal["plain", "with-hydrogens"] | None = cli.option(None, DESCRIPTORS_HELP)
    retries: int = cli.option(GUARD.retries, "lp guarded: how often a wrong block is drawn again", of=COUNT)
    back: int = cli.option(GUARD.back, "lp guarded: how often a block may send the text back further", of=COUNT)
    most_thrown: float = cli.option(GUARD.most_thrown, "lp guarded: blocks thrown away, of each one's", of=NUMBER)
    checks: str = cli.option(",".join(GUARD.checks), "lp guarded: what is checked of each block", "--guard")
    backend: str = cli.option("fast", "fast (ours) or hf (plain generate)")
    compile: bool = cli.option(False, "compile the fast backend (takes minutes; for a GPU)")
    sampling: str = cli.option("qwen3", "a preset, such as greedy", "--sampling", "--sampling-config")
    temperature: float | None = cli.option(None, "overrides the preset", of=NUMBER)
    top_k: int | None = cli.option(None, "overrides the preset", of=COUNT)
    top_p: float | None = cli.option(None, "overrides the preset", of=NUMBER)
    min_p: float | None = cli.option(None, "overrides the preset", of=NUMBER)
    generations: int = cli.option(1, "samples per molecule", "--n", "--num-generations", of=cli.whole(1_000))
    seed: int = cli.option(0, "", of=cli.whole(cli.MOST_SEED, -cli.MOST_SEED))
    batch_size: int = cli.option(32, "", of=cli.whole(4_096))
    limit: int | None = cli.option(None, "default: by the molecule's size", "--max-new-tokens", of=COUNT)
    time_limit_s: float | None = cli.option(None, "seconds for all molecules together", "--time-limit", of=NUMBER)
    equal_work: bool = cli.option(False, "every sample as long as the exact LP's")
    candidates: int = cli.option(10, "likely tokens kept per step", of=cli.whole(1_000))
    diagnostics: bool = cli.option(False, "token probabilities at each step; slower")
    bins: tuple[float, float] | None = BINS

    def of(self, numbers: NumberFormat, lp: str) -> DecodePlan:
        """For a model that writes such ``numbers``."""
        from engine.decode.plan import Plan as DecodePlan
        from engine.decode.presets import Sampling, preset

        least, _, most = (self.decimals or f"{numbers.least_decimals}-{numbers.most_decimals}").partition("-")
        form = form_of(self.bins, least, most or least, self.integer_digits or numbers.most_integer_digits)
        record = lp_record(split_cleanup(lp)[0])
        if self.bins is not None and (record.is_guarded or record.name == "truncating"):
            raise DriftscopeError(f"the LP {record.name} reads decimals, no bins", "Use exact, or leave --bins out")
        sampling = replace(preset(self.sampling), **cli.given(Sampling, self))
        guard = replace(GUARD, **cli.given(GuardSettings, self) | {"checks": guard_checks(self.checks)})
        own = {"lp": full_name(lp), "form": form, "sampling": sampling, "guard": guard}
        return DecodePlan(**cli.given(DecodePlan, self) | own)


LOG_HELP = "log the first N logits per token, or those of token ids (17,24,25 or 17,); slower"
LOG_FILE = "logits.jsonl.gz"


@dataclass(frozen=True, slots=True)
class Profiling:
    profile: bool = cli.option(False, "record a trace of torch's profiler into the store (see `trace list`)")
    profile_output: str | None = cli.option(None, "also write it, as Chrome's JSON, plain or .gz", metavar="FILE")
    profile_sums: bool = cli.option(False, "keep the figures only, not the trace's file")
    profile_steps: int = cli.option(
        64, "forward passes; with --backend hf, to the end of a batch", of=cli.whole(10_000)
    )
    profile_skip: int = cli.option(0, "forward passes to skip (default: record the templates)", of=cli.whole(10_000))

    def check(self, io: cli.Io, run: str | None = None) -> None:
        """Before hours of work."""
        of_trace = {"profile_output": self.profile_output, "profile_sums": self.profile_sums, "profile_run": run}
        cli.only_with("--profile", self.profile, **of_trace)
        if self.profile_output and not (folder := cli.path_of(self.profile_output).absolute().parent).is_dir():
            raise DriftscopeError(f"there is no folder {shown(folder, 200)} for the trace", "Create it")
        if run:
            io.opened().entry(run)

    @contextmanager
    def recording(
        self,
        io: cli.Io,
        backend: str,
        label: str,
        source: str,
        run: str | None,
        align: Callable[[Collection[int]], Any] = lambda _: {},
    ) -> Iterator[StepObserver | None]:
        """Records while this lasts; yields what a generation's events pass through, or None without --profile.

        The trace is then read into the store, where the ``run`` has to be by then, with what each step wrote. It is
        linked to the run if that has the same tokens; ``align`` gives samples without a run by their ids.
        """
        if not self.profile:
            yield None
            return
        from engine.profile.capture import Capture
        from engine.profile.ingest import add_trace
        from engine.profile.steps import aligned_in_run, repeats, step_rows

        with tempfile.TemporaryDirectory(prefix="driftscope-profile-") as folder:
            path, skip = Path(folder) / "trace.json.gz", self.profile_skip
            capture = Capture(path, steps=self.profile_steps, skip=skip, runs_ahead=backend == "hf")
            with capture:
                yield capture.watch
            captured, tokens = capture.captured, capture.written
            if captured is None:
                cli.note(f"no trace: there were at most {skip:,} forward passes")
                return
            store, samples = io.opened(), {token.sample_id for token in tokens}
            run_id = store.entry(run).id if run else ""
            if run_id and not repeats(store, run_id, tokens):
                cli.note(f"not linked to {run_id}: its samples have other tokens")
                run_id = ""
            aligned = aligned_in_run(store, run_id, samples) if run_id else align(samples)
            about = captured | {"run_id": run_id, "label": label, "source": source}
            entry = add_trace(
                store, path, about, step_rows(tokens, aligned), capture.passes, keep_file=not self.profile_sums
            )
            cli.note(f"trace {entry.id}: {about['forward_passes']:,} forward passes, {about['tokens']:,} tokens")
            if self.profile_output:
                target = cli.path_of(self.profile_output)
                opened = Path.open if target.suffix == ".gz" else gzip.open
                with opened(path, "rb") as packed, exporting(target) as file:
                    shutil.copyfileobj(packed, file)


def count_or_ids(text: str) -> Any:
    """``4`` -> 4; ``17,24`` or ``17,`` -> ids."""
    if "," not in text:
        return cli.whole(1_000_000)(text)
    return [cli.whole(10**9, 0)(part.strip()) for part in text.rstrip(", ").split(",")]


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
        from engine.logits.ingest import LogNames, add_file
        from engine.logits.recorder import LogFile

        is_kept = bool(self.logit_log) or not self.add_log
        with tempfile.TemporaryDirectory(prefix="driftscope-log-") as folder:
            path = cli.path_of(self.logit_log or LOG_FILE) if is_kept else Path(folder) / LOG_FILE
            with LogFile(path, self.log_logits) as log:
                yield log
            where = path if is_kept else "the log"
            checked = f"{log.checked - log.differing:,} of {log.checked:,} tokens match a draw from it"
            if not log.is_sound:  # tokens were drawn from other logits than those that are logged
                raise DriftscopeError(f"{where} is not what was sampled from: {checked}", "Report this")
            cli.note(f"{where}: logits of {log.entries:,} tokens; {checked}")
            for entry, _ in add_file(io.opened(), path, LogNames(label=label or None)) if self.add_log else ():
                cli.note(f"{entry.id} is in the store")
                if say is not None:  # the first part of the progress gets the log's id
                    say(now=True, part=0, parts=1, state="done", made=entry.id)


def smiles_of(words: Sequence[str], file: str | None = None) -> list[str]:
    """SMILES that were typed, piped in (``-``), or stand in a file; the first word of a line, as in .smi files."""
    is_piped = list(words) == ["-"]
    lines = [line for path in ("-" if is_piped else None, file) if path for line in cli.read_text(path).splitlines()]
    if len(lines) > MOST_LINES:
        raise DriftscopeError(f"over {MOST_LINES:,} lines of molecules are given", "Split them")
    smiles = [*(() if is_piped else words), *(line.split()[0] for line in lines if line.strip())]
    if not smiles:
        raise DriftscopeError("no molecule is given", "Give one SMILES or more, - for standard input, or --file")
    return smiles


def read_molecules(smiles: Sequence[str], file: str | None = None) -> tuple[list[Molecule], list[dict[str, str]]]:
    """The molecules that can be read, and the others with what is wrong; an error where none is left. A ``file`` may be
    of another kind, so nothing of it is quoted that is no SMILES."""
    from engine.chem.enriched import skeleton_of
    from engine.chem.smiles import parse_smiles

    molecules, skipped, is_file = [], [], file not in (None, "-")
    for number, text in enumerate(smiles, start=1):
        try:
            molecule = parse_smiles(text)
            skeleton_of(molecule)  # some molecules have no enriched form
            molecules.append(molecule)
        except DriftscopeError as error:
            of_file = {"smiles": "", "error": f"molecule {number:,}: {unquoted(error)}"}
            skipped.append(of_file if is_file else {"smiles": text, "error": str(error)})
    if skipped and not molecules:
        last = skipped[-1]["error"]
        several = DriftscopeError(f"none of {len(smiles):,} molecules can be read", last)
        raise several if len(smiles) > 1 else DriftscopeError(last)
    for left_out in skipped:
        cli.note(f"left out: {left_out['error']}")
    return molecules, skipped


@cli.command(app, "models")
def models(out: cli.Output, model: str | None = cli.words(None, "MODEL", "ALIAS or ALIAS:STEP (all)")) -> int:
    """the registered models

    Size, tokenizer, the devices with room for them, their cards. DRIFTSCOPE_MODELS names a file with more; README.md
    shows one.
    """
    from engine.models.summary import summarise

    registry = load_registry()
    summaries = [summarise(entry) for entry in ([registry.find(model)] if model else registry.entries)]
    rows = [found.as_json() for found in summaries]
    out.show(rows, "alias step tokenizer family vocab_size parameters size_mb decimals fits card notes")
    for found in summaries:
        for warning in found.warnings:
            cli.note(f"warning: {warning}")
        if found.problem:
            name = found.entry.name
            cli.note(found.problem if found.problem.startswith(name) else f"{name}: {found.problem}")
    return 2 if model and summaries[0].problem else 0


@cli.command(app, "generate", rules=True)
def generate(
    io: cli.Io,
    of_model: Model,
    of_plan: Plan,
    profiled: Profiling,
    logged: Logging,
    smiles: list[str] | None = SMILES,
    file: str | None = cli.option(None, "a file with SMILES, one per line"),
    model: str | None = cli.option(None, "ALIAS or ALIAS:STEP (see `models`)", "--model", "--model-alias", metavar="A"),
    lp: str = cli.option("exact", f"{LPS_HELP}; NAME+cleanup cleans up after", "--lp", "--processor-type"),
    no_logit_processor: bool | None = cli.option(None, "--lp none"),
    sdf: str | None = cli.option(None, "write all readable conformers as SDF", metavar="FILE"),
    reader: ReaderName = READER,
    profile_run: str | None = cli.option(None, "link the trace to this run, if it has the same tokens"),
) -> int:
    """3D structures of molecules, written by a model as text, under any LP or under none"""
    if no_logit_processor and lp != "exact":
        raise DriftscopeError("--no-logit-processor is --lp none", "Give one of the two")
    entry, choice = of_model.chosen(model)
    plan = of_plan.of(entry.numbers, "none" if no_logit_processor else lp)
    profiled.check(io, profile_run)
    molecules, skipped = read_molecules(smiles_of(smiles or [], file), file)
    # Imported here: torch takes seconds.
    from engine.chem.enriched import as_decimals
    from engine.chem.structure_files import to_sdf
    from engine.decode.generation import Generation
    from engine.models.loading import load_model
    from engine.profile.steps import aligned_samples
    from engine.text.readers import decode_with

    path = None if sdf is None else cli.path_of(sdf)
    set_threads(of_model.threads)
    loaded = load_model(entry, choice.device, choice.dtype, choice.attention)
    stopped, about = False, (plan.backend, f"{entry.name}, {plan.lp}", "generate --profile", profile_run)
    with (
        logged.recording(io) as log,
        profiled.recording(io, *about, lambda ids: aligned_samples(generation, ids)) as watch,
        cli.StatusLine(is_quiet=io.is_json) as line,
    ):
        generation = Generation(loaded, molecules, plan)
        generation.watch = watch
        if log is not None:  # names are SMILES, so that logs of two engines meet by them
            counts = Counter(molecule.smiles for molecule in generation.molecules)

            def name_of(sample_id: int) -> str:
                smiles = generation.molecule_of(sample_id).smiles
                return smiles if counts[smiles] * plan.generations == 1 else f"{smiles} sample {sample_id}"

            generation.tap = log.tap(loaded, plan.sampling, plan.seed, name_of)
        try:
            for tokens, _ in enumerate(generation.events()):
                done, of = len(generation.samples), len(generation.requests)
                line.draw(f"{done}/{of} molecules, {tokens:,} tokens", done / of)
        except KeyboardInterrupt:  # finished samples are kept
            stopped = True
    if path is not None:
        mols = []
        for sample in generation.in_order():
            with suppress(EnrichedError):
                mols.append(decode_with(reader, as_decimals(sample.text, generation.form)).mol)
        with exporting(path) as sdf_file:
            sdf_file.write(to_sdf(mols).encode())
        unread = len(generation.samples) - len(mols)
        failed = f", {unread} samples cannot be read, by the {reader} reader" if unread else ""
        cli.note(f"{path}: {len(mols)} conformers{failed}")
    written = document(generation, skipped)
    if io.is_json:
        io.show(written)
    else:
        for sample in generation.in_order():
            stop = "" if sample.stop_reason == "end" else f" (stopped: {sample.stop_reason})"
            best = [word for word in ("clean", "decodes", "passed") if getattr(sample.check, word)][:1]
            cli.write(f"{sample.smiles} {', '.join([*best, *sample.check.issues])}{stop}\n{sample.text}")
        judged = [sample.check for sample in generation.samples]
        sums = [f"{sum(getattr(check, word) for check in judged)} {word}" for word in ("passed", "decodes", "clean")]
        setting = [f"{name} {written[name]}" for name in ("model", "lp", "backend", "device", "threads")]
        spent = f"{written['tokens']:,} tokens ({written['forced_tokens']:,} forced) in {written['decode_s']:.2f} s"
        cli.note(f"of {len(judged)}: {', '.join(sums)}; {spent}; {', '.join(setting)}")
    for text in generation.counters.notes:
        cli.note(text)
    if stopped:
        raise KeyboardInterrupt
    return 0


def document(generation: Generation, skipped: Sequence[dict[str, str]]) -> dict[str, Any]:
    from engine.models.devices import threads_of

    counters, plan, device = generation.counters, generation.plan, generation.loaded.device
    guard = {"tokens_thrown": counters.thrown_tokens, "blocks_redrawn": sum(counters.redrawn.values())}
    samples = []
    for sample in generation.in_order():
        row = cli.picked(sample, OF_SAMPLE) | {name: getattr(sample.check, name) for name in CHECK_COLUMNS}
        row["blocks"] = [asdict(block) for block in sample.blocks]
        if sample.guarding is not None:
            row |= {**sample.guarding.figures, "unmended": [asdict(wrong) for wrong in sample.guarding.unmended]}
        if sample.raw_text != sample.text:
            row["raw_text"] = sample.raw_text
        if sample.diagnoses:
            row["steps"] = [asdict(step) for step in sample.diagnoses]
        samples.append(row)
    return {
        "model": generation.loaded.entry.name,
        **cli.picked(plan, "lp backend seed"),
        **cli.picked(generation, "placeholder descriptors template_s"),
        "sampling": asdict(plan.sampling),
        "device": str(device),
        "threads": threads_of(device),
        **asdict(counters),
        **(guard if lp_record(generation.lp).is_guarded else {}),
        "samples": samples,
        "skipped": list(skipped),
    }


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
        parts.append({"name": name, "needed": is_needed, "problem": problem})
    out.show({"ready": not any(part["problem"] for part in parts), "parts": parts})
    return 2 if any(part["problem"] and (part["needed"] or check) for part in parts) else 0
