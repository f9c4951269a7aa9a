"""The backend ``hf``: plain ``generate`` with any constraint, the yardstick that the fast backend is measured by.

``generate`` runs in a thread of its own and hands over each step's tokens as they come, so the stream is a live one.
Nothing of the model's own ``generation_config.json`` takes part. With keyed draws, the default, a sample depends on the
seed and its own key and on no other sample. With ``generate``'s own draws, seeded once a batch, it also depends on the
batch that it is in; the global generator of torch is put back afterwards, and is not to be used meanwhile.

Where memory is short the batch is halved, and rows that are not finished go on behind what they have written. This
module knows token ids and programs, and nothing of text.
"""

from __future__ import annotations

import copy
import functools
import gc
import math
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from queue import Queue
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
    StoppingCriteriaList,
    SuppressTokensLogitsProcessor,
)

from engine.decode.hf_batch import Diagnoser, Happened, KeyedDraw, MaskingProcessor, OpenConstraint, StepCriterion
from engine.decode.memory import halved, is_out_of_memory, peak_memory_mb
from engine.decode.phases import phase
from engine.decode.presets import Sampling
from engine.decode.steps import Back, Counters, DecodeOptions, Event, Request, Step, Stop, StopReason
from engine.decode.work import Work
from engine.lp.constraint import HasAutomaton, check_rows
from engine.lp.table import DEAD
from engine.lp.unconstrained import Unconstrained

Draws = Literal["keyed", "generate"]
Stream = Generator[Event, None, None]

ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Not cuDNN's: on a GPU it makes a plan for each length anew, 45 ms of a pass on an H200."""
AHEAD = 16
"""Steps that ``generate`` may be ahead of whoever reads them."""


@dataclass(frozen=True, slots=True, eq=False)
class _HfBatch:
    """Rows that are written together."""

    rows: Sequence[Work]
    number: int  # of its run, from 0
    options: DecodeOptions
    deadline: float  # of the monotonic clock


class HfBackend:
    """A model under a constraint. One run at a time."""

    def __init__(
        self, model: PreTrainedModel, constraint: HasAutomaton, end_id: int, vocab_size: int, *, draws: Draws = "keyed"
    ) -> None:
        """``vocab_size`` is the tokenizer's: rows of the model beyond it have no token."""
        check_rows(constraint, model.config.get_text_config().vocab_size)
        self._model, self._constraint, self._end, self._vocab_size = model, constraint, end_id, vocab_size
        self._draws = draws
        self._dead = np.flatnonzero(constraint.automaton.classes == DEAD).tolist()

    def run(
        self,
        requests: Sequence[Request],
        options: DecodeOptions,
        counters: Counters,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Stream:
        """Steps and stops as they come; ``cancelled`` is asked once a step, in the thread that reads."""
        deadline = time.monotonic() + (math.inf if options.time_limit_s is None else options.time_limit_s)
        counters.batch_size = options.batch_size
        waiting = [Work(request) for request in sorted(requests, key=lambda request: -request.limit)]
        number = 0
        while waiting:
            reason = _interrupted(deadline, cancelled)
            if reason is not None:
                yield from [row.stop(reason) for row in waiting]
                return
            size = counters.batch_size
            rows, waiting = waiting[:size], waiting[size:]
            left = yield from self._batch(_HfBatch(rows, number, options, deadline), counters, cancelled)
            if counters.batch_size < size:
                free_memory()
            waiting = left + waiting
            number += 1

    def _batch(
        self, batch: _HfBatch, counters: Counters, cancelled: Callable[[], bool]
    ) -> Generator[Event, None, list[Work]]:
        """Gives back the rows that are not finished: where memory was short, and those that a guard sent back."""
        sent_back: list[Work] = []
        open_rows = {row.request.sample: row for row in batch.rows}
        feed = _Feed(functools.partial(self._generate, batch), counters)
        try:
            for happened in feed:
                if cancelled():
                    break
                for event in happened:
                    match event:
                        case Step():
                            open_rows[event.sample].add(counters.count(event).token_id, forced=event.forced)
                        case Back():
                            sent_back.append(open_rows.pop(event.sample))
                            sent_back[-1].go_back(event, counters)
                        case Stop():
                            del open_rows[event.sample]
                    yield event
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            counters.batch_size = halved(len(batch.rows), error)
            counters.notes.append(f"memory was short: batches of {counters.batch_size} from here on")
            return [*sent_back, *open_rows.values()]
        finally:
            feed.close()
            counters.peak_memory_mb = peak_memory_mb(self._model.device)
        yield from [row.stop("cancelled") for row in open_rows.values()]
        return sent_back

    def _generate(self, batch: _HfBatch, hand_over: Callable[[Happened], bool]) -> None:
        """In the thread of its own."""
        rows, options, device = batch.rows, batch.options, self._model.device
        is_seeded = self._generate_draws(options.sampling)
        with torch.inference_mode(), _seeded(options.seed, batch.number, device) if is_seeded else nullcontext():
            ids, mask = _padded([row.prefix for row in rows], self._end, device)
            processors, watch = self._parts(batch, ids.shape[1], hand_over)
            model: Any = copy.copy(self._model)  # the same weights
            model.generation_config = GenerationConfig()  # what we leave open would come from the model's own
            with phase("decode"), watch.steps, sdpa_kernel(ATTENTION):
                model.generate(
                    input_ids=ids,
                    attention_mask=mask,
                    generation_config=self._config(options.sampling, max(1, *[row.left for row in rows])),
                    logits_processor=LogitsProcessorList(processors),
                    stopping_criteria=StoppingCriteriaList([watch]),
                )

    def _parts(
        self, batch: _HfBatch, width: int, hand_over: Callable[[Happened], bool]
    ) -> tuple[list[LogitsProcessor], StepCriterion]:
        options, device = batch.options, self._model.device
        processors: list[LogitsProcessor] = []
        if isinstance(self._constraint, Unconstrained):
            view: MaskingProcessor | OpenConstraint = OpenConstraint(self._constraint, batch.rows, device)
            if self._dead:
                processors.append(SuppressTokensLogitsProcessor(self._dead, device=str(device)))
        else:
            view = MaskingProcessor(self._constraint, batch.rows, self._end)
            processors.append(view)
        diagnoser = Diagnoser(view, self._vocab_size, options) if options.is_stepwise else None
        if diagnoser is not None:
            processors.insert(0, diagnoser)
        if self._draws == "keyed" and not options.sampling.is_greedy:
            processors.append(KeyedDraw(options.sampling, options.seed, batch.rows, width, device))
        return processors, StepCriterion(batch.rows, view, diagnoser, self._end, batch.deadline, hand_over)

    def _config(self, sampling: Sampling, most: int) -> GenerationConfig:
        draws: dict[str, Any] = {"do_sample": False}
        if self._generate_draws(sampling):
            draws = {
                "do_sample": True,
                "temperature": float(sampling.temperature),
                "top_k": sampling.top_k,  # 0 and not None, which would mean 50
                "top_p": float(sampling.top_p),
                "min_p": sampling.min_p or None,
            }
        return GenerationConfig(max_new_tokens=most, pad_token_id=self._end, eos_token_id=self._end, **draws)

    def _generate_draws(self, sampling: Sampling) -> bool:
        return self._draws == "generate" and not sampling.is_greedy


class _Feed:
    """A thread, and what it hands over, read in another one. ``close`` it in any case."""

    def __init__(self, work: Callable[[Callable[[Happened], bool]], None], counters: Counters) -> None:
        """Counts passes and their time, less the time that the thread waits for the reader."""
        self._work, self._counters = work, counters
        self._stopping = threading.Event()
        self._queue: Queue[tuple[Happened, float] | None] = Queue(AHEAD)  # None is the last
        self._error: BaseException | None = None
        self._is_over = False
        self._began = time.perf_counter()
        self._thread = threading.Thread(target=self._run, name="generate", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Happened]:
        """All that comes; what the work raised is raised here."""
        while (happened := self._next()) is not None:
            yield happened
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Have the work stop at its next step, and wait for its end."""
        self._stopping.set()
        while not self._is_over:
            self._next()
        self._thread.join()

    def _next(self) -> Happened | None:
        handed_over = self._queue.get()
        if handed_over is None:
            self._is_over = True
            return None
        happened, took_s = handed_over
        self._counters.forward_passes += 1
        self._counters.decode_s += took_s
        return happened

    def _run(self) -> None:
        try:
            self._work(self._hand_over)
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that reads
            self._error = error
        finally:
            self._queue.put(None)

    def _hand_over(self, happened: Happened) -> bool:
        """Waits where the reader is far behind; says whether to go on."""
        self._queue.put((happened, time.perf_counter() - self._began))
        self._began = time.perf_counter()
        return not self._stopping.is_set()


def _interrupted(deadline: float, cancelled: Callable[[], bool]) -> StopReason | None:
    """Why rows that wait are not begun."""
    if cancelled():
        return "cancelled"
    return "time" if time.monotonic() >= deadline else None


def _padded(rows: Sequence[Sequence[int]], fill: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids [B, T] with padding on the left, and the mask of what is none."""
    width = max(map(len, rows))
    ids = [[fill] * (width - len(row)) + list(row) for row in rows]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


@contextmanager
def _seeded(seed: int, number: int, device: torch.device) -> Iterator[None]:
    """Torch's generators belong to this batch meanwhile."""
    (word,) = np.random.SeedSequence([seed % 2**64, number]).generate_state(1).tolist()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(word)
        yield


def free_memory() -> None:
    """Of what a batch held whose memory was short: the error's traceback has it, and is in a cycle with the error."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
