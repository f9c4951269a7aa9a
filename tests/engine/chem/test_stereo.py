"""Hands of conformers: right ones pass, mirrored ones are caught, and what nobody specified is not judged."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from rdkit import Chem, rdBase
from rdkit.Chem import rdDistGeom

from engine.chem.conformers import reference_conformers
from engine.chem.frame import add_conformer
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles
from engine.chem.stereo import StereoVerdict, judge_stereo, stereo_goals
from engine.errors import GraphMismatchError
from tests.support import sized

MOLECULES, CONFORMERS = sized(20, 300), 5


def moved(mol: Chem.Mol, by: np.ndarray) -> Chem.Mol:
    """A copy whose coordinates are multiplied by a vector or a matrix."""
    copy = Chem.Mol(mol)
    copy.RemoveAllConformers()
    positions = mol.GetConformer().GetPositions()
    add_conformer(copy, positions * by if by.ndim == 1 else positions @ by)
    return copy


TETRAHEDRAL = {Chem.ChiralType.CHI_TETRAHEDRAL_CW, Chem.ChiralType.CHI_TETRAHEDRAL_CCW}
MIRROR, PRESS = np.array([-1.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0])


def judged(smiles: str, by: np.ndarray | None = None) -> StereoVerdict:
    molecule = parse_smiles(smiles)
    conformer = reference_conformers(molecule)
    return judge_stereo(molecule.mol, conformer if by is None else moved(conformer, by))


@pytest.mark.parametrize(
    ("smiles", "sites"),
    [
        ("C[C@H](N)C(=O)O", 1),  # an implicit hydrogen
        ("C[S@](=O)c1ccccc1", 1),
        ("CC(C)(C)[C@H](C(F)(F)F)N(C(C)(C)C)C(C(C)(C)C)C(C)(C)C", 1),  # fifteen methyls: 6 ** 5 * 6 symmetries
        ("C[C@H]1C[N@]1C", 2),  # a ring nitrogen, which AssignStereochemistryFrom3D loses
        ("O=C(O)[C@H](O)[C@@H](O)C(=O)N", 2),
    ],
)
def test_a_chiral_molecule_is_right_and_its_mirror_image_is_not(smiles: str, sites: int) -> None:
    right, mirrored = judged(smiles), judged(smiles, MIRROR)
    assert right.right is True
    assert len(right.sites) == sites
    assert mirrored.right is False
    assert {site.word for site in mirrored.sites} == {"mirrored"}


@pytest.mark.parametrize(
    "smiles",
    [
        "OC(=O)[C@H](O)[C@H](O)C(=O)O",  # meso tartaric acid
        "C[C@H](F)[C@H](O)[C@@H](C)F",  # a centre whose neighbours differ in their hands alone
        "F/C=C/F",
    ],
)
def test_what_equals_its_mirror_image_is_right_both_ways(smiles: str) -> None:
    assert judged(smiles).right is True
    assert judged(smiles, MIRROR).right is True


@pytest.mark.parametrize("smiles", ["CC(N)C(=O)O", "CC=CC"])
def test_what_nobody_specified_is_not_judged(smiles: str) -> None:
    assert judged(smiles) == StereoVerdict((), complete=True)
    assert judged(smiles).right is None


def test_a_double_bond_on_the_other_side_and_a_twisted_one() -> None:
    molecule, other = parse_smiles("C/C=C/C(F)F"), parse_smiles("C/C=C\\C(F)F")
    (site,) = judge_stereo(molecule.mol, reference_conformers(other)).wrong
    assert (site.atoms, site.word) == ((1, 2), "wrong side")
    for degrees, word in [(0, "wrong side"), (45, "wrong side"), (90, "twisted"), (135, "right"), (180, "right")]:
        angle = np.radians(degrees + 45)
        copy = parse_smiles("F/C=C/F").mol
        add_conformer(copy, np.array([[1, 1, 0], [0, 0, 0], [0, 0, 1.3], [np.cos(angle), np.sin(angle), 2]]))
        assert [site.word for site in judge_stereo(parse_smiles("F/C=C/F").mol, copy).sites] == [word], degrees


def test_a_flat_centre_and_a_nearly_planar_one() -> None:
    smiles = "F[C@](Cl)(Br)I"
    assert [site.word for site in judged(smiles, PRESS).sites] == ["flat"]
    verdicts = []
    for height in (0.8, 0.1, 0.02, -0.02, -0.8):
        mol = parse_smiles("C[S@](=O)c1ccccc1").mol
        turns = np.radians([0, 120, 240])
        arms = np.stack([np.cos(turns), np.sin(turns), np.full(3, height)], axis=1)
        (sulfur,) = (atom for atom in mol.GetAtoms() if atom.GetSymbol() == "S")
        xyz = np.random.default_rng(0).normal(size=(mol.GetNumAtoms(), 3)) + 9
        xyz[sulfur.GetIdx()] = 0
        for bond, arm in zip(sulfur.GetBonds(), arms, strict=True):
            xyz[bond.GetOtherAtomIdx(sulfur.GetIdx())] = arm
        add_conformer(mol, xyz)
        verdicts.append(judge_stereo(parse_smiles("C[S@](=O)c1ccccc1").mol, mol))
    words = ["right", "nearly planar", "flat", "flat", "mirrored"]
    assert [site.word for verdict in verdicts for site in verdict.sites] == words


@pytest.mark.parametrize("smiles", ["C[C@](N)(O)F", "CC[C@](C)(O)C#N", "C[C@@]1(O)CCCCC1=O"])
def test_no_centre_is_right_that_rdkit_takes_for_mirrored(smiles: str) -> None:
    """With four neighbours, in conformers whose atoms were moved: the centre may lie outside of them."""
    mol, draws = parse_smiles(smiles).mol, np.random.default_rng(3)
    whole = Chem.AddHs(mol)
    rdDistGeom.EmbedMolecule(whole, randomSeed=1)
    placed, seen = Chem.RemoveHs(whole), Counter[tuple[bool | None, bool]]()
    for _ in range(300):
        shaken = Chem.Mol(mol)
        add_conformer(shaken, placed.GetConformer().GetPositions() + draws.normal(0, 0.4, (mol.GetNumAtoms(), 3)))
        tagged = Chem.Mol(shaken)
        Chem.RemoveStereochemistry(tagged)
        Chem.AssignAtomChiralTagsFromStructure(tagged)
        is_mirrored = any(
            {atom.GetChiralTag(), tagged.GetAtomWithIdx(atom.GetIdx()).GetChiralTag()} == TETRAHEDRAL
            for atom in mol.GetAtoms()
        )
        seen[judge_stereo(mol, shaken).right, is_mirrored] += 1
    assert seen[True, True] == 0 < min(seen[True, False], seen[False, True])


def test_the_order_of_the_answers_atoms_is_free() -> None:
    molecule = parse_smiles("C[C@H](N)C(=O)N[C@@H](CO)/C=C/c1ccccc1")
    conformer = reference_conformers(molecule)
    order = np.random.default_rng(1).permutation(conformer.GetNumAtoms()).tolist()
    shuffled = Chem.RenumberAtoms(conformer, order)
    assert judge_stereo(molecule.mol, shuffled) == judge_stereo(molecule.mol, conformer)
    assert judge_stereo(molecule.mol, Chem.AddHs(shuffled, addCoords=True)).right is True
    with pytest.raises(GraphMismatchError, match="another molecule"):
        judge_stereo(parse_smiles("C[C@H](N)O").mol, conformer)


@pytest.mark.soak
def test_right_conformers_pass_and_mirrored_ones_are_caught() -> None:
    judged_right = chiral = 0
    with rdBase.BlockLogs():
        for entry in load_molecule_set(MOLECULES, tag="stereo"):
            if "@SP" in entry.smiles:  # metals' own kinds of stereo are not judged
                continue
            mol = parse_smiles(entry.smiles).mol
            whole, settings = Chem.AddHs(mol), rdDistGeom.ETKDGv3()
            settings.randomSeed, settings.maxIterations = 7, 5
            rdDistGeom.EmbedMultipleConfs(whole, CONFORMERS, settings)
            flipped = Chem.Mol(mol)
            for atom in flipped.GetAtoms():
                atom.InvertChirality()
            is_chiral = Chem.CanonSmiles(Chem.MolToSmiles(flipped)) != Chem.CanonSmiles(Chem.MolToSmiles(mol))
            for conformer in whole.GetConformers():
                heavy = Chem.RemoveHs(Chem.Mol(whole, confId=conformer.GetId()))
                assert judge_stereo(mol, heavy).right is True, entry.smiles
                judged_right += 1
                if conformer.GetId() == 0 and is_chiral:
                    assert judge_stereo(mol, moved(heavy, MIRROR)).right is False, entry.smiles
                    chiral += 1
    assert judged_right > CONFORMERS * MOLECULES / 2 and chiral > MOLECULES / 3


def test_a_centre_within_its_neighbours_spans_all_four_corners_and_one_outside_does_not() -> None:
    """RDKit takes the second for the mirror image, though the four neighbours lie as they should."""
    mol = Chem.MolFromSmiles("N[C@](C)(O)F")
    whole = Chem.AddHs(mol)
    rdDistGeom.EmbedMolecule(whole, randomSeed=2)
    positions = Chem.RemoveHs(whole).GetConformer().GetPositions()
    (goal,) = stereo_goals(mol)
    spanned = positions[None, list(goal.spanned_by)]
    assert goal.least_corner(spanned)[0] > 0.4

    outside = spanned.copy()
    outside[:, 0] += 1.3 * (outside[:, 1] + outside[:, 2] + outside[:, 3] - 3 * outside[:, 0]) / 3
    assert goal.least_corner(outside)[0] < 0.1
