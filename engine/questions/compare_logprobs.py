"""Two log-probabilities of each token: which differ, and by which cause.

Two streams of the same ids: two runs with kept probabilities (a server's with `--diagnostics`), one run and its
checkpoint, or JSON lines of a training program. A token *differs* by more than 0.1 nat, or more where it is unlikely;
noise ends at a root mean square of 0.015. Without a checkpoint a cause is *certain* or a *hint*, and one cause has all
that is left. With it, parts are exact: what one step changes, in a fixed order. Penalties for repetition, and whether a
small rest is of other weights, are not known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from engine.comparing.measures import run_names
from engine.errors import DriftscopeError
from engine.figures.words import capitalised, counted, percent, signed_nat
from engine.inspection.constrained import constraint_of_run
from engine.inspection.kept_tables import KeptTable, weights_of
from engine.inspection.runs import facts_of, model_entry, run_tokenizer
from engine.logits.mismatch import NOISE_OF_TOKEN, Cause, Part, analyse, scaled
from engine.logits.token_streams import MOST_TOKENS, Streams, paired, read_file, read_run, split_source
from engine.lp_records import LPS, NO_LP, lp_record
from engine.models.registry import load_registry
from engine.questions.question import Chart, Column, NeedsWork, Of, Option, Options, Tables, answer_text, rows_table
from engine.records import Descriptors
from engine.store.entries import Entry
from engine.store.store import Store
from engine.user_files import open_file

TITLE = "Why do two log-probabilities differ?"
OF = Of("run", least=0, most=41)  # a page may have more chosen than the two that are compared
OPTIONS = (
    Option("streams", (), "Files", is_many=True,
           help="JSON lines in place of runs: one file, or control and test; FILE:COLUMN is one stream of a file"),
    Option("checkpoint", "", "Checkpoint",
           lambda *_: {"": "none"} | {entry.name: entry.name for entry in load_registry().entries},
           help="That gives exact parts: ALIAS:STEP"),
    Option("files_lp", "", "LP of files", {"": "none"} | {name: name for name in LPS if name != NO_LP},
           help="That acted at their server, for a checkpoint"),
)  # fmt: skip
COLUMNS = {
    "cause": Column("cause"),
    "known": Column("known", help="Certain or a hint; empty: within noise"),
    "nat": Column("mean part", "nat", "Of test - control, over all tokens that count; parts add up"),
    "size_nat": Column("mean size", "nat", "Mean absolute part"),
    "share": Column("share", "%", "Of the absolute parts"),
    "detail": Column("found", wrap_px=420),
    "sequence": Column("sequence"),
    "position": Column("place", help="In the ids of the test, from 0"),
    "piece": Column("token", help="Its id where no tokenizer is known"),
    "control": Column("control", "nat"),
    "test": Column("test", "nat"),
    "difference": Column("test - control", "nat"),
    **{cause: Column(cause, "nat") for cause in get_args(Cause)},
}
CHARTS = (
    Chart("bars", "nat", "cause", colour="cause", hover=("cause", "nat", "size_nat", "known")),
    Chart("points", "control", "test", "tokens", colour="", has_diagonal=True,
          hover=("sequence", "position", "piece", "control", "test")),
)  # fmt: skip
TABLES = ("main", "tokens")
VERSION, MOST_SHOWN = 4, 500  # tokens that are shown, the farthest apart first


def streams_of(
    store: Store, entries: Sequence[Entry], options: Options, most: int = MOST_TOKENS
) -> tuple[Streams, str]:
    """And the sources' names. Of two files the first stream of each."""
    files = options["streams"]
    if not 1 <= len(files or entries) <= 2:
        raise DriftscopeError("two streams are compared", "Choose one or two runs, or give files by --streams")
    read = [read_file(file) for file in files] or [[read_run(store, entry)] for entry in entries]
    streams = [stream for of in read for stream in of[: 2 // len(read)]]
    names = [Path(file).name for file in files] or list(run_names(entries).values())
    return paired(*streams, most=most), " and ".join(names)


def checkpoint_of(entries: Sequence[Entry], options: Options) -> str:
    """A run alone is compared with its own."""
    own = model_entry(facts_of(entries[0])) if len(entries) == 1 and not options["streams"] else None
    return options["checkpoint"] or ("" if own is None else own.name)


def kept_of(entries: Sequence[Entry], options: Options) -> dict[str, KeptTable]:
    """What was computed, by table: it holds for these files or runs, and these weights."""
    sources: list[Any] = [list(entry.key) for entry in entries]
    if options["streams"]:
        sources = [[column, digest_of(path)] for path, column in map(split_source, options["streams"])]
    model = checkpoint_of(entries, options)
    weights = weights_of(load_registry().find(model)) if model else []
    key = [VERSION, sources, weights, options["files_lp"]]
    return {name: KeptTable(f"logprobs-{name}", key) for name in ("main", "tokens", "facts")}


def digest_of(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def depends(store: Store, entries: Sequence[Entry], options: Options) -> str:
    return kept_of(entries, options)["main"].version


def compute(store: Store, entries: Sequence[Entry], options: Options, device: str) -> Tables:
    """With the checkpoint; kept."""
    from engine.logits.mismatch_model import MOST_SCORED, explain
    from engine.lp.constraint import Constraint, LpParameters, build_constraint
    from engine.models.loading import load_model

    streams, names = streams_of(store, entries, options, MOST_SCORED)
    loaded = load_model(load_registry().find(checkpoint_of(entries, options)), device, "float32")
    run = None if options["streams"] else facts_of(entries[0])
    constraint: Constraint | None = None
    style: Descriptors = "plain" if run is None else run.descriptors
    if run is not None and run.lp_record.name in LPS and run.constraint != NO_LP:
        constraint = constraint_of_run(run, loaded.tokenizer, loaded.vocab_rows)
    elif run is None and options["files_lp"]:
        form, style = LpParameters(form=loaded.entry.numbers), lp_record(options["files_lp"]).descriptors or style
        constraint = build_constraint(options["files_lp"], loaded.tokenizer, loaded.vocab_rows, form)
    parts = explain(streams, loaded, constraint, style)
    made = as_tables(streams, parts, names, loaded.tokenizer.piece)
    for name, kept in kept_of(entries, options).items():
        kept.write(made[name])
    return made


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    is_asked = bool(checkpoint_of(entries, options))
    kept = {name: table.read() for name, table in kept_of(entries, options).items()} if is_asked else {}
    if made := {name: table for name, table in kept.items() if table is not None}:
        return made
    if not options["streams"] and not 1 <= len(entries) <= 2:
        return as_tables(paired([]), [], "", str)
    streams, names = streams_of(store, entries, options)
    require_second(streams, names, entries, options)
    tokenizer = run_tokenizer(facts_of(entries[0]))[0] if entries and not options["streams"] else None
    return as_tables(streams, analyse(streams), names, str if tokenizer is None else tokenizer.piece)


def require_second(streams: Streams, names: str, entries: Sequence[Entry], options: Options) -> None:
    """An error where a stream or the checkpoint's reading is missing."""
    model, files, lp = checkpoint_of(entries, options), options["streams"], options["files_lp"]
    is_lone = len(streams.test) > 0 and bool(np.isnan(streams.test).all())
    if is_lone and not model:
        raise DriftscopeError(f"{names} has one stream alone", "Give a second one, or --checkpoint ALIAS:STEP")
    if is_lone or (options["checkpoint"] and len(streams.test)):
        sources = [f"--streams={','.join(files)}"] if files else [entry.id for entry in entries]
        command = ["logprobs", *sources, f"--checkpoint={model}", *([f"--files-lp={lp}"] if lp else [])]
        raise NeedsWork(f"{model} has not read these tokens", command)


def as_tables(streams: Streams, parts: Sequence[Part], names: str, piece: Callable[[int], str]) -> Tables:
    change = sum((part.nat for part in parts), np.zeros(len(streams.control)))
    test, sizes = streams.control + change, [np.abs(part.nat) for part in parts]
    total = sum(size.sum() for size in sizes) or 1
    causes = []
    for part, size in zip(parts, sizes, strict=True):
        if part.known or size.any():
            sums = {"nat": part.nat.mean(), "size_nat": size.mean(), "share": size.sum() / total}
            causes.append({"cause": part.cause, "known": part.known, **sums, "detail": part.detail})
    differs = np.flatnonzero(scaled(streams.control, test) > NOISE_OF_TOKEN)
    tokens = []
    for place in differs[np.argsort(-np.abs(change[differs]))][:MOST_SHOWN].tolist():
        logged, position = streams.sequences[streams.sequence[place]][1], int(streams.at_test[place])
        about = {"sequence": logged.name, "position": position, "piece": piece(int(logged.ids[position]))}
        values = {"control": streams.control[place], "test": test[place], "difference": change[place]}
        tokens.append({**about, **values} | {part.cause: part.nat[place] for part in parts})
    counts = {name: getattr(streams, name) for name in ("left_out", "excluded", "one_sided", "unread")}
    counts |= {"tokens": len(change), "differing": len(differs)}
    facts = {"names": names, "nat": change.mean() if len(change) else 0.0, **counts}
    return {
        "main": rows_table(causes, ["cause", "known", "nat", "size_nat", "share", "detail"]),
        "tokens": rows_table(tokens, ["sequence", "position", "piece", "control", "test", "difference"]),
        "facts": rows_table([facts]),
    }


def answer(tables: Tables, options: Options) -> str:
    (facts,) = tables["facts"].to_pylist()
    if not facts["names"]:
        return "Choose one or two runs with kept probabilities, or give files."
    if not facts["tokens"]:
        return f"{facts['names']}: no sequence has the same tokens, with a value, in both."
    of = f"{facts['differing']:,} of {counted(facts['tokens'], 'token')} differ"
    lines = [f"{facts['names']}: {of}, test - control is {signed_nat(facts['nat'])} in the mean."]
    for row in sorted(tables["main"].to_pylist(), key=lambda row: -row["size_nat"]):
        if row["known"]:
            part = f"{signed_nat(row['nat'])} per token, {percent(row['share'])} of all parts"
            lines.append(f"{capitalised(row['cause'])} ({row['known']}): {part}; {row['detail']}.")
    if facts["excluded"]:
        tokens = counted(facts["excluded"], "token")
        lines.append(
            f"Minus infinity in one stream alone: {tokens}, which a filter or an LP excludes there; in no part."
        )
    if len(lines) == 1:
        lines.append("No cause: what differs is within the noise of number formats.")
    notes = []
    if facts["left_out"]:
        notes.append(f"{counted(facts['left_out'], 'sequence')} without a partner of the same text.")
    if facts["one_sided"]:
        notes.append(f"{counted(facts['one_sided'], 'token')} with a value in one stream alone, not compared.")
    if facts["unread"]:
        notes.append(f"{counted(facts['unread'], 'sequence')} not read: the checkpoint reads the first tokens alone.")
    return answer_text(lines, notes)
