"""What boxes hold, of one check at a time: held against places drawn in them, as the verdict's own checks see them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import AllChem

from engine.chem.geometry import GeometryChecks, PairBounds, wrong_planes
from engine.chem.left_places import AtomChecks, Left, Plane
from engine.chem.stereo import StereoGoal, judge_stereo, stereo_goals
from tests.support import sized

SMILES = ("C[C@H](N)C(=O)O", "C[C@](N)(F)C(=O)O", "C/C=C/C(=O)OC", "F/C=C\\Cl", "c1ccccc1F", "C1CCCCC1")
UNIT = 1e-4


def placed(smiles: str) -> tuple[Chem.Mol, np.ndarray]:
    whole = Chem.AddHs(Chem.MolFromSmiles(smiles))
    AllChem.EmbedMolecule(whole, randomSeed=5)
    mol = Chem.RemoveHs(whole)
    return mol, mol.GetConformer().GetPositions()


def alone(mol: Chem.Mol, positions: np.ndarray, atom: int, what: str) -> list[AtomChecks]:
    """The checks of a kind that the atom is the last one of, each by itself."""
    geometry = GeometryChecks(mol)
    assert geometry.bounds is not None
    bounds = geometry.bounds
    none = bounds.only(np.zeros(len(bounds.first), dtype=np.bool_))
    kinds: dict[str, list[tuple[PairBounds, list[Plane], list[StereoGoal]]]] = {
        "pairs": [(bounds.only(np.maximum(bounds.first, bounds.second) == atom), [], [])],
        "planes": [(none, [plane], []) for plane in geometry.planes if max(plane[1]) == atom],
        "goals": [(none, [], [goal]) for goal in stereo_goals(mol) if max(goal.spanned_by) == atom],
    }
    return [AtomChecks(atom, *parts, positions) for parts in kinds[what]]


def passes(mol: Chem.Mol, positions: np.ndarray, checks: AtomChecks) -> bool:
    """By the verdict: of failed checks, only those with the very atoms count."""
    answer = Chem.Mol(mol)
    answer.GetConformer().SetPositions(np.ascontiguousarray(positions))
    if checks.goals:
        sites = {site.atoms: site.word for site in judge_stereo(mol, answer).sites}
        return sites[checks.goals[0].atoms] in ("right", "nearly planar")
    if checks.planes:
        return not list(wrong_planes(checks.planes, positions))
    failed = [fail.atoms for fail in GeometryChecks(mol).judge(positions).failed]
    return not any(max(atoms[0], atoms[-1]) == checks.atom for atoms in failed if len(atoms) in (2, 3))


def boxes(
    positions: np.ndarray, atom: int, count: int, draws: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """About places near the atom and near its mirror image in another atom, from tiny ones to those of an angstrom."""
    for number in range(count):
        middle = positions[atom] + draws.normal(scale=1.0, size=3)
        if number % 2 == 0:
            middle = 2 * positions[draws.integers(atom)] - middle
        half = draws.uniform(0.2, 1.0, size=3) * (0.02, 0.2, 1.0)[number % 3]
        yield middle[None] - half, middle[None] + half


@pytest.mark.soak
@pytest.mark.parametrize("what", ["pairs", "planes", "goals"])
def test_an_empty_box_has_no_place_that_passes_and_a_tiny_one_that_fails_is_empty(what: str) -> None:
    draws, empty, tiny = np.random.default_rng(2), 0, 0
    count = sized(12, 300) if what == "pairs" else sized(150, 3_000)
    for smiles in SMILES:
        mol, positions = placed(smiles)
        for atom in range(1, mol.GetNumAtoms()):
            for checks in alone(mol, positions, atom, what):
                for low, high in boxes(positions, atom, count, draws):
                    left = checks.left(low, high, UNIT)
                    points = draws.uniform(low, high, size=(6, 3))
                    trials = [passes(mol, with_atom(positions, atom, point), checks) for point in points]
                    assert not (left is Left.NONE and any(trials)), (smiles, atom)
                    # A plane may fail by the side that its normal happens to point to, which no bound tells.
                    is_tiny = (high - low).max() < 0.05
                    if is_tiny and not any(trials):
                        tiny += 1
                        empty += left is Left.NONE
    assert tiny > 10 and empty > 0.8 * tiny, (empty, tiny)


def with_atom(positions: np.ndarray, atom: int, point: np.ndarray) -> np.ndarray:
    moved = positions.copy()
    moved[atom] = point
    return moved


def test_a_place_that_is_named_right_passes_the_verdict() -> None:
    draws, right = np.random.default_rng(4), 0
    for smiles in SMILES:
        mol, positions = placed(smiles)
        for atom in range(1, mol.GetNumAtoms()):
            for what in ("pairs", "planes", "goals"):
                for checks in alone(mol, positions, atom, what):
                    points = positions[atom] + draws.normal(scale=0.3, size=(20, 3))
                    for point, is_right in zip(points, checks.is_right(points), strict=True):
                        assert passes(mol, with_atom(positions, atom, point), checks) or not is_right
                        right += is_right
    assert right > 200
