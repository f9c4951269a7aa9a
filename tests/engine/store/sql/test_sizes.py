"""The size of an answer's rows: never less than their JSON, whatever the types, and where an answer is cut by it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from engine.errors import SqlError
from engine.store.sql.guard import Console
from engine.store.sql.process import Limits
from engine.store.sql.rows import as_rows
from engine.store.sql.sizes import row_sizes
from tests.engine.store.sql.test_guard_rows import VALUES

LONG = "x" * 40_000
MB = 1 << 20
MOST = Limits(seconds=20, answer_mb=2, written_mb=2)


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    with Console({"t": pa.table({"a": [1, 2, 3]})}, limits=MOST) as console:
        yield console


def json_bytes(table: pa.Table) -> int:
    return sum(len(json.dumps(row)) + 2 for row in as_rows(table))


@pytest.mark.parametrize("sql", [sql for sql, _ in VALUES if "infinity" not in sql], ids=lambda sql: sql[:40])
def test_no_row_is_larger_than_it_is_counted(console: Console, sql: str) -> None:
    forms = sql, f"[{sql}, NULL, {sql}]", f"{{'a\"é': {sql}, 'b': [{sql}]}}", f"map {{'k\"': {sql}}}"
    columns = ", ".join(f'{form} AS "{place}\u20ac\\"' for place, form in enumerate(forms))
    table = console.query(f"SELECT {columns} FROM range(2) UNION ALL SELECT NULL, NULL, NULL, NULL").table
    for place in range(4):
        (batch,) = table.select([place]).combine_chunks().to_batches()
        sizes = row_sizes(batch)
        assert all(sizes[row] >= json_bytes(pa.table(batch.slice(row, 1))) for row in range(3))
        assert row_sizes(batch.slice(1)).tolist() == sizes[1:].tolist()


@pytest.mark.parametrize("text", ["plain", "\"\\'", "\x01\x1f\x7f\n", "é€\U0001f986", ""])
def test_text_is_counted_as_json_writes_it(text: str) -> None:
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        texts = ["", text]
        sizes = row_sizes(pa.record_batch({"a": pa.array(["left out", *texts], kind)}).slice(1))
        assert sizes[1] - sizes[0] == len(json.dumps(text)) - 2


HOSTILE = [
    f"SELECT {', '.join(f'a a{i}' for i in range(20))} FROM (SELECT '{LONG}'::ENUM ('{LONG}') AS a FROM range(10000))",
    f"SELECT [a, a, a] FROM (SELECT '{LONG}'::ENUM ('{LONG}') AS a FROM range(10000))",
    "SELECT list_transform(range(20000), lambda x: true) FROM range(6705)",
    "SELECT list_transform(range(20000), lambda x: NULL) FROM range(6705)",
    "SELECT list_transform(range(20000), lambda x: []) FROM range(6705)",
    "SELECT list_transform(range(2000), lambda x: {'a': x % 3}) FROM range(6705)",
    "SELECT list_transform(range(2000), lambda x: map {x % 3: x}) FROM range(6705)",
    "SELECT repeat(chr(1), 100000) FROM range(10000)",
    f'SELECT NULL AS "{"n" * 90_000}" FROM range(10000)',
]


@pytest.mark.parametrize("sql", HOSTILE, ids=range(len(HOSTILE)))
def test_an_answer_is_cut_by_what_it_is_when_written(console: Console, sql: str) -> None:
    answer = console.query(sql)
    assert answer.is_cut and answer.table.num_rows
    assert json_bytes(answer.table) <= 2 * MB and answer.table.nbytes <= 2 * MB
    assert "dictionary" not in str(answer.table.schema)
    assert console.query("SELECT 1").table.num_rows == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list_transform(range(400000), lambda x: true)",
        "SELECT list_transform(range(40000), lambda x: [])",
        f"SELECT {', '.join(f'a a{i}' for i in range(100))} FROM (SELECT '{LONG}'::ENUM ('{LONG}') AS a)",
    ],
    ids=range(3),
)
def test_a_row_that_is_too_large_when_written_is_refused(console: Console, sql: str) -> None:
    with pytest.raises(SqlError, match="a row of the answer is over 2 MB"):
        console.query(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + ", ".join(["t.*"] * 3_000) + " FROM t WHERE false",
        f'SELECT {", ".join(["w.*"] * 30)} FROM (SELECT 1 AS "{"n" * 40_000}") AS w WHERE false',
        "SELECT {'a': [s, s], 'b': s} FROM (SELECT {" + ", ".join(f"'{i}': 1" for i in range(800)) + "} AS s)",
    ],
    ids=["columns", "names", "fields"],
)
def test_an_answer_with_too_many_columns_is_refused(console: Console, sql: str) -> None:
    if "'a'" in sql:
        sql = sql.replace("[s, s]", "{'x': s, 'y': s}")
    with pytest.raises(SqlError, match="columns and fields, or their names are too long"):
        console.query(sql)


def test_as_many_columns_as_the_tables_have_are_no_matter(console: Console) -> None:
    assert console.query("SELECT " + ", ".join(["t.*"] * 1_500) + " FROM t").table.num_columns == 1_500
