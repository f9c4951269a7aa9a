"""``models add`` and ``models rm``: a checkpoint of one's own, from its folder to a judged run, in a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.models.registry import USER_VARIABLE
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
    refused = run("generate", "CC=O", "--model", "phi", "--backend", "fast")
    assert "the backend fast cannot run phi:final: fast runs" in refused.error
    assert run("models", "rm", "phi", "--json").document == {"alias": "phi", "step": "final"}
    assert "there is no model 'phi'" in run("models", "phi").error
    assert folder.is_dir()


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
