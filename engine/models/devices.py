"""Devices by name, and how much memory is free on them. Imports torch only where a GPU is asked about."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import ModelError, shown

if TYPE_CHECKING:
    import torch


def pick_device(wanted: str = "auto") -> torch.device:
    """``auto`` is a GPU when there is one."""
    import torch

    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise ModelError(f"there is no device {shown(wanted)}", "Use auto, cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelError("there is no CUDA device here", "Use auto or cpu")
    return device


def free_memory(device: str) -> int | None:
    """Free bytes of ``cpu`` or ``cuda``; None where nothing tells, or where there is no such device."""
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
