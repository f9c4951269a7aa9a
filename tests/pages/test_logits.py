"""The Logit health page by its state: which logs are looked at, how models are ranked, and what is said of a log."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from pages._shared.logits import logs as page_logs
from pages._shared.logits import models_table
from pages._shared.logits import state as page_state
from pages._shared.logits.models_data import MOST_LOGS, ranked
from pages._shared.logits.state import Chosen, address, choose, default_choice, put, shortened, swap
from pages._shared.rows import show_rows
from pages._shared.theme import DARK, LIGHT
from tests.engine.logits.logs import clean
from tests.pages.logit_logs import (
    add,
    damaged_rows,
    store_at,
)
from tests.pages.logit_pages import Made, Open, all_logs, charts, opener, said, tables
from tests.pages.params import Params


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """No test changes it."""
    return all_logs(tmp_path_factory.mktemp("logs"))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Open:
    return opener(monkeypatch)


# --- which logs -----------------------------------------------------------------------------------------------------


def test_an_empty_store_says_what_to_do(opened: Open, tmp_path: Path) -> None:
    app = opened(store_at(tmp_path))
    words = said(app)
    assert "There is no logit log in this store yet" in words or "Three ways to a first log" in words
    assert "engine logits add" in words and "--log-logits 10" in words
    assert "No log is here to apply its rule to" in words
    assert [len(one) for one in tables(app)] == [6]
    assert "Once a log is ticked above" in said(opened(store_at(tmp_path), view="Health"))


def test_a_first_visit_looks_at_the_newest_log_beside_another_engines(opened: Open, made: Made) -> None:
    store, logs = made
    rows = tables(opened(store))[0]
    assert len(rows) == len(logs)
    assert rows[rows["as"].notna()].set_index("as")["log"].to_dict() == {"A": logs["clean"].id, "B": logs["theirs"].id}
    freed = rows[rows["log"] == logs["freed"].id].iloc[0]
    assert (freed["flagged"], freed["report"]) == (50.0, 30.0)
    assert freed["cause"] == "memory read after it was given back (sure)"
    assert rows[rows["log"] == logs["clean"].id].iloc[0]["cause"] == "nothing is wrong"


def test_names_of_no_log_are_told_and_left_out(opened: Open, made: Made) -> None:
    store, logs = made
    app = opened(store, log="stale", beside="nobody")
    assert [one.value for one in app.error] == ["There is no log\\_id \\'nobody\\'\\."]
    rows = tables(app)[0]
    assert rows[rows["as"].notna()]["log"].to_list() == [logs["stale"].id]
    app = opened(store, log="", view="Health")
    assert "Once a log is ticked above" in said(app) and not tables(app)[0]["as"].notna().any()


def test_the_filter_hides_rows_and_nothing_else(opened: Open, made: Made) -> None:
    store, logs = made
    app = opened(store, log=logs["freed"].id, contains="OVERFLOW")
    assert tables(app)[0]["log"].to_list() == [logs["overflow"].id]
    assert "A · llama.cpp · model freed" in "".join(one.proto.body for one in app.get("html"))
    assert "No log is like that" in said(opened(store, contains="zzz"))


def looked_at(monkeypatch: pytest.MonkeyPatch, ticked: list[int], ids: tuple[str, ...], shown: list[str]) -> Params:
    params, session = Params(), dict[str, Any]()
    monkeypatch.setattr(st, "query_params", params)
    monkeypatch.setattr(st, "session_state", session)
    show_rows(page_logs.KEY, [shown.index(one) for one in ids if one in shown])
    session[page_logs.KEY] = {"selection": {"rows": ticked}}
    page_logs._take(shown, ids)
    return params


@pytest.mark.parametrize(
    ("ticked", "ids", "expected"),
    [
        ([2], (), ("c", "")),
        ([0, 2], ("a",), ("a", "c")),
        ([0, 1, 2], ("a", "b"), ("a", "c")),
        ([1], ("a", "b"), ("b", "")),
        ([], ("a",), ("", "")),
        ([0, 1, 2], ("hidden", "b"), ("hidden", "c")),
        ([0, 1, 2], (), ("a", "c")),
    ],
)
def test_the_last_tick_stands_beside_the_first(
    monkeypatch: pytest.MonkeyPatch, ticked: list[int], ids: tuple[str, ...], expected: tuple[str, str]
) -> None:
    params = looked_at(monkeypatch, ticked, ids, ["a", "b", "c"])
    assert (params["log"], params["beside"]) == expected


def test_its_own_selection_heard_again_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looked_at(monkeypatch, [0, 1], ("a", "b"), ["a", "b"]) == {}


def test_names_letters_and_colours(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    _, logs = made
    both = Chosen(logs["freed"], logs["clean"])
    assert [both.name(one) for one in both.ids] == ["A · llama.cpp · model freed · f16", "B · driftscope · demo · f32"]
    assert (both.symbol(both.ids[0]), both.symbol(both.ids[1])) == ("circle", "square")
    for colours in (LIGHT, DARK):
        assert [both.colour(one, colours) for one in both.ids] == [colours.neutral, colours.series[0]]
    assert Chosen(logs["freed"], None).logs == (logs["freed"],)
    assert len(Chosen(logs["hostile"], None).name(logs["hostile"].id)) < 140
    assert shortened("x" * 50) == "x" * 39 + "…"
    assert address("a", "b", view="Health") == "logits?log=a&beside=b&view=Health"
    params = Params()
    monkeypatch.setattr(st, "query_params", params)
    swap(both)
    assert params == {"log": logs["clean"].id, "beside": logs["freed"].id}
    swap(Chosen(logs["freed"], None))
    put(None)
    assert params == {"log": "", "beside": ""}


def test_the_default_wants_the_same_model_of_another_engine(store_with: Callable[..., tuple[Entry, ...]]) -> None:
    old, other, newest = store_with(
        {"team": "llama.cpp", "model": "m"}, {"team": "llama.cpp", "model": "n"}, {"team": "ours", "model": "m"}
    )
    assert default_choice((old, other, newest)) == Chosen(newest, old)
    assert default_choice((old, other)) == Chosen(other, None)
    damaged = replace(old, row={**old.row, "cause": "freed"})
    assert default_choice((old, damaged, newest)) == Chosen(newest, old)
    assert default_choice((damaged, newest)) == Chosen(newest, damaged)
    ours = replace(old, row={**old.row, "origin": "measured"})
    assert default_choice((ours, old, newest)) == Chosen(newest, ours)
    coarse, fine = (replace(ours, row={**ours.row, "precision": one}) for one in ("q8_0", "f16"))
    newest = replace(newest, row={**newest.row, "precision": "f16"})
    assert default_choice((fine, coarse, newest)) == Chosen(newest, fine)
    assert default_choice(()) is None


def test_two_logs_of_one_name_are_told_apart(store_with: Callable[..., tuple[Entry, ...]]) -> None:
    same, other = store_with({"team": "one", "model": "m"}, {"team": "one", "model": "m"})
    both = Chosen(same, other)
    assert [both.name(one) for one in both.ids] == [
        f"A · one · m · {same.row['file']}",
        f"B · one · m · {other.row['file']}",
    ]
    assert Chosen(same, None).name(same.id) == "A · one · m"


@pytest.fixture
def store_with(tmp_path: Path) -> Callable[..., tuple[Entry, ...]]:
    store = store_at(tmp_path)

    def make(*logs: dict[str, Any]) -> tuple[Entry, ...]:
        return tuple(add(store, tmp_path, str(n), clean(8, 4, seed=n), **one) for n, one in enumerate(logs))

    return make


def test_a_log_given_twice_stands_beside_nothing(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    store, logs = made
    monkeypatch.setattr(st, "query_params", Params(log=logs["freed"].id, beside=logs["freed"].id))
    assert choose(store.found(LOGIT_LOG)) == (Chosen(logs["freed"], None), [])
    monkeypatch.setattr(st, "query_params", Params(beside="freed"))
    assert choose(store.found(LOGIT_LOG)) == (Chosen(logs["freed"], None), [])
    assert page_state.VIEW == "view"


# --- models ---------------------------------------------------------------------------------------------------------


def test_models_stand_in_the_reports_order_with_logs_beside(opened: Open, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    log = add(store, tmp_path, "qwen", damaged_rows("uninitialised"), model="Qwen2.5-0.5B", precision="Q4_K_M")
    app = opened(store)
    _, reported, logs = tables(app)
    assert [(one.model, round(one.reported)) for one in reported.itertuples()] == [
        ("TinyLlama", 0),
        ("Llama-3-8B", 6),
        ("Qwen2.5-0.5B", 20),
        ("Qwen2.5-0.5B", 20),
        ("GPT-2", 28),
        ("Phi-3-Mini", 73),
    ]
    q4 = reported[(reported["model"] == "Qwen2.5-0.5B") & (reported["precision"] == "Q4_K_M")].iloc[0]
    assert (q4["rule"], q4["ours"], q4["positions"], q4["sizes"]) == ("20.0 %", "20.0 %", "0, 2", "1e+16 to 1e+34")
    assert (reported["rule"] == "no log here").sum() == 5
    assert reported.iloc[0]["positions"] == "none"
    assert logs[["as", "rule", "ours", "positions", "origin", "log"]].to_numpy().tolist() == [
        ["A", 20.0, 20.0, "0, 2", "imported", log.id]
    ]
    words = said(app)
    assert "Of the one log here, 1 has garbage by its rule, and 1 is damaged by ours." in words
    assert "a share of 20 % may be anything from 7 to 45 %" in words


def test_each_chart_says_what_six_points_can_show(opened: Open, made: Made) -> None:
    app = opened(made[0], rule="our rules")
    words = said(app)
    assert [one.value for one in app.subheader][2:] == [
        "Does garbage go with vocabulary size?",
        "With precision?",
        "With architecture?",
        "How large is it, and where?",
    ]
    assert "rank correlation +0.10" in words and "no link is shown, and none is ruled out" in words
    assert "The logs here, by our rules" in words
    assert "at position 0 in 5 of its 5 rows with garbage" in words
    assert len(charts(app)) == 4 and all(chart.proto.alt for chart in app.get("plotly_chart"))
    names = [[trace["name"] for trace in json.loads(one)["data"]] for one in charts(app)]
    assert names == [["reported", "logs here"], ["reported", "logs here"], ["reported"], ["reported", "logs here"]]
    by_precision = json.loads(charts(app)[1])["data"]
    assert {trace["marker"]["symbol"] for trace in by_precision} == {"diamond-open", "circle"}
    assert max(by_precision[1]["y"]) == 0.8
    theirs = json.loads(charts(opened(made[0]))[1])["data"]
    assert max(theirs[1]["y"]) == 0.3


def test_both_tables_leave_as_one_file(made: Made) -> None:
    store, logs = made
    rows = models_table.all_rows(ranked(store, None)).to_pylist()
    assert [one["origin"] for one in rows[:6]] == ["reported"] * 6 and len(rows) == 6 + len(logs)
    freed = next(one for one in rows if one["id"] == logs["freed"].id)
    assert (freed["share_by_our_rules"], freed["positions"]) == (0.5, "0 1 2 3")
    assert all(one["entries"] is None for one in rows[:6])


def test_more_logs_than_are_ranked(store_with: Callable[..., tuple[Entry, ...]], tmp_path: Path, opened: Open) -> None:
    logs = store_with(*({"model": f"m{n}"} for n in range(MOST_LOGS + 3)))
    store = store_at(tmp_path)
    found = ranked(store, Chosen(logs[0], None))
    assert (len(found.ranking.logs), found.older) == (MOST_LOGS + 1, 2)
    assert "3 older logs are not ranked here" in said(opened(store))
