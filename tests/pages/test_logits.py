"""The Logit health page by its state: which logs are looked at, and that each view shows its question's figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from engine.paths import ROOT
from engine.store.entries import Entry
from engine.store.store import Store
from pages._logits.logs import default_choice
from tests.engine.logits.logs import clean
from tests.pages.logit_logs import add, add_all, add_hostile, lose_values, spoil_sheet, spoil_values, store_at

PAGE = str(ROOT / "pages" / "logits.py")
Made = tuple[Store, dict[str, Entry]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A log of each kind, and one that is hostile; no test changes them."""
    folder = tmp_path_factory.mktemp("logs")
    store = store_at(folder)
    return store, {"hostile": add_hostile(store, folder)} | add_all(store, folder)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Any:
    def open_(store: Store, **query: str) -> AppTest:
        monkeypatch.setenv("DRIFTSCOPE_STORE", str(store.home.where))
        app = AppTest.from_file(PAGE, default_timeout=120)
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception
        return app

    return open_


def shown(app: AppTest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(app.session_state["shown"])
    return found


def table(app: AppTest, column: str) -> pd.DataFrame:
    return next(one.value for one in app.dataframe if column in one.value.columns and "report" not in one.value.columns)


def test_an_empty_store_says_what_to_do(opened: Any, tmp_path: Path) -> None:
    for view in ("Models", "Health"):
        app = opened(store_at(tmp_path), view=view)
        assert any("--log-logits 10" in info.value for info in app.info)


def test_a_first_visit_looks_at_the_newest_log_beside_another_engines(opened: Any, made: Made) -> None:
    store, logs = made
    app = opened(store)
    assert shown(app)["logs"] == [logs["clean"].id, logs["theirs"].id]
    picker = app.dataframe[0].value.set_index("log")
    freed = picker.loc[logs["freed"].id]
    assert (freed["flagged"], freed["report"]) == (0.5, 0.3)
    assert freed["cause"] == "use after free (certain)"
    assert picker.loc[logs["clean"].id]["cause"] == "nothing flagged"
    rows = table(app, "by_ours")
    assert len(rows) == len(logs)
    freed = rows[rows["model"] == "model freed"].iloc[0]
    assert (freed["by_report"], freed["by_ours"]) == (30, 50)


def test_health_opens_on_the_newest_damaged_log(opened: Any, made: Made) -> None:
    store, logs = made
    assert shown(opened(store, view="Health"))["logs"] == [logs["overflow"].id]
    app = opened(store, view="Health", log=logs["clean"].id, beside=logs["freed"].id, of="B")
    assert shown(app)["of"] == logs["freed"].id
    assert table(app, "why")["cause"].to_list() == ["Use after free (certain)"]
    kept = opened(store, view="Health", log=logs["again"].id, flags="zero", at="8", tokens="30")
    assert (shown(kept)["flags"], shown(kept)["at"], shown(kept)["tokens"]) == (["zero"], [8], "30")
    assert table(kept, "reason")["position"].to_list() == [8] * 4


def test_parity_of_two(opened: Any, made: Made) -> None:
    store, logs = made
    app = opened(store, view="Parity", log=logs["clean"].id, beside=logs["theirs"].id)
    rows = table(app, "supported")
    assert rows["mean_difference"].iloc[0] == pytest.approx(1e-4, rel=0.01)
    assert (shown(app)["parity_by"], shown(app)["parity_at"]) == ("relative", "logits")
    assert len(opened(store, view="Parity", log=logs["clean"].id).info) == 1


def test_logs_that_are_damaged_are_an_error_and_the_others_stay(opened: Any, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    logs = [add(store, tmp_path, str(n), clean(20, 6, n), model="m", team=str(n)) for n in range(4)]
    lose_values(store, logs[0])
    spoil_values(store, logs[1])
    spoil_sheet(store, logs[2], findings="[{}]")
    assert len(table(opened(store), "by_ours")) == 1
    for log in logs[:3]:
        assert opened(store, view="Health", log=log.id).error


def test_the_default_wants_the_same_model_of_another_engine(tmp_path: Path) -> None:
    said = ({"team": "llama.cpp", "model": "m"}, {"team": "llama.cpp", "model": "n"}, {"team": "ours", "model": "m"})
    store = store_at(tmp_path)
    old, other, newest = (add(store, tmp_path, str(n), clean(8, 4, n), **one) for n, one in enumerate(said))
    assert default_choice((old, other, newest)) == (newest, old)
    assert default_choice((old, other)) == (other,)
    damaged = replace(old, row={**old.row, "cause": "freed"})
    assert default_choice((old, damaged, newest)) == (newest, old)
    ours = replace(old, row={**old.row, "origin": "measured"})
    assert default_choice((ours, old, newest)) == (newest, ours)
    assert default_choice(()) == ()
