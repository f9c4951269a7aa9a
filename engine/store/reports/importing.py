"""Report files in: the JSON that the reports' runner writes for a run, plain or gz, as a run of the store.

A file's own totals (time, characters) go into the run's columns; samples, blocks, junk and passes are counted again,
from texts that our own code reads (``engine.store.reports.texts``). The file itself is kept with them. A run's id is a
hash of the file's content, so one file is imported once, whatever its name and its compression.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import msgspec

from engine.chem.other_forms import OTHER_WORDS, is_summary, other_form
from engine.errors import FileFormatError, PlaceholderError, shown
from engine.store.entries import Entry
from engine.store.groups import totals
from engine.store.reports.figures import RunOfFile, read_run
from engine.store.reports.texts import FAILURES, PASSES, ReportItem, read_item, split_text
from engine.store.sample_rows import StoredSample, peaks_of, sums_of, tables_of
from engine.store.schema import REPORT_FILES, RUN
from engine.store.staging import Staging, begun_anew
from engine.store.store import Store
from engine.user_files import open_file, parsed_json

MOST_BYTES = 512 * 1024**2
"""Of a file's JSON, which is held in memory whole."""
GROUP = 500
"""Samples that are written together."""
_GZ = b"\x1f\x8b"
_HALF = re.compile(r"\\u[dD][89a-fA-F]")

Progress = Callable[..., None]
"""Told how many ``samples`` are read, and which share that is of all."""


_Number = Annotated[float, msgspec.Meta(ge=0, lt=2**53)]
_Whole = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class _Generation(msgspec.Struct):
    decoded_text: str


class _Item(msgspec.Struct):
    prompt_smiles: str | None = None
    decoded_text: str | None = None
    all_generations: list[str | _Generation] | None = None


class _Metadata(msgspec.Struct):
    logit_processor_enabled: bool | None = None
    num_generations: _Whole | None = None
    batch_size: _Whole | None = None


class _Report(msgspec.Struct):
    """Of what kind the values are under the keys that are read; others may be anything."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    passes: list[_Item] = []
    failures: list[_Item] = []
    time_taken: _Number | None = None
    total_chars_raw: _Whole | None = None
    total_chars_clean: _Whole | None = None


def import_report(
    store: Store,
    path: Path,
    *,
    label: str | None = None,
    tokenizer: str | None = None,
    progress: Progress | None = None,
) -> Entry:
    """Read a report file into the store, unless it is there. ``tokenizer`` (a name or a folder) replaces the one that
    the file names."""
    content = _content(path)
    with _errors_with(path.name):
        document = _parsed(content)
        parts = ((part, document.get(part, ())) for part in (PASSES, FAILURES))
        items = [read_item(item, part, number) for part, listed in parts for number, item in enumerate(listed)]
        if not items:
            raise FileFormatError("it has no samples", "There is nothing to import")
        _check_forms(items)
        run_id = f"imported-{hashlib.sha256(content).hexdigest()[:16]}"
        if store.has(run_id):
            return store.entry(run_id)
        run = read_run(document, items, tokenizer)
        named = {"source": path.name} | ({} if label is None else {"label": label})
        form = {} if run.form is None else {"form": asdict(run.form)}
        with begun_anew(store.home, RUN, run_id, {**run.row, **named}) as staging:
            file = REPORT_FILES.rows([{"run_id": run_id, "content": content.decode()}])
            staging.add({REPORT_FILES.name: file}, number=0)
            return staging.publish(_write(staging, items, run, progress), **form)


def _write(staging: Staging, items: Sequence[ReportItem], run: RunOfFile, progress: Progress | None) -> dict[str, Any]:
    """Write all samples; the columns of the run."""
    waiting: list[StoredSample] = []
    done, whole, number, differing = 0, sum(len(item.texts) for item in items), 1, 0
    molecules: set[str] = set()
    for item in items:
        samples = list(run.reader.samples(item, done))
        waiting += samples
        done += len(samples)
        molecules |= {sample.smiles for sample in samples}
        differing += getattr(samples[item.main].check, run.rule[0]) != item.passed
        if len(waiting) >= GROUP or done == whole:
            members = [sample.sample_id for sample in waiting]
            tables, sums, peaks = tables_of(staging.id, waiting), sums_of(waiting), peaks_of(waiting)
            staging.add(tables, members, sums=sums, peaks=peaks, number=number)
            waiting, number = [], number + 1
        if progress is not None:
            progress(done, done / whole, samples=whole)
    notes = run.row["notes"]
    if differing:
        notes = f"{notes[:-1]}; of {differing:,} samples our check of {run.rule[0]} says otherwise."
    return {**totals(staging.groups()), "molecules": len(molecules), **run.row, "notes": notes}


def _check_forms(items: Sequence[ReportItem]) -> None:
    """Texts of another format are refused all together: as enriched text they would count as clean or as junk."""
    forms = Counter(other_form(split_text(text, item.smiles)[1]) for item in items for text in item.texts)
    if form := next((form for form in OTHER_WORDS if forms[form]), None):
        rest = ", the others are not: it mixes formats" if forms[form] < forms.total() else ""
        what = f"{forms[form]:,} of its {forms.total():,} texts are {OTHER_WORDS[form]}{rest}"
        raise FileFormatError(what, "Write the file with enriched text alone")


@contextmanager
def _errors_with(name: str) -> Iterator[None]:
    try:
        yield
    except (FileFormatError, PlaceholderError) as error:
        raise FileFormatError(f"{shown(name)}: {error.what}", error.fix) from error
    except RecursionError as error:
        raise FileFormatError(f"{shown(name)}: lists and objects are nested too deep", "Write it again") from error


def _content(path: Path) -> bytes:
    """The file's JSON, unpacked."""
    with open_file(path) as file:
        source = gzip.GzipFile(fileobj=file) if file.peek(len(_GZ)).startswith(_GZ) else file
        try:
            content = source.read(MOST_BYTES + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            what = f"{shown(path.name)} is no whole gz file: {error}"
            raise FileFormatError(what, "Compress it again") from error
    if len(content) > MOST_BYTES:
        what = f"{shown(path.name)} holds over {MOST_BYTES / 1024**3:g} GiB of JSON"
        raise FileFormatError(what, "Split it by its samples")
    return content


def _parsed(content: bytes) -> dict[str, Any]:
    """A document whose keys have values of the right kinds; errors say where in it something is wrong."""

    def finite(digits: str) -> float | None:
        return value if math.isfinite(value := float(digits)) else None

    try:  # Python writes NaN and Infinity, which JSON does not have
        text = content.decode("utf-8-sig")
        document = parsed_json(text, parse_float=finite, parse_constant=lambda _: None)
    except UnicodeDecodeError as error:
        raise FileFormatError(f"it is no UTF-8 text: byte {error.start:,} is not", "Save it as UTF-8") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno:,}, column {error.colno:,}"
        raise FileFormatError(f"it is no JSON at {where}: {error.msg}", "Correct it there") from error
    except ValueError as error:  # such as a number of thousands of digits
        raise FileFormatError(f"it is no JSON that can be read: {error}", "Write it again") from error
    if not isinstance(document, dict):
        raise FileFormatError("it is no object with passes and failures", "It is no report file")
    if is_summary(document):
        raise FileFormatError(f"it is {OTHER_WORDS['summary']}", "Import the report files of its runs")
    if document.keys().isdisjoint((PASSES, FAILURES)):
        raise FileFormatError("it has neither passes nor failures", "It is no report file")
    try:
        msgspec.convert(document, _Report)
    except msgspec.ValidationError as error:
        raise FileFormatError(str(error), "Correct it there") from error
    if _HALF.search(text):  # halves of a character outside the BMP, which no text can hold, become a question mark
        whole = json.dumps(document, ensure_ascii=False).encode("utf-16", "surrogatepass")
        document = json.loads(whole.decode("utf-16", "replace"))
    return dict(document)
