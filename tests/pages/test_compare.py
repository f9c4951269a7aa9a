"""The Compare page's choice of runs, by the state of its page, without a browser."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import streamlit as st

from engine.questions import ask
from engine.store.generations import import_pool
from engine.store.reports.importing import import_report
from engine.store.store import Store
from pages._compare.manage import PICKER, default_choice
from pages._kit.components.matrix import MOST_NAME, named
from pages._kit.links import compare_address as address
from pages._kit.links import inspector_address, profiles_address, sql_address
from tests.engine.chem.pickles import conformers
from tests.engine.chem.pickles import write as write_pickle
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_four_engines, write_run
from tests.engine.questions.test_rollouts import write_step
from tests.engine.store.reports.documents import document
from tests.engine.store.stored_runs import store_at
from tests.pages.apps import Params, is_harmless, opened, picked_atom, shown, table, words
from tests.pages.drift_stores import OVERRIDE

NONE, BLOCKLIST, EXACT = (demo_run("llama", lp) for lp in ("none", "group-v2.1", "exact"))
REPORTED = "reported-002-llama-lp-1000"


@pytest.fixture(autouse=True)
def demo(demo_store: None) -> None:
    """The store that ships, where a test has none of its own."""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    return store_at(tmp_path)


def chosen(monkeypatch: pytest.MonkeyPatch, **query: str | list[str]) -> tuple[list[str], list[str]]:
    monkeypatch.setattr(st, "query_params", Params(**query))
    monkeypatch.setattr(st, "session_state", {})
    entries, complaints = PICKER.read(DEMO_STORE.listing())
    return [entry.id for entry in entries], complaints


# --- the page -------------------------------------------------------------------------------------------------------


def test_a_first_visit_has_every_model_under_each_lp_and_other_views_one_model() -> None:
    app = opened("compare")
    assert not app.error and len(table(app, "lp")) == len(DEMO_STORE.listing().entries)
    runs = [DEMO_STORE.entry(run).row for run in shown(app)["runs"]]
    models = ["demo-qwen"] * 6 + ["demo-llama"] * 6 + ["demo-bins"] * 4
    assert [run["model_alias"] for run in runs] == models and len(
        {(run["model_alias"], run["lp"]) for run in runs}
    ) == 16
    of_one = [DEMO_STORE.entry(run).row["lp"] for run in shown(opened("compare", view="Charts"))["runs"]]
    assert of_one == ["none", "group-v2.1", "group-v4.3", "exact", "guarded", "shaped"]


def test_a_click_on_a_cell_opens_its_worst_molecule_and_on_a_head_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    opened_pages: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(
        "pages._kit.links.st.switch_page", lambda page, query_params: opened_pages.append((page, query_params))
    )
    key = "chart-compare_matrix-0"
    for place in (3, 0, 2):  # of the cells after one model and two LPs, the model, and its LP exact
        opened("compare", session={key: picked_atom(place)}, control=NONE, test=[EXACT])
    worst = ask(DEMO_STORE, "compare_matrix", [NONE, EXACT]).tables["main"].to_pylist()[0]["worst"]
    assert opened_pages == [
        ("pages/drift.py", parse_qs(worst)),
        ("pages/compare.py", {"control": [NONE], "test": [EXACT], "view": ["Side by side"]}),
        ("pages/compare.py", {"control": [EXACT], "view": ["Side by side"]}),
    ]


def test_a_hostile_name_reaches_the_table_of_lps_in_one_line_that_fits() -> None:
    shown_name = named("\u202e[x](http://a.b)\n" + "z" * 300)
    assert len(shown_name) == MOST_NAME and shown_name.isprintable()


def test_four_engines_have_rows_names_and_columns_of_their_own(own: Store) -> None:
    """A link with a run by a server under two LPs, by our loop and by ``generate``."""
    first, *others = write_four_engines(own)
    app = opened("compare", control=first, test=others)
    assert set(table(app, "lp")["lp"]) == {"exact · server", "grammar · server", "exact", "exact · hf"}
    assert shown(app)["runs"] == [first, *others]
    side = opened("compare", control=first, test=others, view="Side by side")
    names = side.selectbox(key="control_run").options
    assert not side.exception and {"exact · server", "grammar · server", "exact", "exact · hf"} <= {*names}
    # Next to a run of our loop without an LP no run of another engine is chosen unasked.
    samples = [sample_row(number) for number in range(12)]
    write_run(own, "none", samples, lp="none", backend="fast", molecules=12, model_alias="m", model_step="1")
    assert [entry.id for entry in default_choice(own.listing().entries)] == ["none", "c"]


def test_a_step_of_a_training_offers_to_judge_and_then_shows_all_steps(own: Store) -> None:
    waiting = write_step(own, 1, {"by luck": lambda answer, draws: draws.random()}, is_judged=False)
    query = {"runs": waiting, "view": "Charts", "question": "Training"}
    app = opened("compare", **query)
    assert [button.key for button in app.button if button.label == "Compute"] == [
        "compute-compare_steps",
        "compute-compare_rewards",
    ]
    write_step(own, 2, {"by luck": lambda answer, draws: draws.random()})
    app = opened("compare", **query)
    assert list(table(app, "step")["step"]) == [2]
    assert f"judge {waiting} --steps" in "".join(code.value for code in app.code)


def test_a_training_is_one_row_until_its_steps_are_looked_for(own: Store) -> None:
    runs = [write_step(own, step, {}, prompts=1) for step in (10, 2, 1, *range(20, 26))]
    rows = table(opened("compare", control=runs[0]), "label")
    assert list(rows["run"]) == ["made-1", "made-10"] and rows["label"][0] == "9 steps of made"
    in_order = [f"made-{step}" for step in (1, 2, 10, *range(20, 26))]
    assert list(table(opened("compare", control=runs[0], contains="made"), "label")["run"]) == in_order
    managed = opened("compare", control=[""], view="Manage", manage="Several runs")
    assert list(table(managed, "state")["run"]) == in_order


def test_filters_hide_rows_and_leave_what_is_compared() -> None:
    app = opened("compare", control=NONE, test=[EXACT], lp="exact")
    assert set(table(app, "lp")["lp"]) == {"exact"} and shown(app)["runs"] == [NONE, EXACT]
    rows = table(opened("compare", origin="reported", contains="LLAMA 1000"), "lp")
    assert len(rows) == 2 and set(rows["origin"]) == {"reported"}
    assert list(table(opened("compare", control=NONE, test=[REPORTED], only="true"), "lp")["run"]) == [NONE, REPORTED]
    assert len(opened("compare", contains="nothing is called this").info) == 1


def test_a_filter_is_in_the_address_or_not_set() -> None:
    """Streamlit hands on what a widget of that key holds on another page, such as Live's model."""
    rows = table(opened("compare", session={"model": ["demo-qwen:final"], "contains": "exact"}), "lp")
    assert len(rows) == len(DEMO_STORE.listing().entries)


def test_names_that_mean_no_run_are_told_and_the_others_compared() -> None:
    app = opened("compare", control="nobody", test=["llama-final-exact", "demo-llama"])
    assert "There is no run 'nobody'" in words(app) and "There are 6 runs like 'demo-llama'" in words(app)
    assert shown(app)["runs"] == [EXACT]


def test_another_control_changes_places_with_the_first_one_and_none_is_a_choice() -> None:
    app = opened("compare", control=NONE, test=[BLOCKLIST, EXACT])
    app.selectbox(key="control_run").set_value(EXACT).run()
    assert (app.query_params["control"], app.query_params["test"]) == (EXACT, [NONE, BLOCKLIST])
    app.button(key="nothing").click().run()
    assert not app.exception and shown(app)["runs"] == []


def test_an_empty_store_says_how_to_begin_and_hostile_names_are_text(own: Store) -> None:
    assert len(opened("compare").info) == 1
    write_run(own, "hostile", [sample_row(0)], label=OVERRIDE, model_alias="<b>x</b>", lp="none", origin="imported")
    write_run(own, "other", [sample_row(0)], model_alias=f"<i>y</i>{OVERRIDE}", lp="none", origin="imported")
    app = opened("compare", control="other", test="hostile")
    assert is_harmless(app) and "\u202e" not in "".join(option for box in app.multiselect for option in box.options)
    (names,) = [block.proto.body for block in app.get("html") if "<li>" in block.proto.body]
    assert "&lt;b&gt;x&lt;/b&gt;" in names and "<b>" not in names


def test_the_picker_begins_with_the_label_and_groups_by_model_and_lp(own: Store, tmp_path: Path) -> None:
    runs = [("b", "exact"), ("a", "exact"), ("b", "none"), ("a", "none"), ("a", "exact")]
    for day, (model, lp) in enumerate(runs, 1):
        moment = f"2026-01-{day:02}T00:00:00"
        write_run(own, f"{model}-{lp}-{day}", [sample_row(0)], model_alias=model, lp=lp, label="x", created_at=moment)
    for name, label in (("named.json", "of last year"), ("unnamed.json", None)):
        file = tmp_path / name
        file.write_text(json.dumps(document() | {"metadata": {"timestamp": "2025-01-31", "note": name}}))
        import_report(own, file, label=label)
    app = opened("compare")
    rows = table(app, "lp")
    assert list(rows.columns[:4]) == ["swatch", "label", "model", "lp"]
    assert list(rows["run"])[:5] == ["a-none-4", "a-exact-5", "a-exact-2", "b-none-3", "b-exact-1"]
    assert list(rows["label"])[5:] == ["unnamed.json", "of last year"]
    assert "pinned" not in app.dataframe[0].proto.columns, "Streamlit writes pinned columns in faint grey"
    imported = [entry for entry in own.listing().entries if entry.row["origin"] == "imported"]
    assert {*PICKER.names(imported).values()} == {"unnamed.json · imported", "of last year · imported"}


def test_a_copied_default_of_one_view_is_no_choice_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen runs of the first view would be too many for Masks, which takes eight."""
    listing = DEMO_STORE.listing()
    usual = [entry.id for entry in default_choice(listing.entries)]
    assert chosen(monkeypatch, control=usual[0], test=usual[1:])[0] == usual
    st.query_params["view"] = "Charts"
    of_one = [entry.id for entry in PICKER.read(listing)[0]]
    assert of_one == [entry.id for entry in default_choice(listing.entries, of_all_models=False)] and len(of_one) <= 8
    assert chosen(monkeypatch, view="Charts", control=usual[0], test=usual[1:9])[0] == usual[:9], "a link's own choice"


# --- what the address says --------------------------------------------------------------------------------------------


def test_links_say_which_runs_and_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    assert address("a b", ["c&d", "e"], view="Charts") == "compare?control=a+b&test=c%26d&test=e&view=Charts"
    assert sql_address("SELECT 1 + 1") == "compare?view=SQL&sql=SELECT+1+%2B+1"
    assert inspector_address("one", 3) == "drift?run=one&sample=3"
    assert profiles_address("a b", "c&d") == "profiles?control=a+b&test=c%26d"
    assert chosen(monkeypatch, control=NONE, test=[EXACT, EXACT, NONE]) == ([NONE, EXACT], [])
    PICKER.put([EXACT, NONE, EXACT])
    assert [entry.id for entry in PICKER.read(DEMO_STORE.listing())[0]] == [EXACT, NONE]


def test_an_empty_control_means_nothing_and_no_control_means_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(monkeypatch, control="") == ([], [])
    assert chosen(monkeypatch, control="nobody") == ([], ["There is no run 'nobody'."])
    assert chosen(monkeypatch)[0] == [entry.id for entry in default_choice(DEMO_STORE.listing().entries)]
    assert chosen(monkeypatch, test=[BLOCKLIST])[0] == [BLOCKLIST]


def test_every_run_has_a_name_of_its_own_and_what_has_no_colour_shares_seven() -> None:
    names = PICKER.names([replace(DEMO_STORE.entry(EXACT), id=f"run-{number:02}") for number in range(30)])
    assert len({*names.values()}) == 30
    hues = re.findall("background:(#[0-9a-f]+)", PICKER.legend(names, 30, {}))
    assert len(hues) == 30 and hues[0] not in hues[1:] and len(set(hues)) == 8


def test_the_default_is_a_pair_that_no_profiler_slowed_or_else_the_newest_run(own: Store) -> None:
    def written(run_id: str, day: int, **about: Any) -> list[str]:
        write_run(own, run_id, [sample_row(0)], **about, created_at=f"2026-01-{day:02}T00:00:00+00:00")
        return [entry.id for entry in default_choice(own.listing().entries)]

    assert default_choice(own.listing().entries) == []
    assert written("one", 1, model_alias="a", lp="none") == ["one"]
    assert written("two", 2, model_alias="b", lp="exact") == ["two"]
    assert written("three", 3, model_alias="a", lp="exact") == ["one", "three"]
    source = "python -m engine run --lp exact --profile --n 1"
    assert written("profiled", 4, model_alias="a", lp="exact", source=source) == ["one", "three"]


def test_the_default_puts_conformers_of_another_program_next_to_a_run(own: Store, tmp_path: Path) -> None:
    pool = import_pool(own, write_pickle(tmp_path / "a.pickle", {"CCO": conformers("CCO", 2)}), settings=None)
    assert default_choice(own.listing().entries) == [pool]
    assert "there is no other in this store" in PICKER.legend({pool.id: "a"}, 1, {})
    write_run(own, "mine", [sample_row(0)], model_alias="a", lp="exact", created_at="2026-01-01T00:00:00+00:00")
    assert [entry.id for entry in default_choice(own.listing().entries)] == ["mine", pool.id]


def write_pair(store: Store, name: str, samples: int, day: int) -> list[str]:
    moment = f"2026-01-{day:02}T00:00:00+00:00"
    for lp in ("none", "exact"):
        write_run(store, f"{name}-{lp}", map(sample_row, range(samples)), model_alias="a", lp=lp, created_at=moment)
    return [f"{name}-none", f"{name}-exact"]


def test_the_default_is_the_largest_pair_and_the_newest_of_equal_ones(own: Store) -> None:
    whole = write_pair(own, "whole", 4, 1)
    write_pair(own, "newer", 2, 2)
    assert [entry.id for entry in default_choice(own.listing().entries)] == whole
    equal = write_pair(own, "equal", 4, 3)
    assert [entry.id for entry in default_choice(own.listing().entries)] == equal


@pytest.mark.parametrize("page", ["compare", "drift"])
def test_a_copied_link_of_the_default_shows_the_same_runs_when_others_came(own: Store, page: str) -> None:
    write_pair(own, "today", 2, 1)
    app = opened(page)
    write_pair(own, "tomorrow", 4, 2)
    of_link, of_none = opened(page, **app.query_params), opened(page)
    assert shown(of_link)["runs"] == shown(app)["runs"] != shown(of_none)["runs"]
