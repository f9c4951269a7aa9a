"""The SQL section's logic, by the state of its page, without a browser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.comparing.own_queries import FILE, OwnQueries
from engine.comparing.queries import examples, saved_views
from engine.paths import ROOT
from engine.store.files import LocalFiles
from engine.store.reported import load_reported
from engine.store.store import DEMO, Store
from pages._compare.sql_state import MOST_ADDRESS, PastStatement
from pages._shared.components import sql_editor
from pages._shared.links import compare_address, inspector_address, sql_address
from tests.pages.drift_stores import EXACT, WITH_JUNK, store_at, with_demo
from tests.pages.sql_processes import processes_of

PAGE = str(ROOT / "pages" / "compare.py")
Open = Callable[..., AppTest]
WAIT_S = 60.0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with_demo(tmp_path / "store", WITH_JUNK, EXACT)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture(autouse=True)
def left_behind() -> Iterator[None]:
    """Letting go of the session's cache ends its process."""
    yield
    st.cache_resource.clear()
    assert not processes_of()


def opened(**query: str | list[str]) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=120)
    app.query_params["view"] = "SQL"
    for name, value in query.items():
        app.query_params[name] = value
    return settled(app.run())


def settled(app: AppTest) -> AppTest:
    """The page when its statement has ended; one that came with the address is run by a click."""
    run_link(app)
    running = app.session_state.get("sql_running", None)
    if running is not None:
        assert running.done.wait(WAIT_S)
        app.run()
    assert not app.exception
    return app


def run_link(app: AppTest) -> None:
    for button in app.button:
        if button.key == "sql_run_link":
            button.click().run()


def rows(app: AppTest) -> pd.DataFrame:
    found: pd.DataFrame = app.dataframe[-1].value
    return found


def words(app: AppTest) -> str:
    shown = (*app.markdown, *app.caption, *app.info, *app.error, *app.warning)
    return "\n".join(one.value for one in shown).replace("\\", "")


def query(app: AppTest, name: str) -> str:
    """Empty where it is empty, or not there."""
    values = app.query_params.get(name) or ""
    return values[-1] if isinstance(values, list) else str(values)


def editor_data(app: AppTest) -> dict[str, Any]:
    """What the editor's browser side is sent."""
    protos = [one.proto for one in app.get("bidi_component")]
    (found,) = (json.loads(proto.json) for proto in protos if proto.component_name == "driftscope_sql_editor")
    return dict(found)


# --- states -------------------------------------------------------------------------------------------------------


def test_without_a_statement_the_page_says_what_to_do_and_starts_no_process(place: Path) -> None:
    app = opened()
    assert "Write a SELECT over the tables" in words(app)
    assert not processes_of() and not app.error


def test_a_link_shows_its_statement_and_runs_it_on_a_click_alone(place: Path) -> None:
    app = AppTest.from_file(PAGE, default_timeout=120)
    app.query_params["view"], app.query_params["sql"] = "SQL", "SELECT 1 AS one"
    app.run()
    assert editor_data(app)["text"] == "SELECT 1 AS one" and not processes_of()
    assert "came with the address, and has not run" in words(app)
    assert list(rows(settled(app))["one"]) == [1]
    app.query_params["sql"] = "SELECT 2 AS two"  # another link in the same tab
    app.run()
    assert app.dataframe[-1].key == "run_picker" and "has not run" in words(app)
    app.query_params["sql"] = "SELECT 1 AS one"  # back: this one was run here
    app.run()
    assert "has not run" not in words(app)
    assert list(rows(settled(app))["one"]) == [1]


def test_a_link_to_a_saved_query_runs_it(place: Path) -> None:
    app = AppTest.from_file(PAGE, default_timeout=120)
    app.query_params["view"], app.query_params["sql"] = "SQL", f"saved:{saved_views()[0].name}"
    assert "has not run" not in words(app.run())
    assert len(processes_of()) == 1 and "rows ·" in words(settled(app))


def test_a_link_runs_its_statement(place: Path) -> None:
    sql = "SELECT run_id, sample_id, tokens FROM samples WHERE sample_id < 2 ORDER BY ALL"
    app = opened(**parse_qs(urlsplit(sql_address(sql)).query))
    assert list(rows(app)["run_id"]) == [compare_address(run) for run in sorted([WITH_JUNK, EXACT]) for _ in range(2)]
    assert rows(app).iloc[0, 0] == inspector_address(min(WITH_JUNK, EXACT), 0)
    assert "**4** rows · 3 columns" in words(app)
    assert len(processes_of()) == 1


def test_names_stand_for_the_runs_that_are_compared(place: Path) -> None:
    sql = "SELECT DISTINCT run_id, run_id = $control AS is_control FROM samples WHERE run_id IN $runs ORDER BY 2"
    app = opened(sql=sql, control=EXACT, test=[WITH_JUNK])
    assert list(rows(app)["is_control"]) == [False, True]
    app.query_params["test"] = [""]
    assert list(rows(settled(app.run()))["is_control"]) == [True]
    app.query_params["control"] = ""
    assert "$control stands for no run. Choose a control above" in words(settled(app.run()))


def test_no_row_is_an_answer_and_says_what_stands_for_nothing(place: Path) -> None:
    app = opened(sql="SELECT * FROM samples WHERE run_id IN $tests", control=EXACT)
    assert "returned no rows. `$tests` stands for no run" in words(app) and "`smiles`" in words(app)


def test_a_column_of_no_row_cannot_show_a_picture(place: Path) -> None:
    """A blank line ended the code that its name stood in: the browser asked an outside host for the picture."""
    app = opened(sql='SELECT 1 AS "a\n\n![x](http://host.example/x.png)" WHERE false', control=EXACT)
    assert "`a ![x](http://host.example/x.png)`" in words(app)


@pytest.mark.parametrize(
    ("sql", "said", "marked"),
    [
        ("SELECT nope FROM runs", 'Referenced column "nope" not found', "nope"),
        ("SELECT 1 1", "at or near", "1"),
        ("DELETE FROM runs", "only a SELECT may run here", None),
        ("SELECT * FROM read_csv('/etc/passwd')", "read_csv", "read_csv"),
    ],
)
def test_an_error_is_one_message_and_marked(place: Path, sql: str, said: str, marked: str | None) -> None:
    app = opened(sql=sql)
    assert len(app.error) == 1 and said in app.error[0].value.replace("\\", "")
    data = editor_data(app)
    assert (None if data["mark"] is None else sql[slice(*data["mark"])]) == marked and data["marked"] == sql


def test_what_is_cut_off_is_said(place: Path) -> None:
    app = opened(sql="SELECT range FROM range(10001)")
    assert "There are more rows: an answer ends at 10,000 rows" in words(app)
    assert len(rows(app)) == 10_000


def test_values_are_text_whatever_they_are(place: Path) -> None:
    app = opened(sql="SELECT '<img src=x onerror=alert(1)>' AS \"<b>[x](http://a.b)\", NULL AS run_id, 1.5 AS n")
    assert not app.error and next(iter(rows(app).columns)) == "<b>[x](http://a.b)"
    app = opened(sql="SELECT * FROM samples WHERE smiles = '<img src=x>[x](http://a.b)'")
    assert not app.error and not [one for one in app.info if "<img" in one.value]


# --- saved queries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [saved_view.name for saved_view in saved_views()])
def test_every_saved_view_runs_by_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(DEMO))
    view = next(saved_view for saved_view in saved_views() if saved_view.name == name)
    app = opened(sql="saved:" + name)
    assert f"beside report {view.report}, section {view.section}" in words(app)
    assert len(rows(app)) and "are reported, not measured here" in words(app)
    assert ("reported beside measured" in words(app)) == (set(rows(app)["origin"]) == {"reported", "measured"})
    assert not app.error and editor_data(app)["text"] == view.sql


@pytest.mark.parametrize("name", [example.name for example in examples()])
def test_every_example_runs_and_has_a_chart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(DEMO))
    app = opened(sql="saved:" + name, sql_as="Chart")
    assert not app.error and not app.info
    assert len(app.get("plotly_chart")) == 1


def test_a_view_that_is_linked_by_its_text_is_recognised(place: Path) -> None:
    view = saved_views()[0]
    app = opened(sql=view.sql)
    assert app.selectbox(key="sql_open").value == view.name and view.title in words(app)


def test_a_query_that_is_not_there_is_one_message(place: Path) -> None:
    app = opened(sql="saved:report-002-1.7")
    assert "There is no saved query 'report-002-1.7'. Did you mean report-002-1.3" in words(app)
    assert len(app.error) == 1


def test_opening_a_query_puts_its_name_into_the_address(place: Path) -> None:
    app = opened(sql="SELECT 1 AS one", sql_x="one")
    app.selectbox(key="sql_open").set_value("02-junk-lexicon").run()
    settled(app)
    assert (query(app, "sql"), query(app, "sql_x")) == ("saved:02-junk-lexicon", "")
    assert "junk_text" in rows(app).columns and editor_data(app)["opened"] == 1
    app.selectbox(key="sql_open").set_value(None).run()
    assert (query(app, "sql"), editor_data(app)["text"], editor_data(app)["opened"]) == ("", "", 2)


def test_ones_own_queries_are_saved_renamed_and_deleted(place: Path) -> None:
    own = OwnQueries(store_at(place).home)
    app = opened(sql="SELECT 1 AS one")
    assert app.button(key="sql_save_now").disabled
    app.text_input(key="sql_save_as").set_value("first *one*").run()
    app.button(key="sql_save_now").click().run()
    assert [(one.name, one.sql) for one in own.all()] == [("first *one*", "SELECT 1 AS one")]
    assert query(app, "sql") == "saved:own:first *one*"
    assert app.text_input(key="sql_save_as").value == ""
    app.text_input(key="sql_rename_to").set_value("second").run()
    app.button(key="sql_rename").click().run()
    assert [one.name for one in own.all()] == ["second"] and query(app, "sql") == "saved:own:second"
    assert app.button(key="sql_delete").disabled
    app.checkbox(key="sql_sure").check().run()
    app.button(key="sql_delete").click().run()
    assert own.all() == () and query(app, "sql") == "SELECT 1 AS one"


def test_a_draft_is_saved_and_replaces_another_only_when_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = OwnQueries(store_at(place).home)
    own.save("mine", "SELECT 0")
    app = opened(sql="SELECT 1 AS one")
    monkeypatch.setattr(sql_editor, "draft", lambda: "SELECT 2 AS two")
    app.text_input(key="sql_save_as").set_value("mine").run()
    assert app.button(key="sql_save_now").label == "Replace"
    settled(app.button(key="sql_save_now").click().run())
    assert own.all()[0].sql == "SELECT 2 AS two" and list(rows(app).columns) == ["two"]


def test_a_damaged_file_of_queries_leaves_the_rest_usable(place: Path) -> None:
    (place / FILE).write_text("{")
    app = opened(sql="SELECT 1 AS one")
    assert "Your own queries are not shown" in app.warning[0].value and list(rows(app)["one"]) == [1]
    app.text_input(key="sql_save_as").set_value("mine").run()
    app.button(key="sql_save_now").click().run()
    assert "holds no saved queries" in app.error[0].value.replace("\\", "")
    assert (place / FILE).read_text() == "{"


# --- history, addresses, charts -----------------------------------------------------------------------------------


def test_the_history_has_each_statement_once_and_opens_it(place: Path) -> None:
    app = opened(sql="SELECT 1 AS one")
    for sql in ("SELECT nope", "SELECT 2 AS two"):
        app.query_params["sql"] = sql
        settled(app.run())
    labels = [one.label.replace("\\", "") for one in app.button if (one.key or "").startswith("sql_past_")]
    assert labels == ["SELECT 2 AS two", ":material/error: SELECT nope", "SELECT 1 AS one"]
    settled(app.button(key="sql_past_2").click().run())
    assert query(app, "sql") == "SELECT 1 AS one" and list(rows(app)["one"]) == [1]
    app.button(key="sql_forget").click().run()
    assert len([one for one in app.button if (one.key or "").startswith("sql_past_")]) <= 1


def test_a_statement_too_long_for_an_address_runs_and_says_so(place: Path) -> None:
    long = f"SELECT 1 AS one -- {'x' * MOST_ADDRESS}"
    app = opened(sql="SELECT 2 AS two")
    app.session_state["sql_history"] = [PastStatement(long, "", is_error=False)]
    app.run()
    place_of_long = next(one for one in app.button if one.label.startswith("SELECT 1 AS one"))
    settled(place_of_long.click().run())
    assert query(app, "sql") == "" and list(rows(app)["one"]) == [1]
    assert "too long for an address" in words(app)


def test_a_chart_is_as_its_address_says_and_takes_nothing_that_is_not_there(place: Path) -> None:
    sql = "SELECT lp, tokens, samples, wall_s FROM runs"
    app = opened(sql=sql, sql_as="Chart")
    assert "How does wall_s differ by lp?" in words(app) and query(app, "sql_chart") == ""
    app = opened(sql=sql, sql_as="Chart", sql_chart="scatter", sql_x="samples", sql_y="tokens", sql_colour="lp")
    assert "How does tokens relate to samples?" in words(app)
    app = opened(sql=sql, sql_as="Chart", sql_chart="pie", sql_x="__class__", sql_y="lp", sql_colour="wall_s")
    assert "How does wall_s differ by lp?" in words(app)


def test_what_is_chosen_of_a_chart_goes_into_the_address(place: Path) -> None:
    app = opened(sql="SELECT lp, tokens, samples, wall_s FROM runs", sql_as="Chart")
    next(one for one in app.selectbox if one.label == "y").set_value("tokens").run()
    assert query(app, "sql_y") == "tokens" and "How does tokens differ by lp?" in words(app)
    next(one for one in app.selectbox if one.label == "y").set_value("wall_s").run()
    assert query(app, "sql_y") == ""
    app.button_group[-1].set_value("histogram").run()
    assert query(app, "sql_chart") == "histogram" and "How is " in words(app)


def test_one_row_is_no_chart(place: Path) -> None:
    assert "Nothing to draw" in words(opened(sql="SELECT 1 AS one", sql_as="Chart"))


def test_reported_rows_are_counted_without_a_column_of_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(DEMO))
    app = opened(sql="SELECT run_id FROM runs")
    every = Store(LocalFiles(DEMO)).found().entries
    words_of_rows = f"{len(load_reported())} of {len(every)} rows are reported, not measured here"
    assert words_of_rows in words(app)
