"""Runs any constraint for a whole batch on a device: tensor operations only, no loop over rows, no host round trip.

A row's state is two integers, its cell and its node. ``Tables`` holds the automaton and the padded programs of a
batch; its methods take a state and give masks, forced tokens and the next state. A token that was not legal leads to
``LOST``, from which nothing is legal: the caller sees it and stops that row, and the others go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.lp.table import FIRST_SYMBOL, ILLEGAL, JUMP, KEEP, NO_ID, SYMBOLS, Automaton, Program

LOST = -1
"""As a cell: a token came that was not legal."""


@dataclass(frozen=True, slots=True)
class State:
    """Where each row stands."""

    cell: Tensor  # int64 [B]
    node: Tensor  # int64 [B]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """One batch's constraint on a device. All programs belong to one automaton."""

    classes: Tensor  # int64 [V]
    goto: Tensor  # int64 [Q, K]
    move: Tensor  # int64 [Q, K]
    single: Tensor  # int64 [Q]
    forced: Tensor  # int64 [B, P]
    entry: Tensor  # int64 [B, P]
    symbols: Tensor  # int64 [B, P, 2]
    jump: Tensor  # int64 [B, P]
    live: Tensor  # int64 [L] ids that some node allows; symbols come on top

    @classmethod
    def of(cls, automaton: Automaton, programs: Sequence[Program], device: torch.device | str = "cpu") -> Tables:
        cells = max(map(len, programs))

        def put(array: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64)).to(device)

        def padded(name: str) -> Tensor:
            """A program's last cell is never left: what is padded behind it is never reached."""
            parts = [getattr(program, name) for program in programs]
            return put(np.stack([np.concatenate([part, np.repeat(part[-1:], cells - len(part), 0)]) for part in parts]))

        return cls(
            put(automaton.classes),
            put(automaton.goto),
            put(automaton.move),
            put(automaton.single()),
            padded("forced"),
            padded("entry"),
            padded("symbols"),
            padded("jump"),
            put(automaton.live),
        )

    def start(self) -> State:
        zero = torch.zeros_like(self.forced[:, 0])
        return State(zero, self.entry[:, 0].clamp(min=0))

    def forced_id(self, state: State) -> Tensor:
        """[B] the only token that may come, or NO_ID: forced by the cell, or the one choice of the node."""
        cell = state.cell.clamp(min=0)
        by_cell = _at(self.forced, cell)
        only = self.single[state.node]
        symbols = _at(self.symbols, cell)  # [B, 2]
        symbol = torch.where(only == FIRST_SYMBOL, symbols[:, 0], symbols[:, 1])
        by_node = torch.where(only <= FIRST_SYMBOL, symbol, only)
        found = torch.where(by_cell != NO_ID, by_cell, by_node)
        return torch.where(state.cell == LOST, NO_ID, found)

    def live_mask(self, state: State) -> tuple[Tensor, Tensor, Tensor]:
        """Legality of the live ids [B, L], ids of the symbols [B, 2], and their legality [B, 2].

        For rows whose cell forces nothing; a forced token is ``forced_id``.
        """
        legal = (self.goto != ILLEGAL)[state.node]  # [B, K]
        symbols = _at(self.symbols, state.cell.clamp(min=0))
        is_open = (state.cell != LOST)[:, None]
        kinds = self.goto.shape[1]
        return (
            legal[:, self.classes[self.live]] & is_open,
            symbols,
            legal[:, kinds - SYMBOLS :] & (symbols != NO_ID) & is_open,
        )

    def mask(self, state: State) -> Tensor:
        """[B, V] every legal token: for full heads and for other people's loops."""
        legal = (self.goto != ILLEGAL)[state.node]
        cell = state.cell.clamp(min=0)
        by_node = legal[:, self.classes]  # [B, V]
        symbols = _at(self.symbols, cell)
        kinds = self.goto.shape[1]
        allowed = legal[:, kinds - SYMBOLS :] & (symbols != NO_ID)
        by_node = by_node.scatter(1, symbols.clamp(min=0), allowed | by_node.gather(1, symbols.clamp(min=0)))
        forced = _at(self.forced, cell)[:, None]
        only = torch.arange(by_node.shape[1], device=forced.device) == forced
        return torch.where(forced != NO_ID, only, by_node) & (state.cell != LOST)[:, None]

    def step(self, state: State, token: Tensor) -> State:
        """The state after each row's token [B]."""
        cell = state.cell.clamp(min=0)
        forced = _at(self.forced, cell)
        kind = self._kind(cell, token)
        after = self.goto[state.node, kind]
        move = self.move[state.node, kind]
        last = self.forced.shape[1] - 1
        moved = torch.where(move == JUMP, _at(self.jump, cell), cell + move)
        target = torch.where(forced != NO_ID, cell + 1, moved).clamp(max=last)
        entry = _at(self.entry, target)
        stayed = (forced == NO_ID) & (move == 0)
        node = torch.where(stayed | (entry == KEEP), after, entry)
        is_legal = torch.where(forced != NO_ID, token == forced, after != ILLEGAL) & (state.cell != LOST)
        # Behind a forced token, a node that is kept means nothing: the next free cell has an entry of its own.
        node = torch.where((forced != NO_ID) & (entry == KEEP), state.node, node).clamp(min=0)
        return State(torch.where(is_legal, target, LOST), node)

    def _kind(self, cell: Tensor, token: Tensor) -> Tensor:
        """The class of each row's token, as its cell sees it."""
        kinds = self.goto.shape[1]
        symbols = _at(self.symbols, cell)
        kind = self.classes[token]
        for number in reversed(range(SYMBOLS)):
            kind = torch.where(token == symbols[:, number], kinds - SYMBOLS + number, kind)
        return kind


def _at(table: Tensor, cell: Tensor) -> Tensor:
    """Each row's own entry: table [B, P, ...] and cell [B] give [B, ...]."""
    index = cell.view(-1, 1, *[1] * (table.ndim - 2)).expand(-1, 1, *table.shape[2:])
    return table.gather(1, index).squeeze(1)
