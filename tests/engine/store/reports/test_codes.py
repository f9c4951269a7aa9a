"""Reports with texts of codes: a run keeps which they are, and its conformers come of a decoder or beside the texts."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import AllChem

from engine.chem.conformers import reference_conformers
from engine.chem.smiles import parse_smiles
from engine.comparing.measures import rate
from engine.errors import FileError, RunError
from engine.inspection.atoms import LINK, rows_of_sample
from engine.inspection.conformers import conformers_of
from engine.inspection.faults import check_line, verdict
from engine.inspection.judging import judge_run, judge_text
from engine.inspection.lost_runs import why_not_searched
from engine.inspection.recount import recount_run
from engine.inspection.resolution import decimals_of
from engine.inspection.sample import inspect_sample
from engine.questions import ask
from engine.questions.compare_failures import FAILED
from engine.records import CodeFormat
from engine.store.entries import is_pool, number_format_of
from engine.store.generations import conformer_texts
from engine.store.reports.exporting import report_bytes
from tests.cli import run
from tests.engine.store.reports.documents import imported, store_in
from tests.engine.store.reports.test_bins import of_bins

FORM = CodeFormat(levels=(2,) * 12)
GOOD = "[C]<144>[C]<1129>=<36>[O]<4095>"
TEXTS = {"CC=O": [GOOD, GOOD.replace("<36>", ""), GOOD.replace("<4095>", "<4096>")], "CCO": ["[C]<1>[C]<22>[O"]}
REPORT = of_bins(TEXTS, tokenizer_name="qwen3-codes")


def test_a_run_of_codes_is_read_with_its_codes_and_not_judged_without_a_decoder(tmp_path: Path) -> None:
    entry = imported(tmp_path, REPORT, bins=FORM)
    assert number_format_of(entry) == FORM
    assert entry.row["notes"].startswith("Codes, as given: 4,096 codes, one behind each token of the SMILES")
    store = store_in(tmp_path)
    samples = store.rows("SELECT * FROM samples ORDER BY sample_id")
    assert [row["clean"] for row in samples] == [True, False, False, False]
    assert [row["decodes"] for row in samples] == [True, False, False, False]
    blocks = store.rows("SELECT block, atom, x, needed, drift, kinds FROM blocks WHERE sample_id = 1 ORDER BY block")
    assert [row["atom"] for row in blocks] == [0, 1, -1, 2]
    assert [row["kinds"] for row in blocks] == [["exact"], ["exact"], ["missing_code"], ["exact"]]
    assert [(row["x"], row["needed"], row["drift"]) for row in blocks[1:3]] == [(None, 1, 0), (None, None, None)]
    assert entry.row["tokenizer"] == "qwen3-codes"
    for row in judge_run(store, entry.id).rows:
        assert row["geometry_right"] is row["usable"] is row["usable_each"] is None
        assert [check_line(failed) for failed in row["failed"]] == ["not judged: codes without a decoder"]
    answered = ask(store, "compare_failures", [entry.id])
    assert {row["reason"]: row["samples"] for row in answered.tables["main"].to_pylist()}[FAILED] == 1
    assert judge_text(f"[CONFORMER]{GOOD}[/CONFORMER]", form=FORM)["usable"] is None
    counts = store.entry(entry.id).row
    recount_run(store, entry.id)
    assert store.rows("SELECT DISTINCT usable FROM samples") == [{"usable": None}]
    assert (counts["judged"], counts["usable"], rate(store.entry(entry.id), "usable_rate")) == (0, 0, None)
    assert conformers_of(store, entry.id)[0] == []
    sound = inspect_sample(store, entry.id, 0)
    assert verdict(sound.sample, sound.blocks) == "Clean and readable: every token of the SMILES has its code."
    inspected = inspect_sample(store, entry.id, 1)
    assert inspected.conformer is None and "codes without a decoder" in inspected.why_no_conformer
    shown = rows_of_sample(inspected, {}, {})
    assert [row.atom for row in shown] == [0, 1, None, 2]
    assert shown[2].words == f"{LINK}: it has no code; no decoder takes the text."
    (wrong,) = [row.words for row in rows_of_sample(inspect_sample(store, entry.id, 2), {}, {}) if row.words]
    assert wrong == "O, atom 2, `4096`: its code is none of the codebook; no decoder takes the text."


def test_a_reader_names_the_damaged_code_where_there_is_a_decoder(tmp_path: Path) -> None:
    """Of a missing code the next token of the SMILES is cut otherwise, and no stranger to the molecule."""
    damaged = "[n]<7>1<3>[n]<2>[c]<9>[n][c]<4>1<5>"
    form = CodeFormat(levels=(2,) * 8, decoder="demo-codes")
    failed = judge_text(f"[CONFORMER]{damaged}[/CONFORMER]", form=form)["failed"]
    assert list(map(check_line, failed)) == [
        "not judged in 3D: the strict reader refuses the text: a code is missing or damaged, block 4"
    ]
    entry = imported(tmp_path, of_bins({"n1ncnc1": [damaged]}, tokenizer_name="qwen3-codes"), bins=form)
    inspected = inspect_sample(store_in(tmp_path), entry.id, 0)
    assert [row.damage for row in rows_of_sample(inspected, {}, {}) if row.damage] == ["missing"]
    assert inspected.by_group is None


def test_what_needs_places_says_so_in_a_line(tmp_path: Path) -> None:
    entry = imported(tmp_path, REPORT, bins=FORM)
    store = store_in(tmp_path)
    assert "no token of it can be named" in str(why_not_searched(store, entry))
    assert "codes are no numbers" in run("ask", "drift_coverage", "demo-codes:final").error
    with pytest.raises(RunError, match="none can be dropped"):
        decimals_of(entry)
    report_bytes(entry)  # the file itself, which is kept


def test_texts_of_codes_are_refused_without_their_file_and_with_another(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="3 of its 4 texts are text of codes") as caught:
        imported(tmp_path, REPORT)
    assert "mode fsq" in caught.value.fix
    with pytest.raises(FileError, match="do not fit the codes as given: 1 of 13 blocks are one of 32 codes"):
        imported(tmp_path, of_bins({"CC=O": [GOOD, GOOD, GOOD], "C": ["[C]<31>"]}), bins=CodeFormat(levels=(2,) * 5))


def test_conformers_beside_the_texts_are_those_of_the_same_index(tmp_path: Path) -> None:
    """Of acetaldehyde the first and the third; the second became none. Atoms are in the pool's own order."""
    mols = list(map(Chem.Mol, [reference_conformers(parse_smiles("CC=O"), 1, seed=seed) for seed in (1, 2)]))
    ethanol = Chem.RenumberAtoms(Chem.Mol(reference_conformers(parse_smiles("CCO"), 1, seed=3)), [2, 1, 0])
    empty = Chem.MolFromSmiles("CC=O")
    path = tmp_path / "generation_results.pickle"
    path.write_bytes(pickle.dumps({"CC=O": [mols[0], empty, mols[1]], "CCO": [ethanol]}, protocol=4))
    entry = imported(tmp_path, REPORT, bins=FORM, conformers=path)
    assert "Conformers of 3 texts by their index in generation_results.pickle, which has 4." in entry.row["notes"]
    store = store_in(tmp_path)
    rows = judge_run(store, entry.id).rows
    assert [row["geometry_right"] for row in rows] == [True, None, True, True]
    assert [row["usable"] for row in rows] == [True, None, False, False]
    assert store.entry(entry.id).row["judged"] == 3
    made, _ = conformers_of(store, entry.id)
    assert len(made) == 3
    for (_, mol), wanted in zip(made, [*mols, ethanol], strict=True):
        rmsd = AllChem.GetBestRMS(Chem.RemoveHs(mol), Chem.RemoveHs(wanted))
        assert np.isclose(rmsd, 0, atol=1e-3)


def test_texts_without_a_conformer_beside_them_are_read_by_the_decoder(tmp_path: Path) -> None:
    """Of two texts alike, the pool has a conformer of the first."""
    answer = "[C]<66>[C]<215>=<0>[O]<44>"
    report = of_bins({"CC=O": [answer, answer]}, tokenizer_name="qwen3-codes")
    mol = Chem.Mol(reference_conformers(parse_smiles("CC=O"), 1, seed=1))
    path = tmp_path / "few.pickle"
    path.write_bytes(pickle.dumps({"CC=O": [mol]}, protocol=4))
    entry = imported(tmp_path, report, bins=CodeFormat(levels=(2,) * 8, decoder="demo-codes"), conformers=path)
    store = store_in(tmp_path)
    assert not is_pool(entry)
    texts = conformer_texts(store, entry)
    assert sorted(texts) == [0, 1] and texts[0] != texts[1]
    made, _ = conformers_of(store, entry.id)
    assert np.isclose(AllChem.GetBestRMS(Chem.RemoveHs(made[0][1]), Chem.RemoveHs(mol)), 0, atol=1e-3)
    assert all(row["geometry_right"] is not None for row in judge_run(store, entry.id).rows)


def test_conformers_that_cannot_be_given_to_texts_are_refused(tmp_path: Path) -> None:
    """Of none of its texts; or of texts with several conformers, of which nobody says which is whose."""
    ethanol = Chem.Mol(reference_conformers(parse_smiles("CCO"), 1, seed=3))
    path = tmp_path / "other.pickle"
    path.write_bytes(pickle.dumps({"CCO": [ethanol, ethanol]}, protocol=4))
    with pytest.raises(FileError, match="is of one of its texts, or none has coordinates"):
        imported(tmp_path, of_bins({"CC=O": [GOOD]}), bins=FORM, conformers=path)
    two = "[C]<1>[C]<22>[O]<3>[/CONFORMER][CONFORMER][C]<1>[C]<22>[O]<4>"
    with pytest.raises(FileError, match="a text has several conformers") as caught:
        imported(tmp_path, of_bins({"CCO": [two]}), bins=FORM, conformers=path)
    assert "Leave --conformers out" in caught.value.fix
    assert store_in(tmp_path).rows("SELECT * FROM samples") == []


def test_a_conformer_of_another_molecule_is_not_usable(tmp_path: Path) -> None:
    ethanol = Chem.Mol(reference_conformers(parse_smiles("CCO"), 1, seed=3))
    path = tmp_path / "other.pickle"
    path.write_bytes(pickle.dumps({"CC=O": [ethanol]}, protocol=4))
    warnings = list[str]()
    entry = imported(tmp_path, REPORT, bins=FORM, conformers=path, warn=warnings.append)
    assert warnings == [
        "'other.pickle': conformers of other molecules than asked: 1",
        "'other.pickle': of 2 of 2 SMILES not as many molecules as texts: 'CC=O' 1 molecule, 3 texts",
    ]
    row = judge_run(store_in(tmp_path), entry.id).rows[0]
    assert (row["clean"], row["geometry_right"], row["usable"], row["usable_each"]) == (True, True, False, (False,))
    assert [failed["check"] for failed in row["failed"]] == ["graph"]
    assert recount_run(store_in(tmp_path), entry.id).entry.row["usable"] == 0
