"""``import`` and ``export``: report files into the store and out of it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.options import add_command, add_reader_option, open_store
from engine.cli.output import StatusLine, bar, emit_json, note, path_of
from engine.cli.progress_option import add_progress_options
from engine.cli.store_entries import entry_row, read_files, show_runs
from engine.errors import FileFormatError

if TYPE_CHECKING:
    from engine.cli.progress_option import Say
    from engine.store.entries import Entry
    from engine.store.store import Store


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "import",
        import_files,
        "report files (JSON, also as .gz) into the store",
        "Each report file becomes a run. Its texts are checked again; its own figures are kept.",
        store=True,
        rules=True,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="report files, or patterns such as 'smoke/**/*.json'")
    parser.add_argument("--label", help="a name of your own")
    parser.add_argument("--tokenizer", metavar="T", help="qwen3, llama3 or a folder; overrides the files")
    add_progress_options(parser)
    parser = add_command(
        commands,
        "export",
        export_file,
        "a run as a report file",
        "A run of the store in the report format; compressed if the file's name ends in .gz.",
        store=True,
    )
    parser.add_argument("run_id", metavar="RUN")
    parser.add_argument("file", metavar="FILE", nargs="?", help="default: RUN.json")
    parser.add_argument("--sdf", metavar="FILE", help="write its conformers as SDF, and no report")
    add_reader_option(parser)
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def import_files(args: argparse.Namespace) -> int:
    from engine.file_patterns import expand
    from engine.store.reports.importing import AlreadyThere, import_report

    store = open_store(args)

    def read(path: Path, say: Say) -> list[Entry]:
        line = StatusLine()

        def progress(done: int, samples: int) -> None:
            say(done=done, samples=samples)
            line.draw(f"{bar(done / max(samples, 1))} {done:,}/{samples:,} samples", now=done == samples)

        run = import_report(store, path, label=args.label, tokenizer=args.tokenizer, progress=progress)
        line.clear()
        entry = run.entry if isinstance(run, AlreadyThere) else run
        say(now=True, run_id=entry.id, state="there" if isinstance(run, AlreadyThere) else "done")
        if isinstance(run, AlreadyThere):
            note(f"{path} is already in the store, as {entry.id}")
        return [entry]

    show_runs(read_files(args, expand(args.files), read), is_json=args.json)
    return 0


def export_file(args: argparse.Namespace) -> int:
    from engine.store.reports.exporting import export_report

    store = open_store(args)
    entry = store.entry(args.run_id)
    path = path_of(args.sdf or args.file or f"{entry.id}.json")
    if path.exists() and not args.force:
        raise FileFormatError(f"{path} already exists", "Give another name, or --force")
    if args.sdf:
        return _export_sdf(store, entry, path, args)
    export_report(entry, path)
    if args.json:
        emit_json([{**entry_row(entry), "file": str(path)}])
    else:
        note(f"{path}: {entry.row.get('samples') or 0:,} samples")
    return 0


def _export_sdf(store: Store, entry: Entry, path: Path, args: argparse.Namespace) -> int:
    from engine.chem.structure_files import to_sdf
    from engine.inspection.conformers import conformers_of
    from engine.store.entries import without_samples

    if args.file:
        raise FileFormatError(f"a report goes to {args.file} or conformers to {args.sdf}", "Give one of the two")
    mols, properties = conformers_of(store, entry.id, reader=args.reader)
    if not mols and not store.rows("SELECT 1 FROM samples WHERE run_id = $run LIMIT 1", {"run": entry.id}):
        raise without_samples(entry, "export")
    path.write_text(to_sdf(mols, properties), encoding="utf-8")
    if args.json:
        emit_json([{**entry_row(entry), "file": str(path), "conformers": len(mols), "reader": args.reader}])
    else:
        unread = (entry.row.get("samples") or len(mols)) - len(mols)
        failed = f", {unread:,} samples cannot be read" if unread else ""
        note(f"{path}: {len(mols):,} conformers{failed}, by the {args.reader} reader")
    return 0
