"""A decoder layer for a CUDA device in six or seven kernels of our own, in Triton.

The norm is taken within the product that reads it, queries and keys are normed, turned and written to the cache by one
kernel, each token attends by itself to the slots up to its own position, gate and up are one product whose end is what
SiLU makes of them, and what a layer adds is added by its product. The numbers are those of ``Body`` but for rounding;
`use_kernels` compares them on the device at hand first. How fast they are is not known here.

Triton comes with a CUDA build of torch. ``TRITON_INTERPRET=1`` runs the same kernels on a CPU, far too slowly for use.
"""

from __future__ import annotations

from functools import partial
from subprocess import SubprocessError

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional
from triton.errors import TritonError

from engine.decode.body import Body, KvCache, Layer, Product, TokenLayout, grid_layout
from engine.errors import shown

SLOTS = 64
"""Of the cache that attention reads at a time."""
LEAST_ROWS, MOST_ROWS = 16, 64
"""Of a product's tile: tensor cores take 16 at least."""
MOST_SPLITS, MEANT_PROGRAMS = 8, 128
"""Into how many parts the slots of a token are split, so that there is about one program for each multiprocessor."""
TOLERANCE = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 3e-2}
"""Of the largest hidden state, between these kernels and the plain layers."""

REFUSALS = (AssertionError, OSError, RuntimeError, SubprocessError, TritonError, ValueError)
"""What comes of a card, a driver or a compiler that does not fit."""


@triton.jit(do_not_specialize=["rows"])
def driftscope_product(
    source, norm, weight, bias, added, target, rows, width, outputs, eps,
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, DEEP: tl.constexpr,
    HAS_NORM: tl.constexpr, IS_LATE: tl.constexpr, HAS_BIAS: tl.constexpr, IS_ADDED: tl.constexpr,
    IS_GATED: tl.constexpr,
):  # fmt: skip
    """A tile of ``added + norm(source) weight^T + bias``; gated, SiLU of the first half of that times the second.

    Late, rows are divided by their norm behind the product: nothing is read twice, where a type has room for rows that
    are not divided yet."""
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    deep = tl.arange(0, DEEP)
    is_row, is_output = row < rows, output < outputs
    scale = tl.full((ROWS,), 1.0, tl.float32)
    squares = tl.zeros((ROWS, DEEP), tl.float32)
    if HAS_NORM and not IS_LATE:
        for first in range(0, width, DEEP):
            is_inside = is_row[:, None] & (first + deep < width)[None, :]
            part = tl.load(source + row[:, None] * width + (first + deep)[None, :], is_inside, 0.0).to(tl.float32)
            squares += part * part
        scale = tl.rsqrt(tl.sum(squares, 1) / width + eps)
    total = tl.zeros((ROWS, OUTPUTS), tl.float32)
    upper = tl.zeros((ROWS, OUTPUTS), tl.float32)
    for first in range(0, width, DEEP):
        is_deep = first + deep < width
        part = tl.load(source + row[:, None] * width + (first + deep)[None, :], is_row[:, None] & is_deep[None, :], 0.0)
        if HAS_NORM:
            gain = tl.load(norm + first + deep, is_deep, 0.0).to(tl.float32)
            value = part.to(tl.float32)
            if IS_LATE:
                squares += value * value
            part = (value * scale[:, None] * gain[None, :]).to(part.dtype)
        place = weight + output[:, None] * width + (first + deep)[None, :]
        is_weight = is_output[:, None] & is_deep[None, :]
        total = tl.dot(part, tl.trans(tl.load(place, is_weight, 0.0)), total, input_precision="ieee")
        if IS_GATED:
            other = tl.load(place + outputs * width, is_weight, 0.0)
            upper = tl.dot(part, tl.trans(other), upper, input_precision="ieee")
    if IS_LATE:
        scale = tl.rsqrt(tl.sum(squares, 1) / width + eps)
        total *= scale[:, None]
        upper *= scale[:, None]
    if HAS_BIAS:
        total += tl.load(bias + output, is_output, 0.0).to(tl.float32)[None, :]
        if IS_GATED:
            upper += tl.load(bias + outputs + output, is_output, 0.0).to(tl.float32)[None, :]
    if IS_GATED:
        total = total * tl.sigmoid(total) * upper
    place = row[:, None] * outputs + output[None, :]
    is_target = is_row[:, None] & is_output[None, :]
    if IS_ADDED:
        total += tl.load(added + place, is_target, 0.0).to(tl.float32)
    tl.store(target + place, total.to(target.dtype.element_ty), is_target)


@triton.jit
def driftscope_turn(
    mixed, norm, cos, sin, positions, last, cache_rows, query, keys, values, row_stride, eps,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HALF: tl.constexpr, HAS_NORM: tl.constexpr,
):  # fmt: skip
    """One head of one token: a query or a key is normed and turned, a key or a value written to its slot. Columns
    behind a row's end are turned as the ``last`` position is."""
    token, head = tl.program_id(0), tl.program_id(1)
    half = tl.arange(0, HALF)
    source = mixed + (token * (HEADS + 2 * KV_HEADS) + head) * 2 * HALF
    first, second = tl.load(source + half).to(tl.float32), tl.load(source + HALF + half).to(tl.float32)
    position = tl.load(positions + token)
    if head < HEADS + KV_HEADS:
        if HAS_NORM:
            scale = tl.rsqrt(tl.sum(first * first + second * second, 0) / (2 * HALF) + eps)
            first *= scale * tl.load(norm + head * 2 * HALF + half).to(tl.float32)
            second *= scale * tl.load(norm + head * 2 * HALF + HALF + half).to(tl.float32)
        angle = tl.minimum(position, last) * 2 * HALF + half
        turned = first * tl.load(cos + angle).to(tl.float32) + second * tl.load(sin + angle).to(tl.float32)
        angle += HALF
        second = second * tl.load(cos + angle).to(tl.float32) + first * tl.load(sin + angle).to(tl.float32)
        first = turned
    slot = tl.load(cache_rows + token) * row_stride + position * KV_HEADS * 2 * HALF
    if head < HEADS:
        target = query + (token * HEADS + head) * 2 * HALF
    elif head < HEADS + KV_HEADS:
        target = keys + slot + (head - HEADS) * 2 * HALF
    else:
        target = values + slot + (head - HEADS - KV_HEADS) * 2 * HALF
    tl.store(target + half, first.to(query.dtype.element_ty))
    tl.store(target + HALF + half, second.to(query.dtype.element_ty))


@triton.jit
def driftscope_attend(
    query, keys, values, positions, cache_rows, target, sums, row_stride, scale,
    KV_HEADS: tl.constexpr, GROUPS: tl.constexpr, QUERIES: tl.constexpr, WIDTH: tl.constexpr,
    SLOTS: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """One part of the slots that a token's query heads of one group see, not divided by the sum of its chances: that
    and the largest score, by which the chances are scaled, come beside it."""
    token, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    group, wide, slots = tl.arange(0, QUERIES), tl.arange(0, WIDTH), tl.arange(0, SLOTS)
    is_query = group < GROUPS
    of_head = token * KV_HEADS * GROUPS + head * GROUPS + group  # [QUERIES]
    asked = tl.load(query + of_head[:, None] * WIDTH + wide[None, :], is_query[:, None], 0.0)
    seen = tl.load(positions + token) + 1
    each = tl.cdiv(tl.cdiv(seen, SLOTS), SPLITS) * SLOTS
    begin = split * each
    end = tl.minimum(seen, begin + each)
    cached = tl.load(cache_rows + token) * row_stride + head * WIDTH
    peak = tl.full((QUERIES,), float("-inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    mixed = tl.zeros((QUERIES, WIDTH), tl.float32)
    for at in range(begin, end, SLOTS):
        is_slot = at + slots < end
        place = cached + (at + slots)[:, None] * KV_HEADS * WIDTH + wide[None, :]
        score = tl.dot(asked, tl.trans(tl.load(keys + place, is_slot[:, None], 0.0)), input_precision="ieee") * scale
        score = tl.where(is_slot[None, :], score, float("-inf"))
        higher = tl.maximum(peak, tl.max(score, 1))
        chances = tl.exp(score - higher[:, None])
        fade = tl.exp(peak - higher)
        value = tl.load(values + place, is_slot[:, None], 0.0)
        mixed = mixed * fade[:, None] + tl.dot(chances.to(value.dtype), value, input_precision="ieee")
        total = total * fade + tl.sum(chances, 1)
        peak = higher
    part = of_head * SPLITS + split
    tl.store(target + part[:, None] * WIDTH + wide[None, :], mixed, is_query[:, None])
    tl.store(sums + part * 2, peak, is_query)
    tl.store(sums + part * 2 + 1, total, is_query)


@triton.jit
def driftscope_merge(parts, sums, target, WIDTH: tl.constexpr, SPLITS: tl.constexpr):
    """One query head of one token, of all its parts. One of no slots has the largest score minus infinity."""
    head = tl.program_id(0)
    split, wide = tl.arange(0, SPLITS), tl.arange(0, WIDTH)
    peak = tl.load(sums + (head * SPLITS + split) * 2)
    scale = tl.exp(peak - tl.max(peak, 0))
    total = tl.sum(scale * tl.load(sums + (head * SPLITS + split) * 2 + 1), 0)
    part = tl.load(parts + (head * SPLITS + split)[:, None] * WIDTH + wide[None, :])
    mixed = tl.sum(part * scale[:, None], 0) / total
    tl.store(target + head * WIDTH + wide, mixed.to(target.dtype.element_ty))


def product(
    source: Tensor,
    of: Product,
    *,
    norm: Tensor | None = None,
    eps: float = 0.0,
    added: Tensor | None = None,
    is_gated: bool = False,
) -> Tensor:
    """[N, O] of ``source`` [N, W]; gated, O is half of the weight's rows."""
    rows, width = source.shape
    outputs = len(of.weight) // 2 if is_gated else len(of.weight)
    target = source.new_empty((rows, outputs))
    tile = min(MOST_ROWS, max(LEAST_ROWS, triton.next_power_of_2(rows)))
    # Of few rows many programs, each of few outputs and with much on its way; and no more than 99 KB of shared memory.
    each, deep = (16, 128) if tile < MOST_ROWS else (64, 64)
    stages = 5 if tile < MOST_ROWS and source.element_size() == 2 else 3
    driftscope_product[(triton.cdiv(outputs, each), triton.cdiv(rows, tile))](
        source, norm, of.weight, of.bias, added, target, rows, width, outputs, eps,
        ROWS=tile, OUTPUTS=each, DEEP=min(deep, max(16, triton.next_power_of_2(width))),
        HAS_NORM=norm is not None, IS_LATE=norm is not None and source.dtype != torch.float16,
        HAS_BIAS=of.bias is not None, IS_ADDED=added is not None, IS_GATED=is_gated, num_stages=stages,
    )  # fmt: skip
    return target


def attention(query: Tensor, keys: Tensor, values: Tensor, layout: TokenLayout) -> Tensor:
    """[N, H D] of queries [N, H, D], each over its row's slots [B, L, Hk, D] up to its own position."""
    tokens, heads, width = query.shape
    kv_heads = keys.shape[2]
    # Whatever is seen: another number of splits is compiled anew. The power of two that is not above.
    most = max(1, min(MOST_SPLITS, MEANT_PROGRAMS // (tokens * kv_heads)))
    splits = triton.next_power_of_2(most + 1) // 2
    parts = torch.empty((tokens, heads, splits, width), dtype=torch.float32, device=query.device)
    sums = torch.empty((tokens, heads, splits, 2), dtype=torch.float32, device=query.device)
    groups = heads // kv_heads
    driftscope_attend[(tokens, kv_heads, splits)](
        query, keys, values, layout.positions, layout.rows, parts, sums, keys.stride(0), width**-0.5,
        KV_HEADS=kv_heads, GROUPS=groups, QUERIES=max(LEAST_ROWS, triton.next_power_of_2(groups)), WIDTH=width,
        SLOTS=SLOTS, SPLITS=splits, num_stages=2,
    )  # fmt: skip
    target = torch.empty_like(query)
    driftscope_merge[(tokens * heads,)](parts, sums, target, WIDTH=width, SPLITS=splits)
    return target.view(tokens, heads * width)


def layer_of(body: Body, layer: Layer, hidden: Tensor, layout: TokenLayout, keys: Tensor, values: Tensor) -> Tensor:
    """Hidden states [N, W] behind one layer, whose keys and values of these tokens are then in the cache."""
    tokens, heads = len(hidden), (body.heads, body.kv_heads)
    mixed = product(hidden, layer.qkv, norm=layer.norm, eps=body.eps)
    query = hidden.new_empty((tokens, body.heads, body.head_width))
    driftscope_turn[(tokens, body.heads + 2 * body.kv_heads)](
        mixed, layer.qk_norm, body.cos, body.sin, layout.positions, len(body.cos) - 1, layout.rows, query, keys,
        values, keys.stride(0), body.eps, *heads, body.head_width // 2, layer.qk_norm is not None,
    )  # fmt: skip
    hidden = product(attention(query, keys, values, layout), layer.out, added=hidden)
    gated = product(hidden, layer.gate_up, norm=layer.mlp_norm, eps=body.eps, is_gated=True)
    return product(gated, layer.down, added=hidden)


def layers_of(body: Body, ids: Tensor, layout: TokenLayout, cache: KvCache) -> Tensor:
    """What ``Body`` computes; by its plain layers where the tokens are not a whole grid, and where they are a prompt's:
    there each token would read the slots again."""
    if layout.slots is not None or layout.places is not None or layout.cache_rows is not None:
        return body.layers_of(ids, layout, cache)
    hidden = functional.embedding(ids, body.embedding)
    for number, layer in enumerate(body.layers):
        hidden = layer_of(body, layer, hidden, layout, cache.keys[number], cache.values[number])
    return functional.rms_norm(hidden, hidden.shape[-1:], body.norm, body.eps)


def use_kernels(body: Body) -> str:
    """Makes the body run by them, where they give what its plain layers do; else why not, in one clause."""
    if body.made.why_plain is None:
        body.made.why_plain = _why_not(body)
    if not body.made.why_plain:
        body.run_by(partial(layers_of, body))
    return body.made.why_plain


def _why_not(body: Body) -> str:
    if body.head_width.bit_count() != 1:
        return f"its heads have {body.head_width} numbers, not a power of two"
    if body.dtype not in TOLERANCE:
        return f"its numbers are {body.dtype}"
    try:
        off = difference(body)
    except REFUSALS as error:
        return f"they do not run here ({shown(str(error), 200)})"
    return "" if off <= TOLERANCE[body.dtype] else f"they differ from the plain layers by {off:.1%}"  # NaN differs, too


@torch.inference_mode()
def difference(body: Body) -> float:
    """Between a hidden state of these kernels and of the plain layers, as a share of the largest, at its largest: of
    one row and of two behind a cache, of several, and of more than a product takes in one tile."""
    far = [min(slots, body.positions - 2) for slots in (2 * SLOTS, 8 * SLOTS)]
    firsts = [0, far[0]], [far[1]], [1] * LEAST_ROWS, [0] * (MOST_ROWS + 1)
    return max(difference_behind(body, torch.tensor(first, device=body.device)) for first in firsts)


def difference_behind(body: Body, first: Tensor) -> float:
    """Of two tokens a row, from its ``first`` position on."""
    layout = grid_layout(first, 2, int(first.max()) + 2)
    ids = torch.arange(2 * len(first), device=body.device) % body.vocab_rows
    states = []
    for run in (body.layers_of, partial(layers_of, body)):
        cache = KvCache(body, len(first), layout.seen)
        same = torch.Generator(body.device).manual_seed(0)
        for part in (*cache.keys, *cache.values):
            part.normal_(generator=same)
        states.append(run(ids, layout, cache).float())
    expected, found = states
    return float((found - expected).abs().max() / expected.abs().max())
