"""``import`` and ``export``: report files into the store and out of it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.options import add_command, add_reader_option, open_store
from engine.cli.output import StatusLine, bar, emit_json, note, path_of
from engine.cli.progress_option import add_progress_options
from engine.cli.store_entries import entry_row, read_files, show_runs
from engine.errors import FileFormatError, nearest, shown

if TYPE_CHECKING:
    from engine.cli.progress_option import Say
    from engine.store.entries import Entry
    from engine.store.store import Store


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "import",
        import_files,
        "report files (JSON, also as .gz) and generations (pickles) into the store",
        "Each file becomes a run. A report's texts are checked again, its own figures kept. Of generations, a pickle "
        "{smiles: [Mol, ...]}, the conformers are kept; it is read in a process of its own that runs nothing of it.",
        store=True,
        rules=True,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="files, or patterns such as 'smoke/**/*.json'")
    parser.add_argument("--label", help="a name of your own")
    parser.add_argument("--tokenizer", metavar="T", help="qwen3, llama3 or a folder; overrides the files")
    add_progress_options(parser)
    parser = add_command(
        commands,
        "export",
        export_file,
        "a run as a report file, generations or SDF",
        "A run of the store in the report format (compressed if the file's name ends in .gz), or its conformers: as "
        "the group's evaluation reads them (generations.pickle), or as SDF.",
        store=True,
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="RUN, then FILE (default: RUN and the form)")
    parser.add_argument("--as", dest="form", nargs="+", metavar="FORM", help=f"{', '.join(FORMS)} (report)")
    parser.add_argument("--sdf", metavar="FILE", help="the same as --as sdf FILE")
    add_reader_option(parser)
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


FORMS = {"report": "json", "generations.pickle": "generations.pickle", "sdf": "sdf"}
"""With the ending of a file that is not named."""


def import_files(args: argparse.Namespace) -> int:
    from engine.file_patterns import expand
    from engine.store.generations import import_generations, is_pickle
    from engine.store.reports.importing import AlreadyThere, import_report

    store = open_store(args)

    def read(path: Path, say: Say) -> list[Entry]:
        line = StatusLine()

        def progress(done: int, samples: int) -> None:
            say(done=done, samples=samples)
            line.draw(f"{bar(done / max(samples, 1))} {done:,}/{samples:,} samples", now=done == samples)

        if is_pickle(path):
            run = import_generations(store, path, label=args.label, progress=lambda done: say(done=done), warn=note)
        else:
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
    from engine.store.schema import CONFORMERS

    form, *more = args.form or [""]  # --as takes a FILE or RUN that stands behind its FORM
    names = [*args.names, *more]
    if form and form not in FORMS:
        raise FileFormatError(f"there is no form {shown(form)}", nearest(form, FORMS))
    if not 1 <= len(names) <= 2:
        raise FileFormatError(f"a run and at most one file are needed, not {len(names)} names", "Give RUN and FILE")
    run_id, file = names[0], names[1] if len(names) > 1 else None
    if args.sdf and (file or form not in ("", "sdf")):
        raise FileFormatError(f"{form or 'a report'} goes to FILE or conformers to --sdf", "Give one of the two")
    store = open_store(args)
    entry = store.entry(run_id)
    form = "sdf" if args.sdf else form or "report"
    path = path_of(args.sdf or file or f"{entry.id}.{FORMS[form]}")
    if path.exists() and not path.is_file():
        raise FileFormatError(f"{path} is no plain file", "Give another name")
    if path.exists() and not args.force:
        raise FileFormatError(f"{path} already exists", "Give another name, or --force")
    if form != "report":
        return _export_conformers(store, entry, path, args, is_sdf=form == "sdf")
    if CONFORMERS.name in entry.parts:
        raise FileFormatError(f"{entry.id} has conformers and no texts", "Give --as generations.pickle or --as sdf")
    export_report(entry, path)
    if args.json:
        emit_json([{**entry_row(entry), "file": str(path)}])
    else:
        note(f"{path}: {entry.row.get('samples') or 0:,} samples")
    return 0


def _export_conformers(store: Store, entry: Entry, path: Path, args: argparse.Namespace, *, is_sdf: bool) -> int:
    from engine.inspection.conformer_files import write_generations, write_sdf
    from engine.store.entries import without_samples

    if not store.rows("SELECT 1 FROM samples WHERE run_id = $run LIMIT 1", {"run": entry.id}):
        raise without_samples(entry, "export")
    conformers = (write_sdf if is_sdf else write_generations)(store, entry.id, path, args.reader)
    if args.json:
        emit_json([{**entry_row(entry), "file": str(path), "conformers": conformers, "reader": args.reader}])
    else:
        unread = (entry.row.get("samples") or conformers) - conformers
        failed = f", {unread:,} samples cannot be read" if unread else ""
        note(f"{path}: {conformers:,} conformers{failed}, by the {args.reader} reader")
    return 0
