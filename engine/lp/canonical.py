"""A program asked whether its tokens are the tokenizer's own: a random text that it allows is tokenised again.

The exact LP tokenises segments and numbers apart. That is right for tokenizers whose digits share no token with
anything else; of one that is not known, one text of each molecule shows it before any is written.
"""

from __future__ import annotations

import random

import numpy as np

from engine.errors import ConstraintError, shown
from engine.lp.follower import AutomatonRows, Follower
from engine.lp.table import NO_ID, SYMBOLS, Automaton, Program
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
    follower = Follower(AutomatonRows(automaton), program)
    ids = list[int]()
    while follower.cell < len(program) - 1:
        id_ = follower.forced_id
        if id_ == NO_ID:
            kinds = np.flatnonzero(automaton.legal[follower.node, :-SYMBOLS])
            of_kinds = [int(draw.choice(members[kind])) for kind in kinds if len(members[kind])]
            id_ = draw.choice([*of_kinds, *follower.symbols])
        follower.follow((id_,))
        ids.append(id_)
    return [*ids, int(program.forced[-1])]
