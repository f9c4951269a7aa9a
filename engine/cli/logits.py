"""``logits``: logit logs of any engine into the store, what is wrong with them, and two of them side by side."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.options import add_command, open_store
from engine.cli.output import StatusLine, cell, emit_json, note, share, show, write
from engine.cli.progress_option import add_progress_options
from engine.cli.store_entries import entry_row, list_entries, read_files, remove_entries

if TYPE_CHECKING:
    from engine.cli.output import Columns
    from engine.cli.progress_option import Say
    from engine.store.entries import Entry

MOST_NAME = 40
COLUMNS: Columns = (
    ("log", "log_id"),
    *((key, lambda row, key=key: cell(row[key], MOST_NAME)) for key in ("label", "engine", "model", "precision")),
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
        state, made = "done" if any(log.is_new for log in logs) else "there", " ".join(entry.id for entry in entries)
        say(now=True, state=state, done=sum(entry.row["entries"] for entry in entries), work=1.0, made=made)
        for log in logs:
            row = log.entry.row
            if not log.is_new:
                note(f"{row.get('file')} is already in the store, as {log.entry.id}")
            if row.get("left_out") or row.get("is_cut"):
                note(f"{log.entry.id}: {row.get('notes') or ''}")
        return entries

    entries = read_files(args, expand(args.files), read)
    show([entry_row(entry, LOGIT_LOG) for entry in entries], COLUMNS, is_json=args.json)
    return 0


def list_logs(args: argparse.Namespace) -> int:
    from engine.store.schema import LOGIT_LOG

    return list_entries(args, LOGIT_LOG, COLUMNS, "logit log; `python -m engine logits add` reads one")


def show_log(args: argparse.Namespace) -> int:
    from engine.logits.health import health
    from engine.logits.pairs import late_in_store
    from engine.questions import ask
    from engine.store.schema import LOGIT_LOG

    store = open_store(args)
    log = store.entry(args.log_id, LOGIT_LOG)
    if args.json:
        late = late_in_store(store, log)
        emit_json(health(store, log).sheet() | {"read_late": None if late is None else asdict(late)})
    else:
        write(ask(store, "logits_health", [log.id]).answer)
    return 0


def parity(args: argparse.Namespace) -> int:
    from engine.logits.parity import compare_logs
    from engine.questions import ask
    from engine.store.schema import LOGIT_LOG

    store = open_store(args)
    control, test = (store.found(LOGIT_LOG).get(name, LOGIT_LOG) for name in (args.control, args.test))
    if args.json:
        emit_json(asdict(compare_logs(store, control, test)))
    else:
        write(ask(store, "logits_parity", [control.id, test.id]).answer)
    return 0


def remove(args: argparse.Namespace) -> int:
    from engine.store.schema import LOGIT_LOG

    store = open_store(args)
    return remove_entries(args, store, LOGIT_LOG, args.log_ids, lambda id_: store.remove(id_, LOGIT_LOG))
