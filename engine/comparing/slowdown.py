"""Where a slowdown comes from: more tokens or more time for each, more passes or longer ones; and where the time goes.

A ratio of times is the product of its factors, by algebra and for any two runs: it says how much, not why. Both runs
are taken per sample, so that runs of another size compare. The budget is of measured counters: what they leave of the
wall time is ``unexplained``, computed and not guessed. On an asynchronous device counters tell when work was queued,
not when it was done. Of several writers all parts are added up, the wall time too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.figures.statistics import quotient
from engine.store.entries import Entry, is_profiled

PARTS = ("template_s", "prefill_s", "forward_s", "constraint_s", "sampling_s")
ROUNDING_S = 0.01
"""Files give seconds in hundredths: parts may exceed the whole by that much and mean nothing."""

Quotient = tuple[str, str, str, str]
"""Name, words, and the two columns whose quotient it is."""
SAMPLE_TIME: Quotient = ("wall time per sample", "seconds of wall time per sample", "wall_s", "samples")
TOKENS: Quotient = ("tokens", "tokens per sample", "tokens", "samples")
TOKEN_TIME: Quotient = ("wall time per token", "seconds of wall time per token", "wall_s", "tokens")
PASSES: Quotient = ("passes", "forward passes per sample", "forward_passes", "samples")
PASS_TIME: Quotient = ("wall time per pass", "seconds of wall time per forward pass", "wall_s", "forward_passes")
TOKEN_PASSES: Quotient = ("passes per token", "forward passes per token", "forward_passes", "tokens")


@dataclass(frozen=True, slots=True)
class Factor:
    """One of the numbers whose product a ratio of times is."""

    name: str
    what: str
    control: float
    test: float

    @property
    def ratio(self) -> float:
        return self.test / self.control


@dataclass(frozen=True, slots=True)
class Decomposition:
    """``total.ratio`` is the product of the factors' ratios; ``factors`` is empty where ``reason`` says why not."""

    name: str
    total: Factor | None
    factors: tuple[Factor, ...]
    reason: str

    def share(self, factor: Factor) -> float | None:
        """Of the slowdown, on a scale where factors add up to 1; None where there is none to share out."""
        whole = 0.0 if self.total is None else math.log(self.total.ratio)
        return math.log(factor.ratio) / whole if abs(whole) > 1e-12 else None


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A test's time over its control's, told in three ways."""

    control: str
    test: str
    by_tokens: Decomposition  # tokens per sample x time per token
    by_passes: Decomposition  # passes per sample x time per pass
    by_both: Decomposition  # tokens per sample x passes per token x time per pass


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    seconds: float
    share: float | None  # of the wall time


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """One run's wall time. ``unexplained_s`` is None where the wall time, or every part of it, is not known."""

    run_id: str
    origin: str
    wall_s: float | None
    parts: tuple[Part, ...]  # those that are known
    unknown: tuple[str, ...]  # those that were not counted: their time is in the rest
    unexplained_s: float | None
    excess_s: float  # by which the parts exceed the whole; 0 within rounding
    judging_s: float | None  # after the wall time, and no part of it
    sentence: str

    @property
    def is_whole(self) -> bool:
        """Whether all parts are known and fit."""
        return bool(self.parts) and not self.unknown and not self.excess_s and self.unexplained_s is not None


def slowdown(control: Entry, test: Entry) -> Slowdown:
    """From two runs' sheets; reported runs as well, as far as they say. Not with a profiler beside one of them."""
    ways = ((TOKENS, TOKEN_TIME), (PASSES, PASS_TIME), (TOKENS, TOKEN_PASSES, PASS_TIME))
    if is_profiled(control) or is_profiled(test):
        parts = [Decomposition(_name(way), None, (), "A profiler ran beside one of the runs.") for way in ways]
        return Slowdown(control.id, test.id, *parts)
    return Slowdown(control.id, test.id, *(_decomposed(way, control.row, test.row) for way in ways))


def time_budget(entry: Entry) -> TimeBudget:
    """From a run's sheet. Estimates that a report states are no counters, and stay in its ``extra``."""
    row = entry.row
    wall_s = row.get("wall_s")
    counted = {name: row[name] for name in PARTS if row.get(name) is not None}
    unknown = tuple(name for name in PARTS if name not in counted)
    rest = None if wall_s is None or not counted else wall_s - math.fsum(counted.values())
    excess_s = 0.0 if rest is None or rest >= -ROUNDING_S else -rest
    return TimeBudget(
        run_id=entry.id,
        origin=row["origin"],
        wall_s=wall_s,
        parts=tuple(Part(name, seconds, quotient(seconds, wall_s)) for name, seconds in counted.items()),
        unknown=unknown,
        unexplained_s=None if rest is None else max(0.0, rest),
        excess_s=excess_s,
        judging_s=row.get("judging_s"),
        sentence=_sentence(wall_s, counted, unknown, excess_s),
    )


def _name(factors: tuple[Quotient, ...]) -> str:
    return " x ".join(factor[0] for factor in factors)


def _decomposed(factors: tuple[Quotient, ...], control: Mapping[str, Any], test: Mapping[str, Any]) -> Decomposition:
    """The time per sample as the product of these factors."""
    name = _name(factors)
    quotients = (SAMPLE_TIME, *factors)
    missing = [
        f"{column} of the {side}"
        for side, row in (("control", control), ("test", test))
        for column in dict.fromkeys(column for quotient in quotients for column in quotient[2:])
        if not row.get(column)
    ]
    if missing:
        return Decomposition(name, None, (), f"Not known: {', '.join(missing)}.")
    total, *parts = (_factor(quotient, control, test) for quotient in quotients)
    return Decomposition(name, total, tuple(parts), "")


def _factor(quotient: Quotient, control: Mapping[str, Any], test: Mapping[str, Any]) -> Factor:
    name, what, part, whole = quotient
    return Factor(name, what, control[part] / control[whole], test[part] / test[whole])


def _sentence(wall_s: float | None, counted: Mapping[str, float], unknown: tuple[str, ...], excess_s: float) -> str:
    if not counted:
        return "No part of the time was counted."
    if wall_s is None:
        return "The whole time is not known, so neither is what is left of it."
    if excess_s:
        return f"The parts exceed the wall time by {excess_s:.2f} s, so one of them counts what another does."
    if unknown:
        return f"The rest includes what was not counted: {', '.join(unknown)}."
    return ""
