"""The tables of a run's groups become one of each, in order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from engine.errors import StoreError
from engine.store import staging as staging_module
from engine.store.columns import MOMENT, SMALL, TEXT, TYPES, Column, Table
from engine.store.schema import RUN, STEPS
from engine.store.staging import write_entry
from engine.store.store import Store
from tests.engine.store.stored_runs import add, assert_whole, begun, published, staged, store_at


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path)


@pytest.mark.parametrize("samples", [[[0, 1], [2], [3, 4, 5]], [[3, 1], [2, 0], [5, 4]]], ids=["in order", "mixed"])
def test_groups_are_merged_in_order(store: Store, samples: list[list[int]]) -> None:
    staging = begun(store.home)
    for some in samples:
        add(staging, some, steps=True)
    entry = published(staging)
    assert_whole(store)
    assert pq.ParquetFile(entry.path("samples")).read()["sample_id"].to_pylist() == list(range(6))
    steps = pq.read_table(entry.path("steps"), partitioning=None)
    assert steps.num_rows and steps.equals(steps.sort_by([("sample_id", "ascending"), ("pos", "ascending")]))
    assert steps.schema.equals(STEPS.schema)


def test_what_is_sorted_keeps_null_lists_moments_and_the_order_of_equal_keys(store: Store) -> None:
    columns = (
        Column("key", TEXT, ""),
        Column("at", SMALL, ""),
        Column("some", TYPES["reals"], ""),
        Column("when", MOMENT, ""),
    )
    table = Table("keyed", columns, order=("key",))
    moment = datetime(2026, 7, 1, 12, tzinfo=UTC)
    given = [
        {"key": key, "at": at, "some": [at, None] if at % 2 else None, "when": moment if at % 3 else None}
        for at, key in enumerate(["b", None, "a", "Z", "b", "a", None])
    ]
    entry = write_entry(
        store.home, replace(RUN, tables=(table,)), "one", {"origin": "measured"},
        [{"keyed": table.rows(given[:4]).drop_columns("when")}, {"keyed": table.rows(given[4:])}],
    )  # fmt: skip
    expected = [given[at] | ({"when": None} if at < 4 else {}) for at in (3, 2, 5, 0, 4, 1, 6)]
    assert entry.read("keyed").equals(table.rows(expected)), "of the first group's form the column is null"


def test_a_table_that_cannot_be_sorted_leaves_the_groups_as_they_were(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_module, "SORT_MEMORY", "1KB")
    staging = begun(store.home)
    add(staging, [1, 0])
    with pytest.raises(StoreError, match=r"the parts of one cannot be merged: .*Make room in .*, or shorten texts"):
        published(staging)
    monkeypatch.undo()
    published(staging)
    assert_whole(store)


def test_a_group_with_a_flipped_byte_is_named_when_it_is_merged(store: Store) -> None:
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
