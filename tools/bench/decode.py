"""How fast answers are written: the fast backend next to plain ``generate``, with and without LPs, of equal work.

``python -m tools.bench.decode`` prints Markdown tables of medians with their spread, all of one run. Every side writes,
for each molecule, as many tokens as the exact LP's answer has with the same seed (where nothing would end an answer
there, the end token is blocked). What is timed is decoding alone: prompts, programs and grammars are ready. The whole
takes up to half an hour on 2 cores; most of it is ``generate``'s own sampler, which sorts the vocabulary at every
token.

    --quick          8 molecules, one round, a tenth of each answer: whether it runs, no more
    --share 0.3      the sides with generate's own sampler write this part of each answer on the large batch
    --only NAME      only sides with this in their names; may be repeated
    --model NAME     one embedded model alone
"""

from __future__ import annotations

import argparse
import copy
import functools
import importlib.util
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.decode.body import LiveHead
from engine.decode.fast import FastBackend
from engine.decode.hf import HfBackend
from engine.decode.plan import Context, Request, default_limit, requests_for
from engine.decode.steps import Counters
from engine.lp.constraint import Constraint, LpParameters, build_constraint
from engine.lp.driver import State
from engine.models.loading import load_model
from engine.models.registry import load_registry
from engine.records import Molecule
from tools.bench._measure import figure, machine, note, over, pin, show, spread
from tools.bench._sides import EXACT, FREE, HF_EXACT, HF_KEYED, HF_OWN, OWN, POSITION, Run, Side, timed

MODELS = ("demo-qwen:final", "demo-llama:final")
BATCHES, MOLECULES, SINGLE = (1, 32), 32, 3
ATOMS = range(10, 19)
XGRAMMAR, LLGUIDANCE = Side("peer", "xgrammar", "generate"), Side("peer", "llguidance", "generate")
ROUNDS = {FREE: 3, POSITION: 3, HF_OWN: 2, HF_KEYED: 2, HF_EXACT: 2, XGRAMMAR: 2, LLGUIDANCE: 2}
"""How often each side is timed; the exact LP's before each of them."""
WARM_TOKENS = 6
FLOORS: dict[tuple[Side, Side], dict[int, float]] = {
    (EXACT, HF_OWN): {1: 8, 32: 18},
    (EXACT, HF_KEYED): {1: 8, 32: 18},
    (EXACT, FREE): {1: 1.2, 32: 1.5},
    (EXACT, POSITION): {},
    (POSITION, FREE): {},
    (EXACT, HF_EXACT): {},
    (EXACT, XGRAMMAR): {32: 18},
    (EXACT, LLGUIDANCE): {32: 18},
    (FREE, HF_OWN): {1: 2, 32: 2},
    (FREE, HF_KEYED): {1: 2, 32: 2},
}


class Desk:
    """A model on the CPU in single precision, its molecules, and how long the exact LP's answers are."""

    def __init__(self, model: str, molecules: Sequence[Molecule]) -> None:
        self.loaded = load_model(load_registry().find(model), "cpu", "float32")
        self.molecules = list(molecules)
        self.end = self.loaded.tokenizer.end_id or 0
        limits = [default_limit(molecule.heavy_atoms) for molecule in self.molecules]
        self.lengths = self.time(EXACT, 32, limits)[0].lengths

    def time(self, side: Side, batch: int, limits: Sequence[int]) -> tuple[Run, float]:
        """Answers to the first molecules, one for each limit; and the seconds in the output head."""
        loaded = self.loaded
        constraint = self.constraint("none" if side.backend == "peer" else side.lp)
        molecules = self.molecules[: len(limits)]
        requests = requests_for(molecules, constraint, Context(loaded.tokenizer, loaded.positions), limits=limits)
        if side.backend == "peer":
            return self._peer(side, batch, requests), 0.0
        with timed_head() as head:
            return timed(side, self.backend(side), requests, batch), head[0]

    @functools.cache  # noqa: B019 - a desk lives as long as its model is timed
    def constraint(self, lp: str) -> Constraint:
        loaded = self.loaded
        parameters = LpParameters(form=loaded.entry.numbers, never_end=lp != "exact")
        return build_constraint(lp, loaded.tokenizer, loaded.vocab_rows, parameters)

    @functools.cache  # noqa: B019
    def backend(self, side: Side) -> FastBackend | HfBackend:
        return side.made(self.loaded.model, self.constraint(side.lp), self.end, self.loaded.tokenizer.vocab_size)

    def _peer(self, side: Side, batch: int, requests: Sequence[Request]) -> Run:
        """Straight through ``generate``, with the library's processor."""
        from tests.engine.lp.grammars import AnswerGrammar
        from tools.bench._grammars import peer_processor
        from tools.training.evaluate import answers_of

        loaded, seconds, lengths = self.loaded, 0.0, list[int]()
        alone: Any = copy.copy(loaded.model)  # the same weights
        alone.generation_config = GenerationConfig()  # what is left open would come from the model's own
        for start in range(0, len(requests), batch):
            rows = requests[start : start + batch]
            limits = [row.limit for row in rows]
            grammars = [
                AnswerGrammar.of(self.molecules[row.sample], loaded.entry.numbers, loaded.tokenizer) for row in rows
            ]
            processor = peer_processor(side.lp, loaded.entry.tokenizer, grammars, loaded.vocab_rows, limits)
            torch.manual_seed(0)
            began = time.perf_counter()
            with torch.inference_mode():
                answers = answers_of(
                    alone,
                    [list(row.prompt) for row in rows],
                    limits,
                    [self.end],
                    eos_token_id=self.end,
                    logits_processor=LogitsProcessorList([processor]),
                    **OWN,
                )
            seconds += time.perf_counter() - began
            lengths += map(len, answers)
        return Run(seconds, tuple(lengths), Counters(), 0)


@contextmanager
def timed_head() -> Iterator[list[float]]:
    """The output head of the fast backend counts its own time meanwhile: the one item of the list, in seconds."""
    spent, real = [0.0], LiveHead.__call__

    def counting(head: LiveHead, hidden: Tensor, state: State, here: Tensor) -> Tensor:
        began = time.perf_counter()
        result = real(head, hidden, state, here)
        spent[0] += time.perf_counter() - began
        return result

    with mock.patch.object(LiveHead, "__call__", counting):
        yield spent


def parts(run: Run, head_s: float) -> tuple[str, ...]:
    """Milliseconds of a pass, and its parts' shares."""
    counters = run.counters
    seconds = {
        "prefill": counters.prefill_s,
        "layers": counters.forward_s - counters.prefill_s - head_s,
        "head": head_s,
        "sampling": counters.sampling_s,
        "constraint": counters.constraint_s,
    }
    seconds["rest"] = counters.decode_s - sum(seconds.values())
    shares = (f"{part / counters.decode_s:.1%}" for part in seconds.values())
    return figure(counters.decode_s / counters.forward_passes * 1e3), *shares


def round_robin(
    desk: Desk, sides: Sequence[Side], batch: int, args: argparse.Namespace
) -> dict[Side, list[tuple[Run, float]]]:
    """Every side in turn, in both directions, and the exact LP's side before each: noise hits all equally."""
    single = 1 if args.quick else SINGLE
    lengths = desk.lengths[:single] if batch == 1 else desk.lengths
    for side in (EXACT, *sides):
        desk.time(side, batch, [WARM_TOKENS] * min(batch, len(desk.molecules)))
    timings: dict[Side, list[tuple[Run, float]]] = {side: [] for side in (EXACT, *sides)}
    for number in range(1 if args.quick else max(ROUNDS[side] for side in sides)):
        turn = [side for side in sides if number < ROUNDS[side]]
        for side in turn if number % 2 == 0 else reversed(turn):
            is_slow = side.draws == "generate" and batch > 1
            share = args.share if is_slow or args.quick else 1.0
            timings[EXACT].append(desk.time(EXACT, batch, lengths))
            cut = [max(WARM_TOKENS, round(length * share)) for length in lengths]
            timings[side].append(desk.time(side, batch, cut))
            note(f"batch {batch}, round {number + 1}: {side.name}, {timings[side][-1][0].seconds:.1f} s")
    return timings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--only", action="append")
    args = parser.parse_args()
    args.share = 0.1 if args.quick else args.share
    pin(1 if args.quick else 2)
    fitting = [molecule for molecule in map(parse_smiles, load_run_set(200)) if molecule.heavy_atoms in ATOMS]
    molecules = fitting[: 8 if args.quick else MOLECULES]
    sides = [side for side in ROUNDS if any(name in side.name for name in args.only or [""])]
    absent = [side.lp for side in sides if side.backend == "peer" and importlib.util.find_spec(side.lp) is None]
    print(
        f"{machine('torch', 'transformers', 'numpy', 'xgrammar', 'llguidance')} Single precision, preset qwen3. "
        f"The first {len(molecules)} molecules of data/heldout.smi with {ATOMS[0]} to {ATOMS[-1]} heavy atoms; at "
        f"batch 1 the first {1 if args.quick else SINGLE}. generate's own sampler on the large batch writes "
        f"{args.share:.0%} of each answer.\n"
    )
    ratios, rates, shares = list[tuple[str, ...]](), list[tuple[str, ...]](), list[tuple[str, ...]]()
    for model in [args.model] if args.model else MODELS:
        desk = Desk(model, molecules)
        for batch in BATCHES:
            present = [side for side in sides if side.lp not in absent and (side.backend != "peer" or batch > 1)]
            if not present:
                continue
            timings = round_robin(desk, present, batch, args)
            speeds = {side: [run.tokens_per_s for run, _ in runs] for side, runs in timings.items()}
            for (test, control), floors in FLOORS.items():
                if test in speeds and control in speeds:
                    floor = f">= {floors[batch]:g}x" if batch in floors else ""
                    cells = over(speeds[test], speeds[control])
                    ratios.append((model, str(batch), f"{test.name} / {control.name}", *cells, floor))
            for side, runs in timings.items():
                tokens = sum(runs[0][0].lengths)
                rates.append((model, str(batch), side.name, *spread(speeds[side]), str(len(runs)), f"{tokens:,}"))
                if side.backend == "fast":
                    middle = sorted(runs, key=lambda run: run[0].seconds)[len(runs) // 2]
                    shares.append((model, str(batch), side.name, *parts(*middle)))
    rates += [("", "32", name, "is not installed", "", "", "") for name in absent]
    show("Ratios of tokens per second", "model|batch|what|times|least .. most|asked", ratios)
    show("Equal work", "model|batch|side|tokens/s|least .. most|rounds|tokens", rates)
    head = "model|batch|side|ms per pass|prefill|layers|head|sampling|constraint|rest"
    show("Parts of a pass", head, shares)


if __name__ == "__main__":
    main()
