"""Names and patterns of files that a user gives, as files: a walk that ends, whatever lies on the disk.

A pattern may come with a link, so a walk follows no link to a folder, and is bounded in entries, depth and time.
"""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from engine.errors import FileFormatError, shown

MOST_ENTRIES, MOST_LEVELS, MOST_S, MOST_PARTS = 100_000, 20, 5.0, 100
_MAGIC = frozenset("*?[")


def expand(patterns: Sequence[str | Path], tick: Callable[[], object] = lambda: None) -> list[Path]:
    """The files, each once: names, or patterns with ``*``, ``?``, ``[...]`` and ``**``. ``tick`` is called before each
    folder, and may raise to end the walk."""
    paths: dict[Path, None] = {}
    walk = _Walk(tick)
    for pattern in patterns:
        matches = _matches(str(pattern), walk)
        if not matches:
            raise FileFormatError(f"{shown(pattern, 200)} matches no file", "Check the path or the pattern")
        paths |= dict.fromkeys(matches)
    return list(paths)


def _matches(pattern: str, walk: _Walk) -> list[Path]:
    if not pattern or "\0" in pattern:
        return []
    path = Path(os.path.expanduser(pattern))  # noqa: PTH111 - Path's own raises where there is no such user
    try:
        if path.is_dir():
            raise FileFormatError(f"{shown(pattern, 200)} is a folder", "Give its files, for example with /*.json")
        if path.exists():  # first: a name may hold brackets
            return [path]
        if len(path.parts) > MOST_PARTS:
            raise _too_far(f"a path of over {MOST_PARTS} parts")
        first = Path(path.anchor)
        return sorted(found for found in walk.below(first, path.parts[len(first.parts) :]) if os.path.isfile(found))  # noqa: PTH113
    except OSError:  # a name too long to be one
        return []


class _Walk:
    """One walk for all patterns, so that they have one limit."""

    def __init__(self, tick: Callable[[], object]) -> None:
        self._tick, self._entries, self._until = tick, 0, time.monotonic() + MOST_S

    def below(self, folder: Path, parts: Sequence[str], level: int = 0) -> Iterator[Path]:
        """What matches the parts of a pattern; a ``**`` at the end is all files, elsewhere folders at any depth."""
        if not parts:
            yield folder
        elif parts[0] == "**":
            if len(parts) > 1:
                yield from self.below(folder, parts[1:], level)
            for entry in self._inside(folder, level):
                if entry.is_dir(follow_symlinks=False):
                    yield from self.below(folder / entry.name, parts, level + 1)
                elif len(parts) == 1:
                    yield folder / entry.name
        elif not _MAGIC & set(parts[0]):
            path = folder / parts[0]
            if os.path.exists(path):  # noqa: PTH110 - Path's own raises in a folder that may not be entered
                yield from self.below(path, parts[1:], level)
        else:
            for entry in self._inside(folder, level, is_hidden=parts[0].startswith(".")):
                if fnmatch.fnmatchcase(entry.name, parts[0]) and (
                    len(parts) == 1 or entry.is_dir(follow_symlinks=False)
                ):
                    yield from self.below(folder / entry.name, parts[1:], level + 1)

    def _inside(self, folder: Path, level: int, *, is_hidden: bool = False) -> Iterator[os.DirEntry[str]]:
        self._tick()
        if level > MOST_LEVELS:
            raise _too_far(f"over {MOST_LEVELS} levels of folders")
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._entries += 1
                    if self._entries > MOST_ENTRIES:
                        raise _too_far(f"over {MOST_ENTRIES:,} files and folders")
                    if time.monotonic() > self._until:
                        raise _too_far(f"over {MOST_S:g} s of looking")
                    if is_hidden or not entry.name.startswith("."):
                        yield entry
        except (PermissionError, NotADirectoryError, FileNotFoundError):  # no folder of ours, or gone meanwhile
            return


def _too_far(what: str) -> FileFormatError:
    return FileFormatError(f"the patterns ask for {what}", "Name the folder of the files")
