"""Tables of benchmarks: medians with their spread, ratios, what was asked of them; as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """Repeats of one figure."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(tuple(values))

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def over(self, other: Spread) -> Ratio:
        return Ratio(
            self.median / other.median,
            min(self.values) / max(other.values),
            max(self.values) / min(other.values),
        )

    def cells(self) -> tuple[str, str]:
        """The median, and the least and most beside it."""
        return figure(self.median), f"{figure(min(self.values))} .. {figure(max(self.values))}"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Of two medians. ``least`` sets one's worst repeat against the other's best, ``most`` the other way round."""

    median: float
    least: float
    most: float

    def cells(self) -> tuple[str, str]:
        return f"{self.median:.2f}", f"{self.least:.2f} .. {self.most:.2f}"


@dataclass(frozen=True, slots=True)
class Table:
    """``rows`` are as wide as ``head``; a cell that starts with a letter stands to the left."""

    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]

    def markdown(self) -> str:
        widths = [max(len(row[place]) for row in (self.head, *self.rows)) for place in range(len(self.head))]
        is_text = [any(row[place][:1].isalpha() for row in self.rows) for place in range(len(self.head))]
        rule = [("-" * width if text else "-" * (width - 1) + ":") for width, text in zip(widths, is_text, strict=True)]
        lines = [_line(row, widths, is_text) for row in (self.head, tuple(rule), *self.rows)]
        return "\n".join([f"**{self.title}**", "", *lines, ""])


def _line(row: Sequence[str], widths: Sequence[int], is_text: Sequence[bool]) -> str:
    cells = zip(row, widths, is_text, strict=True)
    return "| " + " | ".join(cell.ljust(width) if text else cell.rjust(width) for cell, width, text in cells) + " |"


def figure(value: float) -> str:
    """Three digits at least, and no more than are of use."""
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{decimals}f}"


def asked(value: float | None, unit: str, *, at_least: bool) -> str:
    """What a floor says; nothing where there is none."""
    space = "" if unit == "x" else " "
    return "" if value is None else f"{'>=' if at_least else '<='} {value:g}{space}{unit}"
