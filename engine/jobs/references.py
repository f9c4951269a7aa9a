"""The conformers of a set that a run's RMSD is taken to. They travel with the unfinished run, so that whatever writes
or resumes it, on any machine, has the same."""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rdkit import Chem

from engine.chem.heavy_conformers import check_coordinates, molecule_with, settled_smiles
from engine.errors import DriftscopeError, RunError
from engine.records import Molecule
from engine.store.references import ReferenceSet
from engine.store.staging import Staging

FILE = "references.parquet"
_SCHEMA = pa.schema([("smiles", pa.string()), ("xyz", pa.list_(pa.list_(pa.float64())))])


def packed_references(references: ReferenceSet, molecules: Iterable[Molecule]) -> bytes:
    """Of these molecules, the coordinates of each conformer; one that the set lacks has none."""
    known = {molecule.smiles: references.conformers(molecule.smiles) for molecule in molecules}
    rows = [
        {"smiles": smiles, "xyz": [conformer.GetPositions().ravel().tolist() for conformer in mol.GetConformers()]}
        for smiles, mol in known.items()
        if mol is not None
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), buffer)
    return buffer.getvalue()


def given_references(staging: Staging) -> dict[str, Chem.Mol]:
    """By SMILES, molecules with conformers."""
    found = {}
    try:
        content = staging.files.read(f"{staging.folder}/{FILE}")
        for row in pq.read_table(io.BytesIO(content)).cast(_SCHEMA).to_pylist():
            conformers = [np.reshape(np.asarray(numbers, dtype=float), (-1, 3)) for numbers in row["xyz"]]
            for xyz in conformers:
                check_coordinates(xyz)
            found[row["smiles"]] = molecule_with(settled_smiles(row["smiles"]), conformers)
    except (OSError, pa.ArrowException, ValueError, TypeError, DriftscopeError) as error:
        raise RunError(f"the references of {staging.id} are lost", "Start a new run") from error
    return found
