"""Our models under llama.cpp's names, and what is added up about two engines: all of it without llama.cpp."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from engine.decode.log_recorder import names_of_line
from engine.logits.entries import read_line
from tools.llama_cpp.converting import rope_of, tensors, turned_in_pairs
from tools.llama_cpp.figures import LogitAgreement, divergences
from tools.llama_cpp.running import line
from tools.training.shapes import ModelShape

QWEN, LLAMA = ModelShape("qwen3", 64, 2, 4, 2, 96), ModelShape("llama", 64, 2, 4, 2, 96)
ROWS = 40
NORMS = {"attn_norm", "ffn_norm"}
WEIGHTS = {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}


def model_of(shape: ModelShape) -> Any:
    torch.manual_seed(0)
    return shape.model(shape.config(ROWS, end=0))


@pytest.mark.parametrize(("shape", "more"), [(QWEN, {"attn_q_norm", "attn_k_norm"}), (LLAMA, set())])
def test_every_weight_has_its_name_and_tied_rows_come_once(shape: ModelShape, more: set[str]) -> None:
    model = model_of(shape)
    weights = dict(tensors(model.config, model.state_dict(), "small"))
    in_layers = {f"blk.{layer}.{norm}.weight" for layer in range(2) for norm in NORMS | WEIGHTS | more}
    assert set(weights) == {"token_embd.weight", "output_norm.weight"} | in_layers
    assert {values.dtype for values in weights.values()} == {np.dtype(np.float32)}
    assert np.array_equal(weights["token_embd.weight"], model.state_dict()["model.embed_tokens.weight"].numpy())
    model.config.tie_word_embeddings = False
    assert "output.weight" in dict(tensors(model.config, model.state_dict(), "small"))


def turned(values: np.ndarray, position: int, *, in_pairs: bool) -> np.ndarray:
    """A head's values [W] at a position: rows i and i + W/2 together, or rows 2i and 2i + 1."""
    half = len(values) // 2
    angle = position * 10_000.0 ** (-np.arange(half) / half)
    first, second = (values[0::2], values[1::2]) if in_pairs else (values[:half], values[half:])
    real, imag = first * np.cos(angle) - second * np.sin(angle), first * np.sin(angle) + second * np.cos(angle)
    return np.stack([real, imag], axis=1).ravel() if in_pairs else np.concatenate([real, imag])


def test_scores_are_the_same_under_either_rope() -> None:
    rng = np.random.default_rng(0)
    query, key, text = (rng.normal(size=size).astype(np.float32) for size in ((2 * 16, 24), (2 * 16, 24), (2, 24)))
    for head in range(2):
        rows = slice(16 * head, 16 * head + 16)
        scores = [
            turned(q[rows] @ text[0], 7, in_pairs=in_pairs) @ turned(k[rows] @ text[1], 3, in_pairs=in_pairs)
            for q, k, in_pairs in (
                (query, key, False),
                (turned_in_pairs(query, 2), turned_in_pairs(key, 2), True),
                (query, key, True),
            )
        ]
        assert scores[1] == pytest.approx(scores[0], rel=1e-5)
        assert scores[2] != pytest.approx(scores[0], rel=1e-2)


def test_llama3_scaling_is_that_of_transformers() -> None:
    config = LLAMA.config(ROWS, end=0)
    config.head_dim = 64
    config.rope_parameters = {
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    plain = 500_000.0 ** (-np.arange(0, 64, 2) / 64)
    factors = np.array(rope_of(config, "small").factors)
    assert factors == pytest.approx(plain / scaled.numpy(), rel=1e-5)
    assert factors.min() == 1 and factors.max() == pytest.approx(32)
    assert dict(tensors(config, {}, "small"))["rope_freqs.weight"] == pytest.approx(factors)


RNG = np.random.default_rng(0)


def test_divergence_is_that_of_torch() -> None:
    control, test = RNG.normal(0, 5, (2, 7, 300))
    own = torch.nn.functional.kl_div(
        torch.tensor(test).log_softmax(1), torch.tensor(control).log_softmax(1), log_target=True, reduction="none"
    )
    assert divergences(control, test) == pytest.approx(own.sum(1).numpy(), rel=1e-9)
    assert divergences(control, control + 3).tolist() == pytest.approx([0.0] * 7, abs=1e-12)


def test_sums_do_not_depend_on_how_rows_come() -> None:
    control = RNG.normal(0, 5, (70, 50)).astype(np.float32)
    test = control + RNG.normal(0, 0.5, control.shape).astype(np.float32)
    whole, parts = LogitAgreement(), LogitAgreement()
    whole.add(control, test)
    for part in (slice(0, 1), slice(1, 40), slice(40, 70)):
        parts.add(control[part], test[part])
    difference = np.abs(test.astype(np.float64) - control.astype(np.float64))
    for total in (whole, parts):
        assert (total.tokens, total.values, total.largest) == (70, 3_500, difference.max())
        assert total.mean == pytest.approx(difference.mean())
        assert total.relative == pytest.approx(np.linalg.norm(difference) / np.linalg.norm(control.astype(np.float64)))
        assert total.top_1 == (control.argmax(1) == test.argmax(1)).mean()
    assert parts.mean_divergence == pytest.approx(whole.mean_divergence)
    assert 0 < whole.mean_divergence < whole.most_divergence


def test_a_line_is_an_entry_of_any_log_and_keeps_its_numbers() -> None:
    values = np.array([1.1, -46_580.1, 3.09434727e-41, 1.8e35, np.nan, -np.inf], dtype=np.float32)
    text = line(names_of_line("llama.cpp", "demo:final", "q4_0", 151_936), 7, "CC=O", values, [0, 1, 2, 3, 4, 9], 24)
    said = read_line(text.encode())
    assert (said.engine, said.model, said.precision) == ("llama.cpp", "demo:final", "q4_0")
    assert (said.checkpoint, said.token_idx, said.source, said.ids) == ("logits", 7, "CC=O", [0, 1, 2, 3, 4, 9])
    assert np.array_equal(np.array(said.values, dtype=np.float32), values, equal_nan=True)
    assert json.loads(text)["shape"] == "[151936]"
