"""Tags of runs: set for one, added to several, and what they may be."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.errors import StoreError
from engine.store.store import Store
from tests.engine.store.stored_runs import folder_of, named, store_at, written


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = store_at(tmp_path)
    for run_id in ("one", "other"):
        written(made.home, run_id)
    return made


def test_tags_of_several_runs(store: Store) -> None:
    assert store.annotate("one", label="mine", add=["slow  disk ", "a", "", "a"]).row["tags"] == ["a", "slow disk"]
    for run_id in ("one", "other"):
        store.annotate(run_id, add=["b"], take=["slow disk", "never there"])
    assert store.rows("SELECT run_id, tags, label FROM runs ORDER BY run_id") == [
        {"run_id": "one", "tags": ["a", "b"], "label": "mine"},
        {"run_id": "other", "tags": ["b"], "label": None},
    ]
    store.annotate("one", label="still mine")
    assert store.entry("one").row["tags"] == ["a", "b"]
    assert store.annotate("one", take=["a", "b"]).row["tags"] is None


def test_tags_are_few_and_short(store: Store) -> None:
    for tags, told in ((["x" * 41], "41 characters"), (map(str, range(21)), "21 in all")):
        with pytest.raises(StoreError, match=f"{told}.*At most 20 of 40"):
            store.annotate("one", add=tags)
    store.annotate("one", add=map(str, range(20)))
    with pytest.raises(StoreError, match="21 in all"):
        store.annotate("one", add=["more"])
    (folder_of(store) / "user.json").write_text('{"tags": "a"}')
    assert "`$.tags`" in named(store)["runs/run_id=one/user.json"]


def test_tags_that_many_add_at_once_are_all_kept(store: Store) -> None:
    """Ten `annotate --tag` at once lost four: each wrote what it had read before."""
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda tag: Store(store.home).annotate("one", add=[f"tag {tag}"]), range(10)))
    assert store.entry("one").row["tags"] == [f"tag {tag}" for tag in range(10)]
