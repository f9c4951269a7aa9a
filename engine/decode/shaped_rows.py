"""Answers under the LP ``shaped``, and how they leave dead ends, where no token is right in the widest tolerance.

The text goes back: to the block's start where the atom had a place then, else to the block before it, and one farther
each time. From then on a place has to leave places for the atoms up to the one that had none. What cannot be helped is
written as under ``exact`` and named (`unmended`), and nothing is asked behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.chem.guard import WrongPlace
from engine.decode.steps import Back, Shaping
from engine.lp.places import failing
from engine.lp.shaped import ShapedAnswer, ShapedMolecule
from engine.lp_records import GuardSettings


@dataclass(frozen=True, slots=True, eq=False)
class AnswerShape:
    """A molecule, and how long a dead end is tried to be left."""

    molecule: ShapedMolecule
    settings: GuardSettings

    def row(self, sample_id: int, limit: int) -> ShapedRow:
        return ShapedRow(self.molecule, self.settings, sample_id)

    def start(self, block: int) -> tuple[int, int]:
        return self.molecule.start(block)


class ShapedRow:
    """One answer under ``shaped``, and its ways back."""

    def __init__(self, molecule: ShapedMolecule, settings: GuardSettings, sample_id: int) -> None:
        self.answer, self.settings, self.sample = ShapedAnswer(molecule), settings, sample_id
        self.rewinds = self.thrown = 0  # thrown: blocks
        self.starts = [len(molecule.opening), *[0] * (molecule.blocks - 1)]  # position of each block's first draw
        self.reached = 0  # the block whose first draw came last
        self.tries = [0] * molecule.blocks
        self.shaping: Shaping | None = None  # of the choice that was made last, until its token is written

    def take_shaping(self) -> Shaping | None:
        shaping, self.shaping = self.shaping, None
        return shaping

    @property
    def unmended(self) -> list[WrongPlace]:
        return self.answer.unmended

    def passed(
        self, written: Sequence[int], ids: Sequence[int], at: tuple[int, int], end_id: int
    ) -> tuple[Sequence[int], None]:
        """New ids behind what is written, which led to this cell and node; none of them is wrong."""
        opening = len(self.answer.molecule.opening) - len(written)  # the answer has read it
        self.answer.take(ids[max(0, opening) :], *at)
        block = self.answer.block
        if self.reached < block < len(self.starts) and at[0] == self.answer.molecule.first[block]:
            self.starts[block], self.reached = len(written) + len(ids), block
        return ids, None

    def go_back(self) -> Back | None:
        """From a dead end; None where nothing more may be tried: what comes then is as under ``exact``."""
        answer, settings = self.answer, self.settings
        check, atoms = failing(answer.checks, answer.placed)
        wrong = WrongPlace(check, tuple(answer.molecule.places.text_atoms[atom] for atom in atoms))
        target = max(0, answer.block - self.tries[answer.block] - (not answer.had_place))
        blocks = answer.block + 1 - target
        is_spent = self.thrown + blocks > settings.most_thrown * len(self.starts)
        if is_spent or self.tries[answer.block] > settings.back:
            answer.unmended.append(wrong)
            return None
        self.tries[answer.block] += 1
        self.tries[target + 1 : answer.block] = [0] * (answer.block - target - 1)
        self.rewinds += 1
        self.thrown += blocks
        answer.ahead = max(answer.ahead, answer.checks.atom)
        answer.go_back(target)
        self.reached = target
        return Back(self.sample, self.starts[target], target, (wrong,))
