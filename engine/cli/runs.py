"""``runs``, ``show``, ``compare``, ``annotate``, ``rm``, ``verify``: what the store holds."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from engine.cli.main import emit_json
from engine.cli.output import table, write
from engine.cli.run import store_command
from engine.cli.run_tables import figure, run_row, show_rows
from engine.errors import RunError, one_line, shown

if TYPE_CHECKING:
    from engine.store.entries import Found
    from engine.store.schema import Kind
    from engine.store.store import Store

COMPARED = {
    "part": "",
    "run_id": "run",
    "lp": "LP",
    "wall_s": "s",
    "wall_s_ratio": "x",
    "tokens": "tokens",
    "tokens_ratio": "x",
    "ms_a_token": "ms/token",
    "ms_a_token_ratio": "x",
    "pass_rate": "passed",
    "pass_rate_low": "from",
    "pass_rate_high": "to",
    "junk_letters": "letters",
    "junk_nonnumeric": "not num.",
    "cut_blocks": "cut",
}


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    runs = store_command(commands, "runs", list_runs, "the runs of the store")
    runs.add_argument("--unfinished", action="store_true", help="those that were stopped, or are being written")
    show = store_command(commands, "show", show_run, "all that is known of a run")
    show.add_argument("run_id", metavar="RUN", help="its name, or a part of it that no other has")
    compared = store_command(commands, "compare", compare_runs, "runs beside a control, with ratios to it")
    compared.add_argument("control", metavar="CONTROL")
    compared.add_argument("tests", nargs="+", metavar="TEST")
    said = store_command(commands, "annotate", annotate, "give a run a label or notes of your own")
    said.add_argument("run_id", metavar="RUN")
    said.add_argument("--label")
    said.add_argument("--notes")
    removed = store_command(commands, "rm", remove, "remove runs, or what is left of unfinished ones")
    removed.add_argument("run_ids", nargs="+", metavar="RUN")
    removed.add_argument("--yes", action="store_true", help="do not ask")
    store_command(commands, "verify", verify, "read every file of the store, and name what is damaged")


def list_runs(args: argparse.Namespace) -> int:
    store = _open(args)
    if args.unfinished:
        rows = _unfinished(store)
        if args.json:
            emit_json(rows)
        else:
            columns = ("run", "samples", "of", "")
            keys = ("run_id", "samples_done", "samples", "state")
            write(table(columns, [["" if row[key] is None else row[key] for key in keys] for row in rows]))
        return 0
    found = _told(store.found())
    show_rows([run_row(entry) for entry in found.entries], is_json=args.json)
    if not found.entries and not args.json:
        sys.stderr.write(f"{shown(store.home.where, 200)} holds no run; `python -m engine run` makes one\n")
    return 0


def show_run(args: argparse.Namespace) -> int:
    row = run_row(_open(args).entry(args.run_id))
    if args.json:
        emit_json([row])
    else:
        width = max(map(len, row))
        for name, value in row.items():
            if value is not None:
                is_whole = isinstance(value, int) and not isinstance(value, bool)
                write(f"{name:<{width}}  {figure(row, name) if is_whole else one_line(str(value))}")
    return 0


def compare_runs(args: argparse.Namespace) -> int:
    from engine.store.comparison import compare
    from engine.store.schema import RUN

    found = _told(_open(args).found())
    rows = compare(found.get(args.control, RUN), [found.get(one, RUN) for one in args.tests])
    if args.json:
        emit_json(rows)
    else:
        write(table(list(COMPARED.values()), [[_cell(name, row[name]) for name in COMPARED] for row in rows]))
    return 0


def annotate(args: argparse.Namespace) -> int:
    said = {key: value for key in ("label", "notes") if (value := getattr(args, key)) is not None}
    if not said:
        raise RunError("there is nothing to say", "Give --label or --notes")
    entry = _open(args).say(args.run_id, **said)
    show_rows([run_row(entry)], is_json=args.json)
    return 0


def remove(args: argparse.Namespace) -> int:
    from engine.store.schema import RUN
    from engine.store.staging import unfinished_ids
    from engine.store.unfinished import abandon, check_idle

    store = _open(args)
    begun = unfinished_ids(store.home, RUN)
    there = {name.partition("=")[2] for name in store.home.folders(RUN.folder)}  # damaged ones, too
    chosen = list(dict.fromkeys(one if one in begun or one in there else store.own(one).id for one in args.run_ids))
    for one in chosen:
        if one in begun:
            check_idle(store.home, one)
    if not args.yes and not _agreed(f"Remove {', '.join(chosen)} from {shown(store.home.where, 200)}?"):
        raise RunError("nothing was removed", "Answer y, or give --yes")
    for one in chosen:
        if one in begun:
            abandon(store.home, one)
        else:
            store.remove(one)
    if args.json:
        emit_json([{"run_id": one} for one in chosen])
    return 0


def verify(args: argparse.Namespace) -> int:
    from engine.store.schema import KINDS, RUN

    store = _open(args)
    rows = [row for kind in KINDS for row in _verified(store, kind)]
    damaged = sum(row["state"] == "damaged" for row in rows)
    for row in _unfinished(store):
        what = _progress(row)
        rows.append(_seen("unfinished", RUN, row["run_id"], store.home.where, what))
    if args.json:
        emit_json(rows)
    else:
        others = [row for row in rows if row["state"] != "whole"]
        for kind in KINDS:
            count = sum(row["state"] == "whole" and row["kind"] == kind.folder for row in rows)
            if count or kind is RUN:
                write(f"{kind.folder} that are whole: {count}")
        for row in others:
            where = row["run_id"] if row["state"] == "unfinished" else row["where"]
            write(one_line(f"{row['state']}: {where}: {row['what']}"))
    if damaged:
        sys.stderr.write(f"driftscope: {damaged} damaged. Run or import them anew, or remove them\n")
        return 2
    return 0


def _verified(store: Store, kind: Kind) -> list[dict[str, Any]]:
    """Every entry of a kind, whole or with what is damaged of it."""
    from engine.store.store import damaged_parts

    found = store.found(kind)
    rows = [_seen("damaged", kind, None, one.where, one.what) for one in found.damages]
    seen = list(rows)
    for entry in found.entries:
        place = f"{entry.files.where}/{entry.folder}/"
        damages = damaged_parts(entry)
        rows += [_seen("damaged", kind, entry.id, one.where, one.what) for one in damages]
        known = [row for row in seen if row["where"].startswith(place)]
        for row in known:
            row |= _named(kind, entry.id)
        if not damages and not known:
            rows.append(_seen("whole", kind, entry.id, entry.files.where, None))
    return rows


def _seen(state: str, kind: Kind, id_: str | None, where: str, what: str | None) -> dict[str, Any]:
    return {"state": state, "kind": kind.folder, **_named(kind, id_), "where": where, "what": what}


def _named(kind: Kind, id_: str | None) -> dict[str, str | None]:
    """``run_id`` is null for what is no run."""
    return {"id": id_, "run_id": id_ if kind.folder == "runs" else None}


def _open(args: argparse.Namespace) -> Store:
    from engine.store.store import Store

    return Store.open(args.store)


def _told(found: Found) -> Found:
    for damage in found.damages:
        sys.stderr.write(one_line(f"left out: {damage.where}: {damage.what}") + "\n")
    return found


def _unfinished(store: Store) -> list[dict[str, Any]]:
    from engine.store.unfinished import unfinished_runs

    keys = ("run_id", "samples_done", "samples", "state")
    return [{key: getattr(one, key) for key in keys} for one in unfinished_runs(store.home)]


def _progress(row: dict[str, Any]) -> str:
    samples = "" if row["samples_done"] is None else f"{row['samples_done']} of {row['samples'] or '?'} samples; "
    return f"{samples}{row['state']}"


def _agreed(question: str) -> bool:
    if not sys.stdin or not sys.stdin.isatty():
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.startswith("pass_rate"):
        return f"{value:.1%}"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else one_line(value)
