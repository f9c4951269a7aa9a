"""``sql``: one SELECT over the stored runs."""

from __future__ import annotations

import argparse
import sys

from engine.cli.generate import count
from engine.cli.main import emit_json
from engine.cli.output import json_option, read_text, table, write
from engine.cli.run import add_store_option

MOST_ROWS = 1_000_000
MOST_CELL = 60


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "sql",
        parents=[json_option()],
        help="one SELECT over the stored runs",
        description="One SELECT over the store's tables (see --columns), in DuckDB's SQL. Nothing is written.",
    )
    parser.add_argument("sql", metavar="SELECT", nargs="?", help="the statement; - reads standard input")
    parser.add_argument("--columns", action="store_true", help="the tables and what their columns say")
    parser.add_argument("--rows", type=count("rows", MOST_ROWS), default=10_000, metavar="N", help="at most (10,000)")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="at most (60)")
    add_store_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from engine.errors import SqlError

    if args.columns:
        return _columns(is_json=args.json)
    if args.sql is None:
        raise SqlError("there is no statement", "Give a SELECT, - for standard input, or --columns")
    from engine.store.guard import Limits, as_rows
    from engine.store.store import Store

    text = read_text("-") if args.sql == "-" else args.sql
    with Store.open(args.store).console(Limits(rows=args.rows, seconds=args.seconds)) as console:
        answer = console.query(text)
    rows = as_rows(answer.table)
    if args.json:
        emit_json(rows)
    else:
        names = answer.table.column_names
        write(table(names, [[_cell(row[name]) for name in names] for row in rows]))
    if answer.is_cut:
        sys.stderr.write(f"the answer is cut after {len(rows):,} rows; --rows gives more\n")
    return 0


def _columns(*, is_json: bool) -> int:
    from engine.store.schema import KINDS

    tables = [one for kind in KINDS for one in (kind.main, *kind.tables)]
    if is_json:
        emit_json(
            [
                {"table": one.name, "column": column.name, "type": str(column.type), "what": column.what}
                for one in tables
                for column in one
            ]
        )
        return 0
    for one in tables:
        write(f"{one.name}\n{table(('column', 'type', 'what it says'), [(c.name, c.type, c.what) for c in one])}\n")
    return 0


def _cell(value: object) -> str:
    from engine.errors import one_line

    text = "" if value is None else one_line(str(value))
    return text if len(text) <= MOST_CELL else text[: MOST_CELL - 1] + "…"
