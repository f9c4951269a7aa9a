"""The process that runs a user's SQL, as its parent sees it: start it, send tables and statements, read answers.

Everything here blocks until the process answers or ends; ``kill`` from another thread makes it end.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from engine.errors import SqlError
from engine.paths import ROOT

COMMAND = [sys.executable, "-P", "-B", "-c", "from engine.store.sql.child import main; main()"]
# One heap, and no reserve of addresses that counts against the limit without being used.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
MOST_HEAD = 1 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one statement may take. A process is ended a second after its time when nothing else stops it."""

    rows: int = 10_000  # of the answer; more are cut off, and the answer says so
    seconds: float = 10.0
    memory_mb: int = 512  # of DuckDB; the process may grow by 1.5 times that and 64 MB, address space included
    threads: int = 1
    characters: int = 100_000  # of the statement
    answer_mb: int = 128  # of the answer, which is held in memory; it is cut there, as at ``rows``
    written_mb: int = 512  # of the answer as JSON (``engine.store.sql.sizes``); it is cut there, too

    def __post_init__(self) -> None:
        wrong = [name for name in self.__slots__ if not 0 < getattr(self, name) < math.inf]
        if wrong:
            raise ValueError(f"limits have to be above 0 and finite: {', '.join(wrong)} of {self}")


@dataclass(frozen=True, slots=True)
class Setup:
    """What the process is sent first; the tables follow as Arrow streams, in the order of their names."""

    limits: Limits
    tables: tuple[str, ...]
    datasets: Mapping[str, Any]
    views: Mapping[str, str]


class ProcessEndedError(Exception):
    """The process ended instead of answering. ``code`` is its exit code, or minus the number of its signal."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"the SQL process ended with code {code}")


class SqlProcess:
    """One process, from its start to its end. Used by one thread at a time, except ``kill``."""

    def __init__(self) -> None:
        self.is_fit = False  # for a statement: it has answered what it was sent before
        self._process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT, "PYTHONPATH": str(ROOT)},
            start_new_session=True,  # Ctrl-C in a terminal is handled by the caller
        )

    def set_up(self, setup: Setup, tables: Mapping[str, pa.Table]) -> None:
        self._send(setup)
        for name in setup.tables:
            with self._writing() as pipe, pa.ipc.new_stream(pipe, tables[name].schema) as stream:
                stream.write_table(tables[name])
        self._receive()

    def ask(self, sql: str, parameters: list[object] | dict[Any, object]) -> tuple[pa.Table, bool, float]:
        """The rows, whether there were more, and the seconds."""
        self.is_fit = False
        self._send((sql, parameters))
        head, body = self._receive()
        return pa.ipc.open_stream(body).read_all(), bool(head["is_cut"]), float(head["seconds"])

    @property
    def is_ready(self) -> bool:
        return self.is_fit and self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        """Kill it and close its pipes. May be called again."""
        self.is_fit = False
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # unsent data in the buffer
                    pipe.close()
        self._process.wait()

    def _send(self, message: object) -> None:
        with self._writing() as pipe:
            pickle.dump(message, pipe)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[BinaryIO]:
        pipe = self._process.stdin
        assert isinstance(pipe, io.BufferedWriter)
        try:
            yield pipe
            pipe.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _receive(self) -> tuple[dict[str, Any], bytes]:
        pipe = self._process.stdout
        assert isinstance(pipe, io.BufferedReader)
        line = pipe.readline(MOST_HEAD)
        if not line.endswith(b"\n"):
            raise self._ended()
        head = json.loads(line)
        body = pipe.read(head["bytes"])
        if len(body) < head["bytes"]:
            raise self._ended()
        self.is_fit = not head["is_last"]
        if "what" in head:
            if head["detail"]:
                _log.warning("a user's statement failed: %s", head["detail"])
            raise SqlError(head["what"], head["fix"])
        return head, body

    def _ended(self) -> ProcessEndedError:
        self.end()
        return ProcessEndedError(self._process.returncode)
