"""Strain: energy above the relaxed conformer, hydrogens relaxed first, by the field that has parameters."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import decode
from engine.chem.frame import add_conformer
from engine.chem.smiles import parse_smiles
from engine.chem.strain import BOHR_PER_ANG, KCAL_PER_HARTREE, Strain, strain_of
from engine.errors import AssetError


def embedded(smiles: str, scale: float = 1.0, *, mmff: bool = False) -> Chem.Mol:
    mol = reference_conformers(parse_smiles(smiles), mmff=mmff)
    positions = mol.GetConformer().GetPositions() * scale
    mol.RemoveAllConformers()
    add_conformer(mol, positions)
    return mol


def strain(mol: Chem.Mol) -> Strain:
    result = strain_of(mol)
    assert result is not None
    return result


def test_a_relaxed_conformer_has_none_and_a_stretched_one_has_much() -> None:
    relaxed, stretched = strain(embedded("CCC(C)CCl", mmff=True)), strain(embedded("CCC(C)CCl", 1.1, mmff=True))
    assert relaxed.kcal == pytest.approx(0.0, abs=0.01)
    assert relaxed.moved_ang < 0.01
    assert stretched.kcal > 20 and stretched.moved_ang > 0.1
    assert relaxed.field == stretched.field == "MMFF94"


def test_no_heavy_atom_is_moved_and_without_parameters_of_mmff94_it_is_uff() -> None:
    mol = embedded("OB(O)c1ccccc1")
    before = mol.GetConformer().GetPositions()
    once, again = strain(mol), strain(mol)
    assert once == again and once.field == "UFF"
    assert np.array_equal(before, mol.GetConformer().GetPositions())


def test_a_single_atom_has_none_and_atoms_in_one_place_a_huge_one() -> None:
    single, collapsed = strain(embedded("C")), strain_of(embedded("CCCO", 0.0))
    assert abs(single.kcal) < 1e-3 and single.moved_ang == 0.0
    assert collapsed is None or collapsed.kcal > 1_000


def test_where_no_hydrogen_can_be_placed_there_is_none() -> None:
    """Both neighbours of the nitrogen lie on the same side of it."""
    assert strain_of(decode("[C]<0.0,0.0,0.0>[N]<1.7563,0.0,0.0>[C]<1.484,0.0,0.0>").mol) is None


def test_without_tblite_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tblite.interface", None)
    with pytest.raises(AssetError, match=r"requirements-xtb\.txt"):
        strain_of(embedded("CCO"), "gfn2-xtb")


class HarmonicCalculator:
    """Stands for tblite's: springs of one length between all atoms."""

    def __init__(self, method: str, numbers: np.ndarray, positions: np.ndarray, charge: float, unpaired: int) -> None:
        self.positions = positions

    def set(self, name: str, value: int) -> None:
        pass

    def update(self, positions: np.ndarray) -> None:
        self.positions = positions

    def singlepoint(self) -> HarmonicCalculator:
        return self

    def get(self, name: str) -> object:
        offsets = self.positions[:, None] - self.positions[None]
        lengths = np.linalg.norm(offsets, axis=-1) + np.eye(len(offsets))
        stretch = np.where(np.eye(len(offsets)) > 0, 0.0, lengths - 3.0)
        if name == "energy":
            return 0.01 * (stretch**2).sum() / 2
        return (0.02 * (stretch / lengths)[:, :, None] * offsets).sum(axis=1)


def test_xtb_goes_downhill_to_a_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(sys)("tblite.interface")
    module.Calculator = HarmonicCalculator  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tblite", type(sys)("tblite"))
    monkeypatch.setitem(sys.modules, "tblite.interface", module)
    mol = Chem.MolFromSmiles("O=S=O")
    add_conformer(mol, bent := np.array([[1.2, 0.9, 0.0], [0.0, 0.0, 0.0], [-1.4, 0.8, 0.0]]))
    result = strain_of(mol, "gfn2-xtb")
    assert result is not None
    assert result.field == "GFN2-xTB"
    start = HarmonicCalculator("", np.array([]), bent * BOHR_PER_ANG, 0.0, 0).get("energy")
    assert isinstance(start, float)
    assert result.kcal == pytest.approx(start * KCAL_PER_HARTREE, abs=0.2)  # three points can all lie 3 bohr apart
