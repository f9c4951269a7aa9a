"""Control against test, one point per molecule and generation, with the samples' ids so that a point has its texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.comparing.measures import COLUMNS, Measure
from engine.comparing.paired import pairs_of
from engine.comparing.reading import run_samples
from engine.store.store import Store

POINTS = pa.schema(
    [
        ("smiles", pa.string()),
        ("generation", pa.int64()),
        ("control_sample", pa.int64()),  # sample_id in the control
        ("test_sample", pa.int64()),
        ("control", pa.float64()),
        ("test", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """``points`` as in ``POINTS``: pairs in which both sides are known, in the control's order."""

    control: str
    test: str
    measure: Measure
    points: pa.Table
    shared: int  # pairs
    unknown: int  # those without a point: one side, or both, do not have the measure
    control_alone: int  # answers without a partner
    test_alone: int

    @property
    def above(self) -> int:
        """Points where the test has more."""
        return int((self.points["test"].to_numpy() > self.points["control"].to_numpy()).sum())

    @property
    def below(self) -> int:
        return int((self.points["test"].to_numpy() < self.points["control"].to_numpy()).sum())


def scatter(store: Store, control: str, test: str, column: str) -> Scatter:
    """``column`` is a name of ``COLUMNS``. Runs without samples have no points."""
    if column not in COLUMNS:
        raise ValueError(f"a scatter shows {', '.join(COLUMNS)}, not {column!r}")
    one, other = run_samples(store, control), run_samples(store, test)
    pairs = pairs_of(one, other)
    left, right = one.columns[column][pairs.control_rows], other.columns[column][pairs.test_rows]
    is_known = np.isfinite(left) & np.isfinite(right)
    mine, theirs = pairs.control_rows[is_known], pairs.test_rows[is_known]
    points = pa.table(
        [
            one.smiles.take(pa.array(mine)),
            one.generation[mine],
            one.sample_id[mine],
            other.sample_id[theirs],
            left[is_known],
            right[is_known],
        ],
        schema=POINTS,
    )
    alone = (len(one) - len(pairs), len(other) - len(pairs))
    return Scatter(one.run_id, other.run_id, COLUMNS[column], points, len(pairs), int((~is_known).sum()), *alone)
