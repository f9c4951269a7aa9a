"""An entry that is being written: its parts go into a staging folder, and appear all at once when it is whole.

A run is written in *groups* of samples. A group is a file of each table and, written last, a JSON file that makes it
count; a killed process loses the group that it was writing. Several writers may share a run, each under a rank of its
own. What is written in one go (an import) is begun again each time, and in the store whole or not at all.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from engine.errors import DriftscopeError, RunError, StoreError, TakenError, nearest, one_line, shown
from engine.store.columns import VERSION, Kind
from engine.store.entries import NAME, Entry, TableFile, entry_folder, parse_entry, sha256_of, write_part
from engine.store.files import ASIDE, REMOVED, Files, alone, open_lock
from engine.store.schema import COUNTED_IN_TEXTS, RUN

log = logging.getLogger(__name__)

SORT_MEMORY = "256MB"
BATCH_ROWS = 2**16
LITTLE: Any = {"batch_size": BATCH_ROWS, "batch_readahead": 1, "fragment_readahead": 1}
GROUP_FILE = re.compile(r"group-\d+-\d+\.json")
PART_FILE = re.compile(rf"({'|'.join(table.name for table in RUN.tables)})(-[0-9a-f]{{8}})?\.parquet")
NOTE_FILE = re.compile(r"told-\d+-\d+\.json")
PEAKS = frozenset({"peak_memory_mb", "misread_most_ang"})
"""Columns of a run that are the highest of its groups' figures; all others are their sum."""
ORPHAN_S = 24 * 3600
"""Longer than any process takes between an entry's first file aside and its sheet."""
LOCK_TRIES, LOCK_PAUSE_S = 50, 0.01


@dataclass(frozen=True, slots=True)
class Group:
    """Samples that were written together."""

    name: str  # rank and number
    members: tuple[int, ...]  # sample ids
    tables: dict[str, TableFile]
    sums: dict[str, int | float]  # by column of the run: samples, tokens, seconds, ...


def totals(groups: Iterable[Group]) -> dict[str, float]:
    """What groups add up to, by column."""
    return added(group.sums for group in groups)


def added(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Without what is counted in each text where a part lacks it: an earlier version did not count it, so the total is
    unknown, and no zero."""
    sums: dict[str, float] = {}
    unknown: set[str] = set()
    for part in parts:
        if "samples" in part:  # an import's first group is its file alone
            unknown.update(name for name in COUNTED_IN_TEXTS if name not in part)
        for name, value in part.items():
            total = sums.get(name, 0)
            sums[name] = max(total, value) if name in PEAKS else total + value
    if "misread_blocks" in unknown:
        unknown.add("misread_most_ang")
    return {name: value for name, value in sums.items() if name not in unknown}


class Staging:
    """One entry that is being written."""

    def __init__(self, files: Files, kind: Kind, id_: str, sheet: Mapping[str, Any]) -> None:
        self.files = files
        self.kind = kind
        self.id = id_
        self.sheet = dict(sheet)
        self.folder = f"{ASIDE}/{id_}"
        self._lock: int | None = None

    @classmethod
    def create(cls, files: Files, kind: Kind, id_: str, row: Mapping[str, Any], **more: Any) -> Staging:
        """Begin an entry. ``more`` stays in its sheet, such as a run's plan. What else is needed for its making is
        written before: without a sheet an entry was never begun."""
        home = entry_folder(kind, id_)
        sheet = {"schema": VERSION, "kind": kind.folder, "row": {**row, kind.key: id_}, **more}
        staging = cls(files, kind, id_, sheet)
        if kind.sheet in files.sizes(staging.folder) or home.rpartition("/")[2] in files.folders(kind.folder):
            raise TakenError(f"{id_} is there already", "Choose another name")
        files.write_object(f"{staging.folder}/{kind.sheet}", sheet)
        return staging

    @classmethod
    def open(cls, files: Files, kind: Kind, id_: str) -> Staging:
        """An entry that was begun and not finished."""
        unfinished = unfinished_ids(files, kind)
        chosen = id_ if id_ in unfinished else next((name for name in unfinished if id_ and name.endswith(id_)), None)
        if chosen is None:
            if f"{kind.key}={id_}" in files.folders(kind.folder):
                raise RunError(f"{id_} is finished", "There is nothing to resume")
            raise RunError(f"no unfinished {kind.key} is named {shown(id_)}", nearest(id_, unfinished))
        sheet = files.read_object(f"{ASIDE}/{chosen}/{kind.sheet}")
        parse_entry({"tables": {}, **sheet}, kind, chosen, "", files)  # an unfinished one has no tables yet
        return cls(files, kind, chosen, sheet)

    def lock(self, rank: int = 0) -> None:
        """No other process writes under this rank while this one lives."""
        if self._lock is not None:
            return
        path = self.files.within(f"{self.folder}/.lock-{rank:04d}")
        try:
            number = open_lock(path, os.O_CREAT | os.O_RDWR)
        except OSError as error:
            problem = f"{shown(path, 200)} cannot be the lock of {self.id}: {error.strerror or error}"
            raise RunError(problem, "Remove it if it is a link or no file; else check the rights there") from error
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
        for path in (self.files.root / self.folder).glob(".lock-*"):
            with suppress(OSError):  # what is no plain file is no lock
                number = open_lock(path, os.O_RDONLY)
                try:
                    if _is_taken(number):
                        return True
                finally:
                    os.close(number)
        return False

    @property
    def is_shown(self) -> bool:
        """Whether the entry is in the store, by this process or another one."""
        return (self.files.root / self.kind.folder / f"{self.kind.key}={self.id}").exists()

    @property
    def is_there(self) -> bool:
        """Whether nobody has removed it."""
        return (self.files.root / self.folder / self.kind.sheet).is_file()

    def _check_there(self) -> None:
        """Before each file, which would make the folder again."""
        if not self.is_there:
            raise RunError(f"{self.id} was removed while it was written", "Begin it again")

    def write_note(self, rank: int, **values: Sequence[Any]) -> None:
        """Keep lists of values next to the groups, in a file of this writer's own."""
        self._check_there()
        self.files.write_object(f"{self.folder}/told-{rank:04d}-{time.time_ns()}.json", values)

    def notes(self) -> dict[str, list[Any]]:
        """The notes of all writers, each value once."""
        notes: dict[str, list[Any]] = {}
        for file in filter(NOTE_FILE.fullmatch, sorted(self.files.sizes(self.folder))):
            for key, values in self.files.read_object(f"{self.folder}/{file}").items():
                seen = notes.setdefault(key, [])
                seen += [value for value in values if value not in seen]
        return notes

    def groups(self) -> list[Group]:
        """What is finished so far. One with a damaged file does not count, nor one that is there twice.

        A group is there twice when a writer was given up but lived, or died before it reported its end.
        """
        sizes = self.files.sizes(self.folder)
        groups: list[Group] = []
        members: set[int] = set()
        for name in filter(GROUP_FILE.fullmatch, sorted(sizes)):
            group = self._group(name, sizes)
            if group is not None and members.isdisjoint(group.members):
                members.update(group.members)
                groups.append(group)
        return groups

    def _group(self, name: str, sizes: Mapping[str, int]) -> Group | None:
        """What this sheet tells of; None where it does not read, or a file is missing or of another size."""
        with suppress(StoreError, ValueError, LookupError, TypeError):
            sheet = self.files.read_object(f"{self.folder}/{name}")
            sheet["sums"] |= sheet.get("peaks", {})  # as older versions wrote them
            group = msgspec.convert({**sheet, "name": name[len("group-") : -len(".json")]}, Group)
            if all(sizes.get(part.file) == part.bytes for part in group.tables.values()):
                return group
        return None

    def add(
        self,
        tables: Mapping[str, pa.Table],
        members: Iterable[int] = (),
        *,
        sums: Mapping[str, float] | None = None,
        rank: int = 0,
        number: int | None = None,
    ) -> Group:
        """Write a group; it counts when this returns. ``number`` names it, the next free one without."""
        self._check_there()
        if number is None:
            number = 1 + max((int(group.name.partition("-")[2]) for group in self.groups()), default=-1)
        name = f"{rank:04d}-{number:05d}"
        parts = {of: write_part(self.files, self.folder, f"{of}-{name}.parquet", rows) for of, rows in tables.items()}
        group = Group(name, tuple(members), parts, dict(sums or {}))
        self.files.write_object(f"{self.folder}/group-{name}.json", asdict(group))
        return group

    def publish(self, row: Mapping[str, Any], **more: Any) -> Entry:
        """Merge the groups and show the entry. ``row`` adds to the row that it began with.

        Of several who do so at once one comes through, and the others get an error.
        """
        home, aside = entry_folder(self.kind, self.id), f"{self.folder}/ready-{uuid.uuid4().hex[:8]}"
        with alone(self.files, self.folder):  # the rename lets one of them through where there are no locks
            groups = self.groups()
            if self.is_shown:  # if not, nothing was removed before, so all groups are there
                raise TakenError(f"{self.id} is there already", "Choose another name")
            try:
                tables = {name: asdict(part) for name, part in self._merge(groups, aside).items()}
                sheet = {**self.sheet, **more, "row": {**self.sheet["row"], **row}, "tables": tables}
                entry = parse_entry(sheet, self.kind, self.id, home, self.files)  # refused before it is shown
                self.files.write_object(f"{aside}/{self.kind.sheet}", sheet)
                self.files.publish(aside, home)
            except BaseException:  # the room that it takes may be what is short
                with suppress(DriftscopeError):
                    self.files.remove(aside)
                raise
        with suppress(DriftscopeError):  # it is shown, so what is left is for `sweep`
            self.abandon()
        return entry

    def drop_damaged(self) -> list[str]:
        """Take away the groups of which a file is missing or has other bytes than were written, or the sheet does not
        read: their samples are to be written again. Their names; every byte is read."""
        sizes = self.files.sizes(self.folder)
        damaged = []
        for sheet in filter(GROUP_FILE.fullmatch, sorted(sizes)):
            try:
                group = self._group(sheet, sizes)
                is_whole = group is not None
                for part in group.tables.values() if group else ():
                    self.path_of(part)
            except (StoreError, OSError):
                is_whole = False
            if not is_whole:
                damaged.append(sheet[len("group-") : -len(".json")])
                self.files.remove(f"{self.folder}/{sheet}")
        return damaged

    def abandon(self) -> None:
        """Throw away what was written aside."""
        self.release()
        self.files.remove(self.folder)

    def path_of(self, part: TableFile) -> Path:
        """Of a group's file, if it has the bytes that were written."""
        path = Path(self.files.path(f"{self.folder}/{part.file}"))
        with path.open("rb") as file:
            if sha256_of(file) != part.sha256:
                raise StoreError(f"{self.folder}/{part.file} is damaged", "Use --resume, which writes it again")
        return path

    def _merge(self, groups: Sequence[Group], into: str) -> dict[str, TableFile]:
        """A file of each table, in the table's order, equal keys in the order in which they were written. Columns that
        the rows of an older version lack are null: a run may have been begun by it."""
        merged = {}
        try:
            with (
                tempfile.TemporaryDirectory() as room,
                duckdb.connect(config={"memory_limit": SORT_MEMORY, "temp_directory": room}) as database,
            ):
                for table in self.kind.tables:
                    parts = [group.tables[table.name] for group in groups if table.name in group.tables]
                    if paths := [str(self.path_of(part)) for part in parts]:
                        rows = ds.dataset(paths, table.schema, "parquet").scanner(**LITTLE).to_reader()
                        if table.order:
                            database.register("rows", rows)
                            database.execute("CREATE OR REPLACE TABLE held AS FROM rows")
                            ordered = database.sql(f"FROM held ORDER BY {', '.join(table.order)}, rowid")
                            rows = ordered.to_arrow_reader(BATCH_ROWS).cast(table.schema)
                        merged[table.name] = write_part(self.files, into, f"{table.name}.parquet", rows)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            problem = f"the parts of {self.id} cannot be merged: {one_line(str(error))}"
            raise StoreError(problem, f"Make room in {tempfile.gettempdir()}, or shorten texts") from error
        return merged


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


def write_whole(
    files: Files, kind: Kind, id_: str, row: Mapping[str, Any], tables: Mapping[str, pa.Table], **more: Any
) -> Entry:
    """An entry that is at hand as a whole, its rows in their tables' order: each file is written once."""
    aside = f"{ASIDE}/{id_}"
    files.remove(aside)  # of one that was killed
    try:
        parts = {
            name: asdict(write_part(files, f"{aside}/ready", f"{name}.parquet", rows)) for name, rows in tables.items()
        }
        sheet = {"schema": VERSION, "kind": kind.folder, "row": {**row, kind.key: id_}, "tables": parts, **more}
        entry = parse_entry(sheet, kind, id_, entry_folder(kind, id_), files)
        files.write_object(f"{aside}/ready/{kind.sheet}", sheet)
        files.publish(f"{aside}/ready", entry.folder)
    finally:
        files.remove(aside)
    return entry


def write_entry(
    files: Files, kind: Kind, id_: str, row: Mapping[str, Any], groups: Iterable[Mapping[str, pa.Table]]
) -> Entry:
    with begun_anew(files, kind, id_, row) as staging:
        for tables in groups:
            staging.add(tables)
        return staging.publish({})


# --- a finished run gets better rows --------------------------------------------------------------------------------


def rewrite_run(entry: Entry, tables: Mapping[str, pa.Table], columns: Mapping[str, Any]) -> Entry:
    """The run with these rows, by table, and these columns of its own, in the present schema version.

    A new file is next to the old one under a name of its own, and the sheet that names it is written last: a reader
    sees the old rows or the new ones, and what a killed process leaves goes with the next attempt. Of a run of an older
    version all tables are written again, since all files of a run are of one version.
    """
    files, folder = entry.files, entry.folder
    with alone(files, folder):
        now = parse_entry(files.read_object(f"{folder}/{RUN.sheet}"), RUN, entry.id, folder, files)
        if any(now.parts.get(name) != entry.parts.get(name) for name in tables):
            raise StoreError(f"{entry.id} was changed by another process meanwhile", "Try again")
        rows = {
            # Columns that came later are null, those that went are left out.
            table.name: pa.concat_tables(
                [table.schema.empty_table(), now.read(table.name)], promote_options="default"
            ).select(table.names)
            for table in RUN.tables
            if table.name in now.parts and now.version < VERSION
        }
        parts = {
            name: asdict(write_part(files, folder, f"{name}-{uuid.uuid4().hex[:8]}.parquet", table))
            for name, table in (rows | dict(tables)).items()
        }
        sheet = {**now.sheet, "schema": VERSION, "row": {**now.sheet["row"], **columns}}
        sheet["tables"] = {**now.sheet["tables"], **parts}
        better = parse_entry(sheet, RUN, entry.id, folder, files)  # refused before it is written
        files.write_object(f"{folder}/{RUN.sheet}", sheet)
        named = {str(table["file"]) for table in sheet["tables"].values()}
        for file in files.sizes(folder):
            if PART_FILE.fullmatch(file) and file not in named:  # other files are somebody's
                files.remove(f"{folder}/{file}")
    return better


# --- what is left ---------------------------------------------------------------------------------------------------


def unfinished_ids(files: Files, kind: Kind) -> list[str]:
    """Entries that were begun; one that was shown in the meantime is swept away."""
    begun = [id_ for id_ in files.folders(ASIDE) if NAME.fullmatch(id_)]
    begun = [id_ for id_ in begun if (files.root / ASIDE / id_ / kind.sheet).is_file()]
    return [id_ for id_ in begun if not Staging(files, kind, id_, {}).is_shown]


@dataclass(frozen=True, slots=True)
class Unfinished:
    """``row`` is what was known of the run before its first sample; counts are None where its sheet does not read."""

    run_id: str
    state: str  # being written, queued, stopped or damaged
    samples_done: int | None
    samples: int | None  # asked for
    row: Mapping[str, Any]
    can_resume: bool  # an import starts again


def unfinished_runs(files: Files) -> list[Unfinished]:
    """Oldest first. One that is finished or removed while this looks is left out."""
    runs = []
    for id_ in unfinished_ids(files, RUN):
        try:
            staging = Staging.open(files, RUN, id_)
            done = len({member for group in staging.groups() for member in group.members})
        except (RunError, FileNotFoundError):  # finished or removed meanwhile
            continue
        except (StoreError, OSError):
            runs.append(Unfinished(id_, "damaged", None, None, {}, can_resume=False))
            continue
        sheet = staging.sheet
        state = "being written" if staging.is_being_written else "stopped"
        runs.append(Unfinished(id_, state, done, sheet.get("samples"), sheet["row"], can_resume="plan" in sheet))
    return runs


def check_idle(files: Files, id_: str) -> None:
    """An error where another process writes the run."""
    if Staging(files, RUN, id_, {}).is_being_written:
        raise RunError(f"{id_} is being written by another process", "Stop that first")


def abandon(files: Files, id_: str) -> None:
    """Throw away what was written of an unfinished run, also of a damaged one."""
    if id_ not in unfinished_ids(files, RUN):
        raise RunError(f"{id_} is not unfinished any more", "See the runs of the store")
    check_idle(files, id_)
    Staging(files, RUN, id_, {}).abandon()


def sweep(files: Files, kind: Kind) -> None:
    """Remove what killed processes left aside: half-removed folders, what is shown, and what got no sheet in a day."""
    for id_ in files.folders(ASIDE):
        folder = files.root / ASIDE / id_
        with suppress(DriftscopeError, OSError):  # such as in a store that is only read
            is_unbegun = {path.suffix for path in folder.iterdir()} == {".parquet"}
            is_orphan = is_unbegun and folder.stat().st_mtime < time.time() - ORPHAN_S
            if is_orphan or id_.startswith(REMOVED) or Staging(files, kind, id_, {}).is_shown:
                files.remove(f"{ASIDE}/{id_}")


def _is_taken(number: int) -> bool:
    """Whether another process holds the lock on this file; else it is held now. Some disks have no locks."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        log.info("the store has no locks (%s): writers are kept apart by their ranks alone", error)
    return False
