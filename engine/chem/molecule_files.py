"""Molecules that a user lists in a file for a run: SMILES lines, CSV and TSV, SDF, JSON lines (each also gz), Parquet.

A row that cannot be used is a ``Skipped`` with its reason, since one of a million must not end a run; a file that is no
such file, or breaks off, raises ``FileFormatError``. What this module does not know: which molecules are the same (all
stay), and what else a file says of them.
"""

from __future__ import annotations

import csv
import difflib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from rdkit import Chem

from engine.chem.enriched import skeleton_of
from engine.chem.molecule_list import MoleculeList
from engine.chem.parquet_files import is_number, is_text, parquet_columns, schema_of
from engine.chem.smiles import parse_smiles, split_smiles
from engine.chem.structure_files import mol_of, sdf_records
from engine.chem.textfiles import MOST_LINE_CHARACTERS, text_lines
from engine.errors import DriftscopeError, FileFormatError, one_line, shown, unquoted
from engine.records import Molecule
from engine.user_files import open_file, parsed_json, unique_keys

SMILES_COLUMNS = ("smiles", "isomericsmiles", "canonicalsmiles", "smi")
"""Likeliest first, as ``_key`` writes them. Another name that ends in ``smiles`` counts where it is the only one."""
NAME_COLUMNS = ("name", "title", "id", "identifier", "moleculename", "compoundname", "compoundid", "molid", "chemblid")

MOST_USELESS = 10_000
"""Of a file nine in ten of whose molecules cannot be used: so many are looked at."""

Kind = Literal["lines", "table", "sdf", "parquet", "jsonl"]
_KINDS: dict[str, Kind] = {".csv": "table", ".tsv": "table", ".sdf": "sdf", ".sd": "sdf", ".mol": "sdf"}
_KINDS |= {".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_LISTS = (".smi", ".smiles")
_JSON_START = re.compile(r"""\s*(?:\{|\[\s*(?:["{\[]|$))""")  # a SMILES may begin with a bracket, but not like this
_NO_OBJECT = 'no JSON object such as {"smiles": "CC=O"}, each key once'
_FIELD_LIMIT = threading.Lock()
PARQUET_ROWS = 4_096
MOST_SKIPPED = 1_000
"""Of what is skipped, so many are kept: a file of 75 MB can have 25 million."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One molecule as a file has it. ``line`` is where its row begins, or a record's number; from 1."""

    line: int
    smiles: str  # as it stands there; of an SDF record RDKit's, with hydrogens removed
    name: str  # empty where there is none
    reference: Chem.Mol | None = field(default=None, compare=False, repr=False)  # a 3D record, with its conformer


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row or record that cannot be used. ``error`` is one line, with nothing of a text that is no SMILES."""

    line: int
    error: str
    smiles: str = ""  # that was typed


class SkippedRows(list[Skipped]):
    """The first ``MOST_SKIPPED`` that were added; ``total`` counts all."""

    total = 0

    def add(self, row: Skipped) -> None:
        self.total += 1
        if self.total <= MOST_SKIPPED:
            self.append(row)


Entries: TypeAlias = Iterator[FileEntry | Skipped]
Reader: TypeAlias = Callable[[Path, str | None], Entries]


def read_entries(path: Path, *, column: str | None = None) -> Entries:
    """The entries and what is skipped, streamed, not parsed. Without ``column``, its name tells it."""
    entry = None
    for entry in _READERS[_kind(path, column)](path, column):
        yield entry
    if entry is None:
        raise FileFormatError(f"{shown(path.name)} has no molecule in it", "Give a file with at least one")


def read_molecule_file(
    path: Path,
    *,
    column: str | None = None,
    limit: int | None = None,
    parse: Callable[[str], Molecule] = parse_smiles,
    progress: Callable[[int], object] = lambda done: None,
) -> tuple[MoleculeList, SkippedRows]:
    """The first ``limit`` molecules that can be used, and what was skipped; an error where none can. ``progress`` gets
    how many there are so far."""
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    molecules = MoleculeList(parse)
    skipped = SkippedRows()
    for entry in read_entries(path, column=column):
        try:
            if isinstance(entry, Skipped):
                skipped.add(entry)
            else:
                molecule = parse(entry.smiles)
                skeleton_of(molecule)  # some molecules have no enriched form
                molecules.append(entry.smiles, molecule)
                progress(len(molecules))
        except DriftscopeError as error:
            skipped.add(Skipped(entry.line, one_line(unquoted(error))))
        if len(molecules) == limit:
            break
        if skipped.total > MOST_USELESS and skipped.total > 9 * len(molecules):  # no use, however long it goes on
            what = f"{skipped.total:,} of the first {skipped.total + len(molecules):,} molecules of {shown(path.name)}"
            raise FileFormatError(f"{what} cannot be used", f"The first, at {skipped[0].line:,}: {skipped[0].error}")
    if not molecules:
        what = f"none of {skipped.total:,} molecules of {shown(path.name)} can be used"
        raise FileFormatError(what, f"The first, at {skipped[0].line:,}: {skipped[0].error}")
    return molecules, skipped


def read_typed(
    texts: Sequence[str], parse: Callable[[str], Molecule] = parse_smiles
) -> tuple[list[Molecule], SkippedRows]:
    """The molecules of SMILES, which an error quotes."""
    molecules, skipped = list[Molecule](), SkippedRows()
    for line, text in enumerate(texts, start=1):
        try:
            molecule = parse(text)
            skeleton_of(molecule)
            molecules.append(molecule)
        except DriftscopeError as error:
            skipped.append(Skipped(line, str(error), text))
    if skipped and not molecules:
        last = skipped[-1].error
        raise DriftscopeError(*((f"none of {len(texts):,} molecules can be read", last) if texts[1:] else (last,)))
    return molecules, skipped


def _entry(line: int, smiles: object, name: object) -> FileEntry | Skipped:
    if smiles is not None and not isinstance(smiles, str):
        return Skipped(line, f"its SMILES is of type {type(smiles).__name__}, not text")
    # JSON may hide lone surrogates, which nothing could write out again.
    plain, named = (
        str(cell).encode("utf-8", "replace").decode("utf-8").strip() if isinstance(cell, (str, int, float)) else ""
        for cell in (smiles, name)
    )
    return FileEntry(line, plain, named) if plain else Skipped(line, "it has no SMILES")


def _kind(path: Path, column: str | None) -> Kind:
    with open_file(path) as file:
        head = file.read(4)
    suffix = _suffix(path)
    if head == b"PAR1" or suffix in _KINDS:
        return "parquet" if head == b"PAR1" else _KINDS[suffix]
    return _kind_of_text(path, is_list=suffix in (*_LISTS, ".txt"), has_column=column is not None)


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _kind_of_text(path: Path, *, is_list: bool, has_column: bool) -> Kind:
    _, first = next(_content(path), (0, ""))
    if not is_list and any(re.search("V[23]000", line) for _, line in islice(text_lines(path), 3, 4)):
        return "sdf"
    if not is_list and _JSON_START.match(first):
        return "jsonl"
    cells = first.split(_delimiter(first))
    is_row = len(cells) > 1 and (re.match(r"\S*[,;]", first) or _smiles_columns(cells, None))  # no SMILES has a comma
    return "table" if has_column or is_row else "lines"


def _content(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are neither blank nor a comment: ``#``, a triple bond, begins no SMILES."""
    return ((number, line) for number, line in text_lines(path) if line.strip() and not line.lstrip().startswith("#"))


def _lines(path: Path, column: str | None) -> Entries:
    for index, (number, line) in enumerate(_content(path)):
        smiles, *name = line.split(maxsplit=1)
        if index or not _smiles_columns([smiles], column):
            yield _entry(number, smiles, "".join(name))


def _table(path: Path, column: str | None) -> Entries:
    columns: tuple[int, int | None] | None = None
    for line, cells in _rows(path):
        if columns is None and cells[0].lstrip().startswith("#"):
            continue
        if columns is None:
            has_header = column is not None or bool(_smiles_columns(cells, None)) or not _is_data(cells)
            columns = _columns(path, cells, column) if has_header else (0, 1)
            if has_header:
                continue
        smiles, name = (cells[at] if at is not None and at < len(cells) else "" for at in columns)
        yield _entry(line, smiles, name)


def _is_data(first: list[str]) -> bool:
    """Whether a first row is no header. ``No`` and ``c1`` may be either: beside others only a molecule is data."""
    try:
        return bool(parse_smiles(first[0]) if len(first) > 1 else split_smiles(first[0].strip()))
    except DriftscopeError:
        return False


def _delimiter(first: str) -> str:
    """The first one outside quotes: neither a SMILES nor a usual name of a column has any of them."""
    match = re.search("[,;\t]", re.sub('"[^"]*"', "", first))
    return match.group() if match else ","


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The line on which a row begins, and its cells; rows without any are passed over."""
    _, first = next(_content(path), (0, ""))
    lines = (f"{line}\n" for _, line in text_lines(path))
    reader, line = csv.reader(lines, delimiter=_delimiter(first), strict=True), 1
    try:
        while (cells := _next_row(reader)) is not None:
            if any(cell.strip() for cell in cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        what = f"line {line:,} of {shown(path.name)} is no table row: {error}"
        raise FileFormatError(what, "Check its quotes") from error


def _next_row(reader: Iterator[list[str]]) -> list[str] | None:
    with _FIELD_LIMIT:  # the limit is one for the whole process: others keep theirs
        kept = csv.field_size_limit(MOST_LINE_CHARACTERS)
        try:
            return next(reader, None)
        finally:
            csv.field_size_limit(kept)


def _key(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _smiles_columns(names: Sequence[str], column: str | None) -> list[int]:
    """The columns that may hold the SMILES: one, unless none or several have such a name."""
    keys = [_key(name) for name in names]
    if column is not None:
        return [names.index(column)] if column in names else [at for at, key in enumerate(keys) if key == _key(column)]
    known = [keys.index(key) for key in SMILES_COLUMNS if key in keys]
    return known[:1] or [at for at, key in enumerate(keys) if key.endswith("smiles")]


def _columns(path: Path, names: Sequence[str], column: str | None) -> tuple[int, int | None]:
    """The columns of the SMILES and of the name, if there is one."""
    columns, keys = _smiles_columns(names, column), [_key(name) for name in names]
    if len(columns) == 1:
        named = [keys.index(key) for key in NAME_COLUMNS if key in keys and keys.index(key) != columns[0]]
        return columns[0], named[0] if named else None
    kind = _KINDS.get(_suffix(path))
    # Perhaps another kind of file: nothing of it is quoted.
    if (kind is None and column is None) or (kind in (None, "table") and len(names) == 1):
        what = "of SMILES" if column is None else shown(column)
        raise FileFormatError(f"{shown(path.name)} has no column {what}", "Name the one to read")
    some = [shown(name, 30) for name in ([names[at] for at in columns] or names)[:12]]
    listed = ", ".join(some) + (", …" if len(columns or names) > len(some) else "")
    what = f"{'several columns' if columns else 'no column'} {'of SMILES' if column is None else shown(column)}"
    near = difflib.get_close_matches(_key(column or "smiles"), keys[:1_000], n=1)
    fix = f"Did you mean {shown(names[keys.index(near[0])], 30)}?" if near and not columns else "Name the one to read"
    raise FileFormatError(f"{shown(path.name)} has {what}: there is {listed or 'none'}", fix)


def _jsonl(path: Path, column: str | None) -> Entries:
    keys: tuple[str, str] | None = None
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            row = parsed_json(line, object_pairs_hook=unique_keys)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            if keys is None:  # a document, or no JSON at all
                raise FileFormatError(f"line {number:,} of {shown(path.name)} is {_NO_OBJECT}", "Write one a line")
            yield Skipped(number, f"it is {_NO_OBJECT}")
            continue
        if keys is None:
            names = list(row)
            smiles, name = _columns(path, names, column)
            keys = names[smiles], "" if name is None else names[name]
        yield _entry(number, row.get(keys[0]), row.get(keys[1]))


def _parquet(path: Path, column: str | None) -> Entries:
    schema, row = schema_of(path), 0
    smiles, name = _columns(path, schema.names, column)
    kinds = [field.type for field in schema]
    if not is_text(kinds[smiles]):
        kind = one_line(str(kinds[smiles]))[:200]
        what = f"column {shown(schema.names[smiles])} of {shown(path.name)} is {kind}, not text"
        raise FileFormatError(what, "Name the column that holds the SMILES")
    has_name = name is not None and (is_text(kinds[name]) or is_number(kinds[name]))
    wanted = [schema.names[at] for at in (smiles, name if has_name else None) if at is not None]
    for cells in parquet_columns(path, wanted, PARQUET_ROWS):
        texts = cells[wanted[0]]
        for text, title in zip(texts, cells[wanted[1]] if has_name else [""] * len(texts), strict=True):
            row += 1
            yield _entry(row, text, title)


def _sdf(path: Path, column: str | None) -> Entries:
    if column is not None:
        raise FileFormatError(f"{shown(path.name)} is SDF, without a column {shown(column)}", "Leave the column out")
    for number, record in enumerate(sdf_records(path), start=1):
        name = record[0].strip() if record else ""
        try:
            mol = Chem.RemoveHs(mol_of(path, number, record))
            smiles = Chem.MolToSmiles(mol)
        except (FileFormatError, RuntimeError, ValueError) as error:
            yield Skipped(number, str(error))
        else:
            yield FileEntry(number, smiles, name, mol if mol.GetConformer().Is3D() else None)


_READERS: dict[Kind, Reader] = {"lines": _lines, "table": _table, "sdf": _sdf, "parquet": _parquet, "jsonl": _jsonl}
