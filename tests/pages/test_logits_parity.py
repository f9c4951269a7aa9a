"""Two logs beside each other on the page: what is said, drawn and offered. The figures are the engine's."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from engine.logits.parity import EntryAgreement, Parity, compare_logs
from engine.logits.parity_detail import ParityDetail, coverage, detail
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._logits import parity_charts as charts
from pages._logits import parity_words as words
from pages._logits.logs import LogSelection
from tests.engine.logits.logs import Rows, clean, new_log, objects, write
from tests.pages.logit_logs import HOSTILE, LONG, OVERRIDE, add, damaged_rows, lose_values, store_at
from tests.pages.manage_pages import query

PAGE = """
import streamlit as st
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._logits import parity, logs
store = Store.open()
chosen, _ = logs.QUERY.read(store.found(LOGIT_LOG))
parity.show(store, chosen)
"""
MODEL = {"model": "demo", "precision": "f32"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    made = store_at(tmp_path)
    monkeypatch.setenv("DRIFTSCOPE_STORE", made.home.where)
    return made


def opened(*logs: Entry, **more: str) -> AppTest:
    app = AppTest.from_string(PAGE, default_timeout=60)
    for name, log in zip(("log", "beside"), logs, strict=False):
        app.query_params[name] = log.id
    for name, value in more.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def said(app: AppTest) -> str:
    shown = (*app.markdown, *app.caption, *app.info, *app.error, *app.warning)
    return "\n".join(one.value for one in shown).replace("\\", "")


def two(store: Store, folder: Path, rows: Rows, other: Rows) -> tuple[Entry, Entry]:
    control = add(store, folder, "one", rows, team="driftscope", **MODEL)
    return control, add(store, folder, "two", other, team="llama.cpp", **MODEL)


def near(rows: Rows, size: float = 1e-5) -> Rows:
    return rows + np.random.default_rng(1).normal(0, size, rows.shape)


# --- the page -----------------------------------------------------------------------------------------------------


def test_garbage_asks_for_a_filter_and_is_told_apart(store: Store, tmp_path: Path) -> None:
    rows = clean(60, 12)
    broken = near(rows)
    broken[::5, 0] = 10.0 ** np.random.default_rng(0).uniform(16, 34, 12)
    control, test = two(store, tmp_path, rows, broken)
    app = opened(control, test)
    text = said(app)
    assert "llama.cpp (demo, float32) and driftscope (demo, float32) agree to about" in text
    assert "Position filter that the data supports: “skip 0”" in text
    assert "12 pairs have a flagged value" in text
    table = app.dataframe[0].value
    assert table["flagged"].tolist() == ["with", "without"] * 4
    assert table["supported"].fillna("").tolist() == ["", "", "✓", *[""] * 5]
    assert float(table["largest"][0]) > 1e16 and float(table["largest"][1]) < 1e-3
    assert len(app.get("plotly_chart")) == 3
    assert app.code[0].value == f".venv/bin/python -m engine logits parity {control.id} {test.id}"
    assert f"log={control.id}&beside={test.id}" in app.get("link_button")[0].proto.url


def test_swap_makes_the_other_one_the_control(store: Store, tmp_path: Path) -> None:
    control, test = two(store, tmp_path, clean(), near(clean()))
    app = opened(control, test)
    app.button("swap_parity").click().run()
    assert (query(app, "log"), query(app, "beside")) == (test.id, control.id)
    assert "driftscope (demo, float32) and llama.cpp (demo, float32) agree" in said(app)


def test_logs_that_part_layer_by_layer_begin_where_they_part(store: Store, tmp_path: Path) -> None:
    names = ("embedding", "layer_0", f"layer_1 {HOSTILE}", "logits")
    lines, others = [], []
    for token in range(12):
        for place, name in enumerate(names):
            rows, about = clean(1, 8, 10 * token + place), {"checkpoint": name, "token_idx": token, "precision": "f16"}
            off = 1.2 if token > 6 and place > 1 else 1.00001
            lines += objects(rows, team="one", **about)
            others += objects(rows * off, team="two", **about)
    logs = []
    for name, some in (("one", lines), ("two", others)):
        write(tmp_path / f"{name}.jsonl", some)
        logs.append(new_log(store, tmp_path / f"{name}.jsonl"))
    app = opened(*logs)
    assert app.selectbox("parity_at").value == names[2], "the first that parts"
    assert "First divergence: checkpoint" in said(app) and "token 7" in said(app)
    assert not any(HOSTILE in one.value for one in app.markdown)
    table = app.dataframe[-1].value.set_index("checkpoint")
    assert table["diverges at"].fillna("").tolist() == ["", "", "token 7", "token 7"]
    app.selectbox("parity_at").set_value("embedding").run()
    assert "No entry differs by more than precision explains" in said(app)
    for figure in words.FIGURES:
        app.segmented_control("parity_by").set_value(figure).run()
        assert words.FIGURES[figure] in said(app)
        assert not app.exception


def test_logs_that_share_nothing_say_what_each_has(store: Store, tmp_path: Path) -> None:
    control = add(store, tmp_path, "one", clean(), **MODEL)
    test = add(store, tmp_path, "two", clean(), checkpoint="embedding", **MODEL)
    app = opened(control, test)
    assert "share no checkpoint, token and position" in app.error[0].value.replace("\\", "")
    assert app.dataframe[0].value["checkpoint"].tolist() == ["logits", "embedding"]
    assert app.dataframe[0].value["in both"].tolist() == [0, 0]
    assert not app.get("plotly_chart")


def test_one_log_alone_and_one_whose_values_are_gone(store: Store, tmp_path: Path) -> None:
    control, test = two(store, tmp_path, clean(), near(clean()))
    for app in (opened(control), opened(control, control)):
        assert "tick a second one" in said(app)
        assert not app.dataframe
    lose_values(store, test)
    text = said(opened(control, store.entry(test.id, LOGIT_LOG)))
    assert "values of" in text and "missing" in text


def test_a_poor_pair_is_cautioned(store: Store, tmp_path: Path) -> None:
    control = add(store, tmp_path, "one", clean(), model="a", shape="[100]")
    test = add(store, tmp_path, "two", near(clean()), model="b", shape="[200]")
    text = " ".join(one.value for one in opened(control, test).warning)
    assert "Different models" in text and "100 and 200 values" in text and "Same engine and precision" in text


def test_hostile_names_are_text(store: Store, tmp_path: Path) -> None:
    control = add(store, tmp_path, "one", clean(), team=HOSTILE, model=OVERRIDE, precision=LONG)
    test = add(store, tmp_path, "two", near(clean()), team=f"{HOSTILE}2", model=LONG, precision="f32")
    app = opened(control, test)
    raw = "\n".join(one.value for one in (*app.markdown, *app.warning, *app.caption))
    assert not re.search(r"(?<!\\)<", raw) and "\u202e" not in raw and "](http" not in raw
    assert len(said(app)) < 10_000


# --- what is drawn ------------------------------------------------------------------------------------------------


def drawn_of(
    store: Store, control: Entry, test: Entry
) -> tuple[Parity, ParityDetail, list[tuple[EntryAgreement, float]]]:
    parity, found = compare_logs(store, control, test), detail(store, control, test, "logits")
    known = [(place, value) for place in parity.places if (value := words.figure_of(place, "relative")) is not None]
    return parity, found, known


def test_the_first_entry_that_parts_is_marked(store: Store, tmp_path: Path) -> None:
    rows = clean(50, 8)
    other = near(rows)
    other[30:] *= 1.3
    parity, _, known = drawn_of(store, *two(store, tmp_path, rows, other))
    figure = charts.tokens_chart(parity, known, "relative", 1e-9).figure()
    mark = next(one for one in figure.data if one.name == "the first above it")
    assert (list(mark.x), len(figure.data[0].x)) == ([30], 50)
    assert figure.layout.annotations[0].y == pytest.approx(np.log10(parity.tolerance))
    assert all(
        one.name != "the first above it" for one in charts.tokens_chart(parity, known, "apart", 1e-9).figure().data
    )
    assert "20 entries of 50" in words.tokens_answer(parity, parity.places, "relative")
    assert "the first at token 30" in words.tokens_answer(parity, parity.places, "relative")


def test_many_entries_become_stretches(monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path) -> None:
    token, value = np.repeat(np.arange(10), 3), np.tile([3.0, 1.0, 2.0], 10)
    at, middle, largest = charts.stretches(token, value)
    assert (at.tolist(), set(middle), set(largest)) == (list(range(10)), {2.0}, {3.0})
    monkeypatch.setattr(charts, "MOST_STRETCHES", 4)
    at, middle, largest = charts.stretches(token + 7, value + token)
    assert at.tolist() == [7, 10, 13, 16]
    assert largest.tolist() == [5.0, 8.0, 11.0, 12.0]
    monkeypatch.setattr(charts, "MOST_ENTRIES", 10)
    parity, _, known = drawn_of(store, *two(store, tmp_path, clean(), near(clean())))
    assert [one.name for one in charts.tokens_chart(parity, known, "relative", 1e-9).figure().data] == [
        "largest",
        "middle",
    ]


def test_flagged_pairs_are_drawn_apart_and_within_the_rim(store: Store, tmp_path: Path) -> None:
    control, test = two(store, tmp_path, clean(60, 12), near(damaged_rows("uninitialised")))
    _, found, _ = drawn_of(store, control, test)
    figure = charts.scatter_chart(LogSelection(control, (test,)), found).figure()
    sound, off = figure.data
    assert (sound.name, sound.marker.symbol, off.name, off.marker.symbol) == (
        "without a flag",
        "circle",
        "flagged",
        "x",
    )
    _, high = figure.layout.yaxis.range
    assert max(off.y) == high and max(sound.y) < high
    assert f"{len(off.x)} pairs have a flagged value" in words.scatter_answer(found)
    positions = charts.positions_chart(found).figure()
    assert positions.data[-1].name == "flagged" and positions.data[-1].y[0] == pytest.approx(0.2)
    assert "Flagged pairs are at 2 positions" in words.positions_answer(found)


def test_logs_that_are_alike_are_drawn_without_differences(store: Store, tmp_path: Path) -> None:
    control, test = two(store, tmp_path, clean(), clean())
    parity, found, _ = drawn_of(store, control, test)
    assert words.tokens_answer(parity, parity.places, "relative").startswith("No divergence: all 40 entries")
    assert "equal bit for bit" in words.scatter_answer(found)
    assert "12 positions agree bit for bit" in words.positions_answer(found)
    app = opened(control, test)
    assert len(app.get("plotly_chart")) == 2, "nothing to draw over tokens"
    assert app.dataframe[0].value["flagged"].tolist() == ["none"] * 4


def test_logs_in_which_all_is_flagged_have_words(store: Store, tmp_path: Path) -> None:
    control, test = two(store, tmp_path, np.full((20, 6), np.nan), near(clean(20, 6)))
    app = opened(control, test)
    assert "nothing to compare" in said(app)
    assert "no pair of values is without a flag" in said(app)
    assert "No position has a pair without a flag" in said(app)


def test_files_have_everything(store: Store, tmp_path: Path) -> None:
    parity, found, _ = drawn_of(store, *two(store, tmp_path, clean(), near(clean())))
    sheet = json.loads(json.dumps(asdict(parity)))
    assert len(sheet["places"]) == 40 and len(sheet["filters"]) == 4
    rows = words.place_rows(parity.places)
    assert set(rows[0]) >= {"checkpoint", "text", "token", "relative", "cosine", "same top-1"}
    assert len(words.point_rows(found)) == 480


def test_coverage_without_an_agreement_has_no_figures(store: Store, tmp_path: Path) -> None:
    control, test = two(store, tmp_path, clean(), near(clean()))
    (row,) = words.coverage_rows(None, coverage(store, control, test))
    logged = "40 entries, tokens 0–39"
    assert row == {"checkpoint": "logits", "in A": logged, "in B": logged, "in both": 40}
