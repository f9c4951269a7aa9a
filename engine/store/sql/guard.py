"""A user's SQL over stored runs: one SELECT at a time, read-only, over the tables given and nothing else.

Each console has a child of the sandbox (``engine.store.sql.child`` is what runs there). So neither a statement nor a
fault of DuckDB reaches this process, and a statement is stopped by ending its child; the next one gets another.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from engine.errors import SqlError
from engine.sandbox import Limits as SandboxLimits
from engine.sandbox import Sandbox, SandboxError
from engine.store.sql.child import Limits as Limits
from engine.store.sql.child import statements

MOST_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """A statement's rows, columns in the order selected. Of columns with one name the later ones are called
    ``name_1``, ``name_2`` and so on. Types that Arrow's files do not carry (intervals, bits, unions, ...) come as text.
    """

    table: pa.Table
    is_cut: bool  # there were more rows
    seconds: float


class Console:
    """One user's connection. Statements from several threads wait for each other."""

    def __init__(self, tables: Mapping[str, Any], limits: Limits | None = None) -> None:
        """``tables`` and datasets of Arrow, by name."""
        self._limits = limits or Limits()
        self._turn = threading.Lock()
        self._is_closed = False
        most = SandboxLimits(self._limits.seconds, False, self._limits.memory_mb * 1.5 + 64, 0)  # a heap has gaps
        self._child = Sandbox(statements, tables, self._limits, limits=most)

    def query(self, sql: str, names: Mapping[str, str | tuple[str, ...]] | None = None) -> SqlAnswer:
        """The answer to one SELECT; SqlError says what is wrong with it.

        ``names`` are the values of its ``$name``: a text, or a list of texts. Those that it does not use are ignored.
        """
        if len(sql) > MOST_CHARACTERS:
            what = f"the statement has {len(sql):,} characters (at most {MOST_CHARACTERS:,})"
            raise SqlError(what, "Write a shorter one")
        try:
            with self._turn:
                if self._is_closed:
                    raise SqlError("the console is closed", "Open another")
                (is_cut, seconds), body = self._child.ask(sql, names or {})
        except SandboxError as error:
            memory = f"the statement ran out of memory (limit {self._limits.memory_mb} MB)"
            told = {
                "stopped": ("the statement was stopped", ""),
                "time": (f"the statement ran for over {self._limits.seconds:g} s and was stopped", "Ask for less"),
                "memory": (memory, "Filter or aggregate before sorting, joining or making long values"),
            }
            other = f"the statement failed: {error.what}", "Write it in another way"
            raise SqlError(*told.get(error.why, other)) from None
        return SqlAnswer(pa.ipc.open_stream(body).read_all(), is_cut, seconds)

    def cancel(self) -> None:
        """From another thread: end the statement that is running, if there is one."""
        self._child.stop()

    def close(self) -> None:
        self._is_closed = True
        self.cancel()
        with self._turn:  # the statement that is running reads until it sees the end
            self._child.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
