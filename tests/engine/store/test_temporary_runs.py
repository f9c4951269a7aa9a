"""Runs that nobody has kept: shown beside the store, kept under their name, and not for ever."""

from __future__ import annotations

import contextlib
import errno
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import StoreError
from engine.store import store as store_module
from engine.store.files import Files
from engine.store.store import Store, damaged_parts, is_temporary, keep, temporary_files, trim, with_temporary
from tests.engine.store.faults import Fault, raising
from tests.engine.store.stored_runs import written
from tests.support import ROOT


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    files = Files(tmp_path / "temporary")
    monkeypatch.setattr(store_module, "_temporary_files", lambda: files)
    return files


def test_it_is_shown_beside_the_store_and_cannot_be_changed(place: Files, tmp_path: Path) -> None:
    written(place, "live", steps=True)
    store = with_temporary(Store(Files(tmp_path / "store")))
    assert [entry.id for entry in store.found().entries] == ["live"]
    assert is_temporary(store.entry("live"))
    with pytest.raises(StoreError, match="which is read-only"):
        store.annotate("live", label="mine")


def test_what_is_kept_is_the_same_run_in_the_users_store(place: Files, tmp_path: Path) -> None:
    written(place, "live", steps=True)
    home = Files(tmp_path / "store")
    entry = keep(with_temporary(Store(home)).entry("live"), home, "mine")
    before, after = Store(place), Store(home)
    assert (entry.id, entry.row["label"]) == ("live", "mine")
    assert damaged_parts(entry) == []
    for table in ("samples", "blocks", "steps"):
        assert after.rows(f"SELECT * FROM {table}") == before.rows(f"SELECT * FROM {table}") != []
    assert {**after.entry("live").row, "label": None} == {**before.entry("live").row, "label": None}
    assert not is_temporary(with_temporary(after).entry("live"))  # the kept one is found first


def test_keeping_twice_says_so_and_leaves_the_first(place: Files, tmp_path: Path) -> None:
    written(place, "live")
    home = Files(tmp_path / "store")
    entry = Store(place).entry("live")
    keep(entry, home)
    with pytest.raises(StoreError, match="live is there already"):
        keep(entry, home)
    assert [one.id for one in Store(home).found().entries] == ["live"]
    assert home.folders("staging") == []


def test_a_full_disk_at_any_call_leaves_no_part_of_what_is_kept(place: Files, tmp_path: Path) -> None:
    entry = written(place, "live", steps=True)
    for turn in range(0, 1_000, 8):  # one of them leaves the sheet of a run, and nothing else
        home = Files(tmp_path / str(turn))
        fault = Fault(raising(OSError(errno.ENOSPC, "No space left on device")), turn)
        with fault.armed(), contextlib.suppress(StoreError):
            keep(entry, home)
        found = Store(home).found()
        assert not found.damages and not any(damaged_parts(kept) for kept in found.entries)
        if not fault.is_over:
            break
        if not found.entries:
            keep(entry, home)
        assert [kept.id for kept in Store(home).found().entries] == ["live"], "once there is room, it goes"
    assert turn > 20


def test_a_run_that_is_gone_is_said_to_be(place: Files, tmp_path: Path) -> None:
    written(place, "live")
    entry = Store(place).entry("live")
    place.remove(entry.folder)
    with pytest.raises(StoreError, match=r"^live is gone\. Generate it again"):
        keep(entry, Files(tmp_path / "store"))
    assert Files(tmp_path / "store").folders("staging") == []


def test_the_oldest_go_first(place: Files) -> None:
    for name in ("20260101-a", "20260103-c", "20260102-b"):
        written(place, name)
    trim(place, 2)
    assert {entry.id for entry in Store(place).found().entries} == {"20260103-c", "20260102-b"}


def test_the_place_goes_with_its_process() -> None:
    script = "from engine.store.store import temporary_files as f; f().write('a/b', b'c'); print(f().where)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() and not Path(done.stdout.strip()).exists()
    assert str(temporary_files().where) != done.stdout.strip()
