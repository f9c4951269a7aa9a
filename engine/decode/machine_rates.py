"""A CPU's rates for ``cost.py``, measured here in some seconds: products, the sampler, small operations."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from engine.decode.cost import Machine
from engine.decode.presets import preset
from engine.decode.product import Product, has_room
from engine.decode.sampling import sample

Clock = Callable[[], float]
WIDE, TALL, COUNT = 1_024, 6_144, 8
"""Matrices that a processor's cache cannot hold all of."""
MANY_ROWS = 256
LOGITS = (8, 151_936)
SMALL_CALLS = 2_000
REPEATS = 5


@torch.inference_mode()
def machine_here(clock: Clock = time.perf_counter) -> Machine:
    """What this processor reaches with torch's current number of threads, by this clock."""
    weights = [torch.randn(TALL, WIDE) for _ in range(COUNT)]
    ops, read = {}, 0.0
    for dtype in (torch.float32, torch.bfloat16):
        typed = [weight.to(dtype) for weight in weights]
        if not (packs := has_room(typed)) and dtype != torch.float32:
            continue
        products = [Product(weight, is_packed=packs) for weight in typed]
        one, many = (torch.randn(rows, WIDE, dtype=dtype) for rows in (1, MANY_ROWS))
        seconds = _least(clock, lambda: [product(one) for product in products]) / COUNT  # noqa: B023 - called at once
        read = max(read, WIDE * TALL * dtype.itemsize / seconds)
        seconds = _least(clock, lambda: [product(many) for product in products]) / COUNT  # noqa: B023
        ops[str(dtype).removeprefix("torch.")] = 2 * MANY_ROWS * WIDE * TALL / seconds
    small = Product(torch.randn(512, 256))
    few = torch.randn(32, 256)
    plain = 2 * few.numel() * 512 / (_least(clock, lambda: [small(few) for _ in range(200)]) / 200)
    logits, uniform, sampling = torch.randn(LOGITS), torch.rand(LOGITS[0], dtype=torch.float64), preset("qwen3")
    sampled = logits.numel() / _least(clock, lambda: sample(logits, sampling, uniform))
    tiny = torch.ones(8, 64)
    calls: list[Callable[[], Tensor]] = [
        lambda: tiny * tiny,
        lambda: functional.rms_norm(tiny, (64,)),
        lambda: tiny.view(2, 4, 64).transpose(0, 1),
    ]
    call_s = _least(clock, lambda: [call() for call in calls * SMALL_CALLS]) / (len(calls) * SMALL_CALLS)
    name = f"here, {torch.get_num_threads()} of {os.cpu_count()} cores"
    return Machine(name, "measured", read, ops, plain, sampled, call_s)


def _least(clock: Clock, work: Callable[[], object]) -> float:
    """Seconds of the fastest of some repeats, behind one that is not timed."""
    work()
    times = []
    for _ in range(REPEATS):
        began = clock()
        work()
        times.append(clock() - began)
    return min(times)
