"""Requests that a server answers, under their LPs: ids in, masked scores out. Nothing here knows which server it is.

A row's state follows from its output ids: never from the number of calls. So a call for a row whose prompt is still
being read changes nothing (under ``shaped`` it may know more places), and a row whose last ids were taken back is
followed from its start. Nothing raises once a request is taken: a row in trouble may only end, and the log names it.
"""

from __future__ import annotations

import copy
import functools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.chem.enriched import described
from engine.chem.smiles import parse_written
from engine.errors import ConstraintError, shown
from engine.lp.constraint import Constraint, LpParameters, build_constraint, end_of
from engine.lp.exact import ExactConstraint
from engine.lp.follower import AutomatonRows, Follower, Symbols
from engine.lp.served import ServedLp
from engine.lp.shaped import ShapedMolecule
from engine.lp.shaped_answer import ProcessedAnswer, TokenAsker
from engine.lp.table import JUMP, KEEP, MOST_FEW, NEXT, NO_ID, STAY, SYMBOLS, Automaton, Program, live_columns
from engine.lp_records import GUARD_CHECKS, NO_LP
from engine.text.tokenizers import TextTokenizer

log = logging.getLogger(__name__)

MOST_COMPILED, MOST_CONSTRAINTS = 512, 16
"""Molecules and constraints that are kept compiled: a server answers many requests for one."""
MANY = 1 << 30
Read = Callable[[int], list[int]]
"""A row's ids from this one on."""
Places = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows, and the id of each; a server's scores may be a part of a wider memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A molecule under an LP. ``shape`` is None but under ``shaped``."""

    constraint: Constraint
    program: Program
    start: Follower
    shape: ShapedMolecule | None


class Compiler:
    """Of one model: its tokenizer, and the rows of its head."""

    def __init__(self, tokenizer: TextTokenizer, vocab_rows: int) -> None:
        self.tokenizer, self.vocab_rows, self.end_id = tokenizer, vocab_rows, end_of(tokenizer)
        self._prepared = functools.lru_cache(MOST_CONSTRAINTS)(self._prepare)
        self.compiled = functools.lru_cache(MOST_COMPILED)(self._compiled)

    def _prepare(self, lp: str, parameters: LpParameters) -> tuple[Constraint, AutomatonRows, ShortestAnswers]:
        constraint = build_constraint(lp, self.tokenizer, self.vocab_rows, parameters)
        automaton = constraint.automaton
        return constraint, AutomatonRows(automaton), ShortestAnswers(automaton, self.end_id)

    def _compiled(self, request: ServedLp) -> Compiled:
        """An error that a user can read where the LP cannot write the molecule."""
        constraint, rows, _ = self._prepared(request.record.name, request.parameters)
        molecule = described(parse_written(request.smiles), request.style)
        program = constraint.compile(molecule)
        shape = None
        if request.record.asks_tokens:
            assert isinstance(constraint, ExactConstraint)
            shape = ShapedMolecule(molecule.mol, program, constraint, GUARD_CHECKS)
        return Compiled(constraint, program, Follower(rows, program), shape)

    def check(self, request: ServedLp, most_tokens: int | None) -> None:
        """An error where it cannot be met, or no answer is so short. What is far too short is not compiled first."""
        atoms = parse_written(request.smiles).atoms * request.parameters.conformers
        least = atoms if most_tokens is not None and most_tokens < atoms and request.record.name != NO_LP else 0
        if not least:
            program = self.compiled(request).program
            least = self._prepared(request.record.name, request.parameters)[2].tokens(program)
        if most_tokens is not None and most_tokens < least:
            raise ConstraintError(
                f"max_tokens is {most_tokens:,}, and an answer for {shown(request.smiles)} has {least:,} or more",
                "Give more: 64, and 32 an atom, are usual",
            )


class ShortestAnswers:
    """How many tokens an answer has at least, by an automaton; blocks of one kind are looked at once."""

    def __init__(self, automaton: Automaton, end_id: int) -> None:
        self._automaton = automaton
        self._end = int(automaton.classes[end_id])  # some LPs let an answer end where tokens are free
        self._ends_inside = bool(automaton.legal[:, self._end].any())
        self._seen: dict[tuple[bytes, ...], NDArray[np.int64]] = {}

    def tokens(self, program: Program) -> int:
        nodes = len(self._automaton.goto)
        to_end = np.zeros((len(program) + 1, nodes), dtype=np.int64)  # from a cell and node; 0 behind the last cell
        for cell in range(len(program) - 1, -1, -1):
            behind = self._entered(to_end, program, cell + 1)
            if program.forced[cell] != NO_ID:
                to_end[cell] = 1 + behind
                continue
            jumped = self._entered(to_end, program, int(program.jump[cell]))
            shift = 0 if self._ends_inside else int(min(behind.min(), jumped.min()))
            has_symbols = program.symbols[cell] != NO_ID
            key = has_symbols.tobytes(), (behind - shift).tobytes(), (jumped - shift).tobytes()
            if key not in self._seen:
                self._seen[key] = self._from_cell(has_symbols, behind - shift, jumped - shift)
            to_end[cell] = self._seen[key] + shift
        return int(to_end[0, max(0, int(program.entry[0]))])

    @staticmethod
    def _entered(to_end: NDArray[np.int64], program: Program, cell: int) -> NDArray[np.int64]:
        """[Q] the tokens from a cell on, by the node that a row comes with."""
        tokens: NDArray[np.int64] = to_end[cell]
        if cell < len(program) and program.entry[cell] != KEEP:
            return np.full_like(tokens, tokens[program.entry[cell]])
        return tokens

    def _from_cell(
        self, has_symbols: NDArray[np.bool_], behind: NDArray[np.int64], jumped: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """[Q] the tokens from a free cell on, by node."""
        goto, move = self._automaton.goto, self._automaton.move
        legal = self._automaton.legal.copy()
        legal[:, -SYMBOLS:] &= has_symbols
        never = MANY + max(behind.max(), jumped.max())
        left = np.full(goto.shape, never)  # [Q, K] where the token leaves the cell
        for way, then in ((NEXT, behind), (JUMP, jumped)):
            left[legal & (move == way)] = 1 + then[goto[legal & (move == way)]]
        left[legal[:, self._end], self._end] = 1
        least: NDArray[np.int64] = left.min(axis=1)
        before = np.full(len(goto), never + 1)
        stays = legal & (move == STAY)
        while (least < before).any():
            before = least
            least = np.minimum(least, np.where(stays, 1 + least[goto], never).min(axis=1))
        return least


@dataclass(slots=True, eq=False)
class ServedRow:
    """One request that is being answered."""

    compiled: Compiled
    refused: str = ""  # why it may only end, whatever it wrote
    written: list[int] = field(default_factory=list)  # the ids that were followed
    trouble: str = ""  # why it may only end behind these
    is_over: bool = False  # behind its end token
    is_blind: bool = False  # an id is not known at this call
    is_proposed: bool = False  # tokens of a draft, which may be anything
    where: Follower = field(init=False)
    answer: ProcessedAnswer | None = field(init=False)

    def __post_init__(self) -> None:
        self._begin()
        if self.refused:
            log.warning("a request may only end: %s", self.refused)

    def _begin(self) -> None:
        """Before its first token."""
        shape = self.compiled.shape
        self.where, self.answer = copy.copy(self.compiled.start), None if shape is None else ProcessedAnswer(shape)
        self.written, self.trouble, self.is_over = [], "", False

    def twin(self) -> ServedRow:
        """The same, to be followed on by what a draft model proposes, without a change to this one."""
        twin = copy.copy(self)
        twin.written, twin.where, twin.is_proposed = list(self.written), copy.copy(self.where), True
        twin.answer = self.answer and self.answer.twin()
        return twin

    def fail(self, why: str) -> None:
        if not self.trouble:
            self.trouble = why
            if not self.is_proposed:
                log.warning("a row under %s may only end: %s", self.compiled.constraint.name, why)

    @property
    def may_only_end(self) -> bool:
        return self.is_over or self.is_blind or bool(self.trouble or self.refused)

    def follow(self, count: int, read: Read, end_id: int) -> None:
        """Up to the ``count`` ids that it has now; of those that were followed the last one is looked at again."""
        known = len(self.written)
        new = read(max(0, known - 1)) if count >= known else []
        if known and new and new[0] == self.written[-1]:
            new = new[1:]
        elif known:
            self._begin()
            new = read(0)
        was_blind, self.is_blind = self.is_blind, False
        for id_ in new:
            if id_ < 0:  # a server's mark for one that it does not know yet
                self.is_blind = True
                if not was_blind:
                    log.warning("a row under %s has an id that is not known", self.compiled.constraint.name)
                return
            self._take(id_, end_id)

    def _take(self, id_: int, end_id: int) -> None:
        self.written.append(id_)
        if self.is_over or self.trouble:
            return
        self.where.follow((id_,))
        self.is_over = id_ == end_id and not self.where.is_lost
        if self.where.is_lost:
            self.fail(f"its token {len(self.written):,} is {id_}, which was not allowed")
        elif self.answer is not None and not self.is_over:
            self.answer.read(id_, self.where.cell, self.where.node)


def of_list(ids: list[int]) -> Read:
    """Of a list that is at hand."""
    return lambda start: ids[start:]


class Blank:
    """Scores that are minus infinity but where a step writes: on a host, filling all of them anew takes longer than all
    else in a step. A finite score that others write between the steps would stay: what a server does to scores (its
    temperature, penalties and filters) leaves minus infinity as it is."""

    def __init__(self) -> None:
        self._scores = torch.zeros(0)
        self._written: list[Places] = []

    def only(self, scores: Tensor, at: Places) -> tuple[Tensor, NDArray[np.floating]]:
        """Minus infinity but ``at`` these places of ``scores`` [B, V], whose values there are kept; and these values.
        On a device, where a fill costs nothing, in ``scores`` themselves."""
        if scores.device.type != "cpu" or scores.dtype != torch.float32:
            return only_in(scores, at, range(len(scores)))
        if self._scores.shape != scores.shape:
            self._scores, self._written = torch.full(scores.shape, -torch.inf), []
        memory = self._scores.numpy()  # by numpy: a call of torch takes longer than its few values
        values = scores.numpy()[at]  # first: a server may give back what it got
        for written in self._written:
            memory[written] = -np.inf
        memory[at] = values
        self._written = [at]
        return self._scores, values

    def allow(self, kept: Tensor, row: int, id_: int) -> None:
        """This id too, in scores that came of ``only`` or ``only_in``."""
        kept[row, id_] = 0.0
        if kept is self._scores:
            self._written.append((np.array([row]), np.array([id_])))


def only_in(scores: Tensor, at: Places, rows: Sequence[int]) -> tuple[Tensor, NDArray[np.floating]]:
    """These rows become minus infinity but ``at`` these places; and the values there."""
    index = tuple(torch.from_numpy(part).to(scores.device) for part in at)
    values = scores[index]
    scores.index_fill_(0, torch.tensor(rows, device=scores.device), -torch.inf)
    scores[index] = values
    return scores, values.float().cpu().numpy()


class ServedBatch:
    """Rows of one constraint, which may come, go and change places from call to call."""

    def __init__(self, constraint: Constraint, end_id: int, device: torch.device, blank: Blank | None = None) -> None:
        """Batches that take turns may share a ``blank``."""
        self._constraint, self._end, self._device = constraint, end_id, device
        self._blank = blank or Blank()
        self._nodes: dict[int, NDArray[np.int64]] = {}  # the ids that each allows, symbols apart
        self._few: dict[tuple[int, Symbols], NDArray[np.int64]] = {}  # by node and the cell's symbols, where few
        self._single = functools.cache(lambda id_: np.array([id_]))
        self._masks: dict[int, Tensor] = {}  # bool [V] what a node does not allow, of those that allow many
        self._asker: TokenAsker | None = None

    def apply(self, logits: Tensor, index: Sequence[int], rows: Sequence[ServedRow]) -> Tensor:
        """``logits`` with these rows masked, by rising index; where they are all rows, perhaps in other memory, which
        the next call uses again. A row that makes an error may only end; the others go on."""
        try:
            return self._mask(logits, index, rows)
        except Exception:  # an error would end the server for everybody
            log.exception("rows under %s are looked at one by one", self._constraint.name)
        for at, row in zip(index, rows, strict=True):
            one = logits[at : at + 1]
            try:
                one.copy_(self._mask(one, [0], [row]))
            except Exception as error:  # noqa: BLE001 - as above
                row.fail(f"{type(error).__name__}, which the log has")
                one.fill_(-torch.inf)
                one[0, self._end] = 0.0
        return logits

    def _mask(self, logits: Tensor, index: Sequence[int], rows: Sequence[ServedRow]) -> Tensor:
        allowed = [self._allowed(row) for row in rows]
        few = {at: ids for at, ids in zip(index, allowed, strict=True) if len(ids) <= MOST_FEW}
        kept, best = self._keep_few(logits, few) if few else (logits, {})
        for at, row, ids in zip(index, rows, allowed, strict=True):
            if at not in few:
                best[at] = self._keep_many(kept[at], row.where.node, row.where.symbols)
            if best[at] == -math.inf:  # the end, and a forced token that the model holds for impossible, are possible
                if len(ids) > 1:
                    row.fail("no token that is allowed has a score")
                self._blank.allow(kept, at, int(ids[0]) if len(ids) == 1 else self._end)
        self._strike(kept, index, rows)
        return kept

    def _allowed(self, row: ServedRow) -> NDArray[np.int64]:
        """The ids that may come; one may be there twice. Of many the node's own, without its symbols."""
        forced = self._end if row.may_only_end else row.where.forced_id
        if forced != NO_ID:
            return self._single(forced)
        node, automaton = row.where.node, self._constraint.automaton
        key = node, row.where.symbols_of_cell
        if key in self._few:
            return self._few[key]
        if node not in self._nodes:
            self._nodes[node] = np.flatnonzero(automaton.legal[node][automaton.classes])
        of_node = self._nodes[node]
        if len(of_node) > MOST_FEW:
            return of_node
        self._few[key] = np.append(of_node, row.where.symbols).astype(np.int64)
        return self._few[key]

    def _keep_few(self, logits: Tensor, few: Mapping[int, NDArray[np.int64]]) -> tuple[Tensor, dict[int, float]]:
        """Of rows that allow these ids; the best score of each."""
        counts = [len(ids) for ids in few.values()]
        at = np.repeat(list(few), counts), np.concatenate(list(few.values()))
        if len(few) == len(logits):
            kept, scores = self._blank.only(logits, at)
        else:
            kept, scores = only_in(logits, at, list(few))
        starts = np.cumsum([0, *counts[:-1]])
        best = np.maximum.reduceat(scores, starts)
        return kept, dict(zip(few, best.tolist(), strict=True))

    def _keep_many(self, scores: Tensor, node: int, symbols: Sequence[int]) -> float:
        """Of one row [V]; its best score."""
        if node not in self._masks:
            mask = torch.ones(len(self._constraint.automaton.classes), dtype=torch.bool)
            mask[torch.from_numpy(self._nodes[node])] = False
            self._masks[node] = mask.to(self._device)
        kept = scores[self._tensor(symbols)]
        scores.masked_fill_(self._masks[node], -torch.inf)
        scores[self._tensor(symbols)] = kept
        return float(scores.max())

    def _strike(self, logits: Tensor, index: Sequence[int], rows: Sequence[ServedRow]) -> None:
        """Of rows under ``shaped`` the tokens that leave no right place."""
        asked = {
            at: row.answer for at, row in zip(index, rows, strict=True)
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
        of_rows = self._tensor(list(asked))[:, None], torch.from_numpy(self._asker.columns).to(self._device)
        masked = logits[of_rows]  # [asked, C]
        is_struck = self._asker.struck(list(asked.values()), masked.double().cpu().numpy())
        logits[of_rows] = masked.masked_fill(torch.from_numpy(is_struck).to(self._device), -torch.inf)

    def _tensor(self, values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)
