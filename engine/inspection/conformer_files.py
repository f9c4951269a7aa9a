"""A run's conformers in files: as SDF, and as the group's evaluation reads them (``generation_results.pickle``)."""

from __future__ import annotations

import pickle
from pathlib import Path

from rdkit import Chem

from engine.chem.structure_files import to_sdf
from engine.folders import exporting
from engine.inspection.conformers import conformers_of
from engine.records import ReaderName
from engine.store.store import Store

PROTOCOL = 4


def write_conformers(store: Store, run_id: str, path: Path, reader: ReaderName, *, is_pickle: bool) -> int:
    """Of each sample that the reader takes; returns how many. A pickle is ``{smiles: [Mol, ...]}`` by the SMILES that
    was asked for: molecules of heavy atoms with one conformer each."""
    mols, properties = conformers_of(store, run_id, reader=reader)
    by_smiles: dict[str, list[Chem.Mol]] = {}
    for (_, mol), sample in zip(mols, properties, strict=True):
        by_smiles.setdefault(sample["smiles"], []).append(mol)
    with exporting(path) as file:
        file.write(pickle.dumps(by_smiles, PROTOCOL) if is_pickle else to_sdf(mols, properties).encode())
    return len(mols)
