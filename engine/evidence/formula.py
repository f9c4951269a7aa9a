"""A figure with what it may have been rounded from: 3.51 stands for anything from 3.505 to 3.515."""

from __future__ import annotations

import math
from dataclasses import dataclass

WHOLE_WITHIN = 1e-9


@dataclass(frozen=True, slots=True)
class Range:
    least: float
    value: float
    most: float

    def __post_init__(self) -> None:
        if not self.least <= self.value <= self.most:
            raise ValueError(f"{self.value} does not lie between {self.least} and {self.most}")

    @classmethod
    def exact(cls, value: float) -> Range:
        return cls(value, value, value)

    def meets(self, other: Range) -> bool:
        """Whether both can be the same figure; a hair of floating point does not part them."""
        slack = WHOLE_WITHIN * max(abs(self.value), abs(other.value))
        return self.least <= other.most + slack and other.least <= self.most + slack


def said(value: float) -> str:
    """A figure for people: thousands apart, four digits that count, no zeros behind the point."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    text = f"{value:,.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
