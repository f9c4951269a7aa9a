"""A model of ours as a GGUF file in single precision: names, order of rows, and what llama.cpp has to be told.

Token ids stay what they are: unless asked, the file holds no vocabulary (tokenizer ``none``), only its size. What is
planned here is plain arrays and numbers; only ``write_gguf`` needs the package ``gguf``. Known are the architectures
``qwen3`` and ``llama`` as transformers has them, with tied or own output rows. Coarser precisions llama.cpp makes by
itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.errors import ModelError, shown
from engine.models.loading import LoadedModel
from tools.llama_cpp import package

Floats = NDArray[np.float32]
Facts = Mapping[str, str | int | float]

ALL_F32 = 0
"""llama.cpp's number of a file with all tensors in single precision."""
NO_VOCABULARY = "none"
FAMILIES = ("qwen3", "llama")
OUTPUT = "lm_head.weight"
TOP = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    OUTPUT: "output.weight",
}
LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
IN_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")


@dataclass(frozen=True, slots=True)
class Rope:
    """How positions turn queries and keys. ``factors`` [half a head] divide its frequencies."""

    theta: float
    linear: float | None = None
    factors: tuple[float, ...] = ()


def write_gguf(
    loaded: LoadedModel, path: Path, write_vocabulary: Callable[[LoadedModel, Any], None] | None = None
) -> None:
    """The whole model; what is there already is written over. ``write_vocabulary`` gets the package's writer, in place
    of what says that the file holds none."""
    config = loaded.model.config
    writer = package("gguf").GGUFWriter(str(path), str(config.model_type))
    for key, value in facts(config, loaded.entry.name).items():
        if write_vocabulary is not None and (key.startswith("tokenizer.") or key.endswith(".vocab_size")):
            continue
        add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}[type(value)]
        add(key, value)
    if write_vocabulary is not None:
        write_vocabulary(loaded, writer)
    for name, values in tensors(config, loaded.model.state_dict(), loaded.entry.name):
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def facts(config: Any, name: str) -> Facts:
    """The file's keys, without the architecture's own, which the writer adds."""
    family = _family(config, name)
    rope, head = rope_of(config, name), head_width(config)
    fields: dict[str, str | int | float] = {
        "general.name": name,
        "general.file_type": ALL_F32,
        "tokenizer.ggml.model": NO_VOCABULARY,
        f"{family}.vocab_size": int(config.vocab_size),
        f"{family}.context_length": int(config.max_position_embeddings),
        f"{family}.embedding_length": int(config.hidden_size),
        f"{family}.block_count": int(config.num_hidden_layers),
        f"{family}.feed_forward_length": int(config.intermediate_size),
        f"{family}.attention.head_count": int(config.num_attention_heads),
        f"{family}.attention.head_count_kv": int(config.num_key_value_heads),
        f"{family}.attention.key_length": head,
        f"{family}.attention.value_length": head,
        f"{family}.attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        f"{family}.rope.dimension_count": head,
        f"{family}.rope.freq_base": rope.theta,
    }
    if rope.linear is not None:
        fields |= {f"{family}.rope.scaling.type": "linear", f"{family}.rope.scaling.factor": rope.linear}
    return fields


def tensors(config: Any, state: Mapping[str, Tensor], name: str) -> Iterator[tuple[str, Floats]]:
    """All of the model's weights under llama.cpp's names. Output rows that are the embedding's are not repeated."""
    family, rope = _family(config, name), rope_of(config, name)
    if rope.factors:
        yield "rope_freqs.weight", np.array(rope.factors, dtype=np.float32)
    for key, value in state.items():
        if key == OUTPUT and config.tie_word_embeddings:
            continue
        values = value.detach().to("cpu", torch.float32).numpy()
        if family == "llama" and key.endswith("self_attn.q_proj.weight"):
            values = turned_in_pairs(values, int(config.num_attention_heads))
        elif family == "llama" and key.endswith("self_attn.k_proj.weight"):
            values = turned_in_pairs(values, int(config.num_key_value_heads))
        inner = IN_LAYER.fullmatch(key)
        if key in TOP:
            target = TOP[key]
        elif inner and inner[2] in LAYER:
            target = f"blk.{inner[1]}.{LAYER[inner[2]]}"
        else:
            problem = f"{name} has the weights {shown(key)}, for which there is no name here"
            raise ModelError(problem, "Convert it elsewhere")
        yield target, np.ascontiguousarray(values)


def turned_in_pairs(rows: Floats, heads: int) -> Floats:
    """Rows [heads * W, ...] in the order in which llama.cpp's rope for ``llama`` turns them.

    Transformers turns row i of a head together with row i + W/2, llama.cpp row 2i with 2i + 1. Scores of queries and
    keys are sums over a head's rows, so they do not change when both are put in the other order.
    """
    halves = rows.reshape(heads, 2, len(rows) // heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def head_width(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def rope_of(config: Any, name: str) -> Rope:
    rope = config.rope_parameters
    theta, kind = float(rope["rope_theta"]), rope.get("rope_type", "default")
    if kind == "default":
        return Rope(theta)
    if kind == "linear":
        return Rope(theta, linear=float(rope["factor"]))
    if kind == "llama3":
        # What divides each frequency: 1 for short waves, ``factor`` for long ones, some in between.
        factor, low, high = (float(rope[key]) for key in ("factor", "low_freq_factor", "high_freq_factor"))
        width, factors = head_width(config), []
        for even in range(0, width, 2):  # turns in the context of the first training
            turns = float(rope["original_max_position_embeddings"]) * theta ** (-even / width) / (2 * math.pi)
            share = min(1.0, max(0.0, (turns - low) / (high - low)))
            factors.append(1 / ((1 - share) / factor + share))
        return Rope(theta, factors=tuple(factors))
    raise ModelError(f"{name} scales its rope by {shown(kind)}", "Known are default, linear and llama3")


def _family(config: Any, name: str) -> str:
    if config.model_type not in FAMILIES:
        raise ModelError(
            f"{name} is of the architecture {shown(config.model_type)}", f"Known are {', '.join(FAMILIES)}"
        )
    if getattr(config, "use_sliding_window", False):
        raise ModelError(f"{name} looks back through a window only", "Convert it elsewhere")
    return str(config.model_type)
