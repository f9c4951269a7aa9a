"""The molecules on which models are measured: held out, of the sizes stated, and the same from the same corpus."""

from __future__ import annotations

import re

import pytest

from engine.chem.conformers import reference_conformers
from engine.chem.molecule_sets import HeldOutMolecule, load_held_out, load_run_set
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError
from tests.support import sized
from tools.training.molecules import is_held_out


@pytest.fixture(scope="module")
def molecules() -> list[HeldOutMolecule]:
    return load_held_out()


def test_there_are_a_hundred_of_each_size_none_twice(molecules: list[HeldOutMolecule]) -> None:
    assert len({molecule.smiles for molecule in molecules}) == len(molecules) == 200 == 200
    for least, most in ((4, 12), (13, 16)):
        assert sum(least <= molecule.atoms <= most for molecule in molecules) == 100


def test_no_model_is_trained_on_any(molecules: list[HeldOutMolecule]) -> None:
    assert [molecule.smiles for molecule in molecules if not is_held_out(molecule.smiles)] == []


def test_each_is_canonical_and_its_atoms_are_counted_right(molecules: list[HeldOutMolecule]) -> None:
    for molecule in molecules:
        parsed = parse_smiles(molecule.smiles)
        assert (parsed.smiles, parsed.heavy_atoms) == (molecule.smiles, molecule.atoms)


@pytest.mark.parametrize(("sign", "least"), [(r"[@/\\]", 10), (r"[+-]\d?\]", 10), ("c|n", 100), (r"\(", 100)])
def test_they_are_molecules_of_many_kinds(sign: str, least: int, molecules: list[HeldOutMolecule]) -> None:
    assert sum(re.search(sign, molecule.smiles) is not None for molecule in molecules) >= least


@pytest.mark.soak
def test_each_embeds(molecules: list[HeldOutMolecule]) -> None:
    for molecule in molecules[: sized(5, None)]:
        assert reference_conformers(parse_smiles(molecule.smiles)).GetNumConformers() == 1


def test_the_start_of_the_file_is_a_sample_of_the_whole(molecules: list[HeldOutMolecule]) -> None:
    assert 4 <= sum(molecule.atoms <= 12 for molecule in molecules[:20]) <= 16


def test_the_run_set_begins_with_them_and_holds_2000_that_no_model_is_trained_on(
    molecules: list[HeldOutMolecule],
) -> None:
    smiles = load_run_set()
    assert smiles[:200] == load_run_set(200) == [molecule.smiles for molecule in molecules]
    assert len(set(smiles)) == len(smiles) == 2_990
    assert all(is_held_out(one) and parse_smiles(one).smiles == one for one in smiles[:: sized(20, 1)])


@pytest.mark.parametrize("limit", [0, 2_991])
def test_a_run_set_of_another_size_is_refused(limit: int) -> None:
    with pytest.raises(DriftscopeError, match=r"2,990 held-out ones ship\. Give a file of your own"):
        load_run_set(limit)
