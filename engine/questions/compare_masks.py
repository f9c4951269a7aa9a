"""How much there is to mask, counted from the LP's tables, not measured.

Positions of a molecule at which the model may choose (FREE), and entries of the vocabulary that are forbidden there.
Forced positions need no mask. Only the run's first 1,000 molecules. It does not say what masking costs: Driftscope
keeps classes of tokens and never builds the dense mask whose size is given. Under `exact` and `none` the model chooses
how many positions there are. Of `truncating` figures are upper limits: a block may end early.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from engine.comparing.measures import has_samples, run_names
from engine.figures.words import large, listed, number
from engine.inspection.masks import masks_of_run
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "How much does an LP mask?"
OF = Of("run", least=1, most=8)
ENTRIES, POSITIONS, LEGAL = "masked entries per molecule", "FREE positions per molecule", "legal tokens at a position"
OPTIONS = (Option("masked", None, "Shown", (ENTRIES, POSITIONS, LEGAL)),)
COLUMNS = {
    "name": Column("run"),
    "smiles": Column("molecule"),
    "atoms": Column("atoms of the molecule"),
    "free_positions": Column("FREE positions per molecule"),
    "masked": Column("forbidden tokens, over FREE positions"),
    "dense_entries": Column("entries of a dense mask, over all positions"),
    "legal_least": Column("fewest legal tokens at a position"),
    "legal_most": Column("legal tokens at one position, fewest to most"),
}
CHARTS = (
    Chart("points", "atoms", "masked", ENTRIES, log="y", hover=("name", "smiles", "atoms", "masked")),
    Chart("points", "atoms", "free_positions", POSITIONS, hover=("name", "smiles", "atoms", "free_positions")),
    Chart("points", "legal_most", "name", LEGAL, low="legal_least", high="legal_most", log="x"),
)
TABLES = ()
BATCH = 32
REPORTED_GB = BATCH * 2_000 * 152_000 / 1e9


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    names = run_names(entries)
    rows: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    for entry in entries:
        if not has_samples(entry):
            runs.append({"run": entry.id, "name": names[entry.id], "why": "no samples, so its molecules are not known"})
            continue
        found, left_out, why = masks_of_run(store, entry.id)
        of_run = [{"run": entry.id, "name": names[entry.id], **row} for row in found]
        rows += of_run
        batch = entry.row.get("batch_size") or BATCH
        run: dict[str, Any] = {"run": entry.id, "name": names[entry.id], "why": why, "left_out": left_out}
        run |= {"batch": batch, "is_open": any(row["positions"] == "open" for row in found), "dense_gb": None}
        if found and not run["is_open"]:  # a byte per boolean, for the longest
            run["dense_gb"] = batch * max(row["dense_entries"] for row in found) / 1e9
        for column in ("masked", "free_positions"):
            known = [row[column] for row in of_run if row[column] is not None]
            run[column] = statistics.median(known) if known and not run["is_open"] else None
        if of_run:
            run["legal_least"] = min(row["legal_least"] for row in of_run)
            run["legal_most"] = max(row["legal_most"] for row in of_run)
        runs.append(run)
    shown = options["masked"] if any(not run.get("is_open", True) for run in runs) else LEGAL
    is_drawn, of = ("legal_most", runs) if shown == LEGAL else ("masked", rows)
    drawn = [row for row in of if row.get(is_drawn) is not None]
    columns = ["name", "masked", "free_positions", "dense_gb", "is_open", "why", "left_out", "batch"]
    return {"main": rows_table(rows, ["run", "name", "smiles"]), shown: rows_table(drawn),
            "runs": rows_table(runs, columns)}  # fmt: skip


def answer(tables: Tables, options: Options) -> str:
    runs = tables["runs"].to_pylist()
    fixed = [run for run in runs if run["masked"] is not None]
    sentences = []
    if fixed:
        most = max(fixed, key=lambda run: run["masked"])
        sentences.append(f"{most['name']} masks most: median {large(most['masked'])} entries per molecule, at "
                         f"{most['free_positions']:,.0f} FREE positions.")  # fmt: skip
        if most["dense_gb"] is not None:
            sentences.append(f"A dense mask for its batch of {most['batch']} would take {number(most['dense_gb'])} GB "
                             f"(the reports' {REPORTED_GB:.1f} GB: 32 x 2,000 x 152,000 entries).")  # fmt: skip
    if is_open := [run["name"] for run in runs if run["is_open"]]:
        sentences.append(f"Under {listed(is_open)} the model chooses how many positions there are.")
    notes = [f"{run['name']}: {run['why']}." for run in runs if run["why"]]
    notes += [f"{run['name']}: {run['left_out']:,} molecules not counted." for run in runs if run["left_out"]]
    return answer_text([" ".join(sentences) or "The masks of these runs cannot be counted here."], notes)
