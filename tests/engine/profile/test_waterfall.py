"""The way from the control's time to the test's: whatever it is told over, its steps add up."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.profile.compare import FamilyRow, TraceComparison, compare_traces
from engine.profile.ingest import TraceMetadata, add_trace
from engine.profile.stored_trace import Totals
from engine.profile.waterfall import REST, known_ways, waterfall
from engine.store.files import LocalFiles
from engine.store.store import Store
from tests.engine.profile.test_compare import CAT, FMHA, GEMM, kernels
from tests.engine.profile.test_ingest import trace_of

COUNTS = st.floats(1, 1e6)


def compared(
    tmp_path: Path, control: list[tuple[str, float]], test: list[tuple[str, float]], *told: TraceMetadata
) -> TraceComparison:
    store = Store(LocalFiles(tmp_path / "store"))
    both = told or (TraceMetadata(), TraceMetadata())
    ids = [
        add_trace(store, trace_of(tmp_path, kernels(*some)), one).id
        for some, one in zip((control, test), both, strict=True)
    ]
    return compare_traces(store, *ids)


def test_steps_lead_from_one_time_to_the_other(tmp_path: Path) -> None:
    found = compared(tmp_path, [(GEMM, 10), (GEMM, 10), (FMHA, 4)], [(GEMM, 20), (GEMM, 20), (GEMM, 20), (CAT, 7)])
    way = waterfall(found)
    assert (way.control_us, way.test_us) == (24, 67)
    assert [(step.family, step.by_calls_us, step.by_mean_us) for step in way.steps] == [
        ("gemm", 15, 25),
        ("concat", 7, 0),
        ("attention", -4, 0),
    ]
    assert [(step.start_us, step.middle_us, step.end_us) for step in way.steps] == [
        (24, 39, 64),
        (64, 71, 71),
        (71, 67, 67),
    ]


def test_small_families_are_one_step_and_still_add_up(tmp_path: Path) -> None:
    control = [(f"{name}_kernel", 10.0) for name in ("softmax", "norm", "rope", "sort", "fill")]
    test = [(name, time + 2 * place) for place, (name, time) in enumerate(control)]
    way = waterfall(compared(tmp_path, control, test), most=2)
    assert [step.families for step in way.steps] == [1, 1, 3]
    assert way.steps[-1].family == REST and way.steps[-1].end_us == way.test_us == 70
    whole = waterfall(compared(tmp_path, control, test), most=4)
    assert len(whole.steps) == 5 and REST not in [step.family for step in whole.steps]  # one alone is not put away


def test_the_largest_step_per_token_comes_first(tmp_path: Path) -> None:
    told = TraceMetadata(tokens=10), TraceMetadata(tokens=20)
    found = compared(tmp_path, [(GEMM, 10), (CAT, 8)], [(GEMM, 20), (CAT, 10)], *told)
    assert [step.family for step in waterfall(found).steps] == ["gemm", "concat"]
    assert [step.family for step in waterfall(found, "token").steps] == ["concat", "gemm"]


def test_over_what_both_cover(tmp_path: Path) -> None:
    told = TraceMetadata(tokens=10, samples=1), TraceMetadata(tokens=20)
    found = compared(tmp_path, [(GEMM, 10)] * 2, [(GEMM, 10)] * 4, *told)
    assert known_ways(found) == ["trace", "token"]
    way = waterfall(found, "token")
    assert (way.control_us, way.test_us) == (2, 2)
    (step,) = way.steps
    assert (step.by_calls_us, step.by_mean_us) == (0, 0)  # twice the calls, and twice the tokens
    with pytest.raises(ValueError):
        waterfall(found, "sample")


@given(
    calls=st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)),
    means=st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)),
    over=st.tuples(COUNTS, COUNTS),
)
def test_calls_and_mean_are_the_difference(
    calls: tuple[int, int], means: tuple[float, float], over: tuple[float, float]
) -> None:
    one, other = (Totals(count, count * mean) for count, mean in zip(calls, means, strict=True))
    row = FamilyRow("device", "x", one, other)
    parts = row.split_us(*over)
    assert sum(parts) == pytest.approx(other.total_us / over[1] - one.total_us / over[0], rel=1e-9, abs=1e-6)
    assert row.split_us() == pytest.approx((row.by_calls_us, row.by_mean_us), rel=1e-9, abs=1e-3)


def test_nothing_at_all(tmp_path: Path) -> None:
    store = Store(LocalFiles(tmp_path / "store"))
    calls_only = kernels((GEMM, 5))[:1]
    entry = add_trace(store, trace_of(tmp_path, calls_only)).id
    way = waterfall(compare_traces(store, entry, entry))
    assert (way.control_us, way.test_us, way.steps) == (0, 0, ())
