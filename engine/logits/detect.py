"""Flags the damaged values of a log, batch by batch, keeping no more than a few entries in memory.

A value is compared with its own entry by the median and the median absolute deviation, which hold while less than half
of the entry is garbage. For worse entries those of the batch's other entries of the checkpoint are used.

Values that repeat bit for bit in a later token of the same text are signs of a buffer that was not rewritten. How many
have to repeat depends on the log's precision: of values with seven digits one is enough, of values with two decimals
several side by side, or several times in a row.

Addresses of user space have 47 bits: read as two single-precision floats, the upper half is a denormal and the lower
half anything. Freed memory begins with such addresses, of the allocator's own lists.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.logits.entries import EntryBatch
from engine.logits.rules import LOGITS, Bounds, Flags, Marks, Real, Rules, Whole, bit
from engine.records import ValueFlag

ROBUST = 1.4826  # the median absolute deviation times this is the standard deviation of a normal distribution
SICK_SPREADS = 10  # an entry whose spread exceeds the batch's by this factor is not compared with itself
LEAST_ZEROS, MOST_BY_CHANCE = 3, 20  # zeros at a position, and so many times more than expected, are no coincidence
LEAST_NORMAL = float(np.finfo(np.float32).tiny)
MOST_HIGH_HALF, ALIGNED = 0x7FFF, 0xF  # of the largest address; bits that are zero in what an allocator hands out
# Upper halves where Linux puts heaps and libraries: any lower half makes an address of them.
HEAPS = ((0x5500, 0x57FF), (0x7E00, 0x7FFF))
MOST_SAMPLED, MOST_PLAUSIBLE, LEAST_SPREAD = 20_000, 1e6, 0.01
MANTISSA, MOST_DECIMALS = 23, 6
DENSITY = 3.5  # of two draws from one bell curve being alike: a step over so many spreads
MOST_ALIKE = 64  # of values side by side, or of tokens in a row: a log that needs more is too coarse
# In a coarse log neighbours are alike together: the logits of rare tokens rise and fall as one. So many times more of
# them have to be alike than if each were so by a chance of its own; measured on bfloat16 and on one to four decimals.
SIDE_BY_SIDE, IN_A_ROW = 5, 2
TEXTS_AT_ONCE = 4  # whose entries may stand among each other in a file
MOST_TAIL_VALUES = 1 << 20
_PRIME = np.uint64(0x9E3779B97F4A7C15)


class Detector:
    """The search through one log."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        # By checkpoint and width, the last entries of texts that may continue in the next batch.
        self.tails: dict[tuple[str, int], tuple[NDArray[Any], ...]] = {}

    def judge(self, batch: EntryBatch) -> tuple[Flags, Real, Real]:
        """Flags [N], and each entry's [E] median and spread, NaN where it has none."""
        flags = np.zeros(len(batch.values), dtype=np.uint8)
        middle, spread = np.full(len(batch.lines), np.nan), np.full(len(batch.lines), np.nan)
        sequence, widths = batch.column("sequence"), np.diff(batch.starts)
        parts = defaultdict[tuple[str, int], list[int]](list)  # entries of one checkpoint and one width
        for place, width in enumerate(widths.tolist()):
            parts[batch.lines[place].checkpoint, width].append(place)
        for (checkpoint, width), entries in parts.items():
            columns = batch.starts[entries][:, None] + np.arange(width)  # [E', W]
            values, positions, found = batch.values[columns], batch.positions[columns], flags[columns]
            bounds = self.rules.checkpoints[LOGITS if LOGITS in checkpoint.lower() else "other"]
            most = self.rules.most_chance

            def mark(flag: ValueFlag, where: Marks, found: Flags = found) -> None:
                found[where] |= bit(flag)

            is_denormal = (np.abs(values) > 0) & (np.abs(values) < LEAST_NORMAL)
            addresses = pointers(values, positions) if is_denormal.any() else np.zeros_like(is_denormal)
            equal, zero = chances(np.where(addresses, np.nan, values) if addresses.any() else values)
            is_finite, is_zero, masks = np.isfinite(values), values == 0, self.rules.is_mask(values)
            mark("non_finite", ~is_finite)
            mark("denormal", is_denormal)
            mark("pointer", addresses)
            # All of an entry of one value, where the entry is long enough for that to be no coincidence.
            needed = alike_needed(equal, 1, most)
            if width - 1 >= (needed * SIDE_BY_SIDE if needed > 1 else 1):
                mark("constant", (values == values[:, :1]).all(axis=1)[:, None] & is_finite & ~masks)
            if bounds.zeros:
                mark("zero", _zeros(is_zero, zero, most))
            is_outlier, middle[entries], spread[entries] = outliers(values, found == 0, bounds)
            mark("outlier", is_outlier & is_finite)
            comparable = is_finite & ~is_zero & ~masks
            mark("repeated", self._repeats(checkpoint, (values, positions, sequence[entries], comparable), equal))
            flags[columns] = found
        return flags, middle, spread

    def _repeats(self, checkpoint: str, columns: tuple[NDArray[Any], ...], chance: float) -> Marks:
        """Among the entries of this batch and the last ones before it."""
        key, count, width = (checkpoint, columns[0].shape[1]), *columns[0].shape
        if key in self.tails:
            columns = tuple(np.concatenate(parts) for parts in zip(self.tails[key], columns, strict=True))
        reach = self.rules.reach
        most = min(TEXTS_AT_ONCE * reach, max(1, MOST_TAIL_VALUES // width))
        self.tails[key] = tuple(column[-most:].copy() for column in columns)
        order = np.argsort(columns[2], kind="stable")
        values, positions, sequence, is_comparable = (column[order] for column in columns)
        bits = values.view(np.uint64)
        # From entry to entry, at one position or side by side.
        is_same = np.zeros(values.shape, dtype=np.bool_)
        is_same[1:] = (bits[1:] == bits[:-1]) & (positions[1:] == positions[:-1]) & is_comparable[1:]
        is_same[1:] &= (sequence[1:] == sequence[:-1])[:, None]
        needed = alike_needed(chance, 1, self.rules.most_chance)
        in_a_row, beside = (IN_A_ROW, SIDE_BY_SIDE) if needed > 1 else (1, 1)
        found = _in_runs(is_same.T, needed * in_a_row).T | _in_runs(is_same, needed * beside)
        # So many values side by side that any of the last entries of the text had in the same place.
        wide = alike_needed(chance, reach, self.rules.most_chance) * beside
        if wide <= min(width, MOST_ALIKE):
            found |= _again(bits, positions, sequence, is_comparable, wide, reach)
        back = np.zeros_like(found)
        back[order] = found
        return back[-count:]


def alike_needed(chance: float, others: int, most_chance: float) -> int:
    """How many values have to be alike to rule out chance, where one is compared with so many others."""
    if chance >= 1:
        return MOST_ALIKE + 1
    return max(1, math.ceil((math.log(most_chance) - math.log(others)) / math.log(chance) - 1e-9))


def _in_runs(marks: Marks, needed: int) -> Marks:
    """The marks that are among so many side by side."""
    if needed <= 1:
        return marks
    if needed > min(marks.shape[1], MOST_ALIKE):
        return np.zeros_like(marks)
    count = marks.shape[1] - needed + 1
    together: Marks = np.logical_and.reduce([marks[:, place : place + count] for place in range(needed)])
    return _widened(together, needed, marks.shape[1])


def _widened(starts: Marks, width: int, columns: int) -> Marks:
    found = np.zeros((starts.shape[0], columns), dtype=np.bool_)
    for place in range(width):
        found[:, place : place + starts.shape[1]] |= starts
    return found


def _again(
    bits: NDArray[np.uint64], positions: Whole, sequence: Whole, is_comparable: Marks, width: int, reach: int
) -> Marks:
    """Windows of values that stand again, by a hash of their bits, place and text, at most ``reach`` entries later."""
    count = bits.shape[1] - width + 1
    places = positions[:, :count].astype(np.uint64)
    hashes = _mixed(places ^ _mixed(np.broadcast_to(sequence.astype(np.uint64)[:, None], places.shape)))
    usable = np.ones(places.shape, dtype=np.bool_)
    for place in range(width):
        hashes = _mixed(hashes ^ bits[:, place : place + count])
        usable &= is_comparable[:, place : place + count]
    where = np.flatnonzero(usable)
    flat = hashes.reshape(-1)[where]
    order = np.argsort(flat, kind="stable")
    is_again = (np.diff(flat[order]) == 0) & (np.diff(where[order] // count) <= reach)
    again = np.zeros(places.size, dtype=np.bool_)
    again[where[order[1:][is_again]]] = True
    return _widened(again.reshape(places.shape), width, bits.shape[1])


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = values * _PRIME
    return np.asarray(mixed ^ (mixed >> np.uint64(29)), dtype=np.uint64)


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
    room = np.maximum(bounds.least, bounds.spreads * np.where(is_sick, usual_spread, spread))
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


def _zeros(is_zero: Marks, chance: float, most_chance: float) -> Marks:
    """Zeros that chance does not explain: any in a precise log, else side by side, or repeatedly at one position."""
    needed = alike_needed(chance, 1, most_chance)
    if needed <= 1 or not is_zero.any():
        return is_zero
    found = _in_runs(is_zero, 2) if needed == 2 else np.zeros_like(is_zero)
    often = is_zero.sum(axis=0)
    return np.asarray(found | (is_zero & (often >= LEAST_ZEROS) & (often > MOST_BY_CHANCE * chance * len(is_zero))))


# --- bits -----------------------------------------------------------------------------------------------------------


def pointers(values: Real, positions: Whole) -> Marks:
    """[E, W] pairs that are addresses: the lower half at an even position, followed by the upper one."""
    bits = _single_bits(values)
    low, high = bits[:, :-1], bits[:, 1:]
    is_heap = np.logical_or.reduce([(high >= least) & (high <= most) for least, most in HEAPS])
    is_pair = (positions[:, :-1] % 2 == 0) & (positions[:, 1:] == positions[:, :-1] + 1) & (low != 0)
    others = is_pair & ~is_heap & (high > 0) & (high <= MOST_HIGH_HALF)
    aligned = others & ((low & ALIGNED) == 0)
    # Of other numbers a sixteenth is aligned as an allocator aligns.
    pair: Marks = (is_pair & is_heap) | (aligned if 2 * aligned.sum() > others.sum() else np.zeros_like(aligned))
    return _widened(pair, 2, values.shape[1])


def chances(values: Real) -> tuple[float, float]:
    """Of entries [E, W], by their digits and spread: the probabilities that two unrelated values are the same, and that
    one is exactly zero. Floating point is finer there, decimals are not."""
    usable = np.isfinite(values) & (np.abs(values) > LEAST_NORMAL) & (np.abs(values) < MOST_PLAUSIBLE)
    rows, some = values[:: max(1, values.size // MOST_SAMPLED)], values[usable]
    some = some[:: max(1, len(some) // MOST_SAMPLED)]
    if len(some) == 0:  # zeros and garbage alone: no sign of a coarse log, which would have plain numbers
        return 2.0**-MANTISSA, 2.0**-MANTISSA
    # The median over entries, or over positions, of the robust spread along the other axis.
    plain = np.where(np.isfinite(rows) & (np.abs(rows) < MOST_PLAUSIBLE), rows, 0.0)
    spreads = []
    for axis in (1, 0) if len(rows) > 2 else (1,):
        off = np.abs(plain - np.median(plain, axis=axis, keepdims=True))
        spreads.append(ROBUST * float(np.median(np.median(off, axis=axis))))
    spread = max(LEAST_SPREAD, min([one for one in spreads if one > 0], default=0.0))
    decimal = 0.0
    for decimals in range(MOST_DECIMALS + 1):
        scaled = some * 10.0**decimals
        if np.mean(np.abs(scaled - np.round(scaled)) < 1e-6 * np.maximum(1, np.abs(scaled) * 1e-6)) > 0.98:
            decimal = float(10.0**-decimals)
            break
    # Bits of the mantissa that the log uses: 7 for bfloat16.
    mantissa = _single_bits(some) & np.uint32((1 << MANTISSA) - 1)
    lowest = mantissa & (~mantissa + np.uint32(1))
    zeros_at_the_end = np.where(mantissa == 0, MANTISSA, np.log2(np.maximum(lowest, 1)).astype(np.int64))
    used = int(np.percentile(MANTISSA - zeros_at_the_end, 90))
    size = 2.0 ** np.floor(np.log2(float(np.median(np.abs(some)))))
    equal, zero = (max(size * 2.0**-bits, decimal) / (DENSITY * spread) for bits in (used, MANTISSA))
    return min(1.0, equal), min(1.0, zero)


def _single_bits(values: Real) -> NDArray[np.uint32]:
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32).view(np.uint32)
