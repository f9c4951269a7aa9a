"""How much there is to mask, counted from the LP's tables, not measured.

Positions of a molecule at which the model may choose (FREE), and entries of the vocabulary that are forbidden there.
Forced positions need no mask. Only the run's first 1,000 molecules. It does not say what masking costs: Driftscope
keeps classes of tokens and never builds the dense mask whose size is given. Under `exact` and `none` the model may stay
in a cell of the LP's program, so it chooses how many positions there are: then only what is legal at one position is
counted. Of `truncating` figures are upper limits: a block may end early.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from engine.chem.enriched import described
from engine.chem.smiles import parse_smiles
from engine.comparing.measures import has_samples, run_names
from engine.errors import DriftscopeError
from engine.figures.words import fixed, large, listed, number
from engine.inspection.constrained import constraint_of_run
from engine.inspection.runs import facts_of, run_tokenizer
from engine.lp.constraint import Constraint
from engine.lp.table import JUMP, KEEP, NEXT, NO_ID, STAY, SYMBOLS, Automaton
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.records import Molecule
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "How much does an LP mask?"
OF = Of("run", least=1, most=8)
NEEDS_TEXTS = True
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
MOST_MOLECULES = 1_000
"""Of a run, the first: a molecule takes about a millisecond."""
_MOLECULES = """
SELECT smiles, min(sample_id) AS first, count(*) OVER () AS molecules
FROM samples WHERE run_id = $run GROUP BY smiles ORDER BY first LIMIT $most
"""
Row = dict[str, Any]
BATCH = 32
REPORTED_GB = BATCH * 2_000 * 152_000 / 1e9


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    names = run_names(entries)
    rows: list[Row] = []
    runs: list[Row] = []
    for entry in entries:
        head = {"run": entry.id, "name": names[entry.id]}
        if not has_samples(entry):
            runs.append(head | {"why": "no samples, so its molecules are not known"})
            continue
        masks, left_out, why = masks_of_run(store, entry)
        rows += [head | row for row in masks]
        batch = entry.row.get("batch_size") or BATCH
        runs.append(head | {"why": why, "left_out": left_out, "batch": batch} | summary_of(masks, batch))
    shown = options["masked"] if any(not run.get("is_open", True) for run in runs) else LEGAL
    is_drawn, of = ("legal_most", runs) if shown == LEGAL else ("masked", rows)
    drawn = [row for row in of if row.get(is_drawn) is not None]
    columns = ["name", "masked", "free_positions", "dense_gb", "is_open", "why", "left_out", "batch"]
    return {
        "main": rows_table(rows, ["run", "name", "smiles"]),
        shown: rows_table(drawn),
        "runs": rows_table(runs, columns),
    }


def summary_of(masks: Sequence[Row], batch: int) -> Row:
    """Of a run's molecules; counts of positions only where the LP says how many there are."""
    is_open = any(row["positions"] == "open" for row in masks)
    known = [] if is_open else masks

    def median(column: str) -> float | None:
        values = [row[column] for row in known if row[column] is not None]
        return statistics.median(values) if values else None

    return {
        "is_open": is_open,
        "dense_gb": batch * max(row["dense_entries"] for row in known) / 1e9 if known else None,  # a byte per boolean
        "masked": median("masked"),
        "free_positions": median("free_positions"),
        "legal_least": min((row["legal_least"] for row in masks), default=None),
        "legal_most": max((row["legal_most"] for row in masks), default=None),
    }


def answer(tables: Tables, options: Options) -> str:
    runs = tables["runs"].to_pylist()
    with_mask = [run for run in runs if run["masked"] is not None]
    sentences = []
    if with_mask:
        most = max(with_mask, key=lambda run: run["masked"])
        sentences.append(
            f"{most['name']} masks most: median {large(most['masked'])} entries per molecule, at "
            f"{fixed(most['free_positions'], 0)} FREE positions."
        )
        if most["dense_gb"] is not None:
            sentences.append(
                f"A dense mask for its batch of {most['batch']} would take {number(most['dense_gb'])} GB "
                f"(the reports' {fixed(REPORTED_GB, 1)} GB: 32 x 2,000 x 152,000 entries)."
            )
    if is_open := [run["name"] for run in runs if run["is_open"]]:
        sentences.append(f"Under {listed(is_open)} the model chooses how many positions there are.")
    notes = [f"{run['name']}: {run['why']}." for run in runs if run["why"]]
    notes += [f"{run['name']}: {run['left_out']:,} molecules not counted." for run in runs if run["left_out"]]
    return answer_text([" ".join(sentences) or "The masks of these runs cannot be counted here."], notes)


# --- counting ---------------------------------------------------------------------------------------------------------


def masks_of_run(store: Store, entry: Entry) -> tuple[list[Row], int, str]:
    """``mask_rows`` of a run's first molecules under its own LP, how many are left out, and why there is none."""
    run = facts_of(entry)
    tokenizer, why = run_tokenizer(run)
    if tokenizer is None or not run.constraint:
        return [], 0, why or "The run does not name its LP."
    try:
        constraint = constraint_of_run(run, tokenizer)
    except DriftscopeError as error:
        return [], 0, f"Its LP cannot be made here: {error.what}."
    molecules = store.table(_MOLECULES, {"run": run.run_id, "most": MOST_MOLECULES}, of=[run.run_id]).to_pylist()

    def read() -> Iterator[Molecule]:
        for row in molecules:
            try:
                yield described(parse_smiles(row["smiles"]), run.descriptors)
            except DriftscopeError:  # an imported run may have anything
                continue

    rows = mask_rows(constraint, read())
    return rows, (molecules[0]["molecules"] if molecules else 0) - len(rows), ""


def mask_rows(constraint: Constraint, molecules: Iterable[Molecule]) -> list[Row]:
    """Of each molecule that the LP can be compiled for: entries of a dense mask, fewest and most legal tokens at
    a position, FREE positions, entries masked over these; both null where their number is the model's choice."""
    cell, vocabulary = _cell_counter(constraint.automaton), len(constraint.automaton.classes)
    rows: list[Row] = []
    for molecule in molecules:
        try:
            program = constraint.compile(molecule)
        except DriftscopeError:
            continue
        is_free = program.forced == NO_ID
        cells, carried = [], frozenset[int]()
        has_symbols = (program.symbols[is_free] != NO_ID).tolist()
        for entry, symbols in zip(program.entry[is_free].tolist(), has_symbols, strict=True):
            if nodes := carried if entry == KEEP else frozenset({entry}):
                carried, *counts = cell(nodes, tuple(symbols))
                cells.append(counts)
        least, most, stays, jumps = zip(*cells, strict=True) if cells else ((vocabulary,), (vocabulary,), (), ())
        is_open = any(stays)
        positions = "fixed"
        if is_open:
            positions = "open"
        elif any(jumps):
            positions = "at most"
        rows.append(
            {
                "smiles": molecule.smiles,
                "atoms": molecule.atoms,
                "dense_entries": len(program) * vocabulary,
                "positions": positions,
                "free_positions": None if is_open else int(is_free.sum()),
                "masked": None if is_open else sum(vocabulary - count for count in least),
                "legal_least": max(1, min(least)),
                "legal_most": max(1, max(most)),
            }
        )
    return rows


def _cell_counter(automaton: Automaton) -> Any:
    """A function of the nodes that a row may enter a cell with, and whether the cell has symbols. What a cell forbids
    depends on these alone: many cells are the same, so each kind of them is counted once."""
    legal = automaton.legal
    tokens = np.bincount(automaton.classes, minlength=legal.shape[1] - SYMBOLS)
    by_class = legal[:, :-SYMBOLS] @ tokens  # [Q] tokens that a node allows, symbols apart: they close a block

    @functools.cache
    def cell(nodes: frozenset[int], has_symbols: tuple[bool, ...]) -> tuple[frozenset[int], int, int, bool, bool]:
        """The nodes that it is left with; legal tokens, fewest and most over its nodes; whether a row may stay in it or
        jump out of its block."""
        inside = set(nodes)
        waiting = list(nodes)
        left = set()
        while waiting:
            node = waiting.pop()
            for kind in np.flatnonzero(legal[node]):
                after = int(automaton.goto[node, kind])
                if automaton.move[node, kind] == NEXT:
                    left.add(after)
                elif automaton.move[node, kind] == STAY and after not in inside:
                    inside.add(after)
                    waiting.append(after)
        ordered = sorted(inside)
        allowed = by_class[ordered] + (legal[ordered, -SYMBOLS:] & np.array(has_symbols)).sum(axis=1)
        moves = automaton.move[ordered][legal[ordered]]
        return frozenset(left), int(allowed.min()), int(allowed.max()), STAY in moves, JUMP in moves

    return cell
