"""The advice against planted rates and times: who wins, what ties, what does not fit, what is never used."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import DriftscopeError
from engine.lp_records import GuardSettings, lp_record
from engine.paths import ROOT
from engine.questions import ask
from engine.store.store import Store
from tests.engine.inspection.made import DEMO_STORE
from tests.engine.questions.advice_runs import MANY, MODEL, add
from tests.engine.store.stored_runs import store_at

COUNT = len(MANY)
HALF = MANY[: COUNT // 2]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return store_at(tmp_path / "store")


def advised(store: Store, model: str = MODEL, **options: Any) -> Any:
    """By the keys of ``advise --json``, with the LPs by name."""
    rows = ask(store, "compare_advice", [model], {f"advice_{name}": value for name, value in options.items()})
    advice = {row["key"]: json.loads(row["value"]) for row in rows.tables["advice"].to_pylist()}
    return advice | {"of": {row["lp"]: row for row in advice["lps"]}}


def test_the_least_seconds_a_clean_conformer_win(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "group-v4.3", 0.1, clean=6, cut=COUNT)
    add(store, "exact", 0.25)
    advice = advised(store)
    assert [advice[key] for key in ("verdict", "lp", "ties", "sureness")] == ["one", "exact", [], 1.0]
    assert {lp: row["fits"] for lp, row in advice["of"].items()} == {"none": "yes", "group-v4.3": "no", "exact": "yes"}
    exact, allowlist = advice["of"]["exact"], advice["of"]["group-v4.3"]
    assert exact["seconds_a_clean"]["value"] == pytest.approx(0.25)
    assert allowlist["seconds_a_clean"]["value"] == pytest.approx(0.1 * COUNT / 6)
    assert exact["time_ratio"] == pytest.approx({"value": 0.25, "low": 0.25, "high": 0.25})
    assert allowlist["cut_share"]["value"] == pytest.approx(0.5)
    assert advice["sentence"].startswith(f"Use exact: {COUNT} of {COUNT} answers are clean, 100 % (94.0–100)")


def test_what_passes_may_be_wanted_and_says_what_that_hides(store: Store) -> None:
    add(store, "none", 1.0, log_w=0.0)
    add(store, "group-v4.3", 0.1, clean=0, passed=COUNT, cut=COUNT, log_w=-90.0)
    assert advised(store)["lp"] == "none"
    advice = advised(store, want="Passed")
    assert advice["lp"] == "group-v4.3"
    assert len(advice["cautions"]) > 1 and "log w −90.0" in advice["cautions"][-1]


def test_usable_is_wanted_where_all_are_judged_and_clean_where_not(store: Store) -> None:
    add(store, "none", 1.0, usable=COUNT)
    add(store, "exact", 0.25, usable=COUNT // 2)
    advice = advised(store)
    assert (advice["want"], advice["lp"]) == ("usable", "none")
    figures = [advice["of"]["exact"][key] for key in ("usable", "usable_rate", "seconds_a_usable")]
    assert [figures[0], figures[1]["value"], figures[2]["value"]] == [COUNT // 2, 0.5, 0.5]
    add(store, "group-v4.3", 0.1)
    advice = advised(store)
    assert (advice["want"], advice["lp"]) == ("clean", "group-v4.3")
    assert any("judge group-v4.3" in part for part in advice["unknown"])
    unjudged = advice["of"]["group-v4.3"]
    assert [unjudged[key] for key in ("usable", "usable_rate", "seconds_a_usable")] == [None, None, None]


def test_a_guards_cost_is_in_its_seconds_and_only_the_usual_guard_counts(store: Store) -> None:
    add(store, "exact", 0.2, usable=COUNT // 2)
    add(store, "guarded", 0.1, usable=COUNT, thrown_tokens=0, guard='{"retries": 99}', run_id="many-tries")
    usual = json.dumps(asdict(GuardSettings()))
    add(store, "guarded", 0.5, usable=COUNT, thrown_tokens=5 * COUNT, guard=usual, run_id="usual")
    advice = advised(store)
    exact, guarded = (advice["of"][lp] for lp in ("exact", "guarded"))
    assert (advice["lp"], guarded["run_id"]) == ("guarded", "usual")
    assert guarded["seconds_a_usable"]["value"] == pytest.approx(0.5)
    assert exact["thrown_share"] is None and guarded["thrown_share"] == pytest.approx(1 / 3)
    assert advice["left_out"] == ["1 run of guarded with non-default parameters"]


def test_shaped_is_a_candidate_by_its_own_usual_settings_and_named_where_it_was_never_tried(store: Store) -> None:
    add(store, "exact", 0.2, usable=COUNT // 2)
    add(store, "guarded", 0.4, usable=2 * COUNT // 3, thrown_tokens=0, guard=json.dumps(asdict(GuardSettings())))
    advice = advised(store)
    assert advice["verdict"] == "none fits" and advice["cheapest"] == "exact"
    assert advice["sentence"].endswith("shaped is not measured: it strikes tokens that make a molecule wrong.")
    assert any("run" in command and "--lp shaped" in command for command in advice["commands"])
    usual = json.dumps(asdict(lp_record("shaped").guard))
    add(
        store,
        "shaped",
        0.1,
        usable=COUNT,
        thrown_tokens=0,
        guard=json.dumps(asdict(GuardSettings())),
        run_id="as-guarded",
    )
    add(
        store, "shaped", 1.0, usable=COUNT, thrown_tokens=COUNT, guard=usual, dead_ends=3, struck_tokens=9, run_id="own"
    )
    advice = advised(store)
    assert (advice["lp"], advice["of"]["shaped"]["run_id"]) == ("shaped", "own")
    assert advice["of"]["shaped"]["thrown_share"] == pytest.approx(1 / 11)
    assert "shaped is not measured" not in advice["sentence"] and "shaped" not in advice["missing"]
    assert advice["left_out"] == ["1 run of shaped with non-default parameters"]


def test_what_hangs_on_the_molecules_is_a_tie(store: Store) -> None:
    """A fifth cheaper on the mean, and that by three molecules."""
    add(store, "truncating", [30.0 if number < 3 else 1.0 for number in range(COUNT)])
    add(store, "exact", 2.0)
    advice = advised(store)
    (over,) = [row["over_least"] for row in advice["lps"] if row["over_least"]]
    assert over["value"] > 1.1 and over["low"] < 1
    assert advice["verdict"] == "tie" and 0.5 < advice["of"]["exact"]["wins"] < 1


@pytest.mark.parametrize(
    ("exact_s", "guarded_s", "expected"),
    [(0.1, 0.5, "Use exact, or guarded"), (0.1, 0.155, "Use guarded, or exact"), (1.0, 1.0, "Use guarded: 30 of 60")],
)
def test_where_none_fits_the_cheapest_is_named(store: Store, exact_s: float, guarded_s: float, expected: str) -> None:
    add(store, "exact", exact_s, clean=20)
    add(store, "guarded", guarded_s, clean=30)
    advice = advised(store)
    assert [advice["verdict"], advice["lp"]] == ["none fits", None] and advice["sentence"].startswith(expected)


def test_one_lp_or_few_molecules_tell_nothing_and_few_answers_leave_the_rate_open(store: Store) -> None:
    add(store, "none", 1.0, smiles=MANY[:5])
    advice = advised(store)
    assert advice["verdict"] == "too little"
    assert advice["missing"] == ["group-v2.1", "group-v4.3", "truncating", "exact", "guarded", "shaped"]
    add(store, "exact", 0.1, smiles=MANY[:5])
    advice = advised(store)
    assert advice["verdict"] == "too little" and advice["of"]["exact"]["seconds_a_clean"]["low"] is None
    add(store, "none", 1.0, smiles=MANY[:12], run_id="more-none")
    add(store, "exact", 0.1, smiles=MANY[:12], run_id="more-exact")
    again = advised(store)
    assert [row["fits"] for row in again["lps"]] == ["open", "open"] and again["lp"] == "exact"


def test_the_reports_rule_may_agree_or_not(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "exact", 0.2)
    assert [advised(store)["reports"][key] for key in ("says", "agrees")] == ["no LP", False]
    add(store, "exact", 5.0, run_id="newer", created_at="2026-02-02T00:00:00+00:00")
    assert advised(store)["reports"]["agrees"] is True
    add(store, "none", 1.0, run_id="worse", clean=10, passed=12, created_at="2026-02-03T00:00:00+00:00")
    assert [advised(store)["reports"][key] for key in ("says", "agrees")] == ["use an LP", True]


def test_another_setting_is_named_and_never_mixed_in(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "exact", 0.5)
    add(store, "exact", 0.001, run_id="greedy", sampling="greedy", temperature=0.7)
    add(store, "truncating", 0.001, run_id="gpu", device="cuda:1 (Big)")
    add(store, "exact", 0.001, run_id="served", backend="server", dtype="")
    advice = advised(store)
    assert list(advice["of"]) == ["none", "exact"] and advice["lp"] == "exact"
    assert {other["differs"] for other in advice["others"]} == {
        "sampling greedy, not qwen3",
        "device cuda (Big), not cpu",
        "backend server, not fast",  # of its dtype nothing is known
    }
    greedy = advised(store, setting="greedy · 32 rows · fast · cpu")
    assert list(greedy["of"]) == ["exact"] and greedy["setting"]["sampling"] == "greedy"


def test_runs_that_are_no_evidence(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "exact", 0.5)
    add(store, "truncating", 0.001, run_id="equal", equal_work=True)
    add(store, "truncating", 0.001, run_id="file", origin="imported")
    add(store, "group-v2.1", 0.001, run_id="timeless", wall_s=None)
    add(store, "group-v4.3", 0.001, run_id="long", placeholder="0.0000,0.0000,0.0000")
    add(store, "group-v4.3", 0.001, run_id="plain", descriptors="plain")
    advice = advised(store)
    assert list(advice["of"]) == ["none", "exact"]
    assert advice["left_out"] == ["2 runs of group-v4.3 with non-default parameters"]


def test_runs_meet_in_the_molecules_that_they_share(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "exact", [0.5] * len(HALF) + [9.0] * len(HALF), clean=len(HALF))
    add(store, "truncating", 0.1, smiles=HALF)
    add(store, "group-v2.1", 0.1, smiles=[f"N{smiles}" for smiles in MANY])
    advice = advised(store)
    assert list(advice["of"]) == ["none", "truncating", "exact"] and advice["molecules"] == len(HALF)
    exact = advice["of"]["exact"]
    assert (exact["clean"], exact["answers"]) == (len(HALF), len(HALF))
    assert exact["seconds_a_sample"]["value"] == pytest.approx(0.5)  # its own share of the run's time
    assert "group-v2.1: its run asked other molecules, or its answers have no times" in advice["left_out"]


def test_the_same_work_again_tells_the_clocks_own_spread(store: Store) -> None:
    add(store, "none", 2.0)
    for number, each_s in enumerate((1.0, 1.5, 1.1)):
        add(store, "exact", each_s, run_id=f"exact-{number}")
    add(store, "exact", 9.0, run_id="other-seed", seed=1, created_at="2025-01-01T00:00:00+00:00")
    exact = advised(store)["of"]["exact"]
    assert exact["repeats"] == 2 and exact["clock_spread"] == pytest.approx(1.5)
    # One of 27 draws has the fastest run alone, another the slowest.
    assert exact["seconds_a_clean"] == pytest.approx({"value": 1.2, "low": 1.0, "high": 1.5})


@pytest.mark.parametrize(
    ("model", "options", "error"),
    [
        ("nope", {}, "there is no model 'nope'"),
        ("demo-llama:final", {}, "engine advise --model demo-llama:final --probe 64`"),
        ("toy", {"lps": "exct"}, "'exct' is no LPs to choose from"),
        ("toy", {"least": 90}, "advice_least is between 0.01 and 1, not 90"),
    ],
)
def test_what_cannot_be_advised_says_what_to_do(store: Store, model: str, options: dict[str, Any], error: str) -> None:
    add(store, "none", 1.0)
    with pytest.raises(DriftscopeError) as caught:
        advised(store, model, **options)
    assert error in str(caught.value)


def test_commands_for_what_is_missing(store: Store) -> None:
    assert advised(DEMO_STORE, "demo-qwen", probe=8)["commands"] == [
        "python -m engine run --model demo-qwen:final --lp truncating --sample-size 64 --device cpu",
        "python -m engine advise --model demo-qwen:final --probe 8 --device cpu",
    ]
    add(store, "none", 1.0, model_alias="demo-qwen", model_step="final", batch_size=8, sampling="greedy")
    (run, probe) = advised(store, "demo-qwen", lps="none,exact")["commands"]
    assert run.endswith("--lp exact --smiles-file FILE --sampling greedy --batch-size 8 --device cpu")
    assert probe.endswith("--probe 64 --lp none --lp exact --sampling greedy --batch-size 8 --device cpu")
    served: dict[str, Any] = {
        "model_alias": "demo-llama",
        "model_step": "final",
        "backend": "server",
        "device": "server",
    }
    add(store, "none", 1.0, run_id="served", **served)
    assert advised(store, "demo-llama", lps="none,exact")["commands"][0].endswith("FILE --backend server")


def test_the_page_shows_what_is_chosen_in_its_address(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "group-v4.3", 0.1, clean=0, passed=COUNT, cut=COUNT)
    add(store, "exact", 0.25, sampling="<img src=x onerror=alert(1)>", run_id="hostile")
    app = AppTest.from_file(str(ROOT / "pages" / "compare.py"), default_timeout=120)
    query = {"view": "Advice", "control": "none", "advice_model": "nope", "advice_want": "Passed"}
    for name, value in {**query, "advice_molecules": "60", "advice_lps": ["none", "group-v4.3"]}.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    shown = "\n".join(item.value for item in (*app.markdown, *app.caption, *app.info, *app.error)).replace("\\", "")
    assert "'nope'" in shown and "sampling <img src=x onerror=alert(1)>, not qwen3" in shown.replace("\u00a0", " ")
    table = app.dataframe[-1].value
    assert list(table["lp"]) == ["none", "group-v4.3"] and list(table["for 60"]) == ["60 s", "6 s"]
