"""RMSD against two independent implementations, its invariances, and COV/MAT against their definitions."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import rdMolAlign

from engine.chem import rmsd
from engine.chem.conformers import reference_conformers
from engine.chem.rmsd import best_rmsd, ensemble_metrics
from engine.chem.smiles import parse_smiles
from engine.errors import ConformerError, GraphMismatchError
from tests.support import sized

Array = NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)

MOLECULES = [
    "CCO", "CC(C)Cc1ccc(cc1)C(C)C(=O)O", "O=[N+]([O-])c1ccc(C(=O)[O-])cc1", "O=P(O)(O)OCC(=O)[O-]", "CC(=N)N",
    "NC(=[NH2+])c1ccc(S(N)(=O)=O)cc1", "FC(F)(F)c1ccccc1", "CC(C)(C)C", "C[C@H](N)C(=O)O", "c1c[nH]cn1",
    "CCO.[Na+].[Cl-]",
    "O=C(O)/C=C/C(=O)O", "[O-]Cl(=O)(=O)=O", "CC", "[13CH3]CC",
]  # fmt: skip
_CACHE: dict[tuple[str, int], Chem.Mol] = {}


def ensemble(smiles: str, count: int = 3, seed: int = 0) -> Chem.Mol:
    key = (smiles, 100 * seed + count)
    if key not in _CACHE:
        _CACHE[key] = reference_conformers(parse_smiles(smiles), count, seed=seed)
    return Chem.Mol(_CACHE[key])


def horn(probe: Array, reference: Array) -> float:
    """RMSD by the largest eigenvalue of Horn's quaternion matrix: no singular values, no reflection to handle."""
    p, r = probe - probe.mean(axis=0), reference - reference.mean(axis=0)
    ((xx, xy, xz), (yx, yy, yz), (zx, zy, zz)) = p.T @ r
    key = np.array(
        [
            [xx + yy + zz, yz - zy, zx - xz, xy - yx],
            [yz - zy, xx - yy - zz, xy + yx, zx + xz],
            [zx - xz, xy + yx, yy - xx - zz, yz + zy],
            [xy - yx, zx + xz, yz + zy, zz - xx - yy],
        ]
    )
    squares = (p**2).sum() + (r**2).sum() - 2 * np.linalg.eigvalsh(key)[-1]
    return float(np.sqrt(max(squares, 0.0) / len(p)))


def turned(mol: Chem.Mol, seed: int) -> Chem.Mol:
    """A copy, each conformer turned and moved."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    turn[:, 0] *= np.linalg.det(turn)  # proper
    copy = Chem.Mol(mol)
    for conformer in copy.GetConformers():
        conformer.SetPositions(conformer.GetPositions() @ turn.T + rng.normal(size=3) * 20)
    return copy


def shuffled(mol: Chem.Mol, seed: int) -> Chem.Mol:
    return Chem.RenumberAtoms(mol, np.random.default_rng(seed).permutation(mol.GetNumAtoms()).tolist())


@pytest.mark.parametrize("smiles", MOLECULES)
def test_equal_to_rdkits_own_search(smiles: str) -> None:
    mol = ensemble(smiles)
    for one, other in [(0, 1), (1, 2), (2, 0)]:
        theirs = rdMolAlign.GetBestRMS(Chem.Mol(mol), Chem.Mol(mol), one, other)
        ours = best_rmsd(mol, mol, probe_conf=one, reference_conf=other)
        assert ours.value_ang == pytest.approx(theirs, abs=1e-5)
        assert ours.complete


def bond_matrix(mol: Chem.Mol) -> Array:
    """Bond orders [atoms, atoms], atomic numbers on the diagonal."""
    matrix = np.diag([float(atom.GetAtomicNum()) for atom in mol.GetAtoms()])
    for bond in mol.GetBonds():
        one, other = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        matrix[one, other] = matrix[other, one] = bond.GetBondTypeAsDouble()
    return matrix


@pytest.mark.parametrize("smiles", ["CC(C)(C)C", "CC(C)O", "FC(F)(F)CO", "CCOCC", "C1CCCC1", "CC(=O)C", "C[S+](C)C"])
def test_equal_to_horn_over_all_permutations_that_keep_the_graph(smiles: str) -> None:
    mol = ensemble(smiles)
    probe, reference = (mol.GetConformer(index).GetPositions() for index in (0, 1))
    bonds = bond_matrix(mol)
    orders = [list(order) for order in permutations(range(mol.GetNumAtoms()))]
    symmetries = [order for order in orders if (bonds[np.ix_(order, order)] == bonds).all()]
    found = best_rmsd(mol, mol, probe_conf=0, reference_conf=1)
    assert found.matches == len(symmetries)
    assert found.value_ang == pytest.approx(min(horn(probe[order], reference) for order in symmetries), abs=1e-6)


@given(smiles=st.sampled_from(MOLECULES), turn=SEEDS, order=SEEDS)
def test_rigid_motion_and_atom_order_change_nothing(smiles: str, turn: int, order: int) -> None:
    mol = ensemble(smiles)
    plain = best_rmsd(mol, mol, probe_conf=0, reference_conf=1).value_ang
    moved = shuffled(turned(mol, turn), order)
    assert best_rmsd(moved, mol, probe_conf=0, reference_conf=1).value_ang == pytest.approx(plain, abs=1e-6)
    assert best_rmsd(mol, moved, probe_conf=0, reference_conf=1).value_ang == pytest.approx(plain, abs=1e-6)
    assert best_rmsd(moved, mol, probe_conf=2, reference_conf=2).value_ang < 1e-9


@given(smiles=st.sampled_from(MOLECULES))
def test_symmetric_in_its_arguments(smiles: str) -> None:
    mol = ensemble(smiles)
    there = best_rmsd(mol, mol, probe_conf=0, reference_conf=1).value_ang
    assert best_rmsd(mol, mol, probe_conf=1, reference_conf=0).value_ang == pytest.approx(there, abs=1e-7)


def test_a_mirror_image_is_not_aligned_by_reflection() -> None:
    mol = ensemble("C[C@H](N)C(=O)O", 1)
    mirrored = Chem.Mol(mol)
    mirrored.GetConformer().SetPositions(mol.GetConformer().GetPositions() * [1.0, 1.0, -1.0])
    value = best_rmsd(mirrored, mol).value_ang
    assert value > 0.3
    assert value == pytest.approx(rdMolAlign.GetBestRMS(mirrored, Chem.Mol(mol)), abs=1e-5)


def test_hydrogens_do_not_count() -> None:
    mol = ensemble("CCO", 1)
    full = Chem.AddHs(mol, addCoords=True)
    assert best_rmsd(full, mol).value_ang < 1e-9
    deuterated = reference_conformers(parse_smiles("[2H]C([2H])([2H])CO"))
    assert np.isfinite(best_rmsd(deuterated, mol).value_ang)


@pytest.mark.parametrize(("smiles", "matches"), [("[H][H]", 2), ("[2H]", 1), ("C", 1), ("[Na+]", 1)])
def test_few_atoms(smiles: str, matches: int) -> None:
    mol = ensemble(smiles, 2)
    found = best_rmsd(mol, mol, probe_conf=0, reference_conf=1)
    assert (found.matches, found.complete) == (matches, True)
    assert found.value_ang < 0.1


def test_neither_molecule_is_moved() -> None:
    probe, reference = turned(ensemble("CCO"), 1), ensemble("CCO")
    before = [mol.GetConformer().GetPositions() for mol in (probe, reference)]
    best_rmsd(probe, reference)
    ensemble_metrics(probe, reference)
    for mol, positions in zip((probe, reference), before, strict=True):
        np.testing.assert_array_equal(mol.GetConformer().GetPositions(), positions)


def test_a_bounded_search_says_so_and_gives_an_upper_bound() -> None:
    mol = ensemble("CC(C)(C)c1cc(C(C)(C)C)cc(C(C)(C)C)c1", 2)
    whole = best_rmsd(mol, mol, probe_conf=0, reference_conf=1)
    assert (whole.matches, whole.complete) == (1296, True)
    exact = best_rmsd(mol, mol, probe_conf=0, reference_conf=1, max_matches=1296)
    assert exact == whole
    cut = best_rmsd(mol, mol, probe_conf=0, reference_conf=1, max_matches=1295)
    assert (cut.matches, cut.complete) == (1295, False)
    first = best_rmsd(mol, mol, probe_conf=0, reference_conf=1, max_matches=1)
    assert first.value_ang >= cut.value_ang >= whole.value_ang


def test_blocks_of_matches_are_searched_together(monkeypatch: pytest.MonkeyPatch) -> None:
    mol = ensemble("CC(C)(C)c1cc(C(C)(C)C)cc(C(C)(C)C)c1", 2)
    whole = best_rmsd(mol, mol, probe_conf=0, reference_conf=1)
    monkeypatch.setattr(rmsd, "_BLOCK", 100)
    assert best_rmsd(mol, mol, probe_conf=0, reference_conf=1) == whole


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CCO", "COC"), ("CCO", "CCN"), ("CCO", "CCCO"), ("CC=O", "CCO"), ("CC(=O)O", "CC(=O)[O-]"), ("CCO", "CCO.O"),
        ("[13CH3]CO", "CCO"), ("[Na+]", "[Na]"), ("c1ccccc1", "C1CCCCC1"),
    ],
)  # fmt: skip
def test_different_graphs_are_refused_by_name(one: str, other: str) -> None:
    with pytest.raises(GraphMismatchError, match="different graphs"):
        best_rmsd(ensemble(one, 1), ensemble(other, 1))
    with pytest.raises(GraphMismatchError, match="different graphs"):
        ensemble_metrics(ensemble(one, 1), ensemble(other, 1))


def test_stereo_is_not_part_of_the_graph_here() -> None:
    left, right = ensemble("C[C@H](N)C(=O)O", 1), ensemble("C[C@@H](N)C(=O)O", 1)
    assert best_rmsd(left, right).value_ang > 0.05


def test_missing_conformers_are_named() -> None:
    mol, bare = ensemble("CCO"), parse_smiles("CCO").mol
    for probe, reference in [(bare, mol), (mol, bare)]:
        with pytest.raises(ConformerError, match="no conformer"):
            best_rmsd(probe, reference)
    with pytest.raises(ConformerError, match="no conformer 7"):
        best_rmsd(mol, mol, probe_conf=7)
    with pytest.raises(ConformerError, match="no generated conformer"):
        ensemble_metrics([], mol)
    with pytest.raises(ConformerError, match="no reference conformer"):
        ensemble_metrics(mol, [])
    with pytest.raises(ConformerError, match="no reference conformer"):
        ensemble_metrics(mol, bare)


def test_coordinates_that_are_not_finite_are_named() -> None:
    mol = ensemble("CCO", 1)
    positions = mol.GetConformer().GetPositions()
    positions[1, 2] = np.nan
    mol.GetConformer().SetPositions(positions)
    with pytest.raises(ConformerError, match="not finite"):
        best_rmsd(mol, ensemble("CCO", 1))


@pytest.mark.parametrize(
    ("call", "name"), [({"max_matches": 0}, "max_matches"), ({"threshold_ang": 0.0}, "threshold_ang")]
)
def test_arguments_are_checked(call: dict[str, float], name: str) -> None:
    mol = ensemble("CCO")
    with pytest.raises(ValueError, match=name):
        ensemble_metrics(mol, mol, **call)  # type: ignore[arg-type]


def test_metrics_follow_their_definitions() -> None:
    smiles = "CC(C)Cc1ccc(cc1)C(C)C(=O)O"
    generated, references = ensemble(smiles, 4, seed=1), ensemble(smiles, 3)
    matrix = np.array(
        [
            [best_rmsd(generated, references, probe_conf=g, reference_conf=r).value_ang for r in range(3)]
            for g in range(4)
        ]
    )
    threshold = float(np.median(matrix))
    found = ensemble_metrics(generated, references, threshold)
    np.testing.assert_allclose(found.rmsd_ang, matrix, atol=1e-9)
    assert found.cov_r == np.mean([min(matrix[:, r]) <= threshold for r in range(3)])
    assert found.cov_p == np.mean([min(matrix[g, :]) <= threshold for g in range(4)])
    assert found.mat_r_ang == pytest.approx(np.mean([min(matrix[:, r]) for r in range(3)]))
    assert found.mat_p_ang == pytest.approx(np.mean([min(matrix[g, :]) for g in range(4)]))
    assert (found.generated, found.references, found.complete) == (4, 3, True)


def test_recall_and_precision_are_not_swapped() -> None:
    references = ensemble("CCCCCO", 4)
    one = Chem.Mol(references, confId=references.GetConformers()[0].GetId())
    found = ensemble_metrics(one, references, 0.01)
    assert found.cov_p == 1.0
    assert found.cov_r == 0.25
    assert found.mat_p_ang < 1e-9 < found.mat_r_ang


@settings(max_examples=10)
@given(turn=SEEDS, order=SEEDS)
def test_molecules_of_other_atom_orders_may_be_mixed(turn: int, order: int) -> None:
    smiles = "CC(C)Cc1ccc(cc1)C(C)C(=O)O"
    generated, references = ensemble(smiles, 2, seed=1), ensemble(smiles, 3)
    plain = ensemble_metrics(generated, references)
    mixed = ensemble_metrics([shuffled(turned(generated, turn), order)], [references, shuffled(references, turn)])
    np.testing.assert_allclose(mixed.rmsd_ang, np.hstack([plain.rmsd_ang, plain.rmsd_ang]), atol=1e-6)


def test_results_are_records() -> None:
    mol = ensemble("CCO")
    found = best_rmsd(mol, mol)
    with pytest.raises(FrozenInstanceError):
        found.value_ang = 1.0  # type: ignore[misc]


@pytest.mark.soak
@pytest.mark.parametrize("heap", ["any", "flat", "line", "point", "mirrored"])
def test_best_rotations_of_random_points(heap: str) -> None:
    """By Newton's steps where they are sure, else by singular values: both as Horn has it."""
    rng = np.random.default_rng(7)
    size = sized(50, 500)
    one, other = rng.normal(size=(2, size, 6, 3)) * {"flat": [1, 1, 0], "line": [1, 0, 0], "point": [0, 0, 0]}.get(
        heap, 1
    )
    if heap == "mirrored":
        other = one * [1, 1, -1]
    found = rmsd._rmsd_matrix(one[:5], other, np.arange(6)[None])
    expected = [[horn(probe, reference) for reference in other] for probe in one[:5]]
    np.testing.assert_allclose(found, expected, atol=1e-7)
    np.testing.assert_allclose(rmsd._rmsd_matrix(one[:5], one[:5], np.arange(6)[None]).diagonal(), 0, atol=1e-12)
