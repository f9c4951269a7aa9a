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


def write_sdf(store: Store, run_id: str, path: Path, reader: ReaderName = "strict") -> int:
    """Writes a record for each sample that the reader takes, and returns how many."""
    mols, properties = conformers_of(store, run_id, reader=reader)
    with exporting(path) as file:
        file.write(to_sdf(mols, properties).encode())
    return len(mols)


def write_generations(store: Store, run_id: str, path: Path, reader: ReaderName = "strict") -> int:
    """Writes ``{smiles: [Mol, ...]}``, and returns how many there are: by the SMILES that was asked for, RDKit
    molecules of heavy atoms with one conformer each, of all samples that the reader takes."""
    mols, properties = conformers_of(store, run_id, reader=reader)
    by_smiles: dict[str, list[Chem.Mol]] = {}
    for (_, mol), sample in zip(mols, properties, strict=True):
        by_smiles.setdefault(sample["smiles"], []).append(mol)
    with exporting(path) as file:
        pickle.dump(by_smiles, file, PROTOCOL)
    return len(mols)
