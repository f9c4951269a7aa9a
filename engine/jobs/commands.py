"""Long work of the app: commands of the terminal, each in a process of its own, one after the other.

A command has its own memory and its own torch, so pages answer while it computes; its progress and its errors are those
of a terminal. It is stopped with SIGINT, on request and when this process ends, however it ends: what it has saved
stays, and ``run --resume`` resumes it.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.errors import DriftscopeError, StoreError, one_line
from engine.figures.queue_words import ENDED
from engine.jobs.progress import PartProgress, ProgressFile
from engine.jobs.service import Job, JobSnapshot, Service
from engine.paths import ROOT
from engine.processes import made_once

GRACE_S = 20.0
"""Seconds that a stopped command has to finish its step, before SIGTERM; and again, before SIGKILL."""
EXIT_S, LOOK_S = 5.0, 0.1
"""How long the end of this process waits for a command, and how often a command is looked at."""
MOST_TASKS, MOST_LINES, MOST_LOG_BYTES = 50, 40, 64 * 1024
"""Ended tasks that are kept in the list, and what is shown of each one's standard error."""
GROUPS = ("logits", "trace")
"""Commands with subcommands."""
_PREFIX = "driftscope: "

Input = tuple[str, bytes]
"""A file that a command reads: the name that a user gave it, and its content."""


@dataclass(frozen=True, slots=True)
class TaskSnapshot(JobSnapshot):
    parts: tuple[PartProgress, ...]
    log: tuple[str, ...]  # the last lines of its standard error

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs that are in the store now, each once."""
        return tuple(dict.fromkeys(p.run_id for p in self.parts if p.state in ("done", "there") and p.run_id))

    @property
    def share(self) -> float:
        """Of all parts, also those that have not begun."""
        whole = max((part.parts for part in self.parts), default=1)
        return min(1.0, sum(1.0 if part.has_ended else part.work for part in self.parts) / whole)


class Task:
    """One command; its queue starts it."""

    job: Job[None]

    def __init__(self, number: int, title: str, words: Sequence[str], folder: Path, about: str) -> None:
        self.number = number
        self.title = title
        self.words = tuple(words)
        self.about = about
        self.folder = folder
        self.inputs: list[Path] = []
        self.process: subprocess.Popen[bytes] | None = None
        self._progress = ProgressFile(folder / "progress.jsonl")
        self._lock = threading.Lock()

    @property
    def command(self) -> str:
        """What a person would type."""
        return shlex.join(["python", "-m", "engine", *self.words, *map(str, self.inputs)])

    def snapshot(self) -> TaskSnapshot:
        seen = self.job.poll()
        with self._lock:
            return TaskSnapshot(**asdict(seen), parts=self._progress.parts(), log=self._log())

    def run(self, job: Job[None]) -> None:
        """The command from its start to its end. Its inputs go with it, however it ends."""
        try:
            self._run(job)
        finally:
            shutil.rmtree(self.folder / "inputs", ignore_errors=True)

    def _run(self, job: Job[None]) -> None:
        try:
            self.process = process = self._started()
        except (OSError, ValueError) as error:
            raise DriftscopeError(f"it cannot be started: {error}") from error
        signals, next_s = iter((signal.SIGINT, signal.SIGTERM)), 0.0
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_S)
            if job.cancelled() and time.monotonic() >= next_s:
                self.signal(next(signals, signal.SIGKILL))
                next_s = time.monotonic() + GRACE_S
        assert process.stdin is not None
        process.stdin.close()
        if process.returncode != 0:
            raise DriftscopeError(_failure(process.returncode, self._log()))

    def signal(self, number: int) -> None:
        """To the command and to its child processes, unless it has ended."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def _started(self) -> subprocess.Popen[bytes]:
        names = 2 if self.words[0] in GROUPS else 1
        options = ["--progress", str(self.folder / "progress.jsonl"), "--until-eof"]
        command = [*self.words[:names], *options, *self.words[names:], *map(str, self.inputs)]
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "engine", *command],
                stdin=subprocess.PIPE,  # never written to: its end tells the command that this process has ended
                stdout=out,
                stderr=err,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,  # Ctrl-C in the app's terminal is for the app, which then stops its tasks
            )

    def _log(self) -> tuple[str, ...]:
        """Inputs by their names: where their copies were says nothing to who gave them."""
        try:
            with (self.folder / "stderr").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - MOST_LOG_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ()
        for path in self.inputs:
            text = text.replace(str(path), path.name)
        return tuple(filter(None, map(one_line, text.splitlines()[-MOST_LINES:])))


class TaskQueue:
    """Tasks in their order, as jobs of one owner: one runs after the other."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []
        self._numbers = itertools.count(1)
        self._service = Service(most_queued=500, heartbeat_s=math.inf, grace_s=math.inf)

    def submit(self, title: str, words: Sequence[str], inputs: Iterable[Input] = (), *, about: str = "") -> Task:
        """Adds a command to the queue. Its inputs are written to files, whose paths come after its words; ``about``
        names what it works on, for ``is_at``."""
        try:
            folder = Path(tempfile.mkdtemp(prefix="driftscope-tasks-"))
            task = Task(next(self._numbers), title, words, folder, about)
            at = time.strftime("uploaded %Y-%m-%d %H.%M.%S")  # files of a training are named by their folder
            for number, (name, content) in enumerate(inputs):  # each in a folder of its own: two may have one name
                path = folder / "inputs" / f"{number:04d}" / at / file_name(name)
                path.parent.mkdir(parents=True)
                path.write_bytes(content)
                task.inputs.append(path)
        except OSError as error:
            problem = f"{error.filename or 'a file'} cannot be written: {error.strerror or error}"
            raise StoreError(problem, "Check TMPDIR and its disk") from error
        task.job = self._service.submit("", task.run)
        self._tasks.append(task)
        for old in [task for task in self._tasks if task.job.state in ENDED][:-MOST_TASKS]:
            self.forget(old)
        return task

    def tasks(self) -> list[tuple[Task, TaskSnapshot]]:
        """Newest first."""
        return [(task, task.snapshot()) for task in reversed(self._tasks)]

    def is_at(self, about: str) -> bool:
        """Whether a task about this waits or runs."""
        return any(task.about == about and task.job.state not in ENDED for task in self._tasks)

    def forget(self, task: Task) -> None:
        """Removes an ended task from the list; its runs stay."""
        if task in self._tasks and task.job.state in ENDED:
            self._tasks.remove(task)
            shutil.rmtree(task.folder, ignore_errors=True)

    def close(self, seconds: float = EXIT_S) -> None:
        self._service.close(seconds)
        for task in self._tasks:
            task.signal(signal.SIGKILL)  # whatever is left: what it has saved stays
            shutil.rmtree(task.folder, ignore_errors=True)


@made_once()
def task_queue() -> TaskQueue:
    made = TaskQueue()
    atexit.register(made.close)
    return made


def file_name(name: str) -> str:
    """A safe file name that resembles the given one, which is untrusted: ``a b/c.json`` -> ``a_b_c.json``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)[-80:].lstrip("._-") or "file"


def _failure(code: int, log: Sequence[str]) -> str:
    """The command's own error line, or how it ended where it wrote none."""
    errors = [line.removeprefix(_PREFIX) for line in log if line.startswith(_PREFIX)]
    if errors:
        return errors[-1]
    if code < 0:
        return f"it was killed ({signal.strsignal(-code) or -code}). Check the free memory"
    return log[-1] if log else f"it ended with status {code} and no message"
