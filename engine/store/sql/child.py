"""What runs one user's SQL in the sandbox for ``engine.store.sql.guard``: one locked DuckDB connection.

That nothing is read but the tables, and nothing written, is DuckDB's ``enable_external_access``, which
``lock_configuration`` keeps; that it is one SELECT, DuckDB says of the statement. Time, and memory that DuckDB's
``memory_limit`` does not count (parsing ten nested WITH takes gigabytes), are the sandbox's. Where a system does not
report a process's size (macOS), only DuckDB's own limit holds memory.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from engine.errors import SqlError, nearest, one_line, shown
from engine.sandbox import MB, Answer

EXPECTED = (duckdb.Error, pa.ArrowException, OSError, RuntimeError, MemoryError, ValueError, TypeError, SqlError)
SETTINGS = "SET python_enable_replacements = false; SET temp_directory = ''; SET TimeZone = 'UTC'"
LAST_SETTINGS = "SET enable_external_access = false; SET lock_configuration = true"
TEXT_ONLY = frozenset({"bignum", "bit", "enum", "geometry", "interval", "null", "time with time zone", "uhugeint"})
TEXT_ONLY |= {"union", "variant"}
"""Types that files of Arrow cannot carry, that multiply (an ENUM names a long text ten thousand times), or that come
out wrong: a large UHUGEINT negative, a list of bare NULLs with some missing."""
NESTED = frozenset({"array", "list", "map", "struct", "tuple"})
MOST_LEVELS = 30  # of lists and structs in each other; Arrow has an end at 64, a map having two levels
ROWS_PER_BATCH = 1024
MOST_HEADER = 1 << 17  # characters of the columns' names and types

VALUE, LIST = 24, 64  # bytes of a value in Python, and of a list or struct besides what is in it

_PLACE = re.compile(r"\n\nLINE (\d+): (.*)\n( *)(\^+)")
_PREFIX = re.compile(r"[A-Z][A-Za-z/ -]* Error: ")
_UNREADABLE = re.compile(r"reading the stream registered as '(.*?)' failed")
_SETTING_ADVICE = re.compile(r"[,.]? (?:or|Use) \"?SET .*")  # SET is not allowed here
MOST_TEXT, MOST_DETAIL = 4_000, 500
LESS_MEMORY = "Filter or aggregate before sorting, joining or making long values"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one statement may take."""

    rows: int = 10_000  # of the answer; more are cut off, and the answer says so
    seconds: float = 10.0
    memory_mb: int = 512  # of DuckDB; the process may grow by 1.5 times that and 64 MB, address space included
    answer_mb: int = 256  # of the answer as Python's objects; it is cut there, as at ``rows``


def statements(tables: Mapping[str, Any], limits: Limits) -> Callable[..., Answer]:
    """A head, and the rows as an Arrow stream."""
    database: duckdb.DuckDBPyConnection | None = None

    def answer(sql: str, names: Mapping[str, Any]) -> Answer:
        nonlocal database
        started = time.monotonic()
        try:
            database = database or opened(tables, limits)
            table, is_cut = rows_of(database, sql, names, limits)
            body = pa.BufferOutputStream()
            with pa.ipc.new_stream(body, table.schema) as stream:
                stream.write_table(table)
            head = {"is_cut": is_cut, "seconds": time.monotonic() - started, "is_last": False}
            return head, body.getvalue().to_pybytes()
        except EXPECTED as error:
            return failure(error, limits.memory_mb), b""

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
        if type(table) is ds.FileSystemDataset:
            of = table.partition_expression
            table = _FileDataset(list(table.get_fragments()), table.schema, table.format, table.filesystem, of)
        database.register(name, table)
    database.execute(LAST_SETTINGS)
    return database


def rows_of(
    database: duckdb.DuckDBPyConnection, sql: str, names: Mapping[str, Any], limits: Limits
) -> tuple[pa.Table, bool]:
    """The rows of a statement as far as the limits go, and whether there were more."""
    used = checked(database, sql).named_parameters
    for name in sorted(used - names.keys()):
        raise SqlError(f"${name} has no value", nearest(f"${name}", [f"${known}" for known in names]))
    texts = duckdb.list_type(duckdb.sqltypes.VARCHAR)  # an empty list has a type, too
    values = {name: duckdb.Value(v, texts) if isinstance(v := names[name], tuple) else v for name in used} or None
    text = sql.encode()  # the tokenizer counts bytes
    ends = (place for place, kind in duckdb.tokenize(sql) if kind == duckdb.token_type.operator)
    end = next((place for place in ends if text.startswith(b";", place)), len(text))
    relation = database.sql(text[:end].decode(), params=values)
    header = [f"{name} {kind}" for name, kind in zip(relation.columns, relation.types, strict=True)]
    if sum(map(len, header)) + 50 * len(header) > MOST_HEADER:
        raise SqlError(f"the answer has {len(header):,} columns, or their names are too long", "Select fewer columns")
    is_text = [_is_text_only(kind) for kind in relation.types]
    if any(is_text) or len(set(relation.columns)) < len(relation.columns):
        names_of = (name.replace('"', '""') for name in relation.columns)
        named = enumerate(zip(is_text, names_of, strict=True), 1)
        columns = [f'#{at}{"::VARCHAR" if as_text else ""} AS "{name}"' for at, (as_text, name) in named]
        relation = relation.project(", ".join(columns)).project("*")  # which makes the names differ
    batches, rows, left, is_cut = [], 0, limits.answer_mb * MB, False
    with relation.to_arrow_reader(ROWS_PER_BATCH) as reader:
        for batch in reader:
            fit = min(batch.num_rows, limits.rows - rows)
            while fit and bytes_of(batch.slice(0, fit)) > left:
                fit //= 2
            if not fit and not rows and batch.num_rows:
                raise SqlError(f"a row of the answer is over {limits.answer_mb} MB", "Select less of each row")
            batches.append(batch.slice(0, fit))
            rows, left, is_cut = rows + fit, left - bytes_of(batches[-1]), fit < batch.num_rows
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
        what = "a PIVOT that finds its own columns is several statements"
        raise SqlError(what, "Name them: ON column IN (...)")
    if kind != duckdb.StatementType.SELECT:
        name = str(getattr(kind, "name", "of an unknown kind")).replace("_", " ")
        raise SqlError(f"the statement is {name}, and only a SELECT may run here", "Write one SELECT over the tables")
    return statements[0]


def _is_text_only(kind: Any, level: int = 0) -> bool:
    """Whether a type, or one inside it, is in TEXT_ONLY or nested too deep. A bare NULL in a column does no harm."""
    if (kind.id in TEXT_ONLY and (level or kind.id != "null")) or level > MOST_LEVELS:
        return True
    inner = kind.children if kind.id in NESTED else []
    return any(_is_text_only(child, level + 1) for _, child in inner if not isinstance(child, int))  # an array's size


def bytes_of(rows: pa.RecordBatch) -> int:
    """What rows become once they are out of Arrow, where a list of ``true`` has a bit for each, one of NULL nothing."""
    return int(rows.num_rows) * len("".join(rows.schema.names)) + sum(map(_bytes_of, rows.columns))


def _bytes_of(array: pa.Array) -> int:
    kind, own = array.type, VALUE * len(array)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return own + int(array.nbytes)
    if pa.types.is_map(kind):  # its keys and values know nothing of the slice
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        inner = [of.slice(first, last - first) for of in (array.keys, array.items)]
    elif pa.types.is_nested(kind):
        inner = array.flatten() if pa.types.is_struct(kind) else [array.flatten()]
    else:
        return own
    return own + LIST * len(array) + sum(map(_bytes_of, inner))


def failure(error: BaseException, memory_mb: int) -> dict[str, object]:
    """What an exception met on the way to an answer means, in one line. Text that could name a file is for the log."""
    text, detail, is_unreadable, is_last = str(error), "", False, False
    if isinstance(error, SqlError):
        found = error
    elif isinstance(error, MemoryError) or text.startswith(("Out of Memory Error", "std::bad_alloc")):
        what, is_last = f"the statement ran out of memory (limit {memory_mb} MB)", True
        found = SqlError(what, LESS_MEMORY)
    elif match := _UNREADABLE.search(text):
        what, is_unreadable = f"the table {shown(match[1])} cannot be read", True
        found = SqlError(what, "Its files have changed or are damaged: open the store again")
        detail = one_line(text[:MOST_DETAIL])
    elif type(error).__name__ in ("InternalException", "FatalException") or not _PREFIX.match(text):
        what, is_last = f"the statement failed inside DuckDB ({type(error).__name__})", True
        found, detail = SqlError(what, "Write it in another way"), one_line(text[:MOST_DETAIL])
    else:
        found = in_words(text)
    return {"what": found.what, "fix": found.fix, "detail": detail, "is_unreadable": is_unreadable,
            "is_last": is_last}  # fmt: skip


def in_words(text: str) -> SqlError:
    """DuckDB's message as one line: what happened, where, and what it proposes.

    ``Parser Error: syntax error at "WHERE"\\n\\nLINE 3: WHERE\\n        ^^^^^`` -> ``syntax error at "WHERE", line 3
    column 1, at 'WHERE'``"""
    if len(text) > MOST_TEXT:  # a message may quote megabytes of a value; its end says where in the statement that is
        text = f"{text[: MOST_TEXT // 2]} … {text[-MOST_TEXT // 2 :]}"
    place = _PLACE.search(text)
    message = _PREFIX.sub("", text[: place.start()] if place else text, count=1).strip()
    what, _, fix = message.partition("\n")
    fix = fix.rstrip(".").replace("`", "'")  # names of the statement are no code of ours
    what = _SETTING_ADVICE.sub("", what).rstrip("!. ")
    if place is None:
        return SqlError(what, fix)
    number, line = int(place[1]), place[2]
    column = len(place[3]) - len(f"LINE {number}: ")
    near = line[column : column + len(place[4])]
    what += f", line {number}" if line.startswith("...") else f", line {number} column {column + 1}"
    return SqlError(f"{what}, at {shown(near)}" if near else what, fix)
