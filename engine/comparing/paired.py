"""Two runs, sample by sample: what differs by more than which molecules were asked explains.

Answers are paired by molecule and generation; an answer without a partner is left out, and counted. A measure is told
over the pairs in which both sides have it, so RMSD speaks of answers that could be laid on a reference in both runs,
and drift of those with a known one: each measure says how many pairs that is. Pace is told over all answers of the
molecules that both runs have, as each run's own pace is. Runs that share no molecule are compared by drawing each side
by itself, which finds less. Time is that of one run on one machine: its interval knows nothing of what else ran there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.comparing.measures import SAMPLED
from engine.figures.statistics import (
    LEAST_MOLECULES,
    Array,
    Interval,
    Sums,
    difference,
    paired_means,
    ratio,
    sums_by_molecule,
    unpaired_means,
)

NAMES = tuple(measure.name for measure in SAMPLED)
WEIGHTS = {measure.over: f"weight_{place}" for place, measure in enumerate(SAMPLED) if measure.over}
"""What quotients are over, in SQL, and a name for it."""
_IS_PACE = np.array([measure.is_time for measure in SAMPLED])


@dataclass(frozen=True, slots=True, eq=False)
class RunSamples:
    """One run, a row per sample. ``repeat`` counts answers of the same molecule and generation from 0."""

    run_id: str
    sample_id: NDArray[np.int64]
    smiles: pa.Array
    generation: NDArray[np.int64]
    repeat: NDArray[np.int64]
    columns: dict[str, Array]  # by name of a measure, and the sum of drift; NaN where not known
    weights: dict[str, Array]  # by ``over`` of a measure

    def __len__(self) -> int:
        return len(self.sample_id)


@dataclass(frozen=True, slots=True)
class Compared:
    """One measure of two runs. ``within_noise`` is None where no interval tells, and ``reason`` says why."""

    measure: str
    answers: int  # pairs where runs share molecules; else known answers of both runs together
    molecules: int
    control: float | None  # mean over those answers, or quotient of sums, as the measure says
    test: float | None
    difference: Interval | None
    ratio: Interval | None  # None where the control has nothing of it
    reason: str

    @property
    def within_noise(self) -> bool | None:
        return None if self.difference is None else self.difference.contains(0)


@dataclass(frozen=True, slots=True)
class PairedRuns:
    """A control and a test. Without a shared molecule, ``shared`` is 0 and each side was drawn by itself."""

    control: str
    test: str
    shared: int  # pairs of answers
    shared_molecules: int
    control_alone: int  # answers without a partner
    test_alone: int
    only_control: tuple[str, ...]  # SMILES that only one of them was asked for
    only_test: tuple[str, ...]
    measures: tuple[Compared, ...]
    reason: str  # why no measure has an interval; empty where some may

    def measure(self, name: str) -> Compared:
        return self.measures[NAMES.index(name)]

    @property
    def is_paired(self) -> bool:
        return self.shared > 0


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Rows of two runs that answer the same question, in the control's order."""

    control_rows: NDArray[np.int64]
    test_rows: NDArray[np.int64]
    control_molecule: NDArray[np.int64]  # of every row: one number per molecule, the same in both
    test_molecule: NDArray[np.int64]
    smiles: pa.Array  # of each number

    def __len__(self) -> int:
        return len(self.control_rows)

    def only(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> tuple[str, ...]:
        found: list[str] = self.smiles.take(pa.array(np.setdiff1d(one, other))).to_pylist()
        return tuple(found)


def compared(control: RunSamples, test: RunSamples, seed: int = 0) -> PairedRuns:
    """Two runs whose samples are at hand."""
    pairs = pairs_of(control, test)
    measures = _paired(control, test, pairs, seed) if len(pairs) else _unpaired(control, test, pairs, seed)
    return PairedRuns(
        control=control.run_id,
        test=test.run_id,
        shared=len(pairs),
        shared_molecules=len(np.unique(pairs.control_molecule[pairs.control_rows])),
        control_alone=len(control) - len(pairs),
        test_alone=len(test) - len(pairs),
        only_control=pairs.only(pairs.control_molecule, pairs.test_molecule),
        only_test=pairs.only(pairs.test_molecule, pairs.control_molecule),
        measures=measures,
        reason="",
    )


def pairs_of(control: RunSamples, test: RunSamples) -> Pairs:
    """Answers of the same molecule and generation; of a molecule asked for twice, in the order of its answers."""
    encoded = pa.concat_arrays([control.smiles, test.smiles]).dictionary_encode()
    number = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    generation = np.concatenate([control.generation, test.generation])
    repeat = np.concatenate([control.repeat, test.repeat])
    key = number
    for more in (generation, repeat):
        key = key * (more.max(initial=0) + 1) + more
    size = len(control)
    _, rows, partners = np.intersect1d(key[:size], key[size:], assume_unique=True, return_indices=True)
    order = np.argsort(rows)
    return Pairs(rows[order], partners[order], number[:size], number[size:], encoded.dictionary)


# --- the two ways of drawing ----------------------------------------------------------------------------------------


def _paired(control: RunSamples, test: RunSamples, pairs: Pairs, seed: int) -> tuple[Compared, ...]:
    left, right = _parts(control, pairs.control_rows), _parts(test, pairs.test_rows)
    is_known = np.isfinite(left[0]) & np.isfinite(right[0])
    codes, molecule = np.unique(pairs.control_molecule[pairs.control_rows], return_inverse=True)
    one, other = (
        _with_pace(
            sums_by_molecule(np.where(is_known, values, np.nan), weights, molecule, len(codes)), run, numbers, codes
        )
        for (values, weights), run, numbers in (
            (left, control, pairs.control_molecule),
            (right, test, pairs.test_molecule),
        )
    )
    return compare_sums(NAMES, one, other, paired_means(one, other, seed), "pair")


def _with_pace(of_pairs: Sums, run: RunSamples, numbers: NDArray[np.int64], codes: NDArray[np.int64]) -> Sums:
    """The same, with pace over all of the run's answers of these molecules."""
    rows = np.flatnonzero(np.isin(numbers, codes))
    of_all = sums_by_molecule(*_parts(run, rows), np.searchsorted(codes, numbers[rows]), len(codes))
    parts = ("values", "weights", "answers")
    return Sums(*(np.where(_IS_PACE, getattr(of_all, part), getattr(of_pairs, part)) for part in parts))


def _unpaired(control: RunSamples, test: RunSamples, pairs: Pairs, seed: int) -> tuple[Compared, ...]:
    one, other = _apart(control, pairs.control_molecule), _apart(test, pairs.test_molecule)
    return compare_sums(NAMES, one, other, unpaired_means(one, other, seed), "")


def _apart(run: RunSamples, numbers: NDArray[np.int64]) -> Sums:
    codes, molecule = np.unique(numbers, return_inverse=True)
    return sums_by_molecule(*_parts(run, np.arange(len(run))), molecule, len(codes))


def _parts(run: RunSamples, rows: NDArray[np.int64]) -> tuple[Array, Array]:
    """Values and weights of these rows, [rows, measures] each. What is over nothing is not known."""
    alike = np.ones(len(run))
    weights = np.stack([run.weights[m.over] if m.over else alike for m in SAMPLED], axis=1)[rows]
    values = np.stack([run.columns[name] for name in NAMES], axis=1)[rows]
    return np.where(weights > 0, values, np.nan), weights


def compare_sums(
    names: Sequence[str], control: Sums, test: Sums, drawn: tuple[Array, Array], shared: Literal["pair", "molecule", ""]
) -> tuple[Compared, ...]:
    """Each measure of two sides. ``shared`` is what both have of each answer; nothing where each stands by itself."""
    return tuple(
        _compared(name, control.only(place), test.only(place), (drawn[0][:, place], drawn[1][:, place]), shared)
        for place, name in enumerate(names)
    )


def _compared(name: str, control: Sums, test: Sums, drawn: tuple[Array, Array], shared: str) -> Compared:
    known = [int(side.answers.sum()) for side in (control, test)]
    molecules = [int((side.answers > 0).sum()) for side in (control, test)]
    counted = (known[0], molecules[0]) if shared else (sum(known), sum(molecules))
    one, other = control.mean, test.mean
    if one is None or other is None:
        without = " or the ".join(side for side, count in zip(("control", "test"), known, strict=True) if not count)
        reason = f"No {shared} has it on both sides." if shared else f"No sample of the {without} has it."
        return Compared(name, *counted, one, other, None, None, reason)
    least = min(molecules)
    draws = None if least < LEAST_MOLECULES else drawn
    reason = "" if draws else f"Fewer than {LEAST_MOLECULES} molecules: no interval."
    apart, over = difference(one, other, draws, least), ratio(one, other, draws, least)
    return Compared(name, *counted, one, other, apart, over, reason)
