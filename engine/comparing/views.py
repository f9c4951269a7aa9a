"""Saved views and examples: queries over the store that ship as data, in ``data/views/`` and ``data/examples/``.

A view is one of the reports' tables. Its file is SQL with a head of comments: ``name``, ``title``, ``beside`` (the
report's section that it stands beside) and ``description``; a line that is indented goes on with the one before. A view
returns what the store has, reported runs beside measured ones, and its description says what is missing. An example
answers a question that users ask; it stands beside no report, and may name the runs that a page compares
(``$control``). Both run through the console that users have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from engine.errors import FileFormatError, StoreError, nearest, shown
from engine.paths import DATA

FOLDER = DATA / "views"
EXAMPLES = DATA / "examples"
EXAMPLE_KEYS = ("name", "title", "description")
KEYS = (*EXAMPLE_KEYS, "beside")
_COMMENT = "--"
_HEAD = re.compile(r"-- (\w+): (\S.*)")
_MORE = re.compile(r"--   (\S.*)")
_BESIDE = re.compile(r"report (\d{3}), section (\S.*)")


@dataclass(frozen=True, slots=True)
class SavedView:
    """One query. ``report`` and ``section`` say beside which table it stands."""

    name: str
    title: str
    description: str
    report: str
    section: str
    sql: str


@dataclass(frozen=True, slots=True)
class Example:
    """One query that answers a question, which is its title."""

    name: str
    title: str
    description: str
    sql: str


def saved_views(folder: Path = FOLDER) -> tuple[SavedView, ...]:
    """All of them, by name; an error names the file that is wrong."""
    return tuple(read_view(path) for path in sorted(folder.glob("*.sql")))


def saved_view(name: str, folder: Path = FOLDER) -> SavedView:
    views = {view.name: view for view in saved_views(folder)}
    if name not in views:
        raise StoreError(f"there is no saved view {shown(name)}", nearest(name, list(views)))
    return views[name]


def read_view(path: Path) -> SavedView:
    said, sql = _read(path, KEYS)
    beside = _BESIDE.fullmatch(said["beside"])
    if beside is None:
        raise _wrong(path, "`beside` is like `report 002, section 1.1`")
    return SavedView(said["name"], said["title"], said["description"], beside[1], beside[2], sql)


def examples(folder: Path = EXAMPLES) -> tuple[Example, ...]:
    """All of them, by name."""
    return tuple(read_example(path) for path in sorted(folder.glob("*.sql")))


def read_example(path: Path) -> Example:
    said, sql = _read(path, EXAMPLE_KEYS)
    return Example(said["name"], said["title"], said["description"], sql)


def _read(path: Path, keys: tuple[str, ...]) -> tuple[dict[str, str], str]:
    """What the head says, and the SQL below it."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{shown(path, 200)} cannot be read: {error}", "Check the file") from error
    size = next((number for number, line in enumerate(lines) if not line.startswith(_COMMENT)), len(lines))
    said = _head(path, lines[:size], keys)
    sql = "\n".join(lines[size:]).strip()
    if said["name"] != path.stem or not sql:
        raise _wrong(path, "its name is the file's, and SQL follows")
    return said, sql


def _head(path: Path, lines: list[str], keys: tuple[str, ...]) -> dict[str, str]:
    said: dict[str, str] = {}
    for line in lines:
        if found := _HEAD.fullmatch(line):
            said[found[1]] = found[2]
        elif (more := _MORE.fullmatch(line)) and said:
            said[list(said)[-1]] += f" {more[1]}"
        else:
            raise _wrong(path, f"{shown(line)} is no line of a head")
    if set(said) != set(keys):
        raise _wrong(path, f"its head has to have {', '.join(keys)}, and has {', '.join(said) or 'nothing'}")
    return said


def _wrong(path: Path, what: str) -> FileFormatError:
    return FileFormatError(f"{shown(path, 200)} is no saved view: {what}", "Mend it there")
