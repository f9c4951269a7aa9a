"""The LP ``shaped`` inside anyone's ``model.generate``: scores in, scores out, and nothing is drawn here.

Of the tokens that ``exact`` allows those stay that leave a right place. Right places are thrown once an atom; a token
that holds one needs no question. Of the others the likely ones are asked, until what is not asked is at most ``REST``
of what stays: that is struck too, and ``rest`` says how much it was.

There is no way back from here, so places are asked ahead: a place in a ring that is open must leave places for the
ring's other atoms. Where no token is right those stay whose places miss by least, the atom is named in ``unmended``
if it is wrong as written, and the atoms behind it are asked as before.

What stays follows from the ids, and from the scores that came with them: a beam that changes its row takes its answer
along. ``rest``, ``unmended`` and ``dead_ends`` are those of the rows of the last call; with beams these need not be the
texts that ``generate`` returns.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.chem.guard import WrongPlace
from engine.errors import UnsupportedMoleculeError
from engine.lp.driver import LOST
from engine.lp.exact import ExactConstraint
from engine.lp.prefixes import Array, Columns
from engine.lp.program_processor import ProgramProcessor
from engine.lp.shaped import RIGHT, UNKNOWN, Candidates, Flags, ShapedAnswer, ShapedMolecule, ShapedTokens
from engine.lp.table import NO_ID
from engine.lp_records import GUARD_CHECKS
from engine.records import Molecule

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


class ShapedProcessor(ProgramProcessor):
    """One batch of molecules. ``notes`` name those that cannot be shaped and are written as under ``exact``."""

    def __init__(self, constraint: ExactConstraint, molecules: Sequence[Molecule], end_id: int) -> None:
        programs = [constraint.compile(molecule) for molecule in molecules]
        super().__init__(constraint.automaton, programs, end_id)
        symbols = np.concatenate([program.symbols.ravel() for program in programs])
        columns = np.union1d(constraint.automaton.live, symbols[symbols != NO_ID]).astype(np.int64)
        self._tokens, self._columns = ShapedTokens(constraint, columns), torch.from_numpy(columns)
        self._answers: list[ProcessedAnswer | None] = []
        self.notes: list[str] = []
        made: dict[str, ShapedMolecule | None] = {}
        for molecule, program in zip(molecules, programs, strict=True):
            if molecule.smiles in made:
                continue
            try:
                made[molecule.smiles] = ShapedMolecule(molecule.mol, program, constraint, GUARD_CHECKS)
            except UnsupportedMoleculeError as error:
                made[molecule.smiles] = None
                self.notes.append(f"{molecule.smiles} is written as under exact: {error.what}")
        self._shapes = [made[molecule.smiles] for molecule in molecules]

    @property
    def unmended(self) -> dict[int, list[WrongPlace]]:
        """By row what is wrong in its text so far; rows that are right are not named."""
        return {row: answer.unmended for row, answer in enumerate(self._answers) if answer and answer.unmended}

    @property
    def rest(self) -> list[float]:
        """By row the largest mass that was struck at a token without a question, in parts of what stayed."""
        return [answer.rest if answer else 0.0 for answer in self._answers]

    @property
    def dead_ends(self) -> list[int]:
        """By row the atoms for which no token was right."""
        return [answer.dead_ends if answer else 0 for answer in self._answers]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        allowed = super().__call__(input_ids, scores)
        rows = [row for row, answer in enumerate(self._answers) if answer is not None and answer.is_asked]
        if not rows:
            return allowed
        of_rows = torch.tensor(rows, device=allowed.device)[:, None], self._columns.to(allowed.device)
        masked = allowed[of_rows]  # [rows, C]
        is_struck = self._struck(rows, masked.double().cpu().numpy())
        allowed[of_rows] = masked.masked_fill(torch.from_numpy(is_struck).to(allowed.device), -torch.inf)
        return allowed

    def _begin(self, input_ids: Tensor) -> None:
        super()._begin(input_ids)
        times = len(input_ids) // len(self._shapes)
        self._answers = [
            None if shape is None else ProcessedAnswer(shape) for shape in self._shapes for _ in range(times)
        ]

    def _reorder(self, origin: Tensor) -> None:
        super()._reorder(origin)
        places = origin.tolist()
        if places != list(range(len(places))):
            before = [self._answers[place] for place in places]
            self._answers = [answer and answer.twin() for answer in before]

    def _take(self, token: Tensor) -> None:
        assert self._ended is not None
        ended = self._ended
        super()._take(token)
        assert self._state is not None
        found = torch.stack([token, self._state.cell, self._state.node, ended], dim=1).tolist()
        for answer, (id_, cell, node, has_ended) in zip(self._answers, found, strict=True):
            if answer is None or has_ended:
                continue
            if cell == LOST:
                answer.is_over = True
            elif not answer.is_over:
                answer.read(id_, cell, node)

    def _struck(self, rows: Sequence[int], scores: Array) -> Flags:
        """The columns that may not come [rows, C], by the scores under ``exact``; those of one token alone may."""
        legal = np.isfinite(scores)
        several = np.flatnonzero(legal.sum(axis=1) > 1)
        is_struck = np.zeros(scores.shape, dtype=bool)
        answers = [answer for place in several.tolist() if (answer := self._answers[rows[place]]) is not None]
        if answers:
            tokens = self._tokens.candidates(answers, legal[several])
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
