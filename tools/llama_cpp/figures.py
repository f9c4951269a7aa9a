"""Agreement of two engines given the same tokens, over the whole vocabulary, summed row by row.

A log holds some values of a row; the effect of a difference on sampling needs all of them. Divergence is that of the
test's distribution from the control's (KL, in nat, at temperature 1). The control is our engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.text.generated import first_difference

Rows = NDArray[np.float32]
Real = NDArray[np.float64]

ROWS_AT_ONCE = 32
NONE = "–"


@dataclass(slots=True)
class LogitAgreement:
    """Sums over tokens; the properties are the results."""

    tokens: int = 0
    values: int = 0
    largest: float = 0.0
    sizes: float = 0.0
    squares: float = 0.0
    control_squares: float = 0.0
    divergence: float = 0.0
    most_divergence: float = 0.0
    same_top: int = 0

    def add(self, control: Rows, test: Rows) -> None:
        """Rows [T, V] of one text, without those that have no token."""
        for start in range(0, len(control), ROWS_AT_ONCE):
            ours, theirs = (rows[start : start + ROWS_AT_ONCE].astype(np.float64) for rows in (control, test))
            difference, apart = np.abs(theirs - ours), divergences(ours, theirs)
            self.tokens += len(ours)
            self.values += ours.size
            self.largest = max(self.largest, float(difference.max()))
            self.sizes += float(difference.sum())
            self.squares += float((difference**2).sum())
            self.control_squares += float((ours**2).sum())
            self.divergence += float(apart.sum())
            self.most_divergence = max(self.most_divergence, float(apart.max()))
            self.same_top += int((ours.argmax(axis=1) == theirs.argmax(axis=1)).sum())

    @property
    def mean(self) -> float:
        return self.sizes / self.values

    @property
    def relative(self) -> float:
        """Root mean square of the differences, over that of the control."""
        return math.sqrt(self.squares / self.control_squares)

    @property
    def top_1(self) -> float:
        return self.same_top / self.tokens

    @property
    def mean_divergence(self) -> float:
        return self.divergence / self.tokens


def divergences(control: Real, test: Real) -> Real:
    """[T] of rows [T, V]; rounding may not make it negative."""
    log_control, log_test = _log_shares(control), _log_shares(test)
    return np.asarray(np.maximum(0.0, (np.exp(log_control) * (log_control - log_test)).sum(axis=1)))


def _log_shares(rows: Real) -> Real:
    moved = rows - rows.max(axis=1, keepdims=True)
    return np.asarray(moved - np.log(np.exp(moved).sum(axis=1, keepdims=True)))


@dataclass(slots=True)
class AnswerAgreement:
    """Greedy answers of an engine compared with ours for the same molecules."""

    texts: int = 0
    same: int = 0  # token by token
    first: int | None = None  # the earliest token at which one differs
    passed: int = 0

    def add(self, ours: Sequence[int], theirs: Sequence[int], *, passed: bool) -> None:
        self.texts += 1
        self.passed += passed
        index = first_difference(ours, theirs)
        if index is None:
            self.same += 1
        else:
            self.first = index if self.first is None else min(self.first, index)


HEAD = ("engine", "largest", "mean", "relative", "top-1", "KL mean", "KL most", "same texts", "differs at", "passed")


def row(name: str, agreed: LogitAgreement, written: AnswerAgreement | None) -> tuple[str, ...]:
    answers = written or AnswerAgreement()
    return (
        name,
        f"{agreed.largest:.2g}",
        f"{agreed.mean:.2g}",
        f"{agreed.relative:.1e}",
        f"{agreed.top_1:.2%}",
        f"{agreed.mean_divergence:.1e}",
        f"{agreed.most_divergence:.1e}",
        f"{answers.same} of {answers.texts}" if written else NONE,
        f"{answers.first:,}" if answers.first is not None else NONE,
        f"{answers.passed} of {answers.texts}" if written else NONE,
    )
