"""``logits``: logit logs of any engine into the store, what is wrong with them, and two of them beside each other."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.cli.main import emit_json
from engine.cli.output import table, write
from engine.cli.run import store_command
from engine.cli.watched import add_watched_options, reporting
from engine.errors import DriftscopeError, FileFormatError, RunError, one_line, shown

if TYPE_CHECKING:
    from pathlib import Path

    from engine.cli.watched import Say
    from engine.logits.adding import Names
    from engine.store.entries import Entry
    from engine.store.store import Store

COLUMNS = ("log", "engine", "model", "precision", "entries", "values", "flagged", "by report", "likely cause", "")
AGREED = {
    "max_difference": "largest",
    "mean_difference": "mean",
    "relative": "relative",
    "cosine": "cosine",
    "rank": "rank",
    "top_1": "top-1",
}
DRAW_ENTRIES = 10_000
MOST_NAME = 40


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "logit logs (JSONL) of any engine: damage and parity"
    parser = commands.add_parser("logits", help=what, description=what)
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    added = store_command(inner, "add", add, "read log files, gz or not, into the store")
    added.add_argument("files", nargs="+", metavar="FILE", help="names, or patterns in quotes")
    added.add_argument("--engine", metavar="E", help="in place of what the entries say")
    added.add_argument("--model", metavar="M", help="in place of what the entries say")
    added.add_argument("--precision", metavar="P", help="such as Q4_K_M, in place of what the entries say")
    added.add_argument("--label", help="a name of your own")
    add_watched_options(added)
    store_command(inner, "list", list_logs, "the logs of the store")
    shown_ = store_command(inner, "show", show, "what is wrong with a log, and why")
    shown_.add_argument("log_id", metavar="LOG", help="its name, or a part of it that no other has")
    compared = store_command(inner, "parity", parity, "how far two engines agree on the same prompt")
    compared.add_argument("control", metavar="CONTROL")
    compared.add_argument("test", metavar="TEST")
    removed = store_command(inner, "rm", remove, "remove logs")
    removed.add_argument("log_ids", nargs="+", metavar="LOG")
    removed.add_argument("--yes", action="store_true", help="do not ask")


def add(args: argparse.Namespace) -> int:
    from engine.logits.adding import Names
    from engine.store.reports.importing import expand
    from engine.store.store import Store

    store = Store.open(args.store)
    names = Names(args.engine, args.model, args.precision, args.label)
    paths, last = expand(args.files), None
    entries: list[Entry] = []
    with reporting(args) as tell:
        for number, path in enumerate(paths):
            say = partial(tell, part=number, parts=len(paths), file=path.name)
            try:
                entries += _added(store, path, names, say)
            except DriftscopeError as error:
                say(now=True, state="failed", error=str(error))
                if len(paths) == 1:
                    raise
                last = error
                sys.stderr.write(f"left out: {path}: {error}\n")
    if last is not None and not entries:
        raise FileFormatError(f"none of {len(paths)} files can be read", str(last))
    _show(entries, is_json=args.json)
    return 0


def _added(store: Store, path: Path, names: Names, say: Say) -> list[Entry]:
    """A file's logs; what was odd about them is said."""
    from engine.logits.adding import AlreadyThere, add_file

    def progress(entries: int, share: float) -> None:
        say(done=entries, work=share)
        _progress(entries)

    say(now=True, done=0, work=0.0)
    found = add_file(store, path, names, progress)
    entries = [one.entry if isinstance(one, AlreadyThere) else one for one in found]
    is_new = not all(isinstance(one, AlreadyThere) for one in found)
    count = sum(entry.row["entries"] for entry in entries)
    made = " ".join(entry.id for entry in entries)
    say(now=True, state="done" if is_new else "there", done=count, work=1.0, made=made)
    for one in found:
        if isinstance(one, AlreadyThere):
            sys.stderr.write(f"{one.entry.row.get('file')} is there already, as {one.entry.id}\n")
    for entry in entries:
        if entry.row.get("left_out") or entry.row.get("is_cut"):
            sys.stderr.write(f"{entry.id}: {one_line(entry.row.get('notes') or '')}\n")
    return entries


def list_logs(args: argparse.Namespace) -> int:
    from engine.store.schema import LOGIT_LOG

    store = _open(args)
    found = store.found(LOGIT_LOG)
    for damage in found.damages:
        sys.stderr.write(f"left out: {damage.where}: {damage.what}\n")
    _show(found.entries, is_json=args.json)
    if not found.entries and not args.json:
        sys.stderr.write(f"{shown(store.home.where, 200)} holds no logit log; `logits add` reads one\n")
    return 0


def show(args: argparse.Namespace) -> int:
    from engine.logits.figures import health
    from engine.logits.words import health_sentences
    from engine.store.schema import LOGIT_LOG

    store = _open(args)
    found = health(store, store.entry(args.log_id, LOGIT_LOG))
    if args.json:
        emit_json(found.sheet())
    else:
        for sentence in health_sentences(found):
            write(one_line(sentence))
    return 0


def parity(args: argparse.Namespace) -> int:
    from engine.logits.parity import compare_logs
    from engine.logits.parity_words import cautions, parity_sentences
    from engine.store.schema import LOGIT_LOG

    store = _open(args)
    logs = store.found(LOGIT_LOG)
    control, test = (logs.get(one, LOGIT_LOG) for one in (args.control, args.test))
    found = compare_logs(store, control, test)
    if args.json:
        emit_json(found.sheet())
        return 0
    rows = []
    for one in found.filters:
        for name, agreement in (("all values", one.with_flagged), ("without flagged", one.without_flagged)):
            rows.append(
                [one.name, name, f"{agreement.values:,}", *(_figure(getattr(agreement, key)) for key in AGREED)]
            )
    write(table(("positions", "", "values", *AGREED.values()), rows))
    for sentence in (*cautions(control, test), *parity_sentences(found)):
        write(one_line(sentence))
    return 0


def remove(args: argparse.Namespace) -> int:
    from engine.store.schema import LOGIT_LOG

    store = _open(args)
    there = {name.partition("=")[2] for name in store.home.folders(LOGIT_LOG.folder)}  # damaged ones, too
    chosen = list(dict.fromkeys(one if one in there else store.own(one, LOGIT_LOG).id for one in args.log_ids))
    if not args.yes and not _agreed(f"Remove {', '.join(chosen)} from {shown(store.home.where, 200)}?"):
        raise RunError("nothing was removed", "Answer y, or give --yes")
    for one in chosen:
        store.remove(one, LOGIT_LOG)
    if args.json:
        emit_json([{"log_id": one} for one in chosen])
    return 0


def _open(args: argparse.Namespace) -> Store:
    from engine.store.store import Store

    return Store.open(args.store)


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _progress(entries: int) -> None:
    if sys.stderr.isatty() and entries >= DRAW_ENTRIES:
        sys.stderr.write(f"\r{entries:,} entries\033[K")
        sys.stderr.flush()


def _show(entries: Any, *, is_json: bool) -> None:
    rows = list(_rows(entries))
    if is_json:
        emit_json(rows)
    elif rows:
        write(table(COLUMNS, [_line(row) for row in rows]))


def _rows(entries: Any) -> Iterator[dict[str, Any]]:
    """All columns of a log, in JSON's types."""
    from engine.store.schema import LOGIT_LOGS

    for entry in entries:
        row = {name: entry.row.get(name) for name in LOGIT_LOGS.names}
        row["created_at"] = row["created_at"].isoformat() if row["created_at"] is not None else None
        yield row


def _line(row: Mapping[str, Any]) -> tuple[str, ...]:
    def share(part: str) -> str:
        return f"{row[part] / row['entries']:.1%}" if row["entries"] and row[part] is not None else ""

    return (
        row["log_id"],
        *(_short(one_line(row[name] or "")) for name in ("engine", "model", "precision")),
        f"{row['entries']:,}",
        f"{row['values_logged']:,}",
        share("flagged_entries"),
        share("garbage_entries"),
        row["cause"] or "",
        row["certainty"] or "",
    )


def _short(name: str) -> str:
    return name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 1]}…"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
