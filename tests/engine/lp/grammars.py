"""What a model may write for a molecule, said once more: from the formats alone, for libraries that are not ours.

Nothing here knows the exact LP's automaton. A grammar is the literal text between the numbers and a rule for numbers;
``lark`` says it in llguidance's notation. It speaks of text, and admits every cut of it into tokens.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, segments_of
from engine.records import Molecule, NumberFormat
from engine.text.tokenizers import TextTokenizer


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
