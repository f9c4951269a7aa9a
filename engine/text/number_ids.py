"""The tokens that numbers are made of: digits by width, point, commas, minus.

Digits never share a token with anything else, and a run of them is cut from the left into tokens of the widest width
that the tokenizer has. ``number_ids`` asks a tokenizer whether that holds; the record itself needs none.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import TokenizerError

if TYPE_CHECKING:
    from engine.text.tokenizers import TextTokenizer

MARKS = {"point": ".", "comma": ",", "comma_minus": ",-", "minus": "-"}
MOST_WIDTH = 3
PROBES = ("1234", "12345", "0001", "907")


@dataclass(frozen=True, slots=True)
class NumberIds:
    """Token ids. ``digits[k - 1]`` are those of k digits, by value."""

    digits: tuple[tuple[int, ...], ...]
    point: int
    comma: int
    comma_minus: int
    minus: int

    @property
    def width(self) -> int:
        """Digits of the widest token."""
        return len(self.digits)

    def run(self, digits: str) -> list[int]:
        parts = [digits[start : start + self.width] for start in range(0, len(digits), self.width)]
        return [self.digits[len(part) - 1][int(part)] for part in parts]


@functools.lru_cache(maxsize=8)
def number_ids(tokenizer: TextTokenizer) -> NumberIds:
    """Asked of the tokenizer; ``TokenizerError`` where it does not follow the rule."""
    digits = []
    for width in range(1, MOST_WIDTH + 1):
        runs = tokenizer.encode_batch([f"{value:0{width}d}" for value in range(10**width)])
        if any(len(run) != 1 for run in runs):
            break
        digits.append(tuple(run[0] for run in runs))
    marks = [tokenizer.encode(text) for text in MARKS.values()]
    if not digits or any(len(ids) != 1 for ids in marks):
        raise TokenizerError(f"{tokenizer!r} has no tokens for digits, '.', ',', ',-' and '-'", "Use another one")
    numbers = NumberIds(tuple(digits), *(ids[0] for ids in marks))
    for text in PROBES:
        if tokenizer.encode(text) != numbers.run(text):
            raise TokenizerError(f"{tokenizer!r} does not cut digits from the left", "Use another one")
    return numbers
