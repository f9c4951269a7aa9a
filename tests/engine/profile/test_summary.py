"""What is summed up of a trace's events, against the same counted tick by tick."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.profile import summary
from engine.profile.columns import EventCollector
from engine.profile.events import Args, Event
from engine.profile.families import load_families
from engine.profile.summary import Summary, event_table

TICKS, FAMILIES = 81, load_families()
Span = tuple[int, int, int]  # device or thread, start, length
spans = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=12)


def summed(events: list[Event[float]]) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    with event_table() as db, pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "BINS", TICKS)
        collector = EventCollector(db)
        collector.add(events[:5])
        collector.add([*events[5:], Event("X", "user_annotation", "all", 0.0, TICKS)])
        collector.finish()
        figures, tables = Summary(db, "trace", FAMILIES).summary()
    return figures, {name: rows.to_pylist() for name, rows in tables.items()}


def levels(spans: list[Span], device: int) -> list[int]:
    """How many spans of a device cover each tick."""
    return [
        sum(dev == device and begin <= tick < begin + length for dev, begin, length in spans) for tick in range(TICKS)
    ]


@settings(max_examples=15)
@given(kernels=spans, copies=spans)
def test_what_devices_cover_share_and_leave_idle(kernels: list[Span], copies: list[Span]) -> None:
    named = [("kernel", "k", kernels), ("gpu_memcpy", "Memcpy HtoD", copies)]
    figures, tables = summed(
        [
            Event("X", category, name, start, length, args=Args(stream=7, device=device))
            for category, name, some in named
            for device, start, length in some
        ]
    )
    expected = dict.fromkeys(("busy_us", "idle_us", "overlap_us", "copy_overlap_us"), 0)
    for device in (0, 1):
        level, copied, computed = (levels(some, device) for some in ([*kernels, *copies], copies, kernels))
        mine = [(begin, begin + length) for dev, begin, length in [*kernels, *copies] if dev == device]
        inside = level[min(begin for begin, _ in mine) : max(end for _, end in mine)] if mine else []
        expected["busy_us"] += sum(depth > 0 for depth in level)
        expected["idle_us"] += inside.count(0)
        expected["overlap_us"] += sum(depth > 1 for depth in level)
        expected["copy_overlap_us"] += sum(a > 0 and b > 0 for a, b in zip(copied, computed, strict=True))
    assert {name: figures[name] for name in expected} == expected
    gaps = tables.get("trace_gaps", [])
    assert (len(gaps), sum(gap["gap_us"] for gap in gaps)) == (figures["gaps"], figures["idle_us"])
    busy = [0.0] * TICKS
    for row in tables.get("trace_timeline", ()):
        busy[row["bin"]] += row["busy_us"]
    assert busy == [sum(both) for both in zip(*(levels([*kernels, *copies], d) for d in (0, 1)), strict=True)]


@settings(max_examples=15)
@given(ops=spans)
def test_operators_without_those_inside_them(ops: list[Span]) -> None:
    """One that ends after the operator that it is in counts there up to that one's end only."""
    order = sorted(range(len(ops)), key=lambda n: (ops[n][0], ops[n][1], -ops[n][2]))
    own, above = [length for _, _, length in ops], list[int]()
    for number in order:
        thread, start, length = ops[number]
        above = [n for n in above if ops[n][0] == thread]
        while above and sum(ops[above[-1]][1:]) <= start:
            above.pop()
        if above:
            own[above[-1]] -= min(start + length, sum(ops[above[-1]][1:])) - start
        above.append(number)
    _, tables = summed([Event("X", "cpu_op", f"op {n}", at, us, tid=lane) for n, (lane, at, us) in enumerate(ops)])
    by_name = {row["name"]: row["self_us"] for row in tables["trace_ops"] if row["side"] == "host"}
    assert by_name == {f"op {n}": us for n, us in enumerate(own)}
    assert sum(row["busy_us"] for row in tables.get("trace_timeline", ())) == sum(own)
