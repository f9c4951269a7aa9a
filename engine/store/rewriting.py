"""A finished run gets better rows: what is judged or scored later goes into its tables and into its own row.

The new file lies beside the old one under a name of its own, and the sheet that names it is written last: a reader sees
the old rows or the new ones, and what a killed process leaves goes with the next attempt. Of a run of an older schema
version all tables are written anew, since all files of a run are of one version.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from engine.errors import StoreError
from engine.store.columns import VERSION
from engine.store.entries import USER_SHEET, Entry, parse_entry, write_part
from engine.store.files import alone
from engine.store.schema import RUN


def rewrite_run(entry: Entry, tables: Mapping[str, pa.Table], columns: Mapping[str, Any]) -> Entry:
    """The run with these rows, by table, and these columns of its own, in the present schema version."""
    files, folder = entry.files, entry.folder
    with alone(files, folder):
        now = parse_entry(files.read_object(f"{folder}/{RUN.sheet}"), RUN, entry.id, folder, files)
        if any(now.parts.get(name) != entry.parts.get(name) for name in tables):
            raise StoreError(f"{entry.id} was changed by another process meanwhile", "Try again")
        rows = {
            table.name: pa.concat_tables([table.schema.empty_table(), now.read(table.name)], promote_options="default")
            for table in RUN.tables
            if table.name in now.parts and now.version < VERSION  # columns that came later are null
        }
        parts = {
            name: asdict(write_part(files, folder, f"{name}-{uuid.uuid4().hex[:8]}.parquet", table))
            for name, table in (rows | dict(tables)).items()
        }
        sheet = {**now.sheet, "schema": VERSION, "row": {**now.sheet["row"], **columns}}
        sheet["tables"] = {**now.sheet["tables"], **parts}
        better = parse_entry(sheet, RUN, entry.id, folder, files)  # refused before it is written
        files.write_object(f"{folder}/{RUN.sheet}", sheet)
        named = {RUN.sheet, USER_SHEET, *(str(table["file"]) for table in sheet["tables"].values())}
        for file in files.sizes(folder):
            if file not in named:
                files.remove(f"{folder}/{file}")
    return better
