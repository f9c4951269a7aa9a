"""A generation under torch's profiler: a window of forward passes, its trace, and what the engine counted in it.

The window is within one batch run's group. It begins before the templates are made, or after some passes, and ends
after a number of passes or with the group, so that neither the trace nor the profiler's memory grows with the run. The
fast backend takes a pass only when it is asked for the next event: there the counters are exactly the window's. Plain
``generate`` runs ahead of its reader: there the window begins and ends with a batch.

Times under a profiler are longer than without one, most of all those of many short operators.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from engine.decode.steps import Counters, Event, Events, Step, Stop
from engine.errors import RunError, shown
from engine.profile.events import GZIP
from engine.store.provenance import versions

COUNTS = ("tokens", "forced_tokens", "forward_passes")
SECONDS = ("prefill_s", "forward_s", "constraint_s", "sampling_s", "decode_s")


class CapturedToken(NamedTuple):
    """One token of a window. ``step`` counts from the window's first."""

    step: int
    sample_id: int
    pos: int
    token_id: int
    forced: bool


class Capture:
    """For one generation or run: ``watch`` wraps its events. Then ``captured`` has columns of ``traces``, if there is
    one: the engine's counts of what it covers, without ``samples`` where some were under way. ``written`` is what its
    steps wrote."""

    def __init__(self, path: Path, *, steps: int = 64, skip: int = 0, runs_ahead: bool = False) -> None:
        """``runs_ahead``: the backend computes before it is asked, as ``generate`` does."""
        self.path, self.steps, self.skip, self.runs_ahead = path, steps, skip, runs_ahead
        self.captured: dict[str, Any] | None = None
        self.written: list[CapturedToken] = []
        self._profile: Any = None
        self._began = Counters()
        self._ended: Counters | None = None
        self._before = 0  # passes of generations that were over before the window
        self._open: set[int] = set()
        self._cut = self._finished = 0  # samples: of some only a part is in the window
        self.passes = self._pass = 0  # that are in it; the last one's number

    def __enter__(self) -> Self:
        if not self.skip:
            self._start(Counters())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop(self._began)
        profile, self._profile = self._profile, None  # it holds all events
        if error is not None or self._ended is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            plain = self.path.with_name(f"{self.path.name}.plain.json")
            profile.export_chrome_trace(str(plain))  # torch's own compression takes ten times as long
            with plain.open("rb") as source, GZIP(self.path, "wb", 2) as packed:
                shutil.copyfileobj(source, packed, 2**22)
            plain.unlink()
        except (OSError, RuntimeError) as error:
            raise RunError(f"{shown(self.path, 200)} cannot be written: {error}", "Choose another place") from error
        of = {name: getattr(self._ended, name) - getattr(self._began, name) for name in (*SECONDS, *COUNTS)}
        self.captured = {
            "origin": "measured",
            "samples": None if self._cut else self._finished,
            **{name: of[name] for name in COUNTS},
            "counted_by": "engine",
            "counters": json.dumps({name: round(of[name], 6) for name in sorted(SECONDS)}),
            "versions": versions(),
        }

    def watch(self, events: Events, counters: Counters) -> Events:
        """The same events. The profiler starts and stops between them."""
        if self._ended is not None:
            yield from events
            return
        try:
            for event in events:
                self._note(event, counters.forward_passes)
                yield event
                if self.runs_ahead and self._open:
                    continue
                if self._is_running and counters.forward_passes - self._began.forward_passes >= self.steps:
                    self._stop(counters)
                elif self._profile is None and self._before + counters.forward_passes >= self.skip > 0:
                    self._start(counters)
        finally:
            self._before += counters.forward_passes
            self._stop(counters)

    def _note(self, event: Event, passes: int) -> None:
        """All events of a step come after its last pass and before the next one."""
        if isinstance(event, Step):
            self._open.add(event.sample)
        elif isinstance(event, Stop):
            self._open.discard(event.sample)
            self._finished += self._is_running
        is_before = self._profile is None or passes <= self._began.forward_passes
        if is_before or (self._ended is not None and passes > self._ended.forward_passes):
            return
        if passes > self._pass:
            self._pass, self.passes = passes, self.passes + 1
        if isinstance(event, Step):
            self.written.append(CapturedToken(self.passes - 1, event.sample, event.pos, event.token_id, event.forced))

    @property
    def _is_running(self) -> bool:
        return self._profile is not None and self._ended is None

    def _start(self, counters: Counters) -> None:
        """Imports torch late: it takes seconds, and is loaded already where something is generated."""
        import torch
        from torch._C._profiler import _ExperimentalConfig
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        # Trace only: torch's own event tables take ten times as long to build.
        config = _ExperimentalConfig(profile_all_threads=self.runs_ahead, trace_only=True)
        self._began, self._cut = replace(counters), len(self._open)
        self._profile = profile(activities=activities, experimental_config=config)
        self._profile.start()

    def _stop(self, counters: Counters) -> None:
        if self._is_running:
            self._ended, self._cut = replace(counters), self._cut + len(self._open)
            self._profile.stop()
