"""What a canvas draws of a timeline: the families' shares, lanes of phases and pauses, and the events of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.errors import one_line
from engine.figures.words import shortened
from engine.profile.timeline import OURS, TraceMark, has_events
from pages._profiles.timeline_view import MOST_LANES, REST, TimelineView, lanes_of, phases_of
from pages._shared.charts.phases import phase_colours
from pages._shared.components.timeline_canvas import TimelineLane, TimelineSpan, TimelineTrack
from pages._shared.theme import Palette

Families = Mapping[str, tuple[str, ...]]
"""Those that are drawn, and what each holds."""
MOST_NAME, MOST_LANE = 300, 40


def family_colours(families: Families, colours: Palette) -> dict[str, str]:
    """Each name as it is shown, with its colour: the same in every window and in both traces."""
    hues = [hue for hue in colours.series if hue != colours.neutral]
    return {
        one_line(name): colours.neutral if name == REST else hues[place % len(hues)]
        for place, name in enumerate(families)
    }


def track(view: TimelineView, families: Families, colours: Palette) -> TimelineTrack:
    """What is drawn of a trace whatever the window."""
    timeline = view.timeline
    of_family = [[place for place, name in enumerate(timeline.families) if name in held] for held in families.values()]
    shares = np.array([timeline.busy_us[places].sum(axis=0) for places in of_family]) / timeline.width_us
    pauses = [
        TimelineSpan(_name(f"between {gap.before} and {gap.after}"), gap.start_us / 1000, gap.gap_us / 1000)
        for gap in view.gaps
    ]
    lanes = _phases(view, view.all_marks, colours)
    lanes += [TimelineLane("longest pauses", "pause", colours.cut, tuple(pauses))] if pauses else []
    return TimelineTrack(shortened(view.name, 90), timeline.width_us / 1000, shares, tuple(lanes))


def details(view: TimelineView, families: Families, colours: Palette) -> list[TimelineLane]:
    """Lanes of the view's window alone: phases of which the whole has too many, and events."""
    lanes = _phases(view, view.marks, colours) if set(view.marks) - set(view.all_marks) else []
    if view.events is None:
        note = "too many here to show each: zoom in"
        return lanes + ([TimelineLane("events", "event", colours.neutral, note=note)] if has_events(view.entry) else [])
    place = {member: place for place, held in enumerate(families.values()) for member in held}
    for lane in lanes_of(view)[:MOST_LANES]:
        spans = tuple(
            TimelineSpan(
                _name(event.name), event.start_us / 1000, event.dur_us / 1000, _name(event.family), place[event.family]
            )
            for event in view.events.events
            if event.lane == lane
        )
        lanes.append(TimelineLane(shortened(one_line(lane), MOST_LANE), "event", colours.neutral, spans))
    return lanes


def _phases(view: TimelineView, marks: Sequence[TraceMark], colours: Palette) -> list[TimelineLane]:
    """A lane a phase, coloured as a run's time is on the Compare page."""
    known = phase_colours(colours) | {"decode": colours.muted, "step": colours.neutral}
    return [
        TimelineLane(
            shortened(one_line(phase), MOST_LANE),
            "phase",
            known.get(phase) or colours.series[place % len(colours.series)],
            tuple(
                TimelineSpan(_name(mark.name.removeprefix(OURS)), mark.start_us / 1000, mark.dur_us / 1000)
                for mark in marks
                if mark.phase == phase
            ),
        )
        for place, phase in enumerate(phases_of(view.all_marks)[:MOST_LANES])
    ]


def _name(text: str) -> str:
    return shortened(one_line(text), MOST_NAME)
