"""This process: its end with what started it, the cores that it may use, its size, and what it can give back."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path


def stop_at_end_of_input() -> None:
    """Waits until nobody can write to standard input any more; then as with Ctrl-C, and 20 s later at once."""
    with suppress(OSError, ValueError, AttributeError):  # AttributeError: there is no standard input
        while os.read(sys.stdin.fileno(), 1 << 16):
            pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(20.0)  # any step of a model is shorter
    os._exit(130)


def usable_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
