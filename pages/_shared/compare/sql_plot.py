"""Which chart suits a table: kinds, what may stand where, and a default from the columns' types. Draws nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

Kind = Literal["bar", "line", "scatter", "histogram"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MOST_GROUPS = 8
MOST_BARS = 60
"""A default has no more; a reader may ask for more."""
_PLACES = ("sample_id", "generation", "block", "atom", "pos", "token_id", "template_id", "number", "seed")
_GROUPS = ("lp", "part", "outcome", "tokenizer_and_lp", "tokenizer", "component", "model", "model_family", "origin")


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart of columns by name; ``y`` is empty in a histogram, ``colour`` where all is of one colour."""

    kind: Kind
    x: str
    y: str = ""
    colour: str = ""


def numbers(table: pa.Table) -> list[str]:
    return [one.name for one in table.schema if _is_number(one.type) and table[one.name].null_count < table.num_rows]


def texts(table: pa.Table) -> list[str]:
    return [one.name for one in table.schema if _is_text(one.type)]


def times(table: pa.Table) -> list[str]:
    return [one.name for one in table.schema if pa.types.is_timestamp(one.type) or pa.types.is_date(one.type)]


def groups(table: pa.Table) -> list[str]:
    """Columns that may give the colour: of few values, and not of one alone."""
    plain = [*texts(table), *(name for name in numbers(table) if pa.types.is_integer(table[name].type))]
    return [name for name in plain if 1 < _distinct(table, name) <= MOST_GROUPS]


def across(table: pa.Table, kind: Kind) -> list[str]:
    """What may stand along x."""
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
    if names and table.num_rows <= MOST_BARS:
        x = _best_names(table, names)
        return Plot("bar", x, measures[0], "" if colour == x else colour)
    if len(measures) > 1:
        return Plot("scatter", measures[0], measures[1], colour)
    return Plot("histogram", measures[0], "", colour)


def suited(table: pa.Table, kind: Kind, default: Plot) -> Plot:
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
    """Numbers that tell something rather than name something: real ones first."""
    told = [name for name in numbers(table) if name not in _PLACES]
    return sorted(told or numbers(table), key=lambda name: pa.types.is_integer(table[name].type))


def _best_names(table: pa.Table, names: Sequence[str]) -> str:
    """Those that tell most rows apart, a run's long id only where nothing else does."""
    plain = [name for name in names if not name.endswith(("run_id", "_run"))] or list(names)
    return max(plain, key=lambda name: (_distinct(table, name), -names.index(name)))


def _distinct(table: pa.Table, name: str) -> int:
    return int(pc.count_distinct(table[name], mode="only_valid").as_py())


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    is_word = pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_boolean(kind) or is_word)
