"""In place of a token that lost a molecule, the nearest one that leaves a right place: that the LP `shaped` would have
let come behind the same prefix.

Nearest is by the value of the number that is being written: of a digit the middle of what it leaves (of Qwen's `1` that
of 1 to 2), of a token that ends the number its value as it stands. Tokens are asked in this order, in the narrowest
tolerance in which one is right. No model is asked: how likely the token is, is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import DriftscopeError
from engine.lp.exact import ExactConstraint
from engine.lp.follower import AutomatonRows, Follower
from engine.lp.prefixes import SAME_AXIS, Array, Columns
from engine.lp.shaped import RIGHT, UNKNOWN, WRONG, Candidates, ShapedAnswer, ShapedMolecule, ShapedTokens
from engine.lp.table import live_columns
from engine.lp_records import GUARD_CHECKS
from engine.records import Molecule, NumberFormat
from engine.text.tokenizers import TextTokenizer

AT_ONCE = 16
"""Tokens of an answer that are asked together, the nearest first."""
NOT_EXACT = "the text up to it is not one that exact writes"
NOT_ASKED = "nothing is asked there: its first atom, or one before it is wrong"
IS_RIGHT = "shaped finds a right place behind it"
NO_RIGHT = "shaped finds no token that leaves a right place"


@dataclass(frozen=True, slots=True, eq=False)
class LostToken:
    """``ids`` are the answer's, ``pos`` the token among them after which no right place was left."""

    molecule: Molecule
    ids: Sequence[int]
    pos: int


class RightTokens:
    """Asks for one tokenizer and one form of numbers."""

    def __init__(self, tokenizer: TextTokenizer, form: NumberFormat) -> None:
        self.constraint = ExactConstraint(tokenizer, form, tokenizer.vocab_size)

    def nearest(self, lost: Sequence[LostToken]) -> list[int | str]:
        """Of each the right token, or why there is none."""
        found: dict[int, int | str] = {}
        shapes: dict[int, ShapedMolecule] = {}
        for index, token in enumerate(lost):
            try:
                program = self.constraint.compile(token.molecule)
                shapes[index] = ShapedMolecule(token.molecule.mol, program, self.constraint, GUARD_CHECKS)
            except DriftscopeError as error:
                found[index] = error.what
        if shapes:
            right = self._right([lost[index] for index in shapes], list(shapes.values()))
            found |= zip(shapes, right, strict=True)
        return [found[index] for index in range(len(lost))]

    def _right(self, lost: Sequence[LostToken], shapes: Sequence[ShapedMolecule]) -> list[int | str]:
        columns = live_columns(self.constraint.automaton, [shape.program for shape in shapes])
        rows = AutomatonRows(self.constraint.automaton)
        found: list[int | str] = [NOT_EXACT] * len(lost)
        asked: dict[int, ShapedAnswer] = {}
        is_legal: list[list[bool]] = []
        for index, (token, shape) in enumerate(zip(lost, shapes, strict=True)):
            before = Follower(rows, shape.program)
            before.follow(token.ids[: token.pos])
            if not before.allows(token.ids[token.pos]):
                continue
            found[index] = NOT_ASKED
            answer = ShapedAnswer(shape)
            answer.take(token.ids[len(shape.opening) : token.pos], before.cell, before.node)
            if answer.is_asked:
                asked[index] = answer
                is_legal.append([before.allows(id_) for id_ in columns.tolist()])
        if asked:
            tokens = ShapedTokens(self.constraint, columns)
            candidates = tokens.candidates(list(asked.values()), np.array(is_legal))
            written = np.searchsorted(columns, [lost[index].ids[lost[index].pos] for index in asked])
            for index, column in zip(asked, _nearest_right(tokens, candidates, written), strict=True):
                found[index] = column if isinstance(column, str) else int(columns[column])
        return found


def _nearest_right(tokens: ShapedTokens, candidates: Candidates, wrong: Columns) -> list[int | str]:
    """By answer: a column, or why there is none. ``wrong`` [n] are the columns of what was written."""
    nearest = [_by_distance(tokens, candidates, index, int(column)) for index, column in enumerate(wrong)]
    found: list[int | str] = [NO_RIGHT] * len(wrong)
    waiting = list(range(len(wrong)))
    while waiting:
        unknown = [nearest[index][candidates.status[index, nearest[index]] == UNKNOWN] for index in waiting]
        some = [columns[:AT_ONCE] for columns in unknown]
        of = np.repeat(waiting, [len(columns) for columns in some])
        tokens.ask(candidates, of, np.concatenate(some))
        still = []
        for index in waiting:
            status = candidates.status[index, nearest[index]]
            first = int((status != WRONG).argmax())  # 0 where all are wrong
            if status[0] == RIGHT:
                found[index] = IS_RIGHT  # the written one
            elif status[first] == RIGHT:
                found[index] = int(nearest[index][first])
            elif status[first] == UNKNOWN or tokens.widen(candidates, index):
                still.append(index)
        waiting = still
    return found


def _by_distance(tokens: ShapedTokens, candidates: Candidates, index: int, wrong: int) -> Columns:
    """The legal columns of an answer, by how far their values are from that of the written one, which is the first."""
    columns: Columns = np.flatnonzero(candidates.is_legal[index])
    tokens.see(candidates, np.full_like(columns, index), columns)
    values = _values(candidates, tokens, index, columns)
    off = np.abs(values - values[columns == wrong])
    off[columns == wrong] = -1.0
    return np.asarray(columns[np.argsort(off, kind="stable")], dtype=np.int64)


def _values(candidates: Candidates, tokens: ShapedTokens, index: int, columns: Columns) -> Array:
    """[C] of the axis that is being written, behind each token; 0 where it leaves a sign alone."""
    low, high = candidates.low[index, columns, 0], candidates.high[index, columns, 0]
    node, kinds = candidates.nodes[index], candidates.kinds[index, columns]
    middle = np.where(tokens.leaves.is_blank[node, kinds], 0.0, (low + high) / 2)
    is_going_on = candidates.action[index, columns] == SAME_AXIS
    return np.where(is_going_on, middle, candidates.answers[index].prefix.value)
