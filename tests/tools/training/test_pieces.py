"""Pieces of molecules: whole, valid, of the wanted size, and the same again."""

from __future__ import annotations

from random import Random

import pytest
from rdkit import Chem

from engine.chem.molecule_sets import load_molecule_set
from tools.training.molecules import branched, piece_near

DRUGS = [entry.smiles for entry in load_molecule_set(60, tag="moses")]


def pieces(wanted: int, most: int) -> list[Chem.Mol]:
    found = [piece_near(Chem.MolFromSmiles(smiles), wanted, most, Random(index)) for index, smiles in enumerate(DRUGS)]
    return [piece for piece in found if piece is not None]


@pytest.mark.parametrize(("wanted", "most"), [(4, 18), (10, 12), (18, 18), (99, 99)])
def test_a_piece_hangs_together_and_fits(wanted: int, most: int) -> None:
    found = pieces(wanted, most)
    assert len(found) > len(DRUGS) / 2
    for piece in found:
        assert piece.GetNumAtoms() <= most
        assert len(Chem.GetMolFrags(piece)) == 1
        assert Chem.MolFromSmiles(Chem.MolToSmiles(piece)) is not None
        assert not any(atom.GetNumRadicalElectrons() for atom in piece.GetAtoms())


def test_sizes_follow_what_is_wanted() -> None:
    means = [sum(piece.GetNumAtoms() for piece in found) / len(found) for found in (pieces(4, 18), pieces(12, 18))]
    assert means[0] < 9 < 12 <= means[1]


def test_a_piece_of_everything_is_the_molecule() -> None:
    whole = Chem.MolFromSmiles("COc1ccc(-c2c[nH]cn2)cc1")
    piece = piece_near(whole, 99, 99, Random(0))
    assert piece is not None
    assert Chem.MolToSmiles(piece) == Chem.MolToSmiles(whole)


def test_chance_is_the_random_state_alone() -> None:
    assert [Chem.MolToSmiles(piece) for piece in pieces(8, 14)] == [Chem.MolToSmiles(piece) for piece in pieces(8, 14)]


def test_hydrogens_take_the_place_of_what_is_cut() -> None:
    pyrrole = Chem.MolFromSmiles("O=C(CCCC)n1cccc1")
    found = {Chem.MolToSmiles(piece) for k in range(20) if (piece := piece_near(pyrrole, 5, 5, Random(k)))}
    assert "c1cc[nH]c1" in found


def test_groups_make_stereocentres_and_fit() -> None:
    flat = Chem.MolFromSmiles("CCCC(=O)NCCc1ccccc1")
    made = {Chem.MolToSmiles(branched(flat, 15, Random(k))) for k in range(40)}
    sizes = {Chem.MolFromSmiles(smiles).GetNumAtoms() for smiles in made}
    assert sizes == {15} and len(made) > 5, "one more atom fits"
    centres = [Chem.FindPotentialStereo(Chem.MolFromSmiles(smiles)) for smiles in made]
    assert sum(len(found) == 1 for found in centres) > len(made) / 2
    assert not any("FC(" in smiles and "NC(F)" in smiles for smiles in made), "no halogen beside a nitrogen"
    ring = Chem.MolFromSmiles("c1ccccc1")
    assert Chem.MolToSmiles(branched(ring, 99, Random(0))) == Chem.MolToSmiles(ring)
