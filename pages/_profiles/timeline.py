"""The timelines of one or two traces on one axis: what runs when, pauses, phases, and single events where kept.

The browser zooms and pans by itself (``timeline_canvas``). The window that a reader rests on lives in the address; its
sentence, its table, and single events where there are not too many, are read for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.profile import timeline as engine
from engine.store.entries import Entry
from engine.store.store import Store
from pages._profiles import timeline_tracks as drawn
from pages._profiles import timeline_view as words
from pages._profiles.timeline_view import COLUMNS, MOST_EVENTS, MOST_MARKS, TimelineView, ranked
from pages._profiles.traces import TraceSelection
from pages._shared.charts.card import card
from pages._shared.choices import one_of
from pages._shared.components.timeline_canvas import timeline_canvas
from pages._shared.shown import put_shown
from pages._shared.theme import palette
from pages._shared.words import visible_text

QUESTION = "What runs when?"
HELP = """
Each trace has its own clock, from its first event on; both are drawn on one axis of milliseconds. Families' shares of
the time are stacked, so parallel work adds up to more than 100 %. Press a family to show it alone. Below are marked
phases, the device's longest pauses and, in a small window of a trace that kept its events, the events themselves.

Shares are known to a bin, of which a trace has up to 4,096: closer than that, only events tell more.
"""
SIDES = {"device": "Device", "host": "Operators", "call": "Calls into the runtime"}
START, WORK = "its start", "its first work"
FROM, TO, SIDE, ALIGN = "tl_from", "tl_to", "tl_side", "tl_align"
LEAST_MS = 0.001


@st.fragment
def show(store: Store, chosen: TraceSelection) -> None:
    with card("timeline", QUESTION, HELP) as frame:
        timed = [entry for entry in chosen.entries if engine.timelines(entry)]
        sides = [side for side in SIDES if any(side in engine.timelines(entry) for entry in timed)]
        if not sides:
            frame.tell(" ".join(words.timeless(chosen, entry) for entry in chosen.entries))
            return
        side, align = _choices(sides)
        shown = [entry for entry in timed if side in engine.timelines(entry)]
        shifts = {entry.id: engine.timelines(entry)[side].first_us if align == WORK else 0.0 for entry in shown}
        most_ms = max(LEAST_MS, *((words.span_us(entry) - shifts[entry.id]) / 1000 for entry in shown))
        window_ms = _window(most_ms)
        put_shown(**dict(zip((FROM, TO), window_ms, strict=True)))
        views = [_view(store, chosen, entry, side, shifts[entry.id], window_ms) for entry in shown]
        frame.tell(words.answer(chosen, views, is_whole=window_ms == (0.0, most_ms)))
        frame.data(lambda: words.rows(views))
        families, colours = ranked(views), palette()
        timeline_canvas(
            list(drawn.family_colours(families, colours).items()),
            [drawn.track(view, families, colours) for view in views],
            key="timeline_canvas",
            label=words.alt(views, families),
            shifts_ms=[view.shift_us / 1000 for view in views],
            window_ms=window_ms,
            most_ms=most_ms,
            details=[drawn.details(view, families, colours) for view in views],
            on_window=lambda start, end: _keep_window(start, end, most_ms),
        )
        left = [words.timeless(chosen, entry) for entry in chosen.entries if entry not in timed]
        left += [words.sideless(chosen, entry, SIDES[side]) for entry in timed if entry not in shown]
        frame.leave_out(*left, *words.notes(views))


def _choices(sides: Sequence[str]) -> tuple[str, str]:
    with st.container(horizontal=True, vertical_alignment="bottom", key="timeline-choices"):
        by_word = {SIDES[side]: side for side in sides}
        side = one_of("Work of", list(by_word), SIDE, width="content")
        help_ = "Of each trace: its first event, or the first bin in which this side works"
        align = one_of("0 ms is", (START, WORK), ALIGN, width="content", help=help_)
    return by_word.get(side, sides[0]), align


def _view(
    store: Store, chosen: TraceSelection, entry: Entry, side: str, shift_us: float, window_ms: tuple[float, float]
) -> TimelineView:
    start, end = (end_ms * 1000 + shift_us for end_ms in window_ms)
    timeline = engine.timelines(entry)[side]
    all_marks, _ = engine.marks_within(entry, 0.0, words.span_us(entry), MOST_MARKS)
    marks, count = engine.marks_within(entry, start, end, MOST_MARKS)
    return TimelineView(
        entry,
        visible_text(chosen.name(entry.id)),
        timeline,
        shift_us,
        window_ms,
        timeline.stretch(start, end, COLUMNS),
        tuple(all_marks),
        tuple(marks),
        count,
        engine.gaps(entry),
        engine.events_within(store, entry, side, start, end, MOST_EVENTS),
    )


def _window(most_ms: float) -> tuple[float, float]:
    """As the address has it; all of it, where that says nothing that can be."""
    start, end = (_number(st.query_params.get(name)) for name in (FROM, TO))
    low = 0.0 if start is None else min(max(start, 0.0), most_ms)
    high = most_ms if end is None else min(max(end, 0.0), most_ms)
    return (low, high) if high - low >= LEAST_MS else (0.0, most_ms)


def _number(value: str | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def _keep_window(start: float, end: float, most_ms: float) -> None:
    """In the address; an end of the whole is left out."""
    ends = {FROM: [] if start == 0 else f"{start:.12g}", TO: [] if end == most_ms else f"{end:.12g}"}
    st.query_params.update(ends)
