"""What a store's Parquet files would take in memory, counted before they are read.

A file of 35 KB can name one text of megabytes in every row. No group of rows that this program writes comes near the
limits here. What this module does not know: what columns mean, and what a damaged file is to a reader.
"""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.store.files import Files
from engine.user_files import MOST_RATIO

MOST_GROUP_BYTES = 512 * 1024 * 1024
"""Of a group of rows, and of a file that is not some times as large. A group is written with 64 MB or little more."""
BATCH_ROWS = 2048
SHARED = "DELTA_BYTE_ARRAY"
"""Texts that begin alike share that: such are not read to be counted, and this program writes none."""
NUMBER_BYTES = 8
_SEEN: dict[tuple[object, ...], str] = {}


class StoredFile(Protocol):
    @property
    def file(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def sha256(self) -> str: ...


class InflatedError(OSError):
    """A file that would take too much: to a reader it is one that cannot be read."""


def check_inflated(files: Files, folder: str, part: StoredFile) -> None:
    """InflatedError where the file takes too much. Each file is looked at once."""
    key = _key(files, folder, part)
    if key not in _SEEN:
        _SEEN[key] = problem_of(files.path(f"{folder}/{part.file}"), part.bytes, filesystem=files.filesystem)
    if _SEEN[key]:
        raise InflatedError(_SEEN[key])


def known_problem(files: Files, folder: str, part: StoredFile) -> str:
    """Of a file that was looked at before; empty where nothing is known to be wrong."""
    return _SEEN.get(_key(files, folder, part), "")


def _key(files: Files, folder: str, part: StoredFile) -> tuple[object, ...]:
    return (files.where, folder, part.file, part.bytes, part.sha256)


def problem_of(source: Any, size: int, **more: Any) -> str:
    """Why a file of so many bytes takes too much, or an empty text; an error of reading where it is no whole file."""
    try:
        return _problem_of(source, size, **more)
    except UnicodeDecodeError as error:  # in a column's name
        raise OSError(str(error)) from error


def _problem_of(source: Any, size: int, **more: Any) -> str:
    most, total = max(MOST_GROUP_BYTES, MOST_RATIO * size), 0
    with pq.ParquetFile(source, **more) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        texts = [place for place in _columns(file) if _is_text(file.schema.column(place))]
        names = [file.schema.column(place).path for place in texts]
        with pq.ParquetFile(source, read_dictionary=names, metadata=file.metadata, **more) as coded:
            for number, group in enumerate(groups):
                left = min(MOST_GROUP_BYTES, most - total)
                numbers = NUMBER_BYTES * sum(group.column(place).num_values for place in _columns(file))
                sizes = {group.column(place).path_in_schema: group.column(place) for place in texts}
                taken = numbers + sum(one.total_uncompressed_size * one.num_values for one in sizes.values())
                if taken > left:  # if each text were as long as all of them
                    taken = numbers + _counted(coded, number, sizes, left)
                if taken > left:
                    limit = MOST_GROUP_BYTES if left == MOST_GROUP_BYTES else most
                    return f"its rows would take over {limit // 2**20:,} MB of memory"
                total += taken
    return ""


def _columns(file: pq.ParquetFile) -> range:
    return range(file.metadata.num_columns)


def _is_text(column: Any) -> bool:
    return str(column.physical_type).endswith("BYTE_ARRAY")


def _counted(file: pq.ParquetFile, number: int, columns: dict[str, Any], most: int) -> int:
    """Bytes of the texts of a group, read without their repetitions; some number above ``most`` where it is that."""
    taken = 0
    for name, column in columns.items():
        if SHARED in column.encodings:
            taken += column.total_uncompressed_size * column.num_values
        elif column.total_uncompressed_size > most:
            taken += column.total_uncompressed_size
        if taken > most:
            return taken
        for batch in file.iter_batches(BATCH_ROWS, [number], [name]):
            taken += sum(map(_text_bytes, batch.columns))
            if taken > most:
                return taken
    return taken


def _text_bytes(column: Any) -> int:
    """Of texts and lists of them, with each as often as it stands there."""
    if pa.types.is_struct(column.type):
        return sum(map(_text_bytes, column.flatten()))
    if pa.types.is_nested(column.type):
        return _text_bytes(column.flatten())
    if not isinstance(column, pa.DictionaryArray):
        return int(column.nbytes)
    used = column.indices.drop_null().value_counts()  # a dictionary has all texts of its group
    lengths = pc.binary_length(column.dictionary.take(used.field("values"))).cast(pa.int64())
    return pc.sum(pc.multiply(lengths, used.field("counts"))).as_py() or 0
