"""A grammar of bytes in place of our table: the molecule's regex, which a server's structured outputs hold to.

What is compared with ``exact``: the same texts, but for what a regex of one line does not say (``-0.0`` passes, and
bins that there are not), by any tokens that spell them. So tokens need not be the tokenizer's own for the text, and
none is known to be forced. The table here is that of ``none``: it does nothing, and no backend of ours writes under it.
A finished text is read by the regex once more, one that a limit cut as far as it goes: a server may answer without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import regex  # a package, which tells of a text whether it begins a match

from engine.chem.enriched import CLOSE_TAG, segments_of
from engine.lp import unconstrained
from engine.lp.constraint import LpParameters, end_of
from engine.lp.numbers import AXES
from engine.lp.unconstrained import Unconstrained
from engine.records import BinFormat, Molecule, NumberFormat
from engine.text.tokenizer_build import RECIPES
from engine.text.tokenizers import TextTokenizer

_ESCAPED = str.maketrans({char: f"\\{char}" for char in "\\^$.|?*+()[]{}"})


def build(name: str, tokenizer: TextTokenizer, vocab_rows: int, parameters: LpParameters) -> GrammarConstraint:
    table = unconstrained.build(name, tokenizer, vocab_rows, parameters)
    return GrammarConstraint(table, tokenizer, parameters.form, name)


class GrammarConstraint(Unconstrained):
    """Its own part is the regex."""

    def __init__(self, table: Unconstrained, tokenizer: TextTokenizer, form: NumberFormat, name: str) -> None:
        self.automaton, self.stops, self._end = table.automaton, table.stops, end_of(tokenizer)
        self.name, self.form, self.tokenizer = name, form, tokenizer

    def pattern(self, molecule: Molecule) -> str:
        """Of a whole answer, in what all dialects have: classes, groups, counts and alternatives."""
        number = number_pattern(self.form)
        block = self.form.comma.join([number] * len(AXES))
        segments = segments_of(molecule.smiles, molecule.descriptors, self.form)
        return block.join(segment.translate(_ESCAPED) for segment in segments)

    def text_of(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids[: self.tokenizer.text_length(ids)])

    def holds(self, molecule: Molecule, text: str, *, is_whole: bool) -> bool:
        """Whether this is an answer of the molecule, or may still become one."""
        return regex.fullmatch(self.pattern(molecule), text, partial=not is_whole) is not None

    @property
    def warning(self) -> str:
        """Where the tags are special tokens, which a regex cannot name; empty elsewhere."""
        if self.tokenizer.name in RECIPES:
            return ""
        added = self.tokenizer.backend.get_added_tokens_decoder()
        tag = self.tokenizer.id_of(CLOSE_TAG)
        if tag is None or tag not in added or not added[tag].special:
            return ""
        return (
            "the tags are special tokens, which a server's regex spells in other tokens or not at all: vLLM names such "
            "tokens in Lark grammars alone, from 0.33 on, which this does not write"
        )


def number_pattern(form: NumberFormat) -> str:
    if isinstance(form, BinFormat):
        return f"[0-9]{{{form.digits}}}"
    decimals = f"\\.[0-9]{{{max(1, form.least_decimals)},{form.most_decimals}}}"
    whole = f"-?(0|[1-9][0-9]{{0,{form.most_integer_digits - 1}}})"
    return whole + (decimals if form.least_decimals else f"({decimals})?")
