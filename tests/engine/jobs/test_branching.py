"""Branches of stored samples by the command: what they keep, what they name, and how much a token decides."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.comparing.measures import run_name
from engine.inspection.sample import inspect_sample
from engine.jobs.branching import lost_place
from engine.questions import ask, models_of, question_of
from engine.store.entries import entry_folder
from engine.store.schema import RUN
from engine.store.store import Store
from tests.cli import run, run_json
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.engine.questions.declared import assert_as_declared
from tests.engine.store.stored_runs import assert_whole
from tests.pages.drift_stores import EXACT, with_demo

JUNK, HERE = demo_run("qwen", "group-v2.1"), ("--threads", "1")
PARTS = ("qwen-final-group-v4.3-3849e6", "bins-final-none", "bins-final-group-v2.1", "qwen-final-grammar")
ENTRIES = DEMO_STORE.listing().entries
V43, BINS, BINS_JUNK, GRAMMAR = (next(entry.id for entry in ENTRIES if part in entry.id) for part in PARTS)
PARENT, LOST = 5, 106
"""A sample of the exact run that a token lost, and its position."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return with_demo(tmp_path_factory.mktemp("branches"), EXACT, JUNK, V43, BINS, BINS_JUNK, GRAMMAR)


@pytest.fixture(autouse=True)
def _is_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(store.home.root))


def ids_of(run_id: str, sample: int = 0) -> list[int]:
    sql = "SELECT token_ids FROM samples WHERE run_id = $1 AND sample_id = $2"
    ids: list[int] = Store.open().rows(sql, [run_id, sample])[0]["token_ids"]
    return ids


def test_without_a_token_the_parent_is_written_again(store: Store) -> None:
    document = run_json("branch", f"{EXACT}/3", "--at", "40", *HERE)
    assert (document["branch_of"], document["branch_at"], document["lp"]) == (f"{EXACT}/3", 40, "exact")
    assert ids_of(document["run_id"]) == ids_of(EXACT, 3)
    parent, branch = document["rows"]
    assert parent["is_parent"] and parent["rmsd_ang"] == 0 and branch["rmsd_ang"] == pytest.approx(0, abs=1e-6)
    assert branch["token_id"] == parent["token_id"] == ids_of(EXACT, 3)[40]
    assert document["first_token_s"] > 0
    (written,) = [token for token in document["alternatives"] if token["is_written"]]
    assert written["token_id"] == parent["token_id"] and branch["p_lp"] == pytest.approx(written["p_lp"], abs=1e-4)
    entry = Store.open().entry(document["run_id"])
    assert_whole(Store.open())
    assert entry.row["constrained"] == "yes" and entry.sheet["plan"]["plan"]["branch"]["at"] == 40
    assert not models_of([entry]), "no evidence of time"
    assert "goes on from one token" in ask(Store.open(), "compare_figures", [EXACT, entry.id]).answer
    assert run_name(entry).endswith("exact · branch")
    assert "which its LP did not choose" in run("cost-of-lp", entry.id).error


def test_all_that_are_likely_are_known_however_many() -> None:
    """At a digit: ten tokens."""
    document = run_json("branch", f"{JUNK}/3", "--at", "60", "--lp", "none", "--least", "0.001", *HERE)
    after = [token["p_lp"] for token in document["alternatives"]]
    assert len(after) > 8 and sum(after) > 0.9


def test_from_the_token_that_lost_the_molecule_it_is_put_right(store: Store) -> None:
    assert lost_place(inspect_sample(store, EXACT, PARENT)) == LOST
    document = run_json("branch", f"{EXACT}/{PARENT}", *HERE)
    parent, branch = document["rows"]
    assert (document["branch_at"], document["lp"]) == (LOST, "shaped")
    assert parent["usable"] is False and branch["usable"] is True and branch["rmsd_ang"] > 0
    assert ids_of(document["run_id"])[:LOST] == ids_of(EXACT, PARENT)[:LOST]
    assert ids_of(document["run_id"])[LOST] != ids_of(EXACT, PARENT)[LOST]


def test_all_likely_tokens_are_one_run_and_a_question_says_how_much_they_decide(store: Store) -> None:
    document = run_json("branch", f"{JUNK}/3", "--at", "60", "--lp", "none", "--all", "--least", "0.09", *HERE)
    likely = [t for t in document["alternatives"] if t["p_lp"] >= 0.09 and not t["is_written"]]
    parent, *branches = document["rows"]
    assert len(branches) == len(likely) > 2 and all(token["p_raw"] == token["p_lp"] for token in likely)
    for number, (row, token) in enumerate(zip(branches, likely, strict=True)):
        kept = ids_of(document["run_id"], number)
        assert kept[:60] == ids_of(JUNK, 3)[:60] and kept[60] == row["token_id"] == token["token_id"]
        assert row["p_raw"] == pytest.approx(token["p_raw"], abs=1e-4)
    answered = ask(Store.open(), "drift_branches", [document["run_id"]])
    assert_as_declared(question_of("drift_branches"), answered)
    answer = answered.answer
    assert f"{JUNK}/3 token 60, {len(branches)} branches under none: " in answer and "the sample itself is" in answer
    assert parent["token_id"] == ids_of(JUNK, 3)[60]


def test_where_the_lost_token_had_to_come_the_number_before_it_is_another() -> None:
    """The separator behind a bin."""
    assert lost_place(inspect_sample(Store.open(), BINS, 7)) == 103
    _, branch = run_json("branch", f"{BINS}/7", *HERE)["rows"]
    assert not branch["is_same"] and branch["rmsd_ang"] > 0


def test_descriptors_that_the_parents_lp_forced_stay() -> None:
    document = run_json("branch", f"{BINS_JUNK}/0", *HERE)
    at = document["branch_at"]
    assert document["lp"] == "shaped" and ids_of(document["run_id"])[:at] == ids_of(BINS_JUNK)[:at]


def test_an_lp_of_a_server_is_exact_in_its_branches_and_an_answer_that_comes_again_is_said() -> None:
    document = run_json("branch", f"{GRAMMAR}/3", "--at", "50", *HERE)
    assert document["lp"] == "exact" and ids_of(document["run_id"])[:50] == ids_of(GRAMMAR, 3)[:50]
    again = run_json("branch", f"{EXACT}/3", "--at", "50", *HERE)["run_id"]
    assert "1 of 1 has the sample's own tokens again" in ask(Store.open(), "drift_branches", [again]).answer


def test_branches_of_a_sample_that_was_removed(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = run_json("branch", f"{EXACT}/3", "--at", "50", *HERE)["run_id"]
    with_demo(tmp_path)
    folder = entry_folder(RUN, run_id)
    shutil.copytree(store.home.root / folder, tmp_path / folder)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    assert ask(Store.open(), "drift_branches", [run_id]).answer.endswith("goes on from is not in this store.")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((f"{JUNK}/3", "--at", "60", "--lp", "exact"), "the LP exact does not allow the token"),
        ((f"{EXACT}/3", "--at", "9999"), "has no token 9,999"),
        ((f"{EXACT}/999", "--at", "1"), "has no sample 999"),
        ((f"{EXACT}/3",), "no token of this sample is known to have lost the molecule"),
        ((f"{EXACT}/0",), "atoms before it are wrong already"),
        ((f"{V43}/18",), "token 17, which comes before it, is wrong already"),
        ((f"{EXACT}/3", "--at", "40", "--all", "--least", "1"), "no other token has 100 %"),
        ((f"{EXACT}/3", "--at", "40", "--all", "--token", "5"), "exclude each other"),
        ((f"{EXACT}/{PARENT}", "--at", "150", "--lp", "shaped"), "is wrong already"),
    ],
)
def test_what_cannot_be_branched_is_one_line(words: tuple[str, ...], problem: str) -> None:
    before = [entry.id for entry in Store.open().listing().entries]
    assert problem in run("branch", *words, *HERE).error
    assert [entry.id for entry in Store.open().listing().entries] == before


def test_other_weights_or_no_plan_are_refused(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = with_demo(tmp_path, EXACT)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    path = next(tmp_path.glob("runs/*/run.json"))
    sheet: dict[str, Any] = json.loads(path.read_text())
    for change, problem in (({"weights": "0" * 64}, "with other weights"), ({}, "does not say how it was sampled")):
        sheet["row"] |= change
        kept = {key: value for key, value in sheet.items() if change or key != "plan"}
        path.write_text(json.dumps(kept))
        assert problem in run("branch", f"{EXACT}/3", "--at", "4", *HERE).error
    assert len(other.snapshot().listing().entries) == 1
