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

from engine.store.columns import FLAG, REAL, SMALL, TEXT, WHOLE, Column, Kind
from engine.store.entries import Entry
from engine.store.files import LocalFiles
from engine.store.store import DEMO, Store

LONG = "x" * 1_000_000
NONSENSE: dict[Any, tuple[Any, ...]] = {
    REAL: (float("nan"), 1e308, -1e308, 0.0, -1.0, None),
    WHOLE: (2**62, -1, 0, None),
    SMALL: (2**31 - 1, -1, 0, None),
    TEXT: ("", LONG, "\u202e<b>`|", None),
    FLAG: (None,),
}


def copied(place: Path, kind: Kind, part: str) -> tuple[Store, Entry]:
    """A store with the demo's first entry whose id has this in it."""
    demo = Store(LocalFiles(DEMO))
    entry = next(entry for entry in demo.found(kind).entries if part in entry.id)
    shutil.copytree(DEMO / entry.folder, place / entry.folder)
    store = Store(LocalFiles(place))
    return store, store.entry(entry.id, kind)


def nonsense_for(column: Column) -> tuple[Any, ...]:
    """Values of the column's own type, of which a file may be full."""
    if pa.types.is_list(column.type):
        inner = column.type.value_type
        return ([], None, *([value] for value in NONSENSE.get(inner, (None,))))
    return NONSENSE.get(column.type, (None,))


def is_let_through(column: Column, value: Any) -> bool:
    """Whether the column's rules have nothing against it. A text of 1 MB in each row is too much for its file."""
    plain = value[0] if isinstance(value, list) and value else value
    if plain is None:
        has_structs = pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type)
        return not (column.required and value is None) and not (has_structs and value)
    if isinstance(plain, str):
        return plain != LONG and not column.words and bool(plain or column.blank or not column.required)
    return isinstance(plain, list) or column.allows(plain)


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
        place = rows.schema.get_field_index(column)
        kind = rows.schema.field(place).type
        return rows.set_column(place, pa.field(column, kind), pa.array([value] * rows.num_rows, kind))

    return change
