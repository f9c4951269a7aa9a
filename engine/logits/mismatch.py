"""By which cause two log-probabilities of the same tokens differ, from the two streams alone.

A cause is *certain* where the streams or the ids themselves prove it: other ids, a stream that is the other moved by
one token, a constant where the other has values. All else is a *hint*, by the signs of the differences: filters and an
LP's mask only raise the tokens that came, a temperature stretches all odds. ``mismatch_model`` has exact parts.

Noise ends at ``NOISE``: bfloat16 against float32 gives 0.002 to 0.01 on the demo models, float16 under 0.001, weights
in fp8 0.027, in int4 0.065 (tests/engine/logits/test_mismatch.py). A token that rounding moves over a filter's bound
is no noise: it changes the filter's mass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.figures.words import counted
from engine.logits.token_streams import Flags, Floats, Streams

SHIFTED, MASKED, RETOKENISED = "shifted by one", "masked tokens compared", "retokenised"
TEMPERATURE, FILTERS, LP_MASK = "temperature", "filters' mass", "the LP's mask"
PROCESSED, PRECISION, UNEXPLAINED = "raw against processed", "precision", "unexplained"
CAUSES = (SHIFTED, MASKED, RETOKENISED, TEMPERATURE, FILTERS, LP_MASK, PROCESSED, PRECISION, UNEXPLAINED)
"""In the order in which their steps are made. `PROCESSED` stands for two or three of the three before it."""
NOISE = 0.015  # of all tokens: root mean square of ``scaled``
NOISE_OF_TOKEN = 0.1  # of one; the largest of 4,000 tokens in bfloat16 was 0.09
MOST_NOISE = 0.3  # a coarser number format gives no more; other weights may
LEAST_BLOCK = 2  # tokens with the same constant, one behind the other
LEAST_MASS_NAT = 1.2  # no usual filter leaves less mass than 0.3
ONE_SIDED, FEW = 0.98, 0.005  # shares of tokens
LEAST_FIT = 0.2  # share of the squares that follow the odds: fp8 and int4 give up to 0.06
HINTS = {
    TEMPERATURE: "differences follow the odds",
    FILTERS: "tokens move one way alone, by less than a filter takes",
    LP_MASK: "tokens move one way alone, some by more than any usual filter takes",
    PROCESSED: "some tokens are certain in one stream alone, others move both ways",
    PRECISION: "both signs, and no pattern: a coarser number format, or slightly other weights",
    UNEXPLAINED: "both signs, and more than a number format makes: other weights, or another prompt",
}


@dataclass(frozen=True, slots=True)
class Finding:
    cause: str
    is_certain: bool
    detail: str


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """``parts``: by cause [N] in nat; over all causes they add up to test - control."""

    streams: Streams
    parts: dict[str, Floats]
    findings: list[Finding]


def scaled(first: Floats, second: Floats) -> Floats:
    """Differences over 1 + the smaller absolute value, 1 at most: a number format's errors grow with the value."""
    ratios: Floats = np.abs(first - second) / (1 + np.minimum(np.abs(first), np.abs(second)))
    return np.minimum(ratios, 1.0)


def noise_of(first: Floats, second: Floats) -> float:
    """Over the tokens where both have a value, but the farthest 1 %, since a rare token flips in bfloat16; infinite
    where there are none."""
    values = scaled(first, second)
    values = np.sort(values[np.isfinite(values)])
    values = values[: len(values) - len(values) // 100]
    return float(np.sqrt((values**2).mean())) if len(values) else float("inf")


def moved(values: Floats, streams: Streams, lag: int) -> Floats:
    """As a stream that is ``lag`` tokens late has them; NaN where it would need a token that does not count."""
    at = streams.sequence * 2**32 + streams.at_test
    return np.where(np.roll(at, lag) + lag == at, np.roll(values, lag), np.nan)


def best_lag(of: Floats, test: Floats, streams: Streams) -> int:
    """By how many tokens ``test`` is behind ``of``: another number than 0 halves what differs, at least."""
    at_zero, late, early = (noise_of(moved(of, streams, lag), test) for lag in (0, 1, -1))
    if at_zero <= NOISE or min(late, early) >= at_zero / 2:
        return 0
    return 1 if late < early else -1


def constant_ends(values: Floats, streams: Streams) -> Flags:
    """Each sequence's first and last tokens with one value from 0 on, which no computed stream keeps to."""
    found = np.zeros(len(values), dtype=bool)
    for number in np.unique(streams.sequence):
        places = np.flatnonzero(streams.sequence == number)
        for order in (places, places[::-1]):
            is_other = np.append(values[order] != values[order[0]], True)
            length = int(is_other.argmax()) * bool(values[order[0]] >= 0)
            found[order[:length]] |= length >= LEAST_BLOCK
    return found


def analyse(streams: Streams) -> Analysis:
    """Without a checkpoint."""
    control, test = streams.control, streams.test
    parts, findings = {cause: np.zeros(len(test)) for cause in CAUSES}, list[Finding]()
    if lag := best_lag(control, test, streams):
        late = moved(control, streams, lag)
        late = np.where(np.isfinite(late), late, test)
        parts[SHIFTED], is_same = late - control, noise_of(late, test) <= NOISE
        findings.append(Finding(SHIFTED, is_same, lag_words(lag)))
        control = late
    masked = (constant_ends(control, streams) ^ constant_ends(test, streams)) & (scaled(control, test) > NOISE_OF_TOKEN)
    is_zero = ((control == 0) ^ (test == 0)) & (np.abs(control - test) > NOISE_OF_TOKEN)
    # Exact zeros elsewhere too are those of an LP, or of a filter that leaves one token.
    if masked.any() and (is_zero & ~masked).mean() <= FEW:
        parts[MASKED] = np.where(masked, test - control, 0)
        findings.append(Finding(MASKED, True, masked_words(masked)))
        control, is_zero = np.where(masked, test, control), is_zero & ~masked
    cause = PRECISION
    if streams.retokenised:
        cause = RETOKENISED
        findings.append(Finding(cause, streams.is_same_text, retokenised_words(streams)))
    elif len(test) and noise_of(control, test) > NOISE:
        cause = _hinted(control, test, is_zero)
        findings.append(Finding(cause, False, HINTS[cause]))
    parts[cause] = test - control
    return Analysis(streams, parts, findings)


def _hinted(control: Floats, test: Floats, is_zero: Flags) -> str:
    change = (test - control)[scaled(control, test) > NOISE]
    if not ONE_SIDED > (change > 0).mean() > 1 - ONE_SIDED:
        return LP_MASK if np.abs(change).max() > LEAST_MASS_NAT else FILTERS
    if is_zero.mean() >= FEW:
        return PROCESSED
    # A temperature moves a token by its odds, or by those of all others, whichever are few.
    mean = np.minimum((control + test) / 2, -1e-6)
    rest = -np.expm1(mean)
    for basis in (rest * (mean - np.log(rest)), rest * np.log(rest)):
        left = (test - control) - basis * (basis @ (test - control)) / (basis @ basis)
        if 1 - left @ left / ((test - control) @ (test - control)) > LEAST_FIT:
            return TEMPERATURE
    return PRECISION if noise_of(control, test) <= MOST_NOISE else UNEXPLAINED


def lag_words(lag: int) -> str:
    return f"the test has each value {abs(lag)} token {'later' if lag > 0 else 'earlier'} than the control"


def masked_words(masked: Flags) -> str:
    return f"{counted(int(masked.sum()), 'token')} at the begin or the end with one constant: never computed there"


def retokenised_words(streams: Streams) -> str:
    if not streams.retokenised:
        return "one stream is of the tokens that the text has when it is split again"
    more = "" if streams.is_same_text else ", whose texts may differ too"
    return f"the ids of {counted(streams.retokenised, 'sequence')} differ{more}"
