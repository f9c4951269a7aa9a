"""An answer's table as rows that JSON can hold."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterator

import pyarrow as pa

from engine.errors import SqlError


def rows_of(table: pa.Table) -> Iterator[dict[str, object]]:
    """A table's rows as objects that JSON can hold, in the order of its columns.

    Integers of any width are ints, decimals with a scale floats, and NaN and infinities None. Times are ISO text,
    bytes hex, maps objects with text keys.
    """
    for row in zip(*map(json_values, table.columns), strict=True):
        yield dict(zip(table.column_names, row, strict=True))


def json_values(column: pa.ChunkedArray) -> Iterator[object]:
    """A part after the other, so that few of them are Python's objects at a time."""
    for part in column.iterchunks():
        try:
            values = part.to_pylist()
        except (OverflowError, ValueError):
            raise SqlError("a date of the answer is of no year that Python has", "CAST it to VARCHAR") from None
        yield from (_json_value(value, column.type) for value in values)


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
