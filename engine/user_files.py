"""Files of users: what they bring is read, regular files only, and what cannot be read is said in one line; what is
written for them appears whole: filled aside, then renamed into place, so that a reader sees all or none."""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from engine.errors import AssetError, FileError, shown

SHARED = "DRIFTSCOPE_SHARED"
PART = ".part"
"""Suffix of files that are being written; they start with a dot."""
MOST_TEXT_BYTES = 64 * 1024 * 1024
_SEPARATOR = re.compile('"?sep=([,;\t])')


def open_file(path: Path) -> BufferedReader:
    """For reading, in binary; FileError for what cannot be read or is no regular file."""
    try:
        return open_regular(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{shown(path, 200)} cannot be read: {reason}", "Give a file") from error


def open_regular(path: Path | str) -> BufferedReader:
    """The same for a reader with words of its own: OSError. A pipe or a device would be waited for without end."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is a folder" if path.is_dir() else "it is no plain file", str(path))
    return path.open("rb")


def declared_separator(line: str) -> str:
    """What a first line such as ``sep=;`` says, as Excel writes it; empty for any other line."""
    declared = _SEPARATOR.match(line)
    return declared[1] if declared else ""


def expand(patterns: Sequence[str]) -> list[Path]:
    """The files, each once: names, or patterns as of ``glob``. Hidden ones only by a pattern with such a dot."""
    files: dict[str, None] = {}
    for pattern in map(os.path.expanduser, patterns):
        if os.path.isdir(pattern):  # noqa: PTH112 - takes any text
            raise FileError(f"{shown(pattern, 200)} is a folder", "Give its files, for example with /*.json")
        names = [pattern, *sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207 - first: a name may hold brackets
        matches = dict.fromkeys(filter(os.path.isfile, names))
        if not matches:
            raise FileError(f"{shown(pattern, 200)} matches no file", "Check the path or the pattern")
        files |= matches
    return list(map(Path, files))


def read_text(path: str, most: int = MOST_TEXT_BYTES) -> str:
    """A UTF-8 text file, or standard input for ``-``."""
    if path == "-":
        if sys.stdin is None:
            raise FileError("there is no standard input", "Give the text itself, or a file")
        raw = sys.stdin.buffer.read(most + 1)
    else:
        with open_file(Path(path)) as file:
            raw = file.read(most + 1)
    if len(raw) > most:
        raise FileError(f"{shown(path)} is larger than {most // 2**20} MB", "Split it")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{shown(path)} is not UTF-8 text (byte {error.start})", "Save it as UTF-8") from error


def parsed_json(text: str | bytes, **how: Any) -> Any:
    """As ``json.loads``; all that it cannot read is a ValueError."""
    try:
        return json.loads(text, **how)
    except RecursionError as error:
        raise ValueError("its lists and objects are nested too deep") from error


def keep_private() -> None:
    """What this process and its children make is for its owner alone: folders 700, files 600. The system's own rights
    hold where a shared store is asked for."""
    if not os.environ.get(SHARED):
        os.umask(0o077)


def publish(target: Path, fill: Callable[[Path], None], label: str) -> Path:
    """Fill a new folder and rename it to ``target``; whoever comes second keeps what the first one wrote. ``label`` is
    named where a disk does not take it, such as ``the tokenizer cache``."""
    aside = target.with_name(f".{target.name}-{uuid.uuid4().hex[:12]}")
    try:
        aside.mkdir(parents=True)
        fill(aside)
        aside.rename(target)
    except OSError as error:
        if not target.is_dir():  # otherwise another process was first, with the same content
            problem = f"{label} {shown(target, 200)} cannot be written ({error.strerror})"
            raise AssetError(problem, "Set DRIFTSCOPE_CACHE to a folder that takes it, or make room") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def check_output(path: Path, *endings: str) -> None:
    """Before hours of work."""
    if path.suffix.lower() not in endings:
        raise FileError(f"{shown(path.name, 200)} does not end in {' or '.join(endings)}", "Give another name")
    if not path.parent.is_dir():
        raise FileError(f"{shown(path.parent, 200)} is no folder", "Make it, or give another place")


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A user's output under this name, whole or not at all: a link to a file stays one, ``/dev/stdout`` is written as
    it is. An OSError names it."""
    try:
        target = path.resolve()
    except RuntimeError as error:
        raise OSError(errno.ELOOP, "it is a link to itself", str(path)) from error
    try:
        if str(path).startswith(("/dev/std", "/dev/fd/", "/proc/")) or (path.exists() and not path.is_file()):
            with path.open("wb") as file:
                yield file
        else:
            with replacing(target) as file:
                yield file
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file of the program's own, whole or not at all. It takes the place of a link or a pipe of that name, and never
    writes through it."""
    aside = path.with_name(f".{uuid.uuid4().hex[:12]}{PART}")
    try:
        with aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
