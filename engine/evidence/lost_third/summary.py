"""What the lanes show, as one document: figures of each, the fall taken apart, and changes beside no LP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine.evidence.lost_third.coverage import (
    LaneCoverage,
    Texts,
    canonical,
    changes,
    failures_by_kind,
    fall,
    lane_coverage,
    nearest_ang,
)
from engine.evidence.lost_third.lanes import EXACT, LANES, NONE, PLAIN, REORDERED, V43, LaneSize
from engine.figures.coverage_metrics import over_molecules
from engine.inspection.disagreement import against_rmsd

LEFT_OUT = ("each", "molecules", "scored")
"""Of `cost-of-lp`: too large to be kept, or of one call alone."""
Told = Callable[[str, int, int], object]


@dataclass(frozen=True, slots=True)
class Lanes:
    """Runs and texts by lane. Lanes that need all logits have the size ``wide``, the others are cut to it too."""

    runs: Mapping[str, str]
    texts: Mapping[str, Texts]
    costs: Mapping[str, Mapping[str, Any]]  # what `cost-of-lp` says of the first samples of some lanes
    molecules: Sequence[str]
    narrow: LaneSize
    wide: LaneSize


def summary(lanes: Lanes, workers: int, told: Told) -> dict[str, Any]:
    kept: dict[tuple[str, LaneSize], LaneCoverage] = {}
    for key in lanes.runs:
        for size in (lanes.narrow, lanes.wide)[LANES[key].full_vocabulary :]:
            chosen = lanes.molecules[: size.molecules]

            def compared(done: int, key: str = key, total: int = len(chosen)) -> None:
                told(f"molecules of {key} compared", done, total)

            kept[key, size] = lane_coverage(lanes.texts[key], chosen, size, workers, compared)
    wide = {key: lane for (key, size), lane in kept.items() if size == lanes.wide}
    document: dict[str, Any] = {
        "lanes": [_lane(lanes, key, size, lane) for (key, size), lane in kept.items()],
        "fall": None,
        "beside_none": {},
        "reordered": None,
        "descriptors": None,
        "cost": {key: _cost(lanes, key, kept[key, lanes.narrow]) for key in lanes.costs},
    }
    if {NONE, EXACT, V43} <= wide.keys():
        steps = fall(*(wide[key] for key in (NONE, EXACT, V43)))
        document["fall"] = [
            {"step": step.words, "cov_r": _interval(step.cov_r), "cov_p": _interval(step.cov_p)} for step in steps
        ]
    if NONE in wide:
        others = {key: lane for key, lane in wide.items() if key != NONE}
        document["beside_none"] = {key: _changes(wide[NONE], lane) for key, lane in others.items()}
    for change, control, test in (("reordered", EXACT, REORDERED), ("descriptors", PLAIN, V43)):
        if {(control, lanes.narrow), (test, lanes.narrow)} <= kept.keys():
            document[change] = _changes(kept[control, lanes.narrow], kept[test, lanes.narrow])
    return document


def _lane(lanes: Lanes, key: str, size: LaneSize, lane: LaneCoverage) -> dict[str, Any]:
    few = (
        text
        for smiles in lanes.molecules[: size.molecules]
        for text in lanes.texts[key].get(smiles, ())[: size.samples]
    )
    figures = lane.figures()
    return {
        "lane": key,
        "words": LANES[key].words,
        "run_id": lanes.runs[key],
        "molecules": size.molecules,
        "samples_per_molecule": size.samples,
        "references": size.references,
        "samples": lane.samples,
        "parsed": lane.parsed,
        "zero": over_molecules(figures, "zero").columns(),
        "skip": over_molecules(figures, "skip").columns(),
        "not_decoded": dict(failures_by_kind(few)),
    }


def _cost(lanes: Lanes, key: str, lane: LaneCoverage) -> dict[str, Any]:
    """With the correlation of disagreement and RMSD to the nearest reference, which the run does not have."""
    cost = lanes.costs[key]
    nearest = nearest_ang(lanes.texts[key], lanes.molecules[: lanes.narrow.molecules], lanes.narrow, lane)
    smiles = [canonical(one["smiles"]) for one in cost["each"]]
    left = {molecule: iter(values) for molecule, values in nearest.items()}
    rmsd_ang = [next(left.get(molecule, iter(())), np.nan) for molecule in smiles]
    log_w = [-np.inf if one["log_w_tempered"] is None else one["log_w_tempered"] for one in cost["each"]]
    found, samples, molecules = against_rmsd(np.array(log_w), np.array(rmsd_ang), smiles)
    disagreement = {"rmsd": _interval(found), "rmsd_samples": samples, "rmsd_molecules": molecules}
    few = {name: value for name, value in cost.items() if name not in LEFT_OUT}
    return few | {"disagreement": cost["disagreement"] | disagreement}


def _changes(control: LaneCoverage, test: LaneCoverage) -> dict[str, Any]:
    return {name: _interval(change) for name, change in changes(control, test).items()}


def _interval(found: Any) -> dict[str, float | None] | None:
    return None if found is None else {name: asdict(found)[name] for name in ("value", "low", "high")}
