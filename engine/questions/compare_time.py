"""Wall time of a run in measured parts.

Making templates, the first pass over prompts (prefill), the other passes (forward), the LP (constraint), and sampling
tokens. Unexplained is the wall time minus these parts: computed, not measured. Checking the answers comes later and is
not included. On a GPU a timer sees when work was queued, not when it was done, so a part may include waiting for
another. Estimates stated by a report are not measurements. Each is one run on one machine, with no interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.comparing.measures import PARTS, UNCOUNTED, UNEXPLAINED, run_names, time_parts
from engine.figures.statistics import quotient
from engine.figures.words import fixed, listed, percent, seconds
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "Where does the time go?"
OF = Of("run", least=1, most=41)
UNITS = ("seconds", "seconds per sample", "share of the wall time")
OPTIONS = (Option("time_in", None, "Time in", UNITS),)
COLUMNS = {
    "name": Column("run"),
    "part": Column("part"),
    "seconds": Column("seconds", "s"),
    "share": Column("share", "%", "Of the run's wall time"),
    "value": Column("time"),
}
CHARTS = (Chart("bars", "value", "name", colour="part", hover=("name", "part", "seconds", "share")),)
TABLES = ()
Row = dict[str, Any]
ROUNDING_S = 0.01
"""Files give seconds in hundredths: parts may exceed the whole by that much and mean nothing."""


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    rows: list[Row] = []
    gaps: list[Row] = []
    names = run_names(entries)
    for run_id, run in {entry.id: entry.row for entry in entries}.items():
        name, wall_s = names[run_id], run.get("wall_s")
        pieces = time_parts(run)
        parts_s = {part: pieces[part] for part in PARTS if part in pieces}
        scale = {UNITS[0]: 1.0, UNITS[1]: run.get("samples"), UNITS[2]: wall_s}[options["time_in"]]
        for part, value in pieces.items():
            row = {"run": run_id, "name": name, "part": part, "seconds": value, "share": quotient(value, wall_s)}
            rows.append(row | {"value": quotient(value, scale)})
        why = [gap_of(parts_s, wall_s)]
        if run.get("judging_s") is not None:
            why.append(f"checking the answers came later: {seconds(run['judging_s'])}")
        gaps += [{"name": name, "why": words} for words in why if words]
    return {"main": rows_table(rows, ["run", "name", "part", "share"]), "gaps": rows_table(gaps, ["name", "why"])}


def gap_of(parts_s: Mapping[str, float], wall_s: float | None) -> str:
    """Why the parts do not tell the whole; empty where they do."""
    if not parts_s:
        return "no part of the time was counted"
    if wall_s is None:
        return "the whole time is not known, so neither is what is left of it"
    over_s = math.fsum(parts_s.values()) - wall_s
    if over_s > ROUNDING_S:
        return f"the parts exceed the wall time by {fixed(over_s, 2)} s"
    missing = [part for part in PARTS if part not in parts_s]
    return f"the rest includes what was not counted: {listed(missing)}" if missing else ""


def answer(tables: Tables, options: Options) -> str:
    by_run: dict[str, list[dict[str, Any]]] = {}
    for row in tables["main"].to_pylist():
        if row["share"] is not None and row["part"] != UNCOUNTED:
            by_run.setdefault(row["name"], []).append(row)
    parts = []
    for name, rows in by_run.items():
        most = max((row for row in rows if row["part"] != UNEXPLAINED), key=lambda row: row["share"])
        rest = next((row["share"] for row in rows if row["part"] == UNEXPLAINED), None)
        parts.append(f"{name}: {most['part']} takes {percent(most['share'])}, unexplained {percent(rest)}.")
    notes: dict[str, list[str]] = {}
    for row in tables["gaps"].to_pylist():
        notes.setdefault(row["why"], []).append(row["name"])
    unmeasured = "The parts of these runs' time were not measured."
    return answer_text(parts or [unmeasured], (f"{listed(names)}: {why}." for why, names in notes.items()))
