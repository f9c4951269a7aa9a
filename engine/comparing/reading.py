"""The samples of one run as columns of numbers, read without opening the files of any other run, and two runs paired.

A view over all runs reads the foot of every file before it can filter; two runs of a thousand are had by naming theirs.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engine.comparing.measures import SAMPLED, has_samples
from engine.comparing.paired import NAMES, WEIGHTS, Compared, PairedRuns, RunSamples, compared
from engine.figures.statistics import Array
from engine.inspection.memo import computed_once
from engine.store.entries import Entry
from engine.store.schema import BLOCKS
from engine.store.store import Store
from engine.store.views import WALL_PART_S

MOST_RUNS, MOST_PAIRS = 12, 64
"""Kept. The columns of a run of 100,000 samples take some 20 MB."""

# Twice the same molecule in one list: its answers are told apart by their order.
_SAMPLES = f"""
WITH of_blocks AS (
    SELECT sample_id, count_if(regexp_matches(text, '\\p{{L}}')) AS junk_letters,
           count_if(regexp_matches(text, '[^0-9.,-]')) AS junk_nonnumeric, avg(abs(drift)) AS drift_abs,
           count(drift) AS drift_blocks
    FROM blocks WHERE run_id = $run GROUP BY ALL
), timed AS (
    SELECT samples.*, {WALL_PART_S} AS wall_part_s
    FROM samples, (SELECT wall_s FROM runs WHERE run_id = $run) AS runs WHERE run_id = $run
)
SELECT sample_id, smiles, coalesce(generation, 0) AS generation,
       (row_number() OVER (PARTITION BY smiles, generation ORDER BY sample_id) - 1)::INT AS repeat,
       drift::DOUBLE AS drift, {", ".join(f"({m.sample})::DOUBLE AS {m.name}" for m in SAMPLED)},
       {", ".join(f"coalesce({over}, 0)::DOUBLE AS {name}" for over, name in WEIGHTS.items())}
FROM timed LEFT JOIN of_blocks USING (sample_id) ORDER BY sample_id
"""


@computed_once(MOST_RUNS)
def samples_of(store: Store, entry: Entry) -> RunSamples:
    parameters = {"run": entry.id, "has_blocks": BLOCKS.name in entry.parts}
    table = store.table(_SAMPLES, parameters, of=[entry.id])
    whole = {name: table[name].to_numpy().astype(np.int64) for name in ("sample_id", "generation", "repeat")}
    return RunSamples(
        run_id=entry.id,
        smiles=table["smiles"].combine_chunks(),
        columns={name: _known(table[name]) for name in ("drift", *NAMES)},
        weights={over: _known(table[name]) for over, name in WEIGHTS.items()},
        **whole,
    )


def _known(column: pa.ChunkedArray) -> Array:
    """NaN where it is null, or no finite number."""
    found: Array = column.cast(pa.float64()).to_numpy().astype(np.float64)
    return np.where(np.isfinite(found), found, np.nan)


@computed_once(MOST_PAIRS)
def compare_entries(store: Store, control: Entry, test: Entry, seed: int = 0) -> PairedRuns:
    """Both runs sample by sample; of one without samples nothing, and why."""
    without = [
        f"{entry.id} is reported: a text states its figures, and there are no samples to draw from."
        if entry.row["origin"] == "reported"
        else f"{entry.id} has no samples."
        for entry in (control, test)
        if not has_samples(entry)
    ]
    if without:
        nothing = tuple(Compared(name, 0, 0, None, None, None, None, without[0]) for name in NAMES)
        return PairedRuns(control.id, test.id, 0, 0, 0, 0, (), (), nothing, " ".join(without))
    return compared(samples_of(store, control), samples_of(store, test), seed)
