"""Up and to the left is better.

Time is wall time over samples. Usable is of the judged answers: a clean text, and the molecule right in 3D. *Passed
too* adds the reports' rule, by which junk and cut numbers pass. Intervals are Wilson's, 95 %. A reported point is drawn
as its report states it, and a report states no usable answers; whether two runs had the same machine, batch and
molecules is not said here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.comparing.differences import MARKS, against, pace_words, size_notes
from engine.comparing.measures import BY_NAME, answer_notes, figure, pool_notes, rate, run_name, run_names
from engine.comparing.paired import compare_entries
from engine.figures.words import listed, percent, seconds
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry, is_profiled
from engine.store.store import Store

Row = dict[str, Any]
COMPARED = ("wall_s_a_sample", "usable_rate")
TITLE = "Is it faster, and is it usable?"
OF = Of("run", least=1, most=41)
OPTIONS = (
    Option("passed_too", False, "Passed too", help="By the reports' rule, under which junk may pass"),
    Option("all_runs", False, "All runs of the store", help="Faint: every run with a known time and rate"),
)
COLUMNS = {
    "name": Column("run"),
    "seconds": Column("wall time per sample", "s"),
    "share": Column("share of answers", "%", "Usable of judged answers, or passed of all"),
    "low": Column("from", "%", "Wilson's 95 % interval"),
    "high": Column("to", "%"),
}
CHARTS = (
    Chart("points", "seconds", "share", low="low", high="high", interval="y", log="x", text="label", faint="is_other",
          hover=("name", "figure", "origin", "seconds", "share", "clean", "decodes")),
)  # fmt: skip
TABLES = ()


def depends(store: Store, entries: Sequence[Entry], options: Options) -> object:
    return tuple(entry.key for entry in store.listing().entries) if options["all_runs"] else None


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    names = run_names(entries)
    measures = ("usable_rate", "pass_rate")[: 1 + options["passed_too"]]
    drawn = [(entry, names[entry.id], False) for entry in entries]
    if options["all_runs"]:
        others = [entry for entry in store.listing().entries if entry.id not in names and not is_profiled(entry)]
        drawn += [(entry, run_name(entry), True) for entry in others]
    points = [point_of(entry, name, measure, is_other=of) for entry, name, of in drawn for measure in measures]
    verdicts = [verdict_of(store, entries[0], test, names[test.id]) for test in entries[1:]]
    notes = [*pool_notes(entries, names), *answer_notes(entries, names), *size_notes(entries)]
    columns = ["run", "name", *(f"{name}_{key}" for name in COMPARED for key in ("ratio", "mark"))]
    return {
        "main": rows_table(points),
        "verdicts": rows_table(verdicts, columns),
        "notes": rows_table([{"note": note} for note in notes], ["note"]),
    }


def time_words(row: Mapping[str, Any]) -> str:
    return "time unknown" if row["seconds"] is None else f"{seconds(row['seconds'])} per sample"


def usable_words(row: Mapping[str, Any]) -> str:
    return "usable rate unknown" if row["share"] is None else f"{percent(row['share'])} usable"


def point_of(entry: Entry, name: str, measure: str, *, is_other: bool) -> Row:
    share = rate(entry, measure)
    return {
        "run": entry.id,
        "name": name,
        "figure": BY_NAME[measure].words,
        "origin": entry.row["origin"],
        "seconds": figure(entry, "wall_s_a_sample"),
        "share": share and share.value,
        "low": share and share.low,
        "high": share and share.high,
        "is_other": is_other,
        "label": name if measure == "usable_rate" and not is_other else "",
        "clean": figure(entry, "clean_rate"),
        "decodes": figure(entry, "decodes_rate"),
    }


def verdict_of(store: Store, control: Entry, test: Entry, name: str) -> Row:
    paired = compare_entries(store, control, test)
    compared = {
        measure: against(BY_NAME[measure], control, test, figure(control, measure), figure(test, measure), paired)
        for measure in COMPARED
    }
    return {
        "run": test.id,
        "name": name,
        **{
            f"{measure}_{key}": row.get(key) for measure, row in compared.items() for key in ("ratio", "mark", "reason")
        },
    }


def answer(tables: Tables, options: Options) -> str:
    rows = {row["run"]: row for row in tables["main"].to_pylist() if row["figure"] == "usable" and not row["is_other"]}
    control = next(iter(rows.values()))
    parts = [f"{control['name']}: {time_words(control)}, {usable_words(control)}."]
    for row in tables["verdicts"].to_pylist():
        test, ratio = rows[row["run"]], row["wall_s_a_sample_ratio"]
        pace = time_words(test) if ratio is None else pace_words(ratio, row["wall_s_a_sample_mark"])
        mark = MARKS.get(row["usable_rate_mark"])
        parts.append(f"{row['name']}: {pace}, {usable_words(test)}" + (f" ({mark})." if mark else "."))
    gaps = [row["name"] for row in rows.values() if row["seconds"] is None or row["share"] is None]
    notes = [f"Not drawn, time or usable rate unknown: {listed(gaps)}."] if gaps else []
    return answer_text(parts, [*notes, *tables["notes"]["note"].to_pylist()])
