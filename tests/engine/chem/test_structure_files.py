"""SDF and XYZ files: what goes out comes back, names cannot break a file, damage is named."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem import rdDistGeom

from engine.chem import structure_files
from engine.chem.conformers import reference_conformers
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import parse_smiles, same_graph
from engine.chem.structure_files import read_molecules, read_record, smiles_of_mol_blocks, to_sdf
from engine.errors import ConformerError, FileError

SMILES = [
    "C[C@H](N)C(=O)O", "F/C=C/F", "CC(=O)[O-].[NH4+]", "[13CH3]C", "[2H]OC", "[H]/N=C/C", "N->[Cu+2]", "c1cc[nH]c1",
    "O=[N+]([O-])c1ccccc1", "[H][H]",
]  # fmt: skip
MOLS = {smiles: reference_conformers(parse_smiles(smiles), 2) for smiles in ("CCO", "C[C@H](N)C(=O)O")}
ETHANOL = MOLS["CCO"]


def written(folder: Path, text: str | bytes, name: str = "mols.sdf") -> Path:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder / name


def by_rdkit(text: str) -> list[Chem.Mol]:
    with captured_log():
        return list(Chem.ForwardSDMolSupplier(io.BytesIO(text.encode()), removeHs=False))


@pytest.mark.parametrize("smiles", SMILES)
def test_sdf_round_trip(tmp_path: Path, smiles: str) -> None:
    mol = reference_conformers(parse_smiles(smiles), 2)
    back = read_molecules(written(tmp_path, to_sdf([("Ibuprofen (S)-2 µ $$ <b>", mol)])))
    assert len(back) == 2  # a record a conformer
    for conformer, record in zip(mol.GetConformers(), back, strict=True):
        assert same_graph(record, mol)
        np.testing.assert_allclose(record.GetConformer().GetPositions(), conformer.GetPositions(), atol=6e-5)
        assert [atom.GetSymbol() for atom in record.GetAtoms()] == [atom.GetSymbol() for atom in mol.GetAtoms()]


def test_line_endings_and_marks_of_other_systems(tmp_path: Path) -> None:
    text = to_sdf([("é", mol) for mol in MOLS.values()], [{"a": "1"}, {"a": "2"}])
    variants = (text.replace("\n", "\r\n"), text.replace("\n", "\r"), "\ufeff" + text, text + "\n\n  \n")
    for variant in (*(form.encode() for form in variants), text.encode("latin-1")):
        mols = read_molecules(written(tmp_path, variant))
        assert [mol.GetNumAtoms() for mol in mols] == [3, 3, 6, 6]


def test_names_and_properties_go_with_each_conformer() -> None:
    mols = by_rdkit(to_sdf([ETHANOL, ("b", MOLS["C[C@H](N)C(=O)O"])], [{"run": 3, "note": "x"}, {"rmsd_ang": 0.5}]))
    assert [mol.GetPropsAsDict() for mol in mols] == [{"run": 3, "note": "x"}] * 2 + [{"rmsd_ang": 0.5}] * 2
    assert [mol.GetProp("_Name") for mol in mols] == ["", "", "b", "b"]
    with pytest.raises(ValueError, match="shorter"):
        to_sdf([ETHANOL, ETHANOL], [{}])


MARKS = ["$$$$", "\n", "\r\n", "\r", "M  END", "> <x>", "<", "\x00", "\u2028", "\x85", "a", " ", "\ud800", "é"]
NASTY = st.text(max_size=30) | st.lists(st.sampled_from(MARKS), max_size=6).map("".join)


@given(name=NASTY, value=NASTY)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_names_and_properties_break_nothing(tmp_path: Path, name: str, value: str) -> None:
    text = to_sdf([(name, ETHANOL), ("next", ETHANOL)], [{"key": value}, {"k": "v"}])
    assert [line for line in text.split("\n") if line.startswith("$$$$")] == ["$$$$"] * 4
    assert [mol.GetNumAtoms() for mol in read_molecules(written(tmp_path, text))] == [3] * 4
    mols = by_rdkit(text)
    assert all(mols) and mols[2].GetProp("_Name") == "next" and mols[2].GetPropsAsDict() == {"k": "v"}


@pytest.mark.parametrize("value", [np.nan, np.inf, 10_000.0])
def test_coordinates_that_no_column_holds_are_refused(value: float) -> None:
    mol = Chem.Mol(ETHANOL)
    mol.GetConformer(0).SetPositions(np.full((3, 3), value))
    with pytest.raises(ConformerError):
        to_sdf([mol])


BLOCK = Chem.MolToMolBlock(ETHANOL)
GOOD = BLOCK + "$$$$\n"
DAMAGED = {
    "cut in the atoms": (GOOD + BLOCK[:150], "record 2 .* cut short"),
    "no such element": (GOOD.replace(" C ", " Qq"), "record 1 .*Qq"),
    "no atoms": ("\n\n\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END\n$$$$\n", "record 1 .* no atoms"),
    "impossible valence": (GOOD + GOOD.replace("  2  3  1", "  2  3  3"), "record 2 .*valence"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named_with_file_and_record(tmp_path: Path, name: str) -> None:
    text, message = DAMAGED[name]
    with pytest.raises(FileError, match=message) as caught:
        read_molecules(written(tmp_path, text, "hurt.sdf"))
    assert "'hurt.sdf'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_text_that_is_not_ascii_survives_next_to_damage(tmp_path: Path) -> None:
    # RDKit cuts its messages in the middle of a character, and its logging then fails with a SystemError.
    for index in range(len(BLOCK.splitlines())):
        lines = BLOCK.splitlines()
        lines[index] = "é" * 40
        path = written(tmp_path, GOOD + "\n".join(lines) + "\n$$$$\n")
        if index < 3:  # title, program and comment
            assert len(read_molecules(path)) == 2
        else:
            with pytest.raises(FileError, match="record 2 "):
                read_molecules(path)


def test_a_file_or_a_record_without_end_is_not_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure_files, "MOST_MOLECULES", 2)
    with pytest.raises(FileError, match="more than 2 records"):
        read_molecules(written(tmp_path, GOOD * 3))
    monkeypatch.setattr(structure_files, "MOST_RECORD_CHARACTERS", 4_000)
    with pytest.raises(FileError, match=r"record 1 .* longer than 4,000"):
        read_molecules(written(tmp_path, 5 * ("x" * 999 + "\n")))


def test_pasted_mol_blocks_are_smiles_whatever_lines_came_along() -> None:
    mol = Chem.AddHs(Chem.MolFromSmiles("C[C@H](O)CN"))
    rdDistGeom.EmbedMolecule(mol, randomSeed=1)
    block = Chem.MolToMolBlock(mol)
    headless = block.split("\n", 3)[3]
    for text in (block, block.lstrip(), headless, Chem.MolToV3KMolBlock(mol), block.replace("\n", "\r\n")):
        assert smiles_of_mol_blocks(text, most=1) == ["C[C@H](O)CN"]
    assert len(smiles_of_mol_blocks(f"{block}$$$$\n{block}", most=2)) == 2
    assert smiles_of_mol_blocks("CCO", most=1) == smiles_of_mol_blocks("CCO M  END", most=1) == []
    with pytest.raises(FileError, match="record 1 of 'the pasted text' cannot be read: Element 'Qq'"):
        smiles_of_mol_blocks(block.replace(" C ", " Qq ", 1), most=1)
    loose = str(Chem.MolToMolBlock(Chem.MolFromSmiles("Cc1ccccc1"))).replace("  1  2  1  0", "  1  2  5  0")
    with pytest.raises(FileError, match="record 1 of 'the pasted text' cannot be read"):
        smiles_of_mol_blocks(loose, most=1)
    with pytest.raises(FileError, match=r"2 mol blocks .*Paste at most 1"):
        smiles_of_mol_blocks(2 * block, most=1)


def v3000(atoms: int, bonds: Sequence[tuple[int, int]] = ()) -> str:
    lines = [f"COUNTS {atoms} {len(bonds)} 0 0 0", "BEGIN ATOM", *(f"{n} U {n} 0 0 0" for n in range(1, atoms + 1))]
    lines += ["END ATOM", "BEGIN BOND", *(f"{n} 1 {a} {b}" for n, (a, b) in enumerate(bonds, 1)), "END BOND"]
    body = "".join(f"M  V30 {line}\n" for line in ("BEGIN CTAB", *lines, "END CTAB"))
    return f"\n x\n\n  0  0  0     0  0            999 V3000\n{body}M  END\n"


def test_large_and_dense_molecules_are_refused_before_they_are_ordered() -> None:
    rings = list(itertools.product(range(1, 12), range(12, 24)))  # 110 rings
    for block in (v3000(5_001), v3000(23, rings)):
        with pytest.raises(FileError, match="over 5,000 atoms or over 100 rings"):
            smiles_of_mol_blocks(block, most=1)
    assert len(smiles_of_mol_blocks(v3000(23, rings[:23]), most=1)) == 1
    with pytest.raises(FileError, match="over 5,000 atoms"):
        read_block(v3000(5_001))


# --- blocks on which RDKit ends, or for which it takes too long, cost its process and a sentence ---------------------


def read_block(block: str) -> Chem.Mol:
    return read_record("a.mol", 1, block.splitlines())[1]


def test_a_block_on_which_the_reader_ends_costs_that_block() -> None:
    """Read here, the elements ended this process, and so many atoms took 1.6 GB of it."""
    block = str(Chem.MolToV3KMolBlock(Chem.MolFromSmiles("CCO")))
    hostile = {
        block.replace("V30 1 C ", f"V30 1 [C,N{200_000 * ',C'}] "): "its reader ended on it",
        block.replace("COUNTS 3 2", "COUNTS 200000000 0"): "cannot be read",
        block.replace("V30 1 C ", "V30 1 NOT [C,N] "): "cannot be read",  # queries are refused unread
        str(Chem.MolToMolBlock(ETHANOL)).replace("M  END", "M  ALS   1  2 F C   N   \nM  END"): "cannot be read",
    }
    for text, reason in hostile.items():
        with pytest.raises(FileError, match=reason):
            read_block(text)
        assert read_block(block).GetNumAtoms() == 3
