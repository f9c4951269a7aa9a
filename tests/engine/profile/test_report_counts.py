"""What the reports count, counted in any trace; and a trace's own file, where it is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import StoreError
from engine.profile.ingest import add_trace
from engine.profile.report_counts import REPORT_COUNTS, counts
from engine.profile.reported import load_reported
from engine.profile.stored_trace import StoredTrace
from engine.profile.trace_file import trace_file_bytes, trace_file_name, trace_file_size
from engine.store.files import LocalFiles
from engine.store.store import Store
from tests.engine.profile.made_traces import write_trace
from tests.engine.profile.test_ingest import event, trace_of


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(LocalFiles(tmp_path / "store"))


def test_the_reports_own_counts() -> None:
    found = {trace.trace_id: counts(trace.operations) for trace in load_reported().traces}
    calls = [None if one is None else one.calls for one in found["reported-003-qwen"].values()]
    assert calls == [2_912_920, 48_440, 139_272, 96_768, 96_992]
    assert found["reported-003-llama"]["attention calls (FMHA)"].total_us == 800_000  # type: ignore[union-attr]


def test_a_gpus_trace_is_counted_the_same_way(store: Store, tmp_path: Path) -> None:
    truth = write_trace(tmp_path / "made.json", 5_000)
    found = counts(StoredTrace.of(add_trace(store, tmp_path / "made.json")).rows)
    assert found["kernel launches"].calls == 1_000  # type: ignore[union-attr]
    assert found["concatenations, others"].calls == 0  # type: ignore[union-attr]
    for what, part in (("concatenations, aligned", "alignedK"), ("attention calls (FMHA)", "fmha")):
        true = sum(sums[0] for (_, name, _), sums in truth.sums.items() if part in name)
        assert found[what].calls == true > 0  # type: ignore[union-attr]


def test_a_cpus_trace_has_no_launches_and_one_kind_of_concatenation(store: Store, tmp_path: Path) -> None:
    events = [event("cpu_op", "aten::cat", 0, 10), event("cpu_op", "aten::copy_", 2, 3)]
    found = counts(StoredTrace.of(add_trace(store, trace_of(tmp_path, events))).rows)
    assert found["kernel launches"] is None and found["concatenations, aligned"] is None
    assert found["concatenations, others"].total_us == 7  # type: ignore[union-attr]
    assert found["copies"].calls == 1 and found["attention calls (FMHA)"].calls == 0  # type: ignore[union-attr]
    assert set(found) == {report_count.what for report_count in REPORT_COUNTS}


def test_a_kept_file_is_given_and_no_other(store: Store, tmp_path: Path) -> None:
    path = trace_of(tmp_path, [event("cpu_op", "aten::cat", 0, 10)])
    entry = add_trace(store, path, keep_file=True)
    assert trace_file_bytes(entry) == path.read_bytes() and trace_file_size(entry) == path.stat().st_size
    for name in ("../store.json", "profiles/../secret", "profiles/", "/etc/passwd", None):
        other = replace(entry, row={**entry.row, "file": name})
        assert trace_file_name(other) is None and trace_file_size(other) is None
        with pytest.raises(StoreError, match="keeps no file"):
            trace_file_bytes(other)
    store.home.remove(entry.row["file"])
    assert trace_file_size(entry) is None
    with pytest.raises(StoreError, match="cannot be read"):
        trace_file_bytes(entry)
