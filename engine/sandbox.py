"""The one sandbox: a function of ours in a child process with limits, for what may take too long or too much, or end
the process that does it: a user's SQL, pickles, mol blocks, judges of geometry, embeddings, files of traces, logs and
references.

The child is a program started new: a fork would copy locks that RDKit and numpy hold, and ``multiprocessing`` would
run the parent's main module once more, which in an app is a page. It is asked in pickles, which come from here alone,
and answers in JSON and bytes, which carry no code. It ends with its parent, and no Ctrl-C reaches it.

The limits stop load. Only a closed child is kept from more: before it is asked, the kernel takes from it, for good,
what opens files and sockets, writes, and starts processes, for native code too, and an audit hook refuses whatever
Python code would do beyond computing. That is no wall either: what took it over could still answer wrongly.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, Self, TypeVar

import msgspec

from engine.errors import DEBUG, DriftscopeError, FileError, shown
from engine.processes import address_space

MB = 2**20
# One heap, no reserve of addresses that counts against the limit without being used, and one thread.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
CHILD = "DRIFTSCOPE_CHILD"  # in a child's environment: its function, for whoever looks at what runs
HARMLESS = frozenset({"sys._getframe", "object.__getattr__", "object.__setattr__", "object.__delattr__"})
"""Audit events of code that only computes; logging looks at its caller's frame."""
Answer = tuple[Any, bytes]
"""What JSON can hold, and bytes. A function gives one, or is a generator of them."""
Task = TypeVar("Task")
CLEARING_S = 5.0
Why = Literal["time", "memory", "end", "stopped", "start", "unforeseen"]


@dataclass(frozen=True, slots=True)
class Limits:
    seconds: float = math.inf  # that a call may take
    is_cpu: bool = False  # those are of computing: other work on the machine does not count
    memory_mb: float = math.inf  # that the process may grow by, once it is set up
    written_mb: float = 2**20  # to a file
    open_files: float = 256  # at once
    is_closed: bool = False  # it can compute and answer, and nothing else


class SandboxError(DriftscopeError):
    """The child gave no answer: it was over a limit, ended, or was stopped."""

    def __init__(self, why: Why, problem: str) -> None:
        super().__init__(problem)
        self.why: Why = why


class Sandbox:
    """``set_up(*given)``, a function of an importable module, gives in the child the function that is then asked.

    One call at a time; calls of several threads wait for each other. A child that ended is followed by another.
    """

    def __init__(self, set_up: Callable[..., Callable[..., Any]], *given: Any, limits: Limits | None = None) -> None:
        self._set_up, self.limits = (set_up, given), limits or Limits()
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False
        self._ended: Callable[[], object] = lambda: None
        self.is_busy = False  # asked, and not all of the answer is here

    def ask(self, *arguments: Any) -> Answer:
        """The one answer. Where an older child ends on it, what it did before may be the cause: a new one tries."""
        with self._turn:
            was_warm = self._process is not None
            try:
                return self._first_answer(arguments)
            except SandboxError as error:
                if error.why != "end" or not was_warm:
                    raise
                return self._first_answer(arguments)

    def each(self, *arguments: Any) -> Iterator[Answer]:
        """All answers of a generator, as they come. The child of one that is not read to its end is ended."""
        with self._turn:
            try:
                self.send(*arguments)
                while (answer := self.receive()) is not None:
                    yield answer
            finally:
                if self.is_busy:
                    self.end()

    def stop(self) -> None:
        """From another thread: end the call that is under way, if there is one."""
        if self.is_busy and (process := self._process) is not None:
            self._is_stopped = True
            process.kill()

    def interrupt(self) -> None:
        """What it has half written goes before it ends."""
        if self.is_busy and self._process is not None:
            self._process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLEARING_S)

    def end(self) -> None:
        """At once, whatever it does."""
        if self._process is not None:
            self._ended()
            self.connection.close()
        self._process, self.is_busy = None, False

    # --- without waiting, for who has several --------------------------------------------------------------------

    def send(self, *arguments: Any) -> None:
        self.start()
        self.is_busy, self._is_stopped = True, False
        with suppress(OSError):  # it has ended: the end of its pipe says so
            self.connection.send(arguments)

    def receive(self) -> Answer | None:
        """The next answer to what was sent; None where there is no further one. What the function raises is raised."""
        try:
            head = msgspec.json.decode(self.connection.recv_bytes())
            body = self.connection.recv_bytes() if head["has_body"] else b""
        except (EOFError, OSError):
            raise self._end_of_child() from None
        self.is_busy = not head["is_last"]
        if "error" in head:
            if head["error"] == "unforeseen":
                self.end()
                raise SandboxError("unforeseen", f"an error that was not foreseen ({head['what']})")
            if head["error"] == "memory":
                self.end()
                raise SandboxError("memory", f"it takes over {self.limits.memory_mb / 1024:g} GB of memory")
            if head["error"] == "system":
                raise OSError(*head["what"])
            kinds = {kind.__name__: kind for kind in _kinds(DriftscopeError)}
            raise kinds.get(head["error"], DriftscopeError)(head["what"], head["fix"])
        return (head["value"], body) if "value" in head else None

    def start(self) -> None:
        """The child, if there is none: its imports take a second."""
        if self._process is not None and self._process.poll() is None:
            return
        self.end()
        self.connection, other = multiprocessing.Pipe()
        name = f"{self._set_up[0].__module__}.{self._set_up[0].__name__}"
        with other:  # or the end of the child would not end the pipe
            self._process = subprocess.Popen(
                [sys.executable, "-m", "engine.sandbox", str(other.fileno())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL if self.limits.is_closed else None,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **ENVIRONMENT, CHILD: name},
            )
        self._ended = weakref.finalize(self, _end, self._process)
        self.connection.send((*self._set_up, self.limits))

    def _first_answer(self, arguments: tuple[Any, ...]) -> Answer:
        try:
            self.send(*arguments)
            answer = self.receive()
        except BaseException:  # such as Ctrl-C: what it answers belongs to nobody
            if self.is_busy:
                self.end()
            raise
        assert answer is not None, "a function that gives no answer"
        return answer

    def _end_of_child(self) -> SandboxError:
        assert self._process is not None
        code = self._process.wait()
        self.end()
        if self._is_stopped:
            return SandboxError("stopped", "it was stopped")
        if code in (-signal.SIGALRM, -signal.SIGPROF):
            return SandboxError("time", f"it takes over {self.limits.seconds:,.3g} s")
        if code == 1:
            return SandboxError("start", "its process could not start")
        how = f"signal {-code}" if code < 0 else f"code {code}"
        return SandboxError("end", f"its process ended ({how})")


class Pool:
    """Several such children, each with a thread that waits for it. Calls are taken in the order in which they come."""

    def __init__(self, workers: int, set_up: Callable[..., Any], *given: Any, limits: Limits | None = None) -> None:
        self.children = [Sandbox(set_up, *given, limits=limits) for _ in range(workers)]
        self._idle = SimpleQueue[Sandbox]()
        for child in self.children:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(workers)
        self._at: MutableMapping[Future[Answer], list[Sandbox]] = weakref.WeakKeyDictionary()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends what is under way; what has not begun is dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        while not all(future.done() for future in list(self._at)):
            for child in self.children:
                child.stop()
            time.sleep(0.01)
        for child in self.children:
            child.end()

    def submit(self, *arguments: Any) -> Future[Answer]:
        at: list[Sandbox] = []
        future = self._threads.submit(self._ask, at, arguments)
        self._at[future] = at
        return future

    def in_order(
        self, tasks: Iterable[Task], sent: Callable[[Task], tuple[Any, ...]]
    ) -> Iterator[tuple[Task, Future[Answer]]]:
        """Each task with what comes of it, in their order; a few are submitted ahead. ``sent``: what a child gets."""
        left = iter(tasks)
        waiting = deque((task, self.submit(*sent(task))) for task in islice(left, 2 * len(self.children)))
        while waiting:
            yield waiting.popleft()
            waiting.extend((task, self.submit(*sent(task))) for task in islice(left, 1))

    def cancel(self, future: Future[Answer]) -> None:
        """A child that works on it is ended."""
        if not future.cancel():
            for child in self._at[future]:
                child.stop()

    def _ask(self, at: list[Sandbox], arguments: tuple[Any, ...]) -> Answer:
        at.append(child := self._idle.get())
        try:
            return child.ask(*arguments)
        finally:
            at.clear()
            self._idle.put(child)


READING = Limits(3600, is_cpu=True, memory_mb=4096, written_mb=64 * 1024)
"""Of a file that becomes an entry of the store: far above what the largest need (7 million events: 0.5 GB, 15 s)."""


def read_aside(
    seen: Callable[..., object], add: Callable[..., Any], store: Any, path: Path, *of: Any, **kept: Any
) -> Any:
    """The id, or ids, of what ``add(store, path, *of, **kept, say=...)`` makes of a user's file, in a child of its own.
    ``seen`` gets what it says on its way."""
    child = Sandbox(_teller, add, limits=READING)
    try:
        child.send((store, path, *of), kept)
        while (answer := child.receive()) is not None and child.is_busy:
            seen(*answer[0])
    except SandboxError as error:
        is_large = error.why in ("time", "memory")
        fix = "Give a smaller file" if is_large else "DRIFTSCOPE_DEBUG=1 shows where"
        raise FileError(f"{shown(path, 200)}: {error.what}", fix) from error
    finally:
        child.interrupt()
        child.end()
    assert answer is not None, "a function that gives no answer"
    return answer[0]


def is_inside() -> bool:
    """Whether this process is such a child."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == "engine.sandbox"


def _kinds(of: type[DriftscopeError]) -> Iterator[type[DriftscopeError]]:
    for kind in of.__subclasses__():
        if kind.__init__ is DriftscopeError.__init__:
            yield kind
        yield from _kinds(kind)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


# --- in the child ----------------------------------------------------------------------------------------------------

_pipe: Connection  # to the parent


def _send(head: dict[str, Any], body: bytes = b"") -> None:
    _pipe.send_bytes(msgspec.json.encode(head | {"has_body": bool(body)}))
    if body:
        _pipe.send_bytes(body)


def _teller(add: Callable[..., Any]) -> Callable[..., Answer]:
    def say(*values: Any) -> None:
        _send({"value": values, "is_last": False})

    def work(given: tuple[Any, ...], kept: dict[str, Any]) -> Answer:
        made = add(*given, **kept, say=say)
        return ([entry.id for entry in made] if isinstance(made, list) else made.id), b""

    return work


def _serve() -> None:
    set_up, given, limits = _pipe.recv()
    work = set_up(*given)
    timer = signal.ITIMER_PROF if limits.is_cpu else signal.ITIMER_REAL
    hold(limits)
    while True:
        arguments = _pipe.recv()
        if not limits.is_closed:
            _hold_memory(limits.memory_mb)  # what earlier calls left behind does not count
        if limits.seconds < math.inf:
            signal.setitimer(timer, limits.seconds)  # the default of its signal ends the process
        for head, body in _answers(work, arguments):
            if head["is_last"]:
                signal.setitimer(timer, 0)
            _send(head, body)


def _answers(work: Callable[..., Any], arguments: tuple[Any, ...]) -> Iterator[tuple[dict[str, Any], bytes]]:
    try:
        result = work(*arguments)
        if isinstance(result, Iterator):
            for value, body in result:
                yield {"value": value, "is_last": False}, body
            yield {"is_last": True}, b""
        else:
            yield {"value": result[0], "is_last": True}, result[1]
    except DriftscopeError as error:
        yield {"error": type(error).__name__, "what": error.what, "fix": error.fix, "is_last": True}, b""
    except MemoryError:
        yield {"error": "memory", "is_last": True}, b""
    except OSError as error:
        if "while it is closed" in str(error):
            problem, fix = f"it tried to do more than it may: {error}", "Do not trust this file"
            yield {"error": "", "what": problem, "fix": fix, "is_last": True}, b""
        else:
            details = (error.errno, error.strerror or str(error), error.filename and str(error.filename))
            yield {"error": "system", "what": details, "is_last": True}, b""
    except Exception as error:  # noqa: BLE001 - what the child was not written for ends it
        if os.environ.get(DEBUG) == "1":
            traceback.print_exc()
        yield {"error": "unforeseen", "what": type(error).__name__, "is_last": True}, b""


def hold(limits: Limits) -> None:
    """For good: no limit can be raised again, and no audit hook removed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit(resource.RLIMIT_FSIZE, limits.written_mb * MB)
    _limit(resource.RLIMIT_NOFILE, limits.open_files)
    if limits.is_closed:
        _hold_memory(limits.memory_mb, is_for_good=True)  # first: it opens a file
        for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
            resource.setrlimit(kind, (0, 0))
        sys.addaudithook(_refuse)


def _hold_memory(memory_mb: float, *, is_for_good: bool = False) -> None:
    if (size := address_space()) is not None and memory_mb < math.inf:
        _limit(resource.RLIMIT_AS, size + memory_mb * MB, is_for_good=is_for_good)


def _limit(kind: int, most: float, *, is_for_good: bool = True) -> None:
    """Never above what was inherited."""
    _, hard = resource.getrlimit(kind)
    least = int(most) if hard == resource.RLIM_INFINITY else min(int(most), hard)
    resource.setrlimit(kind, (least, least if is_for_good else hard))


def _refuse(event: str, _: tuple[Any, ...]) -> None:
    if event not in HARMLESS:
        raise PermissionError(f"{event}, while it is closed")


if __name__ == "__main__":
    sys.modules["engine.sandbox"] = sys.modules["__main__"]  # what it imports is this module, not a second one
    for number in (signal.SIGTERM, signal.SIGUSR2):  # Slurm warns all processes of a task: its parent may go on
        signal.signal(number, signal.SIG_IGN)
    with Connection(int(sys.argv[1])) as _pipe, suppress(EOFError, OSError, KeyboardInterrupt):  # the parent went
        _serve()
    os._exit(0)  # without the leak reports of DuckDB's bindings at an ordinary exit
