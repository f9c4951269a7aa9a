"""This process: its end with what started it, its cores and files, its size, and what it can give back."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Made = TypeVar("Made")


def stop_at_end_of_input() -> None:
    """Waits until nobody can write to standard input any more; then as with Ctrl-C, and 20 s later at once."""
    with suppress(OSError, ValueError, AttributeError):  # AttributeError: there is no standard input
        while os.read(sys.stdin.fileno(), 1 << 16):
            pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(20.0)  # any step of a model is shorter
    os._exit(130)


MOST_OPEN_FILES = 16_384


def raise_open_files() -> None:
    """As many open files as the system lets this process ask for: by default macOS gives 256, and an app with a few
    tabs, a store and a model needs more. Where the hard limit is low, it stays so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS has a limit of its own besides
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def made_once(most: int = 1) -> Callable[[Callable[Arguments, Made]], Callable[Arguments, Made]]:
    """Keep what a function made of its last ``most`` arguments, in this process. One thread makes: who comes meanwhile
    waits, and finds it made, where a cache alone would make it twice."""

    def decorate(make: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
        made, making = functools.lru_cache(most)(make), threading.Lock()

        @functools.wraps(make)
        def get(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Made:
            with making:
                return made(*args, **kwargs)  # type: ignore[arg-type]

        return get

    return decorate


def usable_cores() -> int:
    """The cores that this process may run on. Not all clusters confine a Slurm job to those that it got."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allotted = os.environ.get("SLURM_CPUS_ON_NODE", "")
    return min(cores, int(allotted)) if re.fullmatch("[1-9][0-9]{0,5}", allotted) else cores


def address_space() -> int | None:
    """The size of this process in bytes; None where the system does not say."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    return None


def give_back_memory() -> None:
    """What nothing refers to any more, to the system or the device: an allocator keeps it for the next time."""
    gc.collect()
    if (torch := sys.modules.get("torch")) is not None:
        torch.cuda.empty_cache()
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
