"""Devices by name, and how much memory is free on them. Imports torch only where a GPU is asked about."""

from __future__ import annotations

import os
from collections.abc import Callable
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
    """All usable cores but one, which is left to the app's pages."""
    return max(1, usable_cores() - 1)


def idle_cores() -> int:
    """Cores that other programs leave idle, at least one.

    Threads of small operations wait for each other: one that shares its core with another program slows all of them
    down by far more than it adds.
    """
    try:
        load = os.getloadavg()[0]
    except OSError:
        load = 0.0
    return max(1, usable_cores() - round(load))


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
