"""What a store holds, listed, read from files, written to files, annotated, checked, removed; SQL over it.

Runs, references, traces and logit logs; the questions about them are in ``questions``.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import make_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer

from engine.cli import terminal as cli
from engine.cli.generate import read_molecules, smiles_of
from engine.cli.text import READER
from engine.errors import DriftscopeError, StoreFolderError, nearest, one_line, shown
from engine.file_patterns import expand
from engine.records import ReaderName
from engine.store.entries import Entry, StoreListing, rmsd_references, without_samples
from engine.store.reference_schema import REFERENCES
from engine.store.schema import CONFORMERS, KINDS, LOGIT_LOG, RUN, Kind
from engine.store.sql.rows import rows_of
from engine.store.trace_schema import TRACE

app = cli.new_app()
references_app = cli.new_app("references", "reference conformers: list, add, make, remove")
traces_app = cli.new_app("trace", "profiler traces: read, list, compare, remove")
logs_app = cli.new_app("logits", "logit logs (JSONL) of any engine: damage and parity")
app.add_typer(references_app)

COLUMNS = {
    RUN: "run_id label origin model_alias model_step lp samples passes%samples decodes%samples clean%samples "
         "usable%judged blocks junk_letters junk_nonnumeric cut_blocks rmsd_ang rmsd_to wall_s tokens tags",
    TRACE: "trace_id origin form run_id label device events span_us device_us idle_us",
    LOGIT_LOG: "log_id label engine model precision entries values_logged flagged_entries%entries "
               "garbage_entries%entries cause certainty",
    REFERENCES: "name form source molecules conformers repeated left_out content",
}  # fmt: skip
FILES = cli.words(..., "FILE", "files, or patterns in quotes such as 'smoke/**/*.json'")
LABEL = cli.option(None, "a name of your own")


def entry_row(entry: Entry, kind: Kind = RUN) -> dict[str, Any]:
    """All columns of an entry, in JSON's types."""
    row: dict[str, Any] = dict.fromkeys(kind.main.by_name) | dict(entry.row)
    return row | {name: row[name].isoformat() for name in kind.main.moments if row[name] is not None}


def show_entries(io: cli.Io, kind: Kind, entries: Iterable[Entry]) -> int:
    rows = []
    for entry in entries:
        row = entry_row(entry, kind)
        if kind is REFERENCES:
            row = {"name": row[kind.key], **row}
        elif kind is RUN and not io.is_json and row["rmsd_ang"] is not None:
            row["rmsd_to"] = rmsd_references(entry) or "not named"
        rows.append(row)
    return io.show(rows, COLUMNS[kind])


def note_left_out(what: Sequence[str], rest: str) -> None:
    """The first of it, on standard error."""
    for one in what[:10]:
        cli.note(f"left out: {one}")
    if len(what) > 10:
        cli.note(f"left out: {len(what) - 10:,} more{rest}")


def without_damaged(found: StoreListing) -> StoreListing:
    note_left_out([f"{damage.where}: {damage.what}" for damage in found.damages], "; `verify` names all")
    return found


def list_entries(io: cli.Io, kind: Kind, maker: str) -> int:
    """The store's entries of a kind; where it has none, the command that makes one."""
    store = io.opened()
    entries = without_damaged(store.found(kind)).entries
    show_entries(io, kind, entries)
    if not entries and not io.is_json:
        cli.note(f"{shown(store.home.where, 200)} has no {kind.noun}; `python -m engine {maker}` makes one")
    return 0


Read = Callable[[Path, cli.Say], Iterable[tuple[Entry, bool]]]
"""The entries that a file becomes, each with whether it is new. It says how much is read, and which share of it."""


def read_files(io: cli.Io, progress: cli.Progress, kind: Kind, paths: Sequence[Path], read: Read) -> int:
    """Shows the entries that files became. A file that cannot be read is named; it is an error only where none can."""
    entries: list[Entry] = []
    with progress.reporting() as report, cli.StatusLine(is_quiet=io.is_json) as line:

        def seen(told: dict[str, Any], done: int, work: float, **more: int) -> None:
            told |= {"done": done, **more}
            report(work=work, **told)
            line.draw(f"{one_line(told['file'])[:60]}: {done:,} read", work)

        for number, path in enumerate(paths):
            told: dict[str, Any] = {"part": number, "parts": len(paths), "file": path.name}
            report(now=True, work=0.0, **told)
            try:
                found = list(read(path, partial(seen, told)))
            except DriftscopeError as error:
                report(now=True, state="failed", error=str(error), **told)
                if path is paths[-1] and not entries:
                    none = DriftscopeError(f"none of {len(paths)} files can be read", str(error))
                    raise none if len(paths) > 1 else error from None
                cli.note(f"left out: {path}: {error}")
                continue
            entries += [entry for entry, _ in found]
            told["run_id" if kind is RUN else "made"] = " ".join(entry.id for entry, _ in found)
            report(now=True, state="done" if any(is_new for _, is_new in found) else "there", work=1.0, **told)
            for entry, is_new in found:
                if not is_new:
                    cli.note(f"{path} is already in the store, as {entry.id}")
    return show_entries(io, kind, entries)


def commands_of(group: typer.Typer, kind: Kind, argument: str, about: str, maker: str = "") -> None:
    """``rm`` of entries and, where it is said what makes one, ``list``."""
    metavar = argument.removesuffix("s").removesuffix("_id").upper()  # trace_ids -> TRACE
    named = make_dataclass("Named", [(argument, list[str], cli.words(..., metavar))], bases=(cli.Io,), frozen=True)

    def remove(io: Any, yes: bool = cli.YES) -> int:
        from engine.profile.ingest import remove_trace
        from engine.store.staging import unfinished_ids
        from engine.store.unfinished import abandon, check_idle

        # Names or parts of names, of damaged and unfinished ones too.
        store, names = io.opened(), getattr(io, argument)
        unfinished = unfinished_ids(store.home, kind) if kind is RUN else ()
        known = {name.partition("=")[2] for name in store.home.folders(kind.folder)} | set(unfinished)
        ids = list(dict.fromkeys(name if name in known else store.own(name, kind).id for name in names))
        for id_ in set(ids) & set(unfinished):
            check_idle(store.home, id_)
        if not yes and sys.stdin and sys.stdin.isatty():
            where = shown(store.home.where, 200)
            print(f"Remove {one_line(', '.join(ids))} from {where}? [y/N] ", end="", file=sys.stderr, flush=True)
            yes = sys.stdin.readline().strip().lower() in ("y", "yes")
        if not yes:
            raise DriftscopeError("nothing was removed", "Answer y, or give --yes")
        for id_ in ids:
            if id_ in unfinished:
                abandon(store.home, id_)
            elif kind is TRACE:  # and the file that it kept
                remove_trace(store, id_)
            else:
                store.remove(id_, kind)
        return cli.emit_json([{kind.key: id_} for id_ in ids]) if io.is_json else 0

    def listed(io: cli.Io) -> int:
        return list_entries(io, kind, maker)

    remove.__doc__, listed.__doc__ = f"remove {about}", f"the {about} of the store"
    remove.__annotations__["io"] = named
    cli.command(group, "rm")(remove)
    if maker:
        cli.command(group, "list")(listed)


commands_of(app, RUN, "run_ids", "runs, finished or not")
commands_of(references_app, REFERENCES, "names", "reference sets")
commands_of(traces_app, TRACE, "trace_ids", "traces", "trace add")
commands_of(logs_app, LOGIT_LOG, "log_ids", "logs", "logits add")


@cli.command(app, "runs", rules=True)
def runs(io: cli.Io, unfinished: bool = cli.option(False, "runs that were stopped, or are being written")) -> int:
    """the runs of the store"""
    from engine.store.unfinished import unfinished_runs

    if not unfinished:
        return list_entries(io, RUN, "run")
    keys = ("run_id", "samples_done", "samples", "state")
    return io.show([{key: getattr(run, key) for key in keys} for run in unfinished_runs(io.opened().home)])


@cli.command(app, "annotate", rules=True)
def annotate(
    io: cli.Io,
    run_id: str = cli.words(..., "RUN"),
    tag: list[str] = typer.Option(default_factory=list, show_default=False, help="add this tag; may be repeated"),
    untag: list[str] = typer.Option(default_factory=list, show_default=False, help="take it away; may be repeated"),
    label: str | None = cli.option(None),
    notes: str | None = cli.option(None),
) -> int:
    """give a run a label, notes or tags of your own"""
    values: dict[str, Any] = {key: value for key, value in (("label", label), ("notes", notes)) if value is not None}
    if not (values or tag or untag):
        raise DriftscopeError("nothing to change", "Give --label, --notes, --tag or --untag")
    store = io.opened()
    own = store.own(run_id).id
    store.tag([own], add=tag, take=untag)
    return show_entries(io, RUN, [store.annotate(own, **values)])


@cli.command(app, "verify")
def verify(io: cli.Io) -> int:
    """read every file of the store, and name what is damaged"""
    from engine.store.store import damaged_parts
    from engine.store.unfinished import unfinished_runs

    store = io.opened(to_read=True)
    rows: list[dict[str, Any]] = []
    for kind in KINDS:
        states: list[tuple[str, str | None, str, str | None]] = []
        try:
            entries, damages = (found := store.found(kind)).entries, list(found.damages)
            folders = {f"{entry.files.where}/{entry.folder}": entry.id for entry in entries}
            damages += [part for entry in entries for part in damaged_parts(entry)]
            states += [("damaged", folders.get(one.where.rpartition("/")[0]), one.where, one.what) for one in damages]
            unsound = {id_ for _, id_, *_ in states}
            states += [("whole", entry.id, entry.files.where, None) for entry in entries if entry.id not in unsound]
            for run in unfinished_runs(store.home) if kind is RUN else ():
                done = "" if run.samples_done is None else f"{run.samples_done} of {run.samples or '?'} samples; "
                states.append(("unfinished", run.run_id, store.home.where, done + run.state))
        except StoreFolderError as error:  # a file where a folder of the store should be; the others are looked at
            states.append(("damaged", None, store.home.where, error.what))
        for state, id_, where, what in states:
            row = {"state": state, "kind": kind.folder, "id": id_, "where": where, "what": what}
            rows.append(row | {"run_id": id_ if kind is RUN else None})
    if io.is_json:
        cli.emit_json(rows)
    else:
        io.show({"whole": Counter(row["kind"] for row in rows if row["state"] == "whole")})
        for row in rows:
            whose = row["run_id"] if row["state"] == "unfinished" else row["where"]
            if row["state"] != "whole":
                cli.write(one_line(f"{row['state']}: {whose}: {row['what']}"))
    if damaged := sum(row["state"] == "damaged" for row in rows):
        cli.note(f"driftscope: {damaged} damaged. Run or import them again, or remove them")
    return 2 if damaged else 0


@cli.command(app, "sql")
def sql(
    io: cli.Io,
    sql: str | None = cli.words(None, "SELECT", "the statement; - reads standard input"),
    columns: bool = cli.option(False, "the tables and their columns"),
    rows: int = cli.option(10_000, "at most", of=cli.whole(1_000_000)),
    seconds: float = cli.option(60.0, "at most", of=cli.finite(86_400, above=0)),
) -> int:
    """one SELECT over the store's tables (see --columns), in DuckDB's SQL; nothing is written"""
    from engine.store.sql.child import Limits

    if columns:
        tables = [stored for kind in KINDS for stored in (kind.main, *kind.tables)]
        return io.show([{"table": stored.name, "column": column.name, "type": str(column.type), "what": column.what}
                        for stored in tables for column in stored])  # fmt: skip
    if sql is None:
        raise DriftscopeError("there is no statement", "Give a SELECT, - for standard input, or --columns")
    logging.getLogger("engine.store.sql").addHandler(logging.NullHandler())  # its warnings are for an app's keeper
    text = cli.read_text("-") if sql == "-" else sql
    with io.opened(to_read=True).console(Limits(rows=rows, seconds=seconds)) as console:
        answer = console.query(text)
    table = answer.table
    if io.is_json:
        cli.emit_json(list(rows_of(table)))
    else:
        values = (row.values() for row in rows_of(table))
        cells = [["" if value is None else cli.cell(str(value), 60) for value in row] for row in values]
        cli.write("\n".join(cli.table_lines(table.column_names, lambda: cells)))
    if answer.left_out:
        cli.note(f"left out are damaged files of {', '.join(answer.left_out)}; `verify` names them")
    if answer.is_cut:
        cli.note(f"cut off after {table.num_rows:,} rows; --rows gives more")
    return 0


@cli.command(app, "import", rules=True)
def import_files(
    io: cli.Io,
    progress: cli.Progress,
    files: list[str] = FILES,
    label: str | None = LABEL,
    tokenizer: str | None = cli.option(None, "qwen3, llama3 or a folder; overrides the files"),
) -> int:
    """report files (JSON, also as .gz) and generations (pickles) into the store, each as a run

    A report's texts are checked again, its own figures kept. Of generations, a pickle {smiles: [Mol, ...]}, the
    conformers are kept; nothing of it is run.
    """
    from engine.store.generations import import_generations, is_pickle
    from engine.store.reports.importing import AlreadyThere, import_report

    store = io.opened()

    def read(path: Path, seen: cli.Say) -> Iterator[tuple[Entry, bool]]:
        if is_pickle(path):
            found = import_generations(store, path, label=label, progress=partial(seen, work=0.0), warn=cli.note)
        else:
            found = import_report(
                store, path, label=label, tokenizer=tokenizer,
                progress=lambda done, samples: seen(done, done / max(samples, 1), samples=samples),
            )  # fmt: skip
        yield (found.entry, False) if isinstance(found, AlreadyThere) else (found, True)

    return read_files(io, progress, RUN, expand(files), read)


FORMS = {"report": "json", "generations.pickle": "generations.pickle", "sdf": "sdf"}  # endings of files


@cli.command(app, "export")
def export(
    io: cli.Io,
    names: list[str] | None = cli.words(None, "NAME", "RUN, then FILE (default: RUN and the form)"),
    form: list[str] | None = cli.option(None, f"{', '.join(FORMS)} (report)", "--as", metavar="FORM..."),
    sdf: str | None = cli.option(None, "the same as --as sdf FILE", metavar="FILE"),
    reader: ReaderName = READER,
    force: bool = cli.option(False, "overwrite an existing file"),
) -> int:
    """a run as a report file (compressed if its name ends in .gz), or its conformers as generations.pickle or SDF"""
    from engine.inspection.conformer_files import write_conformers
    from engine.store.reports.exporting import export_report

    chosen, *more = form or ["sdf" if sdf else "report"]  # --as takes a FILE or RUN that stands behind its FORM
    names = [*(names or []), *more, *([sdf] if sdf else [])]
    if chosen not in FORMS:
        raise DriftscopeError(f"there is no form {shown(chosen)}", nearest(chosen, FORMS))
    if not 1 <= len(names) <= 2 or (sdf and chosen != "sdf"):
        raise DriftscopeError("a run goes to one file, in one form", "Give RUN and FILE, or --sdf FILE")
    store = io.opened()
    entry = store.entry(names[0])
    path = cli.path_of([*names, f"{entry.id}.{FORMS[chosen]}"][1])
    if path.exists() and not path.is_file():
        raise DriftscopeError(f"{path} is no plain file", "Give another name")
    if path.exists() and not force:
        raise DriftscopeError(f"{path} already exists", "Give another name, or --force")
    row = entry_row(entry) | {"file": str(path)}
    if chosen == "report":
        if CONFORMERS.name in entry.parts:
            raise DriftscopeError(f"{entry.id} has conformers and no texts", "Give --as generations.pickle or sdf")
        export_report(entry, path)
    else:
        if not store.rows("SELECT 1 FROM samples WHERE run_id = $run LIMIT 1", {"run": entry.id}):
            raise without_samples(entry, "export")
        conformers = write_conformers(store, entry.id, path, reader, is_pickle=chosen != "sdf")
        row |= {"conformers": conformers, "reader": reader}
    return io.show([row], "file samples conformers reader")


@references_app.callback(invoke_without_command=True)
@cli.flat
def references(io: cli.Io, ctx: typer.Context) -> int:
    return 0 if ctx.invoked_subcommand is not None else list_entries(io, REFERENCES, "references add")


SET_NAME = cli.option(..., "the set's name, such as geom-drugs")


@cli.command(references_app, "add")
def add_references(
    io: cli.Io, file: str = cli.words(..., "FILE", "a file, or a folder of files of one form"), label: str = SET_NAME
) -> int:
    """read reference conformers

    Pickles ({smiles: {'confs': [Mol, ...]}}, GEOM's own files, {smiles: [Mol, ...]}), of which nothing is run; SDF with
    a record per conformer; Parquet with smiles and xyz (of each atom of the SMILES, in its order). Hydrogens are
    removed, equal conformers kept once; one whose graph is not its molecule's is named and left out.
    """
    from engine.chem.reference_files import reference_source

    source = reference_source(cli.path_of(file))
    return _write_references(io, label, source.conformers(), form=source.form, source=source.name)


@cli.command(references_app, "make")
def make_references(
    io: cli.Io,
    label: str = SET_NAME,
    smiles: list[str] | None = cli.words(None, "SMILES"),
    smiles_file: str | None = cli.option(None, "one SMILES per line", metavar="FILE"),
    per_molecule: int = cli.option(10, "conformers", of=cli.whole(1_000), metavar="K"),
    seed: int = cli.option(0, of=cli.whole(2**31 - 1, 0), metavar="N"),
    mmff: bool = cli.option(False, "relax each with MMFF94"),
) -> int:
    """make reference conformers with ETKDGv3"""
    from engine.chem.reference_files import made_conformers

    molecules, _ = read_molecules(smiles_of(smiles or [], smiles_file), smiles_file)
    conformers = made_conformers(molecules, per_molecule, seed=seed, mmff=mmff)
    source = f"ETKDGv3, {per_molecule} per molecule, seed {seed}{', relaxed with MMFF94' if mmff else ''}"
    return _write_references(io, label, conformers, form="etkdg", source=source, origin="made")


def _write_references(io: cli.Io, label: str, conformers: Any, **described: str) -> int:
    from engine.store.references import omissions, write_references

    store = io.opened()
    with cli.StatusLine(is_quiet=io.is_json) as line:
        entry = write_references(
            store, conformers, label=label, progress=lambda done: line.draw(f"{done:,} conformers read"), **described
        )
    left_out: dict[str, list[str]] = {}  # the first of each reason, with how many there are
    for row in omissions(store, entry):
        left_out.setdefault(f"{shown(row['key'] or '', 120)}: {row['reason']}", []).append(row["source"])
    many = {why: f" and {len(sources) - 1:,} more" if sources[1:] else "" for why, sources in left_out.items()}
    lines = [f"{sources[0]}{many[why]}: {why}" for why, sources in left_out.items()]
    note_left_out(lines, " molecules and reasons, in the table reference_omissions")
    return show_entries(io, REFERENCES, [entry])


COVERED = cli.whole(10**12)


@cli.command(traces_app, "add")
def add_traces(
    io: cli.Io,
    progress: cli.Progress,
    files: list[str] = cli.words(..., "FILE", "Chrome's JSON, plain or .gz, or a table"),
    run_of: str | None = cli.option(None, "the run that the traces belong to", "--run", metavar="RUN"),
    label: str = cli.option(""),
    events: bool = cli.option(False, "keep every event, as the table trace_events"),
    keep: bool = cli.option(False, "keep the file in the store, too"),
    tokens: int | None = cli.option(None, "tokens that the trace covers", of=COVERED, metavar="N"),
    samples: int | None = cli.option(None, "samples that the trace covers", of=COVERED, metavar="N"),
    passes: int | None = cli.option(None, "forward passes that the trace covers", of=COVERED, metavar="N"),
) -> int:
    """read traces of torch.profiler, or tables of name, count, total_ms, avg_ms"""
    from engine.profile.ingest import add_trace

    store, about = io.opened(), {"run_id": run_of, "label": label, "tokens": tokens, "samples": samples}
    about["forward_passes"] = passes

    def read(path: Path, seen: cli.Say) -> Iterator[tuple[Entry, bool]]:
        entry = add_trace(store, path, about, with_events=events, keep_file=keep, say=seen)
        for warning in (entry.row.get("warnings") or "").splitlines():
            cli.note(f"{path.name}: {warning}")
        yield entry, True

    return read_files(io, progress, TRACE, [cli.path_of(file) for file in files], read)


@cli.command(logs_app, "add")
def add_logs(
    io: cli.Io,
    progress: cli.Progress,
    files: list[str] = FILES,
    engine: str | None = cli.option(None, "overrides the entries"),
    model: str | None = cli.option(None, "overrides the entries"),
    precision: str | None = cli.option(None, "such as Q4_K_M; overrides the entries"),
    label: str | None = LABEL,
) -> int:
    """read log files, gz or not, into the store"""
    from engine.logits.ingest import LogNames, add_file

    store, names = io.opened(), LogNames(engine, model, precision, label)

    def read(path: Path, seen: cli.Say) -> Iterator[tuple[Entry, bool]]:
        logs = add_file(store, path, names, seen)
        seen(sum(log.row["entries"] for log, _ in logs), 1.0)
        for log, is_new in logs:
            if log.row.get("left_out") or log.row.get("is_cut"):
                cli.note(f"{log.id}: {log.row.get('notes') or ''}")
            yield log, is_new

    return read_files(io, progress, LOGIT_LOG, expand(files), read)
