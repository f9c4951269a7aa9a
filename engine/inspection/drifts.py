"""How many blocks have which drift, by what they have in common; and the same by axis, which no table has.

Drift is known where a block has three complete, uncut numbers: what a cut block would have needed, only the model
could tell. So a position LP's own negative drift is not in these counts; ``unknown_counts`` tells how many blocks are
left out, and why. Runs without an LP that counts positions have both signs, against the default placeholder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pyarrow as pa

from engine.inspection.axes import AXES, axis_drifts
from engine.inspection.runs import RunFacts, runs_with_samples
from engine.store.store import Store

By = Literal["run", "tokenizer", "lp", "element", "axis"]
BYS: tuple[By, ...] = get_args(By)
UNKNOWN = "unknown"
"""The group of blocks whose tokenizer, LP or element is unknown."""
COUNTS = pa.schema([("group", pa.string()), ("drift", pa.int32()), ("blocks", pa.int64())])
UNKNOWNS = pa.schema([("group", pa.string()), ("cut", pa.int64()), ("unverified", pa.int64()), ("other", pa.int64())])

_GROUPS: dict[By, str] = {
    "run": "blocks.run_id",
    "tokenizer": f"coalesce(nullif(tokenizer, ''), '{UNKNOWN}')",
    "lp": f"coalesce(nullif(lp, ''), '{UNKNOWN}')",
    "element": f"coalesce(nullif(element, ''), '{UNKNOWN}')",
}


@dataclass(frozen=True, slots=True)
class DriftBin:
    """One bar of a histogram: a group and a drift."""

    by: By
    group: str
    drift: int


def drift_counts(store: Store, run_ids: Sequence[str], by: By) -> pa.Table:
    """``group``, ``drift``, ``blocks``: only drifts that occur, of both signs. By axis it counts coordinates."""
    if by == "axis":
        return _axis_counts(store, run_ids)
    return store.table(
        f"""SELECT {_group(by)} AS "group", drift, count(*) AS blocks FROM blocks JOIN runs USING (run_id)
        WHERE list_contains($runs, blocks.run_id) AND drift IS NOT NULL GROUP BY ALL ORDER BY ALL""",
        {"runs": list(run_ids)},
    ).cast(COUNTS)


def unknown_counts(store: Store, run_ids: Sequence[str], by: By) -> pa.Table:
    """Blocks without a known drift: ``group``, and how many were cut, are unverified, or have no three numbers.

    By axis there is one group, all blocks: the drift of none of their coordinates is known.
    """
    group = "'all'" if by == "axis" else _group(by)
    return store.table(
        f"""SELECT {group} AS "group", count_if(list_contains(kinds, 'cut')) AS cut,
            count_if(list_contains(kinds, 'unverified')) AS unverified,
            count_if(NOT list_has_any(kinds, ['cut', 'unverified'])) AS other
        FROM blocks JOIN runs USING (run_id)
        WHERE list_contains($runs, blocks.run_id) AND drift IS NULL GROUP BY ALL HAVING count(*) > 0 ORDER BY ALL""",
        {"runs": list(run_ids)},
    ).cast(UNKNOWNS)


def members(store: Store, run_ids: Sequence[str], bin: DriftBin) -> tuple[str, dict[str, Any]]:
    """The samples that have a block, or a coordinate, of this bar, as a query: ``run_id`` and ``sample_id``."""
    if bin.by == "axis":
        place = AXES.index(bin.group) if bin.group in AXES else None
        pairs = [
            (run.run_id, sample_id)
            for run in (_chosen(store, run_ids) if place is not None else ())
            for sample_id in axis_drifts(store, run).samples(place or 0, bin.drift)
        ]
        parameters = {"bin_runs": [run_id for run_id, _ in pairs], "bin_samples": [sample for _, sample in pairs]}
        return "SELECT unnest($bin_runs::VARCHAR[]) AS run_id, unnest($bin_samples::INT[]) AS sample_id", parameters
    sql = f"""SELECT DISTINCT blocks.run_id, sample_id FROM blocks JOIN runs USING (run_id)
        WHERE list_contains($bin_runs, blocks.run_id) AND {_group(bin.by)} = $bin_group AND drift = $bin_drift"""
    return sql, {"bin_runs": list(run_ids), "bin_group": bin.group, "bin_drift": bin.drift}


def _group(by: By) -> str:
    if by not in _GROUPS:
        raise ValueError(f"drift is counted by {', '.join(BYS)}, not by {by!r}")
    return _GROUPS[by]


def _axis_counts(store: Store, run_ids: Sequence[str]) -> pa.Table:
    counts: Counter[tuple[str, int]] = Counter()
    for run in _chosen(store, run_ids):
        drifts = axis_drifts(store, run)
        for place, axis in enumerate(AXES):
            for drift, count in drifts.counts(place).items():
                counts[axis, drift] += count
    rows = [{"group": axis, "drift": drift, "blocks": count} for (axis, drift), count in sorted(counts.items())]
    return pa.Table.from_pylist(rows, schema=COUNTS)


def _chosen(store: Store, run_ids: Sequence[str]) -> list[RunFacts]:
    chosen = set(run_ids)
    return [run for run in runs_with_samples(store) if run.run_id in chosen]
