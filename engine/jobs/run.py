"""A run from its first sample to the store: groups of molecules, each written when it is finished.

A process that is stopped or killed loses its current group; ``resume`` continues after the last saved group. On a CPU
in single precision the result has the texts of an uninterrupted run. Elsewhere sums may differ in their last bits with
the batch, and so may a token: some finished samples are generated again, and the run keeps how many differ.
"""

from __future__ import annotations

import functools
import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rdkit import Chem

from engine.chem.enriched import as_decimals, described, prompt_of
from engine.chem.geometry import judged_with
from engine.chem.judges import JudgePool, JudgeTask
from engine.chem.molecule_files import MoleculeList, heavy_atoms_of, smiles_of
from engine.chem.rmsd import least_rmsd
from engine.chem.smiles import parse_written
from engine.decode.diagnosis import close_ids
from engine.decode.generation import (
    FITTED_MOLECULES,
    UNKNOWN_OF_SERVERS,
    Generation,
    constraint_of,
    context_of,
    settled,
)
from engine.decode.log_recorder import LogFile
from engine.decode.plan import Plan
from engine.decode.samples import Sample
from engine.decode.scoring import Scored, reader_of, score
from engine.decode.steps import Event, StepObserver, Stop, Tap
from engine.errors import DriftscopeError, RunError
from engine.inspection import constrained
from engine.inspection.conformers import difference_columns, references_of
from engine.inspection.recount import is_counted, recount_run
from engine.jobs.plan import RunPlan, new_run_id, sampling_name
from engine.jobs.progress import PartProgress
from engine.lp_records import full_name, stored_lp
from engine.models.devices import threads_of
from engine.models.loading import LoadedModel
from engine.processes import usable_cores
from engine.records import Alphabet, Molecule, MoleculeVerdict
from engine.store import sample_rows
from engine.store.entries import Entry
from engine.store.files import ASIDE, Files
from engine.store.provenance import git_commit, versions
from engine.store.references import ReferenceSet, reference_set
from engine.store.schema import RUN, SAMPLES, STEPS, TRIES
from engine.store.staging import Group, Staging, sweep, totals
from engine.store.store import Store
from engine.text.blocks import RULES, SOUND
from engine.text.check import conformers_of_graph, find_answer
from engine.text.examples import count_examples
from engine.text.generated import mode_of
from engine.user_files import open_regular

REFERENCE_S, WAIT_S = 20.0, 0.2
"""Longest search for a molecule's reference conformers, and longest wait for a verdict before the next ``go_on``."""
COUNTERS = [*"tokens forced_tokens decode_s".split(), *UNKNOWN_OF_SERVERS]
MOLECULES_FILE = "molecules.parquet"
CHECKED, BESIDE = 4, max(1, usable_cores() // 2)
"""Molecules of which finished samples are generated again at a resume, and judging processes."""
COUNTED = ("samples", "passes", "decodes", "clean", "bad_blocks", "blocks", "tokens")
"""Sums of a group that the progress shows."""


def begin(
    files: Files,
    loaded: LoadedModel,
    molecules: Sequence[Molecule],
    plan: RunPlan,
    *,
    parts: int = 1,
    on_gpu: bool | None = None,
) -> Staging:
    """Creates a run in the store's staging folder: its plan and its molecules, without samples. The model's outline is
    enough where ``parts`` other processes write the run, ``on_gpu`` or not."""
    if not molecules:
        raise RunError("there are no molecules", "Give one SMILES or more")
    is_far = loaded.device.type != "cpu" or plan.plan.backend == "server"
    plan = plan.grouped(len(molecules), parts, on_gpu=is_far if on_gpu is None else on_gpu)
    smiles = smiles_of(molecules)
    each = list(dict.fromkeys(smiles))  # one may be asked for many times
    fitted, longest = list(map(parse_written, each[:FITTED_MOLECULES])), parse_written(max(each, key=len))
    plan = replace(plan, plan=settled(loaded, fitted, plan.plan))
    if plan.plan.form is None and isinstance(loaded.entry.numbers, Alphabet):  # no text says which they are
        plan = replace(plan, plan=replace(plan.plan, form=loaded.entry.numbers))
    # What cannot be written is found before anything is stored: the longest may not fit.
    context_of(loaded, plan.plan).prompt(longest, plan.plan.limit_of(longest.heavy_atoms))
    constraint_of(loaded, plan.plan).compile(described(longest, plan.plan.descriptors_of(loaded.entry.descriptors)))
    sweep(files, RUN)
    run_id = new_run_id(loaded.entry.name, plan.plan.lp)
    row = _first_row(run_id, loaded, len(each), len(molecules), plan)
    with files.writing(f"{ASIDE}/{run_id}/{MOLECULES_FILE}") as file:
        pq.write_table(pa.table({"smiles": smiles}), file)
    samples = len(molecules) * plan.plan.generations
    return Staging.create(files, RUN, run_id, row, plan=asdict(plan), samples=samples)


def resume(files: Files, run_id: str) -> tuple[Staging, RunPlan]:
    staging = Staging.open(files, RUN, run_id)
    return staging, RunPlan.read(staging.sheet.get("plan", {}))


def molecules_of(staging: Staging) -> Sequence[Molecule]:
    try:
        with open_regular(staging.files.path(f"{staging.folder}/{MOLECULES_FILE}")) as file:
            texts = pq.read_table(file)["smiles"].to_pylist()
    except (OSError, pa.ArrowException, LookupError) as error:
        raise RunError(f"the molecules of {staging.id} are lost", "Start a new run") from error
    return MoleculeList(parse_written, texts)


class RunState:
    """A run that is being written: its groups, which of them are left, how far it is, its publication.

    It needs no model, so it also serves a process that waits for others.
    """

    def __init__(self, staging: Staging, molecules: Sequence[Molecule], plan: RunPlan) -> None:
        self.staging, self.molecules, self.plan = staging, molecules, plan
        self.samples = len(molecules) * plan.plan.generations
        heavy_atoms = heavy_atoms_of(molecules)
        self.groups = plan.groups(heavy_atoms)
        self.notes: list[str] = []
        self.finished: list[Group] = []  # the groups that are known to be written
        self._limits = list(map(plan.plan.limit_of, heavy_atoms))
        self._expected = plan.plan.generations * sum(self._limits)
        self._sums: Counter[str] = Counter()  # of the finished groups
        self._unknown: set[str] = set()  # sums that a group of an earlier version lacks
        self._began, self._written_here = time.perf_counter(), 0
        for group in staging.groups():
            self._finish(group)
        self.part, self.parts = 0, 1  # of those that a command writes
        self._began_work = self._sums["expected"] / self._expected

    def left(self) -> list[int]:
        """The groups that are not written yet."""
        done = self.indices_of(*self.finished)
        return [number for number, indices in enumerate(self.groups) if indices[0] not in done]

    def publish(self) -> Entry:
        """Moves the run into the store; every group has to be written."""
        self.finished, notes = self.staging.groups(), self.staging.notes()
        if left := self.left():
            problem = f"{self.staging.id} lacks {len(left)} of {len(self.groups)} groups"
            raise RunError(problem, "Resume it with --resume")
        resumed, threads = notes.get("resumed", []), notes.get("threads", [])
        settings = self.plan.judge_settings
        sums = totals(self.finished)
        of_lp = constrained.columns(sums, notes)
        sums.pop(constrained.PROBED, None)
        if of_lp.get("constrained") == "no":
            self.notes.append(f"not constrained: {of_lp['constrained_why']}")
        columns = {
            **of_lp,
            "device": ", ".join(notes["devices"]) or None,
            "threads": threads[0] if len(threads) == 1 else None,  # no one number holds for several
            "notes": " ".join(notes.get("notes", [])) or None,
            "judged_with": None if settings is None else judged_with(settings.geometry),
            "resumed": len(resumed),
            "checked_samples": sum(check["checked"] for check in resumed),
            "diverged_samples": sum(check["diverged"] for check in resumed),
        }
        entry = self.staging.publish({**sample_rows.run_columns(sums), **columns})
        if is_counted(entry):
            return entry
        try:  # an earlier version began it: all samples are counted by today's rules, where they can be read
            return recount_run(Store(self.staging.files), entry.id).entry
        except DriftscopeError as error:
            self.notes.append(f"{error}. Until then, counts that an earlier version did not have are unknown.")
            return entry

    def now(self, more: Mapping[str, int] = {}) -> PartProgress:
        """``more``: sums of the finished samples of the current group."""
        sums = self._sums + Counter(more)
        of_run: dict[str, Any] = {name: self.staging.sheet["row"][name] for name in ("model_alias", "model_step", "lp")}
        counts: dict[str, Any] = {name: None if name in self._unknown else sums[name] for name in COUNTED[1:]}
        return PartProgress(
            self.part,
            self.parts,
            run_id=self.staging.id,
            **of_run,
            samples=self.samples,
            done=sums["samples"],
            **counts,
            written=self._written_here,
            seconds=time.perf_counter() - self._began,
            work=sums["expected"] / self._expected,
            began=self._began_work,
        )

    def indices_of(self, *groups: Group) -> set[int]:
        """The indices of the molecules in these groups."""
        return {member // self.plan.plan.generations for group in groups for member in group.members}

    def _finish(self, group: Group) -> None:
        self.finished.append(group)
        self._unknown.update(name for name in COUNTED if name not in group.sums)
        expected = self.plan.plan.generations * sum(self._limits[index] for index in self.indices_of(group))
        self._sums.update({**{name: int(group.sums.get(name, 0)) for name in COUNTED}, "expected": expected})


class Run(RunState):
    """A process's part of a run, with the model, under one rank. Iterate over ``progress``; then ``publish`` it."""

    def __init__(
        self, staging: Staging, loaded: LoadedModel, molecules: Sequence[Molecule], plan: RunPlan, *, rank: int = 0
    ) -> None:
        super().__init__(staging, molecules, plan)
        self.loaded, self.rank = loaded, rank
        self.judges: JudgePool | None = None
        self.tap: Tap | None = None  # sees what is written, not what is only checked
        self.watch: StepObserver | None = None
        self._generation: Generation | None = None  # has what all groups share
        self._is_probed = False

    def observe(self, watch: StepObserver | None, log: LogFile | None) -> None:
        """Before its progress: the profiler, and the log of logits."""
        self.watch = watch
        if log is not None:
            self.tap = log.tap(self.loaded, self.plan.plan.sampling, self.plan.plan.seed, self.staging.id)

    def progress(self, groups: Collection[int] | None = None) -> Generator[PartProgress, None, None]:
        """Writes the groups that are left (of those given), and yields the progress after every sample.

        It counts as resumed where some (of those given) were written before.
        """
        self.staging.lock(self.rank)
        with ExitStack() as stack:
            if (settings := self.plan.judge_settings) is not None:
                self.judges = stack.enter_context(JudgePool(settings, workers=BESIDE))
            self.note_device()
            left = self.left()
            wanted = set(range(len(self.groups)) if groups is None else groups)
            if written := wanted - set(left):
                yield self.now()
                self.check(written)
            for number in filter(wanted.__contains__, left):
                yield from self._write(number)

    def _write(self, number: int) -> Iterator[PartProgress]:
        work, sums = self.work(number), Counter[str]()
        if not self._written_here:
            self.probe(work)
        for event in work.events():
            if isinstance(event, Stop):
                self._written_here += 1
                sums.update(self._of_sample(work.generation.samples[-1]))
                yield self.now(sums)
        self.add(work, number)

    def _of_sample(self, sample: Sample) -> dict[str, int]:
        return {
            "samples": 1,
            "passes": sample.check.passed,
            "decodes": sample.check.decodes,
            "clean": sample.check.clean,
            "bad_blocks": sum(not SOUND.issuperset(block.kinds) for block in sample.blocks),
            "blocks": len(sample.blocks),
            "tokens": sample.tokens,
            "expected": self._limits[sample.sample_id // self.plan.plan.generations],
        }

    def work(self, number: int) -> GroupWork:
        """Iterate over the group's events, then `add` it."""
        generation = self._generate(self.groups[number])
        generation.tap, generation.watch = self.tap, self.watch
        return GroupWork(generation, self.staging.id, self.plan, self.judges, self._references)

    def add(self, work: GroupWork, number: int) -> None:
        tables, sums = work.rows()
        if self._is_probed:
            sums[constrained.PROBED] = sums["samples"]
        members = [sample.sample_id for sample in work.generation.in_order()]
        self._finish(self.staging.add(tables, members, sums=sums, rank=self.rank, number=number))
        if work.findings:
            self.staging.write_note(self.rank, **{constrained.FINDINGS: work.findings})
        if not self.left():
            self.probe(work)
        self._note(*work.generation.counters.notes)

    def probe(self, work: GroupWork) -> None:
        """Before the first group that is written here, and behind the last of all: whether the server holds to the LP,
        which another one may have done when the run was begun."""
        if self.plan.plan.backend == "server":
            proof = constrained.proof_of(work.generation, work.cancelled)
            work.go_on()
            self.staging.write_note(self.rank, **{constrained.PROOFS: [proof]})
            self._is_probed = True

    def note_device(self) -> None:
        device, threads = _where(self.loaded, self.plan.plan)
        self.staging.write_note(self.rank, devices=[device] if device else [], threads=[threads] if threads else [])

    def check(self, numbers: Collection[int]) -> None:
        """Generates some samples of the last written one of these groups again, and notes how many differ."""
        first = {self.groups[number][0] for number in numbers}
        group = next(group for group in reversed(self.finished) if first & self.indices_of(group))
        file = self.staging.path_of(group.tables[SAMPLES.name])
        rows = pq.read_table(file, columns=["sample_id", "token_ids"]).to_pylist()
        stored = {row["sample_id"]: row["token_ids"] for row in rows}
        again = self._generate(sorted(self.indices_of(group))[:CHECKED]).run()
        differ = sum(list(sample.token_ids) != stored.get(sample.sample_id) for sample in again)
        check = {"at": datetime.now(UTC).isoformat(), "checked": len(again), "diverged": differ}
        self.staging.write_note(self.rank, resumed=[check])
        if differ:
            self._note(f"{differ} of {len(again)} finished samples differed when the run was resumed.")

    @functools.cached_property
    def _references(self) -> ReferenceSet | None:
        """The set that the plan names, in the run's own store or in the demo store next to it."""
        if not self.plan.rmsd_references:
            return None
        own, usual = Store(self.staging.files), Store.open()
        return reference_set(usual if usual.home.where == own.home.where else own, self.plan.rmsd_references)

    def _generate(self, indices: Sequence[int]) -> Generation:
        molecules = [self.molecules[index] for index in indices]
        if self._generation is None:
            self._generation = Generation(self.loaded, molecules, self.plan.plan, indices)
        else:
            self._generation = self._generation.more(molecules, indices)
        self._generation.tap = self._generation.watch = None
        return self._generation

    def _note(self, *notes: str) -> None:
        new = [note for note in dict.fromkeys(notes) if note not in self.notes]
        if new:
            self.notes += new
            self.staging.write_note(self.rank, notes=new)


@dataclass(slots=True)
class GroupWork:
    """The generation of one group, and what is kept of it."""

    generation: Generation
    run_id: str
    plan: RunPlan
    judges: JudgePool | None = None  # of judging processes
    references: ReferenceSet | None = None  # in place of conformers by ETKDG
    reference_s: float = REFERENCE_S
    go_on: Callable[[], object] = lambda: None  # raises where the group is given up
    cancelled: Callable[[], bool] = lambda: False  # asked also while nothing comes
    on_judged: Callable[[int], None] = lambda done: None  # gets the number of scored samples
    judged: list[Sample] = field(default_factory=list)  # by `rows`: the scored samples
    findings: list[list[Any]] = field(default_factory=list)  # by `rows`: where the LP did not act
    _seconds: dict[int, float] = field(default_factory=dict)  # by sample, from its first token to its last
    _made: dict[str, Chem.Mol | None] = field(default_factory=dict)  # references, by SMILES
    _began: float = field(default_factory=time.perf_counter)

    def events(self) -> Iterator[Event]:
        """The decoding's."""
        begins: dict[int, float] = {}
        for event in self.generation.events(self.cancelled):
            self.go_on()  # what a stop cuts off has not ended
            began = begins.setdefault(event.sample, now := time.perf_counter())
            if isinstance(event, Stop):
                self._seconds[event.sample] = now - began if event.seconds is None else event.seconds
                if self.judges is not None:
                    sample = self.generation.samples[-1]
                    stated = as_decimals(sample.text, self.generation.form, keep=True)
                    self.judges.add(JudgeTask(event.sample, find_answer(stated).judged, sample.smiles))
            yield event
            self.go_on()

    def rows(self) -> tuple[dict[str, pa.Table], dict[str, float]]:
        """Tables, and what they add up to."""
        generation = self.generation
        wall_s = generation.template_s + time.perf_counter() - self._began
        scores = self._scores()
        masses = {number: scored.masses for number, scored in scores.items()}
        self.judged = [
            generation.read_again(sample, masses[sample.sample_id]) if sample.sample_id in masses else sample
            for sample in generation.in_order()
        ]
        verdicts = self._verdicts()
        stored = list[sample_rows.Row]()
        blocks = list[sample_rows.Row]()
        steps = list[sample_rows.Row]()
        thrown: list[tuple[Any, ...]] = []
        for sample in self.judged:
            self.go_on()
            stored.append(self._row(sample, verdicts.get(sample.sample_id)))
            blocks += sample_rows.block_rows(sample.sample_id, sample.blocks)
            self.on_judged(len(stored))
            if sample.sample_id < self.plan.keep_steps:
                steps += self._steps(sample, scores.get(sample.sample_id))
                thrown += self._thrown(sample)
        tables = sample_rows.tables_of(self.run_id, stored, blocks)
        if steps:
            tables[STEPS.name] = STEPS.rows([row | {"run_id": self.run_id} for row in steps])
        if thrown:
            tables[TRIES.name] = sample_rows.tries_table(self.run_id, thrown)
        counters, tally = generation.counters, constrained.follow(generation, self.judged)
        self.findings = constrained.findings_of(tally)
        unknown = UNKNOWN_OF_SERVERS if generation.plan.backend == "server" else ()
        return tables, {
            **sample_rows.sums_of(stored, blocks, generation.form),
            **constrained.sums_of(tally),
            "conformers_asked": len(stored) * generation.plan.conformers,
            **{name: getattr(counters, name) for name in COUNTERS if name not in unknown},
            "chars_raw": sum(len(sample.raw_text) for sample in self.judged),
            "template_s": generation.template_s,
            "wall_s": wall_s,
            "judging_s": generation.template_s + time.perf_counter() - self._began - wall_s,
        }

    def _verdicts(self) -> dict[int, MoleculeVerdict]:
        """By sample, once all are there; none where nothing is judged."""
        verdicts: dict[int, MoleculeVerdict] = {}
        while self.judges is not None and self.judges.under_way:
            self.go_on()
            verdicts |= {task.key: verdict for task, verdict in self.judges.verdicts(wait=True, most_s=WAIT_S)}
        return verdicts

    def _row(self, sample: Sample, verdict: MoleculeVerdict | None) -> sample_rows.Row:
        molecule, examples = self.generation.molecule_of(sample.sample_id), self.generation.plan.examples
        before = f"{examples}{prompt_of(molecule.smiles)}" if examples else ""
        more = {"heavy_atoms": molecule.heavy_atoms, "decode_s": self._seconds.get(sample.sample_id)}
        return sample_rows.written_row(sample, verdict, before, **more, **self._distances(molecule, sample))

    def _steps(self, sample: Sample, scored: Scored | None) -> Iterator[sample_rows.Row]:
        if diagnoses := sample.diagnoses if scored is None else scored.diagnoses:
            masses = {} if scored is None else scored.masses
            molecule = self.generation.molecule_of(sample.sample_id)
            aligned = self.generation.reader.aligned(molecule, sample.token_ids, sample.forced, masses)
            yield from sample_rows.step_rows(sample.sample_id, aligned.rows, diagnoses, sample.shapings)

    def _thrown(self, sample: Sample) -> Iterator[tuple[Any, ...]]:
        """Its tries that a guard threw away, with their texts."""
        decode = self.generation.loaded.tokenizer.decode
        for index, attempt in enumerate(() if sample.guarding is None else sample.guarding.thrown):
            yield sample.sample_id, index, attempt, decode([step.token_id for step in attempt.steps])

    def _distances(self, molecule: Molecule, sample: Sample) -> dict[str, Any]:
        """Columns of a sample: RMSD of its conformers to the nearest reference, and to one another."""
        if not self.plan.rmsd and sample.check.conformers == 1:
            return {}
        each = conformers_of_graph(sample.text, molecule.mol, self.generation.form)
        differences = difference_columns([mol for mol in each if mol is not None])
        if not self.plan.rmsd:
            return differences
        rmsds = [None if mol is None else self._rmsd_ang(molecule, mol) for mol in each]
        known = [ang for ang in rmsds if ang is not None]
        mean = sum(known) / len(known) if known else None
        return {"rmsd_ang": mean, "rmsd_each": rmsds if len(rmsds) > 1 else None, **differences}

    def _rmsd_ang(self, molecule: Molecule, mol: Chem.Mol) -> float | None:
        """To the nearest reference; None where there is none."""
        if molecule.smiles not in self._made:
            inputs = molecule.smiles, self.plan.rmsd, self.reference_s
            made = references_of(*inputs) if self.references is None else self.references.conformers(molecule.smiles)
            self._made[molecule.smiles] = None if isinstance(made, str) else made
        if (references := self._made[molecule.smiles]) is not None:
            with suppress(DriftscopeError):
                return float(least_rmsd(mol, references))
        return None

    def _scores(self) -> dict[int, Scored]:
        """By sample: diagnoses of those with kept steps, and of all where blocks were closed by force, what the
        model wanted there."""
        generation, loaded = self.generation, self.generation.loaded
        by_force = self.plan.closing and mode_of(generation.lp) == "position" and not generation.plan.diagnostics
        closing, scores = close_ids(loaded.tokenizer, loaded.device), dict[int, Scored]()
        for keeps in (True, False):
            samples = [sample for sample in generation.in_order() if (sample.sample_id < self.plan.keep_steps) is keeps]
            some = [sample for sample in samples if sample.token_ids and (by_force or (keeps and not sample.diagnoses))]
            scored = score(
                reader_of(loaded),
                generation.constraint,
                [generation.stored(sample.sample_id, sample.token_ids) for sample in some],
                loaded.tokenizer.vocab_size,
                candidates=generation.plan.candidates if keeps else None,
                close_ids=closing,
                sampling=None if generation.plan.branch else generation.plan.sampling,  # not all of it was drawn
                between=self.go_on,
            )
            scores |= zip([sample.sample_id for sample in some], scored, strict=True)
        return scores


def _where(loaded: LoadedModel, plan: Plan) -> tuple[str | None, int | None]:
    """The device that writes, and the threads that torch has there; None where tasks will say it."""
    if plan.backend == "server":
        return "server", None
    if loaded.device.type == "meta":
        return None, None
    name = str(loaded.device)
    if loaded.device.type == "cuda":
        import torch

        name += f" ({torch.cuda.get_device_name(loaded.device)})"
    return name, threads_of(loaded.device)


def _first_row(run_id: str, loaded: LoadedModel, molecules: int, listed: int, plan: RunPlan) -> dict[str, Any]:
    """The run's row before the first sample of so many molecules, which are ``listed`` with repeats."""
    options = plan.plan
    sampling = plan.plan.sampling
    entry = loaded.entry
    device, threads = _where(loaded, options)
    of_server = {"dtype": None, "attention": None, "kv_cache": None} if options.backend == "server" else {}
    return {
        "run_id": run_id,
        "created_at": datetime.now(UTC).isoformat(),
        "origin": "measured",
        "source": plan.source or None,
        "label": plan.label or None,
        "model_alias": entry.alias,
        "model_step": entry.step,
        "model_family": loaded.family,
        "weights": entry.sha256 or None,
        "tokenizer": loaded.tokenizer.name,
        "vocab_size": loaded.tokenizer.vocab_size,
        "lp": full_name(options.lp),
        "placeholder": options.placeholder or None,
        "descriptors": options.descriptors_of(entry.descriptors),
        "counted_by": RULES,
        "sampling": sampling_name(sampling),
        **asdict(sampling) | {"top_k": sampling.top_k or None},
        **{name: getattr(options, name) for name in ("backend", "seed", "batch_size", "equal_work")},
        "generations": options.generations if molecules == listed else None,
        "most_tokens": options.limit,
        "conformers_per_answer": options.conformers if options.conformers > 1 else None,
        "examples": count_examples(options.examples) or None,
        "branch_of": None if options.branch is None else options.branch.of,
        "branch_at": None if options.branch is None else options.branch.at,
        "guard": json.dumps(asdict(options.guard_settings)) if stored_lp(options.lp).is_guarded else None,
        "device": device,
        "threads": threads,
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "attention": loaded.attention,
        "kv_cache": "static rows of its own positions" if options.backend == "fast" else "dynamic",
        "molecules": molecules,
        "versions": versions(),
        "git_commit": git_commit(),
    } | of_server
