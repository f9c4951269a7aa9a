"""Trains one embedded model for a stated time, on a GPU or a CPU; it can be stopped and resumed at any moment.

    python -m tools.training.train --model demo-qwen --hours 1

``hours`` is the total time over all runs: the same command resumes a stopped training, and a larger figure continues a
finished one. The place in the recipe (stage, learning rate) is the share of that time. ``texts`` limits the texts seen
instead, for equal trainings however busy the machine was.
A folder holds ``checkpoint.safetensors`` (float32, with the state), ``log.jsonl``, and ``snapshots/`` in half
precision, one for each examination. Imports torch, transformers, numpy and safetensors only.
"""

from __future__ import annotations

import json
import logging
import time
import timeit
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.errors import DriftscopeError
from engine.models.devices import pick_device
from engine.models.shipped import LIVE_IDS, ROWS, TAIL_ROW
from engine.paths import cache_folder
from tools.terminal import ToolParser, emit_json, processor, run_tool
from tools.training import checkpoint
from tools.training.batches import Batches, LiveIds, TrainBatch
from tools.training.evaluate import Examination
from tools.training.network import Losses, Network, optimisers
from tools.training.packed import BinIds, PackedCorpus
from tools.training.recipes import Recipe, recipe_of

log = logging.getLogger(__name__)

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
CHECKPOINT, LOG, SNAPSHOTS = "checkpoint.safetensors", "log.jsonl", "snapshots"
CLIP, LOG_STEPS, SAVE_S = 1.0, 25, 120.0
WARM_STEPS = 40
"""Steps after every start in which the learning rate rises: the optimiser's moments begin again."""


@dataclass(frozen=True, slots=True)
class Options:
    """The user's options. ``precision``, ``device``: auto takes the faster one available."""

    hours: float = 0.0
    texts: int = 0
    device: str = "auto"
    precision: str = "auto"
    threads: int = 0  # 0: as many as torch takes
    compile: bool = False
    optimiser: str = "muon"
    examine_s: float = 240.0
    prompts: int = 96
    tokens_a_step: int = 0  # 0: the recipe's
    snapshots: int = 0  # kept, the newest; 0 keeps all
    start: Path | None = None  # a checkpoint of another recipe to go on from, where the folder has none


@dataclass(slots=True)
class TrainingState:
    """The part of a checkpoint besides the weights."""

    alias: str
    recipe: str
    tokens: int = 0
    texts: int = 0
    steps: int = 0
    spent_s: float = 0.0
    hardware: list[str] = field(default_factory=list)
    optimisers: list[str] = field(default_factory=list)
    random: dict[str, Any] = field(default_factory=dict)
    pass_rate: float = 0.0


class Training:
    """One training in a folder, from its checkpoint if it has one."""

    def __init__(self, recipe: Recipe, packed: Path, held_out: Path, folder: Path, options: Options) -> None:
        if options.hours <= 0 and options.texts <= 0:
            raise DriftscopeError("a training needs an end", "Give --hours or --texts, more than 0")
        if options.threads:
            torch.set_num_threads(options.threads)
        self.recipe, self.folder, self.options = recipe, folder, options
        corpus = PackedCorpus(packed, recipe.tokenizer, framed=True, keep_zeros=recipe.keep_zeros)
        self.live = LiveIds(corpus)
        self.device = pick_device(options.device)
        self.precision = faster_precision(self.device) if options.precision == "auto" else options.precision
        self.network = Network(recipe.shape, len(self.live), self.live.end, self.live.tail_count, recipe.seed)
        self.state = TrainingState(recipe.alias, repr(recipe))
        tokens = options.tokens_a_step or recipe.tokens_a_step
        self.batches = Batches(corpus, self.live, tokens, recipe.seed, canonical=recipe.canonical)
        if recipe.bin_waves and isinstance(corpus.numbers, BinIds):
            bins = self.live.local(np.array(corpus.numbers.ids))
            self.network.begin_as_waves(torch.from_numpy(bins), recipe.bin_waves)
        if (folder / CHECKPOINT).is_file():
            self._take_up(folder / CHECKPOINT)
        elif options.start is not None:
            self._take_up(options.start)
        self.network.to(self.device)
        self.body = torch.compile(self.network.body, dynamic=True) if options.compile else self.network.body
        self.optimisers = optimisers(self.network, recipe.learning_rate, recipe.weight_decay, options.optimiser)
        self.examination = Examination(PackedCorpus(held_out, recipe.tokenizer), self.live, options.prompts)
        hardware = f"{describe(self.device)}, {self.precision}"
        log.info("training %s on %s", recipe.alias, hardware)
        for noted, name in ((self.state.hardware, hardware), (self.state.optimisers, options.optimiser)):
            if name not in noted:
                noted.append(name)

    @property
    def share(self) -> float:
        """How much of the training is over."""
        if self.options.texts:
            return min(1.0, self.state.texts / self.options.texts)
        return min(1.0, self.state.spent_s / (3600 * self.options.hours))

    def run(self) -> TrainingState:
        """Train until the time is over. A stop by Ctrl-C saves first."""
        if self.share >= 1:
            log.info("%s is done; give more --hours or --texts to continue", self.recipe.alias)
            return self.state
        self.folder.mkdir(parents=True, exist_ok=True)
        lap = time.monotonic()
        self._last = dict.fromkeys(("save", "examine", "show"), lap)
        recent: list[Losses] = []
        started_steps = self.state.steps
        try:
            while self.share < 1:
                for batch in self.batches.draw(self.recipe.stage(self.share)):
                    recent.append(self._step(batch, self.state.steps - started_steps))
                    now = time.monotonic()
                    self.state.spent_s, lap = self.state.spent_s + now - lap, now
                    if self.state.steps % LOG_STEPS == 0:
                        self._log_losses(recent)
                        recent = []
                    if self._due("save", SAVE_S):
                        self.save()
                    if self._due("examine", self.options.examine_s):
                        self.examine()
                    if self.share >= 1:
                        break
            self.examine()
        finally:
            self.save()
        return self.state

    def examine(self) -> None:
        """Ask the held-out prompts, log the rate, keep a snapshot."""
        rate = self.examination.rate(self.network)
        self.state.pass_rate = rate.share
        log.info("%s after %.2f M tokens: %s", self.recipe.alias, self.state.tokens / 1e6, rate.line())
        self._write_log(rate.as_json())
        path = self.folder / SNAPSHOTS / f"{self.state.tokens:012d}.safetensors"
        checkpoint.save(path, self.network.weights(), asdict(self.state), torch.float16)
        if self.options.snapshots:
            for old in sorted(path.parent.glob("*.safetensors"))[: -self.options.snapshots]:
                old.unlink()

    def save(self) -> None:
        self.state.random = self.batches.state()
        checkpoint.save(self.folder / CHECKPOINT, self.network.weights(), asdict(self.state), torch.float32)

    def _due(self, event: str, every_s: float) -> bool:
        now = time.monotonic()
        if now - self._last[event] < every_s:
            return False
        self._last[event] = now
        return True

    def _step(self, batch: TrainBatch, steps_since_start: int) -> Losses:
        rate = self.recipe.rate(self.share) * min(1.0, (steps_since_start + 1) / WARM_STEPS)
        losses = self.network.losses(self.body, batch, PRECISIONS[self.precision])
        losses.total.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), CLIP)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate
            optimiser.step()
            optimiser.zero_grad()
        self.state.tokens += batch.tokens
        self.state.texts += batch.texts
        self.state.steps += 1
        return losses

    def _take_up(self, path: Path) -> None:
        weights, state = checkpoint.load(path)
        if (ids := weights.pop(LIVE_IDS, None)) is not None:  # of a shipped model: rows that it lacks begin as its tail
            rows = dict(zip(ids.int().tolist(), weights[ROWS], strict=True))
            weights[ROWS] = torch.stack([rows.get(id_, weights[TAIL_ROW]) for id_ in self.live.ids.tolist()])
        self.state = TrainingState(**state)
        if path == self.options.start:
            self.state.alias, self.state.recipe = self.recipe.alias, repr(self.recipe)
        if self.state.alias != self.recipe.alias:
            raise DriftscopeError(
                f"{self.folder} holds a training of {self.state.alias}, not of {self.recipe.alias}",
                "Give another --out folder",
            )
        if self.state.recipe != repr(self.recipe):
            log.warning("the recipe has changed since this training began; the new one is used")
            self.state.recipe = repr(self.recipe)
        self.network.load_weights(weights)
        self.batches.restore(self.state.random)
        log.info("resuming after %.2f M tokens, %.0f s", self.state.tokens / 1e6, self.state.spent_s)

    def _log_losses(self, recent: list[Losses]) -> None:
        structure, numbers = (
            float(torch.stack([getattr(losses, name) for losses in recent]).mean()) for name in ("structure", "numbers")
        )
        rate = self.recipe.rate(self.share)
        stage = self.recipe.stage(self.share)
        self._write_log({"structure_nat": structure, "numbers_nat": numbers, "rate": rate, **asdict(stage)})
        if self._due("show", 10.0):
            log.info(
                "%s: %.1f %%, %.2f M tokens, structure %.4f nat, numbers %.3f nat",
                *(self.recipe.alias, 100 * self.share, self.state.tokens / 1e6, structure, numbers),
            )

    def _write_log(self, entry: dict[str, Any]) -> None:
        progress = {
            "tokens": self.state.tokens,
            "texts": self.state.texts,
            "step": self.state.steps,
            "spent_s": round(self.state.spent_s, 1),
        }
        with (self.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps({**progress, **entry}) + "\n")


def faster_precision(device: torch.device) -> str:
    """``bf16`` on a GPU; on a CPU whichever multiplies faster, measured: some have units for it, some emulate it."""

    def matmul_s(name: str) -> float:
        left, right = (torch.ones(size, dtype=PRECISIONS[name]) for size in ((4096, 256), (256, 1024)))
        return min(timeit.repeat(lambda: torch.mm(left, right), number=1))

    return min(PRECISIONS, key=matmul_s) if device.type == "cpu" else "bf16"


def describe(device: torch.device) -> str:
    """For a card: the GPU's name, or the CPU's and the threads in use."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU ({processor()}), {torch.get_num_threads()} threads"


def main(argv: Sequence[str] | None = None) -> int:
    description = "Train an embedded model on the packed corpus, or continue where the last call stopped."
    parser = ToolParser(prog="python -m tools.training.train", description=description)
    add = parser.add_argument
    add("--model", required=True, help="alias of a recipe in tools/training/recipes.py, as demo-qwen")
    end = parser.add_mutually_exclusive_group(required=True)
    end.add_argument("--hours", type=float, default=0.0, help="time of the whole training, over all calls")
    end.add_argument("--texts", type=int, default=0, help="or its length in texts, over all calls")
    add("--data", type=Path, help="the packed corpus (default: in the cache)")
    add("--held-out", type=Path, help="the packed held-out molecules (default: in the cache)")
    add("--out", type=Path, help="folder of the training (default: in the cache)")
    add("--start", type=Path, metavar="FILE", help="begin from another recipe's checkpoint")
    add("--device", default="auto", help="auto (a GPU if there is one), cpu, cuda")
    add("--precision", default="auto", choices=("auto", "fp32", "bf16"), help="auto: the faster one")
    add("--threads", type=int, default=0, help="0: one per core")
    add("--compile", action="store_true", help="compile the body: faster, needs a C++ compiler")
    add("--optimiser", default="muon", choices=("muon", "adamw"), help="of the body's matrices")
    add("--tokens-a-step", type=int, default=0, help="0: the recipe's; more on a GPU")
    add("--examine-every", type=float, default=240.0, dest="examine_s", metavar="S", help="seconds between evaluations")
    add("--prompts", type=int, default=96, help="held-out molecules per evaluation")
    add("--snapshots", type=int, default=0, help="how many of the newest to keep; 0 keeps all")
    add("--json", action="store_true", help="the result as JSON")
    args = parser.parse_args(argv)

    def train() -> None:
        recipe = recipe_of(args.model)
        packed = args.data or cache_folder() / "packed"
        held_out = args.held_out or cache_folder() / "packed-held-out"
        if missing := [folder for folder in (packed, held_out) if not folder.is_dir()]:
            fix = "Make one with `python -m tools.training.packing`; docs/training.md says how"
            raise DriftscopeError(f"no packed corpus at {missing[0]}", fix)
        out = args.out or cache_folder() / "training" / recipe.alias
        options = Options(**{field.name: getattr(args, field.name) for field in fields(Options)})
        state = Training(recipe, packed, held_out, out, options).run()
        if args.json:
            names = ("alias", "tokens", "texts", "steps", "spent_s", "pass_rate")
            emit_json({name: getattr(state, name) for name in names})
        else:
            print(f"{state.tokens:,} tokens, {state.pass_rate:.1%} of the held-out prompts right, in {out}")

    return run_tool(train)


if __name__ == "__main__":
    raise SystemExit(main())
