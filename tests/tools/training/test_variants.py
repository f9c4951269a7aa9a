"""Variants: what a molecule is turned into is valid, is what was asked for, and does not depend on chance."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem

from tools.training import variants

MOLECULES = [
    "CC1C2CCC(C2)C1CN(CCO)C(=O)c1ccc(Cl)cc1",
    "CCCC(NC(=O)c1ccncc1)C(=O)O",
    "CC(=NNc1ccccc1)c1ccc(O)cc1",
    "Cc1nn(CCN2CCOCC2)c(C)c1S(=O)(=O)NC1CCCC1",
    "CCCCn1cnc2ccccc21",
    "c1ccccc1",
]
MAKERS = [
    variants.stereoisomers,
    variants.double_bond_isomers,
    variants.dehydrogenated,
    variants.charged,
    variants.salts,
    variants.labelled,
    variants.fragments,
]


def made(maker: variants.Make, smiles: str, draw: int) -> list[str]:
    """The first candidates, which are all that the builder looks at as a rule."""
    return [Chem.MolToSmiles(mol) for mol in islice(maker(Chem.MolFromSmiles(smiles), draw), 3)]


@given(st.sampled_from(MAKERS), st.sampled_from(MOLECULES), st.integers(0, 2**64 - 1))
def test_candidates_are_valid_and_follow_from_the_draw(maker: variants.Make, smiles: str, draw: int) -> None:
    candidates = made(maker, smiles, draw)
    assert candidates == made(maker, smiles, draw)
    assert all(Chem.MolFromSmiles(candidate) is not None for candidate in candidates)


def heavy_atoms(smiles: str) -> int:
    return int(Chem.MolFromSmiles(smiles).GetNumHeavyAtoms())


@given(st.sampled_from(MOLECULES), st.integers(0, 2**64 - 1))
@settings(max_examples=20)
def test_each_kind_is_what_it_says(smiles: str, draw: int) -> None:
    assert all("@" in text or "/" in text for text in made(variants.stereoisomers, smiles, draw))
    assert all("/" in text for text in made(variants.double_bond_isomers, smiles, draw))
    assert all("/" in text for text in made(variants.dehydrogenated, smiles, draw))
    assert all("+" in text or "-]" in text for text in made(variants.charged, smiles, draw))
    assert all("." in text for text in made(variants.salts, smiles, draw))
    assert all(any(f"[{digit}" in text for digit in "12378") for text in made(variants.labelled, smiles, draw))
    assert all(3 <= heavy_atoms(text) <= 12 for text in made(variants.fragments, smiles, draw))


@pytest.mark.parametrize("maker", [variants.double_bond_isomers, variants.dehydrogenated, variants.stereoisomers])
def test_what_has_no_stereo_offers_none(maker: variants.Make) -> None:
    assert made(maker, "c1ccccc1", 3) == []


def test_an_acid_with_an_amine_becomes_a_zwitterion_first() -> None:
    assert made(variants.charged, "CN(C)CC(=O)O", 0)[0] == "C[NH+](C)CC(=O)[O-]"


def test_a_cut_bond_at_an_aromatic_nitrogen_leaves_nh() -> None:
    found = {text for draw in range(12) for text in made(variants.fragments, "O=C(Cn1ccnc1)NCCc1ccccc1", draw)}
    assert "c1c[nH]cn1" in found


def test_salts_are_neutral_where_both_ions_are_single() -> None:
    for draw in range(12):
        for text in made(variants.salts, "CCCC(NC(=O)c1ccncc1)C(=O)O", draw):
            assert Chem.GetFormalCharge(Chem.MolFromSmiles(text)) == 0
