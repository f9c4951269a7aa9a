"""The verdict on an answer's molecule: what fails, at which atoms of the text, and what makes it usable."""

from __future__ import annotations

import pytest
from rdkit import Chem

from engine.chem import stereo
from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import GRAPH, LOADED, STEREO, JudgeSettings, judge_answer, strain_words
from engine.records import MoleculeVerdict

ALANINE = "C[C@H](N)C(=O)O"


def text_of(smiles: str, *, mirrored: bool = False) -> str:
    mol = reference_conformers(parse_smiles(smiles))
    if mirrored:
        conformer = mol.GetConformer()
        conformer.SetPositions(conformer.GetPositions() * [-1.0, 1.0, 1.0])
    return encode(mol).text


def mol_of(smiles: str) -> Chem.Mol:
    return parse_smiles(smiles).mol


@pytest.mark.parametrize("smiles", [ALANINE, "F/C=C/Cl", "C[C@H](O)[C@@H](N)C"])
def test_a_right_conformer_fails_nothing_and_its_mirror_image_its_centres(smiles: str) -> None:
    right, mirrored = (judge_answer(text_of(smiles, mirrored=side), mol_of(smiles)) for side in (False, True))
    assert right.failed == ()
    assert right.stereo_right is right.geometry_right is right.is_usable(True) is True
    if "@" in smiles:
        centres = [atom.GetIdx() for atom in mol_of(smiles).GetAtoms() if "@" in atom.GetSmarts()]
        assert [(failure.check, failure.detail) for failure in mirrored.failed] == [(STEREO, "mirrored")] * len(centres)
        assert sorted(failure.atoms[0] for failure in mirrored.failed) == centres
        assert mirrored.stereo_sites_right == 0
        assert mirrored.is_usable(True) is False


def test_without_a_molecule_that_was_asked_the_texts_own_is_judged() -> None:
    assert judge_answer(text_of(ALANINE, mirrored=True), None).stereo_right is False
    verdict = judge_answer(text_of("CCO"), None)
    assert (verdict.stereo_right, verdict.stereo_sites) == (None, 0)
    assert (verdict.is_usable(True), verdict.is_usable(False)) == (True, False)


def test_text_that_does_not_read_names_its_block_and_is_judged_in_nothing() -> None:
    verdict = judge_answer("[C]<0.0000,0.0000,0.0000>[O]<1.4000,0.0x00,0.0000>", mol_of("CO"))
    assert [(failure.check, failure.atoms) for failure in verdict.failed] == [(LOADED, (1,))]
    assert verdict.stereo_right is verdict.geometry_right is None


def test_another_molecule_is_named_and_its_geometry_judged() -> None:
    verdict = judge_answer(text_of("CCN"), mol_of(ALANINE))
    assert [failure.check for failure in verdict.failed] == [GRAPH]
    assert verdict.stereo_right is None
    assert verdict.geometry_right is True


def test_atoms_are_those_of_the_text_where_it_is_in_another_order_and_has_hydrogens() -> None:
    text = "[H]<-1.0000,0.0000,0.0000>[O]<0.0000,0.0000,0.0000>[C]<1.4000,0.0000,0.0000>[C]<9.0000,0.0000,0.0000>"
    verdict = judge_answer(text, mol_of("CCO"))
    bonds = [failure.atoms for failure in verdict.failed if failure.check == "bond_lengths"]
    assert bonds == [(2, 3)]


def test_the_strain_of_a_crushed_conformer_is_no_figure() -> None:
    row = {"strain_kcal": 36.1, "strain_moved_ang": 2.16, "strain_field": "UFF", "heavy_atoms": 14, "same_graph": True}
    assert strain_words(row).startswith("36.1 kcal/mol; 2.58 per heavy atom; ")
    assert strain_words(row | {"strain_kcal": 1.8e7}) == "over 10,000 kcal/mol; atoms lie in one another"


def test_strain_and_energy_are_judged_on_request() -> None:
    text = text_of("CCO")
    plain = judge_answer(text, None)
    asked_for = judge_answer(text, None, JudgeSettings("group", energy=True, strain="force-field"))
    assert (plain.strain_kcal, plain.strain_field, plain.strain_moved_ang) == (None, None, None)
    assert asked_for.strain_kcal is not None and asked_for.strain_moved_ang is not None
    assert (asked_for.strain_field, asked_for.geometry_right) == ("MMFF94", True)


def test_what_nothing_says_to_be_right_is_not_usable() -> None:
    assert MoleculeVerdict(0, 0, None, None, ()).is_usable(True) is False


def test_a_wrong_centre_that_an_untried_symmetry_might_put_right_is_neither_wrong_nor_usable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stereo, "MOST_SYMMETRIES", 1)
    right, mirrored = (judge_answer(text_of(ALANINE, mirrored=side), mol_of(ALANINE)) for side in (False, True))
    assert right.is_usable(True) is True
    assert (mirrored.stereo_right, mirrored.stereo_sites, mirrored.failed) == (None, 1, ())
    assert mirrored.is_usable(True) is False
