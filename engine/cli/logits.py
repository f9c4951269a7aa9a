"""``logits``: logit logs of any engine into the store, what is wrong with them, and two of them side by side."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.options import add_command, open_store
from engine.cli.output import StatusLine, cell, emit_json, note, share, show, table, write
from engine.cli.progress_option import add_progress_options
from engine.cli.store_entries import entry_row, list_entries, read_files, remove_entries
from engine.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.cli.output import Row
    from engine.cli.progress_option import Say
    from engine.store.entries import Entry

MOST_NAME = 40


def _short(key: str) -> Callable[[Row], str]:
    return lambda row: cell(row[key], MOST_NAME)


COLUMNS = (
    ("log", "log_id"),
    ("label", _short("label")),
    ("engine", _short("engine")),
    ("model", _short("model")),
    ("precision", _short("precision")),
    ("entries", "entries"),
    ("values", "values_logged"),
    ("flagged", share("flagged_entries", "entries")),
    ("by report", share("garbage_entries", "entries")),
    ("likely cause", "cause"),
    ("", "certainty"),
)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "logit logs (JSONL) of any engine: damage and parity"
    parser = commands.add_parser("logits", help=what, description=what)
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    added = add_command(inner, "add", add, "read log files, gz or not, into the store", store=True)
    added.add_argument("files", nargs="+", metavar="FILE", help="names, or patterns in quotes")
    added.add_argument("--engine", metavar="E", help="overrides the entries")
    added.add_argument("--model", metavar="M", help="overrides the entries")
    added.add_argument("--precision", metavar="P", help="such as Q4_K_M; overrides the entries")
    added.add_argument("--label", help="a name of your own")
    add_progress_options(added)
    add_command(inner, "list", list_logs, "the logs of the store", store=True)
    shown_ = add_command(inner, "show", show_log, "what is wrong with a log, and why", store=True)
    shown_.add_argument("log_id", metavar="LOG", help="its id, or a part of it that no other has")
    compared = add_command(inner, "parity", parity, "how far two engines agree on the same prompt", store=True)
    compared.add_argument("control", metavar="CONTROL")
    compared.add_argument("test", metavar="TEST")
    removed = add_command(inner, "rm", remove, "remove logs", store=True)
    removed.add_argument("log_ids", nargs="+", metavar="LOG")
    removed.add_argument("--yes", action="store_true", help="do not ask")


def add(args: argparse.Namespace) -> int:
    from engine.file_patterns import expand
    from engine.logits.ingest import LogNames, add_file
    from engine.store.schema import LOGIT_LOG

    store = open_store(args)
    names = LogNames(args.engine, args.model, args.precision, args.label)

    def read(path: Path, say: Say) -> list[Entry]:
        line = StatusLine(is_quiet=args.json)

        def progress(entries: int, share: float) -> None:
            say(done=entries, work=share)
            line.draw(f"{entries:,} entries")

        say(now=True, done=0, work=0.0)
        logs = add_file(store, path, names, progress)
        line.clear()
        entries = [log.entry for log in logs]
        say(
            now=True,
            state="done" if any(log.is_new for log in logs) else "there",
            done=sum(entry.row["entries"] for entry in entries),
            work=1.0,
            made=" ".join(entry.id for entry in entries),
        )
        for log in logs:
            if not log.is_new:
                note(f"{log.entry.row.get('file')} is already in the store, as {log.entry.id}")
        for entry in entries:
            if entry.row.get("left_out") or entry.row.get("is_cut"):
                note(f"{entry.id}: {entry.row.get('notes') or ''}")
        return entries

    entries = read_files(args, expand(args.files), read)
    show([entry_row(entry, LOGIT_LOG) for entry in entries], COLUMNS, is_json=args.json)
    return 0


def list_logs(args: argparse.Namespace) -> int:
    from engine.store.schema import LOGIT_LOG

    return list_entries(args, LOGIT_LOG, COLUMNS, "logit log; `python -m engine logits add` reads one")


def show_log(args: argparse.Namespace) -> int:
    from engine.logits.health import health
    from engine.logits.health_words import health_sentences
    from engine.logits.late_reads import late_in_store
    from engine.store.schema import LOGIT_LOG

    store = open_store(args)
    log = store.entry(args.log_id, LOGIT_LOG)
    log_health, late = health(store, log), late_in_store(store, log)
    if args.json:
        emit_json(log_health.sheet() | {"read_late": None if late is None else asdict(late)})
    else:
        write("\n".join(map(one_line, health_sentences(log_health, late))))
    return 0


def parity(args: argparse.Namespace) -> int:
    from engine.logits.parity import compare_logs
    from engine.logits.parity_words import FIGURE_NAMES, cautions, parity_sentences
    from engine.store.schema import LOGIT_LOG

    store = open_store(args)
    logs = store.found(LOGIT_LOG)
    control, test = logs.get(args.control, LOGIT_LOG), logs.get(args.test, LOGIT_LOG)
    comparison = compare_logs(store, control, test)
    if args.json:
        emit_json(asdict(comparison))
        return 0
    rows = []
    for positions in comparison.filters:
        for name, agreement in (("all values", positions.with_flagged), ("without flagged", positions.without_flagged)):
            figures = [getattr(agreement, key) for key in FIGURE_NAMES]
            figures = ["" if value is None else f"{value:.6g}" for value in figures]
            rows.append([positions.name, name, f"{agreement.values:,}", *figures])
    write(table(("positions", "", "values", *FIGURE_NAMES.values()), rows))
    write("\n".join(map(one_line, [*cautions(control, test), *parity_sentences(comparison)])))
    return 0


def remove(args: argparse.Namespace) -> int:
    from engine.store.schema import LOGIT_LOG

    store = open_store(args)
    return remove_entries(args, store, LOGIT_LOG, args.log_ids, lambda id_: store.remove(id_, LOGIT_LOG))
