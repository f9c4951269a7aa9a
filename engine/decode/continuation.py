"""What a cut cost: how the model would have finished a block, had it been allowed to.

A *continuation* is an estimate, and to be labelled so: the exact automaton, greedy, behind the very text that the model
had before it, earlier cut blocks as they were. The automaton is led along what the block already holds; where that is
no beginning of a number in the tokenizer's own cut, there is nothing to continue. All blocks of many samples go on
together, each under a program of its own: that block, then the end.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.decode.fast import FastBackend
from engine.decode.hf import HfBackend
from engine.decode.plan import DecodeOptions, Request, Sampling
from engine.decode.scoring import Stored, forced_closes
from engine.decode.steps import Counters, Step
from engine.lp.constraint import Constraint
from engine.lp.exact import ExactConstraint
from engine.lp.follower import AutomatonRows, Follower
from engine.lp.table import NO_ID, Cells, Program
from engine.records import WIDEST, Molecule
from engine.text.blocks import displacement_ang
from engine.text.tokenizers import TextTokenizer

GREEDY = Sampling(0.0)
AXES = 3
MOST_ADDED = AXES * (WIDEST.most_integer_digits + WIDEST.most_decimals + 2) + 2
"""Tokens that the longest block takes: digits, point and comma of each number, the close and the end."""


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A block to be continued, in its text."""

    molecule: Molecule
    prompt: tuple[int, ...]
    written: tuple[int, ...]  # the answer up to where the block was closed
    block: int


@dataclass(frozen=True, slots=True)
class Continuation:
    """How a block would have ended, and what it lost by ending before."""

    block: int
    text: str  # the three numbers
    needed: int  # tokens inside the block, those written and those added
    added: tuple[int, ...]
    digits_lost: int  # decimals and integer digits
    displacement_ang: float | None  # of the atom, by the cut; None where the cut block has no three numbers


def cuts_of(constraint: Constraint, molecule: Molecule, stored: Stored, blocks: Collection[int]) -> list[Cut]:
    """Those of a sample's blocks that its program closed by force. ``constraint`` is that of the program."""
    (closes,) = forced_closes(constraint, [stored])
    return [
        Cut(molecule, stored.prompt, stored.answer[: closes[block]], block)
        for block in sorted(blocks)
        if block in closes
    ]


def continue_blocks(
    backend: FastBackend | HfBackend,
    constraint: ExactConstraint,
    tokenizer: TextTokenizer,
    cuts: Sequence[Cut],
    *,
    batch_size: int = 32,
    counters: Counters | None = None,
) -> list[Continuation | None]:
    """One a cut, in the order given. ``backend`` is of the model; the LP that it is under does not matter.

    None: what the block holds is no beginning of three numbers, the molecule has no such block, or the model's context
    ends before the block does.
    """
    exact = copy.copy(backend)  # the same weights
    exact.constraint = constraint
    positions = backend.positions
    begun = _begun(cuts, constraint, tokenizer, backend.end_id)
    requests = []
    for number, start in _starts(constraint, begun).items():
        before = (*cuts[number].prompt, *cuts[number].written)
        limit = min(MOST_ADDED, positions - len(before))
        if limit > 0:
            requests.append(Request(number, number, before, begun[number].program, limit, start))
    requests.sort(key=lambda request: -len(request.prompt))  # what is read together is then of one length
    ids: dict[int, list[int]] = {request.sample: [] for request in requests}
    for event in exact.run(requests, DecodeOptions(GREEDY, batch_size=batch_size), counters or Counters()):
        if isinstance(event, Step):
            ids[event.sample].append(event.token_id)
    whole = {number: written for number, written in ids.items() if written[-1:] == [backend.end_id]}
    return [
        _continuation(cut.block, begun[number], whole[number], tokenizer) if number in whole else None
        for number, cut in enumerate(cuts)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    """A block as far as it was written, and the program of this block alone."""

    program: Program
    opening: int  # the token that holds its ``<``
    inside: tuple[int, ...]

    @property
    def path(self) -> tuple[int, ...]:
        """What leads through the program: the opening too, where that is a choice of its own."""
        return (self.opening, *self.inside) if len(self.program) > 2 else self.inside


def _begun(cuts: Sequence[Cut], constraint: ExactConstraint, tokenizer: TextTokenizer, end: int) -> dict[int, _Begun]:
    """By cut. Those without a block, and those that another token opens than the exact text has, are left out."""
    programs: dict[str, Program] = {}
    begun = {}
    for number, cut in enumerate(cuts):
        smiles = cut.molecule.smiles
        if smiles not in programs:
            programs[smiles] = constraint.compile(cut.molecule)
        program, index = programs[smiles], _opening(cut.written, tokenizer)
        free = np.flatnonzero((program.block == cut.block) & (program.forced == NO_ID)).tolist()
        if not free or index < 0:
            continue
        # What may stand before a block's numbers: the forced token, or two where a cell chooses between them.
        openings = [program.forced[free[0] - 1]] if len(free) == 1 else program.symbols[free[0]]
        if cut.written[index] in openings:
            cells = Cells()  # the block's free ones, and the end
            for cell in free:
                first, second = program.symbols[cell].tolist()
                cells.choose(int(program.entry[cell]), cut.block, (first, second))
            cells.force([end])
            begun[number] = _Begun(cells.program(), cut.written[index], cut.written[index + 1 :])
    return begun


def _opening(written: Sequence[int], tokenizer: TextTokenizer) -> int:
    """The index of the last token with a ``<``, which no LP that counts positions lets into a block; -1 for none."""
    indices = range(len(written) - 1, -1, -1)
    return next((index for index in indices if b"<" in tokenizer.raw(written[index])), -1)


def _starts(constraint: ExactConstraint, begun: Mapping[int, _Begun]) -> dict[int, tuple[int, int]]:
    """Cell and node behind what was written, of those blocks that may be gone on with."""
    rows, starts = AutomatonRows(constraint.automaton), {}
    for number, block in begun.items():
        follower = Follower(rows, block.program)
        follower.follow(block.path)
        if not follower.is_lost and follower.cell < len(block.program) - 1:
            starts[number] = follower.cell, follower.node
    return starts


def _continuation(number: int, block: _Begun, ids: Sequence[int], tokenizer: TextTokenizer) -> Continuation:
    added = tuple(ids[:-2])  # behind them the close and the end
    before = tokenizer.decode([block.opening, *block.inside]).rpartition("<")[2]
    text = tokenizer.decode([block.opening, *block.inside, *added]).rpartition("<")[2]
    digits = sum(map(str.isdigit, text[len(before) :]))
    return Continuation(number, text, len(block.inside) + len(added), added, digits, displacement_ang(before, text))
