"""Blocks that the group's reader misreads without an error, run by run: how many, how far, and the farthest one.

Counted in the stored blocks, so runs of any schema version have the figures. Under the reports' rule and under the
runner's, such a block passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from engine.chem.group_reader import misread_ang
from engine.inspection.memo import computed_once
from engine.store.entries import Entry, model_name
from engine.store.schema import BLOCKS
from engine.store.store import Store
from engine.text.blocks import SOUND

MOST_KEPT = 1_000
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
