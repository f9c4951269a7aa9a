"""``run`` in a terminal and as JSON: molecules from anywhere, several models and LPs, stopping and going on."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.chem.enriched import decode
from engine.chem.rmsd import least_rmsd
from engine.cli.main import main
from engine.errors import RunError
from engine.figures.words import counted
from engine.jobs.run import Run
from engine.store.entries import rmsd_references
from engine.store.references import reference_set
from engine.store.schema import REFERENCES, RUNS
from engine.store.store import Store
from tests.cli import Terminal, run, run_json
from tests.engine.jobs.small_runs import interrupted_after_one_group
from tests.small_models import use_small_model

ASKED = ("--model", "small", "--decimals", "1-2", "--integer-digits", "1", "--max-new-tokens", "80")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of random weights, and a store of its own."""
    use_small_model(monkeypatch)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def test_each_model_and_lp_becomes_a_run() -> None:
    rows = run_json("run", "CC=O", "OCC", *ASKED, "--lp", "exact", "--no-logit-processor", "--label", "two", "--n", "2")
    assert [row["lp"] for row in rows] == ["exact", "none"]
    for row in rows:
        assert list(row) == list(RUNS.names)
        assert (row["samples"], row["molecules"], row["label"], row["model_alias"]) == (4, 2, "two", "small")
        assert row["origin"] == "measured"
    assert [entry.id for entry in Store.open().found().entries] == [row["run_id"] for row in rows]


def test_a_terminal_is_told_what_runs_and_gets_a_table() -> None:
    result = run("run", "CC=O", *ASKED)
    assert result.code == 0
    (entry,) = Store.open().found().entries
    threads = counted(entry.row["threads"], "thread")
    assert result.err == f"{entry.id}: small:final, exact, fast, cpu, {threads}\n"
    assert "rmsd_to" not in result.out
    assert "3 conformers by ETKDG" in run("run", "CC=O", *ASKED, "--rmsd", "3").out


def test_somebody_who_watches_sees_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert main(["run", "CC=O", "CCO", *ASKED]) == 0
    told = err.getvalue()
    assert "2/2 samples" in told
    assert "100.0% passed, 100.0% decode, 100.0% clean" in told
    assert told.endswith("\r\033[K")


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.smi", "CC=O first\nnope\nCCO\n"), ("a.csv", "name,smiles\nx,CC=O\ny,nope\nz,CCO\n")],
)
def test_molecules_come_from_files(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    result = run("run", "--smiles-file", str(tmp_path / name), *ASKED, "--json")
    assert result.document[0]["samples"] == 2
    assert "left out: line" in result.err


def test_without_molecules_the_held_out_ones_are_taken() -> None:
    (row,) = run_json("run", "--sample-size", "3", *ASKED)
    assert row["molecules"] == 3


def test_steps_rmsd_and_groups_are_options(place: Path) -> None:
    (row,) = run_json("run", "CC=O", "CCO", *ASKED, "--keep-steps", "1", "--rmsd", "1", "--group", "1")
    found = Store.open().rows("SELECT count(DISTINCT sample_id) AS kept FROM steps")
    assert found == [{"kept": 1}]
    assert Store.open().rows("SELECT count(rmsd_ang) AS n FROM samples") == [{"n": 2}]
    assert row["judging_s"] > 0


def test_a_stopped_run_says_how_to_go_on_and_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("run", "O=CC", "OCC", "CCN", *ASKED, "--group", "1", "--order", "written")
    (whole,) = run_json(*asked)
    with interrupted_after_one_group():
        stopped = run(*asked)
    assert stopped.code == 130
    (row,) = run_json("runs", "--unfinished")
    assert row == {"run_id": row["run_id"], "samples_done": 1, "samples": 3, "state": "stopped"}
    assert f"`python -m engine run --resume {row['run_id']}` resumes the run" in stopped.err
    (again,) = run_json("run", "--resume", row["run_id"])
    assert (again["run_id"], again["resumed"], again["diverged_samples"]) == (row["run_id"], 1, 0)
    texts = [
        [
            one["text"]
            for one in Store.open().rows("SELECT text FROM samples WHERE run_id = ? ORDER BY sample_id", [id_])
        ]
        for id_ in (whole["run_id"], again["run_id"])
    ]
    assert texts[0] == texts[1]
    assert run_json("runs", "--unfinished") == []
    written = Store.open().rows("SELECT DISTINCT smiles, same_graph FROM samples ORDER BY ALL")
    assert [(row["smiles"], row["same_graph"]) for row in written] == [("CCN", True), ("O=CC", True), ("OCC", True)]


def test_the_reports_names_of_options() -> None:
    words = ("--model-alias", "small", "--model-step", "final", "--processor-type", "generic", "--batch-size", "2")
    (row,) = run_json("run", "CC=O", *words, "--max-new-tokens", "30", "--num-generations", "2", "--seed", "5")
    assert (row["lp"], row["generations"], row["seed"], row["most_tokens"]) == ("group-v2.1", 2, 5, 30)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "CC=O"), "give either --model or --model-path"),
        (("run", "CC=O", "--model", "smal"), "Did you mean small"),
        (("run", "CC=O", *ASKED, "--lp", "exakt"), "Did you mean exact"),
        (("run", "nope", *ASKED), "SMILES 'nope' cannot be read"),
        (("run", "CC=O", "--smiles-file", "x.smi", *ASKED), "SMILES and a file of them"),
        (("run", "--smiles-file", "missing.smi", *ASKED), "missing.smi"),
        (("run", "--sample-size", "2991", *ASKED), "2,990 held-out ones ship"),
        (("run", "CC=O", *ASKED, "--time-limit", "3"), "a run has no time limit"),
        (("run", "CC=O", *ASKED, "--profile-output", "x"), "Give both"),
        (("run", "CC=O", *ASKED, "--submit", "debug", "--profile"), "--profile belongs to a run of this process"),
        (
            ("run", "CC=O", *ASKED, "--lp", "exact", "--lp", "none", "--profile", "--profile-output", "x"),
            "--profile-output belongs to one run",
        ),
        (
            ("run", "CC=O", *ASKED, "--lp", "exact", "--lp", "none", "--json-report", "x"),
            "--json-report belongs to one run",
        ),
        (
            ("run", "CC=O", *ASKED, "--submit", "debug", "--json-report", "x"),
            "--json-report belongs to a run that is not",
        ),
        (
            ("run", "CC=O", *ASKED, "--submit", "debug", "--progress", "x"),
            "--progress belongs to a run that is not submitted",
        ),
        (("run", "CC=O", *ASKED, "--keep-steps", "0"), "greater than or equal to 1"),
        (("run", "CC=O", "--model", "small", "--model", "small", "--step", "final"), "Give each as ALIAS:STEP"),
        (("run", "--resume", "nothing"), "no unfinished run_id is named 'nothing'"),
        (("run", "CC=O", *ASKED, "--store", "/dev/null"), "it is no folder. Give a folder"),
    ],
)
def test_what_cannot_be_is_one_line(words: tuple[str, ...], told: str, place: Path) -> None:
    assert told in run(*words).error
    assert not place.exists()


def test_an_error_on_the_way_says_that_what_is_written_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Run, number: int) -> Any:
        raise RunError("the disk is full", "Make room")

    monkeypatch.setattr(Run, "_write", full)
    result = run("run", "CC=O", *ASKED)
    assert result.code == 2
    stays, told = result.err.splitlines()[1:]
    assert stays.startswith("saved samples stay; `python -m engine run --resume ")
    assert told == "driftscope: the disk is full. Make room"


def test_a_report_file_beside_the_run(tmp_path: Path) -> None:
    (row,) = run_json("run", "CC=O", *ASKED, "--json-report", str(tmp_path / "report.json"))
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["metadata"]["model_alias"] == row["model_alias"] == "small"
    assert [one["prompt_smiles"] for one in report["passes"]] == ["CC=O"]


def test_the_source_is_what_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/x/engine/__main__.py", "run", "C C", "--model", "small"])
    (row,) = run_json("run", "CC=O", *ASKED)
    assert row["source"] == "python -m engine run 'C C' --model small"


def test_a_program_that_watches_reads_lines(tmp_path: Path) -> None:
    file = tmp_path / "progress"
    rows = run_json("run", "CC=O", "CCO", *ASKED, "--lp", "exact", "--lp", "none", "--progress", str(file))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["part"], line["run_id"]) for line in lines if line.get("state") == "done"] == [
        (number, row["run_id"]) for number, row in enumerate(rows)
    ]
    assert (lines[0]["parts"], lines[0]["lp"], lines[0]["done"], lines[0]["samples"]) == (2, "exact", 0, 2)
    last = lines[-1]
    assert (last["done"], last["passes"], last["work"]) == (2, rows[1]["passes"], 1.0)
    assert (last["decodes"], last["clean"]) == (rows[1]["decodes"], rows[1]["clean"])
    run("run", "--resume", rows[0]["run_id"], "--progress", str(file))
    assert len(file.read_text().splitlines()) == len(lines), "lines are appended, and nothing was done"


@pytest.mark.parametrize("words", [("--progress", "/tmp/x"), ("--progress=/tmp/x",), ("--until-eof",)])
def test_who_watched_is_not_in_the_source(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/x/engine/__main__.py", "run", *words, "CC=O", "--model", "small"])
    (row,) = run_json("run", "CC=O", *ASKED)
    assert row["source"] == "python -m engine run CC=O --model small"


def test_rmsd_is_to_the_named_references() -> None:
    run_json("references", "make", "CCO", "CCCO", "--per-molecule", "3", "--label", "three")
    words = ("--references", "three", "--rmsd", "1", "--lp", "exact", *ASKED)
    (row,) = run_json("run", "CCO", "CCCO", *words)
    store = Store.open()
    entry = store.entry(row["run_id"])
    assert rmsd_references(entry) == "conformers of 'three'"
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
    (row,) = run_json("run", "CCO", "--rmsd", "2", "--lp", "exact", *ASKED)
    assert rmsd_references(Store.open().entry(row["run_id"])) == "2 conformers by ETKDG"


def test_so_many_samples_per_reference() -> None:
    for label, molecules, conformers in (("two", ["CCO", "CCCO"], "2"), ("three", ["CCN"], "3")):
        run_json("references", "make", *molecules, "--per-molecule", conformers, "--label", label)
    words = ("--references", "two", "--per-reference", "2", *ASKED)
    (row,) = run_json("run", *words, "--sampling", "p0.8_t1.2")
    assert (row["molecules"], row["samples"], row["generations"]) == (2, 8, None)
    found = Store.open().rows(
        "SELECT smiles, count(*) AS samples, count(DISTINCT text) AS texts FROM samples GROUP BY ALL"
    )
    assert {one["smiles"]: one["samples"] for one in found} == {"CCO": 4, "CCCO": 4}
    assert all(one["texts"] > 1 for one in found)  # each is drawn by itself
    left_out = run("run", "NCC", "CCO", "--references", "three", "--per-reference", "1", *ASKED, "--json")
    assert left_out.err == "left out: three has no conformer of CCO\n"
    assert [row["samples"] for row in left_out.document] == [3]
    once = run_json("run", "--references", "two", "--sample-size", "1", "--n", "2", *ASKED)
    assert [(row["samples"], row["generations"]) for row in once] == [(2, 2)]
    for told, *more in (
        ("in place of --n", *words, "--n", "2"), ("in place of --n", "--per-reference", "2", *ASKED),
        ("two has none of these molecules", "CCN", *words),
        ("no set of references 'four'", "--references", "four", *ASKED),
    ):  # fmt: skip
        assert told in run("run", *more).err.splitlines()[-1]
