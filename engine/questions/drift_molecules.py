"""The molecules of runs, a row each: what is damaged, by how many Å, and what is right in 3D.

Worst first are molecules that are not usable (not clean where not judged), by how far their atoms are off (junk as the
group's reader takes it, and the estimate of what a cut lost), then by damaged blocks, cut blocks and RMSD. What is not
known comes last in any order. `ask drift_atoms RUN/SAMPLE` shows one of them atom by atom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from engine.comparing.measures import run_names
from engine.errors import DriftscopeError, shown
from engine.figures.words import agreeing, angstrom, counted, rounded
from engine.inspection.molecules import CUT_BAR, JUDGED, SHOWS, DriftBin, sample_table
from engine.questions.question import Column, Of, Option, Options, Tables
from engine.records import RULE_HELP
from engine.store.entries import Entry, is_unjudged, without_samples
from engine.store.schema import SAMPLES
from engine.store.store import Store

TITLE = "Which molecules are worst?"
OF = Of("run", most=12)
WORST, ALL = "Worst first", "all"
ORDERS: dict[str, tuple[str, bool] | None] = {
    WORST: None,
    "As written": None,
    "Most blocks with junk": ("junk_blocks", True),
    "Most blocks cut": ("cut_blocks", True),
    "Highest drift": ("drift", True),
    "Lowest drift": ("drift", False),
    "Most drawn anew": ("redrawn_blocks", True),
    "Most dead ends": ("dead_ends", True),
    "Largest RMSD": ("rmsd_ang", True),
    "Most strain per heavy atom": ("strain_kcal_per_atom", True),
    "Least RMSD between conformers": ("differ_least_ang", False),
    "Most tokens": ("tokens", True),
    "SMILES": ("smiles", False),
}
"""What of the table, and whether the highest come first."""

ROW_LIMITS = (ALL, "10", "25", "100")
OPTIONS = (
    Option("show", "", "Show only", ("", *SHOWS, *JUDGED)),
    Option("contains", "", "SMILES contains"),
    Option("order", WORST, "Order", tuple(ORDERS)),
    Option("first", ALL, "Rows", ROW_LIMITS),
    Option("bin", label="bar", is_picked=True),
)
IN_FILES = (
    "run_id generation model lp tokenizer stereo_right geometry_right strain_moved_ang stop_reason issues atoms "
    "heavy_atoms junk_tokens bad_blocks unverified_blocks drift_min drift_max drifts wall_part_s has_steps has_ids"
)
WIDE = {
    "decodes": Column("decodes", help=RULE_HELP["decodes"]),
    "redrawn_blocks": Column("redrawn", help="How often the guard found a block wrong and had it drawn again"),
    "dead_ends": Column("dead ends", help="How often shaped found no token that leaves a right place, and went back"),
    "strain_kcal": Column("strain", "kcal/mol", "Energy above the relaxed conformer"),
    "strain_kcal_per_atom": Column("strain per heavy atom", "kcal/mol"),
    "forced_share": Column("forced", "%", "Tokens that the LP forced"),
    "conformers": Column("conformers", help="Of the answer"),
    "usable_conformers": Column("of them usable", help="Clean, stereo and geometry right, one by one"),
    "differ_least_ang": Column("differ by", "Å", "Least RMSD between two conformers of the answer"),
    "differ_mean_ang": Column("on average", "Å", "The mean over all pairs of its conformers"),
}
"""What no terminal has room for: the page's table has it, and files have it."""
COLUMNS = {
    **dict.fromkeys(IN_FILES.split(), Column(is_hidden=True)),
    "name": Column("run", is_pinned=True),
    "sample_id": Column("sample"),
    "smiles": Column("SMILES"),
    "passed": Column("passed", help=RULE_HELP["passed"]),
    "clean": Column("clean", help=RULE_HELP["clean"]),
    "usable": Column("usable", help="Clean, stereo right, geometry right"),
    "checks": Column("checks", help="That the molecule fails; empty where it fails none, null where not judged"),
    "blocks": Column("blocks"),
    "junk_blocks": Column("junk", help="Blocks with junk"),
    "cut_blocks": Column("cut", help="Blocks closed by force"),
    "lost_ang": Column("off by", "Å", "How far damage puts its atoms off, added up; an estimate of cuts"),
    "drift": Column("drift", help="Over blocks with known drift"),
    "rmsd_ang": Column("RMSD", "Å", "Heavy atoms, to the nearest reference"),
    "tokens": Column("tokens"),
    **{name: replace(column, is_hidden=True) for name, column in WIDE.items()},
}
TABLES = ()


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    if without := [entry for entry in entries if SAMPLES.name not in entry.parts]:
        raise without_samples(without[0], "look into")
    ids, bar = [entry.id for entry in entries], options["bin"] or ""
    if bar not in ("", CUT_BAR) and DriftBin.read(bar) is None:
        raise DriftscopeError(f"there is no bar {shown(bar)}", f"Give one such as lp~exact~-1, or {CUT_BAR}")
    wanted = (options["show"], options["contains"], bar)
    table = sample_table(store, ids, *wanted, is_worst_first=options["order"] == WORST)
    if (by := ORDERS[options["order"]]) is not None:
        table = table.take(pc.sort_indices(table, sort_keys=[(by[0], "descending" if by[1] else "ascending")]))
    if options["first"] != ALL:
        table = table.slice(0, int(options["first"]))
    if len(ids) > 1:
        names = run_names(entries)
        of_rows = pa.array([names[run_id] for run_id in table["run_id"].to_pylist()], pa.string())
        table = table.add_column(0, "name", of_rows)
    samples = sum(entry.parts[SAMPLES.name].rows for entry in entries)
    return {"main": table, "all": pa.table({"samples": [samples], "has_unread": [any(map(is_unjudged, entries))]})}


def answer(tables: Tables, options: Options) -> str:
    table = tables["main"]
    worst = worst_words(table) if options["order"] == WORST else ""
    return " ".join(filter(None, (counts(tables), worst)))


def counts(tables: Tables) -> str:
    table, samples = tables["main"], tables["all"]["samples"][0].as_py()
    shown = f"{table.num_rows:,} of " if table.num_rows < samples else ""
    head = f"{shown}{counted(samples, 'sample')}"
    failed = pc.sum(pc.invert(table["passed"])).as_py() or 0
    if table.num_rows and table["passed"].null_count == table.num_rows:
        if tables["all"]["has_unread"][0].as_py():
            return f"{head}, whose texts are not read yet: `judge` reads them."
        judged = table.filter(pc.is_valid(table["checks"]))
        right = pc.sum(pc.and_kleene(pc.equal(judged["checks"], ""), judged["geometry_right"])).as_py() or 0
        return f"{head}, with conformers and no texts{f': {right:,} right in 3D' if judged.num_rows else ''}."
    if table.num_rows and table["clean"].null_count == table.num_rows:
        return f"{head} without a text that was read: {failed:,} {agreeing(failed, 'fails', 'fail')} by a summary."
    columns = {name: table[name].to_numpy() for name in ("junk_blocks", "cut_blocks")}
    clean = pc.sum(table["clean"]).as_py() or 0
    decodes = pc.sum(table["decodes"]).as_py()  # None where only old runs are chosen, which do not know
    decode = "" if decodes is None else f"{decodes:,} decode, "
    fail = f"{failed:,} {agreeing(failed, 'fails', 'fail')} the reports' rule"
    usable = pc.sum(table["usable"]).as_py()  # None where nothing was judged
    kept = f"{clean:,} clean" + ("" if usable is None else f", {usable:,} usable")
    return (
        f"{head}: {int((columns['junk_blocks'] > 0).sum()):,} with junk, "
        f"{int((columns['cut_blocks'] > 0).sum()):,} with a cut, {fail}, {decode}{kept}."
    )


def worst_words(table: pa.Table) -> str:
    """Of the first of several rows: what is wrong with it."""
    if table.num_rows < 2:
        return ""
    (first,) = table.slice(0, 1).to_pylist()
    damaged = f"{first['bad_blocks']} of {first['blocks']} blocks damaged" if first["bad_blocks"] else ""
    off = f"atoms off by ≈ {angstrom(lost)} in all" if (lost := rounded(first["lost_ang"] or 0.0, 2)) else ""
    words = ", ".join(filter(None, (off, damaged)))
    if not words and first["rmsd_ang"] is not None:
        words = f"RMSD {angstrom(first['rmsd_ang'])}"
    return f"Worst of {table.num_rows:,}{': ' if words else ''}{words}."
