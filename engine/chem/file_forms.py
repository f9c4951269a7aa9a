"""The forms that files of molecules and conformers have: which one a file is of, and its lines, records or rows.

What the rows mean is known to those who read molecules that are asked for (``molecule_files``), references
(``reference_files``) and structures (``structure_files``). A file that is no such file, or breaks off, is a
FileFormatError. RDKit reads mol blocks in a closed child: one on which it ends costs that child and a sentence.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from rdkit import Chem

from engine.chem.enriched import MOST_ATOMS
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import MOST_RINGS, rings_in
from engine.errors import FileFormatError, one_line, shown
from engine.sandbox import Answer, Limits, Sandbox, SandboxError
from engine.user_files import open_file

Form = Literal["list", "table", "jsonl", "sdf", "parquet", "pickle"]
ENDINGS: dict[str, Form] = {
    **dict.fromkeys((".csv", ".tsv"), "table"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".sdf", ".sd", ".mol"), "sdf"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".pickle", ".pkl", ".p"), "pickle"),
}

MOST_LINE_CHARACTERS, MOST_RECORD_CHARACTERS = 1_000_000, 4_000_000
_BINARY = re.compile(r"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f\x7f]")
_JSON_START = re.compile(r"""\s*(?:\{|\[\s*(?:["{\[]|$))""")  # a SMILES may begin with a bracket, but not like this
_KEPT = int(Chem.PropertyPickleOptions.AllProps | Chem.PropertyPickleOptions.CoordsAsDouble)


def form_by_name(path: Path) -> Form | None:
    return ENDINGS.get(Path(path.name.lower().removesuffix(".gz")).suffix)


def form_of(path: Path) -> Form:
    """By its first bytes, else its ending, else its text."""
    with open_file(path) as file:
        head = file.read(4)
    form = "parquet" if head == b"PAR1" else "pickle" if head[:1] == b"\x80" else form_by_name(path)
    if form is None and any(re.search("V[23]000", line) for _, line in islice(text_lines(path), 3, 4)):
        return "sdf"
    return form or ("jsonl" if _JSON_START.match(first_line(path)) else "list")


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) as the file streams in, with any line ends, also packed as .gz."""
    name, is_packed = shown(path.name), path.name.lower().endswith(".gz")
    try:
        with (
            open_file(path) as file,
            io.TextIOWrapper(gzip.open(file) if is_packed else file, "utf-8-sig", "replace") as text,
        ):
            for number, line in enumerate(iter(lambda: text.readline(MOST_LINE_CHARACTERS + 1), ""), start=1):
                if len(line) > MOST_LINE_CHARACTERS:
                    raise FileFormatError(f"{name} has a line {number} of over {MOST_LINE_CHARACTERS:,} characters")
                if _BINARY.search(line):
                    raise FileFormatError(f"{name} is no text: line {number} is binary", "Save it as UTF-8 text")
                yield number, line.removesuffix("\n")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        what = "it is cut short" if isinstance(error, EOFError) else "it is damaged, or not packed"
        raise FileFormatError(f"{name} is no whole gz file: {what}", "Compress it again") from error
    except OSError as error:
        raise FileFormatError(f"{name} cannot be read: {error.strerror or error}", "Check it") from error


def content_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are neither blank nor a comment: ``#``, a triple bond, begins no SMILES."""
    return ((number, line) for number, line in text_lines(path) if line.strip() and not line.lstrip().startswith("#"))


def first_line(path: Path) -> str:
    return next((line for _, line in content_lines(path)), "")


def sdf_records(path: Path) -> Iterator[list[str]]:
    """The lines of each record. The last may lack its ``$$$$`` when it ends with the molecule itself."""
    record: list[str] = []
    size, number = 0, 1
    for _, line in text_lines(path):
        if line.startswith("$$$$"):
            yield record
            record, size, number = [], 0, number + 1
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


def damaged(name: str, number: int, reason: str) -> FileFormatError:
    return FileFormatError(f"record {number} of {shown(name)} cannot be read: {reason}", "Repair or remove it")


def mol_of(name: str, number: int, record: Sequence[str]) -> Chem.Mol:
    """With its hydrogens and its conformer; the name of the file and the record's number stand in an error."""
    end = next((index for index, line in enumerate(record) if line.startswith("M  END")), len(record)) + 1
    block = "\n".join(record[:end]) + "\n"
    try:  # RDKit cuts its messages inside characters and then fails on them: it is given ASCII
        _, content = BLOCK_READER.ask(block.encode("ascii", "replace").decode("ascii"))
    except SandboxError as error:
        told = "its reader ended on it" if error.why == "end" else f"{error.what} to read"
        raise damaged(name, number, told) from error
    except FileFormatError as error:
        raise damaged(name, number, error.what) from error
    return Chem.Mol(content)


def heavy_smiles(name: str, number: int, record: Sequence[str]) -> str:
    """The SMILES of such a record."""
    mol = mol_of(name, number, record)
    with captured_log():
        try:
            return str(Chem.MolToSmiles(Chem.RemoveHs(mol)))
        except (RuntimeError, ValueError) as error:
            raise damaged(name, number, "without its hydrogens it is no molecule") from error


def _block_reader() -> Callable[[str], Answer]:
    _of_block(Chem.MolToMolBlock(Chem.MolFromSmiles("C[C@H](N)O")))  # nothing can be imported later
    return _of_block


def _of_block(block: str) -> Answer:
    with captured_log() as lines:
        try:
            raw = Chem.MolFromMolBlock(block, sanitize=False, removeHs=False)
            if raw is not None and (raw.GetNumAtoms() > MOST_ATOMS or rings_in(raw) > MOST_RINGS):
                raise FileFormatError(f"it has over {MOST_ATOMS:,} atoms or over {MOST_RINGS} rings")
            mol = None if raw is None else Chem.MolFromMolBlock(block, removeHs=False)
        except (RuntimeError, ValueError) as error:
            raise FileFormatError(str(error).strip().partition("\n")[0] or "it is no molecule") from error
    if mol is None:
        reasons = (line for line in reversed(lines) if re.search("[A-Za-z]", line))
        raise FileFormatError(next(reasons, "its atoms and bonds do not fit together")[:200])
    if mol.GetNumAtoms() == 0 or any(atom.HasQuery() for atom in mol.GetAtoms()):
        raise FileFormatError("it has no atoms, or a list of elements or a pattern in the place of one")
    return None, bytes(mol.ToBinary(_KEPT))


BLOCK_READER = Sandbox(_block_reader, limits=Limits(4, is_cpu=True, memory_mb=1024, is_closed=True))


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
        raise FileFormatError(f"{shown(path.name)} is no whole Parquet file: {reason}", "Write it again") from error


def is_text(kind: Any) -> bool:
    """Of an Arrow type: text, or a dictionary of texts."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
