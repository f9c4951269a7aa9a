"""One lane of the live page: a small run whose tokens are reported while it is written.

A page makes a ``Lane`` and hands ``lane_work`` to the service; torch is imported when the work begins, in the worker's
thread. Tokens come in batches a few times per second, samples as they end. Then the samples are scored by the
model, as in every run, and the lane is a run in the given files. What it does not know: pages, other lanes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.chem.smiles import parse_smiles
from engine.decode.samples import Sample
from engine.decode.steps import Back, Counters, Step, StopReason
from engine.errors import ConstraintError
from engine.jobs.job import Control, Work
from engine.jobs.lane_judges import LaneJudges
from engine.jobs.plan import ModelChoice, RunPlan
from engine.records import Descriptors, NumberFormat
from engine.store.files import Files
from engine.store.temporary_runs import trim

if TYPE_CHECKING:
    from engine.jobs.group import GroupWork
    from engine.models.cache import Models

FLUSH_S = 0.05
"""Tokens are sent on this often, so that a page that polls four times per second always finds some."""
REFERENCE_S = 5.0
"""Longest search for a molecule's reference conformers, while a user waits."""
MOST_MOLECULES, MOST_ANSWERS = 100, 400
MOST_SCORED_TOKENS = 6_000
"""Samples are scored in full, with token probabilities per step, up to this many tokens of a lane."""
TOKENS_A_BLOCK = 24


@dataclass(frozen=True, slots=True)
class Lane:
    """The request. ``plan.model`` and the molecules are the same for all lanes of a page."""

    smiles: tuple[str, ...]  # as a molecule's own `smiles` has it
    plan: RunPlan

    def __post_init__(self) -> None:
        answers = len(self.smiles) * self.plan.plan.generations
        if not 0 < len(self.smiles) <= MOST_MOLECULES or answers > MOST_ANSWERS:
            raise ConstraintError(
                f"{len(self.smiles)} molecules with {self.plan.plan.generations} samples each exceed the live page",
                f"Give 1 to {MOST_MOLECULES} molecules and at most {MOST_ANSWERS} samples, or use `run`",
            )


@dataclass(frozen=True, slots=True)
class LaneOpened:
    """The model is loaded and writing begins. With these values an unfinished sample can be aligned."""

    tokenizer: str
    lp: str
    placeholder: str  # "" where the LP has none
    form: NumberFormat
    device: str
    rows: int  # samples written at once
    descriptors: Descriptors = "plain"


@dataclass(frozen=True, slots=True)
class LaneTokens:
    """The next tokens of one sample."""

    sample: int
    ids: tuple[int, ...]
    forced: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class LaneCounts:
    """Counts so far, over all samples."""

    tokens: int
    forced_tokens: int
    forward_passes: int
    seconds: float  # of decoding


@dataclass(frozen=True, slots=True)
class SampleEnded:
    """A sample has ended. Its blocks are not scored yet."""

    sample: Sample
    reason: StopReason


@dataclass(frozen=True, slots=True)
class LaneSamples:
    """All samples, scored: where an LP closed a block by force, it is known what the model wanted."""

    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class LaneFinished:
    """The lane is stored as this run."""

    run_id: str
    notes: tuple[str, ...]


LaneEvent = LaneOpened | LaneTokens | Back | LaneCounts | SampleEnded | LaneSamples | LaneFinished


def warm(choice: ModelChoice) -> Callable[[Models], object]:
    """For ``Service.wake``: imports torch and transformers, and loads the model."""

    def work(models: Models) -> None:
        import engine.jobs.group
        import engine.jobs.run  # noqa: F401 - imported for its time

        models.get(choice.entry(), choice.device, choice.dtype)

    return work


def lane_work(lane: Lane, files: Files) -> Work[LaneEvent]:
    """For ``Service.submit``."""
    return lambda control: _written(lane, files, control)


def _written(lane: Lane, files: Files, control: Control) -> Iterator[LaneEvent]:
    from engine.jobs.group import GroupWriter, ScoringCancelledError
    from engine.jobs.run import Run, begin

    choice, answers = lane.plan.model, len(lane.smiles) * lane.plan.plan.generations
    control.progress(0, note=f"loading {choice.alias or choice.folder}")
    loaded = control.models.get(choice.entry(), choice.device, choice.dtype)
    molecules = [parse_smiles(smiles) for smiles in lane.smiles]
    control.progress(0, note="compiling the constraint")
    staging = begin(files, loaded, molecules, replace(lane.plan, group=len(molecules)))
    settings = lane.plan.judge_settings
    judges = None if settings is None else LaneJudges(settings)
    is_kept = False
    try:
        plan = RunPlan.read(staging.sheet["plan"])
        run = Run(staging, loaded, molecules, plan)
        writer = GroupWriter(staging, loaded, plan, judges=judges)
        writer.note_device()
        (places,) = run.groups
        work = writer.work(places, [molecules[place] for place in places])
        work.reference_s, work.cancelled, work.clock = REFERENCE_S, control.cancelled, control.clock
        work.on_judged = lambda done: control.progress(done, note=f"checking the result: {done} of {answers}")
        yield from _generated(work, control)
        if work.was_cancelled:
            return
        control.progress(len(work.generation.samples), note="checking the result")
        writer.add(work, 0)
        entry = run.publish()
        is_kept = True
        trim(files)
        yield LaneSamples(tuple(work.judged))
        yield LaneFinished(entry.id, tuple(writer.notes))
    except ScoringCancelledError:
        return
    finally:
        if not is_kept:
            staging.abandon()
            if judges is not None:
                judges.drop()


def _generated(work: GroupWork, control: Control) -> Iterator[LaneEvent]:
    """The events, from the loaded model to the last sample."""
    generation = work.generation
    yield LaneOpened(
        generation.loaded.tokenizer.name,
        generation.plan.lp,
        generation.placeholder,
        generation.form,
        str(generation.loaded.device),
        min(generation.plan.batch_size, len(generation.requests)),
        generation.descriptors,
    )
    control.progress(0, len(generation.requests), "writing")
    pending = _Pending(generation.counters, control.clock)
    for event in work.events(lambda: control.cancelled() if pending.has_taken else control.is_stopped()):
        if isinstance(event, Step):
            pending.add(event)
            if pending.is_due():
                yield from pending.taken()
        elif isinstance(event, Back):
            yield from pending.taken()
            yield event
        else:
            yield from pending.taken()
            yield SampleEnded(generation.samples[-1], event.reason)
            control.progress(len(generation.samples), len(generation.requests), "writing")
    yield from pending.taken()  # the total time is known only now


class _Pending:
    """Tokens that were not sent on yet, by sample."""

    def __init__(self, counters: Counters, clock: Callable[[], float] = time.perf_counter) -> None:
        self._counters, self._clock = counters, clock
        self._began = self._last = clock()
        self._steps: dict[int, list[Step]] = {}
        self.has_taken = False  # until then no turn passes on, so that every reader's first turn has tokens

    def add(self, step: Step) -> None:
        self._steps.setdefault(step.sample, []).append(step)

    def is_due(self) -> bool:
        return self._clock() - self._last >= FLUSH_S

    def taken(self) -> Iterator[LaneEvent]:
        for sample, steps in self._steps.items():
            yield LaneTokens(sample, tuple(step.token_id for step in steps), tuple(step.forced for step in steps))
        self._steps = {}
        self._last, self.has_taken = self._clock(), True
        counted = self._counters
        seconds = counted.decode_s or self._last - self._began
        yield LaneCounts(counted.tokens, counted.forced_tokens, counted.forward_passes, seconds)


def scored_answers(blocks: Iterable[int], generations: int) -> int:
    """How many samples keep their steps: the first ones, within `MOST_SCORED_TOKENS`, and at least one.

    ``blocks`` has a count per molecule.
    """
    kept, tokens = 0, 0
    for count in blocks:
        for _ in range(generations):
            tokens += count * TOKENS_A_BLOCK
            if kept and tokens > MOST_SCORED_TOKENS:
                return kept
            kept += 1
    return kept
