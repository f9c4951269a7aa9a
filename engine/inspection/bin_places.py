"""What the beginning of a block of bins leaves: the numbers that its digits may still become, and where these lie.

A number means one value, the middle of its bin, so places are a grid: where few of its points are left they are all
asked, and a proof that none is right has nothing between them to consider.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from engine.chem.frame import Array
from engine.records import BinFormat

AXES = 3


@lru_cache(16)
def values_of(form: BinFormat) -> tuple[int, Array]:
    """The first number, and the values of it and all that follow it: tails mean the ends of the range."""
    numbers = sorted({*form.tails, *range(1, form.bins + 1)})
    values = [form.value_ang(f"{number:0{form.digits}d}") for number in numbers]
    return numbers[0], np.array(values, dtype=np.float64)


def numbers_of(content: str, form: BinFormat) -> list[str]:
    """The numbers of a content, the last of which may have digits to come."""
    if form.comma:
        return content.split(form.comma)
    return [content[start : start + form.digits] for start in range(0, max(len(content), 1), form.digits)]


def place_of(content: str, form: BinFormat) -> list[float] | None:
    """The place that a whole block means; None where a number is none."""
    values = [form.value_ang(number) for number in numbers_of(content, form)]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) == AXES else None


def axis_of(content: str, form: BinFormat) -> int:
    """That of the last digit which is written."""
    return min(len(numbers_of(content, form)), AXES) - 1


def digits_of(content: str, form: BinFormat) -> int:
    """Of the number that is written last."""
    return len(numbers_of(content, form)[-1])


def box_of(prefix: str, form: BinFormat) -> tuple[Array, Array]:
    """The box [1, 3] of all places that are left by the beginning of a content."""
    first, values = values_of(form)
    low, high = np.full((1, AXES), values[0]), np.full((1, AXES), values[-1])
    for axis, number in enumerate(numbers_of(prefix, form)[:AXES]):
        unit = 10 ** (form.digits - len(number))
        least = int(number or "0") * unit - first
        ends = np.clip([least, least + unit - 1], 0, len(values) - 1)
        low[0, axis], high[0, axis] = values[ends]
    return low, high
