"""llama.cpp itself, on small models of random weights. Skipped where it is not installed: `make parity` builds it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: `make parity` builds it")
pytest.importorskip("gguf", reason="gguf is not installed: `make parity` brings it")

from engine.models.loading import LoadedModel, load_model
from engine.models.registry import entry_of_folder
from tests.small_models import small_folder
from tools.llama_cpp.converting import write_gguf
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
        logits = np.array(list(session.along(ids[:5], [*ids[5:], 0])))
    with torch.inference_mode():
        expected = small.model(torch.tensor([ids])).logits[0].numpy()[4:]
    assert logits.shape == expected.shape == (len(ids) - 4, small.vocab_rows)
    assert np.abs(logits - expected).max() < 1e-5 * np.abs(expected).max()
    assert (logits.argmax(1) == expected.argmax(1)).all()
