"""Tables that somebody made of a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import FileError
from engine.profile import tables
from engine.profile.families import VARIABLE
from engine.profile.ingest import add_trace
from engine.profile.tables import looks_like_a_table
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
def test_a_table_becomes_a_trace_that_says_so(store: Store, tmp_path: Path, mark: str, head: list[list[str]]) -> None:
    path = written(tmp_path, [*head, *LINES], mark)
    assert looks_like_a_table(path)
    row = add_trace(store, path).row
    assert (row["form"], row["origin"], row["events"]) == ("table", "imported", 2_912_920 + 48_440 + 4)
    assert row.get("span_us") is row.get("idle_us") is row.get("is_complete") is None
    ops = store.rows("SELECT side, family, name, calls, total_ns, self_us FROM trace_ops ORDER BY op")
    assert [tuple(op.values()) for op in ops] == [
        ("call", "launch", "cudaLaunchKernel", 2_912_920, 13_545_078_000, None),
        ("device", "attention", "fmha_cutlassF_f32", 48_440, 3_545_800_000, None),
        ("device", "memcpy", "Memcpy HtoD (Pageable -> Device)", 3, 500_000, None),
        ("device", "other", "mystery_kernel", 1, 1_000_000, None),
    ]
    assert row["other_share"] == pytest.approx(1 / 3547.3)


COMMAS = [
    ["cudaLaunchKernel", "2.912.920", "13.545,078", "0,00465"],
    ["fmha_cutlassF_f32", "48440", "3545,8", "0,0732"],
    ["mystery_kernel", "1", "1,000", "1"],
]


@pytest.mark.parametrize(
    ("before", "lines", "mark"),
    [
        (["sep=;"], [HEAD, *COMMAS], ";"),  # as Excel saves it where a comma is decimal
        ([], COMMAS, ";"),
        ([], [HEAD, *COMMAS], "\t"),
        ([], COMMAS, ","),  # in quotes
        (["sep=,"], [HEAD, *LINES[:2], LINES[3]], ","),
        ([], [HEAD, *LINES[:2], LINES[3]], ";"),  # points are decimal here, commas are not
    ],
)
def test_semicolons_and_decimal_commas(
    store: Store, tmp_path: Path, before: list[str], lines: list[list[str]], mark: str
) -> None:
    path = written(tmp_path, [*([line] for line in before), *lines], mark)
    path.write_text(path.read_text().replace('"sep=,"', "sep=,"), encoding="utf-8-sig")
    add_trace(store, path)
    ops = store.rows("SELECT calls, total_ns FROM trace_ops ORDER BY op")
    assert [tuple(op.values()) for op in ops] == [(2_912_920, 13_545_078_000), (48_440, 3_545_800_000), (1, 1_000_000)]


def test_three_decimals_are_no_thousands(store: Store, tmp_path: Path) -> None:
    """The bug: times below a second, with semicolons between them and three decimals each, were a thousand times as
    long."""
    lines = [["k_kernel", "2", "1.250", "0.625"], ["l_kernel", "1", "12.000", "12.000"]]
    add_trace(store, written(tmp_path, lines, ";"))
    ops = store.rows("SELECT calls, total_ns FROM trace_ops ORDER BY name")
    assert [tuple(op.values()) for op in ops] == [(2, 1_250_000), (1, 12_000_000)]


@pytest.mark.parametrize("number", ["1,5,0", "1.5,", "1.50,2"])
def test_numbers_with_a_decimal_comma_that_are_none(store: Store, tmp_path: Path, number: str) -> None:
    with pytest.raises(FileError, match=r"line 2: .* is no name, count, total_ms"):
        add_trace(store, written(tmp_path, [["k_kernel", "1", "2,5", "1"], ["k_kernel", "1", number, "1"]], ";"))


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


def test_spans_and_bookkeeping_are_no_work_of_a_device(store: Store, tmp_path: Path) -> None:
    """The team's table: 81,106 ms of device time with 71.5 % `other`, where its kernels take 23,089 ms."""
    row = add_trace(store, written(tmp_path, [HEAD, *KERNELS, *BOOKKEEPING])).row
    assert (row["device_us"], row["other_share"], row.get("warnings")) == (23_089_000, 0, None)
    sides = store.rows("SELECT side FROM trace_ops ORDER BY op")
    assert [op["side"] for op in sides] == ["device"] * 2 + ["mark"] * 6 + ["python", "call"]


@pytest.mark.parametrize("name", ["decode step 3", "attention"])
def test_a_name_that_may_be_a_span_is_set_apart_until_a_rule_claims_it(
    store: Store, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, [HEAD, *KERNELS, [name, "1", "30,000", "30,000"]])
    row = add_trace(store, path).row
    assert row["device_us"] == 23_089_000
    assert f"1 name may be spans, not kernels, and left out of the work: '{name}' (30,000 ms)" in row["warnings"]
    own = tmp_path / "own.toml"
    own.write_text(f'[[rule]]\nside = "device"\nfamily = "mine"\npattern = "^{name[:6]}"\n')
    monkeypatch.setenv(VARIABLE, str(own))
    row = add_trace(store, path).row
    assert (row["device_us"], row.get("warnings")) == (53_089_000, None)


def test_more_work_than_the_profiler_recorded_is_told(store: Store, tmp_path: Path) -> None:
    lines = [HEAD, *KERNELS, ["PyTorch Profiler (0)", "1", "20,000", "20,000"]]
    row = add_trace(store, written(tmp_path, lines)).row
    assert row["warnings"].startswith("the kernels' 23,089 ms are more than the profiler's own 20,000 ms")


GOOD = "fmha_cutlassF_f32 48440 3545.8 0.0732"
HEAD_AND_GOOD = [" ".join(HEAD), GOOD]
HUGE = f"a 1 {2**63 // 10**6 - 1} 1"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        *(([*HEAD_AND_GOOD, line], "line 3") for line in ("a 1.5 1 1", "a 1 inf 1", "a -1 1 1", "a")),
        # The bug: int() of the first of these has a hundred million digits.
        *(([*HEAD_AND_GOOD, line], "line 3") for line in ("a 1e99999999 1 1", "a 1 1e13 1", "a 1 -5 1")),
        ([" ".join(HEAD), HUGE, HUGE], "adds up to over"),
        # The bug: such a file was called no trace.
        (["gemm 1", GOOD], r"table\.tsv', line 1: .* is no name, count, total_ms, avg_ms"),
        ([GOOD] * 60, "over 50 lines"),
        (['{"a":1}'], "is no trace"),
        (["#a,1,1,1"], "is no trace"),
    ],
)
def test_what_is_no_table_is_named(
    store: Store, tmp_path: Path, lines: list[str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_LINES", 50)
    with pytest.raises(FileError, match=why):
        add_trace(store, written(tmp_path, [line.split() for line in lines]))
