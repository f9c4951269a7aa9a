"""What tables of the store are made of: columns with a type and a meaning, and kinds of entries that hold them."""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, date, datetime, time
from functools import cached_property
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from engine.errors import SqlError

VERSION = 11
"""Of what is written here. Readers take this one and all older ones; ``engine.store.views`` fills what those lack, and
leaves out what they had besides."""

TEXT, WHOLE, SMALL, REAL, FLAG = pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.bool_()
TEXTS, IDS, MOMENT = pa.list_(TEXT), pa.list_(SMALL), pa.timestamp("us", tz="UTC")
TYPES: Mapping[str, pa.DataType] = {
    "text": TEXT,
    "whole": WHOLE,
    "small": SMALL,
    "real": REAL,
    "flag": FLAG,
    "moment": MOMENT,
    "texts": TEXTS,
    "ids": IDS,
    "flags": pa.list_(FLAG),
    "reals": pa.list_(REAL),
    "failures": pa.list_(pa.struct([("check", TEXT), ("atoms", IDS), ("detail", TEXT)])),
    "thrown": pa.list_(pa.struct([("check", TEXT), ("times", SMALL), ("tokens", SMALL)])),
    "rewards": pa.list_(pa.struct([("name", TEXT), ("value", REAL)])),
    "tops": pa.list_(pa.struct([("token_id", SMALL), ("p_raw", REAL), ("allowed", FLAG)])),
}
TAGS = ("tags", "texts", "a user's own short labels, several for each; null where there is none")
_SAID = Annotated[str, msgspec.Meta(min_length=1)]
_COUNT = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_IN_JSON: Mapping[pa.DataType, Any] = {TEXT: str, WHOLE: _COUNT, REAL: float, FLAG: bool, TEXTS: list[str], MOMENT: str}


@dataclass(frozen=True)
class Column:
    name: str
    type: pa.DataType
    meaning: str
    required: bool = False
    _: KW_ONLY
    unbounded: bool = False  # any number that there is, NaN among them


def select_list(schema: pa.Schema) -> str:
    """All columns of a table for SELECT. Runs of before an answer had several conformers say nothing of them: blocks
    and steps are of the first one then, also those behind a further prompt, until they are counted again."""
    if "conformer" not in schema.names:
        return "*"
    return '* REPLACE (coalesce("conformer", 1) AS "conformer")'


@dataclass(frozen=True)
class Table:
    """Columns in the order in which they are shown."""

    name: str
    columns: tuple[Column, ...]
    order: tuple[str, ...] = ()  # rows of a file stand in the order of these

    @cached_property
    def by_name(self) -> Mapping[str, Column]:
        return {column.name: column for column in self.columns}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.by_name)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(column.name, column.type, nullable=not column.required) for column in self])

    @cached_property
    def _sheet_row(self) -> Any:
        types = {**_IN_JSON, TEXT: _SAID}
        fields = [(c.name, types[c.type]) if c.required else (c.name, _IN_JSON[c.type] | None, None) for c in self]
        return msgspec.defstruct(self.name, fields, kw_only=True)

    def row_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A sheet's row in the columns' own types, without what is null and what is no column; ValueError or
        OverflowError where a value does not fit."""
        fields = msgspec.structs.asdict(msgspec.convert(values, self._sheet_row))
        return {
            name: _moment(value) if name == "created_at" else value
            for name, value in fields.items()
            if value is not None
        }

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """An Arrow table of row objects; a key that is no column is an error. A missing value is null, as is a figure
        that is no finite number where its column has only those."""
        if unknown := {key for row in rows for key in row} - self.by_name.keys():
            raise ValueError(f"{self.name} has no column {', '.join(sorted(unknown))}")
        columns = []
        for column in self:
            values = [row.get(column.name) for row in rows]
            if column.type == REAL and not column.unbounded:
                values = [None if value is None or not math.isfinite(value) else value for value in values]
            columns.append(pa.array(values, column.type))
        return pa.Table.from_arrays(columns, schema=self.schema)


def _moment(iso: str) -> datetime:
    """In UTC, which is meant too where no zone is named."""
    moment = datetime.fromisoformat(iso)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a folder of the store holds: entries with these tables."""

    folder: str  # "runs"
    key: str  # "run_id"
    noun: str  # "run"
    sheet: str  # the JSON file that makes an entry count
    main: Table  # one row an entry, from the sheet
    tables: tuple[Table, ...]  # a Parquet file each; an entry may lack any of them


def table(name: str, *columns: tuple[Any, ...], order: tuple[str, ...] = (), unbounded: str = "") -> Table:
    free = unbounded.split()
    made = (Column(column, TYPES[of], *rest, unbounded=column in free) for column, of, *rest in columns)
    return Table(name, tuple(made), order)


# --- as JSON ---------------------------------------------------------------------------------------------------------


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
        case date() | time():  # a datetime is a date
            return value.isoformat()
        case dict():
            return {field.name: _json_value(value[field.name], field.type) for field in kind}
        case list() if pa.types.is_map(kind):
            return {str(_json_value(key, kind.key_type)): _json_value(item, kind.item_type) for key, item in value}
        case list():
            return [_json_value(item, kind.value_type) for item in value]
    return str(value)
