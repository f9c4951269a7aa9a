"""Report files in: the JSON that the reports' runner writes for a run, plain or gz, as a run of the store.

A file's own totals (time, characters) go into the run's columns; samples, blocks, junk and passes are counted again,
from texts that our own code reads (``engine.store.reports.texts``). A run's id is a hash of the file's content, so one
file is imported once, whatever its name, its compression and the order of its keys. Who made the file, and whether its
totals are true, is not known here.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec

from engine.chem.other_forms import OTHER_WORDS, is_summary, other_form
from engine.errors import FileFormatError, shown
from engine.store.entries import Entry
from engine.store.reports import format as keys
from engine.store.reports.figures import RunOfFile, read_run
from engine.store.reports.texts import ReportItem, read_item, split_text
from engine.store.sample_rows import StoredSample, peaks_of, sums_of, tables_of
from engine.store.schema import RUN
from engine.store.staging import Staging, begun_anew, totals
from engine.store.store import Store
from engine.user_files import gz_problem, open_file, parsed_json, unique_keys

MOST_BYTES = 512 * 1024**2
"""Of a file's JSON, which is held in memory whole."""
PARTS = (keys.METADATA, keys.PASSES, keys.FAILURES)
GROUP = 500
"""Samples that are written together."""
_GZ = b"\x1f\x8b"
_HALF = re.compile(r"\\u[dD][89a-fA-F]")

Progress = Callable[..., None]
"""Told how many ``samples`` are read, and which share that is of all."""


_Number = Annotated[float, msgspec.Meta(ge=0, lt=2**53)]
_Whole = Annotated[float, msgspec.Meta(ge=0, lt=2**53, multiple_of=1)]


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


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A report file whose shape is checked and whose texts are not read yet."""

    name: str
    run_id: str
    metadata: Mapping[str, Any]
    totals: Mapping[str, Any]  # all else at the top
    items: tuple[ReportItem, ...]  # passes, then failures
    missing: tuple[str, ...]  # of the file's three parts

    @property
    def samples(self) -> int:
        return sum(len(item.texts) for item in self.items)


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
    report = read_report(path)
    if store.has(report.run_id):
        return store.entry(report.run_id)
    with _errors_with(report.name):
        run = read_run(report.metadata, report.totals, report.items, missing=report.missing, tokenizer=tokenizer)
        row = {**run.row, "source": report.name, "label": label}
        known = {key: value for key, value in row.items() if value is not None}
        form = {} if run.form is None else {"form": asdict(run.form)}
        with begun_anew(store.home, RUN, report.run_id, known) as staging:
            return staging.publish(_write(staging, report, run, progress), **form)


# --- into the store -----------------------------------------------------------------------------------------------


def _write(staging: Staging, report: ReportFile, run: RunOfFile, progress: Progress | None) -> dict[str, Any]:
    """Write all samples; the columns of the run that only they tell."""
    waiting: list[StoredSample] = []
    done = number = 0
    differing = Counter[keys.RuleName]()
    molecules: set[str] = set()
    for item in report.items:
        samples = run.reader.samples(item, done)
        waiting += samples
        done += len(samples)
        molecules |= {sample.smiles for sample in samples}
        check = samples[item.main].check
        differing += Counter(rule for rule in get_args(keys.RuleName) if getattr(check, rule) != item.passed)
        if len(waiting) >= GROUP or done == report.samples:
            members = [sample.sample_id for sample in waiting]
            tables, sums, peaks = tables_of(staging.id, waiting), sums_of(waiting), peaks_of(waiting)
            staging.add(tables, members, sums=sums | peaks, number=number)
            waiting, number = [], number + 1
        if progress is not None:
            progress(done, done / max(report.samples, 1), samples=report.samples)
    return {**totals(staging.groups()), "molecules": len(molecules), **run.late_columns(differing)}


# --- the file -----------------------------------------------------------------------------------------------------


def read_report(path: Path) -> ReportFile:
    """A file whose shape is checked; errors say where in it something is wrong."""
    content = _content(path)
    with _errors_with(path.name):
        document = _parsed(content)
        missing = tuple(part for part in PARTS if part not in document)
        if is_summary(document):
            raise FileFormatError(f"it is {OTHER_WORDS['summary']}", "Import the report files of its runs")
        if {keys.PASSES, keys.FAILURES} <= set(missing):
            raise FileFormatError("it has neither passes nor failures", "It is no report file")
        try:
            msgspec.convert(document, _Report)
        except msgspec.ValidationError as error:
            raise FileFormatError(str(error), "Correct it there") from error
        parts = ((part, document.get(part, ())) for part in (keys.PASSES, keys.FAILURES))
        items = [read_item(item, part, number) for part, listed in parts for number, item in enumerate(listed)]
        if not items:
            raise FileFormatError("it has no samples: passes and failures are empty", "There is nothing to import")
        _check_forms(items)
        return ReportFile(
            name=path.name,
            run_id=f"imported-{_digest(document)[:16]}",
            metadata=document.get(keys.METADATA, {}),
            totals={key: value for key, value in document.items() if key not in PARTS},
            items=tuple(items),
            missing=missing,
        )


def _check_forms(items: Iterable[ReportItem]) -> None:
    """Texts of another format are refused all together: as enriched text they would count as clean or as junk."""
    forms = Counter(other_form(split_text(text, item.smiles)[1]) for item in items for text in item.texts)
    known = [(form, forms[form]) for form in OTHER_WORDS if forms[form]]
    if known:
        form, count = known[0]
        rest = ", the others are not: it mixes formats" if count < forms.total() else ""
        raise FileFormatError(
            f"{count:,} of its {forms.total():,} texts are {OTHER_WORDS[form]}{rest}",
            "Write the file with enriched text alone",
        )


def _digest(document: Mapping[str, Any]) -> str:
    """Of what the file says: order of keys, spaces and escapes do not count."""
    digest = hashlib.sha256()
    for key in sorted(document):
        digest.update(f"\n{keys.compact(key)}:".encode())
        value = document[key]
        for part in value if isinstance(value, list) else [value]:  # a text of all would be as large as the file
            digest.update(f"\n {keys.compact(part)}".encode())
        digest.update(b"]" if isinstance(value, list) else b".")
    return digest.hexdigest()


@contextmanager
def _errors_with(name: str) -> Iterator[None]:
    try:
        yield
    except FileFormatError as error:
        raise FileFormatError(f"{shown(name)}: {error.what}", error.fix) from error
    except RecursionError as error:
        raise FileFormatError(f"{shown(name)}: lists and objects are nested too deep", "Write it again") from error


def _content(path: Path) -> bytes:
    with open_file(path) as file:
        source = gzip.GzipFile(fileobj=file) if file.read(len(_GZ)) == _GZ else file
        file.seek(0)
        try:
            content = source.read(MOST_BYTES + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            what = f"{shown(path.name)} is no whole gz file: {gz_problem(error)}"
            raise FileFormatError(what, "Compress it again") from error
    if len(content) > MOST_BYTES:
        what = f"{shown(path.name)} holds over {MOST_BYTES / 1024**3:g} GiB of JSON"
        raise FileFormatError(what, "Split it by its samples")
    return content


def _parsed(content: bytes) -> dict[str, Any]:
    def finite(number: type[int | float], digits: str) -> float | None:
        value = number(digits)
        return value if abs(value) <= sys.float_info.max else None

    how: dict[str, Any] = {"parse_float": partial(finite, float), "parse_int": partial(finite, int)}
    try:  # Python writes NaN and Infinity, which JSON does not have
        text = content.decode("utf-8-sig")
        document = parsed_json(text, parse_constant=lambda _: None, object_pairs_hook=unique_keys, **how)
    except UnicodeDecodeError as error:
        raise FileFormatError(f"it is no UTF-8 text: byte {error.start:,} is not", "Save it as UTF-8") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno:,}, column {error.colno:,}"
        raise FileFormatError(f"it is no JSON at {where}: {error.msg}", "Correct it there") from error
    except ValueError as error:  # a number of thousands of digits, a key that stands twice
        raise FileFormatError(f"it is no JSON that can be read: {error}", "Write it again") from error
    if not isinstance(document, dict):
        raise FileFormatError("it is no object with passes and failures", "It is no report file")
    if _HALF.search(text):  # halves of a character outside the BMP, which no text can hold, become a question mark
        whole = json.dumps(document, ensure_ascii=False).encode("utf-16", "surrogatepass")
        document = json.loads(whole.decode("utf-16", "replace"))
    return dict(document)
