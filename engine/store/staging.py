"""An entry that is being written: its parts go into a staging folder, and appear all at once when it is whole.

A run is written in *groups* of samples. A group is a file of each table and, written last, a JSON file that makes it
count; a killed process loses the group that it was writing. Several writers may share a run, each under a rank of its
own. What is written in one go (an import) is begun anew each time, and in the store whole or not at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import DriftscopeError, RunError, StoreError, TakenError, nearest, shown
from engine.store.columns import VERSION, Kind, Table
from engine.store.entries import NAME, USER_SHEET, Entry, TableFile, entry_folder, parse_entry, read_object
from engine.store.files import ASIDE, REMOVED, REMOVED_NAME, Files, LocalFiles, alone, json_bytes, read_sheet
from engine.store.groups import COMPRESSION, Group, group_of, group_sheet, write_part

log = logging.getLogger(__name__)

READY = "ready"
"""Begins the name of the folder, inside the staging one, that is renamed."""
MOST_HELD_BYTES = 16 * 1024 * 1024
"""Of a table's files, packed: larger ones are sorted through files, a piece at a time."""
SORT_MEMORY = "256MB"
BATCH_ROWS = 2**16
GROUP_FILE = re.compile(r"group-(\d+-\d+)\.json")
NOTE_FILE = re.compile(r"told-\d+-\d+\.json")
ORPHAN_S = 24 * 3600
"""Longer than any process takes between an entry's first file aside and its sheet."""
LOCK_TRIES, LOCK_PAUSE_S = 50, 0.01


class Staging:
    """One entry that is being written."""

    def __init__(self, files: Files, kind: Kind, id_: str, sheet: Mapping[str, Any]) -> None:
        self.files, self.kind, self.id, self.sheet = files, kind, id_, dict(sheet)
        self.folder = f"{ASIDE}/{id_}"
        self._lock: int | None = None

    @classmethod
    def create(
        cls,
        files: Files,
        kind: Kind,
        id_: str,
        row: Mapping[str, Any],
        beside: Mapping[str, bytes] | None = None,
        **more: Any,
    ) -> Staging:
        """Begin an entry. ``more`` stays in its sheet, such as a run's plan; ``beside`` are files for its making."""
        home = entry_folder(kind, id_)
        sheet = {"schema": VERSION, "kind": kind.folder, "row": {**row, kind.key: id_}, **more}
        staging = cls(files, kind, id_, sheet)
        if kind.sheet in files.sizes(staging.folder) or home.rpartition("/")[2] in files.folders(kind.folder):
            raise TakenError(f"{id_} is there already", "Choose another name")
        for name, content in (beside or {}).items():  # before the sheet: without one it was never begun
            files.write(f"{staging.folder}/{name}", content)
        files.write(f"{staging.folder}/{kind.sheet}", json_bytes(sheet))
        return staging

    @classmethod
    def open(cls, files: Files, kind: Kind, id_: str) -> Staging:
        """An entry that was begun and not finished."""
        known = unfinished_ids(files, kind)
        chosen = id_ if id_ in known else next((one for one in known if id_ and one.endswith(id_)), None)
        if chosen is None:
            if f"{kind.key}={id_}" in files.folders(kind.folder):
                raise RunError(f"{id_} is finished", "There is nothing to resume")
            raise RunError(f"no unfinished {kind.key} is named {shown(id_)}", nearest(id_, known))
        sheet = read_object(read_sheet(files, f"{ASIDE}/{chosen}/{kind.sheet}"), kind.sheet)
        parse_entry(json_bytes({"tables": {}, **sheet}), kind, chosen, "", files)  # an unfinished one has no tables yet
        return cls(files, kind, chosen, sheet)

    def lock(self, rank: int = 0) -> None:
        """No other process writes under this rank while this one lives. An object store has no locks."""
        if not isinstance(self.files, LocalFiles) or self._lock is not None:
            return
        number = os.open(self.files.path(f"{self.folder}/.lock-{rank:04d}"), os.O_CREAT | os.O_RDWR, 0o644)
        for _ in range(LOCK_TRIES):
            if not _is_taken(number):
                self._lock = number
                return
            time.sleep(LOCK_PAUSE_S)  # a process that only looks holds it for a moment
        os.close(number)
        raise RunError(f"{self.id} is being written by another process", "Wait for it, or stop it")

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def is_being_written(self) -> bool:
        if not isinstance(self.files, LocalFiles):
            return False
        return any(map(_is_locked, (self.files.root / self.folder).glob(".lock-*")))

    @property
    def is_shown(self) -> bool:
        """Whether the entry is in the store, by this process or another one."""
        return _is_shown(self.files, self.kind, self.id)

    def write_note(self, rank: int, **values: Sequence[Any]) -> None:
        """Keep lists of values beside the groups, in a file of this writer's own."""
        self.files.write(f"{self.folder}/told-{rank:04d}-{time.time_ns()}.json", json_bytes(values))

    def notes(self) -> dict[str, list[Any]]:
        """The notes of all writers, each value once."""
        notes: dict[str, list[Any]] = {}
        for file in filter(NOTE_FILE.fullmatch, sorted(self.files.sizes(self.folder))):
            for key, values in read_object(self.files.read(f"{self.folder}/{file}"), file).items():
                known = notes.setdefault(key, [])
                known += [value for value in values if value not in known]
        return notes

    def groups(self, number: int | None = None) -> list[Group]:
        """What is finished so far (or that group). One with a damaged file does not count, nor one that is there twice.

        A group is there twice when a writer was given up but lived, or died before it reported its end.
        """
        sizes = self.files.sizes(self.folder)
        found: list[Group] = []
        members: set[int] = set()
        for file in sorted(sizes):
            name = GROUP_FILE.fullmatch(file)
            if name is None or (number is not None and _number(name[1]) != number):
                continue
            group = group_of(self.files.read(f"{self.folder}/{file}"), name[1])
            is_whole = group and all(sizes.get(part.file) == part.bytes for part in group.parts.values())
            if group and is_whole and members.isdisjoint(group.members):
                members.update(group.members)
                found.append(group)
        return found

    def add(
        self,
        tables: Mapping[str, pa.Table],
        members: Iterable[int] = (),
        *,
        sums: Mapping[str, float] | None = None,
        peaks: Mapping[str, float] | None = None,
        rank: int = 0,
        number: int | None = None,
    ) -> Group:
        """Write a group; it counts when this returns. ``number`` names it, the next free one without."""
        if number is None:
            number = 1 + max((_number(group.name) for group in self.groups()), default=-1)
        name = f"{rank:04d}-{number:05d}"
        parts = {
            table: write_part(self.files, self.folder, f"{table}-{name}.parquet", rows)
            for table, rows in tables.items()
        }
        group = Group(name, tuple(members), parts, dict(sums or {}), dict(peaks or {}))
        self.files.write(f"{self.folder}/group-{name}.json", json_bytes(group_sheet(group)))
        return group

    def publish(self, row: Mapping[str, Any], **more: Any) -> Entry:
        """Merge the groups and show the entry. ``row`` adds to the row that it began with.

        Of several who do so at once one comes through, and the others get an error.
        """
        home, sheet = entry_folder(self.kind, self.id), {**self.sheet, **more, "row": {**self.sheet["row"], **row}}
        with alone(self.files, self.folder):  # the rename lets one of them through where there are no locks
            if isinstance(self.files, LocalFiles):
                aside = f"{self.folder}/{READY}-{uuid.uuid4().hex[:8]}"
                try:
                    entry = self._write_entry(aside, sheet)
                    self.files.publish(aside, home)
                except BaseException:  # the room that it takes may be what is short
                    with suppress(DriftscopeError):
                        self.files.remove(aside)
                    raise
            else:
                entry = self._write_entry(home, sheet)
                named = {self.kind.sheet, USER_SHEET, *(part.file for part in entry.parts.values())}
                for name in self.files.sizes(home).keys() - named:  # what a killed attempt left
                    self.files.remove(f"{home}/{name}")
        self.release()
        with suppress(DriftscopeError):  # it is shown, so what is left is for `sweep`
            self.files.remove(self.folder)
        return entry

    def _write_entry(self, into: str, sheet: Mapping[str, Any]) -> Entry:
        parts, groups = {}, self.groups()
        self._not_shown()  # nothing is removed before, so all groups are there
        for table in self.kind.tables:
            if some := [group.parts[table.name] for group in groups if table.name in group.parts]:
                parts[table.name] = self._merged(some, into, table)
        content = json_bytes({**sheet, "tables": {name: part.sheet() for name, part in parts.items()}})
        entry = parse_entry(content, self.kind, self.id, entry_folder(self.kind, self.id), self.files)
        self._not_shown()
        self.files.write(f"{into}/{self.kind.sheet}", content)
        return entry

    def _not_shown(self) -> None:
        if self.is_shown:
            raise TakenError(f"{self.id} is there already", "Choose another name")

    def abandon(self) -> None:
        """Throw away what was written."""
        self.release()
        self.files.remove(self.folder)

    def _merged(self, parts: Sequence[TableFile], into: str, table: Table) -> TableFile:
        file, batches = f"{table.name}.parquet", self._batches(parts, table)
        if sum(part.bytes for part in parts) <= MOST_HELD_BYTES:
            rows = pa.concat_tables([table.schema.empty_table(), *batches])
            keys = [(key, "ascending") for key in table.order]
            return write_part(self.files, into, file, rows.sort_by(keys) if keys else rows)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file
            try:
                with pq.ParquetWriter(path, table.schema, compression=COMPRESSION) as writer:
                    for rows in _sorted(batches, table, folder) if table.order else batches:
                        writer.write_table(rows)
            except (duckdb.Error, OSError) as error:
                what = f"{table.name} cannot be sorted: {shown(error)}"
                raise StoreError(what, f"Free room in {folder}, or shorten texts") from error
            with path.open("rb") as source, self.files.writing(f"{into}/{file}") as target:
                digest = hashlib.file_digest(source, "sha256").hexdigest()
                source.seek(0)
                shutil.copyfileobj(source, target)
            return TableFile(file, sum(part.rows for part in parts), path.stat().st_size, digest)

    def _batches(self, parts: Sequence[TableFile], table: Table) -> Iterator[pa.Table]:
        """Columns that the rows of an older version lack are null: a run may have been begun by it."""
        for part in parts:
            for batch in self.open_part(part).iter_batches(BATCH_ROWS):
                rows = [table.schema.empty_table(), pa.Table.from_batches([batch])]
                yield pa.concat_tables(rows, promote_options="default")

    def open_part(self, part: TableFile) -> pq.ParquetFile:
        content = self.files.read(f"{self.folder}/{part.file}")
        if hashlib.sha256(content).hexdigest() != part.sha256:
            raise StoreError(f"{self.folder}/{part.file} is damaged", "Remove it, then use --resume")
        return pq.ParquetFile(pa.BufferReader(content))


def _sorted(batches: Iterable[pa.Table], table: Table, folder: str) -> Iterator[pa.Table]:
    """In the table's order, equal keys in the order in which they came."""
    keys = ", ".join([*(f'"{key}"' for key in table.order), "rowid"])
    with duckdb.connect(config={"temp_directory": folder, "memory_limit": SORT_MEMORY}) as connection:
        connection.register("batch", table.schema.empty_table())
        connection.execute("CREATE TABLE held AS FROM batch")
        for rows in batches:
            connection.register("batch", rows)
            connection.execute("INSERT INTO held FROM batch")
        for found in connection.sql(f"FROM held ORDER BY {keys}").to_arrow_reader(BATCH_ROWS):
            yield pa.Table.from_batches([found]).cast(table.schema)


# --- in one go ------------------------------------------------------------------------------------------------------


@contextmanager
def begun_anew(files: Files, kind: Kind, id_: str, row: Mapping[str, Any], **more: Any) -> Iterator[Staging]:
    """Locked. What an import that was killed or failed left is removed; one that still runs holds the lock, so this one
    fails. All is thrown away where an error ends the block, Ctrl-C and a closed generator among them."""
    if id_ in files.folders(ASIDE):
        left = Staging(files, kind, id_, {})
        left.lock()
        left.abandon()
    staging = Staging.create(files, kind, id_, row, **more)
    try:
        staging.lock()
        yield staging
    except BaseException:
        with suppress(DriftscopeError):
            staging.abandon()
        raise


def write_entry(
    files: Files, kind: Kind, id_: str, row: Mapping[str, Any], groups: Iterable[Mapping[str, pa.Table]]
) -> Entry:
    with begun_anew(files, kind, id_, row) as staging:
        for tables in groups:
            staging.add(tables)
        return staging.publish({})


# --- what is left ---------------------------------------------------------------------------------------------------


def unfinished_ids(files: Files, kind: Kind) -> list[str]:
    """Entries that were begun; one that was shown in the meantime is swept away."""
    begun = [id_ for id_ in files.folders(ASIDE) if NAME.fullmatch(id_) and not id_.startswith(REMOVED)]
    return [id_ for id_ in begun if kind.sheet in _sizes(files, f"{ASIDE}/{id_}") and not _is_shown(files, kind, id_)]


def sweep(files: Files, kind: Kind) -> None:
    """Remove what killed processes left behind: half-removed folders, the staging of entries that are shown, what has
    had no sheet for a day, so was never begun."""
    for id_ in files.folders(ASIDE):
        if REMOVED_NAME.fullmatch(id_) or _is_shown(files, kind, id_) or _is_orphan(files, id_):
            with suppress(DriftscopeError):  # such as in a store that is only read
                files.remove(f"{ASIDE}/{id_}")


def _is_shown(files: Files, kind: Kind, id_: str) -> bool:
    return kind.sheet in _sizes(files, f"{kind.folder}/{kind.key}={id_}")


def _is_orphan(files: Files, id_: str) -> bool:
    """Tables are there and no sheet, which comes last. A folder with others is a user's own."""
    names = _sizes(files, f"{ASIDE}/{id_}")
    if not isinstance(files, LocalFiles) or not names or not all(name.endswith(".parquet") for name in names):
        return False
    with suppress(OSError):  # removed meanwhile
        return (files.root / ASIDE / id_).stat().st_mtime < time.time() - ORPHAN_S
    return False


def _sizes(files: Files, folder: str) -> dict[str, int]:
    """None of a folder that does not read."""
    try:
        return files.sizes(folder)
    except DriftscopeError:
        return {}


def _number(name: str) -> int:
    return int(name.partition("-")[2])


def _is_taken(number: int) -> bool:
    """Whether another process holds the lock on this file; else it is held now. Some disks have no locks."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        log.info("the store has no locks (%s): writers are kept apart by their ranks alone", error)
    return False


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _is_taken(file.fileno())
    except OSError:
        return False
