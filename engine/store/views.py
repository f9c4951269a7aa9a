"""DuckDB over a store's files, in memory: a view for each table, whatever the schema version of its files.

The views name every file, which is ten times as fast as filtering folders. Columns that tables of older versions lack
are null (``conformer``: 0, of steps 1); columns that only those have are left out. Damage shows only when a file is
read, so ``engine.store.store`` handles it.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs

from engine.store.columns import Kind, Table, select_list
from engine.store.entries import Entry

SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
MOST_MEMORY = "4 GB"
"""For all queries of a process at once."""
PATTERN = re.compile(r"[*?\[]")  # in a path, unless it is in brackets
PARQUET, LOCAL = ds.ParquetFileFormat(), pa.fs.LocalFileSystem()
Listings = Iterable[tuple[Kind, Sequence[Entry]]]
_OF_RUN = "OVER (PARTITION BY samples.run_id)"
WALL_PART_S = f"""CASE WHEN count(samples.decode_s) {_OF_RUN} = count(*) {_OF_RUN}
    THEN runs.wall_s * samples.decode_s / nullif(sum(samples.decode_s) {_OF_RUN}, 0) END"""
"""A sample's part of its run's wall time, of ``samples JOIN runs``; null where not all samples of the run have a time.

Samples of a batch overlap, so their own times add up to no time: they only say how the run's is shared out."""


def connect(listings: Listings, only_of: str | None = None) -> duckdb.DuckDBPyConnection:
    """A connection of our own, for our own queries; a user's SQL goes through ``engine.store.console``.

    ``only_of``: the only SQL that will be asked. Tables that it does not name are left out: views of all take longer
    than most queries."""
    connection = _connection()
    for kind, entries in listings:
        if only_of is None or kind.main.name in only_of:
            connection.register(kind.main.name, kind.main.rows([entry.row for entry in entries]))
        for table in kind.tables:
            if only_of is None or table.name in only_of:
                _view(connection, table, [entry for entry in entries if table.name in entry.parts])
    return connection


def _view(connection: duckdb.DuckDBPyConnection, table: Table, entries: Sequence[Entry]) -> None:
    """The empty table gives columns and types, so that no file, or an older one, has them too."""
    connection.register(f"_no_{table.name}", table.schema.empty_table())
    parts = [f'SELECT * FROM "_no_{table.name}"']
    for entry in entries:  # DuckDB would take the types of the first file for all
        if problem := entry.column_problem(table.name):
            raise pa.ArrowTypeError(f"{entry.path(table.name)}: {problem}")
    for version in sorted({entry.version for entry in entries}):
        paths = [entry.path(table.name).replace("'", "''") for entry in entries if entry.version == version]
        names = "', '".join(PATTERN.sub(r"[\g<0>]", path) for path in paths)
        parts.append(f"SELECT * FROM read_parquet(['{names}'], hive_partitioning = false)")
    names = ", ".join(f'"{name}"' for name in table.names)
    rows = f"(SELECT {names} FROM ({' UNION ALL BY NAME '.join(parts)}))"
    connection.execute(f'CREATE TEMP VIEW "{table.name}" AS SELECT {select_list(table.schema)} FROM {rows}')


def datasets(listings: Listings) -> dict[str, Any]:
    """The same tables for a connection without access to files. Columns that a file lacks are null; a row's id is that
    of its entry's folder, whatever the file says, and a file of an id that is not asked for is not opened."""
    tables: dict[str, Any] = {}
    for kind, entries in listings:
        tables[kind.main.name] = kind.main.rows([entry.row for entry in entries])
        for table in kind.tables:
            files = [
                PARQUET.make_fragment(entry.path(table.name), LOCAL, ds.field(kind.key) == entry.id)
                for entry in entries
                if table.name in entry.parts
            ]
            dataset = ds.FileSystemDataset(files, table.schema, PARQUET, LOCAL) if files else None
            tables[table.name] = dataset or table.schema.empty_table()
    return tables


def _connection() -> duckdb.DuckDBPyConnection:
    """To this process's own database, where all that a connection makes is temporary and its own. A database of its own
    takes 20 ms, more than most queries. One that an error has broken, or that was closed, is replaced."""
    try:
        connection = _database(os.getpid()).cursor()
        connection.execute("SELECT 1").fetchall()
    except duckdb.Error:
        _database.cache_clear()
        return _database(os.getpid()).cursor()
    return connection


@functools.cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """``process``: a fork has none of the threads of its parent's database."""
    atexit.register(_database.cache_clear)  # else DuckDB writes about what was left to standard error
    # By default it takes four fifths of the machine, then writes next to the program.
    return duckdb.connect(":memory:", config={**SETTINGS, "memory_limit": MOST_MEMORY, "temp_directory": ""})
