"""The SQL section's parts that need no page: names for runs, marks, charts, links, files, a console's session."""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from engine.errors import SqlError
from engine.store.sql.guard import SqlAnswer
from engine.store.sql.process import Limits
from engine.store.store import Store
from pages._compare.sql import mark_of
from pages._shared.components.sql_editor import schema
from pages._shared.sql_answer import INSPECTOR, shown_table
from pages._shared.sql_chart import sql_chart
from pages._shared.sql_console import RUN_NAMES, RunningStatement, SqlOutcome, SqlSession, SqlStatement
from pages._shared.sql_plot import Plot, across, default_plot, groups, suited
from pages._shared.table_files import csv_of, csv_text, parquet_of
from pages._shared.theme import LIGHT
from tests.pages.drift_stores import EXACT, WITH_JUNK, with_demo
from tests.pages.sql_processes import processes_of

LONG = "SELECT sum(range % 7) FROM range(1000000000000)"  # takes time alone
WAIT_S = 60.0


# --- names for runs -----------------------------------------------------------------------------------------------


def test_names_stand_for_runs() -> None:
    statement = SqlStatement.of("SELECT * FROM runs WHERE run_id IN $tests", ("a", "b", "c"))
    assert statement.names == {"control": "a", "tests": ("b", "c"), "runs": ("a", "b", "c")}
    assert SqlStatement.of("SELECT $control", ()).names == {"tests": (), "runs": ()}
    assert SqlStatement.of("SELECT $controls, $1", ("a",)) == SqlStatement("SELECT $controls, $1")


@pytest.mark.parametrize(
    ("sql", "what", "marked"),
    [
        ("SELECT 1,\n  2 3", "syntax error at or near \"3\", line 2 column 5, at '3'", "3"),
        ("SELECT $control, x y z", "syntax error at or near \"z\", line 1 column 22, at 'z'", "z"),
        ("SELECT $control $runs", "syntax error, line 1 column 17, at '$runs'", "$runs"),
        ("a\n  bcd\ne", "no such thing, line 2", "bcd"),
        ("SELECT nope FROM runs", 'Referenced column "nope" not found in FROM clause', "nope"),
        ("SELECT r.a FROM runs r", 'Values list "r" does not have a column named "a"', "a"),
        ("SELECT Foo(1)", "the function 'foo' does not exist", "Foo"),
        ("SELECT 1", "the statement ran for over 10 s", None),
        ("SELECT 1", "out of it, line 3 column 900, at 'x'", None),
        ("SELECT 1", "out of it, line 1 column 900, at 'x'", None),
    ],
)
def test_where_a_statement_is_wrong(sql: str, what: str, marked: str | None) -> None:
    mark = mark_of(SqlError(what), sql)
    assert (None if mark is None else sql[slice(*mark)]) == marked


# --- charts -------------------------------------------------------------------------------------------------------


def table(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


MANY = list(range(100))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"lp": ["a", "b"], "n": [1, 2]}, Plot("bar", "lp", "n")),
        ({"model": ["a", "b"], "lp": ["x", "y"], "n": [1, 2], "s": [0.1, 0.2]}, Plot("bar", "model", "s", "lp")),
        ({"run_id": ["r1", "r2", "r3"], "lp": ["x", "y", "x"], "s": [1.0, 2.0, 3.0]}, Plot("bar", "lp", "s")),
        ({"t": [datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2)], "n": [1, 2]}, Plot("line", "t", "n")),
        ({"a": MANY, "b": [float(one) for one in MANY]}, Plot("scatter", "b", "a")),
        ({"sample_id": MANY, "tokens": MANY}, Plot("histogram", "tokens")),
        ({"smiles": [str(one) for one in MANY], "tokens": MANY, "drift": MANY}, Plot("scatter", "tokens", "drift")),
        ({"a": [1]}, None),
        ({"a": ["x", "y"]}, None),
        ({"a": [None, None]}, None),
        ({"ok": [True, False], "n": [1, 2]}, Plot("bar", "ok", "n")),
    ],
)
def test_the_chart_that_suits_the_columns(columns: dict[str, list[Any]], expected: Plot | None) -> None:
    assert default_plot(table(**columns)) == expected


def test_another_kind_keeps_what_fits_it() -> None:
    rows = table(model=["a", "b"], lp=["x", "y"], n=[1, 2], s=[0.1, 0.2])
    default = default_plot(rows)
    assert default is not None and default.x == "model"
    assert suited(rows, "bar", default) == default
    assert suited(rows, "histogram", default) == Plot("histogram", "s", "", "lp")
    assert suited(rows, "scatter", default) == Plot("scatter", "n", "s", "lp")
    assert across(rows, "histogram") == ["n", "s"]
    assert groups(table(a=MANY, b=["x"] * 100, c=[one % 3 for one in MANY])) == ["c"]


@pytest.mark.parametrize("kind", ["bar", "line", "scatter", "histogram"])
def test_every_chart_marks_what_is_reported_and_escapes_what_is_written(kind: Any) -> None:
    evil = "<a href='javascript:alert(1)'>x</a>%{y}"
    rows = pa.table({"name": [evil, "b", "b"], evil: [1.5, None, 2.5], "origin": ["reported", "measured", "measured"]})
    x = evil if kind == "histogram" else "name"
    plot = Plot(kind, x, "" if kind == "histogram" else evil, "name")
    drawn = sql_chart(rows, plot, colours=LIGHT)
    json = drawn.figure(LIGHT).to_json()
    assert "<a href" not in json and "\\u003ca href" not in json
    assert "reported" in drawn.alt
    if kind != "histogram":
        assert "reported" in json if kind == "bar" else "circle-open" in json
    assert plot.question.endswith("?")


def alt(rows: pa.Table, *plot: Any) -> str:
    return sql_chart(rows, Plot(*plot), colours=LIGHT).alt


def test_rows_of_one_name_are_bars_of_their_own() -> None:
    drawn = sql_chart(table(a=["x", "x", "y"], n=[1, 2, 3]), Plot("bar", "a", "n"), colours=LIGHT)
    (bars,) = drawn.figure(LIGHT).data
    assert list(bars.x) == ["x", "x (2)", "y"] and list(bars.y) == [1, 2, 3]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 2, None, 4], {1: 1, 2: 2, 3: 0, 4: 1}),  # a bin for each whole number
        ([0.5, 0.5, 0.5], {0.5: 3}),
        ([one * 1000 for one in MANY], None),
        ([float(one**3) for one in MANY], None),
    ],
)
def test_a_histogram_counts_every_value_once(values: list[Any], expected: dict[float, int] | None) -> None:
    chart = sql_chart(table(n=values), Plot("histogram", "n"), colours=LIGHT)
    (bars,) = chart.figure(LIGHT).data
    assert sum(bars.y) == sum(value is not None for value in values) and len(bars.y) <= 60
    if expected is not None:
        assert {x: y for x, y in zip(bars.x, bars.y, strict=True) if y or x in expected} == expected


def test_the_sentence_says_what_the_rows_say() -> None:
    said = alt(table(a=["x", "y", "z"], n=[3, 1, None]), "bar", "a", "n")
    assert said.startswith("How does n differ by a? Of 2 rows, highest: n is 3 at x; lowest: n is 1 at y.")
    assert "median 2.00, middle half 1.50 to 2.50 (3 rows)" in alt(table(n=[1, 2, 3]), "histogram", "n")
    rising = table(a=MANY, b=[one * one for one in MANY])
    assert "Both rise together: Spearman's ρ 1.00" in alt(rising, "scatter", "a", "b")
    assert "too few" in alt(table(a=[1, 2], b=[1, 2]), "scatter", "a", "b")
    assert "No row has a n." in alt(table(a=["x"], n=pa.array([None], pa.int64())), "bar", "a", "n")


# --- tables and files ---------------------------------------------------------------------------------------------


def outcome(rows: pa.Table, **origins: str) -> SqlOutcome:
    return SqlOutcome(SqlStatement(""), SqlAnswer(rows, False, 0.0), None, origins, frozenset(origins))


def test_links_are_made_for_runs_of_the_store_alone() -> None:
    rows = table(run_id=["a", "b", None], sample_id=[0, None, 2], other=["a", "javascript:alert(1)", "b"])
    shown, columns = shown_table(outcome(rows, a="measured", b="reported"))
    assert shown["run_id"].to_pylist() == ["compare?control=a", "compare?control=b", None]
    assert shown[INSPECTOR].to_pylist() == ["drift?run=a&sample=0", None, None]
    assert shown["other"].to_pylist() == rows["other"].to_pylist() and "other" not in columns
    assert not shown_table(outcome(rows, a="measured"))[1]  # one run is not of this store


ODD = pa.table(
    {
        "list": pa.array([["a b", None], None]),
        "deep": pa.array([[[1], None], None]),
        "struct": pa.array([{"a": 1, "b": [1.5]}, None]),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "bytes": pa.array([b"\xff\x00", None]),
        "price": pa.array([decimal.Decimal("1.50"), None]),
        "huge": pa.array([decimal.Decimal(2**100), None], pa.decimal128(38, 0)),
        "time": pa.array([datetime.time(1, 2), None]),
        "day": pa.array([datetime.date(2026, 1, 2), None]),
        "kind": pa.array(["x", None]).dictionary_encode(),
    }
)


def test_types_that_browsers_do_not_know_are_shown_as_text() -> None:
    (first, second) = shown_table(outcome(ODD))[0].to_pylist()
    texts = {"deep": "[[1], null]", "struct": '{"a": 1, "b": [1.5]}', "map": '{"k": 1}', "bytes": '"ff00"'}
    numbers = {"price": 1.5, "huge": str(2**100), "time": "01:02:00", "day": datetime.date(2026, 1, 2)}
    assert first == {"list": ["a b", None], "kind": "x"} | texts | numbers
    assert set(second.values()) == {None}


def test_files_of_a_table() -> None:
    rows = pyarrow.csv.read_csv(io.BytesIO(csv_of(ODD))).to_pylist()
    assert (rows[0]["list"], rows[0]["deep"], rows[0]["bytes"]) == ("a b ?", "[[1], null]", "ff00")
    assert pq.read_table(io.BytesIO(parquet_of(ODD))).equals(ODD)


FORMULAS = ["=1+1", "+1+1", "-2+3+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "\x00=1", "\uff1d1+1", "-a", "- 1"]
NUMBERS = ["-1.5", "+2", "1e-9", "-1,234.5", "-3.5 %", "-1.0 2 -3", "C", "a=b", "", None]


def computed(text: str) -> bool:
    """Whether a spreadsheet takes a cell for a formula: by its first character, unless it is a number."""
    try:
        float(text.replace(",", "").removesuffix("%").split(" ")[0])
    except ValueError:
        return text[:1] in tuple("=+-@\t\r\n\x00\uff1d\uff0b\uff0d\uff20")
    return False


@pytest.mark.parametrize("kind", ["string", "large", "view", "dictionary"])
def test_no_cell_of_a_file_is_a_formula_and_numbers_stay_numbers(kind: str) -> None:
    texts = FORMULAS + NUMBERS
    plain = pa.array(texts, pa.string())
    columns = {"string": plain, "large": plain.cast(pa.large_string()), "view": plain.cast(pa.string_view())}
    columns["dictionary"] = plain.dictionary_encode()
    table = pa.table({"=name": columns[kind], "+n": [-1.5] * len(texts), "list": [[text] for text in texts]})
    rows = [[row["=name"], row["+n"]] for row in table.to_pylist()]
    for file in (csv_of(table).decode(), csv_text(["=name", "+n"], rows)):
        head, *read = csv.reader(io.StringIO(file, newline=""))
        assert head[:2] == ["'=name", "'+n"]
        assert [cell for row in read for cell in row if computed(cell)] == []
        assert [row[0] for row in read] == ["'" + text.replace("\r", "\n") for text in FORMULAS] + [
            text or "" for text in NUMBERS
        ]
        assert {row[1] for row in read} == {"-1.5"}
    assert pandas.read_csv(io.BytesIO(csv_of(table)))["'+n"].tolist() == [-1.5] * len(texts)


def test_the_schema_says_what_every_column_is() -> None:
    tables = {one["name"]: one["columns"] for one in schema(RUN_NAMES)}
    assert {"runs", "samples", "blocks", "steps", "compared runs"} <= tables.keys()
    assert ["run_id", "text", "names the run; its folder is run_id=<run_id>"] in tables["runs"]
    assert ["kinds", "list of texts", "what is right or wrong with it; exact where nothing is wrong"] in tables[
        "blocks"
    ]
    assert all(what for columns in tables.values() for _, _, what in columns)
    assert [name for name, *_ in tables["compared runs"]] == ["$control", "$tests", "$runs"]


# --- a console's session ----------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return with_demo(tmp_path / "store", EXACT)


@pytest.fixture
def session() -> Iterator[SqlSession]:
    opened = SqlSession(Limits(seconds=WAIT_S))
    yield opened
    opened.close()
    assert not processes_of()


def ended(running: RunningStatement) -> SqlOutcome:
    assert running.done.wait(WAIT_S) and running.outcome is not None
    return running.outcome


def test_statements_use_one_process_until_the_runs_change(session: SqlSession, store: Store, tmp_path: Path) -> None:
    count = SqlStatement("SELECT count(*) AS n FROM runs")

    def counted() -> tuple[int, set[int]]:
        answer = ended(session.start(store, count)).answer
        assert answer is not None
        return answer.table["n"][0].as_py(), processes_of()

    first, again = counted(), counted()
    assert first[0] == 1 and first == again and len(first[1]) == 1
    with_demo(tmp_path / "store", WITH_JUNK)
    more, processes = counted()
    assert more == 2 and len(processes) == 1 and processes != first[1]
    store.annotate(EXACT, label="another name")
    assert counted()[1] != processes


def test_a_statement_is_stopped_and_the_next_one_runs(session: SqlSession, store: Store) -> None:
    long = session.start(store, SqlStatement(LONG))
    queued = session.start(store, SqlStatement("SELECT 1"))
    assert not long.done.is_set()
    long.stop()
    assert str(ended(long).error) == "the statement was stopped"
    assert ended(queued).answer is not None
    assert ended(session.start(store, SqlStatement("SELECT 2"))).answer is not None


def test_a_statement_can_be_stopped_before_its_turn(session: SqlSession, store: Store) -> None:
    long, queued = session.start(store, SqlStatement(LONG)), session.start(store, SqlStatement("SELECT 1"))
    queued.stop()
    long.stop()
    assert {str(ended(one).error) for one in (long, queued)} == {"the statement was stopped"}


def test_closing_ends_what_runs_and_leaves_no_process(session: SqlSession, store: Store) -> None:
    long = session.start(store, SqlStatement(LONG))
    while not processes_of():
        assert not long.done.wait(0.05)
    session.close()
    assert re.search("stopped|closed", str(ended(long).error))
    assert "closed" in str(ended(session.start(store, SqlStatement("SELECT 1"))).error)


def test_a_damaged_file_is_left_out_and_named(session: SqlSession, store: Store, tmp_path: Path) -> None:
    with_demo(tmp_path / "store", WITH_JUNK)
    (damaged,) = (tmp_path / "store").glob(f"*/run_id={EXACT}/samples*")
    damaged.write_bytes(bytes(damaged.stat().st_size))
    for _ in range(2):
        found = ended(session.start(store, SqlStatement("SELECT DISTINCT run_id FROM samples")))
        assert found.answer is not None and found.answer.table["run_id"].to_pylist() == [WITH_JUNK]
        assert found.left_out == (EXACT,) and len(processes_of()) == 1


def test_errors_are_outcomes(session: SqlSession, store: Store, tmp_path: Path) -> None:
    assert "syntax error" in str(ended(session.start(store, SqlStatement("SELEC 1"))).error)
    assert "only a SELECT" in str(ended(session.start(store, SqlStatement("COPY runs TO 'x'"))).error)
    found = ended(session.start(store, SqlStatement("SELECT run_id FROM runs")))
    assert found.origins == {EXACT: "measured"} and found.with_samples == frozenset({EXACT})
