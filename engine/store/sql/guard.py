"""A user's SQL over stored runs: one SELECT at a time, read-only, over the tables given and nothing else.

Each console has a process of its own (``engine.store.sql.child``). It runs under limits and is ended where it exceeds
them; the next statement gets a new one. So neither a statement nor a fault of DuckDB reaches this process, and this
module does not import DuckDB. Requests are pickled; answers are JSON and Arrow.

The guard is for curious users, not for an attacker who knows a hole in DuckDB: the process runs as its user.
"""

from __future__ import annotations

import datetime
import decimal
import pickle
import signal
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from engine.errors import SqlError, shown
from engine.store.sql.failures import too_long
from engine.store.sql.process import Limits, ProcessEndedError, Setup, SqlProcess

if TYPE_CHECKING:
    import pyarrow.dataset

PARAMETERS = frozenset(
    {type(None), bool, int, float, str, bytes, decimal.Decimal, datetime.date, datetime.datetime, datetime.time}
)
"""Types of a parameter. A list of texts can be given by name; other lists are taken from JSON."""
STOPPED = "the statement was stopped"
NO_VIEWS: Mapping[str, str] = MappingProxyType({})
DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """A statement's rows, columns in the order selected. Of columns with one name the later ones are called
    ``name_1``, ``name_2`` and so on, with the next free number. Types that Arrow's files do not carry (intervals,
    bits, unions, ...) come as text.
    """

    table: pa.Table
    is_cut: bool  # there were more rows
    seconds: float


class Console:
    """One user's connection. Statements from several threads wait for each other."""

    def __init__(
        self,
        tables: Mapping[str, pa.Table | pa.dataset.Dataset],
        views: Mapping[str, str] = NO_VIEWS,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """``views`` are SELECTs of our own, trusted ones: they are not checked, but run under the same limits."""
        self._tables, datasets = _tables_and_datasets(tables)
        self._setup = Setup(limits, tuple(self._tables), datasets, dict(views))
        self._turn = threading.Lock()  # held by the statement that is running
        self._state = threading.Lock()  # held for a moment, to read or change the fields below
        self._process: SqlProcess | None = None
        self._is_running = self._is_stopped = self._is_closed = False
        self._end: Callable[[], object] | None = None  # ends the process, at the latest when this object is collected
        try:
            self._ready()
        except ProcessEndedError as error:
            raise self._reason(error) from None
        except SqlError:
            self.close()
            raise

    def query(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> SqlAnswer:
        """The answer to one SELECT; SqlError says what is wrong with it.

        ``parameters`` are the values of its ``?`` or ``$1``, or by name of its ``$name``: there a tuple of texts is a
        list. Names that the statement does not use are ignored.
        """
        most = self._setup.limits.characters
        if len(sql) > most:
            raise SqlError(f"the statement has {len(sql):,} characters (at most {most:,})", "Write a shorter one")
        wrong = next((char for char in sql if char == "\0" or "\ud800" <= char <= "\udfff"), None)
        if wrong is not None:
            raise SqlError(f"the statement has {shown(wrong)} at position {sql.index(wrong)}", "Take it out")
        is_named = isinstance(parameters, Mapping)
        items = parameters.items() if isinstance(parameters, Mapping) else enumerate(parameters, 1)
        values: dict[Any, object] = dict(items)
        for name, value in values.items():
            is_list = is_named and type(value) is tuple and all(type(text) is str for text in value)
            if type(value) not in PARAMETERS and not is_list:  # a subclass would be looked up in the process
                raise SqlError(f"parameter {name} is a {type(value).__name__}", "Give text, a number, a time or None")
        with self._turn:
            with self._state:
                self._is_running, self._is_stopped = True, False
            try:
                return SqlAnswer(*self._ready().ask(sql, values if is_named else list(parameters)))
            except ProcessEndedError as error:
                raise self._reason(error) from None
            finally:
                with self._state:
                    self._is_running = False
                    if self._is_stopped and self._process is not None:
                        self._process.is_fit = False  # killed, possibly after its answer

    def cancel(self) -> None:
        """From another thread: end the statement that is running, if there is one."""
        with self._state:
            if self._is_running:
                self._is_stopped = True
                if self._process is not None:
                    self._process.kill()

    def close(self) -> None:
        with self._state:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()
        with self._turn:  # the statement that is running reads until it sees the end
            if self._end is not None:
                self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _ready(self) -> SqlProcess:
        """The process, or a new one where it has ended. Starting one takes about half a second."""
        with self._state:
            if self._is_closed:
                raise SqlError("the console is closed", "Open another")
            if self._is_stopped:
                raise SqlError(STOPPED)
            if self._process is not None and self._process.is_ready:
                return self._process
            if self._end is not None:
                self._end()
            process = self._process = SqlProcess()
            self._end = weakref.finalize(self, process.end)
        process.set_up(self._setup, self._tables)
        return process

    def _reason(self, error: ProcessEndedError) -> SqlError:
        with self._state:
            if self._is_stopped or self._is_closed:
                return SqlError(STOPPED)
        if error.code == -signal.SIGALRM:
            return too_long(self._setup.limits.seconds)
        return SqlError(f"the statement ended its process (code {error.code})", "Write it in another way")


def _tables_and_datasets(tables: Mapping[str, Any]) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """Tables, and the datasets that another process can open; what it cannot open is read here."""
    whole, datasets = {}, {}
    for name, table in tables.items():
        if isinstance(table, pa.Table):
            whole[name] = table
            continue
        try:
            pickle.dumps(table)
        except (TypeError, pickle.PicklingError):
            whole[name] = table.to_table()
        else:
            datasets[name] = table
    return whole, datasets
