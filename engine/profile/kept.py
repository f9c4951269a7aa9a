"""A trace's own file, where the store keeps it beside its entries: for other programs that show traces."""

from __future__ import annotations

import re

from engine.errors import StoreError
from engine.profile.ingest import FOLDER
from engine.store.entries import Entry

_OWN = re.compile(rf"{FOLDER}/[A-Za-z0-9][A-Za-z0-9._-]*")


def kept_name(entry: Entry) -> str | None:
    """Its file's name; None where the store keeps none, or the entry names what is no file of its kind."""
    name = entry.row.get("file")
    return name if isinstance(name, str) and _OWN.fullmatch(name) else None


def kept_size(entry: Entry) -> int | None:
    """In bytes; None where there is none, or it is gone."""
    name = kept_name(entry)
    return None if name is None else entry.files.sizes(FOLDER).get(name.removeprefix(f"{FOLDER}/"))


def kept_bytes(entry: Entry) -> bytes:
    name = kept_name(entry)
    if name is None:
        raise StoreError(f"the store keeps no file of {entry.id}", "Add the trace again with --keep")
    try:
        return entry.files.read(name)
    except OSError as error:
        raise StoreError(f"{name} cannot be read: {error.strerror or error}", "Add the trace again") from error
