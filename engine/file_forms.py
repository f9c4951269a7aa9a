"""Forms of files that users bring, one row each: endings, reader, what such a file becomes, and an example.

Uploaders, the commands of ``COMMANDS``, the table of docs/formats.md and what an error says is taken follow from the
rows. A new form is a file with its reader, and a row here.

A file's form is found by its first bytes, else by its ending. Whether it is what its name says, its reader finds out.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from engine.errors import FileError, shown
from engine.user_files import open_file

Becomes = Literal["run", "trace", "log", "references", "molecules", "pool"]
COMMANDS: dict[Becomes, str] = {
    "run": "import", "pool": "judge", "references": "references add", "molecules": "run --smiles-file",
    "trace": "trace add", "log": "logits add",
}  # fmt: skip
"""Which command reads a file as what."""


@dataclass(frozen=True, slots=True)
class FileForm:
    """``reader`` is ``module:function``, named since most readers are of floors above. What it takes and gives follows
    from what its files become:

    - conformers (run, references and pool): ``(paths, shapes, tell)``, gives each `HeavyConformer`
    - another run: ``(store, path, *, label, tokenizer, bins, progress, warn)``, gives the entry, or several
    - molecules: ``(path, column)``, gives line or record numbers and SMILES
    - trace: ``add_trace``'s; log: ``add_file``'s
    """

    name: str  # as reference sets keep it
    words: str
    endings: tuple[str, ...]  # texts also packed, with .gz behind them
    becomes: tuple[Becomes, ...]
    reader: str
    example: str  # a file of docs/formats.md
    begins: bytes = b""  # its first bytes, where they tell
    is_rest: bool = False  # files of no known ending are read as this one

    def load(self) -> Callable[..., Any]:
        module, _, function = self.reader.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), function)
        return found


_FAILURES = re.compile(
    r"^[ \t]*(?:Failed [A-Za-z ]*Generations[A-Za-z ]* - Step \d+|--- Failure #\d+ ---[ \t\r]*$"
    r"|Format: Prompt \| error code \| generated text)",
    re.ASCII | re.MULTILINE,
)
FIRST_LINES, FIRST_BYTES = 20, 65_536
"""In which a file names its form, behind headers of its own."""
INSTEAD = "`import` reads it, and `judge RUN` its texts"
"""Of a training's file, given to another command."""
_ROLLOUTS = "engine.store.reports.rollouts"
_CONFORMERS, _SMILES = "engine.chem.conformer_files", "engine.chem.molecule_files"
_POOL: tuple[Becomes, ...] = ("run", "references", "pool")
FORMS = (
    FileForm("report", "reports of a runner", (".json",), ("run",), "engine.store.reports.importing:import_report",
             "report.json", is_rest=True),
    FileForm("completions", "completions that TRL logs", (".parquet",), ("run",), f"{_ROLLOUTS}:import_completions",
             "completions_00001.parquet"),
    FileForm("failures", "failed generations of a validation", (".txt",), ("run",), f"{_ROLLOUTS}:import_failures",
             "failed_step_200.txt"),
    FileForm("summary", "an LP against logs", (".json",), ("run",), f"{_ROLLOUTS}:import_summary",
             "lp_vs_logs_summary.json"),
    FileForm("sdf", "SDF", (".sdf", ".sd", ".mol"), _POOL, f"{_CONFORMERS}:sdf_conformers", "pool.sdf"),
    FileForm("parquet", "Parquet with conformers", (".parquet", ".pq"), _POOL, f"{_CONFORMERS}:parquet_conformers",
             "references.parquet", b"PAR1"),
    FileForm("pickle", "a pickle of molecules", (".pickle", ".pkl", ".p"), _POOL,
             f"{_CONFORMERS}:pickled_conformers", "generation_results.pickle", b"\x80"),
    FileForm("list", "lines of SMILES", (".smi", ".smiles", ".txt"), ("molecules",), f"{_SMILES}:list_rows",
             "molecules.smi", is_rest=True),
    FileForm("table", "CSV or TSV", (".csv", ".tsv"), ("molecules",), f"{_SMILES}:table_rows", "molecules.csv"),
    FileForm("jsonl", "JSON lines", (".jsonl", ".ndjson", ".json"), ("molecules",), f"{_SMILES}:jsonl_rows",
             "molecules.jsonl"),
    FileForm("sdf", "SDF", (".sdf", ".sd", ".mol"), ("molecules",), f"{_SMILES}:sdf_rows", "pool.sdf"),
    FileForm("parquet", "Parquet", (".parquet", ".pq"), ("molecules",), f"{_SMILES}:parquet_rows",
             "references.parquet", b"PAR1"),
    FileForm("trace", "Chrome traces", (".json",), ("trace",), "engine.profile.ingest:add_trace", "trace.json",
             is_rest=True),
    FileForm("sums", "tables of sums", (".csv", ".tsv", ".txt"), ("trace",), "engine.profile.ingest:add_trace",
             "sums.csv"),
    FileForm("log", "JSON lines of logits", (".jsonl", ".ndjson", ".json", ".log", ".txt"), ("log",),
             "engine.logits.ingest:add_file", "logits.jsonl", is_rest=True),
)  # fmt: skip


def forms_of(becomes: Becomes) -> list[FileForm]:
    return [form for form in FORMS if becomes in form.becomes]


def endings_of(becomes: Becomes) -> list[str]:
    """As a field for files wants them: ``["json", "sdf", ..., "gz"]``."""
    return [ending[1:] for form in forms_of(becomes) for ending in form.endings] + ["gz"]


def words_of(becomes: Becomes) -> str:
    """``SDF (.sdf, .sd, .mol), a pickle of molecules (.pickle, .pkl, .p); texts also as .gz``"""
    known = ", ".join(f"{form.words} ({', '.join(form.endings)})" for form in forms_of(becomes))
    return f"{known}; texts also as .gz"


def form_by_name(path: Path, becomes: Becomes) -> FileForm | None:
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    return next((form for form in forms_of(becomes) if ending in form.endings), None)


def _told_by_bytes(path: Path) -> list[FileForm]:
    """By the first ones, which texts have not. An older pickle begins otherwise, and is no text all the same."""
    with open_file(path) as file:
        head = file.read(4)
    told = [form for form in FORMS if form.begins]
    by_head = [form for form in told if head.startswith(form.begins)]
    return by_head or [form for form in told if path.suffix.lower() in form.endings]


def training_form(path: Path) -> FileForm | None:
    """The form of a training's file, as far as its beginning tells, before all else."""
    name = _training_file(path)
    return next((form for form in FORMS if form.name == name), None)


def _training_file(path: Path) -> str:
    """Its name; empty for any other file. TRL writes no column of SMILES."""
    with open_file(path) as file:
        head = file.read(FIRST_BYTES)
    if head.startswith(b"PAR1"):
        return "completions" if {"prompt", "completion"} <= (names := _columns(path)) and "smiles" not in names else ""
    if head.startswith(b"\x1f\x8b"):
        with suppress(zlib.error):
            head = zlib.decompressobj(wbits=31).decompress(head, FIRST_BYTES)
    text = head.decode("utf-8", "replace")
    if _FAILURES.search("\n".join(text.lstrip("\ufeff").splitlines()[:FIRST_LINES])):
        return "failures"
    return "summary" if '"log_failures"' in text and '"passes"' not in text else ""


def _columns(path: Path) -> set[str]:
    import pyarrow as pa
    from pyarrow import parquet

    with suppress(pa.ArrowException, OSError):
        return set(parquet.read_schema(path).names)
    return set()


def file_form(path: Path, becomes: Becomes) -> FileForm:
    """FileError for one that becomes something else, or is of no known form."""
    if (told := training_form(path)) and becomes not in told.becomes:
        raise FileError(f"{shown(path.name)} is {told.words}", INSTEAD)
    if told:
        return told
    by_head = _told_by_bytes(path)
    rest = next((form for form in forms_of(becomes) if form.is_rest), None)
    form = next((form for form in by_head if becomes in form.becomes), None)
    form = form or (None if by_head else form_by_name(path, becomes) or rest)
    if form is None:
        what = by_head[0].words if by_head else f"no file that `{COMMANDS[becomes]}` reads"
        raise FileError(f"{shown(path, 200)} is {what}", what_is_taken(becomes))
    return form


@contextmanager
def saying_what_is_taken(path: Path, becomes: Becomes) -> Iterator[None]:
    """An error of a reader says what is taken, where the file has none of the endings."""
    try:
        yield
    except FileError as error:
        taken = what_is_taken(becomes)
        if form_by_name(path, becomes) is not None or taken in (error.fix or ""):
            raise
        raise FileError(error.what, ". ".join(filter(None, (error.fix, taken)))) from error


def what_is_taken(becomes: Becomes) -> str:
    """Molecules are read by several commands, of which none is named."""
    if becomes == "molecules":
        return f"Taken are {words_of(becomes)}"
    return f"`{COMMANDS[becomes]}` takes {words_of(becomes)}"
