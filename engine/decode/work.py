"""A request that is being answered, on either backend, and where its text stands in its program."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from engine.decode.guarding import GuardedRow
from engine.decode.steps import Back, Counters, Request, Stop, StopReason
from engine.lp.driver import State, Tables, forced_runs
from engine.lp.table import Automaton


@dataclass(slots=True, eq=False)
class Work:
    """A request, and what was handed out so far. Work that is taken up again goes on behind it."""

    request: Request
    written: list[int] = field(default_factory=list)
    forced: list[bool] = field(default_factory=list)  # by token
    guarded: GuardedRow | None = field(init=False)

    def __post_init__(self) -> None:
        guard = self.request.guard
        self.guarded = None if guard is None else GuardedRow(guard, self.request.limit)

    @property
    def rewinds(self) -> int:
        return 0 if self.guarded is None else self.guarded.rewinds

    def stop(self, reason: StopReason) -> Stop:
        if self.guarded is None:
            return Stop(self.request.sample, reason)
        return Stop(self.request.sample, reason, tuple(self.guarded.unmended))

    def add(self, id_: int, *, forced: bool) -> None:
        self.written.append(id_)
        self.forced.append(forced)

    def go_back(self, back: Back, counters: Counters) -> None:
        counters.throw_away(back, self.forced[back.pos :])
        del self.written[back.pos :], self.forced[back.pos :]

    @property
    def prefix(self) -> list[int]:
        """What a model has to read before the next token."""
        return [*self.request.prompt, *self.written]

    @property
    def left(self) -> int:
        return self.request.limit - len(self.written)

    def opening(self) -> list[int]:
        """What is forced before the first choice of a text that has not begun."""
        if self.written or self.request.start is not None:
            return []
        return list(map(int, self.request.program.forced[: opening_cells(self.request)]))

    def place(self, automaton: Automaton) -> tuple[int, int]:
        """Cell and node behind what was written: each token of the opening takes a cell, the rest is followed."""
        program, ids = self.request.program, self.written
        if self.request.start is not None:
            cell, node = self.request.start
        else:
            done = min(opening_cells(self.request), len(ids))
            cell, ids = min(done, len(program) - 1), ids[done:]
            node = max(0, int(program.entry[cell]))
        if not ids:
            return cell, node
        tables = Tables.of(automaton, [program])
        state = State(torch.tensor([cell]), torch.tensor([node]))
        for id_ in ids:
            state = tables.step(state, torch.tensor([id_]))
        return int(state.cell), int(state.node)


def opening_cells(request: Request) -> int:
    return int(forced_runs(request.program)[0])
