"""Conformers out of files: each form, pickles read in a process of their own, and what is refused."""

from __future__ import annotations

import pickle
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rdkit import Chem

from engine.chem import conformer_files
from engine.chem.conformer_files import (
    HeavyConformer,
    files_of,
    molecules_of,
    of_mol,
    pickled_conformers,
    read_conformers,
    under_its_key,
)
from engine.chem.structure_files import to_sdf
from engine.errors import FileError
from engine.sandbox import Limits
from tests.engine.chem.pickles import conformers, embedded, generations, geom, references, write


def read(path: Path) -> list[HeavyConformer]:
    return list(read_conformers(*files_of(path, "references")))


def test_an_sdf_has_a_conformer_per_record(tmp_path: Path) -> None:
    path = tmp_path / "many.sdf"
    path.write_text(to_sdf([embedded("OCC", 2), embedded("C[C@H](N)C(=O)O")]))
    items = read(path)
    assert [item.smiles for item in items if not item.problem] == ["CCO", "CCO", "C[C@H](N)C(=O)O"]
    assert [item.source for item in items] == [f"record {number} of many.sdf" for number in (1, 2, 3)]


@pytest.mark.parametrize("key", ["", "C(C)O", "[CH3][CH2][OH]", "[H]OCC"])
def test_a_key_may_be_written_in_any_way_and_coordinates_are_in_canonical_order(key: str) -> None:
    mol = embedded("OCC")
    placed = under_its_key(next(of_mol(mol, "", key)))
    assert (placed.problem, placed.smiles, placed.xyz.shape) == ("", "CCO", (3, 3))
    assert np.array_equal(placed.xyz[2], mol.GetConformer().GetPositions()[0])  # the oxygen


def test_one_of_another_graph_is_named_and_left_out() -> None:
    xyz = np.arange(18.0).reshape(6, 3)
    wrong = under_its_key(HeavyConformer("C[C@H](N)C(=O)O", xyz, "here", key="C[C@@H](N)C(=O)O"))
    assert wrong.source == "here" and "which is not its key's 'C[C@@H](N)C(=O)O'" in wrong.problem


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
    (item,) = read(path)
    assert (item.smiles, item.weight) == ("CCO", 0.25)
    assert item.xyz[2].tolist() == [0.0, 0.0, 0.0]  # the oxygen, first in the file's SMILES


def test_rows_that_cannot_be_used_are_left_out(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.pq", smiles=["CCO", "CC", "C1C", None], xyz=[FLAT, FLAT, FLAT, FLAT])
    items = read(path)
    assert [bool(item.problem) for item in items] == [False, True, True, True]
    assert "its xyz are no x, y, z" in items[1].problem
    assert items[2].source == "row 3 of a.pq"


# --- refused --------------------------------------------------------------------------------------------------------


def test_files_of_a_folder_are_of_one_form(tmp_path: Path) -> None:
    inner = tmp_path / "[a]"
    inner.mkdir()
    (inner / "readme.txt").write_text("no molecule")
    with pytest.raises(FileError, match="no file of conformers"):
        read(tmp_path)
    (inner / "one.sdf").write_text(to_sdf([embedded("CCO")]))
    (inner / "two.sdf").write_text(to_sdf([embedded("CCN")]))
    assert [item.smiles for item in read(tmp_path) if not item.problem] == ["CCO", "CCN"]
    parquet(tmp_path / "a.parquet", smiles=["OCC"], xyz=[FLAT])
    with pytest.raises(FileError, match="files of several forms"):
        read(tmp_path)
    with pytest.raises(FileError, match=r"its columns are smiles .*Give smiles.* and xyz"):
        read(parquet(tmp_path / "b.parquet", smiles=["CCO"]))


@pytest.mark.parametrize("column", ["xyz", "weight"])
def test_a_parquet_column_of_another_kind_is_named_or_not_read(tmp_path: Path, column: str) -> None:
    """Python's dates have a smaller range than Arrow's: one beyond it ended in a traceback."""
    late = pa.array([2**62], pa.timestamp("us"))
    for cells in (["here"], [[datetime(2000, 1, 1)]], late):
        columns: dict[str, Any] = {"smiles": ["C"], "xyz": [[0.0] * 3], column: cells}
        path = parquet(tmp_path / "a.parquet", **columns)
        if cells is late:
            with pytest.raises(FileError, match="is no whole Parquet file"):
                read(path)
        else:
            (item,) = read(path)
            assert item.weight is None and (not item.problem) == (column == "weight")


def unpickled(*paths: Path, **more: Any) -> list[HeavyConformer]:
    return list(pickled_conformers(paths, **more))


def test_each_shape_is_read_by_one_process(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "references.pickle", references((("CCO", 2),))),
        write(tmp_path / "generations.pkl", generations((("CCN", 2),)), 5),
        write(tmp_path / "geom.p", geom("CCC", 2), 2),
        write(tmp_path / "unnamed.p", geom("OCC", 1, is_named=False), 0),
    ]
    items = [item for item in unpickled(*files) if not item.problem]
    assert [(item.key, item.smiles, item.weight) for item in items] == [
        *[("CCO", "CCO", None)] * 2,
        *[("CCN", "CCN", None)] * 2,
        ("CCC", "CCC", 0.75),
        ("CCC", "CCC", 0.25),
        ("", "CCO", 0.75),
    ]
    assert items[1].source == "conformer 2 of 'CCO' in references.pickle"
    expected = Chem.RemoveHs(conformers("CCO", 2)[1]).GetConformer().GetPositions()
    assert np.allclose(items[1].xyz, expected, atol=1e-5)  # a pickle of RDKit holds single precision


def test_a_molecule_that_cannot_be_used_is_left_out(tmp_path: Path) -> None:
    flat = Chem.MolFromSmiles("CCO")
    content = pickle.dumps({"CCO": [flat, *conformers("CCO", 1), None]})
    path = tmp_path / "a.pickle"
    path.write_bytes(content)
    reasons = [item.problem for item in unpickled(path)]
    assert reasons == ["it has no coordinates in 3D", "", "there is no molecule"]
    path.write_bytes(pickle.dumps({"CCO": [flat]}).replace(flat.ToBinary()[-20:], b"x" * 20))
    (broken,) = unpickled(path)
    assert broken.problem.startswith("RDKit cannot read it")


MISSHAPEN: list[tuple[Any, str]] = [
    ({1: []}, "its keys are not SMILES: one is '1'"),
    ({"CCO": "text"}, "at 'CCO' it has something else in place of molecules"),
    ({"conformers": [{"rd_mol": 5}]}, "it has something else in place of molecules"),
]


@pytest.mark.parametrize(("document", "error"), MISSHAPEN)
def test_what_is_of_no_known_shape(document: Any, error: str) -> None:
    with pytest.raises(FileError, match=error):
        list(molecules_of(document, ("references", "molecules", "geom")))


def test_another_shape_than_was_asked_for_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pickle", references())
    with pytest.raises(FileError, match=r"it has references .* in place of generations .*`references add` takes"):
        unpickled(path, shapes=("molecules",))


# --- bombs ----------------------------------------------------------------------------------------------------------

SMALL = Limits(20.0, is_cpu=True, memory_mb=150, is_closed=True)


def doubled(times: int) -> bytes:
    """A dict whose copies are kept: each REDUCE makes another one of the largest."""
    entries = b"".join(b"J" + number.to_bytes(4, "little") + b"N" for number in range(50_000))
    head = b"\x80\x04(" + b"d" + b"(" + entries + b"uq\x00]q\x01("
    return head + b"ccollections\nCounter\nq\x02(h\x00tR" + b"h\x02(h\x00tR" * times + b"e."


BOMBS = [
    (b"\x80\x04Nr\xff\xff\xff\x7f.", "takes over .* of memory"),  # a memo
    (b"\x80\x04\x8e" + (2**45).to_bytes(8, "little") + b"x.", "takes over .* of memory|cut short"),
    (doubled(2_000), "takes over .* of memory"),
    (b"\x80\x04}" + b")" + b"\x85" * 300_000 + b"Ns.", "its process ended .signal 11|no pickle"),  # nested keys
]


@pytest.mark.parametrize(("content", "error"), BOMBS, ids=["memo", "bytes", "copies", "nested keys"])
def test_a_bomb_is_one_error(tmp_path: Path, content: bytes, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformer_files, "limits_of", lambda size: SMALL)
    path = tmp_path / "a.pickle"
    path.write_bytes(content)
    with pytest.raises(FileError, match=rf"'a\.pickle': .*({error})"):
        unpickled(path)


def test_a_file_over_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformer_files, "MOST_BYTES", 10)
    with pytest.raises(FileError, match="over 0 MB"):
        unpickled(write(tmp_path / "a.pickle", references()))
