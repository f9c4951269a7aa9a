"""The reports' questions as saved queries on the Profiles page: run, scoped, empty, stopped by nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.profile.reported import publish_reported
from engine.store.store import Store
from pages._profiles.questions import CHOSEN, scoped, views
from tests.engine.profile.test_ingest import event
from tests.engine.store.stored_runs import store_at
from tests.pages.profile_traces import add, hostile, on_gpu
from tests.pages.sql_processes import processes_of

PAGE = """
from engine.store.store import Store
from pages._profiles import questions, traces
store = Store.open().snapshot()
chosen, _ = traces.query_of({}).read(store.found(traces.TRACE))
questions.show(store, chosen)
"""
WAIT_S = 60.0


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return store_at(tmp_path / "store")


@pytest.fixture(autouse=True)
def left_behind() -> Iterator[None]:
    """Letting go of the session's cache ends its process."""
    yield
    st.cache_resource.clear()
    assert not processes_of()


def opened(**query: str) -> AppTest:
    app = AppTest.from_string(PAGE, default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert app.session_state["profiles_running"].done.wait(WAIT_S)
    app.run()
    assert not app.exception
    return app


def said(app: AppTest) -> str:
    return "\n".join(one.value for one in (*app.markdown, *app.caption, *app.info, *app.error)).replace("\\", "")


def test_their_four_questions_are_there(store: Store) -> None:
    gpu = on_gpu(store)
    publish_reported(store)
    add(store, [event("user_annotation", "driftscope::template", 0, 7), event("kernel", "k", 0, 1, stream=7)])
    assert [view.report for view in views()] == ["001", "001", "001", "003"]
    for view in views():
        app = opened(question=view.name, control=gpu.id)
        answer = app.dataframe[0].value
        assert len(answer) and list(answer.columns)[-2:] == ["origin", "trace_id"], (
            view.name
        )  # what decides comes first
        assert view.title in said(app) and app.selectbox[0].value == view.name


def test_a_question_of_the_ticked_traces_alone(store: Store) -> None:
    gpu = on_gpu(store)
    publish_reported(store)
    everyone = opened(question="report-003-traces", control=gpu.id)
    assert len(everyone.dataframe[0].value) == 3 and "2 of 3 rows are reported, not measured here" in said(everyone)
    own = opened(question="report-003-traces", of=CHOSEN, control=gpu.id)
    assert list(own.dataframe[0].value["trace_id"]) == [gpu.id]
    (link,) = own.link_button
    address = urlsplit(link.proto.url)
    assert address.path == "compare" and parse_qs(address.query)["sql"] == [own.code[0].value]
    assert gpu.id in own.code[0].value


def test_a_scope_names_ids_and_nothing_else() -> None:
    text = scoped("SELECT 1 -- one\nORDER BY 1 -- two", ["a-b", "c"])
    assert text.endswith("\n)\nWHERE trace_id IN ('a-b', 'c')")  # behind a comment's line
    assert scoped("SELECT 1", ()) == "SELECT 1"


def test_a_questions_parameters_are_in_the_address(store: Store) -> None:
    marks = [event("user_annotation", f"ProfilerStep#{n}", 10 * n, n) for n in range(1, 9)]
    add(store, [*marks, event("kernel", "k", 0, 1, stream=7)])
    named = {"question": "report-001-templates"}
    assert "No rows for" in said(opened(**named))
    app = opened(**named, **{"report-001-templates-word": "profilerstep", "report-001-templates-longest": "2"})
    assert list(app.dataframe[0].value["name"]) == ["ProfilerStep#8", "ProfilerStep#7"]
    assert "'%' || 'profilerstep' || '%'" in app.code[0].value and "<= 2" in app.code[0].value


@pytest.mark.parametrize("value", ["x' OR 1=1 --", "a%", "$one", "\u202e", "0", "99999999"])
def test_parameters_that_could_end_a_text_are_refused(store: Store, value: str) -> None:
    app = AppTest.from_string(PAGE, default_timeout=60)
    app.query_params["question"] = "report-001-templates"
    app.query_params["report-001-templates-word"] = value
    app.run()
    assert "Word cannot be" in said(app) and not app.exception and not app.code


def test_an_empty_store_and_names_that_mean_nothing(store: Store) -> None:
    app = opened(question="no such question")
    assert "No rows for the traces of this store." in said(app)
    assert not app.error


def test_new_traces_are_asked_anew(store: Store) -> None:
    app = opened(question="report-003-traces")
    assert not app.dataframe or "trace_id" not in app.dataframe[0].value.columns
    on_gpu(store)
    app.run()
    assert app.session_state["profiles_running"].done.wait(WAIT_S)
    app.run()
    assert len(app.dataframe[0].value) == 1


def test_what_the_tables_hold(store: Store) -> None:
    app = opened(trace_table="trace_gaps")
    told = app.dataframe[-1].value
    assert list(told["column"]) == ["trace_id", "device", "start_us", "gap_us", "before_op", "after_op"]
    assert set(told["type"]) == {"text", "number", "whole"}


def test_hostile_labels_stay_text(store: Store) -> None:
    entry = hostile(store)
    app = opened(question="report-003-traces", control=entry.id)
    assert len(app.dataframe[0].value) == 1
    assert not any("<img" in one.value for one in (*app.markdown, *app.caption))
