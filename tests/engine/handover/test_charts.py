"""Charts as SVG: where marks are, what they say, and what is not drawn."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from engine.handover.charts import WIDTH, drawn
from engine.questions import KEYS, ask, question_of
from engine.questions.question import Chart, Column
from tests.engine.inspection.made import DEMO_STORE, demo_run

EVIL = '</svg><script>alert("x")</script>'
SVG = "{http://www.w3.org/2000/svg}"


def marks(svg: str, css: str) -> list[dict[str, str]]:
    return [one.attrib for one in ElementTree.fromstring(svg).iter() if css in one.get("class", "").split()]


def texts(svg: str, tag: str) -> list[str | None]:
    return [one.text for one in ElementTree.fromstring(svg).iter(f"{SVG}{tag}")]


def middle(mark: dict[str, str]) -> float:
    across = [float(corner.split(",")[0]) for corner in mark.get("points", "").split()] or [float(mark.get("cx", 0))]
    return (min(across) + max(across)) / 2


def test_points_are_where_their_figures_are() -> None:
    chart = Chart("points", "x", "y", low="low", high="high", line_at=1, log="x", text="words")
    rows = [
        {"run": run, "x": x, "y": name, "low": x / 2, "high": x * 2, "words": f"{x}×"}
        for run, name, x in (("a", "one", 0.1), ("b", "two", 1.0), ("b", EVIL, 10.0))
    ]
    made = drawn(chart, rows, {"x": Column("ratio", "×")}, {"a": "control", "b": "test"})
    ((_, svg),) = made.panels
    first, second, third = map(middle, marks(svg, "mark"))
    assert second - first == pytest.approx(third - second, abs=0.2)  # a power of ten each
    ((level,), whiskers) = marks(svg, "level"), marks(svg, "whisker")
    assert float(level["d"][1:].split()[0]) == pytest.approx(second, abs=0.1) and len(whiskers) == 3
    assert texts(svg, "title")[0] == "one, ratio: 0.100×, low: 0.050, high: 0.200"
    assert {"10.0×", EVIL} <= {*texts(svg, "text")} and "<script" not in svg
    assert [name for _, name in made.legend] == ["control", "test"]


def test_bars_stack_by_sign_and_share_a_scale() -> None:
    rows = [
        {"at": at, "share": share, "sign": sign, "title": title}
        for title, at, share, sign in (
            ("x", "-1", 0.5, "cut"), ("x", "0", 0.25, "exact"), ("x", "0", 0.25, "junk-prone"),
            (EVIL, "0", 1.0, "exact"),
        )
    ]  # fmt: skip
    ((x, svg), (y, other)) = drawn(Chart("bars", "at", "share", colour="sign", split="title"), rows, {}, {}).panels
    heights = [float(mark["height"]) for mark in (*marks(svg, "bar"), *marks(other, "bar"))]
    assert (x, y) == ("x", EVIL)
    assert heights == pytest.approx([heights[3] * part for part in (0.5, 0.25, 0.25, 1)], 0.01)
    lower, upper = marks(svg, "bar")[1:]
    assert float(upper["y"]) + float(upper["height"]) == pytest.approx(float(lower["y"]), abs=0.2)
    assert len(marks(svg, "hatch")) == 2  # what is cut, and what is junk
    lying = [{"run": "a", "end": end, "from": start, "name": name} for name, start, end in (("p", 1, 2), ("q", 4, 2))]
    ((_, svg),) = drawn(Chart("bars", "end", "name", low="from", log="x"), lying, {}, {}).panels
    first, second = marks(svg, "bar")
    assert float(first["width"]) == pytest.approx(float(second["width"]), abs=0.2)
    assert float(second["x"]) == pytest.approx(float(first["x"]) + float(first["width"]), abs=0.2)


@pytest.mark.parametrize("kind", ["points", "bars"])
def test_no_two_series_look_the_same(kind: Any) -> None:
    """Colours are used again from the ninth series on."""
    names = {f"run-{number}": f"run {number}" for number in range(14)}
    rows = [{"run": run, "x": float(number), "y": 1.0} for number, run in enumerate(names)]
    legend = drawn(Chart(kind, "x", "y"), rows, {}, names).legend
    assert len({svg for svg, _ in legend}) == len(legend) == 14


def test_names_next_to_marks_are_of_few_series() -> None:
    """Of more the legend has them: next to the marks they would cover each other."""
    for count in (8, 9):
        rows = [{"run": f"run {number}", "x": float(number), "y": 1.0} for number in range(count)]
        chart = drawn(Chart("points", "x", "y", text="run"), rows, {}, {})
        named = [text for text in texts(chart.panels[0][1], "text") if str(text).startswith("run")]
        assert len(named) == (8 if count == 8 else 0) and len(chart.legend) == count


def test_lines_cells_and_what_is_not_drawn() -> None:
    rows = [{"run": "a", "x": x, "y": x * x} for x in range(3)]
    ((_, svg),) = drawn(Chart("lines", "x", "y"), rows, {}, {}).panels
    heights = [float(corner.split()[1]) for corner in marks(svg, "line")[0]["d"][1:].split("L")]
    assert heights[0] - heights[2] == pytest.approx(4 * (heights[0] - heights[1]), rel=0.02)
    cells = [{"name": name, "why": "cut", "share": share, "n": 7} for name, share in (("a", 0.5), ("b", 0.25))]
    ((_, svg),) = drawn(Chart("heat", "name", "why", size="share", text="n"), cells, {}, {}).panels
    assert [float(mark["fill-opacity"]) for mark in marks(svg, "cell")] == [0.55, 0.275]
    many = [{"run": "a", "x": 1, "y": number} for number in range(1_001)]
    unknown = [{"run": "a", "x": None, "y": 1}]
    for kind, some in (("points", many), ("points", unknown), ("time", rows)):
        assert drawn(Chart(kind, "x", "y"), some, {}, {}) is None  # type: ignore[arg-type]


NEED_MORE = ("compare_coverage", "drift_branches", "drift_resolution")  # references, branches, work


@pytest.mark.parametrize("key", [key for key in KEYS if key.startswith(("compare_", "drift_"))])
def test_charts_of_the_demo_are_within_their_frames(key: str) -> None:
    question = question_of(key)
    if question.OF.kind != "run" or not question.CHARTS or key in NEED_MORE:
        pytest.skip("no chart of runs alone")
    runs = [demo_run("qwen", "none"), demo_run("qwen", "group-v2.1")][: question.OF.most]
    answered = ask(DEMO_STORE, key, runs)
    for chart in question.CHARTS:
        rows = answered.tables[chart.table].to_pylist() if chart.table in answered.tables else []
        made = drawn(chart, rows, question.COLUMNS, answered.names)
        is_known = any(None not in (row[chart.x], row[chart.y]) for row in rows)
        assert (made is not None) == (is_known and chart.kind != "matrix")
        for _, svg in made.panels if made else ():
            at = [one.get(name) for one in ElementTree.fromstring(svg).iter() for name in ("x", "cx", "width")]
            assert all(-1 <= float(value) <= WIDTH for value in at if value is not None)
