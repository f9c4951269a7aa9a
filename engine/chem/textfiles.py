"""Lines of text files that users bring: plain or gz, any line ending, bounded, and never garbage.

Text is UTF-8, with or without a byte order mark; a line that is not is read as Latin-1. What cannot be read raises
``FileFormatError``. What this module does not know: what the lines mean.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from engine.errors import FileFormatError, shown
from engine.user_files import ReadLimit, gz_problem, open_file

MOST_LINE_CHARACTERS = 1_000_000

LEAST_LINE = 16
"""What a shorter line counts as: reading one costs as much."""
_BINARY = re.compile(r"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f\x7f]")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) of a text file, as it streams in."""
    try:
        with _opened(path) as stream, io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline=None) as text:
            if stream.peek(2)[:2] in _UTF16:
                raise FileFormatError(f"{shown(path.name)} is UTF-16 text", "Save it as UTF-8")
            yield from _lines(path, text, ReadLimit(path, is_timed=False))  # what is done with the lines takes longer
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        what = f"{shown(path.name)} is no whole gz file: {gz_problem(error)}"
        raise FileFormatError(what, "Compress it again") from error
    except OSError as error:
        raise FileFormatError(f"{shown(path.name)} cannot be read: {error.strerror or error}", "Check it") from error


def _opened(path: Path) -> Any:
    file = open_file(path)
    if not path.name.lower().endswith(".gz"):
        return file
    stream = gzip.GzipFile(fileobj=file)
    stream.myfileobj = file  # type: ignore[assignment]  # closed with it
    return stream


def _lines(path: Path, text: TextIO, limit: ReadLimit) -> Iterator[tuple[int, str]]:
    number = 0
    while line := text.readline(MOST_LINE_CHARACTERS + 1):
        number += 1
        limit.add(max(len(line), LEAST_LINE))
        if len(line) > MOST_LINE_CHARACTERS:
            raise FileFormatError(f"{shown(path.name)} has a line {number} of over {MOST_LINE_CHARACTERS:,} characters")
        line = line.removesuffix("\n")
        if _BINARY.search(line):
            raise FileFormatError(f"{shown(path.name)} is no text: line {number} is binary", "Give a text file")
        try:
            line.encode("utf-8")
        except UnicodeEncodeError:
            line = line.encode("utf-8", "surrogateescape").decode("latin-1")
        yield number, line
