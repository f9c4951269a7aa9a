"""The molecules on which models are measured: held out, of the sizes stated, and the same from the same corpus."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.chem.conformers import reference_conformers
from engine.chem.molecule_sets import HELD_OUT_FILE, HeldOutMolecule, load_held_out, load_molecule_set, load_run_set
from engine.chem.smiles import parse_smiles
from engine.errors import AssetError, DriftscopeError, FileFormatError
from tests.support import ROOT, sized
from tests.tools.training.corpus_source import write_source
from tools.training import held_out_set
from tools.training.corpus import main as build_corpus
from tools.training.held_out import is_held_out
from tools.training.held_out_set import WANTED, choose, main, write, write_all


@pytest.fixture(scope="module")
def molecules() -> list[HeldOutMolecule]:
    return load_held_out()


def test_there_are_a_hundred_of_each_size_none_twice(molecules: list[HeldOutMolecule]) -> None:
    assert len({molecule.smiles for molecule in molecules}) == len(molecules) == sum(WANTED.values()) == 200
    for (least, most), count in WANTED.items():
        assert sum(least <= molecule.atoms <= most for molecule in molecules) == count


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


def test_all_others_follow_the_chosen_ones_whatever_the_order(tmp_path: Path) -> None:
    first, rest = load_held_out()[:3], [one.smiles for one in load_held_out()[3:40]]
    files = [tmp_path / "a.smi", tmp_path / "b.smi"]
    for path, offered in zip(files, (rest, [*reversed(rest), first[0].smiles]), strict=True):
        assert write_all(first, offered, path) == 40
    assert files[0].read_text() == files[1].read_text()
    assert load_run_set(3, path=files[0]) == [one.smiles for one in first]


def test_half_of_them_are_small(molecules: list[HeldOutMolecule]) -> None:
    assert sum(molecule.atoms <= 12 for molecule in molecules) == 100


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "does not start with the columns smiles, atoms"),
        ("smiles\tatoms\nC\t1\t2\n", "line 2: 3 columns instead of 2"),
        ("smiles\tatoms\nC\t1\n\t2\n", "line 3: the SMILES is missing"),
        ("smiles\tatoms\nC\tone\n", "line 2: 'one' is no number of atoms"),
        ("smiles\tatoms\nC\t0\n", "line 2: '0' is no number of atoms"),
        ("smiles\tatoms\nC\t٣\n", "line 2: '٣' is no number of atoms"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "held_out.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(FileFormatError, match=message):
        load_held_out(path=path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match=r"held_out\.tsv is missing\. The file ships with the project"):
        load_held_out(path=tmp_path / "held_out.tsv")


def offered() -> list[str]:
    return [entry.smiles for entry in load_molecule_set(tag="held-out") if "fragment" in entry.tags]


def test_the_same_molecules_in_any_order_give_the_same_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out_set, "WANTED", {(4, 8): 3, (9, 12): 5})
    chosen = choose(offered())
    assert choose(reversed([*offered(), *offered()])) == chosen
    assert [4 <= molecule.atoms <= 8 for molecule in chosen].count(True) == 3
    assert [9 <= molecule.atoms <= 12 for molecule in chosen].count(True) == 5


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out_set, "WANTED", {(1, 12): 1})
    with pytest.raises(DriftscopeError, match="'CC' is not held out: models may have been trained on it"):
        choose(["CC"])
    with pytest.raises(DriftscopeError, match="lacks 1 molecules of 1 to 12 heavy atoms"):
        choose([])
    canonical = next(smiles for smiles in offered() if smiles.startswith("C"))
    with pytest.raises(DriftscopeError, match="is not its own canonical form"):
        choose([f"[CH3]{canonical[1:]}"])


def test_the_command_writes_the_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(held_out_set, "WANTED", {(4, 12): 2, (13, 16): 2})
    write_source(tmp_path / "source.csv.gz")
    sizes = ["--molecules", "16", "--least-atoms", "4", "--most-atoms", "16"]
    corpus = ["--source", str(tmp_path / "source.csv.gz"), "--out", str(tmp_path / "corpus")]
    assert build_corpus(["--held-out", *sizes, *corpus]) == 0
    paths = ["--corpus", str(tmp_path / "corpus"), "--out", str(tmp_path / "out.tsv")]
    assert main(paths) == 0
    found = load_held_out(path=tmp_path / "out.tsv")
    assert len(found) == 4 and all(is_held_out(molecule.smiles) for molecule in found)
    assert main(["--corpus", str(tmp_path / "none"), "--out", str(tmp_path / "out.tsv")]) == 2
    assert "holds no finished corpus" in capsys.readouterr().err
    assert load_held_out(path=tmp_path / "out.tsv") == found


def test_what_is_written_is_read_again(tmp_path: Path, molecules: list[HeldOutMolecule]) -> None:
    write(molecules, tmp_path / "again.tsv")
    assert (tmp_path / "again.tsv").read_bytes() == HELD_OUT_FILE.read_bytes()


def test_the_readme_has_a_section_on_it() -> None:
    readme = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    assert "## `held_out.tsv`: 200 molecules" in readme
