"""What a timeline draws of one trace in one window, without a widget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.profile.timeline import Gap, Mark, Stretch, Window
from engine.store.entries import Entry

AREAS, STRIPS = "Areas", "Strips"
FORMS = (AREAS, STRIPS)
MOST_MARKS, MOST_GAPS, MOST_EVENTS = 600, 60, 1_500
MOST_FAMILIES = 7
REST = "all other"


@dataclass(frozen=True, slots=True)
class View:
    """``shift_us`` is the trace's own time at 0 ms; ``window_ms`` is on the axis. ``events``: None where none show."""

    entry: Entry
    name: str
    shift_us: float
    window_ms: tuple[float, float]
    totals_us: Mapping[str, float]  # of the whole trace, by family
    stretch: Stretch
    marks: tuple[Mark, ...]
    marks_count: int
    gaps: tuple[Gap, ...]
    events: Window | None

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


def ranked(views: Sequence[View]) -> dict[str, tuple[str, ...]]:
    """The families that are drawn, those first that take most of both, and what each holds: the last may be a rest.

    The same in every window, so that a colour stays a family's."""
    sums: dict[str, float] = {}
    for view in views:
        for name, taken in view.totals_us.items():
            sums[name] = sums.get(name, 0.0) + taken
    names = sorted((name for name in sums if sums[name] > 0), key=lambda name: -sums[name])
    kept: dict[str, tuple[str, ...]] = {name: (name,) for name in names[:MOST_FAMILIES]}
    rest = tuple(names[MOST_FAMILIES:])
    if len(rest) == 1:
        return kept | {rest[0]: rest}
    return kept | ({REST: rest} if rest else {})
