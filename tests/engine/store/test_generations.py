"""Generations as runs: pickles in and out, judged and held against references like any other run."""

from __future__ import annotations

import pickle
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rdkit import Chem

from engine.inspection.conformers import conformers_of
from engine.inspection.sample import inspect_sample
from engine.store.schema import RUN
from engine.store.store import Store
from tests.cli import run, run_json
from tests.engine.chem.pickles import conformers, generations, references, write
from tests.engine.chem.test_pools import mirrored, sdf

DRAWN = (("CCO", 3), ("C[C@H](N)C(=O)O", 2))


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "store")


@pytest.fixture(scope="module")
def read_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Five conformers, one of another molecule, and one that has none."""
    folder = tmp_path_factory.mktemp("generations")
    document = generations(DRAWN)
    document["OCC"] = [conformers("CCC", 1)[0], Chem.MolFromSmiles("CCO")]  # the first molecule, written otherwise
    path = str(write(folder / "generation_results.pickle", document))
    (row,) = run_json("import", path, "--store", str(folder / "store"))
    again = run("import", path, "--store", str(folder / "store"))
    assert f"is already in the store, as {row['run_id']}; " in again.err
    return folder, row


@pytest.fixture
def imported(tmp_path: Path, read_once: tuple[Path, Any]) -> Any:
    folder, row = read_once
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return row


def test_a_pickle_becomes_a_run_of_conformers(imported: Any, home: str) -> None:
    assert imported["run_id"].startswith("imported-")
    named = ("origin", "source", "samples", "molecules", "generations", "passes", "decodes", "clean", "blocks")
    assert [imported[key] for key in named] == [
        "imported",
        "generation_results.pickle",
        7,
        2,
        5,
        None,
        None,
        None,
        None,
    ]
    store = Store.open(home)
    rows = store.rows("SELECT * FROM samples ORDER BY sample_id")
    assert [row["generation"] for row in rows] == [0, 1, 2, 0, 1, 3, 4]
    assert {(row["text"], row["passed"], row["clean"]) for row in rows} == {(None, None, None)}
    other, without = rows[5:]
    assert (other["smiles"], other["same_graph"], other["generated_smiles"]) == ("CCO", False, "CCC")
    assert (without["parsed"], without["parse_error"]) == (False, "it has no coordinates in 3D")
    kept = store.rows("SELECT smiles, len(xyz) AS n FROM conformers ORDER BY sample_id")
    assert [row["n"] for row in kept] == [9, 9, 9, 18, 18, 9] and kept[5]["smiles"] == "CCC"
    shown = inspect_sample(store, imported["run_id"], 3)
    assert shown.conformer is not None and shown.conformer_atoms == tuple(range(6)) and shown.blocks == ()
    assert inspect_sample(store, imported["run_id"], 6).conformer is None
    assert run("verify", "--store", home).out == "whole runs  1\n"


def test_it_is_judged_by_its_conformers(imported: Any, home: str) -> None:
    judged = run_json("judge", imported["run_id"], "--store", home)
    assert (judged["stereo_right"], judged["geometry_right"]) == (1.0, 1.0)
    assert [judged[key] for key in ("passed", "clean", "usable", "decodes")] == [None] * 4
    assert [[failed["check"] for failed in row["failed"]] for row in judged["samples"][5:]] == [["graph"], ["loaded"]]
    (row,) = run_json("runs", "--store", home)
    assert (row["judged"], row["geometry_judged"], row["stereo_judged"], row["usable"]) == (7, 6, 2, None)


@pytest.mark.parametrize("form", ["generations.pickle", "sdf"])
def test_what_goes_out_comes_back_with_the_same_figures(tmp_path: Path, imported: Any, home: str, form: str) -> None:
    out = tmp_path / f"out.{form}"
    result = run("export", imported["run_id"], str(out), "--as", form, "--store", home)
    assert result.out.splitlines()[-1].split() == [str(out), "7", "6", "strict"]  # samples, conformers
    before, _ = conformers_of(Store.open(home), imported["run_id"])
    if form == "sdf":
        after = list(Chem.SDMolSupplier(str(out)))
        assert "as written in enriched text" not in out.read_text()  # no text had these numbers
    else:
        written = pickle.loads(out.read_bytes())
        assert out.read_bytes()[:2] == b"\x80\x04" and {key: len(mols) for key, mols in written.items()} == {
            "CCO": 4,
            "C[C@H](N)C(=O)O": 2,
        }
        after = written["CCO"][:3] + written["C[C@H](N)C(=O)O"] + written["CCO"][3:]
        (row,) = run_json("import", str(out), "--store", home)
        again, _ = conformers_of(Store.open(home), row["run_id"])
        by_name = sorted(Chem.MolToMolBlock(mol) for _, mol in before)
        assert sorted(Chem.MolToMolBlock(mol) for _, mol in again) == by_name
    for (_, mol), read in zip(before, after, strict=True):
        assert Chem.MolToSmiles(mol) == Chem.MolToSmiles(read)
        assert np.allclose(mol.GetConformer().GetPositions(), read.GetConformer().GetPositions(), atol=1e-4)


def test_a_shard_is_read_as_its_generations(tmp_path: Path, home: str) -> None:
    """It was called references, and `references add` refused it."""
    stats = Counter(smiles_mismatch=2, mol_parse_fail=1, no_eos=0)
    shard = write(tmp_path / "generation_results_gpu_0.pickle", {"generations": generations(DRAWN), "stats": stats})
    (row,) = run_json("import", str(shard), "--store", home)
    assert (row["samples"], row["molecules"], row["generations"]) == (5, 2, 3)
    assert row["notes"].endswith("not in it too: 'smiles_mismatch' 2, 'mol_parse_fail' 1, 'no_eos' 0.")
    whole = write(tmp_path / "generation_results.pickle", generations(DRAWN))
    run_json("import", str(whole), "--store", home)
    xyz = Store.open(home).rows("SELECT sample_id, xyz FROM conformers ORDER BY sample_id, run_id")
    assert len(xyz) == 10 and xyz[::2] == xyz[1::2]
    assert run_json("references", "add", str(shard), "--label", "ours", "--store", home)[0]["conformers"] == 5


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """A folder of two SDFs: alanine twice, once mirrored, and ethanol without a SMILES; a record that is broken."""
    folder = tmp_path / "torsional diffusion"
    folder.mkdir()
    alanine = conformers("C[C@H](N)C(=O)O", 1)[0]
    records = [("", "C[C@H](N)C(=O)O", alanine), ("", "C[C@H](N)C(=O)O", mirrored(alanine))]
    sdf(folder / "a.sdf", records, tail="\n\n\n  1  0  0  0\nM  END\n$$$$\n")
    sdf(folder / "b.sdf", [("", "", conformers("CCO", 1)[0])])
    return folder


def test_a_folder_of_sdf_becomes_a_judged_run(pool: Path, home: str) -> None:
    result = run("import", str(pool), "--label", "TD", "--strain", "--json", "--store", home)
    (row,) = result.document
    assert "'torsional diffusion': 1 of 4 molecules cannot be read. The first: " in result.err
    assert (row["label"], row["source"], row["samples"], row["molecules"]) == ("TD", "torsional diffusion", 3, 2)
    assert (
        "SMILES from: property smiles 2, graph 1. Where it is from the graph alone, stereo is not judged."
        in row["notes"]
    )
    assert [row[name] for name in ("judged", "stereo_judged", "stereo_right", "geometry_right")] == [3, 2, 1, 3]
    assert [row[name] for name in ("passes", "clean", "usable", "tokens", "wall_s", "blocks")] == [None] * 6
    assert row["strain_kcal"] > 0 and row["strain_samples"] == 3
    stored = Store.open(home).rows("SELECT smiles, same_graph, stereo_right FROM samples ORDER BY sample_id")
    assert [tuple(each.values()) for each in stored] == [
        ("C[C@H](N)C(=O)O", True, True),
        ("C[C@H](N)C(=O)O", True, False),
        ("CCO", None, None),
    ]
    again = run("import", str(pool), "--store", home)
    assert f"already in the store, as {row['run_id']}" in again.err
    judged = run_json("judge", row["run_id"], "--workers", "1", "--store", home)  # again, by the texts that state them
    assert [each["stereo_right"] for each in judged["samples"]] == [True, False, None]
    assert (judged["stereo_judged"], judged["stereo_right"], judged["geometry_right"]) == (2, 0.5, 1.0)


def test_its_verdict_is_that_of_the_file(pool: Path, home: str) -> None:
    run("import", str(pool), "--store", home)
    of_file = run("judge", str(pool), "--json", "--workers", "1").document["conformers"]
    stored = Store.open(home).rows("SELECT * FROM samples ORDER BY sample_id")
    names = ("smiles", "stereo_sites", "stereo_right", "geometry_right", "failed")
    assert [[row[name] for name in names] for row in stored] == [[row[name] for name in names] for row in of_file]


def test_without_a_verdict_and_with_a_wrong_option(pool: Path, home: str) -> None:
    broken = "\n\n\n  1  0  0  0\nM  END\n>  <smiles>\nCCN\n\n$$$$\n"
    (pool / "b.sdf").write_text((pool / "b.sdf").read_text() + broken)
    (row,) = run("import", str(pool / "b.sdf"), "--no-verdict", "--json", "--store", home).document
    assert (row["samples"], row["molecules"], row["judged"]) == (2, 2, None)
    assert "--strain is part of the verdict" in run("import", str(pool), "--strain", "--no-verdict").error
    (pool / "b.sdf").rename(pool / "b.txt")
    (pool / "a.sdf").unlink()
    assert "is a folder" in run("import", str(pool), "--store", home).error


def test_a_mirrored_centre_is_covered_like_a_text_that_copies_its_smiles(pool: Path, home: str) -> None:
    """It was left out as another molecule, while a language model's with the same fault counted."""
    alanine = conformers("C[C@H](N)C(=O)O", 1)[0]
    document = {"C[C@H](N)C(=O)O": [alanine, mirrored(alanine)], "CC(N)C(=O)O": [alanine]}
    (row,) = run_json("import", str(write(pool / "a.pickle", document)), "--store", home)
    stored = Store.open(home).rows("SELECT same_graph FROM samples ORDER BY sample_id")
    assert [each["same_graph"] for each in stored] == [True, True, True]
    evaluated = run_json(
        "evaluate", row["run_id"], "--per-molecule", "2", "--no-baseline", "--workers", "1", "--store", home
    )
    assert (evaluated["asked"], evaluated["samples"], evaluated["missing"]) == (3, 3, 0)


def test_it_is_no_report_and_has_one_form(imported: Any, home: str) -> None:
    error = run("export", imported["run_id"], "--store", home).error
    assert "has conformers and no texts. Give --as generations.pickle or sdf" in error
    for words in (("a", "--sdf", "b", "--as", "sdf"), ("a", "--as", "nothing")):
        error = run("export", imported["run_id"], *words, "--store", home).error
        assert "in one form of report, generations.pickle, sdf" in error


class Garbage:
    """A molecule whose bytes are none of RDKit's."""

    def __reduce__(self) -> tuple[type, tuple[bytes]]:
        return Chem.Mol, (b"\xef\xbe\xad\xde" + b"\xff" * 12,)


def test_molecules_that_cannot_be_read_are_stated(tmp_path: Path, home: str) -> None:
    path = write(tmp_path / "a.pickle", {**generations(), "CC": [Garbage(), None]})
    result = run("import", str(path), "--store", home)
    assert (result.code, "'a.pickle': 1 of 7 molecules cannot be read. The first: RDKit" in result.err) == (0, True)
    (entry,) = Store.open(home).listing(RUN).entries
    assert entry.row["samples"] == 7 and "1 of 7 molecules cannot be read" in entry.row["notes"]


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({**generations(), **references((("CCCC", 1),))}, "it has references"),
        ({"CCO": []}, "has no molecule in it"),
        ({"generations": {}, "stats": {}}, "is no mapping, or empty"),
        ({"CCO": [Garbage()]}, "none of 1 molecules of 'a.pickle' can be read. The first: RDKit"),
    ],
    ids=["references", "empty", "empty shard", "garbage"],
)
def test_what_is_refused_leaves_nothing(tmp_path: Path, home: str, document: Any, error: str) -> None:
    assert error in run("import", str(write(tmp_path / "a.pickle", document)), "--store", home).error
    store = Store.open(home)
    assert store.listing(RUN).entries == () and store.home.folders("staging") == []
