"""Many answers judged, in processes of their own, each with a limit.

A library may take hours over one molecule, or crash: then its process is ended, the sample's verdict says so, and the
next one goes on in a new process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
from rdkit import Chem

from engine.chem.smiles import parse_smiles
from engine.chem.strain import xtb_calculator
from engine.chem.verdict import CRASH, PLAIN, TIME, JudgeSettings, judge_answer
from engine.errors import DriftscopeError
from engine.processes import usable_cores
from engine.records import FailedCheck, MoleculeVerdict
from engine.sandbox import Answer, Limits, Pool, SandboxError

LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """One answer: its text without prompt and end token, and the SMILES that was asked, empty for the text's own."""

    key: int
    text: str
    smiles: str


class JudgePool(Pool):
    """Takes tasks at any time and hands verdicts back when asked."""

    def __init__(self, settings: JudgeSettings = PLAIN, *, workers: int | None = None, limit_s: float = LIMIT_S):
        if settings.strain == "gfn2-xtb":
            xtb_calculator()  # what is missing is said here: in a process it would count as a crash
        self.workers, self.limit_s = workers or usable_cores(), limit_s
        super().__init__(self.workers, _judging, settings, limits=Limits(limit_s, memory_mb=4096))
        self._tasks: dict[Future[Answer], JudgeTask] = {}  # without a verdict that was handed back

    @property
    def under_way(self) -> int:
        """Tasks without a verdict that was handed back."""
        return len(self._tasks)

    def add(self, task: JudgeTask) -> None:
        self._tasks[self.submit(task.text, task.smiles)] = task

    def verdicts(self, *, wait: bool, most_s: float = math.inf) -> list[tuple[JudgeTask, MoleculeVerdict]]:
        """What is done since the last call; with ``wait`` at least one, while any is under way and ``most_s`` last."""
        until = time.monotonic() + most_s
        done = wait_for(self._tasks, 0).done
        while wait and not done and self._tasks and (left_s := until - time.monotonic()) > 0:
            done = wait_for(self._tasks, min(1.0, left_s), FIRST_COMPLETED).done
        return [(self._tasks.pop(future), self._verdict(future)) for future in list(self._tasks) if future in done]

    def drop(self, keys: Collection[int]) -> None:
        for future, task in list(self._tasks.items()):
            if task.key in keys:
                del self._tasks[future]
                self.cancel(future)

    def _verdict(self, future: Future[Answer]) -> MoleculeVerdict:
        try:
            return msgspec.convert(future.result()[0], MoleculeVerdict)
        except (SandboxError, OSError) as error:
            if (why := getattr(error, "why", "end")) == "start":
                raise DriftscopeError("a process that judges ended before its work", "Try again") from error
            reason = f"stopped after {self.limit_s:g} s" if why == "time" else "the process that judged it ended"
            return MoleculeVerdict(0, 0, None, None, (FailedCheck(TIME if why == "time" else CRASH, (), reason),))


def judged(
    tasks: Iterable[JudgeTask], settings: JudgeSettings = PLAIN, **how: Any
) -> Generator[tuple[JudgeTask, MoleculeVerdict]]:
    """Each task with its verdict, as they are done; tasks are taken from the iterable as they are needed."""
    with JudgePool(settings, **how) as pool:
        for task in tasks:
            pool.add(task)
            yield from pool.verdicts(wait=pool.under_way > 2 * pool.workers)
        while pool.under_way:
            yield from pool.verdicts(wait=True)


def _judging(settings: JudgeSettings) -> Callable[[str, str], Answer]:
    return lambda text, smiles: (msgspec.to_builtins(judge_answer(text, expected_mol(smiles), settings)), b"")


@lru_cache(maxsize=64)
def expected_mol(smiles: str) -> Chem.Mol | None:
    """None where it does not read: then nothing is asked."""
    with suppress(DriftscopeError):
        return parse_smiles(smiles).mol
    return None
