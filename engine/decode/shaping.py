"""The LP ``shaped`` at work: a token is drawn among those that leave a right place, and a dead end sends the text back.

The law is that of ``exact`` with the mask of right tokens over its own: mask, temperature, top-k, top-p, min-p. Tokens
are asked only as far as the draw depends on them. Without filters a token is drawn and asked; one that is struck is
followed by a draw with a new number, among the rest (adaptive weighted rejection sampling, as in genlm-control).
With filters tokens are asked in falling order until who is kept is settled whatever the others are, and one is drawn.
Where nothing is struck the draw is that of ``exact``.

The share of the mass that is right is estimated as there: what is known to be, and of what is not known all or nothing
by one more draw. The mean over draws is the true share, whatever was asked before.

Where no token is right in the widest tolerance the row is at a dead end (`shaped_rows`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.decode.plan import Sampling
from engine.decode.sampling import MOST_TRIES, sample
from engine.decode.shaped_rows import ShapedRow
from engine.decode.steps import Shaping
from engine.lp.prefixes import Array, Columns
from engine.lp.shaped import RIGHT, UNKNOWN, WRONG, Candidates, Flags, ShapedTokens

Redraw = Callable[[Sequence[int], Sequence[int]], Tensor]
"""The uniform numbers of some rows' n-th try at their steps."""
SEEN = 0.99
"""Of the mass: the likeliest tokens that hold it are compared with what is known to be right."""
LITTLE = 1e-3
"""Of the mass: what is not known is not asked for the weight's sake, and counts as right."""
TIE = 1e-13
"""Of its own mass: by so much a token counts as less likely than an equal one in the column before."""
LIKELIEST = 100
"""So many of a row's tokens are asked together first: a round takes as long as to ask some more of them."""
TOLD = 1e-3
"""Of the mass: a struck token that is less likely is not told of."""


class _Choices:
    """The rows whose tokens are being decided, as arrays [n, C]; ``in_order`` ones have the likeliest token first."""

    def __init__(self, index: Sequence[int], rows: Sequence[ShapedRow], tokens: Candidates, chances: Array) -> None:
        self.index = list(index)
        self.rows = list(rows)
        self.tokens = tokens
        self.chances = chances
        # Of equals the first column comes first, as in `sample`; a stable sort takes five times as long.
        self.order = np.argsort(-chances * (1 - TIE * np.arange(chances.shape[1])), axis=1)
        self.falling = np.take_along_axis(chances, self.order, axis=1)
        self.is_dead = np.zeros(len(index), dtype=bool)
        self.tries = np.zeros(len(index), dtype=np.int64)

    @property
    def is_struck(self) -> Flags:
        """Whether a row has a token that may not come."""
        return np.asarray(((self.tokens.status == WRONG) & self.tokens.is_legal).any(axis=1))

    def status_in_order(self, of: Columns) -> NDArray[np.int8]:
        return self.tokens.status[of[:, None], self.order[of]]

    def pairs(self, of: Columns, in_order: Flags) -> tuple[Columns, Columns]:
        """The choices among ``of`` and the columns of what is flagged [of, C]."""
        at, place = np.nonzero(in_order)
        return of[at], self.order[of[at], place]

    def mass(self, status: int) -> Array:
        """[n] of the legal tokens of a status."""
        return np.asarray((self.chances * ((self.tokens.status == status) & self.tokens.is_legal)).sum(axis=1))


class Shaper:
    """Draws for the rows of one call."""

    def __init__(self, tokens: ShapedTokens, sampling: Sampling, redraw: Redraw) -> None:
        self.tokens, self.sampling, self.redraw = tokens, sampling, redraw

    def choose(self, rows: Sequence[ShapedRow | None], logits: Tensor, numbers: Tensor) -> tuple[Tensor, list[int]]:
        """The columns drawn [B] from logits [B, C] by each row's uniform number [B]; and the rows at a dead end, whose
        columns are as under ``exact``."""
        columns = sample(logits, self.sampling, numbers)
        choices = self._choices(rows, logits)
        if choices is None:
            return columns, []
        if self.sampling.is_greedy or self.sampling.has_filters:
            self._settle(choices)
            again = np.flatnonzero(choices.is_struck & ~choices.is_dead)
            if len(again):
                of = [choices.index[at] for at in again]
                columns[of] = sample(_without_struck(logits, choices, again), self.sampling, numbers[of])
        else:
            self._reject(choices, logits, columns)
        self._weigh(choices, columns)
        return columns, [choices.index[at] for at in np.flatnonzero(choices.is_dead)]

    def _choices(self, rows: Sequence[ShapedRow | None], logits: Tensor) -> _Choices | None:
        """Of rows that have more than one token to choose from."""
        scores = logits.double().cpu().numpy()
        legal = np.isfinite(scores)
        is_choice = legal.sum(axis=1) > 1
        asked = [
            (index, row)
            for index, row in enumerate(rows)
            if row is not None and is_choice[index] and row.answer.is_asked
        ]
        if not asked:
            return None
        index = [index for index, _ in asked]
        scaled = np.where(legal[index], scores[index], -np.inf) / (self.sampling.temperature or 1.0)
        chances = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        tokens = self.tokens.candidates([row.answer for _, row in asked], legal[index])
        choices = _Choices(index, [row for _, row in asked], tokens, chances)
        likeliest = choices.falling.cumsum(axis=1) - choices.falling < SEEN
        self.tokens.see(tokens, *choices.pairs(np.arange(len(index)), likeliest))
        return choices

    def _settle(self, choices: _Choices) -> None:
        """Ask until it is known of each row which tokens its filters keep. First what it needs, each alone, and its
        likeliest ones; where that does not settle it all of its tokens, which takes little longer than a few."""
        waiting, likeliest = np.arange(len(choices.index)), LIKELIEST
        while True:
            waiting, needed = self._needed(choices, waiting)
            if not len(waiting):
                break
            asked = choices.status_in_order(waiting) == UNKNOWN
            asked[:, likeliest:] &= needed[:, likeliest:]
            alone = needed[asked] if likeliest == LIKELIEST else np.zeros(int(asked.sum()), dtype=bool)
            self.tokens.ask(choices.tokens, *choices.pairs(waiting, asked), alone=alone)
            likeliest = choices.chances.shape[1]

    def _needed(self, choices: _Choices, of: Columns) -> tuple[Columns, Flags]:
        """The rows among ``of`` of which something has to be known before a draw, and what, in falling order [rows, C].

        What is kept if nothing more is struck; then as many of the others as it takes that they would be kept whatever
        the rest is. Rows without a right token widen, or are at a dead end.
        """
        left, kept, before = self._kept(choices, of)
        while not (has_left := left.any(axis=1)).all():
            for at in of[~has_left].tolist():
                choices.is_dead[at] = not self.tokens.widen(choices.tokens, at)
            of = of[~choices.is_dead[of]]
            left, kept, before = self._kept(choices, of)
        falling = choices.falling[of]
        is_unknown = left & (choices.status_in_order(of) == UNKNOWN)
        is_first = left & (left.cumsum(axis=1) == 1)
        last = np.where(kept & ~is_first, before, -1.0).max(axis=1, initial=-1.0, keepdims=True)
        known = np.where(left & ~is_unknown, falling, 0.0).sum(axis=1, keepdims=True)
        unknown = np.where(is_unknown, falling, 0.0)
        would_be_known = known + unknown.cumsum(axis=1) - unknown  # before each unknown one, if those before are right
        is_open = is_unknown & (self.sampling.top_p * would_be_known <= last)
        needed = np.where((kept & is_unknown).any(axis=1, keepdims=True), kept & is_unknown, is_open)
        is_waiting = needed.any(axis=1)
        return of[is_waiting], needed[is_waiting]

    def _kept(self, choices: _Choices, of: Columns) -> tuple[Flags, Flags, Array]:
        """In falling order [of, C]: the tokens that are not struck, as many as top-k leaves; those of them that the
        filters keep; and the mass before each."""
        sampling, falling = self.sampling, choices.falling[of]
        left = (choices.status_in_order(of) != WRONG) & (falling > 0)
        rank = left.cumsum(axis=1)
        if sampling.is_greedy or sampling.top_k:
            left &= rank <= (1 if sampling.is_greedy else sampling.top_k)
        chances = np.where(left, falling, 0.0)
        before = chances.cumsum(axis=1) - chances
        kept = left & ((before < sampling.top_p * chances.sum(axis=1, keepdims=True)) | (rank == 1))
        kept &= chances >= sampling.min_p * chances.max(axis=1, initial=0.0, keepdims=True)
        return left, kept, before

    def _reject(self, choices: _Choices, logits: Tensor, columns: Tensor) -> None:
        """Draw, ask, and where the token is struck draw again among the rest."""
        waiting = np.arange(len(choices.index))
        drawn = columns[choices.index].cpu().numpy()  # [n]
        while len(waiting):
            self.tokens.ask(choices.tokens, waiting, drawn[waiting])
            waiting = waiting[choices.tokens.status[waiting, drawn[waiting]] == WRONG]
            for at in waiting.tolist():
                is_spent = not (choices.tokens.status[at] != WRONG).any()
                choices.is_dead[at] = is_spent and not self.tokens.widen(choices.tokens, at)
            waiting = waiting[~choices.is_dead[waiting]]
            if len(waiting):
                choices.tries[waiting] += 1
                numbers = self.redraw([choices.index[at] for at in waiting], choices.tries[waiting].tolist())
                again = sample(_without_struck(logits, choices, waiting), self.sampling, numbers)
                drawn[waiting] = again.cpu().numpy()
        alive = np.flatnonzero(~choices.is_dead)
        columns[[choices.index[at] for at in alive]] = torch.from_numpy(drawn[alive]).to(columns.device)

    def _weigh(self, choices: _Choices, columns: Tensor) -> None:
        """Tell the rows what was struck, and with which probability the tokens were drawn."""
        known, lost = choices.mass(RIGHT), choices.mass(WRONG)
        unknown = np.maximum(1 - known - lost, 0)
        estimated = known + unknown
        open_ = np.flatnonzero((unknown > LITTLE) & ~choices.is_dead)
        if len(open_):
            drawn = self._one_unknown(choices, open_)
            estimated[open_] = known[open_] + unknown[open_] * (choices.tokens.status[open_, drawn] == RIGHT)
        drawn = columns[choices.index].cpu().numpy()
        taken = choices.chances[np.arange(len(drawn)), drawn]
        drawn_from = estimated
        if self.sampling.is_greedy:
            drawn_from = taken
        elif self.sampling.has_filters:
            kept = self._kept(choices, np.arange(len(drawn)))[1]
            drawn_from = np.where(kept, choices.falling, 0.0).sum(axis=1)
        is_told = (choices.tokens.status == WRONG) & (choices.chances > TOLD)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log([estimated, known, known + unknown, taken / drawn_from])  # [4, n]
        for at, row in enumerate(choices.rows):
            struck = self.tokens.columns[is_told[at]].tolist()
            row.shaping = None if choices.is_dead[at] else Shaping(tuple(struck), *np.minimum(logs[:, at], 0).tolist())

    def _one_unknown(self, choices: _Choices, of: Columns) -> Columns:
        """Draw a token of these rows among those of which nothing is known, and ask it: its column."""
        numbers = self.redraw([choices.index[at] for at in of], [MOST_TRIES] * len(of)).cpu().numpy()
        sums = np.where(choices.tokens.status[of] == UNKNOWN, choices.chances[of], 0.0).cumsum(axis=1)
        drawn = (sums <= (numbers * sums[:, -1])[:, None]).sum(axis=1)
        self.tokens.ask(choices.tokens, of, drawn, keeps=False)
        return np.asarray(drawn)


def _without_struck(logits: Tensor, choices: _Choices, of: Columns) -> Tensor:
    """The logits of these rows, minus infinity where a token is struck."""
    struck = torch.from_numpy(choices.tokens.status[of] == WRONG).to(logits.device)
    return logits[[choices.index[at] for at in of]].masked_fill(struck, -math.inf)
