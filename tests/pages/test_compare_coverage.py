"""Coverage of whole runs on the Compare page: what is computed shows at once, the rest is a task of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.comparing.evaluation import EvaluationRequest, evaluate_run, is_computed
from engine.store.store import DEMO, Store
from pages._compare.coverage import ETKDG, command_of, curves_chart, request_of
from tests.engine.comparing.test_evaluation import texts
from tests.engine.inspection.made import demo_run, sample_row, write_run
from tests.pages.drift_stores import store_at
from tests.pages.manage_pages import Board, words


def _section() -> None:
    from engine.store.store import Store
    from pages._compare import coverage
    from pages._compare.runs import QUERY
    from pages._shared.errors import shown_errors

    store = Store.open()
    chosen, _ = QUERY.read(store.found())
    assert chosen is not None
    with shown_errors():
        coverage.show(store, chosen)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with two answers of one molecule and none of another."""
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))
    answers = [sample_row(number, smiles="CCO", text=text) for number, text in enumerate(texts("CCO", 2))]
    write_run(store_at(tmp_path), "one", [*answers, sample_row(2, smiles="CCCO", text="junk")], (), ())
    return tmp_path


def opened(control: str = "one", *tests: str) -> AppTest:
    app = AppTest.from_function(_section, default_timeout=60)
    app.query_params["control"] = Store.open().entry(control).id
    app.query_params["test"] = [Store.open().entry(test).id for test in tests]
    app.run()
    assert not app.exception
    return app


def test_what_is_not_computed_is_a_task(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board.used(place, monkeypatch)
    app = opened()
    assert "Not evaluated" in words(app) and "which share of them each run reproduces" in words(app)
    next(button for button in app.button if button.label == "Evaluate 1 run").click().run()
    ((_, command, _, _),) = board.handed
    assert command[:2] == ["evaluate", "one"] and "--references" not in command
    assert command_of(store_at(place).entry("one"), "drugs")[2:4] == ["--references", "drugs"]


def test_what_is_computed_is_shown_by_both_rules_beside_the_baseline(place: Path) -> None:
    store = store_at(place)
    assert not is_computed(store, store.entry("one"), EvaluationRequest())
    found = evaluate_run(store, "one", workers=1)
    assert is_computed(store, store.entry("one"), request_of(store, ETKDG, 0.5))
    app = opened()
    assert not [button for button in app.button if button.label.startswith("Evaluate")]
    assert f"Against {ETKDG}, closer than 0.75\u00a0Å" in words(app)
    rows = app.dataframe[0].value
    assert list(rows["molecules without a sample"]) == ["left out"] * 2 + ["count 0"] * 2
    assert list(rows["without"]) == [1, 0, 1, 0]
    cov_r = 100 * found.figures.columns()["cov_r"]
    assert list(rows["COV-R mean (%)"])[::2] == pytest.approx([cov_r, cov_r / 2], abs=0.06)
    drawn = curves_chart({"A": found, "B": found}, "cov_r", dict.fromkeys("AB", "#000000"))
    assert "COV-R by threshold" in drawn.alt
    assert [line.name for line in drawn.figure().data] == ["A", "B", "A, B: RDKit, clustered"]


def test_the_demo_runs_are_covered_at_a_first_visit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(DEMO))
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path))
    app = opened(*(demo_run("qwen", lp) for lp in ("exact", "group-v4.3", "guarded")))
    assert not [button for button in app.button if button.label.startswith("Evaluate")]
    sentence = "mean COV-R is A 26.6 % and C 31.6 % (clustered RDKit conformers: 48.4 %). B has no conformer"
    assert sentence in words(app).replace("\u00a0", " ")  # A as docs/evaluate.md has it
    rows = app.dataframe[0].value
    assert list(rows["run"])[::2] == ["A", "B", "C"] and list(rows["COV-R mean (%)"])[:3] == [26.6, 48.4, 0.0]
