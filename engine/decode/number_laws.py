"""What a model believes of each number of a stored text: the law of x, of y behind that x, of z behind both.

A law is over the numbers that ``exact`` allows, at temperature 1, behind the text as it is stored. It is found by
opening the tree of a number's tokens: each beginning is read behind the text's own cache, all beginnings of one level
together, and what may follow gets its part of the beginning's mass. Beginnings that leave a wide interval are opened
further until little mass is left in them, the likely ones first. A beginning ``0.1`` leaves 0.1 to 0.2, and ``-0.1``
leaves -0.2 to -0.1: texts are truncated. A number that ends there is counted into the same cell.

Not known: laws behind a token that ``exact`` does not allow, and where in its cell a number is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from engine.decode.body import Body, TokenLayout
from engine.decode.scoring import PlainReader, Stored, check_stored, read_hidden
from engine.decode.steps import Counters
from engine.figures.laws import Array, NumberLaw
from engine.lp.constraint import Constraint
from engine.lp.exact import ExactConstraint
from engine.lp.follower import AutomatonRows, Follower
from engine.lp.numbers import AXES, Numbers, check_has_laws
from engine.lp.prefixes import SAME_AXIS, Columns, first_prefix
from engine.lp.shaped import leaves_of
from engine.lp.table import ILLEGAL, NEXT, NO_ID, SYMBOLS, Automaton, live_columns
from engine.records import BinFormat

SHARE = 0.99
"""Of the mass, that is in narrow cells at least."""
DEEPEST = 24
"""Tokens of a number at most, for which the context must have room."""
AT_ONCE = 1024
"""Beginnings that are read in one pass: each sees all tokens of the pass, so it takes memory by their square."""
Between = Callable[[], object]


@dataclass(frozen=True, slots=True)
class BlockLaws:
    """Of one atom's block: its numbers, and the laws of x, y and z."""

    block: int
    written: tuple[float, ...]
    laws: tuple[NumberLaw, ...]


@dataclass(frozen=True, slots=True)
class _Start:
    """Before the first token of a number."""

    sample: int
    at: int  # in the answer
    position: int  # in prompt and answer
    cell: int
    node: int
    ends_one: bool = False  # its first token ends the number before it


@dataclass(frozen=True, slots=True)
class _Beginning:
    """Of a number, to be opened."""

    law: int
    cell: int
    node: int
    digits: int = 0
    written: float = 0.0  # what its digits are so far
    mass: float = 1.0
    path: tuple[int, ...] = ()  # its tokens

    def behind(self, automaton: Automaton, kind: int, digits: int, written: float, mass: float, id_: int) -> _Beginning:
        """With one more token, of this class."""
        cell = self.cell + int(automaton.move[self.node, kind] == NEXT)
        node = int(automaton.goto[self.node, kind])
        path = (*self.path, int(id_))
        return _Beginning(self.law, cell, node, int(digits), float(written), float(mass), path)


def number_laws(
    reader: Body | PlainReader,
    constraint: Constraint,
    stored: Sequence[Stored],
    *,
    decimals: int = 1,
    between: Between = lambda: None,
) -> list[list[BlockLaws]]:
    """Of each sample, whose program is that of an exact constraint, its whole blocks before the first token that
    ``exact`` does not allow. Cells of decimals are ``10 ** -decimals`` wide, of bins a bin."""
    assert isinstance(constraint, ExactConstraint)
    check_has_laws(constraint.form)
    check_stored(reader, constraint, stored, constraint.tokenizer.vocab_size)
    rows, starts = AutomatonRows(constraint.automaton), list[_Start]()
    blocks = [list(_blocks(constraint, rows, index, sample, reader.positions)) for index, sample in enumerate(stored)]
    for _, of_block in (block for of_sample in blocks for block in of_sample):
        starts += of_block
    with torch.inference_mode():
        laws = iter(_Numbers(reader, constraint, stored, starts, decimals, between).laws() if starts else ())
    return [
        [BlockLaws(block, written, tuple(next(laws) for _ in AXES)) for block, (written, _) in enumerate(of_sample)]
        for of_sample in blocks
    ]


def _blocks(
    constraint: ExactConstraint, rows: AutomatonRows, index: int, sample: Stored, positions: int
) -> Iterator[tuple[tuple[float, ...], list[_Start]]]:
    """Of each block that is whole the numbers, and where each of them begins."""
    numbers, program, prompt = constraint.numbers, sample.program, len(sample.prompt)
    is_decimal = isinstance(numbers, Numbers)
    axes = [at.axis for at in numbers.places] if isinstance(numbers, Numbers) else [at[0] for at in numbers.states]
    follower, prefix = Follower(rows, program), first_prefix(constraint.form)
    starts: dict[int, _Start] = {}  # of the block that is open, by axis
    before: _Start | None = None
    for at, id_ in enumerate(sample.answer):
        cell, axis = follower.cell, axes[follower.node]
        here = begins = _Start(index, at, prompt + at, cell, follower.node)
        if is_decimal and axis and before is not None:
            begins = replace(before, ends_one=True)  # the comma, which may bring a sign
        if program.forced[cell] == NO_ID:
            starts.setdefault(axis, begins)
        before = here
        if follower.follow((id_,)) == 0 or here.position + DEEPEST > positions:
            return
        prefix = prefix.read(constraint.tokenizer.raw(id_).decode("utf-8", "replace"))
        if prefix.closed is not None:
            yield prefix.closed, list(starts.values())
            starts = {}


class _Numbers:
    """All numbers of some texts, opened together."""

    def __init__(
        self,
        reader: Body | PlainReader,
        constraint: ExactConstraint,
        stored: Sequence[Stored],
        starts: Sequence[_Start],
        decimals: int,
        between: Between,
    ) -> None:
        self.reader, self.stored, self.starts, self.between = reader, stored, starts, between
        self.automaton = constraint.automaton
        self.columns = live_columns(self.automaton, [sample.program for sample in stored])  # [C]
        self.symbols = np.stack([stored[start.sample].program.symbols[start.cell] for start in starts])
        self.leaves = leaves_of(constraint, self.columns.tolist())
        self.edges, self.width, self.half_unit = np.zeros(0), 1e-9, 0.0
        if isinstance(constraint.form, BinFormat):
            self.edges = np.array(constraint.form.edges)
        else:
            self.width = 10.0 ** -min(decimals, constraint.form.most_decimals)
            self.half_unit = 10.0**-constraint.form.most_decimals / 2
        if isinstance(reader, Body):
            self.hidden, self.cache = read_hidden(reader, stored, Counters(), between)
            self.taken = [len(sample.read) for sample in stored]  # of the cache, by text
            self.places: dict[tuple[int, tuple[int, ...]], int] = {}  # of the last tokens of beginnings
            self.head = reader.head[torch.from_numpy(self.columns).to(reader.device)]  # [C, W]

    def laws(self) -> list[NumberLaw]:
        count = len(self.starts)
        rest, found = np.zeros(count), [np.zeros((3, 0))]  # law, cell and mass of what is narrow
        beginnings = [_Beginning(law, start.cell, start.node) for law, start in enumerate(self.starts)]
        is_root = True
        while beginnings:
            index, column, kind, p = self._tokens(beginnings, is_root)
            law, node, digits, written = (
                np.array([getattr(one, name) for one in beginnings])[index]
                for name in ("law", "node", "digits", "written")
            )
            low, high = (ends[:, 0] for ends in self.leaves.of(node, kind, digits, column))
            ends = (self.leaves.action[node, kind] != SAME_AXIS) & (not is_root)
            narrow = ends | (high - low < self.width)
            cells = self._cells(np.where(ends, written, (low + high) / 2))
            found.append(np.stack([law[narrow], cells[narrow], p[narrow]]))
            wide = np.flatnonzero(~narrow & (p > 0))
            is_worth = _worth_opening(law[wide], p[wide], (1 - SHARE - rest) / 2)
            rest += np.bincount(law[wide[~is_worth]], p[wide[~is_worth]], count)
            digits = self.leaves.digits_behind(node, kind, digits, column)
            written = np.where(low >= 0, low, high)
            ids = self.columns[column]
            beginnings = [
                beginnings[index[at]].behind(self.automaton, kind[at], digits[at], written[at], p[at], ids[at])
                for at in wide[is_worth].tolist()
            ]
            is_root = False
        return self._of_cells(np.concatenate(found, axis=1), rest)

    def _tokens(self, beginnings: Sequence[_Beginning], is_root: bool) -> tuple[Columns, Columns, Columns, Array]:
        """Of each token that may come [N]: its beginning, column, class and mass."""
        node, law = (np.array([getattr(one, name) for one in beginnings]) for name in ("node", "law"))
        kinds = np.repeat(self.automaton.classes[self.columns][None].astype(np.int64), len(beginnings), axis=0)
        for number in reversed(range(SYMBOLS)):
            symbol = self.symbols[law, number, None]
            kinds[(self.columns == symbol) & (symbol != NO_ID)] = self.automaton.goto.shape[1] - SYMBOLS + number
        legal = self.automaton.goto[node[:, None], kinds] != ILLEGAL  # [n, C]
        if is_root:
            ends_one = np.array([self.starts[one.law].ends_one for one in beginnings])
            legal &= ~ends_one[:, None] | (self.leaves.action[node[:, None], kinds] != SAME_AXIS)
        parts = [beginnings[first : first + AT_ONCE] for first in range(0, len(beginnings), AT_ONCE)]
        scores = torch.cat([self._scores(part) for part in parts]).double().cpu()
        masked = scores.masked_fill(~torch.from_numpy(legal), -torch.inf)
        p = masked.softmax(dim=-1).numpy() * np.array([one.mass for one in beginnings])[:, None]
        index, column = np.nonzero(legal)
        return index, column, kinds[index, column], p[index, column]

    def _cells(self, values: Array) -> Array:
        """The number of the bin, or of the cell of decimals: ``c`` is from ``c`` to ``c + 1`` widths."""
        if len(self.edges):
            return np.asarray(np.searchsorted(self.edges, values, side="right") - 1, dtype=np.float64)
        # -1.2 is from -1.3 to -1.2, and 1.2 from 1.2 to 1.3
        return np.floor((values + np.where(values < 0, -self.half_unit, self.half_unit)) / self.width)

    def _of_cells(self, found: Array, rest: Array) -> list[NumberLaw]:
        """Cells of the same law and place together; [3, N] of law, cell and mass."""
        keys, inverse = np.unique(found[:2].astype(np.int64), axis=1, return_inverse=True)
        p = np.bincount(inverse.reshape(-1), found[2], keys.shape[1]).astype(np.float64)
        ends = np.searchsorted(keys[0], np.arange(len(rest) + 1))
        low, high = (self.edges[cell] if len(self.edges) else cell * self.width for cell in (keys[1], keys[1] + 1))
        return [
            NumberLaw(low[first:last], high[first:last], p[first:last], left)
            for (first, last), left in zip(pairwise(ends), rest.tolist(), strict=True)
        ]

    # --- what the model says ----------------------------------------------------------------------------------------

    def _scores(self, beginnings: Sequence[_Beginning]) -> Tensor:
        """[n, C] behind each."""
        self.between()
        if isinstance(self.reader, PlainReader):
            return torch.stack([self._plain_scores(self.reader, one) for one in beginnings])
        if beginnings[0].path:
            hidden = self._behind_texts(self.reader, beginnings)
        else:
            first = np.cumsum([0, *(len(sample.answer) for sample in self.stored)])
            starts = [self.starts[one.law] for one in beginnings]
            hidden = self.hidden[[int(first[start.sample]) + start.at for start in starts]]
        return functional.linear(hidden, self.head).float()

    def _behind_texts(self, body: Body, beginnings: Sequence[_Beginning]) -> Tensor:
        """Hidden states [n, W] behind the last token of each. It is read into the cache behind the text, at its own
        position; a mask has it see the text before its number, and its own beginning."""
        texts = [self.starts[one.law].sample for one in beginnings]
        grid = (len(self.stored), int(np.bincount(texts).max()))
        length = max(self.taken) + grid[1]
        mask = np.zeros((grid[0], 1, grid[1], length), dtype=bool)
        mask[:, :, :, 0] = True  # of padding too
        tokens, used = list[tuple[int, ...]](), [0] * grid[0]
        for text, one in zip(texts, beginnings, strict=True):
            position, place = self.starts[one.law].position, self.taken[text]
            self.places[one.law, one.path] = place
            sees = mask[text, 0, used[text]]
            sees[:position] = True
            sees[[self.places[one.law, one.path[: end + 1]] for end in range(len(one.path))]] = True
            tokens.append((one.path[-1], text, used[text], position + len(one.path) - 1, place))
            used[text] += 1
            self.taken[text] += 1
        ids, rows, columns, positions, places = torch.tensor(tokens, device=body.device).unbind(dim=1)
        self.cache.grow(length)
        slots, seen = rows * grid[1] + columns, torch.from_numpy(mask).to(body.device)
        return body(ids, TokenLayout(rows, positions, grid, length, seen, slots, None, places), self.cache)

    def _plain_scores(self, reader: PlainReader, one: _Beginning) -> Tensor:
        """[C] by any model of transformers, which reads the whole text before."""
        start, model = self.starts[one.law], reader.model
        few = {"logits_to_keep": 1} if reader.can_keep_few else {}  # a whole vocabulary at each token took gigabytes
        ids = torch.tensor([[*self.stored[start.sample].read[: start.position], *one.path]], device=reader.device)
        logits: Tensor = model(input_ids=ids, use_cache=False, **few).logits
        return logits[0, -1, self.columns.tolist()].float()


def _worth_opening(law: Columns, mass: Array, spared: Array) -> NDArray[np.bool_]:
    """Not the least likely of a law, as long as they are together at most what is ``spared`` of it."""
    order = np.lexsort((mass, law))
    sums = mass[order].cumsum()
    first = np.searchsorted(law[order], law[order])
    is_worth = np.zeros(len(mass), dtype=bool)
    is_worth[order] = sums - (sums - mass[order])[first] > spared[law[order]]
    return is_worth
