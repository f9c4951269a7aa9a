"""The tables of a run's groups become one of each, in order: small ones in memory, large ones through files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import StoreError
from engine.store import staging as staging_module
from engine.store.columns import MOMENT, REALS, SMALL, TEXT, Column, Table
from engine.store.schema import STEPS
from engine.store.store import Store
from tests.engine.store.stored_runs import add, assert_whole, begun, published, staged, store_at


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path)


@pytest.mark.parametrize("held", [1, staging_module.MOST_HELD_BYTES], ids=["through files", "in memory"])
@pytest.mark.parametrize("samples", [[[0, 1], [2], [3, 4, 5]], [[3, 1], [2, 0], [5, 4]]], ids=["in order", "mixed"])
def test_groups_are_merged_in_order_in_memory_and_through_files(
    store: Store, monkeypatch: pytest.MonkeyPatch, samples: list[list[int]], held: int
) -> None:
    monkeypatch.setattr(staging_module, "MOST_HELD_BYTES", held)
    monkeypatch.setattr(staging_module, "BATCH_ROWS", 2)
    staging = begun(store.home)
    for some in samples:
        add(staging, some, steps=True)
    entry = published(staging)
    assert_whole(store)
    assert (file := pq.ParquetFile(entry.path("samples"))).read()["sample_id"].to_pylist() == list(range(6))
    assert file.num_row_groups == (3 if held == 1 else 1)
    steps = pq.read_table(entry.path("steps"), partitioning=None)
    assert steps.num_rows and steps.equals(steps.sort_by([("sample_id", "ascending"), ("pos", "ascending")]))
    assert steps.schema.equals(STEPS.schema)


def test_what_is_sorted_through_files_keeps_null_lists_moments_and_the_order_of_equal_keys(tmp_path: Path) -> None:
    columns = (Column("key", TEXT, ""), Column("at", SMALL, ""), Column("some", REALS, ""), Column("when", MOMENT, ""))
    table = Table("keyed", columns, order=("key",))
    moment = datetime(2026, 7, 1, 12, tzinfo=UTC)
    given = [
        {"key": key, "at": at, "some": [at, None] if at % 2 else None, "when": moment if at % 3 else None}
        for at, key in enumerate(["b", None, "a", "Z", "b", "a", None])
    ]
    rows = pa.concat_tables(
        staging_module._sorted([table.rows(given[:4]), table.rows(given[4:])], table, str(tmp_path))
    )
    assert rows.equals(table.rows([given[at] for at in (3, 2, 5, 0, 4, 1, 6)]))


def test_a_table_that_cannot_be_sorted_leaves_the_groups_as_they_were(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_module, "MOST_HELD_BYTES", 1)
    monkeypatch.setattr(staging_module, "SORT_MEMORY", "1KB")
    staging = begun(store.home)
    add(staging, [1, 0])
    with pytest.raises(StoreError, match=r"samples cannot be sorted: .*Free room in .*, or shorten texts"):
        published(staging)
    monkeypatch.undo()
    published(staging)
    assert_whole(store)


@pytest.mark.parametrize("held", [1, staging_module.MOST_HELD_BYTES], ids=["through files", "in memory"])
def test_a_group_with_a_flipped_byte_is_named_when_it_is_merged(
    store: Store, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(staging_module, "MOST_HELD_BYTES", held)
    staging = begun(store.home)
    add(staging, range(4))
    path = staged(store) / "blocks-0000-00000.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"blocks-0000-00000\.parquet is damaged\. Remove it, then use --resume"):
        published(staging)
    path.unlink()
    assert staging.groups() == []
    add(staging, range(4))
    published(staging)
    assert_whole(store)
