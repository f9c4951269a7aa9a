"""What tables of the store are made of: columns with a type and a meaning, and kinds of entries that hold them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

VERSION = 7
"""Of what is written here. Readers take this one and all older ones; ``engine.store.views`` fills what those lack."""

TEXT, WHOLE, SMALL, REAL, FLAG = pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.bool_()
TEXTS, IDS, FLAGS, REALS = pa.list_(TEXT), pa.list_(SMALL), pa.list_(FLAG), pa.list_(REAL)
FAILURES = pa.list_(pa.struct([("check", TEXT), ("atoms", IDS), ("detail", TEXT)]))
THROWN = pa.list_(pa.struct([("check", TEXT), ("times", SMALL), ("tokens", SMALL)]))
TAGS = ("tags", TEXTS, "a user's own short labels, several for each; null where there is none")
MOMENT = pa.timestamp("us", tz="UTC")
LEAST_WHOLE, MOST_WHOLE = -(2**63), 2**63 - 1
MOST_REAL, MOST_COUNT = 2.0**63, 2**53
"""Of a figure, and of what is counted: sums and squares of such are numbers, too."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: pa.DataType
    what: str
    required: bool = False
    since: int = 1  # the schema version that brought it
    signed: bool = False  # may be below 0
    unbounded: bool = False  # any number that there is, NaN among them
    blank: bool = False  # may be an empty text, though it is required
    words: frozenset[str] = frozenset()  # its only texts; empty: any

    @property
    def most(self) -> float:
        return MOST_REAL if self.signed or self.type not in (WHOLE, SMALL) else MOST_COUNT

    @property
    def least(self) -> float:
        return -self.most if self.signed else 0

    def allows(self, *numbers: float) -> bool:
        return self.unbounded or all(self.least <= number <= self.most for number in numbers)  # NaN is not

    def storable(self, value: Any) -> Any:
        return None if isinstance(value, float) and self.type == REAL and not self.allows(value) else value

    @property
    def has_rule(self) -> bool:
        """Whether rows of a file can break one of these."""
        is_number = self.type not in (TEXT, TEXTS, FLAG, FLAGS, MOMENT) and not self.unbounded
        return self.required or bool(self.words) or is_number

    def value(self, said: Any) -> Any:
        """A JSON value in this column's type; TypeError, ValueError or OverflowError where it does not fit."""
        if self.type == MOMENT:
            moment = datetime.fromisoformat(said)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        is_flag = isinstance(said, bool)
        if self.type == REAL and isinstance(said, int | float) and not is_flag:
            if not math.isfinite(said) or not self.allows(said):
                raise ValueError(f"{self.name} cannot be {said}")
            return float(said)
        is_text = isinstance(said, str)
        is_texts = isinstance(said, list) and all(isinstance(text, str) for text in said)
        fits = {TEXT: is_text, TEXTS: is_texts, FLAG: is_flag, WHOLE: isinstance(said, int) and not is_flag}
        if not fits.get(self.type, False):
            raise TypeError(f"{self.name} cannot be of {type(said)}")
        if self.type in (TEXT, TEXTS):
            "".join(said).encode()  # half a character is none
            if self.required and not said and not self.blank:
                raise ValueError(f"{self.name} cannot be empty")
        if self.type == WHOLE and not LEAST_WHOLE <= said <= MOST_WHOLE:
            raise OverflowError(f"{self.name} has {said.bit_length()} bits")
        if self.type == WHOLE and not self.allows(said):
            raise ValueError(f"{self.name} cannot be {said}")
        return said


@dataclass(frozen=True, slots=True)
class Table:
    """Columns in the order in which they are shown."""

    name: str
    columns: tuple[Column, ...]
    order: tuple[str, ...] = ()  # rows of a file stand in the order of these
    key: tuple[str, ...] = ()  # whole numbers; no two rows of a file have the same
    by_name: Mapping[str, Column] = field(init=False, repr=False, compare=False)
    required: tuple[Column, ...] = field(init=False, repr=False, compare=False)
    moments: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {column.name: column for column in self.columns})
        object.__setattr__(self, "required", tuple(column for column in self.columns if column.required))
        object.__setattr__(self, "moments", tuple(column.name for column in self.columns if column.type == MOMENT))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.by_name)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(column.name, column.type, nullable=not column.required) for column in self.columns])

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """An Arrow table of row objects; a key that is no column is an error. A missing value is null, as is a figure
        that its column cannot hold: no reader would take the file."""
        unknown = {key for row in rows for key in row} - set(self.names)
        if unknown:
            raise ValueError(f"{self.name} has no column {', '.join(sorted(unknown))}")
        arrays = [pa.array([column.storable(row.get(column.name)) for row in rows], column.type) for column in self]
        return pa.Table.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a folder of the store holds: entries with these tables."""

    folder: str  # "runs"
    key: str  # "run_id"
    noun: str  # "run"
    sheet: str  # the JSON file that makes an entry count
    main: Table  # one row an entry, from the sheet
    tables: tuple[Table, ...]  # a Parquet file each; an entry may lack any of them


def table(
    name: str,
    *columns: tuple[Any, ...],
    order: tuple[str, ...] = (),
    key: tuple[str, ...] = (),
    since: Mapping[int, str] | None = None,
    words: Mapping[str, Iterable[str]] | None = None,
    **marks: str,
) -> Table:
    """``since`` names the columns that later schema versions brought, by version; ``marks`` (``signed``, ``unbounded``,
    ``blank``) those that have it."""
    brought = {column: version for version, names in (since or {}).items() for column in names.split()}
    marked = {mark: set(names.split()) for mark, names in marks.items()}
    strangers = set().union(brought, key, words or (), *marked.values()) - {column[0] for column in columns}
    if strangers:
        raise ValueError(f"{name} has no {', '.join(sorted(strangers))}")
    made = (
        replace(
            Column(*column),
            since=brought.get(column[0], 1),
            words=frozenset((words or {}).get(column[0], ())),
            **dict[str, Any]((mark, column[0] in names) for mark, names in marked.items()),
        )
        for column in columns
    )
    return Table(name, tuple(made), order, key)
