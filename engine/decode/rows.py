"""The rows of a running batch: what each is to write, where it is, what it reads next; and half as many of them
where memory is short.

`Work` is a request that is being answered, on either backend. `RowBatch` is the fast one's: what the device needs is in
tensors, one entry a row; what the host needs to hand steps out and to stop in time is in plain lists. A row
that is done is given to the next request, or the rows behind it move up.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from engine.decode.body import Body, KvCache
from engine.decode.diagnosis import blocks_and_rules, diagnose
from engine.decode.guarding import GuardedRow
from engine.decode.plan import DecodeOptions, Request
from engine.decode.sampling import is_broken, steps_behind, uniform
from engine.decode.shaped_rows import ShapedRow
from engine.decode.steps import Back, Choice, Counters, Diagnosis, Step, Stop, StopReason
from engine.errors import ModelError, shown
from engine.lp.driver import State, Tables, forced_runs
from engine.lp.table import ILLEGAL, NO_ID, Automaton, Program

MOST_RUN = 8
"""Forced tokens that are appended at once; longer runs take another pass."""
_SHORT = ("out of memory", "can't allocate memory", "not enough memory")
_UNITS_A_MB = 2**20 if sys.platform == "darwin" else 2**10


@dataclass(slots=True, eq=False)
class Work:
    """A request, and what was written so far. Work that is taken up again goes on behind it."""

    request: Request
    written: list[int] = field(default_factory=list)
    forced: list[bool] = field(default_factory=list)  # by token
    unseen: list[int] | None = field(default_factory=list)  # positions of tokens before which the LP was not asked
    guarded: GuardedRow | ShapedRow | None = field(init=False)

    def __post_init__(self) -> None:
        request = self.request
        self.guarded = None if request.guard is None else request.guard.row(request.sample, request.limit)
        if self.guarded is not None and request.kept is not None:
            self.guarded.read(request.kept)

    @property
    def rewinds(self) -> int:
        return 0 if self.guarded is None else self.guarded.rewinds

    def write(self, id_: int, *, forced: bool, diagnosis: Diagnosis | None = None, is_seen: bool = True) -> Step:
        """``is_seen``: whether the LP was asked before this token."""
        if not is_seen and self.unseen is not None:
            self.unseen.append(len(self.written))
        self.written.append(id_)
        self.forced.append(forced)
        shaping = self.guarded.take_shaping() if isinstance(self.guarded, ShapedRow) else None
        return Step(self.request.sample, len(self.written) - 1, id_, forced, diagnosis, shaping)

    def ended(self, end_id: int) -> StopReason | None:
        if self.written[-1] == end_id:
            return "end"
        return "length" if len(self.written) >= self.request.limit else None

    def stop(self, reason: StopReason) -> Stop:
        unmended = () if self.guarded is None else tuple(self.guarded.unmended)
        unseen = None if self.unseen is None else tuple(self.unseen)
        return Stop(self.request.sample, reason, unmended, unseen=unseen)

    def go_back(self, back: Back, counters: Counters) -> None:
        counters.throw_away(back, self.forced[back.pos :])
        del self.written[back.pos :], self.forced[back.pos :]
        if self.unseen:
            self.unseen = [pos for pos in self.unseen if pos < back.pos]

    @property
    def prefix(self) -> list[int]:
        """What a model has to read before the next token."""
        return [*self.request.prompt, *self.written]

    def opening(self, *, is_stepwise: bool = False) -> tuple[Sequence[int], Sequence[bool]]:
        """What comes before the first choice of a text that has not begun, and whether it is forced: the tokens that a
        branch keeps; else those that its LP forces, unless they come step by step."""
        program, kept = self.request.program, self.request.kept
        if self.written or self.request.start is not None:
            return (), ()
        if kept is not None:
            return kept.ids, kept.forced
        ids = [] if is_stepwise else program.forced[: forced_runs(program)[0]].tolist()
        return ids, [True] * len(ids)

    def start_of(self, back: Back) -> tuple[int, int]:
        """Cell and node of a text that went back there."""
        assert self.request.guard is not None
        kept = self.request.kept
        is_inside = kept is not None and back.pos == len(kept.ids)  # perhaps in the middle of a block
        return kept.places[-1] if kept is not None and is_inside else self.request.guard.start(back.block)

    def cell_and_node(self, automaton: Automaton) -> tuple[int, int]:
        """Cell and node behind what was written: each token of the opening takes a cell, the rest is followed."""
        program, ids, kept = self.request.program, self.written, self.request.kept
        if self.request.start is not None:
            cell, node = self.request.start
        elif kept is not None and kept.ids:
            (cell, node), ids = kept.places[-1], ids[len(kept.ids) :]
        else:
            done = min(int(forced_runs(program)[0]), len(ids))
            cell, ids = min(done, len(program) - 1), ids[done:]
            node = max(0, int(program.entry[cell]))
        if not ids:
            return cell, node
        tables = Tables.of(automaton, [program])
        state = State(torch.tensor([cell]), torch.tensor([node]))
        for id_ in ids:
            state = tables.step(state, torch.tensor([id_]))
        return int(state.cell), int(state.node)


def longest_run(requests: Sequence[Request]) -> int:
    """The most tokens that the cells of any program force in a row, its opening left out."""
    runs = [forced_runs(request.program) for request in requests]
    return max(int(run[run[0] :].max(initial=0)) for run in runs)


def forces_nothing_first(automaton: Automaton, programs: Sequence[Program]) -> bool:
    """Whether no free cell begins with, and no forced choice leads to, another choice that is forced.

    Then a row that has taken a token and what ``Tables.advance`` appends to it is at a real choice.
    """
    single = automaton.single() != NO_ID
    entries = np.unique(np.concatenate([program.entry[program.forced == NO_ID] for program in programs]))
    if single[entries[entries >= 0]].any():
        return False
    led = automaton.goto[single]
    return not single[led[led != ILLEGAL]].any()


def look(
    options: DecodeOptions,
    automaton: Automaton,
    works: Sequence[Work],
    state: State,
    raw: Tensor,
    allowed: Tensor,
    tokens: Tensor,
    forced: Tensor,
) -> Sequence[Diagnosis | None]:
    """Show a choice, before its tokens are written, to the tap; and say what the model thought: as far as asked for."""
    if options.tap is not None:
        requests, positions = [work.request for work in works], tuple(len(work.written) for work in works)
        samples, keys = tuple(request.sample for request in requests), tuple(request.key for request in requests)
        options.tap(Choice(samples, keys, positions, raw.float(), allowed, tokens, tuple(forced.tolist())))
    if not options.diagnostics:
        return [None] * len(works)
    blocks, rules = blocks_and_rules(automaton, [work.request.program for work in works], state)
    return diagnose(raw, allowed, tokens, options.candidates, blocks, rules, options.close_ids, options.sampling)


class RowBatch:
    """Tensors of ``rows`` rows. ``noise`` holds the uniform numbers of a row's whole answer."""

    def __init__(self, automaton: Automaton, requests: Sequence[Request], rows: int, body: Body, length: int) -> None:
        """``length``: of the cache."""
        device = body.device
        longest = max(len(request.program) for request in requests)
        first = [request.program for request in requests[:rows]]
        self.tables = Tables.of(automaton, first, device, cells=longest)
        self.state = self.tables.start()
        zero = torch.zeros(rows, dtype=torch.int64, device=device)
        self.cached = zero.clone()  # [B] how many tokens the cache holds
        self.pos = zero.clone()  # [B] how many tokens the answer has
        self.pending = torch.zeros((rows, 1), dtype=torch.int64, device=device)  # [B, w] written and not yet read
        self.count = zero.clone()  # [B] how many of them are meant
        most = max(request.limit for request in requests)
        none = torch.zeros(1, dtype=torch.int64, device=device)
        self.noise = uniform(0, none, none).repeat(rows, most + 1)  # [B, most + 1], of the type that the device has
        self.work: list[Work | None] = [None] * rows
        self.read: list[int] = [0] * rows  # ``cached`` and ``count`` on the host
        self.waiting: list[int] = [0] * rows
        self.cache = KvCache(body, rows, length)

    def __len__(self) -> int:
        return len(self.work)

    def put(self, row: int, work: Work, seed: int) -> None:
        """Give a row to a piece of work. Its prefix has still to be read."""
        self.tables.put(row, work.request.program)
        self._set_row(row, work, work.cell_and_node(self.tables.automaton), seed)
        self.work[row] = work
        self.count[row], self.waiting[row] = 0, 0

    def go_back(self, row: int, work: Work, start: tuple[int, int], seed: int) -> None:
        """A row with a text that has become shorter: it reads its last token again, and is at this cell and node."""
        self._set_row(row, work, start, seed)
        self.has_read(row, len(work.prefix) - 1)
        self.pending[row, 0] = work.written[-1]
        self.count[row], self.waiting[row] = 1, 1

    def _set_row(self, row: int, work: Work, start: tuple[int, int], seed: int) -> None:
        self.state.cell[row], self.state.node[row] = start
        self.pos[row] = len(work.written)
        steps = torch.arange(self.noise.shape[1], device=self.noise.device)
        keys = torch.full_like(steps, work.request.key)
        self.noise[row] = uniform(seed, keys, steps + steps_behind(work.rewinds))

    def has_read(self, row: int, tokens: int) -> None:
        self.cached[row] = tokens
        self.read[row] = tokens

    def numbers(self) -> Tensor:
        """[B] the uniform number of each row's next step."""
        return self.noise.gather(1, self.pos[:, None].clamp(max=self.noise.shape[1] - 1)).squeeze(1)

    def redrawn(self, rows: Sequence[int], tries: Sequence[int], seed: int) -> Tensor:
        """[rows] the uniform numbers of rows that draw their next step again, by how often they did."""
        behind = [
            (work, steps_behind(work.rewinds, count)) for work, count in zip(self.works_of(rows), tries, strict=True)
        ]
        keys = torch.tensor([work.request.key for work, _ in behind], device=self.noise.device)
        steps = torch.tensor([len(work.written) + far for work, far in behind], device=self.noise.device)
        return uniform(seed, keys, steps)

    def works_of(self, rows: Sequence[int]) -> list[Work]:
        works = [self.work[row] for row in rows]
        return [work for work in works if work is not None]

    def close_up(self) -> dict[int, int]:
        """Rows without work go, and the last ones move into the gaps; by row that stays, its new row."""
        busy = [work is not None for work in self.work]
        count = sum(busy)
        behind = [row for row in range(count, len(busy)) if busy[row]]
        order = [row if busy[row] else behind.pop() for row in range(count)]
        if 0 < count < len(busy):
            index = torch.tensor(order, device=self.cached.device)
            self.tables = self.tables.keep(index)
            self.state = State(self.state.cell[index], self.state.node[index])
            self.cached = self.cached[index]
            self.pos = self.pos[index]
            self.count = self.count[index]
            self.pending, self.noise = self.pending[index], self.noise[index]
            self.work = [self.work[row] for row in order]
            self.read = [self.read[row] for row in order]
            self.waiting = [self.waiting[row] for row in order]
            self.cache.keep(order)
        return {row: new_row for new_row, row in enumerate(order)}


def halved(size: int, error: RuntimeError, counters: Counters) -> int:
    """Half the batch where memory was short; else, and for a single row, an error.

    CUDA has a type of its own for it; a CPU's allocator and MPS say it in words.
    """
    if not isinstance(error, torch.OutOfMemoryError) and not any(words in str(error).lower() for words in _SHORT):
        raise error
    if size <= 1:
        raise ModelError(
            f"memory is too short for a single row ({error})",
            "Take a smaller model or device auto, or give a lower limit of tokens",
        ) from error
    counters.notes.append(f"memory was short: batches of {size // 2} from here on")
    return size // 2


def check_logits(logits: Tensor, model: str) -> None:
    """Of rows [B, V], with one look at the device."""
    if bool(is_broken(logits.amax(dim=1)).any()):
        raise broken_logits(model)


def broken_logits(model: str) -> ModelError:
    """What ends a call as soon as a row's logits are not finite: its tokens would mean nothing."""
    fix = "Use other weights, or a dtype with a wider range (bfloat16 or float32)"
    return ModelError(f"the logits of the model {shown(model, 200)} are not finite (NaN or an overflow)", fix)


def peak_memory_mb(device: torch.device) -> float:
    """The most that this process has taken: on the device if it is a GPU, else in main memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _UNITS_A_MB
