"""Groups of samples, of which a run is made: their files, what they add up to, and the JSON that makes each count."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.store.entries import TableFile
from engine.store.files import Files
from engine.user_files import parsed_json

COMPRESSION = "zstd"


@dataclass(frozen=True, slots=True)
class Group:
    """Samples that were written together."""

    name: str  # rank and number
    members: tuple[int, ...]  # sample ids
    parts: Mapping[str, TableFile]
    sums: Mapping[str, float]
    peaks: Mapping[str, float]


class HashedFile(io.RawIOBase):
    """Writes to a file, and keeps the checksum and size of what was written."""

    def __init__(self, target: IO[bytes]) -> None:
        self.target, self.bytes, self.hash = target, 0, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.hash.update(content)
        self.target.write(content)
        self.bytes += len(content)
        return len(content)

    def tell(self) -> int:
        return self.bytes


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
    parts = {table: part.sheet() for table, part in group.parts.items()}
    return {"members": list(group.members), "tables": parts, "sums": dict(group.sums), "peaks": dict(group.peaks)}


def group_of(content: bytes, name: str) -> Group | None:
    """None if it is damaged: its samples are written again."""
    try:
        sheet = parsed_json(content)
        parts = {table: TableFile(**part) for table, part in sheet["tables"].items()}
        members, figures = sheet["members"], [*sheet["sums"].values(), *sheet["peaks"].values()]
        if not all(type(member) is int for member in members) or not all(map(math.isfinite, figures)):
            return None
        return Group(name, tuple(members), parts, sheet["sums"], sheet["peaks"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
