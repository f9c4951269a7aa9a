"""A user's SQL over stored runs: one SELECT at a time, read-only, over the tables given and nothing else.

Each console has a process of its own (``engine.store.sql_child``), which is held to its limits and ended where it does
not keep them; the next statement gets a fresh one. So neither a statement nor a fault of DuckDB reaches this process,
and this module does without DuckDB. What it sends is pickled; what comes back is JSON and Arrow.

It is a guard for users who may be curious, not for an enemy who knows a hole in DuckDB: the process runs as its user.
"""

from __future__ import annotations

import datetime
import decimal
import math
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
from engine.store.sql_failures import too_long
from engine.store.sql_process import ProcessEndedError, SqlProcess

if TYPE_CHECKING:
    import pyarrow.dataset

PARAMETERS = frozenset(
    {type(None), bool, int, float, str, bytes, decimal.Decimal, datetime.date, datetime.datetime, datetime.time}
)
"""Types of a parameter. A statement that needs a list takes it from JSON."""
STOPPED = "the statement was stopped"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one statement may take. A process is ended a second after its time when nothing else stops it."""

    rows: int = 10_000  # of the answer; more are cut off, and the answer says so
    seconds: float = 10.0
    memory_mb: int = 512  # of DuckDB; the process may grow by 1.5 times that and 64 MB, address space included
    threads: int = 1
    characters: int = 100_000  # of the statement
    answer_mb: int = 128  # of the answer, which is held here; rows beyond are cut off like those beyond ``rows``

    def __post_init__(self) -> None:
        wrong = [name for name in self.__slots__ if not 0 < getattr(self, name) < math.inf]
        if wrong:
            raise ValueError(f"limits have to be above 0 and finite: {', '.join(wrong)} of {self}")


NO_VIEWS: Mapping[str, str] = MappingProxyType({})
USUAL = Limits()


@dataclass(frozen=True, slots=True)
class Answer:
    """A statement's rows. Columns stand as selected. Of columns with one name the later ones are called ``name_1``,
    ``name_2`` and so on, with the next number that is free. Types that Arrow's files do not carry (intervals, bits,
    unions, ...) come as text.
    """

    table: pa.Table
    is_cut: bool  # there were more rows than are here
    seconds: float


@dataclass(frozen=True, slots=True)
class Setup:
    """What the process is sent first; the tables follow as Arrow streams, in the order of their names."""

    limits: Limits
    tables: tuple[str, ...]
    datasets: Mapping[str, Any]
    views: Mapping[str, str]


class Console:
    """One user's connection. Statements from several threads wait for each other."""

    def __init__(
        self,
        tables: Mapping[str, pa.Table | pa.dataset.Dataset],
        views: Mapping[str, str] = NO_VIEWS,
        limits: Limits = USUAL,
    ) -> None:
        """``views`` are SELECTs of our own, trusted ones: they are not checked, but run under the same limits."""
        self._tables, datasets = _apart(tables)
        self._setup = Setup(limits, tuple(self._tables), datasets, dict(views))
        self._turn = threading.Lock()  # held by the statement that is running
        self._state = threading.Lock()  # held for a moment, to look at what follows or to change it
        self._process: SqlProcess | None = None
        self._is_running = self._is_stopped = self._is_closed = False
        self._end: Callable[[], object] | None = None  # of the process, and done at the latest when this object goes
        try:
            self._ready()
        except ProcessEndedError as error:
            raise self._why(error) from None
        except SqlError:
            self.close()
            raise

    def query(self, sql: str, parameters: Sequence[object] = ()) -> Answer:
        """The answer to one SELECT, its ``?`` or ``$1`` being ``parameters``; SqlError says what is wrong with it."""
        _check_text(sql, self._setup.limits)
        _check_parameters(parameters)
        with self._turn:
            with self._state:
                self._is_running, self._is_stopped = True, False
            try:
                return Answer(*self._ready().ask(sql, list(parameters)))
            except ProcessEndedError as error:
                raise self._why(error) from None
            finally:
                with self._state:
                    self._is_running = False
                    if self._is_stopped and self._process is not None:
                        self._process.is_fit = False  # killed, be it after its answer

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

    def _why(self, error: ProcessEndedError) -> SqlError:
        with self._state:
            if self._is_stopped or self._is_closed:
                return SqlError(STOPPED)
        if error.code == -signal.SIGALRM:
            return too_long(self._setup.limits.seconds)
        return SqlError(f"the statement ended its process (code {error.code})", "Write it in another way")


def as_rows(table: pa.Table) -> list[dict[str, object]]:
    """A table as objects that JSON can hold, in the order of its columns.

    Integers of any width are ints, decimals with a scale floats, and NaN and infinities None. Times are ISO text,
    bytes hex, maps objects with keys of text. Of columns with the same name the later ones are called as in ``Answer``.
    """
    columns = [_values(column) for column in table.columns]
    names = unique_names(table.column_names)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, with ``_1``, ``_2`` after those that have come before."""
    taken = set(names)
    found: list[str] = []
    seen: set[str] = set()
    for name in names:
        free, number = name, 0
        while free in seen or (number and free in taken):
            number += 1
            free = f"{name}_{number}"
        seen.add(free)
        found.append(free)
    return found


def _values(column: pa.ChunkedArray) -> list[object]:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind):
        return list(column.to_pylist())
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError):  # a date that Python has no year for
        kind = _with_text_for_times(kind)
        values = column.cast(kind).to_pylist()
    return [_json_value(value, kind) for value in values]


def _with_text_for_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_text_for_times(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_with_text_for_times(kind.key_type), _with_text_for_times(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_with_text_for_times(kind.value_type), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(_with_text_for_times(kind.value_type))
    return kind


def _json_value(value: object, kind: pa.DataType) -> object:
    """A value that pyarrow has made of something of this type."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case decimal.Decimal():
            return float(value) if int(value.as_tuple().exponent) < 0 else int(value)
        case bytes():
            return value.hex()
        case datetime.date() | datetime.time():  # a datetime is a date
            return value.isoformat()
        case dict():
            return {field.name: _json_value(value[field.name], field.type) for field in kind}
        case list() if pa.types.is_map(kind):
            return {str(_json_value(key, kind.key_type)): _json_value(item, kind.item_type) for key, item in value}
        case list():
            return [_json_value(item, kind.value_type) for item in value]
    return str(value)


# --- what is sent ---------------------------------------------------------------------------------------------------


def _apart(tables: Mapping[str, Any]) -> tuple[dict[str, pa.Table], dict[str, Any]]:
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


def _check_text(sql: str, limits: Limits) -> None:
    if len(sql) > limits.characters:
        raise SqlError(
            f"the statement has {len(sql):,} characters (at most {limits.characters:,})", "Write a shorter one"
        )
    wrong = next((char for char in sql if char == "\0" or "\ud800" <= char <= "\udfff"), None)
    if wrong is not None:
        raise SqlError(f"the statement has {shown(wrong)} at position {sql.index(wrong)}", "Take it out")


def _check_parameters(parameters: Sequence[object]) -> None:
    for number, value in enumerate(parameters, 1):
        if type(value) not in PARAMETERS:  # a subclass would be looked for in the process that it is sent to
            raise SqlError(f"parameter {number} is a {type(value).__name__}", "Give text, a number, a time or None")
