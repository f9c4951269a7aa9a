"""A run of binned texts: written, resumed, judged, measured, inspected and exported with its bins, or refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from engine.chem.enriched import as_decimals, decode
from engine.chem.structure_files import read_molecules
from engine.comparing.evaluation import texts_of
from engine.inspection.judging import judge_run, judge_text
from engine.inspection.sample import inspect_sample
from engine.records import BinFormat
from engine.store.store import Store
from tests.cli import run, run_json
from tests.engine.jobs.small_runs import interrupted_after_one_group
from tests.small_models import use_small_model

FORM = BinFormat(bin_ang=0.05, range_ang=9.0)
ASKED = ("--model", "small", "--max-new-tokens", "80", "--bins", "0.05", "9")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_model(monkeypatch)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))


def test_all_that_reads_the_run_reads_it_with_its_bins(tmp_path: Path) -> None:
    (row,) = run_json("run", "CC=O", "OCC", *ASKED, "--rmsd", "2", "--judge", "--keep-steps", "1")
    assert row["misread_blocks"] == row["bad_blocks"] == 0 and row["clean"] == row["rmsd_samples"] == 2
    store, id_ = Store.open(), row["run_id"]
    samples = store.rows("SELECT * FROM samples ORDER BY sample_id", {})
    blocks = store.rows("SELECT sample_id, x, y, z, drift FROM blocks ORDER BY sample_id, block", {})
    assert {block["drift"] for block in blocks} == {0}  # a fixed width, against zeros of that width
    stated = {sample["sample_id"]: decode(as_decimals(sample["text"], FORM)).mol for sample in samples}
    texts = texts_of(store, store.entry(id_), [sample["smiles"] for sample in samples])
    for sample in samples:
        assert re.search(r"<\d{3},\d{3},\d{3}>", sample["text"])
        xyz = stated[sample["sample_id"]].GetConformer().GetPositions()
        here = [[block[axis] for axis in "xyz"] for block in blocks if block["sample_id"] == sample["sample_id"]]
        assert np.allclose(here, xyz)
        inspected = inspect_sample(store, id_, sample["sample_id"])
        assert inspected.run.form == FORM and inspected.conformer is not None and not inspected.why_no_conformer
        assert np.allclose(inspected.conformer.GetConformer().GetPositions(), xyz)
        verdict = judge_text(as_decimals(sample["text"], FORM), sample["smiles"])
        assert [sample[name] for name in ("geometry_right", "usable")] == [verdict["geometry_right"], verdict["usable"]]
        assert texts[sample["smiles"]] == [as_decimals(sample["text"], FORM)]
    names = ("stereo_right", "geometry_right", "usable")
    again = judge_run(store, id_).rows
    assert [[one[name] for name in names] for one in again] == [[one[name] for name in names] for one in samples]
    assert run("export", id_, "--sdf", str(tmp_path / "out.sdf")).code == 0
    exported = [mol.GetConformer().GetPositions() for mol in read_molecules(tmp_path / "out.sdf")]
    assert all(np.allclose(mine, mol.GetConformer().GetPositions(), atol=1e-4)
               for mine, mol in zip(exported, stated.values(), strict=True))  # fmt: skip


def test_a_report_does_not_say_what_a_bin_is(tmp_path: Path) -> None:
    (row,) = run_json("run", "CC=O", *ASKED)
    refused = run("export", row["run_id"], str(tmp_path / "report.json"))
    assert refused.code == 2 and "does not say what a bin is" in refused.error
    assert "what a bin is" in run("run", "CC=O", *ASKED, "--json-report", str(tmp_path / "report.json")).error
    assert not list(tmp_path.glob("*.json"))


def test_a_resumed_run_writes_its_bins() -> None:
    with interrupted_after_one_group():
        assert run("run", "CC=O", "OCC", "CCN", *ASKED, "--group", "1").code != 0
    (unfinished,) = run_json("runs", "--unfinished")
    (row,) = run_json("run", "--resume", unfinished["run_id"])
    (whole,) = run_json("run", "CC=O", "OCC", "CCN", *ASKED)
    sql = "SELECT text FROM samples WHERE run_id = $run ORDER BY sample_id"
    both = [Store.open().rows(sql, {"run": one["run_id"]}) for one in (row, whole)]
    assert row["clean"] == 3 and both[0] == both[1]


def test_without_an_lp_decimals_are_no_bins() -> None:
    (row,) = run_json("run", "CC=O", *ASKED, "--lp", "none")
    (sample,) = Store.open().rows("SELECT text, clean FROM samples WHERE run_id = $run", {"run": row["run_id"]})
    assert "." in sample["text"] and not sample["clean"]  # the demo's models have learned decimals


@pytest.mark.parametrize("lp", ["v4.3", "truncating", "guarded"])
def test_other_lps_write_decimals(lp: str) -> None:
    refused = run("run", "CC=O", *ASKED, "--lp", "exact", "--lp", lp)
    assert refused.code == 2 and "decimals" in refused.error
    assert not Store.open().found().entries
