"""What an answer's rows take once they are out of Arrow, and those that fit.

Arrow holds some answers in a hundredth of what they are in JSON, in CSV or as Python's objects: a dictionary names a
long text ten thousand times, a list of ``true`` has a bit for each, one of NULL nothing. So a row is counted as the
JSON of ``engine.store.sql.rows`` at most has it, and lists and structs as the larger ones that Python makes of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import SqlError
from engine.store.sql.process import Limits

Sizes = NDArray[np.int64]

BOOL, SMALL_INT, LARGE_INT, FLOAT, OTHER = 8, 13, 22, 26, 48  # each with the comma behind it
TEXT, LIST, STRUCT, MAP_ENTRY = 24, 64, 128, 128
NESTED = frozenset({"array", "list", "map", "struct", "tuple"})
MOST_HEADER = 1 << 20
HEADER = 500  # of a column or a field of a struct, besides its name

_JSON_BYTES = np.ones(256, np.uint8)  # of a byte of UTF-8, in ASCII
_JSON_BYTES[:32] = _JSON_BYTES[127] = 6
_JSON_BYTES[list(b'"\\\b\f\n\r\t')] = 2
_JSON_BYTES[0x80:0xC0], _JSON_BYTES[0xC0:0xF0], _JSON_BYTES[0xF0:] = 0, 6, 12


def plain_batches(reader: Any, limits: Limits) -> tuple[list[pa.RecordBatch], bool]:
    """Batches up to the limits of rows and sizes, without dictionaries, and whether there was more."""
    batches: list[pa.RecordBatch] = []
    rows, taken, left = 0, 0, limits.answer_mb << 20
    most_written = limits.written_mb << 20
    for batch in reader:
        fit = batch.num_rows if batch.nbytes <= left else batch.num_rows * left // batch.nbytes
        sizes = taken + np.cumsum(row_sizes(batch.slice(0, fit)))
        fit = int(np.searchsorted(sizes, most_written, "right"))
        if not rows and not fit and batch.num_rows:
            most = min(limits.answer_mb, limits.written_mb)
            raise SqlError(f"a row of the answer is over {most} MB", "Select less of each row")
        kept = batch.slice(0, min(fit, limits.rows - rows))
        batches.append(kept.cast(plain_schema(kept.schema)))
        rows, taken, left = rows + kept.num_rows, int(sizes[fit - 1]) if fit else taken, left - batch.nbytes
        if kept.num_rows < batch.num_rows:
            return batches, True
    return batches, False


def check_header(names: list[str], kinds: list[Any]) -> None:
    """Refuse an answer that has more columns, or fields of structs, than a page can hold of them."""
    waiting, size, count = list(zip(names, kinds, strict=True)), 0, 0
    while waiting:
        name, kind = waiting.pop()
        count, size = count + 1, size + HEADER + len(name)
        if size > MOST_HEADER:
            what = f"the answer has over {count - 1:,} columns and fields, or their names are too long"
            raise SqlError(what, "Select fewer columns")
        waiting += inner_types(kind)


def inner_types(kind: Any) -> list[tuple[str, Any]]:
    """The names and types in one of DuckDB's types."""
    inner = kind.children if kind.id in NESTED else []
    return [(name, child) for name, child in inner if not isinstance(child, int)]  # an array's size is an int


def plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(retyped(field.type, _decoded)) for field in schema])


def retyped(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type, with those that are not nested changed wherever they stand in it."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(retyped(field.type, change)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(retyped(kind.key_type, change), retyped(kind.item_type, change))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(retyped(kind.value_type, change), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(retyped(kind.value_type, change))
    return change(kind)


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


# --- sizes ----------------------------------------------------------------------------------------------------------


def row_sizes(batch: pa.RecordBatch) -> Sizes:
    """The bytes of each row at most, its names among them, as objects of JSON have them."""
    names = sum(_name_size(name) for name in batch.schema.names)
    total = np.full(batch.num_rows, STRUCT + names, np.int64)
    for column in batch.columns:
        total += _sizes(column)
    return total


def _sizes(array: pa.Array) -> Sizes:
    """The bytes of each value."""
    kind, types, count = array.type, pa.types, len(array)
    if not count:
        return np.zeros(0, np.int64)
    if types.is_dictionary(kind):
        return _of_dictionary(array)
    if types.is_struct(kind):
        total: Sizes = np.full(count, STRUCT + sum(_name_size(field.name) for field in kind), np.int64)
        for place in range(kind.num_fields):
            total += _sizes(array.field(place))
        return total
    if types.is_map(kind):
        entries = _sizes(array.keys) + _sizes(array.items) + MAP_ENTRY
        return STRUCT + _sums(entries, array.offsets.to_numpy())
    if types.is_fixed_size_list(kind):
        first = array.offset * kind.list_size
        inner = _sizes(array.values.slice(first, count * kind.list_size))
        lists: Sizes = np.full(count, LIST, np.int64)
        lists += inner.reshape(count, kind.list_size).sum(axis=1)
        return lists
    if types.is_list(kind):
        return LIST + _sums(_sizes(array.values), array.offsets.to_numpy())
    if any(is_bytes(kind) for is_bytes in (types.is_string, types.is_large_string, types.is_binary)):
        return _of_bytes(array, is_text=not types.is_binary(kind))
    return np.broadcast_to(np.int64(_width(kind)), count)  # takes no memory for each


def _of_dictionary(array: pa.DictionaryArray) -> Sizes:
    if not len(array.dictionary):
        return np.full(len(array), BOOL, np.int64)
    sizes: Sizes = _sizes(array.dictionary)[array.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    sizes[array.is_null().to_numpy(zero_copy_only=False)] = BOOL
    return sizes


def _of_bytes(array: pa.Array, *, is_text: bool) -> Sizes:
    _, ends, content = array.buffers()
    form = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = np.frombuffer(ends, form, len(array) + 1, array.offset * np.dtype(form).itemsize)
    if content is None or not is_text:
        return TEXT + 2 * np.diff(offsets).astype(np.int64)
    content = np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]]
    return TEXT + _sums(_JSON_BYTES[content], offsets - offsets[0])


def _sums(sizes: NDArray[Any], offsets: NDArray[Any]) -> Sizes:
    """Of the values from each offset to the next."""
    total = np.zeros(len(offsets) - 1, np.int64)
    is_any = np.diff(offsets) > 0
    if is_any.any():
        total[is_any] = np.add.reduceat(sizes[: offsets[-1]], offsets[:-1][is_any], dtype=np.int64)
    return total


def _name_size(name: str) -> int:
    return len(json.dumps(name)) + len(": , ")


def _width(kind: pa.DataType) -> int:
    if pa.types.is_null(kind) or pa.types.is_boolean(kind):
        return BOOL
    if pa.types.is_integer(kind):
        return SMALL_INT if kind.bit_width <= 32 else LARGE_INT
    return FLOAT if pa.types.is_floating(kind) else OTHER
