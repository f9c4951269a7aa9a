"""The output head on the rows that a constraint may ever allow, and nothing else.

A constraint allows few ids: a dozen that all molecules share, and the two symbols of a cell, which differ from row to
row. All of them together are the *columns*: one static slice of the head, sorted by id, so that a running sum over
columns runs in the order of ids. A row's own legality is a bias on its logits. Where a constraint allows most of the
vocabulary, the slice is the head itself, without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from engine.decode.product import Product
from engine.lp.driver import SYMBOL, State
from engine.lp.table import ILLEGAL, NO_ID, SYMBOLS, Automaton, Program

MOST_SHARE = 0.5
"""Of the vocabulary: with more columns than that, a copy costs more than it saves."""


class LiveHead:
    """The columns of one constraint and one pool of programs."""

    def __init__(
        self,
        head: Tensor,
        automaton: Automaton,
        programs: Sequence[Program],
        whole: Callable[[], Product | None] = lambda: None,
    ) -> None:
        """``whole``: the same head packed, asked for where most of its rows are wanted."""
        symbols = np.unique(np.concatenate([program.symbols.reshape(-1) for program in programs]))
        symbols = symbols[symbols != NO_ID]
        wanted = np.union1d(automaton.live, symbols).astype(np.int64)
        is_slice = len(wanted) > MOST_SHARE * len(automaton.classes)
        columns = np.arange(wanted.max() + 1) if is_slice else wanted
        self.ids = torch.from_numpy(columns).to(head.device)  # [C]
        self.whole = whole() if is_slice else None
        self.weight = head[: len(columns)] if is_slice else head[self.ids]  # [C, W]
        legal = automaton.legal
        self.bias = _bias(legal[:, automaton.classes[columns]], head)  # [Q, C]
        self.symbol_bias = _bias(legal[:, -SYMBOLS:], head)  # [Q, 2]
        self.has_symbols = len(symbols) > 0
        self.is_open = len(legal) == 1 and not self.has_symbols and not bool(self.bias.any())
        # A cell without a symbol points at a column that is never one, and leaves it as it is.
        spare = np.setdiff1d(columns, symbols)[:1] if self.has_symbols else columns[:1]
        places = np.full(len(automaton.classes) + 1, np.searchsorted(columns, spare[0]))
        places[columns] = np.arange(len(columns))
        self.column_of = torch.from_numpy(places).to(head.device)  # [V + 1]; the last is of NO_ID
        self.illegal = [row.nonzero().squeeze(1) for row in self.bias] if self.whole is not None else []  # [Q] columns

    def __call__(self, hidden: Tensor, state: State, here: Tensor) -> Tensor:
        """Logits [B, C] in float32, minus infinity where a token is not legal."""
        if self.is_open:
            return self._logits(hidden)
        if self.whole is not None:
            return self._forbidden(self._logits(hidden), state, here)
        bias = self.bias if len(self.bias) == 1 else self.bias[state.node]
        if self.has_symbols:
            symbols = here[:, SYMBOL]
            columns = self.column_of[symbols]  # [B, 2]
            own = torch.where(symbols == NO_ID, bias.gather(1, columns), self.symbol_bias[state.node])
            bias = bias.scatter(1, columns, own)
        if hidden.dtype == torch.float32:
            return torch.addmm(bias, hidden, self.weight.t())
        return self._logits(hidden) + bias

    def _forbidden(self, logits: Tensor, state: State, here: Tensor) -> Tensor:
        """The same in place, on a CPU: few of many columns are illegal, and a bias for all of them would be read."""
        symbols = here[:, SYMBOL]
        columns = self.column_of[symbols]  # [B, 2]
        own = logits.gather(1, columns) + self.symbol_bias[state.node]
        for row, node in zip(logits, state.node.tolist(), strict=True):
            row[self.illegal[node]] = -torch.inf
        if self.has_symbols:
            logits.scatter_(1, columns, torch.where(symbols == NO_ID, logits.gather(1, columns), own))
        return logits

    def _logits(self, hidden: Tensor) -> Tensor:
        if self.whole is not None:
            return self.whole(hidden)[:, : len(self.ids)].float()
        return functional.linear(hidden, self.weight).float()


def _bias(legal: NDArray[np.bool_], head: Tensor) -> Tensor:
    return torch.from_numpy(np.where(legal, 0.0, -np.inf).astype(np.float32)).to(head.device)


def forces_nothing_first(automaton: Automaton, programs: Sequence[Program]) -> bool:
    """Whether no free cell begins with, and no forced choice leads to, another choice that is forced.

    Then a row that has taken a token and what ``Tables.advance`` appends to it stands at a real choice.
    """
    single = automaton.single() != NO_ID
    entries = np.unique(np.concatenate([program.entry[program.forced == NO_ID] for program in programs]))
    if single[entries[entries >= 0]].any():
        return False
    led = automaton.goto[single]
    return not single[led[led != ILLEGAL]].any()
