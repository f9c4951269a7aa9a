"""What the benchmarks share: work timed in turn, medians and ratios with their spread, the machine, Markdown tables."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec

from engine.processes import usable_cores
from tools.terminal import markdown, processor


def pin(count: int) -> None:
    """To this many cores, as the project's figures are stated. torch is told only where it is there already."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:count]))
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(min(count, os.cpu_count() or 1))


def machine(*packages: str) -> str:
    """Processor, cores, how busy it is, and versions."""
    versions = {name: metadata.version(name) if find_spec(name) else "is not installed" for name in packages}
    return (
        f"{processor()}, {usable_cores()} of {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f} before. Python {platform.python_version()}, "
        f"{', '.join(f'{name} {version}' for name, version in versions.items())}."
    )


def in_turn(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each, by name. They take turns, so that a busy machine slows all equally; a first round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for repeat in range(repeats + 1):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            if repeat:
                seconds[name].append(time.perf_counter() - began)
        note(f"round {repeat} of {repeats}")
    return seconds


def children_s() -> float:
    """CPU of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def figure(value: float) -> str:
    """Three digits at least, and no more than are of use."""
    size = abs(value)
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3}f}"


def spread(values: Sequence[float]) -> tuple[str, str]:
    """Two cells: the median; the least and the most."""
    return figure(statistics.median(values)), f"{figure(min(values))} .. {figure(max(values))}"


def over(values: Sequence[float], others: Sequence[float]) -> tuple[str, str]:
    """Two cells: the ratio of medians; the worst repeat against the other's best, and the other way round."""
    median = statistics.median(values) / statistics.median(others)
    return f"{median:.2f}", f"{min(values) / max(others):.2f} .. {max(values) / min(others):.2f}"


def show(title: str, head: str, rows: Sequence[Sequence[str]]) -> None:
    """A table; ``head`` is divided by ``|``."""
    if rows:
        print("\n".join([f"**{title}**", "", *markdown(head.split("|"), rows), ""]), flush=True)


def note(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
