"""Tables that somebody made of a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import FileFormatError
from engine.profile import tables
from engine.profile.families import VARIABLE
from engine.profile.ingest import add_trace
from engine.profile.tables import looks_like_a_table
from engine.store.files import Files
from engine.store.store import Store

LINES = [
    ["cudaLaunchKernel", "2,912,920", "13545.078", "0.00465"],
    ["fmha_cutlassF_f32", "48440", "3545.8", "0.0732"],
    ["Memcpy HtoD (Pageable -> Device)", "3", "0.5", "0.16667"],
    ["mystery_kernel", "1", "1", "1"],
]
HEAD = ["name", "count", "total_ms", "avg_ms"]


def written(tmp_path: Path, lines: list[list[str]], mark: str = "\t") -> Path:
    path = tmp_path / "table.tsv"
    cells = [[f'"{cell}"' if mark in cell else cell for cell in line] for line in lines]
    path.write_text("\n".join(mark.join(line) for line in cells) + "\n\n")
    return path


@pytest.mark.parametrize("mark", ["\t", ","])
@pytest.mark.parametrize("head", [[HEAD], [["Name", "Calls", "Total (ms)", "Avg (ms)"]], []])
def test_a_table_becomes_a_trace_that_says_so(tmp_path: Path, mark: str, head: list[list[str]]) -> None:
    path, store = written(tmp_path, [*head, *LINES], mark), Store(Files(tmp_path / "store"))
    assert looks_like_a_table(path)
    row = add_trace(store, path).row
    assert (row["form"], row["origin"], row["events"]) == ("table", "imported", 2_912_920 + 48_440 + 4)
    assert row.get("span_us") is row.get("idle_us") is row.get("is_complete") is None
    found = store.rows("SELECT side, family, name, calls, total_ns, self_us FROM trace_ops ORDER BY op")
    assert [tuple(one.values()) for one in found] == [
        ("call", "launch", "cudaLaunchKernel", 2_912_920, 13_545_078_000, None),
        ("device", "attention", "fmha_cutlassF_f32", 48_440, 3_545_800_000, None),
        ("device", "memcpy", "Memcpy HtoD (Pageable -> Device)", 3, 500_000, None),
        ("device", "other", "mystery_kernel", 1, 1_000_000, None),
    ]
    assert row["other_share"] == pytest.approx(1 / 3547.3)


def test_columns_may_stand_in_any_order(tmp_path: Path) -> None:
    path, store = written(tmp_path, [["total_ms", "name", "share", "count"], ["2.5", "k", "1", "5"]]), None
    store = Store(Files(tmp_path / "store"))
    add_trace(store, path)
    assert store.rows("SELECT name, calls, total_us FROM trace_ops") == [{"name": "k", "calls": 5, "total_us": 2500.0}]


KERNELS = [["void cutlass::Kernel2<x>(P)", "10", "20,000", "2,000"], ["fmha_cutlassF_f32", "5", "3,089", "617.8"]]
BOOKKEEPING = [
    ["PyTorch Profiler (0)", "1", "57,244", "57,244"],
    ["Activity Buffer Request", "3", "600", "200"],
    ["Runtime Triggered Module Loading", "9", "172.8", "19.2"],
    ["Lazy Function Loading", "1", "0.2", "0.2"],
    ["ProfilerStep#3", "1", "9,000", "9,000"],
    ["Stream Sync", "1", "100", "100"],
    ["torch/nn/modules/module.py(1747): _call_impl", "1", "10,000", "10,000"],
    ["cudaDeviceSynchronize", "1", "100", "100"],
]


def test_spans_and_bookkeeping_are_no_work_of_a_device(tmp_path: Path) -> None:
    """The team's table: 81,106 ms of device time with 71.5 % `other`, where its kernels take 23,089 ms."""
    store = Store(Files(tmp_path / "store"))
    row = add_trace(store, written(tmp_path, [HEAD, *KERNELS, *BOOKKEEPING])).row
    assert (row["device_us"], row["other_share"], row.get("warnings")) == (23_089_000, 0, None)
    sides = store.rows("SELECT side FROM trace_ops ORDER BY op")
    assert [one["side"] for one in sides] == ["device"] * 2 + ["mark"] * 6 + ["python", "call"]


@pytest.mark.parametrize("name", ["decode step 3", "generate", "forward_pass", "attention"])
def test_a_name_that_may_be_a_span_is_set_apart_until_a_rule_claims_it(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, path = (
        Store(Files(tmp_path / "store")),
        written(tmp_path, [HEAD, *KERNELS, [name, "1", "30,000", "30,000"]]),
    )
    row = add_trace(store, path).row
    assert row["device_us"] == 23_089_000
    assert f"1 name may be spans, not kernels, and left out of the work: '{name}' (30,000 ms)" in row["warnings"]
    own = tmp_path / "own.toml"
    own.write_text(f'[[rule]]\nside = "device"\nfamily = "mine"\npattern = "^{name[:6]}"\n')
    monkeypatch.setenv(VARIABLE, str(own))
    row = add_trace(store, path).row
    assert (row["device_us"], row.get("warnings")) == (53_089_000, None)


def test_more_work_than_the_profiler_recorded_is_told(tmp_path: Path) -> None:
    lines = [HEAD, *KERNELS, ["PyTorch Profiler (0)", "1", "20,000", "20,000"]]
    row = add_trace(Store(Files(tmp_path / "store")), written(tmp_path, lines)).row
    assert row["warnings"].startswith("the kernels' 23,089 ms are more than the profiler's own 20,000 ms")


@pytest.mark.parametrize(
    "line",
    [
        ["a", "x", "1", "1"],
        ["a", "1.5", "1", "1"],
        ["a", "1", "inf", "1"],
        ["", "1", "1", "1"],
        ["a", "-1", "1", "1"],
        ["a"],
        ["a", "1e99999999", "1", "1"],  # the bug: int() of it has a hundred million digits
        ["a", "1e30", "1", "1"],
        ["a", "1", "1e13", "1"],
        ["a", "1", "-5", "1"],
        ["a", "1", "-1e400", "1"],
        ["a", "1", "-1e999999999", "1"],
        ["a", "1", "1e999999999", "1"],
    ],
)
def test_a_line_that_does_not_read_is_named(tmp_path: Path, line: list[str]) -> None:
    with pytest.raises(FileFormatError, match="line 3"):
        add_trace(Store(Files(tmp_path / "store")), written(tmp_path, [HEAD, LINES[1], line]))


@pytest.mark.parametrize("line", [["a", "1", str(2**63 // 10**6 - 1), "1"], ["a", str(2**53), "1", "0"]])
def test_sums_that_no_store_holds_are_refused(tmp_path: Path, line: list[str]) -> None:
    with pytest.raises(FileFormatError, match="adds up to over"):
        add_trace(Store(Files(tmp_path / "store")), written(tmp_path, [HEAD, line, line]))


@pytest.mark.parametrize("line", [["gemm", "x", "1", "1"], ["gemm", "1"], ["name", "n", "ms", "avg"]])
def test_the_first_line_is_named_where_there_is_no_header(tmp_path: Path, line: list[str]) -> None:
    """The bug: such a file was called no trace."""
    with pytest.raises(FileFormatError, match=r"table\.tsv', line 1: .* is no name, count, total_ms, avg_ms"):
        add_trace(Store(Files(tmp_path / "store")), written(tmp_path, [line, *LINES]))


def test_lines_beyond_the_limit_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_LINES", 2)
    with pytest.raises(FileFormatError, match="over 2 lines"):
        tables._rows(written(tmp_path, [LINES[0]] * 3 + [["x"]]))


def test_a_head_alone_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="has no line of an operation"):
        add_trace(Store(Files(tmp_path / "store")), written(tmp_path, [HEAD]))


@pytest.mark.parametrize("text", ["", "[1,2,3,4]", '{"a":1}', "\0\0,1,1,1", "#a,1,1,1\n", "hello", "a,b,c,d\n"])
def test_other_files_are_no_trace(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.txt"
    path.write_text(text)
    with pytest.raises(FileFormatError, match="is no trace"):
        add_trace(Store(Files(tmp_path / "store")), path)
