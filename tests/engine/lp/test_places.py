"""Where an atom may stand: RDKit's conformers have their atoms at right places, and what is built of right places alone
the verdict finds right."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import AllChem

from engine.chem.geometry import GeometryChecks
from engine.chem.smiles import parse_written
from engine.chem.stereo import judge_stereo
from engine.lp.places import TOLERANCES, Atoms, Boxes, MoleculePlaces, continuing, find

SMILES = (
    "CC=O",
    "C[C@H](N)C(=O)O",
    "C/C=C/C(=O)OC",
    "O=Cc1cnc([C@@H]2C[C@H](O)CO2)s1",
    "C[C@@H]1CN(C=O)[C@@H](C)CN1c1cc[nH]n1",
    "C[C@H]1CC[C@H](N)C[C@@H]1C",
    "NC(=O)c1cccc2ccccc12",
    "C[C@@H](O)[C@@H](N)C(=O)O",
)
WIDEST = len(TOLERANCES) - 1


def is_right(mol: Chem.Mol, positions: np.ndarray) -> bool:
    answer = Chem.Mol(mol)
    conformer = Chem.Conformer(mol.GetNumAtoms())
    conformer.SetPositions(np.ascontiguousarray(positions, dtype=np.float64))
    answer.RemoveAllConformers()
    answer.AddConformer(conformer)
    return GeometryChecks(mol).judge(positions).right is True and judge_stereo(mol, answer).right is not False


@pytest.mark.parametrize("smiles", SMILES)
def test_no_atom_of_a_right_conformer_is_struck_in_the_widest_tolerance(smiles: str) -> None:
    mol = parse_written(smiles).mol
    whole = Chem.AddHs(mol)
    AllChem.EmbedMultipleConfs(whole, 5, randomSeed=7)
    AllChem.MMFFOptimizeMoleculeConfs(whole)
    places = MoleculePlaces(mol)
    judged = 0
    for conformer in Chem.RemoveHs(whole).GetConformers():
        positions = np.trunc(conformer.GetPositions() * 1e4) / 1e4
        if not is_right(mol, positions):
            continue
        judged += 1
        for checks in places.checks:
            x, y, z = positions[checks.atom]
            box = Boxes(np.array([0]), np.array([2]), np.array([[x, y, 0]]), np.array([z - 1e-9]), np.array([z + 1e-9]))
            found, _, _ = find(Atoms([(checks, positions, WIDEST)]), box, 16)
            assert len(found) or not len(checks.others), (smiles, checks.atom)
    assert judged


@pytest.mark.parametrize("smiles", SMILES)
def test_what_is_built_of_right_places_is_right(smiles: str) -> None:
    """Atom by atom, each at a place drawn at random, and with places for the next three behind it."""
    mol = parse_written(smiles).mol
    places, draws = MoleculePlaces(mol), np.random.default_rng(5)
    built = 0
    for _ in range(8):
        positions = np.zeros((places.atoms, 3))
        for checks in places.checks:
            for tolerance in range(len(TOLERANCES)) if len(checks.others) else ():
                found, _, box = find(Atoms([(checks, positions, tolerance)]), Boxes.everywhere(1), 128)
                until = min(checks.atom + 3, places.atoms - 1)
                if len(found) and until > checks.atom:
                    found = found[continuing(places, checks.atom, positions, found, box, until)]
                if len(found):
                    positions[checks.atom] = found[draws.integers(len(found))]
                    break
            else:
                if len(checks.others):
                    break
        else:
            built += 1
            assert is_right(mol, positions), smiles
    assert built >= 2


def test_a_place_may_be_moved_as_far_as_it_says() -> None:
    mol = parse_written("C[C@H](N)C(=O)Oc1ccccc1").mol
    whole = Chem.AddHs(mol)
    AllChem.EmbedMolecule(whole, randomSeed=1)
    positions = Chem.RemoveHs(whole).GetConformer().GetPositions()
    draws = np.random.default_rng(0)
    for checks in MoleculePlaces(mol).checks[1:]:
        atoms = Atoms([(checks, positions, 1)])
        found, rooms, _ = find(atoms, Boxes.everywhere(1), 64)
        for place, room in zip(found[:20], rooms[:20], strict=True):
            step = draws.normal(size=3)
            moved = place + step / np.linalg.norm(step) * room * 0.999
            before = positions[checks.others]
            distances = np.linalg.norm(before - moved, axis=1)
            assert (distances >= checks.lower[1] - 1e-9).all() and (distances <= checks.upper[1] + 1e-9).all()


def test_how_far_is_asked_ahead_is_the_last_atom_of_the_open_rings() -> None:
    """Of a chain, of two rings with a bond between, and of two that share a bond."""
    ends = [MoleculePlaces(parse_written(smiles).mol).ring_ends for smiles in ("CCO", "C1CC1C1CC1", "C1CC2CC2C1")]
    assert ends == [[0, 1, 2], [2, 2, 2, 5, 5, 5], [5, 5, 5, 5, 5, 5]]
