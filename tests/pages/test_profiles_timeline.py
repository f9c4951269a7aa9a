"""The Profiles page's timelines, by the state of their page: the window, what is said, what is sent. No browser."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.profile.ingest import TraceMetadata, add_trace
from engine.profile.reported import publish_reported
from engine.profile.timeline import timelines
from engine.store.entries import Entry
from engine.store.store import Store
from pages._profiles import timeline
from pages._profiles.timeline_tracks import details, family_colours, track
from pages._profiles.timeline_view import (
    MOST_FAMILIES,
    MOST_MARKS,
    REST,
    TimelineView,
    alt,
    answer,
    notes,
    ranked,
    rows,
)
from pages._profiles.traces import TraceSelection
from pages._shared.components import timeline_canvas
from pages._shared.components.timeline_canvas import packed_lane, packed_track
from pages._shared.theme import DARK, LIGHT
from tests.engine.profile.made_traces import write_trace
from tests.engine.profile.test_compare import kernels
from tests.engine.profile.test_ingest import event
from tests.engine.store.stored_runs import store_at
from tests.pages.component_tests import messages_of
from tests.pages.profile_traces import add, both, hostile

PAGE = """
from engine.store.store import Store
from pages._profiles import timeline, traces
store = Store.open().snapshot()
chosen, _ = traces.query_of({}).read(store.found(traces.TRACE))
timeline.show(store, chosen)
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return store_at(tmp_path / "store")


def opened(**query: str) -> AppTest:
    app = AppTest.from_string(PAGE, default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def pair(store: Store, tmp_path: Path) -> tuple[Entry, Entry]:
    """The control with its events, the test three times as long."""
    found = []
    for name, events in (("short", 4_000), ("long", 12_000)):
        write_trace(tmp_path / f"{name}.json", events)
        found.append(
            add_trace(store, tmp_path / f"{name}.json", TraceMetadata(label=name), with_events=name == "short")
        )
    return found[0], found[1]


def said(app: AppTest) -> str:
    return (
        "\n".join(one.value for one in (*app.markdown, *app.caption, *app.info, *app.error))
        .replace("\\", "")
        .replace("\xa0", " ")
    )


def views(
    store: Store, *traces: Entry, side: str = "device", window_ms: tuple[float, float] = (0, 5)
) -> list[TimelineView]:
    chosen = TraceSelection(traces[0], traces[1:])
    return [timeline._view(store, chosen, entry, side, 0.0, window_ms) for entry in traces]


def window(app: AppTest) -> tuple[str, str]:
    """As the address has it."""
    found = (app.query_params.get(name, "") for name in (timeline.FROM, timeline.TO))
    start, end = (one[-1] if isinstance(one, list) else one for one in found)
    return start, end


def test_nothing_to_draw_says_why(store: Store) -> None:
    publish_reported(store)
    words = said(opened(control="reported-003-qwen", test="reported-003-llama"))
    assert words.count("a report states sums only: no timeline") == 2


def test_what_both_lack_is_said_once(store: Store) -> None:
    assert notes(views(store, *both(store), side="host")) == [
        "A and B: single events were not kept (trace add --events keeps them)."
    ]


def test_both_on_one_axis(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = pair(store, tmp_path)
    messages = messages_of(timeline_canvas._component, monkeypatch)
    words = said(opened(control=short.id, test=long.id))
    assert "A: between first and last work the device is busy" in words and "B: between first" in words
    assert "its longest pause is " in words
    assert "B: single events were not kept (trace add --events keeps them)" in words
    (message,) = messages
    assert message["window"] == [0, message["most"]] and message["most"] == long.row["span_us"] / 1000
    assert [one["name"] for one in message["large"]["tracks"]] == ["A · short · imported", "B · long · imported"]
    assert "Work along time" in message["label"]
    assert len(json.dumps(message)) < 500_000


def test_a_window_of_the_address_is_told_and_sent(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, long = pair(store, tmp_path)
    messages = messages_of(timeline_canvas._component, monkeypatch)
    app = opened(control=short.id, test=long.id, tl_from="20", tl_to="30.5")
    assert "From 20.000 to 30.500 ms: A is idle here. B: work takes" in said(app)
    assert "long pauses are" in said(app)
    assert messages[-1]["window"] == [20, 30.5]
    app.query_params[timeline.TO] = "31"
    app.run()
    assert messages[-1]["window"] == [20, 31] and "large" not in messages[-1]  # shares travel once


def window_page() -> None:

    from pages._profiles.timeline import _keep_window
    from pages._shared.components.timeline_canvas import hand_window

    hand_window("canvas", 10.0, lambda start, end: _keep_window(start, end, 10.0))


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ([2, 3.25], ("2", "3.25")),
        ([0, 3], ("", "3")),
        ([4, 10.0], ("4", "")),
        ([0, 10], ("", "")),
        *(((wrong), ("1", "")) for wrong in ([5, 2], [-1, 3], [2, 11], ["a", "b"], [1], None, {"x": 1})),
    ],
)
def test_a_window_that_rests_is_in_the_address(sent: Any, kept: tuple[str, str]) -> None:
    app = AppTest.from_function(window_page)
    app.query_params[timeline.FROM] = "1"
    app.session_state["canvas"] = {"window": sent}
    app.run()
    assert not app.exception and window(app) == kept


@pytest.mark.parametrize(
    ("start", "end"), [("nonsense", "1"), ("5", "2"), ("-3", "1e99"), ("1e9", ""), ("nan", "nan"), ("inf", "0")]
)
def test_windows_that_cannot_be_are_all_of_it(store: Store, tmp_path: Path, start: str, end: str) -> None:
    short, _ = pair(store, tmp_path)
    app = opened(control=short.id, **{timeline.FROM: start, timeline.TO: end})
    assert "between first and last work" in said(app) or "From 0.000 to 1.000 ms" in said(app)


def test_sides_and_alignment(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    late = [event("cpu_op", "aten::mm", 0, 10), event("kernel", "gemm", 5_000, 1_000, stream=7, device=0)]
    entry = add(store, late, label="late")
    messages = messages_of(timeline_canvas._component, monkeypatch)
    app = opened(control=entry.id, tl_align=timeline.WORK)
    assert app.segmented_control(timeline.ALIGN).value == timeline.WORK
    assert messages[-1]["shifts"] == pytest.approx([5], abs=0.002) and messages[-1]["most"] == pytest.approx(
        1, abs=0.002
    )
    host = opened(control=entry.id, tl_side="Operators", tl_from="1", tl_to="2")
    assert "From 1.000 to 2.000 ms: A is idle here." in said(host)
    cpu = add(store, [event("cpu_op", "aten::mm", 0, 10)], label="cpu")
    words = said(opened(control=entry.id, test=cpu.id))
    assert "B · cpu · imported has nothing under 'device'" in words
    alone = said(opened(control=cpu.id))
    assert (
        "A has no device: operators take 100 % of its span of 10.0 µs, the largest is gemm with 100 % of the span"
        " (100 % of the work)." in alone
    )


def test_events_show_in_a_small_window(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = pair(store, tmp_path)
    first, second = both_views = views(store, short, long, window_ms=(1.0, 2.0))
    assert first.events is not None and first.events.count == len(first.events.events) > 10
    families = ranked(both_views)
    lanes = {lane.name: lane for lane in details(first, families, LIGHT)}
    assert set(lanes) == {"stream 20", "stream 7"}
    span, event_ = lanes["stream 7"].spans[0], next(one for one in first.events.events if one.lane == "stream 7")
    assert (span.start_ms, span.dur_ms, span.about) == (event_.start_us / 1e3, event_.dur_us / 1e3, event_.family)
    assert event_.family in list(families.values())[span.family or 0]
    assert details(second, families, LIGHT) == []  # it kept none
    assert {lane.name for lane in track(first, families, LIGHT).lanes} == {"forward", "longest pauses"}
    assert all(row["trace"].startswith(("A", "B")) for row in rows(both_views))
    monkeypatch.setattr("engine.profile.timeline.MOST_ASKED", 10)
    (crowded,) = views(store, short, window_ms=(1.0, 2.0))
    (lane,) = details(crowded, families, LIGHT)
    assert lane.spans == () and "zoom in" in lane.note


def test_what_travels_once_is_small_and_holds_the_time(store: Store, tmp_path: Path) -> None:
    short, long = pair(store, tmp_path)
    both_views = views(store, short, long, window_ms=(0.0, long.row["span_us"] / 1000))
    families = ranked(both_views)
    assert len(families) == MOST_FAMILIES + 1 and REST in families
    assert {one for held in families.values() for one in held} == set(timelines(long)["device"].families)
    assert len(set(family_colours(families, DARK).values())) == len(families)
    packed = packed_track(track(both_views[1], families, DARK))
    assert len(packed["shares"]) < 100_000
    shares = np.frombuffer(base64.b64decode(packed["shares"]), "<u2").reshape(len(families), packed["bins"])
    time_us = shares.sum() * packed["scale"] * packed["bin"] * 1000
    assert time_us == pytest.approx(long.row["device_us"], rel=1e-4)
    assert "Work along time, from 0.000 to" in alt(both_views, families)


def test_families_keep_their_colours_in_every_window(store: Store, tmp_path: Path) -> None:
    short, long = pair(store, tmp_path)
    assert ranked(views(store, short, long)) == ranked(views(store, short, long, window_ms=(1.0, 1.2)))


def test_hostile_names_are_told_and_escaped(store: Store) -> None:
    entry = hostile(store)
    (view,) = views(store, entry, window_ms=(0, entry.row["span_us"] / 1000))
    chosen = TraceSelection(entry)
    words = answer(chosen, [view], is_whole=True)
    assert "\u202e" not in words and len(words) < 1_000
    sent = packed_track(track(view, ranked([view]), LIGHT))
    sent["details"] = [packed_lane(lane) for lane in details(view, ranked([view]), LIGHT)]
    assert "\u202e" not in json.dumps(sent, ensure_ascii=False) and "x" * 1_000 not in json.dumps(sent)
    raw = "\n".join(one.value for one in opened(control=entry.id).markdown)
    assert "<img" not in raw and "[x](" not in raw


def test_the_longest_of_many_marks_are_drawn_and_that_is_said(store: Store) -> None:
    marks = [event("user_annotation", f"phase {n % 2}", 10 * n, 5 + n % 3) for n in range(2_400)]
    entry = add(store, [*marks, *kernels(("gemm", 24_000.0))])
    (view,) = views(store, entry, window_ms=(0, 24))
    assert len(view.marks) == MOST_MARKS < view.marks_count
    assert any("the 1,000 longest of 2,400 marks in the window" in note for note in notes([view]))
    assert details(view, ranked([view]), LIGHT) == []  # the same ones
    (closer,) = views(store, entry, window_ms=(0, 1))
    (lane,) = details(closer, ranked([closer]), LIGHT)
    assert len(lane.spans) == 100 and lane.colour == track(view, ranked([view]), LIGHT).lanes[0].colour


def test_a_damaged_timeline_is_said_in_its_place(store: Store) -> None:
    control, _ = both(store)
    st.cache_data.clear()
    path = Path(control.path("trace_timeline"))
    path.write_bytes(b"x" * path.stat().st_size)
    assert "Trace_timeline of" in said(opened(control=control.id))
