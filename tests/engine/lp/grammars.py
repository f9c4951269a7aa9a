"""What a model may write for a molecule, said once more: from the formats alone, for libraries that are not ours.

Nothing here knows the exact LP's automaton. A grammar is the literal text between the numbers and a rule for numbers;
``lark`` says it in llguidance's notation, and ``Judge`` lets llguidance decide. Both speak of text: they admit every
cut of it into tokens, the tokenizer's own among them. ``endings`` is what is needed to tell that one from the others.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, segments_of
from engine.records import Molecule, NumberFormat
from engine.text.tokenizers import TextTokenizer

if TYPE_CHECKING:
    from llguidance import LLMatcher

_BEHIND = re.compile(r"[^-.0-9].*", re.DOTALL)
"""What is no part of a number, and all behind it."""


@dataclass(frozen=True, slots=True)
class AnswerGrammar:
    """One molecule's answers: literal pieces, and None for each number. The two tags are tokens of their own."""

    pieces: tuple[str | None, ...]
    form: NumberFormat
    tags: tuple[int, int]

    @classmethod
    def of(cls, molecule: Molecule, form: NumberFormat, tokenizer: TextTokenizer) -> AnswerGrammar:
        first, *others = segments_of(molecule.smiles)
        pieces: list[str | None] = [OPEN_TAG, first.removeprefix(OPEN_TAG)]
        for text in others:
            pieces += [None, ",", None, ",", None, text]
        pieces[-1:] = [others[-1].removesuffix(CLOSE_TAG), CLOSE_TAG]
        opening, closing = tokenizer.id_of(OPEN_TAG), tokenizer.id_of(CLOSE_TAG)
        assert opening is not None
        assert closing is not None
        return cls(tuple(pieces), form, (opening, closing))

    def lark(self) -> str:
        """For llguidance: its regular expressions may be negated, so a negative zero is simply taken out."""
        form, (opening, closing) = self.form, self.tags
        decimals = f"\\.[0-9]{{{max(1, form.least_decimals)},{form.most_decimals}}}"
        decimals = decimals if form.least_decimals else f"({decimals})?"
        body = " ".join("NUMBER" if piece is None else json.dumps(piece) for piece in self.pieces[1:-1])
        return (
            f"start: <[{opening}]> {body} <[{closing}]>\n"
            f"NUMBER: /-?(0|[1-9][0-9]{{0,{form.most_integer_digits - 1}}})"
            f"{decimals}/ & ~/-0(\\.0*)?/\n"
        )

    def endings(self, text: str) -> Iterator[str]:
        """Whole answers that begin with ``text``: one at least for each way in which a tokenizer may cut it.

        What is begun is ended in every shape (only how many digits there are can move a cut, so all are ones), and the
        number behind it comes with both signs. What stands beyond that number's digits is too far away.
        """
        place, begun = self._place(text)
        if place == len(self.pieces):
            yield text
            return
        piece = self.pieces[place]
        ends = _number_ends(self.form, begun) if piece is None else (piece[len(begun) :],)
        behind = [_filled(self.pieces[place + 1 :], self.form, sign) for sign in ("", "-")]
        for end, rest in itertools.product(ends, dict.fromkeys(behind)):
            yield f"{text}{end}{rest}"

    def _place(self, text: str) -> tuple[int, str]:
        """The piece in which the text ends, and what is written of it."""
        position = 0
        for place, piece in enumerate(self.pieces):
            begun = text[position:]
            if piece is None:
                written = _BEHIND.sub("", begun)
                is_here = written == begun
            else:
                written, is_here = piece, len(begun) < len(piece)
            if is_here:
                return place, begun
            position += len(written)
        return len(self.pieces), ""


@functools.lru_cache(maxsize=1_024)
def _number_ends(form: NumberFormat, begun: str) -> tuple[str, ...]:
    """What makes a number of its beginning, in every shape."""
    wholes = ["0", *("1" * width for width in range(1, form.most_integer_digits + 1))]
    decimals = ["." * (width > 0) + "1" * width for width in range(form.least_decimals, form.most_decimals + 1)]
    numbers = [f"{sign}{whole}{part}" for sign in ("", "-") for whole in wholes for part in decimals]
    ends = {number[start:] for number in numbers for start in range(len(number) + 1)}
    return tuple(sorted(end for end in ends if is_number(form, begun + end)))


def is_number(form: NumberFormat, text: str) -> bool:
    """Whether a model with this format may write the number."""
    found = re.fullmatch(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?", text)
    if found is None or re.fullmatch(r"-0(\.0*)?", text):
        return False
    decimals = len(found[2] or "")
    return len(found[1]) <= form.most_integer_digits and form.least_decimals <= decimals <= form.most_decimals


def _filled(pieces: Sequence[str | None], form: NumberFormat, sign: str) -> str:
    """The pieces with a number in each place; the first one has this sign."""
    number = "1." + "0" * form.least_decimals
    signs = itertools.chain((sign,), itertools.repeat(""))
    return "".join(f"{next(signs)}{number}" if piece is None else piece for piece in pieces)


class Judge:
    """llguidance with one tokenizer. It cuts nothing by itself: every token that the text allows is in its masks."""

    def __init__(self, tokenizer: TextTokenizer, vocab_rows: int) -> None:
        from llguidance import LLTokenizer

        # Slices make masks of wide grammars faster, and the tokenizer slower to build.
        self._tokenizer = LLTokenizer(
            tokenizer.backend.to_str(), n_vocab=vocab_rows, eos_token=tokenizer.end_id, slices=[]
        )
        self._rows = vocab_rows

    def matcher(self, grammar: AnswerGrammar) -> LLMatcher:
        from llguidance import LLMatcher

        found = LLMatcher(self._tokenizer, f'%llguidance {{"no_forcing": true}}\n{grammar.lark()}', log_level=0)
        assert not found.is_error(), found.get_error()
        return found

    def accepts(self, grammar: AnswerGrammar, ids: Sequence[int]) -> bool:
        """Whether the ids, the end token with them, are a whole answer."""
        return self.matcher(grammar).validate_tokens(list(ids)) == len(ids)

    def mask(self, matcher: LLMatcher) -> NDArray[np.bool_]:  # [V]
        bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        return np.unpackbits(bits, bitorder="little", count=self._rows).astype(np.bool_)
