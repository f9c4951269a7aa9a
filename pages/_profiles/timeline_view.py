"""What a timeline draws of one trace in one window, without a widget."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.figures.words import counted, listed, microseconds, percent, shortened
from engine.profile.timeline import EventWindow, Gap, Stretch, TraceMark, has_events
from engine.store.entries import Entry
from pages._profiles.traces import TraceSelection
from pages._shared.words import visible_text

AREAS, STRIPS = "Areas", "Strips"
FORMS = (AREAS, STRIPS)
MOST_MARKS, MOST_GAPS, MOST_EVENTS = 600, 60, 1_500
MOST_FAMILIES = 7
REST = "all other"


@dataclass(frozen=True, slots=True)
class TimelineView:
    """``shift_us`` is the trace's own time at 0 ms; ``window_ms`` is on the axis. ``events``: None where none show."""

    entry: Entry
    name: str
    shift_us: float
    window_ms: tuple[float, float]
    totals_us: Mapping[str, float]  # of the whole trace, by family
    stretch: Stretch
    marks: tuple[TraceMark, ...]
    marks_count: int
    gaps: tuple[Gap, ...]
    events: EventWindow | None

    @property
    def width_us(self) -> float:
        return 1000 * (self.window_ms[1] - self.window_ms[0])

    def axis_ms(self, time_us: float) -> float:
        return (time_us - self.shift_us) / 1000

    @property
    def taken_us(self) -> dict[str, float]:
        """Of the window, by each family."""
        column = float(self.stretch.edges_us[1] - self.stretch.edges_us[0])
        sums = self.stretch.share.sum(axis=1) * column
        return dict(zip(self.stretch.families, sums.tolist(), strict=True))

    def share_of(self, families: Sequence[str]) -> list[float]:
        """Of each column's time, in percent, by some families together."""
        rows = [place for place, name in enumerate(self.stretch.families) if name in families]
        if not rows:
            return [0.0] * self.stretch.share.shape[1]
        found: list[float] = (100 * self.stretch.share[rows].sum(axis=0)).tolist()
        return found

    @property
    def most_percent(self) -> float:
        return float(100 * np.max(self.stretch.share.sum(axis=0), initial=0.0))

    @property
    def phases(self) -> list[str]:
        """In the order in which they first come."""
        return list(dict.fromkeys(mark.phase for mark in self.marks))


def ranked(views: Sequence[TimelineView]) -> dict[str, tuple[str, ...]]:
    """The families that are drawn, those first that take most of both, and what each holds: the last may be a rest.

    The same in every window, so that a colour stays a family's."""
    sums: dict[str, float] = {}
    for view in views:
        for name, taken in view.totals_us.items():
            sums[name] = sums.get(name, 0.0) + taken
    names = sorted((name for name in sums if sums[name] > 0), key=lambda name: -sums[name])
    drawn = len(names) if len(names) == MOST_FAMILIES + 1 else MOST_FAMILIES  # a single one is no rest
    rest = tuple(names[drawn:])
    return {name: (name,) for name in names[:drawn]} | ({REST: rest} if rest else {})


MOST_NAME = 60


def answer(chosen: TraceSelection, views: Sequence[TimelineView], *, is_whole: bool) -> str:
    """How busy each trace is, and its longest pause; for a window, what takes most of it."""
    if is_whole:
        return " ".join(_whole(chosen, view) for view in views)
    low, high = views[0].window_ms
    return f"From {low:,.3f} to {high:,.3f} ms: " + " ".join(_window(chosen, view) for view in views)


def _whole(chosen: TraceSelection, view: TimelineView) -> str:
    letter, row = chosen.letter(view.entry.id), view.entry.row
    busy, idle = row.get("busy_us"), row.get("idle_us")
    if busy is None or idle is None or busy + idle <= 0:
        length_us = max((row.get("span_us") or view.width_us) - view.shift_us, 1e-3)
        share, first = percent(sum(view.taken_us.values()) / length_us), _first(view, length_us)
        return f"{letter} has no device: operators take {share} of its {microseconds(length_us)}{first}."
    working, idling = percent(busy / (busy + idle)), percent(idle / (busy + idle))
    words = f"{letter}: between first and last work the device is busy {working} of the time and idle {idling}"
    if not view.gaps:
        return f"{words}; it has no pause."
    gap = max(view.gaps, key=lambda gap: gap.gap_us)
    length = microseconds(gap.gap_us)
    return f"{words}; its longest pause, {length}, is between {_name(gap.before)} and {_name(gap.after)}."


def _window(chosen: TraceSelection, view: TimelineView) -> str:
    letter, taken = chosen.letter(view.entry.id), sum(view.taken_us.values())
    if not taken:
        return f"{letter} is idle here."
    paused = sum(_inside(view, gap.start_us, gap.gap_us) for gap in view.gaps)
    pauses = f", long pauses are {percent(paused / view.width_us)}" if paused else ""
    return f"{letter}: work takes {percent(taken / view.width_us)} of it{_first(view, view.width_us)}{pauses}."


def _first(view: TimelineView, whole_us: float) -> str:
    """The family that takes most."""
    name, most = max(view.taken_us.items(), key=lambda one: one[1])
    return f", most of it {_name(name)} with {percent(most / whole_us)}" if most else ""


def _inside(view: TimelineView, start_us: float, length_us: float) -> float:
    low = view.shift_us + 1000 * view.window_ms[0]
    return max(0.0, min(start_us + length_us, low + view.width_us) - max(start_us, low))


def _name(text: str) -> str:
    return shortened(visible_text(text), MOST_NAME)


def timeless(chosen: TraceSelection, entry: Entry) -> str:
    """Why a trace has no timeline."""
    why = "a table of sums has no timeline" if entry.row.get("form") == "table" else "no timeline"
    if entry.row.get("origin") == "reported":
        why = "a report states sums only: no timeline"
    return f"{shortened(visible_text(chosen.name(entry.id)), 120)}: {why}."


def sideless(chosen: TraceSelection, entry: Entry, side: str) -> str:
    return f"{shortened(visible_text(chosen.name(entry.id)), 120)} has nothing under {side.lower()!r}."


def notes(views: Sequence[TimelineView]) -> list[str]:
    return [f"{view.name.partition(' ')[0]}: {words}." for view in views for words in _not_drawn(view)]


def _not_drawn(view: TimelineView) -> Iterator[str]:
    if len(view.marks) < view.marks_count:
        yield f"the {len(view.marks):,} longest of {view.marks_count:,} marks in the window"
    if view.events is not None and view.events.count > len(view.events.events):
        yield f"the {MOST_EVENTS:,} longest of {counted(view.events.count, 'event')} in the window"
    if view.events is None and has_events(view.entry):
        yield "single events show in a smaller window"
    elif view.events is None:
        yield "single events were not kept (trace add --events keeps them)"


def alt(views: Sequence[TimelineView], families: dict[str, tuple[str, ...]]) -> str:
    low, high = views[0].window_ms
    lines = []
    for view in views:
        parts = [
            f"{_name(name)} {percent(sum(view.taken_us.get(one, 0.0) for one in held) / view.width_us)}"
            for name, held in families.items()
        ]
        lines.append(f"{shortened(view.name, 30)}: {listed(parts) or 'nothing'}")
    return f"Work along time, from {low:,.3f} to {high:,.3f} ms. {'. '.join(lines)}."


def rows(views: Sequence[TimelineView]) -> list[dict[str, Any]]:
    """One row per trace and column as drawn; families in percent of the column's time."""
    columns = []
    for view in views:
        names = [f"{name} (%)" for name in view.stretch.families]
        edges = itertools.pairwise(map(view.axis_ms, view.stretch.edges_us.tolist()))
        for (start, end), shares in zip(edges, 100 * view.stretch.share.T, strict=True):
            parts = dict(zip(names, shares.tolist(), strict=True))
            columns.append({"trace": view.name, "from (ms)": start, "to (ms)": end, **parts})
    return columns
