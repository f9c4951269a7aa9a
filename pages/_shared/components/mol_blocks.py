"""Mol blocks for the 3D views: written by RDKit, without a title, of the atoms that have a place in the text.

No text from outside is in one: a mol block's title is its only free line, and it is blanked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from rdkit import Chem

from engine.chem.rdkit_log import captured_log


def mol_block(mol: Chem.Mol) -> str:
    bare = Chem.Mol(mol)
    bare.SetProp("_Name", "")
    with captured_log():
        return str(Chem.MolToMolBlock(bare, kekulize=False))


def without_last_hydrogens(mol: Chem.Mol) -> Chem.Mol:
    """A copy without the hydrogens behind the last other atom, where RDKit adds them: all indices stay."""
    numbers = [atom.GetAtomicNum() for atom in mol.GetAtoms()]
    kept = max((index + 1 for index, number in enumerate(numbers) if number != 1), default=len(numbers))
    return _without(mol, range(kept, len(numbers)))


def without_hydrogens(mol: Chem.Mol) -> Chem.Mol:
    """A copy without any hydrogen, unless there is nothing else."""
    numbers = [atom.GetAtomicNum() for atom in mol.GetAtoms()]
    light = [index for index, number in enumerate(numbers) if number == 1]
    return _without(mol, light if len(light) < len(numbers) else [])


def _without(mol: Chem.Mol, atoms: Sequence[int]) -> Chem.Mol:
    """Bonds become single and double ones first: rings that lose a hydrogen could not any more."""
    bare = Chem.RWMol(mol)
    with captured_log():
        with suppress(ValueError):  # there are none: they are drawn as aromatic
            Chem.Kekulize(bare, clearAromaticFlags=True)
        for index in sorted(atoms, reverse=True):
            bare.RemoveAtom(index)
        bare.UpdatePropertyCache(strict=False)
    return bare.GetMol()
