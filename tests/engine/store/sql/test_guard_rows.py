"""Answers as Arrow tables and as JSON: every type of DuckDB, names that come twice, files that take them."""

from __future__ import annotations

import datetime
import io
import json
import math
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import SqlError
from engine.store.columns import rows_of
from engine.store.console import Console


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    with Console({"t": pa.table({"a": [1, 2, 3]})}) as console:
        yield console


VALUES: list[tuple[str, object]] = [
    ("NULL", None),
    ("true", True),
    ("(-128)::TINYINT", -128),
    ("255::UTINYINT", 255),
    ("2147483647", 2**31 - 1),
    ("9223372036854775807", 2**63 - 1),
    ("18446744073709551615::UBIGINT", 2**64 - 1),
    ("170141183460469231731687303715884105727::HUGEINT", 2**127 - 1),
    ("(-170141183460469231731687303715884105728)::HUGEINT", -(2**127)),
    ("(SELECT sum(a) FROM t)", 6),
    ("(SELECT count(*) FROM t)", 3),
    ("12::DECIMAL(38, 0)", 12),
    ("12.50::DECIMAL(9, 2)", 12.5),
    ("1.5", 1.5),
    ("0.5::FLOAT", 0.5),
    ("'NaN'::DOUBLE", None),
    ("'Infinity'::DOUBLE", None),
    ("[1.5::DOUBLE, 'NaN'::DOUBLE]", [1.5, None]),
    ("'é\U0001f986'", "é\U0001f986"),
    ("'\\x00\\xFF'::BLOB", "00ff"),
    ("'a'::ENUM ('a', 'b')", "a"),
    ("['b'::ENUM ('a', 'b'), NULL]", "[b, NULL]"),
    ("'00000000-0000-0000-0000-00000000000f'::UUID", "00000000-0000-0000-0000-00000000000f"),
    ("DATE '2020-02-29'", "2020-02-29"),
    ("TIME '01:02:03.5'", "01:02:03.500000"),
    ("TIMESTAMP '2020-02-29 01:02:03'", "2020-02-29T01:02:03"),
    ("'2020-02-29 00:00:00.5'::TIMESTAMP_MS", "2020-02-29T00:00:00.500000"),
    ("'2020-02-29 00:00:00.123456789'::TIMESTAMP_NS", "2020-02-29T00:00:00.123456789"),
    ("TIMESTAMPTZ '2020-02-29 02:00:00+02'", "2020-02-29T00:00:00+00:00"),
    ("[1, NULL, 3]", [1, None, 3]),
    ("[[1], [], NULL]", [[1], [], None]),
    ("array_value(1, 2)", [1, 2]),
    ("{'a': 1, 'b': {'c': ['x']}}", {"a": 1, "b": {"c": ["x"]}}),
    ("(1, 'x')", {"element1": 1, "element2": "x"}),
    ("map {'k': 1, 'l': NULL}", {"k": 1, "l": None}),
    ("map {1: [DATE '2020-02-29']}", {"1": ["2020-02-29"]}),
    ("map {[1]: [map {'k': {'a': 1.5}}]}", {"[1]": [{"k": {"a": 1.5}}]}),
    ("map_from_entries([(1, 2)][2:])", {}),
    ("[]", "[]"),
    ("'{\"a\": [1]}'::JSON", '{"a": [1]}'),
    # as text: Arrow's files do not carry them, or DuckDB's Arrow gets them wrong
    ("INTERVAL 1 DAY", "1 day"),
    ("[INTERVAL '1 month 2 hours']", "['1 month 02:00:00']"),
    ("'101'::BIT", "101"),
    ("340282366920938463463374607431768211455::UHUGEINT", str(2**128 - 1)),
    ("{'n': 340282366920938463463374607431768211455::UHUGEINT}", "{'n': 340282366920938463463374607431768211455}"),
    ("123456789012345678901234567890123456789012::BIGNUM", "123456789012345678901234567890123456789012"),
    ("TIMETZ '01:02:03+02'", "01:02:03+02"),
    ("union_value(a := 1)", "1"),
    ("{'a': 1}::VARIANT", "{'a': 1}"),
    ("'POINT (1 2)'::GEOMETRY", "POINT (1 2)"),
]


def test_every_type_as_json_and_as_a_file(console: Console) -> None:
    for sql, expected in VALUES:
        table = console.query(f"SELECT {sql} AS v UNION ALL SELECT NULL").table
        first, second = rows_of(table)
        assert (first, second) == ({"v": expected}, {"v": None}), sql
        assert type(first["v"]) is type(expected), sql
        assert json.loads(json.dumps(first, allow_nan=False)) == first
        pq.write_table(table, io.BytesIO())


def test_what_becomes_text_keeps_its_place_and_order(console: Console) -> None:
    sql = "SELECT a, INTERVAL (a) DAY AS i, a AS a FROM t WHERE a > 1 ORDER BY a DESC; -- ; with an end"
    table = console.query(sql).table
    assert table.column_names == ["a", "i", "a_1"]
    assert table.to_pylist() == [{"a": 3, "i": "3 days", "a_1": 3}, {"a": 2, "i": "2 days", "a_1": 2}]


def test_a_year_that_python_does_not_have(console: Console) -> None:
    with pytest.raises(SqlError, match="CAST it to VARCHAR"):
        list(rows_of(console.query("SELECT DATE '20000-01-01' AS d").table))


def test_rows_of_any_table() -> None:
    table = pa.table(
        {
            "n": pa.array([Decimal("1.50"), None]),
            "at": pa.array([datetime.timedelta(seconds=1), None]),
            "f": [math.nan, 1.0],
            "d": pa.array(["x", None]).dictionary_encode(),
            "wide": pa.array([b"\x01", None], pa.large_binary()),
        }
    )
    assert list(rows_of(table)) == [
        {"n": 1.5, "at": "0:00:01", "f": None, "d": "x", "wide": "01"},
        {"n": None, "at": None, "f": 1.0, "d": None, "wide": None},
    ]
    assert list(rows_of(table.slice(0, 0))) == []


@pytest.mark.parametrize("levels", [30, 31, 64])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ("{'a': ", "}"), ("map([1], [", "])")])
def test_deep_answers_come_as_text(console: Console, opened: str, closed: str, levels: int) -> None:
    (row,) = rows_of(console.query(f"SELECT {opened * levels}4711{closed * levels} AS a").table)
    assert isinstance(row["a"], str) == (levels > 30) and "4711" in str(row["a"])
