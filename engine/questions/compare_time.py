"""Wall time of a run in measured parts.

Making templates, the first pass over prompts (prefill), the other passes (forward), the LP (constraint), and sampling
tokens. Unexplained is the wall time minus these parts: computed, not measured. Checking the answers comes later and is
not included. On a GPU a timer sees when work was queued, not when it was done, so a part may include waiting for
another. Estimates stated by a report are not measurements. Each is one run on one machine, with no interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from engine.comparing.measures import run_names
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
PARTS = ("template", "prefill", "forward", "constraint", "sampling")
UNEXPLAINED, UNCOUNTED = "unexplained", "not counted"
ROUNDING_S = 0.01
"""Files give seconds in hundredths: parts may exceed the whole by that much and mean nothing."""


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    rows: list[dict[str, Any]] = []
    gaps: list[dict[str, Any]] = []
    for run_id, name in run_names(entries).items():
        row = next(entry.row for entry in entries if entry.id == run_id)
        wall_s, parts_s = row.get("wall_s"), {p: row[f"{p}_s"] for p in PARTS if row.get(f"{p}_s") is not None}
        rest = None if wall_s is None or not parts_s else wall_s - math.fsum(parts_s.values())
        pieces = parts_s | ({} if rest is None else {UNEXPLAINED: max(0.0, rest)})
        if not parts_s and wall_s is not None:
            pieces = {UNCOUNTED: wall_s}
        scale = {UNITS[0]: 1.0, UNITS[1]: row.get("samples"), UNITS[2]: wall_s}[options["time_in"]]
        for part, value in pieces.items():
            share = value / wall_s if wall_s else None
            head = {"run": run_id, "name": name, "part": part, "seconds": value, "share": share}
            rows.append(head | {"value": value / scale if scale else None})
        missing = [part for part in PARTS if part not in parts_s]
        if not parts_s:
            gaps.append({"name": name, "why": "no part of the time was counted"})
        elif wall_s is None:
            gaps.append({"name": name, "why": "the whole time is not known, so neither is what is left of it"})
        elif rest is not None and rest < -ROUNDING_S:
            gaps.append({"name": name, "why": f"the parts exceed the wall time by {fixed(-rest, 2)} s"})
        elif missing:
            gaps.append({"name": name, "why": f"the rest includes what was not counted: {listed(missing)}"})
        if row.get("judging_s") is not None:
            gaps.append({"name": name, "why": f"checking the answers came later: {seconds(row['judging_s'])}"})
    return {"main": rows_table(rows, ["run", "name", "part", "share"]), "gaps": rows_table(gaps, ["name", "why"])}


def answer(tables: Tables, options: Options) -> str:
    by_run: dict[str, list[dict[str, Any]]] = {}
    for row in tables["main"].to_pylist():
        if row["share"] is not None and row["part"] != UNCOUNTED:
            by_run.setdefault(row["name"], []).append(row)
    parts = []
    for name, rows in by_run.items():
        most = max(rows, key=lambda row: row["share"])
        rest = next((row["share"] for row in rows if row["part"] == UNEXPLAINED), None)
        parts.append(f"{name}: {most['part']} takes {percent(most['share'])}, unexplained {percent(rest)}.")
    notes: dict[str, list[str]] = {}
    for row in tables["gaps"].to_pylist():
        notes.setdefault(row["why"], []).append(row["name"])
    unmeasured = "The parts of these runs' time were not measured."
    return answer_text(parts or [unmeasured], (f"{listed(names)}: {why}." for why, names in notes.items()))
