"""`judge` of a file of conformers, as a user calls it, against RDKit's own reading of the same file."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rdkit import Chem

from tests.cli import keys, run, run_json
from tests.engine.chem.pickles import conformers, generations, write
from tests.engine.chem.test_pools import ALANINE, mirrored, sdf

AS_A_TEXT = (
    "smiles heavy_atoms passed decodes clean same_graph issues stereo_right geometry_right usable failed".split()
)


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three of alanine, one of them mirrored; two of ethanol, without a SMILES; one of another molecule; one broken."""
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "no store"))
    alanine, ethanol = conformers(ALANINE, 2), conformers("CCO", 2)
    records = [*(("", ALANINE, mol) for mol in alanine), ("", ALANINE, mirrored(alanine[0]))]
    records += [("", "", mol) for mol in ethanol] + [("", "CCN", ethanol[0])]
    path = sdf(tmp_path / "pool.sdf", records)
    path.write_text(path.read_text() + "\n\n\n  1  0  0  0\nM  END\n$$$$\n")
    return path


def test_a_row_per_conformer_and_per_molecule_and_a_summary(pool: Path) -> None:
    result = run("judge", str(pool), "--json", "--workers", "1")
    document = result.document
    assert result.err.startswith("left out: record 7 of pool.sdf: ") and len(document["left_out"]) == 1
    rows = document["conformers"]
    assert all(keys(row, AS_A_TEXT) and row["clean"] is row["decodes"] is row["passed"] is None for row in rows)
    assert [row["usable"] for row in rows] == [True, True, False, True, True, False]
    assert [[failed["check"] for failed in row["failed"]] for row in rows] == [[], [], ["stereo"], [], [], ["graph"]]
    read = [mol for mol in Chem.SDMolSupplier(str(pool)) if mol is not None and mol.GetNumAtoms()]
    assert [row["conformer_smiles"] for row in rows[3:]] == [Chem.MolToSmiles(mol) for mol in read[3:]]
    assert [row["heavy_atoms"] for row in rows] == [6, 6, 6, 3, 3, 3]
    molecules = {row["smiles"]: row for row in document["molecules"]}
    assert {smiles: row["conformers"] for smiles, row in molecules.items()} == {ALANINE: 3, "CCO": 2, "CCN": 1}
    assert molecules[ALANINE]["usable"] == pytest.approx(2 / 3) and molecules[ALANINE]["failed"] == {"stereo": 1}
    summary = document["summary"]
    assert keys(summary, "molecules conformers left_out stereo_right geometry_right usable failed".split())
    assert (summary["conformers"], summary["left_out"], summary["stereo_judged"]) == (6, 1, 3)
    assert summary["smiles_from"] == {"property smiles": 4, "graph": 2}
    assert summary["stereo_right"] == pytest.approx(2 / 3)


def test_a_line_per_molecule_for_people(pool: Path) -> None:
    lines = run("judge", str(pool), "--workers", "1").out.splitlines()
    assert lines[1].split() == [ALANINE, "3", "66.7", "%", "100", "%", "66.7", "%", "stereo", "1"]
    assert lines[2].split() == ["CCO", "2", "100", "%", "100", "%"]
    assert any(line.split() == ["smiles_from", "property", "smiles", "4,", "graph", "2"] for line in lines)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_go_to_a_file(pool: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"rows.{ending}"
    rows = run("judge", str(pool), "--out", str(out), "--json", "--workers", "1").document["conformers"]
    if ending == "parquet":
        assert pq.read_table(out).to_pylist() == rows
        return
    with out.open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["source"] for row in written] == [row["source"] for row in rows]
    assert [row["usable"] for row in written] == [str(row["usable"]) for row in rows]
    assert written[2]["failed"].startswith("stereo (") and written[0]["failed"] == ""


def test_strain_on_request_and_pickles_too(tmp_path: Path) -> None:
    path = write(tmp_path / "generation_results.pickle", generations((("CCO", 2),)))
    document = run_json("judge", str(path), "--strain", "--workers", "1")
    from_text = run_json("judge", "--text", "[C]<0.0,0.0,0.0>[C]<1.5,0.0,0.0>[O]<2.0,1.3,0.0>")
    row: Any = document["conformers"][0]
    assert row["strain_kcal"] >= 0 and row["strain_field"] == "MMFF94"
    of_texts = {name for name in from_text if name.endswith("_each")} | {"conformers", "why_not_clean"}
    assert set(row) >= set(from_text) - of_texts
    assert Counter(each["smiles_from"] for each in document["conformers"]) == {"key": 2}


def test_a_stop_leaves_no_file(pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(tmp_path.iterdir())

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.inspection.pool_judging._row", stop)
    result = run("judge", str(pool), "--out", str(tmp_path / "rows.csv"), "--workers", "1")
    assert result.code == 130 and sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["missing.sdf"], "'missing.sdf' cannot be read: No such file"),
        (["report.json"], "is no file that `judge` reads. `judge` takes SDF (.sdf, .sd, .mol), Parquet"),
        (["empty.sdf"], "'empty.sdf' has no conformer that can be judged"),
        (["cut.sdf"], "The first: record 1 of cut.sdf: it is cut short"),
        (["pool.sdf", "--out", "rows.txt"], "'rows.txt' does not end in .csv or .parquet"),
        (["pool.sdf", "--out", "nowhere/rows.csv"], "'nowhere' is no folder"),
        (["some-run", "--out", "rows.csv"], "--out belongs to a file of conformers"),
    ],
)
def test_what_is_refused_is_one_line(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.json").write_text("{}")
    (tmp_path / "empty.sdf").write_text("")
    (tmp_path / "cut.sdf").write_text("\n\n\n  1  0\n")
    assert error in run("judge", *words, "--workers", "1").error
