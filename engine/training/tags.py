"""What a molecule is, as the tags of ``data/molecules.tsv`` say it. Their meanings stand in ``TAGS``.

Origin (``moses``, ``fragment``, ``variant``, ``written``) is not a property of a molecule and not found here.
"""

from __future__ import annotations

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from engine.chem.frame import principal_axis_frame
from engine.records import Molecule
from engine.training.held_out import skeleton, skeleton_is_held_out

SMALL_HEAVY_ATOMS = 12
LARGEST_COMMON_RING = 9
WIDE_ANG = 10.0

_PATTERNS = {
    "cumulene": "*=[#6X2]=*",
    "triple": "*#*",
    "nitro": "[$([NX3+](=O)[O-])]",
    "n-oxide": "[#7+;!$([#7]=O);$([nX3,NX4]),$([NX3]=[#6]),$([NX2]#[#6])]-[OX1-]",
    "dative": "*->*",
    "boron": "[#5]",
    "iodine": "[#53]",
}


def structure_tags(molecule: Molecule) -> set[str]:
    """The tags that follow from the structure alone."""
    mol, smiles = molecule.mol, molecule.smiles
    atoms = list(mol.GetAtoms())
    centres = [atom for atom in atoms if atom.GetChiralTag() != Chem.ChiralType.CHI_UNSPECIFIED]
    ez = any(bond.GetStereo() > Chem.BondStereo.STEREOANY for bond in mol.GetBonds())
    found = {
        "held-out": skeleton_is_held_out(skeleton(molecule)),
        "small": molecule.heavy_atoms <= SMALL_HEAVY_ATOMS,
        "stereo": bool(centres) or ez,
        "ez": ez,
        "ps-stereo": any(atom.GetSymbol() in ("P", "S") for atom in centres),
        "charged": any(atom.GetFormalCharge() for atom in atoms),
        "parts": "." in smiles,
        "isotope": any(atom.GetIsotope() for atom in atoms),
        "hydrogen": "H" in molecule.elements,
        "nh": any(atom.GetSymbol() == "N" and atom.GetIsAromatic() and atom.GetTotalNumHs() for atom in atoms),
        "two-letter": any(len(element) == 2 for element in molecule.elements),
        "percent": "%" in smiles,
        "macrocycle": any(len(ring) > LARGEST_COMMON_RING for ring in mol.GetRingInfo().AtomRings()),
        "spiro": rdMolDescriptors.CalcNumSpiroAtoms(mol) > 0,
    }
    return {tag for tag, holds in found.items() if holds} | _matching(mol)


def is_wide(conformer: Chem.Mol) -> bool:
    """Whether a coordinate of the first conformer needs two integer digits in the principal-axis frame."""
    xyz = principal_axis_frame(conformer.GetConformer().GetPositions())
    return bool(np.abs(xyz).max() >= WIDE_ANG)


def _matching(mol: Chem.Mol) -> set[str]:
    return {tag for tag, pattern in _PATTERNS.items() if mol.HasSubstructMatch(Chem.MolFromSmarts(pattern))}
