"""The processes that run users' SQL, as the system lists them: what tests look at to see that none is left."""

from __future__ import annotations

import os
from pathlib import Path

OWN = b"DRIFTSCOPE_CHILD=engine.store.console.statements"


def processes_of(parent: int | None = None, *, marked: str = "") -> set[int]:
    """Those of this process, or of any whose environment has ``marked`` in it."""
    pids = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and OWN in _read(folder / "environ"):
            is_mine = _parent(folder) == (parent or os.getpid())
            if marked.encode() in _read(folder / "environ") if marked else is_mine:
                pids.add(int(folder.name))
    return pids


def _parent(folder: Path) -> int:
    """Behind the name, which stands in brackets and may hold anything. What has ended has no parent here."""
    fields = _read(folder / "stat").rpartition(b") ")[2].split()
    return int(fields[1]) if len(fields) > 1 and fields[0] != b"Z" else 0


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""
