"""The table of tensors against ``transformers`` itself, and each way in which a config and weights do not fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from engine.errors import DriftscopeError
from engine.models.fit import check_weights, read_config
from engine.models.headers import Header, TensorInfo
from engine.models.layout import HEAD, ROWS
from engine.models.tensor_table import expected_tensors

SIZES = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "intermediate_size": 36,
    "tie_word_embeddings": True,
}
KINDS: dict[str, Any] = {"qwen3": (Qwen3Config, Qwen3ForCausalLM), "llama": (LlamaConfig, LlamaForCausalLM)}


def tensors(family: str, document: Mapping[str, object], *, is_own_head: bool = False) -> dict[str, TensorInfo]:
    """What ``transformers`` saves for this config."""
    config, model = KINDS[family]
    with torch.device("meta"):
        made = model(config(**document))
    is_tied = made.config.tie_word_embeddings and not is_own_head
    return {
        name: TensorInfo("F32", tuple(value.shape))
        for name, value in made.state_dict().items()
        if not (is_tied and name == HEAD)
    }


def complaint(folder: Path, family: str, found: dict[str, TensorInfo], document: Mapping[str, object]) -> str:
    """The error of such a checkpoint, else its warnings."""
    (folder / "config.json").write_text(json.dumps({"model_type": family, **document}))
    try:
        return "; ".join(check_weights(read_config(folder), Header(found, {}, 0), "mine:1"))
    except DriftscopeError as error:
        return str(error)


@pytest.mark.parametrize("family", KINDS)
def test_the_table_is_what_transformers_makes(tmp_path: Path, family: str) -> None:
    for is_tied, attention_bias, mlp_bias in product([False, True], repeat=3):
        more = {"tie_word_embeddings": is_tied, "attention_bias": attention_bias, "mlp_bias": mlp_bias}
        document = SIZES | more
        found = tensors(family, document)
        assert complaint(tmp_path, family, found, document) == ""
        rules = dict(expected_tensors(read_config(tmp_path).sizes))
        assert {name: rule.shape for name, rule in rules.items() if rule.is_needed or name == ROWS} == {
            name: tensor.shape for name, tensor in found.items()
        }


@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize("missing", [["head_dim"], ["num_key_value_heads"], ["num_key_value_heads", "head_dim"]])
def test_sizes_that_the_config_leaves_out(tmp_path: Path, family: str, missing: list[str]) -> None:
    document = SIZES | {"num_attention_heads": 32, "hidden_size": 64}
    document = {name: value for name, value in document.items() if name not in missing}
    assert complaint(tmp_path, family, tensors(family, document), document) == ""


CHANGES: list[tuple[dict[str, object], str]] = [
    ({"head_dim": 12}, "q_proj.weight with the shape [40, 24], config.json says [48, 24] (num_attention_heads * head"),
    ({"num_key_value_heads": 4}, "k_proj.weight with the shape [20, 24], config.json says [40, 24] (num_key_value_"),
    ({"intermediate_size": 40}, "gate_proj.weight with the shape [36, 24], config.json says [40, 24] (intermediate"),
    ({"vocab_size": 41}, "embed_tokens.weight with the shape [40, 24], config.json says [41, 24] (vocab_size"),
    ({"num_hidden_layers": 3}, "mine:1 has weights of 2 layers, config.json says num_hidden_layers 3"),
    ({"num_hidden_layers": 1}, "mine:1 has weights of 2 layers, config.json says num_hidden_layers 1"),
    ({"num_hidden_layers": 10**12}, "has weights of 2 layers"),
    ({"tie_word_embeddings": False}, "mine:1 has no tensor lm_head.weight, config.json says tie_word_embeddings false"),
    ({"attention_bias": True}, "self_attn.q_proj.bias, config.json says attention_bias true (8 tensors do not fit)"),
    ({"layer_types": ["full_attention"]}, "layer_types has 1 entries, num_hidden_layers is 2"),
    ({"layer_types": "full_attention"}, "layer_types is no list of entries"),
    ({"layer_types": ["full_attention", "odd"]}, "layer_types names 'odd'. Known are full_attention, sliding"),
    ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention without a sliding_window"),
    ({"num_key_value_heads": 3}, "num_attention_heads 4, which is no multiple of 3"),
    ({"head_dim": 5}, "head_dim 5, which is no multiple of 2"),
    ({"num_hidden_layers": "2"}, "lacks a number for 'num_hidden_layers'"),
    ({"num_attention_heads": 0}, "lacks a number for 'num_attention_heads'"),
    ({"head_dim": True}, "lacks a number for 'head_dim'"),
    ({"model_type": []}, "has the model type '[]'. Known are qwen3, llama"),
]


@pytest.mark.parametrize(("changes", "message"), CHANGES, ids=str)
def test_a_config_of_other_weights(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    assert message in complaint(tmp_path, "qwen3", tensors("qwen3", SIZES), SIZES | changes)


def test_heads_that_do_not_divide_the_width_of_a_llama(tmp_path: Path) -> None:
    changed = SIZES | {"num_attention_heads": 5, "num_key_value_heads": 1}
    assert "hidden_size 24, which is no multiple of 5" in complaint(tmp_path, "llama", {}, changed)


def test_tensors_too_many_too_few_and_of_another_type(tmp_path: Path) -> None:
    found = tensors("llama", SIZES)
    key = "model.layers.1.self_attn.k_proj.weight"
    few = {name: tensor for name, tensor in found.items() if name != key}
    assert f"mine:1 has no tensor {key}. Use" in complaint(tmp_path, "llama", few, SIZES)
    extra = "model.layers.1.self_attn.q_norm.weight"
    many = found | {extra: TensorInfo("F32", (10,)), "odd": TensorInfo("F32", (1,))}
    message = f"has weights that the architecture does not know: '{extra}' (2 tensors do not fit)"
    assert message in complaint(tmp_path, "llama", many, SIZES)
    biased = tensors("llama", SIZES | {"mlp_bias": True})
    assert "gate_proj.bias, config.json says mlp_bias false" in complaint(tmp_path, "llama", biased, SIZES)
    packed = found | {key: TensorInfo("F8_E4M3", found[key].shape)}
    assert f"has '{key}' as F8_E4M3: quantized weights are not loaded" in complaint(tmp_path, "llama", packed, SIZES)
    old = found | {"model.layers.0.self_attn.rotary_emb.inv_freq": TensorInfo("F32", (5,))}
    assert complaint(tmp_path, "llama", old, SIZES) == ""


def test_layers_of_a_tensor_each_are_counted_before_a_table_of_all_is_made(tmp_path: Path) -> None:
    names = {f"model.layers.{layer}.input_layernorm.weight": TensorInfo("F32", (24,)) for layer in range(1_000)}
    changed = SIZES | {"num_hidden_layers": 1_000}
    assert "has 1,000 tensors for 1,000 layers" in complaint(tmp_path, "llama", names, changed)


def test_an_own_head_beside_a_tied_flag_is_a_warning(tmp_path: Path) -> None:
    both = tensors("qwen3", SIZES, is_own_head=True)
    message = "config.json says tie_word_embeddings true, but the weights have their own lm_head.weight, which is used"
    assert message in complaint(tmp_path, "qwen3", both, SIZES)
    assert "lm_head.weight with the shape [4]" in complaint(
        tmp_path, "qwen3", both | {HEAD: TensorInfo("F32", (4,))}, SIZES
    )
    del both[ROWS]  # the one matrix of a tied pair, saved under its other name
    assert complaint(tmp_path, "qwen3", both, SIZES) == ""
    message = f"has no tensor {ROWS}, config.json says tie_word_embeddings false"
    assert message in complaint(tmp_path, "qwen3", both, SIZES | {"tie_word_embeddings": False})
    del both[HEAD]
    assert f"has neither {ROWS} nor {HEAD}. Use" in complaint(tmp_path, "qwen3", both, SIZES)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}, "sliding_attention"),
        ({"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2}, ""),
        ({"use_sliding_window": True, "layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
        ({"sliding_window": 8, "max_window_layers": 1}, ""),
        ({"rope_scaling": {"type": "longrope"}}, "longrope"),
        ({"rope_parameters": {"rope_type": "yarn"}}, ""),
        ({"hidden_act": "gelu"}, "the activation 'gelu'"),
    ],
)
def test_what_the_fast_backend_does_not_compute_is_a_warning(
    tmp_path: Path, changes: dict[str, object], what: str
) -> None:
    message = f"mine:1 has {what}: only the backend hf runs it" if what else ""
    assert complaint(tmp_path, "qwen3", tensors("qwen3", SIZES), SIZES | changes) == message
