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
    Io,
    Progress,
    Say,
    StatusLine,
    cell,
    command,
    emit_json,
    finite,
    flat,
    new_app,
    note,
    option,
    path_of,
    read_text,
    table_lines,
    whole,
    words,
    write,
)
from engine.cli.text import READER
from engine.errors import DriftscopeError, StoreFolderError, nearest, one_line, shown
from engine.file_patterns import expand
from engine.records import ReaderName
from engine.store.reference_schema import REFERENCES
from engine.store.schema import CONFORMERS, KINDS, LOGIT_LOG, RUN, Kind
from engine.store.sql.rows import rows_of
from engine.store.trace_schema import TRACE

if TYPE_CHECKING:
    from engine.store.entries import Entry, StoreListing
    from engine.store.store import Store

app = new_app()
references_app = new_app("references", "reference conformers: list, add, make, remove")
traces_app = new_app("trace", "profiler traces: read, list, compare, remove")
logs_app = new_app("logits", "logit logs (JSONL) of any engine: damage and parity")
app.add_typer(references_app)

COLUMNS = {
    "runs": (
        "run_id label origin model_alias model_step lp samples passes%samples decodes%samples clean%samples "
        "usable%judged blocks junk_letters junk_nonnumeric cut_blocks rmsd_ang rmsd_to wall_s tokens tags"
    ),
    "traces": "trace_id origin form run_id label device events span_us device_us idle_us",
    "logit_logs": (
        "log_id label engine model precision entries values_logged flagged_entries%entries garbage_entries%entries "
        "cause certainty"
    ),
    "references": "name form source molecules conformers repeated left_out content",
}
FILES = words(..., "FILE", "files, or patterns in quotes such as 'smoke/**/*.json'")
LABEL = option(None, "a name of your own")


def entry_row(entry: Entry, kind: Kind | None = None) -> dict[str, Any]:
    """All columns of an entry, in JSON's types; without ``kind``, of a run."""

    main = (kind or RUN).main
    row: dict[str, Any] = dict.fromkeys(main.by_name) | dict(entry.row)
    return row | {name: row[name].isoformat() for name in main.moments if row[name] is not None}


def show_entries(io: Io, kind: Kind, entries: Iterable[Entry]) -> int:
    from engine.store.entries import rmsd_references

    rows = []
    for entry in entries:
        row = entry_row(entry, kind)
        if kind.folder == "references":
            row = {"name": row[kind.key], **row}
        elif kind.folder == "runs" and not io.is_json and row["rmsd_ang"] is not None:
            row["rmsd_to"] = rmsd_references(entry) or "not named"
        rows.append(row)
    return io.show(rows, COLUMNS[kind.folder])


def without_damaged(found: StoreListing) -> StoreListing:
    """Names what is damaged, on standard error: the first of it."""
    for damage in found.damages[:10]:
        note(f"left out: {damage.where}: {damage.what}")
    if len(found.damages) > 10:
        note(f"left out: {len(found.damages) - 10:,} more; `verify` names all")
    return found


def list_entries(io: Io, kind: Kind, maker: str) -> int:
    """The store's entries of a kind; where it has none, the command that makes one."""
    store = io.opened()
    gc.disable()  # nothing of a listing is garbage, and it would be searched again and again
    try:
        entries = list(without_damaged(store.found(kind)).entries)
        show_entries(io, kind, entries)
    finally:
        gc.enable()
    if not entries and not io.is_json:
        note(f"{shown(store.home.where, 200)} has no {kind.noun}; `python -m engine {maker}` makes one")
    return 0


Seen = Callable[..., None]
"""Called with how much is read, and of how much: a share from 0 to 1."""


def read_files(
    io: Io,
    progress: Progress,
    kind: Kind,
    paths: Sequence[Path],
    read: Callable[[Path, Seen], Iterable[tuple[Entry, bool]]],
) -> int:
    """Shows the entries that files became; ``read`` gives them, each with whether it is new. A file that cannot be read
    is named; it is an error only where no file can."""
    entries: list[Entry] = []
    failed: list[DriftscopeError] = []

    def become(path: Path, say: Say, line: StatusLine) -> list[tuple[Entry, bool]]:
        last: dict[str, Any] = {}

        def seen(done: int, work: float, **more: int) -> None:
            last.update(done=done, **more)
            say(work=work, **last)
            line.draw(f"{one_line(path.name)[:60]}: {done:,} read", work)

        say(now=True, work=0.0)
        found = list(read(path, seen))
        made = {"run_id" if kind.folder == "runs" else "made": " ".join(entry.id for entry, _ in found)}
        state = "done" if any(is_new for _, is_new in found) else "there"
        say(now=True, state=state, work=1.0, **last, **made)
        return found

    with progress.reporting() as report, StatusLine(is_quiet=io.is_json) as line:
        for number, path in enumerate(paths):
            say = partial(report, part=number, parts=len(paths), file=path.name)
            try:
                for entry, is_new in become(path, say, line):
                    entries.append(entry)
                    if not is_new:
                        note(f"{path} is already in the store, as {entry.id}")
            except DriftscopeError as error:
                say(now=True, state="failed", error=str(error))
                if len(paths) == 1:
                    raise
                failed.append(error)
                note(f"left out: {path}: {error}")
    if failed and not entries:
        raise DriftscopeError(f"none of {len(paths)} files can be read", str(failed[-1]))
    return show_entries(io, kind, entries)


def remove_entries(io: Io, kind: Kind, names: Sequence[str], *, yes: bool) -> int:
    """By their names or parts of names, damaged and unfinished ones too; asks first, unless --yes."""
    from engine.profile.ingest import remove_trace
    from engine.store.staging import unfinished_ids
    from engine.store.unfinished import abandon, check_idle

    store = io.opened()
    unfinished = unfinished_ids(store.home, kind) if kind.folder == "runs" else ()
    known = {name.partition("=")[2] for name in store.home.folders(kind.folder)} | set(unfinished)
    ids = list(dict.fromkeys(name if name in known else store.own(name, kind).id for name in names))
    for id_ in ids:
        if id_ in unfinished:
            check_idle(store.home, id_)
    if not yes and sys.stdin and sys.stdin.isatty():
        sys.stderr.write(f"Remove {one_line(', '.join(ids))} from {shown(store.home.where, 200)}? [y/N] ")
        sys.stderr.flush()
        yes = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not yes:
        raise DriftscopeError("nothing was removed", "Answer y, or give --yes")
    for id_ in ids:
        if id_ in unfinished:
            abandon(store.home, id_)
        elif kind.folder == "traces":  # and the file that it kept
            remove_trace(store, id_)
        else:
            store.remove(id_, kind)
    return emit_json([{kind.key: id_} for id_ in ids]) if io.is_json else 0


# --- runs -------------------------------------------------------------------------------------------------------------


@command(app, "runs", rules=True)
def runs(io: Io, unfinished: bool = option(False, "runs that were stopped, or are being written")) -> int:
    """the runs of the store"""

    return io.show(_unfinished(io.opened())) if unfinished else list_entries(io, RUN, "run")


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
        raise DriftscopeError("nothing to change", "Give --label, --notes, --tag or --untag")
    to = io.opened()
    own = to.own(run_id).id
    to.tag([own], add=tag, take=untag)
    return show_entries(io, RUN, [to.annotate(own, **values)])


@command(app, "rm")
def remove_runs(io: Io, run_ids: list[str] = words(..., "RUN"), yes: bool = YES) -> int:
    """remove runs, finished or not"""

    return remove_entries(io, RUN, run_ids, yes=yes)


@command(app, "verify")
def verify(io: Io) -> int:
    """read every file of the store, and name what is damaged"""
    from engine.store.store import damaged_parts

    of, rows = io.opened(to_read=True), list[dict[str, Any]]()

    def add(state: str, kind: Kind, id_: str | None, where: str, what: str | None) -> None:
        run_id = id_ if kind is RUN else None  # null for entries of other kinds
        rows.append({"state": state, "kind": kind.folder, "id": id_, "run_id": run_id, "where": where, "what": what})

    def read(kind: Kind) -> None:
        found, unsound = of.found(kind), set[str | None]()
        for damage in found.damages:
            of_entry = (one for one in found.entries if damage.where.startswith(f"{one.files.where}/{one.folder}/"))
            unsound.add(id_ := next((entry.id for entry in of_entry), None))
            add("damaged", kind, id_, damage.where, damage.what)
        for entry in found.entries:
            damages = damaged_parts(entry)
            for damage in damages:
                add("damaged", kind, entry.id, damage.where, damage.what)
            if not damages and entry.id not in unsound:
                add("whole", kind, entry.id, entry.files.where, None)

    def being_written(kind: Kind) -> None:
        for run in _unfinished(of):
            done, samples = run["samples_done"], run["samples"] or "?"
            what = ("" if done is None else f"{done} of {samples} samples; ") + run["state"]
            add("unfinished", kind, run["run_id"], of.home.where, what)

    for work, kind in [*((read, kind) for kind in KINDS), (being_written, RUN)]:
        try:
            work(kind)
        except StoreFolderError as error:  # a file where a folder of the store should be; the others are looked at
            add("damaged", kind, None, of.home.where, error.what)
    if io.is_json:
        emit_json(rows)
    else:
        whole = Counter(row["kind"] for row in rows if row["state"] == "whole")
        io.show({"whole": whole})
        for row in rows:
            if row["state"] != "whole":
                where = row["run_id"] if row["state"] == "unfinished" else row["where"]
                write(one_line(f"{row['state']}: {where}: {row['what']}"))
    if damaged := sum(row["state"] == "damaged" for row in rows):
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

    from engine.store.sql.child import Limits

    if columns:
        tables = [stored for kind in KINDS for stored in (kind.main, *kind.tables)]
        return io.show([{"table": stored.name, "column": column.name, "type": str(column.type), "what": column.what}
                        for stored in tables for column in stored])  # fmt: skip
    if sql is None:
        raise DriftscopeError("there is no statement", "Give a SELECT, - for standard input, or --columns")
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
    from engine.store.generations import import_generations, is_pickle
    from engine.store.reports.importing import AlreadyThere, import_report

    to = io.opened()

    def read(path: Path, seen: Seen) -> Iterable[tuple[Entry, bool]]:
        if is_pickle(path):
            found = import_generations(to, path, label=label, progress=lambda done: seen(done, 0.0), warn=note)
        else:

            def of_report(done: int, samples: int) -> None:
                seen(done, done / max(samples, 1), samples=samples)

            found = import_report(to, path, label=label, tokenizer=tokenizer, progress=of_report)
        yield (found.entry, False) if isinstance(found, AlreadyThere) else (found, True)

    return read_files(io, progress, RUN, expand(files), read)


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
    from engine.inspection.conformer_files import write_conformers
    from engine.store.entries import without_samples
    from engine.store.reports.exporting import export_report

    chosen, *more = form or [""]  # --as takes a FILE or RUN that stands behind its FORM
    names = [*(names or []), *more]
    if chosen and chosen not in FORMS:
        raise DriftscopeError(f"there is no form {shown(chosen)}", nearest(chosen, FORMS))
    if not 1 <= len(names) <= 2:
        raise DriftscopeError(f"a run and at most one file are needed, not {len(names)} names", "Give RUN and FILE")
    if sdf and (names[1:] or chosen not in ("", "sdf")):
        raise DriftscopeError(f"{chosen or 'a report'} goes to FILE or conformers to --sdf", "Give one of the two")
    of = io.opened()
    entry = of.entry(names[0])
    chosen = "sdf" if sdf else chosen or "report"
    path = path_of(sdf or (names[1] if len(names) > 1 else f"{entry.id}.{FORMS[chosen]}"))
    if path.exists() and not path.is_file():
        raise DriftscopeError(f"{path} is no plain file", "Give another name")
    if path.exists() and not force:
        raise DriftscopeError(f"{path} already exists", "Give another name, or --force")
    row = entry_row(entry) | {"file": str(path)}
    if chosen == "report":
        if CONFORMERS.name in entry.parts:
            fix = "Give --as generations.pickle or --as sdf"
            raise DriftscopeError(f"{entry.id} has conformers and no texts", fix)
        export_report(entry, path)
    else:
        if not of.rows("SELECT 1 FROM samples WHERE run_id = $run LIMIT 1", {"run": entry.id}):
            raise without_samples(entry, "export")
        written = write_conformers(of, entry.id, path, reader, is_pickle=chosen != "sdf")
        row |= {"conformers": written, "reader": reader}
    return io.show([row], "file samples conformers reader")


# --- references -------------------------------------------------------------------------------------------------------


@references_app.callback(invoke_without_command=True)
@flat
def references(io: Io, ctx: typer.Context) -> int:
    return 0 if ctx.invoked_subcommand is not None else list_entries(io, REFERENCES, "references add")


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
    from engine.store.references import omissions, write_references

    store = io.opened()
    with StatusLine(is_quiet=io.is_json) as line:
        entry = write_references(
            store, conformers, label=label, progress=lambda done: line.draw(f"{done:,} conformers read"), **described
        )
    left_out: dict[tuple[str, str], list[str]] = {}
    for row in omissions(store, entry):
        left_out.setdefault((row["key"] or "", row["reason"]), []).append(row["source"])
    for (key, reason), sources in list(left_out.items())[:10]:  # the first of each reason, with how many there are
        others = f" and {len(sources) - 1:,} more" if len(sources) > 1 else ""
        note(f"left out: {sources[0]}{others}: {shown(key, 120)}: {reason}")
    if len(left_out) > 10:
        note(f"left out: {len(left_out) - 10:,} more molecules and reasons, in the table reference_omissions")
    return show_entries(io, REFERENCES, [entry])


@command(references_app, "rm")
def remove_references(io: Io, names: list[str] = words(..., "NAME"), yes: bool = YES) -> int:
    """remove reference sets"""

    return remove_entries(io, REFERENCES, names, yes=yes)


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

    to = io.opened()
    metadata = TraceMetadata(run_of or "", label, tokens=tokens, samples=samples, forward_passes=passes)

    def read(path: Path, seen: Seen) -> Iterable[tuple[Entry, bool]]:
        entry = add_trace(to, path, metadata, with_events=events, keep_file=keep, say=seen)
        for warning in (entry.row.get("warnings") or "").splitlines():
            note(f"{path.name}: {warning}")
        yield entry, True

    return read_files(io, progress, TRACE, [path_of(file) for file in files], read)


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
    from engine.logits.ingest import LogNames, add_file

    to, names = io.opened(), LogNames(engine, model, precision, label)

    def read(path: Path, seen: Seen) -> Iterable[tuple[Entry, bool]]:
        logs = add_file(to, path, names, seen)
        seen(sum(log.row["entries"] for log, _ in logs), 1.0)
        for log, is_new in logs:
            if log.row.get("left_out") or log.row.get("is_cut"):
                note(f"{log.id}: {log.row.get('notes') or ''}")
            yield log, is_new

    return read_files(io, progress, LOGIT_LOG, expand(files), read)


@command(traces_app, "list")
def list_traces(io: Io) -> int:
    """the traces of the store"""

    return list_entries(io, TRACE, "trace add")


@command(logs_app, "list")
def list_logs(io: Io) -> int:
    """the logs of the store"""

    return list_entries(io, LOGIT_LOG, "logits add")


@command(traces_app, "rm")
def remove_traces(io: Io, trace_ids: list[str] = words(..., "TRACE"), yes: bool = YES) -> int:
    """remove traces"""

    return remove_entries(io, TRACE, trace_ids, yes=yes)


@command(logs_app, "rm")
def remove_logs(io: Io, log_ids: list[str] = words(..., "LOG"), yes: bool = YES) -> int:
    """remove logs"""

    return remove_entries(io, LOGIT_LOG, log_ids, yes=yes)
