"""The forms of files with molecules, and how each comes apart: lines, records of SDF, rows of Parquet.

What the rows mean is known to those who read molecules that are asked for (``molecule_files``), structures
(``structure_files``) and references (``conformer_files``). A file that is no such file, or breaks off, is a
FileFormatError.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from engine.errors import FileFormatError, one_line, shown
from engine.user_files import open_file

Form = Literal["list", "table", "jsonl", "sdf", "parquet", "pickle"]
ENDINGS: dict[str, Form] = {
    **dict.fromkeys((".csv", ".tsv"), "table"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".sdf", ".sd", ".mol"), "sdf"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".pickle", ".pkl", ".p"), "pickle"),
}
MOST_LINE_CHARACTERS, MOST_RECORD_CHARACTERS = 1_000_000, 4_000_000
_BINARY = re.compile(r"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f\x7f]")


def form_by_name(path: Path) -> Form | None:
    return ENDINGS.get(Path(path.name.lower().removesuffix(".gz")).suffix)


def form_of(path: Path) -> Form:
    """By its first bytes, else its ending; else lines of SMILES."""
    with open_file(path) as file:
        head = file.read(4)
    return "parquet" if head == b"PAR1" else "pickle" if head[:1] == b"\x80" else form_by_name(path) or "list"


def text_lines(path: Path) -> Generator[tuple[int, str]]:
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
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(f"{name} is cut short or damaged", "Copy or compress it again") from error


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
