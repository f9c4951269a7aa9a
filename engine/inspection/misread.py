"""Blocks that the group's reader misreads without an error, run by run: how many, how far, and the farthest one; and
how far all damage moves the atoms of a sample.

Counted in the stored blocks, so runs of any schema version have the figures. Under the reports' rule and under the
runner's, such a block passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.chem.group_reader import misread_ang
from engine.inspection.memo import computed_once
from engine.store.entries import Entry, model_name
from engine.store.schema import BLOCKS
from engine.store.store import Store
from engine.text.blocks import SOUND, displacement_ang

MOST_KEPT = 1_000
# Three plain numbers are the same to every reader.
_LOST = r"""
SELECT run_id, sample_id, coalesce(text, '') AS text, x, y, z, continued_text FROM blocks
WHERE list_contains($runs, run_id) AND NOT list_contains($sound, kinds[1])
      AND (continued_text IS NOT NULL OR NOT regexp_full_match(text, '(-?\d+(\.\d*)?,){2}-?\d+(\.\d*)?'))
ORDER BY run_id, sample_id, block
"""
_DAMAGED = "SELECT text, x, y, z FROM blocks WHERE run_id = $run AND NOT list_contains($sound, kinds[1]) ORDER BY ALL"


@dataclass(frozen=True, slots=True)
class RunMisread:
    """One run. ``text`` is the content of its farthest block, ``most_ang`` how far that one is off."""

    run_id: str
    origin: str
    model: str
    lp: str
    blocks: int
    misread: int
    most_ang: float | None  # None where no misread block states three numbers
    text: str


def misread_by_run(store: Store, entries: Iterable[Entry]) -> list[RunMisread]:
    """The runs with misread blocks, the largest share first."""
    damaged = [entry for entry in entries if entry.row.get("bad_blocks") and BLOCKS.name in entry.parts]
    counted = [misread_of(store, entry) for entry in damaged if entry.row.get("misread_blocks") != 0]
    return sorted((run for run in counted if run.misread), key=lambda run: -run.misread / run.blocks)


def lost_ang(row: Mapping[str, Any]) -> float | None:
    """How far a damaged block puts its atom off: the group's reader from what is written first, or a cut from where the
    model would have gone on, which is an estimate. None where neither is known."""
    misread = misread_ang(row["text"], (row["x"], row["y"], row["z"]))
    cut = displacement_ang(row["text"], row["continued_text"]) if row["continued_text"] else None
    return max((ang for ang in (misread, cut) if ang is not None and math.isfinite(ang)), default=None)


def lost_by_sample(store: Store, run_ids: Sequence[str]) -> dict[tuple[str, int], float]:
    """Added up over a sample's blocks, by run and sample: those where it is known of one block at least."""
    rows = store.table(_LOST, {"runs": list(run_ids), "sound": sorted(SOUND)}, of=run_ids)
    lost: dict[tuple[str, int], float] = {}
    for row in rows.to_pylist():
        if (ang := lost_ang(row)) is not None:
            key = (row["run_id"], row["sample_id"])
            lost[key] = lost.get(key, 0.0) + ang
    return lost


@computed_once(MOST_KEPT)
def misread_of(store: Store, entry: Entry) -> RunMisread:
    rows = store.table(_DAMAGED, {"run": entry.id, "sound": sorted(SOUND)}, of=[entry.id]).to_pylist()
    found = [(misread_ang(row["text"], (row["x"], row["y"], row["z"])), row["text"]) for row in rows]
    misread = [(ang, text) for ang, text in found if ang is not None]
    most_ang, text = max((far for far in misread if math.isfinite(far[0])), default=(None, ""))
    return RunMisread(
        run_id=entry.id,
        origin=str(entry.row["origin"]),
        model=model_name(entry.row),
        lp=str(entry.row.get("lp") or "unknown LP"),
        blocks=entry.parts[BLOCKS.name].rows,
        misread=len(misread),
        most_ang=most_ang,
        text=text,
    )
