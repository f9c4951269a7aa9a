"""Several writers of one entry: what they say, what is there twice, and disks that have no locks."""

from __future__ import annotations

import errno
import fcntl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from engine.errors import RunError, StoreError
from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.staging import Staging
from engine.store.store import damaged_parts
from tests.engine.store.stored_runs import add, begun, ids, published, store_at, written


def test_a_group_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    staging = begun(store.home)
    add(staging, range(2), rank=5, number=0)
    add(staging, range(2, 4), rank=5, number=1)
    add(staging, range(2), rank=131510436879081, number=0)  # of an actor, whose rank is a long one
    add(staging, range(2), rank=5, number=0)  # the same rank's is the same file
    assert [group.name for group in staging.groups()] == ["0005-00000", "0005-00001"]
    entry = published(staging)
    assert (entry.row["samples"], entry.row["tokens"]) == (4, 8)
    assert store.rows("SELECT sample_id FROM samples") == [{"sample_id": number} for number in range(4)]
    assert store.rows("SELECT count(*) AS n FROM blocks") == [{"n": 12}]


def test_the_other_one_counts_where_the_first_is_damaged(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    staging = begun(store.home)
    add(staging, range(4), rank=0, number=0)
    add(staging, range(4), rank=1, number=0)
    (tmp_path / "staging" / "one" / "samples-0000-00000.parquet").unlink()
    assert [group.name for group in staging.groups()] == ["0001-00000"]
    assert damaged_parts(published(staging)) == []


def test_writers_who_say_something_at_once_lose_none_of_it(tmp_path: Path) -> None:
    staging, together = begun(Files(tmp_path)), Barrier(8)

    def write(rank: int) -> None:
        together.wait()
        staging.write_note(rank, notes=[f"of {rank}"])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert staging.notes() == {"notes": [f"of {rank}" for rank in range(8)]}


@pytest.mark.parametrize("has_locks", [True, False])
def test_one_of_those_who_publish_at_once_comes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_locks: bool
) -> None:
    if not has_locks:
        monkeypatch.setattr(fcntl, "flock", no_locks)
    store, together = store_at(tmp_path), Barrier(6)
    staging = begun(store.home)
    add(staging, range(4))

    def publish(_: int) -> bool:
        own = Staging.open(store.home, RUN, "one")
        together.wait()
        try:
            published(own)
        except (StoreError, OSError):
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(publish, range(6))) == 1
    assert staging.is_shown
    assert damaged_parts(store.entry("one")) == []


def test_a_disk_without_locks_is_written_to_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", no_locks)
    store = store_at(tmp_path)
    staging = begun(store.home)
    staging.lock()
    assert not staging.is_being_written  # nobody can tell
    add(staging, range(4))
    published(staging)
    assert ids(store) == ["one"]


def no_locks(number: int, how: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def test_an_attempt_to_publish_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(tmp_path)
    staging = begun(store.home)
    add(staging, range(4))

    def full(self: Files, aside: str, name: str) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Files, "publish", full)
        with pytest.raises(StoreError, match="the disk is full"):
            published(staging)
    assert store.home.folders("staging/one") == []
    assert published(Staging.open(store.home, RUN, "one")).row["samples"] == 4


def test_a_rank_that_is_alive_keeps_others_out(tmp_path: Path) -> None:
    staging = begun(Files(tmp_path))
    staging.lock(7)
    other = Staging.open(staging.files, RUN, "one")
    other.lock(8)
    assert other.is_being_written
    with pytest.raises(RunError, match="is being written by another process"):
        Staging.open(staging.files, RUN, "one").lock(7)
    staging.release()
    Staging.open(staging.files, RUN, "one").lock(7)
    assert written(staging.files, "two").id == "two"
