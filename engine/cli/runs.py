"""``runs``, ``show``, ``compare``, ``annotate``, ``rm``, ``verify``: what the store holds."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.cli.options import add_command, open_store
from engine.cli.output import cell, emit_json, figure, note, show, write
from engine.cli.store_entries import RUN_COLUMNS, entry_row, list_entries, remove_entries, show_runs, without_damaged
from engine.errors import RunError, StoreFolderError, one_line
from engine.figures.words import shortened

if TYPE_CHECKING:
    from engine.cli.output import Columns, Row
    from engine.store.schema import Kind
    from engine.store.store import Store


COMPARED: Columns = (
    ("", "part"),
    ("run", "run_id"),
    ("LP", "lp"),
    ("s", "wall_s"),
    ("x", "wall_s_ratio"),
    ("tokens", "tokens"),
    ("x", "tokens_ratio"),
    ("ms/token", "ms_a_token"),
    ("x", "ms_a_token_ratio"),
    ("passed", figure("pass_rate", ".1%")),
    ("from", figure("pass_rate_low", ".1%")),
    ("to", figure("pass_rate_high", ".1%")),
    ("decodes", figure("decodes_rate", ".1%")),
    ("clean", figure("clean_rate", ".1%")),
    ("usable", figure("usable_rate", ".1%")),
    ("letters", "junk_letters"),
    ("not num.", "junk_nonnumeric"),
    ("cut", "cut_blocks"),
)
ROW_COLUMNS = (
    "origin label model_alias model_step model_family tokenizer lp backend sampling samples passes decodes clean "
    "blocks junk_letters junk_nonnumeric bad_blocks cut_blocks wall_s decode_s tokens forced_tokens forward_passes "
    "chars_raw chars_clean"
).split()
ROW_FIGURES = (
    "pass_rate",
    "decodes_rate",
    "clean_rate",
    "usable_rate",
    "ms_a_token",
    "wall_s_a_sample",
    "forced_share",
)
ROW_RATIOS = ("wall_s", "tokens", "ms_a_token", "forward_passes", "pass_rate", "wall_s_a_sample")
"""Columns, figures and ratios of a row of `compare --json`."""
MOST_SHOWN = 10_000
"""Characters of a text; `--json` has all."""
UNFINISHED: Columns = (("run", "run_id"), ("samples", "samples_done"), ("of", "samples"), ("", "state"))


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    runs = add_command(commands, "runs", list_runs, "the runs of the store", store=True, rules=True)
    runs.add_argument("--unfinished", action="store_true", help="runs that were stopped, or are being written")
    show_ = add_command(commands, "show", show_run, "every column of a run, and its pace", store=True, rules=True)
    show_.add_argument("run_id", metavar="RUN", help="its id, or a part of it that no other has")
    compared = add_command(
        commands, "compare", compare_runs, "runs beside a control, with ratios to it", store=True, rules=True
    )
    compared.add_argument("control", metavar="CONTROL")
    compared.add_argument("tests", nargs="+", metavar="TEST")
    annotated = add_command(
        commands, "annotate", annotate, "give a run a label, notes or tags of your own", store=True, rules=True
    )
    annotated.add_argument("run_id", metavar="RUN")
    annotated.add_argument("--label")
    annotated.add_argument("--notes")
    annotated.add_argument("--tag", action="append", default=[], metavar="TAG", help="add this tag; may be repeated")
    annotated.add_argument("--untag", action="append", default=[], metavar="TAG", help="take it away; may be repeated")
    removed = add_command(commands, "rm", remove, "remove runs, finished or not", store=True)
    removed.add_argument("run_ids", nargs="+", metavar="RUN")
    removed.add_argument("--yes", action="store_true", help="do not ask")
    add_command(commands, "verify", verify, "read every file of the store, and name what is damaged", store=True)


def list_runs(args: argparse.Namespace) -> int:
    from engine.store.schema import RUN

    if args.unfinished:
        show(_unfinished(open_store(args)), UNFINISHED, is_json=args.json)
        return 0
    return list_entries(args, RUN, RUN_COLUMNS, "run; `python -m engine run` makes one")


def show_run(args: argparse.Namespace) -> int:
    from engine.questions import ask

    store = open_store(args)
    entry = store.entry(args.run_id)
    figures = {
        row["measure"]: row["value"] for row in ask(store, "compare_figures", [entry.id]).tables["main"].to_pylist()
    }
    row = entry_row(entry) | {name: figures.get(name) for name in ("wall_s_a_sample", "ms_a_token")}
    if args.json:
        emit_json([row])
        return 0
    row |= {name: value for name, value in figures.items() if name.startswith("strain")}
    width = max(map(len, row))
    for name, value in row.items():
        if value is not None:
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            text = ", ".join(value) if isinstance(value, list) else str(value)
            write(f"{name:<{width}}  {cell(value) if is_whole else one_line(shortened(text, MOST_SHOWN))}")
    return 0


def compare_runs(args: argparse.Namespace) -> int:
    """The question ``compare_figures``, a row for each run."""
    from engine.comparing.measures import BY_NAME, has_samples
    from engine.questions import ask
    from engine.store.schema import RUN

    store = open_store(args)
    found = without_damaged(store.found())
    entries = [found.get(name, RUN) for name in (args.control, *args.tests)]
    figures: dict[tuple[str, str], Row] = {}
    for entry in entries:  # one by one, so that a run may be compared with itself
        for figure_ in ask(store, "compare_figures", [entries[0].id, entry.id]).tables["main"].to_pylist():
            figures[figure_["run"], figure_["measure"]] = figure_
    rows: list[dict[str, Any]] = []
    for place, entry in enumerate(entries):
        row: dict[str, Any] = {"part": "test" if place else "control", "run_id": entry.id}
        row |= {name: entry.row.get(name) for name in ROW_COLUMNS}
        for name in ROW_FIGURES:
            row[name] = figures.get((entry.id, name), {}).get("value")
        row |= {f"pass_rate_{end}": figures.get((entry.id, "pass_rate"), {}).get(end) for end in ("low", "high")}
        for name in ROW_RATIOS:
            of_run = figures.get((entry.id, name), {})
            is_itself = entry.id == entries[0].id
            one = 1.0 if is_itself and of_run.get("value") else None
            row[f"{name}_ratio"] = one if is_itself else of_run.get("ratio")
            if BY_NAME[name].sample:
                for end in ("low", "high"):
                    itself = one if has_samples(entry) else None
                    row[f"{name}_ratio_{end}"] = itself if is_itself else of_run.get(f"ratio_{end}")
        rows.append(row)
    show(rows, COMPARED, is_json=args.json)
    return 0


def annotate(args: argparse.Namespace) -> int:
    values = {key: value for key in ("label", "notes") if (value := getattr(args, key)) is not None}
    if not values and not args.tag and not args.untag:
        raise RunError("nothing to change", "Give --label, --notes, --tag or --untag")
    store = open_store(args)
    run_id = store.own(args.run_id).id
    store.tag([run_id], add=args.tag, take=args.untag)
    show_runs([store.annotate(run_id, **values)], is_json=args.json)
    return 0


def remove(args: argparse.Namespace) -> int:
    from engine.store.schema import RUN
    from engine.store.staging import unfinished_ids
    from engine.store.unfinished import abandon, check_idle

    store = open_store(args)
    unfinished = unfinished_ids(store.home, RUN)
    for id_ in args.run_ids:
        if id_ in unfinished:
            check_idle(store.home, id_)
    return remove_entries(
        args,
        store,
        RUN,
        args.run_ids,
        lambda id_: abandon(store.home, id_) if id_ in unfinished else store.remove(id_),
        unfinished,
    )


def verify(args: argparse.Namespace) -> int:
    from engine.store.schema import KINDS, RUN

    store = open_store(args, to_read=True)
    rows = [row for kind in KINDS for row in _or_damage(store, kind, partial(_verified, store, kind))]
    rows += _or_damage(store, RUN, partial(_being_written, store))
    damaged = sum(row["state"] == "damaged" for row in rows)
    if args.json:
        emit_json(rows)
    else:
        for kind in KINDS:
            count = sum(row["state"] == "whole" and row["kind"] == kind.folder for row in rows)
            if count or kind is RUN:
                write(f"{kind.folder}: {count} whole")
        for row in rows:
            if row["state"] != "whole":
                where = row["run_id"] if row["state"] == "unfinished" else row["where"]
                write(one_line(f"{row['state']}: {where}: {row['what']}"))
    if damaged:
        note(f"driftscope: {damaged} damaged. Run or import them again, or remove them")
        return 2
    return 0


def _or_damage(store: Store, kind: Kind, read: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What ``read`` finds; where a folder of the store is a file, that as damage: the others are looked at still."""
    try:
        return read()
    except StoreFolderError as error:
        return [_verdict("damaged", kind, None, store.home.where, error.what)]


def _being_written(store: Store) -> list[dict[str, Any]]:
    from engine.store.schema import RUN

    rows = []
    for run in _unfinished(store):
        samples = "" if run["samples_done"] is None else f"{run['samples_done']} of {run['samples'] or '?'} samples; "
        rows.append(_verdict("unfinished", RUN, run["run_id"], store.home.where, samples + run["state"]))
    return rows


def _verified(store: Store, kind: Kind) -> list[dict[str, Any]]:
    """Every entry of a kind, whole or with what is damaged of it."""
    from engine.store.store import damaged_parts

    found = store.found(kind)
    unread = [_verdict("damaged", kind, None, damage.where, damage.what) for damage in found.damages]
    rows = list(unread)
    for entry in found.entries:
        place = f"{entry.files.where}/{entry.folder}/"
        damages = damaged_parts(entry)
        rows += [_verdict("damaged", kind, entry.id, damage.where, damage.what) for damage in damages]
        of_entry = [row for row in unread if row["where"].startswith(place)]
        for row in of_entry:
            row |= _ids(kind, entry.id)
        if not damages and not of_entry:
            rows.append(_verdict("whole", kind, entry.id, entry.files.where, None))
    return rows


def _verdict(state: str, kind: Kind, id_: str | None, where: str, what: str | None) -> dict[str, Any]:
    return {"state": state, "kind": kind.folder, **_ids(kind, id_), "where": where, "what": what}


def _ids(kind: Kind, id_: str | None) -> dict[str, str | None]:
    """``run_id`` is null for entries of other kinds."""
    return {"id": id_, "run_id": id_ if kind.folder == "runs" else None}


def _unfinished(store: Store) -> list[dict[str, Any]]:
    from engine.store.unfinished import unfinished_runs

    keys = ("run_id", "samples_done", "samples", "state")
    return [{key: getattr(run, key) for key in keys} for run in unfinished_runs(store.home)]
