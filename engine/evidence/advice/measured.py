"""The answers of one run, summed a molecule, with the run's wall time shared out among them.

A run has one wall time; each answer has its part of it, as in ``engine.comparing.reading``. So a molecule has a cost,
and a bootstrap over molecules gives the mean an interval.
Repeated runs of the same work give the spread of the clock. Other load on the machine during a single run is in no
figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from engine.comparing.reading import samples_of
from engine.figures.statistics import RESAMPLES, Sums, paired_means
from engine.inspection.memo import Memo
from engine.store.entries import Entry
from engine.store.store import Store

Array = NDArray[np.float64]

MOST_KEPT = 24
_MORE = """
SELECT blocks::DOUBLE AS blocks, heavy_atoms::DOUBLE AS heavy_atoms FROM samples WHERE run_id = $run ORDER BY sample_id
"""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Every array has one figure a molecule, in the order of ``smiles``, summed over its answers."""

    smiles: tuple[str, ...]
    answers: Array
    judged: Array  # answers with a verdict on their molecule
    usable: Array
    clean: Array
    decodes: Array  # NaN where an old run does not know
    passed: Array
    seconds: Array
    letters: Array  # blocks with a letter, and so on
    nonnumeric: Array
    cut: Array
    blocks: Array  # 0 where they were not counted
    rmsd_ang: Array
    rmsd_known: Array  # answers whose RMSD is known
    heavy_atoms: Array

    def only(self, smiles: Sequence[str]) -> Answers:
        """Of these molecules, in this order; all of them have to be here."""
        place = {smiles: number for number, smiles in enumerate(self.smiles)}
        rows = np.array([place[molecule] for molecule in smiles], dtype=np.int64)
        names = [field.name for field in fields(self) if field.name != "smiles"]
        return Answers(tuple(smiles), *(getattr(self, name)[rows] for name in names))


_kept: Memo[Answers] = Memo(MOST_KEPT)


COUNTED = ("junk_letters_share", "junk_nonnumeric_share", "cut_share")


def answers_of(store: Store, runs: Sequence[Entry]) -> Answers:
    """The first run's answers; its time is the mean of all that did the same work."""
    wall_s = float(np.mean([entry.row["wall_s"] for entry in runs]))
    return _kept.of((*runs[0].key, wall_s), lambda: _read(store, runs[0], wall_s))


def _read(store: Store, entry: Entry, wall_s: float) -> Answers:
    run = samples_of(store, entry)
    more = store.table(_MORE, {"run": entry.id}, of=[entry.id])
    blocks, atoms = (more[name].to_numpy().astype(np.float64) for name in ("blocks", "heavy_atoms"))
    encoded = run.smiles.dictionary_encode()
    molecule = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    columns = run.columns
    is_counted = np.isfinite(columns["junk_letters_share"]) & np.isfinite(columns["cut_share"]) & np.isfinite(blocks)
    rmsd = columns["rmsd_ang"]
    figures = (
        np.ones(len(run)),
        np.isfinite(columns["usable_rate"]),
        np.nan_to_num(columns["usable_rate"]),
        columns["clean_rate"],
        columns["decodes_rate"],
        columns["pass_rate"],
        wall_s / entry.row["wall_s"] * columns["wall_s_a_sample"],
        *(np.where(is_counted, columns[name], 0) for name in COUNTED),
        np.where(is_counted, blocks, 0),
        np.nan_to_num(rmsd),
        np.isfinite(rmsd),
        np.nan_to_num(atoms),
    )
    count = len(encoded.dictionary)
    summed = [np.bincount(molecule, np.asarray(column), count).astype(np.float64) for column in figures]
    return Answers(tuple(encoded.dictionary.to_pylist()), *summed)


def shared_molecules(runs: Sequence[Answers], least: int) -> tuple[list[str], list[bool]]:
    """The molecules that the runs share, and which runs are in: a run that shares too few molecules is left out.

    The first run is always in: give the baseline first.
    """
    if not runs:
        return [], []
    shared, is_in = list(runs[0].smiles), [True]
    for answers in runs[1:]:
        known = set(answers.smiles)
        both = [smiles for smiles in shared if smiles in known]
        enough = len(both) >= max(least, len(shared) // 2) or len(both) == len(shared)
        is_in.append(enough)
        shared = both if enough else shared
    return shared, is_in


def drawn_ratios(parts: Sequence[tuple[Array, Array]], seed: int) -> Array:
    """Quotients of sums, each over the same drawn molecules: [draws, parts]."""
    values, weights = (np.stack([part[side] for part in parts], axis=1) for side in (0, 1))
    sums = Sums(values, weights, weights)
    return paired_means(sums, sums, seed)[0]


def drawn_clock(runs: Sequence[Entry], seed: int) -> Array | None:
    """The factor by which the time differs in each draw of the runs of the same work; None of a single run."""
    walls = np.array([entry.row["wall_s"] for entry in runs], dtype=np.float64)
    if len(walls) < 2:
        return None
    rng = np.random.default_rng(seed)
    found: Array = walls[rng.integers(0, len(walls), (RESAMPLES, len(walls)))].mean(axis=1) / walls.mean()
    return found


def spread(runs: Sequence[Entry]) -> float | None:
    """The longest time of the same work over the shortest."""
    walls = [entry.row["wall_s"] for entry in runs]
    return max(walls) / min(walls) if len(walls) > 1 else None
