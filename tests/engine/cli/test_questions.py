"""Questions in a terminal: ``advise``, ``evaluate``, ``judge``, ``claims``, ``trace`` and ``logits``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.smiles import parse_smiles
from engine.evidence import verdicts
from engine.jobs.progress import ProgressFile
from engine.jobs.run import Run
from engine.store.files import Files
from engine.store.schema import TRACES
from engine.store.store import DEMO, VARIABLE, Store
from tests.cli import keys, run, run_json
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.logits.logs import clean, objects, text, write
from tests.engine.profile.made_traces import write_trace
from tests.engine.questions.advice_runs import MANY, MODEL, add
from tests.engine.store.stored_runs import store_at
from tests.small_models import use_small_model

SMILES = "CCCCCO"
BENT, STRAIGHT = (f"[C]<0.0000,0.0000,0.0000>[O]<{far}000,0.0000,0.0000>" for far in ("3.4", "1.4"))


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    use_small_model(monkeypatch)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "store"))
    return store_at(tmp_path / "store")


# --- advise -----------------------------------------------------------------------------------------------------------


def test_advice_by_candidates_wants_and_settings(store: Store) -> None:
    assert run_json("advise") == [] and "no model has measured runs" in run("advise").err
    add(store, "none", 1.0)
    add(store, "group-v4.3", 0.1, clean=0, passed=len(MANY))
    add(store, "exact", 0.25)
    add(store, "exact", 0.2, run_id="small-batch", batch_size=8)
    (row,) = run_json("advise")
    assert (row["model"], row["runs"], row["lps"]) == (MODEL, 4, ["none", "group-v4.3", "exact"])
    reply = run_json("advise", "--model", "toy", "--molecules", "1000")
    missing = ["group-v2.1", "truncating", "guarded", "shaped"]
    assert (reply["model"], reply["lp"], reply["missing"]) == (MODEL, "exact", missing)
    assert reply["lps"][2]["expected"] == pytest.approx({"molecules": 1000, "seconds": 250.0, "usable": 1000.0})
    reply = run_json("advise", "--model", MODEL, "--want", "passed", "--lp", "none", "--lp", "v4.3")
    assert (reply["lp"], reply["want"], [row["lp"] for row in reply["lps"]]) == (
        "group-v4.3",
        "passed",
        ["none", "group-v4.3"],
    )
    (row,) = run_json("advise", "--model", MODEL, "--batch-size", "8")["lps"]
    assert row["run_id"] == "small-batch"


PROBE = ("advise", "--model", "small", "--probe", "4", "--threads", "1", "--lp", "group-v4.3", "--lp", "exact")


def test_a_probe_is_kept_judged_and_reported_on(store: Store, tmp_path: Path) -> None:
    advice = run_json(*PROBE, "--progress", str(tmp_path / "progress"))
    entries = store.listing().entries
    assert [row["run_id"] for row in advice["lps"]] == [entry.id for entry in entries]
    assert advice["want"] == "usable" and [row["judged"] for row in advice["lps"]] == [4, 4]
    assert advice["molecules"] == 4 and {entry.row["label"] for entry in entries} == {"probe"}
    assert (tmp_path / "progress").stat().st_size


def test_a_probe_that_is_stopped_keeps_what_is_finished(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(*PROBE, "--no-keep").code == 0 and store.listing().entries == ()
    whole = Run.progress

    def stopped(self: Run) -> object:
        if self.plan.plan.lp == "exact" and self.plan.label == "probe":
            raise KeyboardInterrupt
        return whole(self)

    monkeypatch.setattr(Run, "progress", stopped)
    result = run(*PROBE)
    (entry,) = store.listing().entries
    assert result.code == 130 and result.out == "" and entry.row["lp"] == "group-v4.3"


# --- evaluate ---------------------------------------------------------------------------------------------------------


def test_a_run_against_references_of_the_store_and_of_etkdg(store: Store) -> None:
    run_json("references", "make", SMILES, "CCO", "--per-molecule", "3", "--label", "made")
    mol = reference_conformers(parse_smiles(SMILES), 3)
    texts = [encode(mol, conformer=conformer.GetId()).text for conformer in mol.GetConformers()][:2]
    rows = [(smiles, f"[CONFORMER]{text}[/CONFORMER]") for smiles in ("OCCCCC", "CCN") for text in texts]
    write_run(store, "mine", [sample_row(k, smiles=smiles, text=text) for k, (smiles, text) in enumerate(rows)])
    words = ["evaluate", "mine", "--threshold", "0.01", "--workers", "1"]
    scores = run_json(*words, "--references", "made", "--no-baseline")
    assert (scores["references"], scores["reference_conformers"], scores["without_references"]) == ("made", 3, 1)
    assert (scores["cov_r"], scores["cov_p"], scores["molecules"]) == (pytest.approx(2 / 3), 1.0, 1)
    assert scores["references_not_asked"] == 1 and scores["baseline"] is None
    scores = run_json(*words, "--per-molecule", "4")
    assert (scores["etkdg_per_molecule"], scores["threshold_ang"]) == (4, 0.01) and scores["baseline"]["cov_r"] >= 0


@pytest.mark.parametrize("rows", ["[[0.1, 0.2], [0.3]]", '[[0.1], ["x"]]', "[[-0.1]]"])
def test_matrices_of_another_form_are_one_line(rows: str) -> None:
    content = json.dumps({"a": 1}).replace("1", rows).encode()
    assert "'a' is no matrix of RMSDs" in run("evaluate", "--matrices", "-", stdin=content).error


# --- judge ------------------------------------------------------------------------------------------------------------


def test_a_run_with_its_rates_and_samples(store: Store) -> None:
    empty = sample_row(2, clean=False, decodes=None)
    write_run(store, "one", [sample_row(0, text=STRAIGHT), sample_row(1, text=BENT), empty])
    rates = run_json("judge", "one", "--workers", "1")
    assert (rates["stored"], rates["geometry_right"], rates["usable"], rates["judged"]) == (True, 0.5, 1 / 3, 3)
    assert (rates["passed"], rates["decodes"], rates["clean"], rates["stereo_right"]) == (1.0, None, 2 / 3, None)
    assert [sample["usable"] for sample in rates["samples"]] == [True, False, False]
    assert run_json("runs")[0]["usable"] == 1


def test_stored_strains_that_no_molecule_has_are_left_out(store: Store) -> None:
    """The bug: ``intermediate overflow in fsum``."""
    strains = [(1e308, 1e308), (1e308, -1e308), (-1e308, float("nan")), (4.0, 0.5)]
    rows = [
        sample_row(k, text=STRAIGHT, heavy_atoms=2, strain_kcal=kcal, strain_moved_ang=ang)
        for k, (kcal, ang) in enumerate(strains)
    ]
    write_run(store, "one", rows)
    rates = run_json("judge", "one", "--workers", "1")
    assert (rates["strain_kcal"], rates["strain_kcal_per_atom"], rates["strain_moved_ang"]) == (4.0, 2.0, 0.5)


def test_a_read_only_run_is_judged_and_not_stored_which_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_only = store_at(tmp_path / "beside")
    write_run(read_only, "one", [sample_row(0, text=BENT, decodes=True)])
    opened = Store(Files(tmp_path / "own"), (read_only.home,))
    monkeypatch.setattr(Store, "open", classmethod(lambda cls, folder=None: opened))
    result = run("judge", "one", "--workers", "1")
    assert "read-only: printed, not stored" in result.err and "bond_lengths" in result.out


def test_all_steps_of_a_training_are_judged_by_one_command(store: Store, tmp_path: Path) -> None:
    answers = [f"[CONFORMER]{STRAIGHT}[/CONFORMER]", "nothing"]
    columns = {"prompt": ["[SMILES]CO[/SMILES]"] * 2, "completion": answers, "reward": [1.0, 0.0]}
    for step in (1, 2):
        path = tmp_path / "mine" / "completions" / f"completions_{step:05d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table({"step": [step] * 2, **columns}), path)
    rows = run_json("import", str(path.parent / "*.parquet"))
    assert [(row["training"], row["training_step"], row["passes"]) for row in rows] == [
        ("mine", 1, None),
        ("mine", 2, None),
    ]
    needs = run("ask", "compare_rewards", rows[0]["run_id"])
    command = ["judge", rows[0]["run_id"], "--steps"]
    assert needs.code == 2 and f"python -m engine {' '.join(command)}" in needs.err
    progress = tmp_path / "progress"
    judged = run_json(*command, "--workers", "1", "--progress", str(progress))
    assert [(row["training_step"], row["judged"], row["clean"]) for row in judged] == [(1, 2, 1), (2, 2, 1)]
    assert json.loads(progress.read_text().splitlines()[-1])["state"] == "done"
    (row,) = run_json("ask", "compare_rewards", rows[1]["run_id"])["rows"]
    assert (row["reward"], row["answers"], row["mean"]) == ("reward", 4, 0.5)
    needs = run("ask", "compare_steps", rows[1]["run_id"], "--step-coverage", "true")
    command = ["evaluate", rows[0]["run_id"], "--steps"]
    assert needs.code == 2 and f"python -m engine {' '.join(command)}" in needs.err
    evaluated = run_json(*command, "--workers", "1", "--progress", str(progress))
    assert [(row["step"], row["cov_r"], row["molecules"]) for row in evaluated] == [(1, 1.0, 1), (2, 1.0, 1)]
    assert json.loads(progress.read_text().splitlines()[-1]) == {"work": 1.0, "state": "done"}
    charted = run_json("ask", "compare_steps", rows[1]["run_id"], "--step-coverage", "true")["rows"]
    assert [(row["step"], row["cov_r"]) for row in charted] == [(1, 1.0), (2, 1.0)]
    write_run(store, "other", [sample_row(0, text=BENT)])
    refused = run("judge", "other", "--steps")
    assert refused.code == 2 and "other is no step of a training" in refused.err


# --- claims -----------------------------------------------------------------------------------------------------------


def test_claims_in_words_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_demo = ("--store", str(DEMO))
    assert "1.34 x 2.62 = 3.51;" in run("claims", "002-decomposition", *on_demo).out
    path = tmp_path / "verdicts.json"
    monkeypatch.setattr(verdicts, "FILE", path)
    monkeypatch.setattr(verdicts.save, "__defaults__", (path,))
    assert run_json("claims", "--save", *on_demo)["counts"]["reproduced"] == 27
    assert len(verdicts.load(path).verdicts) == 85


# --- traces and logs --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a trace and one that is cut off; two logs, of which one is damaged, one cut, one empty."""
    write_trace(tmp_path / "made.json.gz", 2_000)
    (tmp_path / "broken.json.gz").write_bytes((tmp_path / "made.json.gz").read_bytes()[:-500])
    rows = clean(50, 12)
    rows[:10, 0] = 10.0 ** np.random.default_rng(0).uniform(16, 34, 10)
    for name in ("a.jsonl", "again.jsonl.gz"):
        write(tmp_path / name, objects(rows))
    write(tmp_path / "c.jsonl", text(objects(clean(5, 3)))[:-20])
    (tmp_path / "empty.jsonl").write_bytes(b"")
    return tmp_path


def test_traces_are_added_listed_and_removed(folder: Path) -> None:
    files = [str(folder / name) for name in ("broken.json.gz", "made.json.gz")]
    words = ("--label", "mine", "--tokens", "100", "--keep", "--progress", str(folder / "said"))
    result = run("trace", "add", *files, *words, "--json")
    assert result.code == 0 and "left out" in result.err
    (row,) = result.document
    assert tuple(row) == TRACES.names
    assert [row[name] for name in ("source", "label", "tokens")] == ["made.json.gz", "mine", 100]
    parts = ProgressFile(folder / "said").parts()
    assert [(part.state, part.made_ids) for part in parts] == [("failed", ()), ("done", (row["trace_id"],))]
    assert "is cut off" in parts[0].error
    assert [trace["trace_id"] for trace in run_json("trace", "list")] == [row["trace_id"]]
    sums = run_json("sql", "SELECT family, sum(calls) AS calls FROM trace_ops GROUP BY 1 ORDER BY 1")
    assert {"family": "launch", "calls": 400} in sums
    sheet = folder / "store" / "traces" / f"trace_id={row['trace_id']}" / "trace.json"
    sheet.write_text("{")  # a damaged one goes by its whole name, with the file that it kept
    assert row["trace_id"] in run("trace", "list").err
    assert run_json("trace", "rm", row["trace_id"], "--yes") == [{"trace_id": row["trace_id"]}]
    assert not sheet.parent.exists() and not list((folder / "store" / "profiles").iterdir())


def test_logs_are_added_listed_and_removed(folder: Path) -> None:
    files = [str(folder / name) for name in ("a.jsonl", "empty.jsonl", "c.jsonl", "again.jsonl.gz")]
    words = ("--model", "Phi-3", "--precision", "Q4_K_M", "--progress", str(folder / "said"))
    result = run("logits", "add", *files, *words, "--json")
    assert result.code == 0
    assert all(word in result.err for word in ("truncated", "left out", "is already in the store"))
    row, cut, _ = result.document
    assert keys(row, ["log_id", "engine", "model", "precision", "source", "entries"])
    assert (row["engine"], row["model"], row["precision"]) == ("llama.cpp", "Phi-3", "Q4_K_M")
    counts = [row[name] for name in ("entries", "flagged_entries", "garbage_entries", "cause")]
    assert counts == [50, 10, 10, "uninitialised"]
    parts = ProgressFile(folder / "said").parts()
    assert [part.state for part in parts] == ["done", "failed", "done", "there"]
    assert (parts[1].part, parts[1].parts, parts[1].file) == (1, 4, "empty.jsonl")
    assert "no logit entry" in parts[1].error and (parts[0].done, parts[0].work) == (50, 1.0)
    assert "nothing was removed" in run("logits", "rm", cut["log_id"]).error
    assert run_json("logits", "rm", cut["log_id"], "--yes") == [{"log_id": cut["log_id"]}]
    assert [log["log_id"] for log in run_json("logits", "list")] == [row["log_id"]]


# --- what cannot be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("advise --model demo-qwen", "no run of demo-qwen:final was measured here"),
        ("advise --model toy --sampling greedy", "no run of toy has this setting, but qwen3"),
        ("advise --model toy --want usable", "not all answers have a verdict"),
        ("advise --model demo-qwen --probe 8 --lp exact", "a probe of one LP"),
        ("advise --probe 8", "--probe belongs to --model"),
        ("evaluate", "give either a run or --matrices"),
        ("evaluate mine --threshold nan", "--threshold"),
        ("evaluate mine --references made --per-molecule 2", "--per-molecule belongs to references by ETKDG"),
        ("judge one --smiles C", "--smiles belongs to --text"),
        ("judge reported-000 --store data/demo", "no samples to judge"),
        (f"judge --text {BENT} --energy", "no energy ratio"),
        ("claims 002-decompositon", "Did you mean 002-decomposition"),
        ("ask compare_figure x", "compare_figures"),
        (f"trace add {__file__}", "is no trace"),
        (f"trace add {__file__} --run x", "there is no run"),
        (f"trace add {__file__} --tokens many", "'--tokens': Input should be a valid integer"),
    ],
)
def test_mistakes_are_one_line(line: str, said: str, store: Store) -> None:
    add(store, "none", 1.0)
    assert said in run(*line.split()).error
