"""The Logit health page by its state: which logs are looked at, and that each view shows its question's figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.store.entries import Entry
from engine.store.store import Store
from pages._logits.logs import LOGS, default_choice
from tests.engine.logits.logs import clean
from tests.pages import apps
from tests.pages.apps import shown, table
from tests.pages.logit_logs import add, add_all, add_hostile, lose_values, spoil_sheet, spoil_values, store_at

Made = tuple[Store, dict[str, Entry]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A log of each kind, and one that is hostile; no test changes them."""
    folder = tmp_path_factory.mktemp("logs")
    store = store_at(folder)
    return store, {"hostile": add_hostile(store, folder)} | add_all(store, folder)


@pytest.fixture
def logs(made: Made, monkeypatch: pytest.MonkeyPatch) -> dict[str, Entry]:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(made[0].home.where))
    return made[1]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    store = store_at(tmp_path)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(store.home.where))
    return store


def opened(**query: str) -> AppTest:
    return apps.opened("logits", **query)


def test_a_first_visit_looks_at_the_newest_log_beside_another_engines(logs: dict[str, Entry]) -> None:
    app = opened()
    assert shown(app)["logs"] == [logs["clean"].id, logs["theirs"].id]
    picker = app.dataframe[0].value.set_index("log")
    freed = picker.loc[logs["freed"].id]
    assert (freed["flagged"], freed["report"], freed["cause"]) == (0.5, 0.3, "use after free (certain)")
    assert picker.loc[logs["clean"].id]["cause"] == "nothing flagged"
    rows = table(app, "by_ours").set_index("model")
    assert len(rows) == len(logs)
    assert list(rows.loc["model freed"][["by_report", "by_ours"]]) == [30, 50]


def test_health_opens_on_the_newest_damaged_log(logs: dict[str, Entry]) -> None:
    assert shown(opened(view="Health"))["logs"] == [logs["overflow"].id]
    app = opened(view="Health", log=logs["clean"].id, beside=logs["freed"].id, of="B")
    assert shown(app)["of"] == logs["freed"].id
    assert table(app, "why")["cause"].to_list() == ["Use after free (certain)"]
    kept = opened(view="Health", log=logs["again"].id, flags="zero", at="8", tokens="30")
    assert [shown(kept)[key] for key in ("flags", "at", "tokens")] == [["zero"], [8], "30"]
    assert table(kept, "reason")["position"].to_list() == [8] * 4


def test_parity_of_two(logs: dict[str, Entry]) -> None:
    app = opened(view="Parity", log=logs["clean"].id, beside=logs["theirs"].id)
    assert table(app, "supported")["mean_difference"].iloc[0] == pytest.approx(1e-4, rel=0.01)
    assert (shown(app)["parity_by"], shown(app)["parity_at"]) == ("relative", "logits")
    assert len(opened(view="Parity", log=logs["clean"].id).info) == 1


def test_an_empty_store_and_logs_that_are_damaged(own: Store, tmp_path: Path) -> None:
    for view in ("Models", "Health"):
        assert any("--log-logits 10" in info.value for info in opened(view=view).info)
    logs = [add(own, tmp_path, str(n), clean(20, 6, n), model="m", team=str(n)) for n in range(4)]
    lose_values(own, logs[0])
    spoil_values(own, logs[1])
    spoil_sheet(own, logs[2], findings="[{}]")
    assert len(table(opened(), "by_ours")) == 1
    for log in logs[:3]:
        assert opened(view="Health", log=log.id).error


def test_the_default_wants_the_same_model_of_another_engine(tmp_path: Path) -> None:
    said = ({"team": "llama.cpp", "model": "m"}, {"team": "llama.cpp", "model": "n"}, {"team": "ours", "model": "m"})
    store = store_at(tmp_path)
    old, other, newest = (add(store, tmp_path, str(n), clean(8, 4, n), **one) for n, one in enumerate(said))
    twin = add(store, tmp_path, "twin", clean(8, 4, 5), **said[0])
    for pair, has_ids in (((old, other), False), ((old, twin), True)):
        assert {name.endswith(id_) for id_, name in LOGS.names(pair).items()} == {has_ids}
    damaged = replace(old, row={**old.row, "cause": "freed"})
    ours = replace(old, row={**old.row, "origin": "measured"})
    for entries, expected in (
        ((old, other, newest), (newest, old)),
        ((old, other), (other,)),
        ((old, damaged, newest), (newest, old)),
        ((ours, old, newest), (newest, ours)),
        ((), ()),
    ):
        assert default_choice(entries) == expected
