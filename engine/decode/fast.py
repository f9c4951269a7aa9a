"""The fast backend: our own loop over a model of ``transformers``, in which a constraint pays for itself.

Randomness belongs to (seed, key, step): a sample is the same in any batch, on either loop, and under plain ``generate``
with keyed draws. With diagnostics or a tap, and without a GPU, shapes follow the rows (`loop.py`). Here is the loop for
a GPU: steps of fixed shapes, captured as CUDA graphs, several of them without a word to the host.

A step reads a fixed number of tokens a row (a *width*), whatever has been written and not yet read; a row that has more
goes on reading in the next step, and draws when it has read all. Some steps are begun at once; what each has written is
handed out while those behind it run, and rows are given to the next requests when all are done. A graph is captured for
each number of cache slots that is seen; prompts are read outside of it. Every step also runs as it is, on any device:
the tokens are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from engine.decode.body import Body, grid_layout
from engine.decode.loop import Loop
from engine.decode.plan import DecodeOptions, Request
from engine.decode.rows import RowBatch, Work, broken_logits
from engine.decode.sampling import is_broken, sample
from engine.decode.shaped_rows import AnswerShape
from engine.decode.steps import Back, Counters, Events
from engine.lp.constraint import HasAutomaton
from engine.lp.driver import LOST, State
from engine.lp.table import NO_ID
from engine.models.architectures import positions_of

STEPS = 8
"""Steps between two looks at what was written. A row that ends in between idles for half of that on average."""
WIDTH = 4
"""Tokens a row reads in a step, where an LP forces runs: few rows pay on a GPU for a width of 4 what one of 1 costs."""
FEW_ROWS, ALIGNED = 64, 16
"""How many rows are few; and slots of which attention on a GPU takes a multiple as they are."""
SLOTS = 128
"""Cache slots that are seen grow in steps of so many: one graph for each."""
COUNT, REASON, FORCED, SEEN, CELL, NODE, TOKENS = range(7)
"""Columns of a report: how many tokens were written, why the row stopped, what was forced first, whether the LP was
asked, the cell and the node that all led to, and the tokens."""
GOES_ON, EMPTY, DESYNC, BROKEN = 0, 1, 2, 3


class FastBackend:
    """One model under one constraint. ``vocab_size`` is the tokenizer's: rows beyond it decode to nothing."""

    def __init__(
        self,
        model: Any,
        constraint: HasAutomaton,
        end_id: int,
        vocab_size: int,
        *,
        is_static: bool | None = None,
        compile: bool = False,
        has_kernels: bool = True,
    ) -> None:
        """``is_static``: steps of fixed shapes; None: where there is a CUDA device to capture them. ``has_kernels``:
        there by kernels of our own, where they run."""
        is_packed = False if compile else None  # compiled code has its own order
        self.body = Body(model, positions_of(model.config), is_packed=is_packed)
        self.why_plain = ""
        if compile:
            self.body.compile()
        elif has_kernels and self.body.device.type == "cuda":
            self.why_plain = _use_kernels(self.body)
        self.constraint, self.end_id, self.vocab_size = constraint, end_id, vocab_size
        self.is_static = self.body.device.type == "cuda" if is_static is None else is_static

    @property
    def positions(self) -> int:
        return self.body.positions

    def run(
        self,
        requests: Sequence[Request],
        options: DecodeOptions,
        counters: Counters,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Events:
        if not requests:
            return
        if self.why_plain and self.why_plain not in counters.notes:
            counters.notes.append(self.why_plain)
        is_asked = any(isinstance(request.guard, AnswerShape) for request in requests)  # on the host, each step
        loop = StaticLoop if self.is_static and not options.is_stepwise and not is_asked else Loop
        parts = (self.body, self.constraint, self.end_id, self.vocab_size)
        yield from loop(*parts, requests, options, counters, cancelled).events()


def _use_kernels(body: Body) -> str:
    """Why not; empty where they are used."""
    try:
        from engine.decode.kernels import use_kernels  # Triton comes with torch for CUDA alone
    except ImportError:
        return "without kernels of our own: Triton is missing"
    why_not = use_kernels(body)
    return f"without kernels of our own: {why_not}" if why_not else ""


class StaticLoop(Loop):
    """One call's queue and batch, in steps of fixed shapes."""

    def _begun(self) -> RowBatch:
        self.cache_length += -self.cache_length % ALIGNED
        batch = super()._begun()
        rows, room = len(batch), 2 + self.run
        device = self.body.device
        self.width = 1
        if self.run:
            self.width = min(WIDTH if rows <= FEW_ROWS else 2, room)
        self.is_active = torch.zeros(rows, dtype=torch.bool, device=device)
        self.ends_at = torch.zeros(rows, dtype=torch.int64, device=device)  # [B] the limit
        self.report = torch.zeros((STEPS, rows, TOKENS + room), dtype=torch.int64, device=device)
        self.on_host = torch.zeros_like(self.report, device="cpu", pin_memory=device.type == "cuda")
        batch.pending = torch.zeros((rows, room + self.width), dtype=torch.int64, device=device)
        self.turn = torch.zeros(1, dtype=torch.int64, device=device)  # which report the next step writes
        self.graphs: dict[int, Callable[[], object]] = {}
        self.pool: Any = None
        self.most_read = [0] * rows
        return batch

    def _step(self) -> None:
        batch = self.batch = self.batch or self._begun()
        self._start(self._fill(batch), batch)
        if not self._active():
            self.batch = None
            return
        with self.clock("forward_s"):
            self.turn.zero_()
            ends = [self._begin(number, batch) for number in range(STEPS)]
        went_back: set[int] = set()  # what such a row wrote since is void
        for number, end in enumerate(ends):
            with self.clock("forward_s"):
                if end is not None:
                    end.synchronize()
                report = self.on_host[number].tolist()
            with self.clock("constraint_s"):
                self._hand_out_step(report, batch, went_back)
        self.most_read = [0 if work is None else most for work, most in zip(batch.work, self.most_read, strict=True)]

    def _begin(self, number: int, batch: RowBatch) -> torch.cuda.Event | None:
        """One step, and the copy of its report to the host; on a GPU the event behind both."""
        self._graph(self._seen(number), batch)()
        self.counters.forward_passes += 1
        self.on_host[number].copy_(self.report[number], non_blocking=True)
        if self.body.device.type != "cuda":
            return None
        end = torch.cuda.Event()
        end.record()
        return end

    def _seen(self, number: int) -> int:
        """Slots that bound all positions of this step, whatever the steps before it have read."""
        most = max(self.most_read) + (number + 1) * self.width
        return min(-(-most // SLOTS) * SLOTS, self.cache_length)

    def _start(self, rows: list[int], batch: RowBatch) -> None:
        """Read the prefixes of new rows but for their last token, which is what they read first."""
        if not rows:
            return
        with self.clock("prefill_s"):
            self._prefill(rows, batch)  # the last token is read again, into the same slot
        for row in rows:
            work, length = batch.work[row], batch.read[row]
            assert work is not None
            batch.pending[row, 0] = work.prefix[-1]
            batch.count[row] = 1
            batch.cached[row] = length - 1
            self.is_active[row], self.ends_at[row] = True, work.request.limit
            self.most_read[row] = length

    def _graph(self, seen: int, batch: RowBatch) -> Callable[[], object]:
        """The step as a captured graph where there is a GPU, else as it is."""
        if seen not in self.graphs:
            self.graphs[seen] = self._captured(lambda: self._take_step(seen, batch), batch)
        return self.graphs[seen]

    def _captured(self, step: Callable[[], None], batch: RowBatch) -> Callable[[], object]:
        if self.body.device.type != "cuda":
            return step
        # What a step writes to, but for the cache: there it writes the same again.
        changed = [self.is_active, self.report, self.turn, batch.state.cell, batch.state.node]
        changed += [batch.cached, batch.pos, batch.pending, batch.count]
        kept = [tensor.clone() for tensor in changed]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()  # libraries set themselves up outside of the capture
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            step()
        self.pool = graph.pool()  # the next one's as well: nothing of it outlasts a step
        for tensor, before in zip(changed, kept, strict=True):
            tensor.copy_(before)
        return graph.replay

    def _take_step(self, seen: int, batch: RowBatch) -> None:
        hidden, is_ready = self._read_width(seen, batch)
        tables, state = batch.tables, batch.state
        self.head.asked.zero_()
        logits = self.head(hidden, state, tables.here(state))
        token = self.head.ids[sample(logits, self.options.sampling, batch.numbers())]
        forced = tables.forced_id(state)
        token = torch.where(forced == NO_ID, token, forced)
        tokens, count, after = tables.advance(state, token, self.run)
        peak = logits.amax(dim=1)
        is_empty = peak.isneginf() & (forced == NO_ID)
        reason = torch.where(after.cell == LOST, torch.where(is_empty, EMPTY, DESYNC), GOES_ON)
        reason = torch.where(is_broken(peak), BROKEN, reason)
        self._write_report(is_ready, count, reason, forced, after, tokens)
        self._move_on(batch, is_ready, tokens, count, after)

    def _read_width(self, seen: int, batch: RowBatch) -> tuple[Tensor, Tensor]:
        """Hidden states [B, W] of the last token that each row reads, and whether it has then read all of its own."""
        rows, width = len(batch), self.width
        take = torch.where(self.is_active, batch.count, 0).clamp(max=width)
        first = batch.cached.clamp(max=seen - width)
        layout = grid_layout(first, width, seen)
        hidden = self.body(batch.pending[:, :width].reshape(-1), layout, batch.cache).view(rows, width, -1)
        last = (take - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, hidden.shape[-1])
        columns = torch.arange(batch.pending.shape[1], device=take.device) + take[:, None]
        moved = batch.pending.gather(1, columns.clamp(max=batch.pending.shape[1] - 1))
        batch.pending.copy_(moved)
        batch.cached.add_(take)
        batch.count.sub_(take)
        return hidden.gather(1, last).squeeze(1), self.is_active & (batch.count == 0)

    def _write_report(
        self, is_ready: Tensor, count: Tensor, reason: Tensor, forced: Tensor, after: State, tokens: Tensor
    ) -> None:
        """Into the part of the report that has its turn."""
        columns = [torch.where(is_ready, count, 0), torch.where(is_ready, reason, GOES_ON), forced]
        columns.append(self.head.asked.expand_as(forced))
        self.report.index_copy_(
            0, self.turn, torch.cat([torch.stack([*columns, after.cell, after.node], dim=1), tokens], dim=1)[None]
        )
        self.turn.add_(1)

    def _move_on(self, batch: RowBatch, is_ready: Tensor, tokens: Tensor, count: Tensor, after: State) -> None:
        room = tokens.shape[1]
        columns = torch.arange(room, device=tokens.device)
        is_ended = ((tokens == self.end_id) & (columns < count[:, None])).any(dim=1)
        batch.pos.add_(torch.where(is_ready, count, 0))
        batch.count.copy_(torch.where(is_ready, count, batch.count))
        batch.pending[:, :room] = torch.where(is_ready[:, None], tokens, batch.pending[:, :room])
        batch.state.cell.copy_(torch.where(is_ready, after.cell, batch.state.cell))
        batch.state.node.copy_(torch.where(is_ready, after.node, batch.state.node))
        is_over = is_ended | (batch.pos >= self.ends_at) | (after.cell == LOST)
        self.is_active.logical_and_(~(is_ready & is_over))

    def _hand_out_step(self, report: list[list[int]], batch: RowBatch, went_back: set[int]) -> None:
        if any(reason == BROKEN for _, reason, *_ in report):
            raise broken_logits(self.body.name)
        for row, (count, reason, forced, is_seen, cell, node, *tokens) in enumerate(report):
            if batch.work[row] is None or not count or row in went_back:
                continue
            self.most_read[row] += count
            at, is_forced, is_empty = (cell, node), forced != NO_ID, reason == EMPTY
            if self._take(row, batch, tokens[:count], at, is_forced, is_empty, is_seen=bool(is_seen)):
                went_back.add(row)

    def _go_back(self, row: int, batch: RowBatch, work: Work, back: Back) -> None:
        super()._go_back(row, batch, work, back)
        self.is_active[row] = True
        self.most_read[row] = batch.read[row]
