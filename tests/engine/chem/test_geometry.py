"""Geometry: each check answers as PoseBusters does, and names the atoms that are wrong."""

from __future__ import annotations

import importlib.metadata

import numpy as np
import posebusters.modules.distance_geometry as library
import pytest
from rdkit import Chem

from engine.chem import geometry
from engine.chem.conformers import reference_conformers
from engine.chem.frame import add_conformer
from engine.chem.geometry import (
    AROMATIC,
    BOND_ANGLES,
    BOND_LENGTHS,
    CLASH,
    DOUBLE_BONDS,
    ENERGY,
    MOST_FAILURES,
    POSEBUSTERS,
    RINGS,
    GeometryVerdict,
    judged_with,
)
from engine.chem.smiles import parse_smiles, read_text_order
from engine.records import FailedCheck
from tests.engine.chem.posebusters_beside import bust, compare, judge_geometry, of, poses
from tests.support import sized


def embedded(smiles: str) -> Chem.Mol:
    return reference_conformers(parse_smiles(smiles))


def moved(mol: Chem.Mol, positions: np.ndarray) -> Chem.Mol:
    copy = Chem.Mol(mol)
    copy.RemoveAllConformers()
    add_conformer(copy, positions)
    return copy


def with_atom_moved(smiles: str, atom: int, to: np.ndarray) -> GeometryVerdict:
    mol = embedded(smiles)
    positions = mol.GetConformer().GetPositions()
    positions[atom] = to
    return judge_geometry(moved(mol, positions))


@pytest.mark.soak
def test_every_check_answers_as_posebusters_does() -> None:
    agreement = compare(sized(16, 150))
    assert not agreement.differ
    seen = {BOND_LENGTHS, BOND_ANGLES, CLASH, *sized([], [AROMATIC, RINGS])}
    assert seen <= set(+agreement.failed)
    assert len(agreement.failed) == 10


@pytest.mark.parametrize(
    "smiles", ["B12B3B4B1B5B2B3B45", "[Fe+2].c1cc[cH-]c1.c1cc[cH-]c1", "[2H]C([2H])[O]", "[Fe]", "[H]/N=C/C=C=C"]
)
def test_cages_metals_and_single_atoms_in_random_places_answer_as_posebusters_does(smiles: str) -> None:
    mol = read_text_order(smiles)
    placed = moved(mol, np.random.default_rng(0).normal(0.0, 1.5, (mol.GetNumAtoms(), 3)))
    theirs, verdict = bust(poses(), placed), judge_geometry(placed)
    assert {name: of(verdict, name) for name in theirs} == theirs


def test_the_version_that_this_agrees_with_is_the_one_that_is_installed_and_stated() -> None:
    assert importlib.metadata.version("posebusters") == POSEBUSTERS
    assert judged_with("group").startswith(f"posebusters {POSEBUSTERS}, group, rdkit ")


def test_bonds_angles_and_clashes_are_named_with_their_atoms() -> None:
    failed = with_atom_moved("CCO", 2, np.array([4.0, 0.0, 0.0])).failed
    assert next(failure.atoms for failure in failed if failure.check == BOND_LENGTHS) == (1, 2)
    folded = with_atom_moved("CCO", 2, embedded("CCO").GetConformer().GetPositions()[0] + 0.4)
    assert [failure.atoms for failure in folded.failed if failure.check == BOND_ANGLES] == [(0, 1, 2)]
    first = embedded("OCCCCO").GetConformer().GetPositions()[0]
    checks = {failure.check: failure for failure in with_atom_moved("OCCCCO", 5, first + 0.3).failed}
    assert checks[CLASH].atoms[0] in (0, 1) and checks[CLASH].atoms[1] == 5


def test_planes_are_named_with_their_atoms() -> None:
    benzene, cyclohexane = embedded("c1ccccc1"), embedded("C1CCCCC1")
    bent = benzene.GetConformer().GetPositions()
    bent[0] += [0.0, 0.0, 1.0]
    ring = next(failure for failure in judge_geometry(moved(benzene, bent)).failed if failure.check == AROMATIC)
    assert sorted(ring.atoms) == list(range(6))
    flat = judge_geometry(moved(cyclohexane, benzene.GetConformer().GetPositions()))
    assert sorted(next(failure.atoms for failure in flat.failed if failure.check == RINGS)) == list(range(6))
    alkene = embedded("CC(C)=C(C)C")
    twisted = alkene.GetConformer().GetPositions()
    twisted[4] += [0.0, 0.0, 1.5]
    assert of(judge_geometry(moved(alkene, twisted)), DOUBLE_BONDS) is False
    assert bust(poses(), moved(alkene, twisted))[DOUBLE_BONDS] is False


@pytest.mark.parametrize(
    ("smiles", "check"), [("C[CH2]", "no_radicals"), ("[Na+].[Cl-]", "all_atoms_connected"), ("C[S]C", None)]
)
def test_what_the_graph_decides_fails_in_every_conformer(smiles: str, check: str | None) -> None:
    mol = Chem.MolFromSmiles(smiles)
    add_conformer(mol, np.arange(mol.GetNumAtoms() * 3, dtype=float).reshape(-1, 3))
    failed = {failure.check for failure in judge_geometry(mol).failed} - {BOND_LENGTHS, BOND_ANGLES}
    assert failed == ({check} if check else set())


def test_a_molecule_without_bounds_is_not_judged_there_and_not_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError

    mol = embedded("CCO")
    monkeypatch.setattr(geometry, "GetMoleculeBoundsMatrix", refuse)
    monkeypatch.setattr(library, "GetMoleculeBoundsMatrix", refuse)
    verdict = judge_geometry(mol)
    assert {of(verdict, check) for check in (BOND_LENGTHS, BOND_ANGLES, CLASH)} == {None}
    assert verdict.right is None
    theirs = bust(poses(), mol)
    assert {name: of(verdict, name) for name in theirs} == theirs


def test_of_a_collapsed_molecule_the_worst_pairs_are_listed_and_the_rest_counted() -> None:
    failed = judge_geometry(moved(embedded("CCCCCCCCCCCC"), np.zeros((12, 3)))).failed
    clashes = [failure for failure in failed if failure.check == CLASH]
    assert len(clashes) == MOST_FAILURES + 1
    assert clashes[-1] == FailedCheck(CLASH, (), f"and {66 - 11 - 10 - MOST_FAILURES} more")


def test_the_groups_settings_leave_out_radicals_and_puckers_and_ask_for_the_energy_on_request() -> None:
    assert of(judge_geometry(Chem.Mol(embedded("CCO")), "group"), ENERGY) is True  # not asked for, so it does not fail
    squeezed = embedded("CCO")
    squeezed = moved(squeezed, squeezed.GetConformer().GetPositions() * 0.5)
    energies = [f for f in judge_geometry(squeezed, "group", energy=True).failed if f.check == ENERGY]
    assert len(energies) == 1
    assert judge_geometry(embedded("CCO"), "mol", energy=True).right is True
