"""Which molecules no embedded model may be trained on: one in ten, by a hash of the molecule's skeleton.

The skeleton keeps elements and which atoms are bonded, and nothing else: no stereo, isotopes, charges, bond orders,
hydrogens, and of several fragments only the largest. So salts, labelled forms, stereoisomers, tautomers and oxidation
states of a held-out molecule are held out with it. The price: molecules that differ in bond orders alone, such as
benzene and cyclohexane, share their fate. The rule needs no list, and holds for fragments as for whole molecules.

It rests on RDKit's canonical order of the pinned version; a test keeps a few known skeletons.
"""

from __future__ import annotations

import hashlib
from typing import Any

from rdkit import Chem
from rdkit.Chem import rdMolHash

from engine.chem.smiles import parse_smiles
from engine.records import Molecule

HELD_OUT_ONE_IN = 10


def is_held_out(smiles: str) -> bool:
    """Whether a molecule is kept from training; the errors are those of ``parse_smiles``."""
    return skeleton_is_held_out(skeleton(parse_smiles(smiles)))


def skeleton_is_held_out(key: str) -> bool:
    digest = hashlib.sha256(key.encode("ascii")).digest()
    return int.from_bytes(digest[:8]) % HELD_OUT_ONE_IN == 0


def skeleton(molecule: Molecule | Chem.Mol) -> str:
    """Elements and connectivity of the largest fragment, as a SMILES of single bonds."""
    mol = Chem.Mol(molecule.mol if isinstance(molecule, Molecule) else molecule)
    for atom in mol.GetAtoms():
        atom.SetIsotope(0)
    Chem.RemoveStereochemistry(mol)
    # MOSES has neither explicit hydrogens nor fragments, and there are 1.6 million of them: both steps cost time.
    if any(atom.GetAtomicNum() == 1 for atom in mol.GetAtoms()):
        parameters = Chem.RemoveHsParameters()
        parameters.removeDefiningBondStereo = True  # [H]/N=C/C keeps its hydrogen otherwise
        parameters.showWarnings = False
        mol = Chem.RemoveHs(mol, parameters)
    kind: Any = rdMolHash.HashFunction
    parts = Chem.GetMolFrags(mol, asMols=True) if len(Chem.GetMolFrags(mol)) > 1 else [mol]
    keys = [(part.GetNumHeavyAtoms(), str(rdMolHash.MolHash(part, kind.ElementGraph))) for part in parts]
    return max(keys)[1]
