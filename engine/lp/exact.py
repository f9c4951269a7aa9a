"""The exact LP: the molecule's own text forced segment by segment, and numbers that are numbers between them.

A segment, such as ``>=[O]<``, is tokenised whole: the token that closes a block depends on what follows it, and greedy
matching gets it wrong. Where a minus sign would change the segment's last token (``++]`` before ``<-``), a cell in its
place lets the model choose between the two. Every text that this admits parses, has the molecule's graph, and
re-tokenises to the very ids that were sampled.
"""

from __future__ import annotations

import functools
from itertools import pairwise

from engine.chem.enriched import OPEN_TAG, changed_carbon, segments_of
from engine.errors import ConstraintError, shown
from engine.lp.bins import BinNumbers, bin_numbers, code_numbers
from engine.lp.canonical import check_canonical
from engine.lp.constraint import LpParameters, end_of
from engine.lp.numbers import BRANCH, Numbers, number_automaton
from engine.lp.table import KEEP, NO_ID, Cells, Program
from engine.records import BinFormat, CodeFormat, Molecule, NumberFormat
from engine.text.tokenizer_build import RECIPES
from engine.text.tokenizers import TextTokenizer, number_ids


def build(name: str, tokenizer: TextTokenizer, vocab_rows: int, parameters: LpParameters) -> ExactConstraint:
    return ExactConstraint(tokenizer, parameters.form, vocab_rows, name, parameters.conformers)


class ExactConstraint:
    """Compiles molecules for one tokenizer and one number format."""

    def __init__(
        self, tokenizer: TextTokenizer, form: NumberFormat, vocab_rows: int, name: str = "exact", conformers: int = 1
    ) -> None:
        """``name``: of an LP that allows the same texts. ``conformers``: of each answer, every one of them whole."""
        self.name = name
        self.form = form
        self.tokenizer = tokenizer
        self._end = end_of(tokenizer)
        self.conformers = conformers
        self.numbers: Numbers | BinNumbers
        if isinstance(form, CodeFormat):
            self.numbers = code_numbers(tokenizer, form, vocab_rows)
        elif isinstance(form, BinFormat):
            self.numbers = bin_numbers(tokenizer, form, vocab_rows)
        else:
            self.numbers = number_automaton(number_ids(tokenizer), form, vocab_rows)
            self._are_apart = number_ids(tokenizer).comma_minus is None
        self.automaton = self.numbers.automaton
        self._segment = functools.lru_cache(maxsize=65_536)(self._tokenised)

    def compile(self, molecule: Molecule) -> Program:
        """The molecule's program, from ``[CONFORMER]`` to the end token. Blocks count on from conformer to conformer:
        their tags are tokens of their own, so that each is cut like the first."""
        cells = Cells()
        if changed_carbon(molecule):
            raise ConstraintError(
                f"the descriptors of {shown(molecule.smiles)} with hydrogens are those of another molecule",
                "Use plain descriptors for this molecule",
            )
        first = 0
        for _ in range(self.conformers):
            first = self._write_conformer(cells, molecule, first)
        cells.force([self._end])
        program = cells.program()
        if self.tokenizer.name not in RECIPES:  # of those the tests have shown it
            check_canonical(self.tokenizer, self.automaton, program, molecule.smiles)
        return program

    def _write_conformer(self, cells: Cells, molecule: Molecule, first: int) -> int:
        """``first``: the number of its first block; returned is the next one's."""
        *opening, closing = segments_of(molecule.smiles, molecule.descriptors, self.form)
        if isinstance(self.form, CodeFormat):
            for block, text in enumerate(opening, first):
                cells.force(self._segment(text)[0], block)
                cells.choose(0, block)
            cells.force(self._segment(closing)[0])
            return first + len(opening)
        for block, (text, following) in enumerate(pairwise([*opening, closing]), first):
            plain, signed = self._segment(text)
            rest = plain if block == first else plain[1:]  # the closing token was the cell before
            if isinstance(self.numbers, BinNumbers):
                cells.force(rest, block)
                entry, sign = 0, NO_ID
            elif len(signed) == len(plain) + 1:
                cells.force(rest, block)
                entry, sign = self.numbers.starts["x"], signed[-1]
                if self._are_apart and sign != number_ids(self.tokenizer).minus:
                    raise self._inexact(f"{text}-")
            else:
                cells.force(rest[:-1], block)
                cells.choose(self.numbers.starts[BRANCH], block, (plain[-1], signed[-1]))
                entry = KEEP
                sign = number_ids(self.tokenizer).minus if self._are_apart else NO_ID
            cells.choose(entry, block, (self._segment(following)[0][0], sign))
        cells.force(self._segment(closing)[0][1:])
        return first + len(opening)

    def _tokenised(self, text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The segment before a plain number and before a minus sign: one token more, or another last one."""
        before = "" if text.startswith(OPEN_TAG) else "0"
        plain = tuple(self.tokenizer.inner_ids(text, before))
        has_sign = text.endswith("<") and not isinstance(self.numbers, BinNumbers)
        signed = tuple(self.tokenizer.inner_ids(f"{text}-", before)) if has_sign else plain
        is_known = signed[:-1] == plain if len(signed) > len(plain) else signed[:-1] == plain[:-1]
        has_opening = not has_sign or len(plain) + len(signed) > 2  # else one token closes a block and signs the next
        if not is_known or not has_opening or len(signed) > len(plain) + 1:
            raise self._inexact(text)
        return plain, signed

    def _inexact(self, text: str) -> ConstraintError:
        return ConstraintError(
            f"the tokenizer {self.tokenizer.name} cuts {text!r} in a way that has no exact form",
            "Use another LP for this molecule",
        )
