"""What a store holds, listed, read from files, written to files, annotated, checked, removed; SQL over it.

Runs, references, traces and logit logs; the questions about them are in ``questions``.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import make_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from engine.cli import terminal as cli
from engine.cli.text import BINS, READER, Bins, form_of
from engine.errors import DriftscopeError, one_line, shown
from engine.figures.text_tables import cell, table_lines
from engine.figures.words import counted
from engine.file_forms import Becomes, file_form, saying_what_is_taken, words_of
from engine.records import Alphabet, Molecule, ReaderName
from engine.sandbox import read_aside
from engine.store.columns import Kind, rows_of
from engine.store.entries import Entry, is_pool, rmsd_references, without_samples
from engine.store.schema import KINDS, LOGIT_LOG, REFERENCES, RUN, TRACE
from engine.user_files import expand, read_text

if TYPE_CHECKING:
    from engine.store.store import Store

app = cli.new_app()
references_app = cli.new_app("references", "reference conformers: list, add, make, remove")
traces_app = cli.new_app("trace", "profiler traces: read, list, compare, remove")
logs_app = cli.new_app("logits", "logit logs (JSONL) of any engine: damage and parity")
app.add_typer(references_app)

COLUMNS = {
    RUN: "run_id label origin model_alias model_step lp samples passes%samples decodes%samples clean%samples "
         "usable%judged constrained blocks junk_letters junk_nonnumeric cut_blocks rmsd_ang rmsd_to wall_s tokens tags",
    TRACE: "trace_id origin form run_id label device events span_us device_us idle_us",
    LOGIT_LOG: "log_id label engine model precision entries values_logged flagged_entries%entries "
               "garbage_entries%entries cause certainty",
    REFERENCES: "name form source molecules conformers repeated left_out content",
}  # fmt: skip
MADE: dict[Becomes, Kind] = {"run": RUN, "trace": TRACE, "log": LOGIT_LOG}
MOST_LINES = 100_000  # of standard input; all are held parsed, 20 KB each
MOLECULES_HELP = words_of("molecules")
FILES = cli.words(..., "FILE", "files, or patterns in quotes such as 'smoke/**/*.json'")
LABEL = cli.option(None, "a name of your own")


def show_entries(io: cli.Io, kind: Kind, entries: Iterable[Entry]) -> int:
    rows = []
    for entry in entries:
        row = entry.columns(kind)
        if kind is REFERENCES:
            row = {"name": row[kind.key], **row}
        elif kind is RUN and not io.is_json and row["rmsd_ang"] is not None:
            row = {**row, "rmsd_to": rmsd_references(entry) or "not named"}
        rows.append(row)
    return io.show(rows, COLUMNS[kind])


def read_molecules(
    io: cli.Io,
    smiles: Sequence[str],
    file: str | None = None,
    *,
    order: str = "canonical",
    limit: int | None = None,
    column: str | None = None,
) -> tuple[Sequence[Molecule], list[dict[str, str]]]:
    """Molecules that were typed, piped in (``-``) or stand in a file, and those that cannot be read, with what is
    wrong; an error where none is left. Nothing of a file is quoted, as it may be of another kind."""
    from engine.chem.molecule_files import read_molecule_file, read_typed
    from engine.chem.smiles import parse_smiles, parse_written

    if smiles and file:
        raise DriftscopeError("SMILES and a file of them are given", "Leave one of the two out")
    parse = parse_smiles if order == "canonical" else parse_written
    molecules: Sequence[Molecule]
    if file in (None, "-"):
        if file or list(smiles) == ["-"]:
            smiles = [line.split()[0] for line in read_text("-").splitlines() if line.strip()]
        if not smiles or len(smiles) > MOST_LINES:
            problem = f"over {MOST_LINES:,} lines of molecules are given" if smiles else "no molecule is given"
            raise DriftscopeError(problem, "Give SMILES, - for standard input, or a file of them")
        molecules, skipped = read_typed(smiles[:limit], parse)
    else:
        with cli.status(is_quiet=io.is_json) as say:
            seen = lambda done: say(f"{done:,} molecules read")  # noqa: E731
            molecules, skipped = read_molecule_file(Path(file), column=column, limit=limit, parse=parse, progress=seen)
    errors = [skip.error if skip.smiles else f"line {skip.line:,}: {skip.error}" for skip in skipped]
    cli.note_left_out(errors, len(skipped))
    return molecules, [{"smiles": skip.smiles, "error": error} for skip, error in zip(skipped, errors, strict=True)]


def list_entries(io: cli.Io, kind: Kind, maker: str) -> int:
    store = io.opened()
    entries, damages = (listing := store.listing(kind)).entries, listing.damages
    cli.note_left_out([f"{damage.where}: {damage.reason}" for damage in damages], rest="; `verify` names all")
    show_entries(io, kind, entries)
    if not entries and not io.is_json:
        cli.note(f"{shown(store.home.where, 200)} has no {kind.noun}; `python -m engine {maker}` makes one")
    return 0


Read = Callable[[Path, cli.Say], Sequence[str]]
"""The ids of the entries that a file becomes, also those that are there already. It says how much is read, and which
share of the file."""


def read_files(io: cli.Io, progress: cli.Progress, becomes: Becomes, paths: Sequence[Path], read: Read) -> int:
    """Shows the entries that files became. A file that cannot be read is named; it is an error only where none can."""
    kind, entries = MADE[becomes], list[Entry]()
    ids = {name.partition("=")[2] for files in io.opened().locations for name in files.folders(kind.folder)}
    with progress.reporting(is_quiet=io.is_json) as say:
        for number, path in enumerate(paths):
            about: dict[str, Any] = {"part": number, "parts": len(paths), "file": path.name}

            def seen(done: int, work: float, about: dict[str, Any] = about, **more: int) -> None:
                about |= {"done": done, **more}
                say(f"{one_line(about['file'])[:60]}: {done:,} read", work=work, **about)

            say(now=True, work=0.0, **about)
            try:
                with saying_what_is_taken(path, becomes):
                    of_file = [io.opened().entry(id_, kind) for id_ in read(path, seen)]
            except DriftscopeError as error:
                say(now=True, state="failed", error=str(error), **about)
                if path is paths[-1] and not entries:
                    none = DriftscopeError(f"none of {len(paths)} files can be read", str(error))
                    raise none if len(paths) > 1 else error from None
                cli.note(f"left out: {path}: {error}")
                continue
            about["run_id" if kind is RUN else "made"] = " ".join(entry.id for entry in of_file)
            is_there = ids.issuperset(entry.id for entry in of_file)
            say(now=True, state="there" if is_there else "done", work=1.0, **about)
            _note_read(path, of_file, ids)
            entries += of_file
            ids |= {entry.id for entry in of_file}
    return show_entries(io, kind, entries)


def _note_read(path: Path, entries: Iterable[Entry], ids_before: Collection[str]) -> None:
    """What was there before, and what a file's reader warns of."""
    for entry in entries:
        if entry.id in ids_before:
            cli.note(f"{path} is already in the store, as {entry.id}; `rm` it to read it anew")
        of_log = entry.row.get("notes") if entry.row.get("left_out") or entry.row.get("is_cut") else None
        for warning in (entry.row.get("warnings") or of_log or "").splitlines():
            cli.note(f"{path.name}: {warning}")


def commands_of(group: typer.Typer, kind: Kind, argument: str, about: str, maker: str = "") -> None:
    """``rm`` of entries and, where it is said what makes one, ``list``."""
    metavar = argument.removesuffix("s").removesuffix("_id").upper()  # trace_ids -> TRACE
    named = make_dataclass("Named", [(argument, list[str], cli.words(..., metavar))], bases=(cli.Io,), frozen=True)

    def remove(io: Any, yes: bool = cli.option(False, "do not ask")) -> int:
        from engine.jobs.slurm import check_not_queued
        from engine.profile.ingest import remove_trace
        from engine.store.staging import abandon, check_idle, unfinished_ids

        # Names or parts of names, of damaged and unfinished ones too.
        store, names = io.opened(), getattr(io, argument)
        unfinished = unfinished_ids(store.home, kind) if kind is RUN else ()
        existing = {name.partition("=")[2] for name in store.home.folders(kind.folder)} | set(unfinished)
        ids = list(dict.fromkeys(name if name in existing else store.writable(name, kind).id for name in names))
        for id_ in set(ids) & set(unfinished):
            check_idle(store.home, id_)
            check_not_queued(id_)
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
def runs(io: cli.Io, unfinished: bool = cli.option(False, "runs that are being written, queued or stopped")) -> int:
    """the runs of the store"""
    from engine.jobs.slurm import listed_unfinished

    if not unfinished:
        return list_entries(io, RUN, "run")
    keys = ("run_id", "samples_done", "samples", "state")
    rows = [{key: getattr(run, key) for key in keys} for run in listed_unfinished(io.opened().home)]
    if not rows and not io.is_json:
        cli.note("No run is unfinished.")
    return io.show(rows)


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
    return show_entries(io, RUN, [io.opened().annotate(run_id, add=tag, take=untag, **values)])


@cli.command(app, "verify")
def verify(
    io: cli.Io, recount: bool = cli.option(False, "count runs that have former counts again, in their texts")
) -> int:
    """read every file of the store, and name what is damaged

    Runs that were stored before the rules of cut blocks and of an import's descriptors changed have *former counts*.
    --recount finds both again in the stored texts, run by run, and what an earlier version did not count: a run has all
    of its new counts, or all of the former.
    """
    from engine.store.entries import has_former_counts
    from engine.store.store import state_rows

    store = io.opened(to_read=not recount)
    rows = [*(_recounted(io, store) if recount else ()), *state_rows(store)]
    former = [entry for entry in store.listing().entries if has_former_counts(entry)]
    if io.is_json:
        cli.emit_json(rows)
    else:
        io.show({"whole": Counter(row["kind"] for row in rows if row["state"] == "whole")})
        for row in rows:
            subject = row["where"] if row["state"] in ("damaged", "note") else row["id"]
            if row["state"] != "whole":
                cli.write(one_line(f"{row['state']}: {subject}: {row['what']}"))
    if former:
        note = "`verify --recount` counts those of your own store again"
        cli.note(f"{counted(len(former), 'run')} with former counts; {note}")
    if damaged := sum(row["state"] == "damaged" for row in rows):
        cli.note(f"driftscope: {damaged} damaged. Run or import them again, or remove them")
    return 2 if damaged else 0


def _recounted(io: cli.Io, store: Store) -> list[dict[str, Any]]:
    """The runs that were counted again, and those that could not be."""
    from engine.inspection.recount import former_runs, recount_run

    rows: list[dict[str, Any]] = []
    with cli.status(is_quiet=io.is_json) as say:
        for number, entry in enumerate(runs := former_runs(store)):
            say(f"{number:,}/{len(runs):,} runs counted again")
            row = {"kind": RUN.folder, "id": entry.id, "run_id": entry.id, "where": store.home.where}
            try:
                again = recount_run(store, entry.id)
                rows.append({"state": "recounted", **row, "what": again.words, "changed": again.changed})
            except DriftscopeError as error:
                rows.append({"state": "former counts", **row, "what": str(error)})
    return rows


@cli.command(app, "sql")
def sql(
    io: cli.Io,
    sql: str | None = cli.words(None, "SELECT", "the statement; - reads standard input"),
    columns: bool = cli.option(False, "the tables and their columns"),
    rows: int = cli.option(10_000, "at most", of=cli.most(1_000_000)),
    seconds: float = cli.option(60.0, "at most", of=cli.most(86_400, 1e-3)),
) -> int:
    """one SELECT over the store's tables (see --columns), in DuckDB's SQL; nothing is written"""
    from engine.store.console import Limits

    if columns:
        tables = [stored for kind in KINDS for stored in (kind.main, *kind.tables)]
        return io.show(
            [
                {"table": stored.name, "column": column.name, "type": str(column.type), "what": column.meaning}
                for stored in tables
                for column in stored
            ]
        )
    if sql is None:
        raise DriftscopeError("there is no statement", "Give a SELECT, - for standard input, or --columns")
    text = read_text("-") if sql == "-" else sql
    with io.opened(to_read=True).console(Limits(rows=rows, seconds=seconds)) as console:
        answer = console.query(text)
    table = answer.table
    if io.is_json:
        cli.emit_json(list(rows_of(table)))
    else:
        cells = [["" if value is None else cell(str(value), 60) for value in row.values()] for row in rows_of(table)]
        cli.write("\n".join(table_lines(table.column_names, cells)))
    if answer.is_cut:
        cli.note(f"cut off after {table.num_rows:,} rows; --rows gives more")
    return 0


@cli.command(app, "import", rules=True)
def import_files(
    io: cli.Io,
    progress: cli.Progress,
    files: list[str] = cli.words(..., "FILE", "files, folders of SDF, or patterns in quotes such as 'smoke/**/*.json'"),
    label: str | None = LABEL,
    tokenizer: str | None = cli.option(None, "qwen3, llama3 or a folder; overrides the files"),
    strain: bool = cli.option(False, "of conformers, also the energy above the relaxed one (MMFF94)"),
    no_verdict: bool = cli.option(False, "do not judge conformers as they are read (`judge RUN` does it later)"),
    bins: Bins = BINS,
    conformers: str | None = cli.option(
        None, "what texts became, beside one report: of each SMILES in the texts' order", metavar="FILE"
    ),
) -> int:
    """reports of a runner, and conformers of any program, into the store, each file or folder as a run

    Reports: JSON, also as .gz. Texts are checked again, the file's own figures kept. Conformers: SDF, a folder of SDFs,
    Parquet, and pickles {smiles: [Mol, ...]} or shards of one, of which nothing is run. Such a run has no texts: its
    stereo, geometry, strain and coverage are measured, and the rest stays empty. Then: `evaluate`, `compare`.
    """
    from engine.chem.verdict import PLAIN, WITH_STRAIN
    from engine.inspection.constrained import with_verdict
    from engine.store.generations import import_pool, is_pool_folder

    if strain and no_verdict:
        raise DriftscopeError("--strain is part of the verdict", "Leave --no-verdict out")
    numbers, store = form_of(bins), io.opened()
    of_texts: dict[str, Any] = {"tokenizer": tokenizer, "bins": numbers if isinstance(numbers, Alphabet) else None}
    of_texts["conformers"] = None if conformers is None else Path(conformers).expanduser()
    if conformers is not None and len(files) != 1:
        raise DriftscopeError("--conformers are those of one report", "Give one FILE")
    settings = WITH_STRAIN if strain else PLAIN
    of_conformers = {"settings": None if no_verdict else settings}

    def read(path: Path, seen: cli.Say) -> list[str]:
        is_pool = path.is_dir() or "pool" in file_form(path, "run").becomes
        reader, how = (import_pool, of_conformers) if is_pool else (file_form(path, "run").load(), of_texts)
        made = reader(store, path, label=label, progress=seen, warn=cli.note, **how)
        entries = made if isinstance(made, list) else [made]
        return [(with_verdict(entry) if entry.files is store.home else entry).id for entry in entries]

    folders = [Path(file).expanduser() for file in files]
    pools = [folder for folder in folders if is_pool_folder(folder)]
    others = [file for file, folder in zip(files, folders, strict=True) if folder not in pools]
    return read_files(io, progress, "run", [*pools, *(expand(others) if others else ())], read)


# Endings of files.
FORMS = {"report": "json", "generations.pickle": "generations.pickle", "sdf": "sdf", "pairs": "pairs.jsonl"}


@cli.command(app, "export")
def export(
    io: cli.Io,
    progress: cli.Progress,
    names: list[str] | None = cli.words(None, "NAME", "RUN, then FILE (default: RUN and the form)"),
    form: list[str] | None = cli.option(None, f"{', '.join(FORMS)} (report)", "--as", metavar="FORM..."),
    sdf: str | None = cli.option(None, "the same as --as sdf FILE", metavar="FILE"),
    pairs: str | None = cli.option(None, "the same as --as pairs FILE", metavar="FILE"),
    reader: ReaderName = READER,
    force: bool = cli.option(False, "overwrite an existing file"),
) -> int:
    """a run as a report file, its conformers as generations.pickle or SDF, or its preference pairs as JSON lines

    A report and pairs are compressed if the file's name ends in .gz. Pairs are for TRL's DPOTrainer: behind the same
    prefix, the token that was taken and a likely one that the LP shaped struck (of samples with kept steps), or a right
    token and the one that lost the molecule (of a run that `lost` has searched).
    """
    from engine.store.reports.exporting import export_report

    given = {name: file for name, file in (("sdf", sdf), ("pairs", pairs)) if file}
    chosen, *more = form or [*given, "report"]  # --as takes a FILE or RUN that is behind its FORM
    names = [*(names or []), *(more if form else ()), *given.values()]
    if chosen not in FORMS or not 1 <= len(names) <= 2 or given.keys() - {chosen}:
        raise DriftscopeError(f"a run goes to one file, in one form of {', '.join(FORMS)}", "Give RUN and FILE")
    store = io.opened()
    entry = store.entry(names[0])
    path = Path([*names, f"{entry.id}.{FORMS[chosen]}"][1])
    if path.exists() and not (force and path.is_file()):
        raise DriftscopeError(f"{path} already exists", "Give another name, or --force where it is a file")
    counts: dict[str, Any] = {}
    if chosen == "report":
        if is_pool(entry):
            raise DriftscopeError(f"{entry.id} has conformers and no texts", "Give --as generations.pickle or sdf")
        export_report(entry, path)
    elif chosen == "pairs":
        counts = _write_pairs(io, progress, store, entry, path)
    else:
        counts = _write_conformers(store, entry, path, reader, is_pickle=chosen != "sdf")
    row = {**entry.columns(), "file": str(path), **counts}
    return io.show([row], "file samples conformers reader pairs struck lost")


def _write_conformers(store: Store, entry: Entry, path: Path, reader: ReaderName, *, is_pickle: bool) -> dict[str, Any]:
    from engine.inspection.conformers import write_conformers

    if not store.rows("SELECT 1 FROM samples WHERE run_id = $run LIMIT 1", {"run": entry.id}):
        raise without_samples(entry, "export")
    return {"conformers": write_conformers(store, entry.id, path, reader, is_pickle=is_pickle), "reader": reader}


def _write_pairs(io: cli.Io, progress: cli.Progress, store: Store, entry: Entry, path: Path) -> dict[str, Any]:
    from engine.inspection.preference_pairs import write_pairs

    with progress.reporting(is_quiet=io.is_json) as say:
        counts = write_pairs(store, entry.id, path, progress=cli.counting(say, "samples"))
        say(now=True, run_id=entry.id, state="done")
    cli.note_left_out([f"{counted(times, 'pair')}: {reason}" for reason, times in counts.left_out.items()])
    return {
        "pairs": counts.pairs.total(),
        "samples_with_pairs": counts.samples,
        **counts.pairs,
        "left_out": dict(counts.left_out),
    }


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
    removed, equal conformers kept once; one with another graph than its molecule's is named and left out.
    """
    from engine.store import references

    with cli.status(is_quiet=io.is_json) as say:
        seen = lambda done: say(f"{done:,} conformers read")  # noqa: E731
        return _show_references(io, read_aside(seen, references.add_references, io.opened(), Path(file), label))


@cli.command(references_app, "make")
def make_references(
    io: cli.Io,
    label: str = SET_NAME,
    smiles: list[str] | None = cli.words(None, "SMILES"),
    smiles_file: str | None = cli.option(None, MOLECULES_HELP, metavar="FILE"),
    per_molecule: int = cli.option(10, "conformers", of=cli.most(1_000), metavar="K"),
    seed: int = cli.option(0, of=cli.most(2**31 - 1, 0), metavar="N"),
    mmff: bool = cli.option(False, "relax each with MMFF94"),
) -> int:
    """make reference conformers with ETKDGv3"""
    from engine.chem.conformer_files import made_conformers
    from engine.store.references import write_references

    molecules, _ = read_molecules(io, smiles or [], smiles_file)
    conformers = made_conformers(molecules, per_molecule, seed=seed, mmff=mmff)
    source = f"ETKDGv3, {per_molecule} per molecule, seed {seed}{', relaxed with MMFF94' if mmff else ''}"
    described = {"label": label, "form": "etkdg", "source": source, "origin": "made"}
    with cli.status(is_quiet=io.is_json) as say:
        seen = lambda done: say(f"{done:,} conformers made")  # noqa: E731
        made = write_references(io.opened(), conformers, progress=seen, **described)
    return _show_references(io, made.id)


def _show_references(io: cli.Io, name: str) -> int:
    from engine.store.references import omissions

    entry = (store := io.opened()).entry(name, REFERENCES)
    left_out: dict[str, list[str]] = {}  # the first of each reason, with how many there are
    for row in omissions(store, entry):
        left_out.setdefault(f"{shown(row['key'] or '', 120)}: {row['reason']}", []).append(row["source"])
    many = {why: f" and {len(sources) - 1:,} more" if sources[1:] else "" for why, sources in left_out.items()}
    lines = [f"{sources[0]}{many[why]}: {why}" for why, sources in left_out.items()]
    cli.note_left_out(lines, rest=" molecules and reasons, in the table reference_omissions")
    return show_entries(io, REFERENCES, [entry])


COVERED = cli.most(10**12)


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
    store = io.opened()
    about = {"run_id": run_of, "label": label, "tokens": tokens, "samples": samples, "forward_passes": passes}

    def read(path: Path, seen: cli.Say) -> list[str]:
        add = partial(file_form(path, "trace").load(), with_events=events, keep_file=keep)
        return [read_aside(seen, add, store, path, about)]

    return read_files(io, progress, "trace", [Path(file) for file in files], read)


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
    from engine.logits.ingest import LogNames

    store, names = io.opened(), LogNames(engine, model, precision, label)
    ids = lambda path, seen: read_aside(seen, file_form(path, "log").load(), store, path, names)  # noqa: E731
    return read_files(io, progress, "log", expand(files), ids)
