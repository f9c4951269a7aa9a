"""Runs out as report files: the JSON of the reports' runner, written from any run that has samples.

An imported file comes out as it went in, up to the order of keys, spaces, NaN (which becomes null) and halves of
characters. Of a measured run it holds what the format has a key for: token ids, forced flags, seeds and timings of
parts have none and stay behind, several generations of a molecule become one item, and a cleaned text goes with its
raw one beside it. A key that there is no value for is left out.
"""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet as pq

from engine.errors import StoreError, shown
from engine.store.entries import Entry
from engine.store.reports.format import (
    AFTER,
    AT_TOP,
    BEFORE,
    BESIDE,
    ENTRY,
    FAILURES,
    GENERATIONS,
    MAIN,
    METADATA,
    OWN,
    PASSES,
    REPORTED,
    REPORTED_PASSED,
    RUN_OWN,
    TEXT,
    UNREPORTED,
    item_of,
    main_of,
    metadata_of,
    restored,
    totals_of,
    usual_prompt,
)
from engine.store.schema import SAMPLES

COLUMNS = (
    "sample_id",
    "generation",
    "smiles",
    "text",
    "passed",
    "issues",
    "parsed",
    "parse_error",
    "same_graph",
    "exact_match",
    "generated_smiles",
    "extracted_smiles",
    "has_real_coordinates",
    "extra",
)


@dataclass(frozen=True, slots=True)
class _Told:
    """A sample's row, and what a report file said of it."""

    row: Mapping[str, Any]
    extra: Mapping[str, Any]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> _Told:
        return cls(row, json.loads(row["extra"]) if row["extra"] else {})

    @property
    def before(self) -> str:
        return str(self.extra.get(BEFORE, usual_prompt(self.row["smiles"])))

    @property
    def after(self) -> str:
        return str(self.extra.get(AFTER, ""))

    @property
    def decoded(self) -> str:
        return f"{self.before}{self.row['text']}{self.after}"

    @property
    def unknown(self) -> dict[str, Any]:
        return {key: value for key, value in self.extra.items() if key not in OWN}


def export_report(entry: Entry, target: Path | IO[bytes]) -> None:
    """Write the run's report file: to a path (gz by its suffix; there whole or not at all), or into an open file."""
    content = json.dumps(report_of(entry), ensure_ascii=False, indent=2).encode() + b"\n"
    if not isinstance(target, Path):
        target.write(content)
        return
    is_gz = target.name.lower().endswith(".gz")
    aside = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        aside.write_bytes(gzip.compress(content, mtime=0) if is_gz else content)
        aside.replace(target)
    except OSError as error:
        what = f"{shown(target, 200)} cannot be written: {error.strerror or error}"
        raise StoreError(what, "Give another place") from error
    finally:
        aside.unlink(missing_ok=True)


def report_of(entry: Entry) -> dict[str, Any]:
    """The run as the format's document."""
    if SAMPLES.name not in entry.parts:
        raise StoreError(f"{entry.id} has no samples to export", "A report's own run is only a row of figures")
    items = _items(_rows(entry))
    row, said = entry.sheet["row"], json.loads(entry.row.get("extra") or "{}")
    reported, unreported = said.get(REPORTED, {}), said.get(UNREPORTED, {})
    metadata = restored(
        metadata_of(row, len(items)),
        said.get(METADATA, {}),
        reported.get(METADATA, {}),
        unreported.get(METADATA, ()),
    )
    listed: dict[str, list[dict[str, Any]]] = {PASSES: [], FAILURES: []}
    for members in items:
        main = _main(members)
        listed[PASSES if _has_passed(members[main]) else FAILURES].append(_item(members, main))
    unknown = {key: value for key, value in said.items() if key not in RUN_OWN}
    otherwise = {key: value for key, value in reported.items() if key != METADATA}
    ours = {METADATA: metadata, **totals_of(row)}
    document = restored(ours, unknown, otherwise, unreported.get(AT_TOP, ())) | listed
    return {key: value for key, value in document.items() if key not in listed or key not in unreported.get(AT_TOP, ())}


def _rows(entry: Entry) -> list[_Told]:
    """Samples in order. Every file has these columns since the first version of the schema."""
    table = pq.read_table(
        entry.path(SAMPLES.name), columns=list(COLUMNS), filesystem=entry.files.filesystem, partitioning=None
    )
    return [_Told.of(row) for row in table.sort_by("sample_id").to_pylist()]


def _items(samples: Iterable[_Told]) -> list[list[_Told]]:
    """Generations of one prompt together: each goes to the last item of its molecule that lacks just it."""
    items: list[list[_Told]] = []
    waiting: dict[tuple[str, int], list[list[_Told]]] = {}  # by molecule and the generation that comes next
    for sample in samples:
        smiles, generation = sample.row["smiles"], sample.row["generation"] or 0
        open_items = waiting.get((smiles, generation), [])
        if generation and open_items:
            members = open_items.pop()
        else:
            members = []
            items.append(members)
        members.append(sample)
        waiting.setdefault((smiles, generation + 1), []).append(members)
    return items


def _main(members: Sequence[_Told]) -> int:
    marked = next((index for index, one in enumerate(members) if one.extra.get(MAIN)), None)
    return main_of([one.row["passed"] for one in members]) if marked is None else marked


def _has_passed(main: _Told) -> bool:
    return bool(main.extra.get(REPORTED_PASSED, main.row["passed"]))


def _item(members: Sequence[_Told], index: int) -> dict[str, Any]:
    main = members[index]
    ours = item_of(main.row, passed=_has_passed(main), before=main.before, after=main.after)
    item = restored(ours, main.unknown, main.extra.get(REPORTED, {}), main.extra.get(UNREPORTED, ()))
    how = main.extra.get(GENERATIONS)
    if how is None and len(members) == 1:
        return item
    others = [one for one in members if how != BESIDE or one is not main]
    return item | {GENERATIONS: [_entry(one, is_main=one is main) for one in others]}


def _entry(sample: _Told, *, is_main: bool) -> str | dict[str, Any]:
    """A text alone where nothing else is said of it."""
    rest = ({} if is_main else sample.unknown) | sample.extra.get(ENTRY, {})
    return {TEXT: sample.decoded, **rest} if rest or ENTRY in sample.extra else sample.decoded
