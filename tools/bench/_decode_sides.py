"""The sides that are compared: one model, one batch of molecules, and each way to write their answers.

*Equal work*: each side writes, for each molecule, as many tokens as the exact LP's answer has with the same seed. Where
nothing would end an answer there, the end token is blocked. What is timed is decoding alone: prompts, programs and
grammars are there before.
"""

from __future__ import annotations

import copy
import functools
import importlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from unittest import mock

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from engine.decode.fast import FastBackend
from engine.decode.head import LiveHead
from engine.decode.hf import Draws, HfBackend
from engine.decode.hf_batch import KeyedDraw
from engine.decode.presets import preset
from engine.decode.requests import default_limit, requests_for
from engine.decode.steps import Counters, DecodeOptions, Request, Step, Stop
from engine.decode.work import Work
from engine.lp.constraint import Constraint, LpParameters, build_constraint
from engine.lp.driver import State
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.records import Molecule

PRESET = "qwen3"
SAMPLING = preset(PRESET)
SEED = 0
WARM_TOKENS = 6

Backend = Literal["fast", "hf", "peer"]


@dataclass(frozen=True, slots=True)
class Side:
    """``rounds``: how often it is timed at least. ``is_slow``: ``generate``'s own sampler on a large batch."""

    backend: Backend
    lp: str
    draws: Draws = "keyed"
    batches: tuple[int, ...] = (1, 32)
    rounds: int = 2
    is_extra: bool = False  # timed only where it is named

    @property
    def name(self) -> str:
        draws = "" if self.backend == "fast" else f", {'our' if self.draws == 'keyed' else 'its own'} draws"
        return f"{'fast' if self.backend == 'fast' else 'hf'} {self.lp}{draws}"

    def is_slow(self, batch: int) -> bool:
        return self.draws == "generate" and batch > 1


EXACT = Side("fast", "exact", rounds=3)
FREE = Side("fast", "none", rounds=3)
POSITION = Side("fast", "group-v2.1", rounds=3)
HF_OWN = Side("hf", "none", "generate")
HF_KEYED = Side("hf", "none", "keyed")
HF_EXACT = Side("hf", "exact", "keyed")
XGRAMMAR = Side("peer", "xgrammar", "generate", (32,))
LLGUIDANCE = Side("peer", "llguidance", "generate", (32,))
EXTRAS = (
    Side("hf", "exact", "generate", is_extra=True),
    Side("peer", "xgrammar", "keyed", (32,), is_extra=True),
    Side("peer", "llguidance", "keyed", (32,), is_extra=True),
)
SIDES = (EXACT, FREE, POSITION, HF_OWN, HF_KEYED, HF_EXACT, XGRAMMAR, LLGUIDANCE, *EXTRAS)
PEERS = {"xgrammar": "xgrammar_processor", "llguidance": "llguidance_processor"}


@dataclass(frozen=True, slots=True)
class Run:
    """One timing. ``parts``: seconds of a step's parts, where the side counts them."""

    seconds: float
    lengths: tuple[int, ...]  # tokens of each molecule's answer
    at_limit: int = 0
    parts: Mapping[str, float] | None = None

    @property
    def tokens(self) -> int:
        return sum(self.lengths)

    @property
    def tokens_a_second(self) -> float:
        return self.tokens / self.seconds

    @property
    def molecules_a_second(self) -> float:
        return len(self.lengths) / self.seconds


class Desk:
    """A model on the CPU in single precision, its molecules, and how long the exact LP's answers are."""

    def __init__(self, model: str, molecules: Sequence[Molecule]) -> None:
        self.loaded: LoadedModel = load_model(load_registry().find(model), "cpu", "float32")
        self.molecules = list(molecules)
        self._backends: dict[tuple[Side, bool], FastBackend | HfBackend] = {}
        answers = self.time(EXACT, 32, [default_limit(molecule.heavy_atoms) for molecule in self.molecules])
        self.lengths = answers.lengths

    def time(self, side: Side, batch: int, limits: Sequence[int], *, equal_work: bool = True) -> Run:
        """Write an answer to the first molecules, one for each limit."""
        work = self._peer if side.backend == "peer" else self._ours
        return work(side, batch, list(limits), equal_work)

    def warm(self, side: Side, batch: int) -> None:
        self.time(side, batch, [WARM_TOKENS] * min(batch, len(self.molecules)))

    @functools.lru_cache(maxsize=8)  # noqa: B019 - a desk lives as long as its model is timed
    def constraint(self, lp: str, never_end: bool) -> Constraint:
        loaded = self.loaded
        parameters = LpParameters(form=loaded.entry.numbers, never_end=never_end)
        return build_constraint(lp, loaded.tokenizer, loaded.vocab_rows, parameters)

    @property
    def end(self) -> int:
        end = self.loaded.tokenizer.end_id
        assert end is not None
        return end

    def _requests(self, constraint: Constraint, limits: list[int]) -> list[Request]:
        loaded, molecules = self.loaded, self.molecules[: len(limits)]
        return requests_for(molecules, constraint, loaded.tokenizer, positions=loaded.positions, limits=limits)

    def _backend(self, side: Side, never_end: bool) -> FastBackend | HfBackend:
        key = (side, never_end)
        if key not in self._backends:
            given = (self.loaded.model, self.constraint(side.lp, never_end), self.end, self.loaded.tokenizer.vocab_size)
            is_fast = side.backend == "fast"
            self._backends[key] = FastBackend(*given) if is_fast else HfBackend(*given, draws=side.draws)
        return self._backends[key]

    def _ours(self, side: Side, batch: int, limits: list[int], equal_work: bool) -> Run:
        """Through the project's own backends."""
        never_end = equal_work and side.lp != "exact"
        requests = self._requests(self.constraint(side.lp, never_end), limits)
        backend, counters = self._backend(side, never_end), Counters()
        with timed_head() as head:
            began = time.perf_counter()
            events = list(backend.run(requests, DecodeOptions(SAMPLING, SEED, batch), counters))
            seconds = time.perf_counter() - began
        found = Counter(event.sample for event in events if isinstance(event, Step))
        cut = sum(isinstance(event, Stop) and event.reason == "length" for event in events)
        parts = _parts(counters, head[0]) if side.backend == "fast" else None
        return Run(seconds, tuple(found[number] for number in range(len(limits))), cut, parts)

    def _peer(self, side: Side, batch: int, limits: list[int], equal_work: bool) -> Run:
        """Straight through ``generate``, with the library's processor."""
        requests = self._requests(self.constraint("none", False), limits)
        lengths: dict[int, int] = {}
        seconds, cut = 0.0, 0
        for start in range(0, len(requests), batch):
            rows = [Work(request) for request in requests[start : start + batch]]
            processor = self._peer_processor(side, rows, limits[start : start + batch] if equal_work else None)
            took, answers = _generated(self.loaded.model, rows, processor, side.draws, self.end)
            seconds += took
            lengths.update({row.request.sample: length for row, length in zip(rows, answers, strict=True)})
            cut += sum(length >= row.request.limit for row, length in zip(rows, answers, strict=True))
        return Run(seconds, tuple(lengths[number] for number in range(len(limits))), cut)

    def _peer_processor(self, side: Side, rows: Sequence[Work], until: Sequence[int] | None) -> LogitsProcessor:
        peers: Any = importlib.import_module("bench._peer_processors")
        loaded = self.loaded
        molecules = [self.molecules[row.request.sample] for row in rows]
        grammars = [peers.AnswerGrammar.of(molecule, loaded.entry.numbers, loaded.tokenizer) for molecule in molecules]
        make = getattr(peers, PEERS[side.lp])
        made: LogitsProcessor = make(loaded.entry.tokenizer, grammars, loaded.vocab_rows, until)
        return made


def _generated(
    model: Any, rows: Sequence[Work], processor: LogitsProcessor, draws: Draws, end: int
) -> tuple[float, list[int]]:
    """Seconds of one call of ``generate``, and how many tokens each row has, its end token among them."""
    ids, mask = _padded([row.prefix for row in rows], end)
    processors = [processor]
    if draws == "keyed":
        processors.append(KeyedDraw(SAMPLING, SEED, rows, ids.shape[1], ids.device))
    most = max(row.left for row in rows)
    alone: Any = copy.copy(model)  # the same weights
    alone.generation_config = GenerationConfig()  # what is left open would come from the model's own
    torch.manual_seed(SEED)
    began = time.perf_counter()
    with torch.inference_mode():
        found = alone.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=_config(draws, most, end),
            logits_processor=LogitsProcessorList(processors),
        )
    seconds = time.perf_counter() - began
    answers = found[:, ids.shape[1] :].tolist()
    return seconds, [row.index(end) + 1 if end in row else len(row) for row in answers]


def missing(side: Side) -> str | None:
    """Why a side cannot be timed here."""
    if side.backend != "peer":
        return None
    try:
        importlib.import_module("bench._peer_processors")
        importlib.import_module(side.lp)
    except ImportError as error:
        return f"{error.name} is not installed"
    return None


def _config(draws: Draws, most: int, end: int) -> GenerationConfig:
    common = {"max_new_tokens": most, "pad_token_id": end, "eos_token_id": end}
    if draws == "keyed":
        return GenerationConfig(**common, do_sample=False)
    filters = {"temperature": SAMPLING.temperature, "top_k": SAMPLING.top_k, "top_p": SAMPLING.top_p}
    return GenerationConfig(**common, do_sample=True, **filters)


def _padded(rows: Sequence[Sequence[int]], fill: int) -> tuple[Tensor, Tensor]:
    width = max(map(len, rows))
    ids = torch.tensor([[fill] * (width - len(row)) + list(row) for row in rows])
    return ids, torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])


@contextmanager
def timed_head() -> Iterator[list[float]]:
    """The output head of the fast backend counts its own time meanwhile: the one item of the list, in seconds."""
    spent, real = [0.0], LiveHead.__call__

    def timed(head: LiveHead, hidden: Tensor, state: State, here: Tensor) -> Tensor:
        began = time.perf_counter()
        found = real(head, hidden, state, here)
        spent[0] += time.perf_counter() - began
        return found

    with mock.patch.object(LiveHead, "__call__", timed):
        yield spent


def _parts(counters: Counters, head_s: float) -> dict[str, float]:
    """Seconds of a decoding's parts; they add up to ``all``."""
    layers = counters.forward_s - counters.prefill_s - head_s
    known = counters.forward_s + counters.sampling_s + counters.constraint_s
    return {
        "prefill": counters.prefill_s,
        "layers": layers,
        "head": head_s,
        "sampling": counters.sampling_s,
        "constraint": counters.constraint_s,
        "rest": counters.decode_s - known,
        "all": counters.decode_s,
        "passes": counters.forward_passes,
    }


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is timed."""

    single: int  # molecules one by one
    share: float = 1.0  # of each answer, for the slow sides
    share_of_all: float = 1.0  # for all sides but the exact LP's
    rounds: int = 10  # at most


def round_robin(
    desk: Desk, sides: Sequence[Side], batch: int, effort: Effort, said: Callable[[str], None]
) -> dict[Side, list[Run]]:
    """Every side in turn, in both directions, and the exact LP's side before each: noise hits all alike."""
    lengths = desk.lengths[: effort.single] if batch == 1 else desk.lengths
    found: dict[Side, list[Run]] = {side: [] for side in sides}
    for side in sides:
        desk.warm(side, batch)
    others = [side for side in sides if side != EXACT]
    for number in range(min(effort.rounds, max(side.rounds for side in sides))):
        turn = [side for side in others if number < side.rounds]
        for side in turn if number % 2 == 0 else reversed(turn):
            found[EXACT].append(desk.time(EXACT, batch, lengths))
            found[side].append(desk.time(side, batch, _cut(lengths, side, batch, effort)))
            said(f"batch {batch}, round {number + 1}: {side.name}, {found[side][-1].seconds:.1f} s")
        if not turn:
            found[EXACT].append(desk.time(EXACT, batch, lengths))
    return found


def _cut(lengths: Sequence[int], side: Side, batch: int, effort: Effort) -> list[int]:
    share = effort.share if side.is_slow(batch) else effort.share_of_all
    return [max(WARM_TOKENS, round(length * share)) for length in lengths]


def natural(desk: Desk, side: Side, batch: int, effort: Effort) -> Run:
    """Once, with nothing that makes the lengths alike: the default limit, and the model's own end."""
    molecules = desk.molecules[: effort.single] if batch == 1 else desk.molecules
    return desk.time(side, batch, [default_limit(molecule.heavy_atoms) for molecule in molecules], equal_work=False)
