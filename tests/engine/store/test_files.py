"""Files in a folder: each whole or not at all, written through to the disk, and told of when they cannot be."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StoreError
from engine.store.files import ASIDE, Files

BAD_PLACES = [
    (errno.ENOSPC, "No space left on device. Make room there, check its rights, or choose another place with --store"),
    (errno.EACCES, "Permission denied. Make room there"),
    (errno.EIO, "Input/output error. Make room there"),
]


def failing(number: int) -> Callable[..., Any]:
    def fail(*given: Any, **more: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def everything(root: Path) -> list[str]:
    """All names under a folder, the hidden ones too."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_a_file_is_written_and_written_anew(tmp_path: Path) -> None:
    files = Files(tmp_path / "not" / "yet")
    files.write("a/b.json", b"first")
    files.write("a/b.json", b"second")
    assert files.read("a/b.json") == b"second"
    assert files.sizes("a") == {"b.json": 6}
    assert files.folders("") == ["a"]
    assert everything(files.root) == ["a", "a/b.json"]


def test_what_is_not_there_has_no_files() -> None:
    files = Files(Path("/nowhere/at/all"))
    assert files.folders("runs") == []
    assert files.sizes("runs") == {}
    files.remove("runs/x")
    with pytest.raises(FileNotFoundError):
        files.read("runs/x")


def test_hidden_files_are_not_seen(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".DS_Store").touch()
    assert (Files(tmp_path).folders(""), Files(tmp_path).sizes("")) == ([], {})


def test_what_is_neither_file_nor_folder_counts_as_a_folder_that_does_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    files = Files(tmp_path)
    assert files.folders("") == ["dangling", "loop", "pipe"]
    assert files.sizes("") == {}
    for name in ("pipe", "loop"):
        with pytest.raises(StoreError, match=name):
            files.sizes(name)
    with pytest.raises(OSError, match="no plain file"):
        files.read("pipe")


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
@pytest.mark.parametrize(("number", "told"), BAD_PLACES, ids=[errno.errorcode[number] for number, _ in BAD_PLACES])
def test_a_file_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, told: str
) -> None:
    """The old content stays, nothing else does, and the message has the place and a remedy."""
    files = Files(tmp_path)
    files.write("runs/a.json", b"old")
    monkeypatch.setattr(os, call, failing(number))
    name = "runs/a.json" if call != "mkdir" else "other/a.json"
    with pytest.raises(StoreError) as caught:
        files.write(name, b"new")
    assert told in str(caught.value) and name in str(caught.value)
    assert files.read("runs/a.json") == b"old"
    assert everything(tmp_path) == ["runs", "runs/a.json"]


def test_a_writer_that_fails_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    files = Files(tmp_path)

    def half() -> None:
        with files.writing("runs/a.json") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert everything(tmp_path) == ["runs"]


def test_a_name_that_is_taken_is_not_written_over(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.write("runs/run_id=x/run.json", b"first")
    files.write("staging/x/run.json", b"second")
    with pytest.raises(StoreError, match="is there already"):
        files.publish("staging/x", "runs/run_id=x")
    assert files.read("runs/run_id=x/run.json") == b"first"
    assert files.read("staging/x/run.json") == b"second"


@pytest.mark.parametrize("taken", ["runs", "staging"])
def test_a_file_where_a_folder_belongs(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).touch()
    files = Files(tmp_path)
    with pytest.raises(StoreError, match=r"cannot be read as a folder: Not a directory\. "):
        files.folders(taken)
    with pytest.raises(StoreError, match=r"cannot be written: (Not a directory|File exists)"):
        files.write(f"{taken}/x/run.json", b"")


# --- removing -----------------------------------------------------------------------------------------------------


def test_files_and_folders_are_removed(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.write("runs/run_id=x/deep/run.json", b"")
    files.write("runs/a.json", b"")
    files.remove("runs/run_id=x")
    files.remove("runs/a.json")
    files.remove("runs/a.json")
    assert everything(tmp_path) == ["runs", ASIDE]


def test_a_link_is_removed_and_not_what_it_points_to(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").touch()
    files = Files(tmp_path / "store")
    runs = files.root / "runs"
    runs.mkdir(parents=True)
    for name, target in {"a": str(elsewhere), "b": "b", "c": "nowhere"}.items():
        (runs / name).symlink_to(target)
        files.remove(f"runs/{name}")
    assert everything(files.root) == ["runs", ASIDE]
    assert everything(elsewhere) == ["mine"]


def test_a_folder_is_out_of_sight_before_its_first_file_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path)
    files.write("runs/run_id=x/run.json", b"")
    monkeypatch.setattr(shutil, "rmtree", failing(errno.EIO))
    with pytest.raises(StoreError, match="Input/output error"):
        files.remove("runs/run_id=x")
    assert files.folders("runs") == []
    (hidden,) = files.folders(ASIDE)
    assert hidden.startswith("_removed-")
    monkeypatch.undo()
    files.remove(f"{ASIDE}/{hidden}")
    assert everything(tmp_path) == ["runs", ASIDE]


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


def test_another_process_was_first_to_take_a_folder_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path)
    files.write("runs/run_id=x/run.json", b"")
    monkeypatch.setattr(os, "rename", failing(errno.ENOENT))
    files.remove("runs/run_id=x")
