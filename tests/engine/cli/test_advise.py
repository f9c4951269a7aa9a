"""``advise``: JSON with keys that stay, a table, models with data, a probe, and one line for what cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.runner.run import Run
from engine.store.store import DEMO, Store
from tests.cli import keys, run, run_json
from tests.engine.evidence.advice_runs import MANY, MODEL, add
from tests.engine.store.stored_runs import store_at
from tests.small_models import use_small_model

KEYS = (
    "model setting want least verdict lp ties cheapest sureness sentence rule reports molecules heavy_atoms lps "
    "cautions unknown missing commands others left_out"
).split()
LP_KEYS = (
    "lp run_id repeats clock_spread answers passed clean pass_rate clean_rate seconds_a_sample seconds_a_clean "
    "seconds_a_passed letters_share nonnumeric_share cut_share unverified_share rmsd_ang rmsd_answers time_ratio "
    "rmsd_ratio fits wins over_least reason decodes decodes_rate thrown_share"
).split()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return store_at(tmp_path / "store")


def test_one_document_with_keys_that_stay(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "group-v4.3", 0.1, clean=0)
    add(store, "exact", 0.25)
    found = run_json("advise", "--model", "toy", "--molecules", "1000")
    assert list(found) == KEYS
    assert (found["model"], found["verdict"], found["lp"], found["ties"]) == (MODEL, "one", "exact", [])
    assert all(keys(one, LP_KEYS) for one in found["lps"])
    none, allowlist, exact = found["lps"]
    assert exact["seconds_a_clean"] == pytest.approx({"value": 0.25, "low": 0.25, "high": 0.25})
    assert allowlist["seconds_a_clean"] == {"value": "inf", "low": "inf", "high": "inf"}
    assert (none["decodes"], none["decodes_rate"]["value"]) == (60, 1.0)
    assert none["time_ratio"] is None and none["rmsd_ang"] is None
    assert exact["expected"] == pytest.approx({"molecules": 1000, "seconds": 250.0, "usable": 1000.0})
    assert found["reports"]["agrees"] is False
    assert found["missing"] == ["group-v2.1", "truncating", "guarded"]


def test_candidates_and_what_is_wanted(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "group-v4.3", 0.1, clean=0, passed=len(MANY))
    add(store, "exact", 0.25)
    found = run_json("advise", "--model", MODEL, "--want", "passed", "--lp", "none", "--lp", "v4.3")
    assert (found["lp"], found["want"]) == ("group-v4.3", "passed")
    assert [one["lp"] for one in found["lps"]] == ["none", "group-v4.3"]
    assert found["left_out"] == ["1 run of exact, which is not a candidate"]


def test_a_terminal_is_told_what_and_why() -> None:
    ours = ("advise", "--model", "demo-qwen", "--molecules", "10000", "--store", str(DEMO))
    assert (
        "Use guarded: most usable answers, at the lowest cost within noise (1.17× (0.935–1.39) that of exact, the "
        "cheapest); every LP is below 90 % usable. Guarded: 41 of 64"
    ) in run(*ours).out.splitlines()[2]
    found = run(*ours, "--want", "clean")
    assert (found.code, found.err) == (0, "")
    first, _, sentence, *_ = found.out.splitlines()
    assert first == "demo-qwen:final: sampling qwen3, batches of 32, backend fast, cpu in float32; 64 molecules"
    assert sentence.startswith("Use exact, though only 29 of its 64 answers are usable. 64 of 64 answers are clean")
    for part in ("time for 10,000", "Why:", "The reports' rule:", "Not known:", "To know more:", " min ", "never"):
        assert part in found.out


def test_without_a_model_it_lists_those_with_runs(store: Store) -> None:
    assert run_json("advise") == []
    assert "no model has measured runs" in run("advise").err
    add(store, "none", 1.0)
    (row,) = run_json("advise")
    assert (row["model"], row["runs"], row["lps"]) == (MODEL, 1, ["none"])
    assert run("advise").out.splitlines()[1].split()[:3] == [MODEL, "1", "none"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "nope"), "there is no model 'nope'"),
        (("--model", "demo-qwen"), "no run of demo-qwen:final was measured here"),
        (("--model", "demo-qwen"), "Predicted, not measured: with the exact LP"),
        (("--model", "demo-qwen", "--probe", "2"), "a probe of 2 molecules is too small"),
        (("--model", "demo-qwen", "--probe", "8", "--lp", "exact"), "a probe of one LP"),
        (("--model", "nope", "--probe", "8"), "there is no model 'nope'"),
        (("--probe", "8"), "a probe needs a model"),
        (("--model", "demo-qwen", "--no-keep"), "belong to --probe"),
        (("--model", "demo-qwen", "--least", "2"), "2 is no least rate"),
        (("--model", "demo-qwen", "--want", "pretty"), "invalid choice"),
        (("--model", "demo-qwen", "--seed", "-1"), "argument --seed"),
    ],
)
def test_what_cannot_be_is_one_line(store: Store, words: tuple[str, ...], said: str) -> None:
    assert said in run("advise", *words).error


# --- the probe --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    use_small_model(monkeypatch)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return store_at(tmp_path / "store")


ASKED = ("advise", "--model", "small", "--probe", "6", "--threads", "1", "--lp", "group-v4.3", "--lp", "exact")


def test_a_probe_is_kept_judged_and_reported_on(small: Store, tmp_path: Path) -> None:
    lines = tmp_path / "progress"
    found = run(*ASKED, "--progress", str(lines), "--json")
    document = found.document
    entries = small.found().entries
    assert [one["run_id"] for one in document["lps"]] == [entry.id for entry in entries]
    assert document["want"] == "usable" and [lp["judged"] for lp in document["lps"]] == [6, 6]
    assert document["molecules"] == 6 and {entry.row["label"] for entry in entries} == {"probe"}
    assert found.err == ""
    said = [json.loads(line) for line in lines.read_text().splitlines()]
    ends = [(one["part"], one["parts"], one["lp"], one["run_id"]) for one in said if one.get("state") == "done"]
    exact = ("exact", entries[1].id)
    assert ends == [(0, 3, "group-v4.3", entries[0].id), (1, 3, *exact), (2, 3, *exact)]
    assert [one["task"] for one in said if one["part"] == 2][-1] == "judging"
    assert said[-1]["done"] == said[-1]["samples"] == 12


def test_a_probe_judges_after_its_last_time_is_taken(small: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    lps_written: list[int] = []

    def judge(store: Store, run_id: str, **_: object) -> SimpleNamespace:
        lps_written.append(len(store.found().entries))
        return SimpleNamespace(not_finished=(f"{run_id} hung",))

    monkeypatch.setattr("engine.inspection.judging.judge_run", judge)
    found = run(*ASKED)
    assert found.code == 0 and lps_written == [2, 2]
    assert [f"{entry.id} hung" for entry in small.found().entries] == found.err.splitlines()[-2:]


def test_a_probe_that_is_stopped_while_it_judges_keeps_all_runs(small: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.inspection.judging.judge_run", judge)
    found = run(*ASKED)
    ids = [entry.id for entry in small.found().entries]
    assert found.code == 130 and len(ids) == 2
    assert f"not every run was judged; finished runs are kept: {', '.join(ids)}\n" in found.err


def test_a_probe_that_nobody_keeps_leaves_nothing(small: Store) -> None:
    found = run(*ASKED, "--no-keep")
    assert found.code == 0 and small.found().entries == ()
    starts = [["1/2", "group-v4.3:"], ["2/2", "exact:"], ["judging", "12"]]
    assert [line.split()[:2] for line in found.err.splitlines()] == starts


def test_a_probe_that_is_stopped_keeps_what_is_finished(small: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Run.progress

    def stopped(self: Run) -> object:
        if self.plan.plan.lp == "exact":
            raise KeyboardInterrupt
        return whole(self)

    monkeypatch.setattr(Run, "progress", stopped)
    found = run(*ASKED)
    (entry,) = small.found().entries
    assert found.code == 130 and found.out == ""
    assert f"the unfinished run was discarded; finished runs are kept: {entry.id}\n" in found.err
