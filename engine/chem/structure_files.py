"""Files of molecules: how each comes apart (lines, records of SDF, rows of Parquet), and molecules with coordinates in
and out: SDF out; SDF, MOL and pasted mol blocks in.

RDKit reads mol blocks in a closed child: one on which it ends costs that child and a sentence. What is read keeps its
hydrogens and its conformer. Names and values come from outside: nothing in them ends a record or starts a property.
A file that is no such file, or breaks off, is a FileError.
"""

from __future__ import annotations

import gzip
import io
import re
import unicodedata
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from rdkit import Chem

from engine.chem.enriched import MOST_ATOMS
from engine.chem.frame import AS_WRITTEN, Array, check_finite
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import MOST_RINGS, rings_in
from engine.errors import FileError, one_line, shown
from engine.file_forms import form_by_name
from engine.sandbox import Answer, Limits, Sandbox, SandboxError
from engine.user_files import open_file

MOST_LINE_CHARACTERS, MOST_RECORD_CHARACTERS = 1_000_000, 4_000_000
_BINARY = re.compile(r"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f\x7f]")
MOST_MOLECULES = 10_000
_BLOCK = re.compile(r"^[^\n]* V[23]000 *$.*?^M  END", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r">.*<([^<>]*)>")
_KEPT = int(Chem.PropertyPickleOptions.AllProps | Chem.PropertyPickleOptions.CoordsAsDouble)
_COORDINATES, _OF_TEXT = "coordinates", "as written in enriched text"
"""Of a record whose numbers an encoder has truncated already."""

MolOrPair: TypeAlias = Chem.Mol | tuple[str, Chem.Mol]


def is_sdf(path: Path) -> bool:
    """By its name."""
    form = form_by_name(path, "pool")
    return form is not None and form.name == "sdf"


def text_lines(path: Path, *, is_strict: bool = True) -> Generator[tuple[int, str]]:
    """(line number from 1, line without its end) as the file streams in, with any line ends, also packed as .gz. What
    is binary ends the reading or, unless ``is_strict``, becomes question marks."""
    name, is_packed = shown(path.name), path.name.lower().endswith(".gz")
    try:
        with (
            open_file(path) as file,
            io.TextIOWrapper(gzip.open(file) if is_packed else file, "utf-8-sig", "replace") as text,
        ):
            for number, line in enumerate(iter(lambda: text.readline(MOST_LINE_CHARACTERS + 1), ""), start=1):
                if len(line) > MOST_LINE_CHARACTERS:
                    raise FileError(f"{name} has a line {number} of over {MOST_LINE_CHARACTERS:,} characters")
                if not is_strict:
                    line = _BINARY.sub("?", line)
                elif _BINARY.search(line):
                    raise FileError(f"{name} is no text: line {number} is binary", "Save it as UTF-8 text")
                yield number, line.removesuffix("\n")
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{name} is cut short or damaged", "Copy or compress it again") from error


def content_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are neither blank nor a comment: ``#``, a triple bond, begins no SMILES."""
    return ((number, line) for number, line in text_lines(path) if line.strip() and not line.lstrip().startswith("#"))


def first_line(path: Path) -> str:
    return next((line for _, line in content_lines(path)), "")


def sdf_records(path: Path, *, is_strict: bool = True) -> Iterator[list[str]]:
    """The lines of each record, as ``text_lines`` has them. The last may lack its ``$$$$`` when it ends with the
    molecule itself."""
    record: list[str] = []
    size, number = 0, 1
    for _, line in text_lines(path, is_strict=is_strict):
        if line.startswith("$$$$"):
            yield record
            record = []
            size = 0
            number = number + 1
            continue
        record.append(line)
        size += len(line) + 1
        if size > MOST_RECORD_CHARACTERS:
            raise damaged(path.name, number, f"it is longer than {MOST_RECORD_CHARACTERS:,} characters")
    while record and not record[-1].strip():
        record.pop()
    if record and record[-1].rstrip() != "M  END":
        raise damaged(path.name, number, "it is cut short: the file ends before 'M  END' or '$$$$'")
    if record:
        yield record


def damaged(name: str, number: int, reason: str) -> FileError:
    return FileError(f"record {number} of {shown(name)} cannot be read: {reason}", "Repair or remove it")


def parquet_rows(path: Path, columns_of: Callable[[Any], Sequence[str]]) -> Iterator[tuple[Any, ...]]:
    """The cells of the columns that are chosen of the file's schema, row by row."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = columns_of(file.schema_arrow)
            for batch in file.iter_batches(4_096, columns=list(names)):
                yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    # ValueError: text that is not UTF-8, a date that Python cannot have.
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = one_line(str(error).partition("\n")[0])[:200]
        raise FileError(f"{shown(path.name)} is no whole Parquet file: {reason}", "Write it again") from error


def to_sdf(mols_or_pairs: Iterable[MolOrPair], properties: Sequence[Mapping[str, object]] | None = None) -> str:
    """SDF text, one record a conformer. Items are molecules or (name, molecule), ``properties`` a mapping for
    each, with names of ours."""
    items = list(mols_or_pairs)
    records = []
    for item, data in zip(items, [{}] * len(items) if properties is None else properties, strict=True):
        name, mol = item if isinstance(item, tuple) else ("", item)
        unnamed = Chem.Mol(mol)
        unnamed.SetProp("_Name", "")
        data = {**data, _COORDINATES: _OF_TEXT} if mol.HasProp(AS_WRITTEN) else data
        fields = "".join(f">  <{key}>\n{_safe_line(value)}\n\n" for key, value in data.items())
        for conformer in mol.GetConformers():
            check_finite(conformer.GetPositions())
            block = Chem.MolToMolBlock(unnamed, confId=conformer.GetId())  # it begins with its empty title line
            records.append(f"{_safe_line(name)}{block}{fields}$$$$\n")
    return "".join(records)


def bare_block(mol: Chem.Mol, positions: Array) -> str:
    """A mol block for a drawing: the first conformer at these positions, without a title, its only free line."""
    bare = Chem.Mol(mol)
    bare.SetProp("_Name", "")
    bare.GetConformer().SetPositions(positions)
    with captured_log():
        with suppress(ValueError):  # there are no single and double bonds: it is drawn as aromatic
            Chem.Kekulize(bare, clearAromaticFlags=True)
        return str(Chem.MolToMolBlock(bare, kekulize=False))


def _safe_line(text: object) -> str:
    """One line without control characters; a space keeps it from reading as the end of a record or a property."""
    visible = (char if unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") else " " for char in str(text))
    line = " ".join("".join(visible).split())
    return f" {line}" if line.startswith(("$$$$", ">", "M  END", "M END")) else line


def read_molecules(path: Path) -> list[Chem.Mol]:
    """The molecules of an SDF or MOL file in its order, with their hydrogens and their conformer."""
    if not is_sdf(path):
        raise FileError(f"{shown(path, 200)} is no SDF or MOL file", "Give a .sdf or .mol, either also as .gz")
    mols: list[Chem.Mol] = []
    for number, record in enumerate(sdf_records(path), start=1):
        if number > MOST_MOLECULES:
            raise FileError(f"{shown(path.name)} has more than {MOST_MOLECULES:,} records", "Split the file")
        mols.append(read_record(path.name, number, record)[1])
    if not mols:
        raise FileError(f"{shown(path.name)} has no molecule in it", "Give a file with at least one record")
    return mols


def smiles_of_mol_blocks(text: str, *, most: int) -> list[str]:
    """Of mol blocks that were pasted, whatever is before their counts; none of any other text."""
    blocks = _BLOCK.findall("\n".join(text.splitlines()))
    if len(blocks) > most:
        raise FileError(f"{len(blocks):,} mol blocks are pasted", f"Paste at most {most}")
    records = ([*[""] * 3, *block.splitlines()] for block in blocks)
    return [read_record("the pasted text", number, record)[0] for number, record in enumerate(records, start=1)]


def read_record(name: str, number: int, record: Sequence[str]) -> tuple[str, Chem.Mol]:
    """The SMILES without hydrogens, and the molecule with them and its conformer; an error names file and record."""
    block, fields = split_record(record)
    try:
        smiles, content = BLOCK_READER.ask(block)
    except SandboxError as error:
        reason = "its reader ended on it" if error.why == "end" else f"{error.what} to read"
        raise damaged(name, number, reason) from error
    except FileError as error:
        raise damaged(name, number, error.what) from error
    mol = Chem.Mol(content)
    if _OF_TEXT in fields:
        mol.SetProp(AS_WRITTEN, "1")
    return smiles, mol


def split_record(record: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The mol block of a record, in ASCII, since RDKit cuts its messages inside characters and then fails on them; and
    the lines behind it."""
    end = next((index for index, line in enumerate(record) if line.startswith("M  END")), len(record)) + 1
    return ("\n".join(record[:end]) + "\n").encode("ascii", "replace").decode("ascii"), record[end:]


def properties_of(fields: Sequence[str]) -> dict[str, str]:
    """The first line of each property behind a mol block: ``>  <smiles>``, then ``CCO``."""
    starts = ((index, _FIELD.match(line)) for index, line in enumerate(fields[:-1]))
    return {match[1]: fields[index + 1].strip() for index, match in starts if match}


# --- in the child ----------------------------------------------------------------------------------------------------


def _block_reader() -> Callable[[str], Answer]:
    _of_block(Chem.MolToMolBlock(Chem.MolFromSmiles("C[C@H](N)O")))  # nothing can be imported later
    return _of_block


def _of_block(block: str) -> Answer:
    mol = mol_of_block(block)
    try:
        with captured_log():
            smiles = Chem.MolToSmiles(Chem.RemoveHs(mol))
    except (RuntimeError, ValueError) as error:
        raise FileError(str(error).strip().partition("\n")[0] or "it is no molecule") from error
    return smiles, bytes(mol.ToBinary(_KEPT))


def mol_of_block(block: str) -> Chem.Mol:
    """With its hydrogens and its conformer. RDKit may end the process on a block: ask in a child alone."""
    with captured_log() as lines:
        try:
            mol = Chem.MolFromMolBlock(block, removeHs=False)
        except (RuntimeError, ValueError) as error:
            raise FileError(str(error).strip().partition("\n")[0] or "it is no molecule") from error
    if mol is None:
        reasons = (line for line in reversed(lines) if re.search("[A-Za-z]", line))
        raise FileError(next(reasons, "its atoms and bonds do not fit together")[:200])
    if mol.GetNumAtoms() > MOST_ATOMS or rings_in(mol) > MOST_RINGS:
        raise FileError(f"it has over {MOST_ATOMS:,} atoms or over {MOST_RINGS} rings")
    if mol.GetNumAtoms() == 0 or any(atom.HasQuery() for atom in mol.GetAtoms()):
        raise FileError("it has no atoms, or a list of elements or a pattern in the place of one")
    return mol


BLOCK_READER = Sandbox(_block_reader, limits=Limits(4, is_cpu=True, memory_mb=1024, is_closed=True))
