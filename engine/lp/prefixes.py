"""What a prefix of a block's numbers leaves: for each token that may come, the values that the axis may then have.

``-1.2`` leaves -1.3 to -1.2, but of Qwen's ``1`` are left 1 to 2, 10 to 20 and 100 to 200, since its digits come one by
one; of LLaMA's only 1 to 2, whose one-digit token ends a run. So it depends on the automaton's node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.lp.numbers import At, Numbers
from engine.lp.table import ILLEGAL
from engine.records import NumberFormat
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

    def read(self, text: str) -> Prefix:
        """Behind one more token, which may hold the end of a block and the start of the next one."""
        prefix = self
        for char in text:
            if char == "<":
                prefix = Prefix(is_inside=True)
            elif not prefix.is_inside:
                continue
            elif char.isdigit():
                decimals = prefix.decimals + (prefix.decimals >= 0)
                prefix = replace(prefix, digits=prefix.digits * 10 + int(char), decimals=decimals)
            elif char == ".":
                prefix = replace(prefix, decimals=0)
            elif char == "-":
                prefix = replace(prefix, negative=True)
            elif char in ",>":
                prefix = Prefix((*prefix.known, prefix.value), is_inside=char == ",")
        return prefix

    @property
    def value(self) -> float:
        """Of the axis as it is written so far."""
        size = float(f"{self.digits}e-{max(self.decimals, 0)}")
        return -size if self.negative else size


class Leaves:
    """By node and column what a token leaves. A column is an id that may be drawn; which class it has may differ from
    cell to cell (symbols), so it is given with each question."""

    def __init__(self, numbers: Numbers, ids: NumberIds, columns: Sequence[int], form: NumberFormat) -> None:
        self.unit = 10.0**-form.most_decimals
        self.most = 10.0**form.most_integer_digits - self.unit
        value_of = {id_: value for row in ids.digits for value, id_ in enumerate(row)}
        self.values = np.array([value_of.get(id_, 0) for id_ in columns], dtype=np.float64)  # [C] of digits
        goto = numbers.automaton.goto
        self.action = np.zeros(goto.shape, dtype=np.int8)  # [Q, K] SAME_AXIS, NEXT_AXIS or CLOSES
        self.is_negative = np.zeros(goto.shape, dtype=bool)
        self.is_blank = np.zeros(goto.shape, dtype=bool)  # no digit of the axis is known then
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
        values = self.values if columns is None else self.values[columns]
        scale, span = self.scale[nodes, kinds], self.span[nodes, kinds]
        value = np.where(scale > 1, digits * scale + values, digits)
        low = (value * self.place[nodes, kinds])[:, None] * self.powers
        low[np.isnan(span)] = np.nan
        low[value == 0, 1:] = np.nan  # no zero leads
        high = low + span
        is_blank = self.is_blank[nodes, kinds]
        low[is_blank, 0], high[is_blank, 0] = 0.0, self.most
        is_negative = self.is_negative[nodes, kinds][:, None]
        return np.where(is_negative, -high, low), np.where(is_negative, -np.maximum(low, self.unit), high)
