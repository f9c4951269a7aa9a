"""The Profiles page's choice of traces, by the state of its page, without a browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.store.schema import TRACE
from engine.store.store import Store
from pages._profiles.traces import default_choice
from tests.engine.inspection.made import demo_run
from tests.engine.store.stored_runs import store_at
from tests.pages import apps
from tests.pages.apps import is_harmless, query, shown, table, words
from tests.pages.profile_traces import both, captured, hostile, on_gpu, operators
from tools.reported import publish_traces


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return store_at(tmp_path / "store")


def opened(**query: str | list[str]) -> AppTest:
    return apps.opened("profiles", **query)


def default(store: Store) -> list[str]:
    runs = {entry.id: dict(entry.row) for entry in store.listing().entries}
    return [entry.id for entry in default_choice(store.listing(TRACE).entries, runs)]


@pytest.mark.parametrize("view", ["Families", "Launches", "Kernels", "Timeline"])
def test_a_section_without_a_trace_is_empty_and_with_a_hostile_one_is_text(store: Store, view: str) -> None:
    assert len(opened(view=view).info) == 1  # that the store has none
    entry = hostile(store)
    assert len(opened(view=view, control="").info) == 1
    app = opened(view=view, control=entry.id)
    assert is_harmless(app) and (len(app.dataframe) > 1 or view == "Timeline")


def test_a_first_visit_compares_the_newest_of_one_model_with_and_without_an_lp(store: Store) -> None:
    control, test = both(store)
    captured(store, "exact", operators(("mm", 1)), model="another")
    gpu = on_gpu(store)
    publish_traces(store)
    app = opened()
    rows = table(app, "trace").set_index("trace")
    assert shown(app)["traces"] == [control.id, test.id]
    assert set(rows["origin"]) == {"measured", "imported", "reported"} and rows.index[-1].startswith("reported")
    run = "compare?control=run-tiny-exact"
    assert list(rows.loc[test.id][["lp", "device", "tokens", "run"]]) == ["exact", "CPU", 20, run]
    assert (rows.loc[gpu.id]["label"], rows.loc[gpu.id]["idle"] > 0) == ("a GPU", True)
    families = table(app, "family").set_index("family")
    assert (families["us_control"]["gemm"], families["us_test"]["gemm"]) == (8, 1)  # per token
    app.selectbox(key="control_trace").set_value(test.id).run()
    assert not app.exception and app.query_params["control"] in (test.id, [test.id])
    app.button(key="nothing").click().run()
    assert not app.exception and shown(app)["traces"] == []


def test_the_default_is_a_pair_of_one_device_or_else_the_newest_alone(store: Store) -> None:
    assert default(store) == []
    publish_traces(store)
    assert default(store)[0].startswith("reported") and len(default(store)) == 1
    gpu = on_gpu(store)
    none = captured(store, "none", operators(("mm", 1)))
    newest = captured(store, "exact", operators(("mm", 1)), model="another")
    assert default(store) == [newest.id]
    row = {**gpu.row, "origin": "measured", "run_id": "run-tiny-exact"}
    runs = {f"run-tiny-{lp}": {"model_alias": "tiny", "model_step": "final", "lp": lp} for lp in ("none", "exact")}
    assert len(default_choice([none, replace(gpu, row=row)], runs)) == 1, "a CPU is not set beside a GPU"
    small, large = ({**run, "samples": count} for count, run in zip((2, 64), [runs["run-tiny-none"]] * 2, strict=True))
    newer = replace(none, id="newer", row={**none.row, "run_id": "small"})
    assert default_choice([none, newer], {"run-tiny-none": large, "small": small}) == [none]


def test_a_damaged_trace_is_named_once(store: Store) -> None:
    control, test = both(store)
    Path(control.path("trace_ops")).unlink()
    (error,) = opened(view="Families", control=control.id, test=test.id).error
    assert control.id in error.value.replace("\\", "")


def test_an_operation_is_pinned_from_the_list(demo_store: None) -> None:
    """A click on its bar alone pinned it: not by keyboard, and none that is part of *and 56 more*."""
    app = opened(view="Kernels")
    tables = len(app.dataframe)
    app.selectbox(key="operation").select_index(20).run()
    key = query(app, "operation")
    assert key and shown(app)["operation"] == key
    assert len(app.dataframe) == tables + 1  # its streams
    name = app.selectbox(key="operation").options[20]
    assert table(app, "short_name")["short_name"].iloc[0].startswith(name.removesuffix("…"))
    assert shown(opened(view="Kernels", operation=key))["operation"] == key


def test_filters(demo_store: None) -> None:
    (address,) = table(opened(contains="LLAMA none"), "trace")["run"]
    assert address == f"compare?control={demo_run('llama', 'none')}"
    assert len(table(opened(origin="reported"), "trace")) == 2


def test_what_is_damaged_is_named_and_the_rest_is_shown(store: Store) -> None:
    control, test = both(store)
    gpu = on_gpu(store)
    Path(store.home.path(f"{gpu.folder}/trace.json")).write_text("{")
    Path(test.path("trace_ops")).write_bytes(b"PAR1")
    app = opened(control=control.id, test=test.id)
    assert len(table(app, "trace")) == 2
    assert "no JSON" in words(app) and "has no table of operations" in words(app)
    app = opened(control=control.id)
    assert "gemm" in set(table(app, "family")["family"])
    assert app.expander[0].label.endswith(": 1 of 2 selected") or not app.expander[0].proto.expanded


def test_its_ready_queries_are_those_about_traces(demo_store: None) -> None:
    (code,) = opened(view="SQL").code
    assert "JOIN traces USING" in code.value
