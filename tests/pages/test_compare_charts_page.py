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
from pages._compare.charts import QUESTIONS
from tests.engine.inspection.made import demo_run, sample_row, write_run
from tests.engine.store.stored_runs import store_at
from tests.pages.drift_stores import HOSTILE_JUNK, OVERRIDE

LLAMA, QWEN = "reported-002-llama-lp-64", "reported-002-qwen-lp-64"
NONE, ALLOWLIST = demo_run("llama", "none"), demo_run("llama", "group-v4.3")
SPEED, TIME, FAILURES, MOLECULES, MASKS = QUESTIONS
HEADINGS = {
    SPEED: ["Is it faster, and is it usable?"],
    TIME: ["What is the speedup made of?", "Where does the time go?"],
    FAILURES: ["Where do failures go?", "How long are passed and failed answers?"],
    MOLECULES: ["Which molecules differ?"],
    MASKS: ["How much does an LP mask?"],
}
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
    words = "\n".join(str(one.value) for one in (*app.markdown, *app.caption, *app.info))
    return words.replace("\\", "").replace("\u00a0", " ")


def said_of_all(opened: Open, store: Path = DEMO, **query: str | list[str]) -> str:
    """Under every question."""
    apps = [opened(store, question=question, **query) for question in QUESTIONS]
    assert not any(app.error for app in apps)
    return "\n".join(map(said, apps))


def charts(app: AppTest) -> dict[str, Any]:
    """Figures by the question above them, as the browser gets them."""
    return {chart.proto.id: json.loads(chart.proto.spec) for chart in app.get("plotly_chart")}


def test_every_question_has_its_charts_and_their_answers(opened: Open) -> None:
    answers = {
        SPEED: "A takes",
        TIME: "takes most",
        FAILURES: "B fails the reports' rule or a check of the molecule most: 64 of 64",
        MOLECULES: "Over all pairs",
    }
    app = opened(control=NONE, test=[ALLOWLIST, demo_run("llama", "exact")])
    assert [one.value for one in app.subheader] == HEADINGS[SPEED]  # at first
    for question, headings in HEADINGS.items():
        app.segmented_control(key="question").set_value(question).run()
        assert (question in (SPEED, TIME)) == ("Times are of demo-llama:final (2.4 M weights" in said(app))
        assert [one.value for one in app.subheader] == headings and not app.error
        assert answers.get(question, "masks most") in said(app)
        assert len(app.get("plotly_chart")) == len(headings) <= 2
        assert all(chart.proto.alt for chart in app.get("plotly_chart"))


def test_a_pair_belongs_to_its_question(opened: Open) -> None:
    app = opened(control=NONE, test=ALLOWLIST, pair="0-0")
    assert "**At this point**" in said(app)
    app.segmented_control(key="question").set_value(SPEED).run()
    assert "pair" not in app.query_params


def test_the_question_fits_what_was_found(opened: Open) -> None:
    for control, test, question in ((NONE, ALLOWLIST, "speedup"), (ALLOWLIST, NONE, "slowdown")):
        app = opened(control=control, test=[test], question=TIME)
        assert app.subheader[0].value == f"What is the {question} made of?"
    mixed = opened(control=demo_run("llama", "exact"), test=[NONE, ALLOWLIST], question=TIME)
    assert mixed.subheader[0].value == "What is the difference in time made of?"


def test_a_run_alone(opened: Open) -> None:
    words = said_of_all(opened, control=NONE)
    assert "This needs two runs" in words and "Choose a test beside the control" in words
    assert re.search(r"A takes 0\.\d+ s per sample, usable 40.6 %", words)
    answer = next(one.value for one in opened(control=NONE).markdown if one.value.startswith("A takes"))
    assert re.search(r"\d\u00a0s per", answer)  # no line ends between a figure and its unit


def test_reported_runs_are_marked_and_have_no_samples(opened: Open) -> None:
    words = said_of_all(opened, control=LLAMA, test=[QWEN, NONE])
    assert (
        "The largest difference: B takes 3.51× the time" in words and "is reported: a text states its figures" in words
    )
    assert "Without samples: A · LLaMA · group-v2.1 · reported and B · Qwen" in words
    assert "A has no samples: there is nothing to compare the tests' answers with." in words


def test_reported_runs_alone(opened: Open) -> None:
    words = said_of_all(opened, control=LLAMA, test=QWEN)
    assert (
        "B takes 3.51× the time of A per sample by wall time: 1.34× the tokens times 2.62× the wall time per token."
        in words
    )
    assert words.count("None of these runs has samples") == 3
    assert "The parts of these runs' time were not measured." in words


def test_all_runs_of_the_store_are_faint_points(opened: Open) -> None:
    plain, with_all = (opened(control=NONE, **more) for more in ({}, {"all_runs": "true", "passed_too": "true"}))
    few, many = (
        next(spec for id_, spec in charts(app).items() if "figure-passing" in id_) for app in (plain, with_all)
    )
    assert len(many["data"]) == len(few["data"]) + 2  # the control's pass rate, and the others
    assert {"circle", "diamond-open"} == set(many["data"][0]["marker"]["symbol"])


@pytest.mark.parametrize(
    ("question", "query"),
    [
        (SPEED, {"all_runs": "true", "passed_too": "true"}),
        (TIME, {"made_of": "passes × time per pass", "time_in": "share of the wall time"}),
        (MOLECULES, {"points_by": "passed", "points_of": "C · demo-llama:final · group-v4.3", "pair": "0-0"}),
        (MASKS, {"masked": "legal tokens at a position"}),
    ],
)
def test_a_link_without_a_question_opens_that_of_its_chart_and_sets_its_widgets(
    opened: Open, question: str, query: dict[str, str]
) -> None:
    app = opened(control=NONE, test=[demo_run("llama", "exact"), ALLOWLIST], **query)
    assert app.session_state["question"] == question
    expected = {**query, "all_runs": True, "passed_too": True, "points_of": ALLOWLIST}
    assert all(app.session_state[name] == expected[name] for name in query if name != "pair")
    words = said(app)
    assert "forward passes" not in words
    if question == MOLECULES:
        assert "**At this point**" in words
        assert "Over all pairs, passed: C 48.4 %, A 100 %, difference −51.6 points" in words


@pytest.mark.parametrize("value", ["nonsense", "", "<b>"])
def test_an_address_of_nonsense_is_as_if_it_were_not_there(opened: Open, value: str) -> None:
    names = ("made_of", "all_runs", "time_in", "points_by", "points_of", "masked", "pair")
    assert "The largest differences" in said_of_all(
        opened, DEMO, control=NONE, test=ALLOWLIST, **dict.fromkeys(names, value)
    )
    assert opened(control=NONE, test=ALLOWLIST, question=value).subheader[0].value == HEADINGS[SPEED][0]


def test_runs_that_share_no_molecule(opened: Open, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    for run_id, atom in (("left", "C"), ("right", "N")):
        write_run(store, run_id, [sample_row(n, smiles=atom * (n + 1), tokens=20 + n) for n in range(8)])
    words = said_of_all(opened, tmp_path, control="left", test="right")
    assert "A and B share no molecule, so no point can be drawn." in words
    assert "Too little is known of these runs to split the ratio of their times into factors." in words


def test_no_judgement_is_stronger_than_the_tables_mark(opened: Open) -> None:
    """Two per cent of time are the machine's, and figures without an interval are no finding."""
    words = said(opened(control=demo_run("qwen", "none"), test=demo_run("qwen", "group-v2.1")))
    assert "Time too close to call with one run each, and usable less often: B" in words
    words = said(opened(control=LLAMA, test=QWEN))
    assert "More time, without an interval: B" in words and "Slower" not in words


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
    apps = [opened(tmp_path, control="one", test="two", question=question) for question in QUESTIONS]
    assert not any(app.exception or app.error for app in apps)
    charts = [chart.proto for app in apps for chart in app.get("plotly_chart")]
    assert all("<img" not in chart.spec and "\u202e" not in f"{chart.spec}{chart.alt}" for chart in charts)
    shown = "\n".join(str(one.value) for app in apps for one in (*app.markdown, *app.caption))
    listed = [line for line in shown.splitlines() if line.startswith("`C")]
    assert listed and all(line.endswith("`  ") for line in listed)  # nothing ends the code before its end
    rest = "\n".join(line for line in shown.splitlines() if line not in listed)
    assert "\u202e" not in shown and "[x](http" not in rest and "\n#" not in shown
    assert all("\u202e" not in "".join(one.options) for app in apps for one in app.selectbox)


def test_a_damaged_run_takes_only_its_own_charts_with_it(opened: Open, tmp_path: Path) -> None:
    store: Store = store_at(tmp_path)
    for run_id in ("whole", "broken"):
        write_run(store, run_id, [sample_row(n, tokens=20 + n) for n in range(8)], wall_s=2.0, forward_s=1.5)
    entry = store.entry("broken")
    file = tmp_path / entry_folder(RUN, "broken") / entry.parts["samples"].file
    file.write_bytes(bytes(file.stat().st_size))  # the right size, and no Parquet file
    words = "\n".join(said(opened(tmp_path, control="whole", test="broken", question=name)) for name in QUESTIONS)
    assert words.count("Damaged: B · toy · exact.") == 2 and "share no molecule" in words
    words = "\n".join(said(opened(tmp_path, control="broken", question=name)) for name in QUESTIONS)
    assert words.count("The samples of these runs are damaged") == 2 and "Forward takes most: A 75.0 %" in words


def test_more_runs_than_charts_can_tell_apart(opened: Open, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    ids = [f"run-{number:02}" for number in range(10)]
    for run_id in ids:
        write_run(store, run_id, [sample_row(n, tokens=20 + n) for n in range(2)], wall_s=1.0)
    words = said(opened(tmp_path, control=ids[0], test=ids[1:]))
    assert "Charts draw the control and its first 7 tests, A to H; *Side by side* has all 9." in words
