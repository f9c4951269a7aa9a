"""``models``, ``generate`` and ``prepare``: models, molecules written live under any LP, the app's parts.

The options of a model and of a plan are also those of ``run``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from engine.cli.recording import Logging, Profiling, names_of
from engine.cli.terminal import (
    JSON,
    MOST_COUNT,
    MOST_SEED,
    THREADS,
    Io,
    StatusLine,
    command,
    emit_json,
    finite,
    new_app,
    note,
    option,
    path_of,
    read_text,
    table,
    whole,
    words,
    write,
)
from engine.cli.text import BINS, READER, form_of
from engine.errors import (
    AssetError,
    ConstraintError,
    DriftscopeError,
    EnrichedError,
    RegistryError,
    one_line,
    shown,
    unquoted,
    visible,
)
from engine.figures.words import counted
from engine.folders import exporting
from engine.lp_records import LPS, GuardSettings, full_name, guard_checks, lp_record, split_cleanup
from engine.paths import STATIC
from engine.records import CHECK_COLUMNS, NumberFormat, ReaderName

if TYPE_CHECKING:
    from engine.decode.generation import Generation
    from engine.decode.plan import Plan as DecodePlan
    from engine.decode.samples import Sample
    from engine.decode.steps import Event
    from engine.models.registry import ModelEntry
    from engine.records import Molecule

app = new_app()
DIM, BOLD, RED, YELLOW, GREEN, PLAIN = "\033[2m", "\033[1m", "\033[31m", "\033[33m", "\033[32m", "\033[0m"
UNLIKELY = 0.01  # forced tokens with a lower probability are listed with the diagnostics
OF_SAMPLE = "sample_id generation smiles text token_ids forced stop_reason tokens forced_tokens".split()
"""Keys of a sample's JSON, beside those of its check."""
MOST_LINES = 100_000  # all are held parsed, 20 KB each; ``run --smiles-file`` holds none
DESCRIPTORS_HELP = "of bare heteroatoms: [O], or [OH] with-hydrogens (default: the LP's own, else the model's)"
LPS_HELP = f"{', '.join(LPS)}; default: exact"
GUARD = GuardSettings()
SMILES = words(None, "SMILES", "molecules; - reads standard input, one per line")
COUNT, NUMBER = whole(MOST_COUNT, -MOST_COUNT), finite()


class Range(NamedTuple):
    least: int
    most: int


def decimals(text: str) -> Range:
    least, _, most = text.partition("-")
    if not (least.isascii() and least.isdigit() and (not most or (most.isascii() and most.isdigit()))):
        raise ValueError(f"{text!r} is not a range such as 1-4, or a number such as 4")
    return Range(int(least), int(most or least))


@dataclass(frozen=True, slots=True)
class Model:
    step: str | None = option(None, "the checkpoint (default: the last one)", "--step", "--model-step")
    model_path: str | None = option(None, "folder of a checkpoint that is not registered", metavar="DIR")
    tokenizer_name: str | None = option(None, "for --model-path: qwen3, llama3 or a path", metavar="T")
    device: str = option("auto", "auto (a GPU if there is one), cpu, cuda, mps")
    threads: int | None = THREADS
    dtype: Literal["float32", "bfloat16", "float16"] | None = option(None, "default: as registered")
    attention: Literal["sdpa", "eager"] = option("sdpa", "for the backend hf")

    def entry(self, model: str | None) -> ModelEntry:
        from engine.models.registry import entry_of_folder, load_registry

        if (model is None) == (self.model_path is None):
            raise RegistryError("give either --model or --model-path", "`models` lists the registered ones")
        if self.model_path is not None:
            if self.step:
                raise RegistryError("--step belongs to --model", "Leave it out, or name the checkpoint's own folder")
            return entry_of_folder(path_of(self.model_path), self.tokenizer_name)
        if self.tokenizer_name is not None:
            raise RegistryError("--tokenizer-name belongs to --model-path", "A registered model names its tokenizer")
        return load_registry().find(str(model), self.step)


def set_threads(threads: int | None) -> None:
    import torch

    from engine.models.devices import idle_cores

    torch.set_num_threads(threads or min(torch.get_num_threads(), idle_cores()))


@dataclass(frozen=True, slots=True)
class Plan:
    placeholder: str = option("", "for a position LP (default: the LP's own)")
    decimals: Range | None = option(None, "such as 0-4 (default: the model's)", of=decimals)
    integer_digits: int | None = option(None, "at most (default: the model's)", of=whole(6), metavar="N")
    descriptors: Literal["plain", "with-hydrogens"] | None = option(None, DESCRIPTORS_HELP)  # fmt: skip
    retries: int = option(GUARD.retries, "lp guarded: how often a wrong block is drawn again", of=COUNT)
    back: int = option(GUARD.back, "lp guarded: how often a block may send the text back further", of=COUNT)
    most_thrown: float = option(
        GUARD.most_thrown, "lp guarded: blocks thrown away for each of the molecule's", of=NUMBER
    )
    guard: str = option(",".join(GUARD.checks), "lp guarded: what is checked of each block", metavar="CHECKS")
    backend: str = option("fast", "fast (ours) or hf (plain generate)")
    compile: bool = option(False, "compile the fast backend (takes minutes; for a GPU)")
    sampling: str = option("qwen3", "a preset, such as greedy", "--sampling", "--sampling-config")
    temperature: float | None = option(None, "overrides the preset", of=NUMBER)
    top_k: int | None = option(None, "overrides the preset", of=COUNT)
    top_p: float | None = option(None, "overrides the preset", of=NUMBER)
    min_p: float | None = option(None, "overrides the preset", of=NUMBER)
    n: int = option(1, "samples per molecule", "--n", "--num-generations", of=whole(1_000))
    seed: int = option(0, "", of=whole(MOST_SEED, -MOST_SEED))
    batch_size: int = option(32, "", of=whole(4_096))
    max_new_tokens: int | None = option(None, "default: by the molecule's size", of=COUNT)
    time_limit: float | None = option(None, "seconds for all molecules together", of=finite(366 * 86_400))
    equal_work: bool = option(False, "every sample as long as the exact LP's")
    candidates: int = option(10, "likely tokens kept per step", of=whole(1_000))
    diagnostics: bool = option(False, "token probabilities at each step; slower")
    bins: tuple[float, float] | None = BINS

    def of(self, numbers: NumberFormat, lp: str) -> DecodePlan:
        """For a model that writes such ``numbers``."""
        from engine.decode.plan import Plan as DecodePlan
        from engine.decode.presets import preset

        least, most = self.decimals or (numbers.least_decimals, numbers.most_decimals)
        try:
            form = NumberFormat(least, most, self.integer_digits or numbers.most_integer_digits)
        except ValueError as error:
            raise ConstraintError(
                f"there is no such number format: {error}", "Give for example --decimals 1-4"
            ) from error
        if self.bins is not None:
            form, record = form_of(self.bins), lp_record(split_cleanup(lp)[0])
            if record.is_guarded or record.name == "truncating":
                raise ConstraintError(f"the LP {record.name} reads decimals, no bins", "Use exact, or leave --bins out")
        names = ("temperature", "top_k", "top_p", "min_p")
        filters = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        same = "placeholder descriptors backend compile seed batch_size diagnostics candidates equal_work".split()
        return DecodePlan(
            lp=full_name(lp),
            form=form,
            sampling=replace(preset(self.sampling), **filters),
            generations=self.n,
            limit=self.max_new_tokens,
            time_limit_s=self.time_limit,
            guard=GuardSettings(self.retries, self.back, guard_checks(self.guard), self.most_thrown),
            **{name: getattr(self, name) for name in same},
        )


def smiles_of(words: Sequence[str], file: str | None = None) -> list[str]:
    """SMILES that were typed, piped in (``-``), or stand in a file; the first word of a line, as in .smi files."""
    texts = ([read_text("-")] if list(words) == ["-"] else []) + ([read_text(file)] if file else [])
    lines = [line for text in texts for line in text.splitlines()]
    if len(lines) > MOST_LINES:
        raise DriftscopeError(f"over {MOST_LINES:,} lines of molecules are given", "Split them")
    smiles = [] if list(words) == ["-"] else list(words)
    smiles += [columns[0] for line in lines if (columns := line.split())]
    if not smiles:
        raise DriftscopeError("no molecule is given", "Give one SMILES or more, - for standard input, or --file")
    return smiles


def read_molecules(smiles: Sequence[str], file: str | None = None) -> tuple[list[Molecule], list[dict[str, str]]]:
    """The molecules that can be read, and the others with what is wrong; an error where none is left. A ``file`` may be
    of another kind, so nothing of it is quoted that is no SMILES."""
    from engine.chem.enriched import skeleton_of
    from engine.chem.smiles import parse_smiles

    molecules, skipped, last = [], [], None
    for number, text in enumerate(smiles, start=1):
        try:
            molecule = parse_smiles(text)
            skeleton_of(molecule)  # some molecules have no enriched form
            molecules.append(molecule)
        except DriftscopeError as error:
            last = error
            of_file = {"smiles": "", "error": f"molecule {number:,}: {unquoted(error)}"}
            skipped.append({"smiles": text, "error": str(error)} if file in (None, "-") else of_file)
    if file not in (None, "-") and not molecules:
        what = f"none of {len(smiles):,} lines of {shown(file)} is a molecule"
        raise DriftscopeError(what, "Give a file with SMILES, one per line")
    if last is not None and not molecules:
        raise last if len(smiles) == 1 else DriftscopeError(f"none of {len(smiles)} molecules can be read", str(last))
    for molecule_error in skipped:
        note(f"left out: {molecule_error['error']}")
    return molecules, skipped


@command(app, "models")
def models(
    model: str | None = words(None, "MODEL", "only this model: ALIAS or ALIAS:STEP"), is_json: bool = JSON
) -> int:
    """the registered models

    Size, tokenizer, the devices with room for them, their cards. DRIFTSCOPE_MODELS names a file with more; README.md
    shows one.
    """
    from engine.models.registry import load_registry
    from engine.models.summary import summarise

    registry, here = load_registry(), Path.cwd()
    summaries = [summarise(entry) for entry in ([registry.find(model)] if model else registry.entries)]
    rows, about = [], []
    for found in summaries:
        entry, figures = found.entry, ("-", "-", "-", "-", "cannot be loaded")
        if not found.problem:
            size = (f"{found.vocab_size:,}", f"{(found.parameters or 0) / 1e6:.1f} M", f"{found.size_mb:.1f} MB")
            figures = (found.family or "-", *size, ", ".join(found.fits) or "no device")
        card = entry.card and (entry.card.relative_to(here) if entry.card.is_relative_to(here) else entry.card)
        rows.append([one_line(str(text)) for text in (entry.name, entry.tokenizer, *figures, card or "-")])
        words = [entry.notes, "" if found.problem else f"numbers: {entry.numbers.words}"]
        about += [one_line(f"{entry.name}: {'; '.join(filter(None, words))}")] if any(words) else []
    if is_json:
        emit_json([found.as_json() for found in summaries])
    elif rows:
        titles = ("model", "tokenizer", "family", "rows", "parameters", "on disk", "fits", "card")
        write("\n".join([table(titles, rows), *about]))
    else:
        write("no model is registered")
    for found in summaries:
        for warning in found.warnings:
            note(f"warning: {warning}")
        if found.problem:
            name = found.entry.name
            note(found.problem if found.problem.startswith(name) else f"{name}: {found.problem}")
    return 2 if model and summaries[0].problem else 0


@command(app, "generate", rules=True)
def generate(
    io: Io,
    of_model: Model,
    of_plan: Plan,
    profiled: Profiling,
    logged: Logging,
    smiles: list[str] | None = SMILES,
    file: str | None = option(None, "a file with SMILES, one per line"),
    model: str | None = option(None, "ALIAS or ALIAS:STEP (see `models`)", "--model", "--model-alias", metavar="A"),
    lp: str = option("exact", f"{LPS_HELP}; NAME+cleanup cleans up after", "--lp", "--processor-type"),
    no_logit_processor: bool | None = option(None, "--lp none"),
    sdf: str | None = option(None, "write all readable conformers as SDF", metavar="FILE"),
    reader: ReaderName = READER,
    profile_run: str | None = option(None, "link the trace to this run, if it has the same tokens"),
) -> int:
    """3D structures of molecules, written by a model under any LP

    A model writes the 3D structure of each molecule as text, under any LP or under none.
    """
    if no_logit_processor and lp != "exact":
        raise ConstraintError("--no-logit-processor is --lp none", "Give one of the two")
    entry = of_model.entry(model)
    plan = of_plan.of(entry.numbers, "none" if no_logit_processor else lp)
    profiled.check(io, elsewhere=False, run=profile_run)
    molecules, skipped = read_molecules(smiles_of(smiles or [], file), file)
    # Imported here: torch takes seconds.
    from engine.decode.generation import Generation
    from engine.models.loading import load_model
    from engine.profile.steps import aligned_samples

    to_sdf = None if sdf is None else path_of(sdf)
    set_threads(of_model.threads)
    loaded = load_model(entry, of_model.device, of_model.dtype, of_model.attention)
    stopped, label = False, f"{entry.name}, {plan.lp}"
    with (
        logged.recording(io) as log,
        profiled.recording(
            io,
            plan.backend,
            label,
            "generate --profile",
            like_run=profile_run,
            align=lambda ids: aligned_samples(generation, ids),
        ) as watch,
    ):
        generation = Generation(loaded, molecules, plan)
        generation.watch = watch
        display = GenerationDisplay(generation, is_quiet=io.is_json)
        if log is not None:
            generation.tap = log.tap(loaded, plan.sampling, plan.seed, names_of(generation))
        try:
            for event in generation.events():
                display.event(event)
        except KeyboardInterrupt:  # finished samples are kept
            stopped = True
        display.close()
    if to_sdf is not None:
        _write_sdf(to_sdf, generation, reader)
    if io.is_json:
        emit_json(document(generation, skipped))
    if stopped:
        raise KeyboardInterrupt
    return 0


class GenerationDisplay:
    """One generation on a terminal. A single sample is written token by token; several are counted, shown when done."""

    def __init__(self, generation: Generation, *, is_quiet: bool) -> None:
        self.generation, self.is_quiet = generation, is_quiet
        self.colours = not is_quiet and sys.stdout.isatty()
        self.is_live = self.colours and len(generation.requests) == 1
        self.line = StatusLine(is_quiet=self.is_live)
        self.tokens = self.done = self.shown = 0
        self.waiting: dict[int, Sample] = {}
        self.began = time.monotonic()

    def event(self, event: Event) -> None:
        from engine.decode.steps import Back, Step

        if isinstance(event, Step):
            self.tokens += 1
            tokenizer = self.generation.loaded.tokenizer
            if self.is_live and event.token_id != tokenizer.end_id:
                piece = _printable(tokenizer.decode([event.token_id]))
                sys.stdout.write(f"{DIM}{piece}{PLAIN}" if event.forced else piece)
                sys.stdout.flush()
        elif isinstance(event, Back):
            if self.is_live:  # struck out: what is written already stays on the terminal
                wrong = ", ".join(dict.fromkeys(place.check for place in event.wrong))
                sys.stdout.write(f"{RED}✗ {wrong}, back to block {event.block}{PLAIN}\n")
        else:
            self.done += 1
            if not self.is_quiet:  # those that are done, in the order asked, up to the first that is not
                self.waiting[self.generation.samples[-1].sample_id] = self.generation.samples[-1]
                while (sample := self.waiting.pop(self.shown, None)) is not None:
                    self._sample(sample)
                    self.shown += 1
        total, rate = len(self.generation.requests), self.tokens / max(time.monotonic() - self.began, 1e-9)
        self.line.draw(
            f"{self.done}/{total} molecules, {self.tokens:,} tokens, {rate:,.0f} tokens/s", self.done / total
        )

    def close(self) -> None:
        self.line.clear()
        if not self.is_quiet:
            for number in sorted(self.waiting):  # behind one that was stopped
                self._sample(self.waiting[number])
            sys.stderr.write(summary(self.generation) + "\n")
        for text in self.generation.counters.notes:
            sys.stderr.write(text + "\n")

    def _sample(self, sample: Sample) -> None:
        from engine.text.blocks import find_blocks

        self.line.clear()
        if self.is_live:
            sys.stdout.write("\n")
        state, colour = ("clean", GREEN) if sample.check.clean else ("passed", YELLOW)
        if not sample.check.decodes:
            state = "passed, does not decode"
        if not sample.check.passed:
            state, colour = "; ".join(sample.check.issues), RED
        stopped = "" if sample.stop_reason == "end" else f" (stopped: {sample.stop_reason})"
        name = f"{sample.smiles} #{sample.generation + 1}" if sample.generation else sample.smiles
        # Colours are commands to a terminal, which `write` would escape.
        coloured = f"{BOLD}{name}{PLAIN} {colour}{state}{PLAIN}{stopped}"
        sys.stdout.write((coloured if self.colours else f"{name} {state}{stopped}") + "\n")
        if not self.is_live or sample.text != sample.raw_text:
            parts, position = [], 0
            for block, judged in zip(find_blocks(sample.text), sample.blocks, strict=False) if self.colours else ():
                damaged = not set(judged.kinds) <= {"exact", "unverified"}
                colour = RED if damaged else YELLOW if "unverified" in judged.kinds else PLAIN
                parts.append(f"{DIM}{_printable(sample.text[position : block.start])}{PLAIN}{colour}")
                parts.append(f"{_printable(sample.text[block.start : block.end])}{PLAIN}")
                position = block.end
            sys.stdout.write("".join([*parts, _printable(sample.text[position:])]) + "\n")
        if sample.diagnoses:
            steps = zip(sample.token_ids, sample.forced, sample.diagnoses, strict=True)
            forced = sorted((s.p_raw, s.rank_raw, id_) for id_, forced, s in steps if forced and s.p_raw < UNLIKELY)
            least = min(step.allowed_mass for step in sample.diagnoses)
            count = f"{len(forced)} forced tokens below p {UNLIKELY:g}"
            write(f"  least mass that the LP allowed: {least:.3g}; {count}")
            for p, rank, id_ in forced[:5]:
                write(f"  forced {self.generation.loaded.tokenizer.piece(id_)!r}: p {p:.2g}, rank {rank:,}")


def _printable(text: str) -> str:
    """Generated text is untrusted: nothing in it may move a terminal's cursor."""
    return "".join(visible(char) for char in text)


def summary(generation: Generation) -> str:
    from engine.models.devices import threads_of

    samples, counters = generation.samples, generation.counters
    blocks = [block for sample in samples for block in sample.blocks]
    bad = sum(not set(block.kinds) <= {"exact", "unverified"} for block in blocks)
    rate = counters.tokens / counters.decode_s if counters.decode_s else 0.0
    threads = threads_of(generation.loaded.device)
    guarded = [sample.guarding for sample in samples if sample.guarding is not None]
    guard = ""
    if guarded:
        redrawn = sorted(counters.redrawn.items())
        reasons = ", ".join(f"{n:,} {check} with {counters.thrown_by[check]:,} tokens" for check, n in redrawn)
        guard = (
            f"\nguard: blocks drawn anew {counted(sum(counters.redrawn.values()), 'time')}"
            f"{f' ({reasons})' if reasons else ''}, "
            f"{counters.thrown_tokens:,} tokens thrown away, {sum(bool(one.unmended) for one in guarded)} of "
            f"{len(guarded)} answers with something left wrong"
        )
    return (
        f"{sum(sample.check.passed for sample in samples)} of {len(samples)} passed, "
        f"{sum(sample.check.decodes for sample in samples)} decode, "
        f"{sum(sample.check.clean for sample in samples)} clean; {bad} of {len(blocks)} blocks not exact; "
        f"{counters.tokens:,} tokens ({counters.forced_tokens:,} forced) decoded in {counters.decode_s:.2f} s, "
        f"{rate:,.0f} tokens/s, {counters.forward_passes:,} passes; "
        f"{generation.loaded.entry.name}, {generation.plan.lp}, {generation.plan.backend}, {generation.loaded.device}"
        f"{'' if threads is None else ', ' + counted(threads, 'thread')}{guard}"
    )


def document(generation: Generation, skipped: Sequence[dict[str, str]]) -> dict[str, Any]:
    from engine.models.devices import threads_of

    counters, plan = generation.counters, generation.plan
    guard = {"tokens_thrown": counters.thrown_tokens, "blocks_redrawn": sum(counters.redrawn.values())}
    samples = []
    for sample in generation.in_order():
        row: dict[str, Any] = {name: getattr(sample, name) for name in OF_SAMPLE}
        row |= {name: getattr(sample.check, name) for name in CHECK_COLUMNS}
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
        "lp": plan.lp,
        "placeholder": generation.placeholder,
        "descriptors": generation.descriptors,
        "backend": plan.backend,
        "sampling": asdict(plan.sampling),
        "seed": plan.seed,
        "device": str(generation.loaded.device),
        "threads": threads_of(generation.loaded.device),
        "template_s": generation.template_s,
        **asdict(counters),
        **(guard if lp_record(generation.lp).is_guarded else {}),
        "samples": samples,
        "skipped": list(skipped),
    }


def _write_sdf(path: Path, generation: Generation, reader: ReaderName) -> None:
    """All conformers that can be read, and a note of how many cannot."""
    from engine.chem.enriched import as_decimals
    from engine.chem.structure_files import to_sdf
    from engine.text.readers import decode_with

    mols, unread = [], 0
    for sample in generation.in_order():
        try:
            mols.append(decode_with(reader, as_decimals(sample.text, generation.form)).mol)
        except EnrichedError:
            unread += 1
    with exporting(path) as file:
        file.write(to_sdf(mols).encode())
    failed = f", {unread} samples cannot be read, by the {reader} reader" if unread else ""
    sys.stderr.write(f"{path}: {len(mols)} conformers{failed}\n")


@command(app, "prepare")
def prepare(check: bool = option(False, "make nothing; exit 2 when anything is missing"), is_json: bool = JSON) -> int:
    """build the tokenizers' caches and download 3Dmol.js

    Ready parts are left as they are. Without 3Dmol.js the app works, except for its 3D view.
    """
    from engine import assets
    from engine.text.tokenizer_build import built_in, folder_of
    from engine.text.tokenizers import load_tokenizer

    if not check:
        note("preparing the tokenizers and 3Dmol.js: up to a minute the first time")
    parts = [{"name": name, "needed": name != assets.FILE_NAME, "problem": ""} for name in ("qwen3", "llama3")]
    parts.append({"name": assets.FILE_NAME, "needed": False, "problem": ""})
    for part in parts:
        name = str(part["name"])
        try:
            if not part["needed"]:
                (assets.three_d_mol if check else assets.bring_three_d_mol)(STATIC)
                continue
            if not check:
                built_in(name)
            elif not folder_of(name).is_dir():
                raise AssetError(f"the tokenizer {name} is not built yet", "Run `make prepare`")
            load_tokenizer(name)
        except DriftscopeError as error:
            part["problem"] = str(error)
    if is_json:
        emit_json({"ready": not any(part["problem"] for part in parts), "parts": parts})
    for part in parts:
        if part["problem"]:
            note(f"{part['name']}: {part['problem']}")
        elif not is_json:
            write(f"{part['name']}: ready")
    if any(part["problem"] and not part["needed"] for part in parts):
        note("the app works without it, except for the 3D view")
    return 2 if any(part["problem"] and (part["needed"] or check) for part in parts) else 0
