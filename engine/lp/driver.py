"""Runs any constraint for a whole batch on a device: tensor operations only, no loop over rows, no host round trip.

A row's state is two integers, its cell and its node. ``Tables`` holds the automaton and the padded programs of a
batch; its methods take a state and give masks, forced tokens and the next state. A token that was not legal leads to
``LOST``, from which nothing is legal: the caller sees it and stops that row, and the others go on. Only ``put``
changes a table: it gives a row that is done another molecule's program.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from engine.lp.table import FIRST_SYMBOL, ILLEGAL, JUMP, KEEP, NO_ID, STAY, SYMBOLS, Automaton, Program

LOST = -1
"""As a cell: a token came that was not legal."""
FORCED, ENTRY, SYMBOL, JUMP_TO, RUN = 0, 1, slice(2, 2 + SYMBOLS), 2 + SYMBOLS, 3 + SYMBOLS
"""What is known of a cell, by column; RUN counts the forced cells from this one on."""
COLUMNS = RUN + 1


@dataclass(frozen=True, slots=True)
class State:
    """Where each row is."""

    cell: Tensor  # int64 [B]
    node: Tensor  # int64 [B]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """One batch's constraint on a device. All programs belong to one automaton."""

    automaton: Automaton
    classes: Tensor  # int64 [V]
    goto: Tensor  # int64 [Q, K]
    move: Tensor  # int64 [Q, K]
    single: Tensor  # int64 [Q]
    cells: Tensor  # int64 [B, P, COLUMNS]
    live: Tensor  # int64 [L] ids that some node allows; symbols come on top
    has_single: bool  # whether any node has one choice only

    @classmethod
    def of(
        cls, automaton: Automaton, programs: Sequence[Program], device: torch.device | str = "cpu", cells: int = 0
    ) -> Tables:
        """Room for ``cells`` a program at least, where longer ones are to come."""
        length = max(cells, *map(len, programs))
        single = automaton.single()

        def put(array: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64)).to(device)

        return cls(
            automaton,
            put(automaton.classes),
            put(automaton.goto),
            put(automaton.move),
            put(single),
            put(np.stack([_cells(program, length) for program in programs])),
            put(automaton.live),
            bool((single != NO_ID).any()),
        )

    def __len__(self) -> int:
        return self.cells.shape[0]

    def put(self, row: int, program: Program) -> None:
        """Another program for a row; its state starts again."""
        self.cells[row] = torch.from_numpy(_cells(program, self.cells.shape[1])).to(self.cells.device)

    def keep(self, rows: Tensor) -> Tables:
        """These rows alone, in this order."""
        return replace(self, cells=self.cells[rows])

    def start(self) -> State:
        zero = torch.zeros_like(self.cells[:, 0, 0])
        return State(zero, self.cells[:, 0, ENTRY].clamp(min=0))

    def here(self, state: State) -> Tensor:
        """[B, COLUMNS] of each row's cell; of its first one where it is lost."""
        index = state.cell.clamp(min=0).view(-1, 1, 1).expand(-1, 1, COLUMNS)
        return self.cells.gather(1, index).squeeze(1)

    def forced_id(self, state: State) -> Tensor:
        """[B] the only token that may come, or NO_ID: forced by the cell, or the one choice of the node."""
        here = self.here(state)
        only = self.single[state.node]
        symbol = torch.where(only == FIRST_SYMBOL, here[:, SYMBOL][:, 0], here[:, SYMBOL][:, 1])
        by_node = torch.where(only <= FIRST_SYMBOL, symbol, only)
        forced = torch.where(here[:, FORCED] != NO_ID, here[:, FORCED], by_node)
        return torch.where(state.cell == LOST, NO_ID, forced)

    def live_mask(self, state: State) -> tuple[Tensor, Tensor, Tensor]:
        """Legality of the live ids [B, L], ids of the symbols [B, 2], and their legality [B, 2].

        For rows in a cell that forces nothing; a forced token is ``forced_id``.
        """
        legal = (self.goto != ILLEGAL)[state.node]  # [B, K]
        symbols = self.here(state)[:, SYMBOL]
        is_open = (state.cell != LOST)[:, None]
        kinds = self.goto.shape[1]
        return (
            legal[:, self.classes[self.live]] & is_open,
            symbols,
            legal[:, kinds - SYMBOLS :] & (symbols != NO_ID) & is_open,
        )

    def mask(self, state: State, out: Tensor | None = None) -> Tensor:
        """[B, V] every legal token: for full heads and for other people's loops. ``out`` spares a new tensor a step."""
        here = self.here(state)
        is_free = (here[:, FORCED] == NO_ID) & (state.cell != LOST)
        rows = _legal_rows(self.automaton, self.cells.device)
        legal = torch.index_select(rows, 0, torch.where(is_free, state.node, len(rows) - 1), out=out)  # [B, V]
        ids, allowed = self._extra(state, here)
        return legal.scatter_(1, ids, allowed | legal.gather(1, ids))

    def few(self, state: State) -> tuple[Tensor, Tensor]:
        """The same as ids [B, L + 3] and whether each is legal; an id may be there twice, and is legal if one is."""
        here = self.here(state)
        live = self.live_mask(state)[0] & (here[:, FORCED, None] == NO_ID)
        ids, allowed = self._extra(state, here)
        return torch.cat([self.live.expand(len(live), -1), ids], dim=1), torch.cat([live, allowed], dim=1)

    def _extra(self, state: State, here: Tensor) -> tuple[Tensor, Tensor]:
        """The ids that differ from cell to cell: two symbols and the forced one [B, 3], and whether each is legal."""
        symbols, forced = here[:, SYMBOL], here[:, FORCED, None]
        legal = (self.goto != ILLEGAL)[state.node][:, self.goto.shape[1] - SYMBOLS :]
        is_open, is_forced = (state.cell != LOST)[:, None], forced != NO_ID
        ids = torch.cat([symbols, forced], dim=1)
        allowed = torch.cat([legal & (symbols != NO_ID) & ~is_forced, is_forced], dim=1) & is_open
        return ids.clamp(min=0), allowed

    def step(self, state: State, token: Tensor) -> State:
        """The state after each row's token [B]."""
        here = self.here(state)
        forced = here[:, FORCED]
        is_forced = forced != NO_ID
        kind = self._kind(here, token)
        after = self.goto[state.node, kind]
        move = self.move[state.node, kind]
        moved = torch.where(move == JUMP, here[:, JUMP_TO], state.cell + move)
        target = torch.where(is_forced, state.cell + 1, moved).clamp(0, self.cells.shape[1] - 1)
        entry = self._entry(target)
        stayed = ~is_forced & (move == STAY)
        node = torch.where(stayed | (entry == KEEP), after, entry)
        is_legal = torch.where(is_forced, token == forced, after != ILLEGAL) & (state.cell != LOST)
        # Behind a forced token, a node that is kept means nothing: the next free cell has an entry of its own.
        node = torch.where(is_forced & (entry == KEEP), state.node, node).clamp(min=0)
        return State(torch.where(is_legal, target, LOST), node)

    def advance(self, state: State, token: Tensor, run: int) -> tuple[Tensor, Tensor, State]:
        """Each row's token and the forced ones behind it: tokens [B, 2 + run], how many are meant [B], the state then.

        Behind the token comes what the node forces, one at most, and up to ``run`` tokens that the cells force. What
        is forced beyond that is left to the next step.
        """
        state = self.step(state, token)
        rows = len(token)
        tokens = token.new_zeros((rows, 2 + run))
        tokens[:, 0] = token
        count = torch.ones_like(token)
        if self.has_single:
            only = torch.where(self.here(state)[:, FORCED] == NO_ID, self.forced_id(state), NO_ID)
            has_one = only != NO_ID
            then = self.step(state, only.clamp(min=0))
            state = State(torch.where(has_one, then.cell, state.cell), torch.where(has_one, then.node, state.node))
            tokens[:, 1] = only.clamp(min=0)
            count = count + has_one
        offsets = torch.arange(run, device=token.device)
        length = torch.where(state.cell == LOST, 0, self.here(state)[:, RUN]).clamp(max=run)
        last = self.cells.shape[1] - 1
        behind = (state.cell[:, None] + offsets).clamp(0, last)
        tokens.scatter_(1, count[:, None] + offsets, self.cells[:, :, FORCED].gather(1, behind).clamp(min=0))
        target = (state.cell + length).clamp(max=last)
        entry = self._entry(target.clamp(min=0))
        node = torch.where((length > 0) & (entry != KEEP), entry, state.node)
        return tokens, count + length, State(target, node)

    def _entry(self, cell: Tensor) -> Tensor:
        return self.cells[:, :, ENTRY].gather(1, cell[:, None]).squeeze(1)

    def _kind(self, here: Tensor, token: Tensor) -> Tensor:
        """The class of each row's token, as its cell sees it."""
        kinds = self.goto.shape[1]
        kind = self.classes[token]
        for number in reversed(range(SYMBOLS)):
            kind = torch.where(token == here[:, SYMBOL][:, number], kinds - SYMBOLS + number, kind)
        return kind


@functools.lru_cache(maxsize=8)
def _legal_rows(automaton: Automaton, device: torch.device) -> Tensor:
    """bool [Q + 1, V] what each node allows, symbols apart; the last row allows nothing."""
    nothing = np.zeros((1, automaton.goto.shape[1]), dtype=bool)
    legal = np.concatenate([automaton.legal, nothing])[:, automaton.classes]
    return torch.from_numpy(np.ascontiguousarray(legal)).to(device)


def _cells(program: Program, length: int) -> np.ndarray:
    """[length, COLUMNS]; a program's last cell is never left, so what is padded behind it is never reached."""
    table = np.zeros((length, COLUMNS), dtype=np.int64)
    cells = len(program)
    table[:cells, FORCED], table[:cells, ENTRY] = program.forced, program.entry
    table[:cells, SYMBOL], table[:cells, JUMP_TO] = program.symbols, program.jump
    table[:cells, RUN] = forced_runs(program)
    table[cells:] = table[cells - 1]
    return table


def forced_runs(program: Program) -> np.ndarray:
    """[P] how many cells from each one on force their token, one after the other."""
    indices = np.arange(len(program))
    free = np.where(program.forced == NO_ID, indices, len(program))
    return np.minimum.accumulate(free[::-1])[::-1] - indices
