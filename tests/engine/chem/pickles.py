"""Pickles for tests, in the forms of FORMATS: references, generations, GEOM's own files; and hostile ones."""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdDistGeom


def embedded(smiles: str, count: int = 1, seed: int = 7) -> Chem.Mol:
    """With hydrogens."""
    mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
    rdDistGeom.EmbedMultipleConfs(mol, count, randomSeed=seed)
    return mol


def conformers(smiles: str, count: int, seed: int = 7) -> list[Chem.Mol]:
    """With hydrogens and one conformer each, as the group has them."""
    mol = embedded(smiles, count, seed)
    return [Chem.Mol(mol, False, number) for number in range(count)]


def references(molecules: Sequence[tuple[str, int]] = (("CCO", 3), ("C[C@H](N)C(=O)O", 2))) -> OrderedDict[str, Any]:
    made: OrderedDict[str, Any] = OrderedDict()
    for smiles, count in molecules:
        made[smiles] = {
            "geom_smiles": smiles,
            "geom_smiles_c": smiles,
            "confs": conformers(smiles, count),
            "num_confs": count,
            "pickle_path": f"drugs/{smiles}.pickle",
            "sub_smiles_counts": Counter([smiles] * count),
            "corrected_smi": smiles,
        }
    return made


def generations(molecules: Sequence[tuple[str, int]] = (("CCO", 3), ("CCN", 2))) -> dict[str, list[Chem.Mol]]:
    return {smiles: [Chem.RemoveHs(mol) for mol in conformers(smiles, count, 11)] for smiles, count in molecules}


def geom(smiles: str = "CCO", count: int = 2, *, is_named: bool = True) -> dict[str, Any]:
    weights = np.linspace(0.75, 0.25, count)
    records = [
        {"rd_mol": mol, "boltzmannweight": weight, "conformerweights": [weight], "set": np.arange(3)}
        for mol, weight in zip(conformers(smiles, count), weights, strict=True)
    ]
    return {"conformers": records, "totalconfs": count, "charge": 0, **({"smiles": smiles} if is_named else {})}


def write(path: Path, document: Any, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(document, protocol))
    return path


class Planted:
    """Called when it is unpickled, by any reader that is not careful."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.how = (function, arguments)

    def __reduce__(self) -> Any:
        return self.how


def global_of(module: str, name: str, *, is_stacked: bool) -> bytes:
    """How a pickle names something: by GLOBAL, or by STACK_GLOBAL of protocol 4."""
    if not is_stacked:
        return b"c" + module.encode() + b"\n" + name.encode() + b"\n"
    texts = (pickle.SHORT_BINUNICODE + bytes([len(text)]) + text.encode() for text in (module, name))
    return b"".join(texts) + pickle.STACK_GLOBAL


def calling(module: str, name: str, argument: str, *, is_stacked: bool = False) -> bytes:
    head = pickle.PROTO + bytes([4]) if is_stacked else b""
    called = b"(" + pickle.BINUNICODE + len(argument).to_bytes(4, "little") + argument.encode() + b"tR."
    return head + global_of(module, name, is_stacked=is_stacked) + called
