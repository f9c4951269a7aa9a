"""A fair queue: owners take turns, so that five jobs of one owner do not delay the single job of another.

The owner that was served last comes last, also behind owners that came during its turn. It knows owners by name and
jobs as anything at all; nothing here is locked.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """First in, first out for each owner; owners take turns, one job each."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}  # no deque is empty; the next owner comes first, the served one last
        self._served = ""

    def add(self, owner: str, job: T) -> None:
        self._waiting.setdefault(owner, deque()).append(job)
        self._move_served_last()

    def put_back(self, owner: str, job: T) -> None:
        """Returns the job of the served owner, whose turn is over; it comes before the owner's other jobs."""
        self._waiting.setdefault(owner, deque()).appendleft(job)
        self._move_served_last()

    def take(self) -> T | None:
        """The next job."""
        owner = next(iter(self._waiting), None)
        if owner is None:
            return None
        job = self._waiting[owner][0]
        self._served = owner
        self.remove(owner, job)
        self._move_served_last()
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

    def owners_besides(self, owner: str) -> int:
        """How many other owners wait."""
        return len(self._waiting) - (owner in self._waiting)

    def _move_served_last(self) -> None:
        if self._served in self._waiting:
            self._waiting[self._served] = self._waiting.pop(self._served)
