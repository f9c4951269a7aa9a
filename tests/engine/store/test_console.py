"""A user's SQL: what it may do, what it may not, what it may take, what comes back; all go through the process."""

from __future__ import annotations

import contextlib
import datetime
import gc
import io
import json
import math
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from engine.errors import SqlError
from engine.sandbox import Answer, Sandbox
from engine.store.columns import rows_of
from engine.store.console import Console, Limits

TABLE = pa.table({"a": [1, 2, 3], "b": ["x", "y", "x"], "molécule": ["C", "N", "O"]})
ENDLESS = "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r"
DEAF = "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))"
ROOMY = Limits(seconds=100, memory_mb=2000)
NESTED_WITH = "WITH a AS (" * 10 + "1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the process of ``console`` stands, with a file that nobody may read."""
    folder = tmp_path_factory.mktemp("console")
    (folder / "secret.csv").write_text("a\n4711\n")
    with contextlib.chdir(folder):
        yield folder


@pytest.fixture(scope="module")
def console(folder: Path) -> Iterator[Console]:
    with Console({"t": TABLE, "v": pa.table({"a": [2, 3, 4]})}, Limits(seconds=20, rows=50)) as console:
        yield console


@pytest.fixture(scope="module")
def small() -> Iterator[Console]:
    with Console({}, limits=Limits(seconds=20, memory_mb=64, rows=50)) as console:
        yield console


@pytest.fixture(autouse=True)
def still_answers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test has asked, and however it was refused, the same console answers the next statement."""
    yield
    for name in {"console", "small"} & set(request.fixturenames):
        assert value_of(request.getfixturevalue(name), "SELECT 1") == 1


def rows(console: Console, sql: str) -> list[dict[str, object]]:
    return list(rows_of(console.query(sql).table))


def value_of(console: Console, sql: str) -> object:
    ((value,),) = [row.values() for row in rows(console, sql)]
    return value


# --- what works -----------------------------------------------------------------------------------------------------


WORKING: list[tuple[str, list[object]]] = [
    ("SELECT a FROM t WHERE b = 'x'", [1, 3]),
    ("FROM t SELECT a", [1, 2, 3]),
    ("WITH t AS (SELECT 7 AS a) SELECT a FROM t", [7]),
    ("WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 3) SELECT i FROM r", [1, 2, 3]),
    ("SELECT (SELECT max(a) FROM t) + a FROM t WHERE EXISTS (SELECT 1) AND a IN (SELECT a FROM v)", [5, 6]),
    ("FROM range(3)", [0, 1, 2]),
    ("SELECT y FROM t PIVOT (sum(a) FOR b IN ('x', 'y')) WHERE y IS NOT NULL", [2]),
    ("SELECT molécule FROM t WHERE \"molécule\" = 'N'", ["N"]),
    ("SELECT 'it''s; -- no /* comment */ ; COPY'", ["it's; -- no /* comment */ ; COPY"]),
    ("SELECT $$a ; 'b'$$;", ["a ; 'b'"]),
    ("/* a /* nested */ ; */ SELECT 1 -- ; DROP TABLE t\n;;  -- the end", [1]),
    ("SELECT\u200b1", [1]),  # to DuckDB it is a space
    ("SELECT column_name FROM (DESCRIBE t)", ["a", "b", "molécule"]),
    ("SELECT " + "abs(" * 200 + "1" + ")" * 200, [1]),
    ("SELECT length('" + "x" * 90_000 + "')", [90_000]),
]


def test_what_works(console: Console) -> None:
    for sql, expected in WORKING:
        table = console.query(sql).table
        assert (table.num_columns, table.column(0).to_pylist()) == (1, expected), sql


def test_whole_statements_of_describe_and_summarize(console: Console) -> None:
    assert [row["column_name"] for row in rows(console, "DESCRIBE t")] == ["a", "b", "molécule"]
    assert [row["max"] for row in rows(console, "SUMMARIZE t")] == ["3", "y", "O"]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT $control", "a"),
        ("SELECT [run IN $tests, run IN $runs] FROM (SELECT 'b' AS run)", [True, True]),
        ("SELECT ['$control', 'it''s $control']", ["$control", "it's $control"]),
        ('SELECT "$control" FROM (SELECT 1 AS "$control")', 1),
        ("SELECT 1 -- $control\n/* $tests\n */", 1),
        ("SELECT [$$ $control $$, $x$ $$ $control $x$, E'\\'$control']", [" $control ", " $$ $control ", "'$control"]),
        ("SELECT [len($none), len($tests), len($runs)]", [0, 2, 3]),
        ("SELECT [x] FROM (SELECT unnest($tests) AS x) WHERE x NOT IN $none ORDER BY x LIMIT 1", ["b"]),
        ("SELECT INTERVAL 1 DAY WHERE 'b' IN $tests", "1 day"),  # run a second time with its column as text
    ],
)
def test_named_parameters_stand_for_texts_and_lists(console: Console, sql: str, value: object) -> None:
    names: dict[str, str | tuple[str, ...]] = {"control": "a", "tests": ("b", "c"), "runs": ("a", "b", "c"), "none": ()}
    ((result,),) = [row.values() for row in rows_of(console.query(sql, names).table)]
    assert result == value


def test_named_parameters_are_values_and_never_sql(console: Console) -> None:
    evil = "'); COPY (SELECT 1) TO 'f'; --"
    answer = console.query("SELECT $name AS name, $list AS list", {"name": evil, "list": (evil,)})
    assert list(rows_of(answer.table)) == [{"name": evil, "list": [evil]}]
    with pytest.raises(SqlError, match=r"\$controls has no value. Did you mean \$control"):
        console.query("SELECT $controls", {"control": "a", "tests": ()})


# --- what is refused ------------------------------------------------------------------------------------------------

ATTACKS = [
    # one SELECT and nothing else
    "", ";", "-- nothing", "SELECT 1; SELECT 2", "SELECT 1; COPY t TO 'f'", "COPY t TO 'f'",
    "/**/COPY/**/t/**/TO/**/'f'",
    "EXPORT DATABASE 'f'", "ATTACH 'f'", "USE temp", "INSTALL httpfs", "LOAD parquet", "PRAGMA version",
    "SET lock_configuration = false", "CALL range(3)", "CREATE TABLE x AS SELECT 1", "CREATE SECRET (TYPE s3)",
    "INSERT INTO t VALUES (1)", "DROP VIEW t", "BEGIN", "CHECKPOINT", "EXPLAIN ANALYZE SELECT 1",
    "PREPARE p AS SELECT 1", "PIVOT t ON b USING sum(a)", "SELECT 1 INTO x",
    # writers inside a SELECT
    "WITH w AS (COPY (SELECT 1) TO 'f') SELECT * FROM w", "WITH w AS MATERIALIZED (COPY t TO 'f') SELECT 1",
    "SELECT (WITH w AS (COPY t TO 'f') SELECT 1)", "FROM (COPY t TO 'f')", "FROM (PIVOT t ON b USING sum(a))",
    # tables that are not ours; tests/attacks has what reads files
    "FROM 'secret.csv'", 'SELECT * FROM "secret.csv", (WITH "secret.csv" AS (SELECT 1) SELECT 1)', "FROM os",
    "FROM console", "FROM memory.main.t", "FROM t AT (VERSION => 1)", "FROM __duckdb_source_1",
    "FROM read_text('secret.csv')", 'FROM "Read_CSV"(\'secret.csv\')', "FROM enable_logging()",
    "SELECT getenv('HOME')", "SELECT nextval('s')", "SELECT t.a.getvariable() FROM t",
    # letters that only look right
    "ＣＯＰＹ t TO 'f'", "CO\u200bPY t TO 'f'", "\u202eSELECT 1", "SELECT * FROM t\u0000; COPY t TO 'f'",
    "SELECT '\ud800'", "SELECT * FROM ｔ", "SELECT getvarıable('x')", "SELECT * FROM tеst",
    # too much of it
    "SELECT " + "(" * 10_000 + "1" + ")" * 10_000, "SELECT * FROM (" * 5000 + "SELECT 1" + ")" * 5000,
    "SELECT 1" + "+1" * 40_000, "SELECT " + "NOT " * 20_000 + "true", "SELECT '" + "x" * 100_000 + "'",
]  # fmt: skip


@pytest.mark.parametrize("sql", ATTACKS, ids=lambda sql: ascii(sql[:50]))
def test_attacks_are_refused(console: Console, folder: Path, sql: str) -> None:
    with pytest.raises(SqlError) as caught:
        console.query(sql)
    assert str(caught.value).isprintable() and "4711" not in str(caught.value)
    assert [path.name for path in folder.iterdir()] == ["secret.csv"]
    assert value_of(console, "SELECT count(*) FROM t WHERE a < 4") == 3


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM tt", 'Table with name tt does not exist. Did you mean "t"?'),
        ("FROM 'secret.csv'", 'Cannot access file "secret.csv" - file system operations are disabled'),
        ("COPY t TO 'f'", "the statement is COPY, and only a SELECT may run here. Write one SELECT over the tables"),
        ("SELECT 1; SELECT 2", "there are 2 statements. Write one SELECT"),
        ("PIVOT t ON b USING sum(a)", "a PIVOT that finds its own columns is several statements. Name them: ON column"),
        ("SELECT a\nFROM t\nWHERE", 'syntax error at or near "WHERE", line 3'),
        ("SELECT b::INT FROM t", "Could not convert string 'x' to INT32 when casting from source column b, line 1"),
        ("SELECT * FROM (" * 5000 + "SELECT 1" + ")" * 5000, "Max expression depth limit of 1000 exceeded"),
        ("SELECT error(repeat('x', 5000000))", "xxxx"),
        ("x" * 100_001, "the statement has 100,001 characters (at most 100,000). Write a shorter one"),
    ],
)
def test_messages_say_what_and_what_to_do(console: Console, sql: str, said: str) -> None:
    with pytest.raises(SqlError) as caught:
        console.query(sql)
    assert str(caught.value).startswith(said)
    assert "SET " not in str(caught.value) and len(str(caught.value)) < 5_000


# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "count", "is_cut"),
    [
        ("FROM range(50)", 50, False),
        ("FROM range(51)", 50, True),
        ("SELECT * FROM range(1000000000) a, range(100000) b", 50, True),
        ("WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT i FROM r", 50, True),
        ("SELECT 1 WHERE false", 0, False),
    ],
)
def test_rows_are_cut_and_the_answer_says_so(console: Console, sql: str, count: int, is_cut: bool) -> None:
    answer = console.query(sql)
    assert (answer.table.num_rows, answer.is_cut) == (count, is_cut)
    assert answer.seconds > 0


MULTIPLY = [  # in Arrow a hundredth of what they are as Python's objects, or nothing
    "SELECT repeat('x', 100000) FROM range(40)",
    f"SELECT [a, a, a] FROM (SELECT '{'x' * 40_000}'::ENUM ('{'x' * 40_000}') AS a FROM range(100))",
    "SELECT list_transform(range(20000), lambda x: true) FROM range(6705)",
    "SELECT list_transform(range(2000), lambda x: map {x % 3: x}) FROM range(6705)",
    f'SELECT NULL AS "{"n" * 40_000}" FROM range(10000)',
]


def test_bytes_are_cut_too() -> None:
    with Console({}, limits=Limits(answer_mb=2)) as console:
        for sql in MULTIPLY:
            answer = console.query(sql)
            assert answer.is_cut and answer.table.num_rows
            assert len(json.dumps(list(rows_of(answer.table)))) <= 2 << 20
        for sql in ("repeat('x', 3000000)", "struct_pack(a := range(1000000))", "range(400000)"):
            with pytest.raises(SqlError, match="a row of the answer is over 2 MB"):
                console.query(f"SELECT {sql}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT length(repeat('x', 1000000000))",
        "SELECT string_agg(range::VARCHAR, ',') FROM range(1000000000)",
        "WITH RECURSIVE r AS (SELECT 'xx' AS s, 0 AS n UNION ALL SELECT s || s, n + 1 FROM r WHERE n < 40) "
        "SELECT max(length(s)) FROM r",
        NESTED_WITH,
        "SELECT " + "(" * 10_000,
    ],
    ids=lambda sql: sql[:40],
)
def test_memory_runs_out_there_and_not_here(small: Console, sql: str) -> None:
    # DuckDB's parser does not check each of its allocations: rarely the process falls where it should complain.
    message = r"the statement ran out of memory \(limit 64 MB\)\. Filter or aggregate"
    with pytest.raises(SqlError, match=rf"{message}|ended its process" if sql == NESTED_WITH else message):
        small.query(sql)
    assert value_of(small, "SELECT 1") == 1


# --- answers ----------------------------------------------------------------------------------------------------------

VALUES: list[tuple[str, object]] = [
    ("NULL", None),
    ("(-128)::TINYINT", -128),
    ("2147483647", 2**31 - 1),
    ("18446744073709551615::UBIGINT", 2**64 - 1),
    ("170141183460469231731687303715884105727::HUGEINT", 2**127 - 1),
    ("(-170141183460469231731687303715884105728)::HUGEINT", -(2**127)),
    ("(SELECT sum(a) FROM t)", 6),
    ("12.50::DECIMAL(9, 2)", 12.5),
    ("1.5", 1.5),
    ("'NaN'::DOUBLE", None),
    ("[1.5::DOUBLE, 'NaN'::DOUBLE]", [1.5, None]),
    ("'é\U0001f986'", "é\U0001f986"),
    ("'\\x00\\xFF'::BLOB", "00ff"),
    ("'a'::ENUM ('a', 'b')", "a"),
    ("['b'::ENUM ('a', 'b'), NULL]", "[b, NULL]"),
    ("'00000000-0000-0000-0000-00000000000f'::UUID", "00000000-0000-0000-0000-00000000000f"),
    ("DATE '2020-02-29'", "2020-02-29"),
    ("TIME '01:02:03.5'", "01:02:03.500000"),
    ("TIMESTAMP '2020-02-29 01:02:03'", "2020-02-29T01:02:03"),
    ("'2020-02-29 00:00:00.123456789'::TIMESTAMP_NS", "2020-02-29T00:00:00.123456789"),
    ("TIMESTAMPTZ '2020-02-29 02:00:00+02'", "2020-02-29T00:00:00+00:00"),
    ("[1, NULL, 3]", [1, None, 3]),
    ("{'a': 1, 'b': {'c': ['x']}}", {"a": 1, "b": {"c": ["x"]}}),
    ("map {1: [DATE '2020-02-29']}", {"1": ["2020-02-29"]}),
    ("map {[1]: [map {'k': {'a': 1.5}}]}", {"[1]": [{"k": {"a": 1.5}}]}),
    ("map_from_entries([(1, 2)][2:])", {}),
    ("[]", "[]"),
    ("'{\"a\": [1]}'::JSON", '{"a": [1]}'),
    # as text: Arrow's files do not carry them, or DuckDB's Arrow gets them wrong
    ("INTERVAL 1 DAY", "1 day"),
    ("'101'::BIT", "101"),
    ("340282366920938463463374607431768211455::UHUGEINT", str(2**128 - 1)),
    ("{'n': 340282366920938463463374607431768211455::UHUGEINT}", "{'n': 340282366920938463463374607431768211455}"),
    ("123456789012345678901234567890123456789012::BIGNUM", "123456789012345678901234567890123456789012"),
    ("TIMETZ '01:02:03+02'", "01:02:03+02"),
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


@pytest.mark.parametrize("levels", [30, 31])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ("{'a': ", "}"), ("map([1], [", "])")])
def test_deep_answers_come_as_text(console: Console, opened: str, closed: str, levels: int) -> None:
    (row,) = rows_of(console.query(f"SELECT {opened * levels}4711{closed * levels} AS a").table)
    assert isinstance(row["a"], str) == (levels > 30) and "4711" in str(row["a"])


# --- from its start to its end ----------------------------------------------------------------------------------------


def process_of(console: Console) -> subprocess.Popen[bytes]:
    value_of(console, "SELECT 1")
    assert console._child._process is not None
    return console._child._process


class Asking(threading.Thread):
    """A statement in a thread of its own, and the error that it met."""

    def __init__(self, console: Console, sql: str) -> None:
        super().__init__(daemon=True)
        self.console, self.sql = console, sql
        self.error: SqlError | None = None
        self.start()

    def run(self) -> None:
        try:
            self.console.query(self.sql)
        except SqlError as error:
            self.error = error


@pytest.mark.parametrize("sql", [ENDLESS, DEAF], ids=["endless", "deaf"])
def test_cancel_stops_what_is_running(sql: str) -> None:
    with Console({"t": TABLE}, limits=ROOMY) as console:
        asking = Asking(console, sql)
        while asking.is_alive():  # as a user who presses until it stops: it has no effect before it runs
            console.cancel()
            asking.join(0.01)
        assert str(asking.error) == "the statement was stopped"
        assert value_of(console, "SELECT sum(a) FROM t") == 6


def test_a_cancel_that_comes_after_the_answer_spoils_no_later_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = Sandbox.receive
    with Console({}) as console:

        def receive_and_cancel(child: Sandbox) -> Answer | None:
            answer = receive(child)
            console.cancel()
            return answer

        console.cancel()
        with monkeypatch.context() as patched:
            patched.setattr(Sandbox, "receive", receive_and_cancel)
            assert value_of(console, "SELECT 1") == 1
        assert value_of(console, "SELECT 2") == 2


def test_close_stops_what_is_running_and_is_final() -> None:
    console = Console({}, limits=ROOMY)
    asking = Asking(console, ENDLESS)
    while not console._child.is_busy:
        asking.join(0.01)
    console.close()
    asking.join()
    assert "stopped" in str(asking.error) or "closed" in str(asking.error)
    console.close()
    with pytest.raises(SqlError, match="the console is closed"):
        console.query("SELECT 1")


def test_statements_of_several_threads_wait_for_each_other_and_a_process_that_went_is_replaced() -> None:
    with Console({"t": TABLE}) as console, ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            values = pool.map(lambda n: value_of(console, f"SELECT {n} + count(*) FROM t"), range(8))
            assert list(values) == [n + 3 for n in range(8)]
            before = process_of(console)
            before.send_signal(signal.SIGSEGV)
            before.wait()


def test_a_console_that_is_forgotten_takes_its_process_along() -> None:
    console = Console({})
    process = process_of(console)
    del console
    gc.collect()
    assert process.returncode is not None


# --- what it is given -----------------------------------------------------------------------------------------------


def parquet(folder: Path, files: int = 3) -> ds.Dataset:
    for number in range(files):
        path = folder / f"run={number}" / "part.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"a": list(range(10 * number, 10 * number + 10))}), path)
    return ds.dataset(folder, partitioning="hive")


def test_a_dataset_is_read_and_does_not_tell_where_it_lies(tmp_path: Path) -> None:
    files = parquet(tmp_path / "store")
    united = ds.dataset([files, ds.dataset(tmp_path / "store/run=0", schema=files.schema)])
    with Console({"files": files, "united": united, "nothing": TABLE.schema.empty_table()}) as console:
        assert value_of(console, "SELECT sum(a) FROM files WHERE run = 1") == 145
        assert value_of(console, "SELECT count(*) FROM united") == 40
        assert value_of(console, "SELECT count(*) FROM nothing") == 0
        for column in ("filename", "__filename", "file_name", "rowid"):
            with pytest.raises(SqlError, match=f'"{column}" not found'):
                console.query(f"SELECT {column} FROM files")
        (tmp_path / "store/run=1/part.parquet").unlink()
        with pytest.raises(SqlError, match=r"run=1/part\.parquet' cannot be read\. It was removed or is damaged"):
            console.query("SELECT sum(a) FROM files")
        assert value_of(console, "SELECT count(*) FROM files WHERE run = 2") == 10


# --- what stays out -------------------------------------------------------------------------------------------------


def test_what_does_not_fit_into_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sql = "SELECT a FROM (SELECT random() AS r, repeat('x', 100) || range AS a FROM range(3000000)) ORDER BY r"
    with Console({}, limits=Limits(seconds=60, memory_mb=64)) as console:
        with pytest.raises(SqlError, match="ran out of memory"):
            console.query(sql)
        assert not list(tmp_path.iterdir())


def test_time_runs_out() -> None:
    with Console({}, limits=Limits(seconds=1.0)) as console:
        for sql in (ENDLESS, DEAF):
            with pytest.raises(SqlError, match=r"ran for over 1 s and was stopped\. Ask for less"):
                console.query(sql)
            assert console.query("SELECT 1").table.num_rows == 1
