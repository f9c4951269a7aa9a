"""Queries over the store that ship as data: the reports' tables (``data/views/``) and examples (``data/examples/``).

A query's file is SQL below a head of comments: ``name``, ``title`` and ``description``; an indented line continues the
one above. A view reproduces a report's table, so it also names it (``beside``: report and section). It returns what the
store has, reported runs beside measured ones. An example answers a question, and may name the runs that a page compares
(``$control``). Both run through the users' console.

A view may have ``parameters`` with their defaults: ``longest = 5, part = template``. In its SQL they are ``$longest``
and ``$part``. A value is a whole number or a few plain characters, so that it cannot end a text.
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
MOST_NUMBER = 10_000
_HEAD = re.compile(r"-- (\w+): (\S.*)")
_CONTINUED = re.compile(r"--   (\S.*)")
_PARAMETER = re.compile(r"([a-z_]+) = ([\w .:#-]{1,60})", re.ASCII)
_PLAIN = re.compile(r"[\w .:#-]{1,60}", re.ASCII)
_NAME = re.compile(r"\$([a-z_]+)")
_BESIDE = re.compile(r"report (\d{3}), section (\S.*)")


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """One query. ``report`` and ``section`` name the table that it reproduces; ``sql`` has its parameters' defaults."""

    name: str
    title: str
    description: str
    sql: str
    report: str = ""
    section: str = ""
    template: str = ""  # the SQL of a query with parameters
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def filled(self, values: Mapping[str, str]) -> str:
        """The SQL with these values, and the defaults of those that are not given."""
        return _filled(self.template or self.sql, {**self.parameters, **values})


def saved_views(folder: Path = FOLDER) -> tuple[StoredQuery, ...]:
    """All of them, by name; an error names the file that is wrong."""
    return tuple(read_query(path, has_report=True) for path in sorted(folder.glob("*.sql")))


def saved_view(name: str) -> StoredQuery:
    views = {view.name: view for view in saved_views()}
    if name not in views:
        raise StoreError(f"there is no saved view {shown(name)}", nearest(name, list(views)))
    return views[name]


def examples(folder: Path = EXAMPLES) -> tuple[StoredQuery, ...]:
    """All of them, by name. An example's title is its question."""
    return tuple(read_query(path, has_report=False) for path in sorted(folder.glob("*.sql")))


def read_query(path: Path, *, has_report: bool) -> StoredQuery:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{shown(path, 200)} cannot be read: {error}", "Check the file") from error
    size = next((number for number, line in enumerate(lines) if not line.startswith("--")), len(lines))
    head, sql = _head(path, lines[:size]), "\n".join(lines[size:]).strip()
    keys = {"name", "title", "description", *(["beside"] if has_report else [])}
    if set(head) - ({"parameters"} if has_report else set()) != keys:
        raise _invalid(path, f"its head has to have {', '.join(sorted(keys))}, and has {', '.join(head) or 'nothing'}")
    if head["name"] != path.stem or not sql:
        raise _invalid(path, "its name has to be the file's, and SQL has to follow")
    about = (head["name"], head["title"], head["description"])
    if not has_report:
        return StoredQuery(*about, sql)
    table = _BESIDE.fullmatch(head["beside"])
    if table is None:
        raise _invalid(path, "`beside` is like `report 002, section 1.1`")
    parameters = dict(_PARAMETER.findall(head.get("parameters", "")))
    if set(parameters) != set(_NAME.findall(sql)):
        raise _invalid(path, "its SQL and its `parameters` have different names")
    return StoredQuery(*about, _filled(sql, parameters), table[1], table[2], sql if parameters else "", parameters)


def _head(path: Path, lines: list[str]) -> dict[str, str]:
    head: dict[str, str] = {}
    for line in lines:
        if match := _HEAD.fullmatch(line):
            head[match[1]] = match[2]
        elif (more := _CONTINUED.fullmatch(line)) and head:
            head[list(head)[-1]] += f" {more[1]}"
        else:
            raise _invalid(path, f"{shown(line)} is no line of a head")
    return head


def _filled(sql: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        if not _PLAIN.fullmatch(value) or (value.isdigit() and not 0 < int(value) <= MOST_NUMBER):
            fix = f"Letters, digits, blanks and . : # _ - only, or a number from 1 to {MOST_NUMBER:,}"
            raise StoreError(f"{name} cannot be {shown(value)}", fix)
    literals = {name: value if value.isdigit() else f"'{value}'" for name, value in values.items()}
    return _NAME.sub(lambda match: literals.get(match[1], match[0]), sql)


def _invalid(path: Path, what: str) -> FileFormatError:
    return FileFormatError(f"{shown(path, 200)} is no saved view: {what}", "Correct the file")
