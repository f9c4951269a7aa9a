"""A program asked whether its tokens are the tokenizer's own: a random text that it allows is tokenised again.

The exact LP tokenises segments and numbers apart. That is right for tokenizers whose digits share no token with
anything else; of one that is not known, one text of each molecule shows it before any is written.
"""

from __future__ import annotations

import random

import numpy as np

from engine.errors import ConstraintError, shown
from engine.lp.table import DEAD, ILLEGAL, JUMP, KEEP, NO_ID, STAY, SYMBOLS, Automaton, Program
from engine.text.tokenizers import TextTokenizer


def check_canonical(tokenizer: TextTokenizer, automaton: Automaton, program: Program, smiles: str) -> None:
    ids = random_ids(automaton, program, random.Random(smiles))[:-1]  # without the end
    text = tokenizer.decode(ids)
    again = tokenizer.encode(text)
    if again != ids:
        at = next((at for at, pair in enumerate(zip(ids, again, strict=False)) if pair[0] != pair[1]), len(again))
        written, own = (tokenizer.decode(each[max(0, at - 2) : at + 3]) for each in (ids, again))
        raise ConstraintError(
            f"the tokenizer {tokenizer.name} cuts {shown(written)} otherwise in a whole text ({shown(own)}), so "
            f"{shown(smiles)} has no exact form",
            "Use another LP",
        )


def random_ids(automaton: Automaton, program: Program, draw: random.Random) -> list[int]:
    """A text that the program allows, each kind of token as likely as any other, up to the end token."""
    members = [np.flatnonzero(automaton.classes == kind) for kind in range(automaton.goto.shape[1] - SYMBOLS)]
    cell = 0
    node = max(0, int(program.entry[0]))
    ids = list[int]()
    while True:
        forced = int(program.forced[cell])
        if forced != NO_ID:
            ids.append(forced)
            if cell == len(program) - 1:
                return ids
            target, is_same_cell = cell + 1, False
            after = node
        else:
            kind, id_ = draw.choice(_choices(automaton, program, cell, node, members, draw))
            ids.append(id_)
            move, after = int(automaton.move[node, kind]), int(automaton.goto[node, kind])
            target = int(program.jump[cell]) if move == JUMP else cell + move
            is_same_cell = move == STAY
        entry = int(program.entry[target])
        cell = target
        node = after if is_same_cell or entry == KEEP else entry


def _choices(
    automaton: Automaton, program: Program, cell: int, node: int, members: list[np.ndarray], draw: random.Random
) -> list[tuple[int, int]]:
    """Each class that is legal, with one of its tokens."""
    legal = [int(kind) for kind in np.flatnonzero(automaton.goto[node] != ILLEGAL) if kind != DEAD]
    choices = []
    for kind in legal:
        if kind >= len(members):
            symbol = int(program.symbols[cell][kind - len(members)])
            choices += [(kind, symbol)] if symbol != NO_ID else []
        elif len(members[kind]):
            choices.append((kind, int(draw.choice(members[kind]))))
    return choices
