"""The layers of a Qwen3 or LLaMA model of ``transformers``, run with as few operations as they take.

The same weights, the same numbers: projections of a layer that read the same input are one product, in an order that
suits the processor where they are large (``product.py``), norms are the library's fused ones, grouped heads are folded
into the query axis so that the cache is never copied. Each row has its own positions. A token's slot in the cache is
its position, and a query sees the slots up to its own: padding to the right writes ahead of a row's frontier and is
overwritten before anything looks at it. So no mask is kept, rows of different length need no padding on the left, and a
row can be replaced by another at any time.

All but attention runs on the tokens of a pass as one list, whatever rows they belong to; only for attention are they
spread over a grid of rows and columns. So rows that have more tokens to read than others cost what they read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from engine.decode.product import LEAST_PACKED, Product, has_room
from engine.errors import ModelError


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One decoder layer's weights. Norms of queries and keys are None where the model has none."""

    norm: Tensor
    qkv: Product  # [(H + 2 Hk) D, W]
    qk_norm: Tensor | None  # [H + Hk, D]
    out: Product
    mlp_norm: Tensor
    gate_up: Product  # [2 I, W]
    down: Product


class KvCache:
    """Keys and values of a batch, by layer: [B, L, Hk, D]. Zeroed: a NaN behind a mask would leak."""

    def __init__(self, body: Body, rows: int, length: int) -> None:
        shape = (rows, length, body.kv_heads, body.head_width)
        like = {"dtype": body.dtype, "device": body.device}
        self.keys = [torch.zeros(shape, **like) for _ in body.layers]
        self.values = [torch.zeros(shape, **like) for _ in body.layers]

    @property
    def length(self) -> int:
        return self.keys[0].shape[1]

    def keep(self, order: list[int]) -> None:
        """These rows alone, in this order: a row stays, at no cost, or comes from behind into a place that is free."""
        for kept in (self.keys, self.values):
            for number, part in enumerate(kept):
                for place, row in enumerate(order):
                    if place != row:
                        part[place] = part[row]
                kept[number] = part[: len(order)]


@dataclass(slots=True, eq=False)
class _Made:
    """What was made of a model's weights, once: it takes seconds and memory, and each call makes a body."""

    layers: dict[bool | None, list[Layer]] = field(default_factory=dict)  # by what was asked of packing
    head: Product | None = None
    copied: int = 0  # bytes of packed copies


_MADE: WeakKeyDictionary[PreTrainedModel, _Made] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where the tokens of a pass stand: in rows and positions of the cache, and in the grid of attention."""

    rows: Tensor  # [N] of the cache
    positions: Tensor  # [N]
    grid: tuple[int, int]  # b rows of w columns
    seen: int  # bounds all positions
    mask: Tensor | None  # bool [b, 1, w, seen]; None where each query sees all of it
    slots: Tensor | None = None  # [N] in the flattened grid; None where the tokens are the whole grid, in order
    cache_rows: Tensor | None = None  # [b] the grid's rows in the cache; None: the first b


def grid_places(
    first: Tensor, width: int, seen: int, cache_rows: Tensor | None = None, *, sees_all: bool = False
) -> Places:
    """A whole grid: ``width`` tokens a row, from each row's ``first`` position [b] on.

    ``sees_all``: every query is at position ``seen - 1``, and there is nothing to mask.
    """
    rows = torch.arange(len(first), device=first.device) if cache_rows is None else cache_rows
    positions = first[:, None] + torch.arange(width, device=first.device)  # [b, w]
    mask = None if sees_all else _mask(positions, seen)
    spread = rows[:, None].expand(-1, width).reshape(-1)
    return Places(spread, positions.reshape(-1), (len(first), width), seen, mask, None, cache_rows)


def packed_places(first: Tensor, count: Tensor, width: int, seen: int) -> Places:
    """``count`` tokens a row [b], ``width`` at most, from each row's ``first`` position [b] on."""
    columns = torch.arange(width, device=first.device)
    slots = (columns < count[:, None]).reshape(-1).nonzero().squeeze(1)
    positions = first[:, None] + columns
    rows = slots.div(width, rounding_mode="floor")
    return Places(rows, positions.reshape(-1)[slots], (len(first), width), seen, _mask(positions, seen), slots)


def _mask(positions: Tensor, seen: int) -> Tensor:
    return (torch.arange(seen, device=positions.device) <= positions[:, :, None])[:, None]


class Body:
    """A model's embedding, layers and last norm."""

    def __init__(self, model: PreTrainedModel, positions: int, *, is_packed: bool | None = None) -> None:
        """``is_packed``: whether the layers' products are; None: each where that pays."""
        config: Any = model.config
        if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or []):
            raise ModelError("the model attends within a sliding window", "Use the backend hf")
        core: Any = model.model
        if core.rotary_emb.rope_type == "longrope":  # its rotations depend on how long a text is
            raise ModelError("the model scales its rotations by longrope", "Use the backend hf")
        if config.hidden_act != "silu":
            raise ModelError(f"the model's activation is {config.hidden_act!r}, not 'silu'", "Use the backend hf")
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_width: int = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps: float = config.rms_norm_eps
        self.embedding: Tensor = core.embed_tokens.weight
        self.width: int = self.embedding.shape[1]
        self.head: Tensor = model.get_output_embeddings().weight  # [V, W]
        self.norm: Tensor = core.norm.weight
        self._made = made = _MADE.setdefault(model, _Made())
        if is_packed not in made.layers:
            matrices = [weight for weight in core.layers.parameters() if weight.ndim == 2]
            least: float = 0 if is_packed else LEAST_PACKED
            if is_packed is False or (is_packed is None and not has_room(matrices, made.copied)):
                least = math.inf
            made.layers[is_packed] = [self._layer(layer, least) for layer in core.layers]
        self.layers = made.layers[is_packed]
        self.dtype, self.device = self.embedding.dtype, self.embedding.device
        self.cos, self.sin = self._rotations(core, positions)
        self._run: Callable[[Tensor, Places, KvCache], Tensor] = self._layers_of

    @property
    def whole_head(self) -> Product | None:
        """The output head with all its rows, packed; None where it is not to be."""
        made = self._made
        if made.head is None and self.head.numel() >= LEAST_PACKED and has_room([self.head], made.copied):
            made.head = Product(self.head, is_packed=True)
            made.copied += self.head.nbytes
        return made.head

    def compile(self, backend: str = "inductor") -> None:
        """Run through ``torch.compile`` from here on. Shapes stay open; the first passes take a minute or two."""
        self._run = torch.compile(self._layers_of, dynamic=True, backend=backend)

    def __call__(self, ids: Tensor, places: Places, cache: KvCache) -> Tensor:
        """Hidden states [N, W] of ids [N]."""
        return self._run(ids, places, cache)

    def _layers_of(self, ids: Tensor, places: Places, cache: KvCache) -> Tensor:
        hidden = functional.embedding(ids, self.embedding)
        cos, sin = self.cos[places.positions], self.sin[places.positions]  # [N, 1, D]
        groups = self.heads // self.kv_heads
        mask = places.mask if places.mask is None else places.mask.repeat(1, 1, groups, 1)
        if mask is not None and mask.device.type == "cuda":  # which would make the same of it in each layer
            mask = torch.zeros_like(mask, dtype=hidden.dtype).masked_fill_(~mask, -torch.inf)
        for number, layer in enumerate(self.layers):
            state = functional.rms_norm(hidden, hidden.shape[-1:], layer.norm, self.eps)
            mixed = layer.qkv(state).view(len(ids), -1, self.head_width)
            found = self._attention(layer, mixed, cos, sin, places, mask, cache.keys[number], cache.values[number])
            hidden = layer.out.added(hidden, found)
            state = functional.rms_norm(hidden, hidden.shape[-1:], layer.mlp_norm, self.eps)
            gate, up = layer.gate_up(state).chunk(2, dim=-1)
            hidden = layer.down.added(hidden, functional.silu(gate) * up)
        return functional.rms_norm(hidden, hidden.shape[-1:], self.norm, self.eps)

    def _attention(
        self,
        layer: Layer,
        mixed: Tensor,  # [N, H + 2 Hk, D]
        cos: Tensor,
        sin: Tensor,
        places: Places,
        mask: Tensor | None,
        keys: Tensor,
        values: Tensor,
    ) -> Tensor:
        rotated, value = mixed.split([self.heads + self.kv_heads, self.kv_heads], dim=1)
        if layer.qk_norm is not None:
            rotated = functional.rms_norm(rotated, rotated.shape[-1:], None, self.eps) * layer.qk_norm
        rotated = rotated * cos + rotated.roll(self.head_width // 2, -1) * sin
        query, key = rotated.split([self.heads, self.kv_heads], dim=1)
        keys.index_put_((places.rows, places.positions), key)
        values.index_put_((places.rows, places.positions), value)
        (rows, width), slots = places.grid, places.slots
        if slots is not None:
            query = query.new_zeros((rows * width, self.heads, self.head_width)).index_copy_(0, slots, query)
        groups = self.heads // self.kv_heads
        query = query.view(rows, width, self.kv_heads, groups, -1).permute(0, 2, 3, 1, 4)  # [b, Hk, G, w, D]
        query = query.reshape(rows, self.kv_heads, groups * width, self.head_width)
        found = functional.scaled_dot_product_attention(
            query, _seen(keys, places), _seen(values, places), attn_mask=mask
        )
        found = found.view(rows, self.kv_heads, groups, width, -1).permute(0, 3, 1, 2, 4).reshape(rows * width, -1)
        return found if slots is None else found[slots]

    def _rotations(self, core: Any, positions: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines [positions, 1, D] as the model itself makes them, scaling included.

        The first half of the sines is negative: a roll by half a head then is what turning the halves would be.
        """
        places = torch.arange(positions, device=self.device)[None]
        cos, sin = core.rotary_emb(torch.zeros(1, dtype=torch.float32, device=self.device), places)
        half = self.head_width // 2
        sin = torch.cat((-sin[..., :half], sin[..., half:]), dim=-1)
        return cos[0][:, None].to(self.dtype), sin[0][:, None].to(self.dtype)

    def _layer(self, layer: Any, least: float) -> Layer:
        """Its products packed from ``least`` weights on."""
        attention, mlp = layer.self_attn, layer.mlp
        qkv = (attention.q_proj, attention.k_proj, attention.v_proj)
        qk_norm = None
        if getattr(attention, "q_norm", None) is not None:
            norms = (attention.q_norm.weight, attention.k_norm.weight)
            counts = (self.heads, self.kv_heads)
            qk_norm = torch.cat([norm.expand(count, -1) for norm, count in zip(norms, counts, strict=True)])
        return Layer(
            layer.input_layernorm.weight,
            self._product(least, *qkv),
            qk_norm,
            self._product(least, attention.o_proj),
            layer.post_attention_layernorm.weight,
            self._product(least, mlp.gate_proj, mlp.up_proj),
            self._product(least, mlp.down_proj),
        )

    def _product(self, least: float, *parts: Any) -> Product:
        """Of what reads the same input, as one."""
        biases = [part.bias for part in parts if part.bias is not None]
        weight = parts[0].weight if len(parts) == 1 else torch.cat([part.weight for part in parts])
        is_packed = weight.numel() >= least
        self._made.copied += weight.nbytes if is_packed else 0
        return Product(weight, torch.cat(biases) if biases else None, is_packed=is_packed)


def _seen(cached: Tensor, places: Places) -> Tensor:
    """[b, Hk, S, D] of a cache [B, L, Hk, D]."""
    rows = cached[: places.grid[0]] if places.cache_rows is None else cached[places.cache_rows]
    return rows[:, : places.seen].transpose(1, 2)
