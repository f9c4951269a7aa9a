"""Reports with texts of bins: which bins is said, by option or registry, and never guessed; the run keeps them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.chem.enriched import as_decimals, decode
from engine.comparing.evaluation import texts_of
from engine.errors import FileError
from engine.inspection.atoms import atom_rows
from engine.inspection.conformers import conformers_of, misread_of
from engine.inspection.judging import judge_run
from engine.inspection.molecules import sample_table
from engine.inspection.recount import recount_run
from engine.inspection.runs import number_format
from engine.inspection.sample import inspect_sample
from engine.models.registry import USER_VARIABLE
from engine.questions import ask
from engine.records import BinFormat
from engine.store.entries import number_format_of
from engine.store.reports.exporting import export_report
from tests.engine.store.reports.documents import document, file_of, imported, store_in
from tests.small_models import write_registry
from tests.support import ROOT

UNIFORM = BinFormat(edges=tuple(np.linspace(-10.5748, 10.5102, 257).tolist()), mode="uniform")
QUANTILE = BinFormat(edges=(-10.0, *np.linspace(-5, 5, 255).tolist(), 10.0), mode="quantile")
GOOD = "[C]144127129;[C]127134129;=[O]115126129;"
BARE = {"CC=O": [GOOD, GOOD.replace(";", "", 1), GOOD.replace("144", "000")], "CCO": ["[C][C]144127129;[O]127134129;"]}


def of_bins(texts: dict[str, list[str]], **metadata: Any) -> dict[str, Any]:
    items = [
        {"prompt_smiles": smiles, "decoded_text": f"[SMILES]{smiles}[/SMILES][CONFORMER]{text}[/CONFORMER]"}
        for smiles, each in texts.items()
        for text in each
    ]
    known = {"logit_processor_enabled": False, "processor_type": None, "version": None}
    return document(**known | metadata) | {"passes": items, "failures": []}


def test_a_run_of_bins_is_read_with_its_bins(tmp_path: Path) -> None:
    entry = imported(tmp_path, of_bins(BARE), bins=UNIFORM)
    assert number_format_of(entry) == UNIFORM
    assert entry.row["notes"].startswith("Numbers of bins, as given: 256 bins of 0.0824 Å")
    store = store_in(tmp_path)
    samples = store.rows("SELECT * FROM samples ORDER BY sample_id")
    assert [row["passed"] for row in samples] == [True] * 4
    assert [row["decodes"] for row in samples] == [True, True, True, False]
    assert [row["clean"] for row in samples] == [True, False, False, False]
    kinds = store.rows("SELECT sample_id, atom, kinds FROM blocks WHERE kinds <> ['exact'] ORDER BY ALL")
    assert [(row["sample_id"], row["atom"], row["kinds"]) for row in kinds] == [
        (1, 0, ["missing_semicolon"]),
        (2, 0, ["tail_bin"]),
        (3, 1, ["two_atoms"]),
    ]
    (first,) = store.rows("SELECT x, y, z, template_free, needed, drift FROM blocks WHERE sample_id = 0 AND block = 0")
    edges = np.array(UNIFORM.edges)
    middles = (edges[:-1] + edges[1:]) / 2
    assert np.allclose([first[axis] for axis in "xyz"], middles[[143, 126, 128]])
    assert (first["template_free"], first["needed"], first["drift"]) == (9, 9, 0)
    inspected = inspect_sample(store, entry.id, 0)
    assert inspected.conformer is not None and inspected.alignment is not None
    assert np.allclose(inspected.conformer.GetConformer().GetPositions()[0], middles[[143, 126, 128]])
    partly = inspect_sample(store, entry.id, 1)
    assert partly.by_group is not None and partly.by_group.mol is not None and "block 0" in partly.why_no_conformer
    assert len(conformers_of(store, entry.id)[0]) == 2 and len(conformers_of(store, entry.id, reader="group")[0]) == 3
    assert texts_of(store, entry, ["CC=O"])["CC=O"][0] == f"[CONFORMER]{as_decimals(GOOD, UNIFORM)}[/CONFORMER]"
    rows = judge_run(store, entry.id).rows
    assert rows[0]["geometry_right"] is not None and rows[1]["geometry_right"] is None
    assert "3 digits" not in rows[1]["failed"][0]["detail"] and "<144127129>" in rows[1]["failed"][0]["detail"]


def test_a_run_of_bins_is_counted_again_with_its_bins(tmp_path: Path) -> None:
    entry = imported(tmp_path, of_bins(BARE), bins=UNIFORM)
    assert recount_run(store_in(tmp_path), entry.id).changed == {}


def test_bins_are_never_guessed(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"4 of its 4 texts are text of bins.*Give --bins FILE\.json"):
        imported(tmp_path, of_bins(BARE))
    old = "[C]<0529,0494,0501>[C]<0499,0514,0501>[O]<0473,0493,0501>"
    with pytest.raises(FileError, match="--bins WIDTH RANGE"):
        imported(tmp_path, of_bins({"CCO": [old]}))
    entry = imported(tmp_path, of_bins({"CCO": [old]}), bins=BinFormat.in_brackets(0.042, 21))
    assert entry.row["clean"] == 1


def test_no_reader_takes_numbers_of_bins_for_angstroms(tmp_path: Path) -> None:
    """A letter in a block of bins in brackets: its 498 is no coordinate, and no distance to one."""
    whole = "[C]<0529,0494,0501>[C]<0499,0514,0501>[O]<0473,0493,0501>"
    damaged = whole.replace("0494", "0494x")
    entry = imported(tmp_path, of_bins({"CCO": [whole, damaged]}), bins=BinFormat.in_brackets(0.042, 21))
    store = store_in(tmp_path)
    assert (entry.row["misread_blocks"], entry.row.get("misread_most_ang")) == (0, None)
    assert recount_run(store, entry.id).changed == {}
    assert misread_of(store, entry)["misread"] == 0
    assert [row["lost_ang"] for row in sample_table(store, [entry.id]).to_pylist()] == [None, None]
    read = inspect_sample(store, entry.id, 1)
    assert read.by_group is not None and read.by_group.mol is None and not read.by_group.misread
    rows = atom_rows(read.alignment, read.molecule.elements, read.blocks, form=number_format(read.run))
    (row,) = (row for row in rows if row.damage)
    assert row.atom == 0 and row.off_ang is None and "no reader takes" in row.words


@pytest.mark.parametrize("bins", [UNIFORM, BinFormat.in_brackets(0.042, 21)], ids=["bare", "in brackets"])
def test_an_imported_file_of_bins_comes_out_as_it_was(bins: BinFormat, tmp_path: Path) -> None:
    texts = BARE if bins.is_bare else {"CCO": ["[C]<0529,0494,0501>[C]<0499,0514,0501>[O]<0473,0493,0501>"]}
    content = of_bins(texts)
    entry = imported(tmp_path, content, bins=bins)
    export_report(entry, tmp_path / "out.json")
    assert (tmp_path / "out.json").read_bytes() == file_of(tmp_path, content).read_bytes()


@pytest.mark.parametrize(
    "form", [BinFormat.in_brackets(0.05, 9), BinFormat(edges=tuple(range(1100))), BinFormat.equal(-1, 1, 0.1)]
)
def test_texts_that_do_not_fit_the_bins_are_refused(form: BinFormat, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="its texts do not fit the bins as given"):
        imported(tmp_path, of_bins(BARE), bins=form)
    with pytest.raises(FileError, match="its texts do not fit the bins as given: no block"):
        imported(tmp_path, document(), bins=UNIFORM)


def test_a_file_is_not_read_with_two_kinds_of_bins(tmp_path: Path) -> None:
    first = imported(tmp_path, of_bins(BARE), bins=UNIFORM)
    assert imported(tmp_path, of_bins(BARE), bins=UNIFORM).id == first.id
    with pytest.raises(FileError, match=f"it is imported as {first.id}, with other bins"):
        imported(tmp_path, of_bins(BARE), bins=QUANTILE)


def test_the_registry_says_which_bins_a_model_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uniform.json").write_text('{"mode": "uniform", "L": -10.5748, "H": 10.5102, "n_bins": 256}')
    lines = 'alias = "m600"\nstep = "1e"\nfolder = "x"\ntokenizer = "qwen3"\nbins = "uniform.json"\n'
    monkeypatch.setenv(USER_VARIABLE, str(write_registry(tmp_path, lines)))
    entry = imported(tmp_path, of_bins(BARE, model_alias="m600", model_step="1e"))
    assert number_format_of(entry) == UNIFORM
    assert "as the registry has them of m600:1e" in entry.row["notes"]


def test_the_documents_example_is_imported(tmp_path: Path) -> None:
    section = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8").split("### Bins")[1]
    bins, report = re.findall(r"```json\n(.*?)```", section, re.DOTALL)[:2]
    form = BinFormat(edges=tuple(json.loads(bins)["edges"]), mode="uniform")
    entry = imported(tmp_path, json.loads(report), bins=form)
    assert entry.row["clean"] == entry.row["samples"] == 1
    (text,) = [row["text"] for row in store_in(tmp_path).rows("SELECT text FROM samples")]
    assert decode(as_decimals(text, form)).coordinates[0] == [-1.0, 0.0, 0.0]
    assert file_of(tmp_path, json.loads(report)).is_file()


def test_the_drift_of_bins_is_said_to_be_none(tmp_path: Path) -> None:
    entry = imported(tmp_path, of_bins(BARE), bins=UNIFORM)
    told = ask(store_in(tmp_path), "drift_histogram", [entry.id])
    assert "numbers of bins, all of one width, so that nothing can drift" in told.answer
    assert {row["drift"] for row in told.tables["main"].to_pylist()} == {"0"}
