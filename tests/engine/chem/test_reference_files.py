"""Reference conformers out of files: each form, and what is refused."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rdkit import Chem
from rdkit.Chem import rdDistGeom

from engine.chem.conformer_files import HeavyConformer, of_mol, read_references, under_its_key
from engine.chem.structure_files import to_sdf
from engine.errors import FileFormatError


def embedded(smiles: str, count: int = 1, seed: int = 7) -> Chem.Mol:
    """With hydrogens."""
    mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
    rdDistGeom.EmbedMultipleConfs(mol, count, randomSeed=seed)
    return mol


def read(path: Path) -> list[HeavyConformer]:
    return list(read_references(path)[1])


def test_an_sdf_has_a_conformer_per_record(tmp_path: Path) -> None:
    path = tmp_path / "many.sdf"
    path.write_text(to_sdf([embedded("OCC", 2), embedded("C[C@H](N)C(=O)O")]))
    found = read(path)
    assert [item.smiles for item in found if not item.problem] == ["CCO", "CCO", "C[C@H](N)C(=O)O"]
    assert [item.source for item in found] == [f"record {number} of many.sdf" for number in (1, 2, 3)]


@pytest.mark.parametrize("key", ["", "C(C)O", "[CH3][CH2][OH]", "[H]OCC"])
def test_a_key_may_be_written_in_any_way_and_coordinates_are_in_canonical_order(key: str) -> None:
    mol = embedded("OCC")
    placed = under_its_key(next(of_mol(mol, "", key)))
    assert (placed.problem, placed.smiles, placed.xyz.shape) == ("", "CCO", (3, 3))
    assert np.array_equal(placed.xyz[2], mol.GetConformer().GetPositions()[0])  # the oxygen


@pytest.mark.parametrize(
    ("xyz", "reason"),
    [
        ([[0, 0, 0], [1, 0, 0], [2, 0, float("nan")]], "not finite"),
        ([[0, 0, 0], [1, 0, 0], [2e4, 0, 0]], "10,000 angstrom"),
        ([[1, 1, 1]] * 3, "no coordinates"),
        ([[0, 0, 0], [1, 0, 0]], "its SMILES has 3 atoms"),
    ],
)
def test_coordinates_that_cannot_be(xyz: list[list[float]], reason: str) -> None:
    placed = under_its_key(HeavyConformer("CCO", np.array(xyz, dtype=float)))
    assert reason in placed.problem
    assert "no coordinates" in under_its_key(HeavyConformer("CC", np.ones((2, 3)))).problem


# --- Parquet --------------------------------------------------------------------------------------------------------

FLAT = [0.0, 0.0, 0.0, 1.4, 0.0, 0.0, 2.0, 1.2, 0.5]


def parquet(path: Path, **columns: list[object]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("xyz", [FLAT, np.reshape(FLAT, (3, 3)).tolist()], ids=["flat", "in threes"])
def test_a_parquet_row_is_a_conformer(tmp_path: Path, xyz: list[object]) -> None:
    path = parquet(tmp_path / "a.parquet", smiles=["OCC"], xyz=[xyz], weight=[0.25], other=[1])
    (found,) = read(path)
    assert (found.smiles, found.weight) == ("CCO", 0.25)
    assert found.xyz[2].tolist() == [0.0, 0.0, 0.0]  # the oxygen, first in the file's SMILES


def test_rows_that_cannot_be_used_are_left_out(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.pq", smiles=["CCO", "CC", "C1C", None], xyz=[FLAT, FLAT, FLAT, FLAT])
    found = read(path)
    assert [bool(item.problem) for item in found] == [False, True, True, True]
    assert "its xyz are no x, y, z" in found[1].problem
    assert found[2].source == "row 3 of a.pq"


# --- refused --------------------------------------------------------------------------------------------------------


def test_files_of_a_folder_are_of_one_form(tmp_path: Path) -> None:
    inner = tmp_path / "[a]"
    inner.mkdir()
    (inner / "readme.txt").write_text("no molecule")
    with pytest.raises(FileFormatError, match="no file of references"):
        read(tmp_path)
    (inner / "one.sdf").write_text(to_sdf([embedded("CCO")]))
    (inner / "two.sdf").write_text(to_sdf([embedded("CCN")]))
    assert [item.smiles for item in read(tmp_path) if not item.problem] == ["CCO", "CCN"]
    parquet(tmp_path / "a.parquet", smiles=["OCC"], xyz=[FLAT])
    with pytest.raises(FileFormatError, match="files of several forms"):
        read(tmp_path)
    with pytest.raises(FileFormatError, match=r"its columns are smiles .*Give smiles.* and xyz"):
        read(parquet(tmp_path / "b.parquet", smiles=["CCO"]))


@pytest.mark.parametrize("column", ["xyz", "weight"])
def test_a_parquet_column_of_another_kind_is_named_or_not_read(tmp_path: Path, column: str) -> None:
    """Python's dates have a smaller range than Arrow's: one beyond it ended in a traceback."""
    late = pa.array([2**62], pa.timestamp("us"))
    for cells in (["here"], [[datetime(2000, 1, 1)]], late):
        columns: dict[str, Any] = {"smiles": ["C"], "xyz": [[0.0] * 3], column: cells}
        path = parquet(tmp_path / "a.parquet", **columns)
        if cells is late:
            with pytest.raises(FileFormatError, match="is no whole Parquet file"):
                read(path)
        else:
            (found,) = read(path)
            assert found.weight is None and (not found.problem) == (column == "weight")
