"""Long work beside the app: the command line in a process of its own, one command after the other.

A command has its own memory and its own torch, so pages answer while it computes; what it says and how it fails is what
a terminal would show. It is stopped politely when it is asked to, and when this process ends, however it ends: what it
had written stays, and goes on with ``run --resume``. What this module does not know: what a command's words mean, and
the runs that other processes write.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
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
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.errors import RunError, StoreError, one_line
from engine.models.devices import usable_cores
from engine.paths import ROOT
from engine.runner.said import Part, Said

State = Literal["waiting", "running", "stopping", "done", "failed", "stopped"]
ENDED: tuple[State, ...] = ("done", "failed", "stopped")

GRACE_S = 20.0
"""A command that was asked to stop finishes its step; then it is told, and then it is ended."""
EXIT_S = 5.0
"""How long the end of this process waits for that."""
MOST_TASKS = 50
"""Ended ones that are remembered."""
MOST_LINES, MOST_LOG_BYTES = 40, 64 * 1024
GROUPS = ("logits", "trace")
"""Commands whose second word says what is to be done."""
_PREFIX = "driftscope: "
_MAKING = threading.Lock()

Input = tuple[str, bytes]
"""A file that a command reads: the name that somebody gave it, and what is in it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How far a task is."""

    state: State
    ahead: int  # tasks that come first
    parts: tuple[Part, ...]
    seconds: float  # since its process was started
    log: tuple[str, ...]  # the last lines that it wrote for people
    error: str

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs that are in the store now, each once."""
        return tuple(dict.fromkeys(part.run_id for part in self.parts if part.is_in_store and part.run_id))

    @property
    def share(self) -> float:
        """Of all parts, those that are not begun too."""
        whole = max((part.parts for part in self.parts), default=1)
        return min(1.0, sum(1.0 if part.has_ended else part.work for part in self.parts) / whole)


class Task:
    """One command. Only its desk starts it."""

    def __init__(self, number: int, title: str, words: Sequence[str], folder: Path, about: str) -> None:
        self.number, self.title, self.words, self.about = number, title, tuple(words), about
        self.folder = folder
        self.inputs: list[Path] = []
        self.environment = dict(os.environ)
        self._state: State = "waiting"
        self._process: subprocess.Popen[bytes] | None = None
        self._began = self._ended = 0.0
        self._said = Said(folder / "progress.jsonl")
        self._lock = threading.Lock()

    @property
    def command(self) -> str:
        """What a person would type."""
        return shlex.join(["python", "-m", "engine", *self.words, *map(str, self.inputs)])

    def snapshot(self, ahead: int = 0) -> Snapshot:
        with self._lock:
            state, process, ended = self._state, self._process, self._ended
            parts = self._said.parts()
        until = ended or time.monotonic()
        log = self._log()
        error = _failure(None if process is None else process.returncode, log) if state == "failed" else ""
        return Snapshot(state, ahead, parts, until - self._began if self._began else 0.0, log, error)

    @property
    def state(self) -> State:
        return self._state

    def stop(self) -> None:
        """Not before the step that it is at; what it has written stays."""
        if (process := self._asked_to_stop()) is None:
            return
        for seconds, number in ((GRACE_S, signal.SIGTERM), (2 * GRACE_S, signal.SIGKILL)):
            later = threading.Timer(seconds, _signal, (process, number))
            later.daemon = True
            later.start()

    def _asked_to_stop(self) -> subprocess.Popen[bytes] | None:
        """The process, where it is the first time that it is asked."""
        with self._lock:
            if self._state == "waiting":
                self._state = "stopped"
            if self._state != "running" or self._process is None:
                return None
            self._state = "stopping"
            _signal(self._process, signal.SIGINT)
            return self._process

    def run(self) -> None:
        """Carry it out, to its end; for the desk's thread."""
        with self._lock:
            if self._state != "waiting":
                return
            try:
                self._process = self._started()
            except (OSError, ValueError) as error:
                self._state = "failed"
                with contextlib.suppress(OSError):
                    (self.folder / "stderr").write_text(f"{_PREFIX}it cannot be started: {error}\n", encoding="utf-8")
                return
            self._state, self._began = "running", time.monotonic()
        code = self._process.wait()
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        with self._lock:
            self._ended = time.monotonic()
            self._state = "done" if code == 0 else "stopped" if self.state == "stopping" else "failed"
        for path in self.inputs:
            shutil.rmtree(path.parent, ignore_errors=True)

    def end(self, seconds: float) -> None:
        """Stop it and wait for that, no longer than this. It starts no thread: a process that ends cannot."""
        self._asked_to_stop()
        process = self._process
        if process is None:
            return
        for patience_s, number in ((seconds, signal.SIGTERM), (1.0, signal.SIGKILL)):
            try:
                process.wait(patience_s)
            except subprocess.TimeoutExpired:
                _signal(process, number)

    def _started(self) -> subprocess.Popen[bytes]:
        names = 2 if self.words[0] in GROUPS else 1
        own = ["--progress", str(self.folder / "progress.jsonl"), "--until-eof"]
        told = [*self.words[:names], *own, *self.words[names:], *map(str, self.inputs)]
        words = [sys.executable, "-P", "-m", "engine", *told]
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("wb") as err:
            return subprocess.Popen(
                words,
                stdin=subprocess.PIPE,  # never written to: its end is how the command hears that we are gone
                stdout=out,
                stderr=err,
                env=self.environment | {"PYTHONPATH": str(ROOT)},
                start_new_session=True,  # Ctrl-C in the app's terminal is for the app, which then stops its tasks
            )

    def _log(self) -> tuple[str, ...]:
        try:
            with (self.folder / "stderr").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - MOST_LOG_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ()
        return tuple(line for raw in text.splitlines()[-MOST_LINES:] if (line := one_line(raw)))


class Desk:
    """Tasks in their order; a thread of its own carries out one after the other."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._folder: Path | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def submit(self, title: str, words: Sequence[str], inputs: Iterable[Input] = (), *, about: str = "") -> Task:
        """Put a command at the end of the queue. Its inputs are written aside, and their paths come after its words.

        ``about`` names what it works on, for who wants to know whether that is in work already.
        """
        task = Task(next(self._numbers), title, words, self._new_folder(), about)
        try:
            task.inputs = _written(inputs, task.folder)
        except BaseException:
            shutil.rmtree(task.folder, ignore_errors=True)
            raise
        with self._changed:
            self._forget_old()
            self._tasks.append(task)
            if self._thread is None:
                # Daemon: the end of the process is not to wait for it, but for what `close` allows.
                self._thread = threading.Thread(target=self._carry_out, name="driftscope-tasks", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return task

    def tasks(self) -> list[tuple[Task, Snapshot]]:
        """Newest first."""
        with self._changed:
            tasks = list(self._tasks)
        found, ahead = [], 0
        for task in tasks:
            seen = task.snapshot(ahead)
            found.append((task, seen))
            ahead += not seen.has_ended
        return found[::-1]

    def is_at(self, about: str) -> bool:
        """Whether a task about this waits or runs."""
        with self._changed:
            return any(task.about == about and task.state not in ENDED for task in self._tasks)

    @property
    def is_busy(self) -> bool:
        with self._changed:
            return any(task.state not in ENDED for task in self._tasks)

    def forget(self, task: Task) -> None:
        """Leave an ended task out from now on; its runs stay."""
        with self._changed:
            if task in self._tasks and task.state in ENDED:
                self._tasks.remove(task)
                shutil.rmtree(task.folder, ignore_errors=True)

    def close(self, seconds: float = EXIT_S) -> None:
        """Stop what waits and what runs."""
        with self._changed:
            self._is_closed = True
            tasks = list(self._tasks)
            self._changed.notify_all()
        for task in reversed(tasks):  # what waits first, or it would be begun
            task.end(seconds)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _carry_out(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._next() is not None)
                task = self._next()
                if self._is_closed or task is None:
                    return
            task.run()

    def _next(self) -> Task | None:
        return next((task for task in self._tasks if task.state == "waiting"), None)

    def _forget_old(self) -> None:
        ended = [task for task in self._tasks if task.state in ENDED]
        for task in ended[: max(0, len(ended) - MOST_TASKS + 1)]:
            self._tasks.remove(task)
            shutil.rmtree(task.folder, ignore_errors=True)

    def _new_folder(self) -> Path:
        try:
            with self._changed:
                if self._is_closed:
                    raise RunError("this server is about to end", "Start it anew")
                if self._folder is None:
                    self._folder = Path(tempfile.mkdtemp(prefix="driftscope-tasks-"))
                return Path(tempfile.mkdtemp(dir=self._folder))
        except OSError as error:
            raise StoreError(f"no temporary folder can be made: {error.strerror or error}", "Make room") from error


def desk() -> Desk:
    """The process's one desk."""
    with _MAKING:
        return _desk()


@functools.cache
def _desk() -> Desk:
    made = Desk()
    atexit.register(made.close)
    return made


def threads_beside() -> int:
    """Threads for a command, so that a core is left to the app where there are several."""
    return max(1, usable_cores() - 1)


def file_name(given: str) -> str:
    """A name of a file of our own that still tells which it was: it may have come from anybody."""
    kept = re.sub(r"[^A-Za-z0-9._-]+", "_", given)[-80:].lstrip("._-")
    return kept or "file"


def _written(inputs: Iterable[Input], folder: Path) -> list[Path]:
    """Each in a folder of its own, since two may have one name."""
    found = []
    for number, (name, content) in enumerate(inputs):
        path = folder / f"{number:04d}" / file_name(name)
        try:
            path.parent.mkdir()
            path.write_bytes(content)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror or error}", "Make room there") from error
        found.append(path)
    return found


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To the command and to all that it started, unless it has ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _failure(code: int | None, log: Sequence[str]) -> str:
    """The command's own last line, or how it ended where it had no time for one."""
    said = [line.removeprefix(_PREFIX) for line in log if line.startswith(_PREFIX)]
    if said:
        return said[-1]
    if code is not None and code < 0:
        return f"it was ended from outside ({signal.strsignal(-code) or -code}). Look at the memory that is free"
    return log[-1] if log else f"it ended with status {code} and without a word"
