"""The Profiles page's choice of traces, by the state of its page, without a browser."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.store.schema import TRACE
from engine.store.store import Store
from pages._profiles.traces import default_choice
from tests.pages.profile_pages import Open, opened, runs, said, store, table
from tests.pages.profile_traces import both, captured, on_gpu, operators
from tools.reported import publish_traces

__all__ = ["opened", "store"]


def test_an_empty_store_says_what_to_do(opened: Open) -> None:
    app = opened()
    words = said(app)
    assert "--profile" in words and "trace add" in words and "under *Traces*" in words
    assert not app.dataframe


@pytest.mark.parametrize("view", ["Families", "Launches", "Kernels", "Timeline"])
def test_a_section_without_a_trace_is_empty(opened: Open, store: Store, view: str) -> None:
    assert len(opened(view=view).info) == 1  # that the store has none
    on_gpu(store)
    assert [info.value for info in opened(view=view, control="").info] == [
        "Tick traces in the table. The first one is the control."
    ]


def test_a_first_visit_compares_the_newest_of_one_model_with_and_without_an_lp(opened: Open, store: Store) -> None:
    control, test = both(store)
    captured(store, "exact", operators(("mm", 1)), model="another")
    on_gpu(store)
    publish_traces(store)
    app = opened()
    rows = table(app)
    assert json.loads(app.session_state["shown"])["traces"] == [control.id, test.id]
    assert set(rows["origin"]) == {"measured", "imported", "reported"} and rows["trace"].iloc[-1].startswith("reported")
    row = rows.set_index("trace").loc[test.id]
    assert (row["lp"], row["device"], row["tokens"], row["run"]) == (
        "exact",
        "CPU",
        20,
        "compare?control=run-tiny-exact",
    )
    assert "They cover 10 and 20 tokens" in said(app)
    folded = app.expander[0]  # the legend has their names
    assert (folded.label, folded.proto.expanded) == ("Traces: 2 of 6 selected", False)
    families = table(app, 1).set_index("family")
    assert (families["us_control"]["gemm"], families["us_test"]["gemm"]) == (8, 1)  # per token


def test_without_a_pair_the_newest_stands_alone(store: Store) -> None:
    assert default_choice((), {}) == []
    publish_traces(store)
    (alone,) = default_choice(store.found(TRACE).entries, {})
    assert alone.id.startswith("reported")
    imported = on_gpu(store)
    captured(store, "none", operators(("mm", 1)))
    newest = captured(store, "exact", operators(("mm", 1)), model="another")
    assert [entry.id for entry in default_choice(store.found(TRACE).entries, runs(store))] == [newest.id]
    assert len(default_choice([imported, *store.found(TRACE).entries[:2]], {})) == 1


def test_a_cpu_is_not_set_beside_a_gpu_by_itself(store: Store) -> None:
    captured(store, "none", operators(("mm", 1)))
    gpu = on_gpu(store)
    row = {**gpu.row, "origin": "measured", "run_id": "run-tiny-exact"}
    known = runs(store) | {"run-tiny-exact": {"model_alias": "tiny", "model_step": "final", "lp": "exact"}}
    assert len(default_choice([store.found(TRACE).entries[0], replace(gpu, row=row)], known)) == 1


def test_filters_come_with_many_traces(opened: Open, store: Store) -> None:
    control, _ = both(store)
    assert not opened().text_input
    for _ in range(7):
        on_gpu(store)
    app = opened(contains="TINY none")
    assert list(table(app)["trace"]) == [control.id]
    assert len(table(opened(origin="imported"))) == 7
    assert "No trace matches." in said(opened(contains="nothing is called this"))


def test_what_is_damaged_is_named_and_the_rest_is_shown(opened: Open, store: Store) -> None:
    control, test = both(store)
    gpu = on_gpu(store)
    Path(store.home.path(f"{gpu.folder}/trace.json")).write_text("{")
    Path(test.path("trace_ops")).write_bytes(b"PAR1")
    app = opened(control=control.id, test=test.id)
    assert len(table(app)) == 2
    assert "no JSON" in said(app) and "has no table of operations" in said(app)
    assert "gemm" in set(table(opened(control=control.id), 1)["family"])
