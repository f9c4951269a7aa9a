"""Whole ways to go on are right by the verdict's own checks, and found where a conformer of RDKit shows that one is."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import AllChem

from engine.chem.smiles import parse_written
from engine.lp.completion import Completion
from engine.lp.places import MoleculePlaces
from tests.engine.lp.test_places import is_right

SMILES = (
    "C[C@H](N)C(=O)O",
    "C/C=C/C(=O)OC",
    "C[C@H]1CC[C@H](N)C[C@@H]1C",
    "C[C@]12CC[C@H]3[C@@H](CCC4=CC(=O)CC[C@@]43C)[C@@H]1CC[C@@H]2O",  # testosterone
    "C1C2CC3CC1CC(C2)C3",  # adamantane
)


@pytest.mark.parametrize("smiles", SMILES)
def test_a_way_is_a_right_conformer(smiles: str) -> None:
    mol = parse_written(smiles).mol
    completion, count = Completion(MoleculePlaces(mol)), mol.GetNumAtoms()
    ways = completion.ways(np.zeros((count, 3)), 1, count - 1)
    assert len(ways) >= 2
    for way in ways:
        assert is_right(mol, np.concatenate([np.zeros((1, 3)), way]))


@pytest.mark.parametrize("smiles", SMILES)
def test_a_way_is_found_behind_the_first_half_of_a_conformer(smiles: str) -> None:
    mol = parse_written(smiles).mol
    whole = Chem.AddHs(mol)
    AllChem.EmbedMolecule(whole, randomSeed=5)
    positions = Chem.RemoveHs(whole).GetConformer().GetPositions()
    completion, count = Completion(MoleculePlaces(mol)), mol.GetNumAtoms()
    half = count // 2
    ways = completion.ways(positions, half, count - 1)
    assert len(ways)
    for way in ways:
        assert is_right(mol, np.concatenate([positions[:half], way]))

    # Ways that were right are pulled right again, where the atom before has moved a little.
    moved = positions.copy()
    moved[half] = ways[0][0] + 0.05
    again = completion.ways(moved, half + 1, count - 1, before=ways[:, 1:])
    assert len(again)
    assert all(is_right(mol, np.concatenate([moved[: half + 1], way])) for way in again)


def test_no_way_leads_out_of_what_is_wrong() -> None:
    """Of a chain whose third atom is 7.5 angstrom from its second, no fourth is near enough to both."""
    places = MoleculePlaces(parse_written("CCCO").mol)
    placed = np.array([[0.0, 0, 0], [1.5, 0, 0], [9.0, 0, 0], [0, 0, 0]])
    assert not len(Completion(places).ways(placed, 3, 3))
