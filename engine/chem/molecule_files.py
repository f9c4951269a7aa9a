"""Molecules that a user lists for a run: typed, or in a file of SMILES lines, CSV and TSV, SDF, JSON lines (each also
gz) or Parquet.

A row that cannot be used is a ``Skipped`` with its reason, since one of a million must not end a run.
"""

from __future__ import annotations

import csv
import functools
import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from engine.chem import structure_files as forms
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError, FileError, one_line, shown, unquoted
from engine.file_forms import file_form, form_by_name, saying_what_is_taken
from engine.records import Molecule
from engine.user_files import declared_separator

SMILES_COLUMNS = ("smiles", "isomericsmiles", "canonicalsmiles", "smi")
"""Likeliest first, as ``_key`` writes them. Another name that ends in ``smiles`` counts where it is the only one."""
MOST_USELESS = 10_000
"""Of a file nine in ten of whose molecules cannot be used: so many are looked at."""
KEPT = 4_096
"""Parsed molecules that are kept, since the same ones may stand in a list many times."""
_PREAMBLE = re.compile(r"\s*#|sep=")
_ROW = re.compile(r'\S*[,;]|"?sep=')  # no SMILES has a comma
_NO_OBJECT = 'no JSON object such as {"smiles": "CC=O"}'

Rows: TypeAlias = Iterator[tuple[int, object]]
"""The line where a row begins, or a record's number, from 1; and its SMILES as it is there, or its error."""
Parse: TypeAlias = Callable[[str], Molecule]


class MoleculeList(Sequence[Molecule]):
    """A long list in little memory: texts and sizes. Each is parsed again where it is asked for, since a parsed
    molecule takes some 20 KB. ``parse`` is what made a molecule of its text."""

    def __init__(self, parse: Parse = parse_smiles, texts: Iterable[str] = ()) -> None:
        self._parse = functools.lru_cache(KEPT)(parse)
        self._texts: list[str] = []
        self.smiles: list[str] = []
        self.heavy_atoms = array("H")
        self._places: dict[str, int] = {}  # of each text, the first
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Parsed where it is new: what is kept of a text is known from its first place in the list."""
        if (first := self._places.get(text)) is None:
            molecule = self._parse(text)
            self._places[text] = len(self)
            self.smiles.append(text if text == molecule.smiles else molecule.smiles)
            self.heavy_atoms.append(molecule.heavy_atoms)
        else:
            self.smiles.append(self.smiles[first])
            self.heavy_atoms.append(self.heavy_atoms[first])
        self._texts.append(text)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: Any) -> Any:
        texts = self._texts[index]
        return self._parse(texts) if isinstance(texts, str) else list(map(self._parse, texts))


def smiles_of(molecules: Sequence[Molecule]) -> Sequence[str]:
    """Of each, without parsing those of a `MoleculeList`; and their sizes."""
    return molecules.smiles if isinstance(molecules, MoleculeList) else [molecule.smiles for molecule in molecules]


def heavy_atoms_of(molecules: Sequence[Molecule]) -> Sequence[int]:
    if isinstance(molecules, MoleculeList):
        return molecules.heavy_atoms
    return [molecule.heavy_atoms for molecule in molecules]


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
    with saying_what_is_taken(path, "molecules"):
        return _usable(read_rows(path, column), f" of {shown(path.name)}", parse, limit, progress)


def read_typed(texts: Sequence[str], parse: Parse = parse_smiles) -> tuple[MoleculeList, list[Skipped]]:
    """The molecules of SMILES, which an error quotes."""
    return _usable(enumerate(texts, start=1), "", parse)


def _usable(
    rows: Iterable[tuple[int, object]],
    of_file: str,
    parse: Parse,
    limit: int | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> tuple[MoleculeList, list[Skipped]]:
    molecules = MoleculeList(parse)
    skipped = list[Skipped]()
    is_useless = False
    for line, cell in rows:
        try:
            molecules.append(_smiles_in(cell))
            progress(len(molecules))
        except DriftscopeError as error:
            of_cell = (one_line(unquoted(error)),) if of_file else (str(error), str(cell))
            skipped.append(Skipped(line, *of_cell))
        if len(molecules) == limit:
            return molecules, skipped
        if is_useless := len(skipped) > max(MOST_USELESS, 9 * len(molecules)):
            break
    if not molecules and not skipped:
        raise FileError(f"there is no molecule in {of_file.removeprefix(' of ')}", "Give one or more")
    if is_useless or not molecules:
        if not of_file and len(skipped) == 1:
            raise DriftscopeError(skipped[0].error)
        problem = f"{len(skipped):,} of the first {len(skipped) + len(molecules):,} molecules{of_file} cannot be used"
        raise FileError(problem, f"The first, at {skipped[0].line:,}: {skipped[0].error}")
    return molecules, skipped


def _smiles_in(cell: object) -> str:
    if isinstance(cell, DriftscopeError):
        raise cell
    if not isinstance(cell, str) or not cell.strip():
        raise FileError(f"its SMILES is of type {type(cell).__name__}" if cell else "it has no SMILES")
    return cell.strip().encode("utf-8", "replace").decode("utf-8")  # JSON may hide lone surrogates


def read_rows(path: Path, column: str | None = None) -> Rows:
    """Streamed, not parsed."""
    rows: Rows = file_form(path, "molecules").load()(path, column)
    return rows


def list_rows(path: Path, column: str | None) -> Rows:
    """Of lines that turn out to be a table's, its rows."""
    first = forms.first_line(path)
    cells = first.split(_delimiter(first))
    is_row = len(cells) > 1 and (_ROW.match(first) or smiles_columns(cells))
    return table_rows(path, column) if column is not None or is_row else _lines(path)


def _lines(path: Path) -> Rows:
    for index, (number, line) in enumerate(forms.content_lines(path)):
        smiles = line.split(maxsplit=1)[0]
        if index or not smiles_columns([smiles]):
            yield number, smiles


def table_rows(path: Path, column: str | None) -> Rows:
    csv.field_size_limit(forms.MOST_LINE_CHARACTERS)  # a cell may hold a picture
    delimiter = _delimiter(forms.first_line(path))
    index = None
    line = 1
    with closing(forms.text_lines(path)) as lines:
        rows = csv.reader((f"{line}\n" for _, line in lines), delimiter=delimiter, strict=True)
        try:
            for cells in rows:
                begun, line = line, rows.line_num + 1
                if not any(map(str.strip, cells)) or (index is None and _PREAMBLE.match(cells[0])):
                    continue
                if index is None:
                    is_header = column is not None or smiles_columns(cells) or not _is_data(cells)
                    index = _column(path, cells, column) if is_header else 0
                    if is_header:
                        continue
                yield begun, cells[index] if index < len(cells) else ""
        except csv.Error as error:
            problem = f"line {line:,} of {shown(path.name)} is no table row: {error}"
            raise FileError(problem, "Check its quotes") from error


def _is_data(first: list[str]) -> bool:
    """Whether a first row is no header."""
    with suppress(DriftscopeError):
        return bool(parse_smiles(first[0]))
    return False


def _delimiter(first: str) -> str:
    """The one of a line ``sep=;``, as Excel writes it, else the first one outside quotes: neither a SMILES nor a usual
    name of a column has any of them."""
    match = re.search("[,;\t]", re.sub('"[^"]*"', "", first))
    return declared_separator(first) or (match.group() if match else ",")


def jsonl_rows(path: Path, column: str | None) -> Rows:
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
            raise FileError(f"line {number:,} of {shown(path.name)} is {_NO_OBJECT}", "Write one per line")
        elif line.strip():
            yield number, FileError(f"it is {_NO_OBJECT}")


def parquet_rows(path: Path, column: str | None) -> Rows:
    rows = forms.parquet_rows(path, lambda schema: [schema.names[_column(path, schema.names, column)]])
    return ((number, cell) for number, (cell,) in enumerate(rows, start=1))


def sdf_rows(path: Path, column: str | None) -> Rows:
    if column is not None:
        raise FileError(f"{shown(path.name)} is SDF, without a column {shown(column)}", "Leave the column out")
    for number, record in enumerate(forms.sdf_records(path), start=1):
        try:
            yield number, forms.read_record(path.name, number, record)[0]
        except FileError as error:
            yield number, error


def _key(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def smiles_columns(names: Sequence[str], column: str | None = None) -> list[int]:
    """The columns that may hold the SMILES: one, unless none or several have such a name."""
    keys = [_key(name) for name in names]
    if column is not None:
        return [names.index(column)] if column in names else [at for at, key in enumerate(keys) if key == _key(column)]
    usual = [keys.index(key) for key in SMILES_COLUMNS if key in keys]
    return usual[:1] or [at for at, key in enumerate(keys) if key.endswith("smiles")]


def _column(path: Path, names: Sequence[str], column: str | None) -> int:
    columns = smiles_columns(names, column)
    if len(columns) == 1:
        return columns[0]
    name = "of SMILES" if column is None else shown(column)
    problem = f"several columns {name}" if columns else f"no column {name}"
    form = form_by_name(path, "molecules")
    # Of what may be another kind of file nothing is quoted.
    if len(names) > 1 and (column or (form is not None and not form.is_rest)):
        problem += f": there is {', '.join(shown(names[at], 30) for at in (columns or range(len(names)))[:12])}"
    raise FileError(f"{shown(path.name)} has {problem}", "Name the one to read")
