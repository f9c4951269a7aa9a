"""An answer under ``shaped`` where nothing is drawn here and nothing goes back: which tokens may come, by their scores.

Of the tokens that ``exact`` allows those stay that leave a right place. Right places are thrown once an atom; a token
that holds one needs no question. Of the others the likely ones are asked, until what is not asked is at most ``REST``
of what stays: that is struck too, and ``rest`` says how much it was.

There is no way back from here, so places are asked ahead: a place in a ring that is open must leave places for the
ring's other atoms. Where no token is right those stay whose places miss by least, the atom is named in ``unmended``
if it is wrong as written, and the atoms behind it are asked as before.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from engine.lp.exact import ExactConstraint
from engine.lp.prefixes import Array, Columns
from engine.lp.shaped import RIGHT, UNKNOWN, Candidates, Flags, ShapedAnswer, ShapedMolecule, ShapedTokens
from engine.lp.table import NO_ID

REST = 1e-4
"""Of the mass that stays: as much may be struck without a question."""


class ProcessedAnswer(ShapedAnswer):
    """One row's answer, which never goes back."""

    def __init__(self, molecule: ShapedMolecule) -> None:
        self.rest = 0.0
        self.dead_ends = 0
        self.is_over = False
        self._opening = len(molecule.opening)  # tokens that are still to come before the first choice
        super().__init__(molecule)

    def _begin(self) -> None:
        super()._begin()
        self.is_lost = False  # no token of this block was right
        heavy = self.molecule.heavy.get(self.block)
        self.ahead = -1 if heavy is None else self.molecule.places.ring_ends[heavy]

    def read(self, id_: int, cell: int, node: int) -> None:
        """One more token, which led to this cell and node."""
        if self._opening:
            self._opening -= 1
        else:
            self.take([id_], cell, node)

    def widen(self) -> bool:
        """Ask in the next wider tolerance; where there is none, in all of them again without looking ahead."""
        if super().widen():
            return True
        if self.ahead <= self.checks.atom:
            return False
        self.ahead, self.tolerance = -1, -1
        return super().widen()

    @property
    def is_asked(self) -> bool:
        """As of any answer, but behind what is wrong too."""
        if self._opening or self.is_over or self.block not in self.molecule.heavy:
            return False
        return self.molecule.program.forced[self.cell] == NO_ID and len(self.checks.others) > 0

    def twin(self) -> ProcessedAnswer:
        """The same, to be written on in another way."""
        twin = copy.copy(self)
        twin.positions, twin.placed = self.positions.copy(), self.placed.copy()
        twin.unmended = list(self.unmended)
        return twin


class TokenAsker:
    """Of the answers of one constraint."""

    def __init__(self, constraint: ExactConstraint, columns: Columns) -> None:
        """``columns`` are the ids that may ever be chosen, in rising order."""
        self.columns = columns
        self._tokens = ShapedTokens(constraint, columns)

    def struck(self, answers: Sequence[ProcessedAnswer], scores: Array) -> Flags:
        """The columns that may not come [answers, C], by the scores under ``exact``; those of one token alone may."""
        legal = np.isfinite(scores)
        several = np.flatnonzero(legal.sum(axis=1) > 1)
        is_struck = np.zeros(scores.shape, dtype=bool)
        if len(several):
            tokens = self._tokens.candidates([answers[place] for place in several.tolist()], legal[several])
            self._tokens.see(tokens, *np.nonzero(tokens.is_legal))
            chances = np.exp(scores[several] - scores[several].max(axis=1, keepdims=True))
            chances = np.maximum(chances / chances.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
            self._settle(tokens, chances)
            is_struck[several] = tokens.status != RIGHT
        return is_struck

    def _settle(self, tokens: Candidates, chances: Array) -> None:
        """Ask until of each row so much is known that the rest may be struck."""
        waiting = list(range(len(tokens.answers)))
        while waiting:
            needed = {at: self._needed(tokens, at, chances[at]) for at in waiting}
            waiting = [at for at, columns in needed.items() if len(columns)]
            if waiting:
                index = np.repeat(waiting, [len(needed[at]) for at in waiting])
                self._tokens.ask(tokens, index, np.concatenate([needed[at] for at in waiting]))
                place, columns = np.nonzero(tokens.status[waiting] == UNKNOWN)
                tokens.cover(np.array(waiting)[place], columns)

    def _needed(self, tokens: Candidates, at: int, chances: Array) -> Columns:
        """What is to be asked next; nothing where it is known what stays."""
        answer = tokens.answers[at]
        assert isinstance(answer, ProcessedAnswer)
        order = np.argsort(-chances, kind="stable")
        order = order[tokens.is_legal[at, order]]  # the likeliest first
        while not answer.is_lost:
            status = tokens.status[at, order]
            right = float(chances[order[status == RIGHT]].sum())
            unknown: Columns = order[status == UNKNOWN]
            behind = chances[unknown][::-1].cumsum()[::-1]  # mass of each and of all that are less likely
            if len(unknown) and behind[0] > REST * right:
                return np.asarray(unknown[behind > REST * (right or behind[0])])
            if right:
                answer.rest = max(answer.rest, float(behind.max(initial=0.0)) / right)
                break
            if not self._tokens.widen(tokens, at):
                answer.is_lost = True
                answer.dead_ends += 1
        if answer.is_lost:
            self._tokens.least_wrong(tokens, at)
        return np.zeros(0, dtype=np.int64)
