"""Writing an entry: group by group aside, merged and shown in one step; whatever fails or is killed on the way."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import RunError, StoreError
from engine.store import staging as staging_module
from engine.store.columns import VERSION
from engine.store.files import Files
from engine.store.schema import RUN, SAMPLES
from engine.store.staging import Staging, sweep, totals, unfinished_ids
from engine.store.store import Store
from tests.engine.store import stored_runs
from tests.engine.store.stored_runs import (
    add,
    assert_whole,
    begun,
    named,
    published,
    staged,
    store_at,
    written,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path)


# --- from the first group to the store ----------------------------------------------------------------------------


def test_groups_are_added_up_and_merged_in_the_order_of_their_samples(store: Store) -> None:
    staging = begun(store.home, "one", 6, label="first")
    add(staging, [4, 2], steps=False)
    add(staging, [0, 5], steps=True)
    add(staging, [3, 1])
    assert store.found().entries == ()
    entry = published(staging, lp="truncating")
    assert store.entry("one") == entry
    row = entry.row
    assert (row["label"], row["lp"], row["origin"]) == ("first", "truncating", "measured")
    assert (row["samples"], row["passes"], row["blocks"], row["decode_s"]) == (6, 3, 18, 1.5)
    assert row["peak_memory_mb"] == 7.5
    assert pq.read_table(entry.path("samples"), partitioning=None)["sample_id"].to_pylist() == list(range(6))
    blocks = pq.read_table(entry.path("blocks"), partitioning=None)
    assert list(zip(*blocks.select(["sample_id", "block"]).to_pydict().values(), strict=True)) == [
        (sample, block) for sample in range(6) for block in range(3)
    ]
    assert entry.parts["steps"].rows == 1
    assert not staged(store).exists()
    assert_whole(store)


def test_what_is_said_at_the_start_stays_in_the_sheet(store: Store) -> None:
    staging = Staging.create(store.home, RUN, "one", {"origin": "measured"}, plan={"seed": 5})
    assert Staging.open(store.home, RUN, "one").sheet == staging.sheet
    entry = staging.publish({}, more={"a": 1})
    assert entry.sheet["plan"] == {"seed": 5}
    assert store.entry("one").sheet == {**entry.sheet, "more": {"a": 1}}


def test_what_writers_tell_beside_their_groups(store: Store) -> None:
    staging = begun(store.home)
    assert staging.notes() == {}
    staging.write_note(0, resumed=[{"checked": 4}], notes=["slow"])
    staging.write_note(1, notes=["slow", "short"])
    Staging.open(store.home, RUN, "one").write_note(0, resumed=[{"checked": 2}])
    found = staging.notes()
    assert sorted(found["notes"]) == ["short", "slow"]
    assert {one["checked"] for one in found["resumed"]} == {2, 4}
    assert staging.groups() == []


def test_a_run_without_a_group_has_no_rows(store: Store) -> None:
    entry = begun(store.home).publish({"samples": 0})
    assert entry.parts == {}
    assert store.rows("SELECT count(*) AS n FROM samples") == [{"n": 0}]
    assert named(store) == {}


def test_a_group_that_is_there_twice_counts_once(store: Store) -> None:
    """A writer that was given up and lived, beside the one that took its place."""
    staging = begun(store.home)
    for rank in (0, 1):
        add(staging, range(4), rank=rank, number=0)
    assert published(staging).row["samples"] == 4
    assert_whole(store)


def test_ranks_write_side_by_side(store: Store) -> None:
    staging = begun(store.home)
    others = [Staging.open(store.home, RUN, "one") for _ in range(3)]
    for rank, one in enumerate(others):
        one.lock(rank)
        add(one, [rank], rank=rank, number=0)
    assert [group.name for group in staging.groups()] == ["0000-00000", "0001-00000", "0002-00000"]
    assert published(staging).row["samples"] == 3
    for one in others:
        one.release()


# --- sums and peaks -----------------------------------------------------------------------------------------------


def test_sums_add_up_and_peaks_are_the_highest(store: Store) -> None:
    staging = begun(store.home)
    staging.add({}, [0], sums={"samples": 1, "wall_s": 0.5, "peak_memory_mb": 9.0})
    staging.add({}, [1], sums={"samples": 2, "tokens": 7, "peak_memory_mb": 3.0})
    staging.add({}, [2])
    assert totals(staging.groups()) == {"samples": 3, "wall_s": 0.5, "tokens": 7, "peak_memory_mb": 9.0}
    assert totals([]) == {}


# --- names --------------------------------------------------------------------------------------------------------


def test_a_name_is_given_once(store: Store) -> None:
    staging = begun(store.home)
    with pytest.raises(StoreError, match=r"^one is there already\. Choose another name$"):
        begun(store.home)
    add(staging, range(4))
    published(staging)
    with pytest.raises(StoreError, match="one is there already"):
        begun(store.home)
    assert_whole(store)


def test_a_name_that_was_taken_meanwhile(store: Store) -> None:
    """The first run stays, and so does what the second has written."""
    staging = begun(store.home)
    add(staging, range(2))
    written(store_at(Path(store.home.where) / "other").home, "one", 4)
    shutil.move(Path(store.home.where) / "other" / "runs", Path(store.home.where) / "runs")
    with pytest.raises(StoreError, match="is there already"):
        published(staging)
    assert store.entry("one").row["samples"] == 4
    assert_whole(store)
    assert len(staging.groups()) == 1


def test_unfinished_entries_are_opened_by_name_or_by_its_end(store: Store) -> None:
    begun(store.home, "20260101-abc")
    written(store.home, "done")
    assert unfinished_ids(store.home, RUN) == ["20260101-abc"]
    assert Staging.open(store.home, RUN, "20260101-abc").id == Staging.open(store.home, RUN, "abc").id == "20260101-abc"
    with pytest.raises(RunError, match=r"done is finished\. There is nothing to resume"):
        Staging.open(store.home, RUN, "done")
    for wrong in ("", "x", "../done", "a\n"):
        with pytest.raises(RunError, match="no unfinished run_id is named"):
            Staging.open(store.home, RUN, wrong)


# --- locks --------------------------------------------------------------------------------------------------------


def test_one_process_a_rank(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_module, "LOCK_TRIES", 2)
    first = begun(store.home)
    second = Staging.open(store.home, RUN, "one")
    states = [second.is_being_written]
    first.lock()
    first.lock()
    states.append(second.is_being_written)
    with pytest.raises(RunError, match=r"one is being written by another process\. Wait for it, or stop it"):
        second.lock()
    second.lock(1)
    second.release()
    first.release()
    states.append(second.is_being_written)
    assert states == [False, True, False]
    second.lock()
    second.release()


def test_a_look_at_the_lock_does_not_keep_a_writer_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: whoever looked whether a run is being written held its lock for a moment, and the writer gave up."""
    flock, looking = fcntl.flock, iter([True, True])

    def busy_for_a_moment(number: int, operation: int) -> None:
        if next(looking, False):
            raise BlockingIOError(errno.EWOULDBLOCK, "busy")
        flock(number, operation)

    monkeypatch.setattr(fcntl, "flock", busy_for_a_moment)
    monkeypatch.setattr(staging_module, "LOCK_PAUSE_S", 0)
    staging = begun(store.home)
    staging.lock()
    assert staging.is_being_written
    staging.release()


# --- damage to what is being written ------------------------------------------------------------------------------


def bad_groups() -> dict[str, Any]:
    def changed(**more: Any) -> dict[str, Any]:
        return {"members": [0], "tables": {}, "sums": {}, **more}

    part = {"file": "samples-0000-00000.parquet", "rows": 1, "bytes": 1, "sha256": ""}
    return {
        "no JSON": "{",
        "list": [],
        "empty": {},
        "members": changed(members="ab"),
        "member": changed(members=[0, "1"]),
        "members null": changed(members=None),
        "sums": changed(sums=[1]),
        "sum": changed(sums={"samples": "4"}),
        "sum NaN": changed(sums={"samples": float("nan")}),
        "tables": changed(tables=[]),
        "part": changed(tables={"samples": []}),
        "part file": changed(tables={"samples": {**part, "file": []}}),
        "part size": changed(tables={"samples": part}),
        "part gone": changed(tables={"samples": {**part, "file": "gone.parquet"}}),
        "deep": "[" * 100_000,
    }


@pytest.mark.parametrize("case", bad_groups())
def test_a_damaged_group_does_not_count(store: Store, case: str) -> None:
    staging = begun(store.home)
    add(staging, range(2))
    add(staging, range(2, 4))
    document = bad_groups()[case]
    text = document if isinstance(document, str) else json.dumps(document)
    (staged(store) / "group-0000-00000.json").write_text(text)
    assert [group.members for group in staging.groups()] == [(2, 3)]
    add(staging, range(2), number=0)
    assert published(staging).row["samples"] == 4
    assert_whole(store)


def test_a_group_whose_file_is_cut_does_not_count(store: Store) -> None:
    staging = begun(store.home)
    add(staging, range(2))
    os.truncate(staged(store) / "samples-0000-00000.parquet", 50)
    assert staging.groups() == []


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 99}', '{"a": NaN}', "[" * 100_000, '{"schema": 1, "row": 5}'])
def test_a_run_whose_beginning_is_damaged_is_not_gone_on_with(store: Store, text: str) -> None:
    begun(store.home)
    (staged(store) / "run.json").write_text(text)
    with pytest.raises(StoreError, match=r"run\.json"):
        Staging.open(store.home, RUN, "one")


def test_foreign_things_in_the_staging_folder_harm_nobody(store: Store) -> None:
    staging = begun(store.home)
    aside = staged(store).parent
    (aside / "file").touch()
    (aside / "a b").mkdir()
    (aside / "empty").mkdir()
    (aside / "loop").symlink_to("loop")
    os.mkfifo(aside / "pipe")
    (staged(store) / "group-x.json").write_text("{}")
    (staged(store) / "group-0000-00007.json").mkdir()
    sweep(store.home, RUN)
    assert unfinished_ids(store.home, RUN) == ["one"]
    add(staging, range(4))
    published(staging)
    assert_whole(store)


# --- sweeping -----------------------------------------------------------------------------------------------------


def test_what_dead_processes_left_is_swept(store: Store) -> None:
    """Staging of a run that is shown, and half-removed folders; never what may still be written."""
    begun(store.home, "unfinished")
    written(store.home, "shown")
    aside = staged(store).parent
    shutil.copytree(aside / "unfinished", aside / "shown")
    (aside / "_removed-01234567").mkdir()
    (aside / "_removed-01234567" / "run.json").touch()
    sweep(store.home, RUN)
    assert sorted(path.name for path in aside.iterdir()) == ["unfinished"]
    assert unfinished_ids(store.home, RUN) == ["unfinished"]


def test_what_never_got_its_sheet_is_swept_after_a_day(store: Store) -> None:
    for name, age_s in (("old", 25 * 3600), ("new", 3600)):
        store.home.write(f"staging/{name}/molecules.parquet", b"x")
        at = time.time() - age_s
        os.utime(staged(store, name), (at, at))
    begun(store.home, "one")
    os.utime(staged(store), (0, 0))
    sweep(store.home, RUN)
    assert sorted(store.home.folders("staging")) == ["new", "one"]


def test_a_sweep_of_another_process_is_in_nobodys_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: what the other one had removed already failed the run that had just been shown."""
    publish = Files.publish

    def then_swept(self: Files, aside: str, name: str) -> None:
        publish(self, aside, name)
        sweep(store.home, RUN)

    monkeypatch.setattr(Files, "publish", then_swept)
    written(store.home)
    assert_whole(store)


# --- rows that do not fit -----------------------------------------------------------------------------------------


def test_a_row_without_its_key_is_not_written(store: Store) -> None:
    staging = begun(store.home)
    with pytest.raises(pa.ArrowException, match="run_id"):
        staging.add({SAMPLES.name: SAMPLES.rows([{"sample_id": 1}])}, [1])
    assert staging.groups() == []


def test_a_run_says_which_schema_it_was_written_with(store: Store) -> None:
    written(store.home)
    document = json.loads(stored_runs.sheet_of(store).read_text())
    assert document["schema"] == VERSION
    assert document["kind"] == "runs"
    assert {"file", "rows", "bytes", "sha256"} == set(document["tables"]["samples"])
