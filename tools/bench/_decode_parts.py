"""What a constraint costs by itself: one step of it, its masks beside the reports' loop over rows, its compilation.

No model takes part. Logits are random; the rows' states are those of real programs, step after step.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles
from engine.decode.batch import MOST_RUN, longest_run
from engine.decode.head import LiveHead, forces_nothing_first
from engine.decode.presets import preset
from engine.decode.sampling import sample
from engine.decode.steps import Request
from engine.lp.constraint import Constraint, build_constraint
from engine.lp.driver import State, Tables
from engine.lp.processor import ConstraintProcessor
from engine.lp.rowloop import RowLoop
from engine.lp.table import NO_ID
from engine.lp_records import LPS
from engine.records import TRIMMED4, Molecule
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tools.bench._decode_table import Spread

TOKENIZER, ROWS = "qwen3", 151_936
WARM_STEPS = 20
ROWLOOP_LP = "group-v2.1"
COMPILED_ATOMS = 30
WARM_MOLECULES = 200
MASKS = (
    "mask",
    "mask laid on scores",
    "logits that are masked, as in the fast backend",
    "processor of generate",
    "the reports' loop over rows",
)
PEERS = {"xgrammar": "xgrammar_processor", "llguidance": "llguidance_processor"}


@dataclass(frozen=True, slots=True)
class Part:
    """One line: milliseconds of repeats. ``note`` stands in their place where there are none."""

    name: str
    ms: Spread
    note: str = ""


class Stepper:
    """What the fast backend does between the layers and the next step, and nothing else.

    The head is one wide, so that its product costs next to nothing; its columns, biases and all behind are real.
    """

    def __init__(self, constraint: Constraint, molecules: Sequence[Molecule], seed: int = 0) -> None:
        programs = [constraint.compile(molecule) for molecule in molecules]
        self._generator = torch.Generator().manual_seed(seed)
        self._head = LiveHead(torch.randn(ROWS, 1, generator=self._generator), constraint.automaton, programs)
        self.tables = Tables.of(constraint.automaton, programs)
        longest = longest_run_of(constraint, molecules)
        self._run = min(longest, MOST_RUN)
        self._is_settled = longest <= self._run and forces_nothing_first(constraint.automaton, programs)
        self._last = torch.tensor([len(program) - 1 for program in programs])
        self._rows = len(programs)
        self._sampling = preset("qwen3")

    def start(self) -> State:
        """Behind what is forced first, as the fast backend begins."""
        state = self.tables.start()
        tokens = self.tables.forced_id(state)
        while bool((tokens != NO_ID).all()):
            state = self.tables.step(state, tokens)
            tokens = self.tables.forced_id(state)
        return state

    def is_over(self, state: State) -> bool:
        return bool((state.cell >= self._last).any())

    def inputs(self) -> tuple[Tensor, Tensor]:
        """Hidden states and uniform numbers of a step."""
        hidden = torch.randn(self._rows, 1, generator=self._generator)
        return hidden, torch.rand(self._rows, generator=self._generator, dtype=torch.float64)

    def step(self, state: State, hidden: Tensor, numbers: Tensor) -> State:
        """From the logits of the live columns to the next state."""
        tables = self.tables
        logits = self._head(hidden, state, tables.here(state))
        token = self._head.ids[sample(logits, self._sampling, numbers)]
        forced = token.new_full(token.shape, NO_ID) if self._is_settled else tables.forced_id(state)
        token = torch.where(forced == NO_ID, token, forced)
        _, _, after = tables.advance(state, token, self._run)
        return after


def longest_run_of(constraint: Constraint, molecules: Sequence[Molecule]) -> int:
    """The most tokens that are forced in a row, as the fast backend counts them."""
    programs = [constraint.compile(molecule) for molecule in molecules]
    return longest_run([Request(number, number, (), program, 1) for number, program in enumerate(programs)])


@torch.inference_mode()
def constraint_step(molecules: Sequence[Molecule], batch: int, steps: int) -> Part:
    stepper = Stepper(build_constraint("exact", load_tokenizer(TOKENIZER), ROWS), molecules[:batch])
    state, times = stepper.start(), []
    for _ in range(WARM_STEPS + steps):
        hidden, numbers = stepper.inputs()
        began = time.perf_counter()
        state = stepper.step(state, hidden, numbers)
        times.append((time.perf_counter() - began) * 1e3)
        if stepper.is_over(state):
            state = stepper.start()
    return Part(f"one constraint step, exact, batch {batch}", Spread.of(times[WARM_STEPS:]))


@torch.inference_mode()
def full_mask(molecules: Sequence[Molecule], batch: int, steps: int) -> Part:
    """The mask of every row of the vocabulary, which only other people's loops and diagnostics need."""
    stepper = Stepper(build_constraint("exact", load_tokenizer(TOKENIZER), ROWS), molecules[:batch])
    state, times = stepper.start(), []
    for _ in range(WARM_STEPS + steps):
        times.append(timed(lambda at=state: stepper.tables.mask(at)))  # type: ignore[misc]
        state = stepper.step(state, *stepper.inputs())
        if stepper.is_over(state):
            state = stepper.start()
    return Part(f"mask of the whole vocabulary, exact, batch {batch}", Spread.of(times[WARM_STEPS:]))


def timed(work: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


# --- masks beside the loop over rows ------------------------------------------------------------------------------


@torch.inference_mode()
def masks(molecules: Sequence[Molecule], batch: int, steps: int, every: int = 5) -> list[Part]:
    """The masks of one step, in the order of ``MASKS``. The fast backend's come with their logits, one weight each."""
    tokenizer = load_tokenizer(TOKENIZER)
    constraint = build_constraint(ROWLOOP_LP, tokenizer, ROWS)
    written = np.array(_answers(constraint, molecules[:batch], tokenizer, steps))  # [B, steps]
    processor = ConstraintProcessor(constraint, molecules[:batch], tokenizer.end_id or 0)
    loop = RowLoop(ROWLOOP_LP, tokenizer, ROWS, molecules[:batch])
    programs = [constraint.compile(molecule) for molecule in molecules[:batch]]
    tables = Tables.of(constraint.automaton, programs)
    head, hidden = LiveHead(torch.randn(ROWS, 1), constraint.automaton, programs), torch.randn(batch, 1)
    state, scores, found = tables.start(), torch.randn(batch, ROWS), [list[float]() for _ in range(5)]
    legal = torch.empty((batch, ROWS), dtype=torch.bool)  # one for all steps, as a loop would keep it
    for number in range(steps):
        ids = torch.from_numpy(written[:, : number + 1])  # the first token stands for the prompt
        found[3].append(timed(lambda given=ids: processor(given, scores)))  # type: ignore[misc]
        if number % every == every - 1:
            own, theirs = scores.clone(), scores.clone()
            prefixes = written[:, 1 : number + 1].tolist()
            found[0].append(timed(lambda at=state: tables.mask(at, out=legal)))  # type: ignore[misc]

            def laid(at: Any = state, to: Tensor = own) -> object:
                return to.masked_fill_(~tables.mask(at, out=legal), -torch.inf)

            found[1].append(timed(laid))
            found[2].append(timed(lambda at=state: head(hidden, at, tables.here(at))))  # type: ignore[misc]
            found[4].append(timed(lambda rows=prefixes, to=theirs: loop(rows, to)))  # type: ignore[misc]
            assert torch.equal(torch.isneginf(own), torch.isneginf(theirs)), "the loop and the tables differ"
        if number + 1 < steps:
            state = tables.step(state, torch.from_numpy(written[:, number + 1]))
    found[3] = found[3][every:]
    label = f"{ROWLOOP_LP}, batch {batch}: "
    return [Part(label + name, Spread.of(ms)) for name, ms in zip(MASKS, found, strict=True)]


def _answers(
    constraint: Constraint, molecules: Sequence[Molecule], tokenizer: TextTokenizer, steps: int
) -> list[list[int]]:
    """A token for the prompt, and as many legal ones as there are steps but one: a digit where the model may choose."""
    (digit,) = tokenizer.encode("1")
    rows = []
    for molecule in molecules:
        forced = constraint.compile(molecule).forced[: steps - 1].tolist()
        rows.append([0, *(digit if id_ == NO_ID else id_ for id_ in forced)])
    return rows


def shortest_answer(molecules: Sequence[Molecule]) -> int:
    constraint = build_constraint(ROWLOOP_LP, load_tokenizer(TOKENIZER), ROWS)
    return min(len(constraint.compile(molecule)) for molecule in molecules)


# --- compilation --------------------------------------------------------------------------------------------------


def compilations(repeats: int) -> list[Part]:
    """Molecules of 30 atoms under each LP that compiles: again, and for the first time behind 200 other molecules."""
    every = [parse_smiles(entry.smiles) for entry in load_molecule_set()]
    chosen = [one for one in every if one.heavy_atoms == COMPILED_ATOMS]
    others = [one for one in every if 1 <= one.heavy_atoms < COMPILED_ATOMS][:WARM_MOLECULES]
    found = []
    for lp in LPS:
        if lp != "none":
            found += _compiled(lp, chosen, others, repeats)
    return found + [_peer_compiled(name, chosen) for name in PEERS]


def _compiled(lp: str, chosen: Sequence[Molecule], others: Sequence[Molecule], repeats: int) -> list[Part]:
    constraint = build_constraint(lp, load_tokenizer(TOKENIZER), ROWS)
    for other in others:
        constraint.compile(other)
    first = [timed(lambda molecule=one: constraint.compile(molecule)) for one in chosen]  # type: ignore[misc]
    again = [statistics.median(timed(partial(constraint.compile, one)) for _ in range(repeats)) for one in chosen]
    return [
        Part(f"compile, {lp}, again", Spread.of(again)),
        Part(f"compile, {lp}, a molecule's first time", Spread.of(first)),
    ]


def _peer_compiled(name: str, chosen: Sequence[Molecule]) -> Part:
    label = f"compile, {name}, a molecule's first time"
    try:
        importlib.import_module(name)
        peers: Any = importlib.import_module("bench._peer_processors")
    except ImportError as error:
        return Part(label, Spread.of([]), f"{error.name} is not installed")
    tokenizer = load_tokenizer(TOKENIZER)
    grammars = [peers.AnswerGrammar.of(one, TRIMMED4, tokenizer) for one in chosen]
    make = getattr(peers, PEERS[name])
    make(TOKENIZER, grammars[:1], ROWS)  # its set-up
    return Part(label, Spread.of(make(TOKENIZER, grammars[1:], ROWS).compile_ms))
