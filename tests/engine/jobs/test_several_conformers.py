"""A run whose answers hold several conformers: every one of them counts, in the store and in what is made of it."""

from __future__ import annotations

import json
import pickle
import re
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import pytest
from rdkit import Chem
from rdkit.Chem import rdMolAlign

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import decode, encode
from engine.chem.smiles import parse_smiles, parse_written
from engine.comparing.evaluation import EvaluationRequest, evaluate_run
from engine.comparing.measures import figure
from engine.comparing.paired import compare_entries
from engine.decode.generation import Generation
from engine.inspection.conformers import conformers_of, write_conformers
from engine.inspection.judging import judge_run, judge_text
from engine.inspection.molecules import sample_table
from engine.inspection.sample import inspect_sample
from engine.jobs.scoring import question_of
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.generations import import_pool
from engine.store.reports.importing import import_report
from engine.store.store import Store
from pages._drift.files import sdf_of_one
from tests.engine.jobs.small_runs import choice, finished, loaded, started

K = 3
PLAN = {"conformers": K, "limit": None, "generations": 2}
EXAMPLES = "[SMILES]C[/SMILES][CONFORMER][C]<0.0,0.0,0.0>[/CONFORMER]"


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("several")


@pytest.fixture(scope="module")
def entry(folder: Path, where: Path) -> Entry:
    return finished(started(where, folder, 3, rmsd=2, judge=True, keep_steps=2, plan=PLAN))


@pytest.fixture(scope="module")
def store(entry: Entry, where: Path) -> Store:
    return Store(Files(where))


def molecules_of(text: str) -> list[Chem.Mol]:
    return [decode(part).mol for part in re.findall(r"\[CONFORMER\].*?\[/CONFORMER\]", text)]


def test_its_rows_say_of_each_conformer_what_it_is(entry: Entry, store: Store) -> None:
    rows = store.rows("SELECT * FROM samples WHERE conformers = 3 ORDER BY sample_id")
    assert len(rows) == 6
    for row in rows:
        assert row["conformers"] == K
        assert row["passed_each"] == row["clean_each"] == [True] * K
        assert len(row["usable_each"]) == K
        assert row["usable"] == all(row["usable_each"])
    assert (entry.row["conformers"], entry.row["clean_conformers"], entry.row["judged_conformers"]) == (18, 18, 18)
    assert entry.row["usable_conformers"] == sum(sum(row["usable_each"]) for row in rows)
    assert (entry.row["samples"], entry.row["clean"], entry.row["conformers_per_answer"]) == (6, 6, K)
    (blocks,) = store.rows("SELECT list(DISTINCT conformer ORDER BY conformer) AS numbers FROM blocks")
    assert blocks["numbers"] == [1, 2, 3]
    steps = store.rows(
        "SELECT conformer, string_agg(piece, '' ORDER BY pos) AS text FROM steps WHERE sample_id = 0 GROUP BY 1"
    )
    texts = {row["conformer"]: row["text"] for row in steps}
    parts = re.findall(r"\[CONFORMER\].*?\[/CONFORMER\]", rows[0]["text"])
    assert [texts[number].removesuffix("<|endoftext|>") for number in (1, 2, 3)] == parts


def test_rmsds_are_those_of_rdkit_to_the_references_and_between_the_conformers(store: Store) -> None:
    rows = store.rows("SELECT * FROM samples WHERE conformers = 3 ORDER BY sample_id")
    for row in rows:
        references = Chem.RemoveHs(reference_conformers(parse_smiles(row["smiles"]), 2))
        mols = molecules_of(row["text"])
        if any(atom.GetAtomicNum() == 1 for atom in mols[0].GetAtoms()) or mols[0].GetNumAtoms() < 2:
            continue
        least = [
            min(
                rdMolAlign.GetBestRMS(Chem.Mol(mol), references, refId=ref.GetId())
                for ref in references.GetConformers()
            )
            for mol in mols
        ]
        assert row["rmsd_each"] == pytest.approx(least, abs=1e-4)
        assert row["rmsd_ang"] == pytest.approx(sum(least) / K, abs=1e-4)
        apart = [rdMolAlign.GetBestRMS(Chem.Mol(one), other) for one, other in combinations(mols, 2)]
        assert row["differ_least_ang"] == pytest.approx(min(apart), abs=1e-4)
        assert row["differ_mean_ang"] == pytest.approx(sum(apart) / 3, abs=1e-4)


def test_exports_have_each_conformer_by_its_name(entry: Entry, store: Store) -> None:
    mols, properties = conformers_of(store, entry.id, [4])
    assert [name for name, _ in mols] == [f"{entry.id} #4/{number}" for number in (1, 2, 3)]
    assert [row["conformer"] for row in properties] == [1, 2, 3]
    (row,) = store.rows("SELECT text FROM samples WHERE sample_id = 4")
    for (_, mol), own in zip(mols, molecules_of(row["text"]), strict=True):
        assert (mol.GetConformer().GetPositions() == own.GetConformer().GetPositions()).all()


def test_coverage_counts_every_conformer_and_its_baseline_as_many(
    entry: Entry, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path))
    evaluation = evaluate_run(store, entry.id, EvaluationRequest(per_molecule=2), workers=1)
    assert evaluation.run.samples == 18
    assert evaluation.clustered is not None
    assert 0 < evaluation.clustered.samples <= 18


def test_judging_it_later_finds_the_same_of_each_conformer(folder: Path, tmp_path: Path) -> None:
    later = finished(started(tmp_path, folder, 2, plan=PLAN))
    rows = judge_run(Store(Files(tmp_path)), later.id, workers=1).rows
    inline = finished(started(tmp_path / "b", folder, 2, judge=True, plan=PLAN))
    (judged,) = Store(Files(tmp_path / "b")).rows("SELECT list(usable_each ORDER BY sample_id) AS each FROM samples")
    assert judged["each"] == [list(row["usable_each"]) for row in rows]
    assert inline.row["usable_conformers"] == sum(sum(row["usable_each"]) for row in rows)


def test_compare_has_rates_over_answers_and_over_conformers(entry: Entry, folder: Path, where: Path) -> None:
    """Under the group's control random weights write nothing that is clean; there are two asked for, not three."""
    free = {"lp": "group-conformers", "conformers": 2, "limit": 40, "generations": 2}
    other = finished(started(where, folder, 3, judge=True, plan=free))
    store = Store(Files(where))
    compared = compare_entries(store, entry, other)
    asked = {name: compared.measure(name) for name in ("clean_rate", "clean_conformers_rate", "usable_conformers_rate")}
    assert [(of.control, of.test) for name, of in asked.items() if name.startswith("clean")] == [(1.0, 0.0)] * 2
    (counted,) = store.rows("SELECT sum(len(usable_each)) AS n FROM samples WHERE run_id = $r", {"r": other.id})
    assert asked["usable_conformers_rate"].test == 0.0 and other.row["judged_conformers"] == counted["n"]
    assert figure(entry, "clean_conformers_rate") == 1.0 and figure(other, "clean_conformers_rate") == 0.0
    assert (entry.row["conformers_asked"], other.row["conformers_asked"]) == (18, 12)
    table = sample_table(store, [entry.id])
    assert set(table["conformers"].to_pylist()) == {K}
    of_rows = store.rows("SELECT usable_each FROM samples WHERE run_id = $r ORDER BY sample_id", {"r": entry.id})
    assert table["usable_conformers"].to_pylist() == [sum(row["usable_each"]) for row in of_rows]


def test_imports_of_texts_and_of_molecules_with_several_count_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text with an example before its prompt and three conformers behind it; and a pickled molecule with three."""
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))
    mol = reference_conformers(parse_smiles("CCO"), 3)
    answer = "".join(f"[CONFORMER]{encode(mol, conformer=number).text}[/CONFORMER]" for number in range(3))
    item = {"decoded_text": f"{EXAMPLES}[SMILES]CCO[/SMILES]{answer}"}
    (tmp_path / "report.json").write_text(json.dumps({"passes": [item]}), encoding="utf-8")
    (tmp_path / "generations.pickle").write_bytes(pickle.dumps({"CCO": [mol]}, 4))
    store = Store(Files(tmp_path / "store"))
    report = import_report(store, tmp_path / "report.json")
    molecules = import_pool(store, tmp_path / "generations.pickle")
    store = store.snapshot()
    (row,) = store.rows("SELECT * FROM samples WHERE run_id = $r", {"r": report.id})
    assert (row["smiles"], row["conformers"], row["clean_each"]) == ("CCO", 3, [True] * 3)
    for entry in (report, molecules):
        assert len(conformers_of(store, entry.id)[0]) == 3
        assert evaluate_run(store, entry.id, EvaluationRequest(per_molecule=2), workers=1).run.samples == 3
    judged = judge_run(store, report.id, workers=1)
    assert judged.rates()["usable_of_conformers"] == 1.0
    assert judged.rows[0]["differ_least_ang"] is not None


def test_a_file_of_conformers_says_of_each_what_it_is(tmp_path: Path) -> None:
    """Of RDKit's own three, the second has a letter in a block and the third is squeezed to a fifth."""
    mol = reference_conformers(parse_smiles("CC(=O)Nc1ccccc1"), 3)
    mol.GetConformer(2).SetPositions(mol.GetConformer(2).GetPositions() / 5)
    texts = [encode(mol, conformer=number).text for number in range(3)]
    texts[1] = re.sub(r"(\d)>", r"\1x>", texts[1], count=1)
    answer = "".join(f"[CONFORMER]{text}[/CONFORMER]" for text in texts)
    item = {"decoded_text": f"[SMILES]CC(=O)Nc1ccccc1[/SMILES]{answer}"}
    (tmp_path / "report.json").write_text(json.dumps({"passes": [item]}), encoding="utf-8")
    store = Store(Files(tmp_path / "store"))
    entry = import_report(store, tmp_path / "report.json")
    judge_run(store, entry.id, workers=1)
    store, written = store.snapshot(), tmp_path / "out.sdf"
    assert write_conformers(store, entry.id, written, "group", is_pickle=False) == 3
    each = [mol.GetPropsAsDict() for mol in Chem.SDMolSupplier(str(written))]
    assert [(row["conformer"], row["clean"], row["usable"]) for row in each] == [
        (1, "True", "True"),
        (2, "False", "False"),
        (3, "True", "False"),
    ]
    assert not any({"decodes", "stereo_right", "geometry_right", "bad_blocks"} & row.keys() for row in each)
    third = inspect_sample(store, entry.id, 0).of_conformer(3)
    (shown,) = (mol.GetPropsAsDict() for mol in read_sdf(sdf_of_one(third)))
    assert shown == each[2]


def read_sdf(text: str) -> Chem.SDMolSupplier:
    mols = Chem.SDMolSupplier()
    mols.SetData(text)
    return mols


def test_usable_is_said_of_each_conformer_and_of_all() -> None:
    """Two of RDKit's own, and one squeezed to a fifth."""
    mol = reference_conformers(parse_smiles("CC(=O)Nc1ccccc1"), 3)
    mol.GetConformer(2).SetPositions(mol.GetConformer(2).GetPositions() / 5)
    text = "".join(f"[CONFORMER]{encode(mol, conformer=number).text}[/CONFORMER]" for number in range(3))
    verdict = judge_text(f"[SMILES]CC(=O)Nc1ccccc1[/SMILES]{text}")
    assert (verdict["clean"], verdict["clean_each"]) == (True, (True, True, True))
    assert (verdict["usable"], verdict["usable_each"]) == (False, (True, True, False))


def test_what_a_sample_was_asked_with_is_kept_where_it_had_examples(folder: Path, tmp_path: Path) -> None:
    plan = {"limit": None, "examples": EXAMPLES, "conformers": 2}
    entry = finished(started(tmp_path, folder, 1, keep_steps=1, plan=plan))
    store = Store(Files(tmp_path))
    (row,) = store.rows("SELECT smiles, text, extra FROM samples")
    assert json.loads(row["extra"])["text_before"] == f"{EXAMPLES}[SMILES]{row['smiles']}[/SMILES]"
    assert row["text"].startswith("[CONFORMER]")
    assert entry.row["examples"] == 1
    seen = inspect_sample(store, entry.id, 0)
    assert (seen.examples, seen.run.conformers_per_answer, len(seen.shapes)) == (EXAMPLES, 2, 2)
    kept = store.rows("SELECT pos, ln_p, ln_q FROM steps ORDER BY pos")
    question = question_of(seen, choice(folder).entry())
    asked = Generation(loaded(folder), [parse_written(question.smiles)], question.plan)
    (scored,) = asked.diagnosed([SimpleNamespace(sample_id=0, token_ids=question.token_ids)])  # type: ignore[list-item]
    assert [one.ln_p for one in scored] == pytest.approx([step["ln_p"] for step in kept], abs=1e-4)
