"""Phases of a generation as marks for torch's profiler: template, prefill, decode, constraint, sample; and its steps.

A mark is made only while a profiler is running; else a phase costs a look-up. A prefill lies inside a decode where new
rows join, and the phases of a step inside that step; what is inside a phase belongs to both.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Self

Phase = Literal["template", "prefill", "decode", "constraint", "sample", "step"]
PREFIX = "driftscope::"
STEP = f"{PREFIX}step"
_NO_PHASE: AbstractContextManager[Any] = nullcontext()


def phase(name: Phase) -> AbstractContextManager[Any]:
    """Torch is not imported for this: without it nobody profiles."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.autograd.profiler._is_profiler_enabled:
        return _NO_PHASE
    mark: AbstractContextManager[Any] = torch.autograd.profiler.record_function(f"{PREFIX}{name}")
    return mark


class StepMarks:
    """Marks of steps that no function encloses: ``end`` and ``begin`` are called where one is over. The first begins
    and the last ends with the ``with`` around them all."""

    def __init__(self) -> None:
        self._open: AbstractContextManager[Any] | None = None

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        self._open = phase("step")
        self._open.__enter__()

    def end(self) -> None:
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None
