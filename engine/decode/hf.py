"""The backend ``hf``: plain ``generate`` with any constraint, the yardstick that the fast backend is measured by.

``generate`` calls, and is not called: it passes a step's scores through its logits processors, picks a token a row, and
asks its stopping criteria. So it runs in a thread of its own, and hands over each step's events as they come. (A
generator in place of its loop would be another loop than the one that is to be measured.) Nothing of the model's own
``generation_config.json`` takes part. A sample depends on the seed and its own key, and on no other sample.

Where memory is short the batch is halved, and rows that are not finished go on behind what they have written.
"""

from __future__ import annotations

import copy
import functools
import gc
import math
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from queue import Queue
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
    StoppingCriteria,
    StoppingCriteriaList,
)

from engine.decode.plan import DecodeOptions, Request, Sampling
from engine.decode.rows import Work, check_logits, halved, look, peak_memory_mb
from engine.decode.sampling import sample, steps_behind, uniform
from engine.decode.shaped_rows import ShapedRow
from engine.decode.shaping import Shaper
from engine.decode.steps import Back, Counters, Diagnosis, Event, Step, Stop, StopReason, phase
from engine.lp.constraint import HasAutomaton, check_rows
from engine.lp.driver import State, Tables
from engine.lp.exact import ExactConstraint
from engine.lp.processor import ProgramProcessor
from engine.lp.shaped import ShapedTokens
from engine.lp.table import DEAD, NO_ID, live_columns
from engine.lp.unconstrained import Unconstrained
from engine.models.architectures import positions_of

HandOver = Callable[[list[Event]], bool]
"""Takes what one step of a batch led to; says whether to go on."""
Generate = Callable[[HandOver], None]

ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Not cuDNN's: on a GPU it makes a new plan for each length, 45 ms of a pass on an H200."""
AHEAD = 16
"""Steps that ``generate`` may be ahead of whoever reads them."""


class HfBackend:
    """A model under a constraint. One run at a time."""

    def __init__(self, model: PreTrainedModel, constraint: HasAutomaton, end_id: int, vocab_size: int) -> None:
        """``vocab_size`` is the tokenizer's: rows of the model beyond it have no token."""
        check_rows(constraint, model.config.get_text_config().vocab_size)
        self._model, self.constraint, self.end_id, self._vocab_size = model, constraint, end_id, vocab_size
        self.positions = positions_of(model.config)

    def run(
        self,
        requests: Sequence[Request],
        options: DecodeOptions,
        counters: Counters,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Generator[Event, None, None]:
        """Steps and stops as they come; ``cancelled`` is asked once a step, in the thread that reads."""
        deadline = time.monotonic() + (math.inf if options.time_limit_s is None else options.time_limit_s)
        counters.batch_size = options.batch_size
        waiting = yield from self._opened(requests, counters)
        while waiting:
            is_late = time.monotonic() >= deadline
            reason: StopReason = "cancelled" if cancelled() else "time"
            if is_late or reason == "cancelled":
                yield from [row.stop(reason) for row in waiting]
                return
            size = counters.batch_size
            rows, waiting = waiting[:size], waiting[size:]
            generate = functools.partial(self._generate, rows, options, deadline)
            waiting = (yield from self._written(rows, generate, counters, cancelled)) + waiting
            if counters.batch_size < size:  # the error's traceback holds what the batch held, and is in a cycle with it
                gc.collect()
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()

    def _opened(self, requests: Sequence[Request], counters: Counters) -> Generator[Event, None, list[Work]]:
        """Gives back the rows that are to be written, behind what they keep: a branch to the end token ends at once."""
        waiting = []
        for request in sorted(requests, key=lambda request: -request.limit):
            row = Work(request)
            for id_, is_forced in zip(*row.opening(is_stepwise=True), strict=True):
                yield counters.count(row.write(id_, forced=is_forced))
            if row.written and row.written[-1] == self.end_id:
                yield row.stop("end")
            else:
                waiting.append(row)
        return waiting

    def _written(
        self, rows: list[Work], generate: Generate, counters: Counters, cancelled: Callable[[], bool]
    ) -> Generator[Event, None, list[Work]]:
        """Gives back the rows that are not finished: where memory was short, and those that a guard sent back."""
        sent_back: list[Work] = []
        open_rows = {row.request.sample: row for row in rows}
        try:
            with closing(_steps(generate, counters)) as steps:
                for events in steps:
                    if cancelled():
                        break
                    for event in events:
                        match event:
                            case Step():
                                counters.count(event)
                            case Back():
                                sent_back.append(open_rows.pop(event.sample))
                                sent_back[-1].go_back(event, counters)
                            case Stop():
                                del open_rows[event.sample]
                        yield event
                else:
                    return sent_back
        except RuntimeError as error:
            counters.batch_size = halved(len(rows), error, counters)
            return [*sent_back, *open_rows.values()]
        finally:
            counters.peak_memory_mb = peak_memory_mb(self._model.device)
        yield from [row.stop("cancelled") for row in open_rows.values()]
        return sent_back

    def _generate(self, rows: list[Work], options: DecodeOptions, deadline: float, hand_over: HandOver) -> None:
        """In the thread of its own."""
        device = self._model.device
        with torch.inference_mode():
            prefixes = [torch.tensor(row.prefix, device=device) for row in rows]
            ids = pad_sequence(prefixes, batch_first=True, padding_value=self.end_id, padding_side="left")
            mask = pad_sequence(list(map(torch.ones_like, prefixes)), batch_first=True, padding_side="left")
            masks = _Masks(self.constraint, rows, self.end_id, self._model)
            draws, how = self._drawing(rows, options, ids.shape[1])
            dead = next((draw.dead for draw in draws if isinstance(draw, ShapedDraw)), [])
            criterion = _StepCriterion(rows, masks, self._vocab_size, options, deadline, hand_over, dead)
            model: Any = copy.copy(self._model)  # the same weights
            model.generation_config = GenerationConfig()  # what we leave open would come from the model's own
            most = max(1, *[row.request.limit - len(row.written) for row in rows])
            lengths = {"max_new_tokens": most, "pad_token_id": self.end_id, "eos_token_id": self.end_id}
            with phase("decode"), criterion.marks, sdpa_kernel(ATTENTION):
                model.generate(
                    input_ids=ids,
                    attention_mask=mask,
                    generation_config=GenerationConfig(**how, **lengths),
                    logits_processor=LogitsProcessorList([masks, *draws]),
                    stopping_criteria=StoppingCriteriaList([criterion]),
                )

    def _drawing(
        self, rows: Sequence[Work], options: DecodeOptions, width: int
    ) -> tuple[list[LogitsProcessor], dict[str, Any]]:
        """What draws, and what ``generate`` is told of it. ``width``: of the prompts with their padding."""
        parameters = (options.sampling, options.seed, rows, width, self._model.device)
        if isinstance(self.constraint, ExactConstraint) and any(isinstance(row.guarded, ShapedRow) for row in rows):
            return [ShapedDraw(*parameters, self.constraint)], {"do_sample": False}
        return [] if options.sampling.is_greedy else [KeyedDraw(*parameters)], {"do_sample": False}


def _steps(generate: Generate, counters: Counters) -> Generator[list[Event], None, None]:
    """What each step led to; an error of ``generate`` is raised here, behind the steps before it. Closed, it has
    ``generate`` stop at its next step, and waits for that. Counts passes and their time, without that of waiting for
    the reader."""
    queue: Queue[tuple[list[Event], float] | BaseException | None] = Queue(AHEAD)
    is_closed = threading.Event()
    began = time.perf_counter()

    def hand_over(events: list[Event]) -> bool:
        nonlocal began
        queue.put((events, time.perf_counter() - began))  # waits where the reader is far behind
        began = time.perf_counter()
        return not is_closed.is_set()

    def work() -> None:
        try:
            generate(hand_over)
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that reads
            queue.put(error)
        else:
            queue.put(None)

    def taken() -> tuple[list[Event], float] | BaseException | None:
        item = queue.get()
        if isinstance(item, tuple):
            counters.forward_passes += 1
            counters.decode_s += item[1]
        return item

    thread = threading.Thread(target=work, name="generate", daemon=True)
    thread.start()
    item: tuple[list[Event], float] | BaseException | None = ([], 0.0)
    try:
        while isinstance(item := taken(), tuple):
            yield item[0]
    finally:
        is_closed.set()
        while isinstance(item, tuple):
            item = taken()
        thread.join()
    if item is not None:
        raise item


class _Masks(ProgramProcessor):
    """The processor of a constraint, for rows that may start inside an answer. It is before a step's tokens when
    they are known, and keeps the scores as the model gave them. Without an LP, and with one end token, all steps allow
    the same."""

    def __init__(self, constraint: HasAutomaton, rows: Sequence[Work], end_id: int, model: PreTrainedModel) -> None:
        programs, device = [row.request.program for row in rows], model.device
        super().__init__(constraint.automaton, programs, end_id)
        self.name = str(model.name_or_path)
        self.automaton, self.end_id = constraint.automaton, end_id
        self.tables = self._tables = Tables.of(constraint.automaton, programs, device)
        starts = [row.cell_and_node(constraint.automaton) for row in rows]
        self.state = State(*torch.tensor(starts, device=device).unbind(dim=1))
        self.is_open = isinstance(constraint, Unconstrained) and not constraint.stops
        self.raw: Tensor | None = None  # [B, V]
        self.was_asked = False  # since the tokens before
        self._dead = torch.from_numpy(np.flatnonzero(constraint.automaton.classes == DEAD)).to(device)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        check_logits(scores, self.name)
        self.raw, self.was_asked = scores, True
        if self.is_open:
            return scores.index_fill(1, self._dead, -torch.inf) if len(self._dead) else scores
        with phase("constraint"):
            masked = super().__call__(input_ids, scores)
        assert self._state is not None
        self.state = self._state
        return masked

    def _begin(self, input_ids: Tensor) -> None:
        super()._begin(input_ids)
        self._state = self.state


class KeyedDraw(LogitsProcessor):
    """The last processor: draws a token a row by its key, as the fast backend does, and leaves that one alone."""

    def __init__(self, sampling: Sampling, seed: int, rows: Sequence[Work], width: int, device: torch.device) -> None:
        """``width``: of the prompts with their padding."""
        self._sampling, self._seed, self._width = sampling, seed, width
        self._keys = torch.tensor([row.request.key for row in rows], device=device)
        self._written = torch.tensor([len(row.written) + steps_behind(row.rewinds) for row in rows], device=device)
        self._only: Tensor | None = None  # [B, V] minus infinity but at the ids of the step before
        self._ids: Tensor | None = None  # [B, 1]

    def _draw(self, scores: Tensor, steps: Tensor) -> Tensor:
        """[B] the tokens of these steps."""
        columns = (scores.amax(dim=0) > -torch.inf).nonzero()[:, 0]  # that any row can draw from
        possible = scores if len(columns) == scores.shape[1] else scores[:, columns]
        return columns[sample(possible, self._sampling, uniform(self._seed, self._keys, steps))]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        with phase("sample"):
            ids = self._draw(scores, self._written + (input_ids.shape[1] - self._width))[:, None]
        if self._only is None or self._ids is None:
            self._only = torch.full_like(scores, -torch.inf)
        else:
            self._only.scatter_(1, self._ids, -torch.inf)
        self._ids = ids
        return self._only.scatter_(1, ids, 0.0)


class ShapedDraw(KeyedDraw):
    """The same under ``shaped``: a token is drawn among those that leave a right place."""

    def __init__(
        self,
        sampling: Sampling,
        seed: int,
        rows: Sequence[Work],
        width: int,
        device: torch.device,
        constraint: ExactConstraint,
    ) -> None:
        super().__init__(sampling, seed, rows, width, device)
        columns = live_columns(constraint.automaton, [row.request.program for row in rows])
        self._columns, self._rows = torch.from_numpy(columns).to(device), rows
        self._shaper = Shaper(ShapedTokens(constraint, columns), sampling, self._redrawn)
        self._steps = self._written
        self.dead: list[int] = []  # rows that are at a dead end

    def _draw(self, scores: Tensor, steps: Tensor) -> Tensor:
        self._steps = steps
        ids = scores.argmax(dim=1)  # of rows that are done, or forced to a token that no choice ever has
        writing = [row.guarded if isinstance(row.guarded, ShapedRow) else None for row in self._rows]
        logits = scores[:, self._columns]
        is_open = ~torch.isneginf(logits.amax(dim=1))
        drawn, dead = self._shaper.choose(writing, logits, uniform(self._seed, self._keys, steps))
        self.dead[:] = dead
        return torch.where(is_open, self._columns[drawn], ids)

    def _redrawn(self, rows: Sequence[int], tries: Sequence[int]) -> Tensor:
        behind = torch.tensor([steps_behind(0, count) for count in tries], device=self._steps.device)
        return uniform(self._seed, self._keys[list(rows)], self._steps[list(rows)] + behind)


class _StepCriterion(StoppingCriteria):
    """Makes events of each step's tokens, and says which rows are done. As a criterion, and not a streamer, it is asked
    within the step, on every device, while the constraint still is before the tokens."""

    def __init__(
        self,
        rows: Sequence[Work],
        masks: _Masks,
        vocab_size: int,
        options: DecodeOptions,
        deadline: float,
        hand_over: HandOver,
        dead: Sequence[int],
    ) -> None:
        """``deadline`` is one of the monotonic clock; ``dead`` has the rows that are at a dead end, step by step."""
        self._rows, self._masks, self._vocab_size, self._options = rows, masks, vocab_size, options
        self._deadline, self._hand_over, self._dead = deadline, hand_over, dead
        self._open = list(range(len(rows)))  # rows without a stop
        self.marks = ExitStack()  # of steps, which no function encloses
        self.marks.enter_context(phase("step"))

    def __call__(self, input_ids: Tensor, scores: object, **kwargs: object) -> Tensor:
        events = self._events(input_ids[:, -1], time.monotonic() >= self._deadline)
        self._masks.was_asked = False
        self.marks.close()
        goes_on = torch.zeros(len(self._rows), dtype=torch.bool)
        if self._hand_over(events):
            goes_on[self._open] = True
            if self._open:
                self.marks.enter_context(phase("step"))
        return (~goes_on).to(input_ids.device)

    def _events(self, tokens: Tensor, is_late: bool) -> list[Event]:
        masks, end = self._masks, self._masks.end_id
        is_forced = masks.tables.forced_id(masks.state) != NO_ID
        ids, forced = torch.stack([tokens, is_forced]).tolist()
        stopped = {row: cast("StopReason", reason) for row, reason in masks.stops.items() if row in self._open}
        events: list[Event] = [self._rows[row].stop(reason) for row, reason in stopped.items()]
        writing = [row for row in self._open if row not in stopped]
        diagnoses = self._diagnoses(writing, tokens, is_forced)
        places: list[tuple[int, int]] = []
        if any(row.guarded for row in self._rows):
            after = masks.tables.step(masks.state, tokens)
            places = list(zip(after.cell.tolist(), after.node.tolist(), strict=True))
        self._open = []
        for row, diagnosis in zip(writing, diagnoses, strict=True):
            work = self._rows[row]
            back = self._from_dead_end(row)
            if back is not None:
                events.append(back)
                continue
            if work.guarded is not None:
                _, back = work.guarded.passed(work.written, [ids[row]], places[row], end)
            step = work.write(ids[row], forced=bool(forced[row]), diagnosis=diagnosis, is_seen=masks.was_asked)
            events.append(step)
            reason = work.ended(end) or ("time" if is_late else None)
            if back is not None:  # it leaves the batch, and starts again in another
                events.append(back)
            elif reason is None:
                self._open.append(row)
            else:
                events.append(work.stop(reason))
        return events

    def _from_dead_end(self, row: int) -> Back | None:
        guarded = self._rows[row].guarded
        return guarded.go_back() if row in self._dead and isinstance(guarded, ShapedRow) else None

    def _diagnoses(self, rows: Sequence[int], tokens: Tensor, forced: Tensor) -> Sequence[Diagnosis | None]:
        if not self._options.is_stepwise or not rows:
            return [None] * len(rows)
        state, raw = self._masks.state, self._masks.raw
        assert raw is not None
        raw, allowed = raw[:, : self._vocab_size], self._masks.tables.mask(state)[:, : self._vocab_size]
        if len(rows) < len(tokens):
            raw = raw[rows]
            allowed = allowed[rows]
            tokens = tokens[rows]
            forced = forced[rows]
            state = State(state.cell[rows], state.node[rows])
        works = [self._rows[row] for row in rows]
        return look(self._options, self._masks.automaton, works, state, raw, allowed, tokens, forced)
