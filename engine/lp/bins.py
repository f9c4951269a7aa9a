"""The number automaton of the exact LP for bins: three numbers of an atom, each of a bin that there is.

All numbers have the same digits, so all atoms have the same tokens: three where each number is a token (`000` to `257`
added to Qwen's), three of LLaMA's, nine of Qwen's single digits. Written bare, ``[C]128130125;``, the digits of an atom
are one run, which a tokenizer may cut across its numbers: LLaMA's does where a number has four.

Numbers of what is outside the range are not written: they say on which side an atom is, and not where.

Codes are simpler: each is one token with its brackets, and the text between two of them is a text by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.errors import ConstraintError, TokenizerError
from engine.lp.numbers import AXES
from engine.lp.table import DEAD, ILLEGAL, NEXT, STAY, SYMBOLS, Automaton
from engine.records import BinFormat, CodeFormat
from engine.text.tokenizers import TextTokenizer, number_ids

BinState = tuple[int, int, int, int]
"""Axis, digits of its number that are still to come, and the least and the greatest value of these."""
MOST_PROBES = 400


@dataclass(frozen=True, slots=True, eq=False)
class BinNumbers:
    """The automaton of a tokenizer and a format, and what its nodes and tokens are. A block begins at node 0."""

    automaton: Automaton
    states: tuple[BinState, ...]  # [Q]
    values: dict[int, int]  # of each token of digits
    widths: dict[int, int]  # its digits


def bin_numbers(tokenizer: TextTokenizer, form: BinFormat, vocab_rows: int) -> BinNumbers:
    """``ConstraintError`` where the tokenizer has no token for a number, or cuts numbers in a way that is not known."""
    by_width = _tokens(tokenizer, form)
    widest = max(by_width)
    comma = tokenizer.inner_ids(form.comma, "0") if form.comma else []

    def steps(state: BinState) -> dict[int, BinState]:
        """By token, the state that it leads to."""
        axis, left, _, _ = state
        if not left:
            return {comma[0]: _start(axis + 1, form)} if axis + 1 < len(AXES) else {}
        run = left if comma else left + (len(AXES) - 1 - axis) * form.digits
        width = min(widest, run)
        led = ((id_, _after(state, f"{value:0{width}d}", form)) for value, id_ in by_width[width].items())
        return {id_: after for id_, after in led if after is not None}

    states = [_start(0, form)]
    for state in states:  # it grows
        states += [after for after in dict.fromkeys(steps(state).values()) if after not in states]
    leads: dict[int, list[int]] = {}  # of each token, where it leads from each node
    for node, state in enumerate(states):
        for id_, after in steps(state).items():
            leads.setdefault(id_, [ILLEGAL] * len(states))[node] = states.index(after)
    values = {id_: value for row in by_width.values() for value, id_ in row.items()}
    widths = {id_: width for width, row in by_width.items() for id_ in row.values()}
    made = BinNumbers(_automaton(states, leads, vocab_rows), tuple(states), values, widths)
    _probe(made, tokenizer, form)
    return made


def code_numbers(tokenizer: TextTokenizer, form: CodeFormat, vocab_rows: int) -> BinNumbers:
    """One node, at which any code may come, which ends its block: there are no axes, digits or values.
    ``ConstraintError`` where the tokenizer has no token for a code."""
    ids = [tokenizer.id_of(form.write([str(code)])) for code in range(form.codes)]
    classes = np.full(vocab_rows, DEAD, dtype=np.int16)
    for code, id_ in enumerate(ids):
        if id_ is None:
            problem = f"the tokenizer {tokenizer.name} has no token for <{code}>, one of {form.codes:,} codes"
            raise ConstraintError(problem, "Use the tokenizer that the model of these codes was trained with")
        classes[id_] = 1
    goto = np.full((1, 2 + SYMBOLS), ILLEGAL, dtype=np.int16)
    move = np.full(goto.shape, STAY, dtype=np.int8)
    goto[0, 1], move[0, 1] = 0, NEXT
    return BinNumbers(Automaton(classes, goto, move, (f"one of {form.codes:,} codes",)), (), {}, {})


def _tokens(tokenizer: TextTokenizer, form: BinFormat) -> dict[int, dict[int, int]]:
    """By the number of digits, the token of each value: of whole numbers where each has one, else of digits."""
    numbers = [f"{number:0{form.digits}d}" for number in range(1, form.bins + 1)]
    encoded = [tokenizer.inner_ids(number, "]") for number in numbers]
    if all(len(ids) == 1 for ids in encoded):
        return {form.digits: {int(number): ids[0] for number, ids in zip(numbers, encoded, strict=True)}}
    try:
        digits = number_ids(tokenizer).digits
    except TokenizerError as error:
        lacking = next(number for number, ids in zip(numbers, encoded, strict=True) if len(ids) != 1)
        problem = f"the tokenizer {tokenizer.name} has no token for {lacking}, one of {form.bins:,} bins"
        raise ConstraintError(problem, "Use a format of fewer bins, or another tokenizer") from error
    return {width: dict(enumerate(row)) for width, row in enumerate(digits, start=1)}


def _start(axis: int, form: BinFormat) -> BinState:
    return axis, form.digits, 1, form.bins


def _after(state: BinState, digits: str, form: BinFormat) -> BinState | None:
    """Behind more digits, which may be of several numbers; None where there is no such bin."""
    axis, left, low, high = state
    while digits:
        of_number, digits = digits[:left], digits[left:]
        left -= len(of_number)
        unit = 10**left
        value = int(of_number) * unit
        if value > high or value + unit <= low:
            return None
        low, high = max(low - value, 0), min(high - value, unit - 1)
        if not left and not form.comma and axis + 1 < len(AXES):
            axis, left, low, high = _start(axis + 1, form)
    return axis, left, low, high


def _automaton(states: list[BinState], leads: dict[int, list[int]], vocab_rows: int) -> Automaton:
    kinds = list(dict.fromkeys(map(tuple, leads.values())))
    classes = np.full(vocab_rows, DEAD, dtype=np.int16)
    for id_, nodes in leads.items():
        classes[id_] = 1 + kinds.index(tuple(nodes))
    close = 1 + len(kinds)
    goto = np.full((len(states), close + SYMBOLS), ILLEGAL, dtype=np.int16)
    goto[:, 1:close] = np.transpose(kinds)
    move = np.full(goto.shape, STAY, dtype=np.int8)
    for node, state in enumerate(states):
        if state[:2] == (len(AXES) - 1, 0):
            goto[node, close], move[node, close] = 0, NEXT
    rules = (
        f"{AXES[axis]}: {left} more digits of {low} to {high}" if left else f"{AXES[axis]} is complete"
        for axis, left, low, high in states
    )
    return Automaton(classes, goto, move, tuple(rules))


def _probe(made: BinNumbers, tokenizer: TextTokenizer, form: BinFormat) -> None:
    """Blocks of many numbers, as the tokenizer cuts them."""
    step = max(1, len(AXES) * form.bins // MOST_PROBES)
    numbers = [f"{1 + (index * step) % form.bins:0{form.digits}d}" for index in range(3 * MOST_PROBES)]
    contents = list(map(form.comma.join, zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)))
    for content in contents:
        if not _is_whole(made, tokenizer.inner_ids(content, "]")):
            problem = f"the tokenizer {tokenizer.name} cuts the numbers {content} in a way that has no exact form"
            raise ConstraintError(problem, "Use another tokenizer")


def _is_whole(made: BinNumbers, ids: list[int]) -> bool:
    node = 0
    for id_ in ids:
        if node != ILLEGAL:
            node = int(made.automaton.goto[node, made.automaton.classes[id_]])
    return node != ILLEGAL and made.states[node][:2] == (len(AXES) - 1, 0)
