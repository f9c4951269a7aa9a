"""Folders and files that appear whole: filled aside, then renamed into place, so that a reader sees all or none."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from engine.errors import AssetError, shown

SHARED = "DRIFTSCOPE_SHARED"
PART = ".part"
"""Suffix of files that are being written; they start with a dot."""


def keep_private() -> None:
    """What this process and its children make is for its owner alone: folders 700, files 600. The system's own rights
    hold where a shared store is asked for."""
    if not os.environ.get(SHARED):
        os.umask(0o077)


def publish(target: Path, fill: Callable[[Path], None], what: str) -> Path:
    """Fill a new folder and rename it to ``target``; whoever comes second keeps what the first one wrote.

    Nothing half-written is left: on any error the folder aside is removed. ``what`` names it in the error of a disk
    that does not take it, such as ``the tokenizer cache``.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        where = {"prefix": f".{target.name}-", "dir": str(target.parent)}
        with tempfile.TemporaryDirectory(**where, ignore_cleanup_errors=True) as aside:
            fill(Path(aside))
            if os.environ.get(SHARED):  # else it stays its owner's alone, as it is made
                Path(aside).chmod(0o755)
            Path(aside).rename(target)
    except OSError as error:
        if not target.is_dir():  # otherwise another process was first, with the same content
            what = f"{what} {shown(target, 200)} cannot be written ({error.strerror})"
            raise AssetError(what, "Set DRIFTSCOPE_CACHE to a folder that takes it, or make room") from error
    return target


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A new file under this name, whole or not at all."""
    aside = path.with_name(f".{uuid.uuid4().hex[:12]}{PART}")
    try:
        with aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def exporting(path: Path) -> Iterator[BinaryIO]:
    """The same for a place that a user names: a link to a file stays one, and ``/dev/stdout`` is written as it is. An
    OSError names it."""
    is_device = str(path).startswith(("/dev/std", "/dev/fd/", "/proc/")) or (path.exists() and not path.is_file())
    try:
        with path.open("wb") if is_device else writing(path.resolve()) as file:
            yield file
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
