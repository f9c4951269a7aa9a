"""COV and MAT of a run's conformers against reference ensembles, computed on demand and kept for the process.

The ensembles are those that a run's RMSD is taken to: RDKit's ETKDGv3 conformers, of the same seed. COV-R is the share
of a molecule's references with a generated conformer less than a threshold away, COV-P the share of generated
conformers with such a reference; MAT-R and MAT-P are the mean least RMSD of either side (``figures.coverage_metrics``).
A run's figure is the mean over its molecules. A molecule of which no answer can be read counts as 0 in both COV and is
in no MAT; one without a reference ensemble is left out. Both are counted. ``evaluation`` has a whole run's figures, and
against references of your own.

What this module does not know: how near the references are to what a molecule does in nature, and whether few answers
could cover them at all: one answer per molecule seldom reaches ten references, so COV-R belongs beside the number of
answers. Published figures mostly rest on other references, and on two answers for each of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rdkit import Chem

from engine.chem.rmsd import ensemble_metrics
from engine.comparing.paired import Compared, compare_sums
from engine.comparing.reading import samples_of
from engine.comparing.rmsd_matrices import conformers_of, etkdg_references
from engine.errors import DriftscopeError
from engine.figures.coverage_metrics import DRUG_LIKE_ANG, mean_known
from engine.figures.statistics import Array, paired_means, sums_by_molecule
from engine.inspection.memo import Memo, computed_once
from engine.store.entries import Entry
from engine.store.generations import conformer_texts
from engine.store.store import Store

NAMES = ("cov_r", "cov_p", "mat_r", "mat_p")
MOST_ANSWERS = 64
"""Answers of a molecule that are looked at, the first ones."""
REFERENCE_S = 10.0
"""Longest search for a molecule's references, while somebody waits."""
MOST_KEPT, MOST_ENSEMBLES = 64, 2_048

_TEXTS = """
SELECT sample_id, smiles, text FROM samples
WHERE run_id = $run AND list_contains($molecules, smiles) AND (text IS NOT NULL OR parsed) AND same_graph IS NOT FALSE
QUALIFY $most IS NULL OR row_number() OVER (PARTITION BY smiles ORDER BY sample_id) <= $most
ORDER BY sample_id
"""


@dataclass(frozen=True, slots=True)
class CoverageRequest:
    """What coverage is told against."""

    threshold_ang: float = DRUG_LIKE_ANG
    references: int = 10
    most_molecules: int = 64

    def __post_init__(self) -> None:
        if not (self.threshold_ang > 0 and self.references > 0 and self.most_molecules > 0):
            raise ValueError(f"a threshold, references and molecules above 0 are needed, got {self}")


@dataclass(frozen=True, slots=True)
class MoleculeCoverage:
    """``mat_r`` and ``mat_p`` are None where no answer can be read; both COV are 0 then."""

    smiles: str
    answers: int  # that the strict reader takes for this molecule
    cov_r: float
    cov_p: float
    mat_r: float | None  # angstrom
    mat_p: float | None
    is_complete: bool  # every symmetry was tried; else distances are upper bounds


@dataclass(frozen=True, slots=True)
class Coverage:
    """Means over molecules; None where there is none to tell it."""

    run_id: str
    asked: CoverageRequest
    molecules: int  # of the run
    answers: int  # that the strict reader takes, of the molecules judged
    without_references: int  # molecules left out
    judged: tuple[MoleculeCoverage, ...] = field(repr=False)

    @property
    def without_answers(self) -> int:
        """Molecules that count as 0 in COV, and are in no MAT."""
        return sum(not molecule.answers for molecule in self.judged)

    @property
    def is_complete(self) -> bool:
        return all(molecule.is_complete for molecule in self.judged)

    def figure(self, name: str) -> float | None:
        """One of ``NAMES``."""
        value = mean_known(np.array([getattr(molecule, name) for molecule in self.judged], dtype=np.float64))
        return None if np.isnan(value) else value


_kept: Memo[Coverage] = Memo(MOST_KEPT)


def known_coverage(entry: Entry, asked: CoverageRequest) -> Coverage | None:
    """What was computed of this run before."""
    return _kept.get((entry.key, asked))


def coverage_of(
    store: Store,
    entry: Entry,
    asked: CoverageRequest,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    told: Callable[[int, int], object] = lambda done, total: None,
) -> Coverage | None:
    """None where it was cancelled. ``told`` hears how many molecules are done; one takes a tenth of a second or so."""
    if (known := known_coverage(entry, asked)) is not None:
        return known
    molecules = molecules_of(store, entry)
    chosen = molecules[: asked.most_molecules]
    texts = texts_of(store, entry, chosen, MOST_ANSWERS)
    judged: list[MoleculeCoverage | None] = []
    for smiles in chosen:
        if cancelled():
            return None
        told(len(judged), len(chosen))
        judged.append(_judged(smiles, texts.get(smiles, ()), asked))
    kept = tuple(molecule for molecule in judged if molecule is not None)
    answers = sum(molecule.answers for molecule in kept)
    coverage = Coverage(entry.id, asked, len(molecules), answers, len(judged) - len(kept), kept)
    return _kept.of((entry.key, asked), lambda: coverage)


def molecules_of(store: Store, entry: Entry) -> list[str]:
    """A run's SMILES, in an order that knows no run: of runs that share molecules, the same ones come first."""
    found: list[str] = samples_of(store, entry).smiles.unique().to_pylist()
    return sorted(found, key=lambda smiles: hashlib.sha256(smiles.encode("utf-8", "replace")).digest())


@computed_once(MOST_KEPT)
def compare_coverage(control: Coverage, test: Coverage) -> tuple[Compared, ...]:
    """The four figures over the molecules that both have, with what may be noise; in the order of ``NAMES``."""
    sides = [{molecule.smiles: molecule for molecule in run.judged} for run in (control, test)]
    shared = [smiles for smiles in sides[0] if smiles in sides[1]]
    figures = [[[getattr(side[smiles], name) for name in NAMES] for smiles in shared] for side in sides]
    values: Array = np.array(figures, dtype=np.float64).reshape(2, len(shared), len(NAMES))  # NaN where not known
    values[:, ~np.isfinite(values).all(axis=0)] = np.nan
    one, other = (sums_by_molecule(side, np.ones_like(side), np.arange(len(shared)), len(shared)) for side in values)
    drawn = paired_means(one, other) if shared else (np.empty((0, len(NAMES))),) * 2
    return compare_sums(NAMES, one, other, drawn, "molecule")


def _judged(smiles: str, texts: Iterable[str], asked: CoverageRequest) -> MoleculeCoverage | None:
    """None for a molecule without references."""
    references = _references(smiles, asked.references)
    if references is None:
        return None
    conformers = conformers_of(texts, references)
    try:
        metrics = ensemble_metrics(conformers, references, asked.threshold_ang) if conformers else None
    except DriftscopeError:  # RDKit cannot lay it on itself
        metrics = None
    if metrics is None:
        return MoleculeCoverage(smiles, 0, 0.0, 0.0, None, None, is_complete=True)
    return MoleculeCoverage(
        smiles,
        metrics.generated,
        metrics.cov_r,
        metrics.cov_p,
        metrics.mat_r_ang,
        metrics.mat_p_ang,
        metrics.complete,
    )


@computed_once(MOST_ENSEMBLES)
def _references(smiles: str, count: int) -> Chem.Mol | None:
    return etkdg_references(smiles, count, REFERENCE_S)


def texts_of(store: Store, entry: Entry, molecules: Sequence[str], most: int | None = None) -> dict[str, list[str]]:
    """By molecule, the first ``most`` answers that may be of it."""
    parameters: dict[str, Any] = {"run": entry.id, "molecules": list(molecules), "most": most}
    texts: dict[str, list[str]] = {}
    rows = store.table(_TEXTS, parameters, of=[entry.id]).to_pylist()
    stated = conformer_texts(store, entry, [row["sample_id"] for row in rows])
    for row in rows:
        if text := stated.get(row["sample_id"]) or row["text"]:
            texts.setdefault(row["smiles"], []).append(text)
    return texts
