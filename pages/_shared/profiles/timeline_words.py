"""Timelines in words: how busy, the longest pause and what stands around it, and what a figure leaves out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from engine.profile.figures import per_cent, time_of
from engine.profile.timeline import has_events
from engine.store.entries import Entry
from pages._shared.compare.charts_words import listed, plural, shortened
from pages._shared.drift.words import visible_text
from pages._shared.profiles.state import Chosen
from pages._shared.profiles.timeline_view import MOST_EVENTS, View

MOST_NAME = 60


def answer(chosen: Chosen, views: Sequence[View], *, is_whole: bool) -> str:
    """How busy each is, and its longest pause; of a window, what takes most of it."""
    if is_whole:
        return " ".join(_whole(chosen, view) for view in views)
    low, high = views[0].window_ms
    return f"From {low:,.3f} to {high:,.3f} ms: " + " ".join(_window(chosen, view) for view in views)


def _whole(chosen: Chosen, view: View) -> str:
    letter, row = chosen.letter(view.entry), view.entry.row
    busy, idle = row.get("busy_us"), row.get("idle_us")
    if busy is None or idle is None or busy + idle <= 0:
        length_us = max((row.get("span_us") or view.width_us) - view.shift_us, 1e-3)
        share, first = per_cent(sum(view.taken_us.values()) / length_us), _first(view, length_us)
        return f"{letter} has no device: what is drawn takes {share} of its {time_of(length_us)}{first}."
    working, idling = per_cent(busy / (busy + idle)), per_cent(idle / (busy + idle))
    words = f"{letter}: between its first and last work a device works {working} of the time and idles {idling}"
    if not view.gaps:
        return f"{words}; it never pauses."
    gap = max(view.gaps, key=lambda one: one.gap_us)
    return (
        f"{words}; its longest pause, {time_of(gap.gap_us)}, lies between {_name(gap.before)} and {_name(gap.after)}."
    )


def _window(chosen: Chosen, view: View) -> str:
    letter, taken = chosen.letter(view.entry), sum(view.taken_us.values())
    if not taken:
        return f"{letter} does nothing here."
    paused = sum(_inside(view, gap.start_us, gap.gap_us) for gap in view.gaps)
    pauses = f", and its long pauses are {per_cent(paused / view.width_us)}" if paused else ""
    return f"{letter}’s work is {per_cent(taken / view.width_us)} of it{_first(view, view.width_us)}{pauses}."


def _first(view: View, whole_us: float) -> str:
    """The family that takes most."""
    name, most = max(view.taken_us.items(), key=lambda one: one[1])
    return f", {_name(name)} most with {per_cent(most / whole_us)}" if most else ""


def _inside(view: View, start_us: float, length_us: float) -> float:
    low = view.shift_us + 1000 * view.window_ms[0]
    return max(0.0, min(start_us + length_us, low + view.width_us) - max(start_us, low))


def _name(text: str) -> str:
    return shortened(visible_text(text), MOST_NAME)


def timeless(chosen: Chosen, entry: Entry) -> str:
    """Why a trace has nothing to draw."""
    name = shortened(visible_text(chosen.name(entry)), 120)
    if entry.row.get("origin") == "reported":
        return f"{name}: a report states sums only, so nothing is known of its time."
    if entry.row.get("form") == "table":
        return f"{name}: it is a table of sums, which has no time."
    return f"{name}: it has no timeline."


def sideless(chosen: Chosen, entry: Entry, side: str) -> str:
    return f"{shortened(visible_text(chosen.name(entry)), 120)} has nothing under {side.lower()!r}."


def notes(views: Sequence[View]) -> list[str]:
    """What is not drawn, or could be."""
    said = []
    for view in views:
        letter = view.name.partition(" ")[0]
        if len(view.marks) < view.marks_count:
            said.append(f"{letter}: the {len(view.marks):,} longest of {view.marks_count:,} marks in the window.")
        if view.events is not None and view.events.count > len(view.events.events):
            said.append(f"{letter}: the {MOST_EVENTS:,} longest of {plural(view.events.count, 'event')} in the window.")
        if view.events is None:
            said.append(
                f"{letter}: single events show in a smaller window."
                if has_events(view.entry)
                else f"{letter}: its single events were not kept (trace add --events keeps them)."
            )
    return said


def alt(views: Sequence[View], families: dict[str, tuple[str, ...]]) -> str:
    """For who does not see the figure."""
    low, high = views[0].window_ms
    lines = []
    for view in views:
        parts = [
            f"{_name(name)} {per_cent(sum(view.taken_us.get(one, 0.0) for one in held) / view.width_us)}"
            for name, held in families.items()
        ]
        lines.append(f"{shortened(view.name)}: {listed(parts) or 'nothing'}")
    return f"Work along time, from {low:,.3f} to {high:,.3f} ms. {'. '.join(lines)}."


def rows(views: Sequence[View]) -> list[dict[str, Any]]:
    """A row a column of a trace, as drawn; families in percent of the column's time."""
    found = []
    for view in views:
        edges = [view.axis_ms(one) for one in view.stretch.edges_us.tolist()]
        for place, (start, end) in enumerate(itertools.pairwise(edges)):
            shares = view.stretch.share[:, place]
            named = {f"{name} (%)": 100 * float(one) for name, one in zip(view.stretch.families, shares, strict=True)}
            found.append({"trace": view.name, "from (ms)": start, "to (ms)": end, **named})
    return found
