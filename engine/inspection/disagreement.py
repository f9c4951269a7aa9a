"""Where a model disagrees with its LP: does -log w grow along the text, and does it go with RMSD?

Levels are taken out of both answers: a sample's own mean from its blocks, so that long texts do not stand for late
blocks, and a molecule's own from its samples, so that hard molecules do not stand for wrong conformers. What this
module does not know: which of two quantities that go together causes the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.figures.statistics import LEAST_SAMPLES, Array, Bootstrap, Interval, interval, ranks
from engine.inspection.step_columns import StepColumns, Whole, by_code


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Of samples that count. Intervals are over molecules; of one molecule, that of ``slope`` is over its samples."""

    slope: Interval | None  # of -log w, in nat per block further along the text
    blocks: int
    rmsd: Interval | None  # rank correlation (Spearman) of -log w and RMSD within molecules
    rmsd_samples: int
    rmsd_molecules: int  # that have an RMSD of two samples or more


def disagreement_of(
    steps: StepColumns, log_w: Array, rmsd_ang: Array, smiles: Sequence[str], unit: Whole, draws: Bootstrap
) -> Disagreement:
    """``log_w`` by sample, -inf where it does not count; ``rmsd_ang`` by sample, NaN where it is not known."""
    slope, blocks = _slope(steps, log_w, unit, draws)
    return Disagreement(slope, blocks, *against_rmsd(log_w, rmsd_ang, smiles))


def _slope(steps: StepColumns, log_w: Array, unit: Whole, draws: Bootstrap) -> tuple[Interval | None, int]:
    """A block counts with the text that leads to it; what follows a sample's last block does not."""
    samples = len(log_w)
    width = int(steps.segment.max(initial=0)) + 1
    counted = (steps.segment < steps.block_count[steps.sample]) & np.isfinite(log_w)[steps.sample]
    keys, at = np.unique((steps.sample * width + steps.segment)[counted], return_inverse=True)
    nat = by_code(at, -steps.tempered[counted], len(keys))
    sample, place = keys // width, (keys % width).astype(np.float64)
    own = np.maximum(by_code(sample, np.ones(len(keys)), samples), 1)
    away = place - (by_code(sample, place, samples) / own)[sample]
    parts, wholes = (by_code(unit[sample], away * values, draws.units) for values in (nat, away))
    return draws.ratio(parts, wholes), len(keys)


def against_rmsd(log_w: Array, rmsd_ang: Array, smiles: Sequence[str]) -> tuple[Interval | None, int, int]:
    """The rank correlation with the samples and molecules that it is over."""
    is_known = np.isfinite(log_w) & np.isfinite(rmsd_ang)
    sums, samples = [], 0
    for molecule in dict.fromkeys(smiles):
        own = is_known & np.array([text == molecule for text in smiles])
        if (count := int(own.sum())) < 2:
            continue
        samples += count
        one, other = (ranks(values[own]) / count - (count + 1) / (2 * count) for values in (-log_w, rmsd_ang))
        sums.append((one @ other, one @ one, other @ other))
    figures = np.array(sums).reshape(-1, 3)
    if samples < LEAST_SAMPLES or not figures[:, 1:].sum(axis=0).all():
        return None, samples, len(figures)

    def correlation(sums: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):  # a draw may have nothing that differs
            found: Array = sums[:, 0] / np.sqrt(sums[:, 1] * sums[:, 2])
        return found

    draws = Bootstrap(len(figures))
    drawn = correlation(draws.weights @ figures) if draws.units > 1 else None
    value = float(correlation(figures.sum(axis=0, keepdims=True))[0])
    return interval(value, drawn, draws.units), samples, len(figures)
