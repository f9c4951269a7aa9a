"""A user's own queries, kept by name in one JSON file of a store's home, beside its runs.

It knows nothing of SQL: a query is kept as it was written, and the console says what is wrong with it. The file is
written whole or not at all. Of two programs that write at the same moment the later one wins.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from engine.errors import FileFormatError, StoreError, nearest, shown, visible
from engine.store.files import Files, read_sheet
from engine.user_files import parsed_json

FILE = "queries.json"
VERSION = 1
MOST_QUERIES = 200
MOST_NAME = 80
MOST_SQL = 100_000
"""Characters of a query: as many as the console takes."""
_WRITING = threading.Lock()  # read, change, write: one thread of this program at a time


@dataclass(frozen=True, slots=True)
class OwnQuery:
    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class OwnQueries:
    """The queries in one store's home. Nothing is kept in memory: other programs may write the file, too."""

    files: Files

    @property
    def where(self) -> str:
        return f"{self.files.where}/{FILE}"

    def all(self) -> tuple[OwnQuery, ...]:
        """By name. None where nothing was ever saved; an error where the file is not what was written."""
        try:
            content = read_sheet(self.files, FILE)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreError(f"{self.where} cannot be read: {error.strerror or error}", "Check its rights") from error
        try:
            document = parsed_json(content)
            if document["version"] > VERSION:
                raise self._invalid(f"it has version {document['version']}, this program reads up to {VERSION}")
            return _by_name(_checked(query["name"], query["sql"]) for query in document["queries"])
        except StoreError as error:
            raise self._invalid(error.what) from error
        except (ValueError, TypeError, KeyError) as error:
            reason = str(error) if isinstance(error, ValueError) else type(error).__name__
            raise self._invalid(f"it does not read ({reason})") from error

    def save(self, name: str, sql: str, *, replace: bool = False) -> OwnQuery:
        """Keep a query; ``replace`` allows overwriting one of this name."""
        query = _checked(name, sql)
        with _WRITING:
            known = {former.name: former for former in self.all()}
            if query.name in known and not replace:
                raise StoreError(f"there is a query {shown(query.name)} already", "Choose another name, or replace it")
            self._write((known | {query.name: query}).values())
        return query

    def rename(self, old: str, new: str) -> OwnQuery:
        with _WRITING:
            former = self._named(old)
            query = _checked(new, former.sql)
            others = [known for known in self.all() if known.name != old]
            if any(known.name == query.name for known in others):
                raise StoreError(f"there is a query {shown(query.name)} already", "Choose another name")
            self._write([*others, query])
        return query

    def delete(self, name: str) -> None:
        with _WRITING:
            former = self._named(name)
            self._write([known for known in self.all() if known != former])

    def _named(self, name: str) -> OwnQuery:
        queries = {query.name: query for query in self.all()}
        if name not in queries:
            raise StoreError(f"there is no query {shown(name)}", nearest(name, list(queries)))
        return queries[name]

    def _write(self, queries: Iterable[OwnQuery]) -> None:
        ordered = _by_name(queries)
        if len(ordered) > MOST_QUERIES:
            raise StoreError(f"{MOST_QUERIES} queries are kept already", "Delete one first")
        document = {"version": VERSION, "queries": [{"name": query.name, "sql": query.sql} for query in ordered]}
        self.files.write(FILE, json.dumps(document, ensure_ascii=False, indent=1).encode())

    def _invalid(self, what: str) -> FileFormatError:
        return FileFormatError(
            f"{shown(self.where, 200)} holds no saved queries: {what}", "Correct it, or move it out of the store"
        )


def _by_name(queries: Iterable[OwnQuery]) -> tuple[OwnQuery, ...]:
    return tuple(sorted(queries, key=lambda query: (query.name.casefold(), query.name)))


def _checked(name: object, sql: object) -> OwnQuery:
    if not isinstance(name, str):
        raise StoreError(f"a query's name cannot be of {type(name).__name__}", "Give a text")
    if not isinstance(sql, str):
        raise StoreError(f"a query cannot be of {type(sql).__name__}", "Give a text")
    plain = name.strip()
    if not 0 < len(plain) <= MOST_NAME:
        raise StoreError(f"a query's name has {len(plain):,} characters", f"Give it 1 to {MOST_NAME}")
    if any(visible(char) != char for char in plain):
        raise StoreError(f"the name {shown(plain)} has an invisible character", "Remove it")
    if not sql.strip():
        raise StoreError("there is no statement to keep", "Write one first")
    if len(sql) > MOST_SQL:
        raise StoreError(f"the statement has {len(sql):,} characters", f"At most {MOST_SQL:,} are kept")
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"the statement has half a character at position {error.start}", "Remove it") from error
    return OwnQuery(plain, sql)
