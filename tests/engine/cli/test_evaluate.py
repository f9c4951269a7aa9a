"""``evaluate``: the keys that others rely on, the same in words, and one line for what cannot be evaluated."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.smiles import parse_smiles
from engine.store.store import VARIABLE, Store
from tests.cli import run, run_json
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.store.stored_runs import store_at

SMILES = "CCCCCO"
KEYS = {
    "cov_r", "cov_p", "mat_r_ang", "mat_p_ang", "cov_r_median", "cov_p_median", "mat_r_ang_median", "mat_p_ang_median",
    "thresholds", "cov_r_curve", "cov_p_curve", "molecules", "missing",
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "store"))
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))
    return store_at(tmp_path / "store")


def test_a_run_beside_its_baseline(store: Store) -> None:
    text = encode(reference_conformers(parse_smiles(SMILES))).text
    write_run(store, "mine", [sample_row(0, smiles=SMILES, text=f"[CONFORMER]{text}[/CONFORMER]")])
    found = run_json("evaluate", "mine", "--workers", "1", "--per-molecule", "4", "--threshold", "0.01")
    assert set(found) >= KEYS and set(found["baseline"]) >= KEYS
    assert (found["run_id"], found["references"], found["reference_conformers"]) == ("mine", None, 4)
    assert (found["threshold_ang"], found["missing_rule"], found["molecules"]) == (0.01, "skip", 1)
    assert (found["cov_r"], found["cov_p"], found["incomplete"]) == (0.25, 1.0, 0)
    alone = run_json("evaluate", "mine", "--workers", "1", "--per-molecule", "4", "--no-baseline")
    assert alone["baseline"] is None


def test_a_run_against_references_of_the_store(store: Store) -> None:
    run_json("references", "make", SMILES, "CCO", "--per-molecule", "3", "--label", "made")
    mol = reference_conformers(parse_smiles(SMILES), 3)
    texts = [encode(mol, conformer=one.GetId()).text for one in mol.GetConformers()][:2]
    rows = [(smiles, f"[CONFORMER]{text}[/CONFORMER]") for smiles in ("OCCCCC", "CCN") for text in texts]
    write_run(store, "mine", [sample_row(k, smiles=smiles, text=text) for k, (smiles, text) in enumerate(rows)])
    words = ["evaluate", "mine", "--references", "made", "--threshold", "0.01", "--workers", "1", "--no-baseline"]
    found = run_json(*words)
    assert (found["references"], found["reference_conformers"], found["without_references"]) == ("made", 3, 1)
    assert (found["cov_r"], found["cov_p"], found["molecules"]) == (pytest.approx(2 / 3), 1.0, 1)
    assert found["references_not_asked"] == 1


def test_matrices_alone(tmp_path: Path) -> None:
    file = tmp_path / "matrices.json"
    file.write_text('{"a": [[0.1, null], [0.8, 0.75]], "b": [[], []], "c": []}')
    found = run_json("evaluate", "--matrices", str(file))
    assert set(found) >= KEYS
    assert (found["cov_r"], found["cov_p"], found["mat_r_ang"], found["molecules"], found["missing"]) == (
        0.5, 0.5, pytest.approx(0.425), 3, 2,
    )  # fmt: skip
    assert run_json("evaluate", "--matrices", str(file), "--missing", "zero")["cov_r"] == pytest.approx(1 / 6)
    assert run_json("evaluate", "--matrices", "-", stdin=file.read_bytes()) == found
    file.write_text('{"a": [[null]]}')  # no NaN where no molecule has a figure
    found = run_json("evaluate", "--matrices", str(file))
    assert (found["cov_r"], found["mat_r_ang"], found["mat_r_ang_median"]) == (0.0, None, None)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "no JSON"), ("{}", "no object with a molecule"),
        ("[[0.1]]", "no object with a molecule"),
        *[(f'{{"a": {rows}}}', "'a' is no matrix of RMSDs") for rows in
          ("0.1", "[0.1]", "[[0.1, 0.2], [0.3]]", '[[0.1], ["x"]]', "[[-0.1]]", "[[1e999]]", f"[[{10**400}]]")],
        ("[" * 100_000, "no JSON"),
    ],
)  # fmt: skip
def test_matrices_of_another_form_are_one_line(content: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "matrices.json"
    file.write_text(content)
    assert problem in run("evaluate", "--matrices", str(file)).error


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "give either a run or --matrices"), (["mine", "--matrices", "f"], "give either a run or --matrices"),
        (["nobody"], "nobody"), (["--matrices", "absent.json"], "absent.json"), (["mine", "--missing", "drop"], "drop"),
        (["mine", "--threshold", "0"], "equal to 0.01"), (["mine", "--threshold", "nan"], "--threshold"),
        (["mine", "--per-molecule", "0"], "equal to 1"), (["mine", "--references", "geom"], "geom"),
        (["mine", "--references", "made", "--per-molecule", "2"], "--per-molecule belongs to references by ETKDG"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(words: list[str], problem: str, store: Store) -> None:
    assert problem in run("evaluate", *words).error
