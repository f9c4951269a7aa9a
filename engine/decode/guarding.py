"""A guard at work in one answer: each block is looked at as it closes, and what fails is thrown away and redrawn.

A block that fails is drawn again, ``retries`` times. Then the text goes back to the latest block that the failed check
also depends on, and once that has led to nothing, to the one before it, ``back`` times for a block. What fails even
then is kept, and named, and nothing is drawn again behind it: the answer is wrong already. Going back changes what the
row draws by (its *rewinds* are part of the key), never what was drawn: every number that is kept was the model's own.

Known here are ids, places in the program, and coordinates. Both backends ask this module; going back is theirs to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from engine.chem.guard import MoleculeGuard, WrongPlace
from engine.decode.steps import Back, Kept
from engine.errors import ConstraintError
from engine.figures.words import listed
from engine.lp.prefixes import first_prefix
from engine.lp.table import NO_ID, Program
from engine.lp_records import GuardSettings
from engine.records import TRIMMED4, NumberFormat

if TYPE_CHECKING:
    from engine.text.tokenizers import TextTokenizer


def wrong_already(wrong: Sequence[WrongPlace], position: int) -> ConstraintError:
    """Of a text that is to be gone on with."""
    first = wrong[0]
    atoms = listed([str(atom) for atom in first.atoms])
    return ConstraintError(
        f"the block that ends at token {position} is wrong already ({first.check}, atoms {atoms})",
        "Branch before it, or under exact",
    )


class AnswerGuard:
    """What a molecule's program and guard say of its blocks: all answers for it share one."""

    def __init__(
        self,
        guard: MoleculeGuard,
        program: Program,
        tokenizer: TextTokenizer,
        settings: GuardSettings,
        form: NumberFormat = TRIMMED4,
    ) -> None:
        self.guard, self.program, self.settings = guard, program, settings
        self._raw, self._before = tokenizer.raw, first_prefix(form)
        free = np.flatnonzero(program.forced == NO_ID)
        blocks = program.block[free]
        self.blocks = int(blocks.max(initial=-1)) + 1
        self.first = [int(free[blocks == block][0]) for block in range(self.blocks)]
        self.closing = [int(free[blocks == block][-1]) for block in range(self.blocks)]

    def row(self, sample: int, limit: int) -> GuardedRow:
        return GuardedRow(self, sample, limit)

    def start(self, block: int) -> tuple[int, int]:
        """Cell and node at which a block's first choice is made."""
        return self.first[block], int(self.program.entry[self.first[block]])

    def position(self, ids: Sequence[int]) -> tuple[float, ...]:
        """The numbers of a block, given its ids with those that open and close it."""
        position = self._before.read(b"".join(map(self._raw, ids)).decode("utf-8", "replace")).closed
        assert position is not None
        return position


class GuardedRow:
    """One answer under its guard: which block it is in, and what it threw away so far."""

    def __init__(self, shared: AnswerGuard, sample: int, limit: int) -> None:
        """``limit``: of the sample, in tokens that are kept."""
        self.shared, self.sample, self.limit = shared, sample, limit
        self.rewinds = self.thrown = self.block = 0  # thrown: blocks
        self.unmended: list[WrongPlace] = []
        blocks = shared.blocks
        self.positions = np.zeros((blocks, 3))
        self.starts = [shared.first[0] if blocks else 0, *[0] * (blocks - 1)]  # position of each block's first draw
        self.tries, self.backs = [0] * blocks, [0] * blocks  # backs: how often a block sent the text to an earlier one
        self.reached = list(range(blocks))  # and to which block at the last
        self.kept_until = 0  # the first block that may be redrawn

    def read(self, kept: Kept) -> None:
        """The tokens that a branch keeps; an error where a block of them is wrong. A block of which some are kept may
        not be redrawn."""
        for number, (id_, place) in enumerate(zip(kept.ids, kept.places, strict=True)):
            _, back = self.passed(kept.ids[:number], [id_], place, NO_ID)
            if back is not None or self.unmended:
                raise wrong_already([*([] if back is None else back.wrong), *self.unmended], number)
        is_begun = self.block < self.shared.blocks and self.starts[self.block] < len(kept.ids)
        self.kept_until = self.block + is_begun

    def passed(
        self, written: Sequence[int], ids: Sequence[int], at: tuple[int, int], end_id: int
    ) -> tuple[Sequence[int], Back | None]:
        """Of new ids, which led to this cell and node, those to be handed out; and whether it goes back then."""
        close = self._close_at(len(written) + len(ids), at[0], has_end=ids[-1] == end_id)
        back = None if close is None else self._look([*written, *ids], close)
        return (ids, None) if back is None or close is None else (ids[: close + 1 - len(written)], back)

    def _close_at(self, length: int, cell: int, *, has_end: bool) -> int | None:
        """Where the block was closed, if it was: ``length`` tokens have led to ``cell``, the end perhaps among them.

        The last cell is never left, so behind the end token a row still is in it; or in one of the cells by which a
        batch fills up its shorter programs. What a limit cuts off anyway is not looked at.
        """
        cell = min(cell, len(self.shared.program) - 1)
        if self.block == self.shared.blocks or cell <= self.shared.closing[self.block]:
            return None
        close = length - 1 - (cell + has_end - self.shared.closing[self.block] - 1)
        return close if close + 1 < self.limit else None

    def _look(self, ids: Sequence[int], close: int) -> Back | None:
        """Judge the block that the token at ``close`` ended; the ids go that far at least. None: it stays."""
        shared, block = self.shared, self.block
        self.positions[block] = shared.position(ids[self.starts[block] - 1 : close + 1])
        wrong = tuple(shared.guard.wrong_places(self.positions, block))
        target = self._target(wrong) if wrong else None
        if target is None:
            self.unmended += wrong
            self._enter(block + 1, close + 1)
            return None
        self.rewinds += 1
        self.thrown += block + 1 - target
        self.block = target
        return Back(self.sample, self.starts[target], target, wrong)

    def _enter(self, block: int, position: int) -> None:
        self.block = block
        if block < self.shared.blocks:
            opening = self.shared.first[block] - self.shared.closing[block - 1] - 1
            self.starts[block], self.tries[block] = position + opening, 0

    def _target(self, wrong: Sequence[WrongPlace]) -> int | None:
        """The block to redraw; None where nothing more may be tried."""
        block, settings = self.block, self.shared.settings
        left = settings.most_thrown * self.shared.blocks - self.thrown
        if self.unmended or left < 1 or block < self.kept_until:
            return None
        if self.tries[block] < settings.retries:
            self.tries[block] += 1
            return block
        target = max((atom for failed in wrong for atom in failed.atoms if atom < self.reached[block]), default=block)
        is_kept = target < self.kept_until
        if target == block or is_kept or self.backs[block] == settings.back or block + 1 - target > left:
            return None
        self.backs[block] += 1
        self.reached[block] = target
        self.tries[target] = 0
        return target
