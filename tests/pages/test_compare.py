"""The Compare page's choice of runs, by the state of its page, without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.paths import ROOT
from engine.store.store import Store
from pages._compare.manage import PICKER, default_choice
from pages._kit.picker import legend
from pages._shared.links import compare_address as address
from pages._shared.links import inspector_address, sql_address
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.pages.drift_stores import OVERRIDE, store_at
from tests.pages.params import Params

PAGE = str(ROOT / "pages" / "compare.py")
NONE, BLOCKLIST, EXACT = (demo_run("llama", lp) for lp in ("none", "group-v2.1", "exact"))
REPORTED = "reported-002-llama-lp-1000"
Open = Callable[..., AppTest]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Open:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(DEMO_STORE.home.where))
    return _open


def _open(**query: str | list[str]) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=120)
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


def shown(app: AppTest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(app.session_state["shown"])
    return found


def table(app: AppTest) -> pd.DataFrame:
    found: pd.DataFrame = app.dataframe[0].value
    return found


def chosen(monkeypatch: pytest.MonkeyPatch, store: Store, **query: str | list[str]) -> tuple[list[str], list[str]]:
    monkeypatch.setattr(st, "query_params", Params(**query))
    monkeypatch.setattr(st, "session_state", {})
    found, complaints = PICKER.read(store.found())
    return [entry.id for entry in found], complaints


# --- the page -------------------------------------------------------------------------------------------------------


def test_a_first_visit_compares_the_newest_runs_of_one_model_under_each_lp(opened: Open) -> None:
    app = opened()
    assert not app.exception and not app.error
    rows = table(app)
    assert len(rows) == len(DEMO_STORE.found().entries)
    lps = [DEMO_STORE.entry(run).row["lp"] for run in shown(app)["runs"]]
    assert lps == ["none", "group-v2.1", "group-v4.3", "exact", "guarded"]
    assert app.selectbox(key="control_run").value == NONE


def test_filters_hide_rows_and_leave_what_is_compared(opened: Open) -> None:
    app = opened(control=NONE, test=[EXACT], lp="exact")
    assert set(table(app)["lp"]) == {"exact"}
    assert app.selectbox(key="control_run").value == NONE
    app = opened(origin="reported", contains="LLAMA 1000")
    assert len(table(app)) == 2 and set(table(app)["origin"]) == {"reported"}
    app = opened(control=NONE, test=[REPORTED], only="true")
    assert list(table(app)["run"]) == [NONE, REPORTED]


def test_no_row_left_and_no_run_at_all_are_told(opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "No run matches. Remove a filter." in opened(contains="nothing is called this").info[0].value
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    app = _open()
    assert not app.exception and "Three ways to get a first run" in app.info[0].value


def test_names_that_mean_no_run_are_told_and_the_others_compared(opened: Open) -> None:
    app = opened(control="nobody", test=["llama-final-exact", "demo-llama"])
    assert not app.exception
    told = [one.value.replace("\\", "") for one in app.error[:2]]
    assert told[0] == "There is no run 'nobody'. The first run below is the control instead."
    assert told[1] == "There are 5 runs like 'demo-llama'."
    assert app.selectbox(key="control_run").value == EXACT


def test_another_control_changes_places_with_the_first_one(opened: Open) -> None:
    app = opened(control=NONE, test=[BLOCKLIST, EXACT])
    app.selectbox(key="control_run").set_value(EXACT).run()
    assert not app.exception
    assert app.query_params["control"] == EXACT
    assert app.query_params["test"] == [NONE, BLOCKLIST]


def test_compare_nothing_says_how_to_begin(opened: Open) -> None:
    app = opened()
    app.button(key="nothing").click().run()
    assert not app.exception and shown(app)["runs"] == []
    assert "Tick runs in the table" in app.info[0].value


def test_hostile_names_are_shown_as_they_are_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    write_run(store, "hostile", [sample_row(0)], label=OVERRIDE, model_alias="<b>x</b>", lp="none", origin="imported")
    write_run(store, "other", [sample_row(0)], model_alias=f"<i>y</i>{OVERRIDE}", lp="none", origin="imported")
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    app = _open(control="other", test="hostile")
    assert not app.exception
    assert "\u202e" not in "".join(map(str, table(app).to_numpy().ravel()))
    assert "\u202e" not in "".join(option for one in app.multiselect for option in one.options)
    legend = next(
        one.proto.body for one in app.get("html") if "chosen-entries" in one.proto.body and "<li>" in one.proto.body
    )
    assert "&lt;b&gt;x&lt;/b&gt;" in legend and "<b>" not in legend


# --- what the address says --------------------------------------------------------------------------------------------


def test_links_say_which_runs_and_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    assert address("a b", ["c&d", "e"], view="Charts") == "compare?control=a+b&test=c%26d&test=e&view=Charts"
    assert sql_address("SELECT 1 + 1") == "compare?view=SQL&sql=SELECT+1+%2B+1"
    assert inspector_address("one", 3) == "drift?run=one&sample=3"
    found, complaints = chosen(monkeypatch, DEMO_STORE, control=NONE, test=[EXACT, EXACT, NONE])
    assert (found, complaints) == ([NONE, EXACT], [])
    PICKER.put([EXACT, NONE, EXACT])
    assert [entry.id for entry in PICKER.read(DEMO_STORE.found())[0]] == [EXACT, NONE]


def test_an_empty_control_means_nothing_and_no_control_means_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(monkeypatch, DEMO_STORE, control="") == ([], [])
    assert chosen(monkeypatch, DEMO_STORE, control="nobody") == ([], ["There is no run 'nobody'."])
    found, _ = chosen(monkeypatch, DEMO_STORE)
    assert found == [entry.id for entry in default_choice(DEMO_STORE.found().entries)]
    found, _ = chosen(monkeypatch, DEMO_STORE, test=[BLOCKLIST])
    assert found == [BLOCKLIST]


def test_every_run_has_a_name_of_its_own_and_tests_share_seven_colours(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    for number in range(30):
        write_run(store, f"run-{number:02}", [sample_row(0)], model_alias="same", lp="exact")
    names = PICKER.names(store.found().entries)
    assert len({*names.values()}) == 30
    hues = re.findall("background:(#[0-9a-f]+)", legend(names))
    assert len(hues) == 30 and hues[0] not in hues[1:] and len(set(hues)) == 8


def test_without_a_pair_the_newest_run_stands_alone(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    assert default_choice(store.found().entries) == []
    write_run(store, "one", [sample_row(0)], model_alias="a", lp="none", created_at="2026-01-01T00:00:00+00:00")
    write_run(store, "two", [sample_row(0)], model_alias="b", lp="exact", created_at="2026-01-02T00:00:00+00:00")
    assert [entry.id for entry in default_choice(store.found().entries)] == ["two"]
