"""A process of our own that works for another one over a pipe, and ends with it."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class WorkerProcess:
    """Runs ``work(connection, *arguments)``. Neither it nor its parent's side has threads: an end ends the pipe."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        # Not fork: RDKit and numpy have threads and locks by now.
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, *arguments), daemon=True)
        with _interrupts_later():
            self.process.start()
        other.close()  # or the end of the worker would not end the pipe

    def end(self) -> None:
        """At once, whatever it does."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def ignore_interrupts() -> None:
    """For a worker: Ctrl-C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """A worker that starts in here never hears of Ctrl-C, not even before it could say that it does not want to."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
