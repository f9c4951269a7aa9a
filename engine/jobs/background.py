"""Long work of the app: commands of the terminal, each in a process of its own, one after the other.

A command has its own memory and its own torch, so pages answer while it computes; its progress and its errors are those
of a terminal. It is stopped with SIGINT, on request and when this process ends, however it ends: what it has saved
stays, and ``run --resume`` resumes it. What this module does not know: what a command's words mean, and the runs that
other processes write.
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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import RunError, StoreError, one_line
from engine.figures.queue_words import ENDED, QueueState
from engine.jobs.progress_file import PartProgress, ProgressFile
from engine.paths import ROOT

GRACE_S = 20.0
"""Seconds that a stopped command has to finish its step, before SIGTERM; and again, before SIGKILL."""
EXIT_S = 5.0
"""Seconds that the end of this process waits for a command."""
LOOK_S, HANG_S = 10.0, 600.0
"""Seconds between two looks at a command, and those after which one that does nothing is stopped."""
MOST_TASKS = 50
"""Tasks that are kept in the list."""
MOST_LINES, MOST_LOG_BYTES = 40, 64 * 1024
GROUPS = ("logits", "trace")
"""Commands with subcommands."""
_PREFIX = "driftscope: "
_MAKING = threading.Lock()

Input = tuple[str, bytes]
"""A file that a command reads: the name that a user gave it, and its content."""


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    state: QueueState
    ahead: int  # tasks before it, the running one too
    parts: tuple[PartProgress, ...]
    seconds: float  # since its process was started
    log: tuple[str, ...]  # the last lines of its standard error
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
        """Of all parts, also those that have not begun."""
        whole = max((part.parts for part in self.parts), default=1)
        return min(1.0, sum(1.0 if part.has_ended else part.work for part in self.parts) / whole)


class Task:
    """One command; its queue starts it."""

    def __init__(self, number: int, title: str, words: Sequence[str], folder: Path, about: str) -> None:
        self.number, self.title, self.words, self.about = number, title, tuple(words), about
        self.folder = folder
        self.inputs: list[Path] = []
        self.environment = dict(os.environ)
        self._state: QueueState = "waiting"
        self._process: subprocess.Popen[bytes] | None = None
        self._began = self._ended = 0.0
        self._progress = ProgressFile(folder / "progress.jsonl")
        self._lock = threading.Lock()

    @property
    def command(self) -> str:
        """What a person would type."""
        return shlex.join(["python", "-m", "engine", *self.words, *map(str, self.inputs)])

    def snapshot(self, ahead: int = 0) -> TaskSnapshot:
        with self._lock:
            state, process, ended = self._state, self._process, self._ended
            parts = self._progress.parts()
        until = ended or time.monotonic()
        log = self._log()
        error = _failure(None if process is None else process.returncode, log) if state == "failed" else ""
        return TaskSnapshot(state, ahead, parts, until - self._began if self._began else 0.0, log, error)

    @property
    def state(self) -> QueueState:
        return self._state

    def stop(self) -> None:
        """Stops after the current step; what is saved stays."""
        if (process := self._begin_stop()) is None:
            return
        for seconds, number in ((GRACE_S, signal.SIGTERM), (2 * GRACE_S, signal.SIGKILL)):
            later = threading.Timer(seconds, _signal, (process, number))
            later.daemon = True
            later.start()

    def _begin_stop(self) -> subprocess.Popen[bytes] | None:
        """The running process, at the first request; else None."""
        with self._lock:
            if self._state == "waiting":
                self._state = "stopped"
            if self._state != "running" or self._process is None:
                return None
            self._state = "stopping"
            _signal(self._process, signal.SIGINT)
            return self._process

    def run(self) -> None:
        """Runs the command to its end; for the queue's thread."""
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
        code = self._waited(self._process)
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        for path in self.inputs if code == 0 else ():  # before its end is seen; else its rest may need them
            shutil.rmtree(path.parent, ignore_errors=True)
        with self._lock:
            self._ended = time.monotonic()
            self._state = "done" if code == 0 else "stopped" if self.state == "stopping" else "failed"

    def _waited(self, process: subprocess.Popen[bytes]) -> int:
        """Until it ends. One that neither computes nor reports for ``HANG_S`` is stopped: others wait behind it."""
        seen, since = None, time.monotonic()
        while True:
            try:
                return process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                now = self._activity(process.pid)
            if now is None or now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > HANG_S:
                with contextlib.suppress(OSError), (self.folder / "stderr").open("a", encoding="utf-8") as log:
                    log.write(f"{_PREFIX}it was stopped: nothing happened for {HANG_S:,.0f} s\n")
                _signal(process, signal.SIGKILL)

    def _activity(self, session: int) -> tuple[int, ...] | None:
        """What grows while a command works: its files, and whole seconds of its processes; None where not known."""
        try:
            stats = list(_process_stats())
            sizes = [(self.folder / name).stat().st_size for name in ("stderr", "stdout")]
            reported = self.folder / "progress.jsonl"
            sizes.append(reported.stat().st_size if reported.exists() else 0)
        except OSError:
            return None
        if not stats:
            return None
        fields = [stat.rpartition(")")[2].split() for stat in stats]
        ticks = sum(int(field[11]) + int(field[12]) for field in fields if int(field[3]) == session)
        return (ticks // os.sysconf("SC_CLK_TCK"), *sizes)

    def end(self, seconds: float) -> None:
        """Stops it, and waits at most this long. It starts no thread: a process that ends cannot."""
        self._begin_stop()
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
        options = ["--progress", str(self.folder / "progress.jsonl"), "--until-eof"]
        command = [*self.words[:names], *options, *self.words[names:], *map(str, self.inputs)]
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "engine", *command],
                stdin=subprocess.PIPE,  # never written to: its end tells the command that this process has ended
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


class TaskQueue:
    """Tasks in their order; a thread of its own runs one after the other."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._folder: Path | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def submit(self, title: str, words: Sequence[str], inputs: Iterable[Input] = (), *, about: str = "") -> Task:
        """Adds a command to the queue. Its inputs are written to files, whose paths come after its words.

        ``about`` names what it works on, for ``is_at``.
        """
        task = Task(next(self._numbers), title, words, self._new_folder(), about)
        try:
            task.inputs = _written(inputs, task.folder)
        except BaseException:
            shutil.rmtree(task.folder, ignore_errors=True)
            raise
        with self._changed:
            ended = [task for task in self._tasks if task.state in ENDED]
            for old in ended[: max(0, len(ended) - MOST_TASKS + 1)]:
                self._remove(old)
            self._tasks.append(task)
            if self._thread is None:
                # Daemon: the end of the process waits for `close`, not for this thread.
                self._thread = threading.Thread(target=self._run_tasks, name="driftscope-tasks", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return task

    def tasks(self) -> list[tuple[Task, TaskSnapshot]]:
        """Newest first."""
        with self._changed:
            tasks = list(self._tasks)
        snapshots, ahead = [], 0
        for task in tasks:
            seen = task.snapshot(ahead)
            snapshots.append((task, seen))
            ahead += not seen.has_ended
        return snapshots[::-1]

    def is_at(self, about: str) -> bool:
        """Whether a task about this waits or runs."""
        with self._changed:
            return any(task.about == about and task.state not in ENDED for task in self._tasks)

    def forget(self, task: Task) -> None:
        """Removes an ended task from the list; its runs stay."""
        with self._changed:
            if task in self._tasks and task.state in ENDED:
                self._remove(task)

    def close(self, seconds: float = EXIT_S) -> None:
        with self._changed:
            self._is_closed = True
            tasks = list(self._tasks)
            self._changed.notify_all()
        for task in reversed(tasks):  # waiting ones first, or they would be started
            task.end(seconds)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _run_tasks(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._next() is not None)
                task = self._next()
                if self._is_closed or task is None:
                    return
            task.run()

    def _next(self) -> Task | None:
        return next((task for task in self._tasks if task.state == "waiting"), None)

    def _remove(self, task: Task) -> None:
        self._tasks.remove(task)
        shutil.rmtree(task.folder, ignore_errors=True)

    def _new_folder(self) -> Path:
        try:
            with self._changed:
                if self._is_closed:
                    raise RunError("this server is shutting down", "Start it again")
                if self._folder is None or not self._folder.is_dir():  # some systems remove what lies there for days
                    self._folder = Path(tempfile.mkdtemp(prefix="driftscope-tasks-"))
                return Path(tempfile.mkdtemp(dir=self._folder))
        except OSError as error:
            raise StoreError(f"no temporary folder: {error.strerror or error}", "Check TMPDIR and its disk") from error


def task_queue() -> TaskQueue:
    """The process's one queue of tasks."""
    with _MAKING:
        return _task_queue()


@functools.cache
def _task_queue() -> TaskQueue:
    made = TaskQueue()
    atexit.register(made.close)
    return made


def file_name(given: str) -> str:
    """A safe file name that resembles the given one, which is untrusted: ``a b/c.json`` -> ``a_b_c.json``."""
    kept = re.sub(r"[^A-Za-z0-9._-]+", "_", given)[-80:].lstrip("._-")
    return kept or "file"


def _written(inputs: Iterable[Input], folder: Path) -> list[Path]:
    """Each in a folder of its own, since two may have one name."""
    paths = []
    for number, (name, content) in enumerate(inputs):
        path = folder / f"{number:04d}" / file_name(name)
        try:
            path.parent.mkdir()
            path.write_bytes(content)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror or error}", "Free some disk space") from error
        paths.append(path)
    return paths


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To the command and to its child processes, unless it has ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _failure(code: int | None, log: Sequence[str]) -> str:
    """The command's own error line, or how it ended where it wrote none."""
    errors = [line.removeprefix(_PREFIX) for line in log if line.startswith(_PREFIX)]
    if errors:
        return errors[-1]
    if code is not None and code < 0:
        return f"it was killed ({signal.strsignal(-code) or -code}). Check the free memory"
    return log[-1] if log else f"it ended with status {code} and no message"


def _process_stats() -> Iterator[str]:
    """The line of each of the system's processes, where it has them as files."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            yield path.read_text(encoding="utf-8", errors="replace")
