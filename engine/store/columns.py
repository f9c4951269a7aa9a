"""What tables of the store are made of: columns with a type and a meaning, and kinds of entries that hold them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any

import msgspec
import pyarrow as pa

VERSION = 7
"""Of what is written here. Readers take this one and all older ones; ``engine.store.views`` fills what those lack."""

TEXT, WHOLE, SMALL, REAL, FLAG = pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.bool_()
TEXTS, IDS, MOMENT = pa.list_(TEXT), pa.list_(SMALL), pa.timestamp("us", tz="UTC")
TYPES: Mapping[str, pa.DataType] = {
    "text": TEXT, "whole": WHOLE, "small": SMALL, "real": REAL, "flag": FLAG, "moment": MOMENT,
    "texts": TEXTS, "ids": IDS, "flags": pa.list_(FLAG), "reals": pa.list_(REAL),
    "failures": pa.list_(pa.struct([("check", TEXT), ("atoms", IDS), ("detail", TEXT)])),
    "thrown": pa.list_(pa.struct([("check", TEXT), ("times", SMALL), ("tokens", SMALL)])),
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
    what: str
    required: bool = False
    _: KW_ONLY
    unbounded: bool = False  # any number that there is, NaN among them


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
        return pa.schema([pa.field(column.name, column.type, nullable=not column.required) for column in self.columns])

    @cached_property
    def _sheet_row(self) -> Any:
        known = {**_IN_JSON, TEXT: _SAID}
        fields = [
            (one.name, known[one.type]) if one.required else (one.name, _IN_JSON[one.type] | None, None) for one in self
        ]
        return msgspec.defstruct(self.name, fields, kw_only=True)

    def row_of(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """A sheet's row in the columns' own types, without what is null and what is no column; ValueError or
        OverflowError where a value does not fit."""
        found = msgspec.structs.asdict(msgspec.convert(said, self._sheet_row))
        row = {name: value for name, value in found.items() if value is not None}
        if "created_at" in row:
            moment = datetime.fromisoformat(row["created_at"])
            row["created_at"] = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        return row

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
