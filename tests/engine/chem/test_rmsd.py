"""RMSD against RDKit's own search and Horn's quaternions, its invariances; superposing; medoids."""

from __future__ import annotations

import functools
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import rdMolAlign

from engine.chem import rmsd
from engine.chem.conformers import reference_conformers
from engine.chem.rmsd import clustered_conformers, least_rmsd, medoids, nearest, rmsd_matrix, superpose
from engine.chem.smiles import parse_smiles
from engine.errors import GraphMismatchError
from tests.support import sized

Array = NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)

MOLECULES = [
    "CCO", "CC(C)Cc1ccc(cc1)C(C)C(=O)O", "O=[N+]([O-])c1ccc(C(=O)[O-])cc1", "O=P(O)(O)OCC(=O)[O-]", "CC(=N)N",
    "NC(=[NH2+])c1ccc(S(N)(=O)=O)cc1", "FC(F)(F)c1ccccc1", "CC(C)(C)C", "C[C@H](N)C(=O)O", "c1c[nH]cn1",
    "CCO.[Na+].[Cl-]", "[O-]Cl(=O)(=O)=O", "CC", "[13CH3]CC",
]  # fmt: skip
made = functools.cache(lambda smiles, count, seed: reference_conformers(parse_smiles(smiles), count, seed=seed))


def ensemble(smiles: str, count: int = 3, seed: int = 0) -> Chem.Mol:
    return Chem.Mol(made(smiles, count, seed))


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
    for i, j in [(0, 1), (1, 2), (2, 0)]:
        theirs = rdMolAlign.GetBestRMS(Chem.Mol(mol), Chem.Mol(mol), i, j)
        assert best(mol, mol, i, j) == pytest.approx(theirs, abs=1e-5)


def best(probe: Chem.Mol, reference: Chem.Mol, i: int = 0, j: int = 0, **more: int) -> float:
    """Of two conformers by their numbers."""
    return float(rmsd_matrix(probe, reference, **more)[0][i, j])


@given(smiles=st.sampled_from(MOLECULES), turn=SEEDS, order=SEEDS)
def test_rigid_motion_and_atom_order_change_nothing(smiles: str, turn: int, order: int) -> None:
    mol = ensemble(smiles)
    plain = best(mol, mol, 0, 1)
    moved = shuffled(turned(mol, turn), order)
    assert best(moved, mol, 0, 1) == pytest.approx(plain, abs=1e-6)
    assert best(mol, moved, 0, 1) == pytest.approx(plain, abs=1e-6)
    assert best(mol, moved, 1, 0) == pytest.approx(plain, abs=1e-6)
    assert best(moved, mol, 2, 2) < 1e-9


def test_a_mirror_image_is_not_aligned_by_reflection() -> None:
    mol = ensemble("C[C@H](N)C(=O)O", 1)
    mirrored = Chem.Mol(mol)
    mirrored.GetConformer().SetPositions(mol.GetConformer().GetPositions() * [1.0, 1.0, -1.0])
    value = best(mirrored, mol)
    assert value > 0.3
    assert value == pytest.approx(rdMolAlign.GetBestRMS(mirrored, Chem.Mol(mol)), abs=1e-5)


def test_hydrogens_do_not_count_and_few_atoms_are_enough() -> None:
    mol = ensemble("CCO", 1)
    assert best(Chem.AddHs(mol, addCoords=True), mol) < 1e-9
    assert np.isfinite(best(reference_conformers(parse_smiles("[2H]C([2H])([2H])CO")), mol))
    for smiles in ("[H][H]", "C", "[Na+]"):
        values, is_complete = rmsd_matrix(ensemble(smiles, 2), ensemble(smiles, 2))
        assert is_complete and values[0, 1] < 0.1


def test_a_bounded_search_says_so_and_gives_an_upper_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    mol = ensemble("CC(C)(C)c1cc(C(C)(C)C)cc(C(C)(C)C)c1", 2)
    results = {most: rmsd_matrix(mol, mol, max_matches=most) for most in (1296, 1295, 1)}
    assert [is_complete for _, is_complete in results.values()] == [True, False, False]
    whole, cut, first = (values[0, 1] for values, _ in results.values())
    assert first >= cut >= whole
    monkeypatch.setattr(rmsd, "_BLOCK", 100)  # blocks of matches are searched together
    np.testing.assert_allclose(rmsd_matrix(shuffled(mol, 1), mol, max_matches=1296)[0], results[1296][0], atol=1e-9)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("CCO", "COC"), ("CCO", "CCN"), ("CC=O", "CCO"), ("CC(=O)O", "CC(=O)[O-]"), ("CCO", "CCO.O"),
        ("[13CH3]CO", "CCO"), ("c1ccccc1", "C1CCCCC1"),
    ],
)  # fmt: skip
def test_different_graphs_are_refused_by_name(first: str, second: str) -> None:
    with pytest.raises(GraphMismatchError, match="different graphs"):
        rmsd_matrix(ensemble(first, 1), ensemble(second, 1))


@pytest.mark.soak
@pytest.mark.parametrize("heap", ["any", "flat", "line", "point", "mirrored"])
def test_best_rotations_of_random_points(heap: str) -> None:
    """By Newton's steps where they are sure, else by singular values: both as Horn has it."""
    rng = np.random.default_rng(7)
    scales = {"flat": [1, 1, 0], "line": [1, 0, 0], "point": [0, 0, 0]}
    probes, references = rng.normal(size=(2, sized(50, 500), 6, 3)) * scales.get(heap, 1)
    if heap == "mirrored":
        references = probes * [1, 1, -1]
    values = rmsd._least(probes[:5], references, np.arange(6)[None])
    expected = [[horn(probe, reference) for reference in references] for probe in probes[:5]]
    np.testing.assert_allclose(values, expected, atol=1e-7)
    np.testing.assert_allclose(rmsd._least(probes[:5], probes[:5], np.arange(6)[None]).diagonal(), 0, atol=1e-12)


# --- the baseline's conformers: medoids against a search of all choices -----------------------------------------------

FLEXIBLE = parse_smiles("CCCCCO")


@pytest.mark.parametrize("seed", range(2))
def test_points_in_heaps_have_one_medoid_per_heap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    heaps = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    points = np.concatenate([heap + rng.normal(0, 0.5, (5, 2)) for heap in heaps])
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    chosen = medoids(distances, 4)
    assert [number // 5 for number in chosen] == [0, 1, 2, 3]
    best = min(combinations(range(20), 4), key=lambda some: distances[:, list(some)].min(axis=1).sum())
    assert chosen == list(best)


def test_as_many_as_were_asked_for_and_always_the_same() -> None:
    first, again = clustered_conformers(FLEXIBLE, 3), clustered_conformers(FLEXIBLE, 3)
    assert first.GetNumConformers() == 3
    assert rmsd_matrix(first, again)[0].min(axis=0).max() == pytest.approx(0, abs=1e-9)
    of_seed = reference_conformers(FLEXIBLE, 15)
    assert rmsd_matrix(first, of_seed)[0].min() > 0.001


# --- superposing: on a reference, and on the nearest one of an ensemble -----------------------------------------------


@settings(max_examples=20)
@given(seed=SEEDS)
def test_the_moved_copy_lies_where_the_best_rmsd_is(seed: int) -> None:
    many = ensemble("CC(F)[C@H](O)CN", 4, seed=1)  # without symmetry: one order of its atoms
    order = np.random.default_rng(seed).permutation(many.GetNumAtoms()).tolist()
    probe, ids = Chem.RenumberAtoms(turned(many, seed), order), [conf.GetId() for conf in many.GetConformers()]
    reference, before = Chem.Mol(many, confId=ids[0]), probe.GetConformer().GetPositions()
    copy, value = superpose(probe, reference, probe_conf=ids[-1])
    assert value == pytest.approx(least_rmsd(Chem.Mol(probe, confId=ids[-1]), reference), abs=1e-5)
    gaps = copy.GetConformer().GetPositions() - reference.GetConformer().GetPositions()[order]
    assert np.sqrt((gaps**2).sum(axis=1).mean()) == pytest.approx(value, abs=1e-5)
    assert copy.GetNumConformers() == 1
    assert (probe.GetConformer().GetPositions() == before).all()


def test_the_nearest_one_is_at_the_least_rmsd_and_named_by_its_id() -> None:
    many = ensemble("C[C@H](N)C(=O)O", 4, seed=1)
    for number, conformer in enumerate(many.GetConformers()):
        conformer.SetId(100 - number)
    for identity in [conformer.GetId() for conformer in many.GetConformers()]:
        probe = shuffled(turned(Chem.Mol(many, confId=identity), 3), 3)
        nearest_id, value = nearest(probe, many)
        assert value == pytest.approx(0, abs=1e-6)
        assert least_rmsd(probe, Chem.Mol(many, confId=nearest_id)) == pytest.approx(value, abs=1e-6)
    with pytest.raises(GraphMismatchError):
        nearest(many, ensemble("CC", 1))


@pytest.mark.parametrize("smiles", MOLECULES)
def test_by_atom_indices_as_align_mol_has_it(smiles: str) -> None:
    """At least the least over symmetries, and the same for a probe whose atoms stand in another order."""
    probes, references = Chem.RemoveHs(ensemble(smiles, 3, 1)), Chem.RemoveHs(ensemble(smiles, 2))
    matrix = rmsd.index_rmsd_matrix(probes, references)
    loop = [
        [rdMolAlign.AlignMol(Chem.Mol(probes), references, probe, reference) for reference in range(2)]
        for probe in range(3)
    ]
    np.testing.assert_allclose(matrix, loop, atol=1e-5)
    assert (matrix >= rmsd_matrix(probes, references)[0] - 1e-6).all()
    other = Chem.RenumberAtoms(probes, list(range(probes.GetNumAtoms()))[::-1])
    assert (rmsd.index_rmsd_matrix(other, references) >= rmsd_matrix(probes, references)[0] - 1e-6).all()
