"""Values that repeat bit for bit in a later token of the same text: signs of a buffer that was not rewritten.

How many have to repeat depends on the log's precision: of values with seven digits one is enough, of values with two
decimals several side by side, or several times in a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.logits.batches import Real, Whole

Marks = NDArray[np.bool_]
MOST_ALIKE = 64
"""Of values side by side, or of tokens in a row: a log that needs more is too coarse."""
SIDE_BY_SIDE, IN_A_ROW = 5, 2
"""In a coarse log neighbours are alike together: the logits of rare tokens rise and fall as one. So many times more of
them have to be alike than if each were so by a chance of its own; measured on bfloat16 and on one to four decimals."""
TEXTS_AT_ONCE = 4
"""Texts whose entries may stand among each other in a file, for repeats to be found from block to block."""
MOST_TAIL_VALUES = 1 << 20
_PRIME = np.uint64(0x9E3779B97F4A7C15)


@dataclass(slots=True)
class Repeats:
    """The search through one log, batch by batch."""

    most_chance: float
    reach: int
    # By checkpoint and width, the last entries of texts that may continue in the next batch: columns as in `find`.
    tails: dict[tuple[str, int], tuple[NDArray[Any], ...]] = field(default_factory=dict)

    def find(
        self, checkpoint: str, values: Real, positions: Whole, sequence: Whole, is_comparable: Marks, chance: float
    ) -> Marks:
        """[E, W] for entries of one width, in their order."""
        key = (checkpoint, values.shape[1])
        columns: tuple[NDArray[Any], ...] = (values, positions, sequence, is_comparable)
        count = len(values)
        if key in self.tails:
            columns = tuple(np.concatenate(parts) for parts in zip(self.tails[key], columns, strict=True))
        values, positions, sequence, is_comparable = columns
        order = np.argsort(sequence, kind="stable")
        found = np.zeros(values.shape, dtype=np.bool_)
        found[order] = self._found(values[order], positions[order], sequence[order], is_comparable[order], chance)
        # The last entries, of however many sequences.
        most = min(TEXTS_AT_ONCE * self.reach, max(1, MOST_TAIL_VALUES // values.shape[1]))
        self.tails[key] = tuple(column[-most:].copy() for column in columns)
        return found[-count:]

    def _found(self, values: Real, positions: Whole, sequence: Whole, is_comparable: Marks, chance: float) -> Marks:
        bits = values.view(np.uint64)
        # Repeats from entry to entry, at one position or side by side.
        is_same = np.zeros(values.shape, dtype=np.bool_)
        is_same[1:] = (bits[1:] == bits[:-1]) & (positions[1:] == positions[:-1]) & is_comparable[1:]
        is_same[1:] &= (sequence[1:] == sequence[:-1])[:, None]
        needed = alike_needed(chance, 1, self.most_chance)
        is_coarse = needed > 1
        found = _in_runs(is_same, needed * (IN_A_ROW if is_coarse else 1), axis=0)
        found |= _in_runs(is_same, needed * (SIDE_BY_SIDE if is_coarse else 1), axis=1)
        width = alike_needed(chance, self.reach, self.most_chance) * (SIDE_BY_SIDE if is_coarse else 1)
        if width <= min(values.shape[1], MOST_ALIKE):
            found |= self._windows(bits, positions, sequence, is_comparable, width)
        return found

    def _windows(
        self, bits: NDArray[np.uint64], positions: Whole, sequence: Whole, is_comparable: Marks, width: int
    ) -> Marks:
        """So many values side by side that any of the last entries of the text had in the same place."""
        count = bits.shape[1] - width + 1
        places = positions[:, :count].astype(np.uint64)
        hashes = _mixed(places ^ _mixed(np.broadcast_to(sequence.astype(np.uint64)[:, None], places.shape)))
        usable = np.ones(places.shape, dtype=np.bool_)
        for place in range(width):
            hashes = _mixed(hashes ^ bits[:, place : place + count])
            usable &= is_comparable[:, place : place + count]
        where = np.flatnonzero(usable)
        flat = hashes.reshape(-1)[where]
        ordered = np.sort(flat)  # which is much faster than to know the order
        twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if len(twice) == 0:
            return np.zeros(bits.shape, dtype=np.bool_)
        where = where[np.isin(flat, twice)]
        flat = hashes.reshape(-1)[where]
        order = np.argsort(flat, kind="stable")
        rows = where[order] // count
        is_again = np.zeros(len(order), dtype=np.bool_)
        is_again[1:] = (flat[order][1:] == flat[order][:-1]) & (np.diff(rows) <= self.reach)
        again = np.zeros(places.size, dtype=np.bool_)
        again[where[order[is_again]]] = True
        return _widened(again.reshape(places.shape), width, bits.shape[1])


def alike_needed(chance: float, others: int, most_chance: float) -> int:
    """How many values have to be alike to rule out chance, where one is compared with so many others."""
    if chance >= 1:
        return MOST_ALIKE + 1
    return max(1, math.ceil((math.log(most_chance) - math.log(others)) / math.log(chance) - 1e-9))


def _in_runs(marks: Marks, needed: int, axis: int) -> Marks:
    """The marks that are among so many in a row."""
    if needed <= 1:
        return marks
    if needed > min(marks.shape[axis], MOST_ALIKE):
        return np.zeros_like(marks)
    turned = marks if axis == 1 else marks.T
    count = turned.shape[1] - needed + 1
    together = np.ones((turned.shape[0], count), dtype=np.bool_)
    for place in range(needed):
        together &= turned[:, place : place + count]
    found = _widened(together, needed, turned.shape[1])
    return found if axis == 1 else found.T


def _widened(starts: Marks, width: int, columns: int) -> Marks:
    found = np.zeros((starts.shape[0], columns), dtype=np.bool_)
    for place in range(width):
        found[:, place : place + starts.shape[1]] |= starts
    return found


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = values * _PRIME
    return np.asarray(mixed ^ (mixed >> np.uint64(29)), dtype=np.uint64)
