"""What an alphabet costs: conformers written in it and read back; a coarse one loses molecules, and where is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from engine.chem.conformer_files import HeavyConformer
from engine.chem.conformers import reference_conformers
from engine.chem.smiles import parse_smiles
from engine.inspection.alphabets import DECIMALS, QUANTILE, write_references
from engine.questions import ask
from engine.questions.question import NeedsWork
from engine.records import GROUP_UNIFORM, BinFormat
from engine.store.files import Files
from engine.store.references import write_references as store_references
from engine.store.store import Store
from tests.cli import run, run_json

SMILES = ("CC=O", "CC(=O)Oc1ccccc1C(=O)O", "C[C@H](N)C(=O)O", "c1ccc2[nH]ccc2c1", "OCC1CCCCC1")
COARSE = BinFormat.uniform(-11, 11, 22)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(Files(tmp_path / "store"))
    conformers = []
    for number, smiles in enumerate(SMILES):
        mol = reference_conformers(parse_smiles(smiles), 1, seed=0)
        xyz = (
            mol.GetConformer().GetPositions() + crc32(str(tmp_path).encode()) % 1_000 / 100
        )  # no two tests share a set
        conformers.append(HeavyConformer(parse_smiles(smiles).smiles, xyz, str(number)))
    store_references(made, conformers, label="five", form="etkdg", source="x", origin="made")
    return made


def rows_of(store: Store) -> dict[str, dict[str, Any]]:
    answered = ask(store, "lab_alphabets", [], {"alphabet_references": "five"})
    return {row["form"]: row for row in answered.tables["main"].to_pylist()}


def test_each_form_says_what_it_costs(store: Store) -> None:
    with pytest.raises(NeedsWork, match="were not written"):
        rows_of(store)
    write_references(store, "five", {"coarse": COARSE}, workers=1)
    rows = rows_of(store)
    assert list(rows)[:4] == [*DECIMALS] and {QUANTILE, "coarse", "256 uniform bins"} <= set(rows)
    assert {row["molecules"] for row in rows.values()} == {5}
    four, uniform, coarse = rows["4 decimals"], rows["256 uniform bins"], rows["coarse"]
    assert 0 < four["rmsd_ang"] < 2e-4 and four["lost"] == 0 and four["doubled"] == 0
    assert np.isclose(uniform["rmsd_ang"], GROUP_UNIFORM.floor_ang, rtol=0.15) and uniform["lost"] == 0
    assert np.isclose(coarse["rmsd_ang"], COARSE.floor_ang, rtol=0.25)
    assert coarse["lost"] > 0.5 and coarse["low"] <= coarse["lost"] <= coarse["high"] and coarse["tails"] == 0
    assert four["tokens_qwen3-bins"] is None and four["tokens_qwen3"] - four["tokens_llama3"] > 4
    assert uniform["tokens_qwen3-bins"] == uniform["tokens_llama3"] < uniform["tokens_qwen3"] - 5
    assert four["forced_qwen3"] < uniform["forced_qwen3"] < uniform["forced_qwen3-bins"]
    assert rows[QUANTILE]["tails"] > 0.01 > uniform["tails"]


def test_what_lost_a_molecule_is_named_by_token(store: Store) -> None:
    write_references(store, "five", {"coarse": COARSE}, workers=1)
    answered = ask(store, "lab_alphabets", [], {"alphabet_references": "five"})
    atlas = [row for row in answered.tables["atlas"].to_pylist() if row["form"] == "coarse"]
    lost = round(5 * rows_of(store)["coarse"]["lost"])
    for tokenizer in ("qwen3", "llama3"):
        of_it = [row for row in atlas if row["tokenizer"] == tokenizer]
        assert sum(row["molecules"] for row in of_it) == lost
        assert sum(row["share"] for row in of_it) == pytest.approx(lost / 5)
        assert len({row["token"] for row in of_it}) == len(of_it), "a cell of the chart is one row"
        assert all(row["where"] == f"{row['token']} ({tokenizer})" for row in of_it)
        assert all(row["token"].endswith(("of x", "of y", "of z", "its block")) for row in of_it)
    assert (
        "Fewest tokens of the forms that lose at most 1.0 % of 5 molecules: 256 uniform bins with llama3 or"
        in answered.answer
    )
    assert "Closest: 4 decimals with llama3, RMSD 0.0001 Å" in answered.answer
    assert "Others lose more: " in answered.answer and "coarse" in answered.answer


def test_the_command_writes_and_the_terminal_asks(store: Store, tmp_path: Path) -> None:
    place = ("--store", str(tmp_path / "store"))
    assert "alphabets" in run("ask", "lab_alphabets", *place).error
    file = tmp_path / "wide.json"
    file.write_text(json.dumps({"mode": "uniform", "L": -11, "H": 11, "n_bins": 22}))
    made = run_json("alphabets", "five", "--bin-files", str(file), "--molecules", "2", "--workers", "1", *place)
    assert {row["form"]: row["molecules"] for row in made}["wide"] == 2
    assert "wide 100 %" in run("ask", "lab_alphabets", *place).out
    assert (
        "two files of bins are named wide"
        in run(
            "alphabets", "five", "--bin-files", str(file), "--bin-files", str(tmp_path / "other" / "wide.json"), *place
        ).error
    )
    file.write_text(json.dumps({"mode": "fsq", "levels": [2]}))
    assert "only their encoder writes" in run("alphabets", "five", "--bin-files", str(file), *place).error
    empty = run("ask", "lab_alphabets", "--store", str(tmp_path / "empty"))
    assert empty.code == 2 and "references make" in empty.error
