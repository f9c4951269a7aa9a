"""DuckDB over the files: the same columns whatever is there, older versions, and pyarrow's view of the same."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from engine.errors import StoreError
from engine.store import entries as entries_module
from engine.store import staging as staging_module
from engine.store import views
from engine.store.columns import TEXT, VERSION, WHOLE, Column, Kind, Table
from engine.store.entries import read_entries
from engine.store.files import Files
from engine.store.schema import KINDS, RUN, RUNS, SAMPLES
from engine.store.staging import Staging
from engine.store.store import Store
from engine.store.views import connect, datasets
from tests.engine.store.stored_runs import MADE_AT, folder_of, named, sheet_of, store_at, tables, written

ALL = [table for kind in KINDS for table in (kind.main, *kind.tables)]


def types_of(store: Store, table: Table) -> dict[str, pa.DataType]:
    found = store.table(f"SELECT * FROM {table.name} LIMIT 0").schema
    return dict(zip(found.names, found.types, strict=True))


def asked(store: Store, sql: str) -> list[tuple]:
    return [tuple(row.values()) for row in store.rows(sql)]


# --- whatever is there --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [0, 3])
def test_the_columns_are_those_of_the_schema(tmp_path: Path, runs: int) -> None:
    store = store_at(tmp_path / "store")
    for number in range(runs):
        written(store.home, f"r{number}", steps=number == 1)
    zone = pa.timestamp("us", tz="UTC")
    for table in ALL:
        found = types_of(store, table)
        assert {name: zone if pa.types.is_timestamp(type_) else type_ for name, type_ in found.items()} == {
            one.name: zone if pa.types.is_timestamp(one.type) else one.type for one in table
        }
        assert tuple(found) == table.names
    assert asked(store, "SELECT (SELECT count(*) FROM samples), (SELECT count(*) FROM steps)") == [
        (4 * runs, 1 if runs else 0)
    ]
    tops = [("r1", [{"token_id": 5, "p_raw": 0.5, "allowed": True}])] if runs else []
    assert asked(store, "SELECT run_id, top_k FROM steps") == tops


def test_two_places_are_one_table(tmp_path: Path) -> None:
    home, beside = Files(tmp_path / "home"), Files(tmp_path / "beside")
    written(home, "a", 4)
    written(beside, "b", 6, steps=True)
    written(home, "both", 2)
    written(beside, "both", 8)
    counts = (
        "SELECT run_id, count(*), any_value(samples) FROM samples JOIN runs USING (run_id) GROUP BY ALL ORDER BY ALL"
    )
    assert asked(Store(home, (beside,)), counts) == [("a", 4, 4), ("b", 6, 6), ("both", 2, 2)]


def test_a_run_says_nothing_of_its_folder(tmp_path: Path) -> None:
    """The folder's name is no column: a run that somebody renamed would get another id in half of its rows."""
    store = store_at(tmp_path)
    written(store.home, "one")
    shutil.copytree(folder_of(store), folder_of(store, "two"))
    assert named(store) == {"runs/run_id=two": "run.json does not fit: it does not describe two"}
    assert asked(store, "SELECT DISTINCT run_id FROM samples") == [("one",)]


def test_pyarrow_sees_the_same_rows(store: Store) -> None:
    """What a connection without access to files is given."""
    given = datasets([(kind, store.found(kind).entries) for kind in KINDS])
    for table in ALL:
        rows = given[table.name] if isinstance(given[table.name], pa.Table) else given[table.name].to_table()
        assert rows.schema.names == list(table.names)
        order = [(name, "ascending") for name in (table.names[0], *table.order)]
        assert rows.sort_by(order).to_pylist() == store.table(f"SELECT * FROM {table.name}").sort_by(order).to_pylist()


def test_a_connection_has_the_tables_that_its_query_names_and_nothing_else() -> None:
    with connect([(RUN, [])], only_of="samples") as one, connect([(RUN, [])], only_of="blocks") as other:
        assert one.sql("SELECT count(*) FROM samples").fetchall() == [(0,)]
        rows = pa.table({"a": [1]})  # noqa: F841 - what must not be found
        for table in ("runs", "blocks", "rows"):
            with pytest.raises(duckdb.CatalogException):
                one.sql(f"SELECT * FROM {table}")
        one.close()
        assert other.sql("SELECT count(*) FROM blocks").fetchall() == [(0,)], "they share a database, not its end"
        settings = dict(other.sql("SELECT name, value FROM duckdb_settings()").fetchall())
    assert settings["autoinstall_known_extensions"] == settings["autoload_known_extensions"] == "false"
    assert (settings["memory_limit"], settings["temp_directory"]) == ("3.7 GiB", "")


def test_a_database_that_ended_is_replaced() -> None:
    """An error inside DuckDB ends the database that it happens in, for every later query."""
    views._database(os.getpid()).close()
    with connect([(RUN, [])], only_of="samples") as connection:
        assert connection.sql("SELECT count(*) FROM samples").fetchall() == [(0,)]


# --- versions -----------------------------------------------------------------------------------------------------

MOOD = Column("mood", TEXT, "how it felt")
MOODS = Column("moods", WHOLE, "how many")
NEWER = Kind(
    RUN.folder,
    RUN.key,
    RUN.noun,
    RUN.sheet,
    replace(RUNS, columns=(*RUNS.columns, MOODS)),
    (
        *(replace(one, columns=(*one.columns, MOOD)) if one is SAMPLES else one for one in RUN.tables),
        Table("feelings", (Column("run_id", TEXT, "the run", True), MOOD)),
    ),
)
"""The schema after this one: a column more in two tables, and a table more."""


def aged(files: Files, name: str) -> None:
    """A run of the schema before."""
    written(files, name)
    path = sheet_of(Store(files), name)
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": VERSION}))


def newer_run(files: Files, run_id: str) -> None:
    sample_table, *_, feelings = NEWER.tables
    rows = [row | {"mood": "fair"} for row in tables(run_id, range(4))["samples"].to_pylist()]
    staging = Staging.create(files, NEWER, run_id, {"origin": "measured", "created_at": MADE_AT})
    parts = {
        "samples": sample_table.rows(rows),
        "feelings": feelings.rows([{"run_id": run_id, "mood": "fair"}]),
    }
    staging.add(parts, range(4))
    staging.publish({"samples": 4, "moods": 1})


def test_runs_of_an_older_version_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that came later are null, a table that came later is empty for them, whichever run comes first."""
    for module in (staging_module, entries_module):
        monkeypatch.setattr(module, "VERSION", VERSION + 1)
    files = Files(tmp_path)
    for name in ("new-1", "new-2"):
        newer_run(files, name)
    for name in ("old-1", "old-2"):
        aged(files, name)
    found = read_entries(files, NEWER)
    assert found.damages == ()
    assert [entry.version - VERSION for entry in found.entries] == [1, 1, 0, 0]
    with connect([(NEWER, found.entries)]) as connection:
        moods = connection.sql("SELECT run_id, mood, count(*) FROM samples GROUP BY ALL ORDER BY ALL").fetchall()
        assert moods == [("new-1", "fair", 4), ("new-2", "fair", 4), ("old-1", None, 4), ("old-2", None, 4)]
        assert connection.sql("SELECT run_id, moods FROM runs ORDER BY ALL").fetchall() == [
            ("new-1", 1), ("new-2", 1), ("old-1", None), ("old-2", None),
        ]  # fmt: skip
        assert connection.sql("SELECT count(*) FROM feelings").fetchall() == [(2,)]
    for some in (found.entries, found.entries[::-1]):
        with connect([(NEWER, some)]) as connection:
            assert tuple(connection.sql("SELECT * FROM samples").columns) == NEWER.tables[0].names
    table = datasets([(NEWER, found.entries)])["samples"].to_table()
    assert sorted(map(str, table["mood"].to_pylist())) == ["None"] * 8 + ["fair"] * 8


def test_a_query_that_takes_more_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST_MEMORY", "50MB")
    views._database.cache_clear()
    with pytest.raises(StoreError, match="takes over 4 GB of memory"):
        store_at(tmp_path).rows("SELECT len(list(range)) AS n FROM range(30_000_000)")
    views._database.cache_clear()
    monkeypatch.undo()
    assert store_at(tmp_path).rows("SELECT 1 AS n") == [{"n": 1}]
