"""Our kernels beside the plain layers, in Triton's interpreter.

Lines of JSON. What is said of their use. Then, by shape: the largest difference of a hidden state, as a share of the
largest one, for rows that read several tokens behind caches of different lengths; the largest difference of what is in
the cache then; and the first of one row behind a long cache. Then the tokens of two molecules by the fast backend's
fixed steps, both ways. Not in bfloat16, which the interpreter cannot multiply.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any
from unittest.mock import patch

import torch

from engine.decode import kernels
from engine.decode.body import Body, KvCache, grid_layout
from engine.decode.fast import FastBackend
from engine.decode.plan import DecodeOptions, Sampling
from engine.decode.steps import Counters, Step
from tools.bench._sized import Shape, SizedModel
from tools.training.shapes import ModelShape

SHAPES = {
    "qwen3, float32": (ModelShape("qwen3", 64, 2, 4, 2, 96), torch.float32, {}),
    "llama, float16": (ModelShape("llama", 96, 2, 6, 2, 112), torch.float16, {"head_dim": 16}),
    "qwen2 with biases, float32": (ModelShape("qwen2", 64, 2, 4, 1, 80), torch.float32, {}),  # type: ignore[arg-type]
}
VOCAB, LENGTH = 50, 160
FIRST, WIDTH = (0, 3, 70, 140), 3


def made(shape: ModelShape, dtype: torch.dtype, changes: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    config = shape.config(VOCAB, end=0)
    for name, value in changes.items():
        setattr(config, name, value)
    model = shape.model(config).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, 1.0 if weight.ndim == 1 else 0.0, 0.2)
    return model.to(dtype)


def compared(shape: ModelShape, dtype: torch.dtype, changes: dict[str, Any]) -> dict[str, Any]:
    body = Body(made(shape, dtype, changes), LENGTH, is_packed=False)
    rows = len(FIRST)
    plain, ours = KvCache(body, rows, LENGTH), KvCache(body, rows, LENGTH)
    for number in range(len(body.layers)):
        for kept in (plain.keys, plain.values):
            kept[number].normal_()
        ours.keys[number].copy_(plain.keys[number])
        ours.values[number].copy_(plain.values[number])
    ids = torch.randint(1, VOCAB, (rows * WIDTH,))
    layout = grid_layout(torch.tensor(FIRST), WIDTH, max(FIRST) + WIDTH)
    expected, hidden = body(ids, layout, plain).float(), kernels.layers_of(body, ids, layout, ours).float()
    caches = zip(plain.keys + plain.values, ours.keys + ours.values, strict=True)
    return {
        "hidden": float((hidden - expected).abs().max() / expected.abs().max()),
        "cache": max(float((one - other).abs().max()) for one, other in caches),
        "one_row": one_row(body, layout.seen),
        "run": one_row(body, layout.seen, WIDTH),
    }


def one_row(body: Body, seen: int, width: int = 1) -> float:
    """The same for the tokens of a single row behind a long cache, whose slots are split."""
    cache = KvCache(body, 1, LENGTH)
    for part in (*cache.keys, *cache.values):
        part.normal_()
    ids, layout = torch.tensor([7, 8, 9])[:width], grid_layout(torch.tensor([seen - width]), width, seen)
    expected = body(ids, layout, cache).float()
    return float((kernels.layers_of(body, ids, layout, cache).float() - expected).abs().max() / expected.abs().max())


def tokens(model: SizedModel, lp: str, *, has_kernels: bool) -> list[int]:
    backend = FastBackend(model.model, model.constraints[lp], model.end, model.vocab_size, is_static=True)
    if has_kernels:
        backend.body.run_by(partial(kernels.layers_of, backend.body))
    options = DecodeOptions(Sampling(1.0), 0, 2)
    return [
        event.token_id
        for event in backend.run(model.requests(lp, [6, 6]), options, Counters())
        if isinstance(event, Step)
    ]


def uses() -> dict[str, str]:
    """What is said of kernels that give what the layers do, of such as do not, and of heads that they cannot take."""

    def why_not(width: int, attention: Any = kernels.attention) -> str:
        shape = ModelShape("llama", 16, 1, 1, 1, 16)
        body = Body(made(shape, torch.float32, {"head_dim": width}), LENGTH, is_packed=False)
        with patch.object(kernels, "attention", attention):
            return kernels.use_kernels(body)

    def broken(*_: Any) -> Any:
        raise RuntimeError("no compiler")

    return {
        "right": why_not(16),
        "wrong": why_not(16, attention=lambda query, *_: query.flatten(1)),
        "broken": why_not(16, attention=broken),
        "odd": why_not(24),
    }


if __name__ == "__main__":
    with torch.no_grad():
        print(json.dumps(uses()))
        for name, shape in SHAPES.items():
            print(json.dumps({"shape": name, **compared(*shape)}))
        toy = SizedModel(Shape("qwen3", 32, 1, 2, 1, 32, name="toy", head_dim=16), torch.device("cpu"), torch.float32)
        for lp in ("none", "exact"):
            both = [tokens(toy, lp, has_kernels=has_kernels) for has_kernels in (False, True)]
            print(json.dumps({"lp": lp, "plain": both[0], "ours": both[1]}))
