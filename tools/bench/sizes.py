"""What an LP gains at real sizes on a CPU: models of 3 M to 0.6 B weights in the layers, random, made on the spot.

    python -m tools.bench.sizes            batches of 1 and 8, once each: some minutes
    python -m tools.bench.sizes --whole    batches of 32 as well, and three rounds: half an hour
    python -m tools.bench.sizes --tiny     toy shapes in seconds: whether it runs, no more

One core, and CPU seconds: other work on the machine changes them little. Every side writes the same number of tokens
for each molecule (64, fewer at batch 32; without an LP the end token is blocked).
``fast`` sides are timed in turns; ``hf none`` is plain ``generate`` with its own draws, once. A *pass* is a run through
the layers after the prompts, as a run of all tokens has more than one of few. The *roof* is the time in which the
machine could read what a pass must read (layers, keys and values, the rows of the head) at the rate of a plain sum.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

import torch

from tools.bench._measure import figure, machine, note, show, spread
from tools.bench._sides import EXACT, FREE, HF_OWN, Side, timed
from tools.bench._sized import Shape, SizedModel

TOKENS, FEW_TOKENS, FIRST_TOKENS = 64, 32, 12
"""Tokens per answer; of a large model at a large batch; after the prompt, whose time is taken off."""
LARGE = 10**8
"""Weights of the layers from which on a shape is timed next to ``generate``."""
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("qwen3", 256, 5, 4, 2, 512, name="qwen-3m"),
        Shape("qwen3", 640, 8, 10, 5, 1_408, name="qwen-30m"),
        Shape("llama", 1_024, 16, 16, 8, 4_096, name="llama-0.38b"),
        Shape("qwen3", 1_024, 28, 16, 8, 3_072, name="qwen3-0.6b", head_dim=128),
    )
}
TOY = Shape("qwen3", 64, 2, 4, 2, 96, name="toy", head_dim=16)


def read_rate(size: int = 2**28) -> float:
    """Bytes per second of a sum over memory."""
    source, times = torch.zeros(size // 4), []
    for _ in range(5):
        began = time.process_time()
        source.sum()
        times.append(time.process_time() - began)
    return size / min(times)


def rows_of(model: SizedModel, batch: int, rounds: int, read: float) -> list[tuple[str, ...]]:
    is_large = model.layer_weights >= LARGE
    tokens = FEW_TOKENS if is_large and batch > 8 else TOKENS
    sides = [EXACT, FREE, *([HF_OWN] if is_large and tokens == TOKENS else [])]
    backends = {side: model.backend(side) for side in sides}
    speeds: dict[Side, list[float]] = {side: [] for side in sides}
    pass_s: dict[Side, list[float]] = {side: [] for side in sides}
    passes, seen = dict[Side, int](), dict[Side, float]()
    for number in range(rounds + 1):  # the first one warms up
        for side in sides if number == 1 else sides[:2]:
            few, many = (
                timed(side, backends[side], model.requests(side.lp, [most] * batch), batch, time.process_time)
                for most in (FIRST_TOKENS, FIRST_TOKENS + 4 if number == 0 else tokens)
            )
            if number:
                speeds[side].append(many.tokens_per_s)
                pass_s[side].append((many.seconds - few.seconds) / (many.passes - few.passes))
                passes[side], seen[side] = many.passes, (many.seen - few.seen) / (many.passes - few.passes)
    rows = []
    for side in sides:
        roof_s = model.must_read(side.lp, seen[side]) / read
        took_s = statistics.median(pass_s[side])
        cells = [figure(1e3 * took_s), figure(1e3 * roof_s), f"{took_s / roof_s:.2f}"] if side != HF_OWN else [""] * 3
        gain = statistics.median(speeds[EXACT]) / statistics.median(speeds[side])
        name = f"{model.shape.name}, {str(model.dtype).removeprefix('torch.')}"
        more = "" if side == EXACT else f"{gain:.2f}"
        rows.append((name, str(batch), side.name, *spread(speeds[side]), str(passes[side]), *cells, more))
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What an LP gains at real sizes on a CPU.")
    parser.add_argument("--tiny", action="store_true", help="toy shapes")
    parser.add_argument("--shape", action="append", choices=list(SHAPES), help="this one; may be repeated")
    parser.add_argument("--whole", action="store_true", help="batches of 32 as well, and three rounds")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    batches, rounds = ((1, 2), 1) if args.tiny else ((1, 8, 32), 3) if args.whole else ((1, 8), 1)
    read = read_rate()
    print(f"{machine('torch', 'transformers', 'numpy')} A sum reads {read / 1e9:.1f} GB/s.\n", flush=True)
    rows: list[tuple[str, ...]] = []
    for shape in [TOY] if args.tiny else [SHAPES[name] for name in args.shape or SHAPES]:
        for dtype in (torch.float32, torch.bfloat16):
            model = SizedModel(shape, torch.device("cpu"), dtype, max(batches))
            for batch in batches if dtype == torch.float32 else batches[:2]:
                rows += rows_of(model, batch, rounds, read)
                note(" | ".join(rows[-1]))
            del model
    head = "model|batch|side|tokens/s|least .. most|passes|ms per pass|roof ms|over roof|exact is faster by"
    show("What an LP gains, by size", head, rows)


if __name__ == "__main__":
    main()
