"""Decoding on a GPU with models of real shapes and random weights: milliseconds a pass, launches, and the roofline.

    python -m tools.bench.gpu --prepare FILE     here: prompts, programs and automata of 64 molecules of 25 heavy atoms
    python -m tools.bench.gpu FILE               there: needs torch, transformers, numpy, safetensors and this checkout
    python -m tools.bench.gpu --tiny             toy shapes on the CPU in some seconds: whether it runs, no more

Every side writes as many tokens for each molecule as the exact LP takes (without an LP the end token is blocked), in
bfloat16, batches of 32, preset qwen3. A *pass* is one run through the layers, prefills among them; under the exact LP
the fast backend needs none for what is forced. *Steady* is a pass behind the set-up: what the same molecules once more
add to a run that has captured its graphs. Launches are what the host starts (a captured graph is one), kernels what the
GPU runs, both counted by torch.profiler, behind the set-up too. The *roof* is the time in which the card could move
what a pass must read (the layers' weights, the rows of the head that are used, keys and values); a copy says how fast.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile

from engine.decode.fast import FastBackend
from engine.decode.head import LiveHead
from engine.decode.hf import Draws, HfBackend
from engine.decode.presets import preset
from engine.decode.steps import Counters, DecodeOptions, Step
from engine.lp.table import Program
from engine.lp.unconstrained import Unconstrained
from tools.bench import _gpu_prepare
from tools.bench._decode_table import Row, Spread, Table, figure
from tools.bench._gpu_prepare import Prepared
from tools.bench._gpu_shapes import SHAPES, TOYS, Shape
from tools.bench._machine import machine

SAMPLING = preset("qwen3")
MOST_TOKENS = 3_000
WARM_TOKENS = 8
PROFILED = (16, 40)
"""Tokens an answer in two runs that capture the same graphs; what the longer one launches more belongs to passes."""
LAUNCHES = ("LaunchKernel", "GraphLaunch")
COPIED_BYTES = 4 * 2**30


@dataclass(frozen=True, slots=True)
class Side:
    backend: Literal["fast", "hf"]
    lp: Literal["none", "exact"]
    draws: Draws = "keyed"

    @property
    def name(self) -> str:
        draws = "" if self.backend == "fast" else f", {'our' if self.draws == 'keyed' else 'its own'} draws"
        return f"{self.backend} {self.lp}{draws}"


EXACT, FREE = Side("fast", "exact"), Side("fast", "none")
HF_OWN, HF_KEYED, HF_EXACT = Side("hf", "none", "generate"), Side("hf", "none"), Side("hf", "exact")
SIDES = (EXACT, FREE, HF_OWN, HF_KEYED, HF_EXACT)
COMPARED = (
    (EXACT, HF_OWN),
    (EXACT, HF_KEYED),
    (FREE, HF_OWN),
    (FREE, HF_KEYED),
    (EXACT, FREE),
    (HF_EXACT, HF_KEYED),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One timing. ``kv_tokens``: keys and values read, one a layer and head, by all tokens that a pass was for."""

    seconds: float
    passes: int
    lengths: tuple[int, ...]
    kv_tokens: int

    @property
    def tokens_a_second(self) -> float:
        return sum(self.lengths) / self.seconds

    @property
    def pass_ms(self) -> float:
        return self.seconds / self.passes * 1e3

    def beyond(self, other: Run) -> Run:
        """What this run has more than a shorter one."""
        lengths = self.lengths[len(other.lengths) :]
        passes, kv_tokens = self.passes - other.passes, self.kv_tokens - other.kv_tokens
        return Run(self.seconds - other.seconds, passes, lengths, kv_tokens)


class Desk:
    """One model, and its molecules."""

    def __init__(self, shape: Shape, given: Prepared, batch: int, device: torch.device, dtype: torch.dtype) -> None:
        self.shape, self.given, self.batch, self.device, self.dtype = shape, given, batch, device, dtype
        self.model = shape.model(given.rows, given.end, device, dtype)
        self.free = Unconstrained(given.vocab_size, given.rows, (given.end,))
        program = self.free.compile(None)  # type: ignore[arg-type]  # the same for every molecule
        self.free_programs = (program,) * len(given.programs)

    def programs(self, side: Side) -> Sequence[Program]:
        return self.given.programs if side.lp == "exact" else self.free_programs

    def time(self, side: Side, limits: Sequence[int]) -> Run:
        backend, counters = self._backend(side), Counters()
        requests = self.given.requests(self.programs(side), limits)
        self.wait()
        began = time.perf_counter()
        events = list(backend.run(requests, DecodeOptions(SAMPLING, batch_size=self.batch), counters))
        self.wait()
        seconds = time.perf_counter() - began
        steps = [event for event in events if isinstance(event, Step)]
        lengths, kv_tokens = [0] * len(limits), 0
        for step in steps:
            lengths[step.sample] += 1
            if side.backend == "hf" or not step.forced:
                kv_tokens += len(requests[step.sample].prompt) + step.pos
        return Run(seconds, counters.forward_passes, tuple(lengths), kv_tokens)

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def launches(self, side: Side) -> tuple[float, float]:
        """Launches and kernels in a pass; without a GPU, operators in place of both."""
        counts = [self._launched(side, tokens) for tokens in PROFILED]
        (few, few_kernels, few_passes), (many, many_kernels, many_passes) = counts
        passes = many_passes - few_passes
        return (many - few) / passes, (many_kernels - few_kernels) / passes

    def _launched(self, side: Side, tokens: int) -> tuple[int, int, int]:
        is_cuda = self.device.type == "cuda"
        limits = [tokens] * self.batch
        activity = ProfilerActivity.CUDA if is_cuda else ProfilerActivity.CPU
        threads: Any = _ExperimentalConfig(profile_all_threads=True)  # ``generate`` runs in one of its own
        with profile(activities=[activity], experimental_config=threads) as profiled:
            run = self.time(side, limits)
        results: Any = profiled.profiler
        found = results.kineto_results.events()  # as they are: torch's own list of them takes far longer
        names = [(event.name(), str(event.device_type())) for event in found]
        if not is_cuda:
            count = sum(name.startswith("aten::") for name, _ in names)
            return count, count, run.passes
        launched = sum(any(part in name for part in LAUNCHES) for name, _ in names)
        kernels = sum(kind.endswith("CUDA") and not name.startswith(("Memcpy", "Memset")) for name, kind in names)
        return launched, kernels, run.passes

    def must_read(self, side: Side, run: Run) -> float:
        """Bytes of a pass: the layers, the head's rows that are used, keys and values of what each token sees."""
        shape, size = self.shape, self.dtype.itemsize
        layers = sum(weight.numel() for weight in self.model.model.layers.parameters())
        constraint = self.given.constraint if side.lp == "exact" else self.free
        head = LiveHead(self.model.get_output_embeddings().weight, constraint.automaton, self.programs(side))
        a_token = 2 * shape.layers * shape.kv_heads * shape.head_width
        return size * (layers + len(head.ids) * shape.width + run.kv_tokens / run.passes * a_token)

    def _backend(self, side: Side) -> FastBackend | HfBackend:
        constraint = self.given.constraint if side.lp == "exact" else self.free
        given = (self.model, constraint, self.given.end, self.given.vocab_size)
        return FastBackend(*given, is_static=True) if side.backend == "fast" else HfBackend(*given, draws=side.draws)


@dataclass(frozen=True, slots=True)
class Effort:
    """``count``: of molecules; ``most``: tokens of an answer; ``rounds``: how often each side is timed."""

    count: int
    batch: int
    most: int
    rounds: int
    copied_bytes: int = COPIED_BYTES


def bandwidth(device: torch.device, size: int) -> float:
    """Bytes a second that a large copy moves, read and written."""
    source = torch.zeros(size // 4, dtype=torch.float32, device=device)
    target, times = torch.empty_like(source), []
    for _ in range(10):
        if device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        target.copy_(source)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return 2 * size / min(times)


def measured(desk: Desk, effort: Effort) -> tuple[dict[Side, list[Run]], dict[Side, Run]]:
    """Every side in turn, in both directions, behind a short run of each; and what is steady in it."""
    for side in SIDES:
        desk.time(side, [WARM_TOKENS] * desk.batch)
    lengths = desk.time(EXACT, [effort.most] * effort.count).lengths
    found: dict[Side, list[Run]] = {side: [] for side in SIDES}
    for number in range(effort.rounds):
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            found[side].append(desk.time(side, lengths))
            _note(f"{desk.shape.name}, round {number + 1}: {side.name}, {found[side][-1].seconds:.1f} s")
    steady = {side: sorted(runs, key=lambda run: run.seconds)[len(runs) // 2] for side, runs in found.items()}
    for side in (EXACT, FREE):
        steady[side] = desk.time(side, [*lengths, *lengths]).beyond(desk.time(side, lengths))
    return found, steady


def tables(desk: Desk, effort: Effort, copied: float) -> list[Table]:
    found, steady = measured(desk, effort)
    name, rates = desk.shape.name, {side: Spread.of([run.tokens_a_second for run in found[side]]) for side in SIDES}
    lines: list[Row] = []
    for side, runs in found.items():
        pass_ms = figure(statistics.median(run.pass_ms for run in runs))
        cells = (*rates[side].cells(), f"{runs[0].passes:,}", pass_ms, figure(steady[side].pass_ms))
        counted = (f"{count:,.0f}" for count in desk.launches(side))
        lines.append((side.name, *cells, *counted, *_roof(desk.must_read(side, steady[side]), steady[side], copied)))
    launched, passes = desk.shape.reported
    lines.append(("in the reports", "", "", f"{passes:,}", "", "", f"{launched / passes:,.0f}", *[""] * 4))
    head = "side|tokens/s|least .. most|passes|ms a pass|steady ms|launches|kernels|MiB a pass|roof ms|reached"
    ratios: list[Row] = [
        (f"{one.name} / {other.name}", *rates[one].over(rates[other]).cells()) for one, other in COMPARED
    ]
    return [
        Table(f"{name}: {_size(desk)}", tuple(head.split("|")), tuple(lines)),
        Table(f"{name}: ratios of tokens a second", ("what", "times", "least .. most"), tuple(ratios)),
    ]


def _roof(needed: float, run: Run, copied: float) -> Row:
    """Bytes of a pass, the time in which they could be moved, and its share of what the pass took."""
    least_ms = needed / copied * 1e3
    return figure(needed / 2**20), figure(least_ms), f"{least_ms / run.pass_ms:.1%}"


def _size(desk: Desk) -> str:
    shape, count = desk.shape, sum(weight.numel() for weight in desk.model.parameters())
    return (
        f"{count / 1e6:,.0f} million random weights, width {shape.width:,}, {shape.layers} layers, {shape.heads} heads "
        f"of {shape.head_width} with {shape.kv_heads} for keys and values, {shape.inner:,} inside, "
        f"{desk.given.rows:,} rows"
    )


def run_all(path: Path, shapes: Sequence[Shape], device: torch.device, dtype: torch.dtype, effort: Effort) -> None:
    prepared = _gpu_prepare.read(path)
    copied = bandwidth(device, effort.copied_bytes)
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU, so operators for launches"
    said = machine(("torch", "transformers", "numpy"))
    print(
        f"{card}, a copy moves {copied / 1e9:,.0f} GB/s; {said} {dtype}, batches of {effort.batch}, preset qwen3. ",
        end="",
    )
    print(f"The first {effort.count} molecules of data/molecules.tsv with {_gpu_prepare.HEAVY_ATOMS} heavy atoms.\n")
    for shape in shapes:
        desk = Desk(shape, prepared[shape.tokenizer], effort.batch, device, dtype)
        for table in tables(desk, effort, copied):
            print(table.markdown(), flush=True)
        del desk
        if device.type == "cuda":
            torch.cuda.empty_cache()


def _note(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _tiny(path: Path | None) -> None:
    torch.set_num_threads(1)  # threads that wait for each other cost more than they save here
    effort = Effort(count=4, batch=2, most=24, rounds=1, copied_bytes=2**26)
    with tempfile.TemporaryDirectory() as folder:
        file = path or Path(folder) / "prepared.npz"
        if path is None:
            _gpu_prepare.write(file, effort.count)
        run_all(file, TOYS, torch.device("cpu"), torch.float32, effort)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Decoding on a GPU.")
    parser.add_argument("file", nargs="?", type=Path, help="what --prepare wrote")
    parser.add_argument("--prepare", action="store_true", help="write the file")
    parser.add_argument("--tiny", action="store_true", help="toy shapes on the CPU")
    parser.add_argument("--shape", choices=[shape.family for shape in SHAPES], help="this model alone")
    parser.add_argument("--rounds", type=int, default=2, help="how often each side is timed")
    args = parser.parse_args()
    if args.prepare and args.file is None:
        parser.error("--prepare needs a FILE to write")
    return args


def main() -> None:
    args = arguments()
    if args.prepare:
        smiles = _gpu_prepare.write(args.file)
        print(f"{args.file}: {len(smiles)} molecules, the first {smiles[0]}, the last {smiles[-1]}")
    elif args.tiny:
        _tiny(args.file)
    elif args.file is None or not torch.cuda.is_available():
        print("Nothing to time: this one needs a CUDA GPU and a prepared FILE; --help says more.")
    else:
        shapes = [shape for shape in SHAPES if args.shape in (None, shape.family)]
        effort = Effort(_gpu_prepare.MOLECULES, 32, MOST_TOKENS, args.rounds)
        run_all(args.file, shapes, torch.device("cuda"), torch.bfloat16, effort)


if __name__ == "__main__":
    main()
