"""Scores an answer by its token ids alone: is every copied token right, and is every block a triple of numbers?

For the training machine, which has neither a tokenizer nor RDKit: imports nothing but Python. Stricter than 'same
graph': the atoms must come in the prompt's order, and the structure be cut as the tokenizer cuts it. Digit runs are
taken however they are cut, and may be of any length. What this module does not know: where the atoms should be.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from engine.text.number_ids import NumberIds

Segments = Sequence[Sequence[int]]


class StructureJudge:
    """One tokenizer's numbers, ready to judge answers."""

    def __init__(self, numbers: NumberIds) -> None:
        self._digits = frozenset(id_ for row in numbers.digits for id_ in row)
        number = (self._digits, frozenset({numbers.point}), self._digits)
        comma = (frozenset({numbers.comma, numbers.comma_minus}),)
        self._triple = (*number, *comma, *number, *comma, *number)

    def first_wrong(self, answer: Sequence[int], plain: Segments, signed: Segments) -> int | None:
        """Position of the first token that is wrong or missing; None where all are right and nothing follows.

        ``answer`` runs from ``[CONFORMER]`` to the end token; ``plain`` and ``signed`` are ``PackedPart.segments``.
        """
        place = 0
        for before_plain, before_signed in zip(plain[:-1], signed[:-1], strict=True):
            agreed = _agreement(answer, place, before_signed)
            if agreed < len(before_signed):
                agreed = max(agreed, _agreement(answer, place, before_plain))
                if agreed < len(before_plain):
                    return place + agreed
            place, is_triple = self._after_triple(answer, place + agreed)
            if not is_triple:
                return place
        place += _agreement(answer, place, plain[-1])
        return None if place == len(answer) and answer[-1] == plain[-1][-1] else place

    def _after_triple(self, answer: Sequence[int], place: int) -> tuple[int, bool]:
        """Where three numbers end, or the first token that is no part of them."""
        for allowed in self._triple:
            start = place
            while place < len(answer) and answer[place] in allowed and (place == start or allowed is self._digits):
                place += 1
            if place == start:
                return place, False
        return place, True


def _agreement(answer: Sequence[int], place: int, segment: Sequence[int]) -> int:
    """How many tokens of the segment stand at this place."""
    pairs = zip(answer[place : place + len(segment)], segment, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
