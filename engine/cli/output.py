"""What the commands share: reading their input, JSON and tables on standard output, progress on standard error."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import FileFormatError, TextError, one_line, shown, visible
from engine.figures.words import shortened
from engine.user_files import open_file

Row = Mapping[str, Any]
Columns = Sequence[tuple[str, str | Callable[[Row], object]]]
"""Titles of a table's columns, each with the key of the row, or with a function that makes the cell of the row."""

MOST_INPUT_BYTES, MOST_TEXT_BYTES = 64 * 1024 * 1024, 1024 * 1024
"""Of a file or standard input, and where that is one text: its tokens take 300 times as much memory."""
MOST_CELL = 90
"""Characters of a text in a table; the longest run id has 83."""
BAR_CHARS = 24
DRAW_S = 0.2


# --- input ------------------------------------------------------------------------------------------------------------


def read_text(path: str, most: int = MOST_INPUT_BYTES) -> str:
    """A UTF-8 text file, or standard input for ``-``."""
    if path == "-":
        if sys.stdin is None:
            raise FileFormatError("there is no standard input", "Give the text itself, or a file")
        raw = sys.stdin.buffer.read(most + 1)
    else:
        with open_file(path_of(path)) as file:
            raw = file.read(most + 1)
    if len(raw) > most:
        raise FileFormatError(f"{shown(path)} is larger than {most // 2**20} MB", "Split it")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(f"{shown(path)} is not UTF-8 text (byte {error.start})", "Save it as UTF-8") from error


def given_text(text: str | None, file: str | None) -> str:
    """TEXT or the content of --file, whichever was given; TEXT may be ``-`` for standard input."""
    from engine.text.tokenizers import check_text

    if (text is None) == (file is None):
        raise TextError("give either a text or --file", "`-` stands for standard input")
    if file is not None or text == "-":
        return read_text(file or "-", MOST_TEXT_BYTES)
    try:  # a system without a UTF-8 locale hands non-ASCII over as lone surrogates
        typed = os.fsencode(text or "").decode("utf-8")
    except UnicodeError:
        typed = text or ""
    check_text(typed)
    return typed


def path_of(text: str) -> Path:
    """A path from the command line, if the system can have it."""
    try:
        is_possible = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_possible = False
    if not text or not is_possible:
        raise FileFormatError(f"{shown(text)} is not a path", "Give the name of a file")
    return Path(text)


def confirm(question: str, args: argparse.Namespace) -> bool:
    """Whether the user agrees, by --yes or by an answer on the terminal."""
    if args.yes:
        return True
    if not sys.stdin or not sys.stdin.isatty():
        return False
    sys.stderr.write(f"{one_line(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# --- output -----------------------------------------------------------------------------------------------------------


def emit_json(document: object) -> None:
    """One JSON document on standard output; ASCII, so that any text survives any terminal. All of it, or nothing."""
    sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")


def emit_json_rows(rows: Iterable[Row]) -> None:
    """The same document as ``emit_json`` of a list, row by row: many rows are more than memory holds at once."""
    for place, row in enumerate(rows):
        sys.stdout.write((", " if place else "[") + json.dumps(row, allow_nan=False))
    sys.stdout.write("]\n")


def write(text: str) -> None:
    """Lines on standard output. What cannot be seen, as a terminal's commands in a user's file, is escaped."""
    lines = (line if line.isprintable() else "".join(map(visible, line)) for line in text.split("\n"))
    sys.stdout.write("\n".join(lines) + "\n")


def note(text: str) -> None:
    """One line for people, on standard error."""
    sys.stderr.write(one_line(text) + "\n")


def show(rows: Sequence[Row], columns: Columns, *, is_json: bool) -> None:
    """Rows as one JSON document with all their keys, or as a table of these columns; nothing where there is no row."""
    if is_json:
        emit_json(list(rows))
    elif rows:
        cells = [[cell(row[key]) if isinstance(key, str) else key(row) for _, key in columns] for row in rows]
        write(table([title for title, _ in columns], cells))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as aligned text columns."""
    cells = [[str(value) for value in row] for row in [columns, *rows]]
    widths = _widths(cells)
    return "\n".join(_line(row, widths) for row in cells)


def write_table(columns: Sequence[str], rows: Callable[[], Iterable[Sequence[str]]]) -> None:
    """A table of many rows, which are made twice and never held: once for the widths, once to write them."""
    widths = _widths(itertools.chain([columns], rows()))
    for row in itertools.chain([columns], rows()):
        write(_line(row, widths))


def _widths(rows: Iterable[Sequence[str]]) -> list[int]:
    rows = iter(rows)
    widths = [len(text) for text in next(rows)]
    for row in rows:
        widths = [max(width, len(text)) for width, text in zip(widths, row, strict=True)]
    return widths


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def cell(value: object, most: int = MOST_CELL) -> str:
    """A value in a table: 1234 -> ``1,234``, 0.5 -> ``0.50``; text is untrusted, so printable and short."""
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
    return shortened(one_line(str(value)), most)


def figure(key: str, form: str, per: float = 1) -> Callable[[Row], str]:
    """The cell of a number in this format, such as ``,.1f``; 1500 us ``per`` 1000 -> ``1.5``."""
    return lambda row: "" if row[key] is None else f"{row[key] / per:{form}}"


def share(part: str, whole: str) -> Callable[[Row], str]:
    """The cell of one count as a share of another: 1 of 4 -> ``25.0%``."""
    return lambda row: "" if row[part] is None or not row[whole] else f"{row[part] / row[whole]:.1%}"


# --- progress ---------------------------------------------------------------------------------------------------------


def bar(done: float) -> str:
    """A share from 0 to 1, as a bar."""
    filled = round(BAR_CHARS * min(max(done, 0.0), 1.0))
    return "█" * filled + "·" * (BAR_CHARS - filled)


class StatusLine:
    """One line of progress on standard error, redrawn in place. It shows only where that is a terminal."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self.is_shown = sys.stderr.isatty() and not is_quiet
        self._drawn_s = 0.0

    @property
    def is_due(self) -> bool:
        return self.is_shown and time.monotonic() - self._drawn_s >= DRAW_S

    def draw(self, text: str, *, now: bool = False) -> None:
        """At most five times a second, unless ``now``."""
        if self.is_due or (now and self.is_shown):
            self._drawn_s = time.monotonic()
            sys.stderr.write(f"\r{text}\033[K")
            sys.stderr.flush()

    def clear(self) -> None:
        if self.is_shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
