"""The guard of a molecule: what the verdict would say in the end, said as each atom comes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rdkit import Chem

from engine.chem import guard as guards
from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.frame import add_conformer
from engine.chem.guard import MoleculeGuard
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import judge_answer
from engine.errors import UnsupportedMoleculeError
from engine.lp_records import GUARD_CHECKS
from tests.support import sized

TARTARIC = "OC(=O)[C@H](O)[C@@H](O)C(=O)O"  # its own mirror image: right by a symmetry, with its atoms exchanged
SMILES = ("C/C=C/[C@@H](O)c1ccncc1", "C[S@](=O)c1ccccc1", "C1CCCCC1Cl", TARTARIC, "CC(C)(C)[N+](=O)[O-]")


def xyz_of(smiles: str, seed: int = 1) -> np.ndarray:
    return np.array(reference_conformers(parse_smiles(smiles), seed=seed).GetConformer().GetPositions())


def verdicts(guard: MoleculeGuard, xyz: np.ndarray) -> list[guards.WrongPlace]:
    return [wrong for atom in range(len(xyz)) for wrong in guard.wrong_places(xyz, atom)]


@pytest.mark.soak
@pytest.mark.parametrize("smiles", SMILES)
def test_what_passes_atom_by_atom_is_right_and_what_is_wrong_is_caught(smiles: str) -> None:
    """Conformers as they are, mirrored, and bent by more and more."""
    molecule = parse_smiles(smiles)
    guard, rng = MoleculeGuard(molecule.mol), np.random.default_rng(3)
    kept = wrong = 0
    for number in range(sized(12, 100)):
        xyz = xyz_of(smiles, number % 5) + rng.normal(0, 0.04 * (number % 6), (molecule.atoms, 3))
        xyz *= [-1 if number % 4 == 3 else 1, 1, 1]
        mol = Chem.Mol(molecule.mol)
        add_conformer(mol, xyz)
        xyz = np.trunc(xyz * 1e4) / 1e4  # as the text will have it
        verdict = judge_answer(encode(mol).text, molecule.mol)
        passes = not verdicts(guard, xyz)
        is_right = verdict.geometry_right is not False and verdict.stereo_right is not False
        assert is_right or not passes, verdict.failed
        assert passes or not is_right or smiles == TARTARIC
        kept, wrong = kept + passes, wrong + (not passes)
    assert kept and wrong


def test_each_check_names_the_atoms_that_it_was_made_of() -> None:
    smiles = "C[C@H](N)C(=O)O"
    guard, right = MoleculeGuard(parse_smiles(smiles).mol), xyz_of(smiles)
    assert verdicts(guard, right) == []
    stretched, mirrored, crushed = right.copy(), right * [-1, 1, 1], right.copy()
    stretched[2] = right[1] + 2 * (right[2] - right[1])
    crushed[5] = right[0] + 0.5
    assert guards.WrongPlace("bonds", (1, 2)) in guard.wrong_places(stretched, 2)
    assert verdicts(guard, mirrored) == [guards.WrongPlace("stereo", (1, 0, 2, 3))]
    assert guards.WrongPlace("clash", (0, 5)) in guard.wrong_places(crushed, 5)
    assert guard.wrong_places(crushed, 4) == [], "the fifth atom is not asked for before it comes"


@pytest.mark.parametrize("check", GUARD_CHECKS)
def test_only_the_checks_that_are_asked_for_are_made(check: Any) -> None:
    smiles = "F/C=C/c1ccccc1"
    collapsed = np.random.default_rng(0).normal(0, 1, (9, 3))
    checks = {wrong.check for wrong in verdicts(MoleculeGuard(parse_smiles(smiles).mol, (check,)), collapsed)}
    assert checks == {check}


def test_a_hydrogen_of_the_text_is_not_asked_for() -> None:
    guard, right = MoleculeGuard(parse_smiles("[2H]C(C)=O").mol), xyz_of("[2H]C(C)=O")
    assert [guard.wrong_places(right, atom) for atom in range(len(right))] == [[]] * len(right)


def test_without_bounds_there_is_no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.chem.geometry.pair_bounds", lambda mol: None)
    with pytest.raises(UnsupportedMoleculeError, match="no bounds for"):
        MoleculeGuard(parse_smiles("CCO").mol)
