"""One lane of the live page: a small run that is told token by token while it is written.

A page makes a ``Lane`` and hands ``lane_work`` to the service; torch is imported when the work begins, in the worker's
thread. Tokens come in batches a few times a second, answers as they end, and when all of them have, the lane lies as a
run in the place that was given, read once more by the model as every run is. What it does not know: pages, and which
lanes stand beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.chem.smiles import parse_smiles
from engine.decode.samples import Sample
from engine.decode.steps import Counters, Step, Stop, StopReason
from engine.errors import ConstraintError
from engine.records import NumberFormat
from engine.runner.plan import ModelChoice, RunPlan
from engine.service.jobs import Control, Work
from engine.store.files import Files
from engine.store.passing import trim

if TYPE_CHECKING:
    from engine.decode.generation import Generation
    from engine.models.cache import Models
    from engine.runner.group import GroupWork

FLUSH_S = 0.05
"""Tokens are handed on this often, so that a page that asks four times a second always finds some."""
REFERENCE_S = 5.0
"""Longest search for a molecule's reference conformers: somebody waits."""
MOST_MOLECULES, MOST_ANSWERS = 100, 400
MOST_SCORED_TOKENS = 6_000
"""Answers are read again in full, with what the model thought at each step, up to so many tokens of a lane."""
TOKENS_A_BLOCK = 24


@dataclass(frozen=True, slots=True)
class Lane:
    """What is asked for. ``plan.model`` and the molecules are the same for lanes that stand side by side."""

    smiles: tuple[str, ...]  # as a molecule's own `smiles` has it
    plan: RunPlan

    def __post_init__(self) -> None:
        answers = len(self.smiles) * self.plan.plan.generations
        if not 0 < len(self.smiles) <= MOST_MOLECULES or answers > MOST_ANSWERS:
            raise ConstraintError(
                f"{len(self.smiles)} molecules with {self.plan.plan.generations} samples each are not for a live page",
                f"Give 1 to {MOST_MOLECULES} molecules and at most {MOST_ANSWERS} samples, or use `run`",
            )


@dataclass(frozen=True, slots=True)
class Opened:
    """The model is there and writing begins. With these an answer that is not finished can be aligned."""

    tokenizer: str
    lp: str
    placeholder: str  # "" where the LP has none
    form: NumberFormat
    device: str
    rows: int  # answers written at once


@dataclass(frozen=True, slots=True)
class Written:
    """Tokens of one answer, behind those that came before."""

    sample: int
    ids: tuple[int, ...]
    forced: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """What it took so far, of all answers."""

    tokens: int
    forced_tokens: int
    forward_passes: int
    seconds: float  # of decoding


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer has ended. Its blocks were read without asking the model what it wanted."""

    sample: Sample
    reason: StopReason


@dataclass(frozen=True, slots=True)
class Judged:
    """All answers, read again: where an LP closed a block by force, the model has said what it wanted."""

    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The lane lies in the place as the run of this name."""

    run_id: str
    notes: tuple[str, ...]


LaneEvent = Opened | Written | Counted | Answered | Judged | Finished


def warm(choice: ModelChoice) -> Callable[[Models], object]:
    """For ``Service.wake``: what the first lane would wait for, which is torch, transformers and the model."""

    def work(models: Models) -> None:
        import engine.runner.group
        import engine.runner.run  # noqa: F401 - imported for its time

        models.get(choice.entry(), choice.device, choice.dtype)

    return work


def lane_work(lane: Lane, files: Files) -> Work[LaneEvent]:
    """For ``Service.submit``."""
    return lambda control: _written(lane, files, control)


def _written(lane: Lane, files: Files, control: Control) -> Iterator[LaneEvent]:
    from engine.runner.group import GroupWriter, NotWantedError
    from engine.runner.run import Run, begin

    choice, answers = lane.plan.model, len(lane.smiles) * lane.plan.plan.generations
    control.progress(0, note=f"loading {choice.alias or choice.folder}")
    loaded = control.models.get(choice.entry(), choice.device, choice.dtype)
    molecules = [parse_smiles(smiles) for smiles in lane.smiles]
    control.progress(0, note="compiling the constraint")
    staging = begin(files, loaded, molecules, replace(lane.plan, group=len(molecules)))
    is_kept = False
    try:
        plan = RunPlan.read(staging.sheet["plan"])
        run = Run(staging, loaded, molecules, plan)
        writer = GroupWriter(staging, loaded, plan)
        writer.tell()
        (places,) = run.groups
        work = writer.work(places, [molecules[place] for place in places])
        work.reference_s, work.cancelled = REFERENCE_S, control.cancelled
        work.on_judged = lambda done: control.progress(done, note=f"reading it again: {done} of {answers}")
        yield from _told(work, control)
        if work.was_cancelled:
            return
        control.progress(len(work.generation.samples), note="reading it again")
        writer.add(work, 0)
        entry = run.publish()
        is_kept = True
        trim(files)
        yield Judged(tuple(work.judged))
        yield Finished(entry.id, tuple(writer.notes))
    except NotWantedError:
        return
    finally:
        if not is_kept:
            staging.abandon()


def _told(work: GroupWork, control: Control) -> Iterator[LaneEvent]:
    """The stream, from the model's being there to the last answer."""
    generation = work.generation
    yield Opened(
        generation.loaded.tokenizer.name,
        generation.plan.lp,
        generation.placeholder,
        generation.form,
        str(generation.loaded.device),
        min(generation.plan.batch_size, len(generation.requests)),
    )
    control.progress(0, len(generation.requests), "writing")
    pending = _Pending(generation.counters)
    for event in work.events(control.cancelled):
        if isinstance(event, Step):
            pending.add(event)
            if pending.is_due():
                yield from pending.taken()
        else:
            yield from pending.taken()
            yield _answered(generation, event)
            control.progress(len(generation.samples), len(generation.requests), "writing")
    yield from pending.taken()  # the time of all of it is known only now


def _answered(generation: Generation, stop: Stop) -> Answered:
    return Answered(generation.samples[-1], stop.reason)


class _Pending:
    """Tokens that were not handed on yet, by sample."""

    def __init__(self, counters: Counters, clock: Callable[[], float] = time.perf_counter) -> None:
        self._counters, self._clock = counters, clock
        self._began = self._last = clock()
        self._steps: dict[int, list[Step]] = {}

    def add(self, step: Step) -> None:
        self._steps.setdefault(step.sample, []).append(step)

    def is_due(self) -> bool:
        return self._clock() - self._last >= FLUSH_S

    def taken(self) -> Iterator[LaneEvent]:
        for sample, steps in self._steps.items():
            yield Written(sample, tuple(step.token_id for step in steps), tuple(step.forced for step in steps))
        self._steps = {}
        self._last = self._clock()
        counted = self._counters
        seconds = counted.decode_s or self._last - self._began
        yield Counted(counted.tokens, counted.forced_tokens, counted.forward_passes, seconds)


def scored_answers(blocks: Iterable[int], generations: int) -> int:
    """How many answers' steps are kept: the first ones, whose blocks these are, within the tokens that are read again.

    One is kept always.
    """
    found, tokens = 0, 0
    for count in blocks:
        for _ in range(generations):
            tokens += count * TOKENS_A_BLOCK
            if found and tokens > MOST_SCORED_TOKENS:
                return found
            found += 1
    return found
