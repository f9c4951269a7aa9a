"""A user's SQL over stored runs: one SELECT at a time, read-only, over the tables given and nothing else.

Each console has a process of its own (``engine.store.sql.child``). So neither a statement nor a fault of DuckDB reaches
this process, and a statement is stopped by ending its process; the next one gets another. Answers are JSON and Arrow,
which carry no code.

The limits are for curious users, not for an attacker who knows a hole in DuckDB: the process runs as its user.
"""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa

from engine.errors import SqlError
from engine.processes import WorkerProcess
from engine.store.sql.child import Limits, answer_all

STOPPED = "the statement was stopped"
MOST_CHARACTERS = 100_000
# One heap, and no reserve of addresses that counts against the limit without being used.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """A statement's rows, columns in the order selected. Of columns with one name the later ones are called
    ``name_1``, ``name_2`` and so on. Types that Arrow's files do not carry (intervals, bits, unions, ...) come as text.
    """

    table: pa.Table
    is_cut: bool  # there were more rows
    seconds: float
    left_out: tuple[str, ...] = ()  # entries with damaged files, which were not read


class UnreadableError(SqlError):
    """A table's files are damaged."""


class Console:
    """One user's connection. Statements from several threads wait for each other."""

    def __init__(
        self,
        tables: Mapping[str, Any],
        limits: Limits | None = None,
        without_damage: Callable[[], tuple[Mapping[str, Any], tuple[str, ...]]] | None = None,
    ) -> None:
        """``tables`` and datasets of Arrow, by name. ``without_damage`` is asked for them when a file does not read:
        it gives the tables without such files, and the ids of the entries that lack some."""
        self._tables, self._limits, self._without_damage = tables, limits or Limits(), without_damage
        self._left_out: tuple[str, ...] = ()
        self._turn = threading.Lock()  # held by the statement that is running
        self._state = threading.Lock()  # held for a moment, to read or change the fields below
        self._process: WorkerProcess | None = None
        self._is_running = self._is_stopped = self._is_closed = False

    def query(self, sql: str, names: Mapping[str, str | tuple[str, ...]] | None = None) -> SqlAnswer:
        """The answer to one SELECT; SqlError says what is wrong with it.

        ``names`` are the values of its ``$name``: a text, or a list of texts. Those that it does not use are ignored.
        """
        if len(sql) > MOST_CHARACTERS:
            what = f"the statement has {len(sql):,} characters (at most {MOST_CHARACTERS:,})"
            raise SqlError(what, "Write a shorter one")
        with self._turn:
            try:
                return self._ask(sql, names or {})
            except UnreadableError:
                if self._without_damage is None:
                    raise
                self._tables, self._left_out = self._without_damage()
                self._end()
                return replace(self._ask(sql, names or {}), left_out=self._left_out)

    def _ask(self, sql: str, names: Mapping[str, str | tuple[str, ...]]) -> SqlAnswer:
        if self._is_closed:
            raise SqlError("the console is closed", "Open another")
        head: dict[str, Any] = {"is_last": True}
        is_new = self._process is None or self._process.process.poll() is not None
        process = self._process = WorkerProcess(answer_all, **ENVIRONMENT) if is_new else self._process
        assert process is not None
        with self._state:
            self._is_running, self._is_stopped = True, False
        try:
            if is_new:
                process.connection.send((self._tables, self._limits))
            process.connection.send((sql, names))
            head, body = json.loads(process.connection.recv_bytes()), process.connection.recv_bytes()
        except (EOFError, OSError):
            code = process.process.wait()
            if self._is_stopped or self._is_closed:
                raise SqlError(STOPPED) from None
            if code == -signal.SIGALRM:
                what = f"the statement ran for over {self._limits.seconds:g} s and was stopped"
                raise SqlError(what, "Ask for less, or join on a condition") from None
            raise SqlError(f"the statement ended its process (code {code})", "Write it in another way") from None
        finally:
            with self._state:
                self._is_running = False
            if self._is_stopped or head["is_last"]:  # it was killed, possibly after its answer, or is not to be trusted
                self._end()
        if "what" in head:
            if head["detail"]:
                _log.warning("a user's statement failed: %s", head["detail"])
            raise (UnreadableError if head["is_unreadable"] else SqlError)(head["what"], head["fix"])
        return SqlAnswer(pa.ipc.open_stream(body).read_all(), head["is_cut"], head["seconds"], self._left_out)

    def cancel(self) -> None:
        """From another thread: end the statement that is running, if there is one."""
        with self._state:
            if self._is_running and self._process is not None:
                self._is_stopped = True
                self._process.process.kill()

    def close(self) -> None:
        self._is_closed = True
        self.cancel()
        with self._turn:  # the statement that is running reads until it sees the end
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
        self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
