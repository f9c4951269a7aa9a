"""An answer's table as rows that JSON can hold."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterator, Sequence

import pyarrow as pa

from engine.store.sql.sizes import retyped

ROWS_AT_ONCE = 256


def as_rows(table: pa.Table) -> list[dict[str, object]]:
    return list(rows_of(table))


def rows_of(table: pa.Table) -> Iterator[dict[str, object]]:
    """A table's rows as objects that JSON can hold, in the order of its columns.

    Integers of any width are ints, decimals with a scale floats, and NaN and infinities None. Times are ISO text,
    bytes hex, maps objects with text keys. Of columns with one name the later ones are renamed as in ``SqlAnswer``.
    """
    names = unique_names(table.column_names)
    for row in zip(*map(json_values, table.columns), strict=True):
        yield dict(zip(names, row, strict=True))


def in_parts(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """Some rows after the other, so that few of them are Python's objects at a time."""
    for start in range(0, len(column), ROWS_AT_ONCE):
        yield column.slice(start, ROWS_AT_ONCE)


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, with ``_1``, ``_2`` after those that have come before."""
    taken = set(names)
    unique: dict[str, None] = {}
    for name in names:
        free, number = name, 0
        while free in unique or (number and free in taken):
            number += 1
            free = f"{name}_{number}"
        unique[free] = None
    return list(unique)


def json_values(column: pa.ChunkedArray) -> Iterator[object]:
    kind = column.type
    is_json = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind)
    for part in in_parts(column):
        try:
            values, kind = part.to_pylist(), column.type
        except (OverflowError, ValueError):  # a date that Python has no year for
            kind = retyped(column.type, _text_for_times)
            values = part.cast(kind).to_pylist()
        yield from values if is_json else (_json_value(value, kind) for value in values)


def _text_for_times(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_temporal(kind) else kind


def _json_value(value: object, kind: pa.DataType) -> object:
    """A value that pyarrow has made of something of this type."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case decimal.Decimal():
            return float(value) if int(value.as_tuple().exponent) < 0 else int(value)
        case bytes():
            return value.hex()
        case datetime.date() | datetime.time():  # a datetime is a date
            return value.isoformat()
        case dict():
            return {field.name: _json_value(value[field.name], field.type) for field in kind}
        case list() if pa.types.is_map(kind):
            return {str(_json_value(key, kind.key_type)): _json_value(item, kind.item_type) for key, item in value}
        case list():
            return [_json_value(item, kind.value_type) for item in value]
    return str(value)
