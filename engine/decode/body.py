"""The layers of a Qwen3 or LLaMA model of ``transformers``, run with as few operations as they take.

The same weights, the same numbers: projections of a layer that read the same input are one product, norms are the
library's fused ones, grouped heads are folded into the query axis so that the cache is never copied. Each row has its
own positions. A token's slot in the cache is its position, and a query sees the slots up to its own: padding to the
right writes ahead of a row's frontier and is overwritten before anything looks at it. So no mask is kept, rows of
different length need no padding on the left, and a row can be replaced by another at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from engine.errors import ModelError


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One decoder layer's weights. Biases and norms of queries and keys are None where the model has none."""

    norm: Tensor
    qkv: Tensor  # [(H + 2 Hk) D, W]
    qkv_bias: Tensor | None
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    mlp_norm: Tensor
    gate_up: Tensor  # [2 I, W]
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


class KvCache:
    """Keys and values of a batch, by layer: [B, L, Hk, D]. Zeroed: a NaN behind a mask would leak."""

    def __init__(self, body: Body, rows: int, length: int) -> None:
        shape = (rows, length, body.kv_heads, body.head_width)
        like = {"dtype": body.dtype, "device": body.device}
        self.keys = [torch.zeros(shape, **like) for _ in body.layers]
        self.values = [torch.zeros(shape, **like) for _ in body.layers]
        self.rows = torch.arange(rows, device=body.device)[:, None]  # [B, 1]

    @property
    def length(self) -> int:
        return self.keys[0].shape[1]


class Body:
    """A model's embedding, layers and last norm."""

    def __init__(self, model: PreTrainedModel, positions: int) -> None:
        config: Any = model.config
        if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or []):
            raise ModelError("the model attends within a sliding window", "Use the backend hf")
        core: Any = model.model
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_width: int = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps: float = config.rms_norm_eps
        self.embedding: Tensor = core.embed_tokens.weight
        self.head: Tensor = model.get_output_embeddings().weight  # [V, W]
        self.norm: Tensor = core.norm.weight
        self.layers = [_layer(layer) for layer in core.layers]
        self.dtype, self.device = self.embedding.dtype, self.embedding.device
        self.cos, self.sin = self._rotations(core, positions)

    def __call__(self, ids: Tensor, positions: Tensor, cache: KvCache, seen: int) -> Tensor:
        """Hidden states [B, w, W] of ids [B, w] at their positions [B, w]; ``seen`` bounds all positions."""
        rows, width = ids.shape
        hidden = functional.embedding(ids, self.embedding)
        cos, sin = self.cos[positions][:, :, None], self.sin[positions][:, :, None]  # [B, w, 1, D]
        slots = torch.arange(seen, device=ids.device)
        visible = slots <= positions[:, :, None]  # [B, w, S]
        groups = self.heads // self.kv_heads
        mask = visible[:, None, None].expand(-1, -1, groups, -1, -1).reshape(rows, 1, groups * width, seen)
        for number, layer in enumerate(self.layers):
            hidden = hidden + self._attention(layer, hidden, cos, sin, mask, positions, cache, number, seen)
            state = functional.rms_norm(hidden, hidden.shape[-1:], layer.mlp_norm, self.eps)
            gate, up = functional.linear(state, layer.gate_up, layer.gate_up_bias).chunk(2, dim=-1)
            hidden = hidden + functional.linear(functional.silu(gate) * up, layer.down, layer.down_bias)
        return functional.rms_norm(hidden, hidden.shape[-1:], self.norm, self.eps)

    def _attention(
        self,
        layer: Layer,
        hidden: Tensor,
        cos: Tensor,
        sin: Tensor,
        mask: Tensor,
        positions: Tensor,
        cache: KvCache,
        number: int,
        seen: int,
    ) -> Tensor:
        rows, width, _ = hidden.shape
        state = functional.rms_norm(hidden, hidden.shape[-1:], layer.norm, self.eps)
        mixed = functional.linear(state, layer.qkv, layer.qkv_bias).view(rows, width, -1, self.head_width)
        query, key, value = mixed.split([self.heads, self.kv_heads, self.kv_heads], dim=2)  # [B, w, heads, D]
        if layer.q_norm is not None and layer.k_norm is not None:
            query = functional.rms_norm(query, query.shape[-1:], layer.q_norm, self.eps)
            key = functional.rms_norm(key, key.shape[-1:], layer.k_norm, self.eps)
        query, key = _rotated(query, cos, sin), _rotated(key, cos, sin)
        cache.keys[number].index_put_((cache.rows, positions), key)
        cache.values[number].index_put_((cache.rows, positions), value)
        keys = cache.keys[number][:, :seen].transpose(1, 2)  # [B, Hk, S, D]
        values = cache.values[number][:, :seen].transpose(1, 2)
        groups = self.heads // self.kv_heads
        folded = query.view(rows, width, self.kv_heads, groups, -1).permute(0, 2, 3, 1, 4)  # [B, Hk, G, w, D]
        folded = folded.reshape(rows, self.kv_heads, groups * width, self.head_width)
        found = functional.scaled_dot_product_attention(folded, keys, values, attn_mask=mask)
        found = found.view(rows, self.kv_heads, groups, width, -1).permute(0, 3, 1, 2, 4).reshape(rows, width, -1)
        return functional.linear(found, layer.out, layer.out_bias)

    def _rotations(self, core: Any, positions: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines [positions, D] as the model itself makes them, scaling included."""
        places = torch.arange(positions, device=self.device)[None]
        cos, sin = core.rotary_emb(torch.zeros(1, dtype=torch.float32, device=self.device), places)
        return cos[0].to(self.dtype), sin[0].to(self.dtype)


def _rotated(state: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = state.chunk(2, dim=-1)
    return state * cos + torch.cat((-second, first), dim=-1) * sin


def _layer(layer: Any) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    q_norm, k_norm = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)
    qkv = (attention.q_proj, attention.k_proj, attention.v_proj)
    return Layer(
        layer.input_layernorm.weight,
        *_joined(*qkv),
        None if q_norm is None else q_norm.weight,
        None if k_norm is None else k_norm.weight,
        attention.o_proj.weight,
        attention.o_proj.bias,
        layer.post_attention_layernorm.weight,
        *_joined(mlp.gate_proj, mlp.up_proj),
        mlp.down_proj.weight,
        mlp.down_proj.bias,
    )


def _joined(*parts: Any) -> tuple[Tensor, Tensor | None]:
    """The parts' weights as one, and their biases."""
    biases = [part.bias for part in parts if part.bias is not None]
    return torch.cat([part.weight for part in parts]), torch.cat(biases) if biases else None
