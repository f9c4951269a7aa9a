"""DuckDB over a store's files, in memory: a view for each table, whatever the schema version of its files.

The views name every file, which is ten times as fast as filtering folders. Columns that tables of older versions lack
are null. Damage shows only when a file is read, so ``engine.store.store`` handles it.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset

from engine.errors import StoreError
from engine.store.columns import Kind, Table
from engine.store.entries import Entry

SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
MOST_MEMORY = "4 GB"
"""For all queries of a process at once."""
MOST_SECONDS = 120.0
PATTERN = re.compile(r"[*?\[\\]")
"""What DuckDB does not take as it stands in a path."""
LOCAL = pa.fs.LocalFileSystem()
_OF_RUN = "OVER (PARTITION BY samples.run_id)"
WALL_PART_S = f"""CASE WHEN count(samples.decode_s) {_OF_RUN} = count(*) {_OF_RUN}
    THEN runs.wall_s * samples.decode_s / nullif(sum(samples.decode_s) {_OF_RUN}, 0) END"""
"""A sample's part of its run's wall time, of ``samples JOIN runs``; null where not all samples of the run have a time.

Samples of a batch overlap, so their own times add up to no time: they only say how the run's is shared out."""


def connect(listings: Iterable[tuple[Kind, Sequence[Entry]]], only_of: str | None = None) -> duckdb.DuckDBPyConnection:
    """A connection of our own, for our own queries; a user's SQL goes through ``engine.store.sql.guard``.

    ``only_of``: the only SQL that will be asked. Tables that it does not name are left out: views of all take longer
    than most queries."""
    connection = _connection()
    for kind, entries in listings:
        if only_of is None or kind.main.name in only_of:
            connection.register(kind.main.name, main_rows(kind, entries))
        for table in kind.tables:
            if only_of is None or table.name in only_of:
                _view(connection, table, [entry for entry in entries if table.name in entry.parts])
    return connection


@contextmanager
def time_limit(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """StoreError where the queries inside take longer than ``MOST_SECONDS``."""
    timer = threading.Timer(MOST_SECONDS, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except duckdb.InterruptException as error:
        if timer.is_alive():  # somebody else stopped it
            raise
        raise StoreError(f"a query was stopped after {MOST_SECONDS:g} s", "Choose fewer or smaller entries") from error
    finally:
        timer.cancel()


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
    # By default it takes four fifths of the machine, then writes beside the program.
    database = duckdb.connect(":memory:", config={**SETTINGS, "memory_limit": MOST_MEMORY, "temp_directory": ""})
    atexit.register(_close, process, database)  # else DuckDB writes about what was left to standard error
    return database


def _close(process: int, database: duckdb.DuckDBPyConnection) -> None:
    if process == os.getpid():
        _database.cache_clear()
        database.close()


def main_rows(kind: Kind, entries: Sequence[Entry]) -> pa.Table:
    return kind.main.rows([entry.row for entry in entries])


def datasets(kind: Kind, entries: Sequence[Entry]) -> dict[str, Any]:
    """The same tables for pyarrow: what a connection without file access can be given."""
    tables = {table.name: [entry for entry in entries if table.name in entry.parts] for table in kind.tables}
    parquet = {table.name: dataset(table, tables[table.name]) for table in kind.tables}
    return {kind.main.name: main_rows(kind, entries), **parquet}


def dataset(table: Table, entries: Sequence[Entry]) -> Any:
    """Columns that a file lacks are null. A row's id is that of its entry's folder, whatever the file says, and a
    file of an id that is not asked for is not opened."""
    form = pa.dataset.ParquetFileFormat()
    fragments: dict[int, tuple[Any, list[Any]]] = {}  # by filesystem
    for entry in entries:
        filesystem = entry.files.filesystem or LOCAL
        key = entry.folder.rpartition("/")[2].partition("=")[0]
        is_its = pa.dataset.field(key) == entry.id
        fragment = form.make_fragment(entry.path(table.name), filesystem, partition_expression=is_its)
        fragments.setdefault(id(filesystem), (filesystem, []))[1].append(fragment)
    datasets = [
        pa.dataset.FileSystemDataset(some, table.schema, form, filesystem) for filesystem, some in fragments.values()
    ]
    if not datasets:
        return table.schema.empty_table()
    return datasets[0] if len(datasets) == 1 else pa.dataset.dataset(datasets, schema=table.schema)


def _view(connection: duckdb.DuckDBPyConnection, table: Table, entries: Sequence[Entry]) -> None:
    """The empty table gives columns and types, so that no file, or an older one, has them too."""
    connection.register(f"_no_{table.name}", table.schema.empty_table())
    parts = [f'SELECT * FROM "_no_{table.name}"']
    is_far = [entry.files.filesystem is not None or bool(PATTERN.search(entry.path(table.name))) for entry in entries]
    local = [entry for entry, far in zip(entries, is_far, strict=True) if not far]
    for version in sorted({entry.version for entry in local}):
        paths = [entry.path(table.name).replace("'", "''") for entry in local if entry.version == version]
        names = "', '".join(paths)
        parts.append(f"SELECT * FROM read_parquet(['{names}'], hive_partitioning = false)")
    if any(is_far):
        others = [entry for entry, far in zip(entries, is_far, strict=True) if far]
        connection.register(f"_far_{table.name}", dataset(table, others))
        parts.append(f'SELECT * FROM "_far_{table.name}"')
    connection.execute(f'CREATE TEMP VIEW "{table.name}" AS {" UNION ALL BY NAME ".join(parts)}')
