"""A trace file's text in pieces, decompressed in a thread of its own while the previous piece is parsed.

``isal`` decompresses four times as fast as ``gzip``, the fallback where it is not installed. Checksums are checked, and
a truncated file is an error here.
"""

from __future__ import annotations

import gzip
import shutil
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from typing import IO, Any

from engine.errors import FileFormatError, shown
from engine.user_files import ReadLimit, gz_problem, open_file

try:
    from isal import igzip, isal_zlib

    _OPEN: Any = igzip.IGzipFile
    _WRONG: Any = (isal_zlib.error, zlib.error, gzip.BadGzipFile)
except ImportError:  # no build for this machine
    _OPEN = gzip.GzipFile
    _WRONG = (zlib.error, gzip.BadGzipFile)

PIECE_BYTES = 4 * 1024 * 1024
PIECES_AHEAD = 2
SALVAGED_BYTES = 4096
PACKING_LEVEL = 2
CUT = "Copy or record it again, or read what there is with --partial"
GZIP = b"\x1f\x8b"
OTHER_FORMATS = {
    b"PK\x03\x04": "a ZIP archive",
    b"\x28\xb5\x2f\xfd": "packed with zstd",
    b"\xfd7zXZ": "packed with xz",
    b"BZh": "packed with bzip2",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"SQLite format 3": "a database",
    b"PAR1": "a Parquet file",
    b"\x80": "a pickle, as memory snapshots are",
    b"<": "a web page, as memory timelines may be",
}
BOM = b"\xef\xbb\xbf"


class TraceSource:
    """A file that is being read: ``read_bytes`` of its ``bytes`` so far, compressed ones where it is compressed."""

    def __init__(self, path: Path, file: IO[bytes], *, may_end_early: bool = False) -> None:
        self.path, self._file, self._may_end_early = path, file, may_end_early
        self.bytes = path.stat().st_size
        self._error: FileFormatError | None = None

    @property
    def read_bytes(self) -> int:
        return 0 if self._file.closed else min(self._file.tell(), self.bytes)

    def pieces(self) -> Iterator[bytes]:
        """Text, some megabytes at a time."""
        start = self._file.read(16)
        self._file.seek(0)
        for magic, what in OTHER_FORMATS.items():
            if start.startswith(magic):
                raise FileFormatError(f"{shown(self.path, 200)} is {what}", "Give Chrome's JSON, plain or as .gz")
        reader: Any = self._file
        if start.startswith(GZIP):
            # The fast reader reads far ahead, and returns none of that if the file is truncated.
            reader = SalvageReader(self._file) if self._may_end_early else _OPEN(fileobj=self._file, mode="rb")
        is_first, limit = True, ReadLimit(self.path)
        while piece := self._read(reader):
            limit.add(len(piece))
            yield piece.removeprefix(BOM) if is_first else piece
            is_first = False

    def _read(self, reader: Any) -> bytes:
        """A whole piece, or what comes before the end or an error; the error is raised by the next call."""
        if self._error is not None:
            raise self._error
        parts: list[bytes] = []
        size = 0
        while size < PIECE_BYTES:
            try:
                part = reader.read1(PIECE_BYTES - size)
            except (EOFError, OSError, *_WRONG) as error:
                self._error = self._why(error)
                if parts:
                    break
                raise self._error from error
            if not part:
                break
            parts.append(part)
            size += len(part)
        return b"".join(parts)

    def _why(self, error: Exception) -> FileFormatError:
        name = shown(self.path, 200)
        if isinstance(error, EOFError):
            return FileFormatError(f"{name} is cut off: its gzip data ends too early", CUT)
        if isinstance(error, _WRONG):
            why = f"its gzip data does not inflate ({gz_problem(error)})"
            return FileFormatError(f"{name} is damaged: {why}", "Copy it again")
        return FileFormatError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}", "Check the disk")


class SalvageReader:
    """Decompresses a truncated file to the last byte that can be read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._inflater = file, zlib.decompressobj(31)

    def read1(self, most: int) -> bytes:
        """At most so many bytes; none at the end, EOFError where the file is truncated."""
        while True:
            if self._inflater.eof:
                left = self._inflater.unused_data or self._file.read(SALVAGED_BYTES)
                if not left.strip(b"\0"):
                    return b""
                self._inflater = zlib.decompressobj(31)
            else:
                left = self._inflater.unconsumed_tail or self._file.read(SALVAGED_BYTES)
                if not left:
                    raise EOFError
            if found := self._inflater.decompress(left, most):
                return found


@contextmanager
def open_trace(path: Path, *, may_end_early: bool = False) -> Iterator[tuple[TraceSource, Iterator[bytes]]]:
    """The file, and its pieces from the thread."""
    with open_file(path) as file:
        source = TraceSource(path, file, may_end_early=may_end_early)
        pieces = _ahead(source.pieces())
        try:
            yield source, pieces
        finally:
            pieces.close()


def _ahead(items: Iterator[bytes]) -> Generator[bytes, None, None]:
    """The same items, made ahead in a thread. Errors of the thread are raised here."""
    queue: Queue[bytes | BaseException | None] = Queue(PIECES_AHEAD)
    is_over = Event()

    def make() -> None:
        try:
            for item in items:
                queue.put(item)
                if is_over.is_set():
                    break
            queue.put(None)
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that reads
            queue.put(error)

    thread = Thread(target=make, name="inflate", daemon=True)
    thread.start()
    last: bytes | BaseException | None = b""
    try:
        while isinstance(last := queue.get(), bytes):
            yield last
        if last is not None:
            raise last
    finally:
        is_over.set()
        while isinstance(last, bytes):
            last = queue.get()
        thread.join()


def write_gzip(path: Path, target: Path) -> None:
    """Compress a file: torch's own compression takes ten times as long."""
    with (
        path.open("rb") as source,
        target.open("wb") as file,
        _OPEN(fileobj=file, mode="wb", compresslevel=PACKING_LEVEL) as writer,
    ):
        shutil.copyfileobj(source, writer, PIECE_BYTES)
