"""Long lists of molecules: the same as parsed ones, and not held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.chem import molecule_files, molecule_list
from engine.chem.molecule_files import read_molecule_file
from engine.chem.molecule_list import MoleculeList, heavy_atoms_of, smiles_of
from engine.chem.smiles import parse_smiles, parse_written
from engine.errors import FileFormatError
from engine.records import Molecule

TEXTS = ["OCC", "C1CC1N", "OCC", "c1ccccc1", "N[C@@H](C)C(=O)O"]


@pytest.mark.parametrize("parse", [parse_smiles, parse_written])
def test_it_is_as_a_list_of_parsed_molecules(parse: Callable[[str], Molecule]) -> None:
    molecules, expected = MoleculeList.of(TEXTS, parse), [parse(text) for text in TEXTS]
    assert list(molecules) == expected
    assert molecules[1:3] == expected[1:3]
    assert (molecules[-1], len(molecules)) == (expected[-1], 5)
    assert list(smiles_of(molecules)) == smiles_of(expected) == [molecule.smiles for molecule in expected]
    assert list(heavy_atoms_of(molecules)) == heavy_atoms_of(expected) == [3, 4, 3, 6, 6]


def test_a_file_of_many_molecules_is_not_held_as_parsed_molecules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million lines took 21 GB."""
    monkeypatch.setattr(molecule_list, "KEPT", 2)
    parsed = Counter[str]()

    def parse(text: str) -> Molecule:
        parsed[text] += 1
        return parse_smiles(text)

    path = tmp_path / "many.smi"
    path.write_text("\n".join("C" * length for length in range(1, 11)))
    seen: list[int] = []
    molecules, _ = read_molecule_file(path, parse=parse, progress=seen.append)
    assert seen == list(range(1, 11)) and list(molecules.heavy_atoms) == seen
    assert [molecule.smiles for molecule in molecules] == list(smiles_of(molecules))
    assert set(parsed.values()) == {2}, "once when it was read, once when it was asked for"


def test_a_file_that_is_of_no_use_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 million lines of 77 kB as gz held a page for ever."""
    monkeypatch.setattr(molecule_files, "MOST_USELESS", 20)
    file = tmp_path / "a.smi"
    file.write_text("CCO\n" + 1_000 * "C1C\n")
    with pytest.raises(
        FileFormatError, match=r"21 of the first 22 molecules of 'a\.smi' cannot be used\. The first, at 2"
    ):
        read_molecule_file(file)
    file.write_text(10 * "CCO\n" + 85 * "C1C\n")
    molecules, skipped = read_molecule_file(file)
    assert (len(molecules), len(skipped)) == (10, 85)
