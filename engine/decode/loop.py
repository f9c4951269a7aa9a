"""The fast loop, on any device: a pass a choice, in shapes that follow the rows.

A step runs the layers on what each row has written and not yet read, the output head on the columns that the
constraint may allow, and appends what is forced behind the token that was drawn; so forced tokens take no pass of
their own, and those behind the last number take none at all. A row that ends is given to the next request, longest
first; when none waits, the batch shrinks. With diagnostics or a tap the loop takes one token a pass and the full head.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional

from engine.decode.batch import MOST_RUN, RowBatch, closed_up, longest_run
from engine.decode.body import Body, KvCache, Places, grid_places, packed_places
from engine.decode.diagnosis import blocks_and_rules, diagnose
from engine.decode.guarding import Rewind
from engine.decode.head import LiveHead, forces_nothing_first
from engine.decode.memory import halved, is_out_of_memory, peak_memory_mb
from engine.decode.phases import Phase, phase
from engine.decode.sampling import sample
from engine.decode.steps import (
    Back,
    Choice,
    Counters,
    DecodeOptions,
    Diagnosis,
    Event,
    Events,
    Request,
    Step,
    StopReason,
)
from engine.decode.work import Work
from engine.lp.driver import LOST
from engine.lp.table import NO_ID, Automaton

PREFILL_WIDTH = 256
"""Tokens of a prompt that are read in one pass."""
PHASES: dict[str, Phase] = {
    "prefill_s": "prefill",
    "forward_s": "decode",
    "constraint_s": "constraint",
    "sampling_s": "sample",
}
"""What a counter's time is called."""
ROOM = 16
"""Cache slots behind the longest text, for what is appended beyond a limit and for padding."""


class Loop:
    """One call's queue and batch."""

    def __init__(
        self,
        body: Body,
        automaton: Automaton,
        end_id: int,
        vocab_size: int,
        requests: Sequence[Request],
        options: DecodeOptions,
        counters: Counters,
        cancelled: Callable[[], bool],
    ) -> None:
        self.body, self.automaton, self.end_id, self.vocab_size = body, automaton, end_id, vocab_size
        self.options, self.counters, self.cancelled = options, counters, cancelled
        self.requests = sorted(requests, key=lambda request: -request.limit)
        self.queue = deque(Work(request) for request in self.requests)
        programs = [request.program for request in requests]
        self.head = LiveHead(self.body.head, self.automaton, programs, lambda: body.whole_head)
        longest = longest_run(requests)
        self.run = 0 if options.is_stepwise else min(longest, MOST_RUN)
        # Where all that is forced is appended at once, every row that is to draw stands at a real choice.
        self.is_settled = longest <= self.run and forces_nothing_first(self.automaton, programs)
        self.is_settled &= all(request.start is None for request in requests)
        self.cache_length = max(len(request.prompt) + request.limit for request in requests) + ROOM
        self.size = options.batch_size
        self.batch: RowBatch | None = None
        self.cache: KvCache | None = None
        self.events_out: list[Event] = []

    @torch.inference_mode()
    def events(self) -> Events:
        deadline = None if self.options.time_limit_s is None else time.monotonic() + self.options.time_limit_s
        while self.queue or self.batch is not None:
            reason = self._over(deadline)
            if reason is not None:
                yield from [work.stop(reason) for work in (*self._active(), *self.queue)]
                return
            began = time.perf_counter()
            try:
                self._step()
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                self._halve(error)
            self.counters.decode_s += time.perf_counter() - began
            self.counters.peak_memory_mb = peak_memory_mb(self.body.device)
            found, self.events_out = self.events_out, []
            yield from found

    @contextmanager
    def clock(self, name: str) -> Iterator[None]:
        """Add to one of the counters' times, and mark the phase for a profiler."""
        began = time.perf_counter()
        with phase(PHASES[name]):
            yield
        setattr(self.counters, name, getattr(self.counters, name) + time.perf_counter() - began)

    def _over(self, deadline: float | None) -> StopReason | None:
        if self.cancelled():
            return "cancelled"
        return "time" if deadline is not None and time.monotonic() >= deadline else None

    def _active(self) -> list[Work]:
        return [] if self.batch is None else [work for work in self.batch.work if work is not None]

    # --- one step -------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        if self.batch is None:
            self._begin()
        batch, cache = self.batch, self.cache
        assert batch is not None and cache is not None
        fresh = self._fill(batch)
        busy = [work is not None for work in batch.work]
        if not all(busy):
            if not any(busy):
                self.batch = self.cache = None
                return
            order = closed_up(busy)
            fresh = [order.index(row) for row in fresh]
            batch.keep(order)
            cache.keep(order)
        with phase("step"):
            with self.clock("forward_s"):
                read = None if len(fresh) == len(batch) else self._read(batch, cache)
                hidden = self._with_prefill(read, fresh, batch, cache)
            self._choose(hidden, batch)

    def _begin(self) -> None:
        rows = min(self.size, len(self.queue))
        self.counters.batch_size = max(self.counters.batch_size, rows)
        self.batch = RowBatch(self.automaton, self.requests, rows, self.body.device)
        self.cache = KvCache(self.body, rows, self.cache_length)

    def _fill(self, batch: RowBatch) -> list[int]:
        """Give free rows to waiting requests; the rows that have a prefix to read."""
        fresh = []
        for row in range(len(batch)):
            while batch.work[row] is None and self.queue:
                work = self.queue.popleft()
                if not self.options.is_stepwise:
                    ids = work.opening()
                    if self._hand_out(work, ids, [True] * len(ids)):
                        continue
                batch.put(row, work, self.options.seed)
                fresh.append(row)
        return fresh

    def _read(self, batch: RowBatch, cache: KvCache) -> Tensor:
        """Run the layers on what the rows have written last: hidden states [B, W] of each row's last token."""
        width = max(batch.waiting)
        seen = max(map(int.__add__, batch.read, batch.waiting))
        ids = batch.pending[:, :width].reshape(-1)
        is_grid = min(batch.waiting) == width
        if is_grid:
            places = grid_places(batch.place, width, seen, sees_all=len(batch) == 1 and width == 1)
            hidden = self._forward(ids, places, cache)[width - 1 :: width]
        else:
            places = packed_places(batch.place, batch.count, width, seen)
            hidden = self._forward(ids[places.slots], places, cache)
            hidden = hidden[(batch.count.cumsum(0) - 1).clamp(min=0)]
        batch.place = batch.place + batch.count
        batch.read = [read + waiting for read, waiting in zip(batch.read, batch.waiting, strict=True)]
        return hidden

    def _with_prefill(self, read: Tensor | None, fresh: list[int], batch: RowBatch, cache: KvCache) -> Tensor:
        if not fresh:
            assert read is not None
            return read
        with self.clock("prefill_s"):
            last = self._prefill(fresh, batch, cache)
        if read is None:
            return last
        read[fresh] = last
        return read

    def _prefill(self, rows: list[int], batch: RowBatch, cache: KvCache) -> Tensor:
        """Read the prefixes of rows: hidden states [k, W] of their last tokens."""
        prefixes = [work.prefix for row in rows if (work := batch.work[row]) is not None]
        longest = max(map(len, prefixes))
        ids = torch.tensor([[*prefix, *[0] * (longest - len(prefix))] for prefix in prefixes], device=self.body.device)
        last = torch.tensor([len(prefix) - 1 for prefix in prefixes], device=self.body.device)
        index = torch.tensor(rows, device=self.body.device)
        found = torch.zeros((len(rows), self.body.width), dtype=self.body.dtype, device=index.device)
        for start in range(0, longest, PREFILL_WIDTH):
            part = ids[:, start : start + PREFILL_WIDTH]
            width = part.shape[1]
            places = grid_places(torch.full_like(last, start), width, start + width, index)
            hidden = self._forward(part.reshape(-1), places, cache).view(len(rows), width, -1)
            column = (last - start).clamp(0, width - 1)
            is_here = (last >= start) & (last < start + width)
            found = torch.where(is_here[:, None], hidden[torch.arange(len(rows), device=index.device), column], found)
        for row, prefix in zip(rows, prefixes, strict=True):
            batch.has_read(row, len(prefix))
        return found

    def _forward(self, ids: Tensor, places: Places, cache: KvCache) -> Tensor:
        self.counters.forward_passes += 1
        return self.body(ids, places, cache)

    # --- the choice -----------------------------------------------------------------------------------------------

    def _choose(self, hidden: Tensor, batch: RowBatch) -> None:
        """Draw a token a row, append what is forced behind it, hand all of it out."""
        tables, state = batch.tables, batch.state
        with self.clock("forward_s"):
            logits = self.head(hidden, state, tables.here(state))  # [B, C]
        with self.clock("sampling_s"):
            token = self.head.ids[sample(logits, self.options.sampling, batch.numbers())]
        forced = token.new_full(token.shape, NO_ID) if self.is_settled else tables.forced_id(state)
        token = torch.where(forced == NO_ID, token, forced)
        diagnoses = self._looked_at(hidden, batch, token, forced) if self.options.is_stepwise else None
        with self.clock("constraint_s"):
            self._append(batch, token)
        head = torch.stack([batch.count, batch.state.cell, forced], dim=1)
        rows = torch.cat([head, batch.pending], dim=1).tolist()  # the step's one copy to the host
        self._report(rows, batch, diagnoses, logits)

    def _append(self, batch: RowBatch, token: Tensor) -> None:
        if self.options.is_stepwise:
            batch.state = batch.tables.step(batch.state, token)
            batch.pending, batch.count = token[:, None], torch.ones_like(token)
        else:
            batch.pending, batch.count, batch.state = batch.tables.advance(batch.state, token, self.run)
        batch.pos = batch.pos + batch.count

    def _report(
        self, rows: list[list[int]], batch: RowBatch, diagnoses: list[Diagnosis] | None, logits: Tensor
    ) -> None:
        for row, (count, cell, forced, *tokens) in enumerate(rows):
            work = batch.work[row]
            assert work is not None
            batch.waiting[row] = count
            if cell == LOST:
                is_empty = forced == NO_ID and bool(torch.isneginf(logits[row]).all())
                self._lost(work, tokens[0], forced != NO_ID, is_empty=is_empty)
                batch.work[row] = None
                continue
            flags = [forced != NO_ID, *[True] * (count - 1)]
            self._take(row, batch, tokens[:count], flags, cell, diagnoses[row] if diagnoses else None)

    def _take(
        self,
        row: int,
        batch: RowBatch,
        ids: Sequence[int],
        forced: Sequence[bool],
        cell: int,
        diagnosis: Diagnosis | None = None,
    ) -> bool:
        """Hand out a row's tokens, which led to this cell; whether its guard then sent it back."""
        work, rewind = batch.work[row], None
        assert work is not None
        if work.guarded is not None:
            ids, rewind = work.guarded.passed(work.written, ids, cell, self.end_id)
        if self._hand_out(work, ids, forced[: len(ids)], diagnosis):
            batch.work[row] = None
        elif rewind is not None:
            self._go_back(row, batch, work, rewind)
        return rewind is not None

    def _go_back(self, row: int, batch: RowBatch, work: Work, rewind: Rewind) -> None:
        assert work.request.guard is not None
        back = Back(work.request.sample, rewind.pos, rewind.block, rewind.wrong)
        work.go_back(back, self.counters)
        self.events_out.append(back)
        batch.go_back(row, work, work.request.guard.start(back.block), self.options.seed)

    def _lost(self, work: Work, token: int, forced: bool, *, is_empty: bool) -> None:
        """No token was legal, or one came that was not."""
        if is_empty:
            self.events_out.append(work.stop("empty_mask"))
            return
        if not self._hand_out(work, [token], [forced]):
            self.events_out.append(work.stop("desync"))

    def _hand_out(
        self, work: Work, ids: Sequence[int], forced: Sequence[bool], diagnosis: Diagnosis | None = None
    ) -> bool:
        """Steps for these ids, and a stop where the text ends; whether it did."""
        sample, written, out = work.request.sample, work.written, self.events_out
        for id_, is_forced in zip(ids, forced, strict=True):
            out.append(self.counters.count(Step(sample, len(written), id_, is_forced, diagnosis)))
            work.add(id_, forced=is_forced)
            if id_ == self.end_id or len(written) >= work.request.limit:
                out.append(work.stop("end" if id_ == self.end_id else "length"))
                return True
        return False

    def _looked_at(self, hidden: Tensor, batch: RowBatch, token: Tensor, forced: Tensor) -> list[Diagnosis] | None:
        """Show the choice to the tap, and say what the model thought, as far as each is asked for."""
        raw = functional.linear(hidden, self.body.head).float()
        raw[:, self.vocab_size :] = -torch.inf
        allowed = batch.tables.mask(batch.state)
        if self.options.tap is not None:
            self.options.tap(_choice(batch, raw, allowed, token, forced))
        return self._diagnoses(raw, allowed, batch, token) if self.options.diagnostics else None

    def _diagnoses(self, raw: Tensor, allowed: Tensor, batch: RowBatch, token: Tensor) -> list[Diagnosis]:
        programs = [work.request.program for work in batch.work if work is not None]
        blocks, rules = blocks_and_rules(self.automaton, programs, batch.state)
        options = self.options
        return diagnose(raw, allowed, token, options.candidates, blocks, rules, options.close_ids, options.sampling)

    # --- memory ---------------------------------------------------------------------------------------------------

    def _halve(self, error: RuntimeError) -> None:
        """Put the rows back into the queue, where they are, and go on with half as many at a time."""
        self.size = halved(min(self.size, len(self.batch or [1])), error)
        self.counters.notes.append(f"memory was short: batches of {self.size} from here on")
        self.queue.extendleft(reversed(self._active()))
        self.batch = self.cache = None


def _choice(batch: RowBatch, raw: Tensor, allowed: Tensor, token: Tensor, forced: Tensor) -> Choice:
    works = [work for work in batch.work if work is not None]
    return Choice(
        tuple(work.request.sample for work in works),
        tuple(work.request.key for work in works),
        tuple(len(work.written) for work in works),
        raw,
        allowed,
        token,
        tuple((forced != NO_ID).tolist()),
    )
