"""The samples of one run as columns of numbers, read without opening the files of any other run.

A view over all runs reads the foot of every file before it can filter; two runs of a thousand are had by naming theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.comparing.measures import COLUMNS, WEIGHTS
from engine.inspection.memo import computed_once
from engine.store.entries import Entry
from engine.store.schema import BLOCKS, SAMPLES
from engine.store.store import Store
from engine.store.views import WALL_PART_S

Array = NDArray[np.float64]

MOST_KEPT = 12
"""Runs whose columns are kept. One of 100,000 samples takes some 20 MB."""

# Twice the same molecule in one list: its answers are told apart by their order.
_SAMPLES = f"""
WITH of_blocks AS (
    SELECT sample_id, count_if(regexp_matches(text, '\\p{{L}}')) AS junk_letters,
           count_if(regexp_matches(text, '[^0-9.,-]')) AS junk_nonnumeric, avg(abs(drift)) AS drift_abs,
           count(drift) AS drift_blocks
    FROM blocks WHERE run_id = $run GROUP BY ALL
)
SELECT sample_id, smiles, coalesce(generation, 0) AS generation,
       (row_number() OVER (PARTITION BY smiles, generation ORDER BY sample_id) - 1)::INT AS repeat,
       {WALL_PART_S} AS wall_part_s, tokens::DOUBLE AS tokens, passed::INT::DOUBLE AS passed,
       decodes::INT::DOUBLE AS decodes, clean::INT::DOUBLE AS clean, usable::INT::DOUBLE AS usable,
       stereo_right::INT::DOUBLE AS stereo_right, geometry_right::INT::DOUBLE AS geometry_right,
       CASE WHEN geometry_right THEN strain_kcal END AS strain_kcal,
       CASE WHEN geometry_right AND same_graph IS NOT FALSE
            THEN strain_kcal / nullif(heavy_atoms, 0) END AS strain_kcal_per_atom,
       CASE WHEN geometry_right THEN strain_moved_ang END AS strain_moved_ang,
       CASE WHEN $has_blocks THEN coalesce(junk_letters, 0) END::DOUBLE AS junk_letters,
       CASE WHEN $has_blocks THEN coalesce(junk_nonnumeric, 0) END::DOUBLE AS junk_nonnumeric,
       cut_blocks::DOUBLE AS cut_blocks, drift_abs, rmsd_ang,
       1000 * wall_part_s / nullif(tokens, 0) AS ms_a_token, forced_tokens / nullif(tokens, 0) AS forced_share,
       bad_blocks::DOUBLE AS bad_blocks, drift::DOUBLE AS drift,
       coalesce(drift_blocks, 0)::DOUBLE AS drift_blocks
FROM samples LEFT JOIN of_blocks USING (sample_id), (SELECT wall_s FROM runs WHERE run_id = $run) AS runs
WHERE run_id = $run ORDER BY sample_id
"""


@dataclass(frozen=True, slots=True, eq=False)
class RunSamples:
    """One run, a row per sample. ``repeat`` counts answers of the same molecule and generation from 0."""

    run_id: str
    sample_id: NDArray[np.int64]
    smiles: pa.Array
    generation: NDArray[np.int64]
    repeat: NDArray[np.int64]
    columns: dict[str, Array]  # by name of a measure, NaN where not known
    weights: dict[str, Array]  # what quotients are over: tokens, and blocks whose drift is known

    def __len__(self) -> int:
        return len(self.sample_id)


def run_samples(store: Store, run_id: str) -> RunSamples:
    """The run of this id, or of a part that no other id has; a run without samples has no rows."""
    return samples_of(store, store.entry(run_id))


def has_samples(entry: Entry) -> bool:
    return SAMPLES.name in entry.parts and entry.parts[SAMPLES.name].rows > 0


@computed_once(MOST_KEPT)
def samples_of(store: Store, entry: Entry) -> RunSamples:
    parameters = {"run": entry.id, "has_blocks": BLOCKS.name in entry.parts}
    table = store.table(_SAMPLES, parameters, of=[entry.id])
    return RunSamples(
        run_id=entry.id,
        sample_id=_whole(table["sample_id"]),
        smiles=table["smiles"].combine_chunks(),
        generation=_whole(table["generation"]),
        repeat=_whole(table["repeat"]),
        columns={name: _known(table[name]) for name in COLUMNS},
        weights={name: _known(table[name]) for name in WEIGHTS},
    )


def _whole(column: pa.ChunkedArray) -> NDArray[np.int64]:
    found: NDArray[np.int64] = column.to_numpy().astype(np.int64)
    return found


def _known(column: pa.ChunkedArray) -> Array:
    """NaN where it is null, or no finite number."""
    found: Array = column.cast(pa.float64()).to_numpy().astype(np.float64)
    return np.where(np.isfinite(found), found, np.nan)
