"""Files that users bring: regular ones only, inflated no further than a packed file of that size may hold, and read in
no more time than that takes.

A pipe or a device would be waited for without end. What a file means is not known here.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from engine.errors import FileFormatError, shown

LEAST_BYTES = 64 * 1024 * 1024
MOST_RATIO = 200
"""Inflated bytes for each of the file: text of traces and logs has 3 to 30, gzip can have 1,000."""
LOOK_BYTES = 1 << 20
MOST_TEXT_BYTES = 64 * 1024 * 1024
MOST_VALUES = 512 * 1024 * 1024
"""Bytes that the values of a JSON text may take in memory, where a reader names no other limit."""
LEAST_S, S_PER_MB = 30.0, 10.0
"""Seconds of this process's computing for a file, and for each of its megabytes: ten times what a slow core needs."""


def open_file(path: Path) -> BinaryIO:
    """For reading, in binary; FileFormatError for what cannot be read or is no regular file, which is never opened."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "no plain file"
            raise FileFormatError(f"{shown(path.name or path)} is {kind}", "Give a file")
        return BufferedReader(_PlainFile(path, "rb", opener=_without_waiting))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise FileFormatError(f"{shown(path, 200)} cannot be read: {reason}", "Check its path") from error


def open_regular(path: Path | str, known: os.stat_result | None = None) -> BufferedReader:
    """The same for a reader with words of its own: OSError for what cannot be read or is no regular file."""
    if not stat.S_ISREG((known or Path(path).stat()).st_mode):
        raise OSError(errno.EINVAL, "it is no plain file", str(path))
    return BufferedReader(_PlainFile(path, "rb", opener=_without_waiting))


_Read = TypeVar("_Read", int, bytes)


class _PlainFile(FileIO):
    """Some devices call themselves regular files, such as ``/proc/kmsg``: a read that would wait is an error."""

    def readinto(self, buffer: Any) -> int:
        count: int | None = super().readinto(buffer)
        return self._read(count)

    def readall(self) -> bytes:
        return self._read(super().readall())

    def _read(self, found: _Read | None) -> _Read:
        if found is None:
            name = shown(Path(str(self.name)).name)
            raise FileFormatError(f"{name} is no plain file: reading it would wait without end", "Give a file")
        return found


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def read_regular(path: Path | str, known: os.stat_result | None = None) -> bytes:
    with open_regular(path, known) as file:
        return file.read()


def expand(patterns: Sequence[str | Path]) -> list[Path]:
    """The files, each once: names, or patterns with ``*``, ``?``, ``[...]`` and ``**``, which follows no link. Hidden
    ones only by a pattern with such a dot."""
    found: dict[Path, None] = {}
    for pattern in map(str, patterns):
        path = Path(os.path.expanduser(pattern))  # noqa: PTH111 - Path's own raises where there is no such user
        try:
            if pattern and path.is_dir():
                raise FileFormatError(f"{shown(pattern, 200)} is a folder", "Give its files, for example with /*.json")
            if path.is_file():  # first: a name may hold brackets
                matches = [path]
            else:
                first = next((at for at, part in enumerate(path.parts) if set("*?[") & set(part)), len(path.parts))
                folder, rest = Path(*path.parts[:first]), list(path.parts[first:])
                rest += ["*"] if rest[-1:] == ["**"] else []
                shows_hidden = any(part.startswith(".") for part in rest)
                files = sorted(filter(os.path.isfile, folder.glob("/".join(rest)))) if rest else []
                names = [(one, one.relative_to(folder).parts) for one in files]
                matches = [one for one, parts in names if shows_hidden or not any(part[0] == "." for part in parts)]
        except (OSError, ValueError):  # a name that no file can have
            matches = []
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


def parsed_json(text: str | bytes, *, most: int = MOST_VALUES, **how: Any) -> Any:
    """As ``json.loads``; what it cannot read, or would take over ``most`` bytes of memory, is a ValueError that says
    why and quotes nothing of the text."""
    if len(text) * _MOST_PER_CHARACTER > most and value_bytes(text) > most:
        raise ValueError(f"its values would take over {most / 2**20:,.0f} MB of memory")
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


_BYTES_FOR = {b"[": 96, b"{": 128, b",": 48, b":": 160, b'"': 32}
"""What each mark outside texts stands for: ``[]`` takes up to 96 bytes, a number or a place in a list 48, a key's pair
and its place in an object 160, a text 64 besides its characters."""
_MOST_PER_CHARACTER = 164
_PIECE = 1 << 20


def value_bytes(text: str | bytes) -> int:
    """What the values of a JSON text take in memory at most, counted without making them; of usual files twice what
    they take."""
    total, is_inside, is_wide, rest = 0, False, False, b""
    for start in range(0, len(text), _PIECE):
        piece = text[start : start + _PIECE]
        piece = rest + (piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece)
        is_wide = is_wide or not piece.isascii() or b"\\u" in piece
        piece = piece.replace(b"\\\\", b"")
        rest = b"\\" if piece.endswith(b"\\") else b""
        parts = piece.replace(b'\\"', b"").split(b'"')
        outside = b'"' * (len(parts) - 1) + b"".join(parts[is_inside::2])
        total += sum(size * outside.count(mark) for mark, size in _BYTES_FOR.items())
        is_inside ^= len(parts) % 2 == 0
    return total + len(text) * (4 if is_wide else 1)  # a text of Python's has 4 bytes a character if one needs them


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
    """Counts what is read of a file, unpacked; FileFormatError where that is too much or too slow."""

    def __init__(self, path: Path, *, is_timed: bool = True, clock: Callable[[], float] = time.process_time) -> None:
        size = path.stat().st_size
        self._name, self._clock, self._is_timed = shown(path.name), clock, is_timed
        self._most = max(LEAST_BYTES, MOST_RATIO * size)
        self._seconds = LEAST_S + S_PER_MB * size / 2**20
        self._until = clock() + self._seconds
        self._read = self._looked = 0

    def add(self, size: int) -> None:
        self._read += size
        if self._read > self._most:
            what = f"{self._name} inflates to over {self._most / 2**20:,.0f} MB, {MOST_RATIO} times its size"
            raise FileFormatError(what, "Unpack it first, if that is right")
        if not self._is_timed or self._read < self._looked:
            return
        self._looked = self._read + LOOK_BYTES
        if self._clock() > self._until:
            what = f"{self._name} takes over {self._seconds:,.0f} s to read"
            raise FileFormatError(what, "Split it, or write it in a simpler form")
