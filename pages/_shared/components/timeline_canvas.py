"""Timelines in the browser: zoom, pan and selection without the server; what a close window holds is sent on demand.

Shares of all bins travel once, as 16-bit numbers. When a reader has let the view rest, ``on_window`` is called with it,
and the next run gives ``details`` of that window: lanes that are too many to send for the whole. It knows tracks, lanes
and spans, no trace. Names are untrusted and reach the page as text.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import streamlit as st

from pages._shared.components.once import Component, sent_under, source
from pages._shared.components.token_strip import sendable

OnWindow = Callable[[float, float], None]
Kind = Literal["phase", "pause", "event"]
MOST_SHARE = np.iinfo(np.uint16).max


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """``family`` is a place among the families that are drawn, and colours it; else its lane does."""

    name: str
    start_ms: float
    dur_ms: float
    about: str = ""
    family: int | None = None


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """A row below the families. Spans of an event lane that overlap are put below each other.

    ``note`` says why it has no spans."""

    name: str
    kind: Kind
    colour: str
    spans: tuple[TimelineSpan, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class TimelineTrack:
    """One trace. ``shares`` is [families, bins] of each bin's time; times count from the trace's own start."""

    name: str
    bin_ms: float
    shares: npt.NDArray[np.float64]
    lanes: tuple[TimelineLane, ...]


def timeline_canvas(
    families: Sequence[tuple[str, str]],
    tracks: Sequence[TimelineTrack],
    *,
    key: str,
    label: str,
    shifts_ms: Sequence[float],
    window_ms: tuple[float, float],
    most_ms: float,
    details: Sequence[Sequence[TimelineLane]],
    on_window: OnWindow,
) -> None:
    """Draw the tracks on one axis of 0 to ``most_ms``, on which a track's time is less by its shift.

    ``families`` are names and colours, bottom first. ``details`` are the lanes of each track in the window; they take
    the place of the track's own ones of that name.
    """
    small = {
        "label": sendable(label),
        "window": list(window_ms),
        "most": most_ms,
        "shifts": list(shifts_ms),
        "details": [[packed_lane(lane) for lane in lanes] for lanes in details],
    }
    large = {
        "families": [{"name": sendable(name), "colour": colour} for name, colour in families],
        "tracks": [packed_track(track) for track in tracks],
    }
    moved = partial(hand_window, key, most_ms, on_window)
    _component.show(key, small, sent_under(key), large, on_window_change=moved)


def packed_track(track: TimelineTrack) -> dict[str, Any]:
    scale = float(np.max(track.shares, initial=0.0)) / MOST_SHARE or 1.0
    whole = np.rint(track.shares / scale).astype("<u2")
    return {
        "name": sendable(track.name),
        "bin": track.bin_ms,
        "bins": track.shares.shape[1],
        "scale": scale,
        "shares": base64.b64encode(whole.tobytes()).decode(),
        "lanes": [packed_lane(lane) for lane in track.lanes],
    }


def packed_lane(lane: TimelineLane) -> dict[str, Any]:
    """What spans are called is sent once each, however often they come."""
    called = [(sendable(span.name), sendable(span.about), span.family) for span in lane.spans]
    places = {what: place for place, what in enumerate(dict.fromkeys(called))}
    spans = zip(called, lane.spans, strict=True)
    return {
        "name": sendable(lane.name),
        "kind": lane.kind,
        "colour": lane.colour,
        "note": lane.note,
        "called": list(places),
        "spans": [[places[what], round(span.start_ms, 6), round(span.dur_ms, 6)] for what, span in spans],
    }


def hand_window(key: str, most_ms: float, on_window: OnWindow) -> None:
    """Give ``on_window`` the window in the component's state, if it is one of this axis."""
    match st.session_state.get(key):
        case {"window": [float() | int() as start, float() | int() as end]} if 0 <= start < end <= most_ms:
            on_window(float(start), float(end))


_component = Component(
    "driftscope_timeline",
    html=source("timeline_canvas.html"),
    css=source("component_theme.css", "timeline_canvas.css"),
    js=source("timeline_canvas.js", "timeline_draw.js", "timeline_rows.js"),
)
