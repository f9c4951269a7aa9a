"""The builder of ``data/molecules.tsv``: a small set built twice is the same, and lines of the file are built again."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError, EmbedError, FileFormatError
from tools.training import molecule_sets, variants
from tools.training.molecule_sets import Section, build, counts, entry_of, main, read_written, settled, write

SMALL_SECTIONS = (
    Section("unchanged", "moses", 3, variants.unchanged),
    Section("ions", "variant", 3, variants.charged),
    Section("salts", "variant", 2, variants.salts),
    Section("fragments", "fragment", 99, variants.fragments),
)
WRITTEN = [("OCC", "ethanol"), ("[NH3+]CC([O-])=O", "glycine")]


@pytest.fixture(scope="module")
def source() -> list[str]:
    return [entry.smiles for entry in load_molecule_set(40, tag="moses")]


def test_the_same_source_in_any_order_gives_the_same_set(source: list[str]) -> None:
    built = build(source, WRITTEN, SMALL_SECTIONS, total=12)
    assert build(reversed([*source, *source]), WRITTEN, SMALL_SECTIONS, total=12) == built
    found = counts(built)
    assert [found[tag] for tag in ("written", "moses", "variant", "fragment")] == [2, 3, 5, 2]
    assert len({entry.smiles for entry in built}) == len(built) == 12
    assert [entry.name for entry in built if entry.smiles == "CCO"] == ["ethanol"]


def test_lines_of_the_shipped_file_are_built_again() -> None:
    shipped = [*load_molecule_set(25), *load_molecule_set(2, tag="wide"), *load_molecule_set(3, tag="dative")]
    origins = ("moses", "fragment", "variant", "written")
    for entry in shipped:
        origin = next(tag for tag in entry.tags if tag in origins)
        assert entry_of(parse_smiles(entry.smiles).mol, origin, entry.name) == entry


def test_all_that_was_written_down_is_in_the_shipped_file() -> None:
    shipped = {entry.smiles: entry.name for entry in load_molecule_set(tag="written")}
    written = {settled(smiles).smiles: name for smiles, name in read_written()}
    assert shipped == written
    assert len(written) == len(list(read_written())), "a molecule was written down twice"


def test_a_molecule_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DriftscopeError, match="is not held out"):
        entry_of(parse_smiles("CC(C)C").mol, "moses")
    with pytest.raises(EmbedError):
        entry_of(parse_smiles("C1#CC1").mol, "written")


def test_a_table_of_written_molecules_without_its_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "written.tsv"
    path.write_text("# comment\nCCO\tethanol\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match="does not start with the columns smiles, name"):
        list(read_written(path))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    entries = load_molecule_set(20)
    write(entries, tmp_path / "molecules.tsv")
    assert load_molecule_set(path=tmp_path / "molecules.tsv") == entries
    assert [path.name for path in tmp_path.iterdir()] == ["molecules.tsv"]


def test_the_command_writes_the_set(tmp_path: Path, source: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(molecule_sets, "read_moses", lambda split: iter(source if split == "test" else []))
    monkeypatch.setattr(molecule_sets, "read_written", lambda: iter(WRITTEN))
    monkeypatch.setattr(molecule_sets, "SECTIONS", SMALL_SECTIONS[:1])
    monkeypatch.setattr(molecule_sets, "TOTAL", 5)
    main(["--out", str(tmp_path / "set.tsv")])
    assert {entry.name for entry in load_molecule_set(path=tmp_path / "set.tsv")} >= {"ethanol", "glycine"}
