"""What a CUDA card is asked in eight minutes: does it write what a CPU writes, and how long does a step take?

    make gpu                            with its own .venv; make gpu PY=python3 with any Python that has what is needed
    python -m tools.bench.card --tiny   toy shapes on the CPU in some seconds: whether it runs, no more

1. The demo models write the same molecules on the CPU and on the card, in both backends and under each LP, in float32:
   token for token, or the first token that differs is named, and the exit status is 1.
2. Models of real shapes with random weights (those of ``tools/bench/gpu.py``, bfloat16) write answers of the lengths
   that the exact LP gives them, at each batch, under no LP, the exact LP, and plain ``generate``, in rounds; Qwen3's
   shape in decimals and in 258 bins. A *step* is a pass through the layers with its head and its draw, after the
   set-up: what the same molecules once more add. ``generate`` has none, and is timed whole, in decimals, behind the
   others of its round. An interval is Student's, over rounds.

What would take longer than the budget leaves is left out, and named; the JSON file has all that was measured so far.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.decode.fast import FastBackend
from engine.decode.generation import Generation
from engine.decode.plan import BackendName, Plan, preset
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.user_files import writing
from tools.bench._measure import figure, machine, note, show
from tools.bench._sides import EXACT, FREE, HF_OWN, Side
from tools.bench._sized import SizedModel
from tools.bench.bins import FORMS
from tools.bench.gpu import SHAPES, WARM_TOKENS, run_side
from tools.terminal import ToolParser, run_tool

BUDGET_S, ROUNDS, BATCHES, TOKENS = 480, 3, (1, 32, 256), 256
MODELS, LPS = ("demo-qwen", "demo-llama"), ("exact", "none", "group-v2.1", "guarded")
GROUPS = ((FREE, EXACT), (HF_OWN,))
"""The sides that take turns; the last is the first that is left out."""
IN_BINS = "258 bins"
WRITTEN = 8
"""Molecules that are written on both."""
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""Where Student's t leaves 2.5 % beyond, by rounds."""
TOY: dict[str, Any] = {"width": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 32, "inner": 128}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One model under one LP by one backend on the device, against the fast backend on the CPU."""

    model: str
    lp: str
    backend: str
    molecules: int
    tokens: int
    first_difference: str  # empty: the same tokens


@dataclass(frozen=True, slots=True)
class Timing:
    model: str
    batch: int
    side: str
    round: int  # from 1
    step_ms: float
    tokens_per_s: float
    passes: int
    notes: tuple[str, ...]  # such as a batch that was halved, where memory was short


@dataclass(frozen=True, slots=True)
class Mean:
    """Of the rounds, with its 95 % interval; without one where there was a single round."""

    value: float
    low: float | None
    high: float | None

    @staticmethod
    def of(values: Sequence[float]) -> Mean:
        mean = statistics.fmean(values)
        if len(values) < 2:
            return Mean(mean, None, None)
        reach = STUDENT[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
        return Mean(mean, mean - reach, mean + reach)

    @property
    def cells(self) -> tuple[str, str]:
        if self.low is None or self.high is None:
            return figure(self.value), "one round"
        return figure(self.value), f"{figure(self.low)} .. {figure(self.high)}"


@dataclass(slots=True)
class Report:
    """What was found so far; each addition writes the file anew."""

    path: Path
    machine: str
    device: str
    deadline: float  # of the monotonic clock
    comparisons: list[Comparison] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    dearest: dict[str, float] = field(default_factory=dict)  # seconds, by what was done

    def has_time(self, kind: str, what: str) -> bool:
        """Whether one more of a kind fits the budget, were it as long as the longest so far."""
        fits = time.monotonic() + self.dearest.get(kind, 0.0) <= self.deadline
        if not fits:
            self.left_out.append(what)
            self.save()
        return fits

    def took(self, kind: str, began: float) -> None:
        self.dearest[kind] = max(self.dearest.get(kind, 0.0), time.monotonic() - began)
        self.save()

    def save(self) -> None:
        document = {
            "machine": self.machine,
            "device": self.device,
            "comparisons": [asdict(comparison) for comparison in self.comparisons],
            "steps": [
                {"model": model, "batch": batch, "side": side, "rounds": len(rounds)}
                | {name: asdict(mean) for name, mean in means(rounds).items()}
                for (model, batch, side), rounds in self.cells().items()
            ],
            "timings": [asdict(timing) for timing in self.timings],
            "left_out": self.left_out,
        }
        with writing(self.path) as file:
            file.write(json.dumps(document, indent=1, allow_nan=False).encode())

    def cells(self) -> dict[tuple[str, int, str], list[Timing]]:
        cells: dict[tuple[str, int, str], list[Timing]] = {}
        for timing in self.timings:
            cells.setdefault((timing.model, timing.batch, timing.side), []).append(timing)
        return dict(sorted(cells.items(), key=lambda cell: cell[0][:2]))


def means(rounds: Sequence[Timing]) -> dict[str, Mean]:
    return {name: Mean.of([getattr(timing, name) for timing in rounds]) for name in ("step_ms", "tokens_per_s")}


# --- the same tokens --------------------------------------------------------------------------------------------------
def answers(
    loaded: LoadedModel, lp: str, backend: BackendName, limit: int, *, is_static: bool
) -> list[tuple[int, ...]]:
    molecules = [parse_smiles(smiles) for smiles in load_run_set(WRITTEN)]
    plan = Plan(lp, sampling=preset("qwen3"), backend=backend, batch_size=WRITTEN, limit=limit)
    generation = Generation(loaded, molecules, plan)
    if isinstance(generation.backend, FastBackend):
        generation.backend.is_static = is_static
    return [sample.token_ids for sample in generation.run()]


def compared(model: str, device: str, limit: int, report: Report) -> Iterator[Comparison]:
    """Under each LP: rows that follow each other on the CPU, against steps of fixed shapes and ``generate``."""
    entry = load_registry().find(model)
    on_cpu, on_device = load_model(entry, "cpu", "float32"), load_model(entry, device, "float32")
    for lp in LPS:
        if not report.has_time("comparison", f"{model} under {lp} on both"):
            continue
        began = time.monotonic()
        expected = answers(on_cpu, lp, "fast", limit, is_static=False)
        backends: tuple[BackendName, ...] = ("fast", "hf")
        for backend in backends:
            found = answers(on_device, lp, backend, limit, is_static=True)
            yield Comparison(model, lp, backend, WRITTEN, sum(map(len, expected)), first_difference(expected, found))
        report.took("comparison", began)
        note(f"{model}, {lp}: compared")


def first_difference(expected: Sequence[Sequence[int]], found: Sequence[Sequence[int]]) -> str:
    for number, (right, other) in enumerate(zip(expected, found, strict=True)):
        for place, (id_, other_id) in enumerate(zip(right, other, strict=False)):
            if id_ != other_id:
                return f"molecule {number}, token {place}: {id_} on the CPU, {other_id} on the device"
        if len(right) != len(other):
            return f"molecule {number}: {len(right)} tokens on the CPU, {len(other)} on the device"
    return ""


# --- steps ------------------------------------------------------------------------------------------------------------
def time_round(number: int, models: Sequence[SizedModel], batches: Sequence[int], tokens: int, report: Report) -> None:
    """Every side at every batch of every model, as far as there is time; the sides turn round in every second round."""
    for group, model, batch in product(GROUPS, models, batches):
        if HF_OWN in group and model.shape.name.endswith(IN_BINS):
            continue
        for side in group if number % 2 else reversed(group):
            what = f"{model.shape.name}, batch {batch}, {side.name}, round {number}"
            kind = f"{model.shape.name}, {side.name}"
            if report.has_time(kind, what):
                began = time.monotonic()
                report.timings.append(time_step(model, side, batch, tokens, number))
                report.took(kind, began)
                note(f"{what}: {report.timings[-1].step_ms:.2f} ms per step")


def time_step(model: SizedModel, side: Side, batch: int, tokens: int, number: int) -> Timing:
    """Answers have the lengths that the exact LP gives them, at most so many tokens: without it the end is blocked."""
    run_side(model, side, [WARM_TOKENS] * batch, batch)
    limits = [tokens] * batch
    if model.shape.name.endswith(IN_BINS) and side.lp == FREE.lp:
        limits = list(run_side(model, EXACT, limits, batch).lengths)
    once = run_side(model, side, limits, batch)
    seconds, passes, written, notes = once.seconds, once.passes, sum(once.lengths), once.counters.notes
    if side.backend == "fast":
        twice = run_side(model, side, limits * 2, batch)
        seconds, passes = twice.seconds - seconds, twice.passes - passes
        written, notes = sum(twice.lengths) - written, notes + twice.counters.notes
    step_ms, rate = 1e3 * seconds / passes, written / seconds
    return Timing(model.shape.name, batch, side.name, number, step_ms, rate, passes, tuple(dict.fromkeys(notes)))


# --- what is shown ----------------------------------------------------------------------------------------------------
def show_report(report: Report) -> None:
    compared_rows = [
        (each.model, each.lp, each.backend, f"{each.tokens:,}", each.first_difference or "the same")
        for each in report.comparisons
    ]
    title = f"{WRITTEN} molecules on the CPU and on {report.device}, float32"
    show(title, "model|lp|backend|tokens|on both", compared_rows)
    step_rows = []
    for (model, batch, side), rounds in report.cells().items():
        step, rate = means(rounds).values()
        free = report.cells().get((model, batch, FREE.name))
        over = f"{rate.value / means(free)['tokens_per_s'].value:.2f}" if free else ""
        step_rows.append((model, str(batch), side, *step.cells, *rate.cells, over, str(len(rounds))))
    head = "model|batch|side|ms per step|95 % interval|tokens/s|95 % interval|over none|rounds"
    show(f"A step on {report.device}", head, step_rows)
    for line in sorted({f"{each.model}, batch {each.batch}: {text}" for each in report.timings for text in each.notes}):
        print(line)
    if report.left_out:
        print(f"Left out, for want of time: {'; '.join(report.left_out)}.")
    print(f"All of it: {report.path}")


def options() -> argparse.Namespace:
    parser = ToolParser(prog="card", description="What a machine with a CUDA card is asked in eight minutes.")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds, after which nothing is begun")
    parser.add_argument("--rounds", type=int, choices=[1, *STUDENT], default=ROUNDS)
    parser.add_argument("--batch", type=int, action="append", help="rows at a time; may be repeated")
    folder = Path(os.environ.get("OUT") or ".")
    parser.add_argument(
        "--out", type=Path, default=folder / "gpu.json", help="the JSON file (gpu.json in $OUT, or here)"
    )
    parser.add_argument("--tiny", action="store_true", help="toy shapes on the CPU")
    return parser.parse_args()


def measure(args: argparse.Namespace) -> Report:
    device, dtype, tokens, shapes, batches = "cuda", torch.bfloat16, TOKENS, list(SHAPES), args.batch or BATCHES
    if args.tiny:
        torch.set_num_threads(1)  # threads that wait for each other cost more than they save here
        device, dtype, tokens, batches = "cpu", torch.float32, 24, args.batch or (1, 2)
        shapes = [replace(shape, name=f"a toy of {shape.name}", **TOY) for shape in SHAPES]
    name = torch.cuda.get_device_name() if device == "cuda" else "the CPU in place of a card"
    report = Report(args.out, machine("torch", "transformers", "numpy"), name, time.monotonic() + args.budget)
    report.save()
    for model in MODELS:
        for comparison in compared(model, device, tokens, report):
            report.comparisons.append(comparison)
    sized = [SizedModel(shape, torch.device(device), dtype) for shape in shapes]
    for of_decimals in [each for each in sized if each.shape.family == "qwen3"]:
        binned = of_decimals.in_form(*FORMS[IN_BINS])
        binned.shape = replace(binned.shape, name=f"{binned.shape.name}, {IN_BINS}")
        sized.insert(sized.index(of_decimals) + 1, binned)
    for number in range(1, args.rounds + 1):
        time_round(number, sized, batches, tokens, report)
    return report


def main() -> int:
    args = options()
    if not args.tiny and not torch.cuda.is_available():
        print("card: torch sees no CUDA card on this machine; --tiny tries the same on its CPU", file=sys.stderr)
        return 2
    report: list[Report] = []
    status = run_tool(lambda: report.append(measure(args)))
    if status:
        return status
    print(f"{report[0].device}. {report[0].machine} Preset qwen3.\n")
    show_report(report[0])
    return int(any(each.first_difference for each in report[0].comparisons))


if __name__ == "__main__":
    sys.exit(main())
