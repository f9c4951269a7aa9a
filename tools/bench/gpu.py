"""Decoding on a GPU with models of real shapes and random weights: milliseconds per pass, launches, and the roofline.

    python -m tools.bench.gpu            batches of 1, 32 and 256
    python -m tools.bench.gpu --tiny     toy shapes on the CPU in some seconds: whether it runs, no more

Every side writes as many tokens for each molecule as the exact LP takes (without an LP the end token is blocked), in
bfloat16, preset qwen3. A *pass* is one run through the layers, prefills among them; under the exact LP
the fast backend needs none for what is forced. *Steady* is a pass after the set-up: what the same molecules once more
add to a run that has captured its graphs. Launches are what the host starts (a captured graph is one), kernels what the
GPU runs, both counted by torch.profiler, after the set-up too. The *roof* is the time in which the card could move
what a pass must read (the layers' weights, the rows of the head that are used, keys and values); a copy says how fast.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile

from engine.decode.fast import FastBackend
from tools.bench._measure import figure, machine, note, show, spread
from tools.bench._sides import EXACT, FREE, HF_EXACT, HF_KEYED, HF_OWN, Run, Side, timed
from tools.bench._sized import HEAVY_ATOMS, MOLECULES, Shape, SizedModel

WARM_TOKENS, MOST_TOKENS, BATCHES = 8, 1_500, (1, 32, 256)
PROFILED = (16, 40)
"""Tokens per answer in two runs that capture the same graphs; what the longer one launches more belongs to passes."""
LAUNCHES = ("LaunchKernel", "GraphLaunch")
SIDES = (EXACT, FREE, HF_OWN, HF_KEYED, HF_EXACT)  # the first three if not all are asked for
SHAPES = {
    Shape("qwen3", 1_024, 28, 16, 8, 3_072, name="Qwen3-0.6B", head_dim=128): (2_912_920, 1_730),
    # Of the reports' LLaMA only its 380 million parameters are known; 16 layers fit its launches per pass.
    Shape("llama", 1_024, 16, 16, 8, 4_096, name="LLaMA 380M"): (961_645, 1_292),
}
"""With the reports' launches and passes."""


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def bandwidth(device: torch.device, size: int) -> float:
    """Bytes per second that a large copy moves, read and written."""
    source = torch.zeros(size // 4, dtype=torch.float32, device=device)
    target, times = torch.empty_like(source), []
    for _ in range(10):
        wait(device)
        began = time.perf_counter()
        target.copy_(source)
        wait(device)
        times.append(time.perf_counter() - began)
    return 2 * size / min(times)


def run_side(model: SizedModel, side: Side, limits: Sequence[int], batch: int) -> Run:
    def clock() -> float:
        wait(model.device)
        return time.perf_counter()

    return timed(side, model.backend(side), model.requests(side.lp, limits), batch, clock)


def launches(model: SizedModel, side: Side, batch: int) -> tuple[float, float]:
    """Launches and kernels in a pass; without a GPU, operators in place of both."""
    is_cuda, counts = model.device.type == "cuda", []
    for tokens in PROFILED:
        activity = ProfilerActivity.CUDA if is_cuda else ProfilerActivity.CPU
        threads: Any = _ExperimentalConfig(profile_all_threads=True)  # ``generate`` runs in one of its own
        with profile(activities=[activity], experimental_config=threads) as profiled:
            run = run_side(model, side, [tokens] * batch, batch)
        results: Any = profiled.profiler
        events = results.kineto_results.events()  # as they are: torch's own list of them takes far longer
        names = [(event.name(), str(event.device_type())) for event in events]
        if is_cuda:
            launched = sum(any(part in name for part in LAUNCHES) for name, _ in names)
            kernels = sum(kind.endswith("CUDA") and not name.startswith(("Memcpy", "Memset")) for name, kind in names)
        else:
            launched = kernels = sum(name.startswith("aten::") for name, _ in names)
        counts.append((launched, kernels, run.passes))
    (few, few_kernels, few_passes), (many, many_kernels, many_passes) = counts
    passes = many_passes - few_passes
    return (many - few) / passes, (many_kernels - few_kernels) / passes


def measure(
    model: SizedModel,
    reported: tuple[int, int],
    sides: Sequence[Side],
    batch: int,
    limits: Sequence[int],
    rounds: int,
    copied: float,
) -> None:
    count, shape = len(limits), model.shape
    for side in sides:
        run_side(model, side, [WARM_TOKENS] * batch, batch)
    lengths = run_side(model, EXACT, limits, batch).lengths
    timings: dict[Side, list[Run]] = {side: [] for side in sides}
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            timings[side].append(run_side(model, side, lengths, batch))
            note(f"{shape.name}, batch {batch}, round {number + 1}: {side.name}, {timings[side][-1].seconds:.1f} s")
    rates = {side: [run.tokens_per_s for run in runs] for side, runs in timings.items()}
    rows = []
    for side, runs in timings.items():
        middle = sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]
        seconds, passes, seen = middle.seconds, middle.passes, middle.seen
        if side.backend == "fast":
            twice, once = (run_side(model, side, some, batch) for some in ([*lengths, *lengths], lengths))
            seconds, passes, seen = twice.seconds - once.seconds, twice.passes - once.passes, twice.seen - once.seen
        needed = model.must_read(side.lp, seen / passes)
        least_ms, steady_ms = needed / copied * 1e3, seconds / passes * 1e3
        pass_ms = statistics.median(run.seconds / run.passes for run in runs) * 1e3
        cells = (*spread(rates[side]), f"{runs[0].passes:,}", figure(pass_ms), figure(steady_ms))
        counted = (f"{count:,.0f}" for count in launches(model, side, batch))
        roof = (figure(needed / 2**20), figure(least_ms), f"{least_ms / steady_ms:.1%}")
        rows.append((side.name, *cells, *counted, *roof))
    launched, passes = reported
    rows.append(("in the reports", "", "", f"{passes:,}", "", "", f"{launched / passes:,.0f}", "", "", "", ""))
    weights = sum(weight.numel() for weight in model.model.parameters()) / 1e6
    title = (
        f"{shape.name}, {count} molecules in batches of {batch}: {weights:,.0f} million random weights, width "
        f"{shape.width:,}, {shape.layers} layers, {shape.heads} heads of {shape.head_dim} with {shape.kv_heads} for "
        f"keys and values, {shape.inner:,} inside, {model.model.config.vocab_size:,} rows"
    )
    head = "side|tokens/s|least .. most|passes|ms per pass|steady ms|launches|kernels|MiB per pass|roof ms|reached"
    show(title, head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Decoding on a GPU.")
    parser.add_argument("--tiny", action="store_true", help="toy shapes on the CPU")
    parser.add_argument("--shape", choices=[shape.family for shape in SHAPES], help="this model alone")
    parser.add_argument("--batch", type=int, action="append", help="rows at a time; may be repeated")
    parser.add_argument("--whole", action="store_true", help="other LPs and draws under generate as well")
    parser.add_argument("--rounds", type=int, default=2, help="how often each side is timed")
    args = parser.parse_args()
    if not args.tiny and not torch.cuda.is_available():
        print("Nothing to time: this one needs a CUDA GPU; --help says more.")
        return
    device, dtype, copied_bytes = torch.device("cuda"), torch.bfloat16, 4 * 2**30
    shapes = {shape: reported for shape, reported in SHAPES.items() if args.shape in (None, shape.family)}
    sides, batches, rounds = SIDES if args.whole else SIDES[:3], args.batch or BATCHES, args.rounds
    molecules, tokens = MOLECULES, MOST_TOKENS
    if args.tiny:
        torch.set_num_threads(1)  # threads that wait for each other cost more than they save here
        device, dtype, copied_bytes = torch.device("cpu"), torch.float32, 2**26
        sides, batches, rounds, molecules, tokens = SIDES, [2], 1, 4, 24
        toy: dict[str, Any] = {"width": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 32, "inner": 128}
        shapes = {replace(shape, name=f"a toy of {shape.name}", **toy): reported for shape, reported in shapes.items()}
    copied = bandwidth(device, copied_bytes)
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU, so operators for launches"
    print(
        f"{card}, a copy moves {copied / 1e9:,.0f} GB/s; {machine('torch', 'transformers', 'numpy')} {dtype}, preset "
        f"qwen3. Molecules of data/molecules.tsv with {HEAVY_ATOMS} heavy atoms, {MOLECULES} at most, then again.\n"
    )
    for shape, reported in shapes.items():
        model = SizedModel(shape, device, dtype)
        backend = model.backend(FREE)
        assert isinstance(backend, FastBackend)
        if device.type == "cuda":
            note(f"{shape.name}: {backend.why_plain or 'kernels of our own'}")
        for batch in batches:
            limits = [tokens] * max(batch, molecules if batch > 1 else 1)
            measure(model, reported, sides, batch, limits, rounds, copied)
        if device.type == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
