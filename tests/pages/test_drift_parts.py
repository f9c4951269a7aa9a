"""The Drift inspector's parts that need no page: words, files, the address, who may be asked."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from rdkit import Chem
from streamlit.testing.v1 import AppTest

from engine.inspection.molecules import DriftBin, sample_table
from engine.inspection.runs import runs_with_samples
from engine.inspection.sample import inspect_sample
from engine.paths import ROOT
from engine.text.tokenizers import load_tokenizer
from pages._drift import files as drift_files
from pages._drift import state
from pages._drift.molecules import checks_words
from pages._drift.runs import default_run
from pages._drift.scoring import compatible, question_of
from pages._drift.state import Spot
from pages._shared.rows import picked_rows, show_rows
from pages._shared.small_drawing import small_drawing
from pages._shared.table_files import csv_of
from pages._shared.words import block_words, kind_words, molecule_words, verdict
from tests.engine.inspection.made import block_row, sample_row, write_run
from tests.pages.drift_stores import BARE, EXACT, WITH_JUNK, WORST, add_bare, store_at, with_demo
from tests.pages.params import Params


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all: nothing here writes to it."""
    place = tmp_path_factory.mktemp("parts")
    add_bare(with_demo(place, WITH_JUNK, EXACT))
    return place


def test_the_default_is_the_newest_run_with_bad_blocks_else_the_newest(place: Path) -> None:
    runs = runs_with_samples(store_at(place))
    assert default_run(runs).run_id == WITH_JUNK
    others = [run for run in runs if not run.bad_blocks]
    assert default_run(others).run_id == others[0].run_id
    assert default_run([*others, replace(others[0], run_id="bad", bad_blocks=1, junk_letters=0)]).run_id == "bad"


def test_a_drawing_has_no_layer_for_clicks_and_none_where_the_smiles_does_not_read() -> None:
    uri = small_drawing("CO", dark=False)
    assert uri is not None
    svg = base64.b64decode(uri.partition(",")[2]).decode()
    assert svg.startswith("<svg") and "atom-selector" not in svg
    assert small_drawing("not a SMILES", dark=False) is None


@pytest.mark.parametrize(
    ("sample", "blocks", "said"),
    [
        (
            sample_row(0),
            [block_row(0, 0)],
            "Passes, decodes and is clean: every atom has its block, and every block its",
        ),
        (sample_row(0, decodes=None), [block_row(0, 0)], "Passes and is clean: every atom has its block"),
        (
            sample_row(0),
            [block_row(0, 0, kinds=["letters"], junk_text="a")],
            "before the clean-up, 1 of 1 blocks has junk.",
        ),
        (
            sample_row(0, clean=False),
            [
                block_row(0, 0, kinds=["letters"], junk_text="a"),
                block_row(0, 1, kinds=["cut", "letters"], junk_text="a"),
                block_row(0, 2),
            ],
            "Not clean: 2 of 3 blocks have junk, 1 was cut. It passes",
        ),
        (
            sample_row(0, clean=False),
            [block_row(0, 0, kinds=["missing_comma"]), block_row(0, 1, kinds=["trailing_mark", "cut"])],
            "Not clean: 1 of 2 blocks was cut, 1 is not three numbers. It passes",
        ),
        (sample_row(0, clean=False), [], "It passes the reports' rule and decodes by the runner's."),
        (sample_row(0, clean=False, decodes=False), [], "It passes the reports' rule but does not decode."),
        (sample_row(0, clean=False, decodes=None), [], "It passes the reports' rule."),
        (sample_row(0, clean=False, passed=False, issues=["no end", "no SMILES"]), [], "Failed: no end; no SMILES."),
        (
            sample_row(0, clean=False),
            [block_row(0, 0, kinds=["missing_z"])],
            "1 of 1 blocks has fewer than three numbers.",
        ),
        (
            sample_row(0, clean=False),
            [block_row(0, 0, kinds=["integer"]), block_row(0, 1, kinds=["integer"])],
            "Not clean: 2 of 2 blocks have numbers without decimals.",
        ),
    ],
)
def test_a_verdict_in_words(sample: dict[str, Any], blocks: list[dict[str, Any]], said: str) -> None:
    assert said in verdict(sample, blocks)


def test_a_block_in_words() -> None:
    block = block_row(0, 0, kinds=["letters"], drift=2, junk_text="a\u202eb")
    assert block_words(block) == "letters, drift +2, junk “a\\u202eb”"


def test_a_kind_that_is_not_there_is_unknown() -> None:
    assert kind_words(block_row(0, 0, kinds=["cut", None, "missing_z"])) == "cut, unknown, no z"


def test_a_run_may_be_called_as_a_button(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    ids = load_tokenizer("qwen3").encode("[C]<1.0,2.0,3.0>[O]<1.5,2.5,3.5>")
    sample = sample_row(0, text="", token_ids=ids, forced=[False] * len(ids), tokens=len(ids))
    write_run(store_at(tmp_path), "steps", [sample], tokenizer="qwen3", lp="none")
    app = AppTest.from_file(str(ROOT / "pages" / "drift.py"), default_timeout=60).run()
    assert not app.exception
    assert app.button(key="ask-steps").label == "Compute token probabilities"


def test_only_models_with_the_runs_tokenizer_are_asked_its_own_first(place: Path) -> None:
    one = inspect_sample(store_at(place), BARE, 0)
    models = compatible(one)
    assert models[0].name == "demo-llama:final"
    assert {entry.tokenizer for entry in models} == {"llama3"}
    question = question_of(one, models[-1])
    assert question.token_ids == one.sample["token_ids"]
    assert (question.plan.lp, question.plan.placeholder) == ("group-v2.1", "0.0000,0.0000,0.0000")
    assert question.tokenizer == load_tokenizer("llama3").name


def test_files_of_the_rows_that_are_shown(place: Path) -> None:
    store = store_at(place)
    rows = sample_table(store, [EXACT, WITH_JUNK])
    text = csv_of(rows).decode().splitlines()
    assert len(text) == 129 and text[0].startswith('"run_id","sample_id"')
    mols = Chem.SDMolSupplier()
    mols.SetData(drift_files.sdf_of(store, rows))
    assert len(mols) == 64  # all of the exact run; of the other nothing is sound
    assert {mol.GetProp("run_id") for mol in mols} == {EXACT}
    assert all(mol.HasProp("usable") and mol.HasProp("geometry_right") for mol in mols), "the verdict goes along"


def test_a_conformer_in_part_says_so(place: Path) -> None:
    one = inspect_sample(store_at(place), WITH_JUNK, WORST[0])
    sdf, atoms = drift_files.sdf_of_one(one), one.sample["heavy_atoms"]
    assert "<incomplete>" in sdf and re.search(rf"Shown are \d+ of {atoms} atoms", sdf)


def test_what_could_not_be_judged_is_not_called_wrong() -> None:
    failed = [{"check": "time_limit", "atoms": [], "detail": "stopped after 60 s"}]
    sample = {"usable": False, "geometry_right": None, "failed": failed}
    assert molecule_words(sample) == "not judged in time"
    assert molecule_words(sample | {"failed": [failed[0] | {"check": "bond_lengths"}]}) == "wrong: bond lengths"
    untried: dict[str, Any] = {
        "usable": False,
        "geometry_right": True,
        "stereo_sites": 1,
        "stereo_right": None,
        "failed": [],
    }
    assert molecule_words(untried) == "stereo not judged"


def test_the_address_of_a_bar_survives_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "query_params", Params())
    st.query_params["bin"] = "run~a~b~-3~-2"
    assert state.bar() == DriftBin("run", "a~b~-3", -2)
    for text in ("", "lp", "lp~exact", "lp~exact~x", "nobody~exact~1", "lp~exact~--1", "lp~exact~" + "9" * 40):
        st.query_params["bin"] = text
        assert state.bar() is None


def test_the_sample_of_a_link_is_of_the_first_run_unless_it_says_of_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "query_params", Params(sample="7", run=["one", "two"]))
    assert state.spot(["run-one", "run-two"]) == Spot("run-one", 7)
    state.put_spot(Spot("run-two", 3))
    assert state.spot(["run-one", "run-two"]) == Spot("run-two", 3)
    assert state.spot([]) is None


def test_a_tables_own_selection_that_comes_back_is_no_pick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "session_state", {})
    key = show_rows("table", "abcde", "d")
    assert picked_rows(key) is None
    for rows in ([4], []):
        st.session_state[key] = {"selection": {"rows": rows}}
        assert picked_rows(key) == rows


def test_the_rows_of_a_table_are_never_rows_of_a_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "session_state", {})
    key = show_rows("table", "abc", "b")
    longer = show_rows("table", "new abc", "b")
    assert longer != key
    assert picked_rows(key) is None and picked_rows(longer) is None
    st.session_state[key] = {"selection": {"rows": [2]}}
    assert picked_rows(key) is None, "it is not drawn any more"


@pytest.mark.parametrize(
    ("shown", "rows", "cell", "picked"),
    [
        ([], [], 4, [4]),
        ([3], [3], 4, [4]),  # the row's box stays ticked in the browser
        ([3], [3], 3, None),
        ([3], [6], 4, [6]),  # a box, after a click on a cell
        ([3], [], 3, []),  # its own box is cleared
    ],
)
def test_a_click_on_a_cell_picks_its_row(
    shown: list[int], rows: list[int], cell: int, picked: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(st, "session_state", {})
    key = show_rows("table", range(9), shown)
    st.session_state[key] = {"selection": {"rows": rows, "cells": [(cell, "text")]}}
    assert picked_rows(key) == picked


@pytest.mark.parametrize(
    ("checks", "geometry", "usable", "words"),
    [
        (None, None, None, None),
        ("", True, True, "right"),
        ("", True, False, "stereo not judged"),  # not every symmetry was tried
        ("", None, False, "geometry not judged"),
        ("internal_steric_clash, stereo", False, False, "internal steric clash, stereo"),
        ("loaded", None, False, "not read by the strict reader"),
    ],
)
def test_a_molecule_in_one_cell(
    checks: str | None, geometry: bool | None, usable: bool | None, words: str | None
) -> None:
    assert checks_words({"checks": checks, "geometry_right": geometry, "usable": usable, "clean": True}) == words
