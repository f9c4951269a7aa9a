"""Molecules that a user lists for a run: typed, or in a file of SMILES lines, CSV and TSV, SDF, JSON lines (each also
gz) or Parquet.

A row that cannot be used is a ``Skipped`` with its reason, since one of a million must not end a run. What this module
does not know: which molecules are the same (all stay), and what else a file says of them.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from engine.chem import file_forms as forms
from engine.chem.molecule_list import MoleculeList
from engine.chem.smiles import parse_smiles, split_smiles
from engine.errors import DriftscopeError, FileFormatError, one_line, shown, unquoted
from engine.records import Molecule

SMILES_COLUMNS = ("smiles", "isomericsmiles", "canonicalsmiles", "smi")
"""Likeliest first, as ``_key`` writes them. Another name that ends in ``smiles`` counts where it is the only one."""
MOST_USELESS = 10_000
"""Of a file nine in ten of whose molecules cannot be used: so many are looked at."""
_NO_OBJECT = 'no JSON object such as {"smiles": "CC=O"}'

Rows: TypeAlias = Iterator[tuple[int, object]]
"""The line where a row begins, or a record's number, from 1; and its SMILES as it stands there, or its error."""
Parse: TypeAlias = Callable[[str], Molecule]


class Skipped(NamedTuple):
    """A row or record that cannot be used. ``error`` is one line, with nothing of a text that is no SMILES."""

    line: int
    error: str
    smiles: str = ""  # that was typed


def read_molecule_file(
    path: Path,
    *,
    column: str | None = None,
    limit: int | None = None,
    parse: Parse = parse_smiles,
    progress: Callable[[int], object] = lambda done: None,
) -> tuple[MoleculeList, list[Skipped]]:
    """The first ``limit`` molecules that can be used, and what was skipped; an error where none can. ``progress`` gets
    how many there are so far. Without ``column``, its name tells it."""
    molecules, skipped, is_useless = MoleculeList(parse), list[Skipped](), False
    for line, cell in read_rows(path, column):
        try:
            if isinstance(cell, DriftscopeError):
                raise cell
            if not isinstance(cell, str) or not cell.strip():
                raise FileFormatError(f"its SMILES is of type {type(cell).__name__}" if cell else "it has no SMILES")
            smiles = cell.strip().encode("utf-8", "replace").decode("utf-8")  # JSON may hide lone surrogates
            molecules.append(smiles, parse(smiles))
            progress(len(molecules))
        except DriftscopeError as error:
            skipped.append(Skipped(line, one_line(unquoted(error))))
        if len(molecules) == limit:
            return molecules, skipped
        if is_useless := len(skipped) > max(MOST_USELESS, 9 * len(molecules)):
            break
    if not molecules and not skipped:
        raise FileFormatError(f"{shown(path.name)} has no molecule in it", "Give a file with at least one")
    if is_useless or not molecules:
        what = f"{len(skipped):,} of the first {len(skipped) + len(molecules):,} molecules of {shown(path.name)}"
        raise FileFormatError(f"{what} cannot be used", f"The first, at {skipped[0].line:,}: {skipped[0].error}")
    return molecules, skipped


def read_typed(texts: Sequence[str], parse: Parse = parse_smiles) -> tuple[list[Molecule], list[Skipped]]:
    """The molecules of SMILES, which an error quotes."""
    molecules, skipped = list[Molecule](), list[Skipped]()
    for line, text in enumerate(texts, start=1):
        try:
            molecules.append(parse(text))
        except DriftscopeError as error:
            skipped.append(Skipped(line, str(error), text))
    if skipped and not molecules:
        last = skipped[-1].error
        raise DriftscopeError(*((f"none of {len(texts):,} molecules can be read", last) if texts[1:] else (last,)))
    return molecules, skipped


def read_rows(path: Path, column: str | None = None) -> Rows:
    """Streamed, not parsed."""
    form = forms.form_of(path)
    if form == "pickle":
        raise FileFormatError(f"{shown(path.name)} is a pickle", "`references add` takes it")
    if form == "list":
        first = forms.first_line(path)
        cells = first.split(_delimiter(first))
        is_row = len(cells) > 1 and (re.match(r"\S*[,;]", first) or _smiles_columns(cells))  # no SMILES has a comma
        form = "table" if column is not None or is_row else "list"
    readers = {"list": _list, "table": _table, "jsonl": _jsonl, "sdf": _sdf, "parquet": _parquet}
    return readers[form](path, column)


def _list(path: Path, column: str | None) -> Rows:
    for index, (number, line) in enumerate(forms.content_lines(path)):
        smiles = line.split(maxsplit=1)[0]
        if index or not _smiles_columns([smiles]):
            yield number, smiles


def _table(path: Path, column: str | None) -> Rows:
    csv.field_size_limit(forms.MOST_LINE_CHARACTERS)  # a cell may hold a picture
    lines = (f"{line}\n" for _, line in forms.text_lines(path))
    rows = csv.reader(lines, delimiter=_delimiter(forms.first_line(path)), strict=True)
    place, line = None, 1
    try:
        for cells in rows:
            begun, line = line, rows.line_num + 1
            if not any(map(str.strip, cells)) or (place is None and cells[0].lstrip().startswith("#")):
                continue
            if place is None:
                is_header = column is not None or _smiles_columns(cells) or not _is_data(cells)
                place = _column(path, cells, column) if is_header else 0
                if is_header:
                    continue
            yield begun, cells[place] if place < len(cells) else ""
    except csv.Error as error:
        what = f"line {line:,} of {shown(path.name)} is no table row: {error}"
        raise FileFormatError(what, "Check its quotes") from error


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


def _jsonl(path: Path, column: str | None) -> Rows:
    key: str | None = None
    for number, line in forms.text_lines(path):
        try:
            row = json.loads(line or "null")
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            key = key or list(row)[_column(path, list(row), column)]
            yield number, row.get(key)
        elif line.strip() and key is None:  # a document, or no JSON at all
            raise FileFormatError(f"line {number:,} of {shown(path.name)} is {_NO_OBJECT}", "Write one per line")
        elif line.strip():
            yield number, FileFormatError(f"it is {_NO_OBJECT}")


def _parquet(path: Path, column: str | None) -> Rows:
    def columns_of(schema: Any) -> list[str]:
        chosen = schema.field(_column(path, schema.names, column))
        if not forms.is_text(chosen.type):
            what = f"column {shown(chosen.name)} of {shown(path.name)} is {one_line(str(chosen.type))[:200]}, not text"
            raise FileFormatError(what, "Name the column that holds the SMILES")
        return [chosen.name]

    return ((number, cell) for number, (cell,) in enumerate(forms.parquet_rows(path, columns_of), start=1))


def _sdf(path: Path, column: str | None) -> Rows:
    if column is not None:
        raise FileFormatError(f"{shown(path.name)} is SDF, without a column {shown(column)}", "Leave the column out")
    for number, record in enumerate(forms.sdf_records(path), start=1):
        try:
            yield number, forms.heavy_smiles(path.name, number, record)
        except FileFormatError as error:
            yield number, error


def _key(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _smiles_columns(names: Sequence[str], column: str | None = None) -> list[int]:
    """The columns that may hold the SMILES: one, unless none or several have such a name."""
    keys = [_key(name) for name in names]
    if column is not None:
        return [names.index(column)] if column in names else [at for at, key in enumerate(keys) if key == _key(column)]
    known = [keys.index(key) for key in SMILES_COLUMNS if key in keys]
    return known[:1] or [at for at, key in enumerate(keys) if key.endswith("smiles")]


def _column(path: Path, names: Sequence[str], column: str | None) -> int:
    found = _smiles_columns(names, column)
    if len(found) == 1:
        return found[0]
    what = f"{'several columns' if found else 'no column'} {'of SMILES' if column is None else shown(column)}"
    if len(names) > 1 and (column or forms.form_by_name(path)):  # of what may be another kind of file nothing is quoted
        what += f": there is {', '.join(shown(names[at], 30) for at in (found or range(len(names)))[:12])}"
    raise FileFormatError(f"{shown(path.name)} has {what}", "Name the one to read")
