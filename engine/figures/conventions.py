"""Conventions of COV and MAT: what programs of the field mean by the same four names, one record each.

All take a matrix of RMSDs per molecule [references, conformers], NaN for a gap, and of K references at most the first
2K samples. COV-R is the share of references whose least RMSD reaches the threshold, COV-P that of samples; MAT-R and
MAT-P are the means of these least RMSDs; then mean and median over molecules. They differ in what `Convention` says.

What this module does not know: from which matrices a published figure was computed, and an RMSD over any permutation of
atoms of one element, which DiTMC offers as an option.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.figures.coverage_metrics import DRUG_LIKE_ANG, FIGURES, mean_and_median, named_figures

Array = NDArray[np.float64]
PER_REFERENCE = 2
"""Samples of a molecule for each of its references, in all evaluations here."""


@dataclass(frozen=True, slots=True)
class Convention:
    """``failed``: a conformer without any RMSD, and a sample without a conformer. A *miss* covers nothing and is in no
    MAT; what is *dropped* is no sample at all; it *spoils* where a gap is a miss in COV and leaves the molecule without
    a MAT (a sample without a conformer never reached the matrix there)."""

    name: str
    whose: str
    missing: Literal["miss", "left out"]  # a molecule without any conformer
    failed: Literal["miss", "dropped", "spoils"]
    reached: Literal["<", "<="] = "<"
    most_samples: int | None = None  # besides 2K
    needs_all: bool = False  # a molecule with fewer than 2K conformers is left out
    is_connected: bool = False  # SMILES of several parts are left out
    permutes: bool = True  # the RMSD is the least over the symmetries of the graph; else atoms match by index
    falls_back: bool = False  # to atom indices, where there is no RMSD over symmetries

    @property
    def samples(self) -> str:
        return "2K" if self.most_samples is None else f"2K, at most {self.most_samples}"

    @property
    def words(self) -> str:
        more = ["2K conformers needed"] * self.needs_all + ["one part only"] * self.is_connected
        return ", ".join(more)


CONVENTIONS = (
    Convention("benchmark", "the group’s benchmark", "miss", "dropped", "<=", falls_back=True),
    Convention("runner", "the group’s runner", "left out", "spoils"),
    Convention("ditmc", "DiTMC", "left out", "spoils"),
    Convention("etflow", "ET-Flow", "left out", "spoils", needs_all=True, is_connected=True),
    Convention("torsional-diffusion", "Torsional Diffusion", "miss", "miss"),
    Convention("etflow-properties", "ET-Flow, property set", "left out", "spoils", most_samples=32, is_connected=True),
    Convention("ditmc-alignmol", "DiTMC with --use_alignmol", "left out", "spoils", permutes=False),
)  # fmt: skip
LEGEND = (
    "failed (a sample without a conformer or without an RMSD): miss = covers nothing and is in no MAT; dropped = not "
    "counted; spoils = without an RMSD covers nothing and leaves its molecule without that MAT, without a conformer "
    "not counted."
)
"""Of the words in the column ``failed_rule``."""
BY_NAME = {convention.name: convention for convention in CONVENTIONS}


@dataclass(frozen=True, slots=True, eq=False)
class MoleculeMatrix:
    """RMSDs of one molecule in angstrom [references, conformers]; NaN is a gap."""

    smiles: str
    rmsd_ang: Array
    failed: int = 0  # samples without a conformer
    by_index_ang: Array | None = None  # of the same shape, atoms matched by index; None: not computed


@dataclass(frozen=True, slots=True, eq=False)
class ConventionFigures:
    """``mean`` and ``median`` are those of FIGURES; NaN where no molecule has the figure."""

    convention: Convention
    mean: Array
    median: Array
    molecules: int  # that the figures are over
    missing: int  # without a conformer
    left_out: int  # molecules
    by_index: int  # pairs whose RMSD is by atom indices, since there was none over symmetries

    def columns(self) -> dict[str, Any]:
        """As JSON has it."""
        of = self.convention
        return {
            "convention": of.name,
            "whose": of.whose,
            "missing_rule": of.missing,
            "failed_rule": of.failed,
            "reached": of.reached,
            "samples_rule": of.samples,
            "permutation": of.permutes,
            "more": of.words,
            **named_figures(self.mean, self.median),
            "molecules": self.molecules,
            "missing": self.missing,
            "left_out": self.left_out,
            "by_atom_indices": self.by_index,
        }


def figures_by(
    convention: Convention, molecules: Sequence[MoleculeMatrix], threshold_ang: float = DRUG_LIKE_ANG
) -> ConventionFigures | None:
    """None where the convention matches atoms by index and no such RMSD was computed."""
    if not convention.permutes and any(m.by_index_ang is None and m.rmsd_ang.size for m in molecules):
        return None
    rows: list[Array] = []
    missing = left_out = by_index = 0
    for molecule in molecules:
        rmsd, replaced = _rmsd_of(molecule, convention)
        by_index += replaced
        is_missing = _is_missing(rmsd, convention)
        missing += is_missing
        if _is_left_out(molecule.smiles, rmsd, convention):
            left_out += 1
        elif is_missing:
            rows.append(np.array([0.0, 0.0, np.nan, np.nan]))
        else:
            rows.append(_figures(rmsd, convention, threshold_ang))
    figures = np.array(rows).reshape(-1, len(FIGURES))  # [molecules, FIGURES]
    return ConventionFigures(
        convention,
        *mean_and_median(figures),
        molecules=len(rows),
        missing=missing,
        left_out=left_out,
        by_index=by_index,
    )


def _is_missing(rmsd: Array, convention: Convention) -> bool:
    return not rmsd.shape[1] or (convention.failed == "dropped" and bool(np.isnan(rmsd).all()))


def _is_left_out(smiles: str, rmsd: Array, convention: Convention) -> bool:
    references, conformers = rmsd.shape
    is_apart = convention.is_connected and "." in smiles
    is_short = convention.needs_all and conformers < PER_REFERENCE * references
    return (
        not references or is_apart or is_short or (convention.missing == "left out" and _is_missing(rmsd, convention))
    )


def _rmsd_of(molecule: MoleculeMatrix, convention: Convention) -> tuple[Array, int]:
    """The matrix that the convention looks at, and how many of its pairs are by atom indices for want of others."""
    rmsd = molecule.rmsd_ang if convention.permutes or molecule.by_index_ang is None else molecule.by_index_ang
    replaced = 0
    if convention.falls_back and molecule.by_index_ang is not None:
        gaps = np.isnan(rmsd) & ~np.isnan(molecule.by_index_ang)
        rmsd = np.where(gaps, molecule.by_index_ang, rmsd)
        replaced = int(gaps.sum())
    if convention.failed == "dropped":
        rmsd = rmsd[:, ~np.isnan(rmsd).all(axis=0)] if rmsd.size else rmsd
    if convention.failed == "miss" and rmsd.shape[1]:
        rmsd = np.hstack([rmsd, np.full((len(rmsd), molecule.failed), np.nan)])
    return rmsd, replaced


def _figures(rmsd: Array, convention: Convention, threshold_ang: float) -> Array:
    """Of the first samples that count."""
    most = PER_REFERENCE * len(rmsd)
    rmsd = rmsd[:, : min(most, convention.most_samples or most)]
    least = [np.fmin.reduce(rmsd, axis=axis) for axis in (1, 0)]  # of each reference, of each sample
    covered = [side <= threshold_ang if convention.reached == "<=" else side < threshold_ang for side in least]
    matching = least if convention.failed == "spoils" else [side[~np.isnan(side)] for side in least]
    means = [float(side.mean()) if side.size else np.nan for side in matching]
    return np.array([*(side.mean() for side in covered), *means])
