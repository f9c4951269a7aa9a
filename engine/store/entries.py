"""What a store holds: each entry's sheet, read and checked without opening a single Parquet file.

An entry counts when its folder's name is its key and its sheet (``run.json``) reads, names this schema version or an
older one, and its files have the sizes that the sheet gives. What does not is named, and left out; the rest is served.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import DriftscopeError, StoreError, nearest, one_line, shown
from engine.lp_records import NO_LP, stored_lp
from engine.records import Alphabet, NumberFormat, read_number_format
from engine.store.columns import TEXT, VERSION, Kind
from engine.store.files import Files
from engine.store.schema import BLOCKS, CONFORMERS, KINDS, ROLLOUTS, RUN, RUNS, SAMPLES
from engine.text.blocks import RULES

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
USER_SHEET = "user.json"
"""A user's label, notes and tags: the one file of an entry that may change."""
USER_KEYS: Mapping[str, Any] = {"label": "", "notes": "", "tags": []}
MOST_NAMED = 20
"""Entries that an error lists."""
TABLES = {table.name: table for kind in KINDS for table in kind.tables}
_RUN_TEXTS = frozenset(column.name for column in RUNS if column.type == TEXT)


@dataclass(frozen=True, slots=True)
class TableFile:
    """One Parquet file of an entry."""

    file: str
    rows: int
    bytes: int
    sha256: str


def write_part(files: Files, folder: str, file: str, rows: pa.Table | pa.RecordBatchReader) -> TableFile:
    path, count = f"{folder}/{file}", 0
    with files.writing(path) as target, pq.ParquetWriter(target, rows.schema, compression="zstd") as writer:
        for batch in [rows] if isinstance(rows, pa.Table) else rows:
            writer.write(batch)
            count += batch.num_rows
    with Path(files.path(path)).open("rb") as written:
        return TableFile(file, count, written.seek(0, os.SEEK_END), sha256_of(written))


def sha256_of(file: BufferedReader) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a store. ``row`` is its row of the kind's main table, ``sheet`` all that its JSON file holds."""

    id: str
    folder: str
    files: Files = field(repr=False)
    version: int
    row: Mapping[str, Any]
    parts: Mapping[str, TableFile]
    sheet: Mapping[str, Any] = field(repr=False)

    @property
    def key(self) -> tuple[str, ...]:
        """What is computed of it holds as long as this does: its id and its files' checksums."""
        return (self.id, *(f"{name}:{self.parts[name].sha256}" for name in sorted(self.parts)))

    def columns(self, kind: Kind = RUN) -> dict[str, Any]:
        """All of its main table, in JSON's types."""
        row: dict[str, Any] = dict.fromkeys(kind.main.by_name) | dict(self.row)
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}

    def path(self, table: str) -> str:
        return self.files.path(f"{self.folder}/{self.parts[table].file}")

    def column_problem(self, table: str) -> str:
        """Why the columns of the file cannot be the store's; empty where they can. What is computed of them would be
        wrong, or fail somewhere."""
        return _column_problem(self.path(table), table, self.parts[table].sha256)

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        with self._opened(table) as file:
            return file.read(columns if columns is None else list(columns))

    def batches(self, table: str, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Of at most so many rows, each read when it is asked for."""
        with self._opened(table) as file:
            yield from file.iter_batches(rows, columns=list(columns), use_threads=False)

    def _opened(self, table: str) -> pq.ParquetFile:
        if problem := self.column_problem(table):
            fix = "Run or import it again; `verify` names all that is damaged"
            raise StoreError(f"{self.path(table)}: {problem}", fix)
        return pq.ParquetFile(self.path(table))


@functools.lru_cache(maxsize=2**16)
def _column_problem(path: str, table: str, sha256: str) -> str:
    """What is wrong with the columns of a Parquet file whose content has this checksum: ``its column text has the type
    int64, not string``. A column that the store does not have is none, nor is one that an older version lacks."""
    try:
        types = {field.name: field.type for field in pq.read_schema(path)}
    except UnicodeDecodeError:
        return "the name of a column is no text"
    problems = []
    for column in TABLES.get(table, ()):
        if types.get(column.name, column.type) != column.type:
            problems.append(f"its column {column.name} has the type {types[column.name]}, not {column.type}")
        elif column.required and column.name not in types:
            problems.append(f"it has no column {column.name}")
    return "; ".join(problems)


@dataclass(frozen=True, slots=True)
class Damage:
    """Something of a store that is left out, and why."""

    where: str
    reason: str
    id: str | None = None  # of the entry that goes without it
    is_note: bool = False  # nothing goes without it: a file of another program, or one that a killed process left


@dataclass(frozen=True, slots=True)
class StoreListing:
    """The entries of a kind that a store has, and what is left out of it."""

    entries: tuple[Entry, ...]
    damages: tuple[Damage, ...]
    notes: tuple[Damage, ...] = ()  # files that are no part of the store

    def near(self, id_: str) -> list[Entry]:
        """Those of that id, else of that label, else with this in their id."""
        near = [entry for entry in self.entries if entry.id == id_]
        if not id_ or near:
            return near
        named = [entry for entry in self.entries if entry.row.get("label") == id_]
        return named or [entry for entry in self.entries if id_ in entry.id]

    def get(self, id_: str, kind: Kind) -> Entry:
        """The entry of that id or label, or the only one with this in its id."""
        near = self.near(id_)
        damaged = [damage for damage in self.damages if f"/{kind.key}={id_}/" in damage.where + "/"]
        if damaged and id_ not in [entry.id for entry in near]:
            raise StoreError(f"{damaged[0].where}: {damaged[0].reason}", "Run `verify`")
        if len(near) > 1:
            some = ", ".join(entry.id for entry in near[:MOST_NAMED])
            raise StoreError(f"there are {len(near)} {kind.folder} like {shown(id_)}", f"Give more of its name: {some}")
        if not near:
            ids = [entry.id for entry in self.entries[-MOST_NAMED:]]
            raise StoreError(f"there is no {kind.noun} {shown(id_)}", nearest(id_, ids))
        return near[0]


def run_value(entry: Entry, column: str) -> Any:
    """What a run's sheet says. Where it does not: a text is empty, all else None."""
    value = entry.row.get(column)
    return "" if value is None and column in _RUN_TEXTS else value


def label_words(entry: Entry) -> str:
    """Its label; of an imported run without one the name of its file, since its id is a hash."""
    file = run_value(entry, "source") if entry.row["origin"] == "imported" else ""
    return str(run_value(entry, "label") or file)


def came_at(entry: Entry) -> datetime:
    """When it came into the store: when it was made, but of an imported run, whose report may be years old, when it was
    read in. That is when its sheet was written; what is copied without its times counts as new."""
    moment = entry.row.get("created_at")
    if entry.row.get("origin") == "imported":
        with contextlib.suppress(OSError):
            moment = datetime.fromtimestamp(Path(entry.files.path(f"{entry.folder}/{RUN.sheet}")).stat().st_mtime, UTC)
    return moment or datetime.min.replace(tzinfo=UTC)


def rmsd_references(entry: Entry) -> str:
    """What a run's RMSD is to the nearest of: ``10 conformers by ETKDG``, ``conformers of drugs``; empty where it is
    not said, or no RMSD was asked for."""
    plan = plan if isinstance(plan := entry.sheet.get("plan"), Mapping) else {}
    name, count = plan.get("rmsd_references"), plan.get("rmsd")
    if name:
        return f"conformers of {shown(str(name))}"
    return f"{count} conformers by ETKDG" if count else ""


def is_profiled(entry: Entry) -> bool:
    """Whether a profiler ran next to it, as its command says: its times are not those of the work alone."""
    return "--profile" in str(entry.row.get("source") or "").split()


def is_branch(entry: Entry) -> bool:
    """Whether its answers keep the first tokens of another run's sample."""
    return entry.row.get("branch_of") is not None


MOST_DIGITS = 9  # of the number of a sample


def branch_place(entry: Entry) -> tuple[str, int, int] | None:
    """Run, sample and token that a branch goes on from; None for other runs, and where others wrote what is no such
    place."""
    run_id, _, sample = str(entry.row.get("branch_of") or "").rpartition("/")
    at = entry.row.get("branch_at")
    if not run_id or not sample.isdecimal() or len(sample) > MOST_DIGITS or not isinstance(at, int) or at < 0:
        return None
    return run_id, int(sample), at


def is_unjudged(entry: Entry) -> bool:
    """Of rollouts: whether some of its texts were not read yet."""
    return ROLLOUTS.name in entry.parts and entry.row.get("counted_by") is None


FORMER_COUNTS = "(former counts)"
"""Behind the LP of a run of which that is so, wherever it is named."""


def has_former_counts(entry: Entry) -> bool:
    """Whether its kinds of blocks, and of an import its descriptors, were found by former rules. They are not compared
    unmarked, and ``verify --recount`` finds them again. Rules agree on a measured run whose model closes its blocks."""
    if entry.row.get("counted_by") == RULES or BLOCKS.name not in entry.sheet.get("tables", ()) or is_unjudged(entry):
        return False
    return entry.row["origin"] == "imported" or stored_lp(entry.row.get("lp")).closed_by != "model"


def number_format_of(entry: Entry) -> NumberFormat | None:
    """The numbers that a run's model might write, or that an import found in its texts. A sheet may say anything."""
    with contextlib.suppress(LookupError, TypeError, ValueError):
        return read_number_format(entry.sheet.get("form") or entry.sheet["plan"]["plan"]["form"])
    return None


def alphabet_of(entry: Entry) -> Alphabet | None:
    """The bins or the codes that its texts are of; None where they are of decimals."""
    form = number_format_of(entry)
    return form if isinstance(form, Alphabet) else None


def is_pool(entry: Entry) -> bool:
    """Whether it has conformers and no texts; texts of codes may have conformers beside them."""
    return CONFORMERS.name in entry.parts and BLOCKS.name not in entry.parts


def constrained_words(entry: Entry) -> str | None:
    """Whether its LP acted on every token; None of a run without texts."""
    if SAMPLES.name not in entry.parts or is_pool(entry):
        return None
    is_free = stored_lp(entry.row.get("lp")).name == NO_LP
    return "no LP" if is_free else str(entry.row.get("constrained") or "not checked yet")


def model_name(row: Mapping[str, Any]) -> str:
    """``alias:step`` of a run's row, as far as it says them."""
    return ":".join(str(part) for part in (row.get("model_alias"), row.get("model_step")) if part)


def entry_names(entries: Sequence[Entry]) -> dict[str, str]:
    """Of traces and logs by id: label, else source, as short as tells these apart."""
    names = {entry.id: one_line(entry.row.get("label") or entry.row.get("source") or entry.id) for entry in entries}
    origins = {e.id: "" if e.row.get("origin") == "measured" else f" · {e.row.get('origin')}" for e in entries}
    is_clear = len(set(names.values())) == len(names)
    return {id_: f"{name}{origins[id_]}" if is_clear else f"{name} · {id_}" for id_, name in names.items()}


def entry_folder(kind: Kind, id_: str) -> str:
    if NAME.fullmatch(id_):
        return f"{kind.folder}/{kind.key}={id_}"
    raise StoreError(f"{shown(id_)} is no {kind.key}", "Letters, digits, dots, hyphens and underscores, at most 128")


def without_samples(entry: Entry, what_for: str) -> StoreError:
    """Why a run has no samples: they are damaged, or it never had any."""
    if SAMPLES.name in entry.sheet["tables"]:
        return StoreError(f"the samples of {entry.id} are damaged", "`verify` names the file. Run or import it again")
    return StoreError(f"{entry.id} has no samples to {what_for}", "Reported runs have figures alone")


def read_entries(files: Files, kind: Kind) -> StoreListing:
    entries, damages = [], []
    for name in files.folders(kind.folder):
        entry, wrong = read_entry(files, kind, name)
        if wrong:  # it may have been removed, or made again, while it was read
            entry, wrong = read_entry(files, kind, name)
        entries += [] if entry is None else [entry]
        damages += wrong
    for name in files.sizes(kind.folder):
        is_note = not name.startswith(f"{kind.key}=")
        place = files.path(f"{kind.folder}/{name}")
        damages.append(Damage(place, f"it is no folder of {kind.folder}", is_note=is_note))
    notes = tuple(damage for damage in damages if damage.is_note)
    return StoreListing(tuple(entries), tuple(damage for damage in damages if not damage.is_note), notes)


def read_entry(files: Files, kind: Kind, name: str) -> tuple[Entry | None, list[Damage]]:
    """The entry in this folder, and what is wrong with it: it goes without files that are missing or of another size,
    or there is none at all. Nothing is wrong with one that is removed meanwhile. Other programs' files are notes."""
    folder = f"{kind.folder}/{name}"
    prefix, _, id_ = name.partition("=")
    try:
        if prefix != kind.key or not NAME.fullmatch(id_):
            raise StoreError(f"it is not named {kind.key}=<id>, so it is not of this store", "Move it elsewhere")
        sizes, others = files.sizes(folder), files.folders(folder)
        entry = parse_entry(files.read_object(f"{folder}/{kind.sheet}"), kind, id_, folder, files)
    except (DriftscopeError, OSError) as error:
        if isinstance(error, FileNotFoundError) and name not in files.folders(kind.folder):
            return None, []
        problem = error.what if isinstance(error, DriftscopeError) else f"{kind.sheet}: {error.strerror or error}"
        return None, [Damage(files.path(folder), problem)]
    wrong, edits = _wrong_sizes(entry, sizes), dict[str, Any]()
    if USER_SHEET in others:
        wrong[USER_SHEET] = "it is no plain file"
    elif USER_SHEET in sizes:
        try:
            edits = _user_edits(entry, kind)
        except (StoreError, OSError, ValueError) as error:
            wrong[USER_SHEET] = error.what if isinstance(error, StoreError) else one_line(str(error))
    parts = {table: part for table, part in entry.parts.items() if part.file not in wrong}
    damages = [Damage(files.path(f"{folder}/{file}"), problem, id_) for file, problem in sorted(wrong.items())]
    return replace(entry, row={**entry.row, **edits}, parts=parts), damages + _strangers(entry, kind, {*sizes, *others})


def _wrong_sizes(entry: Entry, sizes: Mapping[str, int]) -> dict[str, str]:
    """What is wrong with files that are missing or of another size, by name."""
    wrong = {}
    for part in entry.parts.values():
        if (size := sizes.get(part.file)) != part.bytes:
            wrong[part.file] = "it is missing" if size is None else f"it has {size:,} bytes in place of {part.bytes:,}"
    return wrong


def _user_edits(entry: Entry, kind: Kind) -> dict[str, Any]:
    """What a user's sheet changes in the row; an empty value removes the former one."""
    user = entry.files.read_object(f"{entry.folder}/{USER_SHEET}")
    edits = {key: user[key] for key in USER_KEYS if key in user and key in kind.main.by_name}
    changed = kind.main.row_of({**entry.sheet["row"], **edits})
    return {key: changed.get(key) or None for key in edits}


def _strangers(entry: Entry, kind: Kind, names: Set[str]) -> list[Damage]:
    """Notes of the files and folders in an entry's folder that are not its own."""
    own = {kind.sheet, USER_SHEET, *(part["file"] for part in entry.sheet["tables"].values())}
    reason = f"{kind.sheet} does not name it"
    places = [entry.files.path(f"{entry.folder}/{file}") for file in sorted(names - own)]
    return [Damage(place, reason, entry.id, is_note=True) for place in places]


class _Sheet(msgspec.Struct, frozen=True):
    schema: Annotated[int, msgspec.Meta(ge=1)]
    row: dict[str, Any]
    tables: dict[str, TableFile]


def parse_entry(sheet: Mapping[str, Any], kind: Kind, id_: str, folder: str, files: Files) -> Entry:
    try:
        parsed = msgspec.convert(sheet, _Sheet)
        if parsed.schema > VERSION:
            problem = f"{kind.sheet} is of version {parsed.schema}, this program reads up to {VERSION}"
            raise StoreError(problem, "Update it")
        if parsed.row.get(kind.key) != id_:
            raise ValueError(f"it does not describe {id_}")
        row = kind.main.row_of(parsed.row)
    except (ValueError, OverflowError) as error:
        problem = f"{kind.sheet} does not fit: {one_line(str(error))}"
        raise StoreError(problem, "It is not of this program") from error
    parts = {table.name: parsed.tables[table.name] for table in kind.tables if table.name in parsed.tables}
    return Entry(id_, folder, files, parsed.schema, row, parts, sheet)
