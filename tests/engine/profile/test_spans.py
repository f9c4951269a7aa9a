"""Columns of spans against the same computed tick by tick."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.profile import spans
from engine.profile.spans import binned, both_ns, covered_ns, gaps, own_times, shared_ns

some_spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


def columns(found: list[tuple[int, int]]) -> tuple[spans.Ints, spans.Ints]:
    start = np.array([begin for begin, _ in found], np.int64)
    return start, start + np.array([length for _, length in found], np.int64)


def levels(found: list[tuple[int, int]]) -> list[int]:
    """How many spans cover each tick."""
    return [sum(begin <= tick < begin + length for begin, length in found) for tick in range(100)]


@given(found=some_spans)
def test_what_is_covered_shared_and_idle(found: list[tuple[int, int]]) -> None:
    start, end = columns(found)
    level = levels(found)
    assert covered_ns(start, end) == sum(one > 0 for one in level)
    assert shared_ns(start, end) == sum(one > 1 for one in level)
    idle = gaps(start, end)
    if found:
        inside = level[int(start.min()) : int(end.max())]
        assert int(idle.length.sum()) == sum(one == 0 for one in inside)
    for begin, length, before, after in zip(idle.start, idle.length, idle.before, idle.after, strict=True):
        assert end[before] == begin and start[after] == begin + length


@given(one=some_spans, other=some_spans)
def test_what_both_cover(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    expected = sum(a > 0 and b > 0 for a, b in zip(levels(one), levels(other), strict=True))
    idle_between = both_ns(columns(one), columns(other))
    assert idle_between == expected


@given(
    found=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 20)), max_size=12),
    count=st.integers(1, 9),
)
def test_bins_add_up(found: list[tuple[int, int, int]], count: int) -> None:
    group = np.array([one for one, _, _ in found], np.int64)
    start, end = columns([(begin, length) for _, begin, length in found])
    width = -(-81 // count)
    busy = binned(0, width, count, group, 3, start, end)
    assert busy.shape == (3, count)
    for one in range(3):
        level = levels([(begin, length) for which, begin, length in found if which == one])
        expected = [sum(level[place * width : (place + 1) * width]) for place in range(count)]
        assert busy[one].tolist() == expected


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> list[tuple[int, int, int]]:
    """Nested spans as (start, end, number of the parent), parents before children."""
    found: list[tuple[int, int, int]] = []

    def grow(begin: int, end: int, parent: int, left: int) -> None:
        at = begin
        for _ in range(draw(st.integers(0, 3))):
            first = draw(st.integers(at, end))
            last = draw(st.integers(first, end))
            if last - first < 1:
                return
            number = len(found)
            found.append((first, last, parent))
            if left:
                grow(first, last, number, left - 1)
            at = last
            if at >= end:
                return

    grow(0, 80, -1, depth)
    return found


@given(found=st.lists(trees(), min_size=1, max_size=3), small=st.booleans())
def test_own_times_of_nested_spans(found: list[list[tuple[int, int, int]]], small: bool) -> None:
    """Each thread's spans are a forest; a span that has its parent's very bounds may change places with it."""
    lane, start, end, expected = [], [], [], []
    for number, tree in enumerate(found):
        for first, last, _ in tree:
            lane.append(number)
            start.append(first)
            end.append(last)
        for place, (first, last, _) in enumerate(tree):
            inner = sum(stop - begin for begin, stop, parent in tree if parent == place)
            expected.append(last - first - inner)
    old = spans.LOOP_ROWS
    spans.LOOP_ROWS = 2 if small else old
    try:
        own, parent = own_times(np.array(lane, np.int64), np.array(start, np.int64), np.array(end, np.int64))
    finally:
        spans.LOOP_ROWS = old
    by_bounds = sorted(zip(lane, start, end, own.tolist(), strict=True))
    assert by_bounds == sorted(zip(lane, start, end, expected, strict=True))
    for one, above in enumerate(parent.tolist()):
        if above >= 0:
            assert lane[above] == lane[one] and start[above] <= start[one] and end[one] <= end[above]


def test_a_span_that_ends_after_its_parent_counts_up_to_that() -> None:
    lane = np.zeros(2, np.int64)
    own, parent = own_times(lane, np.array([0, 8], np.int64), np.array([10, 12], np.int64))
    assert (own.tolist(), parent.tolist()) == ([8, 4], [-1, 0])
