"""The app's one worker: pages submit jobs, one thread runs them one at a time, and pages poll for their events.

Torch runs in that thread alone, so that a page answers while a model computes. What this package does not know: what
jobs do, what their events mean, and what a page is.
"""

from __future__ import annotations

import atexit
import functools
import threading

from engine.figures.queue_words import waiting_words
from engine.jobs.job import Control, Job, JobProgress, JobSnapshot, Work
from engine.jobs.worker import Service, ServiceError

__all__ = [
    "Control",
    "Job",
    "JobProgress",
    "JobSnapshot",
    "Service",
    "ServiceError",
    "Work",
    "service",
    "waiting_words",
]

EXIT_S = 2.0
"""How long the end of the process waits for the worker."""
_MAKING = threading.Lock()


def service() -> Service:
    """The process's one service. Its thread starts with the first job."""
    with _MAKING:  # a cache alone may make two, when two pages come at once
        return _service()


@functools.cache
def _service() -> Service:
    made = Service()
    atexit.register(made.close, EXIT_S)  # a thread inside torch may crash a process that ends
    return made
