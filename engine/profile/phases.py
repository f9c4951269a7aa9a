"""The time of each step of a captured generation by phase, and what the step wrote: normal tokens, junk, or a cut.

Times are the host's: where a device works asynchronously, a phase is the time to launch its work. A step covers all
rows of its batch, so it may write junk in one row and clean tokens in others; its tokens say which. Unmarked time is
``other``; what is inside of two phases belongs to the inner one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.decode.phases import PREFIX, STEP
from engine.profile.spans import own_times
from engine.store.entries import Entry
from engine.store.store import Store

OTHER, TEMPLATE = "other", "template"
PHASES = (TEMPLATE, "prefill", "forward", "constraint", "sample", OTHER)
NAMES = {f"{PREFIX}decode": "forward"} | {f"{PREFIX}{name}": name for name in PHASES[:-1]}
# Late in a long trace, a float may not tell a mark's end from its start: such a mark takes no time.
MARKS = """
SELECT name, thread, start_us, dur_us FROM trace_marks
WHERE family = $family AND start_us + dur_us > start_us AND list_contains($names, name) ORDER BY start_us, -dur_us
"""
WRITTEN = "SELECT step, list(DISTINCT coalesce(mark, 'unknown')) AS marks FROM trace_steps GROUP BY step"


@dataclass(frozen=True, slots=True)
class StepPhases:
    """One step. ``phases_us`` add up to ``dur_us``; ``state`` is normal, junk, cut or unknown."""

    step: int
    start_us: float
    dur_us: float
    phases_us: Mapping[str, float]
    state: str


def steps_of(store: Store, entry: Entry) -> tuple[list[StepPhases], float | None, str]:
    """The steps; the time of the templates, made before the first; and what is not known, or an empty text."""
    marks = marks_of(store, entry, "annotation")
    start, dur = (np.rint([1000 * row[name] for row in marks]).astype(np.int64) for name in ("start_us", "dur_us"))
    lane = np.array([row["thread"] for row in marks], np.int64)
    own, parent = own_times(lane, start, start + dur)
    phases: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for place, row in enumerate(marks):
        above = place
        while above >= 0 and marks[above]["name"] != STEP:
            above = int(parent[above])
        if above >= 0 and own[place] > 0:
            # What plain `generate` does between its marks is inside of a decode that is outside of the step.
            outer = marks[parent[place]]["name"] if place == above and parent[place] >= 0 else row["name"]
            phases[above][NAMES.get(outer, OTHER)] += float(own[place]) / 1000
    written = {row["step"]: row["marks"] for row in store.table(WRITTEN, of=[entry.id]).to_pylist()}
    steps = []
    for number, place in enumerate(place for place, row in enumerate(marks) if row["name"] == STEP):
        found = written.get(number, ["unknown"])
        state = next((state for state in ("junk", "cut", "unknown") if state in found), "normal")
        steps.append(StepPhases(number, marks[place]["start_us"], marks[place]["dur_us"], phases[place], state))
    templates = [row["dur_us"] for row in marks if row["name"] == f"{PREFIX}{TEMPLATE}"]
    why = ""
    if not steps:
        why = "it has no marks of passes: it was not captured here, or by a backend without separate passes"
    elif all(step.state == "unknown" for step in steps):
        why = "which tokens of its passes are junk is not known"
    return steps, sum(templates) if templates else None, why


def marks_of(store: Store, entry: Entry, family: str) -> list[dict[str, Any]]:
    """Those of steps and their phases."""
    rows: list[dict[str, Any]]
    rows = store.table(MARKS, {"family": family, "names": [STEP, *NAMES]}, of=[entry.id]).to_pylist()
    return rows


def mean_us(steps: Sequence[StepPhases]) -> dict[str, float]:
    """Mean time per step by phase."""
    names = [name for name in PHASES if any(name in step.phases_us for step in steps)]
    return {name: sum(step.phases_us.get(name, 0.0) for step in steps) / len(steps) for name in names}
