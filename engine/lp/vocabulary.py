"""What the tokens of a vocabulary are to a position LP: blocked, digits, marks, or anything else."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, SMILES_TAGS
from engine.lp_records import PositionRule
from engine.text.tokenizers import TextTokenizer

NUMERIC = frozenset(b"0123456789.,-")
_MARKS = (b".", b",", b",-", b"-")
_LONE_MARKS = frozenset(b",-")
_BAD_PAIRS = (b"..", b",,", b"--", b".,", b",.", b".-", b"-,")
_TAGS = (OPEN_TAG, CLOSE_TAG, *SMILES_TAGS)


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """One flag or count for each id below the tokenizer's size."""

    pieces: tuple[bytes, ...]
    is_special: NDArray[np.bool_]  # added tokens: tags, begin, end and padding
    ends_text: NDArray[np.bool_]  # tags of prompt and answer, begin and end
    digits: NDArray[np.int16]  # how many digits it is, 0 where it is not digits alone
    mark: NDArray[np.int8]  # 1 to 4 for `.` `,` `,-` `-`, else 0

    def where(self, wanted: Callable[[bytes], bool]) -> NDArray[np.bool_]:
        return np.fromiter(map(wanted, self.pieces), dtype=bool, count=len(self.pieces))

    def is_dead(self, rule: PositionRule) -> NDArray[np.bool_]:
        """What the rule lets into no FREE position."""
        characters = frozenset(rule.blocked.encode())
        dead = self.ends_text | self.where(lambda piece: not characters.isdisjoint(piece))
        if rule.no_added:
            dead |= self.is_special
        if rule.numbers_only:
            dead |= ~self.where(is_of_numbers)
        if rule.no_bad_pairs:
            dead |= self.where(lambda piece: is_of_numbers(piece) and any(pair in piece for pair in _BAD_PAIRS))
        return dead

    def is_kept_from_end(self, rule: PositionRule) -> NDArray[np.bool_]:
        """What may not come where the rule looks ahead to a block's end."""
        if rule.ahead == "any with a mark":
            return self.where(lambda piece: b"," in piece or b"-" in piece)
        points = (b".,", b",.") if rule.ahead == "marks and points" else ()
        return self.where(lambda piece: bool(piece) and (_LONE_MARKS.issuperset(piece) or piece in points))


def is_of_numbers(piece: bytes) -> bool:
    return bool(piece) and NUMERIC.issuperset(piece)


@functools.lru_cache(maxsize=8)
def vocabulary_of(tokenizer: TextTokenizer) -> Vocabulary:
    """Every token looked at once."""
    pieces = tuple(tokenizer.raw(id_) for id_ in range(tokenizer.vocab_size))
    special, ends_text = np.zeros(len(pieces), dtype=bool), np.zeros(len(pieces), dtype=bool)
    special[[id_ for id_ in tokenizer.added if id_ < len(pieces)]] = True
    ending = (tokenizer.end_id, *tokenizer.begin_ids, *map(tokenizer.id_of, _TAGS))
    ends_text[[id_ for id_ in ending if id_ is not None and id_ < len(pieces)]] = True
    return Vocabulary(
        pieces,
        special,
        ends_text,
        digits=np.array([len(piece) if piece.isdigit() else 0 for piece in pieces], dtype=np.int16),
        mark=np.array([_MARKS.index(piece) + 1 if piece in _MARKS else 0 for piece in pieces], dtype=np.int8),
    )


def padded(classes: NDArray[np.integer], vocab_rows: int) -> NDArray[np.int16]:
    """Classes of a tokenizer's ids as those of a model's rows; rows without a token are dead."""
    rows = np.zeros(vocab_rows, dtype=np.int16)
    rows[: len(classes)] = classes
    return rows
