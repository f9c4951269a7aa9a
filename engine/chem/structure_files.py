"""Molecules with coordinates in and out of files: SDF and XYZ out; SDF and MOL in, also as gz.

Names and properties come from outside: they are written on one line, and nothing in them ends a record or starts a
property. SDF is written with four decimals (V2000; V3000 where a bond or the size needs it). What is read keeps its
hydrogens and its conformer. What this module does not know: lists of SMILES (``molecule_files`` reads them), and which
stereo was left open: a 3D record has no open stereo, so it reads back as the configuration that it shows.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TypeAlias

import numpy as np
from rdkit import Chem

from engine.chem.frame import conformer_ids
from engine.chem.mol_blocks import BlockError, mol_of_block, spent_s
from engine.chem.rdkit_log import captured_log
from engine.chem.textfiles import text_lines
from engine.errors import ConformerError, FileFormatError, UnsupportedMoleculeError, shown

MOST_MOLECULES = 10_000
MOST_RECORD_CHARACTERS, MOST_PASTED_CHARACTERS = 4_000_000, 100_000
PASTED_SECONDS = 4.0
LEAST_SECONDS, SECONDS_PER_MB = 10.0, 5.0
"""Of RDKit's computing for a file's molecules; a slow core needs a fifth of a second for a megabyte of SDF."""
MOLECULE_KINDS = (".sdf", ".mol")
_KINDS_LISTED = f"{', '.join(MOLECULE_KINDS)}, each also with .gz"

_RECORD_END, _BLOCK_END = "$$$$", "M  END"
_VERSION = re.compile(r" V[23]000\s*$", re.MULTILINE)
_CONTINUED = re.compile(r"-[ \t\r]*\nM  V30 ")
_QUERY = re.compile(r"^M  (?:ALS|MRV\s+SMA)|^M  V30\s+\d+\s+(?:NOT\s*)?\[|SMARTSQ", re.MULTILINE | re.IGNORECASE)
"""Lists of elements and SMARTS in the place of an atom."""

MolOrPair: TypeAlias = Chem.Mol | tuple[str, Chem.Mol]


def to_sdf(mols_or_pairs: Iterable[MolOrPair], properties: Sequence[Mapping[str, object]] | None = None) -> str:
    """SDF text, one record a conformer. Items are molecules or (name, molecule), ``properties`` a mapping for each."""
    items = list(mols_or_pairs)
    if properties is not None and len(properties) != len(items):
        raise ValueError(f"{len(items)} molecules but {len(properties)} sets of properties")
    records = []
    for index, item in enumerate(items):
        if isinstance(item, tuple):
            name, mol = item
        else:
            name, mol = str(item.GetProp("_Name")) if item.HasProp("_Name") else "", item
        data = _data_items(properties[index]) if properties is not None else ""
        blocks = (_mol_block(mol, conformer, _safe_line(name)) for conformer in conformer_ids(mol))
        records += [f"{block}{data}{_RECORD_END}\n" for block in blocks]
    return "".join(records)


def to_xyz(mol: Chem.Mol, conf_id: int | None = -1, comment: str = "") -> str:
    """XYZ text of one conformer, or with ``conf_id`` None of all of them, one frame each. Atoms as in ``mol``."""
    known = conformer_ids(mol)
    if conf_id is not None and conf_id not in (-1, *known):
        raise ConformerError(f"there is no conformer {conf_id}", f"The molecule has {known}")
    return "".join(_xyz_frame(mol, conformer, comment) for conformer in (known if conf_id is None else [conf_id]))


def read_molecules(path: str | Path, *, most_records: int = MOST_MOLECULES) -> list[Chem.Mol]:
    """The molecules of an SDF or MOL file in its order: hydrogens, names (``_Name``), properties and conformer kept."""
    path = Path(path)
    if path.is_dir():
        raise FileFormatError(f"{shown(path.name)} is a directory", f"Give a file: {_KINDS_LISTED}")
    if Path(path.name.lower().removesuffix(".gz")).suffix not in MOLECULE_KINDS:
        raise FileFormatError(f"{shown(path.name)} is not of a known kind", f"Known are {_KINDS_LISTED}")
    mols: list[Chem.Mol] = []
    for number, record in enumerate(sdf_records(path), start=1):
        if number > most_records:
            raise FileFormatError(f"{shown(path.name)} has more than {most_records:,} records", "Split the file")
        mols.append(mol_of(path, number, record))
    if not mols:
        raise FileFormatError(f"{shown(path.name)} has no molecule in it", "Give a file with at least one record")
    return mols


def has_mol_block(text: str) -> bool:
    return _BLOCK_END in text and _VERSION.search(text) is not None


def smiles_of_mol_blocks(text: str, *, most: int) -> list[str]:
    """Of mol blocks that were pasted, one or more: the lines before the counts may be missing, or be one too many."""
    blocks = text.split(_BLOCK_END)[:-1]
    if len(blocks) > most or len(text) > MOST_RECORD_CHARACTERS:
        raise FileFormatError(f"{len(blocks):,} mol blocks of {len(text):,} characters", f"Paste at most {most}")
    found = []
    budget = _Budget("the pasted text", PASTED_SECONDS)
    for number, block in enumerate(blocks, start=1):
        budget.check()
        if len(block) > MOST_PASTED_CHARACTERS:
            raise _damaged(Path("the pasted text"), number, f"it has over {MOST_PASTED_CHARACTERS:,} characters")
        lines = block.splitlines()
        counts = next((place for place, line in enumerate(lines) if _VERSION.search(line)), 0)
        record = [*[""] * 3, *lines[counts:], _BLOCK_END]
        mol = mol_of(Path("the pasted text"), number, record)
        try:
            with captured_log():
                found.append(str(Chem.MolToSmiles(Chem.RemoveHs(mol))))
        except (RuntimeError, ValueError) as error:
            raise _damaged(Path("the pasted text"), number, "without its hydrogens it is no molecule") from error
    return found


def _safe_line(text: object) -> str:
    """One line without control characters; a space keeps it from reading as the end of a record or a property."""
    visible = (char if unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") else " " for char in str(text))
    line = " ".join("".join(visible).split())
    return f" {line}" if line.startswith((_RECORD_END, ">", "M  END", "M END")) else line


def _data_items(properties: Mapping[str, object]) -> str:
    written: dict[str, str] = {}
    for name, value in properties.items():
        clean = _safe_line(name).replace("<", "(").replace(">", ")").strip() or "property"
        unique, copy = clean, 2
        while unique in written:
            unique, copy = f"{clean}_{copy}", copy + 1
        written[unique] = _safe_line(value)
    return "".join(f">  <{name}>\n{value}\n\n" for name, value in written.items())


def _finite_positions(mol: Chem.Mol, conformer: int) -> list[list[float]]:
    xyz = mol.GetConformer(conformer).GetPositions()
    if not np.isfinite(xyz).all():
        raise ConformerError("a coordinate is not finite", "Coordinates must be finite")
    if np.abs(xyz).max(initial=0.0) >= 10_000:  # the columns of both formats end there
        raise ConformerError("a coordinate is 10,000 angstrom or more", "Centre the molecule")
    return [[float(value) for value in row] for row in xyz]


def _mol_block(mol: Chem.Mol, conformer: int, title: str) -> str:
    _finite_positions(mol, conformer)
    named = Chem.Mol(mol)
    named.SetProp("_Name", "")
    with captured_log():
        try:
            block = Chem.MolToMolBlock(named, confId=conformer)
        except (RuntimeError, ValueError) as error:
            raise UnsupportedMoleculeError(f"a molecule cannot be written as SDF: {error}") from error
    return f"{title}{block}"  # the block begins with its empty title line


def _xyz_frame(mol: Chem.Mol, conformer: int, comment: str) -> str:
    rows = zip(mol.GetAtoms(), _finite_positions(mol, conformer), strict=True)
    atoms = [f"{atom.GetSymbol():<2} {x:12.6f} {y:12.6f} {z:12.6f}\n" for atom, (x, y, z) in rows]
    return f"{len(atoms)}\n{_safe_line(comment)}\n{''.join(atoms)}"


class _Budget:
    """What RDKit may compute for the blocks of one text."""

    def __init__(self, name: str, seconds: float) -> None:
        self._name, self._seconds, self._until = name, seconds, spent_s() + seconds

    def check(self) -> None:
        if spent_s() > self._until:
            what = f"the molecules of {shown(self._name)} take over {self._seconds:,.0f} s to read"
            raise FileFormatError(what, "Give fewer, or simpler ones")


def sdf_records(path: Path) -> Iterator[list[str]]:
    """The lines of each record. The last may lack its ``$$$$`` when it ends with the molecule itself."""
    record: list[str] = []
    size = number = 0
    budget = None
    for _, line in text_lines(path):
        if line.startswith(_RECORD_END):
            budget = budget or _Budget(path.name, LEAST_SECONDS + SECONDS_PER_MB * path.stat().st_size / 2**20)
            yield record
            budget.check()
            record, size, number = [], 0, number + 1
            continue
        record.append(line)
        size += len(line) + 1
        if size > MOST_RECORD_CHARACTERS:
            raise _damaged(path, number + 1, f"it is longer than {MOST_RECORD_CHARACTERS:,} characters")
    while record and not record[-1].strip():
        record.pop()
    if record and record[-1].rstrip() != "M  END":
        raise _damaged(path, number + 1, "it is cut short: the file ends before 'M  END' or '$$$$'")
    if record:
        yield record


def mol_of(path: Path, number: int, record: list[str]) -> Chem.Mol:
    end = next((index for index, line in enumerate(record) if line.startswith("M  END")), len(record)) + 1
    block = "\n".join(record[:end]) + "\n"
    if _QUERY.search(_CONTINUED.sub("", block)):  # of any size
        raise _damaged(path, number, "it has a list of elements or a pattern in the place of an atom")
    try:
        mol = mol_of_block(block)
    except BlockError as error:
        raise _damaged(path, number, error.what) from error
    for name, value in _properties(record[end:]):
        mol.SetProp(name, value)
    mol.SetProp("_Name", record[0].strip())
    return mol


def _properties(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The data items: ``> <name>``, lines of the value, a blank line. Leading ``_`` are RDKit's own and dropped."""
    rest = iter(lines)
    for line in rest:
        if line.startswith(">"):
            name = line[line.find("<") + 1 : line.rfind(">")] if "<" in line else line[1:]
            value = takewhile(str.strip, rest)
            yield name.strip().lstrip("_") or "property", "\n".join(value)


def _damaged(path: Path, number: int, reason: str) -> FileFormatError:
    return FileFormatError(f"record {number} of {shown(path.name)} cannot be read: {reason}", "Repair or remove it")
