"""A window of a trace along time, and what is said of it in words, without a widget."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.figures.words import counted, listed, microseconds, percent, shortened
from engine.profile.timeline import EventWindow, Gap, Stretch, Timeline, TraceMark, has_events
from engine.store.entries import Entry
from pages._profiles.traces import TraceSelection
from pages._shared.words import visible_text

COLUMNS = 240
"""Of the table; the canvas has its own."""
MOST_MARKS, MOST_EVENTS, MOST_LANES = 1_000, 3_000, 12
MOST_FAMILIES = 7
REST = "all other"


@dataclass(frozen=True, slots=True)
class TimelineView:
    """``shift_us`` is the trace's own time at 0 ms; ``window_ms`` is on the axis. ``events``: None where none show.

    ``stretch``, ``marks`` and ``events`` are of the window."""

    entry: Entry
    name: str
    timeline: Timeline
    shift_us: float
    window_ms: tuple[float, float]
    stretch: Stretch
    all_marks: tuple[TraceMark, ...]  # the longest of the whole trace
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


def span_us(entry: Entry) -> float:
    return float(entry.row.get("span_us") or 0.0)


def phases_of(marks: Sequence[TraceMark]) -> list[str]:
    """In the order in which they first come."""
    return list(dict.fromkeys(mark.phase for mark in marks))


def lanes_of(view: TimelineView) -> list[str]:
    """Streams or threads of the events that are shown."""
    return sorted({event.lane for event in view.events.events}) if view.events is not None else []


def ranked(views: Sequence[TimelineView]) -> dict[str, tuple[str, ...]]:
    """The families that are drawn, those first that take most of both, and what each holds: the last may be a rest.

    The same in every window, so that a colour stays a family's."""
    sums: dict[str, float] = {}
    for view in views:
        for name, taken in zip(view.timeline.families, view.timeline.total_us.tolist(), strict=True):
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
        return f"{letter} has no device: operators take {share} of its span of {microseconds(length_us)}{first}."
    working, idling = percent(busy / (busy + idle)), percent(idle / (busy + idle))
    words = f"{letter}: between first and last work the device is busy {working} of the time and idle {idling}"
    if not view.gaps:
        return f"{words}; it has no pause."
    return f"{words}; its longest pause is {microseconds(max(gap.gap_us for gap in view.gaps))}."


def _window(chosen: TraceSelection, view: TimelineView) -> str:
    letter, taken = chosen.letter(view.entry.id), sum(view.taken_us.values())
    if not taken:
        return f"{letter} is idle here."
    paused = sum(_inside(view, gap.start_us, gap.gap_us) for gap in view.gaps)
    pauses = f", long pauses are {percent(paused / view.width_us)}" if paused else ""
    return f"{letter}: work takes {percent(taken / view.width_us)} of it{_first(view, view.width_us)}{pauses}."


def _first(view: TimelineView, whole_us: float) -> str:
    """The family that takes most, of the time and of the work: each share has its own base."""
    name, most = max(view.taken_us.items(), key=lambda one: one[1])
    if not most:
        return ""
    of_work = percent(most / sum(view.taken_us.values()))
    return f", the largest is {_name(name)} with {percent(most / whole_us)} of the span ({of_work} of the work)"


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
    letters: dict[str, list[str]] = {}
    for view in views:
        for words in _not_drawn(view):
            letters.setdefault(words, []).append(view.name.partition(" ")[0])
    return [f"{listed(of)}: {words}." for words, of in letters.items()]


def _not_drawn(view: TimelineView) -> Iterator[str]:
    if len(view.marks) < view.marks_count:
        yield f"the {len(view.marks):,} longest of {view.marks_count:,} marks in the window"
    for what, names in (("phases", phases_of(view.marks)), ("streams and threads", lanes_of(view))):
        if len(names) > MOST_LANES:
            yield f"{MOST_LANES} of {len(names):,} {what}"
    if view.events is not None and view.events.count > len(view.events.events):
        yield f"the {MOST_EVENTS:,} longest of {counted(view.events.count, 'event')} in the window"
    if not has_events(view.entry):
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
