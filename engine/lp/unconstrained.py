"""No LP: any token that the tokenizer has may come at any time, until the model ends its text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.lp.constraint import LpParameters
from engine.lp.table import DEAD, ILLEGAL, STAY, SYMBOLS, Automaton, Cells, Program
from engine.records import Molecule
from engine.text.tokenizers import TextTokenizer


def build(name: str, tokenizer: TextTokenizer, vocab_rows: int, parameters: LpParameters) -> Unconstrained:
    end = tokenizer.end_id
    return Unconstrained(tokenizer.vocab_size, vocab_rows, (end,) if parameters.never_end and end is not None else ())


class Unconstrained:
    """The baseline, in the same form: rows beyond the tokenizer's size are masked here as everywhere."""

    name = "none"

    def __init__(self, vocab_size: int, vocab_rows: int, never: Sequence[int] = ()) -> None:
        """``never``: ids that may not come all the same, such as the end token for texts of equal length."""
        classes = np.full(vocab_rows, DEAD, dtype=np.int16)
        classes[:vocab_size] = 1
        classes[list(never)] = DEAD
        goto = np.array([[ILLEGAL, 0, *[ILLEGAL] * SYMBOLS]], dtype=np.int16)
        self.automaton = Automaton(classes, goto, np.full(goto.shape, STAY, dtype=np.int8), ("anything",))

    def compile(self, molecule: Molecule) -> Program:
        cells = Cells()
        cells.choose(0, -1)
        return cells.program()
