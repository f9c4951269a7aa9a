"""The place that a store lies in: files by name, each there whole or not at all. It knows nothing of what they hold.

Names are relative, with ``/`` between folder and file. ``LocalFiles`` is a folder of this machine or of a shared disk;
``engine.store.remote`` has the same face for an object store.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import stat
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from engine.errors import StoreError, StoreFolderError, TakenError, shown
from engine.folders import writing
from engine.user_files import read_regular

ASIDE = "staging"
"""What is being written, and what is being thrown away: never read as an entry."""
REMOVED = "removed-"
"""Begins the names of folders there that are being thrown away."""
REMOVED_NAME = re.compile(rf"{REMOVED}[0-9a-f]{{8}}")
MOST_SHEET_BYTES = 64 * 1024 * 1024
ENTRY_DEPTH = 2
"""Of ``runs/run_id=x``."""
_ADVICE = {
    errno.ENOSPC: "Make room there, or choose another place with --store or DRIFTSCOPE_STORE",
    errno.EFBIG: "Choose another place with --store or DRIFTSCOPE_STORE, or raise the limit on the size of files",
    errno.EDQUOT: "Make room there, or choose another place with --store or DRIFTSCOPE_STORE",
    errno.EROFS: "It can be read only; choose another place with --store or DRIFTSCOPE_STORE",
    errno.EACCES: "Ask for the right to write there, or choose another place with --store or DRIFTSCOPE_STORE",
    errno.EPERM: "Ask for the right to write there, or choose another place with --store or DRIFTSCOPE_STORE",
    errno.ENOTDIR: "Choose another place with --store or DRIFTSCOPE_STORE",
}


class Files(Protocol):
    """One store's files. ``where`` names the place for users."""

    where: str
    can_rename: bool  # whether a folder of many files can appear at once

    def folders(self, name: str) -> list[str]:
        """Names of a folder's folders, sorted; none where there is no such folder. What is no file counts as one."""
        ...

    def sizes(self, name: str) -> dict[str, int]:
        """Bytes of a folder's files, by name."""
        ...

    def read(self, name: str, most: int = sys.maxsize) -> bytes:
        """StoreError where it has more bytes than ``most``; then none is read."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """The file is there whole or not at all, and stays when the power fails."""
        ...

    def writing(self, name: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """The same, for what is too large to be held."""
        ...

    def publish(self, aside: str, name: str) -> None:
        """A folder that was written aside becomes visible, all of its files at once."""
        ...

    def remove(self, name: str) -> None:
        """A folder or a file and all that is in it; nothing where it is not there."""
        ...

    def path(self, name: str) -> str:
        """The file as DuckDB and pyarrow are told of it."""
        ...

    @property
    def filesystem(self) -> Any:
        """pyarrow's filesystem for ``path``; None for the local one."""
        ...


class LocalFiles:
    can_rename = True
    filesystem = None

    def __init__(self, root: Path) -> None:
        self.root = root
        self.where = str(root)

    def folders(self, name: str) -> list[str]:
        return sorted(entry.name for entry in self._entries(name) if not _is_file(entry))

    def sizes(self, name: str) -> dict[str, int]:
        found = {}
        for entry in self._entries(name):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                if _is_file(entry):
                    found[entry.name] = entry.stat().st_size
        return found

    def read(self, name: str, most: int = sys.maxsize) -> bytes:
        path = self._checked(name, True)
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, "it is a link", path)
        check_size(name, found.st_size, most)
        return read_regular(path, found)

    def write(self, name: str, content: bytes) -> None:
        with self.writing(name) as file:
            file.write(content)

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        path = self.within(name)
        with _store_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with writing(path) as file:
                yield file
            _sync(path.parent)

    def publish(self, aside: str, name: str) -> None:
        path = self.within(name)
        with _store_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _sync(self.within(aside))
            try:
                (self.root / aside).rename(path)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    raise TakenError(f"{path} is there already", "Choose another name") from error
                raise
            _sync(path.parent)

    def remove(self, name: str) -> None:
        """Hidden first, then removed: nothing reads half of it, and `sweep` finds what was not finished."""
        path = self.within(name)
        with _store_errors(path):
            if path.is_dir() and not name.startswith(f"{ASIDE}/{REMOVED}"):
                hidden = self.within(f"{ASIDE}/{REMOVED}{uuid.uuid4().hex[:8]}")
                hidden.parent.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(FileNotFoundError):  # another process was first
                    path.rename(hidden)
                path = hidden
            while path.is_dir() and not path.is_symlink():
                with contextlib.suppress(FileNotFoundError):  # another process removes it, too
                    shutil.rmtree(path)
            path.unlink(missing_ok=True)

    def path(self, name: str) -> str:
        return str(self.root / name)

    def within(self, name: str, *, to_read: bool = False) -> Path:
        """The file or folder; an error where a folder on the way to it is a link: nothing outside the store is listed,
        written or removed. An entry (``runs/run_id=x``) may be one, to be read."""
        return Path(self._checked(name, to_read))

    def _checked(self, name: str, to_read: bool) -> str:
        """The same as text, since a listing may ask for 100,000 of them."""
        path = self.where
        for depth, folder in enumerate(filter(None, name.split("/")[:-1]), start=1):
            path = f"{path}/{folder}"
            if not (to_read and depth == ENTRY_DEPTH and "=" in folder) and os.path.islink(path):  # noqa: PTH114
                raise StoreFolderError(
                    f"{path} is a link, where the store has a folder", "Remove it, or make a link of the whole store"
                )
        return f"{self.where}/{name.rstrip('/')}".rstrip("/")

    def _entries(self, name: str) -> list[os.DirEntry[str]]:
        path = self._checked(f"{name}/", True)
        try:
            with os.scandir(path) as found:
                return [entry for entry in found if not entry.name.startswith(".")]
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            kind = StoreFolderError if self.root.is_dir() else StoreError
            raise kind(f"{path} is a file, where the store has a folder", _ADVICE[errno.ENOTDIR]) from error
        except OSError as error:
            kind = StoreFolderError if self.root.is_dir() else StoreError
            raise kind(f"{path} cannot be read: {error.strerror}", "Check its owner and rights") from error


def _is_file(entry: os.DirEntry[str]) -> bool:
    """A link is none: it may lead out of the store."""
    return entry.is_file(follow_symlinks=False)


@contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "Check the folder, or choose another with --store or DRIFTSCOPE_STORE")
        raise StoreError(f"{shown(path, 200)} cannot be written: {error.strerror or error}", advice) from error


def _sync(folder: Path) -> None:
    """A name in a folder is safe only when the folder itself has been written."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def read_sheet(files: Files, name: str) -> bytes:
    """A JSON file of the store, of no more bytes than any that is written there."""
    return files.read(name, MOST_SHEET_BYTES)


def check_size(name: str, size: int, most: int) -> None:
    if size > most:
        what = f"{name.rpartition('/')[2]} has {size:,} bytes, more than the {most:,} that it may have"
        raise StoreError(what, "It is not of this program")


@contextmanager
def alone(files: Files, folder: str) -> Iterator[None]:
    """One process at a time in a folder, where the place has locks; the others wait."""
    if not isinstance(files, LocalFiles):
        yield
        return
    number = os.open(files.within(f"{folder}/", to_read=True), os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a disk without locks
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def json_bytes(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8", "replace")
