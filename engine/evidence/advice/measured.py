"""The answers of one run, summed a molecule, with the run's wall time shared out among them.

A run has one wall time. It is shared out by how long each answer was being written, because a row of a batch takes its
share of every pass that it is in: so a molecule has a cost, and drawing molecules anew tells how much of the mean hangs
on which were asked. Runs that did the very same work again give the clock's own spread. What else the machine did while
a run ran alone is in no figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.comparing.bootstrap import RESAMPLES, Sums, paired_means
from engine.comparing.reading import RunSamples, samples_of
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
    clean: Array
    passed: Array
    seconds: Array
    letters: Array  # blocks with a letter, and so on
    nonnumeric: Array
    cut: Array
    blocks: Array  # 0 where nobody counted them
    rmsd_ang: Array
    rmsd_known: Array  # answers whose RMSD is known
    heavy_atoms: Array

    def only(self, smiles: Sequence[str]) -> Answers:
        """Of these molecules, in this order; all of them have to be here."""
        place = {one: number for number, one in enumerate(self.smiles)}
        rows = np.array([place[one] for one in smiles], dtype=np.int64)
        names = [one.name for one in fields(self) if one.name != "smiles"]
        return Answers(tuple(smiles), *(getattr(self, name)[rows] for name in names))


_kept: Memo[Answers] = Memo(MOST_KEPT)


def answers_of(store: Store, runs: Sequence[Entry]) -> Answers:
    """The first run's answers; its time is the mean of all that did the same work."""
    wall_s = float(np.mean([entry.row["wall_s"] for entry in runs]))
    return _kept.of((*runs[0].key, wall_s), lambda: _read(store, runs[0], wall_s))


def _read(store: Store, entry: Entry, wall_s: float) -> Answers:
    run = samples_of(store, entry)
    more = store.table(_MORE, {"run": entry.id}, of=[entry.id])
    blocks, atoms = (_known(more[name]) for name in ("blocks", "heavy_atoms"))
    encoded = run.smiles.dictionary_encode()
    molecule = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    columns = run.columns
    is_counted = np.isfinite(columns["junk_letters"]) & np.isfinite(columns["cut_blocks"]) & np.isfinite(blocks)
    rmsd = columns["rmsd_ang"]
    figures = (
        np.ones(len(run)),
        columns["clean"],
        columns["passed"],
        wall_s * _shares(run),
        *(np.where(is_counted, columns[name], 0) for name in ("junk_letters", "junk_nonnumeric", "cut_blocks")),
        np.where(is_counted, blocks, 0),
        np.nan_to_num(rmsd),
        np.isfinite(rmsd),
        np.nan_to_num(atoms),
    )
    count = len(encoded.dictionary)
    summed = [np.bincount(molecule, np.asarray(one), count).astype(np.float64) for one in figures]
    return Answers(tuple(encoded.dictionary.to_pylist()), *summed)


def _shares(run: RunSamples) -> Array:
    """Of the run's time; by tokens where no answer was timed, else alike."""
    for name in ("decode_s", "tokens"):
        spent = run.columns[name]
        if len(spent) and np.isfinite(spent).all() and spent.sum() > 0:
            return spent / float(spent.sum())
    return np.full(len(run), 1 / max(1, len(run)))


def _known(column: pa.ChunkedArray) -> Array:
    found: Array = column.to_numpy().astype(np.float64)
    return found


def shared_molecules(found: Sequence[Answers], least: int) -> tuple[list[str], list[bool]]:
    """The molecules that all of these were asked for, and who is in: who shares too few of them is left out.

    The first is in; so it should be the one that the others are compared with.
    """
    if not found:
        return [], []
    shared, is_in = list(found[0].smiles), [True]
    for one in found[1:]:
        own = set(one.smiles)
        both = [smiles for smiles in shared if smiles in own]
        enough = len(both) >= max(least, len(shared) // 2) or len(both) == len(shared)
        is_in.append(enough)
        shared = both if enough else shared
    return shared, is_in


def drawn_ratios(parts: Sequence[tuple[Array, Array]], seed: int) -> Array:
    """Quotients of sums, each over the same molecules drawn anew: [draws, parts]."""
    values, weights = (np.stack([part[side] for part in parts], axis=1) for side in (0, 1))
    sums = Sums(values, weights, weights)
    return paired_means(sums, sums, seed)[0]


def drawn_clock(runs: Sequence[Entry], seed: int) -> Array | None:
    """By which factor the time was another, with the runs of the same work drawn anew; None of a single run."""
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
