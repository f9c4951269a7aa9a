"""COV and MAT of a whole run against references, by the definitions of ``figures.coverage_metrics``, and of a baseline.

Every sample of the run counts, and every molecule that the references have. The baseline is what clustered RDKit
conformers reach, as many per molecule as the run has conformers of it, over the same molecules. RMSDs are computed in
processes and kept (``rmsd_matrices``).

What this module does not know: how good the references are. Those by ETKDG, taken where none are named, are no
measurement, and the baseline is of their own distribution.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from engine.comparing.file_jobs import FileJob, run_job, run_jobs
from engine.comparing.measures import has_samples
from engine.comparing.paired import samples_of
from engine.comparing.published import EvaluationSetting
from engine.comparing.rmsd_matrices import (
    BY_INDEX,
    Matrix,
    References,
    baseline_job,
    given_references,
    read_by_index,
    read_matrix,
    texts_job,
)
from engine.errors import RunError
from engine.figures.conventions import CONVENTIONS, ConventionFigures, MoleculeMatrix, figures_by
from engine.figures.coverage_metrics import (
    DRUG_LIKE_ANG,
    MatrixFigures,
    MissingRule,
    SetFigures,
    figures_of,
    over_molecules,
)
from engine.processes import usable_cores
from engine.store.entries import Entry, without_samples
from engine.store.generations import conformer_texts
from engine.store.memo import computed_once
from engine.store.references import ReferenceSet
from engine.store.schema import CONFORMERS
from engine.store.store import Store
from engine.text.check import split_conformers

PER_MOLECULE = 10
"""References by ETKDG, where none are named."""
_READ_AT_ONCE = 64  # molecules
_TEXTS = """
SELECT sample_id, smiles, text FROM samples
WHERE run_id = $run AND list_contains($molecules, smiles) AND (text IS NOT NULL OR parsed)
  AND (same_graph IS NOT FALSE OR conformers > 1)  -- of several, each is asked on its own
ORDER BY sample_id
"""


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """``references`` None: so many by ETKDG."""

    references: ReferenceSet | None = None
    per_molecule: int = PER_MOLECULE
    threshold_ang: float = DRUG_LIKE_ANG
    rule: MissingRule = "skip"
    baseline: bool = True
    atom_indices: bool = False  # RMSDs with atoms matched by index too, where files of matrices lack them

    @property
    def key(self) -> tuple[object, ...]:
        """What is computed for it holds as long as this does."""
        references = () if self.references is None else self.references.entry.key
        return (*references, self.per_molecule, self.threshold_ang, self.rule, self.baseline, self.atom_indices)

    def of(self, smiles: str) -> References | None:
        if self.references is None:
            return {"etkdg": self.per_molecule}
        conformers = self.references.conformers(smiles)
        return None if conformers is None else given_references(conformers)


@dataclass(slots=True)
class Side:
    """The run, or its baseline: figures by molecule, None for one without a sample."""

    molecules: list[MatrixFigures | None] = field(default_factory=list)
    samples: int = 0
    incomplete: int = 0  # molecules of which not every symmetry was tried: their RMSDs are upper bounds


@dataclass(frozen=True, slots=True)
class Evaluation:
    """``figures`` and ``baseline`` are over the same molecules but for those that the baseline lacks."""

    entry: Entry
    request: EvaluationRequest
    asked: int  # samples of the run
    conformers: int  # of these, read or not: an answer may have several
    references: int  # conformers
    without_references: int  # molecules left out
    not_asked: int  # molecules of the set that the run was never asked for; a pickle lacks its own, which are missing
    smiles: tuple[str, ...]  # of ``run.molecules``
    run: Side
    figures: SetFigures
    clustered: Side | None
    baseline: SetFigures | None
    matrices: tuple[MoleculeMatrix, ...]  # of ``run``, and of molecules that are missing

    def conventions(self) -> list[ConventionFigures]:
        """The run by each named convention whose RMSDs were computed."""
        each = (figures_by(convention, self.matrices, self.request.threshold_ang) for convention in CONVENTIONS)
        return [figures for figures in each if figures is not None]

    def fallbacks(self) -> dict[str, int]:
        """How often an RMSD is not the least over all symmetries: molecules with more symmetries than are tried, whose
        RMSDs are upper bounds; pairs without an RMSD; of those, what a convention takes by atom indices instead."""
        by_index = [figures.by_index for figures in self.conventions()]
        return {
            "symmetry_budget": self.run.incomplete,
            "without_rmsd": sum(int(np.isnan(matrix.rmsd_ang).sum()) for matrix in self.matrices),
            "atom_indices": max(by_index, default=0),
        }

    def setting(self) -> EvaluationSetting:
        """What a published figure must agree with."""
        asked = [m.rmsd_ang.shape[1] + m.failed for m in self.matrices]
        shares = [count / len(m.rmsd_ang) for count, m in zip(asked, self.matrices, strict=True) if m.smiles]
        references = self.request.references
        return EvaluationSetting(
            references="" if references is None else references.name,
            samples_per_reference=(min(shares), max(shares)),
            threshold_ang=self.request.threshold_ang,
            not_asked=self.not_asked,
            missing=sum(not matrix.smiles for matrix in self.matrices),
            asked=sum(asked),
        )


def _baseline_of(clustered: Side, run: Side, request: EvaluationRequest) -> SetFigures:
    """Over the molecules that the run's figures are over."""
    pairs = zip(run.molecules, clustered.molecules, strict=True)
    others = [other for of_run, other in pairs if of_run is not None or request.rule == "zero"]
    return over_molecules(others, request.rule)


def evaluate_run(
    store: Store,
    run_id: str,
    request: EvaluationRequest | None = None,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, molecules: None,
) -> Evaluation:
    """A stopped call resumes where it was: matrices that are there are not made again."""
    request = request or EvaluationRequest()
    entry = store.entry(run_id)
    smiles = samples_of(store, entry).smiles.to_pylist() if has_samples(entry) else []  # without damaged ones
    if not smiles:
        raise without_samples(entry, "evaluate")
    molecules = molecules_of({*smiles})
    sides = [Side(), Side()] if request.baseline else [Side()]
    without: list[str] = []
    kept: list[int] = []  # of those that have references and conformers
    of_run: list[tuple[Matrix, Matrix | None]] = []
    references = done = 0
    with closing(run_jobs(jobs_of(store, entry, request, without), workers or usable_cores())) as jobs:
        for finished in zip(*[jobs] * len(sides), strict=True):  # of one molecule
            matrices = list(map(read_matrix, finished))
            if len(matrices[0]):
                kept.append(done)
                references += len(matrices[0])
                of_run.append((matrices[0], read_by_index(finished[0])))
                for side, matrix, job in zip(sides, matrices, finished, strict=True):
                    side.molecules.append(figures_of(matrix, request.threshold_ang))
                    side.samples += matrix.shape[1]
                    side.incomplete += not job.meta["complete"]
            done += 1
            progress(done + len(without), len(molecules))
    run = sides[0]
    if not run.molecules:
        raise RunError(
            f"the references have none of the {len(molecules):,} molecules of {entry.id}", "Name references of these"
        )
    clustered = sides[1] if request.baseline else None
    judged = len(run.molecules)
    missing, not_asked = _without_samples(entry, request.references, judged)
    each = _asked_of(store, entry)
    names = tuple(np.array([s for s in molecules if s not in set(without)], dtype=object)[kept])
    return Evaluation(
        entry=entry,
        request=request,
        asked=len(smiles),
        conformers=sum(each.values()),
        references=references,
        without_references=len(molecules) - judged,
        not_asked=not_asked,
        smiles=names,
        run=run,
        figures=over_molecules([*run.molecules, *[None] * missing], request.rule),
        clustered=clustered,
        baseline=None if clustered is None else _baseline_of(clustered, run, request),
        matrices=(*_named(names, of_run, each), *[MoleculeMatrix("", np.empty((1, 0)))] * missing),
    )


def _without_samples(entry: Entry, references: ReferenceSet | None, judged: int) -> tuple[int, int]:
    """Molecules of the set of which nothing was generated, and that were never asked for. A pickle has no place for
    either: there they count as the former."""
    rest = 0 if references is None else references.molecule_count - judged
    return (rest, 0) if CONFORMERS.name in entry.sheet["tables"] else (0, rest)


def _named(
    names: Iterable[str], of_run: Iterable[tuple[Matrix, Matrix | None]], each: Mapping[str, int]
) -> Iterator[MoleculeMatrix]:
    """``each``: how many samples of a molecule were asked for."""
    for name, (rmsd, by_index) in zip(names, of_run, strict=True):
        yield MoleculeMatrix(name, rmsd, max(each[name] - rmsd.shape[1], 0), by_index)


def is_computed(store: Store, entry: Entry, request: EvaluationRequest) -> bool:
    """Whether all matrices are there, so that ``evaluate_run`` only reads."""
    return all(job.path.exists() for job in jobs_of(store, entry, request, []))


@computed_once(4_096)
def computed_cov_r(store: Store, entry: Entry, request: EvaluationRequest) -> float | None:
    """Mean COV-R of a run whose matrices are there, else LookupError; None where no molecule has references and a
    conformer."""
    jobs = list(jobs_of(store, entry, replace(request, baseline=False), []))
    if not all(job.path.exists() for job in jobs):
        raise LookupError(f"{entry.id} is not evaluated")
    each = (figures_of(read_matrix(run_job(job)), request.threshold_ang) for job in jobs)
    cov_r = [float(figures.figures[0]) for figures in each if figures is not None]
    return fmean(cov_r) if cov_r else None


def jobs_of(store: Store, entry: Entry, request: EvaluationRequest, without: list[str]) -> Iterator[FileJob]:
    """The run's matrix of each molecule, and behind it the baseline's; molecules without references go ``without``."""
    each = _asked_of(store, entry)
    molecules = molecules_of(each)
    for start in range(0, len(molecules), _READ_AT_ONCE):
        chunk = molecules[start : start + _READ_AT_ONCE]
        texts = texts_of(store, entry, chunk)
        for smiles in chunk:
            references = request.of(smiles)
            if references is None:
                without.append(smiles)
                continue
            needs = (BY_INDEX,) if request.atom_indices else ()
            yield replace(texts_job(smiles, references, texts.get(smiles, ())), needs=needs)
            if request.baseline:
                yield baseline_job(smiles, references, each[smiles])


def _asked_of(store: Store, entry: Entry) -> dict[str, int]:
    """By molecule how many conformers its answers have, read or not; one each in a run that does not say."""
    sql = """SELECT smiles, sum(greatest(coalesce(conformers, 1), 1))::INT AS conformers FROM samples
        WHERE run_id = $run GROUP BY smiles"""
    rows = store.table(sql, {"run": entry.id}, of=[entry.id]).to_pylist()
    return {row["smiles"]: row["conformers"] for row in rows}


def molecules_of(smiles: Iterable[str]) -> list[str]:
    """In an order that knows no run: of runs that share molecules, the same ones come first."""
    return sorted(smiles, key=lambda text: hashlib.sha256(text.encode("utf-8", "replace")).digest())


def texts_of(store: Store, entry: Entry, molecules: Sequence[str]) -> dict[str, list[str]]:
    """By molecule, the conformers of answers that may be of it, each as a text."""
    parameters: dict[str, Any] = {"run": entry.id, "molecules": list(molecules)}
    texts: dict[str, list[str]] = {}
    rows = store.table(_TEXTS, parameters, of=[entry.id]).to_pylist()
    stated = conformer_texts(store, entry, [row["sample_id"] for row in rows])
    for row in rows:
        if text := stated.get(row["sample_id"]) or row["text"]:
            texts.setdefault(row["smiles"], []).extend(split_conformers(text))
    return texts
