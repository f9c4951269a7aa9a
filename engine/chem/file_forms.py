"""The forms that files of molecules and conformers have: which one a file is of, and its lines, records or rows.

One table for molecules that are asked for (``molecule_files``), for references (``reference_files``) and for structures
(``structure_files``), which know what the rows mean. A file that is no such file, or breaks off, is a FileFormatError.
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

from engine.chem.mol_blocks import BlockError, mol_of_block
from engine.errors import FileFormatError, one_line, shown
from engine.user_files import gz_problem, open_file

Form = Literal["list", "table", "jsonl", "sdf", "parquet", "pickle"]
ENDINGS: dict[str, Form] = {
    ".csv": "table",
    ".tsv": "table",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".sdf": "sdf",
    ".sd": "sdf",
    ".mol": "sdf",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".pickle": "pickle",
    ".pkl": "pickle",
    ".p": "pickle",
}
FIRST_BYTES: dict[bytes, Form] = {b"PAR1": "parquet", b"\x80": "pickle"}

MOST_LINE_CHARACTERS, MOST_RECORD_CHARACTERS = 1_000_000, 4_000_000
PARQUET_ROWS = 4_096
_BINARY = re.compile(r"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f\x7f]")
_UTF16 = ("\udcff\udcfe", "\udcfe\udcff")  # its mark, read as UTF-8
_JSON_START = re.compile(r"""\s*(?:\{|\[\s*(?:["{\[]|$))""")  # a SMILES may begin with a bracket, but not like this
_QUERY = re.compile(r"^M  (?:ALS|MRV\s+SMA)|^M  V30\s+\d+\s+(?:NOT\s*)?\[|SMARTSQ", re.MULTILINE | re.IGNORECASE)
"""Lists of elements and SMARTS in the place of an atom."""


def form_by_name(path: Path) -> Form | None:
    return ENDINGS.get(Path(path.name.lower().removesuffix(".gz")).suffix)


def form_of(path: Path) -> Form | None:
    """By its first bytes, else its ending; None where only its text can tell."""
    with open_file(path) as file:
        head = file.read(4)
    return next((form for start, form in FIRST_BYTES.items() if head.startswith(start)), form_by_name(path))


def form_of_text(path: Path) -> Form:
    if any(re.search("V[23]000", line) for _, line in islice(text_lines(path), 3, 4)):
        return "sdf"
    _, first = next(content_lines(path), (0, ""))
    return "jsonl" if _JSON_START.match(first) else "list"


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) as the file streams in: UTF-8, else Latin-1, with any line ends."""
    name = shown(path.name)
    is_packed = path.name.lower().endswith(".gz")
    try:
        with (
            open_file(path) as file,
            io.TextIOWrapper(gzip.open(file) if is_packed else file, "utf-8-sig", "surrogateescape") as text,
        ):
            lines = iter(lambda: text.readline(MOST_LINE_CHARACTERS + 1), "")
            for number, line in enumerate(lines, start=1):
                if line.startswith(_UTF16):
                    raise FileFormatError(f"{name} is UTF-16 text", "Save it as UTF-8")
                if len(line) > MOST_LINE_CHARACTERS:
                    raise FileFormatError(f"{name} has a line {number} of over {MOST_LINE_CHARACTERS:,} characters")
                if _BINARY.search(line):
                    raise FileFormatError(f"{name} is no text: line {number} is binary", "Give a text file")
                try:
                    line.encode("utf-8")
                except UnicodeEncodeError:
                    line = line.encode("utf-8", "surrogateescape").decode("latin-1")
                yield number, line.removesuffix("\n")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FileFormatError(f"{name} is no whole gz file: {gz_problem(error)}", "Compress it again") from error
    except OSError as error:
        raise FileFormatError(f"{name} cannot be read: {error.strerror or error}", "Check it") from error


def content_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are neither blank nor a comment: ``#``, a triple bond, begins no SMILES."""
    return ((number, line) for number, line in text_lines(path) if line.strip() and not line.lstrip().startswith("#"))


def sdf_records(path: Path) -> Iterator[list[str]]:
    """The lines of each record. The last may lack its ``$$$$`` when it ends with the molecule itself."""
    record: list[str] = []
    size = number = 0
    for _, line in text_lines(path):
        if line.startswith("$$$$"):
            yield record
            record, size, number = [], 0, number + 1
            continue
        record.append(line)
        size += len(line) + 1
        if size > MOST_RECORD_CHARACTERS:
            raise damaged(path.name, number + 1, f"it is longer than {MOST_RECORD_CHARACTERS:,} characters")
    while record and not record[-1].strip():
        record.pop()
    if record and record[-1].rstrip() != "M  END":
        raise damaged(path.name, number + 1, "it is cut short: the file ends before 'M  END' or '$$$$'")
    if record:
        yield record


def mol_of(name: str, number: int, record: Sequence[str]) -> Chem.Mol:
    """With its hydrogens and its conformer; the name of the file and the record's number stand in an error."""
    end = next((index for index, line in enumerate(record) if line.startswith("M  END")), len(record)) + 1
    block = "\n".join(record[:end]) + "\n"
    if _QUERY.search(block):
        raise damaged(name, number, "it has a list of elements or a pattern in the place of an atom")
    try:
        return mol_of_block(block)
    except BlockError as error:
        raise damaged(name, number, error.what) from error


def damaged(name: str, number: int, reason: str) -> FileFormatError:
    return FileFormatError(f"record {number} of {shown(name)} cannot be read: {reason}", "Repair or remove it")


def parquet_rows(path: Path, columns_of: Callable[[Any], Sequence[str]]) -> Iterator[tuple[Any, ...]]:
    """The cells of the columns that are chosen of the file's Arrow schema, row by row."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = columns_of(file.schema_arrow)
            for batch in file.iter_batches(PARQUET_ROWS, columns=list(names)):
                known = batch.schema.names
                yield from zip(*(batch.column(known.index(name)).to_pylist() for name in names), strict=True)
    # ValueError: text that is not UTF-8, a date that Python cannot have.
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = one_line(str(error).partition("\n")[0])[:200]
        raise FileFormatError(f"{shown(path.name)} is no whole Parquet file: {reason}", "Write it again") from error


def is_text(kind: Any) -> bool:
    """Of an Arrow type: text, or a dictionary of texts."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
