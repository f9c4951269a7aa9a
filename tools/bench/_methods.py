"""The ways to an answer that ``right_molecules`` compares, one answer for each molecule, and what each of them took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import decode
from engine.chem.heavy import heavy_of
from engine.chem.rmsd import rmsd_matrix
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import judge_answer
from engine.decode.generation import Generation
from engine.decode.plan import Plan
from engine.decode.samples import Sample
from engine.errors import DriftscopeError
from engine.models.loading import LoadedModel
from engine.text.check import answer_of
from tools.bench._measure import note
from tools.bench._verdicts import Verdict, embedded_near, judge, minimised

LPS, REBUILT = ("exact", "guarded", "shaped"), "exact, then distance geometry"
MOST_TRIES, REFERENCES, EMBED_S = 8, 10, 10.0
COVERAGE = ("COV-R", "COV-P", "MAT-R", "MAT-P")
Times = list[list[float]]  # wall and CPU seconds, by round


@dataclass(slots=True)
class Method:
    """Its answers, one for each molecule, and what they took."""

    name: str
    conformers: list[Chem.Mol | None]
    tokens: int = 0
    thrown: int = 0  # by a guard, and of answers that were asked again
    passes: int = 0
    seconds: float = 0.0
    log_weight: list[float | None] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, samples: Sequence[Sample]) -> Method:
        guards = [sample.guarding for sample in samples]
        weights = [None if guard is None else guard.figures.get("log_weight") for guard in guards]
        tokens = sum(sample.tokens for sample in samples)
        return cls(name, [conformer_of(sample) for sample in samples], tokens, log_weight=weights)

    def add(self, generation: Generation, more_s: float = 0.0) -> None:
        """What a call took. Whatever it wrote and the method has not is thrown away."""
        counters = generation.counters
        self.thrown += counters.tokens + counters.thrown_tokens
        self.passes += counters.forward_passes
        self.seconds += seconds_of(generation) + more_s

    def values(self, name: str) -> np.ndarray:
        """A figure of each verdict, NaN where it has none."""
        return np.array([getattr(verdict, name) for verdict in self.verdicts], dtype=float)

    def covered(self, name: str) -> np.ndarray:
        none = 0.0 if name.startswith("COV") else np.nan
        rows = [verdict.coverage for verdict in self.verdicts]
        return np.array([none if row is None else row[COVERAGE.index(name)] for row in rows])


class Bench:
    """One model and its molecules."""

    def __init__(self, loaded: LoadedModel, smiles: Sequence[str], batch: int, settings: str = "mol") -> None:
        """``settings``: of PoseBusters."""
        self.loaded, self.batch, self.settings = loaded, batch, settings
        self.molecules = [parse_smiles(text) for text in smiles]
        self.generate("exact", [0])  # what is slow at first alone

    def generate(self, lp: str, numbers: Sequence[int], **plan: Any) -> Generation:
        molecules = [self.molecules[number] for number in numbers]
        generation = Generation(self.loaded, molecules, Plan(lp, batch_size=self.batch, **plan), numbers)
        generation.run()
        return generation

    def under(self, lp: str) -> Method:
        note(f"{self.loaded.entry.name}: {lp}")
        generation = self.generate(lp, range(len(self.molecules)))
        method = Method.of(lp, generation.in_order())
        method.add(generation)
        method.thrown -= method.tokens
        return method

    def again(self) -> Method:
        """Whole answers under ``exact``, asked again until one is usable."""
        note(f"{self.loaded.entry.name}: exact, again until usable")
        spent, kept, left = Method("", []), dict[int, Sample](), list(range(len(self.molecules)))
        for seed in range(MOST_TRIES):
            generation = self.generate("exact", left, seed=seed)
            kept |= dict(zip(left, generation.in_order(), strict=True))
            began = time.perf_counter()
            judged = ((n, judge_answer(answer_of(kept[n].text), self.molecules[n].mol)) for n in left)
            left = [number for number, verdict in judged if not verdict.is_usable(kept[number].check.clean)]
            spent.add(generation, time.perf_counter() - began)
            if not left:
                break
        name = f"exact again until usable, {MOST_TRIES} times at most"
        method = Method.of(name, [kept[number] for number in range(len(self.molecules))])
        method.thrown, method.passes, method.seconds = spent.thrown - method.tokens, spent.passes, spent.seconds
        return method

    def repaired(self, name: str, repair: Any, written: Method) -> Method:
        began = time.perf_counter()
        pairs = zip(written.conformers, self.molecules, strict=True)
        conformers = [mol and (repair(mol, molecule.mol) or mol) for mol, molecule in pairs]
        seconds = written.seconds + time.perf_counter() - began
        return Method(name, conformers, written.tokens, written.thrown, written.passes, seconds)

    def embedded(self, count: int, seed: int) -> list[Chem.Mol | None]:
        """By ETKDGv3; None of a molecule that cannot be embedded."""
        conformers: list[Chem.Mol | None] = []
        for molecule in self.molecules:
            try:
                conformers.append(reference_conformers(molecule, count, seed=seed, max_seconds=EMBED_S))
            except DriftscopeError:
                conformers.append(None)
        return conformers

    def methods(self) -> list[Method]:
        exact = self.under("exact")
        methods = [self.under("none"), exact, self.again(), self.under("guarded"), self.under("shaped")]
        methods.append(self.repaired("exact, then MMFF94s", minimised, exact))
        methods.append(self.repaired(REBUILT, embedded_near, exact))
        began = time.perf_counter()
        baseline = Method("ETKDGv3 alone", self.embedded(1, seed=1))
        baseline.seconds = time.perf_counter() - began
        methods.append(baseline)
        references = self.embedded(REFERENCES, seed=0)
        for method in methods:
            note(f"judging: {method.name}")
            for mol, molecule, ensemble in zip(method.conformers, self.molecules, references, strict=True):
                rmsd_ang = None if mol is None or ensemble is None else rmsd_matrix(mol, ensemble)[0]
                method.verdicts.append(judge(mol, molecule.mol, rmsd_ang, self.settings))
        return methods

    def timings(self, repeats: int) -> dict[str, Times]:
        """Of all molecules under each LP, by round: in turn, a batch of molecules at a time."""
        times = {lp: np.zeros((repeats, 2)) for lp in LPS}
        every = range(len(self.molecules))
        for repeat in range(repeats):
            for start in every[:: self.batch]:
                for lp in LPS if repeat % 2 == 0 else LPS[::-1]:
                    began = time.process_time()
                    seconds = seconds_of(self.generate(lp, every[start : start + self.batch]))
                    times[lp][repeat] += seconds, time.process_time() - began
            note(f"timing, round {repeat + 1} of {repeats}")
        return {lp: rounds.tolist() for lp, rounds in times.items()}


def conformer_of(sample: Sample) -> Chem.Mol | None:
    """Without hydrogens; None where the text is damaged or of another molecule."""
    is_right = sample.check.clean and sample.check.same_graph
    return heavy_of(decode(answer_of(sample.text)).mol)[0] if is_right else None


def seconds_of(generation: Generation) -> float:
    return generation.template_s + generation.counters.decode_s
