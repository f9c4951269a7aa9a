"""Which chart suits a table: kinds, which columns may be x, y and colour, and a default from their types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

PlotKind = Literal["bar", "line", "scatter", "histogram"]
KINDS: tuple[PlotKind, ...] = get_args(PlotKind)
MOST_GROUPS = 8
MOST_BARS = 60  # of the default; a reader may choose more
_POSITIONS = ("sample_id", "generation", "block", "atom", "pos", "token_id", "template_id", "number", "seed")
_GROUPS = ("lp", "part", "outcome", "tokenizer_and_lp", "tokenizer", "component", "model", "model_family", "origin")


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart of columns by name; ``y`` is empty in a histogram, ``colour`` where all is of one colour."""

    kind: PlotKind
    x: str
    y: str = ""
    colour: str = ""

    @property
    def question(self) -> str:
        match self.kind:
            case "histogram":
                return f"How is {self.x} distributed?"
            case "bar":
                return f"How does {self.y} differ by {self.x}?"
            case "line":
                return f"How does {self.y} change with {self.x}?"
        return f"How does {self.y} relate to {self.x}?"


def numbers(table: pa.Table) -> list[str]:
    names = [column.name for column in table.schema if is_number(column.type)]
    return [name for name in names if table[name].null_count < table.num_rows]


def texts(table: pa.Table) -> list[str]:
    return [column.name for column in table.schema if is_text(column.type)]


def times(table: pa.Table) -> list[str]:
    return [
        column.name for column in table.schema if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)
    ]


def groups(table: pa.Table) -> list[str]:
    """Columns that may give the colour: of a few values."""
    names = [*texts(table), *(name for name in numbers(table) if pa.types.is_integer(table[name].type))]
    return [name for name in names if 1 < _distinct(table, name) <= MOST_GROUPS]


def across(table: pa.Table, kind: PlotKind) -> list[str]:
    """Columns that may be x."""
    if kind == "histogram":
        return numbers(table)
    if kind == "bar":
        return [*texts(table), *times(table), *numbers(table)]
    return [*times(table), *numbers(table), *texts(table)]


def default_plot(table: pa.Table) -> Plot | None:
    """The likeliest chart of a table; None where nothing of it is a number."""
    measures, names = _measures(table), texts(table)
    if not measures or table.num_rows < 2:
        return None
    colour = next((name for name in _GROUPS if name in groups(table)), "")
    if times(table):
        return Plot("line", times(table)[0], measures[0], colour)
    if (
        names and table.num_rows <= MOST_BARS
    ):  # what tells most rows apart, a run's long id only where nothing else does
        plain = [name for name in names if not name.endswith(("run_id", "_run"))] or names
        x = max(plain, key=lambda name: (_distinct(table, name), -names.index(name)))
        return Plot("bar", x, measures[0], "" if colour == x else colour)
    if len(measures) > 1:
        return Plot("scatter", measures[0], measures[1], colour)
    return Plot("histogram", measures[0], "", colour)


def suited(table: pa.Table, kind: PlotKind, default: Plot) -> Plot:
    """A chart of another kind, with as much of the default as fits it."""
    measures = _measures(table) or numbers(table)
    xs = across(table, kind)
    if kind == "histogram":
        return Plot(kind, default.y if default.y in xs else measures[0], "", default.colour)
    if kind == default.kind:
        return default
    x = default.x if default.x in xs and (kind == "bar" or default.x not in texts(table)) else xs[0]
    y = next((name for name in (default.y, *measures, *numbers(table)) if name and name != x), x)
    return Plot(kind, x, y, default.colour)


def _measures(table: pa.Table) -> list[str]:
    """Numbers that measure something rather than name a place, real ones first."""
    measures = [name for name in numbers(table) if name not in _POSITIONS]
    return sorted(measures or numbers(table), key=lambda name: pa.types.is_integer(table[name].type))


def _distinct(table: pa.Table, name: str) -> int:
    return int(pc.count_distinct(table[name], mode="only_valid").as_py())


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_text(kind: pa.DataType) -> bool:
    is_word = pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_boolean(kind) or is_word)
