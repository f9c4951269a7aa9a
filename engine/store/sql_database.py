"""One locked DuckDB connection: checks a statement, runs it, and keeps what its limits allow of the answer.

Holds what DuckDB's settings can hold. What they cannot is for the process that it runs in (``engine.store.sql_child``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from engine.errors import SqlError
from engine.store.guard import Limits, Setup, unique_names
from engine.store.sql_tree import allowed_functions, check_tree

ROWS_A_BATCH = 1024
READ_AHEAD = {"batch_size": 8192, "batch_readahead": 1}

SETTINGS = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "enable_progress_bar": "false",
    "max_temp_directory_size": "'0B'",
    "TimeZone": "'UTC'",
}
LAST_SETTINGS = {"enable_external_access": "false", "lock_configuration": "true"}

FUNCTIONS = """
    SELECT function_name, coalesce(bool_or(has_side_effects), false) FROM duckdb_functions()
    WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro') AND schema_name = 'main' GROUP BY function_name
"""
TEXT_ONLY = frozenset({"bignum", "bit", "geometry", "interval", "time with time zone", "uhugeint", "union", "variant"})
"""Types that files of Arrow cannot carry, or that DuckDB's Arrow gets wrong (a large UHUGEINT comes out negative)."""
NESTED = frozenset({"array", "list", "map", "struct", "tuple"})


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
            self._connection.register(name, modest(dataset))
        self._set(_limiting(setup.limits) | LAST_SETTINGS)
        for name, text in setup.views.items():
            self._connection.execute(f"CREATE TEMP VIEW {quoted(name)} AS {text}")

    def answer(self, sql: str, parameters: Sequence[object]) -> tuple[pa.Table, bool]:
        """The rows of a statement, and whether there were more."""
        self._check(sql)
        relation = self._relation(sql, parameters)
        is_text_only = [_is_text_only(kind) for kind in relation.types]
        if any(is_text_only):
            sql = _as_text(sql, relation.columns, is_text_only)
            self._check(sql)
            relation = self._relation(sql, parameters)
        reader = relation.to_arrow_reader(ROWS_A_BATCH)
        batches, is_cut = _kept(reader, self._limits)
        table = pa.Table.from_batches(batches, schema=reader.schema)
        return table.rename_columns(unique_names(table.column_names)), is_cut

    def _set(self, settings: Mapping[str, str]) -> None:
        for name, value in settings.items():
            self._connection.execute(f"SET {name} = {value}")

    def _check(self, sql: str) -> None:
        statements = self._connection.extract_statements(sql)
        if len(statements) != 1:
            count = len(statements)
            raise SqlError(f"there are {count} statements" if count else "there is no statement", "Write one SELECT")
        ((text,),) = self._connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
        parsed = json.loads(text)
        if parsed["error"]:
            raise _not_a_select(statements[0])
        check_tree(parsed["statements"], self._names, self._functions)

    def _relation(self, sql: str, parameters: Sequence[object]) -> Any:
        return self._connection.sql(sql, params=list(parameters) or None)


def _limiting(limits: Limits) -> dict[str, str]:
    return {
        "memory_limit": f"'{limits.memory_mb}MB'",
        "max_execution_time": str(max(1, round(limits.seconds * 1000))),  # milliseconds
    }


class _Files(ds.FileSystemDataset):  # type: ignore[misc]
    def scanner(self, **asked: Any) -> Any:
        return super().scanner(**asked, **READ_AHEAD)


class _Union(ds.UnionDataset):  # type: ignore[misc]
    def scanner(self, **asked: Any) -> Any:
        return super().scanner(**asked, **READ_AHEAD)


def modest(dataset: Any) -> Any:
    """A dataset that reads little ahead: pyarrow's own choice is 16 batches of 131,072 rows in each of four files."""
    if type(dataset) is ds.FileSystemDataset:
        root = dataset.partition_expression
        return _Files(list(dataset.get_fragments()), dataset.schema, dataset.format, dataset.filesystem, root)
    if type(dataset) is ds.UnionDataset:
        return _Union(dataset.schema, dataset.children)
    return dataset


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_text_only(kind: Any) -> bool:
    """Whether a type, or one inside it, is in TEXT_ONLY."""
    if kind.id in TEXT_ONLY:
        return True
    inner = kind.children if kind.id in NESTED else []
    return any(_is_text_only(child) for _, child in inner if not isinstance(child, int))  # an array's size is an int


def _as_text(sql: str, names: Sequence[str], is_text_only: Sequence[bool]) -> str:
    """The same statement with some columns as text. They are named by position: two may have the same name."""
    columns = (
        f"{f'CAST(#{index} AS VARCHAR)' if is_text else f'#{index}'} AS {quoted(name)}"
        for index, (name, is_text) in enumerate(zip(names, is_text_only, strict=True), 1)
    )
    return f"SELECT {', '.join(columns)} FROM (\n{_without_end(sql)}\n)"


def _without_end(sql: str) -> str:
    """One statement without its semicolon and what comes after."""
    text = sql.encode()  # the tokenizer counts bytes
    for position, kind in duckdb.tokenize(sql):
        if kind == duckdb.token_type.operator and text.startswith(b";", position):
            return text[:position].decode()
    return sql


def _kept(reader: Any, limits: Limits) -> tuple[list[pa.RecordBatch], bool]:
    """Batches up to the limits of rows and bytes, and whether there was more."""
    batches: list[pa.RecordBatch] = []
    rows, left = 0, limits.answer_mb << 20
    for batch in reader:
        fit = batch.num_rows if batch.nbytes <= left else batch.num_rows * left // batch.nbytes
        if not rows and not fit and batch.num_rows:
            raise SqlError(f"a row of the answer is over {limits.answer_mb} MB", "Select less of each row")
        kept = batch.slice(0, min(fit, limits.rows - rows))
        batches.append(kept)
        rows, left = rows + kept.num_rows, left - batch.nbytes
        if kept.num_rows < batch.num_rows:
            return batches, True
    return batches, False


def _not_a_select(statement: Any) -> SqlError:
    try:
        kind = statement.type.name.replace("_", " ")
    except ValueError:  # one that DuckDB's own Python has no name for, such as UPDATE EXTENSIONS
        kind = "of an unknown kind"
    if kind == "MULTI":
        return SqlError("a PIVOT that finds its own columns is several statements", "Name them: ON column IN (...)")
    return SqlError(f"the statement is {kind}, and only a SELECT may run here", "Write one SELECT over the tables")
