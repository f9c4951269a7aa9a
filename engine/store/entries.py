"""What a store holds: each entry's sheet, read and checked without opening a single Parquet file.

An entry counts when its folder's name is its key and its sheet (``run.json``) reads, names this schema version or an
older one, and its files have the sizes that the sheet gives. What does not is named, and left out; the rest is served.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import DriftscopeError, StoreError, nearest, one_line, shown
from engine.records import BinFormat, NumberFormat, read_number_format
from engine.store.columns import TEXT, VERSION, Kind, Table
from engine.store.files import Files, read_sheet
from engine.store.schema import RUN, RUNS, SAMPLES

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
USER_SHEET = "user.json"
"""A user's label, notes and tags: the one file of an entry that may change."""
USER_KEYS: Mapping[str, Any] = {"label": "", "notes": "", "tags": []}
MOST_NAMED = 20
"""Entries that an error lists."""
_RUN_TEXTS = frozenset(column.name for column in RUNS if column.type == TEXT)


@dataclass(frozen=True, slots=True)
class TableFile:
    """One Parquet file of an entry."""

    file: str
    rows: int
    bytes: int
    sha256: str

    def sheet(self) -> dict[str, Any]:
        return asdict(self)


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
        return row | {name: row[name].isoformat() for name in kind.main.moments if row[name] is not None}

    def path(self, table: str) -> str:
        return self.files.path(f"{self.folder}/{self.parts[table].file}")

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        with pq.ParquetFile(self.path(table), filesystem=self.files.filesystem) as file:
            return file.read(columns if columns is None else list(columns))


@dataclass(frozen=True, slots=True)
class Damage:
    """Something of a store that is left out, and why."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class StoreListing:
    """The entries of a kind that a store has, and what is left out of it."""

    entries: tuple[Entry, ...]
    damages: tuple[Damage, ...]

    def get(self, id_: str, kind: Kind) -> Entry:
        """The entry of that id or label, or the only one whose id has this in it."""
        ids = {entry.id: entry for entry in self.entries}
        if id_ in ids:
            return ids[id_]
        for damage in self.damages:
            if damage.where.endswith(f"/{kind.key}={id_}"):
                raise StoreError(f"{damage.where}: {damage.what}", "Run `verify`")
        labelled = [entry.id for entry in self.entries if id_ and entry.row.get("label") == id_]
        return ids[only_id(list(ids), id_, kind.folder, f"there is no {kind.noun} {shown(id_)}", labelled)]


def only_id(ids: Sequence[str], part: str, kind: str, none: str, labelled: Sequence[str] = ()) -> str:
    """The id that is this text, or the only one that has it as its label or in it; ``ids`` are oldest first."""
    near = [part] if part in ids else labelled or [id_ for id_ in ids if part and part in id_]
    if len(near) > 1:
        some = ", ".join(near[:MOST_NAMED])
        raise StoreError(f"there are {len(near)} {kind} like {shown(part)}", f"Give more of its name: {some}")
    if not near:
        raise StoreError(none, nearest(part, ids[-MOST_NAMED:]))
    return near[0]


def run_value(entry: Entry, column: str) -> Any:
    """What a run's sheet says. Where it does not: a text is empty, all else None."""
    value = entry.row.get(column)
    return "" if value is None and column in _RUN_TEXTS else value


def rmsd_references(entry: Entry) -> str:
    """What a run's RMSD is to the nearest of: ``10 conformers by ETKDG``, ``conformers of drugs``; empty where it is
    not said, or no RMSD was asked for."""
    plan = entry.sheet.get("plan")
    plan = plan if isinstance(plan, Mapping) else {}
    if name := plan.get("rmsd_references"):
        return f"conformers of {shown(str(name))}"
    return f"{count} conformers by ETKDG" if (count := plan.get("rmsd")) else ""


def is_profiled(entry: Entry) -> bool:
    """Whether a profiler ran beside it, as its command says: its times are not those of the work alone."""
    return "--profile" in str(entry.row.get("source") or "").split()


def number_format_of(entry: Entry) -> NumberFormat | None:
    """The numbers that a run's model might write, or that an import found in its texts. A sheet may say anything."""
    with contextlib.suppress(LookupError, TypeError, ValueError):
        return read_number_format(entry.sheet.get("form") or entry.sheet["plan"]["plan"]["form"])
    return None


def is_binned(entry: Entry) -> bool:
    return isinstance(number_format_of(entry), BinFormat)


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
    if not NAME.fullmatch(id_):
        raise StoreError(
            f"{shown(id_)} is no {kind.key}", "Letters, digits, dots, hyphens and underscores, at most 128"
        )
    return f"{kind.folder}/{kind.key}={id_}"


def without_samples(entry: Entry, what_for: str) -> StoreError:
    """Why a run has no samples: they are damaged, or it never had any."""
    if SAMPLES.name in entry.sheet["tables"]:
        return StoreError(f"the samples of {entry.id} are damaged", "`verify` names the file. Run or import it again")
    return StoreError(f"{entry.id} has no samples to {what_for}", "Reported runs have figures alone")


def read_entries(files: Files, kind: Kind) -> StoreListing:
    entries, damages = [], []
    place = f"{files.where}/{kind.folder}"
    for name in files.folders(kind.folder):
        try:
            entry, missing = _read_twice(files, kind, name)
        except FileNotFoundError:
            if name in files.folders(kind.folder):  # and not removed between listing and reading
                damages.append(Damage(f"{place}/{name}", f"it has no {kind.sheet}"))
        except DriftscopeError as error:
            damages.append(Damage(f"{place}/{name}", error.what))
        except OSError as error:
            damages.append(Damage(f"{place}/{name}", f"it cannot be read ({error.strerror or error})"))
        else:
            entries.append(entry)
            damages += missing
    strangers = [Damage(f"{place}/{name}", f"it is no folder of {kind.folder}") for name in files.sizes(kind.folder)]
    return StoreListing(tuple(entries), (*damages, *strangers))


def _read_twice(files: Files, kind: Kind, name: str) -> tuple[Entry, list[Damage]]:
    """What seems damaged is read once more: it may have been removed, or made anew, while it was read."""
    with contextlib.suppress(FileNotFoundError):
        entry, damages = read_entry(files, kind, name)
        if not damages:
            return entry, damages
    return read_entry(files, kind, name)


def read_entry(files: Files, kind: Kind, name: str) -> tuple[Entry, list[Damage]]:
    """The entry in this folder, and which of its files are not its own, or missing or of another size: it goes without.

    ``FileNotFoundError`` where it has no sheet, StoreError where the sheet is wrong.
    """
    prefix, _, id_ = name.partition("=")
    if prefix != kind.key or not NAME.fullmatch(id_):
        raise StoreError(f"it is not named {kind.key}=<id>, so it is not of this store", "Move it elsewhere")
    folder = f"{kind.folder}/{name}"
    sizes = files.sizes(folder)
    if kind.sheet not in sizes:
        raise FileNotFoundError(f"{folder}/{kind.sheet}")
    entry = parse_entry(read_sheet(files, f"{folder}/{kind.sheet}"), kind, id_, folder, files)
    named = {kind.sheet, USER_SHEET, *(part["file"] for part in entry.sheet["tables"].values())}
    strangers = sorted(sizes.keys() - named)
    damages = [Damage(f"{files.where}/{folder}/{file}", f"{kind.sheet} does not name it") for file in strangers]
    whole: dict[str, TableFile] = {}
    for table, part in entry.parts.items():
        size = sizes.get(part.file)
        if size != part.bytes:
            what = "it is missing" if size is None else f"it has {size:,} bytes in place of {part.bytes:,}"
            damages.append(Damage(f"{files.where}/{folder}/{part.file}", what))
        else:
            whole[table] = part
    row = dict(entry.row)
    if USER_SHEET in sizes:
        try:
            user = read_object(read_sheet(files, f"{folder}/{USER_SHEET}"), USER_SHEET)
            said = {key: user[key] for key in USER_KEYS if key in user and key in kind.main.by_name}
            changed = _row_of(kind.main, {**entry.sheet["row"], **said})
            row |= {key: changed.get(key) or None for key in said}  # an empty one removes the former
        except StoreError as error:
            damages.append(Damage(f"{files.where}/{folder}/{USER_SHEET}", error.what))
    return replace(entry, row=row, parts=whole), damages


def parse_entry(content: bytes, kind: Kind, id_: str, folder: str, files: Files) -> Entry:
    sheet = read_object(content, kind.sheet)
    version = sheet.get("schema")
    if type(version) is not int or version < 1:
        raise StoreError(f"{kind.sheet} names no schema version", "It is not of this program")
    if version > VERSION:
        raise StoreError(
            f"{kind.sheet} has schema version {version}, this program reads up to {VERSION}", "Use a newer one"
        )
    row, tables = sheet.get("row"), sheet.get("tables")
    if not isinstance(row, dict) or not isinstance(tables, dict) or row.get(kind.key) != id_:
        raise StoreError(f"{kind.sheet} does not describe {id_}", "It is not of this program")
    try:
        parts = msgspec.convert(tables, dict[str, TableFile])
    except msgspec.ValidationError as error:
        raise StoreError(f"{kind.sheet} describes a table wrongly", "It is not of this program") from error
    parts = {table.name: parts[table.name] for table in kind.tables if table.name in parts}
    return Entry(id_, folder, files, version, _row_of(kind.main, row), parts, sheet)


def _row_of(table: Table, said: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return table.row_of(said)
    except (ValueError, OverflowError) as error:
        raise StoreError(f"its row does not fit: {one_line(str(error))}", "It is not of this program") from error


def read_object(content: bytes, name: str) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(content)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise StoreError(f"{name} is no JSON ({error})", "Import or run it again") from error
    if not isinstance(document, dict):
        raise StoreError(f"{name} holds no object", "Import or run it again")
    return document
