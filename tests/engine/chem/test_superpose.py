"""Superposing a conformer on a reference, and finding the nearest one of an ensemble."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.rmsd import least_rmsd, nearest, superpose
from engine.chem.smiles import parse_smiles
from engine.errors import GraphMismatchError

Array = NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)
MOLECULES = ["CCO", "CC(C)(C)C", "O=[N+]([O-])c1ccc(C(=O)[O-])cc1", "C[C@H](N)C(=O)O", "CCO.[Na+].[Cl-]", "CC", "[Na+]"]
ENSEMBLES = {smiles: reference_conformers(parse_smiles(smiles), 4, seed=1) for smiles in MOLECULES}


def conformer(smiles: str, number: int) -> Chem.Mol:
    return Chem.Mol(ENSEMBLES[smiles], confId=ENSEMBLES[smiles].GetConformers()[number].GetId())


def moved(mol: Chem.Mol, seed: int) -> Chem.Mol:
    """A copy, turned, moved, and with its atoms in another order."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    turn[:, 0] *= np.sign(np.linalg.det(turn))
    copy = Chem.Mol(mol)
    for atom, xyz in enumerate(positions(copy) @ turn + rng.normal(scale=5, size=3)):
        copy.GetConformer().SetAtomPosition(atom, xyz.tolist())
    return Chem.RenumberAtoms(copy, rng.permutation(copy.GetNumAtoms()).tolist())


def positions(mol: Chem.Mol) -> Array:
    return np.asarray(mol.GetConformer().GetPositions())


def heavy_centre(mol: Chem.Mol) -> Array:
    heavy = [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetAtomicNum() > 1]
    return np.asarray(positions(mol)[heavy].mean(axis=0))


@settings(max_examples=30)
@given(smiles=st.sampled_from(MOLECULES), seed=SEEDS, number=st.integers(0, 3))
def test_the_moved_copy_lies_where_the_best_rmsd_is(smiles: str, seed: int, number: int) -> None:
    reference, probe = (
        conformer(smiles, 0),
        moved(conformer(smiles, number % ENSEMBLES[smiles].GetNumConformers()), seed),
    )
    copy, found = superpose(probe, reference)
    assert found == pytest.approx(least_rmsd(probe, reference), abs=1e-6)
    assert heavy_centre(copy) == pytest.approx(heavy_centre(reference), abs=1e-6)
    assert unaligned_rmsd(copy, reference) == pytest.approx(found, abs=1e-6)


def unaligned_rmsd(probe: Chem.Mol, reference: Chem.Mol) -> float:
    """Over RDKit's own symmetries, without turning or moving anything."""
    mine, theirs = Chem.RemoveAllHs(probe), Chem.RemoveAllHs(reference)
    for mol in (mine, theirs):
        for atom in mol.GetAtoms():  # resonance: charges and bond orders of terminal atoms may swap
            atom.SetFormalCharge(0)
            atom.SetNoImplicit(True)
            atom.SetIsAromatic(False)
        for bond in mol.GetBonds():
            bond.SetBondType(Chem.BondType.SINGLE)
            bond.SetIsAromatic(False)
    values = []
    for match in mine.GetSubstructMatches(theirs, uniquify=False, maxMatches=10_000):
        gaps = positions(mine)[list(match)] - positions(theirs)
        values.append(float(np.sqrt((gaps**2).sum(axis=1).mean())))
    return min(values)


def test_neither_molecule_is_moved_and_the_copy_has_one_conformer() -> None:
    many = Chem.Mol(ENSEMBLES["CCO"])
    reference, before = conformer("CCO", 0), positions(many).copy()
    copy, _ = superpose(many, reference, probe_conf=many.GetConformers()[1].GetId())
    assert copy.GetNumConformers() == 1
    assert (positions(many) == before).all()
    assert many.GetNumConformers() == ENSEMBLES["CCO"].GetNumConformers()
    assert (positions(reference) == positions(conformer("CCO", 0))).all()


@pytest.mark.parametrize("smiles", MOLECULES)
def test_the_nearest_one_is_at_the_least_rmsd(smiles: str) -> None:
    ensemble = ENSEMBLES[smiles]
    last = ensemble.GetConformers()[-1].GetId()
    probe = moved(Chem.Mol(ensemble, confId=last), 3)
    found, value = nearest(probe, ensemble)
    assert value == pytest.approx(least_rmsd(probe, ensemble), abs=1e-12)
    assert value == pytest.approx(0, abs=1e-6)
    assert least_rmsd(probe, Chem.Mol(ensemble, confId=found)) == pytest.approx(value, abs=1e-6)


def test_the_nearest_one_is_named_by_its_id() -> None:
    ensemble = Chem.Mol(ENSEMBLES["C[C@H](N)C(=O)O"])
    for number, one in enumerate(ensemble.GetConformers()):
        one.SetId(100 - number)
    for identity in [one.GetId() for one in ensemble.GetConformers()]:
        probe = Chem.Mol(ensemble, confId=identity)
        found, _ = nearest(probe, ensemble)
        assert least_rmsd(probe, Chem.Mol(ensemble, confId=found)) == pytest.approx(0, abs=1e-6)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(GraphMismatchError):
        nearest(conformer("CCO", 0), conformer("CC", 0))
