"""The reports' LPs that count positions: a template's tokens are forced, its FREE positions are left to the model.

``position-blocklist``: anything but tokens with ``<`` or ``>`` and special ones. ``position-blocklist-short``: the
same, and no ``,`` or ``-`` at a block's last two positions. ``position-allowlist``: only tokens made of digits, ``.``,
``,`` and ``-``; no comma alone first, none of ``,`` and ``-`` in the last two. ``adaptive-placeholder`` is the first
with a placeholder fitted to coordinates. All believe the placeholder: a number of another length drifts.
"""

from __future__ import annotations

import numpy as np

from engine.chem.enriched import skeleton_of
from engine.lp.constraint import LAST_POSITIONS, LpParameters, end_of
from engine.lp.table import DEAD, ILLEGAL, NEXT, SYMBOLS, Automaton, Program
from engine.lp.vocabulary import padded, vocabulary_of
from engine.records import Molecule
from engine.text.template import FREE, Template, build_template
from engine.text.tokenizers import TextTokenizer

ANY, MARKED, COMMAS = 1, 2, 3
"""Classes: legal tokens; those with ``,`` or ``-``; commas alone."""
FIRST_NODE, MIDDLE_NODE, LAST_NODE = range(3)


# By name: whether only tokens of numbers are legal; whether ``,`` and ``-`` may come in a block's last positions.
_RULES = {
    "position-blocklist": (False, True),
    "position-blocklist-short": (False, False),
    "position-allowlist": (True, False),
    "adaptive-placeholder": (False, True),
}


class PositionConstraint:
    """One of the position LPs for one tokenizer and one placeholder."""

    def __init__(self, name: str, tokenizer: TextTokenizer, vocab_rows: int, parameters: LpParameters) -> None:
        self.name = name
        self.placeholder = parameters.placeholder
        self._tokenizer, self._end = tokenizer, end_of(tokenizer)
        self._last = parameters.last_positions
        numeric, last_marks = _RULES[name]
        self.automaton = _automaton(tokenizer, vocab_rows, numeric=numeric, last_marks=last_marks)

    def compile(self, molecule: Molecule) -> Program:
        template = build_template(skeleton_of(molecule), self._tokenizer, self.placeholder, tags=True)
        return position_program(template, self._end, self._last)


build = PositionConstraint


def position_program(template: Template, end: int, last_positions: int = LAST_POSITIONS) -> Program:
    """One cell a token of the template, and one for the end."""
    program = Program.blank(np.append(template.block_of, -1))
    is_free = np.append(template.roles == FREE, False)
    of = program.block[is_free]
    count = template.free_per_block
    seen = np.arange(len(of)) - (np.cumsum(count) - count)[of]  # FREE positions of the same block before each
    nodes = np.where(seen == 0, FIRST_NODE, MIDDLE_NODE)
    nodes[count[of] - seen <= last_positions] = LAST_NODE
    program.entry[is_free] = nodes
    program.forced[~is_free] = np.append(template.ids, end)[~is_free]
    return program


def _automaton(tokenizer: TextTokenizer, vocab_rows: int, *, numeric: bool, last_marks: bool) -> Automaton:
    vocabulary = vocabulary_of(tokenizer)
    classes = np.where(vocabulary.has_mark, np.where(vocabulary.is_comma_only, COMMAS, MARKED), ANY)
    classes[~vocabulary.is_numeric if numeric else vocabulary.is_blocked] = DEAD
    legal = {
        FIRST_NODE: (ANY, MARKED) if numeric else (ANY, MARKED, COMMAS),
        MIDDLE_NODE: (ANY, MARKED, COMMAS),
        LAST_NODE: (ANY, MARKED, COMMAS) if last_marks else (ANY,),
    }
    goto = np.full((len(legal), COMMAS + 1 + SYMBOLS), ILLEGAL, dtype=np.int16)
    move = np.full(goto.shape, NEXT, dtype=np.int8)
    for node, kinds in legal.items():
        goto[node, list(kinds)] = node
    what = "digits, points, commas and minus signs" if numeric else "anything but < and >"
    rules = (f"first position: {what}", f"a FREE position: {what}", f"a block's last positions: {what}")
    return Automaton(padded(classes, vocab_rows), goto, move, rules)
