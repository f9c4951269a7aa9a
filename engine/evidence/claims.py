"""The reports' claims, one row each of ``data/claims/NNN.toml``: what a claim says, in our words, and its check.

A claim has no verdict: ``verdicts`` computes it with the check of ``checks`` that it names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from engine.figures.words import number, speed
from engine.paths import DATA, read_toml

FOLDER = DATA / "claims"
REPORTS = ("000", "001", "002", "003", "004", "005")
SPEEDS: Mapping[str, Callable[[float], float]] = {"x as long": float, "x as fast": lambda ratio: 1 / ratio}
"""Units of a ratio of times, test over control, and of its inverse."""
ABOUT = 0.1
"""How far off a figure may be that its report gives with a tilde or calls an estimate."""


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    section: str
    subject: str
    statement: str
    check: Mapping[str, Any]  # ``by``: its name; the rest is for the check
    report: str = ""
    reported: str = ""  # as the report has it: "48,440", "44.0", "about 80", "9 or less"
    implied: float | None = None  # what a statement without a figure comes to, in its unit: drawn, not judged
    rounded_to: float = 0.0
    unit: str = ""
    values: tuple[float, ...] = ()  # other figures that the statement covers
    also: tuple[str, ...] = ()  # sections that repeat it
    note: str = ""
    highlight: bool = False  # the reports' conclusions rest on it

    @property
    def figure(self) -> str:
        """The reported figure as ``float`` reads it."""
        return self.reported.removeprefix("about ").removesuffix(" or less").replace(",", "")

    @property
    def value(self) -> float | None:
        return None if not self.reported or self.reported.endswith("less") else float(self.figure)

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """What still counts as the figure: half of its last digit or of ``rounded_to`` either way, or ``ABOUT``."""
        if (value := self.value) is None:
            return None, float(self.figure) if self.reported else None
        decimals = len(self.figure.partition(".")[2])
        half = (self.rounded_to or (10.0**-decimals if decimals else 0.0)) / 2
        if self.reported.startswith("about"):
            half = max(half, ABOUT * abs(value))
        return value - half, value + half


@functools.cache
def load_claims() -> tuple[Claim, ...]:
    """All claims in the order of their reports."""
    return tuple(
        msgspec.structs.replace(claim, id=f"{report}-{claim.id}", report=report)
        for report in REPORTS
        for claim in read_toml(
            FOLDER / f"{report}.toml",
            "file of claims",
            lambda document: msgspec.convert(document["claim"], list[Claim]),
        )
    )


def figure_words(value: float, unit: str) -> str:
    """A figure with its unit; of a speed, ``4.40× faster`` or ``slower by 1.20×``."""
    if unit in SPEEDS:
        return speed(SPEEDS[unit](value))
    return f"{pretty(value)} {unit}".strip()


def with_speed(row: dict[str, Any]) -> dict[str, Any]:
    """A claim's row for people: a speed's words in place of its ratio and unit."""
    if row["measured"] is None or row["unit"] not in SPEEDS:
        return row
    return row | {"measured": figure_words(row["measured"], row["unit"]), "unit": ""}


def pretty(value: float) -> str:
    """A figure for people, as everywhere; a whole number without decimals."""
    return number(int(value) if value.is_integer() else value)
