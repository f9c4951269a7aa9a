"""``ask``: any question that a page answers, with the same figures. Without a question it lists them."""

from __future__ import annotations

import argparse
import csv
import sys

from engine.cli.options import add_command, add_store_option, open_store
from engine.cli.output import cell, emit_json, show, table, write

MOST_ROWS = 40
"""Of a table on a terminal; --json and --csv have all."""


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(commands, "ask", ask_question, "a question of the pages, answered here", store=True)
    parser.add_argument("key", nargs="?", metavar="QUESTION", help="`ask` alone lists them")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="ID... [--option VALUE]")


def ask_question(args: argparse.Namespace) -> int:
    from engine.questions import KEYS, ask, question_of

    if args.key is None:
        questions = {key: question_of(key) for key in KEYS}
        rows = [
            {"key": key, "title": question.TITLE, "of": question.OF.kind, "options": [o.name for o in question.OPTIONS]}
            for key, question in questions.items()
        ]
        if args.json:
            emit_json({"rows": rows})
        else:
            options = ("options", lambda row: ", ".join(row["options"]))
            show(rows, (("question", "key"), ("of", "of"), ("", "title"), options), is_json=False)
        return 0
    question = question_of(args.key)
    parser = args.parser(prog=f"python -m engine ask {args.key}", description=question.TITLE, epilog=question.__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"of {question.OF.kind}s, the control first")
    parser.add_argument("--json", action="store_true", default=args.json, help="one JSON document")
    parser.add_argument("--csv", action="store_true", help="the main table as CSV")
    add_store_option(parser)
    for option in question.OPTIONS:
        parser.add_argument(f"--{option.name.replace('_', '-')}", dest=option.name, help=option.help or option.label)
    args = parser.parse_args(args.rest, argparse.Namespace(store=args.store))
    given = {o.name: value for o in question.OPTIONS if (value := getattr(args, o.name)) is not None}
    answered = ask(open_store(args), parser.prog.split()[-1], args.ids, given)
    main, columns = answered.tables["main"], question.COLUMNS
    if args.json:
        emit_json({
            "answer": answered.answer,
            "rows": main.to_pylist(),
            "tables": {name: found.to_pylist() for name, found in answered.tables.items() if name != "main"},
            "columns": {name: {"unit": column.unit, "help": column.help} for name, column in columns.items()},
        })  # fmt: skip
    elif args.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows([main.column_names, *([row[name] for name in main.column_names] for row in main.to_pylist())])
    else:
        write(answered.answer)
        for name in [name for name in question.TABLES if answered.tables[name].num_rows] or ["main"]:
            titles, rows = answered.tables[name].column_names, answered.tables[name].to_pylist()
            write("\n" + table(titles, [[cell(row[title]) for title in titles] for row in rows[:MOST_ROWS]]))
            if len(rows) > MOST_ROWS:
                write(f"... and {len(rows) - MOST_ROWS:,} rows more: --json or --csv has them")
    return 0
