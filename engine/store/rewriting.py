"""A finished run gets better rows: what is judged later goes into the table of its samples and into its own row.

The new file lies beside the old one under a name of its own, and the sheet that names it is written last: a reader sees
the old rows or the new ones, and what a killed process leaves goes with the next attempt.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from engine.errors import StoreError
from engine.store.entries import USER_SHEET, Entry, parse_entry
from engine.store.files import alone, json_bytes
from engine.store.groups import write_part
from engine.store.schema import RUN, SAMPLES, VERSION


def rewrite_samples(entry: Entry, rows: pa.Table, columns: Mapping[str, Any]) -> Entry:
    """The run with these rows of ``samples`` and these columns of its own, in the present schema version."""
    files, folder = entry.files, entry.folder
    with alone(files, folder):
        now = parse_entry(files.read(f"{folder}/{RUN.sheet}"), RUN, entry.id, folder, files)
        if now.parts.get(SAMPLES.name) != entry.parts.get(SAMPLES.name):
            raise StoreError(f"{entry.id} was changed by another process meanwhile", "Try again")
        part = write_part(files, folder, f"{SAMPLES.name}-{uuid.uuid4().hex[:8]}.parquet", rows)
        tables = {**now.sheet["tables"], SAMPLES.name: part.sheet()}
        sheet = {**now.sheet, "schema": VERSION, "row": {**now.sheet["row"], **columns}, "tables": tables}
        content = json_bytes(sheet)
        better = parse_entry(content, RUN, entry.id, folder, files)  # refused before it is written
        files.write(f"{folder}/{RUN.sheet}", content)
        named = {RUN.sheet, USER_SHEET, *(str(table["file"]) for table in tables.values())}
        for file in files.sizes(folder):
            if file not in named:
                files.remove(f"{folder}/{file}")
    return better
