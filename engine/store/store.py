"""The store: what was run, imported and reported, found in folders and asked with SQL.

A store shows two places: the user's, and the demo store that ships (``data/demo``), which nothing writes to. A place of
one's own (``DRIFTSCOPE_STORE``, ``--store``) is shown alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import StoreError, shown
from engine.paths import DATA
from engine.store.entries import USER_KEYS, USER_SHEET, Damage, Entry, Found, entry_folder, read_entries
from engine.store.files import Files, LocalFiles
from engine.store.schema import KINDS, RUN, Kind
from engine.store.staging import sweep
from engine.store.views import connect, datasets

if TYPE_CHECKING:
    from engine.store.guard import Console, Limits

log = logging.getLogger(__name__)

VARIABLE = "DRIFTSCOPE_STORE"
HOME = DATA / "store"
DEMO = DATA / "demo"
REMOTE = "s3://"
MOST_NOTE = 10_000
UNREADABLE = (duckdb.Error, OSError, pa.ArrowException, RuntimeError)
"""What reading a damaged file raises; RuntimeError where DuckDB meets a column's name that is no text."""
MOST_TRIES = 1_000
"""To read while others remove runs. Eight that do nothing else cost ten tries on average."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Store:
    """``home`` is written to; the places beside it are only read."""

    home: Files
    beside: tuple[Files, ...] = ()
    _seen: dict[str, Found] | None = field(default=None, repr=False, compare=False)  # by kind, of a still store

    @classmethod
    def open(cls, place: str | Path | None = None) -> Store:
        """The place given, else ``DRIFTSCOPE_STORE``, else the user's own with the demo store beside it."""
        chosen = str(place or "") or os.environ.get(VARIABLE, "")
        if chosen:
            return cls(files_at(chosen))
        return cls(LocalFiles(HOME), (LocalFiles(DEMO),))

    def still(self) -> Store:
        """The same, whose sheets are read once: for several questions in a row, not for watching what comes.

        Reading a thousand sheets takes as long as a question. What is changed through it, or missed by a question, is
        looked for again."""
        return replace(self, _seen={})

    @property
    def places(self) -> tuple[Files, ...]:
        return (self.home, *self.beside)

    def found(self, kind: Kind = RUN) -> Found:
        """All entries, oldest first, and what is left out."""
        if self._seen is None:
            return self._look(kind)
        if kind.folder not in self._seen:
            self._seen[kind.folder] = self._look(kind)
        return self._seen[kind.folder]

    def _look(self, kind: Kind) -> Found:
        entries: dict[str, Entry] = {}
        damages: list[Damage] = []
        for files in self.places:
            one = read_entries(files, kind)
            damages += one.damages
            for entry in one.entries:
                entries.setdefault(entry.id, entry)
        return Found(tuple(sorted(entries.values(), key=_age)), tuple(damages))

    def entry(self, id_: str, kind: Kind = RUN) -> Entry:
        return self.found(kind).get(id_, kind)

    def rows(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[dict[str, Any]]:
        """Answers to our own SQL, as row objects."""
        found: list[dict[str, Any]] = self.table(sql, parameters).to_pylist()
        return found

    def table(
        self, sql: str, parameters: Sequence[Any] | dict[str, Any] = (), of: Collection[str] | None = None
    ) -> pa.Table:
        """``of``: the ids of the only entries there are to this question; no file of the others is opened.

        With a thousand runs, a view over all reads the foot of each file before it can filter."""
        wanted = None if of is None else frozenset(of)

        def ask(found: Sequence[tuple[Kind, Sequence[Entry]]]) -> pa.Table:
            if wanted is not None:
                found = [(kind, [entry for entry in entries if entry.id in wanted]) for kind, entries in found]
            with connect(found) as connection:
                return connection.sql(sql, params=parameters or None).to_arrow_table()

        return self.reading(ask)

    def console(self, limits: Limits | None = None) -> Console:
        """A connection for a user's SQL, which sees the tables and nothing else."""
        from engine.store.guard import Console, Limits

        tables: dict[str, Any] = {}
        for kind in KINDS:
            tables |= datasets(kind, self.found(kind).entries)
        return Console(tables, limits=limits or Limits())

    def reading(self, ask: Callable[[Sequence[tuple[Kind, Sequence[Entry]]]], Answer]) -> Answer:
        """Ask the entries, and once more where one was removed meanwhile, or without the files that do not read."""
        found = self._of_all_kinds()
        for _ in range(MOST_TRIES):
            try:
                return ask(found)
            except UNREADABLE as error:
                self._forget()
                asked, found = found, self._of_all_kinds()
                if _files(asked) <= _files(found):  # nothing was removed, so something is damaged
                    found = [(kind, [without_damage(one) for one in entries]) for kind, entries in found]
                    if _files(asked) <= _files(found):
                        raise StoreError(f"the store cannot be read: {error}", "See what `verify` says") from error
        raise StoreError(f"{self.home.where} changes faster than it can be read", "Try again")

    def _of_all_kinds(self) -> list[tuple[Kind, Sequence[Entry]]]:
        return [(kind, self.found(kind).entries) for kind in KINDS]

    def remove(self, id_: str, kind: Kind = RUN) -> None:
        """Also one that is damaged; that is then named by its whole id."""
        if f"{kind.key}={id_}" in self.home.folders(kind.folder):
            folder = entry_folder(kind, id_)
        else:
            folder = self.own(id_, kind).folder
        self.home.remove(folder)
        sweep(self.home, kind)
        self._forget()

    def say(self, id_: str, kind: Kind = RUN, **said: str) -> Entry:
        """Set a run's label or notes: all that may change of it."""
        entry = self.own(id_, kind)
        for key, value in said.items():
            if key not in USER_KEYS or len(value) > MOST_NOTE:
                raise StoreError(f"{key} of {len(value):,} characters cannot be", f"At most {MOST_NOTE:,}")
        now = {key: entry.row.get(key) or "" for key in USER_KEYS} | said
        entry.files.write(f"{entry.folder}/{USER_SHEET}", _json(now))
        self._forget()
        return self.entry(entry.id, kind)

    def _forget(self) -> None:
        if self._seen is not None:
            self._seen.clear()

    def own(self, id_: str, kind: Kind = RUN) -> Entry:
        """An entry that may be changed."""
        entry = self.entry(id_, kind)
        if entry.files is not self.home:
            raise StoreError(f"{entry.id} lies in {entry.files.where}, which is only read", "Export it, or leave it")
        return entry


def files_at(place: str) -> Files:
    if place.startswith(REMOTE):
        from engine.store.remote import RemoteFiles

        return RemoteFiles.at(place)
    try:
        if "\0" in place:
            raise ValueError("a NUL is in it")
        place.encode()  # DuckDB takes no other paths
        path = Path(place).expanduser().absolute()
        is_taken = path.exists() and not path.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(f"{shown(place, 200)} cannot be a store's path: {reason}", "Give another folder") from error
    if is_taken:
        raise StoreError(f"{shown(path, 200)} is a file", "Give a folder for the store")
    return LocalFiles(path)


def damaged_parts(entry: Entry) -> list[Damage]:
    """The files of an entry that are not what was written, found by reading every byte."""
    found = []
    for name, part in entry.parts.items():
        where = f"{entry.files.where}/{entry.folder}/{part.file}"
        try:
            content = entry.files.read(f"{entry.folder}/{part.file}")
        except OSError as error:
            found.append(Damage(where, f"it cannot be read ({error.strerror or error})"))
            continue
        if hashlib.sha256(content).hexdigest() != part.sha256:
            found.append(Damage(where, "its bytes are not those that were written"))
            continue
        try:
            file = pq.ParquetFile(pa.BufferReader(content))
        except (OSError, pa.ArrowException) as error:
            found.append(Damage(where, f"it is no Parquet file of {name} ({error})"))
            continue
        if file.metadata.num_rows != part.rows:
            found.append(Damage(where, f"it has {file.metadata.num_rows:,} rows in place of {part.rows:,}"))
        if strange := _strange_columns(file.schema_arrow, name, entry.version):
            found.append(Damage(where, f"it has no {name}: {', '.join(strange)} missing, or of another type"))
    return found


def _strange_columns(schema: pa.Schema, name: str, version: int) -> list[str]:
    columns = {table.name: table for kind in KINDS for table in kind.tables}[name]
    types = dict(zip(schema.names, schema.types, strict=True))
    return [one.name for one in columns if one.since <= version and types.get(one.name) != one.type]


def without_damage(entry: Entry) -> Entry:
    """The entry with only those files that are what was written."""
    damaged = {damage.where.rpartition("/")[2] for damage in damaged_parts(entry)}
    if not damaged:
        return entry
    log.warning("%s: left out are %s; see `verify`", entry.id, ", ".join(sorted(damaged)))
    return replace(entry, parts={name: part for name, part in entry.parts.items() if part.file not in damaged})


def _files(found: Sequence[tuple[Kind, Sequence[Entry]]]) -> set[tuple[str, str]]:
    return {(entry.id, part.sha256) for _, entries in found for entry in entries for part in entry.parts.values()}


def _age(entry: Entry) -> tuple[Any, str]:
    made = entry.row.get("created_at")
    return (made.timestamp() if made is not None else float("-inf"), entry.id)


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "replace")
