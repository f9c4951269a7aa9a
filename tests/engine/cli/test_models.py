"""``models`` on a terminal and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.models.registry import USER_VARIABLE
from tests.cli import keys, run, run_json
from tests.small_models import registered, small_folder, small_shipped, write_registry

FOLDER = 'alias = "mine"\nstep = "1"\nfolder = "mine"\ntokenizer = "qwen3"\n'
NOWHERE = 'alias = "gone"\nstep = "1"\nfolder = "gone"\ntokenizer = "qwen3"\n'


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = registered(tmp_path, small_shipped(), extra='notes = "made on the spot"\n')
    monkeypatch.setenv(USER_VARIABLE, str(path))
    return path


def test_every_model_is_listed(mine: Path) -> None:
    *embedded, own = run_json("models")
    assert keys(own, ["alias", "step", "family", "tokenizer", "vocab_size", "parameters", "card", "fits", "problem"])
    assert (own["alias"], own["step"], own["family"], own["vocab_size"]) == ("small", "final", "Qwen", 151_936)
    assert own["source"] == str(mine)
    assert all(model["embedded"] and not model["problem"] for model in embedded)


def test_a_broken_model_is_named_among_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USER_VARIABLE, str(write_registry(tmp_path, NOWHERE)))
    result = run("models")
    assert result.code == 0
    assert "\ngone " in result.out
    assert result.err.startswith("gone:1 should be in")
    assert run("models", "gone").code == 2


def test_misfits_and_warnings_come_before_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USER_VARIABLE, str(write_registry(tmp_path, FOLDER)))
    config = small_folder(tmp_path / "mine") / "config.json"
    document = json.loads(config.read_text())
    config.write_text(json.dumps(document | {"hidden_act": "gelu"}))
    result = run("models", "mine")
    warning = "mine:1 has the activation 'gelu': only the backend hf runs it"
    assert (result.code, result.err) == (0, f"warning: {warning}\n")
    assert json.loads(run("models", "mine", "--json").out)[0]["warnings"] == [warning]
    config.write_text(json.dumps(document | {"intermediate_size": 64}))
    result = run("models", "mine")
    assert result.code == 2
    assert "down_proj.weight' with the shape [32, 48], config.json says [32, 64] (3 tensors do not fit)" in result.err


def test_a_registry_cannot_move_a_terminal_s_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = r"""notes = "a\u001b[2J\u202eb\nfake:1"
card = "\u001b[2J/c"
"""
    text = NOWHERE.replace("qwen3", r"./\u001b[2J") + told
    monkeypatch.setenv(USER_VARIABLE, str(write_registry(tmp_path, text)))
    result = run("models", "gone")
    assert all(line.isprintable() for line in result.out.splitlines())
    assert r"a\x1b[2J\u202eb\nfake:1" in result.out


def test_wrong_names_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no model 'nobody'" in run("models", "nobody").error
    monkeypatch.setenv(USER_VARIABLE, str(tmp_path / "none.toml"))
    assert "Correct it, or DRIFTSCOPE_MODELS" in run("models").error
    monkeypatch.delenv(USER_VARIABLE)
    monkeypatch.setenv("DRIFTSCOPE_CACHE", "~no-such-user/x")
    assert "DRIFTSCOPE_CACHE: the home folder of '~no-such-user/x' is not known" in run("models").err
