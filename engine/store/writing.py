"""Entries that are written in one go: begun anew, and in the store whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from engine.errors import DriftscopeError
from engine.store.entries import Entry
from engine.store.files import ASIDE, Files
from engine.store.schema import Kind
from engine.store.staging import Staging


def begin_anew(files: Files, kind: Kind, id_: str, row: Mapping[str, Any], **more: Any) -> Staging:
    """Locked. What an import that was killed or failed left is removed; one that still runs holds the lock, so this one
    fails. ``more`` stays in the sheet."""
    if id_ in files.folders(ASIDE):
        left = Staging(files, kind, id_, {})
        left.lock()
        left.abandon()
    staging = Staging.create(files, kind, id_, row, **more)
    staging.lock()
    return staging


@contextmanager
def whole_or_nothing(staging: Staging) -> Iterator[None]:
    """What was written is thrown away where an error ends the block, Ctrl-C and a closed generator among them."""
    try:
        yield
    except BaseException:
        with suppress(DriftscopeError):
            staging.abandon()
        raise


def write_entry(
    files: Files, kind: Kind, id_: str, row: Mapping[str, Any], groups: Iterable[Mapping[str, pa.Table]]
) -> Entry:
    staging = Staging.create(files, kind, id_, row)
    with whole_or_nothing(staging):
        for tables in groups:
            staging.add(tables)
        return staging.publish({})
