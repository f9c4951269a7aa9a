"""The list of models: what it says of each, the broken ones among them, and that it needs no torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from engine.models import loading
from engine.models.loading import load_model, sized, summarise
from engine.models.registry import USER_VARIABLE, load_registry
from engine.models.shipped import WEIGHTS
from tests.small_models import registered, small_folder, small_shipped, write_registry
from tests.support import ROOT

FOLDER = 'alias = "mine"\nstep = "1"\nfolder = "mine"\ntokenizer = "qwen3"\n'


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return small_folder(tmp_path / "mine")


def test_an_embedded_model_before_and_after_it_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = load_registry([registered(tmp_path, small_shipped())]).find("small")
    monkeypatch.setattr(loading, "expanded_folder", lambda entry: tmp_path / "expanded")
    found = summarise(entry)
    assert (found["family"], found["vocab_size"], found["expanded"], found["problem"]) == ("Qwen", 151_936, False, "")
    assert found["fits"][0] == "cpu"
    assert found["parameters"] == load_model(entry, "cpu").parameters
    assert summarise(entry)["expanded"]


def test_a_checkpoint_of_ones_own(tmp_path: Path, mine: Path) -> None:
    found = summarise(load_registry([write_registry(tmp_path, FOLDER)]).find("mine"))
    assert (found["family"], found["vocab_size"], found["problem"]) == ("Qwen", 151_936, "")
    assert found["size_mb"] == round((mine / WEIGHTS).stat().st_size / 1e6, 2)
    assert found["place"] == str(mine)


def test_what_does_not_fit_is_the_entrys_problem(tmp_path: Path, mine: Path) -> None:
    entry = load_registry([write_registry(tmp_path, FOLDER)]).find("mine")
    assert "do not fit together" in summarise(replace(entry, tokenizer="llama3"))["problem"]
    (mine / WEIGHTS).write_bytes(b"")
    assert "missing or damaged" in summarise(entry)["problem"]
    assert "no such folder" in summarise(replace(entry, folder=tmp_path / "nowhere"))["problem"]


def test_a_shipped_file_that_changed(tmp_path: Path) -> None:
    entry = load_registry([registered(tmp_path, small_shipped())]).find("small")
    assert entry.shipped is not None
    content = entry.shipped.read_bytes()
    entry.shipped.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert "the registry says" in summarise(entry)["problem"]


def test_an_ordinary_file_under_shipped(tmp_path: Path, mine: Path) -> None:
    entry = load_registry([registered(tmp_path, small_shipped())]).find("small")
    other = mine / WEIGHTS
    found = summarise(replace(entry, shipped=other, sha256=sha256(other.read_bytes()).hexdigest()))
    assert "Register your own checkpoint as `folder`" in found["problem"]


def test_a_size_is_that_of_the_layers_matrices(tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USER_VARIABLE, str(write_registry(tmp_path, FOLDER)))
    weights = AutoModelForCausalLM.from_pretrained(str(mine)).model.layers.named_parameters()
    count = sum(weight.numel() for _, weight in weights if weight.ndim == 2)
    assert sized("mine:1") == f"mine:1 ({count / 1e6:,.1f} M weights in the layers)"
    assert sized("demo-qwen:final") == "demo-qwen:final (2.4 M weights in the layers)"
    (mine / WEIGHTS).write_bytes(b"")
    assert (sized("mine:1"), sized("nobody:1")) == ("mine:1", "nobody:1")


def test_a_model_with_no_room_fits_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "free_memory", lambda device: 1000)
    assert summarise(load_registry([registered(tmp_path, small_shipped())]).find("small"))["fits"] == []


def test_listing_needs_neither_torch_nor_transformers(tmp_path: Path) -> None:
    path = registered(tmp_path, small_shipped())
    script = (
        "import sys; from pathlib import Path\n"
        "from engine.models.registry import load_registry\nfrom engine.models.loading import summarise\n"
        f"found = [summarise(entry) for entry in load_registry([Path({str(path)!r})]).entries]\n"
        "assert not found[0]['problem'], found\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
