"""A generation under torch's profiler: a window of forward passes, its trace, and what the engine counted in it.

The window lies within one batch run's group. It begins before the templates are made, or behind some passes, and ends
after a number of passes or with the group, so that neither the trace nor the profiler's memory grows with the run. The
fast backend takes a pass only when it is asked for the next event: there the counters are exactly the window's. Plain
``generate`` runs ahead of its reader: there the window begins and ends with a batch.

Times under a profiler are longer than without one, most of all those of many short operators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from engine.decode.steps import Counters, Events, Step, Stop
from engine.errors import RunError, shown
from engine.profile.ingest import Told
from engine.profile.opening import packed
from engine.store.provenance import versions

STEPS = 64
MOST_STEPS = 10_000
SECONDS = ("prefill_s", "forward_s", "constraint_s", "sampling_s", "decode_s")


class Written(NamedTuple):
    """One token of a window. ``step`` counts from the window's first."""

    step: int
    sample_id: int
    pos: int
    token_id: int
    forced: bool


@dataclass(frozen=True, slots=True)
class Captured:
    """A trace, and the engine's counts of what it covers. ``samples`` is None where some were under way."""

    path: Path
    tokens: int
    forced_tokens: int
    forward_passes: int
    samples: int | None
    seconds: dict[str, float]
    written: tuple[Written, ...] = ()
    steps: int = 0  # in which it was written

    def told(self, **more: Any) -> Told:
        """For ``engine.profile.ingest.add_trace``."""
        told = Told(
            origin="measured",
            samples=self.samples,
            tokens=self.tokens,
            forced_tokens=self.forced_tokens,
            forward_passes=self.forward_passes,
            counted_by="engine",
            counters=self.seconds,
            versions=versions(),
            steps=self.steps,
        )
        return replace(told, **more)


class Capture:
    """Once, around one generation or one run: ``watch`` goes where its events come from. Then look at ``captured``."""

    def __init__(self, path: Path, *, steps: int = STEPS, skip: int = 0, runs_ahead: bool = False) -> None:
        """``runs_ahead``: the backend computes before it is asked, as ``generate`` does."""
        if not 0 < steps <= MOST_STEPS or skip < 0:
            raise RunError(f"a window of {steps:,} passes behind {skip:,} cannot be", f"1 to {MOST_STEPS:,} passes")
        self.path, self.steps, self.skip, self.runs_ahead = path, steps, skip, runs_ahead
        self.captured: Captured | None = None
        self._profile: Any = None
        self._is_over = False
        self._began = Counters()
        self._ended = Counters()
        self._before = 0  # passes of generations that were over before the window
        self._open: set[int] = set()
        self._cut = self._finished = 0  # samples: of some only a part lies in the window
        self._written: list[Written] = []
        self._steps = self._pass = 0

    def __enter__(self) -> Self:
        if not self.skip:
            self._start(Counters())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop(self._ended)
        if error is None and self._profile is not None:
            self._export()
        self._profile = None

    def watch(self, events: Events, counters: Counters) -> Events:
        """The same events. The profiler starts and stops between them."""
        if self._is_over:
            yield from events
            return
        try:
            yield from self._watched(events, counters)
        finally:
            self._before += counters.forward_passes
            if self._profile is not None:
                self._stop(counters)

    def _watched(self, events: Events, counters: Counters) -> Iterator[Step | Stop]:
        for event in events:
            if isinstance(event, Step):
                self._open.add(event.sample)
            else:
                self._open.discard(event.sample)
                self._finished += self._is_running
            self._note(event, counters.forward_passes)
            yield event
            if self.runs_ahead and self._open:
                continue
            if self._is_running and counters.forward_passes - self._began.forward_passes >= self.steps:
                self._stop(counters)
            elif self._profile is None and self._before + counters.forward_passes >= self.skip > 0:
                self._start(counters)

    def _note(self, event: Step | Stop, passes: int) -> None:
        """All events of a step come behind its last pass and before the next one."""
        is_before = self._profile is None or passes <= self._began.forward_passes
        if is_before or (self._is_over and passes > self._ended.forward_passes):
            return
        if passes > self._pass:
            self._pass, self._steps = passes, self._steps + 1
        if isinstance(event, Step):
            self._written.append(Written(self._steps - 1, event.sample, event.pos, event.token_id, event.forced))

    @property
    def _is_running(self) -> bool:
        return self._profile is not None and not self._is_over

    def _start(self, counters: Counters) -> None:
        """Torch is imported here: it takes seconds, and is there already where something is generated."""
        import torch
        from torch._C._profiler import _ExperimentalConfig
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        # Only the trace is wanted: torch's own tables of the events take ten times as long to build.
        config = _ExperimentalConfig(profile_all_threads=self.runs_ahead, trace_only=True)
        self._began, self._cut = _copy(counters), len(self._open)
        self._profile = profile(activities=activities, experimental_config=config)
        self._profile.start()

    def _stop(self, counters: Counters) -> None:
        if not self._is_running:
            return
        self._is_over = True
        self._ended, self._cut = _copy(counters), self._cut + len(self._open)
        self._profile.stop()

    def _export(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            plain = self.path.with_name(f"{self.path.name}.plain.json")
            self._profile.export_chrome_trace(str(plain))
            packed(plain, self.path)
            plain.unlink()
        except (OSError, RuntimeError) as error:
            raise RunError(f"{shown(self.path, 200)} cannot be written: {error}", "Choose another place") from error
        one, other = self._began, self._ended
        self.captured = Captured(
            self.path,
            tokens=other.tokens - one.tokens,
            forced_tokens=other.forced_tokens - one.forced_tokens,
            forward_passes=other.forward_passes - one.forward_passes,
            samples=None if self._cut else self._finished,
            seconds={name: round(getattr(other, name) - getattr(one, name), 6) for name in SECONDS},
            written=tuple(self._written),
            steps=self._steps,
        )


def _copy(counters: Counters) -> Counters:
    return Counters(**{one.name: getattr(counters, one.name) for one in fields(counters)})
