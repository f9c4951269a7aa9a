"""``trace``: profiler traces into the store, two of them side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.options import add_command, open_store, whole
from engine.cli.output import StatusLine, bar, cell, emit_json, figure, note, path_of, show, table, write
from engine.cli.progress_option import add_progress_options
from engine.cli.store_entries import entry_row, list_entries, read_files, remove_entries
from engine.errors import one_line

if TYPE_CHECKING:
    from engine.cli.progress_option import Say
    from engine.profile.ingest import ReadProgress
    from engine.store.entries import Entry

MOST_COUNT = 10**12
MOST_ROWS = 20
MOST_NAME = 60


COLUMNS = (
    ("trace", "trace_id"),
    ("origin", "origin"),
    ("form", "form"),
    ("run", "run_id"),
    ("label", "label"),
    ("device", "device"),
    ("events", "events"),
    ("span ms", figure("span_us", ",.1f", per=1000)),
    ("device ms", figure("device_us", ",.1f", per=1000)),
    ("idle ms", figure("idle_us", ",.1f", per=1000)),
)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("trace", help="profiler traces: read, list, compare, remove")
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=type(parser))
    what = "read traces of torch.profiler, or tables of name, count, total_ms, avg_ms"
    add = add_command(inner, "add", add_traces, what, store=True)
    add.add_argument("files", nargs="+", metavar="FILE", help="Chrome's JSON, plain or .gz, or a table")
    add.add_argument("--run", metavar="RUN", dest="run_of", help="the run that the traces belong to")
    add.add_argument("--label", default="")
    add.add_argument("--events", action="store_true", help="keep every event, as the table trace_events")
    add.add_argument("--keep", action="store_true", help="keep the file in the store, too")
    for name, what in (("tokens", "tokens"), ("samples", "samples"), ("passes", "forward passes")):
        add.add_argument(f"--{name}", type=whole(MOST_COUNT), metavar="N", help=f"{what} that the trace covers")
    add_progress_options(add)
    add_command(inner, "list", list_traces, "the traces of the store", store=True)
    what = "two traces: how much longer the test takes, and what takes the time"
    compared = add_command(inner, "compare", compare_two, what, store=True)
    compared.add_argument("control", metavar="CONTROL")
    compared.add_argument("test", metavar="TEST")
    removed = add_command(inner, "rm", remove, "remove traces", store=True)
    removed.add_argument("trace_ids", nargs="+", metavar="TRACE")
    removed.add_argument("--yes", action="store_true", help="do not ask")


def add_traces(args: argparse.Namespace) -> int:
    from engine.profile.ingest import TraceMetadata, add_trace
    from engine.store.trace_schema import TRACE

    store = open_store(args)
    metadata = TraceMetadata(
        args.run_of or "", args.label, tokens=args.tokens, samples=args.samples, forward_passes=args.passes
    )

    def read(path: Path, say: Say) -> list[Entry]:
        line, name = StatusLine(is_quiet=args.json), one_line(path.name)[:MOST_NAME]
        say(now=True, work=0.0)

        def progress(reading: ReadProgress) -> None:
            share = reading.read_bytes / reading.bytes if reading.bytes else 1.0
            say(done=reading.events, work=share)
            line.draw(f"{name} {bar(share)} {share:.0%}, {reading.events:,} events")

        try:
            entry = add_trace(store, path, metadata, with_events=args.events, keep_file=args.keep, say=progress)
        finally:
            line.clear()
        say(now=True, made=entry.id, state="done")
        for warning in (entry.row.get("warnings") or "").splitlines():
            note(f"{path.name}: {warning}")
        return [entry]

    entries = read_files(args, [path_of(file) for file in args.files], read)
    show([entry_row(entry, TRACE) for entry in entries], COLUMNS, is_json=args.json)
    return 0


def list_traces(args: argparse.Namespace) -> int:
    from engine.store.trace_schema import TRACE

    return list_entries(args, TRACE, COLUMNS, "trace; `python -m engine trace add` reads one")


def remove(args: argparse.Namespace) -> int:
    from engine.profile.ingest import remove_trace
    from engine.store.trace_schema import TRACE

    store = open_store(args)
    return remove_entries(args, store, TRACE, args.trace_ids, lambda id_: remove_trace(store, id_))


def compare_two(args: argparse.Namespace) -> int:
    """Three questions of the Profiles page, in one document."""
    from engine.questions import ask
    from engine.store.trace_schema import TRACE

    store = open_store(args)
    traces = store.found(TRACE)
    ids = [traces.get(name, TRACE).id for name in (args.control, args.test)]
    families, launches, kernels = (ask(store, f"profiles_{key}", ids) for key in ("families", "launches", "kernels"))
    if not args.json:
        for answered in (families, launches, kernels):
            rows = answered.tables["table"]
            cells = [[cell(row[title]) for title in rows.column_names] for row in rows.to_pylist()[:MOST_ROWS]]
            write(f"{answered.answer}\n\n{table(rows.column_names, cells)}\n")
        return 0
    rows = {name: families.tables[name].to_pylist() for name in ("main", "calls", "facts", "notes")}
    sides = [fact["work_side"] for fact in rows["facts"]]
    document = {
        "control": ids[0],
        "test": ids[1],
        "work": dict(zip(("control", "test"), sides, strict=True)),
        "difference_us": sum(row["difference_us"] for row in rows["main"]),
        "families": rows["main"],
        "calls": rows["calls"],
        "figures": launches.tables["main"].to_pylist(),
        "kernels": kernels.tables["main"].to_pylist(),
        "notes": [row["note"] for row in rows["notes"]],
    }
    emit_json(document)
    return 0
