"""What a guard is worth: usable conformers, and what each costs, beside other ways to the same.

``python -m tools.bench.guarded`` asks every final embedded model for conformers of the same molecules, side by side in
one run: without an LP; under the exact LP; under the exact LP, whole answers asked again until one is usable (8 times
at most); under the guarded LP; and under the exact LP again, with as many answers as take the guard's forward passes,
or its time. A usable conformer is clean, with stereo and geometry right. COV and MAT are over the answers to each
molecule that decode, against ETKDGv3.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import decode
from engine.chem.molecule_sets import RUN_FILE
from engine.chem.rmsd import ensemble_metrics
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import WITH_STRAIN, judge_answer
from engine.decode.generation import Generation
from engine.decode.plan import Plan
from engine.decode.presets import Sampling, preset
from engine.decode.samples import Sample
from engine.errors import DriftscopeError
from engine.figures.statistics import Bootstrap
from engine.lp_records import GuardSettings
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.records import Molecule, MoleculeVerdict
from engine.text.check import answer_of
from tools.bench._decode_table import Table, figure
from tools.bench._machine import machine, pin

MOLECULES, ANSWERS, AGAIN = 40, 1, 8
REFERENCES, THRESHOLD_ANG, EMBED_S = 10, 0.75, 10.0
HEAD = (
    *("", "usable", "stereo right", "geometry right", "strain kcal/mol", "COV-R", "COV-P", "MAT-R Å", "tokens"),
    *("thrown away", "passes", "seconds", "seconds a usable one", "interval", "usable in 1,000 passes"),
)


@dataclass(slots=True)
class Side:
    """Answers to the molecules, ``slots`` by the molecule's place, and what they cost."""

    name: str
    slots: list[int]
    answers: list[tuple[Sample, MoleculeVerdict]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # by slot: its share of the passes, by tokens
    tokens: int = 0
    thrown: int = 0
    passes: int = 0

    @property
    def usable(self) -> list[bool]:
        return [verdict.is_usable(sample.check.clean) for sample, verdict in self.answers]


class Bench:
    """One model and its molecules."""

    def __init__(self, loaded: LoadedModel, molecules: Sequence[Molecule], answers: int, batch: int) -> None:
        self.loaded, self.molecules, self.each, self.batch = loaded, list(molecules), answers, batch
        self.references = [_references(molecule) for molecule in molecules]
        self.generate(Plan("exact", limit=8), list(range(min(2, len(self.molecules)))))  # what is only slow at first

    def generate(self, plan: Plan, slots: Sequence[int], numbers: Sequence[int] | None = None) -> Generation:
        molecules = [self.molecules[slot] for slot in slots]
        plan = replace(plan, batch_size=self.batch)
        generation = Generation(self.loaded, molecules, plan, range(len(slots)) if numbers is None else numbers)
        generation.run()
        return generation

    def plain(self, name: str, plan: Plan, each: int) -> Side:
        side = Side(name, [slot for slot in range(len(self.molecules)) for _ in range(each)])
        self._add(side, self.generate(plan, side.slots), list(range(len(side.slots))))
        return side

    def again(self, plan: Plan) -> Side:
        """Whole answers, asked again until usable: the judge's time counts, as the guard's does."""
        side = Side(f"exact, again until usable, {AGAIN} times at most", self._slots())
        found: dict[int, tuple[Sample, MoleculeVerdict]] = {}
        side.seconds = [0.0] * len(side.slots)
        for attempt in range(AGAIN):
            left = [n for n in range(len(side.slots)) if n not in found or not _is_usable(*found[n])]
            if not left:
                break
            part = Side("", side.slots)
            part.seconds = [0.0] * len(side.slots)
            asked = self.generate(replace(plan, seed=plan.seed + attempt), [side.slots[n] for n in left], left)
            began = time.perf_counter()
            found |= dict(zip(left, map(self._judged, asked.in_order(), [side.slots[n] for n in left]), strict=True))
            _count(side, asked, left, time.perf_counter() - began)
        side.answers = [found[number] for number in range(len(side.slots))]
        return side

    def _slots(self) -> list[int]:
        return [slot for slot in range(len(self.molecules)) for _ in range(self.each)]

    def _add(self, side: Side, asked: Generation, numbers: list[int]) -> None:
        side.seconds = [0.0] * len(side.slots)
        side.answers = list(map(self._judged, asked.in_order(), side.slots))
        _count(side, asked, numbers, 0.0)

    def _judged(self, sample: Sample, slot: int) -> tuple[Sample, MoleculeVerdict]:
        return sample, judge_answer(answer_of(sample.text), self.molecules[slot].mol)

    def row(self, side: Side) -> tuple[str, ...]:
        verdicts = [verdict for _, verdict in side.answers]
        cost = Bootstrap(len(self.molecules)).ratio(self._summed(side, side.seconds), self._summed(side, side.usable))
        strains = [
            judged.strain_kcal
            for (sample, verdict), slot in zip(side.answers, side.slots, strict=True)
            if verdict.geometry_right
            and (judged := judge_answer(answer_of(sample.text), self.molecules[slot].mol, WITH_STRAIN)).strain_kcal
        ]
        covered = list(self._covered(side))
        return (
            side.name,
            _percent(side.usable),
            _percent([verdict.stereo_right for verdict in verdicts if verdict.stereo_right is not None]),
            _percent([verdict.geometry_right is True for verdict in verdicts]),
            figure(statistics.median(strains)) if strains else "",
            _percent([cov_r for cov_r, _, _ in covered]),
            _percent([cov_p for _, cov_p, _ in covered]),
            figure(statistics.fmean(known))
            if (known := [mat_r for _, _, mat_r in covered if mat_r is not None])
            else "",
            f"{side.tokens:,}",
            f"{side.thrown:,}",
            f"{side.passes:,}",
            figure(sum(side.seconds)),
            "" if cost is None else figure(cost.value),
            "" if cost is None or cost.ends is None else " .. ".join(map(figure, cost.ends)),
            figure(1_000 * sum(side.usable) / side.passes),
        )

    def _summed(self, side: Side, values: Sequence[float]) -> NDArray[np.float64]:
        """By molecule."""
        return np.bincount(side.slots, weights=values, minlength=len(self.molecules)).astype(np.float64)

    def _covered(self, side: Side) -> Iterator[tuple[float, float, float | None]]:
        """COV-R, COV-P and MAT-R of each molecule that can be embedded; without an answer 0, 0 and none."""
        texts: dict[int, list[str]] = {}
        for (sample, _), slot in zip(side.answers, side.slots, strict=True):
            if sample.check.same_graph and sample.check.clean:
                texts.setdefault(slot, []).append(sample.text)
        for slot, references in enumerate(self.references):
            if references is None:
                continue
            mols = [decode(text).mol for text in texts.get(slot, ())]
            metrics = ensemble_metrics(mols, references, THRESHOLD_ANG) if mols else None
            yield (0.0, 0.0, None) if metrics is None else (metrics.cov_r, metrics.cov_p, metrics.mat_r_ang)

    def table(self, sampling: Sampling, guard: GuardSettings) -> Table:
        exact = Plan("exact", sampling=sampling)
        rows = [
            self.plain("none", replace(exact, lp="none"), self.each),
            self.plain("exact", exact, self.each),
            self.again(exact),
        ]
        rows.append(self.plain("guarded", replace(exact, lp="guarded", guard=guard), self.each))
        by_passes = max(1, round(self.each * rows[3].passes / rows[1].passes))
        by_time = max(1, round(self.each * sum(rows[3].seconds) / sum(rows[1].seconds)))
        rows.append(self.plain(f"exact, as many passes ({by_passes} answers)", exact, by_passes))
        rows.append(self.plain(f"exact, as long ({by_time} answers)", exact, by_time))
        title = (
            f"{self.loaded.entry.name}: {len(self.molecules)} molecules, {self.each} answers each, batches of "
            f"{self.batch}; {guard.retries} retries, {guard.back} times back, thrown away {guard.most_thrown:g} a block"
        )
        return Table(title, HEAD, tuple(map(self.row, rows)))


def _count(side: Side, asked: Generation, numbers: Sequence[int], judging_s: float) -> None:
    """The batch's time goes to its answers by what they wrote, kept or not."""
    counters = asked.counters
    wrote = [s.tokens + (0 if s.guarding is None else s.guarding.thrown_tokens) for s in asked.in_order()]
    spent = counters.decode_s + asked.template_s + judging_s
    for number, tokens in zip(numbers, wrote, strict=True):
        side.seconds[number] += spent * tokens / sum(wrote)
    side.tokens += counters.tokens
    side.thrown += counters.thrown_tokens
    side.passes += counters.forward_passes


def _is_usable(sample: Sample, verdict: MoleculeVerdict) -> bool:
    return verdict.is_usable(sample.check.clean)


def _references(molecule: Molecule) -> Chem.Mol | None:
    try:
        return reference_conformers(molecule, REFERENCES, max_seconds=EMBED_S)
    except DriftscopeError:
        return None


def _percent(shares: Sequence[float | bool]) -> str:
    return f"{100 * statistics.fmean(shares):.1f} %" if shares else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="ALIAS:STEP (default: each final embedded model)")
    parser.add_argument("--molecules", type=int, default=MOLECULES)
    parser.add_argument("--answers", type=int, default=ANSWERS)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--sampling", default="qwen3", help="a preset, of all lanes")
    parser.add_argument("--retries", type=int, default=GuardSettings().retries)
    parser.add_argument("--back", type=int, default=GuardSettings().back)
    parser.add_argument("--most-thrown", type=float, default=GuardSettings().most_thrown)
    args = parser.parse_args()
    pin(2)
    print(machine(("torch", "transformers", "rdkit")), end="\n\n")
    registry = load_registry()
    names = args.model or [entry.name for entry in registry.entries if entry.shipped and entry.step == "final"]
    smiles = RUN_FILE.read_text(encoding="utf-8").split()[: args.molecules]
    molecules = [parse_smiles(one) for one in smiles]
    guard = GuardSettings(args.retries, args.back, most_thrown=args.most_thrown)
    for name in names:
        sys.stderr.write(f"{name} ...\n")
        bench = Bench(load_model(registry.find(name), "cpu"), molecules, args.answers, args.batch)
        print(bench.table(preset(args.sampling), guard).markdown(), flush=True)


if __name__ == "__main__":
    main()
