"""The one form that every constraint is compiled to: a shared automaton, and one program a molecule.

A row is at a *cell* of its program and at a *node* of the automaton. A cell forces one token, or leaves the choice
to the node. At a node each token has a legality and a step by its *class*: where it leads, and whether the row stays
in its cell, goes to the next one, or jumps to the one named by ``jump``. Two symbols mean tokens that differ from
cell to cell, such as the one that closes this block: they are the two last classes. So a position LP is a program of
forced and free cells over a node or two, and the exact LP is one cell a block over a number automaton.

Everything here is plain numpy; ``driver`` runs it for a batch on a device. A table does not know which LP it is of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

KEEP = -1
"""As an entry: the node that the step before led to."""
ILLEGAL = -1
"""As a next node: no token of this class may come."""
NO_ID = -1
STAY, NEXT, JUMP = 0, 1, 2
SYMBOLS = 2
FIRST_SYMBOL = -2
"""In ``Automaton.single``: the first symbol; the second is one less."""
MOST_FEW = 4_096
"""Ids that may come up to which each is looked at, and not the whole vocabulary."""
DEAD = 0
"""The class of tokens that are never legal, rows beyond the tokenizer's size among them."""


@dataclass(frozen=True, slots=True, eq=False)
class Automaton:
    """What rows of one tokenizer share. Classes 0 to K - 3 are of tokens, the last two are the symbols."""

    classes: NDArray[np.int16]  # [V] of each row of the vocabulary
    goto: NDArray[np.int16]  # [Q, K] next node, or ILLEGAL
    move: NDArray[np.int8]  # [Q, K] STAY, NEXT or JUMP
    rules: tuple[str, ...]  # [Q] what each node allows, for people

    def __post_init__(self) -> None:
        nodes, classes = self.goto.shape
        if self.move.shape != (nodes, classes) or len(self.rules) != nodes:
            raise ValueError(f"{nodes} nodes of {classes} classes, {self.move.shape} moves, {len(self.rules)} rules")
        if self.classes.min() < 0 or self.classes.max() >= classes - SYMBOLS:
            raise ValueError(f"classes {self.classes.min()} to {self.classes.max()} of {classes - SYMBOLS}")
        if (self.goto[:, DEAD] != ILLEGAL).any() or self.goto.max() >= nodes or self.goto.min() < ILLEGAL:
            raise ValueError("a node leads nowhere, or lets a dead token pass")

    @property
    def legal(self) -> NDArray[np.bool_]:  # [Q, K]
        return np.asarray(self.goto != ILLEGAL)

    @property
    def live(self) -> NDArray[np.int32]:
        """The ids that some node allows, sorted; symbols come on top, cell by cell."""
        used = np.asarray(self.legal.any(axis=0))[:-SYMBOLS]
        return np.flatnonzero(used[self.classes]).astype(np.int32)

    def single(self) -> NDArray[np.int32]:
        """[Q] the only token of each node: an id, FIRST_SYMBOL or one less for the symbols, NO_ID for a choice."""
        first_symbol = self.goto.shape[1] - SYMBOLS
        counts = np.bincount(self.classes, minlength=first_symbol)
        only = np.full(len(self.goto), NO_ID, dtype=np.int32)
        for node, legal in enumerate(self.legal):
            kinds = np.flatnonzero(legal)
            if len(kinds) != 1:
                continue
            (kind,) = kinds
            if kind >= first_symbol:
                only[node] = FIRST_SYMBOL - (kind - first_symbol)
            elif counts[kind] == 1:
                only[node] = np.flatnonzero(self.classes == kind)[0]
        return only


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One molecule's cells. The last one forces the end token, and is never left."""

    forced: NDArray[np.int32]  # [P] the only token of a cell, or NO_ID
    entry: NDArray[np.int16]  # [P] the node that a row enters the cell with, or KEEP
    symbols: NDArray[np.int32]  # [P, 2] or NO_ID
    jump: NDArray[np.int32]  # [P] where JUMP leads
    block: NDArray[np.int32]  # [P] the block that a cell belongs to, or -1

    def __post_init__(self) -> None:
        cells = len(self.forced)
        if any(len(part) != cells for part in (self.entry, self.symbols, self.jump, self.block)) or not cells:
            raise ValueError("a program's parts differ in length")

    def __len__(self) -> int:
        return len(self.forced)

    @classmethod
    def blank(cls, block: NDArray[np.integer]) -> Program:
        """Cells of these blocks that say nothing yet, to be filled in."""
        return cls(
            forced=np.full(len(block), NO_ID, dtype=np.int32),
            entry=np.full(len(block), KEEP, dtype=np.int16),
            symbols=np.full((len(block), SYMBOLS), NO_ID, dtype=np.int32),
            jump=np.zeros(len(block), dtype=np.int32),
            block=block.astype(np.int32),
        )


def live_columns(automaton: Automaton, programs: Sequence[Program]) -> NDArray[np.int64]:
    """The ids that any of these programs may ever let be chosen, in rising order."""
    symbols = np.unique(np.concatenate([program.symbols.reshape(-1) for program in programs]))
    return np.union1d(automaton.live, symbols[symbols != NO_ID]).astype(np.int64)


class Cells:
    """A program that is being written."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []

    def force(self, ids: Sequence[int], block: int = -1) -> None:
        self._rows += [(id_, KEEP, NO_ID, NO_ID, block) for id_ in ids]

    def choose(self, entry: int, block: int, symbols: tuple[int, int] = (NO_ID, NO_ID)) -> None:
        self._rows.append((NO_ID, entry, *symbols, block))

    def program(self) -> Program:
        columns = np.array(self._rows, dtype=np.int32)
        program = Program.blank(columns[:, 4])
        program.forced[:] = columns[:, 0]
        program.entry[:] = columns[:, 1]
        program.symbols[:] = columns[:, 2:4]
        return program
