"""The LP ``shaped`` at work: a token is drawn among those that leave a right place, and a dead end sends the text back.

The law is that of ``exact`` with the mask of right tokens over its own: mask, temperature, top-k, top-p, min-p. Tokens
are asked only as far as the draw depends on them. Without filters a token is drawn and asked; one that is struck is
followed by a draw with a new number, among the rest (adaptive weighted rejection sampling, as in genlm-control).
With filters tokens are asked in falling order until who is kept is settled whatever the others are, and one is drawn.
Where nothing is struck the draw is that of ``exact``.

Where no token is right in the widest tolerance the row is at a dead end (`shaped_rows`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.decode.plan import Sampling
from engine.decode.sampling import sample
from engine.decode.shaped_rows import ShapedRow
from engine.lp.prefixes import Array, Columns
from engine.lp.shaped import RIGHT, UNKNOWN, WRONG, Candidates, ShapedTokens

Redraw = Callable[[Sequence[int], Sequence[int]], Tensor]
"""The uniform numbers of some rows' n-th try at their steps."""


@dataclass(slots=True, eq=False)
class _Choice:
    """A row whose token is being decided."""

    index: int  # of the row
    tokens: Candidates
    chances: Array  # [C] under ``exact``, at the sampling's temperature
    order: Columns  # the legal columns, the likeliest first
    column: int  # that is drawn
    tries: int = 0
    was_asked: bool = False  # for what its filters seemed to keep
    is_dead: bool = False


class Shaper:
    """Draws for the rows of one call."""

    def __init__(self, tokens: ShapedTokens, sampling: Sampling, redraw: Redraw) -> None:
        self.tokens, self.sampling, self.redraw = tokens, sampling, redraw

    def choose(self, rows: Sequence[ShapedRow | None], logits: Tensor, numbers: Tensor) -> tuple[Tensor, list[int]]:
        """The columns drawn [B] from logits [B, C] by each row's uniform number [B]; and the rows at a dead end, whose
        columns are as under ``exact``."""
        columns = sample(logits, self.sampling, numbers)
        choices = self._choices(rows, logits, columns.tolist())
        if self.sampling.is_greedy or self.sampling.has_filters:
            self._settle(choices)
            again = [choice for choice in choices if (choice.tokens.status[choice.order] == WRONG).any()]
            again = [choice for choice in again if not choice.is_dead]
            if again:
                index = [choice.index for choice in again]
                columns[index] = sample(_without_struck(logits, again), self.sampling, numbers[index])
        else:
            self._reject(choices, logits)
            for choice in choices:
                if not choice.is_dead:
                    columns[choice.index] = choice.column
        return columns, [choice.index for choice in choices if choice.is_dead]

    def _choices(self, rows: Sequence[ShapedRow | None], logits: Tensor, columns: Sequence[int]) -> list[_Choice]:
        """Of rows that have more than one token to choose from."""
        scores = logits.double().cpu().numpy()
        legal = np.isfinite(scores)
        asked = [(index, row) for index, row in enumerate(rows) if row is not None and row.answer.is_asked]
        asked = [(index, row) for index, row in asked if legal[index].sum() > 1]
        if not asked:
            return []
        of_rows = [index for index, _ in asked]
        scaled = np.where(legal[of_rows], scores[of_rows], -np.inf) / (self.sampling.temperature or 1.0)
        chances = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        order = np.argsort(-chances, axis=1, kind="stable")
        tokens = self.tokens.candidates([row.answer for _, row in asked], legal[of_rows])
        return [
            _Choice(index, tokens[at], chances[at], order[at, : legal[index].sum()], columns[index])
            for at, index in enumerate(of_rows)
        ]

    def _settle(self, choices: Sequence[_Choice]) -> None:
        """Ask until it is known of each row which tokens its filters keep."""
        waiting = list(choices)
        while waiting:
            wanted = []
            for choice in waiting:
                needed = self._needed(choice)
                while needed is None and self.tokens.widen(choice.tokens):
                    needed = self._needed(choice)
                choice.is_dead = needed is None
                if needed is not None and len(needed):
                    wanted.append((choice, needed))
                    choice.was_asked = True
            if wanted:
                self.tokens.ask([(choice.tokens, needed) for choice, needed in wanted])
            waiting = [choice for choice, _ in wanted]

    def _needed(self, choice: _Choice) -> Columns | None:
        """What has to be known before a draw; None where nothing is right."""
        sampling = self.sampling
        left: Columns = choice.order[choice.tokens.status[choice.order] != WRONG]
        if not len(left):
            return None
        left = left[: 1 if sampling.is_greedy else sampling.top_k or None]
        chances, is_known = choice.chances[left], choice.tokens.status[left] == RIGHT
        before = chances.cumsum() - chances
        before[0] = -1.0
        kept = before < sampling.top_p * chances.sum()
        kept &= chances >= sampling.min_p * chances[0]
        unknown: Columns = left[~is_known]
        if not is_known[kept].all():
            return unknown if choice.was_asked else np.intersect1d(unknown, left[kept])
        surely = before < sampling.top_p * chances[is_known].sum()
        return unknown[:0] if surely[kept].all() else unknown

    def _reject(self, choices: Sequence[_Choice], logits: Tensor) -> None:
        """Draw, ask, and where the token is struck draw again among the rest."""
        waiting = list(choices)
        while waiting:
            self._ask_drawn(waiting)
            waiting = [choice for choice in waiting if choice.tokens.status[choice.column] == WRONG]
            for choice in waiting:
                is_spent = (choice.tokens.status[choice.order] == WRONG).all()
                choice.is_dead = bool(is_spent) and not self.tokens.widen(choice.tokens)
            waiting = [choice for choice in waiting if not choice.is_dead]
            if waiting:
                self._draw_again(waiting, logits)

    def _ask_drawn(self, choices: Sequence[_Choice]) -> None:
        unknown = [choice for choice in choices if choice.tokens.status[choice.column] == UNKNOWN]
        if unknown:
            self.tokens.ask([(choice.tokens, np.array([choice.column])) for choice in unknown])

    def _draw_again(self, choices: Sequence[_Choice], logits: Tensor) -> None:
        for choice in choices:
            choice.tries += 1
        numbers = self.redraw([choice.index for choice in choices], [choice.tries for choice in choices])
        drawn = sample(_without_struck(logits, choices), self.sampling, numbers).tolist()
        for choice, column in zip(choices, drawn, strict=True):
            choice.column = column


def _without_struck(logits: Tensor, choices: Sequence[_Choice]) -> Tensor:
    """The logits of these rows, minus infinity where a token is struck."""
    struck = torch.from_numpy(np.stack([choice.tokens.status == WRONG for choice in choices])).to(logits.device)
    return logits[[choice.index for choice in choices]].masked_fill(struck, -math.inf)
