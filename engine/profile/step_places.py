"""The work of a trace by its place in the step: which families run in the forward pass, in the LP, in drawing tokens.

Two backends do the same work with kernels of other names; its place and its family are the same in both. Places are
the marks of our engine; where a device works, their copies on it. Work is spread over a place by the trace's bins
(4,096 for all of it), so a place is known to a bin. What a trace has no marks of is None.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.decode.phases import STEP
from engine.figures.statistics import quotient
from engine.figures.words import listed, microseconds, number, signed_microseconds
from engine.inspection.memo import computed_once
from engine.profile.cautions import WINDOW
from engine.profile.compare import TraceComparison
from engine.profile.phases import NAMES, OTHER
from engine.profile.stored_trace import stored_table
from engine.profile.timeline import Floats, Timeline, timelines
from engine.store.entries import Entry
from engine.store.trace_schema import TRACE_MARKS

OUTSIDE = "outside the passes"
PLACE_WORDS = {
    "forward": "the forward pass itself",
    "prefill": "the pass over the prompts",
    "constraint": "the LP",
    "sample": "drawing tokens",
    "template": "making templates",
    OTHER: "the rest of the pass",
    OUTSIDE: OUTSIDE,
}
MOST_NAMED = 2
LEAST_NAMED = 0.1  # of all changes
Marks = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class PlacedWork:
    """``work_us`` by place and family, of all steps together."""

    steps: int
    work_us: Mapping[tuple[str, str], float]

    def per_step(self, key: tuple[str, str]) -> float:
        return self.work_us.get(key, 0.0) / self.steps


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """One family's work at one place, per step."""

    place: str
    family: str
    control_us: float
    test_us: float

    @property
    def difference_us(self) -> float:
        return self.test_us - self.control_us


@computed_once(6)
def placed_work(entry: Entry) -> PlacedWork | None:
    marks = stored_table(entry, TRACE_MARKS)
    sides = timelines(entry)
    side = "device" if "device" in sides else "host"
    if marks is None or side not in sides:
        return None
    family = "gpu_annotation" if side == "device" else "annotation"
    rows = [row for row in marks.to_pylist() if row["family"] == family and row["dur_us"] > 0]
    spans = [row for row in rows if row["name"] == STEP]
    if not spans:
        return None
    timeline = sides[side]
    shares = _shares(timeline, spans, [row for row in rows if row["name"] in NAMES])
    work = {
        (place, name): float(busy @ share)
        for place, share in shares.items()
        for name, busy in zip(timeline.families, timeline.busy_us, strict=True)
    }
    return PlacedWork(len(spans), {key: time for key, time in work.items() if time > 0})


def _shares(timeline: Timeline, spans: Marks, marks: Marks) -> dict[str, Floats]:
    """[bins] by place: of each bin's time. Where marks lie inside of one another, the one that begins last counts."""
    edges = np.unique([end for row in (*spans, *marks) for end in (row["start_us"], row["start_us"] + row["dur_us"])])
    places = np.full(len(edges) - 1, OUTSIDE, dtype=object)
    for row in (*spans, *sorted(marks, key=lambda row: row["start_us"])):
        first, last = np.searchsorted(edges, [row["start_us"], row["start_us"] + row["dur_us"]])
        places[first:last] = NAMES.get(row["name"], OTHER)
    width = np.diff(timeline.edges_us)
    shares = {}
    for place in set(places) - {OUTSIDE}:
        passed = np.concatenate([[0.0], np.cumsum(np.where(places == place, np.diff(edges), 0.0))])
        shares[place] = np.diff(np.interp(timeline.edges_us, edges, passed)) / width
    return {**shares, OUTSIDE: np.clip(1 - sum(shares.values()), 0.0, 1.0)}


def place_rows(comparison: TraceComparison) -> list[PlaceRow]:
    """By place and family, the largest difference first; empty where one of the traces has no marks of steps."""
    control, test = (placed_work(trace.entry) for trace in (comparison.control, comparison.test))
    if control is None or test is None or comparison.control.work_side != comparison.test.work_side:
        return []
    keys = dict.fromkeys([*control.work_us, *test.work_us])
    rows = [PlaceRow(*key, control.per_step(key), test.per_step(key)) for key in keys]
    return sorted(rows, key=lambda row: (-abs(row.difference_us), row.place, row.family))


def place_words(rows: Sequence[PlaceRow]) -> str:
    """Per pass, which places make the difference, each with its largest family; empty where nothing is known."""
    by_place: dict[str, list[PlaceRow]] = defaultdict(list)
    for row in rows:
        by_place[row.place].append(row)
    changes = {place: sum(row.difference_us for row in rows) for place, rows in by_place.items()}
    moved = sum(map(abs, changes.values()))
    named = sorted((place for place in changes if abs(changes[place]) >= LEAST_NAMED * moved > 0),
                   key=lambda place: -abs(changes[place]))[:MOST_NAMED]  # fmt: skip
    if not named:
        return ""
    parts = []
    for place in named:
        first = by_place[place][0]
        family = f" ({first.family} {signed_microseconds(first.difference_us)})" if len(by_place[place]) > 1 else ""
        parts.append(f"{PLACE_WORDS[place]} takes {_more(changes[place])}{family}")
    control, test = (microseconds(sum(getattr(row, name) for row in rows)) for name in ("control_us", "test_us"))
    return f"Per pass, B's work takes {test} and A's {control}: {listed(parts)}."


def pass_words(comparison: TraceComparison) -> str:
    """Where passes write unlike numbers of tokens, a longer pass may be no longer per token."""
    control, test = (
        quotient(trace.known("tokens"), trace.known("forward_passes"))
        for trace in (comparison.control, comparison.test)
    )
    if not control or not test or abs(test / control - 1) <= WINDOW:
        return ""
    return f"A pass of B writes {number(test)} tokens, one of A {number(control)}."


def _more(change_us: float) -> str:
    return f"{microseconds(abs(change_us))} {'more' if change_us >= 0 else 'less'}"
