"""Two traces matched by family and place in the step: kernels of other names that do the same work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.profile.compare import compare
from engine.profile.ingest import add_trace
from engine.profile.step_places import pass_words, place_rows, place_words, placed_work
from engine.profile.stored_trace import StoredTrace
from engine.store.entries import Entry
from engine.store.files import LocalFiles
from engine.store.store import DEMO, Store
from engine.store.trace_schema import TRACE
from tests.engine.profile.test_ingest import event, trace_of

Span = tuple[str, float, float]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(LocalFiles(tmp_path / "store"))


def added(store: Store, folder: Path, *spans: Span, work: tuple[Span, ...]) -> Entry:
    """Marks and operators of a CPU, each a name, a start and a length in µs."""
    events: list[dict[str, Any]] = [
        event("user_annotation", f"driftscope::{name}", start, length) for name, start, length in spans
    ]
    return add_trace(store, trace_of(folder, [*events, *(event("cpu_op", *one) for one in work)]))


STEPS: tuple[Span, ...] = (
    *(("step", at, 1_000.0) for at in (1_000.0, 2_000.0)),
    *(("decode", at, 600.0) for at in (1_000.0, 2_000.0)),
    *(("sample", at + 700, 200.0) for at in (1_000.0, 2_000.0)),
)


def test_the_samplers_kernels_take_longer_under_another_name(store: Store, tmp_path: Path) -> None:
    mm = tuple(("aten::mm", at, 500.0) for at in (1_000.0, 2_000.0))
    control = added(store, tmp_path, *STEPS, work=(*mm, *(("aten::topk", at + 700, 20.0) for at in (1_000.0, 2_000.0))))
    test = added(store, tmp_path, *STEPS, work=(*mm, *(("aten::sort", at + 700, 150.0) for at in (1_000.0, 2_000.0))))
    rows = place_rows(compare(StoredTrace.of(control), StoredTrace.of(test)))
    first = rows[0]
    assert (first.place, first.family) == ("sample", "sort")  # one family, two names
    assert first.control_us == pytest.approx(20, abs=2) and first.test_us == pytest.approx(150, abs=2)
    assert "drawing tokens takes 130 µs more" in place_words(rows)
    forward = next(row for row in rows if (row.place, row.family) == ("forward", "gemm"))
    assert forward.difference_us == pytest.approx(0, abs=2) and forward.control_us == pytest.approx(500, abs=2)


def test_places_add_up_to_all_work(store: Store, tmp_path: Path) -> None:
    work = (("aten::mm", 100.0, 300.0), ("aten::mm", 1_000.0, 500.0), ("aten::add", 1_950.0, 40.0))
    found = placed_work(added(store, tmp_path, *STEPS, work=work))
    assert found is not None and found.steps == 2
    assert found.work_us["outside the passes", "gemm"] == pytest.approx(300, abs=2)
    assert found.work_us["other", "elementwise"] == pytest.approx(40, abs=2)
    assert sum(found.work_us.values()) == pytest.approx(840, rel=1e-6)


def test_without_marks_of_steps_nothing_is_said(store: Store, tmp_path: Path) -> None:
    plain = added(store, tmp_path, work=(("aten::mm", 0.0, 500.0),))
    marked = added(store, tmp_path, *STEPS, work=(("aten::mm", 1_000.0, 500.0),))
    assert placed_work(plain) is None
    assert place_words(place_rows(compare(StoredTrace.of(plain), StoredTrace.of(marked)))) == ""


def test_the_demo_says_it_by_cause() -> None:
    """An LP that scores the allowed tokens only saves products of matrices in the forward pass."""
    traces = {entry.id.rsplit("-", 1)[0]: entry for entry in Store.open(DEMO).found(TRACE).entries}
    control, test = (next(traces[name] for name in traces if f"llama-final-{lp}" in name) for lp in ("none", "exact"))
    found = compare(StoredTrace.of(control), StoredTrace.of(test))
    assert (
        pass_words(found) == "A pass of B writes 6.67 tokens, one of A 4.00."
    )  # a longer one may be no longer per token
    assert pass_words(compare(found.test, found.test)) == ""
    rows = place_rows(found)
    assert (rows[0].place, rows[0].family) == ("forward", "gemm") and rows[0].difference_us < 0
    assert "the forward pass" in place_words(rows)
