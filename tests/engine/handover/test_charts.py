"""Charts as rows of marks: what each is, how it looks and what it says, and what is not drawn."""

from __future__ import annotations

from typing import Any

import pytest

from engine.handover.charts import MOST_MARKS, chart_view
from engine.handover.collecting import ASKED_OF
from engine.questions import ask, question_of
from engine.questions.question import Chart, Column, rows_table
from engine.store.schema import TRACE
from tests.engine.inspection.made import DEMO_STORE, demo_run


def view_of(chart: Chart, rows: list[dict[str, Any]], **more: Any) -> Any:
    return chart_view(chart, {"main": rows_table(rows)}, more.get("columns", {}), more.get("names", {}))


def test_points_have_their_figures_intervals_and_words() -> None:
    chart = Chart("points", "x", "y", low="low", high="high", line_at=1, log="x", text="words")
    rows = [
        {"run": run, "x": x, "y": name, "low": x / 2, "high": None if name == "two" else x * 2, "words": f"{x}×"}
        for run, name, x in (("a", "one", 0.1), ("b", "two", 1.0))
    ]
    view = view_of(chart, rows, columns={"x": Column("ratio", "×")}, names={"a": "control", "b": "test"})
    first, second = view["panels"][0]["marks"]
    figures = {"x": 0.1, "y": "one", "low": 0.05, "high": 0.2, "text": "0.1×"}
    assert figures.items() <= first.items() and first["about"] == "one, ratio: 0.100×, low: 0.050, high: 0.200"
    assert "high" not in second and (first["look"], second["look"]) == ("s0 d0", "s1 d0")
    assert view["x"] == {"head": "ratio", "unit": "×", "is_log": True} and view["level"] == 1
    assert [(glyph, name) for _, glyph, name in view["legend"]] == [("●", "control"), ("■", "test")]


def test_what_is_damaged_is_hatched() -> None:
    rows = [{"at": "0", "share": 0.25, "sign": sign, "title": "x"} for sign in ("exact", "junk-prone", "cut")]
    view = view_of(Chart("bars", "at", "share", colour="sign", split="title"), rows)
    looks = [(mark["look"], mark["shape"] % 2) for mark in view["panels"][0]["marks"]]
    assert looks == [("exact d0", 0), ("junk d0", 1), ("cut d0", 1)]
    assert [glyph for _, glyph, _ in view["legend"]] == ["■", "▨", "▨"]


@pytest.mark.parametrize("kind", ["points", "bars", "lines"])
def test_no_two_series_look_the_same(kind: Any) -> None:
    """Colours are used again from the ninth series on."""
    names = {f"run-{number}": f"run {number}" for number in range(14)}
    rows = [{"run": run, "x": float(number), "y": 1.0} for number, run in enumerate(names)]
    view = view_of(Chart(kind, "x", "y"), rows, names=names)
    assert len({(look, glyph) for look, glyph, _ in view["legend"]}) == 14
    if kind == "lines":  # whose marks have no shape, but a dash
        assert len({mark["look"] for mark in view["panels"][0]["marks"]}) == 14
        assert [glyph for _, glyph, _ in view["legend"]] == ["━"] * 8 + ["╍"] * 6


def test_what_is_not_drawn() -> None:
    rows = [{"run": "a", "x": 1, "y": number} for number in range(MOST_MARKS + 1)]
    unknown = [{"run": "a", "x": None, "y": 1}]
    for chart, some in (
        (Chart("points", "x", "y"), rows),
        (Chart("points", "x", "y"), unknown),
        (Chart("matrix", "x", "y"), rows[:2]),
        (Chart("heat", "x", "y", kinds=("a",)), rows[:2]),
    ):
        assert view_of(chart, some) is None
    split = [{"run": "a", "x": 1, "y": 1, "name": str(number)} for number in range(13)]
    view = view_of(Chart("points", "x", "y", split="name"), split)
    assert len(view["panels"]) == 12 and view["panels_left_out"] == 1


def test_a_timeline_has_shares_and_below_them_spans_on_one_axis() -> None:
    (trace,) = [entry.id for entry in DEMO_STORE.listing(TRACE).entries if "demo-llama-final-exact" in entry.id]
    question, answered = question_of("profiles_timeline"), ask(DEMO_STORE, "profiles_timeline", [trace])
    shares, lanes = answered.tables["main"].to_pylist(), answered.tables["spans"].to_pylist()
    view = chart_view(question.CHARTS[0], answered.tables, question.COLUMNS, answered.names)
    assert view is not None and view["x"]["head"] == "time (ms)"
    upper, lower = view["panels"]
    assert view["x"]["ends"] == [min(row["start_ms"] for row in shares), max(row["end_ms"] for row in shares)]
    of_shares = sum(mark["size"] * mark["y"] for mark in upper["marks"])
    expected = sum((row["end_ms"] - row["start_ms"]) * row["share"] for row in shares)
    assert len(upper["marks"]) == len(shares) and of_shares == pytest.approx(expected, rel=1e-4)
    assert sorted(mark["y"] for mark in lower["marks"]) == sorted(span["lane"] for span in lanes)
    longest = max(lanes, key=lambda span: span["end"] - span["start"])
    assert lower["marks"][0]["about"].startswith(longest["what"]) and upper["title"] == answered.names[trace]


@pytest.mark.parametrize("key", sorted({*ASKED_OF["runs"], "compare_masks", "compare_time", "drift_lp"}))
def test_charts_of_the_demo_have_all_of_their_rows(key: str) -> None:
    question = question_of(key)
    answered = ask(DEMO_STORE, key, [demo_run("qwen", "none"), demo_run("qwen", "group-v2.1")][: question.OF.most])
    for chart in [chart for chart in question.CHARTS if chart.table in answered.tables]:
        view = chart_view(chart, answered.tables, question.COLUMNS, answered.names)
        rows = answered.tables[chart.table].to_pylist()
        known = [row for row in rows if None not in (row[chart.x], row[chart.y])]
        assert (view is not None) == (bool(known) and chart.kind != "matrix")
        assert view is None or sum(len(panel["marks"]) for panel in view["panels"]) == len(known)
