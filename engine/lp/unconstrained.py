"""No LP: any token that the tokenizer has may come at any time, until the model ends its text.

A text ends where plain ``generate`` stops: with any of the checkpoint's end tokens, and at ``[/CONFORMER]`` where it is
one of them. Behind those that are not the one that our texts end with, that one follows by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.lp.constraint import LpParameters
from engine.lp.table import DEAD, ILLEGAL, NEXT, STAY, SYMBOLS, Automaton, Cells, Program
from engine.records import Molecule
from engine.text.tokenizers import TextTokenizer


def build(name: str, tokenizer: TextTokenizer, vocab_rows: int, parameters: LpParameters) -> Unconstrained:
    ends = tokenizer.end_ids
    if parameters.never_end or not ends:
        return Unconstrained(tokenizer.vocab_size, vocab_rows, ends)
    close = tokenizer.close_ids if parameters.conformers == 1 else ()
    return Unconstrained(tokenizer.vocab_size, vocab_rows, stops=(*ends[1:], *close), end=ends[0])


class Unconstrained:
    """The baseline, in the same form: rows beyond the tokenizer's size are masked here as everywhere."""

    name = "none"

    def __init__(
        self, vocab_size: int, vocab_rows: int, never: Sequence[int] = (), stops: Sequence[int] = (), end: int = 0
    ) -> None:
        """``never``: ids that may not come all the same, such as the end token for texts of equal length. ``stops``:
        those behind which ``end`` follows, since plain ``generate`` stops at them too."""
        classes = np.full(vocab_rows, DEAD, dtype=np.int16)
        classes[:vocab_size] = 1
        classes[list(stops)] = 2
        classes[list(never)] = DEAD
        of_stops = [0] if stops else []
        goto = np.array([[ILLEGAL, 0, *of_stops, *[ILLEGAL] * SYMBOLS]], dtype=np.int16)
        move = np.full(goto.shape, STAY, dtype=np.int8)
        if stops:
            move[0, 2] = NEXT
        self.stops, self._end = tuple(stops), end
        self.automaton = Automaton(classes, goto, move, ("anything",))

    def compile(self, molecule: Molecule) -> Program:
        cells = Cells()
        cells.choose(0, -1)
        if self.stops:
            cells.force([self._end])
        return cells.program()
