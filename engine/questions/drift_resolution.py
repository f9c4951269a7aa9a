"""How many decimals could be dropped before a molecule is lost: a run's usable texts, truncated and judged again.

Lost: usable as written, and not with so many decimals. RMSD: between a text's atoms as written and truncated, without
alignment; the mean over samples. Fewer decimals are fewer tokens; whether a model that writes fewer decimals writes the
same molecules is not known. In brackets: 95 % interval (Wilson), samples taken as independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from engine.figures.statistics import wilson
from engine.figures.words import agreeing, angstrom, counted, percent, span
from engine.inspection.resolution import decimals_of, resolution_of
from engine.questions.question import Chart, Column, NeedsWork, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "How many decimals does a molecule need?"
OF = Of("run")
NEEDS_TEXTS = True
COLUMNS = {
    "decimals": Column("decimals"),
    "usable": Column("usable"),
    "lost": Column("lost", help="Usable as written, not with so many decimals"),
    "share": Column("lost", "%"),
    "low": Column("from", "%"),
    "high": Column("to", "%"),
    "rmsd_ang": Column("RMSD", "Å", "To the text as written"),
}
CHARTS = (Chart("points", "share", "decimals", colour="decimals", low="low", high="high"),)


def depends(store: Store, entries: Sequence[Entry], options: Options) -> str:
    return resolution_of(entries[0]).version


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    (entry,) = entries
    most = decimals_of(entry)
    if entry.row.get("usable") is None:
        raise NeedsWork("the molecules of this run were not judged", ["judge", entry.id])
    kept = resolution_of(entry).read()
    if kept is None:
        raise NeedsWork("the texts of this run were not truncated", ["resolution", entry.id])
    of_samples = kept.to_pylist()
    count = len({row["sample_id"] for row in of_samples})
    rows: list[dict[str, Any]] = [{"decimals": f"{most}, as written", "usable": count, "lost": 0, "rmsd_ang": 0.0}]
    for decimals in range(most - 1, 0, -1):
        chosen = [row for row in of_samples if row["decimals"] == decimals]
        lost = sum(not row["usable"] for row in chosen)
        low, high = wilson(lost, count)
        rmsd_ang = fmean(row["rmsd_ang"] for row in chosen)
        about = {"decimals": str(decimals), "usable": count - lost, "lost": lost, "rmsd_ang": rmsd_ang}
        rows.append({**about, "share": lost / count, "low": low, "high": high})
    return {"main": rows_table(rows, [*COLUMNS]), "samples": rows_table(of_samples)}


def answer(tables: Tables, options: Options) -> str:
    written, *rows = tables["main"].to_pylist()
    words = "No decimal can be dropped without losing a molecule."
    for row in rows:
        if row["lost"]:
            break
        words = (
            f"{counted(int(row['decimals']), 'decimal')} {agreeing(int(row['decimals']), 'is', 'are')} enough: none of "
            f"{counted(written['usable'], 'usable molecule')} is lost, and atoms move by {angstrom(row['rmsd_ang'])}."
        )
    lost = [
        f"With {row['decimals']}: {row['lost']} lost, {percent(row['share'])} "
        f"({span(row['low'], row['high'], percent)})."
        for row in rows
        if row["lost"]
    ]
    return answer_text([words, *lost])
