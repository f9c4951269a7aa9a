"""What the bits of values show: the precision of a log, and which values are memory addresses.

Addresses of user space have 47 bits: read as two single-precision floats, the upper half is a denormal and the lower
half anything. Freed memory begins with such addresses, of the allocator's own lists.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.logits.batches import Real, Whole

LEAST_NORMAL = float(np.finfo(np.float32).tiny)
MOST_HIGH_HALF = 0x7FFF
"""The upper half of the largest address of user space."""
ALIGNED = 0xF
"""Bits that are zero in what an allocator hands out."""
HEAPS = ((0x5500, 0x57FF), (0x7E00, 0x7FFF))
"""Upper halves where Linux puts heaps and libraries: any lower half makes an address of them."""

MOST_SAMPLED = 20_000
MANTISSA = 23
MOST_DECIMALS = 6
MOST_PLAUSIBLE = 1e6
LEAST_SPREAD = 0.01
_DENSITY = 3.5  # of two draws from one bell curve being alike: a step over so many spreads


def denormal(values: Real) -> NDArray[np.bool_]:
    size = np.abs(values)
    return np.asarray((size > 0) & (size < LEAST_NORMAL))


def pointers(values: Real, positions: Whole) -> NDArray[np.bool_]:
    """[E, W] pairs that are addresses: the lower half at an even position, followed by the upper one."""
    found = np.zeros(values.shape, dtype=np.bool_)
    if values.shape[1] < 2 or not denormal(values).any():
        return found
    bits = _single_bits(values)
    low, high = bits[:, :-1], bits[:, 1:]
    is_heap = np.logical_or.reduce([(high >= least) & (high <= most) for least, most in HEAPS])
    is_pair = (positions[:, :-1] % 2 == 0) & (positions[:, 1:] == positions[:, :-1] + 1) & (low != 0)
    pair = is_pair & (is_heap | _aligned(low, is_pair & ~is_heap & (high > 0) & (high <= MOST_HIGH_HALF)))
    found[:, :-1] |= pair
    found[:, 1:] |= pair
    return found


def _aligned(low: NDArray[np.uint32], is_candidate: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The candidates, if most of them are aligned as an allocator aligns; of other numbers a sixteenth is."""
    found = is_candidate & ((low & ALIGNED) == 0)
    return found if 2 * found.sum() > is_candidate.sum() else np.zeros_like(found)


@dataclass(frozen=True, slots=True)
class Chance:
    """Probabilities of coincidences in a log, by its digits and the spread of its values."""

    equal: float  # of two unrelated values being the same
    zero: float  # of a value being exactly zero: floating point is finer there, decimals are not


def chance_of(values: Real) -> Chance:
    """Of entries [E, W]."""
    usable = np.isfinite(values) & (np.abs(values) > LEAST_NORMAL) & (np.abs(values) < MOST_PLAUSIBLE)
    rows = values[:: max(1, values.size // MOST_SAMPLED)]
    some = values[usable]
    some = some[:: max(1, len(some) // MOST_SAMPLED)]
    if len(some) == 0:  # zeros and garbage alone: no sign of a coarse log, which would have plain numbers
        return Chance(2.0**-MANTISSA, 2.0**-MANTISSA)
    within = _spread(rows, axis=1)
    across = _spread(rows, axis=0) if len(rows) > 2 else within
    spread = max(LEAST_SPREAD, min([one for one in (within, across) if one > 0], default=0.0))
    decimal = _decimal_step(some)
    size = 2.0 ** np.floor(np.log2(float(np.median(np.abs(some)))))
    equal, zero = max(size * 2.0 ** -_bits(some), decimal), max(size * 2.0**-MANTISSA, decimal)
    return Chance(min(1.0, equal / (_DENSITY * spread)), min(1.0, zero / (_DENSITY * spread)))


def _spread(rows: Real, axis: int) -> float:
    """The median over entries, or over positions, of the robust spread along the other axis."""
    usable = np.where(np.isfinite(rows) & (np.abs(rows) < MOST_PLAUSIBLE), rows, 0.0)
    middle = np.median(usable, axis=axis, keepdims=True)
    return 1.4826 * float(np.median(np.median(np.abs(usable - middle), axis=axis)))


def _bits(values: Real) -> int:
    """Bits of the mantissa that the log uses: 7 for bfloat16."""
    bits = _single_bits(values) & np.uint32((1 << MANTISSA) - 1)
    lowest = bits & (~bits + np.uint32(1))
    zeros_at_the_end = np.where(bits == 0, MANTISSA, np.log2(np.maximum(lowest, 1)).astype(np.int64))
    return int(np.percentile(MANTISSA - zeros_at_the_end, 90))


def _decimal_step(values: Real) -> float:
    for decimals in range(MOST_DECIMALS + 1):
        scaled = values * 10.0**decimals
        if np.mean(np.abs(scaled - np.round(scaled)) < 1e-6 * np.maximum(1, np.abs(scaled) * 1e-6)) > 0.98:
            return float(10.0**-decimals)
    return 0.0


def _single_bits(values: Real) -> NDArray[np.uint32]:
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32).view(np.uint32)
