"""Cards: what a question gives is drawn, its options are in the address, and what goes wrong stays in one card."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.questions import PAGES, ask, question_of
from engine.questions.question import Chart, Column
from pages._kit.chart import figure_of, safe
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.engine.store.stored_runs import store_at
from tests.support import ROOT

NONE, EXACT, BLOCKED = (demo_run("llama", lp) for lp in ("none", "exact", "group-v2.1"))
REPORTED = "reported-002-qwen-lp-64"
HOSTILE = "<img src=x onerror=alert(1)>[a](http://b.c)$x$ :material/star: %{x}"
Open = Callable[..., AppTest]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Open:
    def open_page(store: Path = ROOT / "data" / "demo", **query: Any) -> AppTest:
        monkeypatch.setenv("DRIFTSCOPE_STORE", str(store))
        app = AppTest.from_file(str(ROOT / "pages" / "compare.py"), default_timeout=120)
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception
        return app

    return open_page


def texts(app: AppTest) -> str:
    return "\n".join(element.value for element in (*app.markdown, *app.caption, *app.info, *app.error)).replace(
        "\\", ""
    )


VIEWS = [(view, group, keys) for (view, group), keys in PAGES["compare"].items() if view != "Advice"]


@pytest.mark.parametrize(("view", "group", "keys"), VIEWS, ids=[f"{v} {g}".strip() for v, g, _ in VIEWS])
def test_a_view_has_the_cards_of_its_questions_and_their_answers(
    opened: Open, view: str, group: str, keys: list[str]
) -> None:
    app = opened(view=view, control=NONE, test=[EXACT, REPORTED], **({"question": group} if group else {}))
    assert [heading.value for heading in app.subheader] == [question_of(key).TITLE for key in keys]
    said = texts(app)
    for key in keys:
        answer = ask(DEMO_STORE, key, [NONE, EXACT, REPORTED]).answer
        assert all(part.replace(" ", "") in said.replace("\u00a0", "").replace(" ", "") for part in answer.split("\n"))


def test_a_table_has_the_figures_that_a_terminal_gives(opened: Open) -> None:
    app = opened(view="Coverage", control=NONE, test=[EXACT], evaluation_threshold="0.5 Å")
    table = app.dataframe[-1].value.set_index("name")
    rows = ask(DEMO_STORE, "compare_coverage", [NONE, EXACT], {"evaluation_threshold": "0.5 Å"}).tables["main"]
    expected = {row["name"]: 100 * row["cov_r"] for row in rows.to_pylist()}
    assert table["cov_r"].to_dict() == pytest.approx(expected)


def test_an_option_redraws_its_card_and_is_in_the_address(opened: Open) -> None:
    app = opened(view="Charts", question="Where time goes", control=NONE, test=[EXACT], time_in="seconds per sample")
    assert json.loads(app.session_state["shown"])["time_in"] == "seconds per sample"
    app.segmented_control(key="made_of").set_value("passes × time per pass").run()
    assert "passes 0.612× × wall time per pass" in texts(app)


def test_a_pair_that_was_clicked_can_be_cleared(opened: Open) -> None:
    app = opened(view="Charts", question="Molecules", control=NONE, test=[EXACT], pair="3-3", points_by="tokens")
    assert app.dataframe[-1].value["control_sample"].tolist()[0].startswith("drift?run=")
    assert len(app.dataframe[-1].value) < 64
    app.button(key="clear-pair").click().run()
    assert len(app.dataframe[-1].value) == 64


def test_too_few_runs_are_asked_for(opened: Open) -> None:
    assert "Choose at least 2." in texts(opened(control=NONE))


def test_what_needs_work_has_a_button_that_starts_its_command(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(tmp_path / "store")
    write_run(store, "one", [sample_row(0, smiles="CCO", text="[CONFORMER][C]<0.0,0.0,0.0>[/CONFORMER]")])
    started: list[list[str]] = []
    monkeypatch.setattr("pages._kit.card.tasks.submit", lambda title, words: started.append(list(words)))
    app = opened(tmp_path / "store", view="Coverage", control="one")
    assert "1 of 1 runs are not evaluated" in texts(app)
    app.button(key="compute-compare_coverage").click().run()
    assert started == [["evaluate", "one"]]


def test_a_damaged_run_fails_its_own_cards_alone(opened: Open, tmp_path: Path) -> None:
    store = store_at(tmp_path / "store")
    write_run(store, "one", [sample_row(0, tokens=5)], wall_s=2.0, forward_s=1.0)
    entry = store.entry("one")
    store.home.write(f"{entry.folder}/samples.parquet", b"x" * entry.parts["samples"].bytes)
    app = opened(tmp_path / "store", view="Charts", question="Failures", control="one")
    assert "The samples of" in texts(app) and "damaged" in texts(app)
    app = opened(tmp_path / "store", view="Charts", question="Where time goes", control="one")
    assert not app.error and "forward takes 50" in texts(app)


def test_texts_of_a_run_are_shown_as_texts(opened: Open, tmp_path: Path) -> None:
    write_run(store_at(tmp_path / "store"), "one", [sample_row(0, issues=[HOSTILE], passed=False, clean=False)],
              lp=HOSTILE)  # fmt: skip
    for question in ("Failures", "Where time goes"):
        app = opened(tmp_path / "store", view="Charts", question=question, control="one")
        assert not any(
            "[a](http" in element.value or "<img" in element.value.replace("\\<", "") for element in app.markdown
        )


# --- charts -----------------------------------------------------------------------------------------------------------


def test_runs_have_the_colours_of_their_places_and_differ_without_colour() -> None:
    answered = ask(DEMO_STORE, "compare_speed", [NONE, EXACT, BLOCKED])
    (chart,) = question_of("compare_speed").CHARTS
    rows, columns = answered.tables["main"].to_pylist(), question_of("compare_speed").COLUMNS
    figure = figure_of(chart, rows, columns, list(answered.names), answered.names)
    again = figure_of(chart, rows[::-1], columns, list(answered.names), answered.names)
    looks = {trace.name: (trace.marker.color[0], trace.marker.symbol) for trace in figure.data}
    assert looks == {trace.name: (trace.marker.color[0], trace.marker.symbol) for trace in again.data}
    assert len({symbol for _, symbol in looks.values()}) == len(looks) == 3


def test_whiskers_reach_from_low_to_high() -> None:
    rows = [
        {"run": "a", "x": 2.0, "y": 0.5, "low": 0.4, "high": 0.8},
        {"run": "a", "x": 3.0, "y": 1.0, "low": None, "high": None},
    ]
    chart = Chart("points", "x", "y", low="low", high="high", interval="y", log="x")
    (trace,) = figure_of(chart, rows, {"y": Column("y", "%")}, ["a"], {"a": "A"}).data
    assert list(trace.error_y.arrayminus) == pytest.approx([0.1, 0]) and list(trace.error_y.array) == pytest.approx(
        [0.3, 0]
    )


def test_bars_that_begin_somewhere_end_at_their_value() -> None:
    rows = [{"run": "a", "bar": "whole", "start": 1.0, "end": 0.25, "ratio": 0.25}]
    (trace,) = figure_of(Chart("bars", "end", "bar", low="start", text="ratio", log="x"), rows, {}, ["a"], {}).data
    assert (trace.base[0], trace.base[0] + trace.x[0], trace.text[0]) == (1.0, 0.25, "0.250×")


def test_anybodys_text_is_no_markup_in_a_figure() -> None:
    rows = [{"run": "a", "name": HOSTILE, "reason": HOSTILE, "samples": 3, "share": 0.5}]
    for chart in (
        Chart("heat", "name", "reason", size="share", text="samples"),
        Chart("points", "share", "name", colour="reason"),
    ):
        figure = figure_of(chart, rows, {}, ["a"], {"a": HOSTILE}).to_json()
        assert "<img" not in json.dumps(json.loads(figure)) and "onerror" in figure
    assert safe("<b>&") == "&lt;b&gt;&amp;"
