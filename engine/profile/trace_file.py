"""A trace's own file, where the store keeps it beside its entries: for other programs that show traces."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from engine.errors import StoreError
from engine.store.entries import Entry
from engine.store.store import Store

FOLDER = "profiles"  # where trace files lie in a store
_NAME = re.compile(rf"{FOLDER}/[A-Za-z0-9][A-Za-z0-9._-]*")


def keep_trace_file(store: Store, path: Path, trace_id: str) -> str:
    """Copy a trace's file into the store; its name there."""
    with path.open("rb") as source:
        name = possible_names(trace_id)[source.read(2) == b"\x1f\x8b"]
        source.seek(0)
        with store.home.writing(name) as target:
            shutil.copyfileobj(source, target, 1024 * 1024)
    return name


def possible_names(trace_id: str) -> list[str]:
    """Plain, and as gzip."""
    return [f"{FOLDER}/{trace_id}.json", f"{FOLDER}/{trace_id}.json.gz"]


def trace_file_name(entry: Entry) -> str | None:
    """None where the store keeps no file, or the entry names none of these."""
    name = entry.row.get("file")
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None


def trace_file_size(entry: Entry) -> int | None:
    """In bytes; None where there is none, or it is gone."""
    name = trace_file_name(entry)
    return None if name is None else entry.files.sizes(FOLDER).get(name.removeprefix(f"{FOLDER}/"))


def trace_file_bytes(entry: Entry) -> bytes:
    name = trace_file_name(entry)
    if name is None:
        raise StoreError(f"the store keeps no file of {entry.id}", "Add the trace again with --keep")
    try:
        return entry.files.read(name)
    except OSError as error:
        raise StoreError(f"{name} cannot be read: {error.strerror or error}", "Add the trace again") from error
