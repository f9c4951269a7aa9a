"""What is believed of one number: its probability by cell, uniform within a cell; mean, spread, modes and intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
HUMP = 0.1
"""Of the greatest density: cells that are less dense part two modes."""


@dataclass(frozen=True, slots=True, eq=False)
class NumberLaw:
    """Cells in rising order, which do not overlap. With ``rest``, the mass that no cell has, they sum to 1; figures are
    of the cells alone."""

    low: Array  # [cells] in angstrom
    high: Array
    p: Array
    rest: float = 0.0

    @property
    def share(self) -> Array:
        """[cells] of what all cells have."""
        return np.asarray(self.p / self.p.sum())

    @property
    def mean(self) -> float:
        return float(self.share @ (self.low + self.high) / 2)

    @property
    def spread(self) -> float:
        """The standard deviation."""
        middle, width = (self.low + self.high) / 2, self.high - self.low
        return float(np.sqrt(self.share @ ((middle - self.mean) ** 2 + width**2 / 12)))

    @property
    def modes(self) -> list[tuple[float, float]]:
        """The densest cell's middle of each run of dense cells, and the run's share, the greatest first."""
        density, share = self.share / (self.high - self.low), self.share
        is_dense = density >= HUMP * density.max()
        is_apart = np.append(True, self.low[1:] - self.high[:-1] > 1e-9)
        run = np.cumsum(is_dense & (is_apart | ~np.append(False, is_dense[:-1])))
        modes = []
        for number in range(1, run.max() + 1):
            cells = np.flatnonzero((run == number) & is_dense)
            top = cells[density[cells].argmax()]
            modes.append((float(self.low[top] + self.high[top]) / 2, float(share[cells].sum())))
        return sorted(modes, key=lambda mode: -mode[1])

    def quantile(self, share: float) -> float:
        """The value with this share of the mass below it."""
        below = np.append(0.0, self.share.cumsum())
        cell = int(np.clip(np.searchsorted(below, share, side="right") - 1, 0, len(self.p) - 1))
        inside = np.clip((share - below[cell]) / max(self.share[cell], 1e-300), 0, 1)
        return float(self.low[cell] + inside * (self.high[cell] - self.low[cell]))

    def below(self, value: float) -> float:
        """The share of the mass below a value."""
        inside = np.clip((value - self.low) / (self.high - self.low), 0, 1)
        return float(self.share @ inside)

    def reach(self, value: float) -> float:
        """How far a value is from the median, in parts of the way to the end of the 90 % interval on its side."""
        low, middle, high = map(self.quantile, (0.05, 0.5, 0.95))
        half = max(high - middle if value > middle else middle - low, 1e-9)
        return abs(value - middle) / half
