"""The place that a store lies in: files by name, each there whole or not at all. It knows nothing of what they hold.

Names are relative, with ``/`` between folder and file. ``LocalFiles`` is a folder of this machine or of a shared disk,
``RemoteFiles`` the same in an object store (S3), by pyarrow's filesystem. An object appears whole when its upload ends,
and there is no rename: an entry's sheet is written last, and only entries that have one count.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.fs

from engine.errors import StoreError, StoreFolderError, TakenError, one_line, shown
from engine.folders import writing
from engine.user_files import open_regular

ASIDE = "staging"
"""What is being written, and what is being thrown away: never read as an entry."""
REMOVED = "removed-"
"""Begins the names of folders there that are being thrown away."""
REMOVED_NAME = re.compile(rf"{REMOVED}[0-9a-f]{{8}}")
MOST_SHEET_BYTES = 64 * 1024 * 1024
_ADVICE = "Make room there, check its rights, or choose another place with --store or DRIFTSCOPE_STORE"
ELSEWHERE = "us-east-1"
"""The region where an endpoint is named and no region: nearly all stores but Amazon's take any."""
_AWS_ERROR = re.compile(r"AWS Error (\w+) during \w+ operation: (.*?)(?: \(Request ID.*|; Details.*)?$", re.DOTALL)
_AWS_ADVICE = "Check the bucket's name, AWS_ENDPOINT_URL, AWS_REGION and the credentials"


class LocalFiles:
    """``where`` names the place for users; ``filesystem`` is pyarrow's for ``path``, None for the local one."""

    filesystem: Any = None

    def __init__(self, root: Path) -> None:
        self.root = root
        self.where = str(root)

    def folders(self, name: str) -> list[str]:
        """Names of a folder's folders, sorted; none where there is no such folder. What is no file counts as one."""
        return sorted(entry.name for entry in self._entries(name) if not _is_file(entry))

    def sizes(self, name: str) -> dict[str, int]:
        """Bytes of a folder's files, by name."""
        found = {}
        for entry in self._entries(name):
            with suppress(FileNotFoundError):  # removed meanwhile
                if _is_file(entry):
                    found[entry.name] = entry.stat().st_size
        return found

    def read(self, name: str) -> bytes:
        with open_regular(self.path(name)) as file:
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        with self.writing(name) as file:
            file.write(content)

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """The file is there whole or not at all, and stays when the power fails."""
        path = self.root / name
        with _store_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with writing(path) as file:
                yield file
            _sync(path.parent)

    def publish(self, aside: str, name: str) -> None:
        """A folder that was written aside becomes visible, all of its files at once."""
        path = self.root / name
        with _store_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _sync(self.root / aside)
            try:
                (self.root / aside).rename(path)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    raise TakenError(f"{path} is there already", "Choose another name") from error
                raise
            _sync(path.parent)

    def remove(self, name: str) -> None:
        """A folder or a file; nothing where it is not there. A folder is hidden first: nothing reads half of it, and
        `sweep` finds what was not finished."""
        path = self.root / name
        with _store_errors(path):
            if path.is_dir() and not name.startswith(f"{ASIDE}/{REMOVED}"):
                hidden = self.root / ASIDE / f"{REMOVED}{uuid.uuid4().hex[:8]}"
                hidden.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # another process was first
                    path.rename(hidden)
                path = hidden
            while path.is_dir() and not path.is_symlink():
                with suppress(FileNotFoundError):  # another process removes it, too
                    shutil.rmtree(path)
            path.unlink(missing_ok=True)

    def path(self, name: str) -> str:
        """The file as DuckDB and pyarrow are told of it."""
        return f"{self.where}/{name}"

    def _entries(self, name: str) -> list[os.DirEntry[str]]:
        path = self.path(name).rstrip("/")
        try:
            with os.scandir(path) as found:
                return [entry for entry in found if not entry.name.startswith(".")]
        except FileNotFoundError:
            return []
        except OSError as error:
            kind = StoreFolderError if self.root.is_dir() else StoreError
            raise kind(f"{path} cannot be read as a folder: {error.strerror}", _ADVICE) from error


class RemoteFiles:
    def __init__(self, filesystem: Any, root: str, where: str) -> None:
        self.filesystem, self.root, self.where = filesystem, root.strip("/"), where

    @classmethod
    def at(cls, place: str) -> RemoteFiles:
        """``s3://bucket/prefix``, by the usual ``AWS_*`` variables; an error where there is no way to such a bucket."""
        root = place.partition("://")[2].strip("/")
        if not root:
            raise StoreError(f"{shown(place)} names no bucket", "Give for example s3://bucket/driftscope")
        given = os.environ.get
        scheme, _, host = (given("AWS_ENDPOINT_URL_S3") or given("AWS_ENDPOINT_URL") or "").rpartition("://")
        options = {"endpoint_override": host.rstrip("/") or None, "scheme": scheme or "https"}
        region = given("AWS_REGION") or given("AWS_DEFAULT_REGION") or (ELSEWHERE if host else None)
        try:  # delayed: what is small is one request
            filesystem = pyarrow.fs.S3FileSystem(**options, region=region, allow_delayed_open=True)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise StoreError(f"{shown(place)} cannot be reached: {_aws_text(error)}", _AWS_ADVICE) from error
        files = cls(filesystem, root, place.rstrip("/"))
        bucket = root.partition("/")[0]
        if not files._infos(""):  # as a missing bucket lists, too; some credentials may list only a part of one
            with suppress(OSError):
                if files.filesystem.get_file_info(bucket).type == pyarrow.fs.FileType.NotFound:
                    raise StoreError(f"there is no bucket {shown(bucket)}", _AWS_ADVICE)
        return files

    def folders(self, name: str) -> list[str]:
        return sorted(info.base_name for info in self._infos(name) if not info.is_file)

    def sizes(self, name: str) -> dict[str, int]:
        return {info.base_name: info.size for info in self._infos(name) if info.is_file}

    def read(self, name: str) -> bytes:
        try:
            with self.filesystem.open_input_file(self.path(name)) as file:
                return bytes(file.read())
        except FileNotFoundError:
            raise
        except OSError as error:
            raise OSError(errno.EIO, _aws_text(error), f"{self.where}/{name}") from error

    def write(self, name: str, content: bytes) -> None:
        with self.writing(name) as file:
            file.write(content)

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        with self._errors("written", name):
            file = self.filesystem.open_output_stream(self.path(name))
            try:
                yield file
            except BaseException:
                with suppress(OSError):  # pyarrow cannot break an upload off: it makes half an object of it
                    file.close()
                with suppress(OSError):
                    self.filesystem.delete_file(self.path(name))
                raise
            file.close()

    def remove(self, name: str) -> None:
        """Objects one by one, the sheet first: without it the rest is not read."""
        with self._errors("written", name):
            info = self.filesystem.get_file_info(self.path(name))
            if info.is_file:
                self.filesystem.delete_file(info.path)
            elif info.type == pyarrow.fs.FileType.Directory:
                for inner in self._infos(name):
                    if inner.is_file and inner.extension == "json":
                        self.filesystem.delete_file(inner.path)
                self.filesystem.delete_dir(info.path)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def _infos(self, name: str) -> list[Any]:
        with self._errors("read", name):
            selector = pyarrow.fs.FileSelector(self.path(name), allow_not_found=True)
            return list(self.filesystem.get_file_info(selector))

    @contextmanager
    def _errors(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            where = f"{self.where}/{name}".rstrip("/")
            raise StoreError(f"{where} cannot be {what}: {_aws_text(error)}", _AWS_ADVICE) from error


Files = LocalFiles | RemoteFiles


def _aws_text(error: Exception) -> str:
    """The message of the object store, without its request's details."""
    match = _AWS_ERROR.search(str(error))
    return one_line(f"{match[1].lower().replace('_', ' ')}, {match[2]}" if match else str(error)).rstrip(",. ")


def _is_file(entry: os.DirEntry[str]) -> bool:
    """A link is none: it may lead out of the store, or to itself."""
    return entry.is_file(follow_symlinks=False)


@contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{shown(path, 200)} cannot be written: {error.strerror or error}", _ADVICE) from error


def _sync(folder: Path) -> None:
    """A name in a folder is safe only when the folder itself has been written."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def read_sheet(files: Files, name: str) -> bytes:
    """A JSON file of the store, of no more bytes than any that is written there."""
    if isinstance(files, LocalFiles) and (size := Path(files.path(name)).stat().st_size) > MOST_SHEET_BYTES:
        what = f"{name.rpartition('/')[2]} has {size:,} bytes, more than the {MOST_SHEET_BYTES:,} that it may have"
        raise StoreError(what, "It is not of this program")
    return files.read(name)


@contextmanager
def alone(files: Files, folder: str) -> Iterator[None]:
    """One process at a time in a folder, where the place has locks; the others wait."""
    if not isinstance(files, LocalFiles):
        yield
        return
    number = os.open(files.path(folder), os.O_RDONLY)
    try:
        with suppress(OSError):  # a disk without locks
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def json_bytes(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8", "replace")
