"""The store: what was run, imported and reported, found in folders and asked with SQL.

A store shows two places: the user's, and the demo store that ships (``data/demo``), which nothing writes to. A place of
one's own (``DRIFTSCOPE_STORE``, ``--store``) is shown alone.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import pyarrow as pa

from engine.errors import DriftscopeError, StoreError, one_line, shown
from engine.paths import DATA, HOME, STORE_VARIABLE
from engine.processes import made_once
from engine.store.columns import Kind
from engine.store.entries import (
    USER_KEYS,
    USER_SHEET,
    Damage,
    Entry,
    StoreListing,
    branch_place,
    entry_folder,
    read_entries,
    read_entry,
    sha256_of,
)
from engine.store.files import Files, alone
from engine.store.schema import KINDS, RUN
from engine.store.staging import begun_anew, sweep, unfinished_runs
from engine.store.views import MOST_MEMORY, connect, datasets
from engine.user_files import open_regular

if TYPE_CHECKING:
    from engine.store.console import Console, Limits

log = logging.getLogger(__name__)

VARIABLE = STORE_VARIABLE
DEMO = DATA / "demo"
MOST_NOTE, MOST_TAG, MOST_TAGS = 10_000, 40, 20
"""Characters of a label or notes, and of a tag; tags of an entry."""
UNREADABLE = (duckdb.Error, OSError, pa.ArrowException, RuntimeError)
"""What reading a damaged file raises; RuntimeError where DuckDB meets a column's name that is no text."""
MOST_TRIES = 1_000
"""To read while others remove runs. Eight processes that only remove cost ten tries on average."""

Answer = TypeVar("Answer")
ByKind = Sequence[tuple[Kind, Sequence[Entry]]]


@dataclass(frozen=True, slots=True)
class Store:
    """``home`` is written to; the places next to it are only read."""

    home: Files
    read_only: tuple[Files, ...] = ()
    _seen: dict[str, StoreListing] | None = field(default=None, repr=False, compare=False)  # by kind, of a snapshot

    @classmethod
    def open(cls, folder: str | Path | None = None) -> Store:
        """The place given, else ``DRIFTSCOPE_STORE``, else the user's own with the demo store next to it."""
        chosen = str(folder or "") or os.environ.get(VARIABLE, "")
        return cls(files_at(chosen)) if chosen else cls(Files(HOME), (Files(DEMO),))

    def snapshot(self) -> Store:
        """The same, with sheets read once: for several queries in a row.

        Reading a thousand sheets takes as long as a query. They are read again after a change made through it, and
        after a query that misses a file."""
        return replace(self, _seen={})

    @property
    def locations(self) -> tuple[Files, ...]:
        return (self.home, *self.read_only)

    def listing(self, kind: Kind = RUN) -> StoreListing:
        """All entries, oldest first, and what is left out."""
        if self._seen is not None and kind.folder in self._seen:
            return self._seen[kind.folder]
        entries: dict[str, Entry] = {}
        damages: list[Damage] = []
        notes: list[Damage] = []
        for files in self.locations:
            listing = read_entries(files, kind)
            damages += listing.damages
            notes += listing.notes
            for entry in listing.entries:
                entries.setdefault(entry.id, entry)
        in_order = sorted(entries.values(), key=lambda entry: (str(entry.row.get("created_at") or ""), entry.id))
        merged = StoreListing(tuple(in_order), tuple(damages), tuple(notes))
        if self._seen is not None:
            self._seen[kind.folder] = merged
        return merged

    def entry(self, id_: str, kind: Kind = RUN) -> Entry:
        """The entry of that id or label, or the only one with this in its id. By a whole id it is read alone: a
        thousand sheets take as long as a query. What is wrong with it, the listing says."""
        if self._seen is None and self.has(id_, kind):
            for files in self.locations:
                entry, wrong = read_entry(files, kind, f"{kind.key}={id_}")
                if entry is not None and not wrong:
                    return entry
        return self.listing(kind).get(id_, kind)

    def has(self, id_: str, kind: Kind = RUN) -> bool:
        """Whether there is a folder of that name, whole or not; no sheet is read."""
        return any(f"{kind.key}={id_}" in files.folders(kind.folder) for files in self.locations)

    def rows(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[dict[str, Any]]:
        """Answers to our own SQL, as row objects."""
        rows: list[dict[str, Any]] = self.table(sql, parameters).to_pylist()
        return rows

    def table(
        self, sql: str, parameters: Sequence[Any] | dict[str, Any] = (), of: Collection[str] | None = None
    ) -> pa.Table:
        """``of``: ids of the entries that are queried; no file of the others is opened.

        With a thousand runs, a view over all reads the foot of each file before it can filter."""
        ids = None if of is None else frozenset(of)

        def ask(by_kind: ByKind) -> pa.Table:
            if ids is not None:
                by_kind = [(kind, [entry for entry in entries if entry.id in ids]) for kind, entries in by_kind]
            with connect(by_kind, only_of=sql) as connection:
                return connection.sql(sql, params=parameters or None).to_arrow_table()

        return self.reading(ask)

    def console(self, limits: Limits | None = None) -> Console:
        """A connection for a user's SQL, which sees the tables and nothing else."""
        from engine.store.console import Console

        return Console(datasets(self._of_all_kinds()), limits)

    def reading(self, ask: Callable[[ByKind], Answer]) -> Answer:
        """Query the entries; again where one was removed meanwhile, or without the files that do not read."""
        by_kind = self._of_all_kinds()
        for _ in range(MOST_TRIES):
            try:
                return ask(by_kind)
            except duckdb.OutOfMemoryException as error:
                problem = f"a query of {self.home.where} takes over {MOST_MEMORY} of memory"
                raise StoreError(problem, "Choose fewer entries; `verify` finds damaged ones") from error
            except UNREADABLE as error:
                self._forget()
                queried, by_kind = by_kind, self._of_all_kinds()
                if _files(queried) <= _files(by_kind):  # nothing was removed, so something is damaged
                    by_kind = [(kind, [without_damage(entry) for entry in entries]) for kind, entries in by_kind]
                    if _files(queried) <= _files(by_kind):
                        raise StoreError(f"the store cannot be read: {error}", "Run `verify` for details") from error
        raise StoreError(f"{self.home.where} changes faster than it can be read", "Try again")

    def _of_all_kinds(self) -> ByKind:
        return [(kind, self.listing(kind).entries) for kind in KINDS]

    def remove(self, id_: str, kind: Kind = RUN) -> None:
        """A damaged one is named by its whole id."""
        is_there = f"{kind.key}={id_}" in self.home.folders(kind.folder)
        self.home.remove(entry_folder(kind, id_) if is_there else self.writable(id_, kind).folder)
        sweep(self.home, kind)
        self._forget()

    def annotate(
        self, id_: str, kind: Kind = RUN, *, add: Iterable[str] = (), take: Iterable[str] = (), **texts: str
    ) -> Entry:
        """Set an entry's label or notes, add tags and take others away: nothing else of it may change. It is read again
        and written by one process at a time: of several that add a tag none is lost."""
        for key, value in texts.items():
            if key not in USER_KEYS or len(value) > MOST_NOTE:
                raise StoreError(f"{key} of {len(value):,} characters cannot be", f"At most {MOST_NOTE:,}")
        entry = self.writable(id_, kind)
        with alone(entry.files, entry.folder):
            current, _ = read_entry(entry.files, kind, entry.folder.rpartition("/")[2])
            if current is None:
                raise StoreError(f"{entry.id} was removed or damaged meanwhile", "Run `verify`")
            sheet = {key: current.row.get(key) or nothing for key, nothing in USER_KEYS.items()} | texts
            sheet["tags"] = _tags({*sheet["tags"], *_tags(add)} - {*_tags(take)})
            entry.files.write_object(f"{entry.folder}/{USER_SHEET}", sheet)
        self._forget()
        return self.entry(entry.id, kind)

    def _forget(self) -> None:
        if self._seen is not None:
            self._seen.clear()

    def writable(self, id_: str, kind: Kind = RUN) -> Entry:
        """An entry that may be changed."""
        entry = self.entry(id_, kind)
        if entry.files is not self.home:
            raise StoreError(f"{entry.id} is in {entry.files.where}, which is read-only", "Export it instead")
        return entry


def _tags(tags: Iterable[str]) -> list[str]:
    """Each once, in the order of the alphabet: ``[" slow  one", "slow one", ""]`` becomes ``["slow one"]``."""
    kept = sorted({" ".join(tag.split()) for tag in tags} - {""})
    if len(kept) > MOST_TAGS or any(len(tag) > MOST_TAG for tag in kept):
        problem = f"tags of {max(map(len, kept))} characters, {len(kept)} in all"
        raise StoreError(problem, f"At most {MOST_TAGS} of {MOST_TAG} characters")
    return kept


def files_at(folder: str) -> Files:
    try:
        folder.encode()  # DuckDB takes no other paths
        path = Path(folder).expanduser().absolute()
        if folder.startswith("s3://") or "\0" in folder or (path.exists() and not path.is_dir()):
            raise ValueError("it is no folder")
    except (OSError, ValueError, RuntimeError) as error:
        problem = f"{shown(folder, 200)} cannot be a store: {getattr(error, 'strerror', None) or error}"
        raise StoreError(problem, "Give a folder; `aws s3 sync` copies one to S3") from error
    return Files(path)


def damaged_parts(entry: Entry) -> list[Damage]:
    """The files of an entry that are not what was written, found by reading every byte."""
    damages = []
    for name, part in entry.parts.items():
        try:
            with open_regular(entry.path(name)) as file:
                is_whole = sha256_of(file) == part.sha256
            problem = entry.column_problem(name) if is_whole else "its bytes are not those that were written"
        except pa.ArrowException as error:
            problem = one_line(str(error))
        except OSError as error:
            problem = f"it cannot be read ({error.strerror or error})"
        if problem:
            damages.append(Damage(entry.path(name), problem, entry.id))
    return damages


def without_damage(entry: Entry) -> Entry:
    """The entry with only those files that are what was written."""
    if damaged := {damage.where.rpartition("/")[2] for damage in damaged_parts(entry)}:
        log.warning("%s: left out are %s; see `verify`", entry.id, ", ".join(sorted(damaged)))
    return replace(entry, parts={name: part for name, part in entry.parts.items() if part.file not in damaged})


def _files(by_kind: ByKind) -> set[tuple[str, str]]:
    return {(entry.id, part.sha256) for _, entries in by_kind for entry in entries for part in entry.parts.values()}


def state_rows(store: Store) -> list[dict[str, Any]]:
    """Of each entry whether it is whole, damaged or unfinished, every byte of it read; its kind, id, place, and what is
    wrong. A file that is no part of the store is a note."""
    rows: list[dict[str, Any]] = []

    def add(state: str, kind: Kind, id_: str | None, where: str, problem: str | None = None) -> None:
        row = {"state": state, "kind": kind.folder, "id": id_, "where": where, "what": problem}
        rows.append(row | {"run_id": id_ if kind is RUN else None})

    for kind in KINDS:
        try:
            listing = store.listing(kind)
            damages = [*listing.damages, *(damage for entry in listing.entries for damage in damaged_parts(entry))]
            for damage in damages:
                add("damaged", kind, damage.id, damage.where, damage.reason)
            for entry in listing.entries:
                if all(damage.id != entry.id for damage in damages):
                    add("whole", kind, entry.id, entry.files.where)
            for note in listing.notes:
                add("note", kind, note.id, note.where, note.reason)
            for run in unfinished_runs(store.home) if kind is RUN else ():
                done = "" if run.samples_done is None else f"{run.samples_done} of {run.samples or '?'} samples; "
                add("unfinished", kind, run.run_id, store.home.where, done + run.state)
        except StoreError as error:  # a file where a folder of the store should be; the others are looked at
            add("damaged", kind, None, store.home.where, error.what)
    return rows


# --- runs that are not saved ----------------------------------------------------------------------------------------
# The live page writes to a place of this process, which is shown next to the store and goes with the process.


@made_once()
def temporary_files() -> Files:
    """The place, created at its first use."""
    folder = Path(tempfile.mkdtemp(prefix="driftscope-temporary-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Files(folder)


def with_temporary(store: Store) -> Store:
    """The store, with the temporary runs next to it."""
    return Store(store.home, (*store.read_only, temporary_files()))


def is_temporary(entry: Entry) -> bool:
    return entry.files is temporary_files()


def trim(files: Files, most: int = 200) -> None:
    """Keep the newest runs only, whose names begin with the time, and what these were branched from."""
    old = files.folders(RUN.folder)[:-most]
    newest = Store(files).listing().entries[-most:] if old else ()
    parents = {place[0] for place in map(branch_place, newest) if place is not None}
    for name in old:
        if name.rpartition("=")[2] not in parents:
            with suppress(DriftscopeError):  # another process removed it
                files.remove(f"{RUN.folder}/{name}")


def keep(entry: Entry, home: Files, label: str = "") -> Entry:
    """A copy of the entry in the user's store, under the same name; and of its branches, and of what it is a branch
    of."""
    kept = _copied(entry, home, label)
    there = {run.id for run in Store(home).listing().entries}
    for run in _family(entry):
        if run.id not in there:
            _copied(run, home)
    return kept


def _copied(entry: Entry, home: Files, label: str = "") -> Entry:
    more = {key: value for key, value in entry.sheet.items() if key not in ("schema", "kind", "row", "tables")}
    try:
        with begun_anew(home, RUN, entry.id, entry.sheet["row"], **more) as staging:
            staging.add({table: entry.read(table) for table in entry.parts})
            return staging.publish({"label": label} if label else {})
    except OSError as error:
        raise StoreError(f"{entry.id} is gone", "Generate it again") from error


def _family(entry: Entry) -> list[Entry]:
    """Of its place, what it was branched from, and all that was branched from these or from itself."""
    runs = Store(entry.files).listing().entries  # a parent is older than its branches
    places = {run.id: branch_place(run) for run in runs}
    parents = {run_id: place[0] for run_id, place in places.items() if place is not None}
    family = {entry.id}
    for run in reversed(runs):
        if run.id in family and run.id in parents:
            family.add(parents[run.id])
    for run in runs:
        if parents.get(run.id) in family:
            family.add(run.id)
    return [run for run in runs if run.id in family]
