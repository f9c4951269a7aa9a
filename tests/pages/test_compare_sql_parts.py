"""The SQL section's parts that need no page: names for runs, marks, charts, links, files, and the console's desk."""

from __future__ import annotations

import datetime
import decimal
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from engine.errors import SqlError
from engine.store.guard import Answer, Limits
from engine.store.store import Store
from pages._shared.compare.sql_figure import Look, figure, question, sentence, spearman, spearman_interval
from pages._shared.compare.sql_fill import Filled, Mark, filled, in_written_places, mark_of
from pages._shared.compare.sql_plot import Plot, across, default_plot, groups, suited
from pages._shared.compare.sql_result import INSPECTOR, shown_table
from pages._shared.compare.sql_work import Asked, Desk, Outcome
from pages._shared.components.sql_editor import schema
from pages._shared.table_files import csv_of, parquet_of
from pages._shared.theme import LIGHT
from tests.pages.drift_stores import EXACT, WITH_JUNK, with_demo
from tests.pages.sql_processes import processes_of

LONG = "SELECT sum(range % 7) FROM range(1000000000000)"  # takes time alone
WAIT_S = 60.0


# --- names for runs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "run"),
    [
        ("SELECT $control", "SELECT 'a'"),
        ("x IN $tests OR y IN $runs", "x IN ['b', 'c']::VARCHAR[] OR y IN ['a', 'b', 'c']::VARCHAR[]"),
        ("SELECT '$control', \"$control\", 'it''s $control'", None),
        ("SELECT 1 -- $control\n/* $tests\n */", None),
        ("SELECT $$ $control $$, $x$ $$ $control $x$, E'\\'$control'", None),
        ("SELECT '$control", None),
        ("SELECT 1 /* $control", None),
        ("SELECT $controls, $1", None),
        ("SELECT 'e'||$control", "SELECT 'e'||'a'"),
    ],
)
def test_names_stand_for_runs_outside_of_texts(sql: str, run: str | None) -> None:
    assert filled(sql, ("a", "b", "c")).run == (run or sql)


def test_names_without_runs() -> None:
    with pytest.raises(SqlError, match=r"\$control stands for no run"):
        filled("SELECT $control", ())
    assert filled("x IN $tests", ("a",)).run == "x IN []::VARCHAR[]"
    assert filled("SELECT 1", ()).run == "SELECT 1"
    with pytest.raises(SqlError, match="is no run_id"):
        filled("SELECT $control", ("a' OR 1=1 --",))


def test_a_long_statement_is_looked_through_once() -> None:
    """Quadratic in the openings that nothing closes, this would take minutes."""
    for opening in ("/* ", "$a$ ", "'", '"', "E'\\"):
        text = opening * 30_000
        assert filled(text, ("a",)).run == text
    tags = "".join(f"$t{number}$ " for number in range(20_000))
    assert filled(tags, ("a",)).run == tags


@pytest.mark.parametrize(
    ("sql", "what", "marked"),
    [
        ("SELECT 1,\n  2 3", "syntax error at or near \"3\", line 2 column 5, at '3'", "3"),
        ("SELECT $control, x y z", "syntax error at or near \"z\", line 1 column 17, at 'z'", "z"),
        ("SELECT $control $runs", "syntax error, line 1 column 12, at '['", "$runs"),
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
    statement = filled(sql, ("a", "b"))
    mark = mark_of(SqlError(what), statement)
    assert (None if mark is None else sql[mark.start : mark.end]) == marked


def test_a_column_is_told_as_it_was_written() -> None:
    statement = filled("SELECT\n $control, x y z", ("a-long-name-of-a-run",))
    column = statement.run.split("\n")[1].index("z") + 1
    error = in_written_places(SqlError(f"syntax error, line 2 column {column}, at 'z'", "Mend it"), statement)
    assert str(error) == "syntax error, line 2 column 16, at 'z'. Mend it"
    assert statement.written.split("\n")[1][15] == "z"
    assert mark_of(SqlError(f"syntax error, line 2 column {column}, at 'z'"), statement) == Mark(22, 23)


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
    drawn = figure(rows, plot, Look(LIGHT)).to_json()
    assert "<a href" not in drawn and "\\u003ca href" not in drawn
    assert "reported" in sentence(rows, plot, Look(LIGHT))
    if kind != "histogram":
        assert "reported" in drawn if kind == "bar" else "circle-open" in drawn
    assert question(plot).endswith("?")


def test_rows_of_one_name_are_bars_of_their_own() -> None:
    (bars,) = figure(table(a=["x", "x", "y"], n=[1, 2, 3]), Plot("bar", "a", "n"), Look(LIGHT)).data
    assert list(bars.x) == ["x", "x (2)", "y"] and list(bars.y) == [1, 2, 3]


def test_the_sentence_says_what_the_rows_say() -> None:
    look = Look(LIGHT)
    said = sentence(table(a=["x", "y", "z"], n=[3, 1, None]), Plot("bar", "a", "n"), look)
    assert said.startswith("Of 2 rows, highest: n is 3 at x; lowest: n is 1 at y.")
    assert "median 2, middle half 1.5 to 2.5 (3 rows)" in sentence(table(n=[1, 2, 3]), Plot("histogram", "n"), look)
    rising = table(a=MANY, b=[one * one for one in MANY])
    assert "rise together: Spearman's ρ 1.00" in sentence(rising, Plot("scatter", "a", "b"), look)
    assert "too few" in sentence(table(a=[1, 2], b=[1, 2]), Plot("scatter", "a", "b"), look)
    assert "No row has a n." in sentence(table(a=["x"], n=pa.array([None], pa.int64())), Plot("bar", "a", "n"), look)


def test_rank_correlation_against_known_answers() -> None:
    xs = pa.array([106.0, 100, 86, 101, 99, 103, 97, 113, 112, 110]).to_numpy()
    ys = pa.array([7.0, 27, 2, 50, 28, 29, 20, 12, 6, 17]).to_numpy()
    assert spearman(xs, ys) == pytest.approx(-29 / 165)  # the textbook's own example
    assert spearman(xs[:4] * 0, ys[:4]) != spearman(xs[:4] * 0, ys[:4])  # no rank to go by
    low, high = spearman_interval(0.5, 103)
    assert [low, high] == pytest.approx([0.3287, 0.6395], abs=1e-4)


# --- tables and files ---------------------------------------------------------------------------------------------


def outcome(rows: pa.Table, **origins: str) -> Outcome:
    return Outcome(Filled("", "", ()), Answer(rows, False, 0.0), None, origins, frozenset(origins))


def test_links_are_made_for_runs_of_the_store_alone() -> None:
    rows = table(run_id=["a", "b", None], sample_id=[0, None, 2], other=["a", "javascript:alert(1)", "b"])
    shown = shown_table(outcome(rows, a="measured", b="reported"))
    assert shown.table["run_id"].to_pylist() == ["compare?control=a", "compare?control=b", None]
    assert shown.table[INSPECTOR].to_pylist() == ["drift?run=a&sample=0", None, None]
    assert shown.table["other"].to_pylist() == rows["other"].to_pylist() and "other" not in shown.columns
    assert not shown_table(outcome(rows, a="measured")).columns  # one run is not of this store


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
    (first, second) = shown_table(outcome(ODD)).table.to_pylist()
    texts = {"deep": "[[1], null]", "struct": '{"a": 1, "b": [1.5]}', "map": '{"k": 1}', "bytes": '"ff00"'}
    numbers = {"price": 1.5, "huge": str(2**100), "time": "01:02:00", "day": datetime.date(2026, 1, 2)}
    assert first == {"list": ["a b", None], "kind": "x"} | texts | numbers
    assert set(second.values()) == {None}


def test_files_of_a_table() -> None:
    rows = pyarrow.csv.read_csv(io.BytesIO(csv_of(ODD))).to_pylist()
    assert (rows[0]["list"], rows[0]["deep"], rows[0]["bytes"]) == ("a b ?", "[[1], null]", "ff00")
    assert pq.read_table(io.BytesIO(parquet_of(ODD))).equals(ODD)


def test_the_schema_says_what_every_column_is() -> None:
    tables = {one["name"]: one["columns"] for one in schema()}
    assert {"runs", "samples", "blocks", "steps", "compared runs"} <= tables.keys()
    assert ["run_id", "text", "names the run; its folder is run_id=<run_id>"] in tables["runs"]
    assert ["kinds", "list of texts", "what is right or wrong with it; exact where nothing is wrong"] in tables[
        "blocks"
    ]
    assert all(what for columns in tables.values() for _, _, what in columns)
    assert [name for name, *_ in tables["compared runs"]] == ["$control", "$tests", "$runs"]


# --- the console's desk -------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return with_demo(tmp_path / "store", EXACT)


@pytest.fixture
def desk() -> Iterator[Desk]:
    opened = Desk(Limits(seconds=WAIT_S))
    yield opened
    opened.close()
    assert not processes_of()


def ended(asked: Asked) -> Outcome:
    assert asked.done.wait(WAIT_S) and asked.outcome is not None
    return asked.outcome


def test_statements_use_one_process_until_the_runs_change(desk: Desk, store: Store, tmp_path: Path) -> None:
    count = filled("SELECT count(*) AS n FROM runs", ())

    def counted() -> tuple[int, set[int]]:
        answer = ended(desk.ask(store, count)).answer
        assert answer is not None
        return answer.table["n"][0].as_py(), processes_of()

    first, again = counted(), counted()
    assert first[0] == 1 and first == again and len(first[1]) == 1
    with_demo(tmp_path / "store", WITH_JUNK)
    more, processes = counted()
    assert more == 2 and len(processes) == 1 and processes != first[1]
    store.say(EXACT, label="another name")
    assert counted()[1] != processes


def test_a_statement_is_stopped_and_the_next_one_runs(desk: Desk, store: Store) -> None:
    long = desk.ask(store, filled(LONG, ()))
    queued = desk.ask(store, filled("SELECT 1", ()))
    assert not long.done.is_set()
    long.stop()
    assert str(ended(long).error) == "the statement was stopped"
    assert ended(queued).answer is not None
    assert ended(desk.ask(store, filled("SELECT 2", ()))).answer is not None


def test_a_statement_can_be_stopped_before_its_turn(desk: Desk, store: Store) -> None:
    long, queued = desk.ask(store, filled(LONG, ())), desk.ask(store, filled("SELECT 1", ()))
    queued.stop()
    long.stop()
    assert {str(ended(one).error) for one in (long, queued)} == {"the statement was stopped"}


def test_closing_ends_what_runs_and_leaves_no_process(desk: Desk, store: Store) -> None:
    long = desk.ask(store, filled(LONG, ()))
    while not processes_of():
        assert not long.done.wait(0.05)
    desk.close()
    assert re.search("stopped|closed", str(ended(long).error))
    assert "closed" in str(ended(desk.ask(store, filled("SELECT 1", ()))).error)


def test_a_damaged_file_is_left_out_and_named(desk: Desk, store: Store, tmp_path: Path) -> None:
    with_demo(tmp_path / "store", WITH_JUNK)
    (damaged,) = (tmp_path / "store").glob(f"*/run_id={EXACT}/samples*")
    damaged.write_bytes(bytes(damaged.stat().st_size))
    for _ in range(2):
        found = ended(desk.ask(store, filled("SELECT DISTINCT run_id FROM samples", ())))
        assert found.answer is not None and found.answer.table["run_id"].to_pylist() == [WITH_JUNK]
        assert found.without == (EXACT,) and len(processes_of()) == 1


def test_errors_are_outcomes(desk: Desk, store: Store, tmp_path: Path) -> None:
    assert "syntax error" in str(ended(desk.ask(store, filled("SELEC 1", ()))).error)
    assert "only a SELECT" in str(ended(desk.ask(store, filled("COPY runs TO 'x'", ()))).error)
    found = ended(desk.ask(store, filled("SELECT run_id FROM runs", ())))
    assert found.origins == {EXACT: "measured"} and found.with_samples == frozenset({EXACT})
