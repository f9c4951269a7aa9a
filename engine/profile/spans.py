"""Spans of time as columns, in whole nanoseconds: covered, idle, overlapping and nested time.

Kernels and families are not known here; a span is a start and an end, and empty where they are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
LOOP_ROWS = 200_000
"""Spans that are converted to Python integers at a time."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Where nothing runs between the first start and the last end. ``before`` and ``after`` number the spans."""

    start: Ints
    length: Ints
    before: Ints
    after: Ints


def gaps(start: Ints, end: Ints) -> Gaps:
    """In the order of time. ``before`` ended last of all that began before the gap."""
    order = np.argsort(start, kind="stable")
    reached = np.maximum.accumulate(end[order])
    # The span that reached so far: the last one at which the maximum rose.
    rises = np.concatenate([[True], reached[1:] > reached[:-1]]) if len(order) else np.empty(0, bool)
    holder = np.maximum.accumulate(np.where(rises, np.arange(len(order)), 0))
    length = start[order][1:] - reached[:-1]
    found = np.flatnonzero(length > 0)
    return Gaps(reached[found], length[found], order[holder[found]], order[found + 1])


def covered_ns(start: Ints, end: Ints) -> int:
    """Length of the union."""
    if not len(start):
        return 0
    return int(end.max() - start.min() - gaps(start, end).length.sum())


def shared_ns(start: Ints, end: Ints) -> int:
    """Length of the time that two spans or more cover."""
    times = np.concatenate([start, end])
    order = np.argsort(times, kind="stable")
    level = np.cumsum(np.where(order < len(start), np.int8(1), np.int8(-1)), dtype=np.int32)
    lengths = np.diff(times[order])
    return int(lengths[level[:-1] > 1].sum())


def both_ns(one: tuple[Ints, Ints], other: tuple[Ints, Ints]) -> int:
    """Length of the time that spans of both groups cover."""
    united = [covered_ns(*group) for group in (one, other)]
    together = covered_ns(np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]]))
    return sum(united) - together


def own_times(lane: npt.NDArray[Any], start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Of nested spans: each one's time without its children's, and the number of its parent (-1: none).

    Spans of one lane are nested by time. One that ends after its parent, as rounding makes it, counts there up to the
    parent's end only.
    """
    own, parent = (end - start).astype(np.int64), np.full(len(start), -1, np.int64)
    order = np.lexsort((-end, start, lane))
    open_spans: list[tuple[int, int]] = []  # end, number
    lane_now = None
    for first in range(0, len(order), LOOP_ROWS):
        rows = order[first : first + LOOP_ROWS]
        parents, taken = [], []
        for row, lane_here, begin, stop in zip(
            rows.tolist(), lane[rows].tolist(), start[rows].tolist(), end[rows].tolist(), strict=True
        ):
            if lane_here != lane_now:
                open_spans, lane_now = [], lane_here
            while open_spans and open_spans[-1][0] <= begin:
                open_spans.pop()
            above = open_spans[-1] if open_spans else (0, -1)
            parents.append(above[1])
            taken.append(min(stop, above[0]) - begin if open_spans else 0)
            open_spans.append((stop, row))
        parent[rows] = parents
        inner = parent[rows] >= 0
        np.subtract.at(own, parent[rows][inner], np.array(taken, np.int64)[inner])
    return own, parent


def binned(low: int, width: int, count: int, group: npt.NDArray[Any], groups: int, start: Ints, end: Ints) -> Ints:
    """Time that spans of each group take in each of ``count`` bins from ``low`` on, [groups, count]; what lies outside
    of all is left out.

    Spans of one group that overlap count several times, so that a row adds up to the spans' lengths.
    """
    start, end = (np.clip(times, low, low + width * count) for times in (start, end))
    first, last = (np.clip((times - low) // width, 0, count - 1) for times in (start, end))
    size = groups * count
    begins, ends = group * count + first, group * count + last
    time = np.zeros(size, np.int64)
    np.add.at(time, begins, low + (first + 1) * width - start)
    np.add.at(time, ends, end - (low + last * width))
    opened = np.bincount(begins, minlength=size).reshape(groups, count).astype(np.int64)
    closed = np.bincount(ends, minlength=size).reshape(groups, count).astype(np.int64)
    whole = np.cumsum(opened, axis=1) - opened - np.cumsum(closed, axis=1)  # -1 where a span begins and ends in one
    return time.reshape(groups, count) + whole * width
