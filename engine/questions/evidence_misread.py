"""What no report saw: blocks that the group's reader misreads without an error.

The group's runner (v3.9 on) splits a block at commas and takes the last number of each part. A digit inside junk is
read as a coordinate: the answer passes the reports' check and the runner's. By ours it is not clean.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.comparing.measures import run_names
from engine.figures.words import angstrom, counted, percent
from engine.inspection.conformers import misread_of
from engine.questions.question import Column, Of, Options, Tables, rows_table
from engine.store.entries import Entry
from engine.store.schema import BLOCKS
from engine.store.store import Store

TITLE = "Which numbers does the group's reader misread?"
OF = Of("run", least=0, most=0)
COLUMNS = {
    "name": Column("run", is_pinned=True),
    **dict.fromkeys(("run_id", "model", "lp"), Column(is_hidden=True)),
    "misread": Column("misread blocks", help="Over 0.01 Å off, or taken from no number"),
    "blocks": Column("of blocks"),
    "most_ang": Column("farthest", "Å"),
    "text": Column("farthest block, as written"),
}


def depends(store: Store, entries: Sequence[Entry], options: Options) -> int:
    return hash(tuple(entry.key for entry in store.listing().entries))


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    damaged = (entry for entry in store.listing().entries if entry.row.get("bad_blocks") and BLOCKS.name in entry.parts)
    every = (misread_of(store, entry) for entry in damaged if entry.row.get("misread_blocks") != 0)
    rows = sorted((row for row in every if row["misread"]), key=lambda row: -row["misread"] / row["blocks"])
    misread = {row["run_id"] for row in rows}
    names = run_names([entry for entry in store.listing().entries if entry.id in misread])
    rows = [{"name": names[row["run_id"]], **row} for row in rows]
    return {
        "main": rows_table(rows, ["name", "origin", "misread", "blocks", "most_ang", "text", "model", "lp", "run_id"])
    }


def answer(tables: Tables, options: Options) -> str:
    rows = tables["main"].to_pylist()
    worst = max(rows, key=lambda row: float(row["most_ang"] or 0), default=None)
    if worst is None:
        return "No stored run has a block that the group's reader misreads."
    share = percent(worst["misread"] / worst["blocks"])
    words = f"In {counted(worst['misread'], 'block')} of {worst['blocks']:,} ({share}) of {worst['model']}'s run under "
    words += f"{worst['lp']}, the group's reader puts the atom elsewhere than the text says"
    return words + (
        "." if worst["most_ang"] is None else f", by up to {angstrom(worst['most_ang'])}: “<{worst['text']}>”."
    )
