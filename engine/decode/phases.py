"""Phases of a generation as marks for torch's profiler: template, prefill, decode, constraint, sample.

A mark is made only while a profiler is running; else a phase costs a look-up. A prefill lies inside a decode where new
rows join; what is inside a phase belongs to both.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

Phase = Literal["template", "prefill", "decode", "constraint", "sample"]
PREFIX = "driftscope::"
_NO_PHASE: AbstractContextManager[Any] = nullcontext()


def phase(name: Phase) -> AbstractContextManager[Any]:
    """Torch is not imported for this: without it nobody profiles."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.autograd.profiler._is_profiler_enabled:
        return _NO_PHASE
    mark: AbstractContextManager[Any] = torch.autograd.profiler.record_function(f"{PREFIX}{name}")
    return mark
