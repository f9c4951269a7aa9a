"""A group of a run: molecules that are generated together, checked and turned into the store's rows.

Blocks that a position LP closed by force are scored afterwards, from the ids, and so are the steps of samples that keep
them. These extra passes are not in the run's counters. A batch run and a lane of the live page both write groups.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import as_decimals, decode
from engine.chem.judges import JudgePool, JudgeTask
from engine.chem.rmsd import least_rmsd
from engine.decode.body import Body
from engine.decode.diagnosis import close_ids
from engine.decode.generation import Generation
from engine.decode.samples import Sample
from engine.decode.scoring import Scored, score
from engine.decode.steps import Event, Step, Stop
from engine.errors import DriftscopeError, EnrichedError
from engine.jobs.plan import RunPlan
from engine.records import Molecule, MoleculeVerdict
from engine.store.references import ReferenceSet
from engine.store.sample_rows import StoredSample, step_rows, sums_of, tables_of, tries_table
from engine.store.schema import STEPS, TRIES
from engine.text.check import answer_of
from engine.text.generated import mode_of

REFERENCE_S = 20.0
"""Longest search for a molecule's reference conformers in a batch run."""
WAIT_S = 0.2
"""Longest wait for a verdict; then it is asked whether the group is cancelled."""
COUNTED = "tokens forced_tokens forward_passes prefill_s forward_s constraint_s sampling_s decode_s".split()


@dataclass(slots=True)
class GroupWork:
    """The generation of one group, and what is kept of it."""

    generation: Generation
    run_id: str
    plan: RunPlan
    judges: JudgePool | None = None  # of processes beside the model
    references: ReferenceSet | None = None  # in place of conformers by ETKDG
    reference_s: float = REFERENCE_S
    go_on: Callable[[], object] = lambda: None  # raises where the group is given up
    on_judged: Callable[[int], None] = lambda done: None  # gets the number of scored samples
    judged: list[Sample] = field(default_factory=list)  # by `rows`: the scored samples
    _seconds: dict[int, float] = field(default_factory=dict)  # by sample, from its first token to its last
    _verdicts: dict[int, MoleculeVerdict] = field(default_factory=dict)  # by sample
    _made: dict[str, Chem.Mol | None] = field(default_factory=dict)  # references, by SMILES
    _began: float = field(default_factory=time.perf_counter)

    def events(self) -> Iterator[Event]:
        """The decoding's."""
        begins: dict[int, float] = {}
        for event in self.generation.events():
            now = time.perf_counter()
            if isinstance(event, Step):
                begins.setdefault(event.sample, now)
            elif isinstance(event, Stop):
                self._seconds[event.sample] = now - begins.get(event.sample, now)
                if self.judges is not None:
                    sample = self.generation.samples[-1]
                    self.judges.add(JudgeTask(event.sample, answer_of(self._stated(sample)), sample.smiles))
                    self._take_verdicts(self.judges, wait=False)
            yield event
            self.go_on()

    def rows(self) -> tuple[dict[str, pa.Table], dict[str, float]]:
        """Tables, and what they add up to; CancelledError where it is cancelled meanwhile."""
        generation = self.generation
        tokenizer = generation.loaded.tokenizer
        wall_s = generation.template_s + time.perf_counter() - self._began
        scores = self._scores()
        masses = {number: scored.masses for number, scored in scores.items()}
        self.judged = [
            generation.read_again(sample, masses[sample.sample_id]) if sample.sample_id in masses else sample
            for sample in generation.in_order()
        ]
        while self.judges is not None and self.judges.under_way:
            self.go_on()
            self._take_verdicts(self.judges, wait=True)
        stored: list[StoredSample] = []
        steps: list[dict[str, Any]] = []
        thrown: list[tuple[Any, ...]] = []
        for sample in self.judged:
            self.go_on()
            number, molecule = sample.sample_id, generation.molecule_of(sample.sample_id)
            told = {"decode_s": self._seconds.get(number), "verdict": self._verdicts.get(number)}
            if self.plan.rmsd and sample.check.same_graph:
                told["rmsd_ang"] = self._rmsd_ang(molecule, sample)
            stored.append(StoredSample.of(sample, molecule.heavy_atoms, **told))
            self.on_judged(len(stored))
            if number >= self.plan.keep_steps:
                continue
            if diagnoses := scores[number].diagnoses if number in scores else sample.diagnoses:
                aligned = generation.reader.aligned(molecule, sample.token_ids, sample.forced, masses.get(number, {}))
                steps += step_rows(number, aligned.rows, diagnoses)
            for place, one in enumerate(() if sample.guarding is None else sample.guarding.thrown):
                thrown.append((number, place, one, tokenizer.decode([step.token_id for step in one.steps])))
        tables = tables_of(self.run_id, stored)
        if steps:
            tables[STEPS.name] = STEPS.rows([row | {"run_id": self.run_id} for row in steps])
        if thrown:
            tables[TRIES.name] = tries_table(self.run_id, thrown)
        counters = generation.counters
        sums = sums_of(stored) | {name: getattr(counters, name) for name in COUNTED}
        sums |= {"template_s": generation.template_s, "wall_s": wall_s, "peak_memory_mb": counters.peak_memory_mb}
        sums["judging_s"] = generation.template_s + time.perf_counter() - self._began - wall_s
        return tables, sums

    def _take_verdicts(self, judges: JudgePool, *, wait: bool) -> None:
        self._verdicts |= {task.key: verdict for task, verdict in judges.verdicts(wait=wait, most_s=WAIT_S)}

    def _rmsd_ang(self, molecule: Molecule, sample: Sample) -> float | None:
        """To the nearest reference; None where there is none, or a block of the text has no coordinates."""
        if molecule.smiles not in self._made:
            self._made[molecule.smiles] = self._reference(molecule)
        if (references := self._made[molecule.smiles]) is not None:
            with suppress(DriftscopeError):
                return float(least_rmsd(decode(self._stated(sample)).mol, references))
        return None

    def _reference(self, molecule: Molecule) -> Chem.Mol | None:
        if self.references is not None:
            return self.references.conformers(molecule.smiles)
        with suppress(DriftscopeError):  # it does not embed
            return reference_conformers(molecule, self.plan.rmsd, max_seconds=self.reference_s)
        return None

    def _stated(self, sample: Sample) -> str:
        """Its text in decimals."""
        with suppress(EnrichedError):
            return as_decimals(sample.text, self.generation.form)
        return sample.text

    def _scores(self) -> dict[int, Scored]:
        """By sample: diagnoses of those whose steps are kept, and of all where blocks were closed by force, what the
        model wanted there."""
        generation, loaded = self.generation, self.generation.loaded
        by_force = self.plan.closing and mode_of(generation.lp) == "position" and not generation.plan.diagnostics
        closing, scores = close_ids(loaded.tokenizer, loaded.device), dict[int, Scored]()
        for keeps in (True, False):
            of_steps = [one for one in generation.in_order() if (one.sample_id < self.plan.keep_steps) is keeps]
            some = [one for one in of_steps if one.token_ids and (by_force or (keeps and not one.diagnoses))]
            scored = score(
                Body(loaded.model, loaded.positions),
                generation.constraint,
                [generation.stored(one.sample_id, one.token_ids) for one in some],
                loaded.tokenizer.vocab_size,
                candidates=generation.plan.candidates if keeps else None,
                close_ids=closing,
                sampling=generation.plan.sampling,
                between=self.go_on,
            )
            scores |= zip([one.sample_id for one in some], scored, strict=True)
        return scores
