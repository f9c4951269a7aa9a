"""Reference conformers: the same for a seed, in text order, with the stereo asked for, or a named error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import rdDistGeom

from engine.chem import conformers
from engine.chem.conformers import reference_conformers
from engine.chem.rmsd import least_rmsd
from engine.chem.smiles import parse_smiles
from engine.errors import EmbedError

DRUG = "CN1CCC[C@H]1c1cccnc1"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """RDKit embeds in this process, where a test can replace parts of it."""
    monkeypatch.setattr(conformers, "is_inside", lambda: True)


def positions(mol: Chem.Mol) -> NDArray[np.float64]:
    return np.stack([conformer.GetPositions() for conformer in mol.GetConformers()])


def least_contact(xyz: NDArray[np.float64]) -> float:
    if len(xyz) == 1:
        return float("inf")
    distances = np.linalg.norm(xyz[:, None] - xyz[None], axis=-1)
    return float(distances[np.triu_indices(len(xyz), 1)].min())


def test_the_same_seed_gives_the_same_conformers_and_another_seed_others() -> None:
    molecule = parse_smiles(DRUG)
    once, again = (positions(reference_conformers(molecule, 3, seed=7)) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    other = positions(reference_conformers(molecule, 3, seed=8))
    assert np.abs(once - other).max() > 0.1


def test_seed_zero_gives_different_conformers() -> None:
    # RDKit multiplies its seed by the conformer's number, so that its seed 0 embeds one conformer again and again.
    first, second, third = positions(reference_conformers(parse_smiles("CCCCCCO"), 3, seed=0))
    assert min(np.abs(first - second).max(), np.abs(first - third).max(), np.abs(second - third).max()) > 0.1


def test_a_conformer_does_not_depend_on_how_many_are_asked_for() -> None:
    two, five = (positions(reference_conformers(parse_smiles(DRUG), count, seed=2**64)) for count in (2, 5))
    np.testing.assert_array_equal(two, five[:2])


CAGE = "c12c3c4c5c1c1c6c2c2c3c3c4c4c5c5c1c1c6c2c3c4c51"  # a ball of aromatic rings, as C60 is


@pytest.mark.parametrize(
    "smiles",
    [
        "C", "[H+]", "[H][H]", "[He]", "[U]", "[2H]C([2H])([2H])O", "[H]/N=C/C", "[Na+].[Cl-]", "CC(=O)[O-].[NH4+]",
        "[Fe+2].[cH-]1cccc1.[cH-]1cccc1", "N->[Cu+2]", "C1CCCCCCCCCCCCCCCCCCC1", "[13CH3]C", "F[P-](F)(F)(F)(F)F",
        "F[Xe](F)(F)F", "C12C3C4C1C1C2C3C41", CAGE, "[Cl-].[Cl-].[Pt+2]", "[BH4-].[Na+]", "O=[PH]",
        "CC[C@H](C)[C@H]1C(=O)N[C@@H](C)C(=O)NCC(=O)N1",
    ],
)  # fmt: skip
def test_atoms_stay_in_text_order_and_apart(smiles: str, capfd: pytest.CaptureFixture[str]) -> None:
    molecule = parse_smiles(smiles)
    mol = reference_conformers(molecule, 1, mmff=True)
    assert capfd.readouterr().err == ""
    assert [atom.GetSymbol() for atom in mol.GetAtoms()] == list(molecule.elements)
    assert [atom.GetIsotope() for atom in mol.GetAtoms()] == [atom.GetIsotope() for atom in molecule.mol.GetAtoms()]
    assert least_contact(positions(mol)[0]) > 0.6  # a bond between hydrogens is 0.7 long
    assert Chem.MolToSmiles(mol) == molecule.smiles


def test_fragments_stand_side_by_side() -> None:
    # RDKit embeds fragments separately and leaves both ions in the origin.
    mol = reference_conformers(parse_smiles("[Na+].[Cl-]"))
    assert least_contact(positions(mol)[0]) == pytest.approx(conformers.FRAGMENT_GAP_ANG)
    several = positions(reference_conformers(parse_smiles("CCO.c1ccccc1.[K+].O"), 2, mmff=True))
    assert all(least_contact(xyz) > 1.0 for xyz in several)
    assert np.abs(several).max() < 20


def test_relaxing_moves_atoms_a_little() -> None:
    molecule = parse_smiles("CC(C)CC(=O)O")
    raw, relaxed = reference_conformers(molecule, 1), reference_conformers(molecule, 1, mmff=True)
    assert 0.001 < least_rmsd(relaxed, raw) < 1.0


@pytest.mark.parametrize("smiles", ["FS(F)(F)(F)(F)F", "F[P-](F)(F)(F)(F)F"])
def test_what_no_field_relaxes_well_stays_as_it_was_embedded(smiles: str) -> None:
    # UFF takes PF6- for tetrahedral and pushes fluorines into each other.
    raw, relaxed = (positions(reference_conformers(parse_smiles(smiles), mmff=mmff)) for mmff in (False, True))
    np.testing.assert_array_equal(raw, relaxed)


@pytest.mark.parametrize("smiles", ["C1#CC1", "C[C@]12C[C@@]1(C)C2", "C[C@H]1[C@H]2C[C@@H]1C2"])
def test_impossible_molecules_get_the_named_error(smiles: str) -> None:
    with pytest.raises(EmbedError, match=r"no conformer of .* was found in .* attempts"):
        reference_conformers(parse_smiles(smiles), 2)
    with pytest.raises(EmbedError, match=r"within 1e-09 s.*Allow more seconds"):
        reference_conformers(parse_smiles(smiles), max_seconds=1e-9)


def broken(*_: object) -> None:
    raise RuntimeError("Invariant Violation")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("embed", [broken, lambda *_: [-1]])  # [-1] is RDKit's answer when its time is over
def test_what_rdkit_answers_in_place_of_a_conformer_is_the_named_error(
    monkeypatch: pytest.MonkeyPatch, embed: Callable[..., Any]
) -> None:
    monkeypatch.setattr(rdDistGeom, "EmbedMultipleConfs", embed)
    with pytest.raises(EmbedError):
        reference_conformers(parse_smiles("CCO"))


@pytest.mark.usefixtures("here")
def test_a_hopeless_molecule_is_given_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[dict[str, object]] = []
    monkeypatch.setattr(conformers, "_embed", lambda *args: tried.append(args[2]))
    with pytest.raises(EmbedError):
        reference_conformers(parse_smiles("CCO"), 100)
    plain, random, _ = conformers.WAYS
    assert tried == [plain, random, random, random]


@pytest.mark.usefixtures("here")
def test_a_process_of_its_own_changes_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    molecule = parse_smiles("F/C=C/[C@@H](C)Cl.[Na+]")
    here = reference_conformers(molecule, 3, mmff=True)
    monkeypatch.setattr(conformers, "is_inside", lambda: False)
    there = reference_conformers(molecule, 3, mmff=True)
    assert (here.ToBinary(), positions(here).tobytes()) == (there.ToBinary(), positions(there).tobytes())
