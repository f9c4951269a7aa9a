"""Documents and tables as lines of plain text, for a terminal, whose width is not known here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.errors import one_line, shown
from engine.figures.words import number, short_percent, shortened

Row = Mapping[str, Any]
MOST_CELL = 90  # characters of a text in a table; the longest run id has 83
MOST_ROWS = 200  # of a table below a record


def text_lines(document: Any, columns: str = "") -> Iterator[str]:
    """A JSON document for people: of an object its values, a line each, then its lists of rows as tables; of a list
    of rows a table of these ``columns`` (default: all with a value). ``passes%samples`` is a column of shares."""
    if isinstance(document, list):
        yield from rows_lines(document, columns)
        return
    lines = dict[str, str]()
    tables = dict[str, list[Row]]()
    rest = list(document.items())
    while rest:
        name, value = rest.pop(0)
        if isinstance(value, Mapping):  # histogram {"-1": 2} -> histogram -1
            rest = [*((f"{name} {key}", part) for key, part in value.items()), *rest]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            tables[name] = value
        elif text := cell(value, 10_000):
            lines[name] = text
    width = max(map(len, [*lines, *tables]), default=0) + 2
    yield from (f"{name:<{width}}{text}" for name, text in lines.items())
    for name, rows in tables.items():
        yield from ("", name, *rows_lines(rows[:MOST_ROWS], columns))
        if len(rows) > MOST_ROWS:
            yield f"... and {len(rows) - MOST_ROWS:,} rows more: --json has them"


def rows_lines(rows: Sequence[Row], columns: str = "") -> Iterator[str]:
    """Without columns that have no value. The last one is never shortened, nor the name of a file."""
    table: dict[str, list[str]] = {}
    for name in columns.split() or dict.fromkeys(name for row in rows for name in row):
        part, _, whole = name.partition("%")
        texts = [cell(row.get(part), 10_000) for row in rows]
        if whole:  # 1 of 4 -> 25.0%
            has_share = [bool(text and row[whole]) for row, text in zip(rows, texts, strict=True)]
            pairs = zip(rows, has_share, strict=True)
            texts = [short_percent(row[part] / row[whole]) if has else "" for row, has in pairs]
        if any(texts):
            table[part] = texts
    for name in list(table)[:-1]:
        if name != "file":
            table[name] = [shortened(text, MOST_CELL) for text in table[name]]
    return table_lines(list(table), list(zip(*table.values(), strict=True)))


def table_lines(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned columns."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def cell(value: object, most: int = MOST_CELL) -> str:
    """1234 -> ``1,234``, 0.12345 -> ``0.123``, a list -> its values. Text is untrusted: short,
    and quoted where it has what cannot be seen."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value).replace("−", "-")
    if isinstance(value, Mapping):  # by what names it
        return cell(next(iter(value.values()), None))
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value)) if len(value) <= 8 else f"{len(value):,} values"
    text = str(value)
    return shortened(text, most) if one_line(text) == text else shown(text, most)
