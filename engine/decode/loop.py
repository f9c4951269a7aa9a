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

from engine.decode.body import Body, KvCache, LiveHead, TokenLayout, grid_layout, packed_layout
from engine.decode.plan import DecodeOptions, Request
from engine.decode.rows import (
    MOST_RUN,
    RowBatch,
    Work,
    broken_logits,
    check_logits,
    forces_nothing_first,
    halved,
    longest_run,
    look,
    peak_memory_mb,
)
from engine.decode.sampling import is_broken, sample
from engine.decode.shaped_rows import AnswerShape, ShapedRow
from engine.decode.shaping import Shaper
from engine.decode.steps import Back, Counters, Diagnosis, Event, Events, Phase, StopReason, phase
from engine.lp.constraint import HasAutomaton
from engine.lp.driver import LOST
from engine.lp.exact import ExactConstraint
from engine.lp.shaped import ShapedTokens
from engine.lp.table import NO_ID

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
        constraint: HasAutomaton,
        end_id: int,
        vocab_size: int,
        requests: Sequence[Request],
        options: DecodeOptions,
        counters: Counters,
        cancelled: Callable[[], bool],
    ) -> None:
        self.body = body
        self.automaton = constraint.automaton
        self.end_id = end_id
        self.vocab_size = vocab_size
        self.options, self.counters, self.cancelled = options, counters, cancelled
        self.requests = sorted(requests, key=lambda request: -request.limit)
        self.queue = deque(Work(request) for request in self.requests)
        programs = [request.program for request in requests]
        self.head = LiveHead(self.body.head, self.automaton, programs, lambda: body.whole_head)
        self.shaper: Shaper | None = None
        if isinstance(constraint, ExactConstraint) and any(isinstance(one.guard, AnswerShape) for one in requests):
            tokens = ShapedTokens(constraint, self.head.ids.cpu().numpy())
            self.shaper = Shaper(tokens, options.sampling, self._redrawn)
        longest = longest_run(requests)
        self.run = 0 if options.is_stepwise else min(longest, MOST_RUN)
        # Where all that is forced is appended at once, every row that is to draw is at a real choice.
        self.is_settled = longest <= self.run and forces_nothing_first(self.automaton, programs)
        self.is_settled &= not options.is_stepwise  # it takes what is forced one by one, the opening too
        self.is_settled &= all(request.start is None and request.kept is None for request in requests)
        self.cache_length = max(len(request.prompt) + request.limit for request in requests) + ROOM
        self.size = options.batch_size
        self.batch: RowBatch | None = None
        self.events_out: list[Event] = []

    @torch.inference_mode()
    def events(self) -> Events:
        deadline = None if self.options.time_limit_s is None else time.monotonic() + self.options.time_limit_s
        while self.queue or self.batch is not None:
            is_late = deadline is not None and time.monotonic() >= deadline
            reason: StopReason = "cancelled" if self.cancelled() else "time"
            if is_late or reason == "cancelled":
                yield from [work.stop(reason) for work in (*self._active(), *self.queue)]
                return
            began = time.perf_counter()
            try:
                self._step()
            except RuntimeError as error:  # rows return to the queue as they are, and go on half as many at a time
                rows = min(self.size, len(self.queue)) if self.batch is None else len(self.batch)
                self.size = halved(rows, error, self.counters)
                self.queue.extendleft(reversed(self._active()))
                self.batch = None
            self.counters.decode_s += time.perf_counter() - began
            self.counters.peak_memory_mb = peak_memory_mb(self.body.device)
            events, self.events_out = self.events_out, []
            yield from events

    @contextmanager
    def clock(self, name: str) -> Iterator[None]:
        """Add to one of the counters' times, and mark the phase for a profiler."""
        began = time.perf_counter()
        with phase(PHASES[name]):
            yield
        setattr(self.counters, name, getattr(self.counters, name) + time.perf_counter() - began)

    def _active(self) -> list[Work]:
        return [] if self.batch is None else [work for work in self.batch.work if work is not None]

    def _step(self) -> None:
        batch = self.batch = self.batch or self._begun()
        # 1. Free rows are given to waiting requests; where none waits, they go.
        fresh = self._fill(batch)
        new_rows = batch.close_up()
        if not new_rows:
            self.batch = None
            return
        with phase("step"):
            # 2. The layers read what each row has written last, and all that a new row has before it.
            with self.clock("forward_s"):
                hidden = self._read(batch) if len(fresh) < len(batch) else None
                if fresh:
                    rows = [new_rows[row] for row in fresh]
                    with self.clock("prefill_s"):
                        last = self._prefill(rows, batch)
                    if hidden is None:
                        hidden = last
                    else:
                        hidden[rows] = last
            assert hidden is not None
            # 3. A token is drawn a row, and what is forced behind it is appended.
            self._choose(hidden, batch)

    def _begun(self) -> RowBatch:
        rows = min(self.size, len(self.queue))
        self.counters.batch_size = max(self.counters.batch_size, rows)
        return RowBatch(self.automaton, self.requests, rows, self.body, self.cache_length)

    def _fill(self, batch: RowBatch) -> list[int]:
        """The rows that have a prefix to read."""
        fresh = []
        for row in range(len(batch)):
            while batch.work[row] is None and self.queue:
                work = self.queue.popleft()
                if self._hand_out(work, *work.opening(is_stepwise=self.options.is_stepwise)):
                    continue
                batch.put(row, work, self.options.seed)
                fresh.append(row)
        return fresh

    def _read(self, batch: RowBatch) -> Tensor:
        """Hidden states [B, W] of the last token that each row has written."""
        width = max(batch.waiting)
        seen = max(map(int.__add__, batch.read, batch.waiting))
        ids = batch.pending[:, :width].reshape(-1)
        if min(batch.waiting) == width:
            layout = grid_layout(batch.cached, width, seen, sees_all=len(batch) == 1 and width == 1)
            hidden = self._forward(ids, layout, batch.cache)[width - 1 :: width]
        else:
            layout = packed_layout(batch.cached, batch.count, width, seen)
            hidden = self._forward(ids[layout.slots], layout, batch.cache)
            hidden = hidden[(batch.count.cumsum(0) - 1).clamp(min=0)]
        batch.cached = batch.cached + batch.count
        batch.read = [read + waiting for read, waiting in zip(batch.read, batch.waiting, strict=True)]
        return hidden

    def _prefill(self, rows: list[int], batch: RowBatch) -> Tensor:
        """Read the prefixes of rows: hidden states [k, W] of their last tokens."""
        prefixes = [work.prefix for work in batch.works_of(rows)]
        longest = max(map(len, prefixes))
        ids = torch.tensor([[*prefix, *[0] * (longest - len(prefix))] for prefix in prefixes], device=self.body.device)
        last = torch.tensor([len(prefix) - 1 for prefix in prefixes], device=self.body.device)
        index = torch.tensor(rows, device=self.body.device)
        states = torch.zeros((len(rows), self.body.width), dtype=self.body.dtype, device=index.device)
        for start in range(0, longest, PREFILL_WIDTH):
            part = ids[:, start : start + PREFILL_WIDTH]
            width = part.shape[1]
            layout = grid_layout(torch.full_like(last, start), width, start + width, index)
            hidden = self._forward(part.reshape(-1), layout, batch.cache).view(len(rows), width, -1)
            column = (last - start).clamp(0, width - 1)
            is_here = (last >= start) & (last < start + width)
            states = torch.where(is_here[:, None], hidden[torch.arange(len(rows), device=index.device), column], states)
        for row, prefix in zip(rows, prefixes, strict=True):
            batch.has_read(row, len(prefix))
        return states

    def _forward(self, ids: Tensor, layout: TokenLayout, cache: KvCache) -> Tensor:
        self.counters.forward_passes += 1
        return self.body(ids, layout, cache)

    def _choose(self, hidden: Tensor, batch: RowBatch) -> None:
        """Draw a token a row, append what is forced behind it, hand all of it out."""
        tables, state = batch.tables, batch.state
        self.head.asked.zero_()
        with self.clock("forward_s"):
            logits = self.head(hidden, state, tables.here(state))  # [B, C]
        with self.clock("sampling_s"):
            peak = logits.amax(dim=1)
            columns, dead = self._drawn(logits, batch)
            token = self.head.ids[columns]
        forced = token.new_full(token.shape, NO_ID) if self.is_settled else tables.forced_id(state)
        token = torch.where(forced == NO_ID, token, forced)
        diagnoses: Sequence[Diagnosis | None] = [None] * len(batch)
        if self.options.is_stepwise:
            raw = functional.linear(hidden, self.body.head).float()
            raw[:, self.vocab_size :] = -torch.inf
            check_logits(raw, self.body.name)
            allowed = tables.mask(state)
            diagnoses = look(self.options, self.automaton, self._active(), state, raw, allowed, token, forced != NO_ID)
        with self.clock("constraint_s"):
            if self.options.is_stepwise:
                batch.state = tables.step(state, token)
                batch.pending, batch.count = token[:, None], torch.ones_like(token)
            else:
                batch.pending, batch.count, batch.state = tables.advance(state, token, self.run)
            batch.pos = batch.pos + batch.count
        asked = self.head.asked.expand_as(forced)
        head = torch.stack(
            [is_broken(peak), peak.isneginf(), asked, batch.count, batch.state.cell, batch.state.node, forced], dim=1
        )
        rows = torch.cat([head, batch.pending], dim=1).tolist()  # the step's one copy to the host
        if any(row[0] for row in rows):
            raise broken_logits(self.body.name)
        for row, (_, has_no_token, is_seen, count, cell, node, forced_id, *tokens) in enumerate(rows):
            batch.waiting[row] = count
            if row in dead and self._leave_dead_end(row, batch):
                continue
            is_forced = forced_id != NO_ID
            is_empty = cell == LOST and not is_forced and bool(has_no_token)
            at = cell, node
            self._take(row, batch, tokens[:count], at, is_forced, is_empty, diagnoses[row], is_seen=bool(is_seen))

    def _drawn(self, logits: Tensor, batch: RowBatch) -> tuple[Tensor, list[int]]:
        """A column a row, and the rows at a dead end."""
        if self.shaper is None:
            return sample(logits, self.options.sampling, batch.numbers()), []
        guarded = [None if work is None else work.guarded for work in batch.work]
        rows = [row if isinstance(row, ShapedRow) else None for row in guarded]
        return self.shaper.choose(rows, logits, batch.numbers())

    def _redrawn(self, rows: Sequence[int], tries: Sequence[int]) -> Tensor:
        assert self.batch is not None
        return self.batch.redrawn(rows, tries, self.options.seed)

    def _leave_dead_end(self, row: int, batch: RowBatch) -> bool:
        """Whether the row went back."""
        work = batch.work[row]
        assert work is not None and isinstance(work.guarded, ShapedRow)
        back = work.guarded.go_back()
        if back is not None:
            self._go_back(row, batch, work, back)
        return back is not None

    def _take(
        self,
        row: int,
        batch: RowBatch,
        ids: Sequence[int],
        at: tuple[int, int],
        is_forced: bool,
        is_empty: bool,
        diagnosis: Diagnosis | None = None,
        *,
        is_seen: bool,
    ) -> bool:
        """Hand out a row's tokens, the first of them forced or not, which led to this cell and node; whether its guard
        then sent it back. A lost row stops: no token was legal, or the one that came was not."""
        work = batch.work[row]
        back = None
        cell = at[0]
        assert work is not None
        if cell == LOST:
            ids = () if is_empty else ids[:1]
        elif work.guarded is not None:
            ids, back = work.guarded.passed(work.written, ids, at, self.end_id)
        is_over = self._hand_out(work, ids, [is_forced, *[True] * len(ids)], diagnosis, is_seen=is_seen)
        if cell == LOST and not is_over:
            self.events_out.append(work.stop("empty_mask" if is_empty else "desync"))
        if cell == LOST or is_over:
            batch.work[row] = None
        elif back is not None:
            self._go_back(row, batch, work, back)
        return back is not None

    def _hand_out(
        self,
        work: Work,
        ids: Sequence[int],
        forced: Sequence[bool],
        diagnosis: Diagnosis | None = None,
        *,
        is_seen: bool = True,
    ) -> bool:
        """Steps for these ids, and a stop where the text ends; whether it did."""
        for id_, is_forced in zip(ids, forced, strict=False):
            step = work.write(id_, forced=is_forced, diagnosis=diagnosis, is_seen=is_seen)
            self.events_out.append(self.counters.count(step))
            reason = work.ended(self.end_id)
            if reason is not None:
                self.events_out.append(work.stop(reason))
                return True
        return False

    def _go_back(self, row: int, batch: RowBatch, work: Work, back: Back) -> None:
        work.go_back(back, self.counters)
        self.events_out.append(back)
        batch.go_back(row, work, work.start_of(back), self.options.seed)
