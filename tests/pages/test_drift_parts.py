"""The Drift inspector's parts that need no page: words, files, the address, clicks on rows, who may be asked."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from rdkit import Chem

from engine.inspection.atoms import Token
from engine.inspection.faults import atom_faults, verdict
from engine.inspection.molecules import DriftBin, sample_table
from engine.inspection.runs import runs_with_samples
from engine.inspection.sample import inspect_sample
from engine.jobs.scoring import models_for, question_of
from engine.text.tokenizers import load_tokenizer
from pages._drift import files as drift_files
from pages._drift import state
from pages._drift.molecule import _group_words
from pages._drift.molecules import verdict_line
from pages._drift.runs import default_run
from pages._kit.components.atom_view import text_parts
from pages._kit.entry_table import picked_rows, show_rows
from pages._kit.table_files import csv_of
from tests.engine.store.stored_runs import store_at
from tests.pages.apps import Params
from tests.pages.drift_stores import BARE, EXACT, WITH_JUNK, WORST, add_bare, with_demo


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    add_bare(with_demo(folder, WITH_JUNK, EXACT))
    return folder


def test_the_default_is_the_largest_run_with_junk_that_passes_else_with_bad_blocks(folder: Path) -> None:
    runs = runs_with_samples(store_at(folder))
    assert default_run(runs).run_id == WITH_JUNK
    sound = [run for run in runs if not run.bad_blocks]
    assert default_run(sound).run_id == sound[0].run_id
    bad = replace(sound[0], run_id="bad", bad_blocks=1, junk_letters=0)
    assert default_run([*sound, bad]).run_id == "bad"
    few = replace(bad, samples=1, junk_letters=1, passes=1)
    assert default_run([few, bad]).run_id == "bad" and default_run([few]) == few
    assert default_run([replace(few, samples=bad.samples - 1), few, replace(few, samples=65)]).samples == 65


def test_faults_are_of_their_conformer() -> None:
    """Blocks behind the answer are of none; an atom that is written twice has the worse of its faults."""
    blocks = [
        {"conformer": number, "atom": atom, "kinds": kinds, "junk_text": junk}
        for number, atom, kinds, junk in [
            (1, 0, ["exact"], ""),
            (1, 1, ["letters"], "x"),
            (1, 1, ["cut"], ""),
            (2, 0, ["letters"], "y"),
            (0, -1, ["letters"], "z"),
        ]
    ]
    failed = [{"check": "bond lengths", "detail": "conformer 2: too long", "atoms": [2]}]
    sample = {"passed": True, "decodes": None, "clean": False, "failed": failed}
    assert atom_faults(sample, blocks, only=1) == {1: "junk"}
    assert atom_faults(sample, blocks) == {0: "junk", 1: "junk", 2: "wrong"}
    assert "(conformers 1 and 2)" in verdict(sample, blocks)
    behind = [{**block, "kinds": [], "junk_text": ""} for block in blocks[:-1]] + blocks[-1:]
    assert "(conformer" not in verdict(sample, behind)


def test_the_group_readers_blocks_are_those_of_the_conformer_that_it_takes(folder: Path) -> None:
    inspected = inspect_sample(store_at(folder), WITH_JUNK, 30)
    assert inspected.by_group is not None and inspected.by_group.farthest is not None, "the block that is misread most"
    second = tuple({**block, "conformer": 2} for block in inspected.blocks)
    several = replace(inspected, blocks=inspected.blocks + second)
    assert _group_words(several, inspected.by_group) == _group_words(inspected, inspected.by_group)


def test_only_models_with_the_runs_tokenizer_are_asked_its_own_first(folder: Path) -> None:
    inspected = inspect_sample(store_at(folder), BARE, 0)
    models = models_for(inspected.run)
    assert models[0].name == "demo-llama:final"
    assert {entry.tokenizer for entry in models} == {"llama3"}
    by_folder = replace(inspected, run=replace(inspected.run, tokenizer="/checkpoints/own"))
    assert [entry.name for entry in models_for(by_folder.run)] == ["demo-llama:final"], "its own, however it was named"
    question = question_of(inspected, models[-1])
    assert question.token_ids == inspected.sample["token_ids"]
    assert (question.plan.lp, question.plan.placeholder) == ("group-v2.1", "0.0000,0.0000,0.0000")
    assert question.tokenizer == load_tokenizer("llama3").name
    assert "is not known" in verdict({**inspected.sample, "passed": None, "clean": None}, ()), "of a conformer's file"


def test_a_text_that_grows_keeps_its_earlier_parts() -> None:
    tokens = [Token(n, f"{n} ", marks="f" if n % 2 else "") for n in range(50)]
    parts = text_parts([*tokens, Token(50, "", marks="n")])
    assert [len(part) for part in parts] == [24, 24, 2] and parts[2] == [(48, "48·", ""), (49, "49·", "f")]
    assert text_parts(tokens[:30])[0] == parts[0] and text_parts([]) == []


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ({"passed": False, "junk_blocks": 2}, [("failed", "w"), ("2 junk", "w")]),
        ({"passed": True, "cut_blocks": 1, "checks": "clash"}, [("1 cut", "d")]),
        ({"passed": True, "clean": True, "checks": "clash, stereo"}, [("clash and 1 more", "w")]),
        ({"passed": True, "clean": True, "usable": True, "checks": ""}, [("usable", "r")]),
        ({"passed": True, "clean": True}, [("clean", "r")]),
        ({"passed": True}, [("passed", "-")]),
        ({}, [("no text", "-")]),
    ],
)
def test_a_molecules_verdict_in_the_list(row: dict[str, Any], line: list[tuple[str, str]]) -> None:
    usual = {"junk_blocks": 0, "cut_blocks": 0, **dict.fromkeys(("passed", "clean", "usable", "checks"))}
    assert verdict_line({**usual, **row}) == line


def test_files_of_the_rows_that_are_shown(folder: Path) -> None:
    store = store_at(folder)
    rows = sample_table(store, [EXACT, WITH_JUNK])
    assert len(csv_of(rows).decode().splitlines()) == 129
    mols = Chem.SDMolSupplier()
    mols.SetData(drift_files.sdf_of(store, rows))
    assert len(mols) == 64  # all of the exact run; of the other nothing is sound
    assert {mol.GetProp("run_id") for mol in mols} == {EXACT}
    assert all(mol.HasProp("usable") and mol.HasProp("geometry_right") for mol in mols), "the verdict goes along"
    part = inspect_sample(store, WITH_JUNK, WORST[0])
    sdf = drift_files.sdf_of_one(part)
    assert "<incomplete>" in sdf and re.search(rf"Shown are \d+ of {part.sample['heavy_atoms']} atoms", sdf)


def test_the_address_of_a_bar_survives_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "query_params", Params(bin="run~a~b~-3~-2"))
    assert state.bar() == DriftBin("run", "a~b~-3", -2)
    for text in ("", "lp", "lp~exact", "lp~exact~x", "nobody~exact~1", "lp~exact~--1", "lp~exact~" + "9" * 40):
        st.query_params["bin"] = text
        assert state.bar() is None


def test_the_sample_of_a_link_is_of_the_first_run_unless_it_says_of_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "query_params", Params(sample="7", run=["one", "two"]))
    assert state.spot(["run-one", "run-two"]) == state.Spot("run-one", 7)
    state.put_spot(state.Spot("run-two", 3))
    assert state.spot(["run-one", "run-two"]) == state.Spot("run-two", 3)
    assert state.spot([]) is None


@pytest.mark.parametrize(
    ("shown", "selection", "picked"),
    [
        (["d"], None, None),
        (["d"], {"rows": [3]}, None),  # its own selection that comes back
        (["d"], {"rows": [4]}, [4]),
        (["d"], {"rows": []}, []),
    ],
)
def test_what_a_reader_picks_in_a_table(
    shown: list[str], selection: Any, picked: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(st, "session_state", {})
    key = show_rows("table", "abcdefghi", shown)
    if selection is not None:
        st.session_state[key] = {"selection": selection}
    assert picked_rows(key) == picked


def test_the_rows_of_a_table_are_never_rows_of_a_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "session_state", {})
    key = show_rows("table", "abc", "b")
    longer = show_rows("table", "new abc", "b")
    assert longer != key and picked_rows(key) is None and picked_rows(longer) is None
    st.session_state[key] = {"selection": {"rows": [2]}}
    assert picked_rows(key) is None, "it is not drawn any more"
