"""Many answers judged, in processes beside this one, each with a limit.

A library may take hours over one molecule, or crash: then its process is ended, the sample's verdict says so, and the
next one goes on in a new process. Few samples are under way at a time, so memory does not grow with their number.
"""

from __future__ import annotations

import math
import multiprocessing.connection
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass
from functools import lru_cache

import msgspec
from rdkit import Chem

from engine.chem.smiles import parse_smiles
from engine.chem.strain import xtb_calculator
from engine.chem.verdict import CRASH, PLAIN, TIME, JudgeSettings, judge_answer
from engine.errors import DriftscopeError
from engine.processes import usable_cores
from engine.records import FailedCheck, MoleculeVerdict
from engine.sandbox import Answer, Limits, Sandbox, SandboxError

LIMIT_S = 60.0


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
        self._pool: list[_Judge] = []
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
            self._pool.append(_Judge(_judging, self.settings, limits=Limits(self.limit_s)))
            self._pool[-1].start()

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
        """Hand out tasks and take answers."""
        self.start(min(self.workers, self.under_way))
        self._hand_out()
        by_connection = {judge.connection: judge for judge in self._pool if judge.task is not None}
        for connection in multiprocessing.connection.wait(list(by_connection), wait_s):
            self._receive(by_connection[connection])  # type: ignore[index]
        self._hand_out()

    def _hand_out(self) -> None:
        for judge in self._pool:
            if self.waiting and judge.task is None:
                judge.task = self.waiting.popleft()
                judge.send(judge.task.text, judge.task.smiles)

    def _receive(self, judge: _Judge) -> None:
        task, judge.task = judge.task, None
        assert task is not None
        try:
            answer = judge.receive()
            assert answer is not None
            verdict = msgspec.convert(answer[0], MoleculeVerdict)
        except SandboxError as error:
            if error.why == "start":
                raise DriftscopeError("a process that judges ended before its work", "Try again") from error
            told = {"time": f"stopped after {self.limit_s:g} s"}.get(error.why, "the process that judged it ended")
            failure = FailedCheck(TIME if error.why == "time" else CRASH, (), told)
            verdict = MoleculeVerdict(0, 0, None, None, (failure,))
        self._done.append((task, verdict))


class _Judge(Sandbox):
    """Takes a task at a time."""

    task: JudgeTask | None = None


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


def _judging(settings: JudgeSettings) -> Callable[[str, str], Answer]:
    return lambda text, smiles: (msgspec.to_builtins(judge_answer(text, _asked(smiles), settings)), b"")


@lru_cache(maxsize=64)
def _asked(smiles: str) -> Chem.Mol | None:
    """None where it does not read: then nothing is asked."""
    try:
        return parse_smiles(smiles).mol
    except DriftscopeError:
        return None
