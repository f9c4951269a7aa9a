"""``run``: molecules from anywhere, several models and LPs, stopping and resuming, bins, and tasks of a cluster."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.chem.enriched import as_decimals, decode
from engine.chem.rmsd import least_rmsd
from engine.chem.structure_files import read_molecules
from engine.comparing.evaluation import texts_of
from engine.inspection.judging import judge_run, judge_text
from engine.inspection.sample import inspect_sample
from engine.records import BinFormat
from engine.store.entries import rmsd_references
from engine.store.references import reference_set
from engine.store.schema import REFERENCES, RUN, RUNS
from engine.store.staging import unfinished_ids
from engine.store.store import Store
from tests.cli import run, run_json
from tests.engine.jobs.small_runs import fake_slurm, interrupted_after_one_group
from tests.small_models import small_folder, use_small_model

ASKED = ("--model", "small", "--decimals", "1-2", "--integer-digits", "1", "--max-new-tokens", "80")
TEXTS = "SELECT text FROM samples WHERE run_id = $run ORDER BY sample_id"


@pytest.fixture(autouse=True)
def store_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of random weights, and a store of its own."""
    use_small_model(monkeypatch)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def texts_in(run_id: str) -> list[dict[str, Any]]:
    return Store.open().rows(TEXTS, {"run": run_id})


def test_each_model_and_lp_becomes_a_run_whose_progress_a_program_reads(tmp_path: Path) -> None:
    file = tmp_path / "progress"
    words = ("--lp", "exact", "--no-logit-processor", "--label", "two", "--n", "2", "--progress", str(file))
    rows = run_json("run", "CC=O", "OCC", *ASKED, *words)
    assert [row["lp"] for row in rows] == ["exact", "none"]
    for row in rows:
        assert list(row) == list(RUNS.names)
        assert (row["samples"], row["molecules"], row["label"], row["model_alias"]) == (4, 2, "two", "small")
        assert row["origin"] == "measured"
    assert [entry.id for entry in Store.open().listing().entries] == [row["run_id"] for row in rows]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    done = [(line["part"], line["run_id"]) for line in lines if line.get("state") == "done"]
    assert done == [(number, row["run_id"]) for number, row in enumerate(rows)]
    assert (lines[0]["parts"], lines[0]["lp"], lines[0]["done"], lines[0]["samples"]) == (2, "exact", 0, 4)
    last = lines[-1]
    assert [last[key] for key in ("done", "passes", "work")] == [4, rows[1]["passes"], 1.0]
    assert (last["decodes"], last["clean"]) == (rows[1]["decodes"], rows[1]["clean"])
    run("run", "--resume", rows[0]["run_id"], "--progress", str(file))
    assert len(file.read_text().splitlines()) == len(lines), "lines are appended, and nothing was done"


def test_molecules_come_from_files_and_else_from_the_held_out_ones(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,smiles\nx,CC=O\ny,nope\nz,CCO\n")
    result = run("run", "--smiles-file", str(tmp_path / "a.csv"), *ASKED, "--json")
    assert result.document[0]["samples"] == 2
    assert "left out: line" in result.err
    assert run_json("run", "--sample-size", "3", *ASKED)[0]["molecules"] == 3


def test_options_reach_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["run", "--progress", "/tmp/x", "C C", "--until-eof", "--model", "small"]
    monkeypatch.setattr(sys, "argv", ["/x/engine/__main__.py", *typed])
    report = tmp_path / "report.json"
    words = ("--keep-steps", "1", "--rmsd", "3", "--group", "1", "--json-report", str(report), "--seed", "5")
    (row,) = run_json("run", "CC=O", "CCO", *ASKED, *words)
    assert row["source"] == "python -m engine run 'C C' --model small"  # and not who watched
    assert Store.open().rows("SELECT count(DISTINCT sample_id) AS kept FROM steps") == [{"kept": 1}]
    assert row["rmsd_samples"] == 2 and row["judging_s"] > 0 and row["seed"] == 5
    assert "3 conformers by ETKDG" in run("runs").out
    document = json.loads(report.read_text())
    assert document["metadata"]["model_alias"] == "small"
    assert [sample["prompt_smiles"] for sample in document["passes"]] == ["CC=O", "CCO"]


def test_a_stopped_run_says_how_to_go_on_and_does() -> None:
    argv = ("run", "O=CC", "OCC", "CCN", *ASKED, "--group", "1", "--order", "written")
    (whole,) = run_json(*argv)
    with interrupted_after_one_group():
        stopped = run(*argv)
    assert stopped.code == 130
    (row,) = run_json("runs", "--unfinished")
    assert row == {"run_id": row["run_id"], "samples_done": 1, "samples": 3, "state": "stopped"}
    assert f"`python -m engine run --resume {row['run_id']}` resumes the run" in stopped.err
    (again,) = run_json("run", "--resume", row["run_id"])
    assert (again["run_id"], again["resumed"]) == (row["run_id"], 1)
    assert (again["checked_samples"], again["diverged_samples"]) == (1, 0), (
        "what was finished is written again to compare"
    )
    assert texts_in(whole["run_id"]) == texts_in(again["run_id"])
    assert run_json("runs", "--unfinished") == []
    written = Store.open().rows("SELECT DISTINCT smiles, same_graph FROM samples ORDER BY ALL")
    assert [(row["smiles"], row["same_graph"]) for row in written] == [("CCN", True), ("O=CC", True), ("OCC", True)]


def test_a_model_that_cannot_write_its_first_group_leaves_nothing(store_folder: Path, tmp_path: Path) -> None:
    """The bug: an unfinished run without samples stayed, whose resume could only fail in the same way."""
    import torch
    from safetensors.torch import load_file, save_file

    folder = small_folder(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"] = torch.full_like(weights["model.norm.weight"], 3e38)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    result = run("run", "CC=O", "--model-path", str(folder), "--tokenizer-name", "qwen3", *ASKED[2:])
    assert result.code == 2 and "are not finite (NaN or an overflow)" in result.err, result
    assert "--resume" not in result.err and run_json("runs", "--unfinished") == []
    assert list((store_folder / "staging").iterdir()) == []


BARE = BinFormat.equal(-13, 13, 0.104)


@pytest.mark.parametrize("form", [BARE, BinFormat.in_brackets(0.05, 9.0)], ids=["bare", "in brackets"])
def test_all_that_reads_a_binned_run_reads_it_with_its_bins(form: BinFormat, tmp_path: Path) -> None:
    file = tmp_path / "bins" / "bare.json"
    file.parent.mkdir()
    file.write_text('{"mode": "cartesian_binned", "L": -13, "H": 13, "size": 0.104}')
    bins = ("--bins", str(file)) if form.is_bare else ("--bins", "0.05", "9")
    words = ("--model", "small", "--max-new-tokens", "80", *bins, "--rmsd", "2", "--judge", "--keep-steps", "1")
    (row,) = run_json("run", "CC=O", "OCC", *words)
    assert row["misread_blocks"] == row["bad_blocks"] == 0 and row["clean"] == row["rmsd_samples"] == 2
    store, id_ = Store.open(), row["run_id"]
    samples = store.rows("SELECT * FROM samples ORDER BY sample_id", {})
    blocks = store.rows("SELECT sample_id, x, y, z, drift FROM blocks ORDER BY sample_id, block", {})
    assert {block["drift"] for block in blocks} == {0}  # a fixed width, against zeros of that width
    stated = {sample["sample_id"]: decode(as_decimals(sample["text"], form)).mol for sample in samples}
    texts = texts_of(store, store.entry(id_), [sample["smiles"] for sample in samples])
    for sample in samples:
        assert re.search(r"\]\d{9};" if form.is_bare else r"\]<\d{3},\d{3},\d{3}>", sample["text"])
        xyz = stated[sample["sample_id"]].GetConformer().GetPositions()
        here = [[block[axis] for axis in "xyz"] for block in blocks if block["sample_id"] == sample["sample_id"]]
        assert np.allclose(here, xyz)
        inspected = inspect_sample(store, id_, sample["sample_id"])
        assert inspected.run.form == form and inspected.conformer is not None
        assert np.allclose(inspected.conformer.GetConformer().GetPositions(), xyz)
        verdict = judge_text(as_decimals(sample["text"], form), sample["smiles"])
        assert [sample[name] for name in ("geometry_right", "usable")] == [verdict["geometry_right"], verdict["usable"]]
        assert texts[sample["smiles"]] == [as_decimals(sample["text"], form)]
    assert [judged["usable"] for judged in judge_run(store, id_).rows] == [sample["usable"] for sample in samples]
    assert run("export", id_, "--sdf", str(tmp_path / "out.sdf")).code == 0
    exported = [mol.GetConformer().GetPositions() for mol in read_molecules(tmp_path / "out.sdf")]
    for mine, mol in zip(exported, stated.values(), strict=True):
        assert np.allclose(mine, mol.GetConformer().GetPositions(), atol=1e-4)
    assert (
        "has texts of bins, and the report format does not say what these mean"
        in run("export", id_, str(tmp_path / "report.json")).error
    )
    assert not list(tmp_path.glob("*.json"))


def test_rmsd_is_to_the_named_references() -> None:
    run_json("references", "make", "CCO", "CCCO", "--per-molecule", "3", "--label", "three")
    words = ("--references", "three", "--rmsd", "1", "--lp", "exact", *ASKED)
    (row,) = run_json("run", "CCO", "CCCO", *words)
    store = Store.open()
    assert rmsd_references(store.entry(row["run_id"])) == "conformers of 'three'"
    references = reference_set(store, "three")
    rows = store.rows("SELECT smiles, text, rmsd_ang FROM samples")
    assert len(rows) == 2
    for sample in rows:
        ensemble = references.conformers(sample["smiles"])
        assert ensemble is not None and ensemble.GetNumConformers() == 3
        expected = least_rmsd(decode(sample["text"]).mol, ensemble)
        assert sample["rmsd_ang"] == pytest.approx(expected, abs=1e-5)
    with interrupted_after_one_group():
        assert run("run", "CCO", "CCCO", *words, "--group", "1").code == 130
    (left,) = run_json("runs", "--unfinished")
    store.remove(references.name, REFERENCES)
    assert "no set of references 'three'" in run("run", "--resume", left["run_id"]).err


def test_so_many_samples_per_reference() -> None:
    for label, molecules, conformers in (("two", ["CCO", "CCCO"], "2"), ("three", ["CCN"], "3")):
        run_json("references", "make", *molecules, "--per-molecule", conformers, "--label", label)
    words = ("--references", "two", "--per-reference", "2", *ASKED)
    (row,) = run_json("run", *words, "--sampling", "p0.8_t1.2")
    assert (row["molecules"], row["samples"], row["generations"]) == (2, 8, None)
    rows = Store.open().rows(
        "SELECT smiles, count(*) AS samples, count(DISTINCT text) AS texts FROM samples GROUP BY ALL"
    )
    assert {row["smiles"]: row["samples"] for row in rows} == {"CCO": 4, "CCCO": 4}
    assert all(row["texts"] > 1 for row in rows)  # each is drawn by itself
    left_out = run("run", "NCC", "CCO", "--references", "three", "--per-reference", "1", *ASKED, "--json")
    assert left_out.err == "left out: three has no conformer of CCO\n"
    assert [row["samples"] for row in left_out.document] == [3]
    assert "two has none of these molecules" in run("run", "CCN", *words).err


# --- on a cluster -----------------------------------------------------------------------------------------------------

HERE = ("run", "CC=O", "CCO", "--model", "small", "--max-new-tokens", "40", "--group", "1")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Slurm that takes all and carries out nothing; what it took is kept in this file."""
    kept = tmp_path / "taken"
    fake_slurm(tmp_path, monkeypatch, f'cat "$1" >> {kept}')
    return kept


def begun() -> list[str]:
    return unfinished_ids(Store.open().home, RUN)


def test_tasks_write_the_texts_of_this_process_also_where_one_stopped() -> None:
    (here,) = run_json(*HERE)
    (row,) = run_json(*HERE, "--submit", "debug", "--array", "2", "--label", "far")
    assert (row["samples"], row["label"], row["device"]) == (2, "far", "cpu")
    assert texts_in(row["run_id"]) == texts_in(here["run_id"]) and begun() == []
    with interrupted_after_one_group():
        assert run(*HERE).code == 130
    (left,) = begun()
    (row,) = run_json("run", "--resume", left, "--submit", "debug", "--array", "5")
    assert (row["run_id"], row["samples"], row["resumed"]) == (left, 2, 1)
    assert run("run", "--resume", left, "--submit", "debug").error.startswith(f"driftscope: {left} is finished")


def test_what_was_handed_out_is_told(slurm: Path, store_folder: Path) -> None:
    words = ("--submit", "a100", "--array", "9", "--time", "01:30:00", "--slurm", "account=chem", "--threads", "3")
    (row,) = run_json(*HERE, *words)
    logs = store_folder / "submitted" / row["run_id"]
    assert row == {
        "run_id": row["run_id"],
        "molecules": 2,
        "samples": 2,
        "jobs": ["4711_0", "4711_1"],  # no more tasks than groups
        "cancel": "scancel 4711",
        "logs": str(logs),
    }
    assert begun() == [row["run_id"]]
    script = slurm.read_text()
    asked = ("gres=gpu:a100:1", "time=90", "account=chem", "cpus-per-task=3", "requeue", f"comment={row['run_id']}")
    for line in (*asked, f"output={logs}/%A_%a_0_log.out"):
        assert f"#SBATCH --{line}\n" in script


def test_ctrl_c_leaves_the_tasks_and_says_how_to_end_them(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = time.sleep

    def interrupted(seconds: float) -> Any:
        if seconds < 0.1:  # of a subprocess that is waited for
            return sleep(seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    result = run(*HERE, "--submit", "slurm", "--wait")
    (left,) = begun()
    assert result.code == 130
    assert f"the tasks of {left} keep running; `scancel 4711` ends them" in result.err


SMALL = " ".join(["CC=O", *ASKED])
REFUSED = [
    (f"--smiles-file x.smi {SMALL}", "SMILES and a file of them"),
    ("--sample-size 2991 --model small", "2,990 held-out ones ship"),
    (f"{SMALL} --time-limit 3", "a run has no time limit"),
    (f"{SMALL} --profile-output x", "Give both"),
    (f"{SMALL} --lp exact --lp none --profile --profile-output x", "--profile-output belongs to one run"),
    (f"{SMALL} --submit debug --json-report x", "--json-report belongs to a run that is not"),
    ("CC=O --model small --model small --step final", "Give each as ALIAS:STEP"),
    ("CC=O --model small --bins 0.05 9 --lp exact --lp truncating", "decimals"),
    ("--resume nothing", "no unfinished run_id is named 'nothing'"),
    (f"{SMALL} --references four", "no set of references 'four'"),
    (f"{SMALL} --per-reference 2", "--per-reference belongs to --references, in place of --n"),
    (f"{SMALL} --submit local --engine ray", "give either --submit or --engine ray"),
    (f"{SMALL} --time 5", "--time belongs to --submit"),
    (f"{SMALL} --submit debug --partition x", "--submit debug has no partition"),
    (f"{SMALL} --submit local --time 1:30", "'1:30' is not a time. Give minutes, such as 90, or 01:30:00"),
    (f"{SMALL} --submit slurm --slurm comment=mine", "--slurm comment is taken: it is the run's id"),
    (f"{SMALL} --submit slurm", "sbatch is not installed here"),
]


@pytest.mark.parametrize(("line", "said"), REFUSED)
def test_what_cannot_be_is_one_line_and_begins_nothing(
    line: str, said: str, store_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert said in run("run", *line.split()).error
    assert not store_folder.exists()


@pytest.mark.parametrize(("package", "words"), [("submitit", ("--submit", "local")), ("ray", ("--engine", "ray"))])
def test_what_is_not_installed_is_named(package: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert f"pip install {package}" in run(*HERE, *words).error
