"""``trace``: profiler traces into the store, two of them side by side."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.cli.generate import count
from engine.cli.main import emit_json
from engine.cli.output import bar, path_of, table, write
from engine.cli.run import store_command
from engine.cli.watched import Say, add_watched_options, reporting
from engine.errors import DriftscopeError, FileFormatError, RunError, one_line, shown

if TYPE_CHECKING:
    from pathlib import Path

    from engine.profile.compare import Comparison, FamilyRow
    from engine.profile.ingest import Reading
    from engine.store.entries import Entry
    from engine.store.store import Store

DRAW_S = 0.2
MOST_COUNT = 10**12
MOST_KERNELS = 20
MOST_NAME = 60
LISTED = {
    "trace_id": "trace",
    "origin": "origin",
    "form": "form",
    "run_id": "run",
    "label": "label",
    "device": "device",
    "events": "events",
    "span_us": "span ms",
    "device_us": "device ms",
    "idle_us": "idle ms",
}


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("trace", help="profiler traces: read, list, compare, remove")
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=type(parser))
    add = store_command(
        inner, "add", add_traces, "read traces of torch.profiler, or tables of name, count, total_ms, avg_ms"
    )
    add.add_argument("files", nargs="+", metavar="FILE", help="Chrome's JSON, plain or .gz, or a table")
    add.add_argument("--run", metavar="RUN", dest="run_of", help="the run that they are of")
    add.add_argument("--label", default="")
    add.add_argument("--events", action="store_true", help="keep every event, as the table trace_events")
    add.add_argument("--keep", action="store_true", help="keep the file in the store, too")
    add.add_argument("--partial", action="store_true", help="of a file that ends too early, take what is there")
    for name, what in (("tokens", "tokens"), ("samples", "samples"), ("passes", "forward passes")):
        add.add_argument(f"--{name}", type=count(what, MOST_COUNT), metavar="N", help=f"{what} that it covers")
    add_watched_options(add)
    store_command(inner, "list", list_traces, "the traces of the store")
    compared = store_command(inner, "compare", compare_two, "a trace beside a control: where the difference comes from")
    compared.add_argument("control", metavar="CONTROL")
    compared.add_argument("test", metavar="TEST")
    removed = store_command(inner, "rm", remove, "remove traces")
    removed.add_argument("trace_ids", nargs="+", metavar="TRACE")
    removed.add_argument("--yes", action="store_true", help="do not ask")


def add_traces(args: argparse.Namespace) -> int:
    store = _open(args)
    paths = [path_of(file) for file in args.files]
    entries: list[Entry] = []
    last = None
    with reporting(args) as tell:
        for number, path in enumerate(paths):
            say = partial(tell, part=number, parts=len(paths), file=path.name)
            try:
                entries.append(_added(store, path, args, say))
            except DriftscopeError as error:
                say(now=True, state="failed", error=str(error))
                if len(paths) == 1:
                    raise
                last = error
                sys.stderr.write(one_line(f"left out: {path}: {error}") + "\n")
    if last is not None and not entries:
        raise FileFormatError(f"none of {len(paths)} files can be read", str(last))
    _show_rows(entries, is_json=args.json)
    return 0


def _added(store: Store, path: Path, args: argparse.Namespace, say: Say) -> Entry:
    from engine.profile.ingest import Told, add_trace

    told = Told(args.run_of or "", args.label, tokens=args.tokens, samples=args.samples, forward_passes=args.passes)
    show = _Show(path.name, say, is_quiet=args.json)
    try:
        found = add_trace(
            store,
            path,
            told,
            with_events=args.events,
            keep_file=args.keep,
            partial=args.partial,
            say=show,
        )
    finally:
        show.close()
    say(now=True, made=found.id, state="done")
    for line in (found.row.get("warnings") or "").splitlines():
        sys.stderr.write(one_line(f"{path.name}: {line}") + "\n")
    return found


def list_traces(args: argparse.Namespace) -> int:
    from engine.store.trace_schema import TRACE

    store = _open(args)
    found = store.found(TRACE)
    for damage in found.damages:
        sys.stderr.write(one_line(f"left out: {damage.where}: {damage.what}") + "\n")
    _show_rows(found.entries, is_json=args.json)
    if not found.entries and not args.json:
        sys.stderr.write(f"{shown(store.home.where, 200)} holds no trace; `python -m engine trace add` reads one\n")
    return 0


def compare_two(args: argparse.Namespace) -> int:
    from engine.profile.compare import compare_traces, document

    found = compare_traces(_open(args), args.control, args.test)
    if args.json:
        emit_json(document(found))
    else:
        _show_comparison(found)
    return 0


def remove(args: argparse.Namespace) -> int:
    from engine.profile.ingest import remove_trace
    from engine.store.trace_schema import TRACE

    store = _open(args)
    there = {name.partition("=")[2] for name in store.home.folders(TRACE.folder)}  # damaged ones, too
    chosen = [one if one in there else store.own(one, TRACE).id for one in args.trace_ids]
    if not args.yes and not _agreed(f"Remove {', '.join(chosen)} from {shown(store.home.where, 200)}?"):
        raise RunError("nothing was removed", "Answer y, or give --yes")
    removed = [remove_trace(store, one) for one in dict.fromkeys(chosen)]
    if args.json:
        emit_json([{"trace_id": one} for one in removed])
    return 0


class _Show:
    """How far the reading is, on a terminal that somebody watches, and for a program that does."""

    def __init__(self, name: str, say: Say, *, is_quiet: bool) -> None:
        self.name, self.say, self.drawn = one_line(name)[:MOST_NAME], say, 0.0
        self.is_watched = sys.stderr.isatty() and not is_quiet
        say(now=True, work=0.0)

    def __call__(self, how: Reading) -> None:
        share = how.read_bytes / how.bytes if how.bytes else 1.0
        self.say(done=how.events, work=share)
        if not self.is_watched or time.monotonic() - self.drawn < DRAW_S:
            return
        self.drawn = time.monotonic()
        sys.stderr.write(f"\r{self.name} {bar(share)} {share:.0%}, {how.events:,} events\033[K")
        sys.stderr.flush()

    def close(self) -> None:
        if self.is_watched:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _open(args: argparse.Namespace) -> Store:
    from engine.store.store import Store

    return Store.open(args.store)


def _show_rows(entries: Any, *, is_json: bool) -> None:
    from engine.store.trace_schema import TRACES

    rows = [{name: _plain(entry.row.get(name)) for name in TRACES.names} for entry in entries]
    if is_json:
        emit_json(rows)
    elif rows:
        write(table(list(LISTED.values()), [[_cell(name, row[name]) for name in LISTED] for row in rows]))


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith("_us"):
        return f"{value / 1000:,.1f}"
    return f"{value:,}" if isinstance(value, int) else one_line(str(value))[:MOST_NAME]


# --- a comparison on a terminal ---------------------------------------------------------------------------------------


def _show_comparison(found: Comparison) -> None:
    for which, trace in (("control", found.control), ("test", found.test)):
        write(one_line(f"{which}: {_named(trace.entry)}"))
    for note in found.notes:
        write(one_line(f"note: {note}"))
    write(f"\nwork, and what makes the difference of {found.difference_us / 1000:+,.1f} ms (calls + time of each)\n")
    head = ("family", "calls", "", "x", "ms", "", "x", "µs each", "", "ms more", "by calls", "by each")
    write(table(head, [_family_line(row) for row in found.families]))
    write("\n" + table(head, [_family_line(row) for row in found.calls]) if found.calls else "")
    lines = [
        (one.what, _number(one.control), _number(one.test), one.unit, _ratio(one.ratio))
        for one in found.figures
        if one.control is not None or one.test is not None
    ]
    write("\n" + table(("figure", "control", "test", "", "x"), lines))
    changed = [row for row in found.kernels if row.difference_us or row.change != "same"][:MOST_KERNELS]
    write(
        "\n"
        + table(
            ("kernel", "family", "change", "calls", "", "ms more"),
            [
                (
                    one_line(row.short_name),
                    row.family,
                    row.change,
                    f"{row.control.calls:,}",
                    f"{row.test.calls:,}",
                    f"{row.difference_us / 1000:+,.2f}",
                )
                for row in changed
            ],
        )
    )


def _named(entry: Entry) -> str:
    row = entry.row
    return " · ".join(str(one) for one in (entry.id, row.get("label"), row.get("run_id"), row.get("device")) if one)


def _family_line(row: FamilyRow) -> tuple[str, ...]:
    one, other = row.control, row.test
    return (
        row.family,
        f"{one.calls:,}",
        f"{other.calls:,}",
        _ratio(other.calls / one.calls if one.calls else None),
        f"{one.total_us / 1000:,.2f}",
        f"{other.total_us / 1000:,.2f}",
        _ratio(other.total_us / one.total_us if one.total_us else None),
        _number(one.mean_us),
        _number(other.mean_us),
        f"{row.difference_us / 1000:+,.2f}",
        f"{row.by_calls_us / 1000:+,.2f}",
        f"{row.by_mean_us / 1000:+,.2f}",
    )


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:,.3g}"


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}"


def _agreed(question: str) -> bool:
    if not sys.stdin or not sys.stdin.isatty():
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
