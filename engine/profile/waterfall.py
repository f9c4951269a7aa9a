"""From a control's time to a test's, family by family: each step as more calls and as slower calls.

The steps add up exactly: the last one ends at the test's time. Per token, sample or forward pass it is known where both
traces know how many they cover.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.profile.compare import TraceComparison

Per = Literal["trace", "token", "sample", "pass"]
COUNTS: dict[Per, str] = {"token": "tokens", "sample": "samples", "pass": "forward_passes"}
REST = "all others"
MOST = 8
LEAST_LEFT = 2  # a single family is not put among the others


@dataclass(frozen=True, slots=True)
class WaterfallStep:
    """One family's part. ``start_us`` is where it begins, by calls first and then by mean."""

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
    steps: tuple[WaterfallStep, ...]


def known_ways(comparison: TraceComparison) -> list[Per]:
    """The whole trace, and what both traces have a count of."""
    traces = comparison.control, comparison.test
    return ["trace", *(per for per, count in COUNTS.items() if all(trace.known(count) for trace in traces))]


def waterfall(comparison: TraceComparison, per: Per = "trace", most: int = MOST) -> Waterfall:
    """The largest families in their order, and the others as one."""
    counts = [1.0 if per == "trace" else trace.known(COUNTS[per]) for trace in (comparison.control, comparison.test)]
    if not counts[0] or not counts[1]:
        raise ValueError(f"a trace without a count has no waterfall per {per}")
    control_count, test_count = counts[0], counts[1]
    parts = [(row.family, *row.split_us(control_count, test_count)) for row in comparison.families]
    parts.sort(key=lambda part: -abs(part[1] + part[2]))
    shown = parts if len(parts) <= most + LEAST_LEFT - 1 else parts[:most]
    left = parts[len(shown) :]
    control = sum(row.control.total_us for row in comparison.families) / control_count
    steps: list[WaterfallStep] = []
    for family, calls, mean in shown:
        steps.append(WaterfallStep(family, 1, steps[-1].end_us if steps else control, calls, mean))
    if left:
        sums = sum(part[1] for part in left), sum(part[2] for part in left)
        steps.append(WaterfallStep(REST, len(left), steps[-1].end_us, *sums))
    test = sum(row.test.total_us for row in comparison.families) / test_count
    return Waterfall(per, control, test, tuple(steps))
