"""``import`` and ``export``: report files into the store and out of it."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.main import emit_json
from engine.cli.output import bar, json_option, path_of
from engine.cli.run import add_store_option
from engine.cli.run_tables import run_row, show_rows
from engine.cli.watched import add_watched_options, reporting
from engine.errors import DriftscopeError, FileFormatError

if TYPE_CHECKING:
    from engine.cli.watched import Say
    from engine.store.entries import Entry
    from engine.store.store import Store


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "import",
        parents=[json_option()],
        help="report files (JSON, also as .gz) into the store",
        description="Each report file becomes a run: its texts are read anew, its own figures kept.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="report files, or patterns such as 'smoke/**/*.json'")
    parser.add_argument("--label", help="a name of your own")
    parser.add_argument("--tokenizer", metavar="T", help="qwen3, llama3 or a folder, in place of what the files name")
    add_store_option(parser)
    add_watched_options(parser)
    parser.set_defaults(run=import_files)
    parser = commands.add_parser(
        "export",
        parents=[json_option()],
        help="a run as a report file",
        description="A run of the store in the report format, .gz by the file's name.",
    )
    parser.add_argument("run_id", metavar="RUN")
    parser.add_argument("file", metavar="FILE", nargs="?", help="RUN.json without it")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    add_store_option(parser)
    parser.set_defaults(run=export_file)


def import_files(args: argparse.Namespace) -> int:
    from engine.store.reports.importing import expand
    from engine.store.store import Store

    store = Store.open(args.store)
    paths = expand(args.files)
    entries, last = [], None
    with reporting(args) as tell:
        for number, path in enumerate(paths):
            say = partial(tell, part=number, parts=len(paths), file=path.name)
            try:
                entries.append(_imported(store, path, args, say))
            except DriftscopeError as error:
                say(now=True, state="failed", error=str(error))
                if len(paths) == 1:
                    raise
                last = error
                sys.stderr.write(f"left out: {path}: {error}\n")
    if last is not None and not entries:
        raise FileFormatError(f"none of {len(paths)} files can be read", str(last))
    show_rows([run_row(entry) for entry in entries], is_json=args.json)
    return 0


def _imported(store: Store, path: Path, args: argparse.Namespace, say: Say) -> Entry:
    from engine.store.reports.importing import AlreadyThere, import_report

    is_watched = sys.stderr.isatty()

    def progress(done: int, samples: int) -> None:
        say(done=done, samples=samples)
        if is_watched:
            sys.stderr.write(f"\r{bar(done / max(samples, 1))} {done:,}/{samples:,} samples\033[K")
            sys.stderr.flush()

    found = import_report(store, path, label=args.label, tokenizer=args.tokenizer, progress=progress)
    if is_watched:
        sys.stderr.write("\r\033[K")
    if isinstance(found, AlreadyThere):
        say(now=True, run_id=found.entry.id, state="there")
        sys.stderr.write(f"{path} is there already, as {found.entry.id}\n")
        return found.entry
    say(now=True, run_id=found.id, state="done")
    return found


def export_file(args: argparse.Namespace) -> int:
    from engine.store.reports.exporting import export_report
    from engine.store.store import Store

    entry = Store.open(args.store).entry(args.run_id)
    path = path_of(args.file or f"{entry.id}.json")
    if path.exists() and not args.force:
        raise FileFormatError(f"{path} is there already", "Give another name, or --force")
    export_report(entry, path)
    row = {**run_row(entry), "file": str(path)}
    if args.json:
        emit_json([row])
    else:
        sys.stderr.write(f"{path}: {entry.row.get('samples') or 0:,} samples\n")
    return 0
