"""How much an LP masks, molecule by molecule, from its own tables: FREE positions, and the entries forbidden at them.

What the reports call the size of a mask. A position LP has one cell per token, so both are fixed before the first token
is drawn. Under the truncating LP a block may end early: its figures are the most. The exact LP and no LP at all have
cells that a row stays in, so how many positions there are is the model's choice: then only what is legal at one
position is counted, least and most. A dense mask is what somebody might make beforehand: the drivers here keep the
automaton's classes, and never do.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from engine.chem.enriched import described
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError
from engine.inspection.runs import number_format, run_facts, run_tokenizer
from engine.lp.constraint import Constraint, LpParameters, build_constraint
from engine.lp.table import JUMP, KEEP, NEXT, NO_ID, STAY, SYMBOLS, Automaton
from engine.lp_records import UNKNOWN_LP
from engine.records import Molecule
from engine.store.store import Store

MOST_MOLECULES = 1_000
"""Of a run, the first: a molecule takes about a millisecond."""
_MOLECULES = """
SELECT smiles, min(sample_id) AS first, count(*) OVER () AS molecules
FROM samples WHERE run_id = $run GROUP BY smiles ORDER BY first LIMIT $most
"""
Row = dict[str, Any]


def masks_of_run(store: Store, run_id: str) -> tuple[list[Row], int, str]:
    """``mask_rows`` of a run's first molecules under its own LP, how many are left out, and why there is none."""
    run = run_facts(store, run_id)
    tokenizer, why = run_tokenizer(run)
    name = run.constraint if run.lp_record is UNKNOWN_LP else run.lp_record.name
    if tokenizer is None or not name:
        return [], 0, why or "The run does not name its LP."
    try:
        parameters = LpParameters(run.placeholder, number_format(run))
        constraint = build_constraint(name, tokenizer, tokenizer.vocab_size, parameters)
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
        rows.append(
            {"smiles": molecule.smiles, "atoms": molecule.atoms, "dense_entries": len(program) * vocabulary,
             "positions": "open" if is_open else "at most" if any(jumps) else "fixed",
             "free_positions": None if is_open else int(is_free.sum()),
             "masked": None if is_open else sum(vocabulary - count for count in least),
             "legal_least": max(1, min(least)), "legal_most": max(1, max(most))}
        )  # fmt: skip
    return rows


def _cell_counter(automaton: Automaton) -> Any:
    """A function of the nodes that a row may enter a cell with, and whether the cell has symbols. What a cell forbids
    depends on these alone: many cells are alike, so each kind of them is counted once."""
    legal = automaton.legal
    tokens = np.bincount(automaton.classes, minlength=legal.shape[1] - SYMBOLS)
    by_class = legal[:, :-SYMBOLS] @ tokens  # [Q] tokens that a node allows, symbols apart: they close a block

    @functools.cache
    def cell(nodes: frozenset[int], has_symbols: tuple[bool, ...]) -> tuple[frozenset[int], int, int, bool, bool]:
        """The nodes that it is left with; legal tokens, fewest and most over its nodes; whether a row may stay in it or
        jump out of its block."""
        inside, waiting, left = set(nodes), list(nodes), set()
        while waiting:
            node = waiting.pop()
            for kind in np.flatnonzero(legal[node]):
                after = int(automaton.goto[node, kind])
                if automaton.move[node, kind] == NEXT:
                    left.add(after)
                elif automaton.move[node, kind] == STAY and after not in inside:
                    inside.add(after)
                    waiting.append(after)
        places = sorted(inside)
        allowed = by_class[places] + (legal[places, -SYMBOLS:] & np.array(has_symbols)).sum(axis=1)
        moves = automaton.move[places][legal[places]]
        return frozenset(left), int(allowed.min()), int(allowed.max()), STAY in moves, JUMP in moves

    return cell
