"""What a prefix of a block's numbers leaves: for each token that may come, the values that the axis may then have.

``-1.2`` leaves -1.3 to -1.2, but of Qwen's ``1`` are left 1 to 2, 10 to 20 and 100 to 200, since its digits come one by
one; of LLaMA's only 1 to 2, whose one-digit token ends a run. So it depends on the automaton's node. A number of bins
leaves the one value that it means; its first digits leave the stretch from the first of their bins to the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConstraintError
from engine.lp.bins import BinNumbers
from engine.lp.numbers import AXES, At, Numbers
from engine.lp.table import ILLEGAL
from engine.records import BinFormat, NumberFormat
from engine.text.tokenizers import NumberIds

Array = NDArray[np.float64]
Columns = NDArray[np.int64]

SAME_AXIS, NEXT_AXIS, CLOSES = 0, 1, 2
"""What a token does: it goes on with the axis, ends it, or ends the block."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A block as far as it is written."""

    known: tuple[float, ...] = ()  # the axes that are complete
    is_inside: bool = False  # behind the ``<`` and before the ``>``
    negative: bool = False
    digits: int = 0  # of the next axis, all that are written, as one number
    decimals: int = -1  # -1 before the point
    closed: tuple[float, ...] | None = None  # the block that ended in the token that was read last

    def read(self, text: str) -> Prefix:
        """Behind one more token, which may hold the end of a block and the start of the next one."""
        prefix = self if self.closed is None else replace(self, closed=None)
        for char in text:
            if char == "<":
                prefix = Prefix(is_inside=True, closed=prefix.closed)
            elif not prefix.is_inside:
                continue
            elif char.isdigit():
                decimals = prefix.decimals + (prefix.decimals >= 0)
                prefix = replace(prefix, digits=prefix.digits * 10 + int(char), decimals=decimals)
            elif char == ".":
                prefix = replace(prefix, decimals=0)
            elif char == "-":
                prefix = replace(prefix, negative=True)
            elif char == ",":
                prefix = Prefix((*prefix.known, prefix.value), is_inside=True)
            elif char == ">":
                block = (*prefix.known, prefix.value)
                prefix = Prefix(closed=block if len(block) == len(AXES) else None)  # not of `<|endoftext|>`
        return prefix

    @property
    def is_blank(self) -> bool:
        """Nothing is written of the block's numbers."""
        return not self.known and not self.digits and not self.negative and self.decimals < 0

    @property
    def value(self) -> float:
        """Of the axis as it is written so far."""
        size = float(f"{self.digits}e-{max(self.decimals, 0)}")
        return -size if self.negative else size


@dataclass(frozen=True, slots=True)
class BinPrefix:
    """A block of bins as far as it is written."""

    form: BinFormat
    known: tuple[float, ...] = ()  # the axes that are complete
    is_inside: bool = False
    written: str = ""  # digits of the next axis
    closed: tuple[float, ...] | None = None

    def read(self, text: str) -> BinPrefix:
        """Behind one more token. Bare digits follow a descriptor; those behind the block are of rings and isotopes."""
        prefix = replace(self, closed=None)
        opening = self.form.opening or "]"
        for char in text:
            if char == opening:
                prefix = BinPrefix(self.form, is_inside=True, closed=prefix.closed)
            elif char == self.form.closing and prefix.is_inside:
                prefix = BinPrefix(self.form, closed=prefix.known if len(prefix.known) == len(AXES) else None)
            elif char == "[":
                prefix = replace(prefix, is_inside=False)
            elif prefix.is_inside and char.isdigit() and len(prefix.known) < len(AXES):
                prefix = prefix._with_digit(char)
        return prefix

    def _with_digit(self, digit: str) -> BinPrefix:
        written = self.written + digit
        if len(written) < self.form.digits:
            return replace(self, written=written)
        value = self.form.value_ang(written)
        return replace(self, written="", known=(*self.known, math.nan if value is None else value))

    @property
    def digits(self) -> int:
        return int(self.written or "0")

    @property
    def is_blank(self) -> bool:
        return not self.known and not self.written

    @property
    def value(self) -> float:
        """An axis that is complete is among the known ones: the next one has none yet."""
        return math.nan


def first_prefix(form: NumberFormat) -> Prefix | BinPrefix:
    """Before a text of this form, or before its first number where a token opens the block."""
    return BinPrefix(form) if isinstance(form, BinFormat) else Prefix()


class BinLeaves:
    """As ``Leaves``, of bins: a number is complete with its last digit, and that of z ends the block."""

    merged_ang = 0.0  # each value is asked alone: what is right near it says nothing of a number that is not written

    def __init__(self, numbers: BinNumbers, columns: Sequence[int], form: BinFormat) -> None:
        """``ConstraintError`` where tokens hold digits of more than one number."""
        left = np.array([state[1] for state in numbers.states], dtype=np.int64)  # [Q]
        self.values = np.array([numbers.values.get(id_, 0) for id_ in columns], dtype=np.int64)  # [C]
        widths = np.zeros(numbers.automaton.goto.shape[1], dtype=np.int64)  # [K] digits of a class
        for id_, width in numbers.widths.items():
            widths[numbers.automaton.classes[id_]] = width
        is_legal = numbers.automaton.legal  # [Q, K]
        self.rest = left[:, None] - widths  # [Q, K] digits of the number that are to come behind a token
        if (is_legal & (widths > 0) & (self.rest < 0)).any():
            problem = f"tokens hold digits of several numbers of {form.digits} digits"
            raise ConstraintError(f"the LP shaped is not for these bins: {problem}", "Use the LP exact")
        self.widths = widths
        axis = np.array([state[0] for state in numbers.states])
        ends_number = is_legal & (widths > 0) & (self.rest == 0)
        self.action = np.full(is_legal.shape, SAME_AXIS, dtype=np.int8)
        self.ends_block = ends_number & (axis == len(AXES) - 1)[:, None]  # [Q, K]
        self.is_blank = np.zeros(is_legal.shape, dtype=bool)
        self.powers = np.ones(1)  # one stretch a token
        middles = [form.value_ang(f"{number:0{form.digits}d}") for number in range(1, form.bins + 1)]
        self._middles = np.array([np.nan, *middles], dtype=np.float64)  # by number
        self.range_ang = (form.low_ang, form.high_ang)

    def of(
        self, nodes: Columns | int, kinds: Columns, digits: Columns | int, columns: Columns | None = None
    ) -> tuple[Array, Array]:
        """As of ``Leaves``: the first and the last value [P, 1] that tokens leave."""
        unit = 10 ** np.maximum(self.rest[nodes, kinds], 0)
        first = self.digits_behind(nodes, kinds, digits, columns) * unit
        last = len(self._middles) - 1
        low, high = np.clip(first, 1, last), np.clip(first + unit - 1, 1, last)
        return self._middles[low][:, None], self._middles[high][:, None]

    def digits_behind(
        self, nodes: Columns | int, kinds: Columns, digits: Columns | int, columns: Columns | None = None
    ) -> Columns:
        """[P] of the number, behind each of the tokens."""
        values = self.values if columns is None else self.values[columns]
        return np.asarray(digits * 10 ** self.widths[kinds] + values)


class Leaves:
    """By node and column what a token leaves. A column is an id that may be drawn; which class it has may differ from
    cell to cell (symbols), so it is given with each question."""

    merged_ang = 0.2
    """Tokens whose values lie so near to each other are asked as one box."""
    range_ang = (-math.inf, math.inf)

    def __init__(self, numbers: Numbers, ids: NumberIds, columns: Sequence[int], form: NumberFormat) -> None:
        self.unit = 10.0**-form.most_decimals
        self.most = 10.0**form.most_integer_digits - self.unit
        value_of = {id_: value for row in ids.digits for value, id_ in enumerate(row)}
        self.values = np.array([value_of.get(id_, 0) for id_ in columns], dtype=np.float64)  # [C] of digits
        goto = numbers.automaton.goto
        self.action = np.zeros(goto.shape, dtype=np.int8)  # [Q, K] SAME_AXIS, NEXT_AXIS or CLOSES
        self.is_negative = np.zeros(goto.shape, dtype=bool)
        self.ends_block = np.zeros(goto.shape, dtype=bool)  # a token closes it, and no last digit
        self.is_blank = np.zeros(goto.shape, dtype=bool)  # no digit of the axis is known then
        self.may_sign = np.zeros(goto.shape, dtype=bool)  # nor its sign
        self.scale = np.ones(goto.shape)  # by which the digits so far are multiplied
        self.place = np.ones(goto.shape)  # what the last digit stands for
        self.span = np.full((*goto.shape, form.most_integer_digits), np.nan)  # behind the lower end, by further digits
        self.powers = 10.0 ** np.arange(form.most_integer_digits)
        for node, kind in np.argwhere(goto != ILLEGAL).tolist():
            if numbers.closes[node, kind]:
                self.action[node, kind] = CLOSES
            else:
                then = numbers.places[goto[node, kind]]
                self.action[node, kind] = NEXT_AXIS if then.axis != numbers.places[node].axis else SAME_AXIS
                self._leave(node, kind, then, numbers.kinds[kind], form)

    def _leave(self, node: int, kind: int, then: At, name: str, form: NumberFormat) -> None:
        self.is_negative[node, kind] = then.negative
        self.is_blank[node, kind] = then.integer == 0
        self.may_sign[node, kind] = then.may_sign
        if name[0].isdigit():
            self.scale[node, kind] = 10.0 ** int(name[0])
        if then.decimals >= 0:
            goes_on = then.is_open and then.decimals < form.most_decimals
            self.place[node, kind] = 10.0**-then.decimals
            self.span[node, kind, 0] = 10.0**-then.decimals - self.unit if goes_on else 0.0
        elif then.integer:
            further = np.arange(form.most_integer_digits - then.integer + 1 if then.is_open else 1)
            self.span[node, kind, further] = 10.0**further - self.unit

    def of(
        self, nodes: Columns | int, kinds: Columns, digits: Columns | int, columns: Columns | None = None
    ) -> tuple[Array, Array]:
        """Lower and upper ends [P, N] of the intervals that tokens leave, NaN for none. Of a token that ends its axis
        they are those of the next one. ``nodes``: where the tokens come; ``kinds`` [P]: their classes; ``digits``: of
        the prefix; ``columns`` [P]: which tokens they are, all in their order where none are given."""
        span = self.span[nodes, kinds]
        value = self.digits_behind(nodes, kinds, digits, columns)
        low = (value * self.place[nodes, kinds])[:, None] * self.powers
        low[np.isnan(span)] = np.nan
        low[value == 0, 1:] = np.nan  # no zero leads
        high = low + span
        is_blank = self.is_blank[nodes, kinds]
        low[is_blank, 0] = np.where(self.may_sign[nodes, kinds], -self.most, 0.0)[is_blank]
        high[is_blank, 0] = self.most
        is_negative = self.is_negative[nodes, kinds][:, None]
        return np.where(is_negative, -high, low), np.where(is_negative, -np.maximum(low, self.unit), high)

    def digits_behind(
        self, nodes: Columns | int, kinds: Columns, digits: Columns | int, columns: Columns | None = None
    ) -> Array:
        """[P] of the axis, behind each of the tokens."""
        values = self.values if columns is None else self.values[columns]
        scale = self.scale[nodes, kinds]
        return np.where(scale > 1, digits * scale + values, digits)
