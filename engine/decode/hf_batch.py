"""What ``generate`` is given for one batch: what masks, what draws, and what makes events of the tokens.

``generate`` passes a step's scores through its logits processors, picks a token a row, and asks its stopping criteria.
``StepCriterion`` is such a criterion, and not a streamer: it is asked within the step, on every device, while the
constraint still stands before the tokens. Nothing here knows of threads, or of other batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor
from transformers import (
    LogitsProcessor,
    MinPLogitsWarper,
    StoppingCriteria,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.decode.diagnosis import blocks_and_rules, diagnose
from engine.decode.phases import StepMarks, phase
from engine.decode.presets import Sampling
from engine.decode.sampling import draw, steps_behind, uniform
from engine.decode.steps import Back, Choice, DecodeOptions, Diagnosis, Event, Step, StopReason
from engine.decode.work import Work
from engine.lp.constraint import HasAutomaton
from engine.lp.driver import State, Tables
from engine.lp.processor import ProgramProcessor
from engine.lp.table import NO_ID

Happened = list[Event]
"""What one step of a batch led to."""
_NEAR = 2.0**-20
"""Of a score: two that differ by less may be one after the division by the temperature."""


class OpenConstraint:
    """A constraint before a step's tokens without an LP: nothing is forced, and all steps allow the same."""

    def __init__(self, constraint: HasAutomaton, rows: Sequence[Work], device: torch.device) -> None:
        programs = [row.request.program for row in rows]
        self._tables = Tables.of(constraint.automaton, programs, device)
        self._state = self._tables.start()
        self._standing = blocks_and_rules(constraint.automaton, programs, self._state)
        self._forced = torch.zeros_like(self._state.cell, dtype=torch.bool)
        self._allowed: Tensor | None = None

    def stopped(self) -> Mapping[int, StopReason]:
        """Rows that cannot go on; their token is none."""
        return {}

    def forced(self) -> Tensor:  # bool [B]
        return self._forced

    def allowed(self) -> Tensor:  # bool [B, V]
        if self._allowed is None:
            self._allowed = self._tables.mask(self._state)
        return self._allowed

    def standing(self) -> tuple[list[int], list[str]]:
        """Blocks and rules of the rows."""
        return self._standing


class MaskingProcessor(ProgramProcessor):
    """The processor for rows that may start inside an answer; and the view of them as ``OpenConstraint`` has it."""

    def __init__(self, constraint: HasAutomaton, rows: Sequence[Work], end_id: int) -> None:
        super().__init__(constraint.automaton, [row.request.program for row in rows], end_id)
        self._places = [row.place(constraint.automaton) for row in rows]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        with phase("constraint"):
            return super().__call__(input_ids, scores)

    def _begin(self, input_ids: Tensor) -> None:
        super()._begin(input_ids)
        self._state = State(*torch.tensor(self._places, device=input_ids.device).unbind(dim=1))

    def stopped(self) -> Mapping[int, StopReason]:
        return cast("Mapping[int, StopReason]", self.stops)

    def forced(self) -> Tensor:
        assert self._tables is not None and self._state is not None
        return self._tables.forced_id(self._state) != NO_ID

    def allowed(self) -> Tensor:
        assert self._tables is not None and self._state is not None
        return self._tables.mask(self._state)

    def standing(self) -> tuple[list[int], list[str]]:
        assert self._state is not None
        return blocks_and_rules(self._automaton, self._programs, self._state)

    def cells_after(self, tokens: Tensor) -> list[int]:
        assert self._tables is not None and self._state is not None
        cells: list[int] = self._tables.step(self._state, tokens).cell.tolist()
        return cells


ConstraintView = OpenConstraint | MaskingProcessor


class Diagnoser(LogitsProcessor):
    """The first processor: keeps the scores as the model gave them, for what is said of its tokens."""

    def __init__(self, view: ConstraintView, vocab_size: int, options: DecodeOptions) -> None:
        self._view, self._vocab_size, self._options = view, vocab_size, options
        self._raw: Tensor | None = None  # [B, rows with a token]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self._raw = scores[:, : self._vocab_size]
        return scores

    def show(self, tokens: Tensor, rows: Sequence[int], works: Sequence[Work], positions: Sequence[int]) -> None:
        """These rows of the batch to the tap, where there is one."""
        tap = self._options.tap
        if tap is None or not rows:
            return
        assert self._raw is not None
        tap(
            Choice(
                tuple(works[row].request.sample for row in rows),
                tuple(works[row].request.key for row in rows),
                tuple(positions[row] for row in rows),
                self._raw[rows].float(),
                self._view.allowed()[:, : self._vocab_size][rows],
                tokens[rows],
                tuple(self._view.forced()[rows].tolist()),
            )
        )

    def diagnoses(self, tokens: Tensor, rows: Sequence[int]) -> Sequence[Diagnosis | None]:
        """Of these rows of the batch, for its tokens [B]."""
        if not self._options.diagnostics:
            return [None] * len(rows)
        assert self._raw is not None
        raw, allowed = self._raw, self._view.allowed()[:, : self._vocab_size]
        if len(rows) < len(tokens):
            raw, allowed, tokens = raw[rows], allowed[rows], tokens[rows]
        blocks, rules = self._view.standing()
        of_rows = [blocks[row] for row in rows], [rules[row] for row in rows]
        options = self._options
        if not rows:
            return []
        return diagnose(raw, allowed, tokens, options.candidates, *of_rows, options.close_ids, options.sampling)


class KeyedDraw(LogitsProcessor):
    """The last processor: filters as ``generate`` does, draws a token a row by its key, and leaves that one alone.

    What cannot be drawn is left out before the filters and the sums, not after: a sort or a sum over the vocabulary
    costs more than a small model. Ids keep their order.
    """

    def __init__(self, sampling: Sampling, seed: int, rows: Sequence[Work], width: int, device: torch.device) -> None:
        """``width``: of the prompts with their padding."""
        self._top_k, self._seed, self._width = sampling.top_k, seed, width
        self._warpers = _warpers(sampling)
        self._keys = torch.tensor([row.request.key for row in rows], device=device)
        self._written = torch.tensor([len(row.written) + steps_behind(row.rewinds) for row in rows], device=device)
        self._only: Tensor | None = None  # [B, V] minus infinity but at the ids of the step before
        self._ids: Tensor | None = None  # [B, 1]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        steps = self._written + (input_ids.shape[1] - self._width)
        with phase("sample"):
            ids = self._drawn(input_ids, scores, uniform(self._seed, self._keys, steps))[:, None]
        if self._only is None or self._ids is None:
            self._only = torch.full_like(scores, -torch.inf)
        else:
            self._only.scatter_(1, self._ids, -torch.inf)
        self._ids = ids
        return self._only.scatter_(1, ids, 0.0)

    def _drawn(self, input_ids: Tensor, scores: Tensor, numbers: Tensor) -> Tensor:
        if 0 < self._top_k < scores.shape[1]:
            likely, ids = likeliest(scores, self._top_k)  # [B, K] each
            place = draw(self._warped(input_ids, likely).softmax(dim=-1), numbers)
            return ids.gather(1, place[:, None])[:, 0]
        possible, columns = _possible(scores)
        possible, kept = _possible(self._warped(input_ids, possible))
        return columns[kept[draw(possible.softmax(dim=-1), numbers)]]

    def _warped(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        for warper in self._warpers:
            scores = warper(input_ids, scores)
        return scores


def _warpers(sampling: Sampling) -> list[LogitsProcessor]:
    """Those of ``generate``, in its order, and as there only where they change anything."""
    warpers: list[LogitsProcessor] = []
    if sampling.temperature != 1:
        warpers.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        warpers.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        warpers.append(MinPLogitsWarper(sampling.min_p))
    return warpers


def likeliest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """All that top-k with this count can keep, and their ids in rising order: [B, K] each, K > ``count`` with ties.

    A tie may also come of the division by the temperature, so what is next to the last score belongs to it as well.
    """
    width = count
    while True:
        width = min(2 * width, scores.shape[1])
        largest, ids = scores.topk(width, dim=1)
        least = largest[:, count - 1]
        beyond = (largest[:, -1] < least - least.abs() * _NEAR) | torch.isneginf(largest[:, -1])
        if width == scores.shape[1] or bool(beyond.all()):
            ids, order = ids.sort(dim=1)
            return largest.gather(1, order), ids


def _possible(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The columns that any row can draw from, [B, K], and their numbers [K]."""
    columns = (scores.amax(dim=0) > -torch.inf).nonzero()[:, 0]
    return (scores if len(columns) == scores.shape[1] else scores[:, columns]), columns


class StepCriterion(StoppingCriteria):
    """Makes events of each step's tokens, and says which rows are done."""

    def __init__(
        self,
        rows: Sequence[Work],
        view: ConstraintView,
        diagnoser: Diagnoser | None,
        end_id: int,
        deadline: float,
        hand_over: Callable[[Happened], bool],
    ) -> None:
        """``deadline`` is one of the monotonic clock; ``hand_over`` says whether to go on."""
        self._rows, self._view, self._diagnoser = rows, view, diagnoser
        self._end, self._deadline, self._hand_over = end_id, deadline, hand_over
        self._written = [list(row.written) for row in rows]
        self._open = list(range(len(rows)))  # rows without a stop
        self.steps = StepMarks()  # to be entered around ``generate``

    def __call__(self, input_ids: Tensor, scores: object, **kwargs: object) -> Tensor:
        happened = self._happened(input_ids[:, -1], time.monotonic() >= self._deadline)
        self.steps.end()
        goes_on = torch.zeros(len(self._rows), dtype=torch.bool)
        if self._hand_over(happened):
            goes_on[self._open] = True
            if self._open:
                self.steps.begin()
        return (~goes_on).to(input_ids.device)

    def _happened(self, tokens: Tensor, is_late: bool) -> Happened:
        ids, forced = torch.stack([tokens, self._view.forced()]).tolist()
        stopped = {row: reason for row, reason in self._view.stopped().items() if row in self._open}
        writing = [row for row in self._open if row not in stopped]
        diagnoses: Sequence[Diagnosis | None] = [None] * len(writing)
        if self._diagnoser is not None:
            self._diagnoser.show(tokens, writing, self._rows, [len(ids) for ids in self._written])
            diagnoses = self._diagnoser.diagnoses(tokens, writing)
        events: Happened = [self._rows[row].stop(reason) for row, reason in stopped.items()]
        backs = self._sent_back(tokens, ids, writing)
        self._open = []
        for row, diagnosis in zip(writing, diagnoses, strict=True):
            request, position = self._rows[row].request, len(self._written[row])
            self._written[row].append(ids[row])
            events.append(Step(request.sample, position, ids[row], bool(forced[row]), diagnosis))
            is_last = position + 1 >= request.limit
            reason: StopReason | None = (
                "end" if ids[row] == self._end else "length" if is_last else "time" if is_late else None
            )
            if row in backs:
                events.append(backs[row])
            elif reason is None:
                self._open.append(row)
            else:
                events.append(self._rows[row].stop(reason))
        return events

    def _sent_back(self, tokens: Tensor, ids: list[int], writing: Sequence[int]) -> dict[int, Back]:
        """Rows whose guard throws away what they wrote: they leave the batch, and begin anew in another."""
        backs: dict[int, Back] = {}
        if any(self._rows[row].guarded for row in writing):
            assert isinstance(self._view, MaskingProcessor)
            cells = self._view.cells_after(tokens)
            for row in writing:
                work = self._rows[row]
                if work.guarded is not None:
                    _, rewind = work.guarded.passed(self._written[row], [ids[row]], cells[row], self._end)
                    if rewind is not None:
                        backs[row] = Back(work.request.sample, rewind.pos, rewind.block, rewind.wrong)
        return backs
