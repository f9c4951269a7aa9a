"""A fair queue: owners take turns, so that five jobs of one owner do not delay the single job of another.

It knows owners by name and jobs as anything at all; nothing here is locked.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """First in, first out for each owner; owners take turns, one job each."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}  # never empty; the next owner comes first

    def add(self, owner: str, job: T) -> None:
        self._waiting.setdefault(owner, deque()).append(job)

    def take(self) -> T | None:
        """The next job."""
        owner = next(iter(self._waiting), None)
        if owner is None:
            return None
        waiting = self._waiting.pop(owner)
        job = waiting.popleft()
        if waiting:
            self._waiting[owner] = waiting
        return job

    def remove(self, owner: str, job: T) -> None:
        """``job`` must be there. An owner with other jobs keeps the turn."""
        self._waiting[owner].remove(job)
        if not self._waiting[owner]:
            del self._waiting[owner]

    def order(self) -> list[T]:
        """All jobs in the order of `take`: each owner's first, then each owner's second, and so on."""
        rounds = itertools.zip_longest(*self._waiting.values())
        return [job for jobs in rounds for job in jobs if job is not None]
