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
from engine.figures.words import number, times

if TYPE_CHECKING:
    from engine.cli.progress_option import Say
    from engine.profile.compare import FamilyRow
    from engine.profile.ingest import ReadProgress
    from engine.store.entries import Entry

MOST_COUNT = 10**12
MOST_KERNELS = 20
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
    add.add_argument("--partial", action="store_true", help="read a file that ends too early as far as it goes")
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
            entry = add_trace(
                store,
                path,
                metadata,
                with_events=args.events,
                keep_file=args.keep,
                partial=args.partial,
                say=progress,
            )
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
    from engine.profile.compare import compare_traces, document

    comparison = compare_traces(open_store(args), args.control, args.test)
    if args.json:
        emit_json(document(comparison))
        return 0
    for which, trace in (("control", comparison.control), ("test", comparison.test)):
        row = trace.entry.row
        names = (trace.entry.id, row.get("label"), row.get("run_id"), row.get("device"))
        write(one_line(f"{which}: {' · '.join(str(name) for name in names if name)}"))
    for text in comparison.notes:
        write(one_line(f"note: {text}"))
    write(f"\ndifference: {comparison.difference_us / 1000:+,.1f} ms, by family and cause (more calls, slower calls)\n")
    titles = ("family", "calls", "", "x", "ms", "", "x", "µs per call", "", "ms more", "more calls", "slower calls")
    write(table(titles, map(_family_cells, comparison.families)))
    write("\n" + table(titles, map(_family_cells, comparison.calls)) if comparison.calls else "")
    figures = [
        (figure.what, number(figure.control), number(figure.test), figure.unit, times(figure.ratio))
        for figure in comparison.figures
        if figure.control is not None or figure.test is not None
    ]
    write("\n" + table(("figure", "control", "test", "", "x"), figures))
    kernels = [
        (
            one_line(row.short_name),
            row.family,
            row.change,
            cell(row.control.calls),
            cell(row.test.calls),
            f"{row.difference_us / 1000:+,.2f}",
        )
        for row in comparison.kernels
        if row.difference_us or row.change != "same"
    ]
    write("\n" + table(("kernel", "family", "change", "calls", "", "ms more"), kernels[:MOST_KERNELS]))
    return 0


def _family_cells(row: FamilyRow) -> tuple[str, ...]:
    control, test = row.control, row.test
    return (
        row.family,
        cell(control.calls),
        cell(test.calls),
        times(test.calls / control.calls if control.calls else None),
        f"{control.total_us / 1000:,.2f}",
        f"{test.total_us / 1000:,.2f}",
        times(test.total_us / control.total_us if control.total_us else None),
        number(control.mean_us),
        number(test.mean_us),
        f"{row.difference_us / 1000:+,.2f}",
        f"{row.by_calls_us / 1000:+,.2f}",
        f"{row.by_mean_us / 1000:+,.2f}",
    )
