"""The molecules on which models are measured: held out, of the sizes stated, and the same from the same corpus."""

from __future__ import annotations

import re

import pytest

from engine.chem.conformers import reference_conformers
from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError
from engine.records import Molecule
from tests.support import sized
from tools.training.molecules import is_held_out


@pytest.fixture(scope="module")
def molecules() -> list[Molecule]:
    return list(map(parse_smiles, load_run_set(200)))


def test_there_are_a_hundred_of_each_size(molecules: list[Molecule]) -> None:
    for least, most in ((4, 12), (13, 16)):
        assert sum(least <= molecule.heavy_atoms <= most for molecule in molecules) == 100


@pytest.mark.parametrize(("sign", "least"), [(r"[@/\\]", 10), (r"[+-]\d?\]", 10), ("c|n", 100), (r"\(", 100)])
def test_they_are_molecules_of_many_kinds(sign: str, least: int, molecules: list[Molecule]) -> None:
    assert sum(re.search(sign, molecule.smiles) is not None for molecule in molecules) >= least


@pytest.mark.soak
def test_each_embeds(molecules: list[Molecule]) -> None:
    for molecule in molecules[: sized(5, None)]:
        assert reference_conformers(molecule).GetNumConformers() == 1


def test_the_start_of_the_file_is_a_sample_of_the_whole(molecules: list[Molecule]) -> None:
    assert 4 <= sum(molecule.heavy_atoms <= 12 for molecule in molecules[:20]) <= 16


def test_the_run_set_holds_each_once_and_none_that_a_model_is_trained_on() -> None:
    smiles = load_run_set()
    assert len(set(smiles)) == len(smiles) == 2_990
    assert [one for one in smiles[:200] if not is_held_out(one) or parse_smiles(one).smiles != one] == []
    assert all(is_held_out(one) and parse_smiles(one).smiles == one for one in smiles[:: sized(20, 1)])


@pytest.mark.parametrize("limit", [0, 2_991])
def test_a_run_set_of_another_size_is_refused(limit: int) -> None:
    with pytest.raises(DriftscopeError, match=r"2,990 held-out ones ship\. Give a file of your own"):
        load_run_set(limit)
