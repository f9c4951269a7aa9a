"""Pools: what a conformer should be, where that is written, and what is wrong with it, by molecules that RDKit made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rdkit import Chem

from engine.chem.pools import PoolConformer, PoolRecord, pool_records, read_pool
from engine.chem.verdict import WITH_STRAIN
from engine.errors import FileError
from tests.engine.chem.pickles import conformers, generations, write

ALANINE, MIRRORED = "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"


def sdf(path: Path, mols: Sequence[tuple[str, str, Chem.Mol]], *, tail: str = "") -> Path:
    """Records as (title, SMILES property or none, molecule)."""
    records = []
    for title, smiles, mol in mols:
        named = Chem.Mol(mol)
        named.SetProp("_Name", title)
        fields = f">  <smiles>\n{smiles}\n\n" if smiles else ""
        records.append(f"{Chem.MolToMolBlock(named)}{fields}$$$$\n")
    path.write_text("".join(records) + tail)
    return path


def mirrored(mol: Chem.Mol) -> Chem.Mol:
    """The same record with its coordinates in a mirror."""
    other = Chem.Mol(mol)
    xyz = other.GetConformer().GetPositions() * [-1, 1, 1]
    other.GetConformer().SetPositions(np.ascontiguousarray(xyz))
    return other


def read(path: Path) -> list[PoolConformer]:
    return list(read_pool(pool_records(path), workers=1))


@pytest.fixture(scope="module")
def alanine() -> Chem.Mol:
    return conformers(ALANINE, 1)[0]


def test_what_it_should_be_is_a_property_the_title_or_the_graph(tmp_path: Path, alanine: Chem.Mol) -> None:
    bare = Chem.RemoveHs(alanine)
    records = [
        ("mol 1", "N[C@@H](C)C(=O)O", alanine),  # the same molecule, written otherwise
        (ALANINE, "", bare),
        ("CON", "", alanine),  # a name that is a SMILES of another molecule
        ("CCO", "", conformers("CCO", 1)[0]),  # no character that names have not, but the graph's own SMILES
        ("CCC#N", "", alanine),  # a SMILES, and not this one's
        ("x", "no SMILES", alanine),
    ]
    found = read(sdf(tmp_path / "a.sdf", records))
    said = [(each.asked, each.smiles_from, each.same_graph) for each in found]
    assert said == [
        (ALANINE, "property smiles", True),
        (ALANINE, "title", True),
        (ALANINE, "graph", None),
        ("CCO", "title", True),
        ("CCC#N", "title", False),
        (ALANINE, "graph", None),
    ]
    for each, source in zip(found, (alanine, bare, alanine), strict=False):  # in the order of its SMILES
        order = source.GetSubstructMatch(Chem.MolFromSmiles(each.smiles))
        assert np.allclose(np.reshape(each.xyz, (-1, 3)), source.GetConformer().GetPositions()[list(order)], atol=1e-3)
    right = [each.verdict.stereo_right if each.verdict else "none" for each in found]
    assert right == [True, True, None, None, None, None]
    assert [[failed.check for failed in each.verdict.failed] for each in found[4:5] if each.verdict] == [["graph"]]


def test_a_mirrored_centre_is_the_same_molecule_with_wrong_stereo(tmp_path: Path, alanine: Chem.Mol) -> None:
    flipped = mirrored(alanine)
    assert Chem.MolToSmiles(Chem.RemoveHs(Chem.MolFromMolBlock(Chem.MolToMolBlock(flipped)))) == MIRRORED
    records = [("", ALANINE, flipped), ("", MIRRORED, flipped), ("", "CC(N)C(=O)O", flipped), ("", "", flipped)]
    found = read(sdf(tmp_path / "a.sdf", records))
    said = [(each.same_graph, each.verdict.stereo_right, each.verdict.stereo_sites) for each in found if each.verdict]
    assert said == [(True, False, 1), (True, True, 1), (True, None, 0), (None, None, 0)]
    (wrong,) = found[0].verdict.failed if found[0].verdict else ()
    assert (wrong.check, Chem.MolFromSmiles(found[0].smiles).GetAtomWithIdx(wrong.atoms[0]).GetDegree()) == (
        "stereo",
        3,
    )


def test_what_was_stopped_is_named_by_a_process_with_limits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peptide of 161 atoms at random places takes seconds to relax. Nothing is parsed in this process."""
    smiles = f"N{'CC(=O)N' * 40}C"
    mol = Chem.MolFromSmiles(smiles)
    steps = np.random.default_rng(0).normal(size=(mol.GetNumAtoms(), 3))
    conformer = Chem.Conformer(mol.GetNumAtoms())
    conformer.SetPositions(np.cumsum(steps, axis=0))
    mol.AddConformer(conformer)
    record = PoolRecord("record 1", Chem.MolToMolBlock(mol), (("property smiles", smiles),))
    monkeypatch.setattr("engine.chem.pools._named", None)
    (stopped,) = read_pool([record], WITH_STRAIN, workers=1, limit_s=0.5)
    assert (stopped.asked, stopped.smiles_from) == (Chem.MolToSmiles(mol), "property smiles")
    assert stopped.problem == "stopped after 0.5 s of computing" and not stopped.xyz


def test_a_clash_is_found_in_its_record_alone(tmp_path: Path, alanine: Chem.Mol) -> None:
    bent = Chem.RemoveHs(alanine)
    xyz = bent.GetConformer().GetPositions()
    ends = [atom.GetIdx() for atom in bent.GetAtoms() if atom.GetDegree() == 1]
    xyz[ends[0]] = xyz[ends[1]] + 0.4
    bent.GetConformer().SetPositions(np.ascontiguousarray(xyz))
    whole, broken = read(sdf(tmp_path / "a.sdf", [("", ALANINE, alanine), ("", ALANINE, bent)]))
    assert (whole.verdict.geometry_right, broken.verdict.geometry_right) == (True, False)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("spoilt", "reason"),
    [
        (lambda text: text.replace(" C  ", " Xx ", 1), "Element 'Xx' not found"),
        (lambda text: text.replace("V2000", "V9000", 1), ""),
        (lambda text: text.replace(" C  ", " \x01  ", 1), "Element '?' not found"),
        (lambda text: text.replace(" C  ", " \u2192  ", 1), "Element '?' not found"),
        (lambda text: text.replace("    0.0", "    zzz", 1), ""),
        (lambda text: "\n\n\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END\n$$$$\n", "it has no atoms"),
    ],
    ids=["element", "version", "binary", "arrow", "number", "empty"],
)
def test_a_broken_record_is_named_and_costs_no_other(
    tmp_path: Path, alanine: Chem.Mol, spoilt: object, reason: str
) -> None:
    assert callable(spoilt)
    one = sdf(tmp_path / "one.sdf", [("", ALANINE, alanine)]).read_text()
    broken = spoilt(one)
    assert broken != one or reason == ""
    path = tmp_path / "a.sdf"
    path.write_text(one + broken + one)
    found = read(path)
    assert [bool(each.problem) for each in found] == [False, broken != one, False]
    assert found[1].source == "record 2 of a.sdf" and reason in found[1].problem


def test_a_file_that_ends_early_keeps_what_is_before(tmp_path: Path, alanine: Chem.Mol) -> None:
    path = sdf(tmp_path / "a.sdf", [("", ALANINE, alanine)], tail="\n\n\n  1  0  0  0\n")
    whole, cut = read(path)
    assert not whole.problem and cut.source == "record 2 of a.sdf" and "cut short" in cut.problem


def test_a_record_without_end_says_that_the_rest_was_not_read(
    tmp_path: Path, alanine: Chem.Mol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.chem.structure_files.MOST_RECORD_CHARACTERS", 3_000)
    one = sdf(tmp_path / "one.sdf", [("", ALANINE, alanine)]).read_text()
    path = tmp_path / "a.sdf"
    path.write_text(one + one.replace("$$$$", "$") * 3 + one)
    whole, endless = read(path)
    assert not whole.problem and endless.problem.endswith("3,000 characters; what follows it was not read")


def test_a_folder_a_shard_and_generations_that_failed(tmp_path: Path, alanine: Chem.Mol) -> None:
    folder = tmp_path / "pool"
    folder.mkdir()
    for name in ("b.sdf", "a.sdf"):
        sdf(folder / name, [("", ALANINE, alanine)])
    assert [each.source for each in read(folder)] == ["record 1 of a.sdf", "record 1 of b.sdf"]
    shard = write(tmp_path / "gpu_0.pickle", {"generations": {**generations(), "CC": [None]}, "stats": {"no_eos": 3}})
    found = read(shard)
    assert [each.asked for each in found] == ["CCO"] * 3 + ["CCN"] * 2 + ["CC"]
    assert {each.smiles_from for each in found} == {"key"} and found[-1].problem == "there is no molecule"
    sdf(folder / "c.sdf", [("", ALANINE, alanine)]).rename(folder / "c.pickle")
    with pytest.raises(FileError, match="files of several forms"):
        read(folder)


def test_rows_of_parquet_are_judged_by_their_smiles(tmp_path: Path, alanine: Chem.Mol) -> None:
    written = "OC(=O)[C@@H](N)C"
    order = alanine.GetSubstructMatch(Chem.MolFromSmiles(written), useChirality=True)
    assert len(order) == 6
    xyz = alanine.GetConformer().GetPositions()[list(order)]
    rows = {"smiles": [written, written, "no"], "xyz": [xyz.ravel(), (-xyz).ravel(), [0.0, 0.0, 0.0]]}
    path = tmp_path / "pool.parquet"
    pq.write_table(pa.table(rows), path)
    right, wrong, unread = read(path)
    assert [(each.asked, each.smiles_from, each.same_graph) for each in (right, wrong)] == [
        (ALANINE, "column smiles", True)
    ] * 2
    verdicts = [each.verdict.stereo_right for each in (right, wrong) if each.verdict]
    assert verdicts == [True, False] and "SMILES 'no' cannot be read" in unread.problem
