"""The sandbox: its limits, what a closed child can do, and that nothing of the parent runs twice or outlives it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import FileError
from engine.paths import ROOT
from engine.sandbox import Answer, Limits, Sandbox, SandboxError, read_aside


def acting() -> Callable[..., Any]:
    """A child that does what its first argument says."""
    return lambda action, *given: globals()[action](*given)


def echo(value: Any) -> Answer:
    return value, str(os.getpid()).encode()


def grow(size: int) -> Answer:
    return len(bytearray(size)), b""


def sleep(seconds: float) -> Answer:
    time.sleep(seconds)
    return "slept", b""


def sleep_here(seconds: float) -> Answer:
    time.sleep(seconds)
    return "slept", str(os.getpid()).encode()


def spin() -> Answer:
    while True:
        pass


def die() -> Answer:
    os.kill(os.getpid(), signal.SIGSEGV)
    return None, b""


def fail() -> Answer:
    raise FileError("it is no file", "Give one")


def hold_open(many: int) -> Answer:
    return len([open(os.devnull) for _ in range(many)]), b""  # noqa: PTH123


def count(many: int) -> Iterator[Answer]:
    for number in range(many):
        yield number, bytes(number)


def write(path: str) -> Answer:
    Path(path).write_bytes(bytes(2 * 2**20))
    return "written", b""


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(acting, limits=Limits(seconds=1.0, memory_mb=100, written_mb=1))
    yield made
    made.end()


def test_a_child_stays_warm_and_answers_in_turn(sandbox: Sandbox) -> None:
    (value, pid), (_, again) = sandbox.ask("echo", [1, "é", None]), sandbox.ask("echo", 2)
    assert value == [1, "é", None] and pid == again != str(os.getpid()).encode()
    assert list(sandbox.each("count", 3)) == [(0, b""), (1, b"\0"), (2, b"\0\0")]
    with pytest.raises(FileError, match=r"it is no file\. Give one"):
        sandbox.ask("fail")
    assert sandbox.ask("echo", 3) == (3, pid)


@pytest.mark.parametrize(
    ("call", "why"), [(("grow", 2**28), "memory"), (("sleep", 9), "time"), (("spin",), "time"), (("die",), "end")]
)
def test_a_limit_costs_one_call(sandbox: Sandbox, call: tuple[Any, ...], why: str) -> None:
    with pytest.raises(SandboxError) as raised:
        sandbox.ask(*call)
    assert raised.value.why == why
    assert sandbox.ask("grow", 2**20) == (2**20, b"")


def test_no_more_is_written_or_open_than_may_be(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File too large"):
        sandbox.ask("write", str(tmp_path / "large"))
    assert (tmp_path / "large").stat().st_size <= 2**20
    with pytest.raises(OSError, match="Too many open files"):
        sandbox.ask("hold_open", 300)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_what_warns_all_processes_of_a_task_is_for_its_parent(sandbox: Sandbox, number: int) -> None:
    """Slurm warns them before it stops them. A judge that ended so left a verdict: the process that judged it ended."""
    with ThreadPoolExecutor(1) as pool:
        _, child = sandbox.ask("echo", 0)
        future = pool.submit(sandbox.ask, "sleep_here", 0.5)
        while not sandbox.is_busy:
            time.sleep(0.01)
        os.kill(int(child), number)
        assert future.result() == ("slept", child)


def test_another_thread_stops_a_call_and_one_that_is_not_read_to_its_end_is_ended(sandbox: Sandbox) -> None:
    sandbox.ask("echo", 0)
    timer = threading.Timer(0.2, sandbox.stop)
    timer.start()
    with pytest.raises(SandboxError, match="it was stopped"):
        sandbox.ask("sleep", 0.9)
    answers = sandbox.each("count", 10**9)
    assert next(answers)[0] == 0
    answers.close()  # type: ignore[attr-defined]
    assert sandbox._process is None and sandbox.ask("echo", 1)[0] == 1


def read(store: Any, path: Path, many: int, size: int, say: Callable[..., None]) -> SimpleNamespace:
    for number in range(many):
        say(number, number / many)
    return SimpleNamespace(id=f"{path.read_text()}, {len(bytearray(size))}")


def test_a_file_is_read_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[int, float]] = []
    monkeypatch.setattr("engine.sandbox.READING", Limits(memory_mb=64))
    (tmp_path / "x").write_text("text")
    assert read_aside(lambda *said: heard.append(said), read, None, tmp_path / "x", 4, 1000) == "text, 1000"
    assert heard == [(0, 0), (1, 0.25), (2, 0.5), (3, 0.75)]
    with pytest.raises(FileError, match="of memory"):
        read_aside(lambda *said: None, read, None, tmp_path / "x", 1, 256 << 20)
    with pytest.raises(FileNotFoundError) as caught:  # what the system refuses there is raised here
        read_aside(lambda *said: None, read, None, tmp_path / "none", 1, 1)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(tmp_path / "none"))


def not_there() -> Callable[..., Any]:
    raise ValueError("a module is missing")


def test_one_that_cannot_start_says_so() -> None:
    with pytest.raises(SandboxError) as raised:
        Sandbox(not_there).ask(1)
    assert raised.value.why == "start"


SCRIPT = """
print("main", flush=True)
from engine.sandbox import Sandbox
from tests.engine.test_sandbox import acting
print(Sandbox(acting).ask("echo", "ready")[1].decode(), flush=True)
"""


def test_the_parents_program_runs_once_and_its_end_is_the_childs(tmp_path: Path) -> None:
    """A script without a guard, as an app's page is one."""
    script = tmp_path / "page.py"
    script.write_text(SCRIPT)
    environment = {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, env=environment)
    assert (ran.stderr, ran.returncode) == ("", 0)
    main, pid = ran.stdout.splitlines()
    assert main == "main" and not Path(f"/proc/{pid}").exists()


# --- closed ---------------------------------------------------------------------------------------------------------

ACTS = {
    "open(marker, 'w')": "open",
    "os.system('touch ' + marker)": "os.system",
    "subprocess.Popen(['touch', marker])": "subprocess.Popen",
    "os.fork()": "os.fork",
    "os.remove('/nothing')": "os.remove",
    "socket.socket()": "socket.__new__",
    "__import__('antigravity')": "import",
    "ctypes.CDLL(None)": "ctypes.dlopen",
}
NATIVE_ACTS = (
    "libc.open(b'/etc/passwd', 0)",
    "libc.open(marker.encode(), 65, 0o600)",
    "libc.socket(2, 1, 0)",
    "libc.memfd_create(b'x', 0)",
)


def tried(acts: Iterable[str], tmp_path: Path, prepare: str = "") -> list[str]:
    """How each ends when code in a closed child does it."""
    script = f"""
import ctypes, os, resource, socket, subprocess, sys
from engine import sandbox
marker = {str(tmp_path / "marker")!r}
libc = ctypes.CDLL(None, use_errno=True)
{prepare}
acts = [{", ".join(f"lambda: {act}" for act in acts)}]
sandbox.hold(sandbox.Limits(memory_mb=200, is_closed=True))
for act in acts:
    try:
        result = str(act())
    except PermissionError as error:
        result = "refused: " + str(error)
    os.write(1, (result + chr(10)).encode())
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert not (tmp_path / "marker").exists()
    return done.stdout.splitlines()


def test_its_memory_is_limited_for_good(tmp_path: Path) -> None:
    act = "resource.getrlimit(resource.RLIMIT_AS)[1] // 2**20"
    (limit,) = tried([act], tmp_path, "sandbox._refuse = lambda *_: None")
    assert 200 <= int(limit) < 3_000


def test_python_code_in_it_is_refused(tmp_path: Path) -> None:
    assert tried(ACTS, tmp_path) == [f"refused: {event}, while it is closed" for event in ACTS.values()]


def test_native_code_in_it_opens_nothing(tmp_path: Path) -> None:
    """The audit hook does not see it; the kernel's limits do."""
    assert tried(NATIVE_ACTS, tmp_path, "sandbox._refuse = lambda *_: None") == ["-1"] * len(NATIVE_ACTS)


def wait_and_clear(store: Any, path: Path, say: Callable[..., None]) -> SimpleNamespace:
    try:
        path.touch()
        say("begun", 0.0)
        time.sleep(9)
    except BaseException:
        path.unlink()
        raise
    return SimpleNamespace(id="x")


def test_what_is_half_written_goes_where_the_reading_is_broken_off(tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_aside(stop, wait_and_clear, None, tmp_path / "half")
    assert not (tmp_path / "half").exists()
