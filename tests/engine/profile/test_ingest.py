"""A trace in the store: its tables hold what the file says, joined, binned and seen by everybody's SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.errors import StoreError
from engine.profile import summary
from engine.profile.ingest import add_trace
from engine.store.schema import RUN, TRACE
from engine.store.staging import Staging
from engine.store.store import Store, damaged_parts
from tests.engine.profile.made_traces import KERNELS, Truth, added, event, write_trace


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    path = tmp_path_factory.mktemp("made") / "made.json.gz"
    return path, write_trace(path, 20_000)


LAUNCH = event("cuda_runtime", "cudaLaunchKernel", 100, 4, correlation=1)
KERNEL = event("kernel", "k1", 110, 10, correlation=1, stream=7, device=0)


def row_of(store: Store, sql: str) -> dict[str, Any]:
    (row,) = store.rows(sql)
    return row


def test_the_tables_hold_what_the_file_says(store: Store, made: tuple[Path, Truth]) -> None:
    path, truth = made
    entry = add_trace(store, path)
    rows = store.rows("SELECT category, name, stream, calls, total_ns, total_us FROM trace_ops")
    assert {
        (row["category"], row["name"], row["stream"]): [row["calls"], row["total_ns"]] for row in rows
    } == truth.sums
    assert all(row["total_us"] == pytest.approx(row["total_ns"] / 1000) for row in rows)
    row = entry.row
    assert (row["events"], row["flows"], row["joined"], row["gaps"]) == (truth.events, truth.flows, 4_000, truth.gaps)
    assert row["device_us"] == pytest.approx(truth.device_ns / 1000)
    assert row["idle_us"] == pytest.approx(truth.idle_ns / 1000)
    assert row["busy_us"] == pytest.approx(truth.device_ns / 1000)  # one kernel at a time
    assert (row["overlap_us"], row["is_complete"], row["origin"], row["device"]) == (0, True, "imported", "NVIDIA H100")
    assert entry.row.get("warnings") is None and entry.row.get("file") is None
    assert damaged_parts(entry) == [] and store.listing(TRACE).damages == ()


def test_families_and_their_sums(store: Store, made: tuple[Path, Truth]) -> None:
    path, truth = made
    add_trace(store, path)
    expected: dict[str, int] = {}
    for (category, name, _), (_, total) in truth.sums.items():
        if category == "kernel":
            expected[KERNELS[name]] = expected.get(KERNELS[name], 0) + total
    rows = store.rows("SELECT family, sum(total_ns) AS ns FROM trace_ops WHERE side = 'device' GROUP BY family")
    assert {row["family"]: int(row["ns"]) for row in rows} == expected
    assert row_of(store, "SELECT sum(calls) AS n FROM trace_ops WHERE family = 'launch'")["n"] == 4_000
    other = row_of(store, "SELECT other_share FROM traces")["other_share"]
    assert other == pytest.approx(expected["other"] / truth.device_ns)


def test_calls_are_joined_to_what_they_began(store: Store, tmp_path: Path) -> None:
    graph = event("cuda_runtime", "cudaGraphLaunch", 200, 9, correlation=5)
    events = [
        LAUNCH,
        KERNEL,
        graph,
        *(event("kernel", "k2", 210 + 10 * n, 5, correlation=5, stream=7, device=0) for n in range(3)),
        event("kernel", "lost", 300, 1, correlation=99, stream=7, device=0),
        event("gpu_memcpy", "Memcpy HtoD", 310, 1, correlation=6, stream=7, device=0),
        event("cuda_runtime", "cudaMemcpyAsync", 305, 3, correlation=6),
        event("cpu_op", "aten::cat", 0, 1),
    ]
    added(store, tmp_path, events)
    rows = store.rows("SELECT name, calls, launched, launch_us, delay_us FROM trace_ops WHERE side = 'device'")
    assert {row.pop("name"): row for row in rows} == {
        "k1": {"calls": 1, "launched": 1, "launch_us": 4.0, "delay_us": 10.0},
        "k2": {"calls": 3, "launched": 3, "launch_us": 9.0, "delay_us": 60.0},
        "lost": {"calls": 1, "launched": 0, "launch_us": 0.0, "delay_us": 0.0},
        "Memcpy HtoD": {"calls": 1, "launched": 1, "launch_us": 3.0, "delay_us": 5.0},
    }
    assert row_of(store, "SELECT joined FROM traces") == {"joined": 5}
    rows = store.rows("SELECT family, launched FROM trace_ops WHERE side IN ('call', 'host') ORDER BY family")
    assert all(row["launched"] is None for row in rows)
    assert rows[0]["family"] == "cpu_op"  # operators are no work where a device has some


def test_idle_gaps_and_what_stands_around_them(store: Store, tmp_path: Path) -> None:
    events = [
        KERNEL,
        event("kernel", "k2", 115, 10, stream=20, device=0),  # overlaps with k1 for 5
        event("kernel", "k3", 130, 1, stream=7, device=0),
        event("gpu_memcpy", "Memcpy DtoH", 130, 2, stream=7, device=0),
        event("kernel", "k1", 500, 1, stream=7, device=1),  # another device, whose gaps are its own
    ]
    row = added(store, tmp_path, events).row
    assert (row["busy_us"], row["idle_us"], row["gaps"]) == (15 + 2 + 1, 5, 1)
    assert (row["overlap_us"], row["copy_overlap_us"], row["device_us"]) == (6, 1, 24)
    gap = row_of(
        store,
        "SELECT g.device, g.start_us, g.gap_us, b.name AS before, a.name AS after FROM trace_gaps g "
        "JOIN trace_ops b ON b.op = g.before_op JOIN trace_ops a ON a.op = g.after_op",
    )
    assert gap["before"] == "k2" and gap["after"] in ("k3", "Memcpy DtoH")
    assert (gap["device"], gap["start_us"], gap["gap_us"]) == ("0", 15, 5)


def test_the_events_themselves_on_request(
    store: Store, made: tuple[Path, Truth], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "EVENTS_A_GROUP", 1_000)
    path, truth = made
    add_trace(store, path, with_events=True)
    sql = "SELECT count(*) AS n, sum(dur_us) AS us FROM trace_events"
    assert row_of(store, sql)["n"] == truth.events
    by_op = store.rows(
        "SELECT o.name, o.calls, o.total_us, count(*) AS n, sum(e.dur_us) AS us FROM trace_events e "
        "JOIN trace_ops o USING (trace_id, op) GROUP BY ALL"
    )
    assert all(row["calls"] == row["n"] and row["us"] == pytest.approx(row["total_us"]) for row in by_op)


def test_an_absurd_time_counts_in_sums_and_nowhere_else(store: Store, tmp_path: Path) -> None:
    row = added(store, tmp_path, [KERNEL, event("kernel", "k1", 1e300, 3, stream=7, device=0)]).row
    assert row["span_us"] == 10 and row["device_us"] == 13 and row["busy_us"] == 10
    assert row["warnings"] == "1 event without a readable time: in the sums, not in the timeline"
    assert row_of(store, "SELECT sum(busy_us) AS us FROM trace_timeline")["us"] == pytest.approx(10)


def test_a_run_lends_its_counts(store: Store, tmp_path: Path) -> None:
    staging = Staging.create(store.home, RUN, "run-1", {"origin": "measured"})
    staging.publish({"samples": 64, "tokens": 900, "forward_passes": 30})
    row = added(store, tmp_path, [LAUNCH, KERNEL], run_id="run", label="mine").row
    assert (row["run_id"], row["samples"], row["tokens"], row["counted_by"]) == ("run-1", 64, 900, "run")
    assert (row["label"], row["source"]) == ("mine", "made.json")
    own = added(store, tmp_path, [LAUNCH, KERNEL], run_id="run-1", tokens=7).row
    assert (own["tokens"], own.get("samples"), own["counted_by"]) == (7, None, "user")
    with pytest.raises(StoreError, match="there is no run"):
        added(store, tmp_path, [KERNEL], run_id="another")


@pytest.mark.parametrize(
    ("events", "warning"),
    [
        ([event("mtia_ccp_events", "gemm", 1, 5), event("cuda_profiler_range", "x", 2, 5)], "no work is in it"),
        ([event("cpu_op", "aten::mm", 1, 5), event("cuda_profiler_range", "x", 2, 5)], "no work of a device"),
        ([event("cpu_op", "aten::mm", 1, 5), LAUNCH], "no work of a device"),
        ([event("cpu_op", "aten::mm", 1, 5)], ""),
        ([KERNEL, event("mtia_ccp_events", "x", 2, 5)], ""),
    ],
)
def test_a_trace_without_work_of_a_device_is_told(
    store: Store, tmp_path: Path, events: list[dict[str, Any]], warning: str
) -> None:
    row = added(store, tmp_path, events).row
    assert (row.get("warnings") or "").startswith(warning) and bool(row.get("warnings")) == bool(warning)
    assert row.get("device_us") == (10 if KERNEL in events else None)


def named(kind: str, name: str, pid: int, tid: int = 0) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}}


def plain(name: str, ts: float, dur: float, pid: int, tid: int = 0, **args: Any) -> dict[str, Any]:
    """As JAX writes it: without a category."""
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


GPU = [
    named("process_name", "/device:GPU:1 (pid 3)", 3),
    named("thread_name", "Stream #7(Compute,MemcpyD2H)", 3, 7),
    named("thread_name", "XLA Modules", 3, 9),
    plain("gemm_fusion_dot_1", 100, 30, 3, 7, correlation_id="4"),
    {**plain("MemcpyD2H", 140, 2, 3, 7), "args": {"name": {"of": "a buffer"}}},
    plain("jit_step", 100, 42, 3, 9),
]
TPU = [
    named("process_name", "/device:TPU:0", 5),
    named("thread_name", "Steps", 5, 1),
    named("thread_name", "XLA Ops", 5, 2),
    plain("fusion.12", 100, 30, 5, 2),
    plain("0", 90, 60, 5, 1),
]
HOST = [
    named("process_name", "/host:CPU", 1),
    named("thread_name", "python", 1, 2),
    plain("PjitFunction(step)", 80, 60, 1, 2),
]


@pytest.mark.parametrize(
    ("events", "device_us", "families", "named_events"),
    [
        (GPU + HOST, 32, {"gemm": ("1", 30), "memcpy": ("1", 2), "gpu_annotation": ("1", 42)}, 3),
        (TPU + HOST, 30, {"other": ("0", 30), "gpu_annotation": ("0", 60)}, 2),
        ([named("process_name", "/device:GPU:0", 1), plain("k_kernel", 5, 7, 1)], 7, {"other": ("0", 7)}, 1),
    ],
)
def test_work_of_devices_is_found_without_categories(
    store: Store, tmp_path: Path, events: list[Any], device_us: float, families: dict[str, Any], named_events: int
) -> None:
    """As JAX and TensorFlow write it; it was read as operators of the host."""
    row = added(store, tmp_path, events).row
    assert row["device_us"] == device_us
    rows = store.rows("SELECT family, device, total_us FROM trace_ops WHERE side IN ('device', 'mark')")
    assert {row["family"]: (row["device"], row["total_us"]) for row in rows} == families
    warnings = row["warnings"].splitlines()
    assert f"{named_events} event" in warnings[0] and "work of a device by the name of its process" in warnings[0]
    assert warnings[1:] == ["1 event without a category, read as operators of the host"] * (HOST[2] in events)


def test_a_host_without_categories_is_told(store: Store, tmp_path: Path) -> None:
    row = added(store, tmp_path, [*HOST, plain("loop_kernel", 300, 5, 9)]).row
    assert row["warnings"] == "2 events without a category, read as operators of the host"
    assert row.get("device_us") is None
