"""The lines of a log file, plain or gz, a bundle at a time, whatever the file's size.

A compressed file that breaks off gives all that it still holds. What the lines mean is not known here.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from engine.errors import FileFormatError, shown
from engine.user_files import ReadLimit, open_file

BUNDLE_BYTES = 1 << 22
MOST_LINE_BYTES = 1 << 24
_GZ = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BOM = b"\xef\xbb\xbf"
_READ = 1 << 16  # of what is compressed; damage costs as much
_GZ_FORM = 31  # of zlib: gzip, with the largest window


@dataclass(frozen=True, slots=True)
class Bundle:
    """Lines that stand together. The text after a file's last line break is a line as well, and ``is_open`` is said."""

    first: int  # number of the first line, from 1
    lines: tuple[bytes, ...]
    is_last: bool = False
    is_open: bool = False  # the last line has no line break
    is_cut: bool = False  # the compressed form breaks off behind it
    share: float = 1.0  # of the file's bytes that are read


def fingerprint(path: Path) -> str:
    """SHA-256 of the file's text: the same for a file and its compressed form."""
    digest = hashlib.sha256()
    with _opened(path) as file:
        limit = ReadLimit(path)
        for block, _ in _blocks(file):
            limit.add(len(block))
            digest.update(block)
    return digest.hexdigest()


def bundles(path: Path, size: int = BUNDLE_BYTES) -> Iterator[Bundle]:
    """All lines of the file; the last bundle says so and may be empty."""
    number, rest, is_cut = 1, b"", False
    with _opened(path) as file:
        whole, limit = max(1, path.stat().st_size), ReadLimit(path)
        for block, is_broken in _blocks(file, size):
            limit.add(len(block))
            text, is_cut = rest + block, is_broken
            *lines, rest = text.split(b"\n")
            if number == 1 and lines:
                lines[0] = lines[0].removeprefix(_BOM)
            first = lines[0] if lines else rest  # later ones are shorter than a block
            if len(first) > MOST_LINE_BYTES:
                raise FileFormatError(
                    f"line {number:,} of {shown(path.name)} is over {MOST_LINE_BYTES >> 20} MB",
                    "A logit log has one JSON object a line",
                )
            yield Bundle(number, tuple(lines), share=min(1.0, file.tell() / whole))
            number += len(lines)
    last = rest.removeprefix(_BOM) if number == 1 else rest
    yield Bundle(number, (last,) if last.strip() else (), is_last=True, is_open=bool(last.strip()), is_cut=is_cut)


def _blocks(file: IO[bytes], size: int = BUNDLE_BYTES) -> Iterator[tuple[bytes, bool]]:
    """Blocks of text; the last one, which may be empty, says whether the compressed form breaks off there."""
    is_gz = file.read(len(_GZ)) == _GZ
    file.seek(0)
    if is_gz:
        yield from _inflated(file, size)
        return
    while block := file.read(size):
        yield block, False


def _inflated(file: IO[bytes], size: int) -> Iterator[tuple[bytes, bool]]:
    """By zlib itself: the module gzip throws away what stands before a break. A file may have several members."""
    member, waiting = zlib.decompressobj(_GZ_FORM), b""
    while waiting or (waiting := file.read(_READ)):
        try:
            block = member.decompress(waiting, size)
        except zlib.error:
            yield b"", True
            return
        waiting = member.unconsumed_tail
        yield block, False
        if member.eof:
            waiting = (member.unused_data or file.read(_READ)).lstrip(b"\0")  # tapes fill up with zeros
            if not waiting:
                return
            member = zlib.decompressobj(_GZ_FORM)
    yield member.flush(), True


def _opened(path: Path) -> IO[bytes]:
    file = open_file(path)
    try:
        if file.read(2) in _UTF16:
            raise FileFormatError(f"{shown(path.name)} is UTF-16", "Save it as UTF-8")
        file.seek(0)
    except OSError as error:
        file.close()
        raise FileFormatError(f"{shown(path, 200)} cannot be read: {error.strerror}", "Check its path") from error
    except FileFormatError:
        file.close()
        raise
    return file
