"""What a benchmark says of the machine that it ran on. Imports nothing but torch."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import torch


def pin(count: int) -> None:
    """To so many cores, as the project's figures are stated."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:count]))
    torch.set_num_threads(min(count, os.cpu_count() or 1))


def machine(packages: Sequence[str]) -> str:
    """Processor, cores, threads, how busy it is, and versions."""
    versions = ", ".join(f"{name} {_version(name)}" for name in packages)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"{_processor()}, {_cores()} of {os.cpu_count()} cores, {torch.get_num_threads()} torch threads, "
        f"load {load} before. Python {platform.python_version()}, {versions}."
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "is not installed"


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
