"""The conformer that a stored answer spells, as far as it spells one.

A whole answer decodes strictly. Of any other the atoms whose three coordinates could be read are put together with the
bonds between them, so that a person sees what there is; how many are not there, and why the text did not decode, is
said beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdkit import Chem
from rdkit.Geometry import Point3D

from engine.chem.enriched import decode
from engine.chem.rdkit_log import captured_log
from engine.errors import DriftscopeError
from engine.records import Molecule

Row = Mapping[str, Any]
Spot = tuple[float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """``atoms`` has the molecule's atom for each atom of ``mol``, -1 for one that the molecule has not."""

    mol: Chem.Mol | None
    atoms: tuple[int, ...]
    why_not: str  # empty where the whole conformer is there


def conformer_of(sample: Row, blocks: Sequence[Row], molecule: Molecule) -> Shape:
    """The conformer, whole or in part, or why there is none."""
    if not sample["text"]:
        return Shape(None, (), "There is no text to read a conformer from.")
    try:
        mol = decode(sample["text"]).mol
    except DriftscopeError as error:
        return _partial(error.what, blocks, molecule)
    atoms = [row["atom"] if row["atom"] is not None else -1 for row in blocks]
    if len(atoms) != mol.GetNumAtoms():  # a cleanup took blocks away, or their rows are not there
        atoms = list(range(mol.GetNumAtoms())) if mol.GetNumAtoms() == molecule.atoms else [-1] * mol.GetNumAtoms()
    return Shape(mol, tuple(atoms), "")


def _partial(reason: str, blocks: Sequence[Row], molecule: Molecule) -> Shape:
    spots = {row["atom"]: spot for row in blocks if (spot := _spot(row)) is not None}
    kept = sorted(atom for atom in spots if atom is not None and 0 <= atom < molecule.atoms)
    if not kept:
        return Shape(None, (), f"The text does not decode: {reason}.")
    mol = _only(molecule, kept)
    conformer = Chem.Conformer(len(kept))
    conformer.Set3D(True)
    for place, atom in enumerate(kept):
        conformer.SetAtomPosition(place, Point3D(*spots[atom]))
    mol.AddConformer(conformer, assignId=True)
    said = f"The text does not decode: {reason}. Shown are {len(kept)} of {molecule.atoms} atoms, as far as"
    return Shape(mol, tuple(kept), f"{said} their blocks can be read.")


def _spot(row: Row) -> Spot | None:
    x, y, z = row["x"], row["y"], row["z"]
    return None if x is None or y is None or z is None else (x, y, z)


def _only(molecule: Molecule, kept: Sequence[int]) -> Chem.Mol:
    """These atoms with the bonds between them; rings that are no longer whole are no longer aromatic."""
    if len(kept) == molecule.atoms:
        whole = Chem.Mol(molecule.mol)
        whole.RemoveAllConformers()
        return whole
    with captured_log():
        mol = Chem.RWMol(molecule.mol)
        mol.RemoveAllConformers()
        Chem.Kekulize(mol, clearAromaticFlags=True)
        mol.BeginBatchEdit()
        for atom in set(range(molecule.atoms)).difference(kept):
            mol.RemoveAtom(atom)
        mol.CommitBatchEdit()
        for atom in mol.GetAtoms():
            atom.SetNoImplicit(True)  # what its neighbours took is not filled with hydrogens
        mol.UpdatePropertyCache(strict=False)
        return mol.GetMol()
