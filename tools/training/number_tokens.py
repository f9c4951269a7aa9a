"""Tokens of written numbers by rule, without a tokenizer: digits, points, commas and signs. Only numpy.

Digits never share a token with anything else, and both tokenizers cut a run of them from the left: Qwen's into single
digits, LLaMA's into up to three. ``,-`` is one token. So a number is its integer part, with the comma before it and
the point behind it, then its decimals: two entries of a table. ``packing`` holds the rule against the real tokenizers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.text.tokenizers import MARKS, NumberIds

KINDS = (
    "prompt",  # [SMILES] to [/SMILES]
    "structure",  # copied from the SMILES, and the tags around the answer
    "end",
    "sign",  # the `-` of an x
    "comma",  # `,` or `,-`: also the sign of y and z
    "integer",
    "point",
    "decimal_1",  # by the first digit of a token of up to three
    "decimal_2",
    "decimal_3",
    "decimal_4",
)
PROMPT, STRUCTURE, END, SIGN, COMMA, INTEGER, POINT, DECIMAL_1 = range(8)
MOST_DECIMALS = 4


@dataclass(frozen=True, slots=True, eq=False)
class TokenTable:
    """Token sequences by number, each token with its kind."""

    ids: NDArray[np.int32]  # [tokens]
    kinds: NDArray[np.uint8]  # [tokens]
    lengths: NDArray[np.int64]  # [entries]

    @classmethod
    def of(cls, entries: Sequence[tuple[list[int], list[int]]]) -> TokenTable:
        return cls(
            np.array([id_ for ids, _ in entries for id_ in ids], dtype=np.int32),
            np.array([kind for _, kinds in entries for kind in kinds], dtype=np.uint8),
            np.array([len(ids) for ids, _ in entries], dtype=np.int64),
        )


def numbers_of(document: dict[str, Any]) -> NumberIds:
    """As a manifest has them: ``asdict`` of them."""
    digits = tuple(tuple(map(int, row)) for row in document["digits"])
    if not digits or [len(row) for row in digits] != [10**width for width in range(1, len(digits) + 1)]:
        raise ValueError("the digit tokens are not complete")
    return NumberIds(digits, *(int(document[name]) for name in MARKS))


def all_ids(numbers: NumberIds) -> set[int]:
    return {*(id_ for row in numbers.digits for id_ in row), *(getattr(numbers, name) for name in MARKS)}


def integer_table(numbers: NumberIds, most: int) -> TokenTable:
    """Entry ``prefix * (most + 1) + value``: the prefix, the integer part 0 to ``most``, the point."""
    entries = []
    for prefix in ([], [numbers.comma], [numbers.comma_minus]):
        for value in range(most + 1):
            run = numbers.run(str(value))
            entries.append(([*prefix, *run, numbers.point], [*[COMMA] * len(prefix), *[INTEGER] * len(run), POINT]))
    return TokenTable.of(entries)


def decimal_table(numbers: NumberIds, decimals: int, *, keep_zeros: bool = False) -> TokenTable:
    """Entry ``value``: the decimals 0 to 10**decimals - 1; trailing zeros dropped but for the first digit, or kept."""
    width = numbers.width
    entries = []
    for value in range(10**decimals):
        digits = f"{value:0{decimals}d}"
        text = digits if keep_zeros else digits.rstrip("0") or "0"
        entries.append((numbers.run(text), [DECIMAL_1 + start for start in range(0, len(text), width)]))
    return TokenTable.of(entries)


def joined(tables: Sequence[TokenTable]) -> TokenTable:
    """One table of all; an entry's number grows by the entries of the tables before its own."""
    return TokenTable(
        np.concatenate([table.ids for table in tables]),
        np.concatenate([table.kinds for table in tables]),
        np.concatenate([table.lengths for table in tables]),
    )
