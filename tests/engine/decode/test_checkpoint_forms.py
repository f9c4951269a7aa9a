"""Checkpoints in the forms in which people have them: each loads, and ``fast`` writes what ``hf`` writes."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from engine.chem.smiles import parse_smiles
from engine.decode.body import Body
from engine.decode.generation import Generation
from engine.decode.plan import BACKENDS, Plan, preset
from engine.errors import ModelError
from engine.models.loading import load_model, summarise
from engine.models.registry import entry_of_folder
from engine.models.shipped import HEAD, ROWS, VOCAB_ROWS, WEIGHTS
from engine.text.tokenizers import load_tokenizer

TOKENIZERS = {"qwen3": "qwen3", "llama": "llama3"}
KINDS: dict[str, Any] = {"qwen3": (Qwen3Config, Qwen3ForCausalLM), "llama": (LlamaConfig, LlamaForCausalLM)}
MOLECULES = [parse_smiles(smiles) for smiles in ("CC=O", "C[NH3+]")]
BASE = {"rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 64}
DYNAMIC = {"rope_theta": 100.0, "factor": 4.0, "rope_type": "dynamic"}
LLAMA3 = {**BASE, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "sharded, bf16": ("qwen3", {"num_hidden_layers": 2, "dtype": "bfloat16"}),
    "untied, llama3 rope": ("llama", {"tie_word_embeddings": False, "rope_parameters": LLAMA3}),
    "biased, yarn rope": ("qwen3", {"attention_bias": True, "rope_parameters": {**BASE, "rope_type": "yarn"}}),
    "biased, dynamic rope": ("llama", {"attention_bias": True, "mlp_bias": True, "rope_parameters": DYNAMIC}),
    "own head beside a tied flag": ("qwen3", {"tie_word_embeddings": False}),
    "tied, saved as the head": ("llama", {}),
}


def made(family: str, **changes: Any) -> Any:
    """Norms away from one, biases away from nothing, heads wider than their share of the width."""
    end = load_tokenizer(TOKENIZERS[family]).end_id
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    widths = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 1, "max_position_embeddings": 256}
    ids = {"bos_token_id": None, "eos_token_id": end, "pad_token_id": end}
    vocabulary = {"vocab_size": VOCAB_ROWS[TOKENIZERS[family]], "tie_word_embeddings": True}
    given = {**heads, **widths, **ids, **vocabulary, **changes}
    config, model = KINDS[family]
    torch.manual_seed(0)
    built = model(config(**given)).eval()
    for weight in built.parameters():
        torch.nn.init.normal_(weight, 0.3 if weight.ndim == 1 else 0.0, 0.3)
    return built.to(getattr(torch, changes.get("dtype", "float32")))


@pytest.mark.parametrize("form", FORMS)
def test_fast_writes_what_hf_writes(tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture) -> None:
    family, changes = FORMS[form]
    model, is_flagged = made(family, **changes), form.startswith("own head")
    model.config.tie_word_embeddings |= is_flagged
    model.save_pretrained(tmp_path, **({"max_shard_size": "4KB"} if form.startswith("sharded") else {}))
    if form == "tied, saved as the head":
        weights = load_file(tmp_path / WEIGHTS)
        save_file({HEAD if name == ROWS else name: value for name, value in weights.items()}, tmp_path / WEIGHTS)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == (form.startswith("sharded"))
    entry = entry_of_folder(tmp_path, TOKENIZERS[family])
    summary = summarise(entry)
    assert (summary["problem"], bool(summary["warnings"])) == ("", is_flagged)
    with caplog.at_level(logging.WARNING, "engine"):
        loaded = load_model(entry, "cpu")
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("engine")]
    assert messages == summary["warnings"]
    assert loaded.dtype == torch.float32
    weights = loaded.model.state_dict()
    assert all(torch.equal(value.float(), weights[name]) for name, value in model.state_dict().items())
    assert torch.equal(weights[ROWS], weights[HEAD]) == loaded.model.config.tie_word_embeddings
    plan = Plan("group-v2.1", sampling=preset("qwen3"), batch_size=2, limit=40)
    fast, hf = (Generation(loaded, MOLECULES, replace(plan, backend=backend)).run() for backend in BACKENDS)
    assert [sample.token_ids for sample in fast] == [sample.token_ids for sample in hf]
    assert len({sample.token_ids for sample in fast}) == len(MOLECULES)


LONGROPE = {**BASE, "rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}


@pytest.mark.parametrize(
    ("family", "changes", "complaint"),
    [
        ("llama", {"rope_parameters": LONGROPE}, "longrope"),
        ("llama", {"hidden_act": "gelu"}, "activation is 'gelu'"),
        ("qwen3", {"layer_types": ["sliding_attention"]}, "sliding window"),
    ],
)
def test_what_the_fast_backend_would_compute_wrongly_is_refused(
    family: str, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ModelError, match=f"{complaint}.*Use the backend hf"):
        Body(made(family, vocab_size=50, eos_token_id=0, pad_token_id=0, **changes), 64)
