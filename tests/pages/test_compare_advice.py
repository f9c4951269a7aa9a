"""The Compare page's advice, by the state of its page, without a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.evidence.advisor import AdviceRequest, advise
from engine.paths import ROOT
from engine.store.store import Store
from pages._compare.advice import of_size, words_of
from pages._compare.advice_figures import answer, cost_chart, rows_of
from pages._shared.theme import DARK, LIGHT
from tests.engine.evidence.advice_runs import MANY, MODEL, add
from tests.engine.inspection.made import DEMO_STORE
from tests.engine.store.stored_runs import store_at

PAGE = str(ROOT / "pages" / "compare.py")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return store_at(tmp_path / "store")


@pytest.fixture
def planted(store: Store) -> Store:
    add(store, "none", 1.0)
    add(store, "group-v4.3", 0.1, clean=0, passed=len(MANY), cut=len(MANY))
    add(store, "exact", 0.25)
    return store


def opened(**query: str | list[str]) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=120)
    for name, value in {"view": "Advice", **query}.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def words(app: AppTest) -> str:
    shown = (*app.markdown, *app.caption, *app.info, *app.error, *app.warning)
    return "\n".join(one.value for one in shown).replace("\\", "").replace("\u00a0", " ")


def test_without_measured_runs_it_says_how_to_get_some(store: Store) -> None:
    add(store, "exact", 1.0, origin="imported")
    app = opened()
    assert "engine advise --model demo-qwen --probe 64" in words(app) and not app.error
    assert not app.dataframe or "stands" not in app.dataframe[-1].value


def test_the_advice_is_the_command_lines(planted: Store) -> None:
    app = opened(control="none")
    advice = advise(planted, MODEL)
    shown = words(app)
    assert f"With {MODEL}, use exact" in shown and advice.sentence.partition(". ")[2] in shown
    assert advice.reports.sentence in shown and "does not agree" in shown
    assert advice.reports.detail not in shown  # behind help
    assert "Seconds are wall time, without loading the model and judging." in shown and "RMSD, keep" not in shown
    assert all(one in shown for one in (*advice.unknown, *advice.reasons, advice.rule))
    assert [one.value for one in app.code] == [f".venv/bin/{command}" for command in advice.commands]
    assert {one.language for one in app.code} == {"plaintext"}  # a shell's colours are too light to read
    table = app.dataframe[-1].value
    assert list(table["standing"]) == ["fits", "below 90 %", "advised"]
    assert list(table["cost"]) == ["1.00 s (1.00–1.00)", "never", "0.250 s (0.250–0.250)"]
    assert list(table["takes"]) == ["2 h 46 min", "16 min 40 s", "41 min 40 s"]


def test_where_none_fits_the_cheapest_is_named_marked_and_what_others_cost_over_it(store: Store) -> None:
    add(store, "none", 1.0, clean=10)
    add(store, "exact", 1.0, clean=30)
    add(store, "guarded", 1.05, clean=30)
    app = opened(control="none")
    headline = (
        f"With {MODEL}, use exact: cheapest per clean conformer, most clean answers; every LP is below 90 % clean"
    )
    assert headline in words(app) and "does not agree" not in words(app)
    table = app.dataframe[-1].value
    assert list(table["standing"]) == ["below 90 %", "advised, below 90 %", "as cheap, below 90 %"]
    assert list(table["over"])[:2] == ["3.00× (1.93–6.00)", "1×"]


def test_a_model_of_the_address_without_runs_is_named(planted: Store) -> None:
    said = words(opened(advice_model="nope"))
    assert f"There is no model with measured runs 'nope' here. {MODEL} is chosen instead." in said
    assert "is chosen instead" not in words(opened(advice_model=MODEL))


def test_every_choice_is_in_the_address(planted: Store) -> None:
    app = opened(advice_want="Passed", advice_molecules="60", advice_lps=["none", "group-v4.3"])
    assert f"use group-v4.3, though none of its {len(MANY)} answers is clean" in words(app)
    (cautions,) = app.warning  # one box, a line each
    assert "are clean" in cautions.value.splitlines()[0] and len(cautions.value.splitlines()) > 1
    table = app.dataframe[-1].value
    assert list(table["lp"]) == ["none", "group-v4.3"]
    assert list(table["takes"]) == ["60 s", "6 s"]


def test_settings_are_chosen_and_never_mixed(planted: Store) -> None:
    add(planted, "exact", 5.0, run_id="greedy", sampling="greedy", temperature=0.0)
    app = opened()
    assert "1 run of another setting: sampling greedy, not qwen3" in words(app)
    chosen = opened(advice_setting="greedy · 32 rows · fast · cpu")
    assert "One LP was measured" in words(chosen) and "sampling greedy, batches of 32" in words(chosen)


def test_the_controls_model_comes_first(planted: Store) -> None:
    add(planted, "none", 1.0, run_id="other", model_alias="other")
    assert "With other:one, " in words(opened(control="other"))
    assert "With toy:one, " in words(opened(control="exact"))
    assert "With toy:one, " in words(opened(control="other", advice_model=MODEL))


def test_names_that_anybody_may_have_written_are_text(planted: Store) -> None:
    hostile = "<img src=x onerror=alert(1)> [x](http://a.b)"
    add(planted, hostile, 1.0, run_id="hostile-lp")
    add(planted, "exact", 1.0, run_id="hostile-sampling", sampling=hostile)
    app = opened()
    raw = "\n".join(one.value for one in (*app.markdown, *app.caption))
    assert hostile in words(app).replace("\u2060", "") and hostile not in raw


def test_where_none_fits_headline_table_and_chart_name_the_same_lp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(DEMO_STORE.home.where))
    app = opened(advice_model="demo-qwen:final")
    shown = words(app)
    assert re.search(r"use guarded: most usable answers, .*\(1\.\d\d× \(\S+\) that of exact, the cheapest\);", shown)
    table = app.dataframe[-1].value.set_index("lp")["standing"]
    assert (table["guarded"], table["exact"]) == ("advised, below 90 %", "cheapest, below 90 %")
    assert re.search(r"Lowest cost: exact, .* Advised: guarded, \S+ s \(\S+\); the same within noise\.", shown)
    assert "Where none fits, the one with the fewest seconds per usable conformer is named all the same" in shown


# --- the chart --------------------------------------------------------------------------------------------------------


def test_the_chart_answers_its_question() -> None:
    advice = advise(DEMO_STORE, "demo-qwen", AdviceRequest(want="clean"))
    assert re.fullmatch(
        r"Lowest cost: exact, \S+ s \(\S+–\S+\)\. Highest: [a-z ,LP]+, \S+ s \(\S+–\S+\)\. "
        r"No clean answer under group-v2.1 and group-v4.3\.",
        answer(advice),
    )


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_an_lp_without_a_clean_answer_stands_at_the_edge(planted: Store, colours: object) -> None:
    advice = advise(planted, MODEL)
    figure = cost_chart(rows_of(advice), "clean", colours).figure(colours)  # type: ignore[arg-type]
    points = {trace.y[0]: (trace.x[0], trace.marker.symbol) for trace in figure.data if trace.y and trace.y[0]}
    assert points == {"exact": (0.25, "diamond"), "none": (1.0, "circle"), "group-v4.3": (3.0, "x")}
    assert [note.text for note in figure.layout.annotations] == ["never →"]
    assert figure.layout.xaxis.type == "log"
    shapes = {trace.name: trace.marker.symbol for trace in figure.data if trace.showlegend is not False}
    assert shapes == {"advised": "diamond", "fits": "circle", "below 90 % clean": "x"}


# --- the probe --------------------------------------------------------------------------------------------------------


def test_the_button_starts_what_the_command_says() -> None:
    advice = advise(DEMO_STORE, "demo-qwen")
    assert words_of(advice.probe) == ["advise", "--model", "demo-qwen:final", "--probe", "64", "--device", "cpu"]
    assert of_size(advice.probe, 8) == "python -m engine advise --model demo-qwen:final --probe 8 --device cpu"
    assert words_of("python -m engine run --model-path FOLDER --lp exact") == []
