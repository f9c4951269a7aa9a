"""What commands do with entries of a store, be they runs, traces or logit logs: list, read from files, remove."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.cli.options import open_store
from engine.cli.output import Columns, Row, cell, confirm, emit_json, figure, note, share, show
from engine.cli.progress_option import reporting
from engine.errors import DriftscopeError, FileFormatError, RunError, shown

if TYPE_CHECKING:
    from engine.cli.progress_option import Say
    from engine.store.entries import Entry, StoreListing
    from engine.store.schema import Kind
    from engine.store.store import Store


MOST_LABEL, MOST_DAMAGES = 30, 10


def _model(row: Row) -> str:
    return ":".join(filter(None, [cell(row["model_alias"] or row["model_family"]), cell(row["model_step"])]))


def _label(row: Row) -> str:
    return cell(row["label"] or "", MOST_LABEL)


def _tokens_per_s(row: Row) -> str:
    return f"{row['tokens'] / row['wall_s']:,.0f}" if row["tokens"] and row["wall_s"] else ""


def _by_file(row: Row) -> str:
    """Passes among the items of an imported file, as the file has them."""
    passes, failures = row["reported_passes"], row["reported_failures"]
    if passes is None or failures is None:
        return ""
    return f"{passes:,} of {passes + failures:,}"


RUN_COLUMNS = (
    ("run", "run_id"),
    ("label", _label),
    ("origin", "origin"),
    ("model", _model),
    ("LP", "lp"),
    ("samples", "samples"),
    ("passed", share("passes", "samples")),
    ("decodes", share("decodes", "samples")),
    ("clean", share("clean", "samples")),
    ("usable", share("usable", "judged")),
    ("by its file", _by_file),
    ("blocks", "blocks"),
    ("letters", "junk_letters"),
    ("not num.", "junk_nonnumeric"),
    ("cut", "cut_blocks"),
    ("RMSD Å", figure("rmsd_ang", ".2f")),
    ("s", figure("wall_s", ",.1f")),
    ("tokens/s", _tokens_per_s),
    ("MB", figure("peak_memory_mb", ",.0f")),
)


def entry_row(entry: Entry, kind: Kind | None = None) -> dict[str, Any]:
    """All columns of an entry, in JSON's types; without ``kind``, of a run."""
    from engine.store.schema import RUN

    table = (kind or RUN).main
    row: dict[str, Any] = dict.fromkeys(table.by_name) | dict(entry.row)
    return row | {name: row[name].isoformat() for name in table.moments if row[name] is not None}


def show_runs(entries: Iterable[Entry], *, is_json: bool) -> None:
    entries = list(entries)
    show([entry_row(entry) for entry in entries], (*RUN_COLUMNS, *_in_use(entries)), is_json=is_json)


def _in_use(entries: Sequence[Entry]) -> Columns:
    """Tags, and what RMSD is to the nearest of: columns only where an entry has them."""
    from engine.store.entries import rmsd_references

    tags: Columns = (("tags", lambda row: cell(", ".join(row["tags"] or ()))),)
    known = [entry for entry in entries if entry.row.get("rmsd_ang") is not None]
    named = {entry.id: rmsd_references(entry) or "not named" for entry in known}
    rmsd: Columns = (("RMSD to", lambda row: named.get(row["run_id"], "")),)
    return (*(tags if any(entry.row.get("tags") for entry in entries) else ()), *(rmsd if named else ()))


def list_entries(args: argparse.Namespace, kind: Kind, columns: Columns, missing: str) -> int:
    """The store's entries of a kind; ``missing``, where it has none, names one and how to make it."""
    store = open_store(args)
    gc.disable()  # nothing of a listing is garbage, and it would be searched again and again
    try:
        entries = without_damaged(store.found(kind)).entries
        show([entry_row(entry, kind) for entry in entries], (*columns, *_in_use(entries)), is_json=args.json)
    finally:
        gc.enable()
    if not entries and not args.json:
        note(f"{shown(store.home.where, 200)} has no {missing}")
    return 0


def without_damaged(found: StoreListing) -> StoreListing:
    """Names what is damaged, on standard error: the first of it."""
    for damage in found.damages[:MOST_DAMAGES]:
        note(f"left out: {damage.where}: {damage.what}")
    if len(found.damages) > MOST_DAMAGES:
        note(f"left out: {len(found.damages) - MOST_DAMAGES:,} more; `verify` names all")
    return found


def read_files(
    args: argparse.Namespace, paths: Sequence[Path], read: Callable[[Path, Say], Sequence[Entry]]
) -> list[Entry]:
    """The entries that files became. A file that cannot be read is named; it is an error only where no file can."""
    entries: list[Entry] = []
    last = None
    with reporting(args) as report:
        for number, path in enumerate(paths):
            say = partial(report, part=number, parts=len(paths), file=path.name)
            try:
                entries += read(path, say)
            except DriftscopeError as error:
                say(now=True, state="failed", error=str(error))
                if len(paths) == 1:
                    raise
                last = error
                note(f"left out: {path}: {error}")
    if last is not None and not entries:
        raise FileFormatError(f"none of {len(paths)} files can be read", str(last))
    return entries


def remove_entries(
    args: argparse.Namespace,
    store: Store,
    kind: Kind,
    names: Sequence[str],
    remove: Callable[[str], object],
    unfinished: Sequence[str] = (),
) -> int:
    """Removes entries by their names or parts of names, damaged ones too; asks first, unless --yes."""
    known = {name.partition("=")[2] for name in store.home.folders(kind.folder)} | set(unfinished)
    ids = list(dict.fromkeys(name if name in known else store.own(name, kind).id for name in names))
    if not confirm(f"Remove {', '.join(ids)} from {shown(store.home.where, 200)}?", args):
        raise RunError("nothing was removed", "Answer y, or give --yes")
    for id_ in ids:
        remove(id_)
    if args.json:
        emit_json([{kind.key: id_} for id_ in ids])
    return 0
