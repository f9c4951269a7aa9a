"""DuckDB over the files: the same columns whatever is there, older versions, and pyarrow's view of the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from engine.errors import StoreError
from engine.store import views
from engine.store.columns import VERSION, Table
from engine.store.schema import KINDS, RUN, SAMPLES, STEPS
from engine.store.staging import rewrite_run
from engine.store.store import DEMO, Store
from engine.store.views import connect, datasets
from tests.crafted import copied, craft, craft_sheet, without
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.engine.store.stored_runs import named, store_at, written

ALL = [table for kind in KINDS for table in (kind.main, *kind.tables)]


def types_of(store: Store, table: Table) -> dict[str, pa.DataType]:
    schema = store.table(f"SELECT * FROM {table.name} LIMIT 0").schema
    return dict(zip(schema.names, schema.types, strict=True))


def tuples(store: Store, sql: str) -> list[tuple]:
    return [tuple(row.values()) for row in store.rows(sql)]


# --- whatever is there --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [0, 3])
def test_the_columns_are_those_of_the_schema(tmp_path: Path, runs: int) -> None:
    store = store_at(tmp_path / "store")
    for number in range(runs):
        written(store.home, f"r{number}", steps=number == 1)
    zone = pa.timestamp("us", tz="UTC")
    for table in ALL:
        types = types_of(store, table)
        assert {name: zone if pa.types.is_timestamp(type_) else type_ for name, type_ in types.items()} == {
            column.name: zone if pa.types.is_timestamp(column.type) else column.type for column in table
        }
        assert tuple(types) == table.names
    assert tuples(store, "SELECT (SELECT count(*) FROM samples), (SELECT count(*) FROM steps)") == [
        (4 * runs, 1 if runs else 0)
    ]
    tops = [("r1", [{"token_id": 5, "p_raw": 0.5, "allowed": True}])] if runs else []
    assert tuples(store, "SELECT run_id, top_k FROM steps") == tops


def test_pyarrow_sees_the_same_rows(store: Store) -> None:
    """What a connection without access to files is given."""
    given = datasets([(kind, store.listing(kind).entries) for kind in KINDS])
    for table in ALL:
        rows = given[table.name] if isinstance(given[table.name], pa.Table) else given[table.name].to_table()
        assert rows.schema.names == list(table.names)
        order = [(name, "ascending") for name in (table.names[0], *table.order)]
        seen = store.table(f"SELECT * FROM {table.name}").sort_by(order).to_pylist()
        of_files = rows.sort_by(order).to_pylist()
        for row in of_files:
            if row.get("conformer", 0) is None:
                row["conformer"] = 1
        assert of_files == seen


def test_a_run_of_the_demo_store_is_read_next_to_one_of_today(tmp_path: Path) -> None:
    """A column that came without a new version would be missing in one of two files that are read as one."""
    run_id = demo_run("qwen", "exact")
    shutil.copytree(DEMO / f"runs/run_id={run_id}", tmp_path / f"runs/run_id={run_id}")
    store = store_at(tmp_path)
    written(store.home, "today", steps=True)
    for table in (SAMPLES, STEPS):
        rows = store.rows(f"SELECT * FROM {table.name}")
        assert {row["run_id"] for row in rows} == {run_id, "today"}


def test_blocks_and_steps_of_an_older_version_are_of_the_first_conformer_in_every_query(tmp_path: Path) -> None:
    """It had no such column; a user's SQL and ours read the same."""
    store, entry = copied(tmp_path, RUN, demo_run("qwen", "exact"))
    later = {"blocks": ["conformer"], "steps": ["conformer"], "samples": ["conformers", "usable_each"]}
    for table, columns in later.items():
        craft(entry, table, without(columns))
    craft_sheet(entry, lambda sheet: sheet.update(schema=8))
    with store.console() as console:
        for table in ("blocks", "steps"):
            sql = f"SELECT conformer, count(*) > 10 AS many FROM {table} GROUP BY conformer"
            expected = [{"conformer": 1, "many": True}]
            assert store.rows(sql) == console.query(sql).table.to_pylist() == expected
        joined = "SELECT count(*) AS n FROM steps JOIN blocks USING (run_id, sample_id, conformer, block)"
        steps = store.rows("SELECT count(*) AS n FROM steps WHERE block >= 0")
        assert store.rows(joined) == console.query(joined).table.to_pylist() == steps != [{"n": 0}]
    assert store.rows("SELECT DISTINCT conformers, usable_each FROM samples") == [
        {"conformers": None, "usable_each": None}
    ]


def test_steps_of_a_run_that_was_counted_again_go_with_its_blocks() -> None:
    """Its blocks are of conformer 1 since. The steps, which were stored before, were of 0, and so of no block."""
    joined = "SELECT count(*) FROM steps JOIN blocks USING (run_id, sample_id, conformer, block)"
    ((by_conformer,),) = tuples(DEMO_STORE, joined)
    ((steps,),) = tuples(DEMO_STORE, "SELECT count(*) FROM steps WHERE block >= 0")
    assert by_conformer == steps > 1_000


def test_a_connection_has_the_tables_that_its_query_names_and_nothing_else() -> None:
    with connect([(RUN, [])], only_of="samples") as first, connect([(RUN, [])], only_of="blocks") as other:
        assert first.sql("SELECT count(*) FROM samples").fetchall() == [(0,)]
        rows = pa.table({"a": [1]})  # noqa: F841 - what must not be found
        for table in ("runs", "blocks", "rows"):
            with pytest.raises(duckdb.CatalogException):
                first.sql(f"SELECT * FROM {table}")
        first.close()
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


@pytest.mark.parametrize("older", ["one", "other"])
def test_a_run_of_an_older_version_is_read(store: Store, older: str) -> None:
    """A column that came later is null, a table that came later is empty for it, whichever run comes first."""
    entry = store.entry(older)
    craft(entry, "samples", lambda rows: rows.drop_columns("tokens"))
    craft_sheet(entry, lambda sheet: [sheet.update(schema=1), sheet["row"].pop("clean"), sheet["tables"].pop("steps")])
    Path(entry.path("steps")).unlink()
    assert (named(store), store.entry(older).version) == ({}, 1)
    counts = dict(tuples(store, "SELECT run_id, count(tokens) FROM samples GROUP BY ALL"))
    assert counts == {"one": 4, "other": 4} | {older: 0}
    assert tuples(store, "SELECT run_id FROM runs WHERE clean IS NULL") == [(older,)]
    assert len(tuples(store, "SELECT run_id FROM steps")) == 1
    given = datasets([(RUN, store.listing().entries)])["samples"].to_table()
    assert given.schema.names == list(SAMPLES.names) and given["tokens"].null_count == 4


def test_a_query_that_takes_more_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST_MEMORY", "50MB")
    views._database.cache_clear()
    with pytest.raises(StoreError, match="takes over 4 GB of memory"):
        store_at(tmp_path).rows("SELECT len(list(range)) AS n FROM range(30_000_000)")
    views._database.cache_clear()
    monkeypatch.undo()
    assert store_at(tmp_path).rows("SELECT 1 AS n") == [{"n": 1}]


def test_a_column_that_went_is_left_out_of_queries_and_of_what_is_written_again(tmp_path: Path) -> None:
    """Runs of version 9 have `log_weight_sd`, which nothing wrote or read."""
    store, entry = copied(tmp_path, RUN, demo_run("qwen", "exact"))
    craft(entry, "samples", lambda rows: rows.append_column("log_weight_sd", pa.nulls(rows.num_rows, pa.float64())))
    craft_sheet(entry, lambda sheet: sheet.update(schema=9))
    entry = store.snapshot().entry(entry.id)
    assert entry.version == 9 and "log_weight_sd" in entry.read("samples").schema.names
    written(store.home, "today")
    sql = "SELECT * FROM samples ORDER BY run_id, sample_id"
    before = store.table(sql)
    assert before.schema.names == list(SAMPLES.names) and before.num_rows == 68
    again = rewrite_run(entry, {}, {"clean": 0})
    assert again.version == VERSION and again.read("samples").schema.names == list(SAMPLES.names)
    assert store.table(sql).to_pylist() == before.to_pylist()
