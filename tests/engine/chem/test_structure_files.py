"""SDF and XYZ files: what goes out comes back, names cannot break a file, damage is named."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
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
from engine.chem.structure_files import (
    read_molecules,
    read_record,
    smiles_of_mol_blocks,
    to_sdf,
)
from engine.errors import ConformerError, FileFormatError
from engine.sandbox import Answer, Limits, Sandbox

SMILES = [
    "CCO", "C[C@H](N)C(=O)O", "F/C=C/F", "CC(=O)[O-].[NH4+]", "[13CH3]C", "[2H]OC", "[H]/N=C/C", "N->[Cu+2]",
    "c1cc[nH]c1", "O=[N+]([O-])c1ccccc1", "[Na+].[Cl-]", "C%10CCCCCC%10", "[H][H]", "ClCBr",
]  # fmt: skip
MOLS = {smiles: reference_conformers(parse_smiles(smiles), 2) for smiles in ("CCO", "C[C@H](N)C(=O)O")}
ETHANOL = MOLS["CCO"]
SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(folder: Path, text: str | bytes, name: str = "mols.sdf") -> Path:
    path = folder / name
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    return path


def by_rdkit(text: str) -> list[Chem.Mol]:
    with captured_log():
        return list(Chem.ForwardSDMolSupplier(io.BytesIO(text.encode()), removeHs=False))


@pytest.mark.parametrize("smiles", SMILES)
def test_sdf_round_trip(tmp_path: Path, smiles: str) -> None:
    mol = reference_conformers(parse_smiles(smiles), 2)
    back = read_molecules(written(tmp_path, to_sdf([("a name", mol)])))
    assert len(back) == 2  # a record a conformer
    for conformer, one in zip(mol.GetConformers(), back, strict=True):
        assert same_graph(one, mol)
        np.testing.assert_allclose(one.GetConformer().GetPositions(), conformer.GetPositions(), atol=6e-5)
        assert [atom.GetSymbol() for atom in one.GetAtoms()] == [atom.GetSymbol() for atom in mol.GetAtoms()]


def test_hydrogens_stay_as_they_are_in_the_file(tmp_path: Path) -> None:
    full = Chem.AddHs(ETHANOL, addCoords=True)
    assert read_molecules(written(tmp_path, to_sdf([full])))[0].GetNumAtoms() == 9
    assert read_molecules(written(tmp_path, to_sdf([ETHANOL])))[0].GetNumAtoms() == 3


@pytest.mark.parametrize("name", ["a.sdf", "a.SDF", "a.mol", "a.sdf.gz", "a.mol.gz", "A.SDF.GZ"])
def test_kinds_of_molecule_files(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, Chem.MolToMolBlock(ETHANOL), name)
    (mol,) = read_molecules(path)
    assert same_graph(mol, ETHANOL)


def test_line_endings_and_marks_of_other_systems(tmp_path: Path) -> None:
    text = to_sdf([("é", mol) for mol in MOLS.values()], [{"a": "1"}, {"a": "2"}])
    variants = (text.replace("\n", "\r\n"), text.replace("\n", "\r"), "\ufeff" + text, text + "\n\n  \n")
    for variant in (*(one.encode() for one in variants), text.encode("latin-1")):
        mols = read_molecules(written(tmp_path, variant))
        assert [mol.GetNumAtoms() for mol in mols] == [3, 3, 6, 6]


def test_names_and_properties_go_with_each_conformer() -> None:
    mols = by_rdkit(to_sdf([ETHANOL, ("b", MOLS["C[C@H](N)C(=O)O"])], [{"run": 3, "note": "x"}, {"rmsd_ang": 0.5}]))
    assert [mol.GetPropsAsDict() for mol in mols] == [{"run": 3, "note": "x"}] * 2 + [{"rmsd_ang": 0.5}] * 2
    assert [mol.GetProp("_Name") for mol in mols] == ["", "", "b", "b"]
    with pytest.raises(ValueError, match="shorter"):
        to_sdf([ETHANOL, ETHANOL], [{}])


NASTY = st.text(max_size=30) | st.lists(
    st.sampled_from(
        ["$$$$", "\n", "\r\n", "\r", "M  END", "> <x>", ">", "<", "\x00", "\u2028", "\x85", "a", " ", "\ud800", "é"]
    ),
    max_size=6,
).map("".join)


@given(name=NASTY, value=NASTY)
@SETTINGS
def test_hostile_names_and_properties_break_nothing(tmp_path: Path, name: str, value: str) -> None:
    text = to_sdf([(name, ETHANOL), ("next", ETHANOL)], [{"key": value}, {"k": "v"}])
    assert [line for line in text.split("\n") if line.startswith("$$$$")] == ["$$$$"] * 4
    assert [mol.GetNumAtoms() for mol in read_molecules(written(tmp_path, text))] == [3] * 4
    mols = by_rdkit(text)
    assert all(mols) and mols[2].GetProp("_Name") == "next" and mols[2].GetPropsAsDict() == {"k": "v"}


def test_what_is_harmless_in_a_name_is_kept() -> None:
    mol = by_rdkit(to_sdf([("Ibuprofen (S)-2 µ $$ <b>", ETHANOL)], [{"p": "a > b; $$$$ inside"}]))[0]
    assert mol.GetProp("_Name") == "Ibuprofen (S)-2 µ $$ <b>"
    assert mol.GetPropsAsDict() == {"p": "a > b; $$$$ inside"}


@pytest.mark.parametrize("value", [np.nan, np.inf, 10_000.0])
def test_coordinates_that_no_column_holds_are_refused(value: float) -> None:
    mol = Chem.Mol(ETHANOL)
    mol.GetConformer(0).SetPositions(np.full((3, 3), value))
    with pytest.raises(ConformerError):
        to_sdf([mol])


BLOCK = Chem.MolToMolBlock(ETHANOL)
GOOD = BLOCK + "$$$$\n"
DAMAGED = {
    "empty": ("", "no molecule in it"),
    "blank": ("\n \n", "no molecule in it"),
    "only an end": ("$$$$\n", "record 1 "),
    "prose": ("This is no molecule.\nReally.\n", "record 1 .* cut short"),
    "json": ('{"a": 1}', "record 1 .* cut short"),
    "cut in the atoms": (GOOD + BLOCK[:150], "record 2 .* cut short"),
    "cut in the properties": (BLOCK + ">  <a>\n1\n", "record 1 .* cut short"),
    "atom line gone": (GOOD + GOOD.replace(GOOD.splitlines()[5] + "\n", ""), "record 2 "),
    "no such element": (GOOD.replace(" C ", " Qq"), "record 1 .*Qq"),
    "no atoms": ("\n\n\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END\n$$$$\n", "record 1 .* no atoms"),
    "letters for a number": (GOOD.replace(GOOD.splitlines()[4][:10], "    x.yzzy"), "record 1 "),
    "impossible valence": (GOOD + GOOD.replace("  2  3  1", "  2  3  3"), "record 2 .*valence"),
    "counts too high": (GOOD.replace("  3  2", " 99 98"), "record 1 "),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named_with_file_and_record(tmp_path: Path, name: str) -> None:
    text, message = DAMAGED[name]
    with pytest.raises(FileFormatError, match=message) as caught:
        read_molecules(written(tmp_path, text, "hurt.sdf"))
    assert "'hurt.sdf'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_readable_file_is_named(tmp_path: Path) -> None:
    kind = ".sdf"
    folder = tmp_path / f"folder{kind}"
    folder.mkdir()
    cases = {
        folder: "is a folder",
        tmp_path / f"missing{kind}": "No such file",
        written(tmp_path, "x", "data.pdf"): "is no SDF or MOL file",
        written(tmp_path, "x", "data"): "is no SDF or MOL file",
        written(tmp_path, "x", "data.gz"): "is no SDF or MOL file",
        written(tmp_path, bytes(range(256)) * 20, f"garbage{kind}"): "no text",
        written(tmp_path, "CCO\n".encode("utf-16"), f"wide{kind}"): "is no text",
        written(tmp_path, "x" * 1_000_001, f"long{kind}"): "1,000,000 characters",
    }
    (tmp_path / f"fake{kind}.gz").write_bytes(b"CCO\n")
    cases[tmp_path / f"fake{kind}.gz"] = "cut short or damaged"
    (tmp_path / f"torn{kind}.gz").write_bytes(gzip.compress(b"\n" * 5000)[:-12])
    cases[tmp_path / f"torn{kind}.gz"] = "cut short or damaged"
    for path, message in cases.items():
        with pytest.raises(FileFormatError, match=message) as caught:
            read_molecules(path)
        assert f"{path.name}'" in str(caught.value)


def test_a_file_without_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = written(tmp_path, GOOD)
    monkeypatch.setattr("engine.user_files.open_regular", denied)  # root, as whom tests may run, can read every file
    with pytest.raises(FileFormatError, match=r"mols.sdf' cannot be read: Permission denied"):
        read_molecules(path)


def test_text_that_is_not_ascii_survives_next_to_damage(tmp_path: Path) -> None:
    # RDKit cuts its messages in the middle of a character, and its logging then fails with a SystemError.
    for place in range(len(BLOCK.splitlines())):
        lines = BLOCK.splitlines()
        lines[place] = "é" * 40
        path = written(tmp_path, GOOD + "\n".join(lines) + "\n$$$$\n")
        if place < 3:  # title, program and comment
            assert len(read_molecules(path)) == 2
        else:
            with pytest.raises(FileFormatError, match="record 2 "):
                read_molecules(path)


def test_a_file_or_a_record_without_end_is_not_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure_files, "MOST_MOLECULES", 2)
    with pytest.raises(FileFormatError, match="more than 2 records"):
        read_molecules(written(tmp_path, GOOD * 3))
    monkeypatch.setattr(structure_files, "MOST_RECORD_CHARACTERS", 4_000)
    with pytest.raises(FileFormatError, match=r"record 1 .* longer than 4,000"):
        read_molecules(written(tmp_path, 5 * ("x" * 999 + "\n")))


@given(data=st.data())
@SETTINGS
def test_any_damage_gives_molecules_or_the_named_error(tmp_path: Path, data: st.DataObject) -> None:
    raw = bytearray(to_sdf([("n", ETHANOL)], [{"a": "b"}]).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw)))
        end = data.draw(st.integers(start, min(len(raw), start + 40)))
        raw[start:end] = data.draw(
            st.binary(max_size=5) | st.sampled_from([b"\n", b"$$$$\n", b"-9", b"999", b" ", b"M  END\n"])
        )
    try:
        mols = read_molecules(written(tmp_path, bytes(raw)))
    except FileFormatError as error:
        named = str(error)
    else:
        named = "'mols.sdf'"
        assert all(np.isfinite(mol.GetConformer().GetPositions()).all() for mol in mols)
    assert "'mols.sdf'" in named
    assert "\n" not in named


def test_pasted_mol_blocks_are_smiles_whatever_lines_came_along() -> None:
    mol = Chem.AddHs(Chem.MolFromSmiles("C[C@H](O)CN"))
    rdDistGeom.EmbedMolecule(mol, randomSeed=1)
    block = Chem.MolToMolBlock(mol)
    for text in (
        block,
        block.lstrip(),
        block.split("\n", 3)[3],
        Chem.MolToV3KMolBlock(mol),
        block.replace("\n", "\r\n"),
    ):
        assert smiles_of_mol_blocks(text, most=1) == ["C[C@H](O)CN"]
    assert len(smiles_of_mol_blocks(f"{block}$$$$\n{block}", most=2)) == 2
    assert smiles_of_mol_blocks("CCO", most=1) == smiles_of_mol_blocks("CCO M  END", most=1) == []
    with pytest.raises(FileFormatError, match="record 1 of 'the pasted text' cannot be read: Element 'Qq'"):
        smiles_of_mol_blocks(block.replace(" C ", " Qq ", 1), most=1)
    loose = str(Chem.MolToMolBlock(Chem.MolFromSmiles("Cc1ccccc1"))).replace("  1  2  1  0", "  1  2  5  0")
    with pytest.raises(FileFormatError, match="record 1 of 'the pasted text' cannot be read"):
        smiles_of_mol_blocks(loose, most=1)
    with pytest.raises(FileFormatError, match=r"2 mol blocks .*Paste at most 1"):
        smiles_of_mol_blocks(2 * block, most=1)


def test_large_molecules_are_refused_before_they_are_ordered() -> None:
    head = "\n x\n\n  0  0  0     0  0            999 V3000\nM  V30 BEGIN CTAB\nM  V30 COUNTS 5001 0 0 0 0\n"
    head += "M  V30 BEGIN ATOM\n"
    atoms = "".join(f"M  V30 {number} U {number} 0 0 0\n" for number in range(1, 5_002))
    block = f"{head}{atoms}M  V30 END ATOM\nM  V30 END CTAB\nM  END\n"
    with pytest.raises(FileFormatError, match="over 5,000 atoms"):
        read_block(block)
    with pytest.raises(FileFormatError, match="over 5,000 atoms"):
        smiles_of_mol_blocks(block, most=1)


def test_queries_are_refused_unread() -> None:
    mol = Chem.MolFromSmiles("CCO")
    wide, plain = str(Chem.MolToV3KMolBlock(mol)), str(Chem.MolToMolBlock(mol))
    assert "V30 1 C " in wide and "M  END" in plain
    elements = "[C,N]"
    for block in (
        wide.replace("V30 1 C ", f"V30 1 {elements} "),
        wide.replace("V30 1 C ", f"V30 1 NOT {elements} "),
        plain.replace("M  END", f"M  MRV SMA   1 {elements}\nM  END"),
        plain.replace("M  END", "M  ALS   1  2 F C   N   \nM  END"),
    ):
        with pytest.raises(FileFormatError, match="cannot be read"):
            read_block(block)


def test_dense_graphs_are_refused_before_their_rings_are_searched() -> None:
    def block(left: int, right: int) -> str:
        mol = Chem.RWMol()
        for _ in range(left + right):
            mol.AddAtom(Chem.Atom("U"))
        for place in range(left * right):
            mol.AddBond(place // right, left + place % right, Chem.BondType.SINGLE)
        return str(Chem.MolToMolBlock(mol, kekulize=False))

    assert smiles_of_mol_blocks(block(4, 4), most=1)
    with pytest.raises(FileFormatError, match="over 100 rings"):
        smiles_of_mol_blocks(block(14, 14), most=1)


# --- blocks on which RDKit ends, or for which it takes too long, cost its process and a sentence ---------------------


def read_block(block: str) -> Chem.Mol:
    return read_record("a.mol", 1, block.splitlines())[1]


def test_a_block_on_which_the_reader_ends_costs_that_block() -> None:
    """Read here, the elements ended this process, and so many atoms took 1.6 GB of it."""
    block = str(Chem.MolToV3KMolBlock(Chem.MolFromSmiles("CCO")))
    hostile = {
        block.replace("V30 1 C ", f"V30 1 [C,N{200_000 * ',C'}] "): "its reader ended on it",
        block.replace("COUNTS 3 2", "COUNTS 200000000 0"): "cannot be read",
    }
    for text, reason in hostile.items():
        with pytest.raises(FileFormatError, match=reason):
            read_block(text)
        assert read_block(block).GetNumAtoms() == 3


def test_a_reader_that_ended_after_an_earlier_block_is_begun_anew() -> None:
    block = str(Chem.MolToMolBlock(ETHANOL))
    read_block(block)
    process = structure_files.BLOCK_READER._process
    assert process is not None
    process.kill()
    mol = read_block(block)
    assert (
        mol.GetConformer().GetPositions().tolist() == Chem.MolFromMolBlock(block).GetConformer().GetPositions().tolist()
    )


def test_a_block_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        structure_files, "BLOCK_READER", Sandbox(_slow_reader, limits=Limits(0.5, is_cpu=True, is_closed=True))
    )
    with pytest.raises(FileFormatError, match=r"it takes over 0\.5 s to read"):
        read_block("for ever")


def _slow_reader() -> Callable[[str], Answer]:
    def answer(block: str) -> Answer:
        while True:
            pass

    return answer
