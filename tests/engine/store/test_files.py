"""Files in a folder: each whole or not at all, written through to the disk, and told of when they cannot be."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StoreError
from engine.store.files import ASIDE, Files, alone


def failing(number: int) -> Callable[..., Any]:
    def fail(*given: Any, **more: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def everything(root: Path) -> list[str]:
    """All names under a folder, the hidden ones too."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_files_are_written_anew_and_removed(tmp_path: Path) -> None:
    files = Files(tmp_path / "not" / "yet")
    assert (files.folders("runs"), files.sizes("runs")) == ([], {})
    files.write("runs/b.json", b"first")
    files.write("runs/b.json", b"second")
    files.write("runs/run_id=x/deep/run.json", b"")
    (files.root / ".git").mkdir()
    assert (files.read("runs/b.json"), files.sizes("runs")) == (b"second", {"b.json": 6})
    assert (files.folders(""), files.folders("runs")) == (["runs"], ["run_id=x"])
    for name in ("runs/run_id=x", "runs/b.json", "runs/b.json"):
        files.remove(name)
    assert everything(files.root) == [".git", "runs", ASIDE]
    with pytest.raises(FileNotFoundError):
        files.read("runs/b.json")


def test_what_is_neither_file_nor_folder_counts_as_a_folder_that_does_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").touch()
    files = Files(tmp_path)
    assert (files.folders(""), files.sizes("")) == (["dangling", "loop", "pipe"], {"file": 0})
    for name in ("pipe", "loop"):
        with pytest.raises(StoreError, match=name):
            files.sizes(name)
    with pytest.raises(OSError, match="no plain file"):
        files.read("pipe")
    with pytest.raises(StoreError, match=r"cannot be read as a folder: Not a directory\. "):
        files.folders("file")
    with pytest.raises(StoreError, match=r"cannot be written: (Not a directory|File exists)"):
        files.write("file/x/run.json", b"")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not tell which file is written through")
def test_the_order_in_which_things_reach_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contents before the name, the name before anybody is told; a folder's files before the folder appears."""
    seen: list[str] = []

    def noted(name: str, subject: Callable[..., str]) -> None:
        call = getattr(os, name)

        def noting(*given: Any) -> None:
            seen.append(f"{name} {subject(*given)}")
            call(*given)

        monkeypatch.setattr(os, name, noting)

    noted("fsync", lambda number: str(Path(f"/proc/self/fd/{number}").readlink().relative_to(tmp_path)))
    noted("replace", lambda aside, path: Path(path).name)
    noted("rename", lambda aside, path: Path(path).name)
    files = Files(tmp_path)
    files.write("staging/x/run.json", b"{}")
    first, *rest = seen
    assert first.startswith("fsync staging/x/.")
    assert rest == ["replace run.json", "fsync staging/x"]
    seen.clear()
    files.publish("staging/x", "runs/run_id=x")
    assert seen == ["fsync staging/x", "rename run_id=x", "fsync runs"]


@pytest.mark.parametrize("call", ["fsync", "replace", "mkdir"])
def test_a_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The old content stays, nothing else does, and the message has the place and a remedy."""
    files = Files(tmp_path)
    files.write("runs/a.json", b"old")
    monkeypatch.setattr(os, call, failing(errno.ENOSPC))
    name = "runs/a.json" if call != "mkdir" else "other/a.json"
    message = rf"{name}' cannot be written: No space left on device\. Make room there, .* choose .* --store"
    with pytest.raises(StoreError, match=message):
        files.write(name, b"new")
    assert (files.read("runs/a.json"), everything(tmp_path)) == (b"old", ["runs", "runs/a.json"])


def test_a_disk_that_cannot_sync_a_folder_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: a run on a shared disk ended at its first file."""
    fsync = os.fsync

    def of_files_alone(number: int) -> None:
        if stat.S_ISDIR(os.fstat(number).st_mode):
            failing(errno.EINVAL)()
        fsync(number)

    monkeypatch.setattr(os, "fsync", of_files_alone)
    files = Files(tmp_path)
    files.write("staging/x/run.json", b"{}")
    files.publish("staging/x", "runs/run_id=x")
    assert files.read("runs/run_id=x/run.json") == b"{}"


def is_locked(folder: Path) -> bool:
    number = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(number)
    return False


@pytest.mark.parametrize("folder", ["", "runs", "runs/run_id=x"])
def test_who_is_alone_in_a_folder_holds_up_nobody_beside_it(tmp_path: Path, folder: str) -> None:
    """The bug: the folder above was locked, so writers of different runs waited for each other, and for a store in
    which a query was saved all that is in the folder that it is in."""
    files = Files(tmp_path / "store")
    files.write("runs/run_id=x/run.json", b"")
    files.write("runs/run_id=y/run.json", b"")
    own = files.root / folder
    with alone(files, folder):
        assert [path for path in (tmp_path, *tmp_path.rglob("*")) if path.is_dir() and is_locked(path)] == [own]
    assert not is_locked(own)
    with pytest.raises(StoreError, match="run_id=z"), alone(files, "runs/run_id=z"):
        pass


def test_a_link_is_removed_and_not_what_it_points_to(tmp_path: Path) -> None:
    files = Files(tmp_path / "store")
    for folder in (tmp_path / "elsewhere", files.root / "runs"):
        folder.mkdir(parents=True)
    (tmp_path / "elsewhere" / "mine").touch()
    for name, target in {"a": str(tmp_path / "elsewhere"), "b": "b", "c": "nowhere"}.items():
        (files.root / "runs" / name).symlink_to(target)
        files.remove(f"runs/{name}")
    assert everything(tmp_path) == ["elsewhere", "elsewhere/mine", "store", "store/runs", f"store/{ASIDE}"]


def test_a_folder_is_out_of_sight_before_its_first_file_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path)
    for name in "ab":
        files.write(f"runs/run_id=x/{name}", b"")
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", failing(errno.ENOENT))
        files.remove("runs/run_id=x")  # another process took it away first
    unlink, allowed = os.unlink, iter([True])

    def once(path: Any, **more: Any) -> None:
        assert files.folders("runs") == []
        if not next(allowed, False):
            failing(errno.EIO)()
        unlink(path, **more)

    monkeypatch.setattr(os, "unlink", once)
    with pytest.raises(StoreError, match=r"x' cannot be removed \(Input/output error\): some of it is removed"):
        files.remove("runs/run_id=x")
    (hidden,) = files.folders(ASIDE)
    assert files.folders("runs") == [] and hidden.startswith("_removed-")
    monkeypatch.undo()
    files.remove(f"{ASIDE}/{hidden}")
    assert everything(tmp_path) == ["runs", ASIDE]


def test_a_folder_that_the_disk_does_not_let_go_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug: a run that could not be removed was hidden all the same."""
    files = Files(tmp_path)
    for name in "ab":
        files.write(f"runs/run_id=x/{name}", b"")
    monkeypatch.setattr(os, "unlink", failing(errno.EPERM))
    with pytest.raises(StoreError, match=r"x' cannot be removed \(Operation not permitted\): it is kept\. Make room"):
        files.remove("runs/run_id=x")
    assert (files.folders("runs"), files.sizes("runs/run_id=x")) == (["run_id=x"], {"a": 0, "b": 0})


def test_two_processes_remove_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds a file gone that he was about to remove goes on with the next; the bug left the folder there."""
    files = Files(tmp_path)
    for name in "abc":
        files.write(f"runs/run_id=x/{name}", b"")
    unlink, others = os.unlink, iter([True, False, True])

    def after_another(path: Any, **more: Any) -> None:
        if next(others, False):
            unlink(path, **more)
        unlink(path, **more)

    monkeypatch.setattr(os, "unlink", after_another)
    files.remove("runs/run_id=x")
    assert everything(tmp_path) == ["runs", ASIDE]
