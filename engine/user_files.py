"""Files that users bring: regular ones only, and what cannot be read of them in one line, whatever they mean."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

from engine.errors import FileFormatError, shown

LEAST_BYTES = 64 * 1024 * 1024
MOST_RATIO = 200
"""Inflated bytes for each of the file: text of traces and logs has 3 to 30, gzip can have 1,000."""
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
    mode = Path(path).stat().st_mode
    if not stat.S_ISREG(mode):
        what = "it is a folder" if stat.S_ISDIR(mode) else "it is no plain file"
        raise OSError(errno.EINVAL, what, str(path))
    return Path(path).open("rb")


def expand(patterns: Sequence[str | Path]) -> list[Path]:
    """The files, each once: names, or patterns with ``*``, ``?``, ``[...]`` and ``**``, which follows no link. Hidden
    ones only by a pattern with such a dot."""
    found: dict[Path, None] = {}
    for pattern in map(str, patterns):
        path = Path(os.path.expanduser(pattern))  # noqa: PTH111 - Path's own raises where there is no such user
        if pattern and os.path.isdir(path):  # noqa: PTH112 - takes any text
            raise FileFormatError(f"{shown(pattern, 200)} is a folder", "Give its files, for example with /*.json")
        matches = [path] if os.path.isfile(path) else []  # noqa: PTH113 - first: a name may hold brackets
        first = next((at for at, part in enumerate(path.parts) if set("*?[") & set(part)), None)
        if not matches and first is not None:
            folder, rest = Path(*path.parts[:first]), [*path.parts[first:], *["*"] * (path.name == "**")]
            shows_hidden = any(part.startswith(".") for part in rest)
            files = sorted(filter(os.path.isfile, folder.glob("/".join(rest))))
            names = [(file, file.relative_to(folder).parts) for file in files]
            matches = [file for file, parts in names if shows_hidden or not any(part[0] == "." for part in parts)]
        if not matches:
            raise FileFormatError(f"{shown(pattern, 200)} matches no file", "Check the path or the pattern")
        found |= dict.fromkeys(matches)
    return list(found)


def read_text(path: str, most: int = MOST_TEXT_BYTES) -> str:
    """A UTF-8 text file, or standard input for ``-``."""
    if path == "-":
        if sys.stdin is None:
            raise FileFormatError("there is no standard input", "Give the text itself, or a file")
        raw = sys.stdin.buffer.read(most + 1)
    else:
        with open_file(path_of(path)) as file:
            raw = file.read(most + 1)
    if len(raw) > most:
        raise FileFormatError(f"{shown(path)} is larger than {most // 2**20} MB", "Split it")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{shown(path)} is not UTF-8 text (byte {error.start})", "Save it as UTF-8") from error


def path_of(text: str) -> Path:
    """As it was typed, if the system can have it."""
    if not text or "\0" in text:
        raise FileFormatError(f"{shown(text)} is not a path", "Give the name of a file")
    return Path(text)


def parsed_json(text: str | bytes, **how: Any) -> Any:
    """As ``json.loads``; what it cannot read is a ValueError that says why and quotes nothing of the text."""
    try:
        return json.loads(text, **how)
    except RecursionError as error:
        raise ValueError("its lists and objects are nested too deep") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start:,} is no UTF-8") from error
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise ValueError("a whole number has thousands of digits") from error
        raise


def gz_problem(error: Exception) -> str:
    """Why a gz file cannot be inflated, without the bytes and sums that gzip's own message quotes."""
    if isinstance(error, EOFError):
        return "it is cut short"
    reason = str(error)
    if reason.startswith("Not a gzipped file"):
        return "it, or what follows its end, is no gzip data"
    return "its checksum does not match" if reason.startswith("CRC") else reason


def unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """For ``json.loads(object_pairs_hook=...)``: an object; ValueError where a key stands twice, and one of its values
    would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        (key, count), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {shown(key)} stands {count} times in one object")
    return found


class ReadLimit:
    """Counts what is read of a file, unpacked; FileFormatError where that is too much."""

    def __init__(self, path: Path) -> None:
        self._name, self._most, self._read = shown(path.name), max(LEAST_BYTES, MOST_RATIO * path.stat().st_size), 0

    def add(self, size: int) -> None:
        self._read += size
        if self._read > self._most:
            what = f"{self._name} inflates to over {self._most / 2**20:,.0f} MB, {MOST_RATIO} times its size"
            raise FileFormatError(what, "Unpack it first, if that is right")
