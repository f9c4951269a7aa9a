"""Queries that have a name: the reports' tables (``data/views/``), examples (``data/examples/``), and a user's own.

A file that ships is SQL below a head of comments; an indented line continues the one above::

    -- title: What does each LP cost and bring, model by model?
    -- reproduces: report 002, section 1.1
    -- description: One row a run.
    --   Pass rate is by the reports' rule.
    SELECT ...

A user's own are in one JSON file of the store's home, which is read again and written by one process at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.errors import FileError, StoreError, shown, visible
from engine.paths import DATA
from engine.store.files import Files, alone, writing_errors

VIEWS, EXAMPLES = DATA / "views", DATA / "examples"
FILE, VERSION, OWN = "queries.json", 1, "own:"
MOST_NAME, MOST_SQL = 80, 100_000


@dataclass(frozen=True, slots=True)
class Query:
    key: str  # in an address: report-002-1.1, own:my query
    title: str
    sql: str
    about: str = ""
    reproduces: str = ""  # "report 002, section 1.1": the table that it reproduces


@cache
def ready_queries() -> tuple[Query, ...]:
    """Those that ship: the reports' tables, then the examples."""
    return tuple(read_query(path) for folder in (VIEWS, EXAMPLES) for path in sorted(folder.glob("*.sql")))


def read_query(path: Path) -> Query:
    _, head, sql = re.split(r"\A((?:--.*\n)+)", path.read_text(encoding="utf-8"))
    parts = dict(line.split(": ", 1) for line in head.replace("\n--  ", "").splitlines())
    return Query(path.stem, parts["-- title"], sql.strip(), parts["-- description"], parts.get("-- reproduces", ""))


def own_queries(files: Files) -> list[Query]:
    """By name; none where nothing was ever saved. FileError where the file is not what was written."""
    try:
        document = files.read_object(FILE)
        if document["version"] > VERSION:
            raise ValueError(f"it has version {document['version']}, this program reads up to {VERSION}")
        queries = [_checked(query["name"], query["sql"]) for query in document["queries"]]
    except FileNotFoundError:
        return []
    except (OSError, StoreError, ValueError, TypeError, KeyError, AttributeError) as error:
        problem = f"{shown(f'{files.where}/{FILE}', 200)} holds no saved queries ({error})"
        raise FileError(problem, "Correct it, or move it out of the store") from error
    return sorted(queries, key=lambda query: (query.title.casefold(), query.title))


def save_query(files: Files, name: str, sql: str) -> Query:
    """One of this name is replaced."""
    query = _checked(name, sql)
    with _alone(files):
        _write(files, [*(saved for saved in own_queries(files) if saved.key != query.key), query])
    return query


def delete_query(files: Files, name: str) -> None:
    with _alone(files):
        _write(files, [query for query in own_queries(files) if query.title != name])


@contextmanager
def _alone(files: Files) -> Iterator[None]:
    """To read, change and write: a store that is not there yet is made."""
    with writing_errors(files.root):
        files.root.mkdir(parents=True, exist_ok=True)
    with alone(files, ""):
        yield


def _write(files: Files, queries: list[Query]) -> None:
    document = {"version": VERSION, "queries": [{"name": query.title, "sql": query.sql} for query in queries]}
    files.write_object(FILE, document)


def _checked(name: str, sql: str) -> Query:
    name = name.strip()
    if not 0 < len(name) <= MOST_NAME or any(visible(char) != char for char in name):
        raise StoreError(f"{shown(name)} is no name for a query", f"Give 1 to {MOST_NAME} visible characters")
    if not 0 < len(sql.strip()) <= len(sql) <= MOST_SQL or re.search(r"[\ud800-\udfff]", sql):
        raise StoreError(f"this statement of {len(sql):,} characters cannot be kept", f"Write 1 to {MOST_SQL:,}")
    return Query(OWN + name, name, sql)
