"""The conformers that a run's RMSD is taken to the nearest of: so many by ETKDG, or all that a set of the store has.

Those of a set travel with the unfinished run, so that whatever writes or resumes it, on any machine, has the same.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import decode
from engine.chem.heavy_conformers import check_coordinates, molecule_with, settled_smiles
from engine.chem.rmsd import least_rmsd
from engine.errors import DriftscopeError, RunError
from engine.records import Molecule
from engine.store.inflated import open_bytes
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
    try:
        rows = open_bytes(staging.files.read(f"{staging.folder}/{FILE}")).read().cast(_SCHEMA).to_pylist()
        return {row["smiles"]: _with_conformers(row["smiles"], row["xyz"]) for row in rows}
    except (OSError, pa.ArrowException, ValueError, TypeError, DriftscopeError) as error:
        raise RunError(f"the references of {staging.id} are lost", "Start a new run") from error


def _with_conformers(smiles: str, conformers: Iterable[list[float]]) -> Chem.Mol:
    places = [np.reshape(np.asarray(numbers, dtype=float), (-1, 3)) for numbers in conformers]
    for xyz in places:
        check_coordinates(xyz)
    return molecule_with(settled_smiles(smiles), places)


class RmsdReferences:
    """Made once per molecule; ``given`` are those of a set, in place of ``count`` by ETKDG."""

    def __init__(self, count: int, most_s: float, given: Mapping[str, Chem.Mol] | None = None) -> None:
        self.count, self.most_s, self.given = count, most_s, given
        self._made: dict[str, Chem.Mol] = {}

    def rmsd_ang(self, molecule: Molecule, text: str) -> float | None:
        """RMSD to the nearest reference; None where there is no conformer or no reference."""
        try:
            references = self._of(molecule)
            return None if references is None else float(least_rmsd(decode(text).mol, references))
        except DriftscopeError:  # it does not embed, or a block of the text has no coordinates
            return None

    def _of(self, molecule: Molecule) -> Chem.Mol | None:
        if self.given is not None:
            return self.given.get(molecule.smiles)
        if molecule.smiles not in self._made:
            made = reference_conformers(molecule, self.count, max_seconds=self.most_s)
            self._made[molecule.smiles] = made
        return self._made[molecule.smiles]
