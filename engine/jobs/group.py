"""Groups of a run: their molecules are generated, checked and turned into the store's rows.

Blocks that a position LP closed by force are scored afterwards, from the ids, and so are the steps of samples that keep
them. These extra passes are not in the run's counters.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from engine.chem.enriched import as_decimals
from engine.chem.judges import JudgePool, JudgeTask
from engine.decode.body import Body
from engine.decode.closing import close_ids
from engine.decode.generation import Generation
from engine.decode.samples import Sample
from engine.decode.scoring import Scored, score
from engine.decode.steps import Counters, Diagnosis, Event, Step, StepObserver, Stop, Tap
from engine.errors import EnrichedError
from engine.jobs.plan import RunPlan
from engine.jobs.rmsd_references import RmsdReferences, given_references
from engine.models.devices import threads_of
from engine.models.loading import LoadedModel
from engine.processes import usable_cores
from engine.records import Molecule, MoleculeVerdict
from engine.store.groups import Group
from engine.store.sample_rows import StoredSample, peaks_of, step_rows, steps_table, sums_of, tables_of, tries_table
from engine.store.schema import SAMPLES, STEPS, TRIES
from engine.store.staging import Staging
from engine.text.blocks import CloseMass
from engine.text.check import answer_of
from engine.text.generated import mode_of

Item = TypeVar("Item")

REFERENCE_S = 20.0
"""Longest search for a molecule's reference conformers in a batch run."""
BESIDE = max(1, usable_cores() // 2)
"""Processes that judge while the model computes."""
COUNTED = "tokens forced_tokens forward_passes prefill_s forward_s constraint_s sampling_s decode_s".split()


class Judges(Protocol):
    """What takes answers and hands verdicts back, as a `JudgePool` does."""

    @property
    def under_way(self) -> int: ...

    def add(self, task: JudgeTask) -> None: ...

    def verdicts(self, *, wait: bool) -> list[tuple[JudgeTask, MoleculeVerdict]]: ...


class ScoringCancelledError(Exception):
    """The group was cancelled while its samples were scored."""


class GroupWriter:
    """Writes groups of one run, one after the other, with one model and under one rank."""

    def __init__(
        self,
        staging: Staging,
        loaded: LoadedModel,
        plan: RunPlan,
        rank: int = 0,
        *,
        judges: Judges | None = None,
    ) -> None:
        """``judges`` are those of the caller, who closes them; without, the plan says whether there are some."""
        self.staging, self.loaded, self.plan, self.rank = staging, loaded, plan, rank
        self.notes: list[str] = []
        self.tap: Tap | None = None  # sees what is written, not what is only checked
        self.watch: StepObserver | None = None
        self._generation: Generation | None = None  # has what all groups share
        settings = None if judges is not None else plan.judge_settings
        self._own_judges = None if settings is None else JudgePool(settings, workers=BESIDE)
        self._judges = judges or self._own_judges

    def close(self) -> None:
        """Ends the processes that judge."""
        if self._own_judges is not None:
            self._own_judges.close()

    def work(self, places: Sequence[int], molecules: Sequence[Molecule]) -> GroupWork:
        """Iterate over its events, then `add` it. ``places``: the molecules' places in the run."""
        generation = self._generate(places, molecules)
        generation.tap, generation.watch = self.tap, self.watch
        return GroupWork(generation, self.staging.id, self.plan, judges=self._judges, references=self._references)

    @functools.cached_property
    def _references(self) -> dict[str, Any] | None:
        return given_references(self.staging) if self.plan.rmsd_references else None

    def add(self, work: GroupWork, number: int) -> Group:
        tables, sums, peaks = work.rows()
        members = [sample.sample_id for sample in work.generation.in_order()]
        group = self.staging.add(tables, members, sums=sums, peaks=peaks, rank=self.rank, number=number)
        self._note(*work.generation.counters.notes)
        return group

    def note_device(self) -> None:
        threads = threads_of(self.loaded.device)
        self.staging.write_note(self.rank, devices=[device_name(self.loaded)], threads=[threads] if threads else [])

    def check(self, group: Group, places: Sequence[int], molecules: Sequence[Molecule]) -> None:
        """Generates some of a finished group's samples again, and notes in the run how many differ."""
        known = self._known_ids(group)
        again = self._generate(places, molecules).run()
        differ = sum(list(sample.token_ids) != known.get(sample.sample_id) for sample in again)
        check = {"at": datetime.now(UTC).isoformat(), "checked": len(again), "diverged": differ}
        self.staging.write_note(self.rank, resumed=[check])
        if differ:
            self._note(f"{differ} of {len(again)} finished samples differed when the run was resumed.")

    def _generate(self, places: Sequence[int], molecules: Sequence[Molecule]) -> Generation:
        if self._generation is None:
            self._generation = Generation(self.loaded, molecules, self.plan.plan, places)
        else:
            self._generation = self._generation.more(molecules, places)
        self._generation.tap = self._generation.watch = None
        return self._generation

    def _known_ids(self, group: Group) -> dict[int, list[int]]:
        with self.staging.open_part(group.parts[SAMPLES.name]) as file:
            rows = file.read(["sample_id", "token_ids"]).to_pylist()
        return {row["sample_id"]: row["token_ids"] for row in rows}

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
    seconds: dict[int, float] = field(default_factory=dict)  # by sample, from its first token to its last
    reference_s: float = REFERENCE_S
    references: Mapping[str, Any] | None = None  # molecules with conformers, in place of those by ETKDG
    cancelled: Callable[[], bool] = lambda: False  # asked while samples are scored
    on_judged: Callable[[int], None] = lambda done: None  # gets the number of scored samples
    was_cancelled: bool = False
    judged: list[Sample] = field(default_factory=list)  # by `rows`: the scored samples
    judges: Judges | None = None  # of the molecules, beside the model
    verdicts: dict[int, MoleculeVerdict] = field(default_factory=dict)  # by sample
    clock: Callable[[], float] = time.perf_counter
    began: float = field(default_factory=time.perf_counter)

    def events(self, cancelled: Callable[[], bool]) -> Iterator[Event]:
        begins: dict[int, float] = {}
        for event in self.generation.events(cancelled):
            now = self.clock()
            if isinstance(event, Step):
                begins.setdefault(event.sample, now)
            elif isinstance(event, Stop):
                self.seconds[event.sample] = now - begins.get(event.sample, now)
                self.was_cancelled |= event.reason == "cancelled"
                if self.judges is not None:
                    sample = self.generation.samples[-1]
                    stated = answer_of(self._stated(sample))
                    self.judges.add(JudgeTask(sample.sample_id, stated, sample.smiles))
                    self._take_verdicts(wait=False)
            yield event

    def rows(self) -> tuple[dict[str, pa.Table], dict[str, float], dict[str, float]]:
        """Tables, sums and peaks; ScoringCancelledError where it is cancelled meanwhile."""
        generation = self.generation
        wall_s = generation.template_s + self.clock() - self.began
        judged = list(self._judged(generation.in_order()))
        while self.judges is not None and self.judges.under_way:
            self._go_on()
            self._take_verdicts(wait=True)
        references = RmsdReferences(self.plan.rmsd, self.reference_s, self.references)
        stored: list[StoredSample] = []
        for sample, _, _ in self._until_cancelled(judged):
            molecule = generation.molecule_of(sample.sample_id)
            seconds, rmsd_ang = self.seconds.get(sample.sample_id), None
            if self.plan.rmsd and sample.check.same_graph:
                rmsd_ang = references.rmsd_ang(molecule, self._stated(sample))
            verdict = self.verdicts.get(sample.sample_id)
            stored.append(
                StoredSample.of(sample, molecule.heavy_atoms, decode_s=seconds, rmsd_ang=rmsd_ang, verdict=verdict)
            )
            self.on_judged(len(stored))
        self.judged = [sample for sample, _, _ in judged]
        tables = tables_of(self.run_id, stored)
        steps: list[dict[str, Any]] = []
        for sample, masses, diagnoses in judged:
            if diagnoses and self._keeps(sample):
                molecule = generation.molecule_of(sample.sample_id)
                aligned = generation.reader.aligned(molecule, sample.token_ids, sample.forced, masses)
                steps += step_rows(sample.sample_id, aligned.rows, diagnoses)
        if steps:
            tables[STEPS.name] = steps_table(self.run_id, steps)
        thrown = [
            (sample.sample_id, number, one, generation.loaded.tokenizer.decode([step.token_id for step in one.steps]))
            for sample in generation.in_order()
            if sample.guarding is not None and self._keeps(sample)
            for number, one in enumerate(sample.guarding.thrown)
        ]
        if thrown:
            tables[TRIES.name] = tries_table(self.run_id, thrown)
        counters = generation.counters
        sums = sums_of(stored) | {name: getattr(counters, name) for name in COUNTED}
        sums["template_s"] = generation.template_s
        sums["wall_s"] = wall_s
        sums["judging_s"] = generation.template_s + self.clock() - self.began - wall_s
        return tables, sums, {"peak_memory_mb": counters.peak_memory_mb, **peaks_of(stored)}

    def _take_verdicts(self, *, wait: bool) -> None:
        assert self.judges is not None
        self.verdicts |= {task.key: verdict for task, verdict in self.judges.verdicts(wait=wait)}

    def _keeps(self, sample: Sample) -> bool:
        return sample.sample_id < self.plan.keep_steps

    def _stated(self, sample: Sample) -> str:
        """Its text in decimals."""
        with suppress(EnrichedError):
            return as_decimals(sample.text, self.generation.form)
        return sample.text

    def _judged(
        self, samples: Sequence[Sample]
    ) -> Iterator[tuple[Sample, Mapping[int, CloseMass], Sequence[Diagnosis]]]:
        """Each sample, scored and checked again where its steps are kept or blocks were closed by force."""
        generation = self.generation
        by_force = self.plan.closing and mode_of(generation.lp) == "position" and not generation.plan.diagnostics
        scored = [
            sample
            for sample in samples
            if sample.token_ids and (by_force or (self._keeps(sample) and not sample.diagnoses))
        ]
        scores = dict(zip((sample.sample_id for sample in scored), self._scores(scored), strict=True))
        for sample in samples:
            score = scores.get(sample.sample_id)
            if score is None:
                yield sample, {}, sample.diagnoses
            else:
                yield generation.read_again(sample, score.masses), score.masses, score.diagnoses

    def _scores(self, samples: Sequence[Sample]) -> Iterator[Scored]:
        """Diagnoses of samples whose steps are kept, and for all the masses where blocks were closed."""
        generation = self.generation
        loaded, counters = generation.loaded, Counters()
        body, ids = Body(loaded.model, loaded.positions), close_ids(loaded.tokenizer, loaded.device)
        size = loaded.tokenizer.vocab_size
        scores: dict[int, Scored] = {}
        for keeps in (True, False):
            some = [sample for sample in samples if self._keeps(sample) is keeps]
            stored = [generation.stored(sample.sample_id, sample.token_ids) for sample in some]
            candidates = generation.plan.candidates if keeps else None
            scored = score(
                body,
                generation.constraint,
                stored,
                size,
                candidates=candidates,
                close_ids=ids,
                sampling=generation.plan.sampling,
                counters=counters,
                between=self._go_on,
            )
            scores.update(zip((sample.sample_id for sample in some), self._until_cancelled(scored), strict=True))
        return (scores[sample.sample_id] for sample in samples)

    def _until_cancelled(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            self._go_on()
            yield item

    def _go_on(self) -> None:
        if self.cancelled():
            raise ScoringCancelledError


def device_name(loaded: LoadedModel) -> str:
    if loaded.device.type != "cuda":
        return str(loaded.device)
    import torch

    return f"{loaded.device} ({torch.cuda.get_device_name(loaded.device)})"
