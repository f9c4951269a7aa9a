"""Which tokens of the LP ``shaped`` may come: those of ``exact`` that leave some place where the atom is right.

An answer keeps right places for the atom that is being written (*witnesses*), each with how far it may be moved. A
token that leaves a value within reach of one needs no question. For the others places are asked, of many answers and
tokens in one call; a token is struck when none was found, in the narrowest tolerance in which some token is right.
The token that closes a block is asked by the guard, of the numbers as they are written.

Known here are ids, cells and coordinates; what is drawn, and what happens where no token is right, is for who asks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from engine.chem.guard import MoleculeGuard, WrongPlace
from engine.errors import ConstraintError
from engine.lp.exact import ExactConstraint
from engine.lp.numbers import BRANCH, Numbers
from engine.lp.places import MOVABLE, TOLERANCES, AtomChecks, Atoms, Boxes, MoleculePlaces, continuing, find, shortfalls
from engine.lp.prefixes import CLOSES, NEXT_AXIS, SAME_AXIS, Array, Columns, Leaves, Prefix
from engine.lp.table import NO_ID, SYMBOLS, Program
from engine.lp_records import GuardCheck
from engine.records import NumberFormat
from engine.text.tokenizers import number_ids

FIRST, CLOSELY, MOST_KEPT = 192, 96, 128
"""Points for an atom that begins, points for a token, and witnesses that an answer keeps."""
MERGED_ANG = 0.2
"""Tokens whose values lie so near to each other are asked as one box."""
SLACK_ANG = 0.02
"""Where no token is right: what is wrong by so little more than the least wrong may come too."""
ALONE = 1e6
ROUNDING = 1e-9
RIGHT, WRONG, UNKNOWN = 1, 0, -1
Status = NDArray[np.int8]


class ShapedMolecule:
    """A molecule with its program and what is right of it: all answers for it share one."""

    def __init__(
        self, mol: Chem.Mol, program: Program, constraint: ExactConstraint, checks: Collection[GuardCheck]
    ) -> None:
        """``UnsupportedMoleculeError`` where distance geometry knows no bounds."""
        self.places, self.guard = MoleculePlaces(mol, checks), MoleculeGuard(mol, checks)
        self.program, self._raw = program, constraint.tokenizer.raw
        self._branch = numbers_of(constraint).starts[BRANCH]  # where the sign of x decides which token opens a block
        free = np.flatnonzero(program.forced == NO_ID)
        blocks = program.block[free]
        self.blocks = int(blocks.max(initial=-1)) + 1
        self.first = [int(free[blocks == block][0]) for block in range(self.blocks)]
        self.opening = program.forced[: self.first[0]].tolist()
        self.heavy = {atom: index for index, atom in enumerate(self.places.text_atoms)}

    def start(self, block: int) -> tuple[int, int]:
        """Cell and node at which a block's first choice is made."""
        return self.first[block], int(self.program.entry[self.first[block]])

    def prefix(self, block: int) -> Prefix:
        """Of a block before its first choice, which may be that of the token that opens it."""
        return Prefix(is_inside=self.start(block)[1] != self._branch)

    def text(self, id_: int) -> str:
        return self._raw(id_).decode("utf-8", "replace")


class ShapedAnswer:
    """One answer as far as it is written: where its atoms are, and right places for the one that is being written."""

    def __init__(self, molecule: ShapedMolecule) -> None:
        self.molecule = molecule
        self.positions = np.zeros((molecule.blocks, 3))  # by atom of the text
        self.placed = np.zeros((molecule.places.atoms, 3))  # by heavy atom
        self.unmended: list[WrongPlace] = []
        self.prefix = Prefix()
        self.ahead = -1  # the heavy atom up to which a right place must leave right places
        self.go_back(0)

    def _begin(self) -> None:
        """Of the block's atom nothing was asked yet."""
        self.tolerance = 0
        self.had_place = True  # in the whole of space, when its block began
        self.witnesses: Array | None = None  # [places, 3]
        self.rooms: Array = np.zeros(0)  # [places] how far each may be moved, in angstrom

    def take(self, ids: Sequence[int], cell: int, node: int) -> None:
        """Tokens that were written, and the cell and node behind them."""
        for id_ in ids:
            before, self.prefix = self.prefix, self.prefix.read(self.molecule.text(id_))
            if len(before.known) == 2 and len(self.prefix.known) != 2:
                self._close((*before.known, before.value))
            elif len(self.prefix.known) > len(before.known):
                self._move_witnesses()
        self.cell, self.node = cell, node

    def go_back(self, block: int) -> None:
        """To where a block's first choice is made."""
        self.block, self.prefix = block, self.molecule.prefix(block)
        self.cell, self.node = self.molecule.start(block)
        self._begin()

    def _close(self, position: tuple[float, ...]) -> None:
        self.positions[self.block] = position
        if self.block in self.molecule.heavy:
            self.placed[self.molecule.heavy[self.block]] = position
        self.unmended += self.molecule.guard.wrong_places(self.positions, self.block)
        self.block += 1
        self._begin()

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
        self.witnesses = None if self._is_blank else np.zeros((0, 3))
        self.rooms = np.zeros(0)
        return True

    @property
    def _is_blank(self) -> bool:
        return (
            not self.prefix.known and not self.prefix.digits and not self.prefix.negative and self.prefix.decimals < 0
        )

    @property
    def is_asked(self) -> bool:
        """Whether the next token matters: at a choice of an atom that others were written before, nothing wrong yet."""
        molecule = self.molecule
        is_choice = self.cell < len(molecule.program) and molecule.program.forced[self.cell] == NO_ID
        return is_choice and self.block in molecule.heavy and not self.unmended and len(self.checks.others) > 0

    @property
    def checks(self) -> AtomChecks:
        return self.molecule.places.checks[self.molecule.heavy[self.block]]

    def closes_right(self) -> bool:
        trial = self.positions.copy()
        trial[self.block] = (*self.prefix.known, self.prefix.value)
        return not self.molecule.guard.wrong_places(trial, self.block)


@dataclass(slots=True, eq=False)
class Candidates:
    """The tokens that may come next in an answer, by column, and what is known of each."""

    answer: ShapedAnswer
    is_legal: NDArray[np.bool_]  # [C] under ``exact``
    action: NDArray[np.int8]  # [C] what the token does
    low: Array  # [C, N] the intervals that it leaves, NaN for none
    high: Array  # [C, N]
    status: Status  # [C]

    def reset(self) -> None:
        """Nothing is known of any."""
        self.status = np.where(self.is_legal, UNKNOWN, WRONG).astype(np.int8)

    def cover(self) -> None:
        """Those that leave a value within reach of a witness are right."""
        answer = self.answer
        if answer.witnesses is None or not len(answer.witnesses):
            return
        axis, places, rooms = len(answer.prefix.known), answer.witnesses, answer.rooms
        self._cover(SAME_AXIS, places[:, axis], rooms)
        if axis < 2:
            moved = np.abs(places[:, axis] - answer.prefix.value)
            is_near = moved <= rooms
            self._cover(NEXT_AXIS, places[is_near, axis + 1], (rooms - moved)[is_near])

    def _cover(self, action: int, values: Array, rooms: Array) -> None:
        columns = np.flatnonzero((self.action == action) & (self.status == UNKNOWN))
        if len(columns) and len(values):
            is_right = reached(values, rooms, self.low[columns], self.high[columns]).any(axis=1)
            self.status[columns[is_right]] = RIGHT


def reached(values: Array, rooms: Array, low: Array, high: Array) -> NDArray[np.bool_]:
    """Which intervals hold a point within its room of one of the values; NaN for none: [any, any]."""
    order = np.argsort(values - rooms)
    starts, ends = (values - rooms)[order], np.maximum.accumulate((values + rooms)[order])
    last = np.searchsorted(starts, high, side="right") - 1  # of those that start early enough, one that goes farthest
    return np.asarray((last >= 0) & (ends[np.maximum(last, 0)] >= low))


@dataclass(slots=True, eq=False)
class _Box:
    """A box of one answer, with the columns that it is asked for."""

    candidates: Candidates
    atom: int  # in ``Atoms``
    known: tuple[float, ...]
    low: float
    high: float
    columns: Columns


def numbers_of(constraint: ExactConstraint) -> Numbers:
    if constraint.numbers is None:
        raise ConstraintError("the LP shaped is for decimals, not for bins", "Use the LP exact")
    return constraint.numbers


class ShapedTokens:
    """What may come in any answer of one constraint."""

    def __init__(self, constraint: ExactConstraint, columns: Columns) -> None:
        """``columns`` are the ids that may ever be drawn, in rising order."""
        numbers, ids = numbers_of(constraint), number_ids(constraint.tokenizer)
        assert isinstance(constraint.form, NumberFormat)
        self.columns = columns
        self.leaves = Leaves(numbers, ids, columns.tolist(), constraint.form)
        self._kinds = constraint.automaton.classes[columns].astype(np.int64)
        self._symbols = constraint.automaton.goto.shape[1] - SYMBOLS

    def candidates(self, answers: Sequence[ShapedAnswer], is_legal: NDArray[np.bool_]) -> list[Candidates]:
        """Of answers that are asked; ``is_legal`` [answers, C]."""
        self._begin([answer for answer in answers if answer.witnesses is None])
        candidates = []
        for answer, legal in zip(answers, is_legal, strict=True):
            kinds = self._kinds_in(answer)
            low, high = self.leaves.of(answer.node, kinds, answer.prefix.digits)
            action = self.leaves.action[answer.node, kinds]
            candidates.append(Candidates(answer, legal, action, low, high, np.zeros(len(legal), dtype=np.int8)))
        for one in candidates:
            one.reset()
            one.cover()
        return candidates

    def widen(self, candidates: Candidates) -> bool:
        """Ask again in a wider tolerance; False where there is none."""
        if not candidates.answer.widen():
            return False
        if candidates.answer.witnesses is None:
            self._begin([candidates.answer])
        candidates.reset()
        candidates.cover()
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
        places, rooms, box = _right_places(answers, Boxes.everywhere(len(answers)), FIRST)
        for index, answer in enumerate(answers):
            answer.keep(places[box == index], rooms[box == index])
            answer.had_place = bool((box == index).any())

    def ask(self, wanted: Sequence[tuple[Candidates, Columns]]) -> None:
        """Set the status of these columns, which are not known yet."""
        atoms = Atoms([(one.answer.checks, one.answer.placed, one.answer.tolerance) for one, _ in wanted])
        boxes: list[_Box] = []
        for atom, (one, columns) in enumerate(wanted):
            action = one.action[columns]
            for column in columns[action == CLOSES].tolist():
                one.status[column] = RIGHT if one.answer.closes_right() else WRONG
            known = one.answer.prefix.known
            boxes += self._boxes(atoms, atom, one, columns[action == SAME_AXIS], known)
            boxes += self._boxes(atoms, atom, one, columns[action == NEXT_AXIS], (*known, one.answer.prefix.value))
        if boxes:
            self._search([one.answer for one, _ in wanted], boxes)

    def _boxes(
        self,
        atoms: Atoms,
        atom: int,
        one: Candidates,
        columns: Columns,
        known: tuple[float, ...],
        merged_ang: float = MERGED_ANG,
    ) -> list[_Box]:
        """The boxes of columns that the bond to the parent can reach; the others are wrong."""
        if not len(columns):
            return []
        one.status[columns] = WRONG  # until a place is found
        low, high = one.low[columns], one.high[columns]
        least, most = atoms.reach(atom, known)
        index, part = np.nonzero((low <= most) & (high >= least))
        low, high, columns = low[index, part], high[index, part], columns[index]
        # Short intervals that begin in the same stretch are asked together, others alone.
        is_short = high - low < merged_ang
        stretch = np.where(is_short, np.floor(low / MERGED_ANG), ALONE + np.arange(len(low)))
        together = [np.flatnonzero(stretch == value) for value in np.unique(stretch)]
        return [
            _Box(one, atom, known, float(low[some].min()), float(high[some].max()), columns[some]) for some in together
        ]

    def least_wrong(self, one: Candidates) -> None:
        """Where no token is right: those stay that leave what is wrong by least; all where the bond reaches nothing."""
        answer, columns = one.answer, np.flatnonzero(one.is_legal)
        known, value, action = answer.prefix.known, answer.prefix.value, one.action[columns]
        atoms = Atoms([(answer.checks, answer.placed, answer.tolerance)])
        boxes = self._boxes(atoms, 0, one, columns[action == SAME_AXIS], known, merged_ang=0.0)
        boxes += self._boxes(atoms, 0, one, columns[action == NEXT_AXIS], (*known, value), merged_ang=0.0)
        if (action == CLOSES).any():
            boxes.append(_Box(one, 0, known, value, value, columns[action == CLOSES]))
        off = np.full(len(one.is_legal), np.inf)
        if boxes:
            shortfall = shortfalls(answer.checks, answer.placed, _asked(boxes), CLOSELY)
            for box, least in zip(boxes, shortfall.tolist(), strict=True):
                off[box.columns] = np.minimum(off[box.columns], least)
        one.status = np.where(one.is_legal & (off <= off.min() + SLACK_ANG), RIGHT, WRONG).astype(np.int8)

    def _search(self, answers: Sequence[ShapedAnswer], boxes: Sequence[_Box]) -> None:
        places, rooms, of = _right_places(answers, _asked(boxes), CLOSELY)
        for index, box in enumerate(boxes):
            found = places[of == index], rooms[of == index]
            if not len(found[0]):
                continue
            one, axis = box.candidates, len(box.known)
            if axis == len(one.answer.prefix.known):
                one.answer.keep(*found)
            of_box = one.low[box.columns], one.high[box.columns]
            one.status[box.columns[reached(found[0][:, axis], found[1], *of_box).any(axis=1)]] = RIGHT


def _asked(boxes: Sequence[_Box]) -> Boxes:
    return Boxes(
        np.array([box.atom for box in boxes]),
        np.array([len(box.known) for box in boxes]),
        np.array([(*box.known, 0.0, 0.0, 0.0)[:3] for box in boxes]),
        np.array([box.low for box in boxes]) - ROUNDING,
        np.array([box.high for box in boxes]) + ROUNDING,
    )


def _right_places(answers: Sequence[ShapedAnswer], boxes: Boxes, count: int) -> tuple[Array, Array, Columns]:
    """As ``find``; of answers that look ahead, those places alone that leave right ones for the atoms behind."""
    atoms = Atoms([(answer.checks, answer.placed, answer.tolerance) for answer in answers])
    places, rooms, box = find(atoms, boxes, count)
    is_kept = np.ones(len(places), dtype=bool)
    for index, answer in enumerate(answers):
        atom = answer.checks.atom
        if answer.ahead <= atom:
            continue
        of_answer = np.flatnonzero(boxes.atom[box] == index)
        if len(of_answer):
            rooms[of_answer] = np.minimum(rooms[of_answer], MOVABLE)
            here = (answer.placed, places[of_answer], box[of_answer])
            is_kept[of_answer] = continuing(answer.molecule.places, atom, *here, answer.ahead)
    return places[is_kept], rooms[is_kept], box[is_kept]
