"""Generations as runs: pickles in and out, judged and held against references like any other run."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rdkit import Chem

from engine.inspection.conformers import conformers_of
from engine.store.schema import RUN
from engine.store.store import Store
from tests.cli import run, run_json
from tests.engine.chem.pickles import Planted, conformers, generations, references, write
from tests.small_models import use_small_model
from tests.support import ROOT

DRAWN = (("CCO", 3), ("C[C@H](N)C(=O)O", 2))


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "store")


@pytest.fixture(scope="module")
def read_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Five conformers, one of another molecule, and one that has none."""
    folder = tmp_path_factory.mktemp("generations")
    document = generations(DRAWN)
    document["OCC"] = [conformers("CCC", 1)[0], Chem.MolFromSmiles("CCO")]  # the first molecule, written otherwise
    path = write(folder / "generation_results.pickle", document)
    (row,) = run_json("import", str(path), "--store", str(folder / "store"))
    return folder, row


@pytest.fixture
def imported(tmp_path: Path, read_once: tuple[Path, Any]) -> Any:
    folder, row = read_once
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return row


def samples(place: str) -> list[dict[str, Any]]:
    columns = "sample_id, generation, smiles, text, passed, clean, parsed, parse_error, same_graph, generated_smiles"
    found: list[dict[str, Any]] = run_json("sql", f"SELECT {columns} FROM samples ORDER BY sample_id", "--store", place)
    return found


def test_a_pickle_becomes_a_run_of_conformers(imported: Any, place: str) -> None:
    assert imported["run_id"].startswith("imported-")
    named = ("origin", "source", "samples", "molecules", "generations", "passes", "decodes", "clean", "blocks")
    assert [imported[key] for key in named] == [
        "imported", "generation_results.pickle", 7, 2, 5, None, None, None, None,
    ]  # fmt: skip
    rows = samples(place)
    assert [row["generation"] for row in rows] == [0, 1, 2, 0, 1, 3, 4]
    assert {(row["text"], row["passed"], row["clean"]) for row in rows} == {(None, None, None)}
    other, without = rows[5:]
    assert (other["smiles"], other["same_graph"], other["generated_smiles"]) == ("CCO", False, "CCC")
    assert (without["parsed"], without["parse_error"]) == (False, "it has no coordinates in 3D")
    kept = run_json("sql", "SELECT smiles, len(xyz) AS n FROM conformers ORDER BY sample_id", "--store", place)
    assert [row["n"] for row in kept] == [9, 9, 9, 18, 18, 9] and kept[5]["smiles"] == "CCC"
    assert run("verify", "--store", place).out == "whole runs  1\n"


def test_the_same_file_is_imported_once(tmp_path: Path, imported: Any, place: str) -> None:
    again = run("import", str(tmp_path / "generation_results.pickle"), "--store", place)
    assert again.err.endswith(f"is already in the store, as {imported['run_id']}\n")
    assert [row["run_id"] for row in run_json("runs", "--store", place)] == [imported["run_id"]]


def test_it_is_judged_by_its_conformers(imported: Any, place: str) -> None:
    judged = run_json("judge", imported["run_id"], "--store", place)
    assert (judged["stereo_right"], judged["geometry_right"]) == (1.0, 1.0)
    assert [judged[key] for key in ("passed", "clean", "usable", "decodes")] == [None] * 4
    assert [[failed["check"] for failed in row["failed"]] for row in judged["samples"][5:]] == [["graph"], ["loaded"]]
    (row,) = run_json("runs", "--store", place)
    assert (row["judged"], row["geometry_judged"], row["stereo_judged"], row["usable"]) == (7, 6, 2, None)


def test_it_is_held_against_references(tmp_path: Path, imported: Any, place: str) -> None:
    path = write(tmp_path / "references.pickle", references((("CCO", 4), ("CCCCC", 2))))
    run_json("references", "add", str(path), "--label", "geom", "--store", place)
    figures = run_json("evaluate", imported["run_id"], "--references", "geom", "--no-baseline", "--store", place)
    assert (figures["cov_r"], figures["cov_p"]) == (1.0, 1.0) and 0 < figures["mat_r_ang"] < 0.5


@pytest.mark.parametrize("form", ["generations.pickle", "sdf"])
def test_what_goes_out_comes_back_with_the_same_figures(tmp_path: Path, imported: Any, place: str, form: str) -> None:
    out = tmp_path / f"out.{form}"
    told = run("export", imported["run_id"], str(out), "--as", form, "--store", place)
    assert told.out.splitlines()[-1].split() == [str(out), "7", "6", "strict"]  # samples, conformers
    before, _ = conformers_of(Store.open(place), imported["run_id"])
    if form == "sdf":
        after = list(Chem.SDMolSupplier(str(out)))
    else:
        written = pickle.loads(out.read_bytes())
        assert out.read_bytes()[:2] == b"\x80\x04" and {key: len(mols) for key, mols in written.items()} == {
            "CCO": 4,
            "C[C@H](N)C(=O)O": 2,
        }
        after = written["CCO"][:3] + written["C[C@H](N)C(=O)O"] + written["CCO"][3:]
        (row,) = run_json("import", str(out), "--store", place)
        again, _ = conformers_of(Store.open(place), row["run_id"])
        by_name = sorted(Chem.MolToMolBlock(mol) for _, mol in before)
        assert sorted(Chem.MolToMolBlock(mol) for _, mol in again) == by_name
    for (_, mol), read in zip(before, after, strict=True):
        assert Chem.MolToSmiles(mol) == Chem.MolToSmiles(read)
        assert np.allclose(mol.GetConformer().GetPositions(), read.GetConformer().GetPositions(), atol=1e-4)


def test_the_walk_from_an_existing_evaluation(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's: references in, a run with two samples for each, evaluated, out, read back, evaluated alike."""
    use_small_model(monkeypatch)
    path = write(tmp_path / "test_set.pickle", references((("CCO", 2), ("CCCCC", 1))))
    at = ("--store", place)
    run_json("references", "add", str(path), "--label", "geom-drugs", *at)
    small = ("--model", "small", "--decimals", "1-2", "--integer-digits", "1", "--max-new-tokens", "400")
    (made,) = run_json("run", "--references", "geom-drugs", "--per-reference", "2", *small, *at)
    assert (made["samples"], made["clean"]) == (6, 6)
    out = tmp_path / "generation_results.pickle"
    assert run("export", made["run_id"], str(out), "--as", "generations.pickle", *at).code == 0
    (back,) = run_json("import", str(out), *at)
    figures = [
        run_json("evaluate", row["run_id"], "--references", "geom-drugs", "--threshold", "2", *at)
        for row in (made, back)
    ]
    assert back["run_id"] != made["run_id"] and 0 < figures[0]["mat_r_ang"] < 20
    for key in ("molecules", "missing", "samples", "cov_r", "cov_p", "mat_r_ang", "mat_p_ang", "cov_r_curve"):
        assert figures[1][key] == pytest.approx(figures[0][key], abs=1e-6), key


def test_it_is_no_report(imported: Any, place: str) -> None:
    error = run("export", imported["run_id"], "--store", place).error
    assert "has conformers and no texts. Give --as generations.pickle or sdf" in error
    assert run("export", imported["run_id"], "a", "--sdf", "b", "--as", "sdf", "--store", place).code == 2


@pytest.mark.parametrize("order", ["RUN FILE --as sdf", "RUN --as sdf FILE", "--as sdf RUN FILE", "FILE --as nothing"])
def test_a_file_stands_before_or_behind_the_form(tmp_path: Path, imported: Any, place: str, order: str) -> None:
    out = tmp_path / "out.sdf"
    names = {"RUN": imported["run_id"], "FILE": str(out)}
    done = run("export", *(names.get(word, word) for word in order.split()), "--store", place)
    if "nothing" in order:
        assert "in one form of report, generations.pickle, sdf" in done.error
    assert out.exists() is ("nothing" not in order)
    assert run("export", "--as", "sdf", "--store", place).code == 2
    assert "RUN, then FILE" in run("export", "--help").out


class Garbage:
    """A molecule whose bytes are none of RDKit's."""

    def __reduce__(self) -> tuple[type, tuple[bytes]]:
        return Chem.Mol, (b"\xef\xbe\xad\xde" + b"\xff" * 12,)


def test_molecules_that_cannot_be_read_are_stated(tmp_path: Path, place: str) -> None:
    path = write(tmp_path / "a.pickle", {**generations(), "CC": [Garbage(), None]})
    result = run("import", str(path), "--store", place)
    assert (result.code, "'a.pickle': 1 of 7 molecules cannot be read. The first: RDKit" in result.err) == (0, True)
    (entry,) = Store.open(place).found(RUN).entries
    assert "1 of 7 molecules cannot be read" in entry.row["notes"]


def hostile(marker: Path) -> dict[str, Any]:
    return {**generations(), "CC": [Planted(os.system, f"touch {marker}")]}


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (lambda _: references(), "it has references ({smiles: {'confs': [Mol, ...]}})"),
        (lambda _: {**generations(), **references((("CCCC", 1),))}, "it has references"),
        (hostile, "it names 'posix.system', which no file of molecules needs: it was not called"),
        (lambda _: {"CCO": []}, "has no molecule in it"),
        (
            lambda _: {"CCO": [Garbage()], "CC": [None]},
            "none of 1 molecules of 'a.pickle' can be read. The first: RDKit",
        ),
    ],
    ids=["references", "mixed", "hostile", "empty", "garbage"],
)
def test_what_is_refused_leaves_nothing(tmp_path: Path, place: str, document: Any, error: str) -> None:
    marker = tmp_path / "marker"
    path = write(tmp_path / "a.pickle", document(marker))
    assert error in run("import", str(path), "--store", place).error
    store = Store.open(place)
    assert store.found(RUN).entries == () and store.home.folders("staging") == [] and not marker.exists()


def test_the_inspector_shows_the_conformer(imported: Any, place: str) -> None:
    from engine.inspection.sample import inspect_sample

    shown = inspect_sample(Store.open(place), imported["run_id"], 3)
    assert shown.conformer is not None and shown.conformer_atoms == tuple(range(6)) and shown.blocks == ()
    assert inspect_sample(Store.open(place), imported["run_id"], 6).why_no_conformer.startswith("There is no text")


def test_the_page_of_drift_says_that_there_are_no_texts(
    imported: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from streamlit.testing.v1 import AppTest

    monkeypatch.setenv("DRIFTSCOPE_STORE", place)
    page = AppTest.from_file(str(ROOT / "pages" / "drift.py"), default_timeout=60)
    page.query_params["run"] = imported["run_id"]
    page.run()
    assert not page.exception
    assert "7 samples, with conformers and no texts." in [fold.label for fold in page.expander]
