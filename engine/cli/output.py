"""What the commands share: reading their input, and tables and progress on a terminal."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from engine.errors import FileFormatError, TextError, shown

Item = TypeVar("Item")

MOST_INPUT_BYTES = 64 * 1024 * 1024


def json_option() -> argparse.ArgumentParser:
    """The parent parser that gives a command its ``--json``."""
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--json", action="store_true", help="write one JSON document to standard output")
    return parent


def read_text(path: str) -> str:
    """A UTF-8 text file, or standard input for ``-``."""
    raw = _standard_input() if path == "-" else _file_bytes(path_of(path))
    if len(raw) > MOST_INPUT_BYTES:
        raise FileFormatError(f"{shown(path)} is larger than {MOST_INPUT_BYTES // 2**20} MB", "Split it")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(f"{shown(path)} is not UTF-8 text (byte {error.start})", "Save it as UTF-8") from error


def given_text(text: str | None, file: str | None) -> str:
    """The one of TEXT and --file that was given; TEXT may be ``-`` for standard input."""
    from engine.text.tokenizers import check_text

    if (text is None) == (file is None):
        raise TextError("give either a text or --file", "`-` stands for standard input")
    if file is not None:
        return read_text(file)
    if text == "-":
        return read_text("-")
    given = _as_utf8(text or "")
    check_text(given)
    return given


def _as_utf8(argument: str) -> str:
    """An argument as its bytes say it: a system without a UTF-8 locale hands non-ASCII over as lone surrogates."""
    try:
        return os.fsencode(argument).decode("utf-8")
    except UnicodeError:
        return argument


def path_of(text: str) -> Path:
    """A path from the command line, if the system can have it."""
    try:
        is_possible = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_possible = False
    if not text or not is_possible:
        raise FileFormatError(f"{shown(text)} is no path", "Give the name of a file")
    return Path(text)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as aligned text columns."""
    cells = [[str(value) for value in row] for row in [columns, *rows]]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(lines)


BAR_CHARS = 24


def bar(share: float) -> str:
    """How far something is, from 0 to 1, as a bar."""
    filled = round(BAR_CHARS * min(max(share, 0.0), 1.0))
    return "█" * filled + "·" * (BAR_CHARS - filled)


def progress(items: Sequence[Item], label: str) -> Iterator[Item]:
    """Pass items on, counting them on standard error where somebody watches it."""
    watched = sys.stderr.isatty() and len(items) > 1
    for done, item in enumerate(items):
        if watched:
            sys.stderr.write(f"\r{label} {done}/{len(items)}")
            sys.stderr.flush()
        yield item
    if watched:
        sys.stderr.write(f"\r{label} {len(items)}/{len(items)}\n")


@contextmanager
def logs_shown() -> Iterator[None]:
    """The engine's log on standard error, for commands that work for long."""
    log, handler = logging.getLogger("engine"), logging.StreamHandler(sys.stderr)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def write(text: str) -> None:
    sys.stdout.write(text + "\n")


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise FileFormatError("there is no standard input", "Give the text itself, or a file")
    return sys.stdin.buffer.read(MOST_INPUT_BYTES + 1)


def _file_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_INPUT_BYTES + 1)
