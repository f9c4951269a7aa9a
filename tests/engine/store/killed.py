"""Writers that are killed with signal 9 at every COUNT-th call of the system by which they write, each in a place of
its own, until one comes to its end: ``python -m tests.engine.store.killed PLACE COUNT``."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
from pathlib import Path

from engine.store.files import Files
from tests.engine.store.faults import Fault
from tests.engine.store.stored_runs import add, begun, published, store_at, written


def work(folder: Path) -> None:
    """All that a writer does: a run in two groups, another one removed, a third one annotated."""
    store = store_at(folder)
    staging = begun(store.home, "new", 4)
    add(staging, range(2), steps=True)
    add(staging, range(2, 4))
    published(staging)
    store.remove("old")
    store.annotate("kept", label="said")


def was_killed(folder: Path, turn: int) -> bool:
    number = os.fork()
    if number == 0:
        try:
            with Fault(lambda: os.kill(os.getpid(), signal.SIGKILL), turn).armed():
                work(folder)
        except BaseException as error:  # noqa: BLE001 - nothing of this process may run on
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(number, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


if __name__ == "__main__":
    root, stride = Path(sys.argv[1]), int(sys.argv[2])
    template = root / "template"
    for name in ("old", "kept"):
        written(Files(template), name)
    for turn in itertools.count(step=stride):
        if not was_killed(Path(shutil.copytree(template, root / str(turn))), turn):
            break
    shutil.rmtree(template)
