"""The number automaton of the exact LP for binned text: three numbers, each of a bin that there is.

All numbers have the same digits, so all blocks have the same tokens. A state is what may still follow of a number:
``left`` digits whose value is ``low`` to ``high``.
"""

from __future__ import annotations

import numpy as np

from engine.lp.numbers import AXES, BRANCH
from engine.lp.table import DEAD, ILLEGAL, NEXT, STAY, SYMBOLS, Automaton
from engine.records import BinFormat
from engine.text.tokenizers import NumberIds

BinState = tuple[int, int, int, int]
"""Axis, left, low, high."""


def bin_automaton(ids: NumberIds, form: BinFormat, vocab_rows: int) -> tuple[Automaton, dict[str, int]]:
    """The automaton of a tokenizer and a format, and by name the nodes at which a block begins."""
    states: list[BinState] = [_start(0, form)]
    for state in states:  # it grows
        states += [after for after in dict.fromkeys(_steps(state, ids, form).values()) if after not in states]
    branch = len(states)  # before x, where a minus sign would have changed the token
    leads: dict[int, list[int]] = {}  # of each token, where it leads from each node
    for node, state in enumerate(states):
        for id_, after in _steps(state, ids, form).items():
            leads.setdefault(id_, [ILLEGAL] * (branch + 1))[node] = states.index(after)
    kinds = list(dict.fromkeys(map(tuple, leads.values())))
    classes = np.full(vocab_rows, DEAD, dtype=np.int16)
    for id_, nodes in leads.items():
        classes[id_] = 1 + kinds.index(tuple(nodes))
    close = 1 + len(kinds)
    goto = np.full((branch + 1, close + SYMBOLS), ILLEGAL, dtype=np.int16)
    goto[:, 1:close] = np.transpose(kinds)
    move = np.full(goto.shape, STAY, dtype=np.int8)
    for node in (branch, *(node for node, state in enumerate(states) if state[:2] == (len(AXES) - 1, 0))):
        goto[node, close], move[node, close] = 0, NEXT
    rules = [f"{AXES[axis]}: {left} more digits of {low} to {high}" for axis, left, low, high in states]
    return Automaton(classes, goto, move, (*rules, "open the block")), {"x": 0, BRANCH: branch}


def _start(axis: int, form: BinFormat) -> BinState:
    return axis, form.digits, 1, form.bins


def _steps(state: BinState, ids: NumberIds, form: BinFormat) -> dict[int, BinState]:
    """By token, the state that it leads to. A run of digits is cut from the left into the widest tokens."""
    axis, left, low, high = state
    if not left:
        return {ids.comma: _start(axis + 1, form)} if axis + 1 < len(AXES) else {}
    width = min(ids.width, left)
    unit = 10 ** (left - width)
    return {
        id_: (axis, left - width, max(low - value * unit, 0), min(high - value * unit, unit - 1))
        for value, id_ in enumerate(ids.digits[width - 1])
        if value * unit <= high and (value + 1) * unit > low
    }
