"""Flags the damaged values among a log's entries.

A value is compared with its own entry by the median and the median absolute deviation, which hold while less than half
of the entry is garbage. For worse entries those of the other entries of the checkpoint are used.

Values that repeat bit for bit in a later token of the same text are signs of a buffer that was not rewritten. How many
have to repeat depends on the log's precision: of values with seven digits one is enough, of values with two decimals
several side by side, or several times in a row.

Addresses of user space have 47 bits: read as two single-precision floats, the upper half is a denormal and the lower
half anything. Freed memory begins with such addresses, of the allocator's own lists.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from engine.logits.entries import EntryBatch
from engine.logits.rules import LOGITS, Bounds, Flags, Marks, Real, Rules, Whole, bit

ROBUST = 1.4826  # the median absolute deviation times this is the standard deviation of a normal distribution
SICK_SPREADS = 10  # an entry with a spread above the batch's by this factor is not compared with itself
LEAST_ZEROS, MOST_BY_CHANCE = 3, 20  # zeros at a position, and so many times more than expected, are no coincidence
LEAST_NORMAL = float(np.finfo(np.float32).tiny)
MOST_HIGH_HALF, ALIGNED = 0x7FFF, 0x7  # of the largest address; bits that are zero in nearly every address
MOST_SAMPLED, MOST_PLAUSIBLE, LEAST_SPREAD = 20_000, 1e6, 0.01
MANTISSA, MOST_DECIMALS = 23, 6
DENSITY = 3.5  # of two draws from one bell curve being equal: a step over so many spreads
MOST_ALIKE = 64  # of values side by side, or of tokens in a row: a log that needs more is too coarse
# In a coarse log equal neighbours come in groups: the logits of rare tokens rise and fall as one. So many times more of
# them have to be equal than if each were so by a chance of its own; measured on bfloat16 and on one to four decimals.
SIDE_BY_SIDE, IN_A_ROW = 5, 2


@np.errstate(all="ignore")
def judge(batch: EntryBatch, rules: Rules) -> tuple[Flags, Real, Real]:
    """Flags [N], and each entry's [E] median and spread, NaN where it has none."""
    flags = np.zeros(len(batch.values), dtype=np.uint8)
    middle, spread = np.full(len(batch.lines), np.nan), np.full(len(batch.lines), np.nan)
    sequence, widths = batch.column("sequence"), np.diff(batch.starts)
    parts = defaultdict[tuple[str, int], list[int]](list)  # entries of one checkpoint and one width
    for index, width in enumerate(widths.tolist()):
        parts[batch.lines[index].checkpoint, width].append(index)
    for (checkpoint, width), entries in parts.items():
        columns = batch.starts[entries][:, None] + np.arange(width)  # [E', W]
        values = batch.values[columns]
        positions = batch.positions[columns]
        codes = flags[columns]
        bounds = rules.checkpoints[LOGITS if LOGITS in checkpoint.lower() else "other"]
        is_denormal = (np.abs(values) > 0) & (np.abs(values) < LEAST_NORMAL)
        addresses = pointers(values, positions) if is_denormal.any() else np.zeros_like(is_denormal)
        is_finite = np.isfinite(values)
        is_zero = values == 0
        masks = rules.is_mask(values)
        # [E', 1] Entries of zeros alone, which say nothing of the digits that a log has.
        is_blank = (is_zero.all(axis=1) & (width > 1))[:, None]
        strange = addresses | is_blank if not is_blank.all() else addresses
        equal, zero = chances(np.where(strange, np.nan, values) if strange.any() else values)
        codes |= ~is_finite * bit("non_finite")
        codes |= is_denormal * bit("denormal") | addresses * bit("pointer")
        # All of an entry of one value, where the entry is long enough for that to be no coincidence.
        needed = alike_needed(equal, 1, rules.most_chance)
        if width - 1 >= (needed * SIDE_BY_SIDE if needed > 1 else 1):
            codes |= ((values == values[:, :1]).all(axis=1)[:, None] & is_finite & ~masks) * bit("constant")
        if bounds.zeros:
            # Any in a precise log; in a coarse one those that keep coming at one position, and entries of zeros alone
            # that are long enough: one of their values is zero by chance, and the others are what it is.
            is_blank &= zero * equal ** (width - 1) <= rules.most_chance
            codes |= is_blank * (bit("zero") | bit("constant"))
            often = (is_zero & ~is_blank).sum(axis=0)
            is_often = (often >= LEAST_ZEROS) & (often > MOST_BY_CHANCE * zero * len(values))
            codes |= (is_zero & ((zero <= rules.most_chance) | is_often)) * bit("zero")
        is_outlier, middle[entries], spread[entries] = outliers(values, codes == 0, bounds)
        codes |= (is_outlier & is_finite) * bit("outlier")
        masks |= is_zero | ~is_finite
        codes |= repeats(values, positions, sequence[entries], ~masks, equal, rules) * bit("repeated")
        flags[columns] = codes
    return flags, middle, spread


def repeats(values: Real, positions: Whole, sequence: Whole, usable: Marks, chance: float, rules: Rules) -> Marks:
    """[E, W] values that an earlier entry of the text had in the same place."""
    order = np.argsort(sequence, kind="stable")
    bits = values.view(np.uint64)[order]
    positions = positions[order]
    sequence = sequence[order]
    usable = usable[order]
    # From entry to entry, at one position or side by side.
    is_same = np.zeros(bits.shape, dtype=np.bool_)
    is_same[1:] = (bits[1:] == bits[:-1]) & (positions[1:] == positions[:-1]) & usable[1:]
    is_same[1:] &= (sequence[1:] == sequence[:-1])[:, None]
    needed = alike_needed(chance, 1, rules.most_chance)
    in_a_row, adjacent = (IN_A_ROW, SIDE_BY_SIDE) if needed > 1 else (1, 1)
    is_repeated = _in_runs(is_same.T, needed * in_a_row).T | _in_runs(is_same, needed * adjacent)
    # So many values side by side that any of the last entries of the text had in the same place.
    wide = alike_needed(chance, rules.reach, rules.most_chance) * adjacent
    if wide <= min(bits.shape[1], MOST_ALIKE):
        _, which, times = np.unique(bits, return_inverse=True, return_counts=True)
        is_known = (times > 1)[which].reshape(bits.shape) & usable
        seen: dict[tuple[int, int, bytes], int] = {}
        for row, column in np.argwhere(sliding_window_view(is_known, wide, axis=1).all(axis=2)).tolist():
            window = int(sequence[row]), int(positions[row, column]), bits[row, column : column + wide].tobytes()
            if row - seen.get(window, -rules.reach - 1) <= rules.reach:
                is_repeated[row, column : column + wide] = True
            seen[window] = row
    back = np.zeros_like(is_repeated)
    back[order] = is_repeated
    return back


def alike_needed(chance: float, others: int, most_chance: float) -> int:
    """How many values have to be equal to rule out chance, where one is compared with so many others."""
    if chance >= 1:
        return MOST_ALIKE + 1
    return max(1, math.ceil((math.log(most_chance) - math.log(others)) / math.log(chance) - 1e-9))


def _in_runs(marks: Marks, needed: int) -> Marks:
    """The marks that are among so many side by side."""
    if needed > MOST_ALIKE:
        return np.zeros_like(marks)
    whole = sliding_window_view(np.pad(marks, ((0, 0), (needed - 1, needed - 1))), needed, axis=1).all(axis=2)
    return np.asarray(sliding_window_view(whole, needed, axis=1).any(axis=2))


def outliers(values: Real, is_usable: Marks, bounds: Bounds) -> tuple[Marks, Real, Real]:
    """[E, W] values far from the rest of their entries, and the entries' middles and spreads [E]."""
    usable = np.ma.array(values, mask=~is_usable | (np.abs(values) >= bounds.absurd))
    middle = np.ma.filled(np.ma.median(usable, axis=1), np.nan)  # type: ignore[no-untyped-call]
    off = np.abs(usable - middle[:, None])
    spread = ROBUST * np.ma.filled(np.ma.median(off, axis=1), np.nan)  # type: ignore[no-untyped-call]
    has_middle = np.isfinite(middle)
    if not has_middle.any():
        return np.abs(values) >= bounds.absurd, middle, spread
    usual, usual_spread = float(np.median(middle[has_middle])), float(np.median(spread[has_middle]))
    most_spread = SICK_SPREADS * usual_spread + bounds.least / bounds.spreads
    most_shift = SICK_SPREADS * (bounds.spreads * usual_spread + bounds.least)  # softmax does not see where a row is
    is_sick = ~has_middle | (spread > most_spread) | (np.abs(middle - usual) > most_shift)
    center = np.where(is_sick, usual, middle)
    room = np.maximum(bounds.least, bounds.spreads * np.where(is_sick, usual_spread, spread))
    is_far = np.abs(values - center[:, None]) > room[:, None]
    return is_far | (np.abs(values) >= bounds.absurd), middle, spread


# --- bits -----------------------------------------------------------------------------------------------------------


def pointers(values: Real, positions: Whole) -> Marks:
    """[E, W] pairs that are addresses: the lower half at an even position, followed by the upper one."""
    bits = values.astype(np.float32).view(np.uint32)
    low, high = bits[:, :-1], bits[:, 1:]
    pair = (positions[:, :-1] % 2 == 0) & (positions[:, 1:] == positions[:, :-1] + 1)
    pair &= (low != 0) & (high > 0) & (high <= MOST_HIGH_HALF)
    aligned = pair & ((low & ALIGNED) == 0)
    if 2 * aligned.sum() <= pair.sum():  # of other numbers an eighth is aligned as an address is
        return np.zeros_like(values, dtype=np.bool_)
    return np.asarray(np.pad(aligned, ((0, 0), (0, 1))) | np.pad(aligned, ((0, 0), (1, 0))))


def chances(values: Real) -> tuple[float, float]:
    """Of entries [E, W], by their digits and spread: the probabilities that two unrelated values are the same, and that
    one is exactly zero. Floating point is finer there, decimals are not."""
    usable = np.isfinite(values) & (np.abs(values) < MOST_PLAUSIBLE)
    rows = np.where(usable, values, np.nan)[:: max(1, values.size // MOST_SAMPLED)]
    sampled = values[usable & (np.abs(values) > LEAST_NORMAL)]
    sampled = sampled[:: max(1, len(sampled) // MOST_SAMPLED)]
    moves = np.abs(np.diff(rows.ravel()))  # from neighbour to neighbour
    moves = moves[np.isfinite(moves)]
    if min(len(sampled), len(moves)) == 0:  # zeros and garbage alone: no sign of a coarse log, which has plain numbers
        return 2.0**-MANTISSA, 2.0**-MANTISSA
    spread = max(LEAST_SPREAD, float(np.median(moves)))
    steps = (10.0**-n for n in range(MOST_DECIMALS + 1) if np.mean(np.round(sampled, n) == sampled) > 0.98)
    decimal = next(steps, 0.0)
    # Bits of the mantissa that the log uses: 7 for bfloat16.
    fraction = np.frexp(sampled.astype(np.float32))[0]
    used = next((n for n in range(MANTISSA) if np.mean(fraction * 2.0 ** (n + 1) % 1 == 0) > 0.9), MANTISSA)
    size = 2.0 ** np.floor(np.log2(float(np.median(np.abs(sampled)))))
    equal, zero = (max(size * 2.0**-bits, decimal) / (DENSITY * spread) for bits in (used, MANTISSA))
    return min(1.0, equal), min(1.0, zero)
