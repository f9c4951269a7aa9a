"""Entries of a store as somebody else might craft them: sizes and checksums fit, the figures are nonsense."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.store.columns import Kind
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.store import DEMO, Store


def copied(folder: Path, kind: Kind, part: str) -> tuple[Store, Entry]:
    """A store with the demo's first entry whose id has this in it."""
    demo = Store(Files(DEMO))
    entry = next(entry for entry in demo.listing(kind).entries if part in entry.id)
    shutil.copytree(DEMO / entry.folder, folder / entry.folder)
    store = Store(Files(folder))
    return store, store.entry(entry.id, kind)


def craft(entry: Entry, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Other rows in a table of an entry, with the sums of its sheet made to fit."""
    folder = Path(entry.files.path(entry.folder))
    path = folder / entry.parts[table].file
    rows = change(pq.read_table(path, partitioning=None))
    pq.write_table(rows, path)
    content = path.read_bytes()
    sums = {"rows": rows.num_rows, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    craft_sheet(entry, lambda sheet: sheet["tables"][table].update(sums))


def craft_sheet(entry: Entry, change: Callable[[dict[str, Any]], object]) -> None:
    (path,) = Path(entry.files.path(entry.folder)).glob("*.json")
    sheet = json.loads(path.read_text())
    change(sheet)
    path.write_text(json.dumps(sheet))


def filled(column: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    """A value in every row of a column."""

    def change(rows: pa.Table) -> pa.Table:
        index = rows.schema.get_field_index(column)
        kind = rows.schema.field(index).type
        return rows.set_column(index, pa.field(column, kind), pa.array([value] * rows.num_rows, kind))

    return change


def without(columns: list[str]) -> Callable[[pa.Table], pa.Table]:
    """As a version had it that did not have these columns."""
    return lambda rows: rows.drop_columns(columns)
