"""Saved views: each runs in the users' console, and has the figures of the report that it stands beside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from engine.comparing import queries
from engine.errors import FileError, StoreError
from engine.store.console import Console
from engine.store.files import Files
from engine.store.store import Store
from tests.engine.inspection.made import DEMO_STORE, sample_row, write_run
from tests.engine.store.stored_runs import store_at

READY = {query.key: query for query in queries.ready_queries()}


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    with DEMO_STORE.console() as opened:
        yield opened


def rows(console: Console, name: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = console.query(READY[name].sql).table.to_pylist()
    return result


# --- all of them ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", [name for name, query in READY.items() if query.reproduces and "JOIN traces" not in query.sql]
)
def test_the_reports_own_table_comes_first_with_its_columns(console: Console, store: Store, name: str) -> None:
    table = console.query(READY[name].sql).table
    assert {"origin", "report"} <= set(table.column_names)
    reports = table["report"].to_pylist()
    own = reports.count(READY[name].reproduces.removeprefix("report ")[:3])
    assert own > 0 and len(set(reports[:own])) == 1
    origins = table["origin"].to_pylist()
    assert [report is None for report in reports] == [origin == "measured" for origin in origins]
    assert store.rows(READY[name].sql) == []


# --- against the reports ----------------------------------------------------------------------------------------------
OF_005 = "epochs lp cov_r_percent cov_p_percent mat_r_ang mat_p_ang mismatches parse_failures no_end"
# By view: how many samples the runs have, columns, and what they hold of the report's own runs, to two decimals.
REPORTED: dict[str, tuple[int | None, str, list[tuple[Any, ...]]]] = {
    "report-002-1.1": (1_000, "model_family lp wall_s pass_percent speedup effect", [
        ("Qwen", "group-v3.8", 500.82, 99.6, 0.89, "slower"), ("Qwen", "none", 446.28, 99.4, 1, "baseline"),
        ("LLaMA", "group-v2.1", 140.45, 99.8, 3.24, "faster"), ("LLaMA", "none", 455.16, 18.9, 1, "baseline"),
    ]),
    "report-002-1.2": (64, "metric qwen llama ratio", [
        ("total time (s)", 115.46, 32.87, 3.51), ("throughput (characters/s)", 422.79, 1480.5, 3.5),
        ("characters, raw", 48_815, 48_664, 1), ("characters, clean", 48_815, 48_664, 1),
        ("pass rate (%)", 100, 100, 1), ("time a sample (s)", 1.8, 0.51, 3.51),
    ]),
    "report-002-1.3": (64, "metric qwen llama ratio", [
        ("tokens", 38_195, 28_536, 1.34), ("time a token (ms)", 3.02, 1.15, 2.62),
        ("tokens a second", 330.81, 868.15, 2.62), ("total time (s)", 115.46, 32.87, 3.51),  # the report has 2.63
    ]),
    "report-003-summary": (64, "metric qwen llama ratio", [
        ("profile duration (s)", 57.2, 17.7, 3.23), ("kernel launches", 2_912_920, 961_645, 3.03),
        ("attention calls", 48_440, 20_672, 2.34), ("generated tokens, by layers", 2_018, 861, 2.34),
        ("memory copies", 139_272, 59_440, 2.34), ("concatenations", 193_760, 81_000, 2.39),
        ("blocks with junk (%)", 11.1, 1.1, 10.09), ("wall time (s)", 115.5, 32.9, 3.51),  # the report has 10
    ]),
    "report-002-3.2": (None, "model_family blocks junk_letters junk_letters_percent junk_nonnumeric", [
        ("Qwen", 1_619, 61, 3.77, None), ("LLaMA", 1_619, 12, 0.74, None),
    ]),
    # The report has 75 for the first: of 115 s, which its parts add up to, not of the run's 115.46 s.
    "report-002-6.1": (64, "component seconds percent", [
        ("forward passes", 86, 74.48), ("masks and states of the LP", 15, 12.99), ("junk tokens", 7, 6.06),
        ("templates", 5, 4.33), ("not counted elsewhere", 2, 1.73),
    ]),
    "report-002-6.2": (64, "component seconds percent", [
        ("forward passes", 26, 79.1), ("masks and states of the LP", 4, 12.17), ("junk tokens", 1, 3.04),
        ("templates", 1, 3.04), ("not counted elsewhere", 1, 3.04),
    ]),
    "report-005-result": (None, OF_005, [
        (1, "none", 66.3, 47.4, 0.62, 0.93, 1_354, 173, 23), (2, "none", 68.1, 49.7, 0.6, 0.91, 687, 137, 44),
        (3, "none", 68.7, 51.8, 0.6, 0.82, 709, 142, 11), (4, "none", 68.3, 52.4, 0.59, 0.82, 710, 119, 9),
        (2, "group-v4.3", 44, 28, 0.8, 1.16, 0, 569, 0),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTED)
def test_the_tables_of_the_reports(console: Console, name: str) -> None:
    samples, columns, expected = REPORTED[name]
    chosen = [row for row in rows(console, name) if (row["report"], row.get("samples")) == (name[7:10], samples)]
    cells = [tuple(row[column] for column in columns.split()) for row in chosen]
    assert [tuple(round(value, 2) if isinstance(value, float) else value for value in row) for row in cells] == expected


@pytest.mark.parametrize("name", ["report-002-6.1", "report-002-6.2"])
def test_parts_of_a_measured_run_add_up(console: Console, name: str) -> None:
    counted = [row for row in rows(console, name) if row["origin"] == "measured"]
    for run_id in {row["run_id"] for row in counted}:
        if DEMO_STORE.entry(run_id).row["backend"] == "server":  # which tells no parts
            continue
        parts = [row for row in counted if row["run_id"] == run_id]
        assert sum(row["seconds"] for row in parts) == pytest.approx(parts[0]["wall_s"])


def test_what_the_table_of_report_005_counts_in_measured_runs(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    states: list[dict[str, Any]] = [
        {"parsed": True, "same_graph": True, "stop_reason": "end"},
        {"parsed": True, "same_graph": False, "stop_reason": "end"},
        {"parsed": False, "same_graph": False, "stop_reason": "length"},
    ]
    write_run(store, "measured-one", [sample_row(number, **state) for number, state in enumerate(states)])
    (row,) = store.rows(READY["report-005-result"].sql)
    assert (row["mismatches"], row["parse_failures"], row["no_end"], row["cov_r_percent"]) == (1, 1, 1, None)


def test_a_baseline_is_of_the_same_model_and_size(tmp_path: Path) -> None:
    store: Store = store_at(tmp_path)
    runs: dict[str, dict[str, Any]] = {
        "a-none": {"lp": "none", "wall_s": 10.0},
        "b-none": {"lp": "none", "wall_s": 8.0},
        "c-lp": {"lp": "exact", "wall_s": 2.0},
        "d-other": {"lp": "exact", "wall_s": 2.0, "model_alias": "other"},
        "e-other": {"lp": "exact", "wall_s": 2.0, "batch_size": 7},
    }
    for run_id, about in runs.items():
        write_run(store, run_id, [sample_row(0)], **about)
    speedups = {row["run_id"]: row["speedup"] for row in store.rows(READY["report-002-1.1"].sql)}
    assert speedups == {"a-none": 0.8, "b-none": 1.0, "c-lp": 4.0, "d-other": None, "e-other": None}


# --- files ------------------------------------------------------------------------------------------------------------
def test_a_query_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "one.sql"
    path.write_text("-- title: T: u\n-- reproduces: report 001, section 2\n-- description: a\n--   b\nSELECT 1\n-- c\n")
    assert queries.read_query(path) == queries.Query("one", "T: u", "SELECT 1\n-- c", "a b", "report 001, section 2")


def test_every_example_is_a_question_that_the_demo_answers(console: Console) -> None:
    runs = [
        row["run_id"] for row in console.query("SELECT run_id FROM runs WHERE origin = 'measured'").table.to_pylist()
    ]
    names = {"control": runs[0], "tests": tuple(runs[1:3]), "runs": tuple(runs[:3])}
    examples = [query for query in queries.ready_queries() if not query.reproduces]
    assert len(examples) == 11
    for example in examples:
        assert example.title.endswith("?") and console.query(example.sql, names).table.num_rows > 1, example.key


# --- a user's own -----------------------------------------------------------------------------------------------------
@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "store")


def test_save_replace_delete(files: Files) -> None:
    assert queries.own_queries(files) == []
    assert queries.save_query(files, " b ", "SELECT 'é\n'") == queries.Query("own:b", "b", "SELECT 'é\n'")
    for sql in ("SELECT 1", "SELECT 2"):
        queries.save_query(files, "A", sql)
    assert [(query.title, query.sql) for query in queries.own_queries(files)] == [
        ("A", "SELECT 2"),
        ("b", "SELECT 'é\n'"),
    ]
    queries.delete_query(files, "A")
    assert [query.key for query in queries.own_queries(files)] == ["own:b"]
    assert json.loads(files.read(queries.FILE)) == {"version": 1, "queries": [{"name": "b", "sql": "SELECT 'é\n'"}]}
    assert files.read(queries.FILE).startswith(b'{\n "version"')


def save_some(place: str, writer: int) -> None:
    for number in range(10):
        queries.save_query(Files(Path(place)), f"{writer}, {number}", "SELECT 1")


def test_what_several_processes_save_is_all_there(files: Files) -> None:
    """The bug: 26 of 40 were lost, each written by a process that had read the file before."""
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        list(pool.map(save_some, [files.where] * 4, range(4)))
    assert len(queries.own_queries(files)) == 40


@pytest.mark.parametrize(
    ("name", "sql", "said"),
    [
        ("x" * (queries.MOST_NAME + 1), "SELECT 1", f"Give 1 to {queries.MOST_NAME} visible"),
        ("a\u202eb", "SELECT 1", "is no name"),
        ("a", "x" * (queries.MOST_SQL + 1), f"Write 1 to {queries.MOST_SQL:,}"),
        ("a", "SELECT '\ud800'", "cannot be kept"),
    ],
)
def test_what_cannot_be_kept(files: Files, name: str, sql: str, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        queries.save_query(files, name, sql)
    assert queries.own_queries(files) == []


@pytest.mark.parametrize(
    "content",
    [
        b'{"version": 1}',
        b'{"version": 2, "queries": []}',
        b'{"version": 1, "queries": [{"name": 3, "sql": "SELECT 1"}]}',
        b'{"version": 1, "queries": [{"name": "a", "sql": "\\ud800"}]}',
    ],
)
def test_a_damaged_file_is_named_and_left_alone(files: Files, content: bytes) -> None:
    files.write(queries.FILE, content)
    for act in (lambda: queries.own_queries(files), lambda: queries.save_query(files, "a", "SELECT 1")):
        with pytest.raises(FileError, match=r"queries.json' holds no saved queries \(.+\). Correct it"):
            act()
    assert files.read(queries.FILE) == content
