"""The reports' first solution: a position LP under which the model may end a block before the template does.

As ``group-v2.1`` without its look-ahead; from z's first decimal on (from the least decimals on, if the format has
more; from its first digit, if integers are numbers too) the template's closing token is legal next to the rest, and
choosing it jumps behind the block. With the most decimals written it is forced, and a piece that is no number makes the
number complete and forces it too. It cannot help a number that is longer than its template: the positions end, and the
block is cut.
"""

from __future__ import annotations

import numpy as np

from engine.chem.enriched import skeleton_of
from engine.lp.constraint import LpParameters, end_of
from engine.lp.table import DEAD, ILLEGAL, JUMP, NEXT, SYMBOLS, Automaton, Program
from engine.lp.vocabulary import padded, vocabulary_of
from engine.lp_records import PositionRule, lp_record
from engine.records import Molecule, NumberFormat
from engine.text.template import FREE, build_template
from engine.text.tokenizers import TextTokenizer

OTHER, POINT, COMMA, MINUS = 1, 2, 3, 4
FIRST_DIGITS = 5
"""Class of tokens of one digit; those of more follow, up to the format's most and all beyond it."""
X, Y, Z_INTEGER = range(3)
FIRST_DECIMAL = 3
"""Node of a z with a point and no decimals; one more for each decimal; then the complete number, and a whole one."""


class TruncatingConstraint:
    """The LP for one tokenizer, placeholder and number format."""

    def __init__(self, name: str, tokenizer: TextTokenizer, vocab_rows: int, parameters: LpParameters) -> None:
        self.name = name
        self.placeholder = parameters.placeholder
        self._tokenizer, self._end = tokenizer, end_of(tokenizer)
        self.automaton = _automaton(tokenizer, parameters.form, vocab_rows, lp_record(name).rule)

    def compile(self, molecule: Molecule) -> Program:
        template = build_template(skeleton_of(molecule), self._tokenizer, self.placeholder, tags=True)
        ids = np.append(template.ids, self._end)
        is_free = np.append(template.roles == FREE, False)
        free, forced = np.flatnonzero(is_free), np.flatnonzero(~is_free)
        closing = forced[np.searchsorted(forced, free)]  # for each FREE position the next one that is not
        program = Program.blank(np.append(template.block_of, -1))
        program.forced[forced] = ids[forced]
        program.entry[free[~is_free[free - 1]]] = X  # a block's first
        program.symbols[free, 0] = ids[closing]
        program.jump[free] = closing + 1
        return program


build = TruncatingConstraint


def _automaton(tokenizer: TextTokenizer, form: NumberFormat, vocab_rows: int, rule: PositionRule) -> Automaton:
    vocabulary = vocabulary_of(tokenizer)
    most = form.most_decimals
    classes = np.full(len(vocabulary.digits), OTHER, dtype=np.int16)
    for kind, marks in ((POINT, (1,)), (COMMA, (2, 3)), (MINUS, (4,))):
        classes[np.isin(vocabulary.mark, marks)] = kind
    is_digits = vocabulary.digits > 0
    classes[is_digits] = FIRST_DIGITS - 1 + np.minimum(vocabulary.digits[is_digits], most)
    classes[vocabulary.is_dead(rule)] = DEAD
    close = FIRST_DIGITS + most  # the first symbol, behind the classes of tokens
    complete = FIRST_DECIMAL + most
    whole = complete + 1
    goto = np.full((whole + 1, close + SYMBOLS), ILLEGAL, dtype=np.int16)
    move = np.full(goto.shape, NEXT, dtype=np.int8)
    move[:, close] = JUMP
    for node in (*range(complete), whole):
        goto[node, 1:close] = node
    goto[X, COMMA] = Y
    goto[Y, COMMA] = Z_INTEGER
    goto[Z_INTEGER, POINT] = FIRST_DECIMAL
    if form.least_decimals == 0:
        goto[Z_INTEGER, FIRST_DIGITS:close] = whole
    goto[whole, [close, POINT]] = X, FIRST_DECIMAL
    goto[whole, [OTHER, COMMA, MINUS]] = complete
    for written in range(most):
        node = FIRST_DECIMAL + written
        for digits in range(1, most + 1):
            goto[node, FIRST_DIGITS - 1 + digits] = min(node + digits, complete)
        if written >= max(1, form.least_decimals):
            goto[node, close] = X
            goto[node, [OTHER, POINT, COMMA, MINUS]] = complete
    goto[complete, close] = X
    decimals = [f"z: {written} decimals" for written in range(most)]
    ends = ("a complete number: only the closing token", "z: an integer so far")
    rules = ("x", "y", "z before its point", *decimals, *ends)
    return Automaton(padded(classes, vocab_rows), goto, move, rules)
