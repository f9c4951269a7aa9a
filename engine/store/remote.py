"""A store in an object store (S3): the same files, by pyarrow's filesystem, without a DuckDB extension.

An object appears whole when its upload ends, and there is no rename: an entry's sheet is written last, and only entries
that have one count. Region, endpoint and credentials come from the usual ``AWS_*`` variables.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

import pyarrow as pa
import pyarrow.fs

from engine.errors import StoreError, one_line, shown
from engine.store.files import check_size

ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
ELSEWHERE = "us-east-1"
"""The region where an endpoint is named and no region: nearly all stores but Amazon's take any."""
_AWS_ERROR = re.compile(r"AWS Error (\w+) during \w+ operation: (.*?)(?: \(Request ID.*|; Details.*)?$", re.DOTALL)
_ADVICE = "Check the bucket's name, AWS_ENDPOINT_URL, AWS_REGION and the credentials"


class RemoteFiles:
    can_rename = False

    def __init__(self, filesystem: Any, root: str, where: str) -> None:
        self.filesystem, self.root, self.where = filesystem, root.strip("/"), where

    @classmethod
    def at(cls, place: str) -> RemoteFiles:
        """``s3://bucket/prefix``; an error where there is no such bucket, or no way to it."""
        root = place.partition("://")[2].strip("/")
        if not root:
            raise StoreError(f"{shown(place)} names no bucket", "Give for example s3://bucket/driftscope")
        endpoint, region = _variable(ENDPOINT_VARIABLES), _variable(REGION_VARIABLES)
        options: dict[str, Any] = {"allow_delayed_open": True}  # what is small is one request
        if endpoint:
            scheme, _, host = endpoint.rpartition("://")
            options |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"}
        if region or endpoint:
            options["region"] = region or ELSEWHERE
        try:
            files = cls(pyarrow.fs.S3FileSystem(**options), root, place.rstrip("/"))
        except (OSError, pa.ArrowException, ValueError) as error:
            raise StoreError(f"{shown(place)} cannot be reached: {_error_text(error)}", _ADVICE) from error
        files._check()
        return files

    def folders(self, name: str) -> list[str]:
        return sorted(info.base_name for info in self._infos(name) if info.type == pyarrow.fs.FileType.Directory)

    def sizes(self, name: str) -> dict[str, int]:
        return {info.base_name: info.size for info in self._infos(name) if info.type == pyarrow.fs.FileType.File}

    def read(self, name: str, most: int = sys.maxsize) -> bytes:
        try:
            with self.filesystem.open_input_file(self.path(name)) as file:
                if most < sys.maxsize:  # else its size may cost a request
                    check_size(name, file.size(), most)
                return bytes(file.read())
        except FileNotFoundError:
            raise
        except OSError as error:
            raise OSError(errno.EIO, _error_text(error), f"{self.where}/{name}") from error

    def write(self, name: str, content: bytes) -> None:
        with self.writing(name) as file:
            file.write(content)

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        with self._store_errors(name):
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

    def publish(self, aside: str, name: str) -> None:
        raise StoreError(f"{self.where} cannot rename {aside} to {name}", "Write the entry in its place")

    def remove(self, name: str) -> None:
        """Objects one by one, the sheet first: without it the rest is not read."""
        with self._store_errors(name):
            path = self.path(name)
            info = self.filesystem.get_file_info(path)
            if info.type == pyarrow.fs.FileType.File:
                self.filesystem.delete_file(path)
            elif info.type == pyarrow.fs.FileType.Directory:
                for info in self._infos(name):
                    if info.base_name.endswith(".json") and info.type == pyarrow.fs.FileType.File:
                        self.filesystem.delete_file(info.path)
                self.filesystem.delete_dir(path)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def _check(self) -> None:
        """A missing bucket lists as empty, so its existence is checked."""
        if self._infos(""):
            return
        bucket = self.root.partition("/")[0]
        with suppress(OSError):  # some credentials may list only a part of a bucket
            if self.filesystem.get_file_info(bucket).type == pyarrow.fs.FileType.NotFound:
                raise StoreError(f"there is no bucket {shown(bucket)}", _ADVICE)

    def _infos(self, name: str) -> list[Any]:
        selector = pyarrow.fs.FileSelector(self.path(name), allow_not_found=True)
        try:
            return list(self.filesystem.get_file_info(selector))
        except OSError as error:
            raise StoreError(f"{self._where(name)} cannot be read: {_error_text(error)}", _ADVICE) from error

    def _where(self, name: str) -> str:
        return f"{self.where}/{name}".rstrip("/")

    @contextmanager
    def _store_errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{self._where(name)} cannot be written: {_error_text(error)}", _ADVICE) from error


def _variable(names: tuple[str, ...]) -> str:
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def _error_text(error: Exception) -> str:
    """The message of the object store, without its request's details."""
    match = _AWS_ERROR.search(str(error))
    text = f"{match[1].lower().replace('_', ' ')}, {match[2]}" if match else str(error)
    return one_line(text).rstrip(",. ")
