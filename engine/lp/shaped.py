"""Which tokens of the LP ``shaped`` may come: those of ``exact`` that leave some place where the atom is right.

An answer keeps right places for the atom that is being written (*witnesses*), each with how far it may be moved. A
token that leaves a value within reach of one needs no question. For the others places are asked, of many answers and
tokens in one call; a token is struck when none was found, in the narrowest tolerance in which some token is right.
The token that closes a block is asked by the guard, of the numbers as they are written.

Known here are ids, cells and coordinates; what is drawn, and what happens where no token is right, is for who asks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from engine.chem.guard import MoleculeGuard, WrongPlace
from engine.lp import exact
from engine.lp.bins import BinNumbers
from engine.lp.completion import Completion
from engine.lp.constraint import LpParameters
from engine.lp.exact import ExactConstraint
from engine.lp.numbers import BRANCH
from engine.lp.places import (
    CUBE,
    MOVABLE,
    TOLERANCES,
    AtomChecks,
    Atoms,
    Boxes,
    MoleculePlaces,
    continuing,
    find,
    right_among,
    shortfalls,
)
from engine.lp.prefixes import (
    CLOSES,
    NEXT_AXIS,
    SAME_AXIS,
    Array,
    BinLeaves,
    BinPrefix,
    Columns,
    Leaves,
    Prefix,
    first_prefix,
)
from engine.lp.table import NO_ID, SYMBOLS, Program
from engine.lp_records import GuardCheck
from engine.records import BinFormat
from engine.text.tokenizers import TextTokenizer, number_ids

FIRST, CLOSELY, MOST_KEPT = 192, 96, 128
"""Points for an atom that begins, points for a token, and witnesses that an answer keeps."""
STRETCH_ANG = 0.2
"""Short intervals that begin in the same stretch are asked together."""
NEARBY = (2 * CUBE[:40] - 1) * np.linspace(0, 0.3, 40)[:, None]
"""Points about the origin, the first in it."""
NEAR_A_WAY = 0.25
"""So near to the place that an atom has in a whole way to go on, another one is taken to leave one too, in angstrom."""
SLACK_ANG = 0.02
"""Where no token is right: what is wrong by so little more than the least wrong may come too."""
ALONE, OWNERS_APART = 1e6, 1e8
FAR = 1e4
"""Between the values of two answers that are compared in one call: no number is so large."""
ROUNDING = 1e-9
RIGHT, WRONG, UNKNOWN = 1, 0, -1
Flags = NDArray[np.bool_]


def build(name: str, tokenizer: TextTokenizer, vocab_rows: int, parameters: LpParameters) -> ExactConstraint:
    """``ConstraintError`` where a token of bins holds digits of two numbers: it leaves no single stretch."""
    constraint = exact.build(name, tokenizer, vocab_rows, parameters)
    if isinstance(constraint.numbers, BinNumbers):
        leaves_of(constraint, ())
    return constraint


class ShapedMolecule:
    """A molecule with its program and what is right of it: all answers for it share one."""

    def __init__(
        self, mol: Chem.Mol, program: Program, constraint: ExactConstraint, checks: Collection[GuardCheck]
    ) -> None:
        """``UnsupportedMoleculeError`` where distance geometry knows no bounds."""
        self.places, self.guard = MoleculePlaces(mol, checks), MoleculeGuard(mol, checks)
        self.completion = Completion(self.places)
        self.program = program
        self._raw = constraint.tokenizer.raw
        self._form = constraint.form
        numbers = constraint.numbers
        # Where the sign of x decides which token opens a block.
        self._branch = None if isinstance(numbers, BinNumbers) else numbers.starts[BRANCH]
        free = np.flatnonzero(program.forced == NO_ID)
        blocks = program.block[free]
        self.blocks = int(blocks.max(initial=-1)) + 1
        self.first = [int(free[blocks == block][0]) for block in range(self.blocks)]
        self.opening = program.forced[: self.first[0]].tolist()
        self.heavy = {atom: index for index, atom in enumerate(self.places.text_atoms)}

    def start(self, block: int) -> tuple[int, int]:
        """Cell and node at which a block's first choice is made."""
        return self.first[block], int(self.program.entry[self.first[block]])

    def prefix(self, block: int) -> Prefix | BinPrefix:
        """Of a block before its first choice, which may be that of the token that opens it."""
        return replace(first_prefix(self._form), is_inside=self.start(block)[1] != self._branch)

    def text(self, id_: int) -> str:
        return self._raw(id_).decode("utf-8", "replace")


class ShapedAnswer:
    """One answer as far as it is written: where its atoms are, and right places for the one that is being written."""

    def __init__(self, molecule: ShapedMolecule) -> None:
        self.molecule = molecule
        self.positions = np.zeros((molecule.blocks, 3))  # by atom of the text
        self.placed = np.zeros((molecule.places.atoms, 3))  # by heavy atom
        self.unmended: list[WrongPlace] = []
        self.prefix = molecule.prefix(0)
        self.ways: Array | None = None  # [ways, atoms, 3] that were found to go on from this block's atom
        self.ahead = -1  # the heavy atom up to which a right place must leave right places
        self.lost: tuple[int, Array] | None = None  # the last block, and its ways, where none goes on behind it
        self.go_back(0)

    def _begin(self) -> None:
        """Of the block's atom nothing was asked yet."""
        self.tolerance = 0
        self.witnesses: Array | None = None  # [places, 3]
        self.rooms: Array = np.zeros(0)  # [places] how far each may be moved, in angstrom

    def take(self, ids: Sequence[int], cell: int, node: int) -> None:
        """Tokens that were written, and the cell and node behind them."""
        for id_ in ids:
            before, self.prefix = self.prefix, self.prefix.read(self.molecule.text(id_))
            if self.prefix.closed is not None:
                self._close(self.prefix.closed)
            elif len(self.prefix.known) > len(before.known):
                self._move_witnesses()
        self.cell, self.node = cell, node

    def go_back(self, block: int, ways: Array | None = None) -> None:
        """To where a block's first choice is made."""
        self.ways, self.lost = ways, None
        self.block, self.prefix = block, self.molecule.prefix(block)
        self.cell, self.node = self.molecule.start(block)
        self._begin()

    def _close(self, position: tuple[float, ...]) -> None:
        self.positions[self.block] = position
        if self.block in self.molecule.heavy:
            self.placed[self.molecule.heavy[self.block]] = position
        self.unmended += self.molecule.guard.wrong_places(self.positions, self.block)
        if self.ways is not None and self.block in self.molecule.heavy:
            self._go_on(self.ways)
        self.block += 1
        self._begin()

    def _go_on(self, ways: Array) -> None:
        """Behind an atom that was written near a way, the ways start from where it stands."""
        atom, count = self.molecule.heavy[self.block] + 1, ways.shape[1] - 1
        self.ways = None
        if not count:
            return
        until, completion = atom + count - 1, self.molecule.completion
        found = completion.ways(self.placed, atom, until, before=ways[:, 1:])
        if not len(found):
            found = completion.ways(self.placed, atom, until)
        self.ways = found if len(found) else None
        self.lost = None if len(found) else (self.block, ways)

    def _move_witnesses(self) -> None:
        """To the value of the axis that is complete now."""
        if self.witnesses is None:
            return
        axis = len(self.prefix.known) - 1
        moved = np.abs(self.witnesses[:, axis] - self.prefix.known[-1])
        is_kept = moved <= self.rooms
        self.witnesses, self.rooms = self.witnesses[is_kept], (self.rooms - moved)[is_kept]
        self.witnesses[:, axis] = self.prefix.known[-1]

    def keep(self, places: Array, rooms: Array) -> None:
        """More right places; the newest are in the box that was asked last."""
        before = np.zeros((0, 3)) if self.witnesses is None else self.witnesses
        self.witnesses = np.concatenate([places, before])[:MOST_KEPT]
        self.rooms = np.concatenate([rooms, self.rooms])[:MOST_KEPT]

    def widen(self) -> bool:
        """Ask in the next wider tolerance; False where there is none."""
        if self.tolerance + 1 == len(TOLERANCES):
            return False
        self.tolerance += 1
        # Only before any number is written a place in all of space is one that is still left.
        self.witnesses = None if self.prefix.is_blank else np.zeros((0, 3))
        self.rooms = np.zeros(0)
        return True

    @property
    def is_asked(self) -> bool:
        """Whether the next token matters: at a choice of an atom that others were written before, nothing wrong yet."""
        molecule = self.molecule
        is_choice = self.cell < len(molecule.program) and molecule.program.forced[self.cell] == NO_ID
        return is_choice and self.block in molecule.heavy and not self.unmended and len(self.checks.others) > 0

    @property
    def checks(self) -> AtomChecks:
        return self.molecule.places.checks[self.molecule.heavy[self.block]]

    def closes_right(self, last: float | None = None) -> bool:
        """Whether the block is right as it stands; ``last``: with this z."""
        trial = self.positions.copy()
        trial[self.block] = (*self.prefix.known, self.prefix.value if last is None else last)
        return not self.molecule.guard.wrong_places(trial, self.block)


class Candidates:
    """The tokens that may come next in some answers, by answer and column [n, C], and what is known of each."""

    def __init__(
        self, answers: Sequence[ShapedAnswer], is_legal: Flags, kinds: Columns, leaves: Leaves | BinLeaves
    ) -> None:
        """``is_legal``: under ``exact``; ``kinds``: the classes, as its cell sees them."""
        self.answers = list(answers)
        self.is_legal = is_legal
        self.kinds = kinds
        self._leaves = leaves
        ends = len(leaves.powers)
        self.status = np.where(is_legal, UNKNOWN, WRONG).astype(np.int8)
        self.nodes = np.array([answer.node for answer in answers], dtype=np.int64)
        self.digits = np.array([answer.prefix.digits for answer in answers], dtype=np.int64)
        self.is_seen = np.zeros(is_legal.shape, dtype=bool)  # what the token leaves is known
        self.action = np.zeros(is_legal.shape, dtype=np.int8)
        self.low = np.empty((*is_legal.shape, ends))  # [n, C, N] the intervals that it leaves, NaN for none
        self.high = np.empty((*is_legal.shape, ends))

    def cover(self, index: Columns, columns: Columns) -> None:
        """Tokens that leave a value within reach of a witness are right: of pairs that are seen and unknown."""
        actions = self.action[index, columns]
        for action, pool in ((SAME_AXIS, self._witnesses), (NEXT_AXIS, self._next_witnesses)):
            of = np.flatnonzero(actions == action)
            answers = np.unique(index[of]).tolist()
            if not answers:
                continue
            parts = [pool(self.answers[answer]) for answer in answers]
            values, rooms = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            owner = np.repeat(answers, [len(part) for part, _ in parts])
            if not len(values):
                continue
            rows, some = index[of], columns[of]
            low, high = self.low[rows, some], self.high[rows, some]
            far = FAR * rows[:, None]  # so that each token meets the witnesses of its own answer
            is_right = reached(values + FAR * owner, rooms, low + far, high + far).any(axis=1)
            self.accept(rows[is_right], some[is_right])

    def accept(self, rows: Columns, columns: Columns) -> None:
        """These are right: a place was found for each. One that ends the block has to be right as written, too."""
        self.status[rows, columns] = RIGHT
        ends = self._leaves.ends_block[self.nodes[rows], self.kinds[rows, columns]]
        for row, column in zip(rows[ends].tolist(), columns[ends].tolist(), strict=True):
            if not self.answers[row].closes_right(float(self.low[row, column, 0])):
                self.status[row, column] = WRONG

    @staticmethod
    def _witnesses(answer: ShapedAnswer) -> tuple[Array, Array]:
        """Values of the axis that is written, and how far each may be moved."""
        if answer.witnesses is None:
            return np.zeros(0), np.zeros(0)
        return answer.witnesses[:, len(answer.prefix.known)], answer.rooms

    @staticmethod
    def _next_witnesses(answer: ShapedAnswer) -> tuple[Array, Array]:
        """Of the next axis, where the one that is written ends here."""
        axis = len(answer.prefix.known)
        if answer.witnesses is None or axis == 2:
            return np.zeros(0), np.zeros(0)
        moved = np.abs(answer.witnesses[:, axis] - answer.prefix.value)
        is_near = moved <= answer.rooms
        return answer.witnesses[is_near, axis + 1], (answer.rooms - moved)[is_near]


def reached(values: Array, rooms: Array, low: Array, high: Array) -> Flags:
    """Which intervals hold a point within its room of one of the values; NaN for none: [any, any]."""
    order = np.argsort(values - rooms)
    starts, ends = (values - rooms)[order], np.maximum.accumulate((values + rooms)[order])
    last = np.searchsorted(starts, high, side="right") - 1  # of those that start early enough, one that goes farthest
    return np.asarray((last >= 0) & (ends[np.maximum(last, 0)] >= low))


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """Boxes of some answers, and the columns that are asked in each of them."""

    boxes: Boxes
    index: Columns  # [boxes] the answer, among the candidates
    is_next: Flags  # [boxes] of the axis behind the one that is written
    box: Columns  # [members] in rising order
    columns: Columns  # [members]


def leaves_of(constraint: ExactConstraint, columns: Sequence[int]) -> Leaves | BinLeaves:
    if isinstance(constraint.numbers, BinNumbers):
        assert isinstance(constraint.form, BinFormat)
        return BinLeaves(constraint.numbers, columns, constraint.form)
    return Leaves(constraint.numbers, number_ids(constraint.tokenizer), columns, constraint.form)


class ShapedTokens:
    """What may come in any answer of one constraint."""

    def __init__(self, constraint: ExactConstraint, columns: Columns) -> None:
        """``columns`` are the ids that may ever be drawn, in rising order."""
        self.columns = columns
        self.leaves = leaves_of(constraint, columns.tolist())
        self._kinds = constraint.automaton.classes[columns].astype(np.int64)
        self._symbols = constraint.automaton.goto.shape[1] - SYMBOLS

    def candidates(self, answers: Sequence[ShapedAnswer], is_legal: Flags) -> Candidates:
        """Of answers that are asked; ``is_legal`` [n, C]."""
        self._begin([answer for answer in answers if answer.witnesses is None and answer.prefix.is_blank])
        kinds = np.stack([self._kinds_in(answer) for answer in answers])
        return Candidates(answers, is_legal, kinds, self.leaves)

    def widen(self, candidates: Candidates, index: int) -> bool:
        """Ask again in a wider tolerance; False where there is none."""
        answer = candidates.answers[index]
        if not answer.widen():
            return False
        if answer.witnesses is None:
            self._begin([answer])
        candidates.status[index] = np.where(candidates.is_legal[index], UNKNOWN, WRONG)
        columns = np.flatnonzero(candidates.is_seen[index])
        candidates.cover(np.full_like(columns, index), columns)
        return True

    def _kinds_in(self, answer: ShapedAnswer) -> Columns:
        """The columns' classes as the answer's cell sees them."""
        kinds = self._kinds.copy()
        for number, symbol in enumerate(answer.molecule.program.symbols[answer.cell].tolist()):
            if symbol != NO_ID:
                kinds[np.searchsorted(self.columns, symbol)] = self._symbols + number
        return kinds

    def _begin(self, answers: Sequence[ShapedAnswer]) -> None:
        """Places for atoms that nothing was asked of yet."""
        if not answers:
            return
        places, rooms, box = self._right_places(answers, Boxes.everywhere(len(answers)), FIRST)
        for index, answer in enumerate(answers):
            answer.keep(places[box == index], rooms[box == index])

    def see(self, candidates: Candidates, index: Columns, columns: Columns) -> None:
        """Find out what legal tokens leave (of pairs: an answer's index and a column), and which hold a witness."""
        is_new = ~candidates.is_seen[index, columns]
        index, columns = index[is_new], columns[is_new]
        nodes, kinds = candidates.nodes[index], candidates.kinds[index, columns]
        ends = self.leaves.of(nodes, kinds, candidates.digits[index], columns)
        candidates.low[index, columns], candidates.high[index, columns] = ends
        candidates.action[index, columns] = self.leaves.action[nodes, kinds]
        candidates.is_seen[index, columns] = True
        candidates.cover(index, columns)

    def ask(
        self,
        candidates: Candidates,
        index: Columns,
        columns: Columns,
        *,
        alone: Flags | None = None,
        keeps: bool = True,
    ) -> None:
        """Set the status of legal tokens (of pairs: an answer's index, in rising order, and a column); ``alone``: which
        are not asked together with others, which misses more; ``keeps``: what is found for the axis that is written, as
        witnesses."""
        self.see(candidates, index, columns)
        is_unknown = candidates.status[index, columns] == UNKNOWN
        alone = np.zeros(len(index), dtype=bool) if alone is None else alone
        index = index[is_unknown]
        columns = columns[is_unknown]
        alone = alone[is_unknown]
        of, atom = np.unique(index, return_inverse=True)
        answers = [candidates.answers[at] for at in of]
        if not answers:
            return
        is_closing = candidates.action[index, columns] == CLOSES
        for at in np.unique(index[is_closing]).tolist():
            closing = columns[is_closing & (index == at)]
            candidates.status[at, closing] = RIGHT if candidates.answers[at].closes_right() else WRONG
        atoms = Atoms([(answer.checks, answer.placed, answer.tolerance) for answer in answers])
        merged_ang = np.where(alone, 0.0, self.leaves.merged_ang)[~is_closing]
        asked = _boxes(candidates, atoms, of, atom[~is_closing], columns[~is_closing], merged_ang)
        if len(asked.columns):
            self._search(candidates, answers, asked, keeps)

    def least_wrong(self, candidates: Candidates, index: int) -> None:
        """Where no token is right: those stay that leave what is wrong by least; all where the bond reaches nothing."""
        answer, columns = candidates.answers[index], np.flatnonzero(candidates.is_legal[index])
        self.see(candidates, np.full_like(columns, index), columns)
        is_closing = candidates.action[index, columns] == CLOSES
        atoms, open_ = Atoms([(answer.checks, answer.placed, answer.tolerance)]), columns[~is_closing]
        asked = _boxes(candidates, atoms, np.array([index]), np.zeros_like(open_), open_, np.zeros(len(open_)))
        off = np.full(len(self.columns), np.inf)
        np.minimum.at(off, asked.columns, shortfalls(answer.checks, answer.placed, asked.boxes, CLOSELY)[asked.box])
        if is_closing.any():
            as_written = Boxes.at((*answer.prefix.known, answer.prefix.value))
            off[columns[is_closing]] = shortfalls(answer.checks, answer.placed, as_written, CLOSELY)
        is_kept = candidates.is_legal[index] & (off <= off.min() + SLACK_ANG)
        candidates.status[index] = np.where(is_kept, RIGHT, WRONG)

    def _search(self, candidates: Candidates, answers: Sequence[ShapedAnswer], asked: _Asked, keeps: bool) -> None:
        places, rooms, of = self._right_places(answers, asked.boxes, CLOSELY)
        if keeps:
            kept = np.flatnonzero(~asked.is_next[of])
            kept = kept[np.argsort(-of[kept], kind="stable")]  # those of the last box first
            owner = asked.index[of[kept]]
            for index in np.unique(owner).tolist():
                some = kept[owner == index]
                candidates.answers[index].keep(places[some], rooms[some])
        found, place = np.unique(of, return_inverse=True)
        is_found = np.isin(asked.box, found)
        box, columns = asked.box[is_found], asked.columns[is_found]
        index, far = asked.index[box], FAR * np.searchsorted(found, box)[:, None]
        low, high = candidates.low[index, columns] + far, candidates.high[index, columns] + far
        values = places[np.arange(len(places)), asked.boxes.axis[of]] + FAR * place
        if len(values):
            is_right = reached(values, rooms, low, high).any(axis=1)
            candidates.accept(index[is_right], columns[is_right])

    def _right_places(self, answers: Sequence[ShapedAnswer], boxes: Boxes, count: int) -> tuple[Array, Array, Columns]:
        """Those within the range of the numbers, which is a wall for bins."""
        low, high = self.leaves.range_ang
        places, rooms, box = _right_places(answers, boxes, count)
        is_within = ((places >= low) & (places <= high)).all(axis=1)
        return places[is_within], rooms[is_within], box[is_within]


def _boxes(
    candidates: Candidates, atoms: Atoms, answers: Columns, atom: Columns, columns: Columns, merged_ang: Array
) -> _Asked:
    """The boxes of columns that the bond to the parent can reach; the others are wrong. ``answers`` [atoms], among the
    candidates; of pairs: the atom, the column, none of which closes a block, and how short intervals are that are
    asked together."""
    index = answers[atom]
    candidates.status[index, columns] = WRONG  # until a place is found
    # One owner an atom and axis: the one that is written, or the next.
    owners, owner = np.unique(2 * atom + (candidates.action[index, columns] == NEXT_AXIS), return_inverse=True)
    known, axis = np.zeros((len(owners), 3)), np.zeros(len(owners), dtype=np.int64)
    reach = np.zeros((len(owners), 2))
    for place, (of, is_next) in enumerate(zip(*np.divmod(owners, 2), strict=True)):
        prefix = candidates.answers[answers[of]].prefix
        before = (*prefix.known, prefix.value) if is_next else prefix.known
        known[place, : len(before)], axis[place] = before, len(before)
        reach[place] = atoms.reach(int(of), before)
    low, high = candidates.low[index, columns], candidates.high[index, columns]  # [pairs, N]
    pair, part = np.nonzero((low <= reach[owner, 1:]) & (high >= reach[owner, :1]))
    low, high = low[pair, part], high[pair, part]
    # Short intervals that begin in the same stretch are asked together, others alone.
    stretch = np.where(high - low < merged_ang[pair], np.floor(low / STRETCH_ANG), ALONE + np.arange(len(low)))
    first, box = np.unique(owner[pair] * OWNERS_APART + stretch, return_index=True, return_inverse=True)[1:]
    order, owner = np.argsort(box, kind="stable"), owner[pair][first]  # now of the boxes
    ends = np.searchsorted(box[order], np.arange(len(first)))
    boxes = Boxes(
        owners[owner] // 2,
        axis[owner],
        known[owner],
        np.minimum.reduceat(low[order], ends) - ROUNDING if len(ends) else low,
        np.maximum.reduceat(high[order], ends) + ROUNDING if len(ends) else high,
    )
    return _Asked(boxes, answers[boxes.atom], owners[owner] % 2 > 0, box[order], columns[pair][order])


def _right_places(answers: Sequence[ShapedAnswer], boxes: Boxes, count: int) -> tuple[Array, Array, Columns]:
    """As ``find``; of answers that know ways to go on, those places alone that are near one of them; of answers that
    look ahead, those that leave right ones for the atoms behind."""
    atoms = Atoms([(answer.checks, answer.placed, answer.tolerance) for answer in answers])
    steered = [index for index, answer in enumerate(answers) if answer.ways is not None]
    is_free = ~np.isin(boxes.atom, steered)
    free = np.flatnonzero(is_free)
    places, rooms, box = find(atoms, boxes.only(free) if steered else boxes, count)
    box = free[box]
    is_kept = np.ones(len(places), dtype=bool)
    for index, answer in enumerate(answers):
        atom, of_answer = answer.checks.atom, np.flatnonzero(boxes.atom[box] == index)
        if answer.ahead > atom and len(of_answer):
            rooms[of_answer] = np.minimum(rooms[of_answer], MOVABLE)
            here = (answer.placed, places[of_answer], box[of_answer])
            is_kept[of_answer] = continuing(answer.molecule.places, atom, *here, answer.ahead)
    parts = [(places[is_kept], rooms[is_kept], box[is_kept])]
    for number in np.flatnonzero(~is_free).tolist():
        points = _near_ways(answers[int(boxes.atom[number])].ways, boxes, number)
        found = right_among(atoms, boxes, points, np.full(len(points), number))
        parts.append((found[0], np.minimum(found[1], MOVABLE), found[2]))
    places, rooms, box = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return places, rooms, box


def _near_ways(ways: Array | None, boxes: Boxes, number: int) -> Array:
    """Points of a box that are near to where the ways have the atom [any, 3]."""
    assert ways is not None
    axis = int(boxes.axis[number])
    points = (ways[:, None, 0] + NEARBY).reshape(-1, 3)
    moved = points.copy()
    moved[:, :axis] = boxes.known[number, :axis]
    moved[:, axis] = np.clip(points[:, axis], boxes.low[number], boxes.high[number])
    return np.asarray(moved[np.linalg.norm(moved - points, axis=1) < NEAR_A_WAY])
