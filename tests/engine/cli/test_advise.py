"""``advise``: JSON with keys that stay, a table, models with data, a probe, and one line for what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.jobs.run import Run
from engine.store.store import DEMO, Store
from tests.cli import run, run_json
from tests.engine.questions.advice_runs import MANY, MODEL, add
from tests.engine.store.stored_runs import store_at
from tests.small_models import use_small_model


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    use_small_model(monkeypatch)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return store_at(tmp_path / "store")


def test_candidates_what_is_wanted_and_the_setting(store: Store) -> None:
    add(store, "none", 1.0)
    add(store, "group-v4.3", 0.1, clean=0, passed=len(MANY))
    add(store, "exact", 0.25)
    found = run_json("advise", "--model", "toy", "--molecules", "1000")
    assert (found["model"], found["lp"], found["missing"]) == (MODEL, "exact", ["group-v2.1", "truncating", "guarded"])
    assert found["lps"][2]["expected"] == pytest.approx({"molecules": 1000, "seconds": 250.0, "usable": 1000.0})
    found = run_json("advise", "--model", MODEL, "--want", "passed", "--lp", "none", "--lp", "v4.3")
    assert (found["lp"], found["want"]) == ("group-v4.3", "passed")
    assert [row["lp"] for row in found["lps"]] == ["none", "group-v4.3"]
    assert found["left_out"] == ["1 run of exact, which is not a candidate"]
    add(store, "exact", 0.2, run_id="small-batch", batch_size=8)
    assert [row["run_id"] for row in run_json("advise", "--model", MODEL, "--batch-size", "8")["lps"]] == [
        "small-batch"
    ]


def test_a_terminal_is_told_what_and_why() -> None:
    found = run("advise", "--model", "demo-qwen", "--store", str(DEMO))
    assert (found.code, found.err) == (0, "")
    assert "Use guarded, or exact (the cheapest): 41 of 64" in found.out.splitlines()[0]
    assert "group-v4.3" in found.out and "never" in found.out and "To know more:" in found.out


def test_without_a_model_it_lists_those_with_runs(store: Store) -> None:
    assert run_json("advise") == []
    assert "no model has measured runs" in run("advise").err
    add(store, "none", 1.0)
    (row,) = run_json("advise")
    assert (row["model"], row["runs"], row["lps"]) == (MODEL, 1, ["none"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "nope"), "there is no model 'nope'"),
        (("--model", "demo-qwen"), "no run of demo-qwen:final was measured here"),
        (("--model", "toy", "--sampling", "greedy"), "no run of toy has this setting, but qwen3"),
        (("--model", "toy", "--want", "usable"), "not all answers have a verdict"),
        (("--model", "demo-qwen", "--probe", "2"), "'--probe': Input should be greater than or equal to 4"),
        (("--model", "demo-qwen", "--probe", "8", "--lp", "exact"), "a probe of one LP"),
        (("--model", "nope", "--probe", "8"), "there is no model 'nope'"),
        (("--probe", "8"), "--probe belongs to --model"),
        (("--model", "demo-qwen", "--no-keep"), "--no-keep belongs to --probe"),
        (("--model", "toy", "--least", "2"), "Invalid value for '--least'"),
        (("--model", "toy", "--want", "pretty"), "'pretty' is not one of 'usable'"),
        (("--model", "toy", "--seed", "-1"), "'--seed'"),
    ],
)
def test_what_cannot_be_is_one_line(store: Store, words: tuple[str, ...], said: str) -> None:
    add(store, "none", 1.0)
    assert said in run("advise", *words).error


ASKED = ("advise", "--model", "small", "--probe", "6", "--threads", "1", "--lp", "group-v4.3", "--lp", "exact")


def test_a_probe_is_kept_judged_and_reported_on(store: Store, tmp_path: Path) -> None:
    found = run_json(*ASKED, "--progress", str(tmp_path / "progress"))
    entries = store.found().entries
    assert [row["run_id"] for row in found["lps"]] == [entry.id for entry in entries]
    assert found["want"] == "usable" and [row["judged"] for row in found["lps"]] == [6, 6]
    assert found["molecules"] == 6 and {entry.row["label"] for entry in entries} == {"probe"}
    assert (tmp_path / "progress").stat().st_size


def test_a_probe_that_nobody_keeps_leaves_nothing(store: Store) -> None:
    assert run(*ASKED, "--no-keep").code == 0 and store.found().entries == ()


def test_a_probe_that_is_stopped_keeps_what_is_finished(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Run.progress

    def stopped(self: Run) -> object:
        if self.plan.plan.lp == "exact" and self.plan.label == "probe":
            raise KeyboardInterrupt
        return whole(self)

    monkeypatch.setattr(Run, "progress", stopped)
    found = run(*ASKED)
    (entry,) = store.found().entries
    assert found.code == 130 and found.out == "" and entry.row["lp"] == "group-v4.3"
