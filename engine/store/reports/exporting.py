"""Runs out as report files: the JSON of the reports' runner, written from any run that has samples.

An imported file is exported as it was, up to the order of keys, spaces, NaN (which becomes null) and halves of
characters. Of a measured run, only what the format has a key for is written: not token ids, forced flags, seeds and
timings of parts. Several generations of a molecule become one item, a cleaned text is written next to its raw text, and
a key without a value is left out.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from engine.chem.enriched import prompt_of
from engine.errors import FileFormatError, StoreError, shown
from engine.folders import exporting
from engine.records import CHECK_COLUMNS
from engine.store.entries import Entry, is_binned, without_samples
from engine.store.reports import format as keys
from engine.store.schema import SAMPLES
from engine.user_files import parsed_json

_OF_CHECK = (name for name in CHECK_COLUMNS if name != "decodes")  # the format has no key for it, old runs no column
COLUMNS = ("sample_id", "generation", "smiles", "text", *_OF_CHECK, "extra")


@dataclass(frozen=True, slots=True)
class _ExportedSample:
    """A sample's row, and what is kept of the ``extra`` that its report file had."""

    row: Mapping[str, Any]
    extra: Mapping[str, Any]
    passed: bool
    before: str
    after: str
    unknown: Mapping[str, Any]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> _ExportedSample:
        extra = _extra_of(row["extra"], f"sample {row['sample_id']}")
        passed = bool(extra.get(keys.REPORTED_PASSED, row["passed"]))
        before = extra.get(keys.BEFORE, prompt_of(row["smiles"]))
        unknown = {key: value for key, value in extra.items() if key not in keys.OWN}
        return cls(row, extra, passed, before, extra.get(keys.AFTER, ""), unknown)


def export_report(entry: Entry, target: Path | IO[bytes]) -> None:
    """Write the run's report file: to a path (gz by its suffix; there whole or not at all), or into an open file."""
    content = json.dumps(report_of(entry), ensure_ascii=False, indent=2).encode() + b"\n"
    if not isinstance(target, Path):
        target.write(content)
        return
    is_gz = target.name.lower().endswith(".gz")
    try:
        with exporting(target) as file:
            file.write(gzip.compress(content, mtime=0) if is_gz else content)
    except OSError as error:
        what = f"{shown(target, 200)} cannot be written: {error.strerror or error}"
        raise StoreError(what, "Give another place") from error


def report_of(entry: Entry) -> dict[str, Any]:
    """The run as the format's document."""
    if is_binned(entry):
        what = f"{entry.id} has binned texts, and the report format does not say what a bin is"
        raise FileFormatError(what, "Give --as generations.pickle or --as sdf")
    if SAMPLES.name not in entry.parts:
        raise without_samples(entry, "export")
    try:
        table = entry.read(SAMPLES.name, COLUMNS)
    except (OSError, pa.ArrowException) as error:
        raise without_samples(entry, "export") from error
    items = _items(_ExportedSample.of(row) for row in table.sort_by("sample_id").to_pylist())
    row, extra = entry.sheet["row"], _extra_of(entry.row.get("extra"), entry.id)
    reported, unreported = extra.get(keys.REPORTED, {}), extra.get(keys.UNREPORTED, {})
    metadata = keys.restored(
        keys.metadata_of(row, len(items)),
        extra.get(keys.METADATA, {}),
        reported.get(keys.METADATA, {}),
        unreported.get(keys.METADATA, ()),
    )
    listed: dict[str, list[dict[str, Any]]] = {keys.PASSES: [], keys.FAILURES: []}
    for members in items:
        marked = next((index for index, member in enumerate(members) if member.extra.get(keys.MAIN)), None)
        main = keys.main_of([member.row["passed"] for member in members]) if marked is None else marked
        listed[keys.PASSES if members[main].passed else keys.FAILURES].append(_item(members, main))
    unknown = {key: value for key, value in extra.items() if key not in keys.RUN_OWN}
    differing = {key: value for key, value in reported.items() if key != keys.METADATA}
    ours, lacking = {keys.METADATA: metadata, **keys.totals_of(row)}, unreported.get(keys.AT_TOP, ())
    lists = {key: value for key, value in listed.items() if key not in lacking}
    return keys.restored(ours, unknown, differing, lacking) | lists


def _extra_of(text: str | None, whose: str) -> dict[str, Any]:
    """What is kept of a file, beside the columns."""
    try:
        extra = parsed_json(text or "{}")
    except ValueError as error:
        raise StoreError(f"the extra of {whose} is no JSON: {error}", "Import the run again") from error
    if not isinstance(extra, dict):
        raise StoreError(f"the extra of {whose} is no object", "Import the run again")
    return extra


def _items(samples: Iterable[_ExportedSample]) -> list[list[_ExportedSample]]:
    """Generations of one prompt together: each goes to the last item of its molecule that lacks just it."""
    items: list[list[_ExportedSample]] = []
    waiting = defaultdict[tuple[str, int], list[list[_ExportedSample]]](list)  # by molecule and its next generation
    for sample in samples:
        smiles, generation = sample.row["smiles"], sample.row["generation"] or 0
        members = waiting[smiles, generation].pop() if generation and waiting[smiles, generation] else []
        if not members:
            items.append(members)
        members.append(sample)
        waiting[smiles, generation + 1].append(members)
    return items


def _item(members: Sequence[_ExportedSample], index: int) -> dict[str, Any]:
    main = members[index]
    ours = keys.item_of(main.row, passed=main.passed, before=main.before, after=main.after)
    item = keys.restored(ours, main.unknown, main.extra.get(keys.REPORTED, {}), main.extra.get(keys.UNREPORTED, ()))
    how = main.extra.get(keys.GENERATIONS)
    if how is None and len(members) == 1:
        return item
    others = [member for member in members if how != keys.BESIDE or member is not main]
    return item | {keys.GENERATIONS: [_entry(other, is_main=other is main) for other in others]}


def _entry(sample: _ExportedSample, *, is_main: bool) -> str | dict[str, Any]:
    """A text alone where nothing else is said of it."""
    rest = {**({} if is_main else sample.unknown), **sample.extra.get(keys.ENTRY, {})}
    decoded = f"{sample.before}{sample.row['text']}{sample.after}"
    return {keys.TEXT: decoded, **rest} if rest or keys.ENTRY in sample.extra else decoded
