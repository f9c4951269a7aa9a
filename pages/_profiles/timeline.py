"""The timelines of one or two traces on one axis: what runs when, pauses, phases, and single events where kept.

A window of them is drawn in some hundreds of columns, however many events lie in it; a closer window is redrawn. It
is chosen by dragging over the figure, by buttons or by its two ends, and lives in the address.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.profile import timeline as engine
from engine.store.entries import Entry
from engine.store.store import Store
from pages._profiles import timeline_figure as figures
from pages._profiles import timeline_view as words
from pages._profiles.timeline_view import AREAS, FORMS, MOST_EVENTS, MOST_MARKS, TimelineView, ranked
from pages._profiles.traces import TraceSelection
from pages._shared.charts.card import card
from pages._shared.choices import one_of
from pages._shared.theme import palette
from pages._shared.words import visible_text

QUESTION = "What runs when?"
HELP = """
Each trace has its own clock, from its first event on; both are drawn on one axis of milliseconds. Shares of families in
a column's time are stacked, so parallel work adds up to more than 100 %. Below are marked phases and the device's
longest pauses and, in a small window of a trace that kept its events, the events themselves.

Drag over the figure to zoom in, or use the buttons or the two ends of the window. Columns are never finer than the
bins that a trace is kept in (4,096 for all of it).
"""
SIDES = {"device": "Device", "host": "Operators", "call": "Calls into the runtime"}
START, WORK = "its start", "its first work"
FROM, TO, SIDE, ALIGN, AS = "tl_from", "tl_to", "tl_side", "tl_align", "tl_as"
LEAST_MS = 0.001
KEY = "timeline_figure"


@st.fragment
def show(store: Store, chosen: TraceSelection) -> None:
    with card("timeline", QUESTION, HELP) as frame:
        timed = [entry for entry in chosen.entries if engine.timelines(entry)]
        sides = [side for side in SIDES if any(side in engine.timelines(entry) for entry in timed)]
        if not sides:
            frame.tell(" ".join(words.timeless(chosen, entry) for entry in chosen.entries))
            return
        side, align, form = _choices(sides)
        shown = [entry for entry in timed if side in engine.timelines(entry)]
        shifts = {entry.id: engine.timelines(entry)[side].first_us if align == WORK else 0.0 for entry in shown}
        most_ms = max((entry.row.get("span_us") or 0.0) - shifts[entry.id] for entry in shown) / 1000
        start_ms, end_ms = _window(max(most_ms, LEAST_MS))
        _steps(shown, shifts, start_ms, end_ms, most_ms)
        views = [_view(store, chosen, entry, side, shifts[entry.id], (start_ms, end_ms)) for entry in shown]
        is_whole = (start_ms, end_ms) == (0.0, most_ms)
        frame.tell(words.answer(chosen, views, is_whole=is_whole))
        families = ranked(views)
        frame.data(lambda: words.rows(views))
        frame.draw(
            figures.timeline_chart(views, families, palette(), is_areas=form == AREAS, alt=words.alt(views, families)),
            key=f"{KEY}_{hash((tuple(chosen.ids), side, align, form, start_ms, end_ms))}",
            on_select=_dragged,
            selection_mode="box",
        )
        left = [words.timeless(chosen, entry) for entry in chosen.entries if entry not in timed]
        left += [words.sideless(chosen, entry, SIDES[side]) for entry in timed if entry not in shown]
        frame.leave_out(*left, *words.notes(views))


def _choices(sides: Sequence[str]) -> tuple[str, str, str]:
    with st.container(horizontal=True, vertical_alignment="bottom", key="timeline-choices"):
        by_word = {SIDES[side]: side for side in sides}
        side = one_of("Work of", list(by_word), SIDE, width="content")
        help_ = "Of each trace: its first event, or the first bin in which this side works"
        align = one_of("0 ms is", (START, WORK), ALIGN, width="content", help=help_)
        help_ = "Areas show how much runs, strips which families run"
        form = one_of("Drawn as", FORMS, AS, width="content", help=help_)
    return by_word.get(side, sides[0]), align, form


def _view(
    store: Store, chosen: TraceSelection, entry: Entry, side: str, shift_us: float, window_ms: tuple[float, float]
) -> TimelineView:
    start, end = (end_ms * 1000 + shift_us for end_ms in window_ms)
    timeline = engine.timelines(entry)[side]
    marks, count = engine.marks_within(entry, start, end, MOST_MARKS)
    return TimelineView(
        entry,
        visible_text(chosen.name(entry.id)),
        shift_us,
        window_ms,
        dict(zip(timeline.families, timeline.total_us.tolist(), strict=True)),
        timeline.stretch(start, end, figures.COLUMNS),
        tuple(marks),
        count,
        tuple(gap for gap in engine.gaps(entry) if gap.start_us < end and gap.start_us + gap.gap_us > start),
        engine.events_within(store, entry, side, start, end, MOST_EVENTS),
    )


# --- the window -----------------------------------------------------------------------------------------------------


def _window(most_ms: float) -> tuple[float, float]:
    """As its two ends say; all of it, where they say nothing that can be."""
    start, end = (_number(st.session_state.get(name, st.query_params.get(name))) for name in (FROM, TO))
    low = 0.0 if start is None else min(max(start, 0.0), most_ms)
    high = most_ms if end is None else min(max(end, 0.0), most_ms)
    return (low, high) if high - low >= LEAST_MS else (0.0, most_ms)


def _number(value: object) -> float | None:
    try:
        return None if value is None else float(str(value))
    except ValueError:
        return None


def _steps(shown: Sequence[Entry], shifts: dict[str, float], start: float, end: float, most: float) -> None:
    """The window's ends, and buttons that move it."""
    middle, half, width = (start + end) / 2, (end - start) / 2, end - start
    moves = {
        "Whole": (":material/fit_width:", None, start == 0 and end == most),
        "Closer": (":material/zoom_in:", (middle - half / 2, middle + half / 2), width < 4 * LEAST_MS),
        "Wider": (":material/zoom_out:", (middle - width, middle + width), start == 0 and end == most),
        "Earlier": (":material/arrow_back:", (start - half, end - half), start == 0),
        "Later": (":material/arrow_forward:", (start + half, end + half), end == most),
    }
    with st.container(horizontal=True, vertical_alignment="bottom", key="timeline-window"):
        for label, name, word in (("From (ms)", FROM, "the start"), ("To (ms)", TO, "the end")):
            st.number_input(
                label, None, None, None, step=None, format="%.3f", key=name, bind="query-params", width=168,
                placeholder=word,
            )  # fmt: skip
        for word, (icon, window, is_off) in moves.items():
            st.button(
                word,
                icon=icon,
                key=f"timeline_{word}",
                type="tertiary",
                disabled=is_off,
                on_click=_move,
                args=(window, most),
            )
        pauses = [(gap.gap_us / 1000, (gap.start_us - shifts[entry.id]) / 1000)
                  for entry in shown for gap in engine.gaps(entry)[:1]]  # fmt: skip
        if pauses:
            length, begin = max(pauses, key=lambda pause: pause[0])
            around = begin - length, begin + 2 * length  # as much before and behind it as it is long
            st.button(
                "Longest pause", icon=":material/hourglass_empty:", key="timeline_pause", type="tertiary",
                on_click=_move, args=(around, most), help="Of a device, in either trace",
            )  # fmt: skip


def _move(window: tuple[float, float] | None, most: float) -> None:
    """Inside of the trace, and as wide as it is meant to be where there is room."""
    if window is None:
        st.session_state.update({FROM: None, TO: None})
        return
    width = min(window[1] - window[0], most)
    start = min(max(window[0], 0.0), most - width)
    end = start + width
    st.session_state.update({FROM: round(start, 3) or None, TO: None if end > most - LEAST_MS else round(end, 3)})


def _dragged() -> None:
    """A stretch of the figure that was drawn over becomes the window."""
    drawn = [value for key, value in st.session_state.items() if str(key).startswith(KEY)]
    boxes = [box for one in drawn for box in one["selection"]["box"] if len(box.get("x", ())) == 2]
    if not boxes:
        return
    start, end = sorted(float(box) for box in boxes[-1]["x"])
    if end - start >= LEAST_MS:
        st.session_state.update({FROM: max(0.0, round(start, 3)), TO: round(end, 3)})
