"""Flags the damaged values of a log, batch by batch, keeping no more than a few entries in memory.

A value is compared with its own entry by the median and the median absolute deviation, which hold while less than half
of the entry is garbage. For worse entries those of the batch's other entries of the checkpoint are used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.logits.batches import EntryBatch, Real, Whole
from engine.logits.bits import chance_of, denormal, pointers
from engine.logits.flags import Flag, Flags, bit
from engine.logits.repeats import SIDE_BY_SIDE, Marks, Repeats, alike_needed
from engine.logits.rules import Bounds, Rules

ROBUST = 1.4826
"""The median absolute deviation times this is the standard deviation of a normal distribution."""
SICK_SPREADS = 10
"""An entry whose spread exceeds the batch's by this factor is not compared with itself."""
MOST_BY_CHANCE = 20
"""Zeros at a position are no coincidence when there are so many times more than expected by chance."""
LEAST_ZEROS = 3


@dataclass(frozen=True, slots=True, eq=False)
class BatchFlags:
    """A batch's flags [N], and each entry's [E] median and spread, NaN where it has none."""

    flags: Flags
    middle: Real
    spread: Real


class Detector:
    """The search through one log."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.repeats = Repeats(rules.most_chance, rules.reach)
        self._masks = np.array(rules.masks)

    def judge(self, batch: EntryBatch) -> BatchFlags:
        flags = np.zeros(len(batch.values), dtype=np.uint8)
        middle, spread = np.full(len(batch), np.nan), np.full(len(batch), np.nan)
        for checkpoint, entries in batch.parts():
            columns = batch.columns(entries)
            values, positions = batch.values[columns], batch.positions[columns]
            flags[columns], middle[entries], spread[entries] = self._part(
                checkpoint, values, positions, batch.sequence[entries]
            )
        return BatchFlags(flags, middle, spread)

    def _part(self, checkpoint: str, values: Real, positions: Whole, sequence: Whole) -> tuple[Flags, Real, Real]:
        bounds, most = self.rules.bounds(checkpoint), self.rules.most_chance
        flags = np.zeros(values.shape, dtype=np.uint8)

        def mark(flag: Flag, where: Marks) -> None:
            flags[where] |= bit(flag)

        addresses = pointers(values, positions)
        chance = chance_of(np.where(addresses, np.nan, values) if addresses.any() else values)
        is_finite, is_zero = np.isfinite(values), values == 0
        mark("non_finite", ~is_finite)
        mark("denormal", denormal(values))
        mark("pointer", addresses)
        masks = is_mask(values, self._masks)
        mark("constant", _constant(values, chance.equal, most) & is_finite & ~masks)
        if bounds.zeros:
            mark("zero", _zeros(is_zero, chance.zero, most))
        is_outlier, middle, spread = outliers(values, flags == 0, bounds)
        mark("outlier", is_outlier & is_finite)
        comparable = is_finite & ~is_zero & ~masks
        mark("repeated", self.repeats.find(checkpoint, values, positions, sequence, comparable, chance.equal))
        return flags, middle, spread


def is_mask(values: Real, masks: Real) -> Marks:
    """Minus infinity, and numbers that code writes as a mask."""
    found = np.isneginf(values)
    suspects = np.flatnonzero(values <= masks.max())
    if len(suspects):
        flat, some = found.reshape(-1), values.reshape(-1)[suspects]
        with np.errstate(invalid="ignore"):
            flat[suspects] |= np.isclose(some[:, None], masks, rtol=1e-6, atol=0).any(axis=1)
        found = flat.reshape(values.shape)
    return found


def outliers(values: Real, is_usable: Marks, bounds: Bounds) -> tuple[Marks, Real, Real]:
    """[E, W] values far from the rest of their entries, and the entries' middles and spreads [E]."""
    own = is_usable & (np.abs(values) < bounds.absurd)
    middle, count = _medians(values, own)
    spread = ROBUST * _medians(np.abs(values - middle[:, None]), own)[0]
    known = count > 0
    if not known.any():
        return np.abs(values) >= bounds.absurd, middle, spread
    usual, usual_spread = float(np.median(middle[known])), float(np.median(spread[known]))
    most_spread = SICK_SPREADS * usual_spread + bounds.least / bounds.spreads
    most_shift = SICK_SPREADS * (bounds.spreads * usual_spread + bounds.least)  # softmax does not see where a row lies
    is_sick = ~known | (spread > most_spread) | (np.abs(middle - usual) > most_shift)
    center = np.where(is_sick, usual, middle)
    scale = np.where(is_sick, usual_spread, spread)
    room = np.maximum(bounds.least, bounds.spreads * scale)
    with np.errstate(invalid="ignore"):
        found = (np.abs(values - center[:, None]) > room[:, None]) | (np.abs(values) >= bounds.absurd)
    return found, middle, spread


def _medians(values: Real, own: Marks) -> tuple[Real, Whole]:
    """Of each row's own values, and how many they are; NaN where there are none."""
    count = own.sum(axis=1)
    ordered = np.sort(np.where(own, values, np.inf), axis=1)
    rows, last = np.arange(len(values)), values.shape[1] - 1
    low = ordered[rows, np.clip((count - 1) // 2, 0, last)]
    high = ordered[rows, np.clip(count // 2, 0, last)]
    with np.errstate(invalid="ignore"):
        return np.where(count > 0, (low + high) / 2, np.nan), count


def _constant(values: Real, chance: float, most_chance: float) -> Marks:
    """All of an entry of one repeated value, where the entry is long enough for that to be no coincidence."""
    width = values.shape[1]
    needed = alike_needed(chance, 1, most_chance)
    if width - 1 < (needed * SIDE_BY_SIDE if needed > 1 else 1):
        return np.zeros(values.shape, dtype=np.bool_)
    is_one: NDArray[np.bool_] = (values == values[:, :1]).all(axis=1)
    return np.broadcast_to(is_one[:, None], values.shape)


def _zeros(is_zero: Marks, chance: float, most_chance: float) -> Marks:
    """Zeros that chance does not explain: any in a precise log, else side by side, or repeatedly at one position."""
    needed = alike_needed(chance, 1, most_chance)
    if needed <= 1 or not is_zero.any():
        return is_zero
    found = np.zeros_like(is_zero)
    pairs = is_zero[:, 1:] & is_zero[:, :-1]
    if needed <= 2:
        found[:, 1:] |= pairs
        found[:, :-1] |= pairs
    often = is_zero.sum(axis=0)
    is_often = (often >= LEAST_ZEROS) & (often > MOST_BY_CHANCE * chance * len(is_zero))
    found |= is_zero & is_often
    return found
