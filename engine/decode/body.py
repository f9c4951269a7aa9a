"""The layers and the head of a Qwen, LLaMA or Mistral model of ``transformers``, in as few operations as they take.

The same weights, the same numbers: projections of a layer that read the same input are one product, in an order that
suits the processor where they are large (`Product`), norms are the library's fused ones, grouped heads are folded
into the query axis so that the cache is never copied. Each row has its own positions. A token's slot in the cache is
its position, and a query sees the slots up to its own: padding to the right writes ahead of a row's frontier and is
overwritten before anything looks at it. So no mask is kept, rows of different length need no padding on the left, and a
row can be replaced by another at any time.

All but attention runs on the tokens of a pass as one list, whatever rows they belong to; only for attention are they
spread over a grid of rows and columns. So rows that have more tokens to read than others cost what they read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from engine.errors import ModelError
from engine.lp.driver import SYMBOL, State
from engine.lp.table import NO_ID, SYMBOLS, Automaton, Program, live_columns
from engine.models.architectures import why_not_fast
from engine.models.devices import free_memory

MKLDNN: Any = torch.ops.mkldnn
MOST_MEMORY = 0.5
"""Of what is free: packing takes a copy."""
LEAST_PACKED = 3 * 2**17
"""Weights from which on a matrix is packed: one of 1,024 x 256 gains nothing for a single row yet."""
MEANT_ROWS = 4
"""The number of rows that the order is chosen for; an order for one row is slower with several."""
FEW_ROWS = 4
"""Fewer get rows of zeros behind them: a packed product of one or two reads its weights more slowly."""
STREAMED_BYTES = 2**27
"""Of weights in a pass, or in the head, from which on they come from memory and not from a processor's cache."""

ALIGNED_BYTES = 64
"""As torch's own memory is."""
ALIGNED_COLUMNS = 16
"""Of the head, of which a GPU takes a multiple at a time."""
MOST_SHARE = 0.5
"""Of the vocabulary: with more columns of the head than that, a copy costs more than it saves."""


class Product:
    """``x W^T + b``. A packed one keeps the weight in its own order alone.

    On a CPU torch gives a float32 product of few rows to a library that takes 3 to 6 times as long on some processors
    as reading the weights takes. oneDNN's kernels do not, and read a copy of the weights in the order that they need
    (*packed*). A small matrix stays as it is: there one more call costs more than a better order saves.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, *, is_packed: bool = False) -> None:
        self.weight: Any = MKLDNN._reorder_linear_weight(weight, MEANT_ROWS) if is_packed else weight
        self.bias, self.is_packed = bias, is_packed

    def __call__(self, state: Tensor) -> Tensor:
        """[N, W] to [N, O]."""
        if self.is_packed:
            product: Tensor = MKLDNN._linear_pointwise(state, self.weight, self.bias, "none", [], "")
            return product
        return functional.linear(state, self.weight, self.bias)

    def added(self, hidden: Tensor, state: Tensor) -> Tensor:
        """``hidden`` [N, O] and the product, in one operation where that is possible."""
        if self.is_packed:
            total: Tensor = MKLDNN._linear_pointwise(state, hidden, self.weight, self.bias, "add")
            return total
        if self.bias is None:
            return torch.addmm(hidden, state, self.weight.t())
        return hidden + functional.linear(state, self.weight, self.bias)


def with_spare_rows(state: Tensor, rows: int) -> Tensor:
    """[N, W] and rows of zeros behind them, up to so many."""
    return functional.pad(state, (0, 0, 0, rows - len(state))) if len(state) < rows else state


def has_room(weights: Sequence[Tensor], taken: int = 0) -> bool:
    """Whether a CPU computes packed ones of this type, and has room for copies besides ``taken`` bytes of them.

    Copies of one model take half at most of what was free before the first of them.
    """
    first = weights[0]
    has_kernels = torch.backends.mkldnn.is_available() and hasattr(MKLDNN, "_linear_pointwise")
    if first.device.type != "cpu" or not has_kernels:
        return False
    is_computed = first.dtype == torch.float32 or (first.dtype == torch.bfloat16 and MKLDNN._is_mkldnn_bf16_supported())
    free, copied = free_memory("cpu"), taken + sum(weight.nbytes for weight in weights)
    return is_computed and (free is None or copied <= MOST_MEMORY * (free + taken))


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
        self.keys = [_zeros(shape, body) for _ in body.layers]
        self.values = [_zeros(shape, body) for _ in body.layers]

    @property
    def length(self) -> int:
        return self.keys[0].shape[1]

    def keep(self, order: list[int]) -> None:
        """These rows alone, in this order: a row stays, at no cost, or comes from the end into a row that is free."""
        for kept in (self.keys, self.values):
            for number, part in enumerate(kept):
                for target, row in enumerate(order):
                    if target != row:
                        part[target] = part[row]
                kept[number] = part[: len(order)]

    def grow(self, length: int) -> None:
        """Room for so many at least."""
        for kept in (self.keys, self.values):
            for number, part in enumerate(kept):
                kept[number] = functional.pad(part, (0, 0, 0, 0, 0, max(0, length - part.shape[1])))


def _zeros(shape: tuple[int, ...], body: Body) -> Tensor:
    """On a host by numpy, whose zeros take time and memory only as they are written."""
    if body.device.type != "cpu":
        return torch.zeros(shape, dtype=body.dtype, device=body.device)
    size = math.prod(shape) * body.dtype.itemsize
    try:
        numbers = np.zeros(size + ALIGNED_BYTES, dtype=np.uint8)
    except MemoryError as error:
        raise torch.OutOfMemoryError(str(error)) from error  # as torch says it: a loop goes on with fewer rows
    start = -numbers.ctypes.data % ALIGNED_BYTES
    return torch.from_numpy(numbers[start : start + size]).view(body.dtype).view(shape)


@dataclass(slots=True, eq=False)
class _Made:
    """What was made of a model's weights, once: it takes seconds and memory, and each call makes a body."""

    layers: dict[bool | None, list[Layer]] = field(default_factory=dict)  # by what was asked of packing
    head: Product | None = None
    copied: int = 0  # bytes of packed copies
    why_plain: str | None = None  # why kernels of our own do not run it; None: not asked yet


_MADE: WeakKeyDictionary[PreTrainedModel, _Made] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, eq=False)
class TokenLayout:
    """Where the tokens of a pass are: in rows and positions of the cache, and in the grid of attention."""

    rows: Tensor  # [N] of the cache
    positions: Tensor  # [N]
    grid: tuple[int, int]  # b rows of w columns
    seen: int  # bounds all positions
    mask: Tensor | None  # bool [b, 1, w, seen]; None where each query sees all of it
    slots: Tensor | None = None  # [N] in the flattened grid; None where the tokens are the whole grid, in order
    cache_rows: Tensor | None = None  # [b] the grid's rows in the cache; None: the first b
    places: Tensor | None = None  # [N] in the cache; None: the positions


def grid_layout(
    first: Tensor, width: int, seen: int, cache_rows: Tensor | None = None, *, sees_all: bool = False
) -> TokenLayout:
    """A whole grid: ``width`` tokens a row, from each row's ``first`` position [b] on.

    ``sees_all``: every query is at position ``seen - 1``, and there is nothing to mask.
    """
    rows = torch.arange(len(first), device=first.device) if cache_rows is None else cache_rows
    positions = first[:, None] + torch.arange(width, device=first.device)  # [b, w]
    mask = None if sees_all else _mask(positions, seen)
    spread = rows[:, None].expand(-1, width).reshape(-1).contiguous()  # of one row it is a view of one number
    return TokenLayout(spread, positions.reshape(-1), (len(first), width), seen, mask, None, cache_rows)


def packed_layout(first: Tensor, count: Tensor, width: int, seen: int) -> TokenLayout:
    """``count`` tokens a row [b], ``width`` at most, from each row's ``first`` position [b] on."""
    columns = torch.arange(width, device=first.device)
    slots = (columns < count[:, None]).reshape(-1).nonzero().squeeze(1)
    positions = first[:, None] + columns
    rows = slots.div(width, rounding_mode="floor")
    return TokenLayout(rows, positions.reshape(-1)[slots], (len(first), width), seen, _mask(positions, seen), slots)


def _mask(positions: Tensor, seen: int) -> Tensor:
    return (torch.arange(seen, device=positions.device) <= positions[:, :, None])[:, None]


class Body:
    """A model's embedding, layers and last norm."""

    def __init__(self, model: PreTrainedModel, positions: int, *, is_packed: bool | None = None) -> None:
        """``is_packed``: whether the layers' products are; None: each where that pays."""
        config: Any = model.config
        if why := why_not_fast(config):
            raise ModelError(f"the backend fast cannot run the model: {why}", "Use the backend hf")
        core: Any = model.model
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_width: int = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps: float = config.rms_norm_eps
        self.name, self.positions = str(model.name_or_path), positions
        self.embedding: Tensor = core.embed_tokens.weight
        self.width: int = self.embedding.shape[1]
        self.head: Tensor = model.get_output_embeddings().weight  # [V, W]
        self.norm: Tensor = core.norm.weight
        self.made = made = _MADE.setdefault(model, _Made())
        if is_packed not in made.layers:
            matrices = [weight for weight in core.layers.parameters() if weight.ndim == 2]
            least: float = 0 if is_packed else LEAST_PACKED
            if is_packed is False or (is_packed is None and not has_room(matrices, made.copied)):
                least = math.inf
            made.layers[is_packed] = [self._layer(layer, least) for layer in core.layers]
        self.layers = made.layers[is_packed]
        read = sum(weight.nbytes for weight in core.layers.parameters())
        self.spared = FEW_ROWS if self.layers[0].gate_up.is_packed and read >= STREAMED_BYTES else 0
        self.dtype, self.device = self.embedding.dtype, self.embedding.device
        self.cos, self.sin = self._rotations(core, positions)
        self._run: Callable[[Tensor, TokenLayout, KvCache], Tensor] = self.layers_of

    @property
    def vocab_rows(self) -> int:
        return len(self.head)

    @property
    def whole_head(self) -> Product | None:
        """The output head with all its rows, packed; None where it is not to be."""
        made = self.made
        if made.head is None and self.head.numel() >= LEAST_PACKED and has_room([self.head], made.copied):
            made.head = Product(self.head, is_packed=True)
            made.copied += self.head.nbytes
        return made.head

    def compile(self, backend: str = "inductor") -> None:
        """Run through ``torch.compile`` from here on. Shapes stay open; the first passes take a minute or two."""
        self._run = torch.compile(self.layers_of, dynamic=True, backend=backend)

    def run_by(self, run: Callable[[Tensor, TokenLayout, KvCache], Tensor]) -> None:
        """In place of the plain layers, from here on."""
        self._run = run

    def __call__(self, ids: Tensor, layout: TokenLayout, cache: KvCache) -> Tensor:
        """Hidden states [N, W] of ids [N]."""
        return self._run(ids, layout, cache)

    def layers_of(self, ids: Tensor, layout: TokenLayout, cache: KvCache) -> Tensor:
        """Hidden states [N, W] by torch's own operations."""
        hidden = with_spare_rows(functional.embedding(ids, self.embedding), self.spared)
        turned = layout.positions.clamp(max=len(self.cos) - 1)  # columns behind a row's end are read as its last
        cos, sin = self.cos[turned], self.sin[turned]  # [N, 1, D]
        groups = self.heads // self.kv_heads
        mask = layout.mask if layout.mask is None else layout.mask.repeat(1, 1, groups, 1)
        if mask is not None and mask.device.type == "cuda":  # which would make the same of it in each layer
            mask = torch.zeros_like(mask, dtype=hidden.dtype).masked_fill_(~mask, -torch.inf)
        for number, layer in enumerate(self.layers):
            state = functional.rms_norm(hidden, hidden.shape[-1:], layer.norm, self.eps)
            mixed = layer.qkv(state)[: len(ids)].view(len(ids), -1, self.head_width)
            attended = self._attention(layer, mixed, cos, sin, layout, mask, cache.keys[number], cache.values[number])
            hidden = layer.out.added(hidden, with_spare_rows(attended, self.spared))
            state = functional.rms_norm(hidden, hidden.shape[-1:], layer.mlp_norm, self.eps)
            gate, up = layer.gate_up(state).chunk(2, dim=-1)
            hidden = layer.down.added(hidden, functional.silu(gate) * up)
        return functional.rms_norm(hidden[: len(ids)], hidden.shape[-1:], self.norm, self.eps)

    def _attention(
        self,
        layer: Layer,
        mixed: Tensor,  # [N, H + 2 Hk, D]
        cos: Tensor,
        sin: Tensor,
        layout: TokenLayout,
        mask: Tensor | None,
        keys: Tensor,
        values: Tensor,
    ) -> Tensor:
        rotated, value = mixed.split([self.heads + self.kv_heads, self.kv_heads], dim=1)
        if layer.qk_norm is not None:
            rotated = functional.rms_norm(rotated, rotated.shape[-1:], None, self.eps) * layer.qk_norm
        rotated = rotated * cos + rotated.roll(self.head_width // 2, -1) * sin
        query, key = rotated.split([self.heads, self.kv_heads], dim=1)
        places = layout.positions if layout.places is None else layout.places
        keys.index_put_((layout.rows, places), key)
        values.index_put_((layout.rows, places), value)
        (rows, width), slots = layout.grid, layout.slots
        if slots is not None:
            grid = query.new_empty((rows * width, self.heads, self.head_width))  # what is left is read by nobody
            query = grid.index_copy_(0, slots, query)
        groups = self.heads // self.kv_heads
        query = query.view(rows, width, self.kv_heads, groups, -1).permute(0, 2, 3, 1, 4)  # [b, Hk, G, w, D]
        query = query.reshape(rows, self.kv_heads, groups * width, self.head_width)
        output = functional.scaled_dot_product_attention(
            query, _seen(keys, layout), _seen(values, layout), attn_mask=mask
        )
        output = output.view(rows, self.kv_heads, groups, width, -1).permute(0, 3, 1, 2, 4).reshape(rows * width, -1)
        return output if slots is None else output[slots]

    def _rotations(self, core: Any, positions: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines [positions, 1, D] as the model itself makes them, scaling included.

        The first half of the sines is negative: a roll by half a head then is what turning the halves would be.
        """
        position_ids = torch.arange(positions, device=self.device)[None]
        cos, sin = core.rotary_emb(torch.zeros(1, dtype=torch.float32, device=self.device), position_ids)
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
        self.made.copied += weight.nbytes if is_packed else 0
        return Product(weight, torch.cat(biases) if biases else None, is_packed=is_packed)


def _seen(cached: Tensor, layout: TokenLayout) -> Tensor:
    """[b, Hk, S, D] of a cache [B, L, Hk, D]."""
    seen = cached[:, : layout.seen]
    rows = seen[: layout.grid[0]] if layout.cache_rows is None else seen[layout.cache_rows]
    return rows.transpose(1, 2)


class LiveHead:
    """The output head on the rows that one constraint and one pool of programs may ever allow, and nothing else.

    A constraint allows few ids: a dozen that all molecules share, and the two symbols of a cell, which differ from row
    to row. All of them together are the *columns*: one static slice of the head, sorted by id, so that a running sum
    over columns runs in the order of ids. A row's own legality is a bias on its logits. Where a constraint allows most
    of the vocabulary, the slice is the head itself, without a copy.
    """

    def __init__(
        self,
        head: Tensor,
        automaton: Automaton,
        programs: Sequence[Program],
        whole: Callable[[], Product | None] = lambda: None,
    ) -> None:
        """``whole``: the same head packed, asked for where most of its rows are wanted."""
        symbols = np.unique(np.concatenate([program.symbols.reshape(-1) for program in programs]))
        symbols = symbols[symbols != NO_ID]
        wanted = live_columns(automaton, programs)
        is_slice = len(wanted) > MOST_SHARE * len(automaton.classes)
        columns = np.arange(wanted.max() + 1) if is_slice else wanted
        self.ids = torch.from_numpy(columns).to(head.device)  # [C]
        self.whole = whole() if is_slice else None
        aligned = ALIGNED_COLUMNS if head.device.type == "cuda" else 1
        self.weight = _rows_of(head, self.ids, aligned, is_slice=is_slice)  # [C, W], or some rows more
        legal = automaton.legal
        self.bias = _bias(legal[:, automaton.classes[columns]], head)  # [Q, C]
        self.symbol_bias = _bias(legal[:, -SYMBOLS:], head)  # [Q, 2]
        self.has_symbols = len(symbols) > 0
        self.is_open = len(legal) == 1 and not self.has_symbols and not bool(self.bias.any())
        # A cell without a symbol points at a column that is never one, and leaves it as it is.
        spare = np.setdiff1d(columns, symbols)[:1] if self.has_symbols else columns[:1]
        column_of = np.full(len(automaton.classes) + 1, np.searchsorted(columns, spare[0]))
        column_of[columns] = np.arange(len(columns))
        self.column_of = torch.from_numpy(column_of).to(head.device)  # [V + 1]; the last is of NO_ID
        self.illegal = [row.nonzero().squeeze(1) for row in self.bias] if self.whole is not None else []  # [Q] columns
        self.asked = torch.zeros(1, dtype=torch.int64, device=head.device)  # whoever looks sets it back to 0

    def __call__(self, hidden: Tensor, state: State, here: Tensor) -> Tensor:
        """Logits [B, C] in float32, minus infinity where a token is not legal."""
        self.asked.add_(1)  # on the device: a captured graph counts too
        if self.is_open:
            return self._logits(hidden)
        if self.whole is not None:
            return self._forbidden(self._logits(hidden), state, here)
        bias = self.bias if len(self.bias) == 1 else self.bias[state.node]
        if self.has_symbols:
            symbols = here[:, SYMBOL]
            columns = self.column_of[symbols]  # [B, 2]
            values = torch.where(symbols == NO_ID, bias.gather(1, columns), self.symbol_bias[state.node])
            bias = bias.scatter(1, columns, values)
        if hidden.dtype == torch.float32 and len(self.weight) == len(self.ids):
            return torch.addmm(bias, hidden, self.weight.t())
        return self._logits(hidden) + bias

    def _forbidden(self, logits: Tensor, state: State, here: Tensor) -> Tensor:
        """The same in place, on a CPU: few of many columns are illegal, and a bias for all of them would be read."""
        symbols = here[:, SYMBOL]
        columns = self.column_of[symbols]  # [B, 2]
        values = logits.gather(1, columns) + self.symbol_bias[state.node]
        for row, node in zip(logits, state.node.tolist(), strict=True):
            row[self.illegal[node]] = -torch.inf
        if self.has_symbols:
            logits.scatter_(1, columns, torch.where(symbols == NO_ID, logits.gather(1, columns), values))
        return logits

    def _logits(self, hidden: Tensor) -> Tensor:
        if self.whole is not None:
            rows = FEW_ROWS if self.weight.nbytes >= STREAMED_BYTES else 0
            return self.whole(with_spare_rows(hidden, rows))[: len(hidden), : len(self.ids)].float()
        return functional.linear(hidden, self.weight)[:, : len(self.ids)].float()


def _rows_of(head: Tensor, ids: Tensor, aligned: int, *, is_slice: bool) -> Tensor:
    """The head's rows ``ids``, the first ones without a copy, and behind them others up to a multiple of ``aligned``:
    of an odd number of rows a GPU takes a slow kernel."""
    rows = len(ids) + -len(ids) % aligned
    if is_slice:
        return head[:rows]
    return head[functional.pad(ids, (0, rows - len(ids)))]


def _bias(legal: NDArray[np.bool_], head: Tensor) -> Tensor:
    return torch.from_numpy(np.where(legal, 0.0, -np.inf).astype(np.float32)).to(head.device)
