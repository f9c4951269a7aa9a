"""Requests that a server answers, under their LPs: ids in, masked scores out. Nothing here knows which server it is.

A row's state follows from its output ids, read anew at each call: never from the number of calls. So a call for a row
whose prompt is still being read changes nothing, and a row that is taken up again, or whose last ids were taken back,
is followed from its start. Nothing raises once a request is taken: a row in trouble may only end, and is named.
"""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.chem.enriched import described
from engine.chem.smiles import parse_written
from engine.errors import ConstraintError, UnsupportedMoleculeError, shown
from engine.lp.constraint import Constraint, LpParameters, build_constraint, end_of
from engine.lp.driver import LOST, State, Tables
from engine.lp.exact import ExactConstraint
from engine.lp.served import ServedLp
from engine.lp.shaped import ShapedMolecule
from engine.lp.shaped_answer import ProcessedAnswer, TokenAsker
from engine.lp.table import JUMP, KEEP, NEXT, NO_ID, STAY, SYMBOLS, Automaton, Program, live_columns
from engine.lp_records import GUARD_CHECKS
from engine.text.tokenizers import TextTokenizer

log = logging.getLogger(__name__)

MOST_FEW = 4_096
"""Live ids up to which the legal ones are looked at one by one, and not the whole vocabulary."""
MOST_COMPILED, MOST_CONSTRAINTS = 4_096, 16
"""Molecules and constraints that are kept compiled: a server answers many requests for one."""
LEAST_ROOM, MORE = 8, 64
"""Rows that there is room for at least, and cells by which the room grows."""


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A molecule under an LP. ``shape`` is None but under ``shaped``, and there where no bounds are known."""

    constraint: Constraint
    program: Program
    shape: ShapedMolecule | None


class Compiler:
    """Of one model: its tokenizer, and the rows of its head."""

    def __init__(self, tokenizer: TextTokenizer, vocab_rows: int) -> None:
        self.tokenizer, self.vocab_rows, self.end_id = tokenizer, vocab_rows, end_of(tokenizer)
        self.constraint_of = functools.lru_cache(MOST_CONSTRAINTS)(self._constraint_of)
        self.compiled = functools.lru_cache(MOST_COMPILED)(self._compiled)
        self.least_of = functools.lru_cache(MOST_COMPILED)(self._least_of)

    def _constraint_of(self, lp: str, parameters: LpParameters) -> Constraint:
        return build_constraint(lp, self.tokenizer, self.vocab_rows, parameters)

    def _compiled(self, request: ServedLp) -> Compiled:
        """An error that a user can read where the LP cannot write the molecule."""
        molecule = described(parse_written(request.smiles), request.style)
        constraint = self.constraint_of(request.record.name, request.parameters)
        program = constraint.compile(molecule)
        shape = None
        if request.record.asks_tokens:
            assert isinstance(constraint, ExactConstraint)
            try:
                shape = ShapedMolecule(molecule.mol, program, constraint, GUARD_CHECKS)
            except UnsupportedMoleculeError as error:
                log.warning("%s is written as under exact: %s", shown(request.smiles), error.what)
        return Compiled(constraint, program, shape)

    def _least_of(self, request: ServedLp) -> int:
        compiled = self.compiled(request)
        return least_tokens(compiled.constraint.automaton, compiled.program, self.end_id)

    def check_limit(self, request: ServedLp, most_tokens: int) -> None:
        """An error where no answer is so short."""
        least = self.least_of(request)
        if most_tokens < least:
            raise ConstraintError(
                f"max_tokens is {most_tokens:,}, and an answer for {shown(request.smiles)} has {least:,} or more",
                "Give more: 64, and 32 an atom, are usual",
            )


def least_tokens(automaton: Automaton, program: Program, end_id: int) -> int:
    """The tokens of the shortest answer; some LPs let it end where tokens are free."""
    nodes, kinds = automaton.goto.shape
    never = len(program) * (nodes + 1)
    to_end = np.full((len(program) + 1, nodes), never)  # from each cell and node; behind the last cell nothing is left
    to_end[-1] = 0
    stays = automaton.legal & (automaton.move == STAY)
    for cell in range(len(program) - 1, -1, -1):
        if program.forced[cell] != NO_ID:
            to_end[cell] = 1 + _entered(to_end, program, cell + 1)
            continue
        legal = automaton.legal.copy()
        legal[:, kinds - SYMBOLS :] &= program.symbols[cell] != NO_ID
        behind = np.full((nodes, kinds), never)
        for move, target in ((NEXT, cell + 1), (JUMP, int(program.jump[cell]))):
            ends = legal & (automaton.move == move)
            behind[ends] = 1 + _entered(to_end, program, target)[automaton.goto[ends]]
        behind[legal[:, automaton.classes[end_id]], automaton.classes[end_id]] = 1
        least, before = behind.min(axis=1), None
        while before is None or (least < before).any():
            before = least
            least = np.minimum(least, np.where(stays & legal, 1 + least[automaton.goto], never).min(axis=1))
        to_end[cell] = least
    return int(to_end[0, max(0, int(program.entry[0]))])


def _entered(to_end: NDArray[np.int64], program: Program, cell: int) -> NDArray[np.int64]:
    """[Q] the tokens from a cell on, by the node that a row comes with."""
    tokens: NDArray[np.int64] = to_end[cell]
    if cell < len(program) and program.entry[cell] != KEEP:
        return np.full_like(tokens, tokens[program.entry[cell]])
    return tokens


@dataclass(slots=True, eq=False)
class ServedRow:
    """One request that is being answered."""

    compiled: Compiled
    cell: int = 0
    node: int = 0
    written: list[int] = field(default_factory=list)  # the ids that were followed
    answer: ProcessedAnswer | None = None
    is_over: bool = False  # behind its end token
    trouble: str = ""  # why it may only end
    is_blind: bool = False  # an id is not known at this call

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Before its first token."""
        program, shape = self.compiled.program, self.compiled.shape
        self.cell, self.node = 0, max(0, int(program.entry[0]))
        self.written, self.is_over = [], False
        self.answer = None if shape is None else ProcessedAnswer(shape)

    def twin(self) -> ServedRow:
        """The same, to be followed on without a change to this one."""
        twin = copy.copy(self)
        twin.written = list(self.written)
        twin.answer = self.answer and self.answer.twin()
        return twin

    def fail(self, why: str) -> None:
        if not self.trouble:
            self.trouble = why
            log.warning("a row under %s may only end: %s", self.compiled.constraint.name, why)

    @property
    def may_only_end(self) -> bool:
        return self.is_over or self.is_blind or bool(self.trouble)

    def behind(self, ids: Sequence[int]) -> Sequence[int]:
        """The ids that are still to be followed, up to one that is not known."""
        count = len(self.written)
        if self.written != ids[:count]:
            self._begin()
            count = 0
        new = ids[count:]
        self.is_blind = any(id_ < 0 for id_ in new)
        return new[: next((at for at, id_ in enumerate(new) if id_ < 0), None)]

    def take(self, id_: int, cell: int, node: int, end_id: int) -> None:
        """One more id, which led to this cell and node."""
        self.written.append(id_)
        if self.is_over or self.trouble:
            return
        self.cell, self.node, self.is_over = cell, node, id_ == end_id
        if cell == LOST:
            self.fail(f"its token {len(self.written):,} is {id_}, which was not allowed")
        elif self.answer is not None and not self.is_over:
            self.answer.read(id_, cell, node)


class ServedBatch:
    """Rows of one constraint, which may come, go and change places from call to call."""

    def __init__(self, constraint: Constraint, end_id: int, device: torch.device) -> None:
        self._constraint, self._end, self._device = constraint, end_id, device
        self._room: Tables | None = None  # for these rows, and for some more
        self._rows: list[ServedRow] = []
        self._asker: TokenAsker | None = None
        self._lowest = torch.tensor(-torch.inf, device=device)

    def apply(self, logits: Tensor, places: Sequence[int], rows: Sequence[ServedRow], ids: Sequence[list[int]]) -> None:
        """Mask the rows of ``logits`` at these places; ``ids`` are the answers so far."""
        try:
            self._follow(rows, ids)
            self._mask(logits, places, rows)
        except Exception:  # an error would end the server for everybody
            log.exception("rows under %s may only end", self._constraint.name)
            for row in rows:
                row.fail("an error, which the log has")
            logits[list(places)] = -torch.inf
            logits[list(places), self._end] = 0.0

    def _follow(self, rows: Sequence[ServedRow], ids: Sequence[list[int]]) -> None:
        waiting = [row.behind(of_row) for row, of_row in zip(rows, ids, strict=True)]
        tables = self._tables(rows)
        for step in range(max(map(len, waiting))):
            reading = [len(of_row) > step for of_row in waiting]
            tokens = [of_row[step] if reads else 0 for of_row, reads in zip(waiting, reading, strict=True)]
            after = tables.step(self._state(rows), self._tensor(tokens))
            where = zip(after.cell.tolist(), after.node.tolist(), strict=True)
            for row, reads, id_, (cell, node) in zip(rows, reading, tokens, where, strict=True):
                if reads:
                    row.take(id_, cell, node, self._end)

    def _mask(self, logits: Tensor, places: Sequence[int], rows: Sequence[ServedRow]) -> None:
        is_all = len(rows) == len(logits) and list(places) == list(range(len(logits)))
        part = logits if is_all else logits[list(places)]  # [rows, V], a copy where others stand between
        tables, state = self._tables(rows), self._state(rows)
        if tables.live.numel() > MOST_FEW:
            legal = tables.mask(state)
            part.masked_fill_(~legal, -torch.inf)
        else:
            columns, legal = tables.few(state)  # [rows, L + 3]
            few = torch.where(legal, part.gather(1, columns), self._lowest)
            part.fill_(-torch.inf).scatter_reduce_(1, columns, few, "amax")
        for row, is_open in zip(rows, legal.any(dim=1).tolist(), strict=True):
            if not (is_open or row.may_only_end):
                row.fail("no token is allowed")
        ends = [row.may_only_end for row in rows]
        if any(ends):
            part[torch.tensor(ends, device=self._device)] = -torch.inf
        # The end, and a forced token that the model holds for impossible, have to be possible.
        only = torch.where(torch.tensor(ends, device=self._device), self._end, tables.forced_id(state))[:, None]
        at = only.clamp(min=0)
        value = part.gather(1, at)
        part.scatter_(1, at, torch.where((only != NO_ID) & torch.isneginf(value), 0.0, value))
        self._strike(part, rows)
        if part is not logits:
            logits[list(places)] = part

    def _strike(self, part: Tensor, rows: Sequence[ServedRow]) -> None:
        """Of rows under ``shaped`` the tokens that leave no right place."""
        asked = {
            at: row.answer for at, row in enumerate(rows)
            if row.answer is not None and not row.may_only_end and row.answer.is_asked
        }  # fmt: skip
        if not asked:
            return
        assert isinstance(self._constraint, ExactConstraint)
        columns = live_columns(self._constraint.automaton, [row.compiled.program for row in rows])
        if self._asker is None or not np.isin(columns, self._asker.columns).all():
            if self._asker is not None:
                columns = np.union1d(columns, self._asker.columns)
            self._asker = TokenAsker(self._constraint, columns)
        of_rows = self._tensor(list(asked))[:, None], self._tensor(self._asker.columns.tolist())
        masked = part[of_rows]  # [asked, C]
        is_struck = self._asker.struck(list(asked.values()), masked.double().cpu().numpy())
        part[of_rows] = masked.masked_fill(torch.from_numpy(is_struck).to(self._device), -torch.inf)

    def _state(self, rows: Sequence[ServedRow]) -> State:
        return State(self._tensor([row.cell for row in rows]), self._tensor([row.node for row in rows]))

    def _tables(self, rows: Sequence[ServedRow]) -> Tables:
        """Of these rows. Only what changed since the call before is written."""
        cells = max(len(row.compiled.program) for row in rows)
        if self._room is None or len(self._room) < len(rows) or self._room.cells.shape[1] < cells:
            programs = [row.compiled.program for row in rows]
            room = max(LEAST_ROOM, 2 * len(rows))
            programs += programs[:1] * (room - len(rows))
            self._room = Tables.of(self._constraint.automaton, programs, self._device, cells=-(-cells // MORE) * MORE)
        else:
            for at, row in enumerate(rows):
                if at >= len(self._rows) or self._rows[at] is not row:
                    self._room.put(at, row.compiled.program)
        self._rows = list(rows)
        return replace(self._room, cells=self._room.cells[: len(rows)])

    def _tensor(self, values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)
