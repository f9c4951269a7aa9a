"""What the lanes cover over the same molecules, and the fall from no LP to v4.3 divided into steps.

Texts are read as the group reads them, references are ETKDG's, and a molecule without a sample counts as 0: if such
molecules were left out, failures would flatter their lane. The fall is a sum of steps, each a difference of two lanes
over the same molecules: forcing the SMILES (none -> exact), failed parses (exact -> exact with as many samples per
molecule as v4.3 has that parse), and the rest, which is what the placeholder does to coordinates.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine.chem.smiles import parse_smiles
from engine.comparing.file_jobs import run_jobs
from engine.comparing.rmsd_matrices import read_matrix, texts_job
from engine.errors import DriftscopeError, EnrichedError
from engine.figures.coverage_metrics import DRUG_LIKE_ANG, FIGURES, Array, MatrixFigures, figures_of, over_molecules
from engine.figures.statistics import Bootstrap, Interval, correlation_within
from engine.store.entries import Entry
from engine.store.store import Store
from engine.text.check import decode_as_group

TEXTS_SQL = "SELECT smiles, text FROM samples WHERE run_id = $run ORDER BY sample_id"
LEFT_OUT = ("each", "molecules", "scored")
"""Of `cost-of-lp`: too large to be kept, or of one call alone."""
Texts = Mapping[str, Sequence[str | None]]
NONE, EXACT, V43, REORDERED = "none", "exact", "v4.3", "exact-reordered"
FITTED, THREE, CANONICAL = "fitted", "0.000,0.000,0.000", ("--order", "canonical")
PLAIN = (*CANONICAL, "--descriptors", "plain")


@dataclass(frozen=True, slots=True)
class Lane:
    lp: str
    words: str
    placeholder: str = ""  # FITTED: to the texts of the lane `exact`
    full_vocabulary: bool = False  # each pass needs all logits, which is slow: the lane is smaller
    options: tuple[str, ...] = CANONICAL


# Run in this order; v4.3-fitted needs the texts of `exact`.
PLANS: Mapping[str, Lane] = {
    NONE: Lane("none", "no LP", full_vocabulary=True),
    EXACT: Lane("exact", "the exact LP"),
    V43: Lane("group-v4.3", "v4.3 as it ran: 0.000 x 3, [OH]", THREE),
    "v4.3-plain": Lane("group-v4.3", "v4.3 with plain descriptors, [O]", THREE, options=PLAIN),
    "v4.3-four": Lane("group-v4.3", "v4.3 with 0.0000 x 3", "0.0000,0.0000,0.0000"),
    "v4.3-fitted": Lane("group-v4.3", "v4.3, fitted placeholder", FITTED),
    "v3.9": Lane("group-v3.9", "v3.9: blocklist, 0.000 x 3", full_vocabulary=True),
    "v3.8": Lane("group-v3.8", "v3.8 (reconstructed): blocklist, 0.0000 x 3", full_vocabulary=True),
    "truncating": Lane("truncating", "truncating", full_vocabulary=True),
    "guarded": Lane("guarded", "the guarded LP"),
    REORDERED: Lane("exact", "the exact LP, another atom order", options=("--order", "written")),
}


@dataclass(frozen=True, slots=True)
class LaneSize:
    """``samples`` per molecule; ``references`` by ETKDG: half as many, as published evaluations have it."""

    molecules: int
    samples: int

    def __post_init__(self) -> None:
        if self.molecules < 1 or self.samples < 2 or self.samples % 2:
            raise DriftscopeError(
                f"{self.molecules} molecules with {self.samples} samples each cannot be compared",
                "Give one molecule or more, and an even number of samples",
            )

    @property
    def references(self) -> int:
        return self.samples // 2


@dataclass(frozen=True, slots=True, eq=False)
class LaneCoverage:
    """``matrices`` [references, samples that parse] in ångström, one per molecule, in the order asked for."""

    samples: int  # asked for, all molecules
    matrices: tuple[Array, ...]

    def figures(self, threshold_ang: float = DRUG_LIKE_ANG) -> list[MatrixFigures | None]:
        return [figures_of(matrix, threshold_ang) for matrix in self.matrices]

    def values(self) -> Array:
        """[molecules, FIGURES]; a molecule for which ETKDG finds no reference is left out of every lane."""
        rows = []
        for matrix, figures in zip(self.matrices, self.figures(), strict=True):
            empty = [0.0, 0.0, np.nan, np.nan] if len(matrix) else [np.nan] * len(FIGURES)
            rows.append(empty if figures is None or not len(matrix) else list(figures.figures))
        return np.array(rows).reshape(-1, len(FIGURES))


@functools.lru_cache(maxsize=4_096)
def canonical(smiles: str) -> str:
    return parse_smiles(smiles).smiles


def texts_by_molecule(store: Store, entry: Entry) -> Texts:
    """All samples of a run by canonical SMILES; None for one without a text."""
    texts: dict[str, list[str | None]] = {}
    for row in store.table(TEXTS_SQL, {"run": entry.id}, of=[entry.id]).to_pylist():
        texts.setdefault(canonical(row["smiles"]), []).append(row["text"])
    return texts


def lane_coverage(
    texts: Texts, molecules: Sequence[str], size: LaneSize, workers: int, advance: Callable[[int], object]
) -> LaneCoverage:
    """Of the first samples of these molecules. Matrices are cached: a second call reads them."""
    chosen = [texts.get(smiles, ())[: size.samples] for smiles in molecules]
    jobs = (
        texts_job(smiles, {"etkdg": size.references}, [text for text in few if text is not None], "group")
        for smiles, few in zip(molecules, chosen, strict=True)
    )
    matrices = []
    with closing(run_jobs(jobs, workers)) as finished:
        for job in finished:
            matrices.append(read_matrix(job))
            advance(1)
    return LaneCoverage(sum(map(len, chosen)), tuple(matrices))


def changes(control: LaneCoverage, test: LaneCoverage, names: Sequence[str] = FIGURES) -> dict[str, Interval | None]:
    """Test minus control, each figure's mean over molecules that have references; paired bootstrap over molecules.

    A molecule without a sample counts as 0 in COV, and is left out of MAT on both sides.
    """
    sides = np.stack([side.values() for side in (control, test)], axis=-1)  # [molecules, FIGURES, 2]
    bootstrap = Bootstrap(len(sides))
    differences = {}
    for name in names:
        values = sides[:, FIGURES.index(name)]
        is_finite = np.isfinite(values) & np.isfinite(values[:, ::-1])  # on both sides
        differences[name] = bootstrap.difference(np.where(is_finite, values, 0.0), is_finite.astype(np.float64))
    return differences


def fall(none: LaneCoverage, exact: LaneCoverage, v43: LaneCoverage) -> dict[str, dict[str, Interval | None]]:
    """Changes of COV-R and COV-P, as shares. The steps sum to the change from ``none`` to ``v43``."""
    counts = [matrix.shape[1] for matrix in v43.matrices]
    few = tuple(matrix[:, :count] for matrix, count in zip(exact.matrices, counts, strict=True))
    fewer = LaneCoverage(sum(counts), few)
    path = {
        "forcing the SMILES": (none, exact),
        "failed parses": (exact, fewer),
        "placeholder and cut": (fewer, v43),
        "in all": (none, v43),
    }
    return {words: changes(control, test, FIGURES[:2]) for words, (control, test) in path.items()}


def failures_by_kind(texts: Iterable[str | None]) -> Counter[str]:
    """The samples that the group's decoder does not take, by its error."""
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


def summary(
    runs: Mapping[str, str],
    texts: Mapping[str, Texts],
    costs: Mapping[str, Mapping[str, Any]],
    molecules: Sequence[str],
    sizes: Mapping[str, Sequence[LaneSize]],
    workers: int,
    advance: Callable[[int], object],
) -> dict[str, Any]:
    lanes: list[dict[str, Any]] = []
    first: dict[str, LaneCoverage] = {}  # at its largest
    last: dict[str, LaneCoverage] = {}  # at the size of all lanes
    for key, run_id in runs.items():
        for size in sizes[key]:
            chosen = molecules[: size.molecules]
            lane = lane_coverage(texts[key], chosen, size, workers, advance)
            figures = lane.figures()
            lanes.append(
                {
                    "lane": key,
                    "words": PLANS[key].words,
                    "run_id": run_id,
                    "molecules": size.molecules,
                    "samples_per_molecule": size.samples,
                    "references": size.references,
                    "samples": lane.samples,
                    "parsed": sum(matrix.shape[1] for matrix in lane.matrices),
                    "zero": over_molecules(figures, "zero").columns(),
                    "skip": over_molecules(figures, "skip").columns(),
                    "not_decoded": dict(
                        failures_by_kind(
                            text for smiles in chosen for text in texts[key].get(smiles, ())[: size.samples]
                        )
                    ),
                }
            )
            first.setdefault(key, lane)
            last[key] = lane
    document: dict[str, Any] = {"lanes": lanes, "fall": None, "beside_none": {}, "reordered": None, "descriptors": None}
    document["cost"] = {
        key: _cost(cost, texts[key], molecules, sizes[key][0], first[key]) for key, cost in costs.items()
    }
    if {NONE, EXACT, V43} <= last.keys():
        steps = fall(last[NONE], last[EXACT], last[V43])
        document["fall"] = [{"step": words, **_intervals(differences)} for words, differences in steps.items()]
    if NONE in last:
        document["beside_none"] = {
            key: _intervals(changes(last[NONE], lane)) for key, lane in last.items() if key != NONE
        }
    for change, control, test in (("reordered", EXACT, REORDERED), ("descriptors", "v4.3-plain", V43)):
        if {control, test} <= first.keys():
            document[change] = _intervals(changes(first[control], first[test]))
    return document


def _cost(
    cost: Mapping[str, Any], texts: Texts, molecules: Sequence[str], size: LaneSize, lane: LaneCoverage
) -> dict[str, Any]:
    """With the correlation of disagreement and RMSD to the nearest reference, which the run does not have."""
    nearest = {}  # by molecule, of each sample; NaN for one that the group's reader does not take
    for smiles, matrix in zip(molecules[: size.molecules], lane.matrices, strict=True):
        least = iter(np.fmin.reduce(matrix, axis=0) if len(matrix) else np.full(matrix.shape[1], np.nan))
        few = texts.get(smiles, ())[: size.samples]
        nearest[smiles] = iter([np.nan if failures_by_kind([text]) else float(next(least)) for text in few])
    smiles_of = [canonical(sample["smiles"]) for sample in cost["each"]]
    rmsd_ang = [next(nearest.get(molecule, iter(())), np.nan) for molecule in smiles_of]
    log_w = [-np.inf if sample["log_w_tempered"] is None else sample["log_w_tempered"] for sample in cost["each"]]
    correlation, samples, count = correlation_within(-np.array(log_w), np.array(rmsd_ang), smiles_of)
    disagreement = {**_intervals({"rmsd": correlation}), "rmsd_samples": samples, "rmsd_molecules": count}
    kept = {name: value for name, value in cost.items() if name not in LEFT_OUT}
    return kept | {"disagreement": cost["disagreement"] | disagreement}


def _intervals(by_figure: Mapping[str, Any]) -> dict[str, dict[str, float | None] | None]:
    return {
        name: None if change is None else {key: asdict(change)[key] for key in ("value", "low", "high")}
        for name, change in by_figure.items()
    }
