"""Groups of samples, of which a run is made: their files, what they add up to, and the JSON that makes each count."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from engine.store.entries import TableFile
from engine.store.files import Files

COMPRESSION = "zstd"


@dataclass(frozen=True, slots=True)
class Group:
    """Samples that were written together."""

    name: str  # rank and number
    members: tuple[int, ...]  # sample ids
    parts: dict[str, TableFile]
    sums: dict[str, int | float]  # what they add up to: samples, tokens, seconds, ...
    peaks: dict[str, int | float]  # that of which the largest holds


def write_part(files: Files, folder: str, file: str, rows: pa.Table) -> TableFile:
    """A Parquet file, and what a sheet says of it."""
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression=COMPRESSION)
    content = buffer.getvalue()
    files.write(f"{folder}/{file}", content)
    return TableFile(file, rows.num_rows, len(content), hashlib.sha256(content).hexdigest())


def totals(groups: Iterable[Group]) -> dict[str, float]:
    """Sums and peaks of groups, by column."""
    sums: dict[str, float] = {}
    for group in groups:
        for name, value in group.sums.items():
            sums[name] = sums.get(name, 0) + value
        for name, value in group.peaks.items():
            sums[name] = max(sums.get(name, value), value)
    return sums


def group_sheet(group: Group) -> dict[str, Any]:
    sheet = asdict(group)
    return {"members": sheet["members"], "tables": sheet["parts"], "sums": sheet["sums"], "peaks": sheet["peaks"]}


def group_of(content: bytes, name: str) -> Group | None:
    """None if it is damaged: its samples are written again."""
    try:
        sheet = msgspec.json.decode(content)
        return msgspec.convert({**sheet, "name": name, "parts": sheet["tables"]}, Group)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
