"""The sides of a benchmark of decoding: a backend, an LP and a way to draw, and one timing of it.

Needs torch and transformers alone: ``gpu`` runs where nothing else is installed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from engine.decode.fast import FastBackend
from engine.decode.hf import HfBackend
from engine.decode.plan import DecodeOptions, Request, preset
from engine.decode.steps import Counters, Step

SAMPLING = preset("qwen3")
OWN: dict[str, Any] = {"do_sample": True} | {of: getattr(SAMPLING, of) for of in ("temperature", "top_k", "top_p")}


class OwnDraws(HfBackend):
    """With the draws of ``generate`` itself, from torch's global generator."""

    def _drawing(self, rows: object, options: DecodeOptions, width: int) -> tuple[list[Any], dict[str, Any]]:
        torch.manual_seed(options.seed)
        return [], OWN


@dataclass(frozen=True, slots=True)
class Side:
    backend: Literal["fast", "hf", "peer"]
    lp: str
    draws: Literal["keyed", "generate"] = "keyed"

    @property
    def name(self) -> str:
        if self.backend == "fast":
            return f"fast {self.lp}"
        return f"hf {self.lp}, {'our' if self.draws == 'keyed' else 'its own'} draws"

    def made(self, model: Any, constraint: Any, end: int, vocab_size: int) -> FastBackend | HfBackend:
        kind = FastBackend if self.backend == "fast" else HfBackend if self.draws == "keyed" else OwnDraws
        return kind(model, constraint, end, vocab_size)


EXACT, FREE, POSITION = Side("fast", "exact"), Side("fast", "none"), Side("fast", "group-v2.1")
HF_OWN, HF_KEYED, HF_EXACT = Side("hf", "none", "generate"), Side("hf", "none"), Side("hf", "exact")


@dataclass(frozen=True, slots=True)
class Run:
    """One timing. ``seen``: for each token that took a pass, how many tokens were before it, summed."""

    seconds: float
    lengths: tuple[int, ...]  # tokens of each molecule's answer
    counters: Counters
    seen: int

    @property
    def tokens_per_s(self) -> float:
        return sum(self.lengths) / self.seconds

    @property
    def passes(self) -> int:
        return self.counters.forward_passes


def timed(
    side: Side,
    backend: FastBackend | HfBackend,
    requests: Sequence[Request],
    batch: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Run:
    counters = Counters()
    began = clock()
    events = list(backend.run(requests, DecodeOptions(SAMPLING, 0, batch), counters))
    seconds = clock() - began
    steps = [event for event in events if isinstance(event, Step)]
    lengths = Counter(step.sample for step in steps)
    passed = (step for step in steps if side.backend == "hf" or not step.forced)
    seen = sum(len(requests[step.sample].prompt) + step.pos for step in passed)
    return Run(seconds, tuple(lengths[number] for number in range(len(requests))), counters, seen)
