"""What the tokens of a vocabulary are to a position LP: blocked, digits, marks, or anything else."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.text.tokenizers import TextTokenizer

NUMERIC = frozenset(b"0123456789.,-")
_MARKS = (b".", b",", b",-", b"-")


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """One flag or count for each id below the tokenizer's size."""

    is_special: NDArray[np.bool_]  # added tokens: tags, begin, end and padding
    has_angle: NDArray[np.bool_]  # holds `<` or `>`
    has_mark: NDArray[np.bool_]  # holds `,` or `-`
    is_numeric: NDArray[np.bool_]  # made of digits, `.`, `,` and `-` alone
    is_comma_only: NDArray[np.bool_]
    digits: NDArray[np.int16]  # how many digits it is, 0 where it is not digits alone
    mark: NDArray[np.int8]  # 1 to 4 for `.` `,` `,-` `-`, else 0

    @property
    def is_blocked(self) -> NDArray[np.bool_]:
        """What the blocklist LPs never let into a block."""
        return self.is_special | self.has_angle


@functools.lru_cache(maxsize=8)
def vocabulary_of(tokenizer: TextTokenizer) -> Vocabulary:
    """Every token looked at once."""
    pieces = [tokenizer.raw(id_) for id_ in range(tokenizer.vocab_size)]
    special = np.zeros(len(pieces), dtype=bool)
    special[[id_ for id_ in tokenizer.added if id_ < len(pieces)]] = True
    return Vocabulary(
        is_special=special,
        has_angle=np.array([b"<" in piece or b">" in piece for piece in pieces]),
        has_mark=np.array([b"," in piece or b"-" in piece for piece in pieces]),
        is_numeric=np.array([bool(piece) and NUMERIC.issuperset(piece) for piece in pieces]) & ~special,
        is_comma_only=np.array([bool(piece) and not piece.strip(b",") for piece in pieces]),
        digits=np.array([len(piece) if piece.isdigit() else 0 for piece in pieces], dtype=np.int16),
        mark=np.array([_MARKS.index(piece) + 1 if piece in _MARKS else 0 for piece in pieces], dtype=np.int8),
    )


def padded(classes: NDArray[np.integer], vocab_rows: int) -> NDArray[np.int16]:
    """Classes of a tokenizer's ids as those of a model's rows; rows without a token are dead."""
    rows = np.zeros(vocab_rows, dtype=np.int16)
    rows[: len(classes)] = classes
    return rows
