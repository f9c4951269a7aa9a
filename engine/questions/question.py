"""What a question is made of, as data. Nothing here reads a store or draws."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

import pyarrow as pa

from engine.errors import DriftscopeError
from engine.figures.text_tables import rows_lines
from engine.figures.words import short_percent, signed_hundredths
from engine.store.columns import rows_of
from engine.store.entries import Entry
from engine.store.store import Store

Options = Mapping[str, Any]
Tables = dict[str, pa.Table]
Kind = Literal["run", "trace", "log", "sample", "model", "text"]
MOST_ROWS = 40  # of a table as plain text


class NeedsWork(DriftscopeError):  # noqa: N818 - the design names it so
    """What must be computed first, and the commands (of ``python -m engine``) that do it, one for each entry."""

    def __init__(self, reason: str, *commands: Sequence[str]) -> None:
        super().__init__(reason, "Run: " + "; ".join(f"python -m engine {' '.join(command)}" for command in commands))
        self.commands = commands


class NeedsTexts(DriftscopeError):  # noqa: N818 - as the other one
    """It was asked of runs that have conformers alone."""


@dataclass(frozen=True, slots=True)
class Of:
    """What a question is asked of. The first entry is the control where there may be more than one. A question of
    samples gets `SampleOf`s in place of entries, one of texts the texts themselves."""

    kind: Kind
    least: int = 1
    most: int = 1


@dataclass(frozen=True, slots=True)
class SampleOf:
    """One sample of a run, as ``RUN/SAMPLE`` names it."""

    entry: Entry
    sample_id: int


@dataclass(frozen=True, slots=True)
class Option:
    """A widget on the page, a key of its address under this name, and ``--option`` in the terminal.

    ``choices`` are values, a mapping to their words, or a function of the store and the entries that gives either.
    """

    name: str
    default: Any = None  # None: the first choice, or nothing; with ``bounds`` an empty field
    label: str = ""
    choices: Sequence[Any] | Mapping[Any, str] | Callable[[Store, Sequence[Entry]], Any] = ()
    bounds: tuple[float, float] | None = None
    unit: str = ""
    help: str = ""
    is_many: bool = False  # any number of the choices; in a terminal joined by the separator
    separator: str = ","
    is_open: bool = False  # the choices are suggestions
    is_picked: bool = False  # set by a click in a chart alone, and taken back by a button


@dataclass(frozen=True, slots=True)
class Column:
    """How a column of a table is named and read; shares are kept from 0 to 1 and have the unit ``%``, differences of
    shares ``points``."""

    words: str = ""
    unit: str = ""
    help: str = ""
    page: str = ""  # opened by a click on the cell, which is its address
    picks: str = ""  # an option that a tick before the row sets to the cell
    wrap_px: int = 0  # its width, where its texts wrap: all rows of the table are three lines high
    is_pinned: bool = False  # in sight when the table scrolls
    is_hidden: bool = False  # in files alone

    def head(self, name: str) -> str:
        """Above the column, or at its axis: with the unit, unless each figure has it."""
        return f"{self.words or name}{'' if self.unit in ('', '%', '×') else f' ({self.unit})'}"


SPEED_COLUMNS = {
    "speed": Column("times faster", "×", "The control's time over the test's: below 1 the test is slower"),
    "pace": Column("test against control", help="With its 95 % bootstrap interval over molecules"),
    **dict.fromkeys(("speed_low", "speed_high"), Column(is_hidden=True)),
}


@dataclass(frozen=True, slots=True)
class Chart:
    """A table's rows as marks. A table that is absent, empty or without a value along one axis draws nothing.

    Bars by ``colour="sign"`` (exact, junk-prone, cut, hypothetical) have the colours of drift, and one scale.
    "matrix" is the table of LPs and models, for the rows of `compare_matrix` alone.
    "time" stacks the shares of ``colour`` from ``x`` to ``high``, with zoom and pan; ``spans`` are drawn below them.
    """

    kind: Literal["points", "bars", "lines", "heat", "time", "matrix"]
    x: str
    y: str
    table: str = "main"
    colour: str = "run"  # of a run that of its place among those that were asked; of other columns one each value
    low: str = ""  # ends of an interval, or where a bar begins
    high: str = ""
    interval: Literal["x", "y"] = "x"
    split: str = ""  # a small chart for each value of this column
    across: int = 0  # so many of them in a row
    size: str = ""
    kinds: tuple[str, ...] = ()  # of "heat": the values of ``colour`` that have one, always the same, the last grey
    text: str = ""  # written next to or inside the mark
    faint: str = ""  # a column that is true where a mark is background
    dash: str = ""  # a column that is true where a line is dashed
    log: str = ""  # "x", "y" or "xy"
    line_at: float | str | None = None  # across the axis of values; a column that has it
    has_diagonal: bool = False
    hover: tuple[str, ...] = ()
    spans: str = ""  # of "time": a table with ``split``, lane, what, start, end and ``colour``
    picks: str = ""  # "option:NAME:COLUMN" sets an option, "page:NAME:COLUMN" opens a page

    def is_empty(self, table: pa.Table | None) -> bool:
        axes = {self.x, self.y}.intersection(() if table is None else table.column_names)
        return table is None or not table.num_rows or any(table[axis].null_count == table.num_rows for axis in axes)


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is made of an answer's tables, besides CSV and Parquet, which each table has."""

    words: str
    file: str
    make: Callable[[Tables], bytes]
    help: str


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What a module of this package has, by the names that it has there, and its docstring."""

    key: str
    help: str
    TITLE: str
    OF: Of
    COLUMNS: Mapping[str, Column]
    tables: Callable[[Store, Sequence[Any], Options], Tables]
    answer: Callable[[Tables, Options], str]
    OPTIONS: tuple[Option, ...] = ()
    CHARTS: tuple[Chart, ...] = ()
    TABLES: tuple[str, ...] = ("main",)  # shown below the charts; others are data behind them
    DOWNLOADS: tuple[Download, ...] = ()  # files of a form of its own
    NEEDS_TEXTS: bool = False  # runs that have conformers alone are left out; refused where all are such
    depends: Callable[[Store, Sequence[Any], Options], Hashable] = lambda *_: None  # what else it is of


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """``answer`` as ``answer_text`` makes it. One is kept and given again, so what is drawn of it is kept by its
    ``number``, which no other has."""

    answer: str
    tables: Tables
    options: Options
    names: Mapping[str, str] = field(default_factory=dict)  # of runs, by id
    number: int = field(default_factory=count().__next__)


def answer_text(lines: Iterable[str], notes: Iterable[str] = ()) -> str:
    """The answer, a line each run where there are several; after an empty line, what it leaves out."""
    return "\n\n".join(part for part in ("\n".join(filter(None, part)) for part in (lines, notes)) if part)


def with_note(answer: str, note: str) -> str:
    """The answer with one more note."""
    lines, _, notes = answer.partition("\n\n")
    return answer_text([lines], [notes, note])


def rows_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> pa.Table:
    """Rows as a table, all columns that some row has; ``columns`` come first, and are there without rows."""
    names = dict.fromkeys([*columns, *(name for row in rows for name in row)])
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def cell_of(column: Column, value: Any) -> Any:
    """For a terminal's table: shares in per cent, their differences in points."""
    if not isinstance(value, float | int):
        return value
    if column.unit == "points":
        return signed_hundredths(value).replace("−", "-")
    return short_percent(value) if column.unit == "%" else value


def shown_columns(names: Sequence[str], columns: Mapping[str, Column]) -> dict[str, Column]:
    """Those that a reader sees; a run's name stands for its id."""
    about = {name: columns.get(name, Column(name)) for name in names}
    hidden = ["run"] if "name" in about else []
    return {name: column for name, column in about.items() if not column.is_hidden and name not in hidden}


def answer_lines(question: Question, answered: Answered) -> Iterator[str]:
    """As plain text: the answer, and the tables that a card shows."""
    yield answered.answer
    for name in [name for name in question.TABLES if answered.tables[name].num_rows] or ["main"]:
        about = {title: question.COLUMNS.get(title, Column()) for title in answered.tables[name].column_names}
        rows = [
            {title: cell_of(about[title], value) for title, value in row.items() if not about[title].is_hidden}
            for row in rows_of(answered.tables[name])
        ]
        yield from ("", *rows_lines(rows[:MOST_ROWS]))
        if len(rows) > MOST_ROWS:
            yield f"... and {len(rows) - MOST_ROWS:,} rows more: `ask {question.key}` has them as --json or --csv"
