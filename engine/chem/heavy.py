"""A molecule without the hydrogens that SMILES leaves implicit."""

from __future__ import annotations

from rdkit import Chem

from engine.chem.rdkit_log import captured_log

_TEXT_ATOM = "text_atom"


def heavy_of(mol: Chem.Mol) -> tuple[Chem.Mol, tuple[int, ...]]:
    """The molecule without hydrogens that SMILES leaves implicit, and each atom's index in the text."""
    if all(atom.GetAtomicNum() > 1 for atom in mol.GetAtoms()):
        return mol, tuple(range(mol.GetNumAtoms()))
    for atom in mol.GetAtoms():
        atom.SetIntProp(_TEXT_ATOM, atom.GetIdx())
    with captured_log():
        heavy = Chem.RemoveHs(mol)
    return heavy, tuple(atom.GetIntProp(_TEXT_ATOM) for atom in heavy.GetAtoms())
