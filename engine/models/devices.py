"""Devices by name, and how much memory is free on them. Imports torch only where a GPU is asked about."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import ModelError, shown
from engine.processes import usable_cores as usable_cores

if TYPE_CHECKING:
    import torch


def pick_device(wanted: str = "auto") -> torch.device:
    """``auto`` is a GPU when there is one, CUDA's before Apple's."""
    import torch

    asked: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    if wanted == "auto":
        return torch.device(next((name for name, is_there in asked.items() if is_there()), "cpu"))
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise ModelError(f"there is no device {shown(wanted)}", "Use auto, cpu, cuda or mps") from error
    if device.type in asked and not asked[device.type]():
        raise ModelError(f"there is no {device.type.upper()} device here", "Use auto or cpu")
    return device


def spare_cores() -> int:
    """Idle cores, and of all cores one less, which is left to the app's pages."""
    most = usable_cores() - 1
    return min(most, idle_cores()) if most > 1 else 1


def idle_cores() -> int:
    """Cores that other programs leave idle over a short moment, at least one; all of them where nothing tells.

    Threads of small operations wait for each other: one that shares its core with another program slows all of them
    down by far more than it adds. The load average would go on counting a build that ended a minute ago.
    """
    first = _core_ticks()
    if first:
        time.sleep(MOMENT_S)
    shares = [_idle_share(first[core], after) for core, after in _core_ticks().items() if core in first]
    return max(1, round(sum(shares))) if shares else usable_cores()


def set_threads(threads: int | None) -> None:
    """None: as many as there are idle cores."""
    import torch

    torch.set_num_threads(threads or min(torch.get_num_threads(), idle_cores()))


MOMENT_S = 0.2
"""Twenty ticks of a core's clock."""
CORE_TICKS = re.compile(r"^cpu(\d+) (.+)$", re.MULTILINE)
_IDLE, _WAITING, _KINDS = 3, 4, 8
"""Places among a core's ticks, and how many kinds there are: a guest's are counted among the user's."""


def _core_ticks() -> dict[int, list[int]]:
    """Of each core that this process may run on; nothing where the system does not say."""
    try:
        lines = CORE_TICKS.findall(Path("/proc/stat").read_text(encoding="ascii"))
        own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
        return {int(core): list(map(int, ticks.split())) for core, ticks in lines if own is None or int(core) in own}
    except (OSError, ValueError):
        return {}


def _idle_share(before: Sequence[int], after: Sequence[int]) -> float:
    """One where no tick was counted at all."""
    passed = [late - early for early, late in zip(before, after, strict=False)][:_KINDS]
    total = sum(passed)
    return sum(passed[_IDLE : _WAITING + 1]) / total if total > 0 else 1.0


def threads_of(device: torch.device) -> int | None:
    """What torch computes with on a CPU; None on another device."""
    import torch

    return torch.get_num_threads() if device.type == "cpu" else None


def free_memory(device: str) -> int | None:
    """Free bytes of ``cpu`` or ``cuda``; None where this is unknown, or where there is no such device."""
    if device == "cuda":
        import torch

        return int(torch.cuda.mem_get_info()[0]) if torch.cuda.is_available() else None
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
