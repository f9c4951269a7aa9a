"""``models add`` and ``models rm``: a checkpoint of one's own, from its folder to a judged run, in a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.inspection.runs import run_facts, run_tokenizer
from engine.models.registry import USER_VARIABLE
from engine.store.store import Store
from tests.cli import run
from tests.tiny_checkpoints import tiny_checkpoint


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    monkeypatch.delenv(USER_VARIABLE, raising=False)


def test_from_a_folder_to_a_judged_run(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "phi", "phi3")
    dry = run("models", "add", str(folder), "--decimals", "1-3", "--dry-run", "--json")
    assert (dry.code, run("models", "phi").code) == (0, 2)
    added = run("models", "add", str(folder), "--decimals", "1-3", "--integer-digits", "1", "--json")
    assert (added.document["alias"], added.document["step"], added.document["backend"]) == ("phi", "final", "hf")
    assert (added.document["decimals"], added.document["problem"]) == ([1, 3], "")
    assert added.document["lps"]["exact"] == "" and "fast runs" in added.document["why_not_fast"]
    (listed,) = run("models", "phi", "--json").document
    assert listed == {name: value for name, value in added.document.items() if name not in ("lps", "found")}
    assert listed in run("models", "--json").document
    runs = run("run", "CC=O", "CCO", "--model", "phi", "--lp", "exact", "--judge", "--json")
    (row,) = runs.document
    assert (row["backend"], row["samples"], row["clean"], row["judged"]) == ("hf", 2, 2, 2)
    assert "written by the backend hf: fast runs" in row["notes"]
    assert row["tokenizer"] == "phi", "a run that is shared tells no path of this machine"
    (sheet,) = (tmp_path / "store" / "runs").glob("*/run.json")
    assert str(tmp_path) not in sheet.read_text()
    tokenizer, why = run_tokenizer(run_facts(Store.open(), row["run_id"]))
    assert (why, tokenizer and tokenizer.name) == ("", "phi")
    refused = run("generate", "CC=O", "--model", "phi", "--backend", "fast")
    assert "the backend fast cannot run phi:final: fast runs" in refused.error
    assert run("models", "rm", "phi", "--json").document == {"alias": "phi", "step": "final"}
    assert "there is no model 'phi'" in run("models", "phi").error
    assert folder.is_dir()


def test_a_model_of_bins_is_listed_by_them_and_one_that_lost_their_file_can_be_taken_out(tmp_path: Path) -> None:
    folder, bins = tiny_checkpoint(tmp_path / "phi", "phi3"), tmp_path / "my bins.json"
    bins.write_text('{"mode": "uniform", "L": -10.5, "H": 10.5, "n_bins": 256}')
    added = run("models", "add", str(folder), "--bins", str(bins), "--json").document
    assert (added["numbers"], added["decimals"], added["integer_digits"]) == (
        "256 bins of 0.082 Å from -10.5 to 10.5 Å",
        None,
        None,
    )
    by_decimals = run("models", "add", str(folder), "--alias", "plain", "--decimals", "0-4", "--json").document
    assert (by_decimals["numbers"], by_decimals["decimals"]) == ("0 to 4 decimals", [0, 4])
    assert "256 bins of 0.082 Å" in run("models", "phi").out
    bins.unlink()
    listed = {row["alias"]: row for row in run("models", "--json").document}
    assert "my bins.json' cannot be read" in listed["phi"]["problem"] and listed["phi"]["numbers"] is None
    assert listed["plain"]["problem"] == "" and "demo-qwen" in listed
    assert (run("models").code, run("models", "phi").code) == (0, 2)
    refused = run("generate", "C", "--model", "phi")
    assert refused.code == 2 and "\n" not in refused.error and "or `models rm phi:final`" in refused.error
    again = run("models", "add", str(folder), "--alias", "more", "--decimals", "0-4", "--json")
    assert (again.code, again.document["alias"]) == (0, "more")
    assert run("models", "rm", "phi", "--json").document == {"alias": "phi", "step": "final"}
    assert {row["alias"] for row in run("models", "--json").document} >= {"plain", "more"}


def test_what_cannot_be_added_is_one_line(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "phi", "phi3")
    (tmp_path / "sample.txt").write_text("nothing of the kind\n")
    for argv, reason in (
        ([str(tmp_path / "gone")], "there is no folder"),
        ([str(tmp_path)], "has no config.json"),
        ([str(folder), "--decimals", "many"], "'many' is not the least and the most decimals"),
        ([str(folder), "--tags", "a,b"], "is not what stands for"),
        ([str(folder), "--sample", str(tmp_path / "sample.txt")], "no text with coordinates"),
        ([str(folder), "--tokenizer", "llama3"], "do not fit together"),
    ):
        assert reason in run("models", "add", *argv).error
    assert "no model 'phi' of your own" in run("models", "rm", "phi").error
