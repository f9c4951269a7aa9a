"""What an LP gains at real sizes on a CPU: models of 3 M to 0.6 B weights in the layers, random, made on the spot.

    python -m tools.bench.sizes            batches of 1 and 8, once each: some minutes
    python -m tools.bench.sizes --whole    batches of 32 as well, and three rounds: half an hour
    python -m tools.bench.sizes --tiny     toy shapes in seconds: whether it runs, no more

One core, and CPU seconds: other work on the machine changes them little. Every side writes the same number of tokens
for each molecule (64, fewer at batch 32; without an LP the end token is blocked).
``fast`` sides are timed in turns; ``hf none`` is plain ``generate`` with its own draws, once. A *pass* is a run through
the layers behind the prompts, as a run of all tokens has more than one of few. The *roof* is the time in which the
machine could read what a pass must read (layers, keys and values, the rows of the head) at the rate of a plain sum over
memory, or could compute it at the rate of its best product, whichever is longer.
The second table holds ``engine/decode/cost.py`` against all of this: it knows a shape, rates measured at the start, and
the share of forced tokens. It knows no prompts, so the ratio that it is held against is that of the passes behind them.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch

from engine.decode.cost import SHAPES, Machine, NamedShape, PassCost, PassWork, body_weights, predict
from engine.decode.fast import FastBackend
from engine.decode.head import LiveHead
from engine.decode.hf import HfBackend
from engine.decode.machine_rates import machine_here
from engine.decode.presets import preset
from engine.decode.steps import Counters, DecodeOptions, Step
from engine.lp.unconstrained import Unconstrained
from tools.bench import _gpu_prepare
from tools.bench._decode_table import Row, Table, figure
from tools.bench._gpu_prepare import Prepared
from tools.bench._gpu_shapes import Shape
from tools.bench._machine import machine

Side = Literal["fast exact", "fast none", "hf none"]
SIDES: tuple[Side, ...] = ("fast exact", "fast none", "hf none")
TOKENS, FEW_TOKENS, FIRST_TOKENS = 64, 32, 12
"""Tokens of an answer; of a large model at a large batch; behind the prompt, whose time is taken off."""
LARGE = 10**8
"""Weights of the layers from which on a shape is timed beside ``generate``."""
TOY = replace(SHAPES["demo-qwen"].sizes, width=64, layers=2, inner=96, head_dim=16)


@dataclass(slots=True)
class Timing:
    """Repeats of one side. All of them do the same."""

    tokens_per_s: list[float] = field(default_factory=list)
    pass_s: list[float] = field(default_factory=list)
    passes: int = 0
    forced: float = 0.0
    seen: float = 0.0


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
        timing.forced = counters.forced_tokens / len(steps)
        requests = self.given.requests(self.given.programs, [tokens] * batch)
        timing.seen = statistics.mean(len(requests[step.sample].prompt) + step.pos for step in steps)

    def _run(
        self, side: Side, backend: FastBackend | HfBackend, batch: int, tokens: int
    ) -> tuple[float, Counters, list[Step]]:
        requests = self.given.requests(self.programs[side.split()[1]], [tokens] * batch)
        counters = Counters()
        began = time.process_time()
        events = list(backend.run(requests, DecodeOptions(preset("qwen3"), batch_size=batch), counters))
        return time.process_time() - began, counters, [event for event in events if isinstance(event, Step)]

    def legal_rows(self) -> int:
        head = self.model.get_output_embeddings().weight
        return len(LiveHead(head, self.given.constraint.automaton, self.given.programs).ids)


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


def read_rate(size: int) -> float:
    """Bytes a second of a sum over memory."""
    source, times = torch.zeros(size // 4), []
    for _ in range(5):
        began = time.process_time()
        source.sum()
        times.append(time.process_time() - began)
    return size / min(times)


Rows = tuple[list[Row], list[Row]]


def rows_of(model: SizedModel, batch: int, timings: dict[Side, Timing], here: Machine, read: float) -> Rows:
    """Of the table of sizes, and of that of predictions."""
    dtype = str(model.dtype).removeprefix("torch.")
    name = f"{model.name}, {dtype}"
    sizes: list[Row] = []
    errors: list[Row] = []
    medians = {side: statistics.median(timing.tokens_per_s) for side, timing in timings.items()}
    exact = timings["fast exact"]
    work = PassWork(exact.forced, model.legal_rows(), batch, round(exact.seen), dtype)
    prediction = predict(model.shape.sizes, here, work)
    roof = predict(model.shape.sizes, replace(here, bytes_per_s=read), work)
    for side, timing in timings.items():
        pass_s = statistics.median(timing.pass_s)
        least: PassCost | None = {"fast exact": roof.on, "fast none": roof.off}.get(side)
        cells = ["", "", ""]
        if least is not None:
            cells = [figure(1e3 * pass_s), figure(1e3 * least.roof_s), f"{pass_s / least.roof_s:.2f}"]
        rate = [figure(medians[side]), f"{figure(min(timing.tokens_per_s))} .. {figure(max(timing.tokens_per_s))}"]
        gain = f"{medians['fast exact'] / medians[side]:.2f}" if side != "fast exact" else ""
        sizes.append((name, f"{batch}", side, *rate, f"{timing.passes}", *cells, gain))
    for side, cost in (("fast exact", prediction.on), ("fast none", prediction.off)):
        pass_s = statistics.median(timings[side].pass_s)
        parts = ", ".join(f"{part} {s / cost.pass_s:.0%}" for part, s in cost.seconds.items() if s > 0.05 * cost.pass_s)
        errors.append(
            (
                name,
                f"{batch}",
                side,
                figure(1e3 * cost.pass_s),
                figure(1e3 * pass_s),
                f"{cost.pass_s / pass_s - 1:+.0%}",
                parts,
            )
        )
    behind = {side: timing.passes * statistics.median(timing.pass_s) for side, timing in timings.items()}
    ratio = behind["fast none"] / behind["fast exact"]
    errors.append(
        (
            name,
            f"{batch}",
            "exact / none, behind the prompts",
            f"{prediction.ratio:.2f}",
            f"{ratio:.2f}",
            f"{prediction.ratio / ratio - 1:+.0%}",
            "",
        )
    )
    return sizes, errors


SIZES_HEAD = "model|batch|side|tokens/s|least .. most|passes|ms per pass|roof ms|over roof|exact is faster by"
ERRORS_HEAD = "model|batch|what|predicted|measured|error|predicted shares"


def rates_in_words(here: Machine, read: float) -> str:
    ops = ", ".join(f"{rate / 1e9:,.0f} in {dtype}" for dtype, rate in here.ops_per_s.items())
    return (
        f"Products read {here.bytes_per_s / 1e9:.1f} GB/s and compute {ops} ({here.plain_ops_per_s / 1e9:.0f} where "
        f"they are not packed) billion operations/s; a sum reads {read / 1e9:.1f} GB/s, the sampler "
        f"{here.sampled_per_s / 1e6:.0f} million logits/s; a small call takes {1e6 * here.call_s:.1f} µs."
    )


def run_all(names: Sequence[str], batches: Sequence[int], rounds: int, shape_of: Callable[[str], NamedShape]) -> None:
    here, read = machine_here(time.process_time), read_rate(2**28)
    print(f"{machine(('torch', 'transformers', 'numpy'))} {rates_in_words(here, read)}\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "prepared.npz"
        _gpu_prepare.write(file, max(batches))
        prepared = _gpu_prepare.read(file)
    sizes: list[Row] = []
    errors: list[Row] = []
    for name in names:
        shape = shape_of(name)
        for dtype in (getattr(torch, known) for known in here.ops_per_s):
            model = SizedModel(name, shape, prepared[shape.tokenizer], dtype)
            for batch in batches if dtype == torch.float32 else batches[:2]:
                timings = timed(model, batch, FEW_TOKENS if model.is_large and batch > 8 else TOKENS, rounds)
                more, checked = rows_of(model, batch, timings, here, read)
                print("\n".join(" | ".join(row) for row in (*more, *checked)), flush=True)
                sizes += more
                errors += checked
            del model
    print(Table("What an LP gains, by size", tuple(SIZES_HEAD.split("|")), tuple(sizes)).markdown())
    print(
        Table(
            "Predicted beside measured: ms per pass, and the ratio of their times",
            tuple(ERRORS_HEAD.split("|")),
            tuple(errors),
        ).markdown()
    )


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
