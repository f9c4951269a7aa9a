"""An LP that only a test knows: it forces the whole template, numbers too, and writes the placeholder at each atom."""

from __future__ import annotations

import numpy as np

from engine.chem.enriched import skeleton_of
from engine.lp.constraint import LpParameters
from engine.lp.table import DEAD, ILLEGAL, NEXT, SYMBOLS, Automaton, Program
from engine.records import Molecule
from engine.text.template import build_template
from engine.text.tokenizers import TextTokenizer


def build(name: str, tokenizer: TextTokenizer, vocab_rows: int, parameters: LpParameters) -> TemplateOnly:
    return TemplateOnly(name, tokenizer, vocab_rows, parameters.placeholder)


class TemplateOnly:
    def __init__(self, name: str, tokenizer: TextTokenizer, vocab_rows: int, placeholder: str) -> None:
        assert tokenizer.end_id is not None
        self.name, self._tokenizer, self._end, self._placeholder = name, tokenizer, tokenizer.end_id, placeholder
        goto = np.array([[ILLEGAL, 0, *[ILLEGAL] * SYMBOLS]], dtype=np.int16)
        classes = np.full(vocab_rows, DEAD, dtype=np.int16)
        classes[: tokenizer.vocab_size] = 1  # no cell leaves a choice
        self.automaton = Automaton(classes, goto, np.full(goto.shape, NEXT, dtype=np.int8), ("forced",))

    def compile(self, molecule: Molecule) -> Program:
        template = build_template(skeleton_of(molecule), self._tokenizer, self._placeholder, tags=True)
        program = Program.blank(np.append(template.block_of, -1))
        program.forced[:] = np.append(template.ids, self._end)
        return program
