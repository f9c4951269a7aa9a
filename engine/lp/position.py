"""The LPs that count positions: a template's tokens are forced, its FREE positions are left to the model.

Which tokens may come there is the rule of the LP's record (``engine.lp_records``). ``adaptive-placeholder`` is one of
them with a placeholder fitted to coordinates. All believe the placeholder: a number of another length drifts. Rows of
a padded vocabulary beyond the tokenizer's own ids, which the group's blocklists leave legal, are masked here.
"""

from __future__ import annotations

import numpy as np

from engine.chem.enriched import skeleton_of
from engine.lp.constraint import LpParameters, end_of
from engine.lp.table import DEAD, ILLEGAL, NEXT, SYMBOLS, Automaton, Program
from engine.lp.vocabulary import padded, vocabulary_of
from engine.lp_records import PositionRule, lp_record
from engine.records import Molecule
from engine.text.template import FREE, Template, build_template
from engine.text.tokenizers import TextTokenizer

ANY, MARKED, COMMAS = 1, 2, 3
"""Classes: legal tokens; those that may not come at a block's end; commas alone, where none may begin a block."""
FIRST_NODE, MIDDLE_NODE, LAST_NODE = range(3)


class PositionConstraint:
    """One of the position LPs for one tokenizer and one placeholder."""

    def __init__(self, name: str, tokenizer: TextTokenizer, vocab_rows: int, parameters: LpParameters) -> None:
        self.name = name
        self.placeholder, self._form = parameters.placeholder, parameters.form
        self._tokenizer, self._end = tokenizer, end_of(tokenizer)
        self._rule = lp_record(name).rule
        self.automaton = _automaton(tokenizer, vocab_rows, self._rule)

    def compile(self, molecule: Molecule) -> Program:
        skeleton = skeleton_of(molecule, form=self._form)
        template = build_template(skeleton, self._tokenizer, self.placeholder, tags=True, form=self._form)
        return position_program(template, self._end, self._rule.look_ahead)


build = PositionConstraint


def position_program(template: Template, end: int, look_ahead: int = 0) -> Program:
    """One cell a token of the template, and one for the end."""
    program = Program.blank(np.append(template.block_of, -1))
    is_free = np.append(template.roles == FREE, False)
    blocks = program.block[is_free]
    count = template.free_per_block
    seen = np.arange(len(blocks)) - (np.cumsum(count) - count)[blocks]  # FREE positions of the same block before each
    nodes = np.where(seen == 0, FIRST_NODE, MIDDLE_NODE)
    nodes[count[blocks] - seen <= look_ahead] = LAST_NODE
    program.entry[is_free] = nodes
    program.forced[~is_free] = np.append(template.ids, end)[~is_free]
    return program


def _automaton(tokenizer: TextTokenizer, vocab_rows: int, rule: PositionRule) -> Automaton:
    vocabulary = vocabulary_of(tokenizer)
    classes = np.where(vocabulary.is_kept_from_end(rule), MARKED, ANY)
    classes[vocabulary.where(lambda piece: bool(piece) and not piece.strip(b","))] = COMMAS
    classes[vocabulary.is_dead(rule)] = DEAD
    legal = {
        FIRST_NODE: (ANY, MARKED) if rule.no_first_comma else (ANY, MARKED, COMMAS),
        MIDDLE_NODE: (ANY, MARKED, COMMAS),
        LAST_NODE: (ANY,),
    }
    goto = np.full((len(legal), COMMAS + 1 + SYMBOLS), ILLEGAL, dtype=np.int16)
    move = np.full(goto.shape, NEXT, dtype=np.int8)
    for node, kinds in legal.items():
        goto[node, list(kinds)] = node
    chars = "digits, points, commas and minus signs" if rule.numbers_only else f"anything without {rule.blocked}"
    rules = f"first position: {chars}", f"a FREE position: {chars}", f"a block's last positions: {chars}, no mark alone"
    return Automaton(padded(classes, vocab_rows), goto, move, rules)
