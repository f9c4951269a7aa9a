"""Files of a kilobyte that would be gigabytes: counted before they are read, and damage by name."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.store.inflated import problem_of
from engine.store.store import VARIABLE
from tests.cli import run
from tests.engine.store.stored_runs import folder_of, store_at, written


def test_a_text_that_a_file_has_once_counts_in_each_row(tmp_path: Path) -> None:
    long, path = ["x" * 20_000_000], tmp_path / "a.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 64, pa.int32()), long)
    nested = pa.ListArray.from_arrays(pa.array(range(65), pa.int32()), texts)
    numbers = pa.array([1] * 70_000_000, pa.int8())
    for column, is_large in ((texts, True), (texts[:9], False), (nested, True), (numbers, True)):
        pq.write_table(pa.table({"a": column}), path, row_group_size=10**9)
        assert path.stat().st_size < 2_000_000
        tracemalloc.start()
        assert ("its rows would take over 512 MB" in problem_of(path, path.stat().st_size)) == is_large
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
        tracemalloc.stop()


def test_such_a_file_is_damage_and_the_rest_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: `export` took 6 GB."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr("engine.store.inflated.MOST_GROUP_BYTES", 1_000_000)
    store = store_at(tmp_path)
    for name in ("one", "other"):
        written(store.home, name)
    path = folder_of(store) / "samples.parquet"
    rows = pq.read_table(path)
    place = rows.column_names.index("text")
    texts = pa.array(["x" * 500_000] * rows.num_rows)
    pq.write_table(rows.set_column(place, rows.schema.field("text"), texts), path, compression="zstd")
    sheet = json.loads((folder_of(store) / "run.json").read_text())
    sum_ = hashlib.sha256(path.read_bytes()).hexdigest()
    sheet["tables"]["samples"] |= {"bytes": path.stat().st_size, "sha256": sum_}
    (folder_of(store) / "run.json").write_text(json.dumps(sheet))
    assert "samples.parquet: its rows would take over" in run("verify").out
    assert run("export", "one", str(tmp_path / "a.json")).error.startswith("driftscope: the samples of one are damaged")
    assert store.rows("SELECT DISTINCT run_id FROM samples") == [{"run_id": "other"}]
    assert [damage.where.rpartition("/")[2] for damage in store.found().damages] == ["samples.parquet"]
