"""Writers that are killed with signal 9: ``python -m tests.engine.store.killed MODE PLACE COUNT``.

``each`` kills one at every COUNT-th call of the system by which it writes, in a place of its own, until one comes to
its end.
``whenever`` lets writers go on without end in one place, and kills each from outside after some of its calls.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.staging import sweep
from tests.engine.store.faults import Fault
from tests.engine.store.stored_runs import add, begun, published, store_at, written

SEED = 5


def work(place: Path) -> None:
    """All that a writer does: a run in two groups, another one removed, a third one annotated."""
    store = store_at(place)
    staging = begun(store.home, "new", 4)
    add(staging, range(2), steps=True)
    add(staging, range(2, 4))
    published(staging)
    store.remove("old")
    store.annotate("kept", label="said")


def suicide() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def child(task: Callable[[], None]) -> int:
    """The process's number; the parent alone comes back."""
    number = os.fork()
    if number == 0:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - nothing of this process may run on
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    return number


def was_killed(number: int) -> bool:
    _, status = os.waitpid(number, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def each(root: Path, stride: int) -> None:
    template = root / "template"
    for name in ("old", "kept"):
        written(Files(template), name)
    for turn in itertools.count(step=stride):
        place = Path(shutil.copytree(template, root / str(turn)))

        def task(place: Path = place, turn: int = turn) -> None:
            with Fault(suicide, turn).armed():
                work(place)

        if not was_killed(child(task)):
            shutil.rmtree(template)
            return


def whenever(place: Path, count: int) -> None:
    rng = random.Random(SEED)
    for writer in range(count):
        reads, writes = os.pipe()

        def task(writer: int = writer, pipe: int = writes) -> None:
            files = Files(place)
            with Fault(lambda: os.write(pipe, b".")).armed():
                for number in itertools.count():
                    sweep(files, RUN)
                    written(files, f"r{writer}-{number}", steps=True)

        number = child(task)
        os.close(writes)
        for _ in range(rng.randrange(5, 200)):
            os.read(reads, 1)
        os.kill(number, signal.SIGKILL)
        was_killed(number)
        os.close(reads)


if __name__ == "__main__":
    mode, root, given = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    {"each": each, "whenever": whenever}[mode](root, given)
