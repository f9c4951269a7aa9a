"""The number automaton of the exact LP: three numbers of a block, as one tokenizer writes them, and nothing else.

It admits a triple if and only if every number fits the format (no leading zeros, least to most decimals, no ``-0.0``)
and the ids are the tokenizer's own for the text. Digit runs are cut from the left into the widest tokens, so a token
narrower than that ends its run. Nodes from which no number can be finished are left out: there is no dead end.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConstraintError
from engine.lp.table import DEAD, ILLEGAL, NEXT, STAY, Automaton
from engine.records import CodeFormat, NumberFormat
from engine.text.tokenizers import NumberIds

CLOSE, SIGN = "close", "sign"
"""The symbols: the token that closes this block; the token that makes its x, or any axis of it, negative."""
POINT, COMMA, COMMA_MINUS = "point", "comma", "comma_minus"
AXES = "xyz"
BRANCH = "branch"


def check_has_laws(form: NumberFormat) -> None:
    if isinstance(form, CodeFormat):
        raise ConstraintError("codes are no numbers, and have no laws of x, y and z", "Ask of decimals or bins")


@dataclass(frozen=True, slots=True)
class Digits:
    """A class of digit tokens: those of one width that are all zeros, begin with a zero, or do not."""

    width: int
    lead: str  # zero, padded, plain

    @property
    def name(self) -> str:
        return f"{self.width} {self.lead}"


@dataclass(frozen=True, slots=True)
class At:
    """A place inside a block."""

    axis: int = 0
    may_sign: bool = False  # an x with an open sign, or any axis where a comma and a minus are two tokens
    negative: bool = False
    integer: int = 0  # digits so far
    decimals: int = -1  # -1 before the point
    is_zero: bool = True  # all digits so far are zeros
    is_open: bool = True  # the run may go on: all its tokens had the widest width
    after_branch: str = ""  # the cell before x, where the sign changes the token: "here"; else ""


Edges = dict[At, dict[str, At | None]]


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """The automaton of a tokenizer and a format, and what its nodes are."""

    automaton: Automaton
    starts: dict[str, int]  # by name the nodes at which a block begins
    places: tuple[At, ...]  # [Q]
    kinds: tuple[str, ...]  # [K] names of the classes
    closes: NDArray[np.bool_]  # [Q, K] whether the block ends there


@functools.lru_cache(maxsize=8)
def number_automaton(ids: NumberIds, form: NumberFormat, vocab_rows: int) -> Numbers:
    kinds = [Digits(width, lead) for width in range(1, ids.width + 1) for lead in ("zero", "padded", "plain")]
    kinds.remove(Digits(1, "padded"))  # one digit is a zero or is not
    names = ("dead", *(kind.name for kind in kinds), POINT, COMMA, COMMA_MINUS, CLOSE, SIGN)
    starts = {
        "x": At(may_sign=True),
        "x unsigned": At(),
        "x negative": At(negative=True),
        BRANCH: At(after_branch="here"),
    }
    edges = _reachable(starts.values(), kinds, form, ids)
    alive = _alive(edges)
    numbered = {at: number for number, at in enumerate(at for at in edges if at in alive)}
    goto, move = _transitions(numbered, edges, names)
    rules = tuple(_rule(at, form) for at in numbered)
    automaton = Automaton(_classes(ids, names, vocab_rows), goto, move, rules)
    closes = np.array([[edges[at].get(name, at) is None for name in names] for at in numbered])
    return Numbers(automaton, {name: numbered[at] for name, at in starts.items()}, tuple(numbered), names, closes)


def _classes(ids: NumberIds, names: Sequence[str], vocab_rows: int) -> NDArray[np.int16]:
    """The class of each row of the vocabulary, by its place in ``names``: [rows]."""
    classes = np.full(vocab_rows, DEAD, dtype=np.int16)
    for width, row in enumerate(ids.digits, start=1):
        for value, id_ in enumerate(row):
            classes[id_] = names.index(Digits(width, _lead(value, width)).name)
    for name in (POINT, COMMA, COMMA_MINUS):
        if (id_ := getattr(ids, name)) is not None:
            classes[id_] = names.index(name)
    return classes


def _transitions(
    numbered: dict[At, int], edges: Edges, names: Sequence[str]
) -> tuple[NDArray[np.int16], NDArray[np.int8]]:
    """The next node, and the move of the cell: [nodes, classes]. None as a target ends the block."""
    goto = np.full((len(numbered), len(names)), ILLEGAL, dtype=np.int16)
    move = np.zeros(goto.shape, dtype=np.int8)
    for at, number in numbered.items():
        for name, target in edges[at].items():
            if target is None or target in numbered:
                goto[number, names.index(name)] = 0 if target is None else numbered[target]
                move[number, names.index(name)] = NEXT if target is None or at.after_branch else STAY
    return goto, move


def _lead(value: int, width: int) -> str:
    if value == 0:
        return "zero"
    return "plain" if value >= 10 ** (width - 1) else "padded"


def _reachable(starts: Iterable[At], kinds: list[Digits], form: NumberFormat, ids: NumberIds) -> Edges:
    """All places, and by class where each leads; None is behind the block."""
    edges: Edges = {}
    queue = list(starts)
    for at in queue:  # it grows
        edges[at] = dict(_steps(at, kinds, form, ids))
        queue += [target for target in dict.fromkeys(edges[at].values()) if target and target not in queue]
    return edges


def _alive(edges: Edges) -> set[At | None]:
    """Places from which the block can be closed."""
    alive: set[At | None] = {None}
    count = 0
    while len(alive) > count:
        count = len(alive)
        alive |= {at for at, targets in edges.items() if not alive.isdisjoint(targets.values())}
    return alive


def _steps(at: At, kinds: list[Digits], form: NumberFormat, ids: NumberIds) -> Iterator[tuple[str, At | None]]:
    if at.after_branch:
        yield CLOSE, At()
        yield SIGN, At(negative=True)
        return
    if at.may_sign:
        yield SIGN, At(negative=True)
    for kind in kinds:
        target = _after_digits(at, kind, form, ids.width)
        if target is not None:
            yield kind.name, target
    if at.decimals < 0 and at.integer:
        yield POINT, replace(at, decimals=0, is_open=True)
    is_complete = at.integer > 0 and at.decimals != 0 and max(at.decimals, 0) >= form.least_decimals
    if is_complete and not (at.negative and at.is_zero):
        if at.axis == len(AXES) - 1:
            yield CLOSE, None
        else:
            yield COMMA, At(at.axis + 1, may_sign=ids.comma_minus is None)
            if ids.comma_minus is not None:
                yield COMMA_MINUS, At(at.axis + 1, negative=True)


def _after_digits(at: At, kind: Digits, form: NumberFormat, width: int) -> At | None:
    if not at.is_open:
        return None
    is_zero = at.is_zero and kind.lead == "zero"
    if at.decimals >= 0:
        decimals = at.decimals + kind.width
        if decimals > form.most_decimals:
            return None
        return replace(at, decimals=decimals, is_zero=is_zero, is_open=kind.width == width)
    integer = at.integer + kind.width
    if at.integer == 0 and kind.lead != "plain":
        # A leading zero is alone, and nothing follows it but the point.
        return At(at.axis, False, at.negative, 1, is_open=False) if (kind.width, kind.lead) == (1, "zero") else None
    if integer > form.most_integer_digits:
        return None
    return At(at.axis, False, at.negative, integer, is_zero=False, is_open=kind.width == width)


def _rule(at: At, form: NumberFormat) -> str:
    """What the node allows, in words."""
    axis = AXES[at.axis]
    if at.after_branch:
        return "open the block, with or without a minus sign"
    if at.decimals >= 0:
        return f"{axis}: {at.decimals} of {form.least_decimals} to {form.most_decimals} decimals"
    if at.integer:
        return f"{axis}: {at.integer} of at most {form.most_integer_digits} integer digits"
    sign = "a sign or " if at.may_sign else ""
    return f"{axis}: {sign}the first integer digit{' of a negative number' if at.negative else ''}"
