"""A process of our own that works for another one over a pipe, and ends with it; and how many there is room for.

Started anew, as a program: a fork would copy locks that RDKit and numpy hold, and ``multiprocessing`` would run the
parent's main module once more in the worker, which in an app is a page.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


class WorkerProcess:
    """Runs ``work(connection, *arguments)``, a function of an importable module. An end of either side ends the pipe.

    It is in a session of its own, so Ctrl-C is the parent's business alone.
    """

    def __init__(self, work: Callable[..., None], *arguments: Any, **environment: str) -> None:
        self.connection, other = multiprocessing.Pipe()
        with other:  # or the end of the worker would not end the pipe
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(other.fileno())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
            )
        self._ended = weakref.finalize(self, _end, self.process)
        self.connection.send((work, arguments))

    def end(self) -> None:
        """At once, whatever it does."""
        self._ended()
        self.connection.close()


def is_worker() -> bool:
    """Whether this is such a process, which no Ctrl-C reaches."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == __name__


def stop_at_end_of_input() -> None:
    """Waits until nobody can write to standard input any more; then as with Ctrl-C, and 20 s later at once."""
    if sys.stdin is not None:
        with suppress(OSError, ValueError):
            while os.read(sys.stdin.fileno(), 1 << 16):
                pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(20.0)  # any step of a model is shorter
    os._exit(130)


def usable_cores() -> int:
    """The cores that this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if affinity is None else len(affinity(0))


def address_space() -> int | None:
    """The size of this process in bytes; None where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    except OSError:
        return None
    return int(pages) * resource.getpagesize()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _work(descriptor: str) -> None:
    with Connection(int(descriptor)) as connection, suppress(EOFError, OSError):  # the parent is gone
        work, arguments = connection.recv()
        work(connection, *arguments)


if __name__ == "__main__":
    _work(sys.argv[1])
