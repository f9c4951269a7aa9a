"""``sql``: one SELECT over the stored runs."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from engine.cli.options import add_command, finite, open_store, whole
from engine.cli.output import cell, emit_json, emit_json_rows, note, read_text, table, write, write_table

if TYPE_CHECKING:
    from engine.store.sql.guard import SqlAnswer
    from engine.store.sql.process import Limits
    from engine.store.store import Store

MOST_ROWS = 1_000_000
MOST_SECONDS = 86_400
MOST_CELL = 60


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "one SELECT over the stored runs"
    description = "One SELECT over the store's tables (see --columns), in DuckDB's SQL. Nothing is written."
    parser = add_command(commands, "sql", run, what, description, store=True)
    parser.add_argument("sql", metavar="SELECT", nargs="?", help="the statement; - reads standard input")
    parser.add_argument("--columns", action="store_true", help="the tables and their columns")
    parser.add_argument("--rows", type=whole(MOST_ROWS), default=10_000, metavar="N", help="at most (10,000)")
    parser.add_argument("--seconds", type=finite(MOST_SECONDS, above=0), default=60.0, metavar="S", help="at most (60)")


def run(args: argparse.Namespace) -> int:
    from engine.errors import SqlError

    if args.columns:
        return _columns(is_json=args.json)
    if args.sql is None:
        raise SqlError("there is no statement", "Give a SELECT, - for standard input, or --columns")
    from engine.store.sql.process import Limits
    from engine.store.sql.rows import rows_of

    logging.getLogger("engine.store.sql").addHandler(logging.NullHandler())  # its warnings are for an app's keeper
    text = read_text("-") if args.sql == "-" else args.sql
    answer, left_out = _answer(open_store(args, to_read=True), text, Limits(rows=args.rows, seconds=args.seconds))
    if args.json:
        emit_json_rows(rows_of(answer.table))
    else:
        names = answer.table.column_names
        write_table(names, lambda: (_cells(row) for row in rows_of(answer.table)))
    if left_out:
        note(f"left out are damaged files of {', '.join(left_out)}; `verify` names them")
    if answer.is_cut:
        note(f"cut off after {answer.table.num_rows:,} rows; --rows gives more")
    return 0


def _cells(row: dict[str, object]) -> list[str]:
    return ["" if value is None else cell(str(value), MOST_CELL) for value in row.values()]


def _answer(store: Store, text: str, limits: Limits) -> tuple[SqlAnswer, tuple[str, ...]]:
    """The answer, and the entries whose damaged files are not in it."""
    from engine.errors import SqlError
    from engine.store.sql.failures import is_unreadable

    try:
        with store.console(limits) as console:
            return console.query(text), ()
    except SqlError as error:
        if not is_unreadable(error):
            raise
    whole, left_out = store.console_without_damage(limits)
    with whole:
        return whole.query(text), left_out


def _columns(*, is_json: bool) -> int:
    from engine.store.schema import KINDS

    tables = [stored for kind in KINDS for stored in (kind.main, *kind.tables)]
    columns = {stored.name: [(c.name, str(c.type), c.what) for c in stored] for stored in tables}
    if is_json:
        keys = ("table", "column", "type", "what")
        emit_json([dict(zip(keys, (name, *row), strict=True)) for name, rows in columns.items() for row in rows])
    else:
        for name, rows in columns.items():
            write(f"{name}\n{table(('column', 'type', 'meaning'), rows)}\n")
    return 0
