"""llama.cpp itself, on small models of random weights. Skipped where it is not installed: `make parity` builds it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: `make parity` builds it")
pytest.importorskip("gguf", reason="gguf is not installed: `make parity` brings it")

from engine.logits.health import health
from engine.logits.ingest import add_file
from engine.logits.parity import compare_logs
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import entry_of_folder
from engine.store.store import Store
from tests.small_models import small_folder
from tools.llama_cpp.converting import write_gguf
from tools.llama_cpp.running import ParityPlan, Writer, compared, molecules_of
from tools.llama_cpp.session import SETTINGS, Session, Weights

EXACT = SETTINGS[0]
IDS = [151_669, 34, 38, 28, 46, 151_671, 151_670, 17, 24, 25, 13, 17]


@pytest.fixture(scope="module", params=["qwen3", "llama3"])
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = tmp_path_factory.mktemp("model")
    small_folder(folder, request.param)
    return load_model(entry_of_folder(folder, request.param), "cpu")


def test_logits_in_single_precision_are_those_of_transformers(small: LoadedModel, tmp_path: Path) -> None:
    write_gguf(small, tmp_path / "small.gguf")
    ids = [id_ % small.tokenizer.vocab_size for id_ in IDS]
    with Weights(tmp_path / "small.gguf") as weights, Session(weights, EXACT, positions=64, threads=1) as session:
        found = np.array(list(session.along(ids[:5], [*ids[5:], 0])))
    with torch.inference_mode():
        expected = small.model(torch.tensor([ids])).logits[0].numpy()[4:]
    assert found.shape == expected.shape == (len(ids) - 4, small.vocab_rows)
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()
    assert (found.argmax(1) == expected.argmax(1)).all()


def test_both_logs_stand_beside_each_other_in_the_store(small: LoadedModel, tmp_path: Path) -> None:
    plan = ParityPlan((EXACT,), values=12, first=small.entry.tokenizer == "qwen3")  # each way once
    molecules = molecules_of(["C", "N"])
    result = compared(small, molecules, plan, tmp_path / "log.jsonl.gz", tmp_path)
    texts = [Writer(small, molecules).text(number) for number in range(2)]
    assert (result.texts, result.tokens) == (2, sum(len(text.answer) for text in texts))
    assert result.agreed["f32"].relative < 1e-4
    assert result.agreed["f32"].mean_divergence < 1e-6
    assert result.written["f32"].texts == 2
    store = Store.open(tmp_path / "store")
    ours, theirs = add_file(store, tmp_path / "log.jsonl.gz")
    parity = compare_logs(store, ours, theirs)
    assert (parity["entries"], parity["only_control"], parity["only_test"]) == (result.tokens, 0, 0)
    assert parity["diverging"] is None
    assert health(store, theirs)["damaged_values"] == 0
