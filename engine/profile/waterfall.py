"""The way from a control's time to a test's, family by family: each step as more calls and as slower calls.

The steps add up exactly: the last one ends at the test's time. Beside the traces as wholes it can be told a token, a
sample or a forward pass, where both traces know how many they cover.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.profile.compare import Comparison, FamilyRow

Per = Literal["trace", "token", "sample", "pass"]
COUNTS: dict[Per, str] = {"token": "tokens", "sample": "samples", "pass": "forward_passes"}
REST = "all others"
MOST = 8
LEAST_LEFT = 2  # a single family is not put among the others


@dataclass(frozen=True, slots=True)
class Step:
    """One family's part of the way. ``start_us`` is where it begins, by calls first and then by mean."""

    family: str
    families: int
    start_us: float
    by_calls_us: float
    by_mean_us: float

    @property
    def middle_us(self) -> float:
        return self.start_us + self.by_calls_us

    @property
    def end_us(self) -> float:
        return self.middle_us + self.by_mean_us

    @property
    def change_us(self) -> float:
        return self.by_calls_us + self.by_mean_us


@dataclass(frozen=True, slots=True)
class Waterfall:
    per: Per
    control_us: float
    test_us: float
    steps: tuple[Step, ...]


def known_ways(found: Comparison) -> list[Per]:
    """Of what both know how many they cover."""
    ways = [per for per, count in COUNTS.items() if found.control.known(count) and found.test.known(count)]
    return ["trace", *ways]


def waterfall(found: Comparison, per: Per = "trace", most: int = MOST) -> Waterfall:
    """The largest families in their order, and the others as one."""
    one, other = (_count(trace.known(COUNTS[per]) if per in COUNTS else 1.0) for trace in (found.control, found.test))
    parts = [(row.family, *by_calls_and_mean(row, one, other)) for row in found.families]
    parts.sort(key=lambda part: -abs(part[1] + part[2]))
    shown = parts if len(parts) <= most + LEAST_LEFT - 1 else parts[:most]
    left = parts[len(shown) :]
    control = sum(row.control.total_us for row in found.families) / one
    steps: list[Step] = []
    for family, calls, mean in shown:
        steps.append(Step(family, 1, steps[-1].end_us if steps else control, calls, mean))
    if left:
        sums = sum(part[1] for part in left), sum(part[2] for part in left)
        steps.append(Step(REST, len(left), steps[-1].end_us, *sums))
    return Waterfall(per, control, sum(row.test.total_us for row in found.families) / other, tuple(steps))


def by_calls_and_mean(row: FamilyRow, control: float = 1.0, test: float = 1.0) -> tuple[float, float]:
    """A family's difference as more calls and slower calls, each trace over what it covers."""
    one, other = row.control.mean_us, row.test.mean_us
    change = row.test.total_us / test - row.control.total_us / control
    if one is None or other is None:
        return change, 0.0
    by_calls = (row.test.calls / test - row.control.calls / control) * (one + other) / 2
    return by_calls, change - by_calls


def _count(value: float | None) -> float:
    if not value:
        raise ValueError("a trace that does not know how many it covers is told as a whole")
    return value
