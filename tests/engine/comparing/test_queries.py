"""Saved views: each runs in the users' console, and has the figures of the report that it stands beside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.comparing.queries import (
    FILE,
    MOST_NAME,
    MOST_SQL,
    Query,
    delete_query,
    own_queries,
    read_query,
    ready_queries,
    save_query,
)
from engine.errors import FileFormatError, StoreError
from engine.evidence.claims import load_claims
from engine.store.console import Console
from engine.store.files import Files
from engine.store.store import Store
from tests.engine.inspection.made import DEMO_STORE, sample_row, write_run
from tests.engine.store.stored_runs import store_at

READY = {query.key: query for query in ready_queries()}


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    with DEMO_STORE.console() as one:
        yield one


def rows(console: Console, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = console.query(READY[name].sql).table.to_pylist()
    return found


def reported(console: Console, name: str, report: str, samples: int) -> list[dict[str, Any]]:
    found = rows(console, name)
    return [row for row in found if row["report"] == report and row["samples"] == samples]


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


def test_table_1_1(console: Console) -> None:
    found = reported(console, "report-002-1.1", "002", 1_000)
    told = [(row["model_family"], row["lp"] != "none", row["wall_s"], row["pass_percent"]) for row in found]
    assert told == [
        ("Qwen", True, 500.82, pytest.approx(99.6)),
        ("Qwen", False, 446.28, pytest.approx(99.4)),
        ("LLaMA", True, 140.45, pytest.approx(99.8)),
        ("LLaMA", False, 455.16, pytest.approx(18.9)),
    ]
    assert [(round(row["speedup"], 2), row["effect"]) for row in found] == [
        *((0.89, "slower"), (1.0, "baseline"), (3.24, "faster"), (1.0, "baseline")),
    ]


SIDE_BY_SIDE: dict[str, dict[str, tuple[float, float, float]]] = {
    "report-002-1.2": {
        "total time (s)": (115.46, 32.87, 3.51),
        "throughput (characters/s)": (422.787, 1480.499, 3.5),
        "characters, raw": (48_815, 48_664, 1.0),
        "characters, clean": (48_815, 48_664, 1.0),
        "pass rate (%)": (100, 100, 1.0),
        "time a sample (s)": (1.804, 0.514, 3.51),
    },
    "report-002-1.3": {
        "tokens": (38_195, 28_536, 1.34),
        "time a token (ms)": (3.023, 1.152, 2.62),
        "tokens a second": (330.807, 868.147, 2.62),  # the report has 2.63
        "total time (s)": (115.46, 32.87, 3.51),
    },
    "report-003-summary": {
        "profile duration (s)": (57.2, 17.7, 3.23),
        "kernel launches": (2_912_920, 961_645, 3.03),
        "attention calls": (48_440, 20_672, 2.34),
        "generated tokens, by layers": (2_018, 861, 2.34),
        "memory copies": (139_272, 59_440, 2.34),
        "concatenations": (193_760, 81_000, 2.39),
        "blocks with junk (%)": (11.1, 1.1, 10.09),  # the report has 10
        "wall time (s)": (115.5, 32.9, 3.51),
    },
}


@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_tables_of_qwen_beside_llama(console: Console, name: str) -> None:
    found = reported(console, name, name[7:10], 64)
    sides = {row["metric"]: (row["qwen"], row["llama"], row["ratio"]) for row in found if row["lp"] != "none"}
    assert {metric: (round(a, 3), round(b, 3), round(c, 2)) for metric, (a, b, c) in sides.items()} == SIDE_BY_SIDE[
        name
    ]


def test_table_3_2(console: Console) -> None:
    found = [row for row in rows(console, "report-002-3.2") if row["origin"] == "reported"]
    counts = [(row["report"], row["model_family"], row["blocks"], row["junk_letters"]) for row in found]
    assert set(counts) == {("002", "Qwen", 1_619, 61), ("002", "LLaMA", 1_619, 12), ("000", "Qwen", 1_619, None)}
    percents = {row["report"] + row["model_family"]: row["junk_letters_percent"] for row in found}
    assert [round(percents[name], 1) for name in ("002Qwen", "002LLaMA")] == [3.8, 0.7]
    (other,) = (row for row in found if row["report"] == "000")
    assert (other["junk_nonnumeric"], round(other["junk_nonnumeric_percent"], 1)) == (180, 11.1)
    assert other["junk_letters_percent"] is None  # not said, and not nought


@pytest.mark.parametrize(
    ("section", "seconds", "percents"),
    # The report has 75 for the first: of 115 s, which its parts add up to, not of the run's 115.46 s.
    [("6.1", [86, 15, 7, 5, 2], [74, 13, 6, 4, 2]), ("6.2", [26, 4, 1, 1, 1], [79, 12, 3, 3, 3])],
)
def test_tables_6(console: Console, section: str, seconds: list[float], percents: list[float]) -> None:
    found = rows(console, f"report-002-{section}")
    told = [row for row in found if row["report"] == "002"]
    assert [row["component"] for row in told] == [
        *("forward passes", "masks and states of the LP", "junk tokens", "templates", "not counted elsewhere"),
    ]
    assert [row["seconds"] for row in told] == seconds and [round(row["percent"]) for row in told] == percents
    assert {row["kind"] for row in told} == {"estimate"}
    counted = [row for row in found if row["origin"] == "measured"]
    assert {row["kind"] for row in counted} == {"counted"} and "junk tokens" not in {
        row["component"] for row in counted
    }
    for run_id in {row["run_id"] for row in counted}:
        parts = [row for row in counted if row["run_id"] == run_id]
        assert sum(row["seconds"] for row in parts) == pytest.approx(parts[0]["wall_s"])


def test_the_models_of_report_004(console: Console) -> None:
    found = [tuple(row.values())[2:-1] for row in rows(console, "report-004-models")]
    assert found == [
        (1, "Qwen2.5-0.5B", "Qwen2", "0.5B", "Q4_K_M", 151_936, 20),
        (2, "Qwen2.5-0.5B", "Qwen2", "0.5B", "FP16", 151_936, 20),
        (3, "Phi-3-Mini", "Phi-3", "4K", "Q4_K_M", 32_064, 73),
        (4, "TinyLlama", "Llama", "1.1B", "Q4_K_M", 32_000, 0),
        (5, "Llama-3-8B", "Llama-3", "8B", "Q4_K_M", 128_256, 6),
        (6, "GPT-2", "GPT-2", "124M", "FP32", 50_257, 28),
    ]


def test_the_table_of_report_005(console: Console) -> None:
    found = rows(console, "report-005-result")
    told = [(row["epochs"], row["lp"], *list(row.values())[7:-1]) for row in found if row["origin"] == "reported"]
    assert told == [
        (1, "none", 66.3, 47.4, 0.62, 0.93, 1_354, 173, 23),
        (2, "none", 68.1, 49.7, 0.60, 0.91, 687, 137, 44),
        (3, "none", 68.7, 51.8, 0.60, 0.82, 709, 142, 11),
        (4, "none", 68.3, 52.4, 0.59, 0.82, 710, 119, 9),
        (2, "group-v4.3", 44.0, 28.0, 0.80, 1.16, 0, 569, 0),
    ]
    claims = {claim.id: claim.value for claim in load_claims()}
    names = ("cov-r", "cov-p", "mat-r", "mat-p", "mismatch", "failures", "no-end")
    figures = {
        f"005-{name}-{epochs if lp == 'none' else 'lp'}": value
        for epochs, lp, *of_run in told
        for name, value in zip(names, of_run, strict=True)
    }
    kept = {id_: value for id_, value in figures.items() if id_ in claims}
    assert kept == {id_: claims[id_] for id_ in kept} and "005-cov-r-lp" in kept


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
    found = {row["run_id"]: row["speedup"] for row in store.rows(READY["report-002-1.1"].sql)}
    assert found == {"a-none": 0.8, "b-none": 1.0, "c-lp": 4.0, "d-other": None, "e-other": None}


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_query_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "one.sql"
    path.write_text("-- title: T: u\n-- reproduces: report 001, section 2\n-- description: a\n--   b\nSELECT 1\n-- c\n")
    assert read_query(path) == Query("one", "T: u", "SELECT 1\n-- c", "a b", "report 001, section 2")


def test_every_example_is_a_question_that_the_demo_answers(console: Console) -> None:
    runs = [
        row["run_id"] for row in console.query("SELECT run_id FROM runs WHERE origin = 'measured'").table.to_pylist()
    ]
    names = {"control": runs[0], "tests": tuple(runs[1:3]), "runs": tuple(runs[:3])}
    examples = [query for query in ready_queries() if not query.reproduces]
    assert len(examples) == 10
    for example in examples:
        assert example.title.endswith("?") and console.query(example.sql, names).table.num_rows > 1, example.key


# --- a user's own -----------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "store")


def test_save_replace_delete(files: Files) -> None:
    assert own_queries(files) == []
    assert save_query(files, " b ", "SELECT 'é\n'") == Query("own:b", "b", "SELECT 'é\n'")
    for sql in ("SELECT 1", "SELECT 2"):
        save_query(files, "A", sql)
    assert [(query.title, query.sql) for query in own_queries(files)] == [("A", "SELECT 2"), ("b", "SELECT 'é\n'")]
    delete_query(files, "A")
    assert [query.key for query in own_queries(files)] == ["own:b"]
    assert json.loads(files.read(FILE)) == {"version": 1, "queries": [{"name": "b", "sql": "SELECT 'é\n'"}]}
    assert files.read(FILE).startswith(b'{\n "version"')


@pytest.mark.parametrize(
    ("name", "sql", "said"),
    [
        ("x" * (MOST_NAME + 1), "SELECT 1", f"Give 1 to {MOST_NAME} visible"),
        ("a\u202eb", "SELECT 1", "is no name"),
        ("a", "x" * (MOST_SQL + 1), f"Write 1 to {MOST_SQL:,}"),
        ("a", "SELECT '\ud800'", "cannot be kept"),
    ],
)
def test_what_cannot_be_kept(files: Files, name: str, sql: str, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        save_query(files, name, sql)
    assert own_queries(files) == []


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
    files.write(FILE, content)
    for act in (lambda: own_queries(files), lambda: save_query(files, "a", "SELECT 1")):
        with pytest.raises(FileFormatError, match=r"queries.json' holds no saved queries \(.+\). Correct it"):
            act()
    assert files.read(FILE) == content
