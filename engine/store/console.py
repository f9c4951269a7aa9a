"""A user's SQL over stored runs: one SELECT at a time, read-only, over the tables given and nothing else.

Each console has a child of the sandbox. So neither a statement nor a fault of DuckDB reaches this process, and a
statement is stopped by ending its child; the next one gets another. That nothing is read but the tables, and nothing
written, is DuckDB's ``enable_external_access``, which ``lock_configuration`` keeps; that it is one SELECT, DuckDB says
of the statement. Time, and memory that DuckDB's ``memory_limit`` does not count (parsing ten nested WITH takes
gigabytes), are the sandbox's. Where a system does not report a process's size (macOS), only DuckDB's own limit holds
memory.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from engine.errors import SqlError, nearest, one_line, shown
from engine.sandbox import MB, Answer, Sandbox, SandboxError
from engine.sandbox import Limits as SandboxLimits
from engine.store.columns import select_list

MOST_CHARACTERS = 100_000
SETTINGS = "SET python_enable_replacements = false; SET temp_directory = ''; SET TimeZone = 'UTC'"
LAST_SETTINGS = "SET enable_external_access = false; SET lock_configuration = true"
TEXT_ONLY = re.compile(r"\b(BIGNUM|BIT|ENUM|GEOMETRY|INTERVAL|TIME WITH|UHUGEINT|UNION|VARIANT)\b|\"NULL\".")
MOST_NESTED = 30
"""Types that come as text: files of Arrow cannot carry them, they multiply (an ENUM names a long text ten thousand
times), they come out wrong (a large UHUGEINT negative, lists of bare NULLs). And so do those nested deeper."""
ROWS_PER_BATCH = 1024
VALUE, LIST = 24, 64  # bytes of a value in Python, and of a list or struct besides what is in it
_PREFIX = re.compile(r"[A-Z][A-Za-z/ -]* Error: ")
_UNREADABLE = re.compile(r"reading the stream registered as '_?(.*?)' failed(?:[^']* '(/.*?)')?")
_SETTING_ADVICE = re.compile(r"[,.]? (?:or|Use) \"?SET .*")  # SET is not allowed here
MOST_TEXT = 2_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What one statement may take."""

    rows: int = 10_000  # of the answer; more are cut off, and the answer says so
    seconds: float = 10.0
    memory_mb: int = 512  # of DuckDB; the process may grow by 1.5 times that and 64 MB, address space included
    answer_mb: int = 256  # of the answer as Python's objects; it is cut there, as at ``rows``


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
            problem = f"the statement has {len(sql):,} characters (at most {MOST_CHARACTERS:,})"
            raise SqlError(problem, "Write a shorter one")
        try:
            with self._turn:
                if self._is_closed:
                    raise SqlError("the console is closed", "Open another")
                (is_cut, seconds), body = self._child.ask(sql, names or {})
        except SandboxError as error:
            memory = f"the statement ran out of memory (limit {self._limits.memory_mb} MB)"
            answers = {
                "stopped": ("the statement was stopped", ""),
                "time": (f"the statement ran for over {self._limits.seconds:g} s and was stopped", "Ask for less"),
                "memory": (memory, "Filter or aggregate before sorting, joining or making long values"),
            }
            other = f"the statement failed: {error.what}", "Write it in another way"
            raise SqlError(*answers.get(error.why, other)) from None
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


# --- in the child -----------------------------------------------------------------------------------------------------


def statements(tables: Mapping[str, Any], limits: Limits) -> Callable[..., Answer]:
    """Whether an answer was cut, its seconds, and the rows as an Arrow stream."""
    database = opened(tables, limits)  # before a statement's time begins

    def answer(sql: str, names: Mapping[str, Any]) -> Answer:
        nonlocal database
        started = time.monotonic()
        try:
            table, is_cut = rows_of(database, sql, names, limits)
            body = pa.BufferOutputStream()
            with pa.ipc.new_stream(body, table.schema) as stream:
                stream.write_table(table)
            return (is_cut, time.monotonic() - started), body.getvalue().to_pybytes()
        except (duckdb.Error, pa.ArrowException, OSError, RuntimeError, ValueError, TypeError) as error:
            if str(error).startswith(("Out of Memory Error", "std::bad_alloc")):
                raise MemoryError from error
            if isinstance(error, duckdb.InternalException | duckdb.FatalException):
                database = opened(tables, limits)  # the old one answers nothing any more
            raise in_words(str(error)) from error

    return answer


class _FileDataset(ds.FileSystemDataset):  # type: ignore[misc]
    """Reads little ahead: pyarrow's own choice is 16 batches of 131,072 rows in each of four files."""

    def scanner(self, **options: Any) -> Any:
        return super().scanner(**options, batch_size=8192, batch_readahead=1)


def opened(tables: Mapping[str, Any], limits: Limits) -> duckdb.DuckDBPyConnection:
    pa.set_cpu_count(1)
    database = duckdb.connect(":memory:", config={"threads": "1", "memory_limit": f"{limits.memory_mb}MB"})
    database.execute(SETTINGS)
    for name, table in tables.items():
        if isinstance(table, ds.FileSystemDataset):
            of = table.partition_expression
            table = _FileDataset(list(table.get_fragments()), table.schema, table.format, table.filesystem, of)
        rows = select_list(table.schema)
        if rows == "*":
            database.register(name, table)
            continue
        database.register(f"_{name}", table)
        database.execute(f'CREATE VIEW "{name}" AS SELECT {rows} FROM "_{name}"')
    database.execute(LAST_SETTINGS)
    return database


def arrow_ready(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Types that Arrow lacks as text, and names that differ."""
    kinds = list(map(str, relation.types))
    is_text = [bool(TEXT_ONLY.search(kind)) or kind.count("[") + kind.count("(") > MOST_NESTED for kind in kinds]
    if not any(is_text) and len(set(relation.columns)) == len(relation.columns):
        return relation
    columns = []
    for number, (name, as_text) in enumerate(zip(relation.columns, is_text, strict=True), 1):
        quoted = name.replace('"', '""')
        cast = "::VARCHAR" if as_text else ""
        columns.append(f'#{number}{cast} AS "{quoted}"')
    return relation.project(", ".join(columns)).project("*")  # which makes the names differ


def first_statement(sql: str) -> str:
    """Up to its semicolon, which may stand in a text as well."""
    text = sql.encode()  # the tokenizer counts bytes
    ends = (offset for offset, kind in duckdb.tokenize(sql) if kind == duckdb.token_type.operator)
    return text[: next((offset for offset in ends if text.startswith(b";", offset)), len(text))].decode()


def rows_of(
    database: duckdb.DuckDBPyConnection, sql: str, names: Mapping[str, Any], limits: Limits
) -> tuple[pa.Table, bool]:
    """The rows of a statement as far as the limits go, and whether there were more."""
    used = checked(database, sql).named_parameters
    for name in sorted(used - names.keys()):
        raise SqlError(f"${name} has no value", nearest(f"${name}", [f"${candidate}" for candidate in names]))
    texts = duckdb.list_type(duckdb.sqltypes.VARCHAR)  # an empty list has a type, too
    typed = {name: duckdb.Value(value, texts) for name, value in names.items() if isinstance(value, tuple)}
    values = {name: typed.get(name, names[name]) for name in used} or None
    relation = arrow_ready(database.sql(first_statement(sql), params=values))
    batches = []
    rows = 0
    left = limits.answer_mb * MB
    is_cut = False
    with relation.to_arrow_reader(ROWS_PER_BATCH) as reader:
        a_row = len("".join(relation.columns))
        for batch in reader:
            fit = min(batch.num_rows, limits.rows - rows)
            while fit and (size := a_row * fit + sum(map(size_of, batch.slice(0, fit).columns))) > left:
                fit //= 2
            if not fit and not rows and batch.num_rows:
                raise SqlError(f"a row of the answer is over {limits.answer_mb} MB", "Select less of each row")
            batches.append(batch.slice(0, fit))
            rows += fit
            if fit:
                left -= size
            is_cut = fit < batch.num_rows
            if is_cut:
                break
        return pa.Table.from_batches(batches, schema=reader.schema), is_cut


def checked(database: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """The one statement, if it is a SELECT that may run."""
    statements = database.extract_statements(sql)
    if len(statements) != 1:
        count = len(statements)
        raise SqlError(f"there are {count} statements" if count else "there is no statement", "Write one SELECT")
    kind = statements[0].type
    if kind == duckdb.StatementType.MULTI:
        problem = "a PIVOT that finds its own columns is several statements"
        raise SqlError(problem, "Name them: ON column IN (...)")
    if kind != duckdb.StatementType.SELECT:
        name = str(getattr(kind, "name", "of an unknown kind")).replace("_", " ")
        raise SqlError(f"the statement is {name}, and only a SELECT may run here", "Write one SELECT over the tables")
    return statements[0]


def size_of(array: pa.Array) -> int:
    """Bytes of the values once they are out of Arrow, where a list of ``true`` has a bit for each, one of NULL none."""
    kind, inner = array.type, []
    if pa.types.is_map(kind):
        pairs = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        inner = [pa.ListArray.from_arrays(array.offsets, pairs).flatten()]
    elif pa.types.is_nested(kind):
        inner = array.flatten() if pa.types.is_struct(kind) else [array.flatten()]
    own_bytes: int = array.nbytes
    if inner:
        own_bytes = LIST * len(array)
    elif pa.types.is_boolean(kind):
        own_bytes = 0
    return int(VALUE * len(array) + own_bytes + sum(map(size_of, inner)))


def in_words(text: str) -> SqlError:
    """DuckDB's message as one line: what happened, where, and what it proposes.

    ``Parser Error: syntax error at "X"\\n\\nLINE 3: X\\n ^^^`` -> ``syntax error at "X", line 3``"""
    if match := _UNREADABLE.search(text):
        reason = f"{shown(match[2], 200)} cannot be read" if match[2] else f"the table {shown(match[1])} cannot be read"
        return SqlError(reason, "It was removed or is damaged: `verify` names such files")
    message, _, location = text.partition("Stack Trace")[0].partition("\n\nLINE ")
    problem, _, fix = _PREFIX.sub("", message, count=1).strip().partition("\n")
    problem = _SETTING_ADVICE.sub("", problem).rstrip("!. ")[:MOST_TEXT]
    line = f", line {location.partition(':')[0]}" if location else ""
    return SqlError(one_line(problem) + line, one_line(fix.rstrip(".").replace("`", "'")[:MOST_TEXT]))
