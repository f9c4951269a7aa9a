"""The held-out rule: forms of one molecule share their fate, and the rule stays what it was."""

from __future__ import annotations

import pytest

from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles
from engine.errors import SmilesError
from tests.support import sized
from tools.training.molecules import is_held_out, skeleton, skeleton_is_held_out

FORMS = [
    ["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CC([NH3+])C(=O)[O-]", "[2H]C([2H])([2H])C(N)C(=O)O", "CC(N)C(O)O"],
    ["O=c1cc[nH]cc1", "Oc1ccncc1", "O=C1CCNCC1", "Oc1cc[nH+]cc1.[Cl-]", "[18OH]C1CCNCC1"],
    ["CCC(C)=N", "[H]/N=C(/C)CC", "[H]/N=C(\\C)CC", "CCC(C)N", "CCC(C)[NH3+].[O-]C=O"],
]


@pytest.mark.parametrize("forms", FORMS)
def test_forms_of_one_molecule_share_a_skeleton(forms: list[str]) -> None:
    assert len({skeleton(parse_smiles(smiles)) for smiles in forms}) == 1
    assert len({is_held_out(smiles) for smiles in forms}) == 1


def test_other_constitutions_have_other_skeletons() -> None:
    different = ["CCO", "COC", "CCN", "CCCO", "CC(C)O", "OCCO", "C1CO1", "CCS", "CCCl", "C1CC1"]
    assert len({skeleton(parse_smiles(smiles)) for smiles in different}) == len(different)


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("CC=O", "CCO"),
        ("c1ccccc1", "C1CCCCC1"),
        ("CC(=O)Oc1ccccc1C(=O)[O-].[Na+]", "CC(O)OC1CCCCC1C(O)O"),
        ("Cn1cnc2c1c(=O)n(C)c(=O)n2C", "CN1CNC2C1C(O)N(C)C(O)N2C"),
    ],
)
def test_known_skeletons_stay_what_they_are(smiles: str, expected: str) -> None:
    """A new RDKit that orders atoms in another way would silently hold out other molecules."""
    assert skeleton(parse_smiles(smiles)) == expected


def test_one_skeleton_in_ten_is_held_out() -> None:
    held_out = sum(skeleton_is_held_out("C" * length) for length in range(1, 2001))
    assert 160 <= held_out <= 240
    assert sum(is_held_out(entry.smiles) for entry in load_molecule_set(100, tag="written")) < 30


@pytest.mark.soak
def test_shipped_tags_follow_the_rule() -> None:
    for entry in load_molecule_set(sized(300, None)):
        assert is_held_out(entry.smiles) == ("held-out" in entry.tags)


def test_what_is_no_molecule_is_refused() -> None:
    with pytest.raises(SmilesError):
        is_held_out("C1CC")
