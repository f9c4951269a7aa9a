"""The kinds of damage that a value can be flagged with. A value may have several."""

from __future__ import annotations

from typing import get_args

import numpy as np
from numpy.typing import NDArray

from engine.records import ValueFlag

Flag = ValueFlag
FLAGS: tuple[Flag, ...] = get_args(Flag)
Flags = NDArray[np.uint8]
"""One bit a flag, in the order of FLAGS."""

MEANING: dict[Flag, str] = {
    "non_finite": "no number, or infinite",
    "outlier": "far outside the spread of its entry's other values",
    "zero": "exactly zero where computed values are not",
    "repeated": "bit for bit what an earlier token of the same text had in this place",
    "denormal": "nearer to zero than normal numbers of single precision are",
    "pointer": "with its neighbour the bits of an address in memory",
    "constant": "one of an entry whose values are all the same",
}


def bit(flag: Flag) -> np.uint8:
    return np.uint8(1 << FLAGS.index(flag))


def has(flags: Flags, flag: Flag) -> NDArray[np.bool_]:
    return np.asarray(flags & bit(flag), dtype=np.bool_)


def names(code: int) -> list[Flag]:
    return [flag for place, flag in enumerate(FLAGS) if code >> place & 1]
