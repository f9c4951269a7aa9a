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
from typing import Literal

import numpy as np

from engine.figures.words import counted
from engine.logits.token_streams import Flags, Floats, Streams

Cause = Literal[
    "shifted by one",
    "masked tokens compared",
    "retokenised",
    "temperature",
    "filters' mass",
    "the LP's mask",
    "raw against processed",  # two or three of the three before it
    "precision",
    "unexplained",
]
"""In the order in which their steps are made."""
Known = Literal["certain", "hint", ""]
NOISE = 0.015  # of all tokens: root mean square of ``scaled``
NOISE_OF_TOKEN = 0.1  # of one; the largest of 4,000 tokens in bfloat16 was 0.09
MOST_NOISE = 0.3  # a coarser number format gives no more; other weights may
LEAST_BLOCK = 2  # tokens with the same constant, one behind the other
LEAST_MASS_NAT = 1.2  # no usual filter leaves less mass than 0.3
ONE_SIDED, FEW = 0.98, 0.005  # shares of tokens
LEAST_FIT = 0.2  # share of the squares that follow the odds: fp8 and int4 give up to 0.06
HINTS: dict[Cause, str] = {
    "temperature": "differences follow the odds",
    "filters' mass": "tokens move one way alone, by less than a filter takes",
    "the LP's mask": "tokens move one way alone, some by more than any usual filter takes",
    "raw against processed": "some tokens are certain in one stream alone, others move both ways",
    "precision": "both signs, and no pattern: a coarser number format, or slightly other weights",
    "unexplained": "both signs, and more than a number format makes: other weights, or another prompt",
}


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one cause makes of test - control; all parts add up to it."""

    cause: Cause
    nat: Floats  # [N]
    known: Known  # empty: within noise
    detail: str


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


def analyse(streams: Streams) -> list[Part]:
    """Without a checkpoint: one cause has all that no certain one explains."""
    parts, control = certain_parts(streams)
    rest = rest_part(control, streams.test, hinted(control, streams.test))
    if streams.retokenised:
        known: Known = "certain" if streams.is_same_text else "hint"
        rest = Part("retokenised", rest.nat, known, retokenised_words(streams))
    return [*parts, rest]


def certain_parts(streams: Streams) -> tuple[list[Part], Floats]:
    """A shift and masked tokens; and the control without them, not a number where they are all of the difference."""
    parts, control, test = list[Part](), streams.control, streams.test
    noise, late, early = (noise_of(moved(control, streams, lag), test) for lag in (0, 1, -1))
    if noise > NOISE and min(late, early) < noise / 2:
        lag, way = (1, "later") if late < early else (-1, "earlier")
        control = moved(control, streams, lag)
        part = np.where(np.isfinite(control), control, test) - streams.control
        known: Known = "certain" if min(late, early) <= NOISE else "hint"
        parts.append(Part("shifted by one", part, known, f"the test has each value one token {way} than the control"))
    is_far = scaled(control, test) > NOISE_OF_TOKEN
    masked = (constant_ends(control, streams) ^ constant_ends(test, streams)) & is_far
    # Exact zeros elsewhere too are those of an LP, or of a filter that leaves one token.
    is_zero = ((control == 0) ^ (test == 0)) & is_far & ~masked
    if masked.any() and is_zero.mean() <= FEW:
        detail = (
            f"{counted(int(masked.sum()), 'token')} at the begin or the end with one constant: never computed there"
        )
        parts.append(Part("masked tokens compared", np.where(masked, test - control, 0), "certain", detail))
        control = np.where(masked, np.nan, control)
    return parts, control


def rest_part(control: Floats, test: Floats, cause: Cause | None = None) -> Part:
    """All that is left, as a hint at ``cause`` where it is more than noise; without one, by its size."""
    nat, noise = np.nan_to_num(test - control), noise_of(control, test)
    if not NOISE < noise < np.inf:
        return Part("precision", nat, "", "within noise")
    cause = cause or ("precision" if noise <= MOST_NOISE else "unexplained")
    return Part(cause, nat, "hint", HINTS[cause])


def hinted(control: Floats, test: Floats) -> Cause | None:
    """The cause that the signs and sizes of differences hint at; None where they have no pattern."""
    known = np.isfinite(control)
    control, test = control[known], test[known]
    change, is_far = test - control, scaled(control, test) > NOISE
    if not is_far.any():
        return None
    if not ONE_SIDED > (change[is_far] > 0).mean() > 1 - ONE_SIDED:
        return "the LP's mask" if np.abs(change).max() > LEAST_MASS_NAT else "filters' mass"
    is_zero = ((control == 0) ^ (test == 0)) & (np.abs(change) > NOISE_OF_TOKEN)
    if is_zero.mean() >= FEW:
        return "raw against processed"
    # A temperature moves a token by its odds, or by those of all others, whichever are few.
    mean = np.minimum((control + test) / 2, -1e-6)
    rest = -np.expm1(mean)
    for basis in (rest * (mean - np.log(rest)), rest * np.log(rest)):
        left = change - basis * (basis @ change) / (basis @ basis)
        if 1 - left @ left / (change @ change) > LEAST_FIT:
            return "temperature"
    return None


def retokenised_words(streams: Streams) -> str:
    if not streams.retokenised:
        return "one stream is of the tokens that the text has when it is split again"
    more = "" if streams.is_same_text else ", whose texts may differ too"
    return f"the ids of {counted(streams.retokenised, 'sequence')} differ{more}"
