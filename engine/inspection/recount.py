"""Stored runs counted again from their texts by today's rules: kinds of blocks, all that follows from these, and of an
import its descriptors.

A measured run is read from its token ids, an import from the report file that is kept with it. The model's masses are
not stored; the kinds that they led to are, and stand for them: of a complete triple *exact* says that the model wanted
to close, *cut* that it wanted to go on. A stored continuation says more. Times, tokens, conformers and the molecules'
checks stay as they are; whether a sample is usable follows from its text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from engine.decode.samples import Reader
from engine.errors import DriftscopeError, RunError, StoreError, one_line
from engine.inspection.constrained import columns_of_tokens
from engine.inspection.runs import RunFacts, facts_of, number_format, run_tokenizer, tokenizer_location
from engine.inspection.sample import molecule_asked
from engine.lp_records import split_cleanup
from engine.records import FailedCheck, MoleculeVerdict, is_open
from engine.store.entries import Entry, without_samples
from engine.store.reports.importing import GROUP, rows_again
from engine.store.sample_rows import Row, block_rows, sample_row, sums_of, tables_of
from engine.store.schema import BLOCKS, COUNTED_IN_TEXTS, REPORT_FILES, SAMPLES
from engine.store.staging import added, rewrite_run
from engine.store.store import UNREADABLE, Store
from engine.text.blocks import RULES, CloseMass

Counted = Iterator[tuple[Row, list[Row]]]
"""Samples with their blocks, as rows of the store."""
COUNTS = (*COUNTED_IN_TEXTS, "misread_most_ang")
"""Columns of a run that are counted in its texts."""
OF_VERDICTS = frozenset({"usable", "judged_conformers", "usable_conformers"})
"""And of a judged run."""
_SOME = "run_id = $run AND sample_id BETWEEN $first AND $last"
_IDS = "SELECT sample_id FROM samples WHERE run_id = $run ORDER BY sample_id"
_SAMPLES = f"SELECT {', '.join(SAMPLES.names)} FROM samples WHERE {_SOME} ORDER BY sample_id"
_BLOCKS = f"SELECT {', '.join(BLOCKS.names)} FROM blocks WHERE {_SOME} ORDER BY sample_id, block"


@dataclass(frozen=True, slots=True)
class Recounted:
    """A run as it is now, and those of its columns that changed, as they were and as they are."""

    entry: Entry
    changed: Mapping[str, tuple[Any, Any]]

    @property
    def words(self) -> str:
        unnamed = ("counted_by", "notes", "constrained_why")
        counts = {name: ends for name, ends in self.changed.items() if name not in unnamed}
        each = (f"{name} {_known(before)} -> {_known(after)}" for name, (before, after) in counts.items())
        return ", ".join(each) or "the same counts"


def _known(value: Any) -> Any:
    return "unknown" if value is None else value


def former_runs(store: Store) -> list[Entry]:
    """Those of the user's own store with texts that are not counted as today."""
    entries = (entry for entry in store.listing().entries if entry.files is store.home)
    return [entry for entry in entries if BLOCKS.name in entry.sheet["tables"] and not is_counted(entry)]


def is_counted(entry: Entry) -> bool:
    """By today's rules, and with every count: an earlier version of the same rules had no column for some."""
    return entry.row.get("counted_by") == RULES and all(entry.row.get(name) is not None for name in COUNTED_IN_TEXTS)


def recount_run(store: Store, run_id: str, continued: Mapping[tuple[int, int], str] | None = None) -> Recounted:
    """Count a run again and store it. ``continued``: by sample and block, continuations that are stored with it."""
    entry = store.writable(run_id)
    if SAMPLES.name not in entry.parts or BLOCKS.name not in entry.parts:
        raise without_samples(entry, "count again")
    run, stored = facts_of(entry), _stored(store, entry, continued or {})
    if run.origin == "imported":
        of_file, again = _of_file(entry, run, stored)
    else:
        of_file, again = {}, _of_ids(run, stored)
    tables, sums = _written(run, again)
    known = [name for name in COUNTS if name in sums or entry.row.get(name) is not None]
    of_verdicts = OF_VERDICTS & sums.keys() if entry.row.get("judged") else ()
    columns: dict[str, Any] = {
        **of_file,
        **{name: sums.get(name) for name in known},
        "counted_by": RULES,
        **{name: sums[name] for name in of_verdicts},
        **columns_of_tokens(entry),
    }
    tables = {name: table for name, table in tables.items() if not _is_as_stored(table, _read(entry, name))}
    changed = {name: (entry.row.get(name), value) for name, value in columns.items() if entry.row.get(name) != value}
    return Recounted(rewrite_run(entry, tables, columns), changed)


def _read(entry: Entry, name: str) -> pa.Table:
    try:
        return entry.read(name)
    except UNREADABLE as error:
        problem = f"the table {name} of {entry.id} cannot be read: {one_line(str(error))}"
        raise StoreError(problem, "`verify` names what is damaged") from error


def _is_as_stored(table: pa.Table, stored: pa.Table) -> bool:
    """Columns that there were not yet when it was stored are null."""
    newer = set(table.column_names) - set(stored.column_names)
    is_null = all(table[name].null_count == len(table) for name in newer)
    return is_null and bool(table.drop_columns(list(newer)).equals(stored))


def _written(run: RunFacts, again: Counted) -> tuple[dict[str, pa.Table], dict[str, float]]:
    """The tables, and what they add up to."""
    parts: dict[str, list[pa.Table]] = {SAMPLES.name: [], BLOCKS.name: []}
    sums: list[dict[str, float]] = []
    while group := list(islice(again, GROUP)):
        samples, blocks = [sample for sample, _ in group], [block for _, of_sample in group for block in of_sample]
        for name, table in tables_of(run.run_id, samples, blocks).items():
            parts[name].append(table)
        sums.append(sums_of(samples, blocks, number_format(run)))
    return {name: pa.concat_tables(of_name) for name, of_name in parts.items()}, added(sums)


def _stored(store: Store, entry: Entry, continued: Mapping[tuple[int, int], str]) -> Counted:
    ids: list[int] = store.table(_IDS, {"run": entry.id}, of=[entry.id])["sample_id"].to_pylist()
    if len(ids) != entry.parts[SAMPLES.name].rows:
        raise StoreError(f"the samples of {entry.id} cannot be read", "`verify` names what is damaged")
    for start in range(0, len(ids), GROUP):
        names = {"run": entry.id, "first": ids[start], "last": ids[start : start + GROUP][-1]}
        samples, rows = (store.table(sql, names, of=[entry.id]).to_pylist() for sql in (_SAMPLES, _BLOCKS))
        blocks: defaultdict[int, list[Row]] = defaultdict(list)
        for row in rows:
            known = continued.get((row["sample_id"], row["block"]), row["continued_text"])
            blocks[row["sample_id"]].append(row | {"continued_text": known})
        yield from ((sample, blocks[sample["sample_id"]]) for sample in samples)


def _of_ids(run: RunFacts, stored: Counted) -> Counted:
    tokenizer, why_not = run_tokenizer(run)
    if tokenizer is None:
        raise RunError(f"{run.run_id} cannot be counted again: {why_not}", "Register its model")
    cleanup = split_cleanup(run.lp)[1]
    reader = Reader(tokenizer, run.lp_record.name, run.placeholder, number_format(run), cleanup)
    for row, blocks in stored:
        molecule, why_not, _ = molecule_asked(row, run.descriptors)
        ids, forced = row["token_ids"] or (), row["forced"] or ()
        if why_not or not ids or None in (*ids, *forced):
            problem = why_not or "its tokens are not all known"
            raise RunError(f"sample {row['sample_id']} of {run.run_id} cannot be counted again: {problem}", "Run again")
        masses = {block["block"]: _mass_of(block) for block in blocks}
        sample = reader.read(molecule, ids, forced, row["stop_reason"], masses=masses)
        if sample.text != row["text"]:
            problem = f"sample {row['sample_id']} of {run.run_id} has another text by the {run.tokenizer} that is here"
            raise RunError(problem, "Register the tokenizer that it was written with")
        counted = sample_row(sample.check, sample.blocks, {}, {"extra": None}) | {"extra": row["extra"]}
        yield _merged(row, blocks, counted, block_rows(row["sample_id"], sample.blocks))


def _mass_of(block: Row) -> CloseMass:
    """What a stored kind tells of the masses that it was decided with."""
    kinds = block["kinds"] or ()
    return CloseMass(float("exact" in kinds), float("cut" in kinds), block["continued_text"] or "")


def _of_file(entry: Entry, run: RunFacts, stored: Counted) -> tuple[dict[str, Any], Counted]:
    """The run's descriptors, and its samples."""
    if REPORT_FILES.name not in entry.parts:
        raise RunError(f"{entry.id} does not keep the file that it was imported from", "Import it again")
    tokenizer: str | None = None  # as the file names it
    with suppress(DriftscopeError):
        tokenizer = tokenizer_location(run) if run.tokenizer else None
    content = _read(entry, REPORT_FILES.name)["content"][0].as_py().encode()
    of_file, counted = rows_again(content, tokenizer, run.form)
    if of_file.row["samples"] != entry.parts[SAMPLES.name].rows:
        raise RunError(f"{entry.id} has another number of samples than its file now has", "Import it again")
    columns, now = {}, of_file.row.get("descriptors")
    if now != entry.row.get("descriptors"):
        words = f"Counted again: its texts have descriptors {now or 'plain'}, it was stored with {run.descriptors}."
        columns = {"descriptors": now, "notes": " ".join(filter(None, (entry.sheet["row"].get("notes"), words)))}
    again = (_merged(row, blocks, *new) for (row, blocks), new in zip(stored, counted, strict=True))
    return columns, again


def _merged(row: Row, blocks: list[Row], counted: Row, counted_blocks: list[Row]) -> tuple[Row, list[Row]]:
    """What was counted over what was stored: verdicts and what no text says are kept."""
    continued = {(block["block"], block["text"]): block["continued_text"] for block in blocks}
    sample = {**row, **counted}
    return {**sample, **_usable_columns(row, sample)}, [
        {**block, "continued_text": continued.get((block["block"], block["text"]))} for block in counted_blocks
    ]


def _usable_columns(row: Row, sample: Row) -> Row:
    """What follows from a stored verdict and the text as it is counted now; nothing of a sample without a verdict."""
    failed = tuple(FailedCheck(**failed) for failed in sample["failed"] or ())
    if sample["stereo_sites"] is None or is_open(each.check for each in failed):
        return {}
    verdict = MoleculeVerdict(
        stereo_sites=sample["stereo_sites"],
        stereo_sites_right=sample["stereo_sites_right"],
        stereo_right=sample["stereo_right"],
        geometry_right=sample["geometry_right"],
        failed=failed,
    )
    usable = verdict.is_usable(sample["clean"])
    if len(sample["clean_each"]) == 1:
        return {"usable": usable, "usable_each": [usable]}
    # Which conformers are right in space is not stored: where others are clean now, it is not known which are usable.
    is_as_stored = list(sample["clean_each"]) == row["clean_each"]
    return {"usable": usable, "usable_each": row["usable_each"] if is_as_stored else None}
