"""The judge that all lanes share: a process beside the model, kept from lane to lane, since starting it takes a second.

Lanes that pause in turns have answers there at the same time; each gets its own verdicts back. Nothing here is locked:
only the lane whose turn it is uses it.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, field, replace

from engine.chem.judges import JudgePool, JudgeTask
from engine.chem.verdict import JudgeSettings
from engine.records import MoleculeVerdict

LIMIT_S = 20.0
"""Longest judging of one molecule, while a user waits."""
WAIT_S = 0.2
"""Longest wait for a verdict; then another reader may have a turn."""


@dataclass(slots=True)
class _SharedPool:
    pool: JudgePool
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    verdicts: dict[int, MoleculeVerdict] = field(default_factory=dict)  # by number, until their lane asks for them


@functools.lru_cache(maxsize=1)
def _shared(settings: JudgeSettings) -> _SharedPool:
    return _SharedPool(JudgePool(settings, workers=1, limit_s=LIMIT_S))


class LaneJudges:
    """One lane's part of the shared pool."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._shared = _shared(settings)
        self._shared.pool.start()
        self._own: dict[int, JudgeTask] = {}  # under way, by their number in the pool

    @property
    def under_way(self) -> int:
        return len(self._own)

    def add(self, task: JudgeTask) -> None:
        number = next(self._shared.numbers)
        self._own[number] = task
        self._shared.pool.add(replace(task, key=number))

    def verdicts(self, *, wait: bool) -> list[tuple[JudgeTask, MoleculeVerdict]]:
        """What is done since the last call; with ``wait`` after a moment, where there is nothing yet."""
        shared = self._shared
        is_due = wait and not self._own.keys() & shared.verdicts.keys()
        shared.verdicts |= {task.key: verdict for task, verdict in shared.pool.verdicts(wait=is_due, most_s=WAIT_S)}
        done = self._own.keys() & shared.verdicts.keys()
        return [(self._own.pop(number), shared.verdicts.pop(number)) for number in sorted(done)]

    def drop(self) -> None:
        """Of a lane that was given up: its answers delay nobody."""
        self._shared.pool.drop(self._own)
        for number in self._own:
            self._shared.verdicts.pop(number, None)
        self._own = {}
