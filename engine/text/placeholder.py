"""The fitted placeholder: over given coordinates, the one that costs least in junk and cut.

A placeholder acts through one number only, the FREE positions k that it makes. With ``needed`` tokens a block, the
cost of k is the mean over blocks of

    junk_weight * max(k - needed, 0) + cut_weight * max(needed - k, 0)

that is, surplus tokens and missing tokens a block, weighted. Among placeholders of the best k, the shape that most
of the given blocks have wins. No placeholder makes both signs vanish unless all blocks need the same.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import PlaceholderError
from engine.text.drift import block_contents, needed_tokens
from engine.text.tokenizers import TextTokenizer

_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?", re.ASCII)
_TRIPLE = re.compile(rf"{_NUMBER.pattern},{_NUMBER.pattern},{_NUMBER.pattern}", re.ASCII)
_PROBE = "[C]<>[C]<>"
MOST_WEIGHT = 1e6


@dataclass(frozen=True, slots=True)
class FittedPlaceholder:
    """The cheapest placeholder and what every other FREE count would have cost."""

    placeholder: str
    free: int
    cost: float
    junk_weight: float
    cut_weight: float
    costs: dict[int, float]  # FREE count -> cost, for every count that some placeholder reaches
    blocks: int


def fit_placeholder(
    texts: Sequence[str], tokenizer: TextTokenizer, *, junk_weight: float = 1.0, cut_weight: float = 1.0
) -> FittedPlaceholder:
    """The placeholder that fits the blocks of these enriched texts best."""
    weights = (junk_weight, cut_weight)
    if not all(0 <= weight <= MOST_WEIGHT for weight in weights) or not any(weights):  # so that NaN fails too
        raise PlaceholderError(
            f"the weights of junk and cut are {junk_weight:g} and {cut_weight:g}",
            f"Give two from 0 to {MOST_WEIGHT:,.0f}, not both zero",
        )
    needed = np.concatenate([np.zeros(0, dtype=np.int64), *needed_tokens(texts, tokenizer)])
    if len(needed) == 0:
        raise PlaceholderError("there are no blocks to fit a placeholder to", "Give enriched text with coordinates")
    contents = (content for text in texts for content in block_contents(text))
    shapes = Counter(_NUMBER.sub(_level, content) for content in contents if _TRIPLE.fullmatch(content))
    by_free = _by_free_count(shapes, tokenizer)
    costs = {free: placeholder_cost(needed, free, junk_weight, cut_weight) for free in sorted(by_free)}
    best = min(costs, key=lambda free: (costs[free], free))
    return FittedPlaceholder(by_free[best], best, costs[best], junk_weight, cut_weight, costs, len(needed))


def placeholder_cost(needed: NDArray[np.int64], free: int, junk_weight: float, cut_weight: float) -> float:
    """Mean weighted surplus and missing tokens a block, for a placeholder of ``free`` FREE positions."""
    surplus = np.maximum(free - needed, 0).mean()
    missing = np.maximum(needed - free, 0).mean()
    return float(junk_weight * surplus + cut_weight * missing)


def _level(number: re.Match[str]) -> str:
    sign, whole, decimals = number.groups()
    # A leading zero never stands before another digit, so longer integers are levelled to ones and zeros.
    integer = "0" if len(whole) == 1 else "1" + "0" * (len(whole) - 1)
    return f"{sign}{integer}.{'0' * len(decimals)}" if decimals else f"{sign}{integer}"


def _by_free_count(shapes: Counter[str], tokenizer: TextTokenizer) -> dict[int, str]:
    """For each FREE count that a placeholder can reach, the commonest shape that reaches it."""
    candidates = sorted({*shapes, *_regular_shapes()}, key=lambda shape: (-shapes[shape], len(shape), shape))
    skeletons = [_PROBE.replace("<>", f"<{shape}>") for shape in candidates]
    best: dict[int, str] = {}
    for shape, needs in zip(candidates, needed_tokens(skeletons, tokenizer), strict=True):
        best.setdefault(int(needs[0]), shape)
    return best


def _regular_shapes() -> list[str]:
    """Placeholders with up to four decimals on each axis and either sign of x: all counts in between."""
    axes = itertools.product(("", "-"), *[("0", "0.0", "0.00", "0.000", "0.0000")] * 3)
    return [f"{sign}{x},{y},{z}" for sign, x, y, z in axes]
