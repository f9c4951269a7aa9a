"""Compiled programs inside anyone's ``model.generate``, as a ``transformers`` logits processor.

Rows are the prompts in their order, each as often as ``num_return_sequences`` or ``num_beams`` repeats it. What was
written is read from the ids behind the prompt, so padding on the left does not matter, an instance may be used again,
and beams that change places take their state along. A row without a legal token is ended, and ``stops`` says why; the
others go on. (Where fewer tokens are legal than there are beams, beam search goes on with one of no probability: such a
beam is lost, is named in ``stops``, and cannot win.) Outside ``generate`` call it once a token.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import LogitsProcessor

from engine.errors import ConstraintError
from engine.lp.driver import LOST, State, Tables
from engine.lp.table import MOST_FEW, NO_ID, Automaton, Program


class ProgramProcessor(LogitsProcessor):
    """One batch of programs that are compiled already."""

    def __init__(self, automaton: Automaton, programs: Sequence[Program], end_id: int) -> None:
        self._automaton, self._programs = automaton, list(programs)
        self._end = end_id
        self._tables: Tables | None = None
        self._state: State | None = None
        self._seen: Tensor | None = None  # [R, T] the ids of the call before
        self._ended: Tensor | None = None  # bool [R]
        self._buffer: Tensor | None = None  # [R, V] of the scores' type: one for all steps
        self._legal: Tensor | None = None  # bool [R, V], likewise
        self.stops: dict[int, str] = {}

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self._check(input_ids, scores)
        self._follow(input_ids)
        assert self._tables is not None and self._state is not None and self._ended is not None
        if self._buffer is None or self._buffer.shape != scores.shape or self._buffer.dtype != scores.dtype:
            self._buffer = torch.empty_like(scores)
        lowest = scores.new_tensor(-torch.inf)
        if self._tables.live.numel() > MOST_FEW:
            if self._legal is None or self._legal.shape != scores.shape:
                self._legal = torch.empty_like(scores, dtype=torch.bool)
            legal = self._tables.mask(self._state, out=self._legal)  # [R, V]
            torch.where(legal, scores, lowest, out=self._buffer)
        else:
            ids, legal = self._tables.few(self._state)  # [R, L + 3]
            few = torch.where(legal, scores.gather(1, ids), lowest)
            self._buffer.fill_(-torch.inf).scatter_reduce_(1, ids, few, "amax")
        dead = ~legal.any(dim=1) | self._ended
        if bool(dead.any()):
            self._note(dead & ~self._ended)
            self._buffer[dead] = -torch.inf
        # The end of a dead row, and a forced token that the model holds for impossible, have to be possible.
        only = torch.where(dead, self._end, self._tables.forced_id(self._state))[:, None]
        at = only.clamp(min=0)
        value = self._buffer.gather(1, at)
        return self._buffer.scatter_(1, at, torch.where((only != NO_ID) & torch.isneginf(value), 0.0, value))

    def _follow(self, input_ids: Tensor) -> None:
        """Bring the state up to the ids: one step, of the row that each row goes on with."""
        origin = self._origin(input_ids)
        if origin is None:
            self.stops = {}
            self._begin(input_ids)
        else:
            self._reorder(origin)
            self._take(input_ids[:, -1])
        self._seen = input_ids.clone()

    def _begin(self, input_ids: Tensor) -> None:
        times = len(input_ids) // len(self._programs)
        if self._tables is None or len(self._tables) != len(input_ids):
            programs = [program for program in self._programs for _ in range(times)]
            self._tables = Tables.of(self._automaton, programs, input_ids.device)
        self._state = self._tables.start()
        self._ended = torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)

    def _origin(self, input_ids: Tensor) -> Tensor | None:
        """[R] the row of the call before that each row goes on with, of the same molecule; None for another text."""
        seen, rows = self._seen, torch.arange(len(input_ids), device=input_ids.device)
        if seen is None or input_ids.shape != (seen.shape[0], seen.shape[1] + 1):
            return None
        prefix = input_ids[:, :-1]
        if torch.equal(prefix, seen):
            return rows
        molecule = rows // (len(rows) // len(self._programs))
        is_same = (prefix[:, None] == seen[None]).all(dim=2) & (molecule[:, None] == molecule)
        return is_same.int().argmax(dim=1) if bool(is_same.any(dim=1).all()) else None

    def _reorder(self, origin: Tensor) -> None:
        assert self._state is not None and self._ended is not None
        self._state = State(self._state.cell[origin], self._state.node[origin])
        self._ended = self._ended[origin]

    def _take(self, token: Tensor) -> None:
        assert self._tables is not None and self._state is not None and self._ended is not None
        after = self._tables.step(self._state, token)
        self._state = State(
            torch.where(self._ended, self._state.cell, after.cell),
            torch.where(self._ended, self._state.node, after.node),
        )
        self._ended = self._ended | (token == self._end)

    def _note(self, dead: Tensor) -> None:
        assert self._state is not None
        for row in dead.nonzero().flatten().tolist():
            lost = int(self._state.cell[row]) == LOST
            self.stops.setdefault(row, "desync" if lost else "empty_mask")

    def _check(self, input_ids: Tensor, scores: Tensor) -> None:
        rows, programs = len(input_ids), len(self._programs)
        if rows % programs:
            raise ConstraintError(
                f"{rows} rows do not divide among {programs} molecules", "Give one molecule for each prompt"
            )
        width = len(self._automaton.classes)
        if scores.shape[1] != width:
            raise ConstraintError(
                f"the scores have {scores.shape[1]:,} columns, the constraint was built for {width:,}",
                "Build it with the model's own number of rows",
            )
