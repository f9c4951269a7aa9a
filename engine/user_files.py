"""Files that users bring: regular ones only, and what cannot be read of them in one line, whatever they mean."""

from __future__ import annotations

import errno
import glob
import json
import os
import sys
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

from engine.errors import FileFormatError, shown

MOST_TEXT_BYTES = 64 * 1024 * 1024


def open_file(path: Path) -> BufferedReader:
    """For reading, in binary; FileFormatError for what cannot be read or is no regular file."""
    try:
        return open_regular(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise FileFormatError(f"{shown(path, 200)} cannot be read: {reason}", "Give a file") from error


def open_regular(path: Path | str) -> BufferedReader:
    """The same for a reader with words of its own: OSError. A pipe or a device would be waited for without end."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is a folder" if path.is_dir() else "it is no plain file", str(path))
    return path.open("rb")


def expand(patterns: Sequence[str]) -> list[Path]:
    """The files, each once: names, or patterns as of ``glob``. Hidden ones only by a pattern with such a dot."""
    found: dict[str, None] = {}
    for pattern in map(os.path.expanduser, patterns):
        if os.path.isdir(pattern):  # noqa: PTH112 - takes any text
            raise FileFormatError(f"{shown(pattern, 200)} is a folder", "Give its files, for example with /*.json")
        names = [pattern, *sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207 - first: a name may hold brackets
        matches = dict.fromkeys(filter(os.path.isfile, names))
        if not matches:
            raise FileFormatError(f"{shown(pattern, 200)} matches no file", "Check the path or the pattern")
        found |= matches
    return list(map(Path, found))


def read_text(path: str, most: int = MOST_TEXT_BYTES) -> str:
    """A UTF-8 text file, or standard input for ``-``."""
    if path == "-":
        if sys.stdin is None:
            raise FileFormatError("there is no standard input", "Give the text itself, or a file")
        raw = sys.stdin.buffer.read(most + 1)
    else:
        with open_file(Path(path)) as file:
            raw = file.read(most + 1)
    if len(raw) > most:
        raise FileFormatError(f"{shown(path)} is larger than {most // 2**20} MB", "Split it")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{shown(path)} is not UTF-8 text (byte {error.start})", "Save it as UTF-8") from error


def parsed_json(text: str | bytes, **how: Any) -> Any:
    """As ``json.loads``; all that it cannot read is a ValueError."""
    try:
        return json.loads(text, **how)
    except RecursionError as error:
        raise ValueError("its lists and objects are nested too deep") from error
