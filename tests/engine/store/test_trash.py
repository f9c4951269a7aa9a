"""Deleted runs that can be put back: what other readers see of them, and what becomes of the trash."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

import pytest

from engine.errors import StoreError
from engine.store.files import LocalFiles
from engine.store.store import Store
from engine.store.trash import KEPT_S, in_trash, prune
from tests.cli import run
from tests.engine.store.stored_runs import assert_whole, ids, store_at, written


@pytest.fixture
def store(tmp_path: Path) -> Store:
    for run_id in ("a", "b", "c"):
        written(LocalFiles(tmp_path), run_id)
    return store_at(tmp_path)


def trash_of(store: Store) -> list[str]:
    return [id_ for _, id_, _ in in_trash(store.home)]


def test_what_is_deleted_is_no_run_until_it_is_put_back(store: Store) -> None:
    deletion = store.delete(["a", "c"])
    assert ids(store) == ids(store_at(Path(store.home.where))) == ["b"]
    assert store.rows("SELECT DISTINCT run_id FROM samples") == [{"run_id": "b"}]
    assert trash_of(store) == ["a", "c"]
    result = run("verify", "--store", store.home.where)
    assert result.code == 0
    assert (
        sum(line.startswith("deleted: ") and "an open page may still undo" in line for line in result.out.splitlines())
        == 2
    )
    deletion.undo()
    assert ids(store) == ["a", "b", "c"] and trash_of(store) == []
    assert_whole(store)


def test_removed_for_good(store: Store) -> None:
    deletion = store.delete(["a"])
    deletion.remove()
    assert ids(store) == ["b", "c"] and trash_of(store) == []
    with pytest.raises(StoreError, match="1 of 1 were removed for good already"):
        deletion.undo()


def test_all_of_them_or_none(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="there is no run 'gone'"):
        store.delete(["a", "gone"])
    publish = LocalFiles.publish

    def fails_at_b(files: LocalFiles, aside: str, name: str) -> None:
        if aside == "runs/run_id=b":
            raise StoreError("the disk is full", "Make room")
        publish(files, aside, name)

    monkeypatch.setattr(LocalFiles, "publish", fails_at_b)
    with pytest.raises(StoreError, match="the disk is full"):
        store.delete(["a", "b"])
    assert ids(store) == ["a", "b", "c"] and trash_of(store) == []


def test_a_run_that_came_again_meanwhile_is_not_overwritten(store: Store) -> None:
    deletion = store.delete(["a"])
    written(store.home, "a", 8)
    with pytest.raises(StoreError, match="is there already"):
        deletion.undo()
    assert store.entry("a").row["samples"] == 8 and trash_of(store) == ["a"]


def test_what_a_killed_process_left_goes_after_a_day(store: Store) -> None:
    old, new = store.delete(["a"]), store.delete(["b"])
    then = time.time() - KEPT_S - 60
    os.utime(Path(store.home.where) / "trash" / old.name, (then, then))
    prune(store.home)
    assert trash_of(store) == ["b"]
    os.utime(Path(store.home.where) / "trash" / new.name, (then, then))
    store.remove("c")
    assert trash_of(store) == [], "every removal looks"


@pytest.mark.parametrize("place", ["trash", "staging"])
def test_what_lies_there_and_is_not_of_this_program_stays(store: Store, tmp_path: Path, place: str) -> None:
    """A home folder may be a store's place, and have such folders of its own."""
    names = ["Documents", "removed-photos", "0123456789ab", "0123456789abc"]
    for name in names:
        folder = tmp_path / place / name
        (folder / "deep").mkdir(parents=True)
        (folder / "molecules.parquet").touch()
        os.utime(folder, (0, 0))
    store.remove("c")
    swept = {"0123456789ab"} if place == "trash" else set()
    assert {path.name for path in (tmp_path / place).iterdir()} == set(names) - swept


@pytest.mark.parametrize("place", ["trash", "staging"])
def test_a_linked_folder_is_damage_and_nothing_behind_it_goes(store: Store, tmp_path: Path, place: str) -> None:
    victim = tmp_path / "0123456789ab" / "removed-01234567"
    victim.mkdir(parents=True)
    os.utime(victim, (0, 0))
    shutil.rmtree(tmp_path / place, ignore_errors=True)
    (tmp_path / place).symlink_to(victim.parent)
    with contextlib.suppress(StoreError):
        store.remove("c")
    assert victim.is_dir()
    result = run("verify", "--store", store.home.where)
    assert result.code == 2 and f"/{place} is a link, where the store has a folder" in result.out


def test_a_place_without_a_rename_has_no_trash(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalFiles, "can_rename", False)
    with pytest.raises(StoreError, match="a deletion there cannot be undone"):
        store.delete(["a"])
    assert ids(store) == ["a", "b", "c"]
