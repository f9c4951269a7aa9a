"""COV and MAT of RMSD matrices [references, samples] in ångström, by the definitions of the field's own evaluations.

NaN is a gap: a pair without an RMSD. Of a molecule, a reference's least RMSD is over its samples and a sample's over
the references, gaps left out. COV-R is the share of references whose least RMSD is strictly less than a threshold,
COV-P that of samples; MAT-R and MAT-P are the means of these least RMSDs. What has gaps alone is not covered, and is in
no MAT. Of a set of molecules: mean and median over those that have the figure.

A molecule without a single sample is left out of all four (``skip``, as published evaluations do, which flatters what
fails), or counts as 0 in both COV and is left out of both MAT (``zero``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MissingRule: TypeAlias = Literal["skip", "zero"]

THRESHOLDS_ANG = tuple(step / 20 for step in range(1, 61))
"""Of curves: 0.05 to 3.00, each the float that its decimals mean, since "strictly less" depends on it."""
DRUG_LIKE_ANG, SMALL_ANG = 0.75, 0.5
"""Thresholds that the field uses: for drug-like molecules, and for those of up to nine heavy atoms."""
FIGURES = ("cov_r", "cov_p", "mat_r_ang", "mat_p_ang")


@dataclass(frozen=True, slots=True, eq=False)
class MatrixFigures:
    """Of one molecule; NaN where it has none."""

    figures: Array  # those of FIGURES
    curves: Array  # [COV-R and COV-P, THRESHOLDS_ANG]


@dataclass(frozen=True, slots=True, eq=False)
class SetFigures:
    """Of a set of molecules; NaN where no molecule has the figure."""

    molecules: int  # of the set
    missing: int  # without a single sample
    mean: Array  # those of FIGURES
    median: Array
    curves: Array  # means [COV-R and COV-P, THRESHOLDS_ANG]

    def columns(self) -> dict[str, Any]:
        """As JSON has it: shares from 0 to 1, null for a figure that no molecule has."""
        return {
            **named_figures(self.mean, self.median),
            "thresholds": list(THRESHOLDS_ANG),
            **{f"{name}_curve": list(map(_or_none, row)) for name, row in zip(FIGURES[:2], self.curves, strict=True)},
            "molecules": self.molecules,
            "missing": self.missing,
        }


def figures_of(rmsd_ang: Array, threshold_ang: float = DRUG_LIKE_ANG) -> MatrixFigures | None:
    """Of one molecule's matrix [references, samples]; None where there is no sample or no reference."""
    if rmsd_ang.size == 0:
        return None
    thresholds = np.array([threshold_ang, *THRESHOLDS_ANG])
    # By reference and by sample; fmin leaves NaN out wherever there is a number.
    least = [np.fmin.reduce(rmsd_ang, axis=axis) for axis in (1, 0)]
    covered = np.stack([(side[:, None] < thresholds).mean(axis=0) for side in least])  # [2, thresholds]
    return MatrixFigures(np.array([*covered[:, 0], *map(mean_known, least)]), covered[:, 1:])


def over_molecules(molecules: Sequence[MatrixFigures | None], rule: MissingRule = "skip") -> SetFigures:
    """None means a molecule without a single sample."""
    sampled = [figures for figures in molecules if figures is not None]
    missing = len(molecules) - len(sampled)
    zeros = missing if rule == "zero" else 0
    figures = np.array([m.figures for m in sampled] + [[0.0, 0.0, np.nan, np.nan]] * zeros).reshape(-1, len(FIGURES))
    mean, median = mean_and_median(figures)
    curves = np.array([m.curves for m in sampled] + [np.zeros((2, len(THRESHOLDS_ANG)))] * zeros)
    return SetFigures(
        molecules=len(molecules),
        missing=missing,
        mean=mean,
        median=median,
        curves=curves.mean(axis=0) if len(curves) else np.full((2, len(THRESHOLDS_ANG)), np.nan),
    )


def mean_known(values: Array) -> float:
    """Over what is not NaN; NaN where there is nothing else."""
    measured = values[~np.isnan(values)]
    return float(measured.mean()) if measured.size else float("nan")


def mean_and_median(figures: Array) -> tuple[Array, Array]:
    """Of each column of [molecules, FIGURES], over what is not NaN; NaN where there is nothing else."""
    known = [column[~np.isnan(column)] for column in figures.T]
    medians = [float(np.median(values)) if values.size else float("nan") for values in known]
    return np.array(list(map(mean_known, known))), np.array(medians)


def named_figures(mean: Array, median: Array) -> dict[str, float | None]:
    """As JSON has them: null for a figure that no molecule has."""
    of_mean = {name: _or_none(value) for name, value in zip(FIGURES, mean, strict=True)}
    return of_mean | {f"{name}_median": _or_none(value) for name, value in zip(FIGURES, median, strict=True)}


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
