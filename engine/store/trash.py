"""Deleted entries that can be put back: moved aside by a rename, which nothing lists, and removed for good later.

Whoever deletes removes them for good, too; what a killed process left goes after a day (``prune``). An object store has
no rename, so it has no trash.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.errors import DriftscopeError, StoreError, StoreFolderError
from engine.store.files import Files, LocalFiles
from engine.store.schema import KINDS, Kind

TRASH = "trash"
KEPT_S = 24 * 3600
"""After that, an undo comes too late."""
_NAME = re.compile(r"[0-9a-f]{12}")
"""Of a deletion: what else lies there is not of this program."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """What was deleted together. ``folders`` are its entries' own, such as ``runs/run_id=a``."""

    files: Files
    name: str
    folders: tuple[str, ...]

    def undo(self) -> None:
        """Put back what still lies there; an error where that is not all of it."""
        held = _folders(self.files, self.name)
        for folder in held:
            self.files.publish(f"{TRASH}/{self.name}/{folder}", folder)
        self.remove()
        if missing := len(self.folders) - len(held):
            raise StoreError(f"{missing} of {len(self.folders)} were removed for good already", "Nothing can be done")

    def remove(self) -> None:
        """For good."""
        self.files.remove(f"{TRASH}/{self.name}")


def move(files: Files, folders: Sequence[str]) -> Deletion:
    """All of the folders, or none."""
    if not files.can_rename:
        raise StoreError(f"{files.where} cannot rename, so a deletion there cannot be undone", "Remove it for good")
    name, moved = uuid.uuid4().hex[:12], list[str]()
    try:
        for folder in folders:
            files.publish(folder, f"{TRASH}/{name}/{folder}")
            moved.append(folder)
    except DriftscopeError:
        Deletion(files, name, tuple(moved)).undo()
        raise
    return Deletion(files, name, tuple(moved))


def in_trash(files: Files) -> list[tuple[Kind, str, str]]:
    """What lies there: the kind, the id, and the folder, such as ``trash/0a1b/runs/run_id=a``."""
    kinds = {kind.folder: kind for kind in KINDS}
    found = []
    with contextlib.suppress(StoreFolderError):
        for name in filter(_NAME.fullmatch, files.folders(TRASH)):
            with contextlib.suppress(StoreFolderError):  # `strays` names it
                entries = (folder.split("/") for folder in _folders(files, name))
                found += [
                    (kinds[kind], entry.partition("=")[2], f"{TRASH}/{name}/{kind}/{entry}")
                    for kind, entry in entries
                    if kind in kinds
                ]
    return found


def strays(files: Files) -> list[tuple[str, str]]:
    """What lies there and is no deleted entry, such as a file where a folder belongs: the place, and what is wrong."""
    return list(_strays(files, TRASH, 3))


def _strays(files: Files, folder: str, levels: int) -> Iterator[tuple[str, str]]:
    """Deletions, kinds and entries are the three levels of folders; what an entry holds is its own."""
    try:
        names = files.folders(folder)
        if levels:
            yield from ((f"{folder}/{name}", "it is no folder of what was deleted") for name in files.sizes(folder))
            for name in names:
                if folder == TRASH and not _NAME.fullmatch(name):
                    yield f"{folder}/{name}", "it is nothing that was deleted"
                else:
                    yield from _strays(files, f"{folder}/{name}", levels - 1)
    except StoreFolderError as error:
        yield folder, error.what


def prune(files: Files) -> None:
    """Remove what a killed process left there."""
    if not isinstance(files, LocalFiles):
        return
    for name in filter(_NAME.fullmatch, files.folders(TRASH)):
        with contextlib.suppress(OSError, DriftscopeError):  # removed meanwhile, or in a store that is only read
            if files.within(f"{TRASH}/{name}").lstat().st_mtime < time.time() - KEPT_S:
                files.remove(f"{TRASH}/{name}")


def _folders(files: Files, name: str) -> list[str]:
    kinds = files.folders(f"{TRASH}/{name}")
    return [f"{kind}/{entry}" for kind in kinds for entry in files.folders(f"{TRASH}/{name}/{kind}")]
