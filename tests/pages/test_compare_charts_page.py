"""The Compare page's charts by their state: what every choice of runs says, and which widgets the address sets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.store.entries import entry_folder
from engine.store.schema import RUN
from engine.store.store import DEMO, Store
from tests.engine.inspection.made import demo_run, sample_row, write_run
from tests.engine.store.stored_runs import store_at
from tests.pages.drift_stores import HOSTILE_JUNK, OVERRIDE

LLAMA, QWEN = "reported-002-llama-lp-64", "reported-002-qwen-lp-64"
NONE, ALLOWLIST = demo_run("llama", "none"), demo_run("llama", "allowlist")
QUESTIONS = [
    "What is the speedup made of?",
    "Is it faster, and does it pass?",
    "Where do failures go?",
    "How long are passed and failed answers?",
    "Where does the time go?",
    "How much does an LP mask?",
    "Which molecules differ?",
]
Open = Callable[..., AppTest]


def charts_alone() -> None:
    import streamlit as st

    from engine.store.store import Store
    from pages._compare import charts as compare_charts
    from pages._compare.runs import QUERY
    from pages._shared.errors import shown_errors

    store = Store.open()
    chosen, complaints = QUERY.read(store.found())
    for complaint in complaints:
        st.error(complaint)
    assert chosen is not None
    with shown_errors():
        compare_charts.show(store, chosen)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Open:
    def open_(store: Path = DEMO, **query: str | list[str]) -> AppTest:
        monkeypatch.setenv("DRIFTSCOPE_STORE", str(store))
        app = AppTest.from_function(charts_alone, default_timeout=120)
        for name, value in query.items():
            app.query_params[name] = value
        return app.run()

    return open_


def said(app: AppTest) -> str:
    assert not app.exception
    return "\n".join(str(one.value) for one in (*app.markdown, *app.caption, *app.info)).replace("\\", "")


def charts(app: AppTest) -> dict[str, Any]:
    """Figures by the question above them, as the browser gets them."""
    return {chart.proto.id: json.loads(chart.proto.spec) for chart in app.get("plotly_chart")}


def test_every_question_has_its_chart_and_its_answer(opened: Open) -> None:
    app = opened(control=NONE, test=[ALLOWLIST, demo_run("llama", "exact")])
    words = said(app)
    assert {one.value for one in app.subheader} == set(QUESTIONS)
    assert len(app.get("plotly_chart")) == len(QUESTIONS) and not app.error
    assert all(chart.proto.alt for chart in app.get("plotly_chart"))
    assert "B fails most: 64 of 64 samples" in words and "The largest differences" in words


def test_the_question_fits_what_was_found(opened: Open) -> None:
    for control, test, question in ((NONE, ALLOWLIST, "speedup"), (ALLOWLIST, NONE, "slowdown")):
        assert opened(control=control, test=[test]).subheader[0].value == f"What is the {question} made of?"
    mixed = opened(control=demo_run("llama", "exact"), test=[NONE, ALLOWLIST])
    assert mixed.subheader[0].value == "What is the difference in time made of?"


def test_a_run_alone(opened: Open) -> None:
    app = opened(control=NONE)
    words = said(app)
    assert "This needs two runs" in words and "Choose a test beside the control" in words
    assert re.search(r"A takes 0\.\d+ s per sample, passes 100 %", words) and not app.error
    assert len(app.get("plotly_chart")) == len(QUESTIONS) - 2


def test_reported_runs_are_marked_and_have_no_samples(opened: Open) -> None:
    app = opened(control=LLAMA, test=[QWEN, NONE])
    words = said(app)
    assert "The largest difference: B is 3.51× slower" in words and "is reported: a text states its figures" in words
    assert "Without samples: A · LLaMA · position-blocklist · reported and B · Qwen" in words
    assert "A has no samples: there is nothing to compare the tests' answers with." in words


def test_reported_runs_alone(opened: Open) -> None:
    words = said(opened(control=LLAMA, test=QWEN))
    assert "B is 3.51× slower than A per sample by wall time: 1.34× the tokens times 2.62× the time per token." in words
    assert words.count("None of these runs has samples") == 3
    assert "The parts of these runs' time were not measured." in words


def test_all_runs_of_the_store_are_faint_points(opened: Open) -> None:
    plain, with_all = (opened(control=NONE, **more) for more in ({}, {"all_runs": "true"}))
    few, many = (
        next(spec for id_, spec in charts(app).items() if "figure-passing" in id_) for app in (plain, with_all)
    )
    assert len(many["data"]) == len(few["data"]) + 1
    assert {"circle", "diamond-open"} == set(many["data"][0]["marker"]["symbol"])


def test_the_address_sets_every_widget(opened: Open) -> None:
    query = {
        "made_of": "passes × time per pass",
        "all_runs": "true",
        "time_in": "share of the wall time",
        "points_by": "passed",
        "masked": "legal tokens at a position",
        "pair": "0-0",
    }
    app = opened(
        control=NONE,
        test=[demo_run("llama", "exact"), ALLOWLIST],
        points_of="C · demo-llama:final · position-allowlist",
        **query,
    )
    state = app.session_state
    assert (state["made_of"], state["time_in"], state["masked"]) == (
        query["made_of"],
        query["time_in"],
        query["masked"],
    )
    assert (state["points_by"], state["points_of"], state["all_runs"]) == ("passed", ALLOWLIST, True)
    words = said(app)
    assert "**At this point**" in words and "forward passes" not in words
    assert "Over all pairs, passed: C 50.0 %, A 100 %, difference −50 points" in words


@pytest.mark.parametrize("value", ["nonsense", "", "<b>"])
def test_an_address_of_nonsense_is_as_if_it_were_not_there(opened: Open, value: str) -> None:
    names = ("made_of", "all_runs", "time_in", "points_by", "points_of", "masked", "pair")
    app = opened(control=NONE, test=ALLOWLIST, **dict.fromkeys(names, value))
    assert "The largest differences" in said(app) and not app.error


def test_runs_that_share_no_molecule(opened: Open, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    for run_id, atom in (("left", "C"), ("right", "N")):
        write_run(store, run_id, [sample_row(n, smiles=atom * (n + 1), tokens=20 + n) for n in range(8)])
    words = said(opened(tmp_path, control="left", test="right"))
    assert "A and B share no molecule, so no point can be drawn." in words
    assert "Too little is known of these runs to split the ratio of their times into factors." in words


def test_no_judgement_is_stronger_than_the_tables_mark(opened: Open) -> None:
    """Two per cent of time are the machine's, and figures without an interval are no finding."""
    words = said(opened(control=demo_run("qwen", "none"), test=demo_run("qwen", "blocklist")))
    assert "Time too close to call with one run each, and same pass rate within noise: B" in words
    words = said(opened(control=LLAMA, test=QWEN))
    assert "More time, without an interval, and" in words and "Slower" not in words


def test_texts_of_a_run_are_shown_as_texts(opened: Open, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    samples = [
        sample_row(
            n,
            smiles=f"C{OVERRIDE}`\n\n# {n} {HOSTILE_JUNK}",
            passed=False,
            issues=[OVERRIDE, HOSTILE_JUNK],
            tokens=9 + n,
        )
        for n in range(7)
    ]
    for more, run_id in enumerate(("one", "two")):
        told = [{**sample, "tokens": sample["tokens"] + more * sample["sample_id"]} for sample in samples]
        write_run(store, run_id, told, model_alias=HOSTILE_JUNK, lp=OVERRIDE, wall_s=1.0, tokens=70)
    app = opened(tmp_path, control="one", test="two")
    assert not app.exception and not app.error
    charts = [chart.proto for chart in app.get("plotly_chart")]
    assert all("<img" not in chart.spec and "\u202e" not in f"{chart.spec}{chart.alt}" for chart in charts)
    shown = "\n".join(str(one.value) for one in (*app.markdown, *app.caption))
    listed = [line for line in shown.splitlines() if line.startswith("`C")]
    assert listed and all(line.endswith("`  ") for line in listed)  # nothing ends the code before its end
    rest = "\n".join(line for line in shown.splitlines() if line not in listed)
    assert "\u202e" not in shown and "[x](http" not in rest and "\n#" not in shown
    assert all("\u202e" not in "".join(one.options) for one in app.selectbox)


def test_a_damaged_run_takes_only_its_own_charts_with_it(opened: Open, tmp_path: Path) -> None:
    store: Store = store_at(tmp_path)
    for run_id in ("whole", "broken"):
        write_run(store, run_id, [sample_row(n, tokens=20 + n) for n in range(8)], wall_s=2.0, forward_s=1.5)
    entry = store.entry("broken")
    file = tmp_path / entry_folder(RUN, "broken") / entry.parts["samples"].file
    file.write_bytes(bytes(file.stat().st_size))  # the right size, and no Parquet file
    app = opened(tmp_path, control="whole", test="broken")
    assert said(app).count("Damaged: B · toy · exact.") == 2 and "share no molecule" in said(app)
    words = said(opened(tmp_path, control="broken"))
    assert words.count("The samples of these runs are damaged") == 2 and "Forward takes most: A 75.0 %" in words


def test_more_runs_than_charts_can_tell_apart(opened: Open, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    ids = [f"run-{number:02}" for number in range(10)]
    for run_id in ids:
        write_run(store, run_id, [sample_row(n, tokens=20 + n) for n in range(2)], wall_s=1.0)
    words = said(opened(tmp_path, control=ids[0], test=ids[1:]))
    assert "Charts draw the control and its first 7 tests, A to H; *Side by side* has all 9." in words
