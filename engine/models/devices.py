"""Devices by name, and how much memory is free on them. Imports torch only where a GPU is asked about."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import ModelError, shown
from engine.processes import usable_cores as usable_cores

if TYPE_CHECKING:
    import torch

MOMENT_S = 0.2  # twenty ticks of a core's clock


def pick_device(wanted: str = "auto") -> torch.device:
    """``auto`` is a GPU when there is one, CUDA's before Apple's."""
    import torch

    is_there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return torch.device(next(name for name in is_there if is_there[name]))
    try:
        device = torch.device(wanted)
        if is_there[device.type]:
            return device
    except (RuntimeError, KeyError) as error:
        raise ModelError(f"there is no device {shown(wanted)}", "Use auto, cpu, cuda or mps") from error
    raise ModelError(f"there is no {device.type.upper()} device here", "Use auto or cpu")


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
    time.sleep(MOMENT_S if first else 0)
    each = [(first[core], after) for core, after in _core_ticks().items() if core in first]
    shares = [(late[0] - early[0]) / (late[1] - early[1]) if late[1] > early[1] else 1.0 for early, late in each]
    return max(1, round(sum(shares))) if shares else usable_cores()


def _core_ticks() -> dict[int, tuple[int, int]]:
    """Idle ticks and all ticks of each core that this process may run on; nothing where the system does not say."""
    try:
        lines = re.findall(r"^cpu(\d+) (.+)$", Path("/proc/stat").read_text(encoding="ascii"), re.MULTILINE)
        cores = os.sched_getaffinity(0)
        # Idle and waiting are the fourth and the fifth; a guest's, from the ninth on, are counted among the user's.
        ticks = {int(core): list(map(int, counts.split()))[:8] for core, counts in lines if int(core) in cores}
    except (OSError, ValueError):
        return {}
    return {core: (sum(counts[3:5]), sum(counts)) for core, counts in ticks.items()}


def set_threads(threads: int | None) -> None:
    """None: as many as there are idle cores."""
    import torch

    torch.set_num_threads(threads or min(torch.get_num_threads(), idle_cores()))


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
        available = re.search(r"^MemAvailable: *(\d+)", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(available[1]) * 1024 if available else None
