"""A user's SQL over stored runs: one SELECT at a time, read-only, over the tables given and nothing else.

Each console has a child of the sandbox (``engine.store.sql.child`` is what runs there). So neither a statement nor a
fault of DuckDB reaches this process, and a statement is stopped by ending its child; the next one gets another.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from engine.errors import SqlError
from engine.sandbox import Limits as SandboxLimits
from engine.sandbox import Sandbox, SandboxError
from engine.store.sql.child import LESS_MEMORY, statements
from engine.store.sql.child import Limits as Limits

STOPPED = "the statement was stopped"
MOST_CHARACTERS = 100_000

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
        self._limits, self._without_damage = limits or Limits(), without_damage
        self._left_out: tuple[str, ...] = ()
        self._turn = threading.Lock()
        self._is_closed = False
        self._child = self._child_for(tables)

    def query(self, sql: str, names: Mapping[str, str | tuple[str, ...]] | None = None) -> SqlAnswer:
        """The answer to one SELECT; SqlError says what is wrong with it.

        ``names`` are the values of its ``$name``: a text, or a list of texts. Those that it does not use are ignored.
        """
        if len(sql) > MOST_CHARACTERS:
            what = f"the statement has {len(sql):,} characters (at most {MOST_CHARACTERS:,})"
            raise SqlError(what, "Write a shorter one")
        with self._turn:
            head, body = self._ask(sql, names or {})
            if head.get("is_unreadable") and self._without_damage is not None:
                tables, self._left_out = self._without_damage()
                self._child.end()
                self._child = self._child_for(tables)
                head, body = self._ask(sql, names or {})
        if "what" in head:
            raise SqlError(head["what"], head["fix"])
        return SqlAnswer(pa.ipc.open_stream(body).read_all(), head["is_cut"], head["seconds"], self._left_out)

    def _child_for(self, tables: Mapping[str, Any]) -> Sandbox:
        most = SandboxLimits(self._limits.seconds, False, self._limits.memory_mb * 1.5 + 64, 0)  # a heap has gaps
        return Sandbox(statements, tables, self._limits, limits=most)

    def _ask(self, sql: str, names: Mapping[str, str | tuple[str, ...]]) -> tuple[dict[str, Any], bytes]:
        if self._is_closed:
            raise SqlError("the console is closed", "Open another")
        try:
            head, body = self._child.ask(sql, names)
        except SandboxError as error:
            late = f"the statement ran for over {self._limits.seconds:g} s and was stopped"
            told = {
                "stopped": (STOPPED, ""),
                "time": (late, "Ask for less, or join on a condition"),
                "memory": (f"the statement ran out of memory (limit {self._limits.memory_mb} MB)", LESS_MEMORY),
            }
            other = f"the statement failed: {error.what}", "Write it in another way"
            raise SqlError(*told.get(error.why, other)) from None
        if head["is_last"]:
            self._child.end()
        if head.get("detail"):
            _log.warning("a user's statement failed: %s", head["detail"])
        return head, body

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
