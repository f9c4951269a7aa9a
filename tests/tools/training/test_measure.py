"""The tool that measures a registered model: its card, its arguments, a user's own checkpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.models.registry import USER_VARIABLE
from engine.text.tokenizers import load_tokenizer
from tests.small_models import registered, small_folder, small_shipped, write_registry
from tests.tools.training.quality_source import SMILES, ReferenceWriter, write_log
from tools.training import measure, quality

ABOUT = {
    "alias": "demo-qwen",
    "tokens": 2_000_000,
    "texts": 10,
    "steps": 3,
    "spent_s": 90.0,
    "hardware": ["CPU (x), bf16"],
}


@pytest.fixture(autouse=True)
def writer(monkeypatch: pytest.MonkeyPatch) -> ReferenceWriter:
    """In place of each model: what is measured is held by test_quality."""
    made = ReferenceWriter(load_tokenizer("qwen3"))
    monkeypatch.setattr(quality, "load_model", lambda folder: made)
    monkeypatch.setattr(measure, "load_run_set", lambda _: list(SMILES))
    monkeypatch.setattr(measure, "model_folder", lambda entry: Path("anywhere"))
    return made


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = registered(tmp_path, replace(small_shipped(), about=ABOUT))
    monkeypatch.setenv(USER_VARIABLE, str(path))
    return path


def test_a_card_is_written_beside_the_weights(registry: Path, tmp_path: Path, writer: ReferenceWriter) -> None:
    log = write_log(tmp_path / "log.jsonl")
    words = [
        "--model",
        "small",
        "--log",
        str(log),
        "--trained-by",
        "python -m tools.training.train --texts 10",
        "--batch",
        "4",
    ]
    assert measure.main(words) == 0
    document = json.loads((tmp_path / "small-final.json").read_text())
    assert document["quality"]["sizes"]["all"]["same_graph"] == len(SMILES)
    assert document["quality"]["unseen"] is not None
    facts = document["facts"]
    assert (facts["alias"], facts["texts"], facts["minutes"]) == ("small", 10, 1.5)
    assert facts["command"] == "python -m tools.training.train --texts 10"
    assert facts["measured_by"] == "python -m tools.training.measure --model small:final"
    assert max(call["rows"] for call in writer.asked) == 4
    assert "# small:final" in (tmp_path / "small-final.md").read_text()


def test_some_molecules_alone_write_no_card(
    registry: Path, tmp_path: Path, writer: ReferenceWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure.main(["--model", "small", "--molecules", "2"]) == 0
    assert sum(call["rows"] for call in writer.asked) == 2
    assert not (tmp_path / "small-final.md").exists()


def test_a_users_own_checkpoint_is_measured_without_a_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: ReferenceWriter
) -> None:
    lines = 'alias = "mine"\nstep = "1"\nfolder = "mine"\ntokenizer = "qwen3"\n'
    monkeypatch.setenv(USER_VARIABLE, str(write_registry(tmp_path, lines)))
    small_folder(tmp_path / "mine")
    before = sorted(tmp_path.rglob("*"))
    assert measure.main(["--model", "mine"]) == 0
    assert sum(call["rows"] for call in writer.asked) == len(SMILES)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_card_without_its_training_is_refused(registry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert measure.main(["--model", "small"]) == 2
    assert "log.jsonl or --trained-by is missing. Give both, or --molecules N" in capsys.readouterr().err


def test_a_model_that_is_not_there(registry: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert measure.main(["--model", "nobody"]) == 2
    assert "there is no model 'nobody'" in capsys.readouterr().err
