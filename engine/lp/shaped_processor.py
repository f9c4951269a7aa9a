"""The LP ``shaped`` inside anyone's ``model.generate``: scores in, scores out (see ``shaped_answer``).

What stays follows from the ids, and from the scores that came with them: a beam that changes its row takes its answer
along. ``rest``, ``unmended`` and ``dead_ends`` are those of the rows of the last call; with beams these need not be the
texts that ``generate`` returns.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.chem.guard import WrongPlace
from engine.errors import UnsupportedMoleculeError
from engine.lp.driver import LOST
from engine.lp.exact import ExactConstraint
from engine.lp.program_processor import ProgramProcessor
from engine.lp.shaped import ShapedMolecule
from engine.lp.shaped_answer import ProcessedAnswer, TokenAsker
from engine.lp.table import live_columns
from engine.lp_records import GUARD_CHECKS
from engine.records import Molecule


class ShapedProcessor(ProgramProcessor):
    """One batch of molecules. ``notes`` name those that cannot be shaped and are written as under ``exact``."""

    def __init__(self, constraint: ExactConstraint, molecules: Sequence[Molecule], end_id: int) -> None:
        programs = [constraint.compile(molecule) for molecule in molecules]
        super().__init__(constraint.automaton, programs, end_id)
        columns = live_columns(constraint.automaton, programs)
        self._asker, self._columns = TokenAsker(constraint, columns), torch.from_numpy(columns)
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
        asked = {row: answer for row, answer in enumerate(self._answers) if answer is not None and answer.is_asked}
        if not asked:
            return allowed
        of_rows = torch.tensor(list(asked), device=allowed.device)[:, None], self._columns.to(allowed.device)
        masked = allowed[of_rows]  # [rows, C]
        is_struck = self._asker.struck(list(asked.values()), masked.double().cpu().numpy())
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
