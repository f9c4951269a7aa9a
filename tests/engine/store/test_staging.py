"""Writing an entry: by several writers, merged and shown in one step, rewritten, swept; whatever fails or is killed
meanwhile, it is there whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import DriftscopeError, RunError, StoreError
from engine.records import FailedCheck, MoleculeVerdict
from engine.store import staging as staging_module
from engine.store.columns import MOMENT, SMALL, TEXT, TYPES, VERSION, Column, Table
from engine.store.files import Files
from engine.store.sample_rows import run_columns, verdict_row, verdict_sums
from engine.store.schema import RUN, SAMPLES, STEPS
from engine.store.staging import (
    Group,
    Staging,
    Unfinished,
    abandon,
    check_idle,
    rewrite_run,
    sweep,
    totals,
    unfinished_ids,
    unfinished_runs,
    write_entry,
)
from engine.store.store import Store, damaged_parts, keep
from tests.engine.store import stored_runs
from tests.engine.store.crowd import lasting
from tests.engine.store.faults import Fault, raising
from tests.engine.store.stored_runs import (
    MADE_AT,
    add,
    assert_whole,
    begun,
    published,
    sheet_of,
    staged,
    store_at,
    written,
)
from tests.support import ROOT, sized


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path)


# --- from the first group to the store ----------------------------------------------------------------------------


def test_groups_are_added_up_and_merged_in_the_order_of_their_samples(store: Store) -> None:
    staging = begun(store.home, "one", 6, label="first")
    add(staging, [4, 2])
    add(staging, [0, 5], steps=True)
    add(staging, [3, 1], steps=True)
    assert store.listing().entries == ()
    entry = published(staging, lp="truncating")
    assert store.entry("one") == entry
    row = entry.row
    assert (row["label"], row["lp"], row["origin"]) == ("first", "truncating", "measured")
    assert (row["samples"], row["passes"], row["blocks"], row["decode_s"]) == (6, 3, 18, 1.5)
    assert row["peak_memory_mb"] == 7.5
    assert entry.read("samples")["sample_id"].to_pylist() == list(range(6))
    assert [(block["sample_id"], block["block"]) for block in entry.read("blocks").to_pylist()] == [
        (sample, block) for sample in range(6) for block in range(3)
    ]
    assert entry.read("steps")["sample_id"].to_pylist() == [0, 3] and entry.read("steps").schema.equals(STEPS.schema)
    assert not staged(store).exists()
    sheet = json.loads(sheet_of(store).read_text())
    assert (sheet["schema"], sheet["kind"]) == (VERSION, "runs")
    assert {"file", "rows", "bytes", "sha256"} == set(sheet["tables"]["samples"])
    assert_whole(store)


def test_what_is_said_at_the_start_stays_in_the_sheet(store: Store) -> None:
    staging = Staging.create(store.home, RUN, "one", {"origin": "measured"}, plan={"seed": 5})
    assert Staging.open(store.home, RUN, "one").sheet == staging.sheet
    entry = staging.publish({"samples": 0}, more={"a": 1})
    assert (entry.sheet["plan"], entry.parts) == ({"seed": 5}, {})
    assert store.entry("one").sheet == entry.sheet and entry.sheet["more"] == {"a": 1}
    assert store.rows("SELECT count(*) AS n FROM samples") == [{"n": 0}]


def test_what_is_sorted_keeps_null_lists_moments_and_the_order_of_equal_keys(store: Store) -> None:
    kinds = {"key": TEXT, "at": SMALL, "some": TYPES["reals"], "when": MOMENT}
    table = Table("keyed", tuple(Column(name, kind, "") for name, kind in kinds.items()), order=("key",))
    moment = datetime(2026, 7, 1, 12, tzinfo=UTC)
    given = [
        {"key": key, "at": at, "some": [at, None] if at % 2 else None, "when": moment if at % 3 else None}
        for at, key in enumerate(["b", None, "a", "Z", "b", "a", None])
    ]
    entry = write_entry(
        store.home,
        replace(RUN, tables=(table,)),
        "one",
        {"origin": "measured"},
        [{"keyed": table.rows(given[:4]).drop_columns("when")}, {"keyed": table.rows(given[4:])}],
    )
    expected = [given[at] | ({"when": None} if at < 4 else {}) for at in (3, 2, 5, 0, 4, 1, 6)]
    assert entry.read("keyed").equals(table.rows(expected)), "of the first group's form the column is null"


def test_sums_add_up_and_peaks_are_the_highest(store: Store) -> None:
    staging = begun(store.home)
    staging.add({}, [0], sums={"samples": 1, "wall_s": 0.5, "peak_memory_mb": 9.0})
    staging.add({}, [1], sums={"samples": 2, "tokens": 7, "peak_memory_mb": 3.0})
    staging.add({}, [2])
    assert totals(staging.groups()) == {"samples": 3, "wall_s": 0.5, "tokens": 7, "peak_memory_mb": 9.0}
    assert totals([]) == {}


def test_what_the_groups_of_an_earlier_version_did_not_count_is_unknown() -> None:
    """The bug: they counted as zero, so that fewer samples decoded than were clean."""
    now: dict[str, int | float] = {
        "samples": 4,
        "clean": 4,
        "decodes": 4,
        "misread_blocks": 1,
        "misread_most_ang": 2.5,
        "rmsd_samples": 3,
    }
    former: dict[str, int | float] = {"samples": 2, "clean": 2}
    assert totals([Group("0", (), {}, former), Group("1", (), {}, now)]) == {
        "samples": 6,
        "clean": 6,
        "rmsd_samples": 3,
    }


def test_a_row_without_its_key_is_not_written(store: Store) -> None:
    staging = begun(store.home)
    with pytest.raises(pa.ArrowException, match="run_id"):
        staging.add({SAMPLES.name: SAMPLES.rows([{"sample_id": 1}])}, [1])
    assert staging.groups() == []


# --- several writers ----------------------------------------------------------------------------------------------


def test_a_group_that_is_there_twice_counts_once(store: Store) -> None:
    """A writer that was given up and lived, beside the one that took its place."""
    staging = begun(store.home)
    add(staging, range(2), rank=5, number=0)
    add(staging, range(2, 4), rank=5, number=1)
    add(staging, range(2), rank=131510436879081, number=0)  # of an actor, whose rank is a long one
    add(staging, range(2), rank=5, number=0)  # the same rank's is the same file
    assert [group.name for group in staging.groups()] == ["0005-00000", "0005-00001"]
    entry = published(staging)
    assert (entry.row["samples"], entry.row["tokens"], entry.parts["blocks"].rows) == (4, 8, 12)


def test_notes_of_several_writers_are_kept_each_once(store: Store) -> None:
    staging, together = begun(store.home), Barrier(8)
    assert staging.notes() == {}

    def write(rank: int) -> None:
        together.wait()
        staging.write_note(rank, notes=[f"of {rank}", "slow"], resumed=[{"checked": rank % 2}])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    notes = Staging.open(store.home, RUN, "one").notes()
    assert sorted(notes["notes"]) == [*(f"of {rank}" for rank in range(8)), "slow"]
    assert notes["resumed"] == [{"checked": 0}, {"checked": 1}] and staging.groups() == []


def no_locks(number: int, how: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.mark.parametrize("has_locks", [True, False])
def test_one_of_those_who_publish_at_once_comes_through(
    store: Store, monkeypatch: pytest.MonkeyPatch, has_locks: bool
) -> None:
    if not has_locks:
        monkeypatch.setattr(fcntl, "flock", no_locks)
    together = Barrier(6)
    staging = begun(store.home)
    staging.lock()
    assert staging.is_being_written is has_locks
    add(staging, range(4))
    staging.release()

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
    assert_whole(store)


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


# --- names --------------------------------------------------------------------------------------------------------


def test_a_name_is_given_once(store: Store) -> None:
    staging = begun(store.home)
    with pytest.raises(StoreError, match=r"^one is there already\. Choose another name$"):
        begun(store.home)
    add(staging, range(2))
    other = written(store_at(Path(store.home.where) / "other").home, "one", 4)
    shutil.move(Path(other.path("samples")).parents[1], Path(store.home.where) / "runs")
    for taken in (lambda: published(staging), lambda: begun(store.home)):
        with pytest.raises(StoreError, match="one is there already"):
            taken()
    assert store.entry("one").row["samples"] == 4 and len(staging.groups()) == 1
    assert_whole(store)


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


def test_how_far_each_is_and_whether_it_can_go_on(store: Store) -> None:
    files = store.home
    row = {"created_at": MADE_AT, "origin": "measured", "lp": "none"}
    planned = Staging.create(files, RUN, "planned", row, plan={}, samples=10)
    add(planned, range(4))
    add(begun(files, "import", 3), [0])
    begun(files, "torn")
    (staged(store, "torn") / "run.json").write_text("{")
    planned.lock()
    runs = {run.run_id: run for run in unfinished_runs(files)}
    expected = Unfinished("planned", "being written", 4, 10, {**row, "run_id": "planned"}, can_resume=True)
    assert runs["planned"] == expected
    assert (runs["import"].state, runs["import"].samples_done, runs["import"].can_resume) == ("stopped", 1, False)
    assert runs["torn"] == Unfinished("torn", "damaged", None, None, {}, can_resume=False)
    for refuse in (check_idle, abandon):
        with pytest.raises(RunError, match="planned is being written by another process"):
            refuse(files, "planned")
    planned.release()
    published(planned)
    abandon(files, "torn")
    for name in ("planned", "../runs", "nothing"):
        with pytest.raises(RunError, match="is not unfinished any more"):
            abandon(files, name)
    assert (files.folders("runs"), unfinished_ids(files, RUN)) == (["run_id=planned"], ["import"])


# --- damage to what is being written ------------------------------------------------------------------------------

PART = {"file": "samples-0000-00000.parquet", "rows": 1, "bytes": 1, "sha256": ""}
BAD_GROUPS: dict[str, Any] = {
    "no JSON": "{",
    "member": {"members": [0, "1"], "tables": {}, "sums": {}},
    "sum NaN": {"members": [0], "tables": {}, "sums": {"samples": float("nan")}},
    "part size": {"members": [0], "tables": {"samples": PART}, "sums": {}},
    "part gone": {"members": [0], "tables": {"samples": {**PART, "file": "gone.parquet"}}, "sums": {}},
}


@pytest.mark.parametrize("case", BAD_GROUPS)
def test_a_damaged_group_does_not_count(store: Store, case: str) -> None:
    staging = begun(store.home)
    add(staging, range(2))
    add(staging, range(2, 4))
    text = BAD_GROUPS[case] if isinstance(BAD_GROUPS[case], str) else json.dumps(BAD_GROUPS[case])
    (staged(store) / "group-0000-00000.json").write_text(text)
    assert [group.members for group in staging.groups()] == [(2, 3)]
    add(staging, range(2), number=0)
    assert published(staging).row["samples"] == 4
    assert_whole(store)


def test_a_group_with_a_flipped_byte_is_named_when_it_is_merged(store: Store) -> None:
    staging = begun(store.home)
    add(staging, range(4))
    path = staged(store) / "blocks-0000-00000.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        StoreError, match=r"blocks-0000-00000\.parquet is damaged\. Use --resume, which writes it again"
    ):
        published(staging)
    path.unlink()
    assert staging.groups() == []
    add(staging, range(4), rank=1)
    published(staging)
    assert_whole(store)


def test_what_cannot_be_merged_leaves_the_groups_as_they_were(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = begun(store.home)
    add(staging, [1, 0])
    with monkeypatch.context() as patch:
        patch.setattr(staging_module, "SORT_MEMORY", "1KB")
        with pytest.raises(StoreError, match=r"the parts of one cannot be merged: .*Make room in .*, or shorten"):
            published(staging)
    assert store.home.folders("staging/one") == []
    published(staging)
    assert_whole(store)


@pytest.mark.parametrize("text", ["{", '{"schema": 99}', '{"schema": 1, "row": 5}'])
def test_a_run_whose_beginning_is_damaged_is_not_gone_on_with(store: Store, text: str) -> None:
    begun(store.home)
    (staged(store) / "run.json").write_text(text)
    with pytest.raises(StoreError, match=r"run\.json"):
        Staging.open(store.home, RUN, "one")


# --- sweeping -----------------------------------------------------------------------------------------------------


def test_what_dead_processes_left_is_swept(store: Store) -> None:
    """Of a run that is shown, half-removed folders, what got no sheet in a day; never what may still be written."""
    staging = begun(store.home, "unfinished")
    written(store.home, "shown")
    aside = staged(store).parent
    shutil.copytree(aside / "unfinished", aside / "shown")
    (aside / "_removed-01234567").mkdir()
    (aside / "file").touch()
    (aside / "a b").mkdir()
    (aside / "loop").symlink_to("loop")
    os.mkfifo(aside / "pipe")
    (aside / "unfinished" / "group-x.json").write_text("{}")
    (aside / "unfinished" / "group-0000-00007.json").mkdir()
    for name, age_s in (("old", 25 * 3600), ("new", 3600)):
        store.home.write(f"staging/{name}/molecules.parquet", b"x")
        at = time.time() - age_s
        os.utime(staged(store, name), (at, at))
    os.utime(staged(store, "unfinished"), (0, 0))
    sweep(store.home, RUN)
    assert sorted(path.name for path in aside.iterdir()) == ["a b", "file", "loop", "new", "pipe", "unfinished"]
    assert unfinished_ids(store.home, RUN) == ["unfinished"]
    add(staging, range(4))
    published(staging)
    assert_whole(store)


def test_a_sweep_of_another_process_is_in_nobodys_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: what the other one had removed already failed the run that had just been shown."""
    publish = Files.publish

    def then_swept(self: Files, aside: str, name: str) -> None:
        publish(self, aside, name)
        sweep(store.home, RUN)

    monkeypatch.setattr(Files, "publish", then_swept)
    written(store.home)
    assert_whole(store)


# --- better rows --------------------------------------------------------------------------------------------------

RIGHT = MoleculeVerdict(2, 2, True, True, ())
WRONG = MoleculeVerdict(
    3, 2, False, True, (FailedCheck("stereo", (4,), "mirrored"),), strain_kcal=5.0, strain_field="MMFF94"
)
CRUSHED = MoleculeVerdict(0, 0, None, False, (FailedCheck("bond_lengths", (0, 1), "0.2 Å"),), strain_kcal=900.0)
UNKNOWN = MoleculeVerdict(0, 0, None, None, ())


def judged(store: Store, *verdicts: MoleculeVerdict) -> None:
    entry = store.entry("one")
    rows = entry.read("samples").to_pylist()
    for row, verdict in zip(rows, verdicts, strict=False):
        row |= verdict_row(row["clean"], verdict)
    rewrite_run(entry, {SAMPLES.name: SAMPLES.rows(rows)}, run_columns(verdict_sums(rows)))


@pytest.mark.parametrize("version", [1, VERSION])
def test_verdicts_are_there_and_the_rest_is_as_it_was(store: Store, version: int) -> None:
    before = written(store.home)
    sheet_of(store).write_text(json.dumps({**json.loads(sheet_of(store).read_text()), "schema": version}))
    judged(store, RIGHT, WRONG, UNKNOWN, CRUSHED)
    after = store.snapshot().entry("one")
    row = after.row
    assert (row["judged"], row["stereo_judged"], row["stereo_right"]) == (4, 2, 1)
    assert (row["stereo_sites"], row["stereo_sites_right"]) == (5, 4)
    assert (row["geometry_judged"], row["geometry_right"]) == (3, 2)
    assert (row["strain_kcal"], row["strain_samples"]) == (5.0, 1), "of right geometry alone"
    assert {key: row[key] for key in before.row} == dict(before.row)
    assert (after.version, after.parts["blocks"] == before.parts["blocks"]) == (VERSION, version == VERSION)
    assert after.key != before.key, "what was computed of the old rows is not taken for the new ones"
    samples = store.rows("SELECT stereo_right, failed[1].check AS failed FROM samples ORDER BY sample_id")
    assert [(row["stereo_right"], row["failed"]) for row in samples] == [
        (True, None),
        (False, "stereo"),
        (None, None),
        (None, "bond_lengths"),
    ]
    assert_whole(store)


def test_of_two_who_judge_at_once_the_second_is_told(store: Store) -> None:
    entry = written(store.home)
    judged(store, RIGHT)
    with pytest.raises(StoreError, match="changed by another process"):
        rewrite_run(entry, {SAMPLES.name: store.entry("one").read("samples")}, {})
    assert_whole(store)


def publish(store: Store) -> bool:
    if not store.has("new"):
        published(Staging.open(store.home, RUN, "new"))
    return store.entry("new").row["samples"] == 4


def group(store: Store) -> bool:
    staging = Staging.open(store.home, RUN, "new")
    assert [group.members for group in staging.groups()][:2] == [(0, 1), (2, 3)]
    add(staging, range(4, 6), steps=True, number=2)
    return len(staging.groups()) == 3


def rewrite(store: Store) -> bool:
    entry = store.entry("old")
    rewrite_run(entry, {"samples": entry.read("samples")}, {"judged": 4})
    return store.entry("old").row["judged"] == 4


def keep_elsewhere(store: Store) -> bool:
    other = store_at(Path(store.home.where) / "other")
    if not other.has("old"):
        keep(store.entry("old"), other.home)
    assert_whole(other)
    return stored_runs.ids(other) == ["old"]


def met(work: Callable[[Store], bool], store: Store) -> BaseException | None:
    try:
        work(store)
    except (DriftscopeError, KeyboardInterrupt) as error:
        return error
    return None


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=type)
@pytest.mark.parametrize("work", [publish, group, rewrite, keep_elsewhere])
def test_whatever_fails_it_is_there_whole_or_not_at_all(
    tmp_path: Path, work: Callable[[Store], bool], error: BaseException
) -> None:
    """The fault comes at the calls of the system in turn; afterwards the same work comes to its end."""
    template = tmp_path / "template"
    staging = begun(Files(template), "new")
    add(staging, range(2), steps=True)
    add(staging, range(2, 4))
    written(Files(template), "old", steps=True)
    failed = 0
    for turn in itertools.count(step=2 if work is publish else 4):
        store = store_at(shutil.copytree(template, tmp_path / str(turn)))
        fault = Fault(raising(error), turn)
        with fault.armed():
            said = met(work, store)
        failed += said is not None
        assert said is None or type(said) is (StoreError if isinstance(error, OSError) else KeyboardInterrupt)
        assert said is None or isinstance(error, KeyboardInterrupt) or "Make room " in str(said)
        assert stored_runs.named(store) == {}
        assert store.rows("SELECT count(text) AS n FROM samples WHERE run_id = 'old'") == [{"n": 4}]
        assert work(store)
        assert_whole(store)
        if not fault.is_over:
            break
        shutil.rmtree(store.home.where)
    assert failed > 2 and turn > 6


# --- processes ----------------------------------------------------------------------------------------------------

STRIDE = sized(9, 1)
"""From one call at which a writer is killed to the next."""
WRITERS, READERS, RUNS = sized(4, 20), sized(2, 4), sized(6, 32)


def process(module: str, *arguments: object) -> str:
    command = [sys.executable, "-m", f"tests.engine.store.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.soak
def test_a_writer_that_is_killed_at_any_call_leaves_no_half_run(tmp_path: Path) -> None:
    """Signal 9 before the calls of the system by which a run is written, another removed, a third one annotated."""
    process("killed", tmp_path, STRIDE)
    folders = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    assert len(folders) > 60 // STRIDE
    states = []
    for folder in folders:
        store = store_at(folder)
        assert_whole(store)
        states.append(tuple(stored_runs.ids(store)))
        sweep(store.home, RUN)
        for run_id in unfinished_ids(store.home, RUN):
            staging = Staging.open(store.home, RUN, run_id)
            add(staging, set(range(4)).difference(*(group.members for group in staging.groups())))
            assert published(staging).row["samples"] == 4
        assert_whole(store)
        assert not set(store.home.folders("staging")) - {"new"}
    assert list(dict.fromkeys(states)) == [("kept", "old"), ("kept", "new", "old"), ("kept", "new")]
    assert [store_at(folder).entry("kept").row.get("label") for folder in (folders[0], folders[-1])] == [None, "said"]


@pytest.mark.soak
def test_processes_write_while_others_read(tmp_path: Path) -> None:
    """A reader sees a run whole or not at all, whatever is shown, annotated, swept or removed beside it."""
    met = json.loads(process("crowd", tmp_path, WRITERS, READERS, RUNS))
    assert len(met) == READERS
    assert all(reader["looks"] >= 2 and reader["rows"] >= len(lasting(WRITERS, RUNS)) for reader in met)
    listing = store_at(tmp_path / "store").listing()
    assert listing.damages == ()
    assert {entry.id: entry.row["samples"] for entry in listing.entries} == lasting(WRITERS, RUNS)
    assert not any(damaged_parts(entry) for entry in listing.entries)
    assert {entry.row["label"] for entry in listing.entries} == {f"of {writer}" for writer in range(WRITERS)}
    assert list((tmp_path / "store" / "staging").iterdir()) == []
