"""Molecules and references as they travel with an unfinished run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from engine.chem.conformers import reference_conformers
from engine.chem.smiles import parse_smiles
from engine.errors import RunError
from engine.jobs.references import FILE, given_references, packed_references
from engine.jobs.run import MOLECULES_FILE, molecules_of
from engine.store.files import Files
from engine.store.references import ReferenceSet
from engine.store.staging import Staging
from tests.engine.store.stored_runs import begun

MOLECULE = parse_smiles("C[C@H](O)CN")


def staged(tmp_path: Path, content: bytes) -> Staging:
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / FILE).write_bytes(content)
    return cast(Staging, SimpleNamespace(files=Files(tmp_path), folder="unfinished", id="mine"))


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    made = reference_conformers(MOLECULE, 3)
    known = cast(ReferenceSet, SimpleNamespace(conformers={MOLECULE.smiles: made}.get))
    (back,) = given_references(staged(tmp_path, packed_references(known, [MOLECULE, parse_smiles("C")]))).values()
    assert [atom.GetSymbol() for atom in back.GetAtoms()] == [atom.GetSymbol() for atom in made.GetAtoms()]
    for one, other in zip(back.GetConformers(), made.GetConformers(), strict=True):
        assert np.array_equal(one.GetPositions(), other.GetPositions())


@pytest.mark.parametrize(
    "row",
    [
        {"smiles": "CO", "mol": b"\x00"},
        {"smiles": "CO", "xyz": [[0.0] * 5]},
        {"smiles": "CO", "xyz": [[0.0] * 9]},
        {"smiles": "CO", "xyz": [[0.0, 0.0, 0.0, 1.0, 0.0, float("nan")]]},
        {"smiles": "C(", "xyz": [[0.0] * 3]},
        {"smiles": None, "xyz": [[0.0] * 3]},
        {"smiles": "C", "xyz": None},
    ],
)
def test_what_is_none_is_said_to_be_lost(tmp_path: Path, row: dict[str, Any]) -> None:
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_pylist([row]), sink)
    with pytest.raises(RunError, match="the references of mine are lost"):
        given_references(staged(tmp_path, sink.getvalue().to_pybytes()))


@pytest.mark.parametrize("content", [b"PAR1", b"", None])
def test_molecules_that_do_not_read_are_said_to_be_lost(tmp_path: Path, content: bytes | None) -> None:
    staging = begun(Files(tmp_path), "torn")
    path = tmp_path / staging.folder / MOLECULES_FILE
    parquet.write_table(pa.table({"smiles": ["C"] * 100}), path)
    assert len(molecules_of(staging)) == 100
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    with pytest.raises(RunError, match=r"molecules of .* are lost"):
        molecules_of(staging)
