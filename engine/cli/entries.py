"""What a store holds, listed, read from files, written to files, annotated, checked, removed; SQL over it.

Runs, references, traces and logit logs; the questions about them are in ``questions``.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from engine.cli.generate import read_molecules, smiles_of
from engine.cli.terminal import (
    YES,
    Columns,
    Io,
    Progress,
    Say,
    StatusLine,
    cell,
    command,
    emit_json,
    figure,
    finite,
    flat,
    new_app,
    note,
    option,
    path_of,
    read_text,
    share,
    table,
    table_lines,
    whole,
    words,
    write,
)
from engine.cli.text import READER
from engine.errors import (
    DriftscopeError,
    FileFormatError,
    RunError,
    SqlError,
    StoreFolderError,
    nearest,
    one_line,
    shown,
)
from engine.records import ReaderName

if TYPE_CHECKING:
    from engine.profile.ingest import ReadProgress
    from engine.store.entries import Entry, StoreListing
    from engine.store.schema import Kind
    from engine.store.store import Store

app = new_app()
references_app = new_app("references", "reference conformers: list, add, make, remove")
traces_app = new_app("trace", "profiler traces: read, list, compare, remove")
logs_app = new_app("logits", "logit logs (JSONL) of any engine: damage and parity")
app.add_typer(references_app)

RUN_COLUMNS: Columns = (
    ("run", "run_id"),
    ("label", lambda row: cell(row["label"] or "", 30)),
    ("origin", "origin"),
    ("model", lambda row: ":".join(cell(part) for part in (row["model_alias"] or row["model_family"],
                                                           row["model_step"]) if part)),
    ("LP", "lp"),
    ("samples", "samples"),
    ("passed", share("passes", "samples")),
    ("decodes", share("decodes", "samples")),
    ("clean", share("clean", "samples")),
    ("usable", share("usable", "judged")),
    ("by its file", lambda row: "" if None in (row["reported_passes"], row["reported_failures"]) else
        f"{row['reported_passes']:,} of {row['reported_passes'] + row['reported_failures']:,}"),
    ("blocks", "blocks"),
    ("letters", "junk_letters"),
    ("not num.", "junk_nonnumeric"),
    ("cut", "cut_blocks"),
    ("RMSD Å", figure("rmsd_ang", ".2f")),
    ("s", figure("wall_s", ",.1f")),
    ("tokens/s", lambda row: f"{row['tokens'] / row['wall_s']:,.0f}" if row["tokens"] and row["wall_s"] else ""),
    ("MB", figure("peak_memory_mb", ",.0f")),
)  # fmt: skip
TRACE_COLUMNS: Columns = (
    *((name.removesuffix("_id"), name) for name in ("trace_id", "origin", "form", "run_id", "label", "device")),
    ("events", "events"),
    *((f"{name} ms", figure(f"{name}_us", ",.1f", per=1000)) for name in ("span", "device", "idle")),
)
LOG_COLUMNS: Columns = (
    ("log", "log_id"),
    *((key, lambda row, key=key: cell(row[key], 40)) for key in ("label", "engine", "model", "precision")),
    ("entries", "entries"),
    ("values", "values_logged"),
    ("flagged", share("flagged_entries", "entries")),
    ("by report", share("garbage_entries", "entries")),
    ("likely cause", "cause"),
    ("", "certainty"),
)
REFERENCE_COLUMNS: Columns = (
    *((name, name) for name in ("name", "form", "source", "molecules", "conformers", "repeated")),
    ("left out", "left_out"),
    ("content", lambda row: cell(row["content"])[:12]),
)
FILES = words(..., "FILE", "files, or patterns in quotes such as 'smoke/**/*.json'")
LABEL = option(None, "a name of your own")


def entry_row(entry: Entry, kind: Kind | None = None) -> dict[str, Any]:
    """All columns of an entry, in JSON's types; without ``kind``, of a run."""
    from engine.store.schema import RUN

    main = (kind or RUN).main
    row: dict[str, Any] = dict.fromkeys(main.by_name) | dict(entry.row)
    return row | {name: row[name].isoformat() for name in main.moments if row[name] is not None}


def show_runs(io: Io, entries: Iterable[Entry]) -> int:
    """Tags, and what RMSD is to the nearest of, are columns only where an entry has them."""
    from engine.store.entries import rmsd_references

    entries = list(entries)
    known = [entry for entry in entries if entry.row.get("rmsd_ang") is not None]
    to = {entry.id: rmsd_references(entry) or "not named" for entry in known}
    more: list[Any] = []
    if any(entry.row.get("tags") for entry in entries):
        more.append(("tags", lambda row: cell(", ".join(row["tags"] or ()))))
    if to:
        more.append(("RMSD to", lambda row: to.get(row["run_id"], "")))
    return io.show([entry_row(entry) for entry in entries], (*RUN_COLUMNS, *more))


def show_entries(io: Io, kind: Kind, entries: Iterable[Entry]) -> int:
    rows = [entry_row(entry, kind) for entry in entries]
    if kind.folder == "references":
        rows = [{"name": row[kind.key], **row} for row in rows]
    return io.show(rows, {"traces": TRACE_COLUMNS, "logit_logs": LOG_COLUMNS}.get(kind.folder, REFERENCE_COLUMNS))


def without_damaged(found: StoreListing) -> StoreListing:
    """Names what is damaged, on standard error: the first of it."""
    for damage in found.damages[:10]:
        note(f"left out: {damage.where}: {damage.what}")
    if len(found.damages) > 10:
        note(f"left out: {len(found.damages) - 10:,} more; `verify` names all")
    return found


def list_entries(io: Io, kind: Kind, missing: str) -> int:
    """The store's entries of a kind; ``missing``, where it has none, names them and how to make one."""
    store = io.opened()
    gc.disable()  # nothing of a listing is garbage, and it would be searched again and again
    try:
        entries = list(without_damaged(store.found(kind)).entries)
        if kind.folder == "runs":
            show_runs(io, entries)
        else:
            show_entries(io, kind, entries)
    finally:
        gc.enable()
    if not entries and not io.is_json:
        note(f"{shown(store.home.where, 200)} has no {missing}")
    return 0


def read_files(progress: Progress, paths: Sequence[Path], read: Callable[[Path, Say], Sequence[Entry]]) -> list[Entry]:
    """The entries that files became. A file that cannot be read is named; it is an error only where no file can."""
    entries: list[Entry] = []
    last = None
    with progress.reporting() as report:
        for number, path in enumerate(paths):
            say = partial(report, part=number, parts=len(paths), file=path.name)
            try:
                entries += read(path, say)
            except DriftscopeError as error:
                say(now=True, state="failed", error=str(error))
                if len(paths) == 1:
                    raise
                last = error
                note(f"left out: {path}: {error}")
    if last is not None and not entries:
        raise FileFormatError(f"none of {len(paths)} files can be read", str(last))
    return entries


def remove_entries(
    io: Io,
    kind: Kind,
    names: Sequence[str],
    remove: Callable[[str], object],
    *,
    yes: bool,
    unfinished: Sequence[str] = (),
) -> int:
    """By their names or parts of names, damaged ones too; asks first, unless --yes."""
    store = io.opened()
    known = {name.partition("=")[2] for name in store.home.folders(kind.folder)} | set(unfinished)
    ids = list(dict.fromkeys(name if name in known else store.own(name, kind).id for name in names))
    if not yes and sys.stdin and sys.stdin.isatty():
        sys.stderr.write(f"Remove {one_line(', '.join(ids))} from {shown(store.home.where, 200)}? [y/N] ")
        sys.stderr.flush()
        yes = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not yes:
        raise RunError("nothing was removed", "Answer y, or give --yes")
    for id_ in ids:
        remove(id_)
    return emit_json([{kind.key: id_} for id_ in ids]) if io.is_json else 0


# --- runs -------------------------------------------------------------------------------------------------------------


@command(app, "runs", rules=True)
def runs(io: Io, unfinished: bool = option(False, "runs that were stopped, or are being written")) -> int:
    """the runs of the store"""
    from engine.store.schema import RUN

    if unfinished:
        columns = (("run", "run_id"), ("samples", "samples_done"), ("of", "samples"), ("", "state"))
        return io.show(_unfinished(io.opened()), columns)
    return list_entries(io, RUN, "run; `python -m engine run` makes one")


def _unfinished(store: Store) -> list[dict[str, Any]]:
    from engine.store.unfinished import unfinished_runs

    keys = ("run_id", "samples_done", "samples", "state")
    return [{key: getattr(run, key) for key in keys} for run in unfinished_runs(store.home)]


@command(app, "annotate", rules=True)
def annotate(
    io: Io,
    run_id: str = words(..., "RUN"),
    tag: list[str] = typer.Option(default_factory=list, show_default=False, help="add this tag; may be repeated"),
    untag: list[str] = typer.Option(default_factory=list, show_default=False, help="take it away; may be repeated"),
    label: str | None = option(None, ""),
    notes: str | None = option(None, ""),
) -> int:
    """give a run a label, notes or tags of your own"""
    values: dict[str, Any] = {key: value for key, value in (("label", label), ("notes", notes)) if value is not None}
    if not values and not tag and not untag:
        raise RunError("nothing to change", "Give --label, --notes, --tag or --untag")
    to = io.opened()
    own = to.own(run_id).id
    to.tag([own], add=tag, take=untag)
    return show_runs(io, [to.annotate(own, **values)])


@command(app, "rm")
def remove_runs(io: Io, run_ids: list[str] = words(..., "RUN"), yes: bool = YES) -> int:
    """remove runs, finished or not"""
    from engine.store.schema import RUN
    from engine.store.staging import unfinished_ids
    from engine.store.unfinished import abandon, check_idle

    of = io.opened()
    unfinished = unfinished_ids(of.home, RUN)
    for id_ in run_ids:
        if id_ in unfinished:
            check_idle(of.home, id_)

    def remove(id_: str) -> None:
        if id_ in unfinished:
            abandon(of.home, id_)
        else:
            of.remove(id_)

    return remove_entries(io, RUN, run_ids, remove, yes=yes, unfinished=list(unfinished))


@command(app, "verify")
def verify(io: Io) -> int:
    """read every file of the store, and name what is damaged"""
    from engine.store.schema import KINDS, RUN
    from engine.store.store import damaged_parts

    of, rows = io.opened(to_read=True), list[dict[str, Any]]()

    def row(state: str, kind: Kind, id_: str | None, where: str, what: str | None) -> dict[str, Any]:
        run_id = id_ if kind is RUN else None  # null for entries of other kinds
        return {"state": state, "kind": kind.folder, "id": id_, "run_id": run_id, "where": where, "what": what}

    def of_kind(kind: Kind) -> Iterable[dict[str, Any]]:
        found = of.found(kind)
        unread = [row("damaged", kind, None, damage.where, damage.what) for damage in found.damages]
        yield from unread
        for entry in found.entries:
            of_entry = [one for one in unread if one["where"].startswith(f"{entry.files.where}/{entry.folder}/")]
            for one in of_entry:
                one |= {"id": entry.id, "run_id": entry.id if kind is RUN else None}
            damages = damaged_parts(entry)
            yield from (row("damaged", kind, entry.id, damage.where, damage.what) for damage in damages)
            if not damages and not of_entry:
                yield row("whole", kind, entry.id, entry.files.where, None)

    def being_written() -> Iterable[dict[str, Any]]:
        for run in _unfinished(of):
            done, samples = run["samples_done"], run["samples"] or "?"
            what = ("" if done is None else f"{done} of {samples} samples; ") + run["state"]
            yield row("unfinished", RUN, run["run_id"], of.home.where, what)

    reads: list[tuple[Kind, Callable[[], Iterable[dict[str, Any]]]]]
    reads = [*((kind, partial(of_kind, kind)) for kind in KINDS), (RUN, being_written)]
    for kind, read in reads:
        try:
            rows += list(read())
        except StoreFolderError as error:  # a file where a folder of the store should be; the others are looked at
            rows.append(row("damaged", kind, None, of.home.where, error.what))
    if io.is_json:
        emit_json(rows)
    else:
        for kind in KINDS:
            count = sum(one["state"] == "whole" and one["kind"] == kind.folder for one in rows)
            if count or kind is RUN:
                write(f"{kind.folder}: {count} whole")
        for one in rows:
            if one["state"] != "whole":
                where = one["run_id"] if one["state"] == "unfinished" else one["where"]
                write(one_line(f"{one['state']}: {where}: {one['what']}"))
    if damaged := sum(one["state"] == "damaged" for one in rows):
        note(f"driftscope: {damaged} damaged. Run or import them again, or remove them")
    return 2 if damaged else 0


# --- SQL --------------------------------------------------------------------------------------------------------------


@command(app, "sql")
def sql(
    io: Io,
    sql: str | None = words(None, "SELECT", "the statement; - reads standard input"),
    columns: bool = option(False, "the tables and their columns"),
    rows: int = option(10_000, "at most", of=whole(1_000_000)),
    seconds: float = option(60.0, "at most", of=finite(86_400, above=0)),
) -> int:
    """one SELECT over the stored runs

    Over the store's tables (see --columns), in DuckDB's SQL. Nothing is written.
    """
    import json

    from engine.store.schema import KINDS
    from engine.store.sql.child import Limits
    from engine.store.sql.rows import rows_of

    if columns:
        known = {stored.name: stored for kind in KINDS for stored in (kind.main, *kind.tables)}
        if io.is_json:
            return emit_json([{"table": name, "column": column.name, "type": str(column.type), "what": column.what}
                              for name, stored in known.items() for column in stored])  # fmt: skip
        for name, stored in known.items():
            about = table(("column", "type", "meaning"), [(c.name, str(c.type), c.what) for c in stored])
            write(f"{name}\n{about}\n")
        return 0
    if sql is None:
        raise SqlError("there is no statement", "Give a SELECT, - for standard input, or --columns")
    logging.getLogger("engine.store.sql").addHandler(logging.NullHandler())  # its warnings are for an app's keeper
    text, limits = read_text("-") if sql == "-" else sql, Limits(rows=rows, seconds=seconds)
    with io.opened(to_read=True).console(limits) as console:
        answer = console.query(text)
    if io.is_json:  # row by row: many rows are more than memory holds at once
        for place, row in enumerate(rows_of(answer.table)):
            sys.stdout.write((", " if place else "[") + json.dumps(row, allow_nan=False))
        sys.stdout.write("]\n" if answer.table.num_rows else "[]\n")
    else:

        def cells() -> Iterable[list[str]]:
            for row in rows_of(answer.table):
                yield ["" if value is None else cell(str(value), 60) for value in row.values()]

        for line in table_lines(answer.table.column_names, cells):
            write(line)
    if answer.left_out:
        note(f"left out are damaged files of {', '.join(answer.left_out)}; `verify` names them")
    if answer.is_cut:
        note(f"cut off after {answer.table.num_rows:,} rows; --rows gives more")
    return 0


# --- files ------------------------------------------------------------------------------------------------------------


@command(app, "import", rules=True)
def import_files(
    io: Io,
    progress: Progress,
    files: list[str] = FILES,
    label: str | None = LABEL,
    tokenizer: str | None = option(None, "qwen3, llama3 or a folder; overrides the files"),
) -> int:
    """report files (JSON, also as .gz) and generations (pickles) into the store

    Each file becomes a run. A report's texts are checked again, its own figures kept. Of generations, a pickle
    {smiles: [Mol, ...]}, the conformers are kept; it is read in a process of its own that runs nothing of it.
    """
    from engine.file_patterns import expand
    from engine.store.generations import import_generations, is_pickle
    from engine.store.reports.importing import AlreadyThere, import_report

    to = io.opened()

    def read(path: Path, say: Say) -> list[Entry]:
        line = StatusLine()

        def done_of(done: int, samples: int) -> None:
            say(done=done, samples=samples)
            line.draw(f"{done:,}/{samples:,} samples", done / max(samples, 1), now=done == samples)

        if is_pickle(path):
            found = import_generations(to, path, label=label, progress=lambda done: say(done=done), warn=note)
        else:
            found = import_report(to, path, label=label, tokenizer=tokenizer, progress=done_of)
        line.clear()
        entry = found.entry if isinstance(found, AlreadyThere) else found
        say(now=True, run_id=entry.id, state="there" if isinstance(found, AlreadyThere) else "done")
        if isinstance(found, AlreadyThere):
            note(f"{path} is already in the store, as {entry.id}")
        return [entry]

    return show_runs(io, read_files(progress, expand(files), read))


FORMS = {"report": "json", "generations.pickle": "generations.pickle", "sdf": "sdf"}
"""With the ending of a file that is not named."""


@command(app, "export")
def export(
    io: Io,
    names: list[str] | None = words(None, "NAME", "RUN, then FILE (default: RUN and the form)"),
    form: list[str] | None = option(None, f"{', '.join(FORMS)} (report)", "--as", metavar="FORM..."),
    sdf: str | None = option(None, "the same as --as sdf FILE", metavar="FILE"),
    reader: ReaderName = READER,
    force: bool = option(False, "overwrite an existing file"),
) -> int:
    """a run as a report file, generations or SDF

    A run of the store in the report format (compressed if the file's name ends in .gz), or its conformers: as the
    group's evaluation reads them (generations.pickle), or as SDF.
    """
    from engine.inspection.conformer_files import write_generations, write_sdf
    from engine.store.entries import without_samples
    from engine.store.reports.exporting import export_report
    from engine.store.schema import CONFORMERS

    chosen, *more = form or [""]  # --as takes a FILE or RUN that stands behind its FORM
    names = [*(names or []), *more]
    if chosen and chosen not in FORMS:
        raise FileFormatError(f"there is no form {shown(chosen)}", nearest(chosen, FORMS))
    if not 1 <= len(names) <= 2:
        raise FileFormatError(f"a run and at most one file are needed, not {len(names)} names", "Give RUN and FILE")
    if sdf and (names[1:] or chosen not in ("", "sdf")):
        raise FileFormatError(f"{chosen or 'a report'} goes to FILE or conformers to --sdf", "Give one of the two")
    of = io.opened()
    entry = of.entry(names[0])
    chosen = "sdf" if sdf else chosen or "report"
    path = path_of(sdf or (names[1] if len(names) > 1 else f"{entry.id}.{FORMS[chosen]}"))
    if path.exists() and not path.is_file():
        raise FileFormatError(f"{path} is no plain file", "Give another name")
    if path.exists() and not force:
        raise FileFormatError(f"{path} already exists", "Give another name, or --force")
    row, samples = entry_row(entry) | {"file": str(path)}, entry.row.get("samples") or 0
    if chosen == "report":
        if CONFORMERS.name in entry.parts:
            raise FileFormatError(f"{entry.id} has conformers and no texts", "Give --as generations.pickle or --as sdf")
        export_report(entry, path)
        done = f"{samples:,} samples"
    else:
        if not of.rows("SELECT 1 FROM samples WHERE run_id = $run LIMIT 1", {"run": entry.id}):
            raise without_samples(entry, "export")
        conformers = (write_sdf if chosen == "sdf" else write_generations)(of, entry.id, path, reader)
        row |= {"conformers": conformers, "reader": reader}
        unread = (samples or conformers) - conformers
        failed = f", {unread:,} samples cannot be read" if unread else ""
        done = f"{conformers:,} conformers{failed}, by the {reader} reader"
    if io.is_json:
        return emit_json([row])
    note(f"{path}: {done}")
    return 0


# --- references -------------------------------------------------------------------------------------------------------


@references_app.callback(invoke_without_command=True)
@flat
def references(io: Io, ctx: typer.Context) -> int:
    from engine.store.reference_schema import REFERENCES

    if ctx.invoked_subcommand is not None:
        return 0
    return list_entries(io, REFERENCES, "references; `python -m engine references add` reads some")


SET_NAME = option(..., "the set's name, such as geom-drugs")


@command(references_app, "add")
def add_references(
    io: Io, file: str = words(..., "FILE", "a file, or a folder of files of one form"), label: str = SET_NAME
) -> int:
    """read reference conformers

    Pickles of references ({smiles: {'confs': [Mol, ...]}}), GEOM's own files, or {smiles: [Mol, ...]}, read in a
    process of their own that runs nothing of them; SDF with a record per conformer; Parquet with the columns smiles and
    xyz (x, y, z of each atom of the SMILES, in its order). Hydrogens are removed; conformers with equal bytes are kept
    once; one whose graph is not its molecule's is named and left out.
    """
    from engine.chem.reference_files import reference_source

    source = reference_source(path_of(file))
    return _write_references(io, label, source.conformers(), form=source.form, source=source.name)


@command(references_app, "make")
def make_references(
    io: Io,
    label: str = SET_NAME,
    smiles: list[str] | None = words(None, "SMILES"),
    smiles_file: str | None = option(None, "one SMILES per line", metavar="FILE"),
    per_molecule: int = option(10, "conformers", of=whole(1_000), metavar="K"),
    seed: int = option(0, "", of=whole(2**31 - 1, 0), metavar="N"),
    mmff: bool = option(False, "relax each with MMFF94"),
) -> int:
    """make reference conformers with ETKDGv3"""
    from engine.chem.reference_files import made_conformers

    molecules, _ = read_molecules(smiles_of(smiles or [], smiles_file), smiles_file)
    conformers = made_conformers(molecules, per_molecule, seed=seed, mmff=mmff)
    source = f"ETKDGv3, {per_molecule} per molecule, seed {seed}{', relaxed with MMFF94' if mmff else ''}"
    return _write_references(io, label, conformers, form="etkdg", source=source, origin="made")


def _write_references(io: Io, label: str, conformers: Any, **described: str) -> int:
    from engine.store.reference_schema import REFERENCES
    from engine.store.references import omissions, write_references

    store, line = io.opened(), StatusLine(is_quiet=io.is_json)
    try:
        entry = write_references(
            store, conformers, label=label, progress=lambda done: line.draw(f"{done:,} conformers read"), **described
        )
    finally:
        line.clear()
    left_out = omissions(store, entry)
    counts = Counter((row["key"], row["reason"]) for row in left_out)
    for (key, reason), count in list(counts.items())[:10]:  # the first of each reason, with how many there are
        first = next(row["source"] for row in left_out if (row["key"], row["reason"]) == (key, reason))
        others = f" and {count - 1:,} more" if count > 1 else ""
        note(f"left out: {first}{others}: {shown(key or '', 120)}: {reason}")
    if len(counts) > 10:
        note(f"left out: {len(counts) - 10:,} more molecules and reasons, in the table reference_omissions")
    return show_entries(io, REFERENCES, [entry])


@command(references_app, "rm")
def remove_references(io: Io, names: list[str] = words(..., "NAME"), yes: bool = YES) -> int:
    """remove reference sets"""
    from engine.store.reference_schema import REFERENCES

    of = io.opened()
    return remove_entries(io, REFERENCES, names, lambda name: of.remove(name, REFERENCES), yes=yes)


# --- traces and logs --------------------------------------------------------------------------------------------------


def covers(what: str) -> Any:
    return option(None, f"{what} that the trace covers", of=whole(10**12), metavar="N")


@command(traces_app, "add")
def add_traces(
    io: Io,
    progress: Progress,
    files: list[str] = words(..., "FILE", "Chrome's JSON, plain or .gz, or a table"),
    run_of: str | None = option(None, "the run that the traces belong to", "--run", metavar="RUN"),
    label: str = option("", ""),
    events: bool = option(False, "keep every event, as the table trace_events"),
    keep: bool = option(False, "keep the file in the store, too"),
    tokens: int | None = covers("tokens"),
    samples: int | None = covers("samples"),
    passes: int | None = covers("forward passes"),
) -> int:
    """read traces of torch.profiler, or tables of name, count, total_ms, avg_ms"""
    from engine.profile.ingest import TraceMetadata, add_trace
    from engine.store.trace_schema import TRACE

    to = io.opened()
    metadata = TraceMetadata(run_of or "", label, tokens=tokens, samples=samples, forward_passes=passes)

    def read(path: Path, say: Say) -> list[Entry]:
        line, name = StatusLine(is_quiet=io.is_json), one_line(path.name)[:60]
        say(now=True, work=0.0)

        def seen(reading: ReadProgress) -> None:
            done = reading.read_bytes / reading.bytes if reading.bytes else 1.0
            say(done=reading.events, work=done)
            line.draw(f"{name} {done:.0%}, {reading.events:,} events", done)

        try:
            entry = add_trace(to, path, metadata, with_events=events, keep_file=keep, say=seen)
        finally:
            line.clear()
        say(now=True, made=entry.id, state="done")
        for warning in (entry.row.get("warnings") or "").splitlines():
            note(f"{path.name}: {warning}")
        return [entry]

    entries = read_files(progress, [path_of(file) for file in files], read)
    return show_entries(io, TRACE, entries)


@command(logs_app, "add")
def add_logs(
    io: Io,
    progress: Progress,
    files: list[str] = FILES,
    engine: str | None = option(None, "overrides the entries"),
    model: str | None = option(None, "overrides the entries"),
    precision: str | None = option(None, "such as Q4_K_M; overrides the entries"),
    label: str | None = LABEL,
) -> int:
    """read log files, gz or not, into the store"""
    from engine.file_patterns import expand
    from engine.logits.ingest import LogNames, add_file
    from engine.store.schema import LOGIT_LOG

    to, names = io.opened(), LogNames(engine, model, precision, label)

    def read(path: Path, say: Say) -> list[Entry]:
        line = StatusLine(is_quiet=io.is_json)

        def seen(entries: int, share: float) -> None:
            say(done=entries, work=share)
            line.draw(f"{entries:,} entries", share)

        say(now=True, done=0, work=0.0)
        logs = add_file(to, path, names, seen)
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

    entries = read_files(progress, expand(files), read)
    return show_entries(io, LOGIT_LOG, entries)


@command(traces_app, "list")
def list_traces(io: Io) -> int:
    """the traces of the store"""
    from engine.store.trace_schema import TRACE

    return list_entries(io, TRACE, "trace; `python -m engine trace add` reads one")


@command(logs_app, "list")
def list_logs(io: Io) -> int:
    """the logs of the store"""
    from engine.store.schema import LOGIT_LOG

    return list_entries(io, LOGIT_LOG, "logit log; `python -m engine logits add` reads one")


@command(traces_app, "rm")
def remove_traces(io: Io, trace_ids: list[str] = words(..., "TRACE"), yes: bool = YES) -> int:
    """remove traces"""
    from engine.profile.ingest import remove_trace
    from engine.store.trace_schema import TRACE

    of = io.opened()
    return remove_entries(io, TRACE, trace_ids, partial(remove_trace, of), yes=yes)


@command(logs_app, "rm")
def remove_logs(io: Io, log_ids: list[str] = words(..., "LOG"), yes: bool = YES) -> int:
    """remove logs"""
    from engine.store.schema import LOGIT_LOG

    of = io.opened()
    return remove_entries(io, LOGIT_LOG, log_ids, lambda id_: of.remove(id_, LOGIT_LOG), yes=yes)
