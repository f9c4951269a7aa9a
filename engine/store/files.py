"""The folder that a store is in: files by name, each there whole or not at all.

Names are relative, with ``/`` between folder and file.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import msgspec

from engine.errors import StoreError, TakenError, shown
from engine.user_files import open_regular, replacing

ASIDE = "staging"
"""What is being written, and what is being thrown away: never read as an entry."""
REMOVED = "_removed-"
"""Begins the names of folders there that are being thrown away; no entry is named like that."""
MOST_SHEET_BYTES = 64 * 1024 * 1024
_ADVICE = "Make room there, check its rights, or choose another place with --store or DRIFTSCOPE_STORE"


class Files:
    """``where`` names the place for users."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.where = str(root)

    def path(self, name: str) -> str:
        return f"{self.where}/{name}"

    def folder_within(self, name: str) -> Path:
        """A folder to write in. An error where it or one above it is a link, since that leads out of the store; the
        store itself may be one."""
        path = self.root
        for folder in filter(None, name.split("/")):
            path /= folder
            if path.is_symlink():
                problem = f"{shown(path, 200)} is a link, where the store has a folder"
                raise StoreError(problem, "Remove it, or make a link of the whole store")
        return path

    def within(self, name: str) -> Path:
        """What to write or remove, which may be a link itself."""
        folder, _, last = name.rpartition("/")
        return self.folder_within(folder) / last

    def folders(self, name: str) -> list[str]:
        """Names of a folder's folders, sorted; none where there is no such folder. What is no file counts as one."""
        return sorted(entry.name for entry in self._entries(name) if not entry.is_file(follow_symlinks=False))

    def sizes(self, name: str) -> dict[str, int]:
        """Bytes of a folder's files, by name."""
        sizes = {}
        for entry in self._entries(name):
            with suppress(FileNotFoundError):  # removed meanwhile
                if entry.is_file(follow_symlinks=False):
                    sizes[entry.name] = entry.stat().st_size
        return sizes

    def read(self, name: str) -> bytes:
        with open_regular(self.path(name)) as file:
            return file.read()

    def read_object(self, name: str) -> dict[str, Any]:
        """The object that a JSON file holds, of no more bytes than any that is written here."""
        file_name = name.rpartition("/")[2]
        with open_regular(self.path(name)) as file:
            if (size := os.fstat(file.fileno()).st_size) > MOST_SHEET_BYTES:
                problem = f"{file_name} has {size:,} bytes, more than {MOST_SHEET_BYTES:,}"
                raise StoreError(problem, "It is not of this program")
            content = file.read()
        try:
            return msgspec.json.decode(content, type=dict[str, Any])
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{file_name} holds no JSON object ({error})", "Import or run it again") from error

    def write(self, name: str, content: bytes) -> None:
        with self.writing(name) as file:
            file.write(content)

    def write_object(self, name: str, document: Mapping[str, Any]) -> None:
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        self.write(name, f"{text}\n".encode("utf-8", "replace"))

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """The file is there whole or not at all, and stays when the power fails. A link of that name is replaced."""
        path = self.within(name)
        with writing_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                yield file
            _sync(path.parent)

    def publish(self, aside: str, name: str) -> None:
        """A folder that was written aside becomes visible, all of its files at once."""
        path, folder = self.within(name), self.within(aside)
        with writing_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _sync(folder)
            try:
                folder.rename(path)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    raise TakenError(f"{path} is there already", "Choose another name") from error
                raise
            _sync(path.parent)

    def remove(self, name: str) -> None:
        """A folder or a file; nothing where it is not there. A folder is hidden first: nothing reads half of it, and
        `sweep` finds what was not finished. One of which the disk refuses all files is shown again."""
        path = self.within(name)
        hidden = self.within(f"{ASIDE}/{REMOVED}{uuid.uuid4().hex[:8]}")
        state = "it is kept"
        try:
            if not path.is_dir() or name.startswith(f"{ASIDE}/{REMOVED}"):
                return _delete(path)
            hidden.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # another process was first
                path.rename(hidden)
            before = _all_in(hidden)
            try:
                _delete(hidden)
            except OSError:
                if _all_in(hidden) == before:
                    hidden.rename(path)
                else:
                    state = "some of it is removed, the rest goes later"
                raise
        except OSError as error:
            problem = f"{shown(path, 200)} cannot be removed ({error.strerror or error}): {state}"
            raise StoreError(problem, "Make room there, or check its rights") from error

    def _entries(self, name: str) -> list[os.DirEntry[str]]:
        path = self.path(name).rstrip("/")
        try:
            with os.scandir(path) as entries:
                return [entry for entry in entries if not entry.name.startswith(".")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{path} cannot be read as a folder: {error.strerror}", _ADVICE) from error


def _all_in(folder: Path) -> list[str]:
    """Every name below a folder; of what another process removes meanwhile, what is still there."""
    return sorted(f"{at}/{name}" for at, folders, files in os.walk(folder) for name in (*folders, *files))


def _delete(path: Path) -> None:
    """A folder with all that is in it, a file, or a link alone."""
    while path.is_dir() and not path.is_symlink():
        with suppress(FileNotFoundError):  # another process removes it, too
            shutil.rmtree(path)
    path.unlink(missing_ok=True)


@contextmanager
def writing_errors(path: Path, fix: str = _ADVICE) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{shown(path, 200)} cannot be written: {error.strerror or error}", fix) from error


def _sync(folder: Path) -> None:
    """A name in a folder is safe only when the folder itself has been written."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # what shared disks say that cannot do it for a folder
            raise
    finally:
        os.close(number)


@contextmanager
def alone(files: Files, folder: str) -> Iterator[None]:
    """One process at a time in a folder, where the disk has locks; the others wait."""
    path = files.folder_within(folder)
    with writing_errors(path):
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # a disk without locks
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def open_lock(path: Path, flags: int) -> int:
    """The number of a lock's file. OSError where it is a link, which may lead out of the store, or a pipe, which would
    be waited for."""
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    if stat.S_ISREG(os.fstat(number).st_mode):
        return number
    os.close(number)
    raise OSError(errno.EINVAL, "it is no plain file", str(path))
