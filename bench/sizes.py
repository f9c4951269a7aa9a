"""What an LP gains at real sizes on a CPU: models of 3 M to 0.6 B weights in the layers, random, made on the spot.

    python -m bench.sizes            batches of 1 and 8, once each: some minutes
    python -m bench.sizes --whole    batches of 32 as well, and three rounds: half an hour
    python -m bench.sizes --tiny     toy shapes in seconds: whether it runs, no more

One core, and CPU seconds: other work on the machine changes them little. Every side writes the same number of tokens
for each molecule (64, fewer at batch 32; without an LP the end token is blocked).
``fast`` sides are timed in turns; ``hf none`` is plain ``generate`` with its own draws, once. A *pass* is a run through
the layers behind the prompts, as a run of all tokens has more than one of few.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from bench import _gpu_prepare
from bench._decode_table import Row, Table, figure
from bench._gpu_prepare import Prepared
from bench._gpu_shapes import Shape
from bench._machine import machine
from engine.decode.fast import FastBackend
from engine.decode.hf import HfBackend
from engine.decode.presets import preset
from engine.decode.steps import Counters, DecodeOptions, Step
from engine.lp.unconstrained import Unconstrained
from engine.models.summary import body_weights
from engine.models.tensor_table import BodySizes

Side = Literal["fast exact", "fast none", "hf none"]
SIDES: tuple[Side, ...] = ("fast exact", "fast none", "hf none")
TOKENS, FEW_TOKENS, FIRST_TOKENS = 64, 32, 12
"""Tokens of an answer; of a large model at a large batch; behind the prompt, whose time is taken off."""
LARGE = 10**8
"""Weights of the layers from which on a shape is timed beside ``generate``."""


class NamedShape(NamedTuple):
    tokenizer: Literal["qwen3", "llama3"]
    sizes: BodySizes


def _shape(tokenizer: Literal["qwen3", "llama3"], *numbers: int) -> NamedShape:
    """Width, layers, heads, heads of keys and values, width of a head, width inside."""
    kind, rows = ("qwen3", 151_936) if tokenizer == "qwen3" else ("llama", 128_330)
    width, layers, heads, kv_heads, head_dim, inner = numbers
    sizes = BodySizes(kind, rows, width, layers, heads, kv_heads, head_dim, inner, True, False, False)
    return NamedShape(tokenizer, sizes)


SHAPES = {
    "demo-qwen": _shape("qwen3", 256, 4, 4, 2, 64, 512),
    "qwen-3m": _shape("qwen3", 256, 5, 4, 2, 64, 512),
    "qwen-30m": _shape("qwen3", 640, 8, 10, 5, 64, 1_408),
    "llama-0.38b": _shape("llama3", 1_024, 16, 16, 8, 64, 4_096),
    "qwen3-0.6b": _shape("qwen3", 1_024, 28, 16, 8, 128, 3_072),
}
"""By name. The demo's, two between, and the reports' two: of their LLaMA only its 380 million weights are known."""
TOY = replace(SHAPES["demo-qwen"].sizes, width=64, layers=2, inner=96, head_dim=16)


@dataclass(slots=True)
class Timing:
    """Repeats of one side. All of them do the same."""

    tokens_per_s: list[float] = field(default_factory=list)
    pass_s: list[float] = field(default_factory=list)
    passes: int = 0


class SizedModel:
    """One shape with random weights, and molecules for its tokenizer."""

    def __init__(self, name: str, shape: NamedShape, given: Prepared, dtype: torch.dtype) -> None:
        self.name, self.shape, self.given, self.dtype = name, shape, given, dtype
        sizes = shape.sizes
        family: Any = "qwen3" if shape.tokenizer == "qwen3" else "llama"
        numbers = (sizes.width, sizes.layers, sizes.heads, sizes.kv_heads, sizes.head_dim, sizes.inner)
        made = Shape(name, family, shape.tokenizer, *numbers, (1, 1))
        self.model = made.model(given.rows, given.end, torch.device("cpu"), dtype)
        self.free = Unconstrained(given.vocab_size, given.rows, (given.end,))
        program = self.free.compile(None)  # type: ignore[arg-type]  # the same for every molecule
        self.programs = {"exact": given.programs, "none": (program,) * len(given.programs)}

    @property
    def is_large(self) -> bool:
        return body_weights(self.shape.sizes) >= LARGE

    def backend(self, side: Side) -> FastBackend | HfBackend:
        constraint: Any = self.given.constraint if side.endswith("exact") else self.free
        given = (self.model, constraint, self.given.end, self.given.vocab_size)
        return FastBackend(*given, is_static=False) if side.startswith("fast") else HfBackend(*given, draws="generate")

    def time(self, side: Side, backend: FastBackend | HfBackend, batch: int, tokens: int, timing: Timing) -> None:
        few_s, few, _ = self._run(side, backend, batch, FIRST_TOKENS)
        seconds, counters, steps = self._run(side, backend, batch, tokens)
        timing.passes = counters.forward_passes
        timing.tokens_per_s.append(len(steps) / seconds)
        timing.pass_s.append((seconds - few_s) / (counters.forward_passes - few.forward_passes))

    def _run(
        self, side: Side, backend: FastBackend | HfBackend, batch: int, tokens: int
    ) -> tuple[float, Counters, list[Step]]:
        requests = self.given.requests(self.programs[side.split()[1]], [tokens] * batch)
        counters = Counters()
        began = time.process_time()
        events = list(backend.run(requests, DecodeOptions(preset("qwen3"), batch_size=batch), counters))
        return time.process_time() - began, counters, [event for event in events if isinstance(event, Step)]


def timed(model: SizedModel, batch: int, tokens: int, rounds: int) -> dict[Side, Timing]:
    """The fast sides in turn, then plain ``generate`` once where the model is large."""
    sides: tuple[Side, ...] = SIDES if model.is_large and tokens == TOKENS else SIDES[:2]
    timings = {side: Timing() for side in sides}
    backends = {side: model.backend(side) for side in sides}
    for side in SIDES[:2]:  # to warm up: ``generate`` is, by the few tokens whose time is taken off
        model.time(side, backends[side], batch, FIRST_TOKENS + 4, Timing())
    for _ in range(rounds):
        for side in SIDES[:2]:
            model.time(side, backends[side], batch, tokens, timings[side])
    if "hf none" in timings:
        model.time("hf none", backends["hf none"], batch, tokens, timings["hf none"])
    return timings


def rows_of(model: SizedModel, batch: int, timings: dict[Side, Timing]) -> list[Row]:
    name = f"{model.name}, {str(model.dtype).removeprefix('torch.')}"
    medians = {side: statistics.median(timing.tokens_per_s) for side, timing in timings.items()}
    rows: list[Row] = []
    for side, timing in timings.items():
        pass_ms = figure(1e3 * statistics.median(timing.pass_s)) if side != "hf none" else ""
        rate = [figure(medians[side]), f"{figure(min(timing.tokens_per_s))} .. {figure(max(timing.tokens_per_s))}"]
        gain = f"{medians['fast exact'] / medians[side]:.2f}" if side != "fast exact" else ""
        rows.append((name, f"{batch}", side, *rate, f"{timing.passes}", pass_ms, gain))
    return rows


HEAD = "model|batch|side|tokens/s|least .. most|passes|ms per pass|exact is faster by"


def run_all(names: Sequence[str], batches: Sequence[int], rounds: int, shape_of: Callable[[str], NamedShape]) -> None:
    print(f"{machine(('torch', 'transformers', 'numpy'))}\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "prepared.npz"
        _gpu_prepare.write(file, max(batches))
        prepared = _gpu_prepare.read(file)
    rows: list[Row] = []
    for name in names:
        shape = shape_of(name)
        for dtype in (torch.float32, torch.bfloat16):
            model = SizedModel(name, shape, prepared[shape.tokenizer], dtype)
            for batch in batches if dtype == torch.float32 else batches[:2]:
                timings = timed(model, batch, FEW_TOKENS if model.is_large and batch > 8 else TOKENS, rounds)
                more = rows_of(model, batch, timings)
                print("\n".join(" | ".join(row) for row in more), flush=True)
                rows += more
            del model
    print(Table("What an LP gains, by size", tuple(HEAD.split("|")), tuple(rows)).markdown())


def main() -> None:
    parser = argparse.ArgumentParser(description="What an LP gains at real sizes on a CPU.")
    parser.add_argument("--tiny", action="store_true", help="toy shapes")
    parser.add_argument("--shape", action="append", choices=list(SHAPES), help="this one; may be repeated")
    parser.add_argument("--whole", action="store_true", help="batches of 32 as well, and three rounds")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.tiny:
        run_all(["toy"], (1, 2), 1, lambda name: NamedShape("qwen3", TOY))
        return
    names = args.shape or [name for name in SHAPES if name != "demo-qwen"]
    batches, rounds = ((1, 8, 32), 3) if args.whole else ((1, 8), 1)
    run_all(names, batches, rounds, SHAPES.__getitem__)


if __name__ == "__main__":
    main()
