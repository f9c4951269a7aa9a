"""A finished run gets better rows: what is judged or scored later goes into its tables and into its own row.

The new file lies beside the old one under a name of its own, and the sheet that names it is written last: a reader sees
the old rows or the new ones, and what a killed process leaves goes with the next attempt. Of a run of an older schema
version all tables are written anew, since all files of a run are of one version.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from engine.errors import StoreError
from engine.store.columns import VERSION
from engine.store.entries import USER_SHEET, Entry, parse_entry
from engine.store.files import alone, json_bytes, read_sheet
from engine.store.groups import write_part
from engine.store.schema import RUN
from engine.store.views import dataset


def rewrite_run(entry: Entry, tables: Mapping[str, pa.Table], columns: Mapping[str, Any]) -> Entry:
    """The run with these rows, by table, and these columns of its own, in the present schema version."""
    files, folder = entry.files, entry.folder
    with alone(files, folder):
        now = parse_entry(read_sheet(files, f"{folder}/{RUN.sheet}"), RUN, entry.id, folder, files)
        if any(now.parts.get(name) != entry.parts.get(name) for name in tables):
            raise StoreError(f"{entry.id} was changed by another process meanwhile", "Try again")
        sheets = dict(now.sheet["tables"])
        for name, rows in (_of_older_version(now) | dict(tables)).items():
            sheets[name] = write_part(files, folder, f"{name}-{uuid.uuid4().hex[:8]}.parquet", rows).sheet()
        sheet = {**now.sheet, "schema": VERSION, "row": {**now.sheet["row"], **columns}, "tables": sheets}
        content = json_bytes(sheet)
        better = parse_entry(content, RUN, entry.id, folder, files)  # refused before it is written
        files.write(f"{folder}/{RUN.sheet}", content)
        named = {RUN.sheet, USER_SHEET, *(str(table["file"]) for table in sheets.values())}
        for file in files.sizes(folder):
            if file not in named:
                files.remove(f"{folder}/{file}")
    return better


def _of_older_version(entry: Entry) -> dict[str, pa.Table]:
    """With nulls in the columns that the present version has besides."""
    return {
        table.name: pa.table(dataset(table, [entry]).to_table())
        for table in RUN.tables
        if table.name in entry.parts and entry.version < VERSION
    }
