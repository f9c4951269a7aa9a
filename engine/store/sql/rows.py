"""An answer's table as rows that JSON can hold."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence

import pyarrow as pa


def as_rows(table: pa.Table) -> list[dict[str, object]]:
    """A table as objects that JSON can hold, in the order of its columns.

    Integers of any width are ints, decimals with a scale floats, and NaN and infinities None. Times are ISO text,
    bytes hex, maps objects with text keys. Of columns with one name the later ones are renamed as in ``SqlAnswer``.
    """
    columns = [_values(column) for column in table.columns]
    names = unique_names(table.column_names)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


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


def _values(column: pa.ChunkedArray) -> list[object]:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind):
        return list(column.to_pylist())
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError):  # a date that Python has no year for
        kind = _with_text_for_times(kind)
        values = column.cast(kind).to_pylist()
    return [_json_value(value, kind) for value in values]


def _with_text_for_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_text_for_times(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_with_text_for_times(kind.key_type), _with_text_for_times(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_with_text_for_times(kind.value_type), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(_with_text_for_times(kind.value_type))
    return kind


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
