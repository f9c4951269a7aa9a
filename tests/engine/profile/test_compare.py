"""Two traces side by side: everything adds up, and what came, went, grew and shrank is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import StoreError
from engine.profile.compare import FamilyRow, TraceComparison, compare_traces, document
from engine.profile.ingest import TraceMetadata, add_trace
from engine.profile.stored_trace import Totals
from engine.store.files import LocalFiles
from engine.store.store import Store
from tests.engine.profile.made_traces import write_trace
from tests.engine.profile.test_ingest import event, trace_of

GEMM, FMHA, CAT = "cutlass_gemm", "fmha_x", "CatArrayBatchedCopy_x"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(LocalFiles(tmp_path / "store"))


def kernels(*named: tuple[str, float], stream: int = 7) -> list[dict[str, Any]]:
    """Kernels one after the other, each with its launch."""
    found = []
    for number, (name, dur) in enumerate(named):
        found.append(event("cuda_runtime", "cudaLaunchKernel", 100 * number, 5, correlation=number))
        found.append(event("kernel", name, 100 * number + 20, dur, correlation=number, stream=stream, device=0))
    return found


def compared(store: Store, tmp_path: Path, control: list[Any], test: list[Any], **told: Any) -> TraceComparison:
    ids = [add_trace(store, trace_of(tmp_path, events), TraceMetadata(**told)).id for events in (control, test)]
    return compare_traces(store, *ids)


def test_families_side_by_side(store: Store, tmp_path: Path) -> None:
    control = kernels((GEMM, 10), (GEMM, 10), (FMHA, 4))
    test = kernels((GEMM, 20), (GEMM, 20), (GEMM, 20), (CAT, 7))
    found = compared(store, tmp_path, control, test)
    rows = {row.family: row for row in found.families}
    assert [row.family for row in found.families] == ["gemm", "concat", "attention"]
    gemm = rows["gemm"]
    assert (gemm.control, gemm.test) == (Totals(2, 20), Totals(3, 60))
    assert (gemm.difference_us, gemm.by_calls_us, gemm.by_mean_us) == (40, 15, 25)
    assert (rows["concat"].by_calls_us, rows["concat"].by_mean_us) == (7, 0)
    assert (rows["attention"].by_calls_us, rows["attention"].by_mean_us) == (-4, 0)
    assert found.difference_us == 43
    (launch,) = found.calls
    assert (launch.family, launch.control.calls, launch.test.calls) == ("launch", 3, 4)


@given(
    pairs=st.lists(
        st.tuples(st.integers(0, 50), st.floats(0, 1e6), st.integers(0, 50), st.floats(0, 1e6)), min_size=1, max_size=5
    )
)
def test_the_parts_of_a_difference_add_up(pairs: list[tuple[int, float, int, float]]) -> None:
    rows = [
        FamilyRow("device", str(n), Totals(a, x if a else 0), Totals(b, y if b else 0))
        for n, (a, x, b, y) in enumerate(pairs)
    ]
    parts = sum(row.by_calls_us + row.by_mean_us for row in rows)
    whole = sum(row.test.total_us for row in rows) - sum(row.control.total_us for row in rows)
    assert parts == pytest.approx(whole, abs=1e-6)


def test_calls_alone_or_time_alone() -> None:
    more = FamilyRow("device", "x", Totals(2, 10), Totals(6, 30))
    assert (more.by_calls_us, more.by_mean_us) == (20, 0)
    slower = FamilyRow("device", "x", Totals(2, 10), Totals(2, 30))
    assert (slower.by_calls_us, slower.by_mean_us) == (0, 20)


def test_kernels_that_came_went_grew_and_shrank(store: Store, tmp_path: Path) -> None:
    control = kernels(("gone", 1), ("fewer", 2), ("fewer", 2), ("more", 3), ("same", 4))
    test = kernels(("added", 1), ("fewer", 9), ("more", 3), ("more", 3), ("same", 5))
    test += kernels(("same", 5), stream=20)[1:]
    control += kernels(("same", 4), stream=20)[1:]
    found = compared(store, tmp_path, control, test)
    assert {row.name: row.change for row in found.kernels} == {
        "gone": "gone",
        "added": "added",
        "fewer": "shrunk",
        "more": "grown",
        "same": "same",  # of both streams together
    }
    assert sum(row.difference_us for row in found.kernels) == found.difference_us
    assert abs(found.kernels[0].difference_us) == max(abs(row.difference_us) for row in found.kernels)


def test_figures(store: Store, tmp_path: Path) -> None:
    copy = event("gpu_memcpy", "Memcpy HtoD", 130, 5, stream=20, device=0)
    wait = event("cuda_runtime", "cudaStreamSynchronize", 90, 8)
    control = kernels((GEMM, 30), (FMHA, 10), ("somebody's", 10))
    found = compared(store, tmp_path, control, [*control, copy, wait], tokens=10, samples=2, forward_passes=5)

    def pair(name: str) -> Any:
        one = found.figure(name)
        return one.control, one.test

    assert pair("span_us") == (230, 230)
    assert pair("work_us") == (50, 55)
    assert pair("work_us_a_token") == (5, 5.5)
    assert pair("work_us_a_sample") == (25, 27.5)
    assert pair("compute_share") == (80, pytest.approx(100 * 40 / 55))
    assert pair("idle_share") == (pytest.approx(100 * 160 / 210), pytest.approx(100 * 155 / 210))
    assert pair("gaps") == (2, 2)  # the copy begins where attention ends
    assert pair("launch_calls") == (3, 3) and pair("launch_a_token") == (0.3, 0.3) and pair("launch_us") == (15, 15)
    assert pair("sync_calls") == (0, 1) and pair("sync_us") == (0, 8)
    assert pair("memcpy_calls") == (0, 1)
    assert pair("delay_us") == (20, 20)
    assert pair("other_share") == (20, pytest.approx(100 * 10 / 55))
    assert pair("overlap_share") == (0, 0)
    assert found.figure("work_us").ratio == 1.1 and found.figure("sync_us").ratio is None
    assert found.notes == ()


def test_what_is_not_known_is_none(store: Store, tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("name\tcount\ttotal_ms\tavg_ms\ncutlass_gemm\t10\t1\t0.1\n")
    ids = [add_trace(store, table).id, add_trace(store, trace_of(tmp_path, kernels((GEMM, 10)))).id]
    found = compare_traces(store, *ids)
    for name in ("span_us", "idle_share", "gaps", "launch_calls", "launch_us", "sync_calls", "delay_us", "tokens"):
        assert found.figure(name).control is None, name
    assert found.figure("launch_calls").test == 1 and found.figure("launch_calls").ratio is None
    assert found.notes == ("One of the two is a table of sums: its timeline, gaps and overlaps are unknown.",)


def test_operators_without_a_device_count_once(store: Store, tmp_path: Path) -> None:
    nested = [event("cpu_op", "aten::linear", 0, 10), event("cpu_op", "aten::addmm", 2, 6)]
    found = compared(store, tmp_path, nested, [*nested, event("cpu_op", "aten::cat", 20, 3)])
    assert found.figure("work_us").control == 10 and found.figure("work_us").test == 13
    assert found.figure("launch_calls").control is None and found.figure("memcpy_calls").control is None
    mixed = compared(store, tmp_path, nested, kernels((GEMM, 10)))
    assert "only operators on the CPU" in mixed.notes[0]


def test_a_trace_beside_itself_differs_in_nothing(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    write_trace(path, 5_000)
    found = compare_traces(store, *(add_trace(store, path).id for _ in range(2)))
    assert found.difference_us == 0
    assert all(row.change == "same" for row in found.kernels)
    assert all(figure.ratio in (None, 1) for figure in found.figures)


def test_the_document_is_json_and_adds_up(store: Store, tmp_path: Path) -> None:
    found = compared(store, tmp_path, kernels((GEMM, 10)), kernels((GEMM, 10), (CAT, 7)), tokens=4)
    said = json.loads(json.dumps(document(found), allow_nan=False))
    assert said["difference_us"] == sum(row["by_calls_us"] + row["by_mean_us"] for row in said["families"]) == 7
    (concat,) = [row for row in said["families"] if row["family"] == "concat"]
    assert (concat["calls_control"], concat["calls_test"], concat["calls_ratio"]) == (0, 1, None)
    assert (concat["us_a_token_control"], concat["us_a_token_test"], concat["mean_us_control"]) == (0, 1.75, None)


def test_a_trace_without_its_operations_is_named(store: Store, tmp_path: Path) -> None:
    entry = add_trace(store, trace_of(tmp_path, kernels((GEMM, 10))))
    Path(entry.path("trace_ops")).unlink()
    with pytest.raises(StoreError, match="has no table of operations"):
        compare_traces(store, entry.id, entry.id)
