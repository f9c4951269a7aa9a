"""Cards: what a question gives is drawn, its options are in the address, and what goes wrong stays in one card."""

from __future__ import annotations

import gc
import json
import math
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine import questions
from engine.figures.words import hundredths
from engine.questions import PAGES, ask, question_of
from engine.questions.question import Answered, Chart, Column, cell_of, rows_table
from engine.store.memo import Memo
from engine.store.store import Store
from pages._kit import card
from pages._kit.card import ALL_FIGURES, shown_column, width_of
from pages._kit.chart import FADED, figure_of, safe
from pages._kit.theme import LIGHT, mixed
from pages._kit.time_chart import time_figure
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.engine.store.stored_runs import store_at
from tests.pages import apps
from tests.pages.apps import shown, words

NONE, EXACT, BLOCKED = (demo_run("llama", lp) for lp in ("none", "exact", "group-v2.1"))
REPORTED = "reported-002-qwen-lp-64"
HOSTILE = "<img src=x onerror=alert(1)>[a](http://b.c)$x$ :material/star: %{x}"


@pytest.fixture(autouse=True)
def demo(demo_store: None) -> None:
    """The store that ships, where a test has none of its own."""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return store_at(tmp_path / "store")


def opened(view: str, question: str = "", **query: str | list[str]) -> AppTest:
    unfolded = {f"kept {ALL_FIGURES}": True}
    return apps.opened("compare", session=unfolded, view=view, **query, **({"question": question} if question else {}))


VIEWS = [
    (view, group, keys) for (view, group), keys in PAGES["compare"].items() if view != "Advice" and group != "Training"
]


@pytest.mark.parametrize(("view", "group", "keys"), VIEWS, ids=[f"{v} {g}".strip() for v, g, _ in VIEWS])
def test_a_view_has_the_cards_of_its_questions_and_their_answers(view: str, group: str, keys: list[str]) -> None:
    app = opened(view, group, control=NONE, test=[EXACT, REPORTED])
    assert [heading.value for heading in app.header] == [question_of(key).TITLE for key in keys]
    said = words(app).replace(" ", "")
    for key in keys:
        answer = ask(DEMO_STORE, key, [NONE, EXACT, REPORTED]).answer
        assert all(part.replace(" ", "").replace("\u00a0", "") in said for part in answer.split("\n"))


def test_runs_of_no_training_have_no_charts_over_steps() -> None:
    said = words(opened("Charts", "Training", control=NONE, test=[EXACT, REPORTED]))
    assert said.lower().count("none of these runs is a step of a training") == 2


def test_two_streams_of_a_file_are_compared_in_place_of_runs(tmp_path: Path) -> None:
    file = tmp_path / "rank_0.jsonl"
    row = {"token_ids": [*range(9)], "inference_logprobs": [-1.0] * 9, "trainer_logprobs": [-1.0] * 8 + [-3.0]}
    file.write_text(json.dumps(row), encoding="utf-8")
    app = opened("Log-probabilities", control=NONE, test=[EXACT, REPORTED], streams=str(file))
    assert "rank_0.jsonl: 1 of 9 tokens differ" in words(app)
    assert app.dataframe[-1].value["difference"].to_list() == [-2.0]


def test_a_table_has_the_figures_that_a_terminal_gives() -> None:
    app = opened("Coverage", control=NONE, test=[EXACT], evaluation_threshold="0.5 Å")
    table = app.dataframe[-2].value.set_index("name")
    rows = ask(DEMO_STORE, "compare_coverage", [NONE, EXACT], {"evaluation_threshold": "0.5 Å"}).tables["main"]
    expected = {row["name"]: float(hundredths(row["cov_r"])) for row in rows.to_pylist()}
    assert table["cov_r"].to_dict() == expected and len(expected) == 4


def test_a_narrow_column_has_room_for_its_longest_cell() -> None:
    """The browser measures the first rows alone: 152,064 was 152,06 in *All claims*."""
    assert (width_of(["report", "5", *[""] * 100, "48,440,123"]) or 0) >= 8 * len("48,440,123")
    assert (width_of(["", "1.40× faster than demo-qwen:final ▲"]) or 0) >= 8 * 34
    assert width_of(["statement", "a" * 200]) is None


def test_each_small_chart_has_its_own_rows_alone() -> None:
    """The left one had an empty row of the right one."""
    rows = [{"run": "a", "x": 2.0, "y": y, "of": of} for of, y in (("left", "one"), ("right", "two"))]
    figure = figure_of(Chart("points", "x", "y", split="of"), rows, {}, {"a": "a"})
    assert [axis.categoryarray for axis in (figure.layout.yaxis, figure.layout.yaxis2)] == [("one",), ("two",)]


def test_an_option_redraws_its_card_and_is_in_the_address() -> None:
    app = opened("Charts", "Where time goes", control=NONE, test=[EXACT], time_in="seconds per sample")
    assert shown(app)["time_in"] == "seconds per sample"
    app.segmented_control(key="made_of").set_value("passes × time per pass").run()
    assert "1.63× by passes, " in words(app)


def test_a_pair_that_was_clicked_can_be_cleared() -> None:
    app = opened("Charts", "Molecules", control=NONE, test=[EXACT], pair="3-3", points_by="tokens")
    assert app.dataframe[-1].value["control_sample"].tolist()[0].startswith("drift?run=")
    assert len(app.dataframe[-1].value) < 64
    app.button(key="clear-pair").click().run()
    assert len(app.dataframe[-1].value) == 64


def test_what_needs_work_has_a_button_that_starts_its_command(own: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(own, "one", [sample_row(0, smiles="CCO", text="[CONFORMER][C]<0.0,0.0,0.0>[/CONFORMER]")])
    started: list[list[str]] = []
    monkeypatch.setattr("pages._kit.card.tasks.submit", lambda title, words: started.append(list(words)))
    app = opened("Coverage", control="one")
    assert "1 of 1 run is not evaluated" in words(app)
    app.button(key="compute-compare_coverage").click().run()
    assert started == [["evaluate", "one"]]
    assert "Choose runs of a model without an LP and with one" in words(opened("Side by side", control="one"))


def test_a_damaged_run_fails_its_own_cards_alone(own: Store) -> None:
    write_run(own, "one", [sample_row(0, tokens=5)], wall_s=2.0, forward_s=1.0)
    entry = own.entry("one")
    own.home.write(f"{entry.folder}/samples.parquet", b"x" * entry.parts["samples"].bytes)
    assert "damaged" in words(opened("Charts", "Failures", control="one"))
    app = opened("Charts", "Where time goes", control="one")
    assert not app.error and "forward takes 50" in words(app)


def test_a_chart_that_is_kept_keeps_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: up to 48 charts kept all rows that they and their answers had been made of, 500 MB for large runs."""
    answers = Memo[Answered](8)
    monkeypatch.setattr(questions, "_answers", answers)
    tables: list[weakref.ref[Any]] = []

    def asked(*about: Any) -> Answered:
        answered = ask(*about)
        tables.append(weakref.ref(answered.tables["main"]))
        return answered

    monkeypatch.setattr(card, "ask", asked)
    opened("Charts", "Speed and pass rate", control=NONE, test=[EXACT])
    gc.collect()
    assert tables[0]() is not None  # by its answer
    for number in range(8):
        answers.put(number, Answered("", {}, {}))
    gc.collect()
    assert tables[0]() is None


@pytest.mark.parametrize(("most_rows", "made"), [(2, 1), (1, 2)])
def test_a_chart_is_made_once_but_of_large_ones_the_last_few_alone_are_kept(
    most_rows: int, made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card, "SMALL_CHART", most_rows)
    monkeypatch.setattr(card, "_figures", Memo(1))
    monkeypatch.setattr(card, "_large_figures", Memo(0))
    rows: list[int] = []

    def made_of(*about: Any) -> Any:
        rows.append(len(about[1]))
        return figure_of(*about)

    monkeypatch.setattr(card, "figure_of", made_of)
    opened("Charts", "Speed and pass rate", control=NONE, test=[EXACT]).run()
    assert rows == [2] * made


# --- charts -----------------------------------------------------------------------------------------------------------


def test_runs_have_the_colours_of_their_places_and_differ_without_colour() -> None:
    answered = ask(DEMO_STORE, "compare_speed", [NONE, EXACT, BLOCKED])
    (chart,) = question_of("compare_speed").CHARTS
    rows, columns = answered.tables["main"].to_pylist(), question_of("compare_speed").COLUMNS
    looks, again = (
        {trace.name: (trace.marker.color[0], trace.marker.symbol) for trace in figure.data}
        for figure in (figure_of(chart, order, columns, answered.names) for order in (rows, rows[::-1]))
    )
    assert looks == again and len({symbol for _, symbol in looks.values()}) == len(looks) == 3


def test_whiskers_reach_from_low_to_high_and_bars_end_at_their_value() -> None:
    rows = [
        {"run": "a", "x": 2.0, "y": 0.5, "low": 0.4, "high": 0.8},
        {"run": "a", "x": 3.0, "y": 1.0, "low": None, "high": None},
    ]
    chart = Chart("points", "x", "y", low="low", high="high", interval="y", log="x")
    figure = figure_of(replace(chart, line_at=1.0), rows, {"y": Column("y", "%")}, {"a": "A"})
    (trace,), (line,) = figure.data, figure.layout.shapes
    assert line.y0 == line.y1 == 1
    assert list(trace.error_y.arrayminus) == pytest.approx([0.1, 0])
    assert list(trace.error_y.array) == pytest.approx([0.3, 0])
    bar = {"run": "a", "bar": "whole", "start": 1.0, "end": 0.25, "ratio": 0.25}
    (trace,) = figure_of(Chart("bars", "end", "bar", low="start", text="ratio", log="x"), [bar], {}, {"a": "a"}).data
    assert (trace.base[0], trace.base[0] + trace.x[0], trace.text[0]) == (1.0, 0.25, "0.250×")


def test_equal_baselines_are_one_in_the_legend() -> None:
    """Four dashed lines lay on each other, and each had a name."""
    chart = Chart("lines", "x", "y", colour="run", dash="is_baseline")
    for other, names in ((0.5, ["a", "baseline", "b"]), (0.6, ["a", "a (baseline)", "b", "b (baseline)"])):
        base = {"a": 0.5, "b": other}
        rows = [
            {"run": run, "x": x, "y": base[run] if is_baseline else 0.1, "is_baseline": is_baseline}
            for run in base
            for is_baseline in (False, True)
            for x in (1.0, 2.0)
        ]
        figure = figure_of(chart, rows, {}, {"a": "a", "b": "b"})
        assert [trace.name for trace in figure.data if trace.showlegend] == names


def test_words_at_bars_have_room_on_an_axis_of_powers() -> None:
    rows = [{"name": "a", "x": 0.5, "words": "slower by 2×"}, {"name": "b", "x": 8.0, "words": "8× faster"}]
    for text, left, right in (("words", 0.5, 0.25), ("", 0.1, 0.1)):
        chart = Chart("bars", "x", "name", colour="name", text=text, log="x", line_at=1)
        low, high = figure_of(chart, rows, {}, {}).layout.xaxis.range
        assert (low, high) == pytest.approx((-0.301 - left * 1.204, 0.903 + right * 1.204), abs=0.01)


def test_a_difference_of_shares_is_in_points_in_charts_tables_and_terminals() -> None:
    """It had the unit %, as if it were a share."""
    column = Column("change", "points")
    rows = [{"change": -0.4375, "low": -0.5, "high": None, "step": "a", "model": "m"}]
    chart = Chart("points", "change", "step", colour="model", low="low", high="high", hover=("change",))
    figure = figure_of(chart, rows, dict.fromkeys(("change", "low", "high"), column), {})
    (trace,) = figure.data
    assert (list(trace.x), list(trace.error_x.arrayminus)) == ([-43.75], [6.25])
    assert (figure.layout.xaxis.title.text, figure.layout.xaxis.tickformat) == ("change (points)", None)
    assert trace.hovertext[0].startswith("change: −43.") and trace.hovertext[0].endswith(" points")
    values, config = shown_column("change", column, [0.125, None])
    assert (values, config["label"]) == ([12.5, None], "change (points)")
    assert (cell_of(column, -0.4375), cell_of(column, "–")) == ("-43.8", "–")


def test_words_next_to_points_have_room() -> None:
    """They were cut at the right end, and above 100 %."""
    rows = [{"s": s, "share": 1.0, "name": name} for s, name in ((0.1, "a"), (0.2, "b"))]
    columns = {"share": Column("share", "%")}
    for text, most, share in (("name", 1.12, 0.2), ("", 1.05, 0.08)):
        chart = Chart("points", "s", "share", colour="", interval="y", log="x", text=text)
        layout = figure_of(chart, rows, columns, {}).layout
        assert layout.yaxis.range[1] == most
        room = max(share * math.log10(2), 0.12)
        assert layout.xaxis.range[1] == pytest.approx(math.log10(0.2) + room)


def test_times_of_a_chart_are_in_one_unit() -> None:
    """1.20 ms stood next to 900 µs."""
    chart = Chart("bars", "ms", "name", colour="part", text="ms", hover=("ms",))
    for unit, unit_ms in (("µs", 1e-3), ("ms", 1.0), ("s", 1e3)):
        times = {"long": 1.2 * unit_ms, "short": -0.9 * unit_ms, "none": 0.0}
        rows = [{"name": name, "ms": ms, "part": "a"} for name, ms in times.items()]
        figure = figure_of(chart, rows, {"ms": Column("work", "ms")}, {})
        (trace,) = figure.data
        assert list(trace.x) == pytest.approx([1.2, -0.9, 0])
        assert figure.layout.xaxis.title.text == f"work ({unit})"
        assert list(trace.text) == [f"1.20 {unit}", f"−0.900 {unit}", f"0 {unit}"]
        assert list(trace.hovertext) == [f"work: {text}" for text in trace.text]


def test_slices_have_their_names_and_what_is_not_searched_for_is_faint() -> None:
    share = {"name": "a", "share": 0.5, "start_ms": 1.0, "end_ms": 3.0}
    shares = [share | {"family": "gemm", "is_faint": True},
              share | {"family": "copy", "start_ms": 2.0, "end_ms": 4.0, "is_faint": False}]  # fmt: skip
    span = {"name": "a", "end": 2.0}
    spans = [span | {"lane": "marks <img>", "what": "step <1>", "family": None, "start": 0.0, "is_faint": True},
             span | {"lane": "work", "what": "copy", "family": "copy", "start": 1.5, "is_faint": False}]  # fmt: skip
    tables = {"main": rows_table(shares), "spans": rows_table(spans)}
    (chart,) = question_of("profiles_timeline").CHARTS
    figure = time_figure(chart, tables, {})
    gemm, copy, bars = figure.data
    assert list(bars.y) == ["marks &lt;img&gt;", "work"] and figure.layout.yaxis2.categoryarray == bars.y[::-1]
    assert list(bars.text) == ["step &lt;1&gt;", "copy"] and bars.textposition == "inside"
    assert (list(bars.base), list(bars.x)) == ([1, 1.5], [1, 0.5])  # the axis begins at 1
    assert (gemm.fillcolor, copy.fillcolor) == (mixed(LIGHT.background, LIGHT.series[0], FADED), LIGHT.series[1])
    assert list(bars.marker.color) == [mixed(LIGHT.background, LIGHT.muted, FADED), copy.fillcolor]
    assert (list(gemm.x), list(gemm.y)) == ([1, 2, 3, 4], [0.5, 0, 0, 0])


def test_a_kind_of_a_map_has_its_colour_whatever_else_is_there_and_a_legend() -> None:
    chart = Chart("heat", "x", "y", colour="kind", text="letter", kinds=("a", "b", "on purpose"))
    fills: list[dict[str, str]] = []
    for kinds in (["a", "b", ""], ["b", "on purpose"]):
        rows = [{"x": place, "y": "0", "kind": kind, "letter": kind[:1]} for place, kind in enumerate(kinds)]
        heat, *legend = figure_of(chart, rows, {}, {}).data
        fills.append({trace.name: trace.marker.color for trace in legend})
        assert [*fills[-1]] == sorted(filter(None, kinds)) and all(trace.showlegend for trace in legend)
        steps = [colour for _, colour in heat.colorscale[::2]]
        assert (heat.zmin, heat.zmax) == (-0.5, len(steps) - 0.5)
        assert [steps[int(level)] for level in heat.z[0]] == [fills[-1].get(kind, LIGHT.surface) for kind in kinds]
    assert fills[0]["b"] == fills[1]["b"] != fills[0]["a"] and fills[1]["on purpose"] == LIGHT.neutral


@pytest.mark.parametrize(
    "chart",
    [Chart("heat", "name", "reason", size="share", text="samples"), Chart("points", "share", "name", colour="reason")],
)
def test_anybodys_text_is_no_markup_in_a_figure(chart: Chart) -> None:
    rows = [{"run": "a", "name": HOSTILE, "reason": HOSTILE, "samples": 3, "share": 0.5}]
    figure = figure_of(chart, rows, {}, {"a": HOSTILE}).to_json()
    assert "<img" not in figure.replace("\\u003c", "<") and "onerror" in figure
    assert safe("<b>&") == "&lt;b&gt;&amp;"
