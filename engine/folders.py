"""Folders and files that appear whole: filled aside, then renamed into place, so that a reader sees all or none."""

from __future__ import annotations

import os
import shutil
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
    """Fill a new folder and rename it to ``target``; whoever comes second keeps what the first one wrote. ``what`` is
    named where a disk does not take it, such as ``the tokenizer cache``."""
    aside = target.with_name(f".{target.name}-{uuid.uuid4().hex[:12]}")
    try:
        aside.mkdir(parents=True)
        fill(aside)
        aside.rename(target)
    except OSError as error:
        if not target.is_dir():  # otherwise another process was first, with the same content
            what = f"{what} {shown(target, 200)} cannot be written ({error.strerror})"
            raise AssetError(what, "Set DRIFTSCOPE_CACHE to a folder that takes it, or make room") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file under this name, whole or not at all: a link to a file stays one, ``/dev/stdout`` is written as it is. An
    OSError names it."""
    aside = path.resolve().parent / f".{uuid.uuid4().hex[:12]}{PART}"
    try:
        if str(path).startswith(("/dev/std", "/dev/fd/", "/proc/")) or (path.exists() and not path.is_file()):
            with path.open("wb") as file:
                yield file
            return
        with aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path.resolve())
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
    finally:
        aside.unlink(missing_ok=True)
