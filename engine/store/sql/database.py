"""One locked DuckDB connection: checks a statement, runs it, and keeps what its limits allow of the answer.

It sets the limits that DuckDB knows. The others are set by its process (``engine.store.sql.child``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from engine.errors import SqlError, nearest
from engine.store.sql.process import Setup
from engine.store.sql.rows import unique_names
from engine.store.sql.sizes import NESTED, check_header, inner_types, plain_batches, plain_schema
from engine.store.sql.tree import allowed_functions, check_tree

Parameters = list[object] | dict[str, object]
ROWS_PER_BATCH = 1024
READ_AHEAD = {"batch_size": 8192, "batch_readahead": 1}

SETTINGS = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "enable_progress_bar": "false",
    "max_temp_directory_size": "'0B'",
    "temp_directory": "''",
    "TimeZone": "'UTC'",
}
LAST_SETTINGS = {"enable_external_access": "false", "lock_configuration": "true"}

FUNCTIONS = """
    SELECT function_name, coalesce(bool_or(has_side_effects), false) FROM duckdb_functions()
    WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro') AND schema_name = 'main' GROUP BY function_name
"""
TEXT_ONLY = frozenset({"bignum", "bit", "geometry", "interval", "time with time zone", "uhugeint", "union", "variant"})
"""Types that files of Arrow cannot carry, or that DuckDB's Arrow gets wrong (a large UHUGEINT comes out negative)."""
MOST_LEVELS = 30
"""Of lists and structs in each other; Arrow has an end at 64, a map having two levels."""


class Database:
    """The tables and views of a set-up, and nothing else, for one user's statements."""

    def __init__(self, setup: Setup, tables: Mapping[str, pa.Table]) -> None:
        self._limits = setup.limits
        self._names = [*setup.tables, *setup.datasets, *setup.views]
        self._connection = duckdb.connect(":memory:", config={"threads": str(setup.limits.threads)})
        self._functions = allowed_functions(self._connection.execute(FUNCTIONS).fetchall())
        self._set(SETTINGS)
        for name, table in tables.items():
            self._connection.register(name, table)
        for name, dataset in setup.datasets.items():
            self._connection.register(name, with_small_read_ahead(dataset))
        limits = {
            "memory_limit": f"'{setup.limits.memory_mb}MB'",
            "max_execution_time": str(max(1, round(setup.limits.seconds * 1000))),  # milliseconds
        }
        self._set(limits | LAST_SETTINGS)
        for name, text in setup.views.items():
            self._connection.execute(f"CREATE TEMP VIEW {quoted(name)} AS {text}")

    def answer(self, sql: str, parameters: Parameters) -> tuple[pa.Table, bool]:
        """The rows of a statement, and whether there were more."""
        values = _values(self._check(sql), parameters)
        relation = self._connection.sql(sql, params=values)
        check_header(relation.columns, relation.types)
        casts = [_cast_of(kind) for kind in relation.types]
        if any(casts):
            sql = _with_casts(sql, relation.columns, casts)
            self._check(sql)
            relation = self._connection.sql(sql, params=values)
        with relation.to_arrow_reader(ROWS_PER_BATCH) as reader:  # an open one is in the way of the next statement
            batches, is_cut = plain_batches(reader, self._limits)
            table = pa.Table.from_batches(batches, schema=plain_schema(reader.schema))
        return table.rename_columns(unique_names(table.column_names)), is_cut

    def _set(self, settings: Mapping[str, str]) -> None:
        for name, value in settings.items():
            self._connection.execute(f"SET {name} = {value}")

    def _check(self, sql: str) -> Any:
        """The one statement, if it is a SELECT that may run."""
        statements = self._connection.extract_statements(sql)
        if len(statements) != 1:
            count = len(statements)
            raise SqlError(f"there are {count} statements" if count else "there is no statement", "Write one SELECT")
        ((text,),) = self._connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
        parsed = json.loads(text)
        if parsed["error"]:
            raise _not_a_select(statements[0])
        check_tree(parsed["statements"], self._names, self._functions)
        return statements[0]


def _values(statement: Any, parameters: Parameters) -> list[object] | dict[str, object] | None:
    """The parameters that the statement uses, as DuckDB takes them."""
    if isinstance(parameters, list):
        return parameters or None
    names = sorted(statement.named_parameters)
    for name in names:
        if name not in parameters:
            raise SqlError(f"${name} has no value", nearest(f"${name}", [f"${known}" for known in parameters]))
    texts = duckdb.list_type(duckdb.sqltypes.VARCHAR)  # an empty list has a type, too
    values = {name: parameters[name] for name in names}
    return {name: duckdb.Value(v, texts) if isinstance(v, tuple) else v for name, v in values.items()} or None


class _FileDataset(ds.FileSystemDataset):  # type: ignore[misc]
    def scanner(self, **options: Any) -> Any:
        return super().scanner(**options, **READ_AHEAD)


class _UnionDataset(ds.UnionDataset):  # type: ignore[misc]
    def scanner(self, **options: Any) -> Any:
        return super().scanner(**options, **READ_AHEAD)


def with_small_read_ahead(dataset: Any) -> Any:
    """A dataset that reads little ahead: pyarrow's own choice is 16 batches of 131,072 rows in each of four files."""
    if type(dataset) is ds.FileSystemDataset:
        root = dataset.partition_expression
        return _FileDataset(list(dataset.get_fragments()), dataset.schema, dataset.format, dataset.filesystem, root)
    if type(dataset) is ds.UnionDataset:
        return _UnionDataset(dataset.schema, dataset.children)
    return dataset


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_text_only(kind: Any, level: int = 0) -> bool:
    """Whether a type, or one inside it, is in TEXT_ONLY or nested too deep."""
    if kind.id in TEXT_ONLY or level > MOST_LEVELS:
        return True
    return any(_is_text_only(child, level + 1) for _, child in inner_types(kind))


def _cast_of(kind: Any) -> str:
    """The type that a column is to be cast to, since Arrow has none for its own; empty where it has."""
    if _is_text_only(kind):
        return "VARCHAR"
    if kind.id in NESTED and (plain := str(_without_null(kind))) != str(kind):
        return plain
    return ""


def _without_null(kind: Any) -> Any:
    """The type with INTEGER for the type of a bare NULL: DuckDB's Arrow has too few values of that one in lists."""
    inner = [_without_null(child) for _, child in inner_types(kind)]
    match kind.id:
        case "null":
            return duckdb.sqltypes.INTEGER
        case "list":
            return duckdb.list_type(*inner)
        case "array":
            return duckdb.array_type(inner[0], kind.children[1][1])
        case "map":
            return duckdb.map_type(*inner)
        case "struct":
            return duckdb.struct_type(dict(zip((name for name, _ in kind.children), inner, strict=True)))
    return kind


def _with_casts(sql: str, names: Sequence[str], casts: Sequence[str]) -> str:
    """The same statement with some columns cast. They are named by position: two may have the same name."""
    text = sql.encode()  # the tokenizer counts bytes
    for position, kind in duckdb.tokenize(sql):
        if kind == duckdb.token_type.operator and text.startswith(b";", position):
            sql = text[:position].decode()
            break
    columns = (
        f"{f'CAST(#{index} AS {cast})' if cast else f'#{index}'} AS {quoted(name)}"
        for index, (name, cast) in enumerate(zip(names, casts, strict=True), 1)
    )
    return f"SELECT {', '.join(columns)} FROM (\n{sql}\n)"


def _not_a_select(statement: Any) -> SqlError:
    try:
        kind = statement.type.name.replace("_", " ")
    except ValueError:  # one that DuckDB's own Python has no name for, such as UPDATE EXTENSIONS
        kind = "of an unknown kind"
    if kind == "MULTI":
        return SqlError("a PIVOT that finds its own columns is several statements", "Name them: ON column IN (...)")
    return SqlError(f"the statement is {kind}, and only a SELECT may run here", "Write one SELECT over the tables")
