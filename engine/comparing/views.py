"""Saved views and examples: queries over the store that ship as data, in ``data/views/`` and ``data/examples/``.

A view is one of the reports' tables. Its file is SQL with a head of comments: ``name``, ``title``, ``beside`` (the
report's section that it stands beside) and ``description``; a line that is indented goes on with the one before. A view
returns what the store has, reported runs beside measured ones, and its description says what is missing. An example
answers a question that users ask; it stands beside no report, and may name the runs that a page compares
(``$control``). Both run through the console that users have.

A view may have ``parameters``: names with what they are without a reader's word, ``longest = 5, part = template``. In
its SQL they stand as ``$longest`` and ``$part``; a whole number or a few plain letters, so that nothing can end a text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from engine.errors import FileFormatError, StoreError, nearest, shown
from engine.paths import DATA

FOLDER = DATA / "views"
EXAMPLES = DATA / "examples"
EXAMPLE_KEYS = ("name", "title", "description")
KEYS = (*EXAMPLE_KEYS, "beside")
PARAMETERS = "parameters"
MOST_NUMBER = 10_000
_COMMENT = "--"
_HEAD = re.compile(r"-- (\w+): (\S.*)")
_MORE = re.compile(r"--   (\S.*)")
_PARAMETER = re.compile(r"([a-z_]+) = ([\w .:#-]{1,60})", re.ASCII)
_PLAIN = re.compile(r"[\w .:#-]{1,60}", re.ASCII)
_NAMED = re.compile(r"\$([a-z_]+)")
_BESIDE = re.compile(r"report (\d{3}), section (\S.*)")


@dataclass(frozen=True, slots=True)
class SavedView:
    """One query. ``report`` and ``section`` say beside which table it stands; ``sql`` has its parameters' defaults."""

    name: str
    title: str
    description: str
    report: str
    section: str
    sql: str
    written: str = ""  # the SQL as its file has it
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def filled(self, values: Mapping[str, str]) -> str:
        """The SQL with these values, and the defaults of those that are not given."""
        return _filled(self.written or self.sql, {**self.parameters, **values})


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
    known = dict(_PARAMETER.findall(said.get(PARAMETERS, "")))
    if set(known) != set(_NAMED.findall(sql)):
        raise _wrong(path, f"its SQL and its `{PARAMETERS}` name others")
    plain, written = _filled(sql, known), sql if known else ""
    return SavedView(said["name"], said["title"], said["description"], beside[1], beside[2], plain, written, known)


def _filled(sql: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        if not _PLAIN.fullmatch(value) or (value.isdigit() and not 0 < int(value) <= MOST_NUMBER):
            fix = f"Letters, digits, blanks and . : # _ - only, or a number from 1 to {MOST_NUMBER:,}"
            raise StoreError(f"{name} cannot be {shown(value)}", fix)
    return _NAMED.sub(lambda one: _literal(values.get(one[1], one[0])), sql)


def _literal(value: str) -> str:
    return value if value.isdigit() or value.startswith("$") else f"'{value}'"


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
    if set(said) - {PARAMETERS} != set(keys):
        raise _wrong(path, f"its head has to have {', '.join(keys)}, and has {', '.join(said) or 'nothing'}")
    return said


def _wrong(path: Path, what: str) -> FileFormatError:
    return FileFormatError(f"{shown(path, 200)} is no saved view: {what}", "Mend it there")
