"""Two runs, sample by sample, read without opening the files of any other run: what differs by more than which
molecules were asked explains.

Answers are paired by molecule and generation; an answer without a partner is left out, and counted. A measure is told
over the pairs in which both sides have it, so RMSD speaks of answers that could be laid on a reference in both runs,
and drift of those with a known one: each measure says how many pairs that is. Pace is over all answers of the
molecules that both runs have, as each run's own pace is. Runs that share no molecule are compared by drawing each side
by itself, which finds less. Time is that of one run on one machine: its interval knows nothing of what else ran there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.comparing.measures import SAMPLED, has_samples
from engine.figures import statistics
from engine.figures.statistics import LEAST_MOLECULES, Array, Interval, Sums, sums_by_molecule
from engine.store.entries import Entry
from engine.store.memo import Memo, computed_once, entry_key
from engine.store.schema import BLOCKS, SAMPLES
from engine.store.store import Store
from engine.store.views import WALL_PART_S

NAMES = tuple(measure.name for measure in SAMPLED)
WEIGHTS = {measure.over: f"weight_{column}" for column, measure in enumerate(SAMPLED) if measure.over}
"""What quotients are over, in SQL, and a name for it."""
MOST_RUNS, MOST_PAIRS = 24, 64  # kept; the columns of a run of 100,000 samples take some 20 MB
MOST_AHEAD = 100_000  # samples that are read before anything asks for them
Rows = NDArray[np.int64]
_IS_PACE = np.array([measure.is_time for measure in SAMPLED])

# Twice the same molecule in one list: its answers are distinguished by their order.
_SAMPLES = f"""
WITH of_blocks AS (
    SELECT run_id, sample_id, count_if(regexp_matches(text, '\\p{{L}}')) AS junk_letters,
           count_if(regexp_matches(text, '[^0-9.,-]')) AS junk_nonnumeric, avg(abs(drift)) AS drift_abs,
           count(drift) AS drift_blocks
    FROM blocks WHERE list_contains($runs, run_id) GROUP BY ALL
), timed AS (
    SELECT samples.*, {WALL_PART_S} AS wall_part_s, list_contains($with_blocks, run_id) AS has_blocks
    FROM samples JOIN runs USING (run_id) WHERE list_contains($runs, run_id)
)
SELECT run_id, sample_id, smiles, coalesce(generation, 0) AS generation,
       (row_number() OVER (PARTITION BY run_id, smiles, generation ORDER BY sample_id) - 1)::INT AS repeat,
       drift::DOUBLE AS drift, blocks::DOUBLE AS blocks, heavy_atoms::DOUBLE AS heavy_atoms,
       {", ".join(f"({m.sample})::DOUBLE AS {m.name}" for m in SAMPLED)},
       {", ".join(f"coalesce({over}, 0)::DOUBLE AS {name}" for over, name in WEIGHTS.items())}
FROM timed LEFT JOIN of_blocks USING (run_id, sample_id) ORDER BY run_id, sample_id
"""


@dataclass(frozen=True, slots=True, eq=False)
class RunSamples:
    """One run, a row per sample. ``repeat`` counts answers of the same molecule and generation from 0."""

    run_id: str
    sample_id: Rows
    smiles: pa.Array
    generation: Rows
    repeat: Rows
    columns: dict[str, Array]  # by name of a measure, sum of drift, blocks and heavy atoms; NaN where not known
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
    measures: tuple[Compared, ...]
    reason: str  # why no measure has an interval; empty where some may

    def measure(self, name: str) -> Compared:
        return self.measures[NAMES.index(name)]

    @property
    def is_paired(self) -> bool:
        return self.shared > 0


_samples: Memo[RunSamples] = Memo(MOST_RUNS)


def samples_of(store: Store, entry: Entry) -> RunSamples:
    return _samples.of(entry_key(entry), lambda: _read(store, [entry])[0])


def read_ahead(store: Store, entries: Sequence[Entry]) -> None:
    """The samples of these runs in one query, which takes as long as two for a run each: for what then asks for each.
    Of large or many runs nothing: they would not all be kept."""
    entries = [entry for entry in entries if has_samples(entry)]
    if len(entries) <= MOST_RUNS and sum(entry.parts[SAMPLES.name].rows for entry in entries) <= MOST_AHEAD:
        for entry, run in zip(entries, _read(store, entries) if entries else (), strict=True):
            _samples.put(entry_key(entry), run)


def _read(store: Store, entries: Sequence[Entry]) -> list[RunSamples]:
    ids = [entry.id for entry in entries]
    with_blocks = [entry.id for entry in entries if BLOCKS.name in entry.parts]
    table = store.table(_SAMPLES, {"runs": ids, "with_blocks": with_blocks}, of=ids)
    return [_of_rows(id_, table.filter(pc.equal(table["run_id"], id_))) for id_ in ids]


def _of_rows(run_id: str, table: pa.Table) -> RunSamples:
    whole = {name: table[name].to_numpy().astype(np.int64) for name in ("sample_id", "generation", "repeat")}
    return RunSamples(
        run_id=run_id,
        smiles=table["smiles"].combine_chunks(),
        columns={name: _finite(table[name]) for name in ("drift", "blocks", "heavy_atoms", *NAMES)},
        weights={over: _finite(table[name]) for over, name in WEIGHTS.items()},
        **whole,
    )


def _finite(column: pa.ChunkedArray) -> Array:
    """NaN where it is null, or no finite number."""
    values: Array = column.cast(pa.float64()).to_numpy().astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)


@computed_once(MOST_PAIRS)
def compare_entries(store: Store, control: Entry, test: Entry) -> PairedRuns:
    """Both runs sample by sample; of one without samples nothing, and why."""
    why = {"reported": "is reported: a text states its figures, and there are no samples to draw from"}
    without = [f"{e.id} {why.get(e.row['origin'], 'has no samples')}." for e in (control, test) if not has_samples(e)]
    if without:
        nothing = tuple(Compared(name, 0, 0, None, None, None, None, without[0]) for name in NAMES)
        return PairedRuns(control.id, test.id, 0, 0, 0, 0, nothing, " ".join(without))
    control_run, test_run = samples_of(store, control), samples_of(store, test)
    rows, partners, of_control, of_test = pairs_of(control_run, test_run)
    shared, molecule = np.unique(of_control[rows], return_inverse=True)
    runs = ((control_run, of_control, rows), (test_run, of_test, partners))
    is_paired = len(shared) > 0
    sides: list[Sums] = []  # [molecules, measures]
    if is_paired:
        of_pairs = [_parts(run, rows) for run, _, rows in runs]
        is_known = np.isfinite(of_pairs[0][0]) & np.isfinite(of_pairs[1][0])
        for (values, weights), (run, number, _) in zip(of_pairs, runs, strict=True):
            paired = sums_by_molecule(np.where(is_known, values, np.nan), weights, molecule, len(shared))
            all_ = np.flatnonzero(np.isin(number, shared))  # pace is over all of the run's answers of these molecules
            whole = sums_by_molecule(*_parts(run, all_), np.searchsorted(shared, number[all_]), len(shared))
            parts = ("values", "weights", "answers")
            sides.append(Sums(*(np.where(_IS_PACE, getattr(whole, part), getattr(paired, part)) for part in parts)))
    else:
        for run, number, _ in runs:
            codes, of_molecule = np.unique(number, return_inverse=True)
            sides.append(sums_by_molecule(*_parts(run, np.arange(len(run))), of_molecule, len(codes)))
    drawn = (statistics.paired_means if is_paired else statistics.unpaired_means)(sides[0], sides[1])
    measures = []
    for column, name in enumerate(NAMES):
        first, second = (side.only(column) for side in sides)
        measures.append(_compared(name, first, second, (drawn[0][:, column], drawn[1][:, column]), is_paired))
    alone = len(control_run) - len(rows), len(test_run) - len(rows)
    return PairedRuns(control.id, test.id, len(rows), len(shared), *alone, tuple(measures), "")


def pairs_of(control: RunSamples, test: RunSamples) -> tuple[Rows, Rows, Rows, Rows]:
    """Rows of both that answer the same molecule and generation, in the control's order (of a molecule asked for twice,
    in the order of its answers); and of every row of both, a number for its molecule."""
    encoded = pa.concat_arrays([control.smiles, test.smiles]).dictionary_encode()
    key = number = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    for of in ("generation", "repeat"):
        more = np.concatenate([getattr(control, of), getattr(test, of)])
        key = key * (more.max(initial=0) + 1) + more
    size = len(control)
    _, rows, partners = np.intersect1d(key[:size], key[size:], assume_unique=True, return_indices=True)
    order = np.argsort(rows)
    return rows[order], partners[order], number[:size], number[size:]


def _parts(run: RunSamples, rows: Rows) -> tuple[Array, Array]:
    """Values and weights of these rows, [rows, measures] each. What is over nothing is not known."""
    by_name = {**run.weights, "": np.ones(len(run))}
    weights = np.stack([by_name[measure.over] for measure in SAMPLED], axis=1)[rows]
    values = np.stack([run.columns[name] for name in NAMES], axis=1)[rows]
    return np.where(weights > 0, values, np.nan), weights


def _compared(name: str, control: Sums, test: Sums, drawn: tuple[Array, Array], is_paired: bool) -> Compared:
    answers = [int(side.answers.sum()) for side in (control, test)]
    molecules = [int((side.answers > 0).sum()) for side in (control, test)]
    counted = (answers[0], molecules[0]) if is_paired else (sum(answers), sum(molecules))
    first, second = control.mean, test.mean
    if first is None or second is None:
        without = " or the ".join(side for side, count in zip(("control", "test"), answers, strict=True) if not count)
        reason = "No pair has it on both sides." if is_paired else f"No sample of the {without} has it."
        return Compared(name, *counted, first, second, None, None, reason)
    least = min(molecules)
    draws = None if least < LEAST_MOLECULES else drawn
    reason = "" if draws else f"Fewer than {LEAST_MOLECULES} molecules: no interval."
    gap, over = statistics.difference(first, second, draws, least), statistics.ratio(first, second, draws, least)
    return Compared(name, *counted, first, second, gap, over, reason)
