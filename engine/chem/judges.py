"""Many answers judged, in processes beside this one, each with a limit.

A library may take hours over one molecule, or crash: then its process is ended, the sample's verdict says so, and the
next one goes on in a new process. Few samples are under way at a time, so memory does not grow with their number.
"""

from __future__ import annotations

import math
import multiprocessing.connection
import os
import time
from collections import deque
from collections.abc import Collection, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rdkit import Chem

from engine.chem.smiles import parse_smiles
from engine.chem.strain import xtb_calculator
from engine.chem.verdict import CRASH, PLAIN, TIME, JudgeSettings, judge_answer
from engine.errors import DriftscopeError
from engine.processes import WorkerProcess, usable_cores
from engine.records import FailedCheck, MoleculeVerdict

LIMIT_S = 60.0
_READY = "ready"


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """One answer: its text without prompt and end token, and the SMILES that was asked, empty for the text's own."""

    key: int
    text: str
    smiles: str


class JudgePool:
    """Takes tasks at any time and hands verdicts back when asked; between, its processes work on what they have."""

    def __init__(
        self, settings: JudgeSettings = PLAIN, *, workers: int | None = None, limit_s: float = LIMIT_S
    ) -> None:
        if settings.strain == "gfn2-xtb":
            xtb_calculator()  # what is missing is said here: in a process it would count as a crash
        self.settings, self.limit_s = settings, limit_s
        self.workers = workers or usable_cores()
        self.waiting: deque[JudgeTask] = deque()
        self._pool: list[_JudgeProcess] = []
        self._done: list[tuple[JudgeTask, MoleculeVerdict]] = []

    def __enter__(self) -> JudgePool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends its processes, of which the next task starts others; what was not handed back is dropped."""
        self.waiting.clear()
        self._done.clear()
        for process in self._pool:
            process.end()
        self._pool.clear()

    @property
    def under_way(self) -> int:
        """Tasks without a verdict yet."""
        return len(self.waiting) + sum(process.task is not None for process in self._pool)

    def start(self, processes: int | None = None) -> None:
        """So many, or all, before there is work."""
        while len(self._pool) < (self.workers if processes is None else processes):
            self._pool.append(_JudgeProcess(self.settings))

    def add(self, task: JudgeTask) -> None:
        self.waiting.append(task)
        self._advance(wait_s=0.0)

    def verdicts(self, *, wait: bool, most_s: float = math.inf) -> list[tuple[JudgeTask, MoleculeVerdict]]:
        """What is done since the last call; with ``wait`` at least one, while any is under way and ``most_s`` last."""
        until = time.monotonic() + most_s
        self._advance(wait_s=0.0)
        while wait and not self._done and self.under_way and (left_s := until - time.monotonic()) > 0:
            self._advance(wait_s=min(1.0, left_s))
        done, self._done = self._done, []
        return done

    def drop(self, keys: Collection[int]) -> None:
        """Forgets tasks: a process that works on one of them is ended, and the next task starts another."""
        self.waiting = deque(task for task in self.waiting if task.key not in keys)
        self._done = [(task, verdict) for task, verdict in self._done if task.key not in keys]
        for process in [process for process in self._pool if process.task is not None and process.task.key in keys]:
            self._pool.remove(process)
            process.end()

    def _advance(self, wait_s: float) -> None:
        """Hand out tasks, take answers, and end what is over its limit."""
        self.start(min(self.workers, self.under_way))
        self._hand_out()
        left = [process.began + self.limit_s - time.monotonic() for process in self._pool if process.task is not None]
        by_connection: dict[Any, _JudgeProcess] = {process.connection: process for process in self._pool}
        for connection in multiprocessing.connection.wait(list(by_connection), max(0.0, min([wait_s, *left]))):
            self._receive(by_connection[connection])
        for process in [process for process in self._pool if process.task is not None]:
            if time.monotonic() - process.began > self.limit_s:
                self._give_up(process, FailedCheck(TIME, (), f"stopped after {self.limit_s:g} s"))
        self._hand_out()

    def _hand_out(self) -> None:
        for process in self._pool:
            if self.waiting and process.is_idle:
                process.send(self.waiting.popleft())

    def _receive(self, process: _JudgeProcess) -> None:
        try:
            answer = process.connection.recv()
        except (EOFError, OSError):
            if process.task is None:
                raise DriftscopeError("a process that judges ended before its work", "Try again") from None
            self._give_up(process, FailedCheck(CRASH, (), "the process that judged it ended"))
            return
        if answer != _READY and process.task is not None:
            self._done.append((process.task, answer))
        process.task, process.is_ready = None, True

    def _give_up(self, process: _JudgeProcess, failure: FailedCheck) -> None:
        assert process.task is not None
        self._done.append((process.task, MoleculeVerdict(0, 0, None, None, (failure,))))
        self._pool.remove(process)
        process.end()


class _JudgeProcess(WorkerProcess):
    def __init__(self, settings: JudgeSettings) -> None:
        super().__init__(_judge, settings)
        self.task: JudgeTask | None = None
        self.began = 0.0
        self.is_ready = False

    @property
    def is_idle(self) -> bool:
        return self.is_ready and self.task is None

    def send(self, task: JudgeTask) -> None:
        self.task, self.began = task, time.monotonic()
        with suppress(OSError):  # it has ended: the end of its pipe says so
            self.connection.send(task)


def judged(
    tasks: Iterable[JudgeTask],
    settings: JudgeSettings = PLAIN,
    *,
    workers: int | None = None,
    limit_s: float = LIMIT_S,
) -> Generator[tuple[JudgeTask, MoleculeVerdict], None, None]:
    """Each task with its verdict, as they are done; tasks are taken from the iterable as they are needed."""
    with JudgePool(settings, workers=workers, limit_s=limit_s) as pool:
        for task in tasks:
            pool.add(task)
            yield from pool.verdicts(wait=pool.under_way > 2 * pool.workers)
        while pool.under_way:
            yield from pool.verdicts(wait=True)


def _judge(connection: Any, settings: JudgeSettings) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # before tblite is loaded
    connection.send(_READY)
    while True:
        task = connection.recv()
        connection.send(judge_answer(task.text, _asked(task.smiles), settings))


@lru_cache(maxsize=64)
def _asked(smiles: str) -> Chem.Mol | None:
    """None where it does not read: then nothing is asked."""
    try:
        return parse_smiles(smiles).mol
    except DriftscopeError:
        return None
