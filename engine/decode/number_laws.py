"""What a model believes of each number of a stored text: the law of x, of y behind that x, of z behind both.

A law is over the numbers that ``exact`` allows, at temperature 1, behind the text as it is stored. It is found by
opening the tree of a number's tokens: each beginning is read once, behind the text's own cache, all beginnings of one
level in one pass, and what may follow gets its part of the beginning's mass. Beginnings that leave a wide interval are
opened further until little mass is left in them, the likely ones first. A beginning ``0.1`` leaves 0.1 to 0.2, and
``-0.1`` leaves -0.2 to -0.1: texts are truncated. A number that ends there is counted into the same cell.

Not known: laws behind a token that ``exact`` does not allow, and where in its cell a number is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from engine.decode.body import Body, TokenLayout
from engine.decode.scoring import PlainReader, Stored, check_stored, padded, read_hidden, walk
from engine.decode.steps import Counters
from engine.figures.laws import Array, NumberLaw
from engine.lp.bins import BinNumbers
from engine.lp.constraint import Constraint
from engine.lp.driver import LOST, Tables
from engine.lp.exact import ExactConstraint
from engine.lp.numbers import AXES, Numbers
from engine.lp.prefixes import BinLeaves, Columns
from engine.lp.table import ILLEGAL, NEXT, NO_ID, SYMBOLS, live_columns
from engine.records import BinFormat
from engine.text.tokenizers import number_ids

SHARE = 0.99
"""Of the mass, that is in narrow cells at least."""
DEEPEST = 24
"""Tokens of a number at most, for which the context must have room."""
PLAIN_ROWS = 8
Flags = NDArray[np.bool_]
Laws = dict[int, tuple[NumberLaw, ...]]
"""By block: of x, y and z, fewer where the text ends before."""


class _Decimals:
    """What the tokens of decimals lead to. Cell ``c`` is from ``c`` to ``c + 1`` of the last decimal."""

    before = 1
    """The token behind which y begins ends x: a comma, which may bring y's sign."""

    def __init__(self, constraint: ExactConstraint, columns: Columns, decimals: int) -> None:
        numbers = constraint.numbers
        assert isinstance(numbers, Numbers)
        goto, legal = numbers.automaton.goto, numbers.automaton.legal
        value_of = {id_: value for row in number_ids(constraint.tokenizer).digits for value, id_ in enumerate(row)}
        self.decimals = min(decimals, constraint.form.most_decimals)
        self.values = np.array([value_of.get(id_, 0) for id_ in columns.tolist()])  # [C]
        self.widths = np.array([int(name[0]) if name[0].isdigit() else 0 for name in numbers.kinds])  # [K]
        self.axis = np.array([at.axis for at in numbers.places])  # [Q]
        self._is_negative = np.array([at.negative for at in numbers.places])
        self._written = np.array([at.decimals for at in numbers.places])
        self._goes_on = np.asarray(legal[:, self.widths > 0].any(axis=1))
        self.ends: Flags = numbers.closes | (legal & (self.axis[goto] != self.axis[:, None]))  # [Q, K] the number
        self._goto = goto

    def is_start(self, node: Columns, axis: int) -> Flags:
        return np.asarray(self.axis[node] == axis)

    def lead(self, node: Columns, kind: Columns, digits: Columns, column: Columns) -> tuple[Flags, Columns, Columns]:
        """Of each token whether it leaves one narrow cell, which, and the digits behind it."""
        ends = self.ends[node, kind]
        then = np.where(ends, node, self._goto[node, kind])
        width = self.widths[kind]
        digits = digits * 10**width + np.where(width > 0, self.values[column], 0)
        written = self._written[then]
        is_complete = ends | ((written > 0) & ~self._goes_on[then])
        behind = np.maximum(written, 0) - self.decimals
        size = digits // 10 ** np.maximum(behind, 0) * 10 ** np.maximum(-behind, 0)
        cells = np.where(self._is_negative[then], -size - 1, size)
        return is_complete | (behind >= 0), cells, digits

    def bounds(self, cells: Columns) -> tuple[Array, Array]:
        return cells / 10**self.decimals, (cells + 1) / 10**self.decimals


class _Bins:
    """The same of bins: a cell is a bin."""

    before = 0

    def __init__(self, constraint: ExactConstraint, columns: Columns) -> None:
        """``ConstraintError`` where tokens hold digits of two numbers."""
        numbers, form = constraint.numbers, constraint.form
        assert isinstance(numbers, BinNumbers) and isinstance(form, BinFormat)
        leaves = BinLeaves(numbers, columns.tolist(), form)
        self.values, self.widths, self._rest = leaves.values, leaves.widths, leaves.rest
        self._states = np.array([state[:2] for state in numbers.states])  # [Q, 2] axis, digits to come
        self._digits, self._edges = form.digits, np.array(form.edges)
        self.ends = np.zeros(self._rest.shape, dtype=bool)

    def is_start(self, node: Columns, axis: int) -> Flags:
        return np.asarray((self._states[node] == (axis, self._digits)).all(axis=-1))

    def lead(self, node: Columns, kind: Columns, digits: Columns, column: Columns) -> tuple[Flags, Columns, Columns]:
        digits = digits * 10 ** self.widths[kind] + self.values[column]
        return self._rest[node, kind] == 0, digits, digits

    def bounds(self, cells: Columns) -> tuple[Array, Array]:
        return self._edges[cells - 1], self._edges[cells]


@dataclass(frozen=True, slots=True)
class _Beginning:
    """Of a number, to be opened."""

    law: int
    cell: int  # of the program
    node: int
    digits: int = 0
    mass: float = 1.0
    path: tuple[int, ...] = ()  # its tokens
    fresh: int = 0  # so many of them, the last, were not read yet
    places: tuple[int, ...] = ()  # of the others in the cache


@dataclass(frozen=True, slots=True)
class _Start:
    """Where in which text a law is: before its token ``at`` of the answer."""

    sample: int
    block: int
    axis: int
    at: int
    position: int  # the same in prompt and answer


@dataclass(frozen=True, slots=True)
class _TreeToken:
    """One token of a beginning: its column in the grid of attention, and its places in the cache, its own the last."""

    id_: int
    start: _Start
    column: int
    position: int
    places: tuple[int, ...]


def number_laws(
    reader: Body | PlainReader,
    constraint: Constraint,
    stored: Sequence[Stored],
    *,
    decimals: int = 1,
    share: float = SHARE,
    counters: Counters | None = None,
    between: Callable[[], object] = lambda: None,
) -> list[Laws]:
    """Of each sample, whose program is that of an exact constraint. Cells of decimals are ``10 ** -decimals`` wide."""
    assert isinstance(constraint, ExactConstraint)
    check_stored(reader, constraint, stored, constraint.tokenizer.vocab_size)
    laws: list[Laws] = [{} for _ in stored]
    with torch.inference_mode():
        numbers = _Numbers(constraint, stored, decimals, reader.positions)
        of_reader: Any = _BodyTree if isinstance(reader, Body) else _PlainTree
        tree = of_reader(reader, numbers, counters or Counters(), between)
        for start, law in zip(numbers.starts, numbers.opened(tree, share), strict=True):
            laws[start.sample][start.block] = (*laws[start.sample].get(start.block, ()), law)
    return laws


def allowed_answers(constraint: Constraint, stored: Sequence[Stored]) -> list[tuple[int, ...]]:
    """Of each answer the tokens before the first that the LP does not allow: their blocks are those of the laws."""
    tables = Tables.of(constraint.automaton, [sample.program for sample in stored])
    states = list(walk(tables, padded([sample.answer for sample in stored])))[1:]
    counts = sum((state.cell != LOST).long() for state in states) + torch.zeros(len(stored), dtype=torch.int64)
    return [sample.answer[:count] for sample, count in zip(stored, counts.tolist(), strict=True)]


class _Numbers:
    """All numbers of some texts, opened together."""

    def __init__(self, constraint: ExactConstraint, stored: Sequence[Stored], decimals: int, positions: int) -> None:
        self.stored, self.automaton = stored, constraint.automaton
        self.columns = live_columns(self.automaton, [sample.program for sample in stored])  # [C]
        is_binned = isinstance(constraint.numbers, BinNumbers)
        self.form: _Decimals | _Bins
        self.form = _Bins(constraint, self.columns) if is_binned else _Decimals(constraint, self.columns, decimals)
        self.single = self.automaton.single()
        self.starts: list[_Start] = []
        self.roots: list[_Beginning] = []
        self._find_starts(positions)

    def _find_starts(self, positions: int) -> None:
        """Blocks one after the other, of each x, y and z, as far as the text is one that the LP allows."""
        tables = Tables.of(self.automaton, [sample.program for sample in self.stored])
        states = list(walk(tables, padded([sample.answer for sample in self.stored])))[:-1]
        if not states:
            return
        cells = torch.stack([state.cell for state in states], dim=1).numpy()  # [B, T]
        nodes = torch.stack([state.node for state in states], dim=1).numpy()
        for number, sample in enumerate(self.stored):
            program = sample.program
            at = np.arange(len(sample.answer))
            cell, node = cells[number, at], nodes[number, at]
            at = at[(cell != LOST) & (program.forced[cell] == NO_ID)]
            block = program.block[cell[at]]
            for name in np.unique(block).tolist():
                inside = at[block == name]
                for axis in range(len(AXES)):
                    begin = inside[self.form.is_start(node[inside], axis)][:1] - self.form.before * (axis > 0)
                    if not len(begin) or len(sample.prompt) + begin[0] + DEEPEST > positions:
                        break
                    here = int(begin[0])
                    self.roots.append(_Beginning(len(self.starts), int(cell[here]), int(node[here])))
                    self.starts.append(_Start(number, name, axis, here, len(sample.prompt) + here))

    def opened(self, tree: _BodyTree | _PlainTree, share: float) -> list[NumberLaw]:
        count = len(self.roots)
        rest, found = np.zeros(count), [np.zeros((3, 0))]  # law, cell and mass of what is narrow
        beginnings: Sequence[_Beginning] = self.roots
        is_root = True
        while beginnings:
            scores, beginnings = tree.open(beginnings)  # [n, C]
            index, column, node, kind, p = self._tokens(beginnings, scores, is_root)
            law = np.array([one.law for one in beginnings])[index]
            digits = np.array([one.digits for one in beginnings])[index]
            narrow, cells, behind = self.form.lead(node, kind, digits, column)
            if is_root:  # a token that ends the number before begins this one
                ends = self.form.ends[node, kind]
                narrow, behind = narrow & ~ends, np.where(ends, 0, behind)
            digits = behind
            found.append(np.stack([law[narrow], cells[narrow], p[narrow]]))
            wide = np.flatnonzero(~narrow)
            wide = wide[p[wide] > 0]
            is_worth = _worth_opening(law[wide], p[wide], (1 - share - rest) / 2)
            rest += np.bincount(law[wide[~is_worth]], p[wide[~is_worth]], count)
            beginnings = [
                self._next(beginnings[index[at]], int(column[at]), int(kind[at]), int(digits[at]), float(p[at]))
                for at in wide[is_worth].tolist()
            ]
            is_root = False
        return self._in_cells(np.concatenate(found, axis=1), rest)

    def _tokens(self, beginnings: Sequence[_Beginning], scores: Tensor, is_root: bool) -> tuple[Any, ...]:
        """Of each token that may come [N]: its beginning, column, node, class and mass."""
        node = np.array([one.node for one in beginnings])
        symbols = np.stack(
            [self.stored[self.starts[one.law].sample].program.symbols[one.cell] for one in beginnings]
        )  # [n, 2]
        kinds = np.repeat(self.automaton.classes[self.columns][None].astype(np.int64), len(beginnings), axis=0)
        for number in reversed(range(SYMBOLS)):
            is_symbol = (self.columns == symbols[:, number, None]) & (symbols[:, number, None] != NO_ID)
            kinds[is_symbol] = self.automaton.goto.shape[1] - SYMBOLS + number
        legal = self.automaton.goto[node[:, None], kinds] != ILLEGAL  # [n, C]
        if is_root and self.form.before:  # of y and z: the number before has to end
            is_later = np.array([self.starts[one.law].axis > 0 for one in beginnings])
            legal &= ~is_later[:, None] | self.form.ends[node[:, None], kinds]
        masked = scores.double().masked_fill(~torch.from_numpy(legal).to(scores.device), -torch.inf)
        p = masked.softmax(dim=-1).cpu().numpy() * np.array([one.mass for one in beginnings])[:, None]
        index, column = np.nonzero(legal)
        return index, column, node[index], kinds[index, column], p[index, column]

    def _next(self, one: _Beginning, column: int, kind: int, digits: int, mass: float) -> _Beginning:
        """Behind one more token, and the points that must follow it."""
        goto, move = self.automaton.goto[one.node, kind], self.automaton.move[one.node, kind]
        cell, node, tokens = one.cell + (move == NEXT), int(goto), [int(self.columns[column])]
        while (only := int(self.single[node])) >= 0 and not self.form.widths[self.automaton.classes[only]]:
            if self.form.ends[node, self.automaton.classes[only]]:
                break
            node = int(self.automaton.goto[node, self.automaton.classes[only]])
            tokens.append(only)
        return _Beginning(one.law, cell, node, digits, mass, (*one.path, *tokens), len(tokens), one.places)

    def _in_cells(self, found: Array, rest: Array) -> list[NumberLaw]:
        """Cells of the same law and place together; [3, N] of law, cell and mass."""
        keys, inverse = np.unique(found[:2].astype(np.int64), axis=1, return_inverse=True)
        p = np.bincount(inverse.reshape(-1), found[2], keys.shape[1])
        ends = np.searchsorted(keys[0], np.arange(len(rest) + 1))
        parts = [slice(first, last) for first, last in pairwise(ends)]
        return [
            NumberLaw(*self.form.bounds(keys[1, part]), p[part].astype(np.float64), float(left))
            for part, left in zip(parts, rest, strict=True)
        ]


def _worth_opening(law: Columns, mass: Array, spared: Array) -> Flags:
    """Not the least likely of a law, as long as they are together at most what is ``spared`` of it."""
    order = np.lexsort((mass, law))
    sums = mass[order].cumsum()
    first = np.searchsorted(law[order], law[order])
    is_worth = np.zeros(len(mass), dtype=bool)
    is_worth[order] = sums - (sums - mass[order])[first] > spared[law[order]]
    return is_worth


class _BodyTree:
    """Beginnings are read into the cache behind their text, each token at its own position; a mask has it see the text
    before its number, and what comes before it in its own beginning."""

    def __init__(self, body: Body, numbers: _Numbers, counters: Counters, between: Callable[[], object]) -> None:
        self.body, self.starts, self.counters, self.between = body, numbers.starts, counters, between
        self.head = body.head[torch.from_numpy(numbers.columns).to(body.device)]  # [C, W]
        self.hidden, self.cache = read_hidden(body, numbers.stored, counters, between)
        self.taken = [len(sample.read) for sample in numbers.stored]  # places in the cache
        lengths = np.array([len(sample.answer) for sample in numbers.stored])
        self.first = (lengths.cumsum() - lengths).tolist()

    def open(self, beginnings: Sequence[_Beginning]) -> tuple[Tensor, Sequence[_Beginning]]:
        """The scores [n, C] behind each; and each with its places in the cache."""
        if not beginnings[0].fresh:  # before any token
            at = [self.first[start.sample] + start.at for start in self.starts]
            return functional.linear(self.hidden[at], self.head).float(), beginnings
        self.between()
        tokens, opened, last = list[_TreeToken](), list[_Beginning](), list[int]()
        columns = [0] * len(self.taken)  # of the grid, that are used in each row
        for one in beginnings:
            start, places = self.starts[one.law], one.places
            for number in range(len(one.path) - one.fresh, len(one.path)):
                places = (*places, self.taken[start.sample])
                tokens.append(
                    _TreeToken(one.path[number], start, columns[start.sample], start.position + number, places)
                )
                self.taken[start.sample] += 1
                columns[start.sample] += 1
            opened.append(replace(one, places=places))
            last.append(len(tokens) - 1)
        hidden = self._read(tokens, max(columns))
        return functional.linear(hidden[last], self.head).float(), opened

    def _read(self, tokens: Sequence[_TreeToken], width: int) -> Tensor:
        """Hidden states [N, W]."""
        length, device = max(self.taken), self.body.device
        mask = np.zeros((len(self.taken), 1, width, length), dtype=bool)
        mask[:, :, :, 0] = True  # of padding too
        for token in tokens:
            sees = mask[token.start.sample, 0, token.column]
            sees[: token.start.position] = True
            sees[list(token.places)] = True
        numbers = [(token.id_, token.start.sample, token.column, token.position, token.places[-1]) for token in tokens]
        ids, rows, columns, positions, places = torch.tensor(numbers, device=device).unbind(dim=1)
        self.cache.grow(length)
        grid, slots = (len(self.taken), width), rows * width + columns
        layout = TokenLayout(rows, positions, grid, length, torch.from_numpy(mask).to(device), slots, None, places)
        self.counters.forward_passes += 1
        return self.body(ids, layout, self.cache)


@dataclass(frozen=True, slots=True, eq=False)
class _PlainTree:
    """The same with any model of transformers, which reads each beginning with the whole text before it."""

    reader: PlainReader
    numbers: _Numbers
    counters: Counters
    between: Callable[[], object]

    def open(self, beginnings: Sequence[_Beginning]) -> tuple[Tensor, Sequence[_Beginning]]:
        scores = []
        for first in range(0, len(beginnings), PLAIN_ROWS):
            self.between()
            rows = [self._ids(one) for one in beginnings[first : first + PLAIN_ROWS]]
            ids = pad_sequence(rows, batch_first=True).to(self.reader.device)
            last = torch.tensor([len(row) - 1 for row in rows], device=ids.device)
            is_read = torch.arange(ids.shape[1], device=ids.device) <= last[:, None]
            model: Any = self.reader.model
            # scores of a whole vocabulary: from the shortest row's end alone, where the model can
            keep = ids.shape[1] - int(last.min()) if self.reader.can_keep_few else ids.shape[1]
            few = {"logits_to_keep": keep} if self.reader.can_keep_few else {}
            logits = model(input_ids=ids, attention_mask=is_read.long(), use_cache=False, **few).logits
            at_end = logits[torch.arange(len(rows), device=ids.device), last - ids.shape[1] + keep]
            scores.append(at_end[:, self.numbers.columns.tolist()].float())
            self.counters.forward_passes += 1
        return torch.cat(scores), beginnings

    def _ids(self, one: _Beginning) -> Tensor:
        start = self.numbers.starts[one.law]
        return torch.tensor((*self.numbers.stored[start.sample].read[: start.position], *one.path), dtype=torch.int64)
