"""The Logit health page by its state: which logs are looked at, how models are ranked, and what is said of a log."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.logits.parity import compare_logs
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import DEMO, Store
from pages._logits import models_charts, models_table
from pages._logits.logs import QUERY, LogSelection, default_choice
from pages._logits.models_table import MOST_LOGS, ranked
from pages._shared.links import logits_address
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


def hides_legend(app: AppTest) -> bool:
    return any("chosen-entries { display: none" in one.proto.body for one in app.get("html"))


# --- which logs -----------------------------------------------------------------------------------------------------


def test_an_empty_store_says_what_to_do(opened: Open, tmp_path: Path) -> None:
    app = opened(store_at(tmp_path))
    words = said(app)
    assert "There is no logit log in this store yet" in words or "Three ways to get a first log" in words
    assert "engine logits add" in words and "--log-logits 10" in words
    assert "There is no log here to apply its rule" in words
    assert [len(table) for table in tables(app)] == [6]
    assert len(opened(store_at(tmp_path), view="Health").info) == 1


def test_a_first_visit_looks_at_the_newest_log_beside_another_engines(opened: Open, made: Made) -> None:
    store, logs = made
    app = opened(store)
    rows = tables(app)[0]
    assert len(rows) == len(logs)
    assert app.expander[0].label == f"Logs: 2 of {len(logs)} selected"  # the legend has their names
    assert hides_legend(app) and not hides_legend(opened(store, view="Health"))  # the ranking is of all logs
    assert rows[rows["as"].notna()].set_index("as")["log"].to_dict() == {"A": logs["clean"].id, "B": logs["theirs"].id}
    freed = rows[rows["log"] == logs["freed"].id].iloc[0]
    assert (freed["flagged"], freed["report"]) == (50.0, 30.0)
    assert freed["cause"] == "use after free (certain)"
    assert rows[rows["log"] == logs["clean"].id].iloc[0]["cause"] == "nothing flagged"


def test_names_of_no_log_are_told_and_left_out(opened: Open, made: Made) -> None:
    store, logs = made
    app = opened(store, log="stale", beside="nobody")
    assert [one.value for one in app.error] == ["There is no logit log \\'nobody\\'\\."]
    rows = tables(app)[0]
    assert rows[rows["as"].notna()]["log"].to_list() == [logs["stale"].id]
    app = opened(store, log="", view="Health")
    assert "Tick logs in the table" in said(app) and not tables(app)[0]["as"].notna().any()


def test_the_filter_hides_rows_and_nothing_else(opened: Open, made: Made) -> None:
    store, logs = made
    app = opened(store, log=logs["freed"].id, contains="OVERFLOW")
    assert tables(app)[0]["log"].to_list() == [logs["overflow"].id]
    assert app.selectbox(key="control_log").value == logs["freed"].id
    assert "No log matches." in said(opened(store, contains="zzz"))


def test_names_letters_and_colours(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    _, logs = made
    both = LogSelection(logs["freed"], (logs["clean"],))
    assert [both.name(id_) for id_ in both.ids] == [
        "A · llama.cpp · model freed · float16",
        "B · driftscope · demo · float32",
    ]
    for colours in (LIGHT, DARK):
        assert [both.colour(id_, colours) for id_ in both.ids] == [colours.neutral, colours.series[0]]
    assert LogSelection(logs["freed"]).entries == (logs["freed"],)
    assert len(LogSelection(logs["hostile"]).name(logs["hostile"].id)) < 140
    assert logits_address("a", "b", view="Health") == "logits?log=a&beside=b&view=Health"
    params = Params()
    monkeypatch.setattr(st, "query_params", params)
    QUERY.put(both.ids[::-1])
    assert params == {"log": logs["clean"].id, "beside": [logs["freed"].id]}
    QUERY.put(())
    assert params == {"log": "", "beside": []}


def test_a_first_visit_to_the_demo_has_much_to_compare() -> None:
    store = Store.open(DEMO)
    chosen = default_choice(store.found(LOGIT_LOG).entries)
    assert chosen is not None and chosen.test is not None
    assert len({entry.row["engine"] for entry in chosen.entries}) == 2
    found = compare_logs(store, chosen.control, chosen.test)
    assert found.entries > 200 and found.filters[0].flagged == 0


def test_the_default_wants_the_same_model_of_another_engine(store_with: Callable[..., tuple[Entry, ...]]) -> None:
    old, other, newest = store_with(
        {"team": "llama.cpp", "model": "m"}, {"team": "llama.cpp", "model": "n"}, {"team": "ours", "model": "m"}
    )
    assert default_choice((old, other, newest)) == LogSelection(newest, (old,))
    assert default_choice((old, other)) == LogSelection(other)
    damaged = replace(old, row={**old.row, "cause": "freed"})
    assert default_choice((old, damaged, newest)) == LogSelection(newest, (old,))
    assert default_choice((damaged, newest)) == LogSelection(newest, (damaged,))
    ours = replace(old, row={**old.row, "origin": "measured"})
    assert default_choice((ours, old, newest)) == LogSelection(newest, (ours,))
    coarse, fine = (replace(ours, row={**ours.row, "precision": one}) for one in ("q8_0", "f16"))
    newest = replace(newest, row={**newest.row, "precision": "f16"})
    assert default_choice((fine, coarse, newest)) == LogSelection(newest, (fine,))
    assert default_choice(()) is None


def test_two_logs_of_one_name_are_told_apart(store_with: Callable[..., tuple[Entry, ...]]) -> None:
    same, other = store_with({"team": "one", "model": "m"}, {"team": "one", "model": "m"})
    both = LogSelection(same, (other,))
    assert [both.name(id_) for id_ in both.ids] == [
        f"A · one · m · {same.row['file']}",
        f"B · one · m · {other.row['file']}",
    ]
    assert LogSelection(same).name(same.id) == "A · one · m"


@pytest.fixture
def store_with(tmp_path: Path) -> Callable[..., tuple[Entry, ...]]:
    store = store_at(tmp_path)

    def make(*logs: dict[str, Any]) -> tuple[Entry, ...]:
        return tuple(add(store, tmp_path, str(n), clean(8, 4, seed=n), **one) for n, one in enumerate(logs))

    return make


def test_a_log_given_twice_stands_beside_nothing(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    store, logs = made
    monkeypatch.setattr(st, "query_params", Params(log=logs["freed"].id, beside=logs["freed"].id))
    assert QUERY.read(store.found(LOGIT_LOG)) == (LogSelection(logs["freed"]), [])
    monkeypatch.setattr(st, "query_params", Params(beside="freed"))
    assert QUERY.read(store.found(LOGIT_LOG)) == (LogSelection(logs["freed"]), [])


# --- models ---------------------------------------------------------------------------------------------------------


def test_models_stand_in_the_reports_order_with_logs_beside(opened: Open, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    log = add(store, tmp_path, "qwen", damaged_rows("uninitialised"), model="Qwen2.5-0.5B", precision="Q4_K_M")
    app = opened(store)
    _, logs, reported = tables(app)
    assert [(itertuple.model, round(itertuple.reported)) for itertuple in reported.itertuples()] == [
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
    assert logs[["rule", "ours", "positions", "origin", "log"]].to_numpy().tolist() == [
        [20.0, 20.0, "0, 2", "imported", log.id]
    ]
    words = said(app)
    assert (
        "Of the one log here, 1 has garbage by the report's rule, 1 is damaged by ours (late reads show under Health)."
        in words
    )
    assert "20.0 % has a 95 % interval of 7 to 45 %" in words


def test_damaged_logs_are_named_whole_beside_their_sizes() -> None:
    log = {"origin": "measured", "model": "llama.cpp read after the context was freed demo-qwen:final f32"}
    bar = log | {"least": 1.0, "largest": 9.0, "positions": (0, 1, 2, 3)}
    axis = models_charts._sizes_chart([bar], "sizes").figure().layout.yaxis
    assert [label.replace("<br>", " ") for label in axis.ticktext] == [f"{log['model']} @ 0, 1 …"]


def test_each_chart_says_what_six_points_can_show(opened: Open, made: Made) -> None:
    app = opened(made[0], rule="our rules")
    words = said(app)
    worst = tables(app)[1][["rule", "ours"]].max(axis=1)
    assert worst.iloc[0] > 0 and worst.is_monotonic_decreasing
    assert words.index("logs here,") < words.index("As reported,") and "(6 pairs of model and precision)" in words
    assert "most garbage (73.0 % of its entries)" in words.replace("\u00a0", " ")  # as its charts count them
    assert [one.value for one in app.subheader][:2] == ["Logs of this store", "As the report states it"]
    assert [one.value for one in app.subheader][2:] == [
        "Does garbage go with vocabulary size?",
        "With precision?",
        "With architecture?",
        "How large is it, and where?",
    ]
    assert "(5 models) show no link of garbage with vocabulary size. It may exist all the same." in words
    assert "The logs here, by our rules" in words
    assert "in 5 of 5 rows at position 0" in words
    assert len(charts(app)) == 4 and all(chart.proto.alt for chart in app.get("plotly_chart"))
    names = [[trace["name"] for trace in json.loads(chart)["data"]] for chart in charts(app)]
    assert names == [["reported", "logs here"], ["reported", "logs here"], ["reported"], ["reported", "logs here"]]
    by_precision = json.loads(charts(app)[1])["data"]
    assert {trace["marker"]["symbol"] for trace in by_precision} == {"diamond-open", "circle"}
    reported = by_precision[0]  # a name at 0 would be struck through by the line there
    beside = zip(reported["y"], reported["textposition"], strict=True)
    assert all(place == ("middle left" if share else "bottom left") for share, place in beside)
    assert max(by_precision[1]["y"]) == 0.8
    theirs = json.loads(charts(opened(made[0]))[1])["data"]
    assert max(theirs[1]["y"]) == 0.3


def test_both_tables_leave_as_one_file(made: Made) -> None:
    store, logs = made
    rows = models_table.all_rows(ranked(store, None)).to_pylist()
    assert [row["origin"] for row in rows[:6]] == ["reported"] * 6 and len(rows) == 6 + len(logs)
    freed = next(row for row in rows if row["id"] == logs["freed"].id)
    assert (freed["share_by_our_rules"], freed["positions"]) == (0.5, "0 1 2 3")
    assert all(row["entries"] is None for row in rows[:6])


def test_more_logs_than_are_ranked(store_with: Callable[..., tuple[Entry, ...]], tmp_path: Path, opened: Open) -> None:
    logs = store_with(*({"model": f"m{n}"} for n in range(MOST_LOGS + 3)))
    store = store_at(tmp_path)
    found = ranked(store, LogSelection(logs[0]))
    assert (len(found.ranking.logs), found.older) == (MOST_LOGS + 1, 2)
    assert "3 older logs are not ranked here" in said(opened(store))
