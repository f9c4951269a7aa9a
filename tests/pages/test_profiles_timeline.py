"""The Profiles page's timelines, by the state of their page: the window, what is said, what is drawn. No browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import plotly.graph_objects as go
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.profile.ingest import TraceMetadata, add_trace
from engine.profile.reported import publish_reported
from engine.profile.timeline import timelines
from engine.store.entries import Entry
from engine.store.store import Store
from pages._profiles import timeline
from pages._profiles.timeline_figure import timeline_chart
from pages._profiles.timeline_view import MOST_FAMILIES, REST, TimelineView, alt, answer, notes, ranked, rows
from pages._profiles.traces import TraceSelection
from pages._shared.theme import DARK, LIGHT
from tests.engine.profile.made_traces import write_trace
from tests.engine.profile.test_compare import kernels
from tests.engine.profile.test_ingest import event
from tests.engine.store.stored_runs import store_at
from tests.pages.profile_traces import HOSTILE, add, both, hostile

PAGE = """
from engine.store.store import Store
from pages._profiles import timeline, traces
store = Store.open().snapshot()
chosen, _ = traces.query_of({}).read(store.found(traces.TRACE))
timeline.show(store, chosen)
"""
Open = Callable[..., AppTest]


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
    return "\n".join(one.value for one in (*app.markdown, *app.caption, *app.info, *app.error)).replace("\\", "")


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


def test_both_on_one_axis(store: Store, tmp_path: Path) -> None:
    short, long = pair(store, tmp_path)
    app = opened(control=short.id, test=long.id)
    words = said(app)
    assert "A: between first and last work the device is busy" in words and "B: between first" in words
    assert "its longest pause, " in words and " is between " in words
    assert "B: single events were not kept (trace add --events keeps them)" in words
    (shown,) = app.get("plotly_chart")
    assert "Work along time" in str(shown.proto)
    assert app.button("timeline_Whole").disabled and not app.button("timeline_Closer").disabled


def test_the_window_moves_and_is_in_the_address(store: Store, tmp_path: Path) -> None:
    short, long = pair(store, tmp_path)
    most = long.row["span_us"] / 1000
    app = opened(control=short.id, test=long.id)
    app.button("timeline_Closer").click().run()
    assert list(map(float, window(app))) == pytest.approx([most / 4, 3 * most / 4], abs=0.01)
    assert re.search(r"From [\d.]+ to [\d.]+ ms: A", said(app))
    app.button("timeline_Later").click().run()
    assert float(window(app)[0]) == pytest.approx(most / 2, abs=0.01)
    assert window(app)[1] == ""  # the end of all
    assert "A is idle here." in said(app)
    app.button("timeline_Earlier").click().run()
    app.button("timeline_Wider").click().run()
    assert window(app) == ("", "")
    app.button("timeline_pause").click().run()
    pause = list(map(float, window(app)))
    assert 0 <= pause[0] < pause[1] < most and "long pauses are" in said(app)
    app.button("timeline_Whole").click().run()
    assert window(app) == ("", "")


@pytest.mark.parametrize(
    ("start", "end"), [("nonsense", "1"), ("5", "2"), ("-3", "1e99"), ("1e9", ""), ("nan", "nan"), ("inf", "0")]
)
def test_windows_that_cannot_be_are_all_of_it(store: Store, tmp_path: Path, start: str, end: str) -> None:
    short, _ = pair(store, tmp_path)
    app = opened(control=short.id, **{timeline.FROM: start, timeline.TO: end})
    assert "between first and last work" in said(app) or "From 0.000 to 1.000 ms" in said(app)


def test_sides_alignment_and_strips(store: Store, tmp_path: Path) -> None:
    late = [event("cpu_op", "aten::mm", 0, 10), event("kernel", "gemm", 5_000, 1_000, stream=7, device=0)]
    entry = add(store, late, label="late")
    app = opened(control=entry.id, tl_align=timeline.WORK, tl_as="Strips")
    assert "of the time" in said(app)
    assert window(app) == ("", "")
    assert app.segmented_control(timeline.ALIGN).value == timeline.WORK
    host = opened(control=entry.id, tl_side="Operators", tl_from="1", tl_to="2")
    assert "From 1.000 to 2.000 ms: A is idle here." in said(host)
    cpu = add(store, [event("cpu_op", "aten::mm", 0, 10)], label="cpu")
    words = said(opened(control=entry.id, test=cpu.id))
    assert "B · cpu · imported has nothing under 'device'" in words
    alone = said(opened(control=cpu.id))
    assert "A has no device: operators take 100 % of its 10.0 µs, most of it gemm with 100 %" in alone


def test_events_show_in_a_small_window(store: Store, tmp_path: Path) -> None:
    short, long = pair(store, tmp_path)
    first, second = views(store, short, long, window_ms=(1.0, 2.0))
    assert first.events is not None and first.events.count == len(first.events.events) > 10
    assert second.events is None
    drawn = timeline_chart([first, second], ranked([first, second]), LIGHT, is_areas=True).figure(LIGHT)
    labels = {label for one in drawn.data if isinstance(one, go.Bar) and one.y[0] is not None for label in one.y}
    assert {"stream 7", "forward", "longest pauses"} <= labels
    assert all(row["trace"].startswith(("A", "B")) for row in rows([first, second]))


@pytest.mark.parametrize("is_areas", [True, False])
def test_a_figure_stays_light_and_holds_its_time(store: Store, tmp_path: Path, is_areas: bool) -> None:
    short, long = pair(store, tmp_path)
    both_views = views(store, short, long, window_ms=(0.0, long.row["span_us"] / 1000))
    families = ranked(both_views)
    assert len(families) == MOST_FAMILIES + 1 and REST in families
    assert {one for held in families.values() for one in held} == set(timelines(long)["device"].families)
    drawn = timeline_chart(both_views, families, DARK, is_areas=is_areas).figure(DARK)
    assert sum(len(one.x) for one in drawn.data if one.x is not None) < 10_000
    if is_areas:
        column = (both_views[1].stretch.edges_us[1] - both_views[1].stretch.edges_us[0]) / 100
        areas = [one for one in drawn.data if isinstance(one, go.Scatter)]
        row = [area for area in areas if area.stackgroup != areas[0].stackgroup]
        assert sum(sum(one.y[:-1]) for one in row) * column == pytest.approx(long.row["device_us"])
        patterns = {one.fillpattern.shape for one in row}
        assert len(patterns) == len(families)  # colour never stands alone
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
    drawn = timeline_chart([view], ranked([view]), LIGHT, is_areas=True).figure(LIGHT).to_json()
    assert HOSTILE not in drawn and "\u202e" not in drawn and "x" * 1_000 not in drawn
    raw = "\n".join(one.value for one in opened(control=entry.id).markdown)
    assert "<img" not in raw and "[x](" not in raw


def test_the_longest_of_many_marks_are_drawn_and_that_is_said(store: Store) -> None:
    marks = [event("user_annotation", f"phase {n % 2}", 10 * n, 5) for n in range(2_000)]
    entry = add(store, [*marks, *kernels(("gemm", 20_000.0))])
    (view,) = views(store, entry, window_ms=(0, 20))
    assert len(view.marks) == 600 < view.marks_count
    assert any("the 600 longest of 2,000 marks in the window" in note for note in notes([view]))


def test_a_damaged_timeline_is_said_in_its_place(store: Store) -> None:
    control, _ = both(store)
    st.cache_data.clear()
    path = Path(control.path("trace_timeline"))
    path.write_bytes(b"x" * path.stat().st_size)
    assert "Trace_timeline of" in said(opened(control=control.id))
