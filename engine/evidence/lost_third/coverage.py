"""What the lanes cover, over the same molecules, and the fall from no LP to v4.3 taken apart.

Texts are read as the group reads them, references are ETKDG's, and a molecule without a sample counts as 0: left out,
what fails would flatter its lane. The fall is a sum of steps, each a difference of two lanes over the same molecules:
forcing the SMILES (none -> exact), failed parses (exact -> exact with as many samples of each molecule as v4.3 has
that parse), and the rest, which is what the placeholder does to coordinates.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from engine.chem.smiles import parse_smiles
from engine.comparing.rmsd_matrices import read_matrix, texts_job
from engine.errors import EnrichedError
from engine.evidence.lost_third.lanes import LaneSize
from engine.figures.coverage_metrics import DRUG_LIKE_ANG, FIGURES, Array, MatrixFigures, figures_of
from engine.figures.statistics import Bootstrap, Interval
from engine.file_jobs import run_jobs
from engine.store.entries import Entry
from engine.store.store import Store
from engine.text.readers import decode_as_group

_TEXTS = "SELECT smiles, text FROM samples WHERE run_id = $run ORDER BY sample_id"
Texts = Mapping[str, Sequence[str | None]]


@dataclass(frozen=True, slots=True, eq=False)
class LaneCoverage:
    """``matrices`` [references, samples that parse] in ångström, one a molecule, in the order asked for."""

    samples: int  # asked for, all molecules
    matrices: tuple[Array, ...]

    @property
    def parsed(self) -> int:
        return sum(matrix.shape[1] for matrix in self.matrices)

    def figures(self, threshold_ang: float = DRUG_LIKE_ANG) -> list[MatrixFigures | None]:
        return [figures_of(matrix, threshold_ang) for matrix in self.matrices]

    def first(self, counts: Sequence[int]) -> LaneCoverage:
        """With no more than so many samples of each molecule, the first ones."""
        return LaneCoverage(sum(counts), tuple(m[:, :count] for m, count in zip(self.matrices, counts, strict=True)))


@dataclass(frozen=True, slots=True)
class FallStep:
    words: str
    cov_r: Interval | None  # change, in shares
    cov_p: Interval | None


def texts_by_molecule(store: Store, entry: Entry) -> Texts:
    """All samples of a run by canonical SMILES; None for one without a text."""
    texts: dict[str, list[str | None]] = {}
    for row in store.table(_TEXTS, {"run": entry.id}, of=[entry.id]).to_pylist():
        texts.setdefault(canonical(row["smiles"]), []).append(row["text"])
    return texts


def lane_coverage(
    texts: Texts,
    molecules: Sequence[str],
    size: LaneSize,
    workers: int,
    told: Callable[[int], object] = lambda done: None,
) -> LaneCoverage:
    """Of the first samples of these molecules. Matrices are kept: a second call reads them."""
    chosen = [texts.get(smiles, ())[: size.samples] for smiles in molecules]
    jobs = (
        texts_job(smiles, {"etkdg": size.references}, [text for text in few if text is not None], "group")
        for smiles, few in zip(molecules, chosen, strict=True)
    )
    matrices = []
    with closing(run_jobs(jobs, workers)) as finished:
        for job in finished:
            matrices.append(read_matrix(job))
            told(len(matrices))
    return LaneCoverage(sum(map(len, chosen)), tuple(matrices))


def nearest_ang(texts: Texts, molecules: Sequence[str], size: LaneSize, lane: LaneCoverage) -> dict[str, list[float]]:
    """By molecule, each sample's RMSD to the nearest reference; NaN for one that the group's reader does not take."""
    found = {}
    for smiles, matrix in zip(molecules, lane.matrices, strict=True):
        least = iter(np.fmin.reduce(matrix, axis=0) if len(matrix) else np.full(matrix.shape[1], np.nan))
        few = texts.get(smiles, ())[: size.samples]
        found[smiles] = [float(next(least)) if _is_read(text) else float("nan") for text in few]
    return found


def changes(control: LaneCoverage, test: LaneCoverage, names: Sequence[str] = FIGURES) -> dict[str, Interval | None]:
    """Test less control, each figure's mean over molecules that have references; bootstrap over these, in pairs.

    A molecule without a sample counts as 0 in COV, and is left out of MAT on both sides.
    """
    sides = np.stack([_values(side) for side in (control, test)], axis=-1)  # [molecules, FIGURES, 2]
    bootstrap = Bootstrap(len(sides))
    found = {}
    for name in names:
        values = sides[:, FIGURES.index(name)]
        known = np.isfinite(values) & np.isfinite(values[:, ::-1])  # on both sides
        found[name] = bootstrap.difference(np.where(known, values, 0.0), known.astype(np.float64))
    return found


def fall(none: LaneCoverage, exact: LaneCoverage, v43: LaneCoverage) -> list[FallStep]:
    """The steps sum to the change from ``none`` to ``v43``."""
    fewer = exact.first([matrix.shape[1] for matrix in v43.matrices])
    path = (
        ("forcing the SMILES", none, exact),
        ("failed parses", exact, fewer),
        ("placeholder and cut", fewer, v43),
        ("in all", none, v43),
    )
    steps = [(words, changes(one, other, FIGURES[:2])) for words, one, other in path]
    return [FallStep(words, found["cov_r"], found["cov_p"]) for words, found in steps]


def failures_by_kind(texts: Iterable[str | None]) -> Counter[str]:
    """Of the samples that the group's decoder does not take: by its error."""
    kinds: Counter[str] = Counter()
    for text in texts:
        if text is None:
            kinds["no text"] += 1
            continue
        try:
            decode_as_group(text)
        except EnrichedError as error:
            kinds[error.reason] += 1
    return kinds


def _is_read(text: str | None) -> bool:
    return not failures_by_kind([text])


def _values(lane: LaneCoverage) -> Array:
    """[molecules, FIGURES]; a molecule that ETKDG finds no reference of is left out of every lane."""
    rows = []
    for matrix, figures in zip(lane.matrices, lane.figures(), strict=True):
        if not len(matrix):
            rows.append([np.nan] * len(FIGURES))
        else:
            rows.append([0.0, 0.0, np.nan, np.nan] if figures is None else list(figures.figures))
    return np.array(rows).reshape(-1, len(FIGURES))


@functools.lru_cache(maxsize=4_096)
def canonical(smiles: str) -> str:
    return parse_smiles(smiles).smiles
