"""The SQL section: what its address shows and starts, its answers, its queries, its process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.comparing.queries import FILE, own_queries, ready_queries
from engine.store.store import DEMO
from pages._kit.links import compare_address, inspector_address
from tests.engine.store.stored_runs import store_at
from tests.pages.apps import opened, query, words
from tests.pages.drift_stores import EXACT, WITH_JUNK, with_demo
from tests.pages.sql_processes import processes_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with_demo(tmp_path / "store", WITH_JUNK, EXACT)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture(autouse=True)
def left_behind() -> Iterator[None]:
    """Letting go of the session's cache ends its process."""
    yield
    st.cache_resource.clear()
    assert not processes_of()


def linked(**query: Any) -> AppTest:
    return opened("compare", **{"view": "SQL", **query})


def press(app: AppTest, key: str) -> AppTest:
    next(button for button in app.button if button.key == key).click().run()
    assert not app.exception
    app.session_state["sql_running"].answer.exception(60)
    return app.run()


def ran(**query: Any) -> AppTest:
    return press(linked(**query), "sql_run")


def rows(app: AppTest) -> pd.DataFrame:
    frame: pd.DataFrame = app.dataframe[-1].value
    return frame


def test_a_first_visit_shows_the_time_of_each_models_lps_by_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(DEMO))
    app = linked()
    app.session_state["sql_running"].answer.exception(60)
    table = rows(app.run())
    of_run = table[(table["model"] == "demo-qwen:final") & (table["lp"] == "none")]
    assert of_run["family"].iloc[0] == "gemm" and of_run["percent"].sum() == pytest.approx(100)
    assert {"none", "exact", "group-v2.1"} <= {*table["lp"]} and query(app, "sql") is None
    assert len(app.radio(key="sql_open").options) == len(ready_queries())


@pytest.mark.parametrize("sql", ["SELECT 1 AS one", f"saved:{ready_queries()[0].key}"])
def test_a_link_fills_in_and_starts_nothing(folder: Path, sql: str) -> None:
    app = linked(sql=sql)
    assert str(app.text_area[0].value).startswith("SELECT") and not processes_of()
    assert len(press(app, "sql_run").dataframe) and query(app, "sql") == sql
    app.query_params["sql"] = "SELECT 2 AS two"
    assert app.run().text_area[0].value == "SELECT 2 AS two" and "Press *Run*" in words(app)
    app.query_params["sql"] = sql
    assert app.run().dataframe and "Press *Run*" not in words(app), "what was run here comes back"


def test_runs_and_samples_are_links_and_names_stand_for_the_compared_runs(folder: Path) -> None:
    app = ran(sql="SELECT run_id, sample_id FROM samples WHERE sample_id < 2 ORDER BY ALL")
    first = min(WITH_JUNK, EXACT)
    assert (rows(app)["run_id"][0], rows(app)["inspect"][0]) == (compare_address(first), inspector_address(first, 0))
    assert list(rows(ran(sql="SELECT 'javascript:1' AS run_id"))["run_id"]) == ["javascript:1"]
    sql = "SELECT DISTINCT run_id, run_id = $control AS is_control FROM samples WHERE run_id IN $runs ORDER BY 2"
    app = ran(sql=sql, control=EXACT, test=[WITH_JUNK])
    assert list(rows(app)["is_control"]) == [False, True]
    app.query_params["test"], app.query_params["control"] = [""], ""
    assert "$control means no run" in words(app.run())


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT nope FROM runs", 'Referenced column "nope" not found'),
        ("DELETE FROM runs", "only a SELECT may run here"),
        ('SELECT "<img src=x>[x](http://a.b)" FROM runs', "<img src=x>"),
    ],
)
def test_an_error_is_one_line(folder: Path, sql: str, said: str) -> None:
    (error,) = ran(sql=sql).error
    assert said in error.value.replace("\\", "")


def test_what_is_cut_off_and_what_is_damaged_is_said_and_other_tables_answer(folder: Path) -> None:
    app = ran(sql="SELECT range FROM range(10001)")
    assert "There are more rows" in words(app) and len(rows(app)) == 10_000
    (damaged,) = folder.glob(f"*/run_id={EXACT}/samples*")
    damaged.write_bytes(bytes(damaged.stat().st_size))
    assert EXACT in words(ran(sql="SELECT DISTINCT run_id FROM samples"))
    assert len(rows(ran(sql="SELECT DISTINCT run_id FROM blocks"))) == 2


@pytest.mark.parametrize("key", ["01-lp-on-off", "report-002-6.2", "report-003-traces"])
def test_a_ready_query_has_rows_and_a_chart(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(DEMO))
    app = ran(sql=f"saved:{key}")
    reported = list(rows(app)["origin"]).count("reported") if "origin" in rows(app).columns else 0
    assert len(rows(app)) and (f"{reported} of {len(rows(app))} rows are reported" in words(app)) == (reported > 0)
    app.button_group(key="sql_as").set_value("Chart").run()
    assert not app.error and not app.exception and len(app.get("plotly_chart")) == 1


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ({}, ["bar", "lp", "wall_s", None]),
        ({"sql_chart": "scatter", "sql_x": "wall_s", "sql_y": "tokens"}, ["scatter", "wall_s", "tokens", None]),
        ({"sql_chart": "pie", "sql_x": "__class__", "sql_y": "lp", "sql_colour": "no"}, ["bar", "lp", "wall_s", None]),
    ],
)
def test_a_chart_is_as_its_address_says(folder: Path, address: dict[str, str], expected: list[str | None]) -> None:
    app = ran(sql="SELECT lp, tokens, wall_s FROM runs", sql_as="Chart", **address)
    assert [app.selectbox(key=f"sql_chart_{name}").value for name in ("kind", "x", "y", "colour")] == expected
    app.selectbox(key="sql_chart_y").set_value("tokens").run()
    assert query(app, "sql_y") == "tokens" and len(app.get("plotly_chart")) == 1


def test_queries_are_opened_saved_replaced_and_deleted(folder: Path) -> None:
    files = store_at(folder).home
    app = linked(sql="SELECT 1 AS one", sql_x="one")
    app.radio(key="sql_open").set_value("02-junk-lexicon").run()
    app.session_state["sql_running"].answer.exception(60)
    app.run()
    assert query(app, "sql") == "saved:02-junk-lexicon" and "junk_text" in rows(app) and not query(app, "sql_x")
    for sql in ("SELECT 1 AS one", "SELECT 2 AS two"):
        app.text_area[0].set_value(sql)
        app.text_input(key="sql_name").set_value("first *one*")
        press(app, "sql_save")
        assert [(own.title, own.sql) for own in own_queries(files)] == [("first *one*", sql)]
    assert query(app, "sql") == "saved:own:first *one*" and list(rows(app)["two"]) == [2]
    press(app, "sql_delete")
    assert own_queries(files) == [] and query(app, "sql") == "SELECT 2 AS two"
    (folder / FILE).write_text("{")
    app = ran(sql="SELECT 1 AS one")
    assert len(app.warning) == 1 and list(rows(app)["one"]) == [1]
    app.text_input(key="sql_name").set_value("mine")
    assert "holds no saved queries" in words(press(app, "sql_save")) and (folder / FILE).read_text() == "{"


def test_one_process_serves_until_the_store_changes(folder: Path) -> None:
    app = ran(sql="SELECT label FROM runs ORDER BY label NULLS LAST")
    first = processes_of()
    press(app, "sql_run")
    assert len(first) == 1 and processes_of() == first
    store_at(folder).annotate(EXACT, label="another name")
    assert rows(press(app, "sql_run"))["label"][0] == "another name" and processes_of() != first
