"""A trace along time: stretches of its timeline, pauses, marks, and events of a window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import StoreError
from engine.profile.ingest import add_trace
from engine.profile.reported import publish_reported
from engine.profile.timeline import (
    MOST_ASKED,
    Timeline,
    events_within,
    gaps,
    has_events,
    marks_within,
    phase_of,
    timelines,
)
from engine.store.entries import Entry
from engine.store.files import LocalFiles
from engine.store.store import Store
from tests.engine.profile.made_traces import crafted, write_trace
from tests.engine.profile.test_ingest import event, trace_of


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(LocalFiles(tmp_path / "store"))


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Entry]:
    folder = tmp_path_factory.mktemp("timeline")
    write_trace(folder / "made.json.gz", 60_000)
    store = Store(LocalFiles(folder / "store"))
    return store, add_trace(store, folder / "made.json.gz", with_events=True)


def added(store: Store, tmp_path: Path, *events: dict[str, Any], **how: Any) -> Entry:
    return add_trace(store, trace_of(tmp_path, list(events)), **how)


@given(
    busy=st.lists(st.floats(0, 1), min_size=3, max_size=40),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    columns=st.integers(1, 60),
)
def test_a_stretch_holds_the_time_of_its_window(busy: list[float], ends: tuple[float, float], columns: int) -> None:
    whole = len(busy) * 10.0
    low, high = sorted(end * whole for end in ends)
    if high - low < 1e-3:
        low, high = 0.0, whole
    line = Timeline("device", ("gemm",), np.arange(len(busy) + 1, dtype=np.float64) * 10.0, 10 * np.array([busy]))
    found = line.stretch(low, high, columns)
    column = found.edges_us[1] - found.edges_us[0]
    parts = [one * (min(high, 10.0 * (n + 1)) - max(low, 10.0 * n)) for n, one in enumerate(busy)
             if min(high, 10.0 * (n + 1)) > max(low, 10.0 * n)]  # fmt: skip
    assert found.share.sum() * column == pytest.approx(sum(parts), abs=1e-6)
    assert found.share.shape[1] <= max(1, columns) and (found.edges_us[0], found.edges_us[-1]) == (low, high)
    assert column >= 10.0 * 0.6 or found.share.shape[1] == 1  # never much finer than bins


def test_sides_and_families_by_their_time(big: tuple[Store, Entry]) -> None:
    _, entry = big
    found = timelines(entry)
    assert list(found) == ["device", "call", "host"]
    device = found["device"]
    assert device.total_us.sum() == pytest.approx(entry.row["device_us"])
    assert list(device.total_us) == sorted(device.total_us, reverse=True)
    assert device.edges_us[-1] >= entry.row["span_us"] and device.families[0] == "gemm"
    assert found["call"].families == ("launch",)


def test_where_work_begins(store: Store, tmp_path: Path) -> None:
    entry = added(
        store, tmp_path, event("cpu_op", "aten::mm", 0, 5), event("kernel", "k", 900, 100, stream=7, device=0)
    )
    found = timelines(entry)["device"]
    assert found.first_us == pytest.approx(900, abs=found.width_us)
    assert timelines(entry)["host"].first_us == 0


def test_pauses_name_what_stands_around_them(store: Store, tmp_path: Path) -> None:
    kernels = [event("kernel", name, at, 10, stream=7, device=0) for name, at in (("a", 0), ("b", 15), ("c", 125))]
    found = gaps(added(store, tmp_path, *kernels))
    assert [(one.before, one.after, one.start_us, one.gap_us) for one in found] == [
        ("b", "c", 25.0, 100.0),
        ("a", "b", 10.0, 5.0),
    ]


def test_marks_of_a_window_each_phase_with_its_longest(store: Store, tmp_path: Path) -> None:
    steps = [event("user_annotation", f"driftscope::step#{n}", 100 * n, 90) for n in range(10)]
    samples = [event("user_annotation", "driftscope::sample", 100 * n, n + 1) for n in range(10)]
    copy = event("gpu_user_annotation", "driftscope::step", 0, 5)
    entry = added(store, tmp_path, *steps, *samples, copy, event("kernel", "k", 0, 1, stream=7))
    found, count = marks_within(entry, 0, 10_000, 6)
    assert count == 20
    assert [(one.phase, one.start_us) for one in found if one.phase == "sample"] == [
        ("sample", 700.0),
        ("sample", 800.0),
        ("sample", 900.0),
    ]
    assert sum(one.phase == "step" for one in found) == 3
    inside, count = marks_within(entry, 250, 350, 100)
    assert sorted(one.name for one in inside) == ["driftscope::sample", "driftscope::step#2", "driftscope::step#3"]
    assert count == 3
    assert marks_within(entry, 1e9, 2e9, 5) == ([], 0)


@pytest.mark.parametrize(
    ("name", "phase"),
    [("driftscope::forward", "forward"), ("ProfilerStep#12", "ProfilerStep"), ("step 7", "step"), ("12", "12")],
)
def test_phases(name: str, phase: str) -> None:
    assert phase_of(name) == phase


def test_events_of_a_window(big: tuple[Store, Entry]) -> None:
    store, entry = big
    start, end = 1_000.0, 3_000.0
    found = events_within(store, entry, "device", start, end, 5)
    assert found is not None and len(found.events) == 5 < found.count
    assert all(one.start_us < end and one.start_us + one.dur_us > start for one in found.events)
    assert [one.start_us for one in found.events] == sorted(one.start_us for one in found.events)
    assert {one.lane for one in found.events} <= {"stream 7", "stream 20"}
    host = events_within(store, entry, "host", start, end, 5)
    assert host is not None and {one.lane for one in host.events} == {"thread 0"}
    empty = events_within(store, entry, "device", 1e12, 2e12, 5)
    assert empty is not None and (empty.events, empty.count) == ((), 0)
    assert entry.row["events"] > MOST_ASKED and events_within(store, entry, "device", 0, 1e12, 5) is None


def test_what_has_no_time_has_none_of_it(store: Store, tmp_path: Path) -> None:
    reported = publish_reported(store)[0]
    assert (timelines(reported), gaps(reported), marks_within(reported, 0, 1, 5)) == ({}, (), ([], 0))
    entry = added(store, tmp_path, event("cpu_op", "aten::mm", 0, 5))
    assert not has_events(entry) and events_within(store, entry, "host", 0, 9, 5) is None
    assert list(timelines(entry)) == ["host"] and gaps(entry) == ()


def test_a_damaged_timeline_is_named(store: Store, tmp_path: Path) -> None:
    entry = added(store, tmp_path, event("cpu_op", "aten::mm", 0, 5))
    path = Path(entry.path("trace_timeline"))
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(StoreError, match=r"trace_timeline of .* does not read"):
        timelines(entry)


NO_NUMBERS = [float("nan"), float("inf"), 1e308, None]
CRAFTED: list[tuple[str, float | None]] = [("bin", value) for value in (400_000_000, 4096, -1, None)]
CRAFTED += [("width_us", value) for value in (*NO_NUMBERS, 0.0, -1.0, 1e-9)] + [("busy_us", one) for one in NO_NUMBERS]


@pytest.mark.parametrize(("column", "value"), CRAFTED)
def test_numbers_that_no_timeline_has_are_damage(store: Store, tmp_path: Path, column: str, value: Any) -> None:
    """The bug: a bin of 400,000,000 took 17 GB."""
    entry = crafted(added(store, tmp_path, event("cpu_op", "aten::mm", 0, 0.001)), "trace_timeline", **{column: value})
    with pytest.raises(StoreError, match=r"trace_timeline of .* (is damaged|does not read)"):
        timelines(entry)


def test_a_side_that_does_nothing_is_not_drawn(store: Store, tmp_path: Path) -> None:
    entry = added(store, tmp_path, event("cpu_op", "aten::mm", 0, 0.001))
    assert list(timelines(entry)) == ["host"] and timelines(crafted(entry, "trace_timeline", busy_us=0.0)) == {}


def test_of_many_families_there_is_no_timeline(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes memory for every bin."""
    entry = added(store, tmp_path, event("cpu_op", "aten::mm", 0, 5), event("cpu_op", "aten::cat", 5, 5))
    monkeypatch.setattr("engine.profile.timeline.MOST_FAMILIES", 1)
    with pytest.raises(StoreError, match="its family is none of a trace"):
        timelines(entry)
