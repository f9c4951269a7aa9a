"""``references``: add, list, make, remove."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.chem.structure_files import to_sdf
from tests.cli import keys, run, run_json
from tests.engine.chem.pickles import Planted, geom, references, write
from tests.engine.chem.test_reference_files import embedded

CONTRACT = ("name", "molecules", "conformers")


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def test_an_sdf_is_added_listed_and_removed(tmp_path: Path, place: str) -> None:
    path = tmp_path / "a.sdf"
    path.write_text(to_sdf([embedded("CCO", 3), embedded("CCN"), embedded("CCN")]))
    (row,) = run_json("references", "add", str(path), "--label", "drugs", "--store", place)
    assert keys(row, CONTRACT)
    assert [row[key] for key in (*CONTRACT, "repeated", "form")] == ["drugs", 2, 4, 1, "sdf"]
    assert run_json("references", "--store", place) == [row]
    assert "drugs  sdf" in run("references", "--store", place).out
    rows = run_json("sql", "SELECT smiles, len(xyz) AS n FROM reference_conformers ORDER BY ALL", "--store", place)
    assert rows == [{"smiles": "CCN", "n": 9}, *[{"smiles": "CCO", "n": 9}] * 3]
    assert run("verify", "--store", place).out == "whole references  1\n"
    assert run_json("references", "rm", "drugs", "--yes", "--store", place) == [{"reference_set": "drugs"}]
    assert run_json("references", "--store", place) == []


def test_they_are_made_here(place: str) -> None:
    arguments = ("CCO", "CCCCO", "--per-molecule", "2", "--label", "ours", "--store", place)
    (row,) = run_json("references", "make", *arguments)
    assert [row[key] for key in (*CONTRACT, "origin")] == ["ours", 2, 4, "made"]
    assert row["source"] == "ETKDGv3, 2 per molecule, seed 0"


def test_what_is_left_out_is_said_once_per_reason(tmp_path: Path, place: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"smiles": ["CC", "CCO", "CCO"], "xyz": [[0.0] * 3 + [1.5] * 3] * 3}), path)
    done = run("references", "add", str(path), "--label", "a", "--store", place)
    assert done.code == 0
    assert (
        done.err
        == "left out: row 2 of a.parquet and 1 more: 'CCO': its xyz are no x, y, z of each atom of its SMILES\n"
    )


def test_the_groups_references_and_a_folder_of_geom(tmp_path: Path, place: str) -> None:
    document = references((("CCO", 3), ("CCN", 2)))
    document["CCO"]["confs"] += [document["CCO"]["confs"][0], document["CCN"]["confs"][0]]  # again, and a stranger
    path = write(tmp_path / "test.pickle", document)
    done = run("references", "add", str(path), "--label", "group", "--store", place, "--json")
    (row,) = done.document
    assert [row[key] for key in (*CONTRACT, "form", "repeated", "left_out")] == ["group", 2, 5, "pickle", 1, 1]
    assert done.err == (
        "left out: conformer 5 of 'CCO' in test.pickle: 'CCO': its graph is 'CCN', which is not its key's 'CCO'\n"
    )
    folder = tmp_path / "drugs"
    folder.mkdir()
    write(folder / "a.pickle", geom("CCO", 2))
    write(folder / "b.pickle", geom("CCC", 1))
    (row,) = run_json("references", "add", str(folder), "--label", "geom", "--store", place)
    assert [row[key] for key in (*CONTRACT, "source")] == ["geom", 2, 3, "drugs"]
    weights = run_json("sql", "SELECT weight FROM reference_conformers WHERE weight < 0.5", "--store", place)
    assert weights == [{"weight": 0.25}]


def test_a_hostile_pickle_is_one_line_and_runs_nothing(tmp_path: Path, place: str) -> None:
    marker = tmp_path / "marker"
    path = write(tmp_path / "a.pickle", {**references(), "CC": Planted(os.system, f"touch {marker}")})
    assert run("references", "add", str(path), "--label", "a", "--store", place).error == (
        "driftscope: 'a.pickle': it names 'posix.system', which no file of molecules needs: it was not called, and "
        "nothing was read in. Do not trust this file"
    )
    assert not marker.exists() and run_json("references", "--store", place) == []


@pytest.mark.parametrize(
    ("content", "error"),
    [("", "has no conformer that can be used"), ("\n\n\n  3  2  0  0  0  0  0  0  0  0999 V2000\n", "is cut short")],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, place: str, content: str, error: str) -> None:
    path = tmp_path / "a.sdf"
    path.write_text(content)
    assert error in run("references", "add", str(path), "--label", "a", "--store", place).error
    assert run_json("references", "--store", place) == []
