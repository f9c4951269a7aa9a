"""The rows of a running batch: what each one is to write, where it stands, and what it reads next.

What the device needs is in tensors, one entry a row; what the host needs to hand steps out and to stop in time is in
plain lists beside them. A row that is done is given to the next request, or the rows behind it move up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.decode.sampling import steps_behind, uniform
from engine.decode.steps import Request
from engine.decode.work import Work, opening_cells
from engine.lp.driver import Tables, forced_runs
from engine.lp.table import Automaton

MOST_RUN = 8
"""Forced tokens that are appended at once; longer runs take another pass."""


def longest_run(requests: Sequence[Request]) -> int:
    """The most tokens that the cells of any program force in a row, its opening left out."""
    return max(int(forced_runs(request.program)[opening_cells(request) :].max(initial=0)) for request in requests)


class RowBatch:
    """Tensors of ``rows`` rows. ``noise`` holds the uniform numbers of a row's whole answer."""

    def __init__(self, automaton: Automaton, requests: Sequence[Request], rows: int, device: torch.device) -> None:
        longest = max(len(request.program) for request in requests)
        first = [request.program for request in requests[:rows]]
        self.tables = Tables.of(automaton, first, device, cells=longest)
        self.state = self.tables.start()
        zero = torch.zeros(rows, dtype=torch.int64, device=device)
        self.place = zero.clone()  # [B] how many tokens the cache holds
        self.pos = zero.clone()  # [B] how many tokens the answer has
        self.pending = torch.zeros((rows, 1), dtype=torch.int64, device=device)  # [B, w] written and not yet read
        self.count = zero.clone()  # [B] how many of them are meant
        most = max(request.limit for request in requests)
        none = torch.zeros(1, dtype=torch.int64, device=device)
        self.noise = uniform(0, none, none).repeat(rows, most + 1)  # [B, most + 1], of the type that the device has
        self.work: list[Work | None] = [None] * rows
        self.read: list[int] = [0] * rows  # ``place`` and ``count`` on the host
        self.waiting: list[int] = [0] * rows

    def __len__(self) -> int:
        return len(self.work)

    def put(self, row: int, work: Work, seed: int) -> None:
        """Give a row to a piece of work. Its prefix has still to be read."""
        request = work.request
        self.tables.put(row, request.program)
        self._stand(row, work, work.place(self.tables.automaton), seed)
        self.work[row] = work
        self.count[row], self.waiting[row] = 0, 0

    def go_back(self, row: int, work: Work, place: tuple[int, int], seed: int) -> None:
        """A row whose text has become shorter: it reads its last token again, and stands at this cell and node."""
        self._stand(row, work, place, seed)
        self.has_read(row, len(work.request.prompt) + len(work.written) - 1)
        self.pending[row, 0] = work.written[-1]
        self.count[row], self.waiting[row] = 1, 1

    def _stand(self, row: int, work: Work, place: tuple[int, int], seed: int) -> None:
        self.state.cell[row], self.state.node[row] = place
        self.pos[row] = len(work.written)
        steps = torch.arange(self.noise.shape[1], device=self.noise.device)
        numbers = uniform(seed, torch.full_like(steps, work.request.key), steps + steps_behind(work.rewinds))
        self.noise[row] = numbers

    def has_read(self, row: int, tokens: int) -> None:
        self.place[row] = tokens
        self.read[row] = tokens

    def numbers(self) -> Tensor:
        """[B] the uniform number of each row's next step."""
        return self.noise.gather(1, self.pos[:, None].clamp(max=self.noise.shape[1] - 1)).squeeze(1)

    def keep(self, order: list[int]) -> None:
        """These rows alone, in this order."""
        index = torch.tensor(order, device=self.place.device)
        self.tables = self.tables.keep(index)
        self.state = replace(self.state, cell=self.state.cell[index], node=self.state.node[index])
        self.place, self.pos, self.count = self.place[index], self.pos[index], self.count[index]
        self.pending, self.noise = self.pending[index], self.noise[index]
        self.work = [self.work[row] for row in order]
        self.read = [self.read[row] for row in order]
        self.waiting = [self.waiting[row] for row in order]


def closed_up(is_busy: Sequence[bool]) -> list[int]:
    """The order in which rows remain when those that are not busy go: the last ones move into the gaps."""
    count = sum(is_busy)
    behind = [row for row in range(count, len(is_busy)) if is_busy[row]]
    return [row if is_busy[row] else behind.pop() for row in range(count)]
