"""Answers under the LP ``shaped``, and how they leave dead ends, where no token is right in the widest tolerance.

The text goes back to the last block from which a whole way is found to the end of the rings that the atom belongs to,
and one block farther each time that the same atom has no place. From then on an atom is placed near such a way. What
cannot be helped is written as under ``exact`` and named (`unmended`), and nothing is asked behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.chem.frame import Array
from engine.chem.guard import WrongPlace
from engine.decode.guarding import wrong_already
from engine.decode.steps import Back, Kept, Shaping
from engine.lp.places import failing
from engine.lp.shaped import ShapedAnswer, ShapedMolecule
from engine.lp.table import NO_ID
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
        self.answer = ShapedAnswer(molecule)
        self.settings = settings
        self.sample = sample_id
        self.rewinds = self.thrown = 0  # thrown: blocks
        self.starts = [len(molecule.opening), *[0] * (molecule.blocks - 1)]  # position of each block's first draw
        self.reached = 0  # the block whose first draw came last
        self.tries = [0] * molecule.blocks  # of leaving a dead end at a block
        self.retries = [0] * molecule.blocks  # of a block behind which no way went on
        self.shaping: Shaping | None = None  # of the choice that was made last, until its token is written
        self.kept_until = 0  # the first block that may be redrawn, as far as it is not kept
        self.kept: tuple[Sequence[int], tuple[int, int]] | None = None  # its tokens that are, and where they lead

    def read(self, kept: Kept) -> None:
        """The tokens that a branch keeps; an error where a block of them is wrong."""
        for number, (id_, place) in enumerate(zip(kept.ids, kept.places, strict=True)):
            self.passed(kept.ids[:number], [id_], place, NO_ID)
            if self.unmended:
                raise wrong_already(self.unmended, number)
        self.kept_until = block = self.answer.block
        if kept.ids and self.reached == block < len(self.starts) and self.starts[block] < len(kept.ids):
            self.kept = kept.ids[self.starts[block] :], kept.places[-1]
            self.starts[block] = len(kept.ids)

    def take_shaping(self) -> Shaping | None:
        shaping, self.shaping = self.shaping, None
        return shaping

    @property
    def unmended(self) -> list[WrongPlace]:
        return self.answer.unmended

    def passed(
        self, written: Sequence[int], ids: Sequence[int], at: tuple[int, int], end_id: int
    ) -> tuple[Sequence[int], Back | None]:
        """New ids behind what is written, which led to this cell and node; whether the text goes back then: where an
        atom was placed so that no way goes on behind it."""
        opening = len(self.answer.molecule.opening) - len(written)  # the answer has read it
        self.answer.take(ids[max(0, opening) :], *at)
        block = self.answer.block
        if self.reached < block < len(self.starts) and at[0] == self.answer.molecule.first[block]:
            self.starts[block], self.reached = len(written) + len(ids), block
        lost, self.answer.lost = self.answer.lost, None
        return ids, None if lost is None else self._again(*lost)

    def _again(self, block: int, ways: Array) -> Back | None:
        """The last block once more, by other draws."""
        if self.retries[block] >= self.settings.retries or self._is_spent(1):
            return None
        self.retries[block] += 1
        return self._back(block, ways, self._wrong())

    def _is_spent(self, blocks: int) -> bool:
        return self.thrown + blocks > self.settings.most_thrown * len(self.starts)

    def _wrong(self) -> WrongPlace:
        answer = self.answer
        check, atoms = failing(answer.checks, answer.placed)
        return WrongPlace(check, tuple(answer.molecule.places.text_atoms[atom] for atom in atoms))

    def _back(self, target: int, ways: Array | None, wrong: WrongPlace) -> Back:
        self.rewinds += 1
        self.thrown += self.answer.block + 1 - target
        self.answer.go_back(target, ways)
        if self.kept is not None and target == self.kept_until:
            ids, place = self.kept
            self.answer.take(ids, *place)
        self.reached = target
        return Back(self.sample, self.starts[target], target, (wrong,))

    def go_back(self) -> Back | None:
        """From a dead end; None where nothing more may be tried: what comes then is as under ``exact``."""
        answer, wrong = self.answer, self._wrong()
        tries = self.tries[answer.block]
        atom, ways = self._way_out(answer.checks.atom - tries)
        target = answer.molecule.places.text_atoms[atom]
        is_kept = target < self.kept_until
        if is_kept or tries > self.settings.back or self._is_spent(answer.block + 1 - target):
            answer.unmended.append(wrong)
            return None
        self.tries[answer.block] += 1
        return self._back(target, ways, wrong)

    def _way_out(self, last: int) -> tuple[int, Array | None]:
        """The last atom, at most this one, from which a way was found to where the rings end; and such ways."""
        places, answer = self.answer.molecule.places, self.answer
        until = places.system_ends[answer.checks.atom]
        step, atom = 1, last
        while atom > 0:
            ways = answer.molecule.completion.ways(answer.placed, atom, until)
            if len(ways):
                return atom, ways
            atom = max(atom - step, min(1, atom - 1))  # the first atom may stand anywhere
            step *= 2
        return 0, None
