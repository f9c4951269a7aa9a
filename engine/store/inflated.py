"""The one way into a store's Parquet files: what they would take in memory is counted before they are read, then their
rows are held to the rules of their table (``engine.store.sound_rows``).

A file of 35 KB can name one text of megabytes in every row. No group of rows that this program writes comes near the
limits here. What this module does not know: what columns mean, and what a damaged file is to a reader.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.errors import shown
from engine.parquet_pages import Pages, footer_bytes, groups_of
from engine.store.columns import Table
from engine.store.files import Files
from engine.store.sound_rows import misfit, unsound
from engine.user_files import MOST_RATIO

MOST_GROUP_BYTES = 512 * 1024 * 1024
"""Of a group of rows, and of a file that is not some times as large. A group is written with 64 MB or little more."""
BATCH_ROWS, KEY_ROWS = 2**11, 2**13
NUMBER_BYTES = 8
_SEEN: dict[tuple[object, ...], str] = {}


class StoredFile(Protocol):
    @property
    def file(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def sha256(self) -> str: ...


class StoredFileError(OSError):
    """A file that takes too much, or is another entry's: to a reader it is one that cannot be read."""


def open_stored(files: Files, folder: str, part: StoredFile, table: Table, **how: Any) -> pq.ParquetFile:
    """A file of an entry, to be read; StoredFileError where something is wrong with it. ``how`` is for pyarrow."""
    check_stored([(files, folder, part, table)])
    return pq.ParquetFile(files.path(f"{folder}/{part.file}"), filesystem=files.filesystem, **how)


def open_bytes(content: bytes, folder: str = "", table: Table | None = None, **how: Any) -> pq.ParquetFile:
    """The same of a file that is held whole; without a folder it is of no finished entry."""
    if problem := problem_of(pa.BufferReader(content), folder, table):
        raise StoredFileError(problem)
    return pq.ParquetFile(pa.BufferReader(content), **how)


def check_stored(parts: Iterable[tuple[Files, str, StoredFile, Table]]) -> None:
    """StoredFileError where something is wrong with a file of an entry's folder. Each is looked at once."""
    problems = [(f"{part[1]}/{part[2].file}", problem) for part in parts if (problem := _problem_once(*part))]
    if problems:
        raise StoredFileError(": ".join(problems[0]))


def _problem_once(files: Files, folder: str, part: StoredFile, table: Table) -> str:
    key = _key(files, folder, part)
    if key not in _SEEN:
        name = f"{folder}/{part.file}"
        with pa.BufferReader(files.read(name)) if files.filesystem else pa.OSFile(files.path(name)) as source:
            _SEEN[key] = problem_of(source, folder, table)
    return _SEEN[key]


def known_problem(files: Files, folder: str, part: StoredFile) -> str:
    """Of a file that was looked at before; empty where nothing is known to be wrong."""
    return _SEEN.get(_key(files, folder, part), "")


def _key(files: Files, folder: str, part: StoredFile) -> tuple[object, ...]:
    return (files.where, folder, part.file, part.bytes, part.sha256)


def problem_of(source: pa.NativeFile, folder: str = "", table: Table | None = None) -> str:
    """Why a file takes too much, is not that of its entry's folder, such as ``runs/run_id=x``, or has rows that its
    table cannot have; else an empty text. An error of reading where it is no whole file."""
    try:
        footer_bytes(source)
    except ValueError as error:
        return str(error)
    try:
        file = pq.ParquetFile(source)
        problem = misfit(file.schema_arrow, table) if table is not None else ""
        problem = problem or _excess(source, file) or _other_owner(file, folder)
        return problem if problem or table is None else unsound(_coded(source, file), table)
    except UnicodeDecodeError as error:  # in a column's name
        raise OSError(str(error)) from error


def _other_owner(file: pq.ParquetFile, folder: str) -> str:
    key, _, id_ = folder.rpartition("/")[2].partition("=")
    if key not in file.schema.names:
        return ""
    batches = file.iter_batches(KEY_ROWS, columns=[key], use_threads=False)
    others = {str(other) for batch in batches for other in batch.column(0).unique().to_pylist()} - {id_}
    return f"it has rows of {shown(min(others))}" if others else ""


def _excess(source: pa.NativeFile, file: pq.ParquetFile) -> str:
    most, total = max(MOST_GROUP_BYTES, MOST_RATIO * source.size()), 0
    texts = _texts(file)
    try:
        for number, (rows, pages) in enumerate(groups_of(source)):
            left = min(MOST_GROUP_BYTES, most - total)
            if len(pages) != file.metadata.num_columns or any(column.values < rows for column in pages):
                return f"a column has fewer values than the {rows:,} rows of its group"
            taken = sum(max(NUMBER_BYTES * column.values, column.size) for column in pages)
            text_bytes = sum(pages[place].size * pages[place].values for place in texts)
            if taken + text_bytes > left:  # if each text were as long as all of them
                columns = {name: pages[place] for place, name in texts.items()}
                text_bytes = _counted(_coded(source, file), number, columns, left - taken)
            if taken + text_bytes > left:
                limit = MOST_GROUP_BYTES if left == MOST_GROUP_BYTES else most
                return f"its rows would take over {limit // 2**20:,} MB of memory"
            total += taken + text_bytes
    except pa.ArrowException:
        raise
    except ValueError as error:
        return str(error)
    return ""


def _texts(file: pq.ParquetFile) -> dict[int, str]:
    """The paths of columns of text, by their places."""
    columns = ((place, file.schema.column(place)) for place in range(file.metadata.num_columns))
    return {place: column.path for place, column in columns if str(column.physical_type).endswith("BYTE_ARRAY")}


def _coded(source: pa.NativeFile, file: pq.ParquetFile) -> pq.ParquetFile:
    """The same file, its texts read as places in a list of different ones."""
    return pq.ParquetFile(source, read_dictionary=list(_texts(file).values()), metadata=file.metadata)


def _counted(file: pq.ParquetFile, number: int, columns: dict[str, Pages], most: int) -> int:
    """Bytes of the texts of a group, read without their repetitions; some number above ``most`` where it is that."""
    taken = 0
    for name, pages in columns.items():
        if pages.is_shared:
            taken += pages.size * pages.values
        elif pages.size > most:
            taken += pages.size
        if taken > most:
            return taken
        for batch in file.iter_batches(BATCH_ROWS, [number], [name], use_threads=False):
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
