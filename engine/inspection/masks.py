"""How much an LP masks, molecule by molecule, from its own tables: FREE positions, and the entries forbidden at them.

What the reports call the size of a mask. A position LP has one cell per token, so both are fixed before the first token
is drawn. Under the truncating LP a block may end early: its figures are the most. The exact LP and no LP at all have
cells that a row stays in, so how many positions there are is the model's choice: then only the cells are counted, and
what is forbidden at one position, least and most. A dense mask is what somebody might make beforehand: the drivers here
keep the automaton's classes, and never do.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from engine.chem.enriched import described
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError
from engine.inspection.runs import number_format, run_facts, run_tokenizer
from engine.lp.constraint import Constraint, LpParameters, build_constraint
from engine.lp.table import JUMP, KEEP, NEXT, NO_ID, STAY, SYMBOLS, Automaton, Program
from engine.lp_records import UNKNOWN_LP, lp_record, split_cleanup
from engine.records import Molecule
from engine.store.store import Store

Positions = Literal["fixed", "at most", "open"]
MOST_MOLECULES = 1_000
"""Of a run, the first: a molecule takes about a millisecond."""

_MOLECULES = """
SELECT smiles, min(sample_id) AS first, count(*) OVER () AS molecules
FROM samples WHERE run_id = $run GROUP BY smiles ORDER BY first LIMIT $most
"""


@dataclass(frozen=True, slots=True)
class MaskSize:
    """One molecule under one LP. ``masked`` is None where the number of positions is the model's choice."""

    smiles: str
    atoms: int
    cells: int  # of its program: positions, where they are fixed
    free_cells: int  # the model chooses: FREE positions, where they are fixed
    positions: Positions
    forbidden_least: int  # entries masked at one free position
    forbidden_most: int
    masked: int | None  # over all free positions; the most where they are "at most"

    @property
    def free_positions(self) -> int | None:
        return None if self.positions == "open" else self.free_cells


@dataclass(frozen=True, slots=True)
class MaskSizes:
    """Several molecules under one LP of one tokenizer."""

    lp: str
    tokenizer: str
    vocabulary: int  # entries of a mask
    molecules: tuple[MaskSize, ...]
    left_out: int  # molecules that do not parse, that the LP cannot be compiled for, or that are beyond the most
    reason: str  # why there is none; empty where there are some

    @property
    def longest(self) -> int | None:
        """Positions of the longest; None where the model chooses how many there are."""
        lengths = [molecule.cells for molecule in self.molecules if molecule.positions != "open"]
        return max(lengths) if lengths and len(lengths) == len(self.molecules) else None

    def dense_bytes(self, batch: int) -> int | None:
        """Of a mask of booleans for a batch of the longest, made before the first token."""
        return None if self.longest is None else dense_mask_bytes(batch, self.longest, self.vocabulary)


def dense_mask_bytes(batch: int, positions: int, vocabulary: int) -> int:
    """Of a tensor [batch, positions, vocabulary], a byte per boolean."""
    return batch * positions * vocabulary


def mask_sizes(constraint: Constraint, molecules: Iterable[Molecule], tokenizer: str = "") -> MaskSizes:
    """Under one constraint; its automaton has as many entries as the model has rows."""
    size = _counter(constraint.automaton)
    sizes, refused = [], 0
    for molecule in molecules:
        try:
            sizes.append(size(molecule, constraint.compile(molecule)))
        except DriftscopeError:
            refused += 1
    return MaskSizes(constraint.name, tokenizer, len(constraint.automaton.classes), tuple(sizes), refused, "")


def mask_sizes_of_run(store: Store, run_id: str, lp: str | None = None, most: int = MOST_MOLECULES) -> MaskSizes:
    """The first molecules of a run, under its own LP or another. A run knows its tokenizer, and no rows beyond it."""
    run = run_facts(store, run_id)
    name = split_cleanup(lp)[0] if lp else run.lp_record.name if run.lp_record is not UNKNOWN_LP else run.constraint
    tokenizer, why = run_tokenizer(run)
    if tokenizer is None or not name:
        return MaskSizes(name, run.tokenizer, 0, (), 0, why or "The run does not name its LP.")
    try:
        is_own = name == run.lp_record.name
        parameters = LpParameters(run.placeholder if is_own else "", number_format(run))
        constraint = build_constraint(name, tokenizer, tokenizer.vocab_size, parameters)
    except DriftscopeError as error:
        return MaskSizes(name, run.tokenizer, 0, (), 0, f"Its LP cannot be made here: {error.what}.")
    rows = store.table(_MOLECULES, {"run": run.run_id, "most": most}, of=[run.run_id])
    descriptors = run.descriptors if is_own else lp_record(name).descriptors or "plain"
    molecules = [described(molecule, descriptors) for molecule in _parsed(rows["smiles"].to_pylist())]
    sizes = mask_sizes(constraint, molecules, tokenizer.name)
    asked_for = rows["molecules"][0].as_py() if rows.num_rows else 0
    return replace(sizes, left_out=asked_for - len(sizes.molecules))


def _parsed(smiles: Sequence[str]) -> list[Molecule]:
    return [molecule for molecule in map(_molecule, smiles) if molecule is not None]


@functools.lru_cache(maxsize=MOST_MOLECULES)
def _molecule(smiles: str) -> Molecule | None:
    """Runs that are compared have the same molecules; an imported one may have anything."""
    with contextlib.suppress(DriftscopeError):
        return parse_smiles(smiles)
    return None


def _counter(automaton: Automaton) -> Callable[[Molecule, Program], MaskSize]:
    """Counts for programs of one automaton. What a cell forbids depends on its nodes only, which are few: many cells
    are alike, so each kind of them is counted once."""
    legal = automaton.legal
    rows = len(automaton.classes)
    tokens = np.bincount(automaton.classes, minlength=legal.shape[1] - SYMBOLS)
    by_class = legal[:, :-SYMBOLS] @ tokens  # [Q] tokens that a node allows, symbols apart

    @functools.cache
    def walk(nodes: frozenset[int]) -> tuple[frozenset[int], frozenset[int]]:
        """Nodes that a row may be at in a cell that it enters with these, and those that it may leave it with."""
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
        return frozenset(inside), frozenset(left)

    @functools.cache
    def cell(nodes: frozenset[int], has_symbols: tuple[bool, ...]) -> tuple[int, int, bool, bool]:
        """Entries forbidden, least and most over its nodes, and whether a row may stay in it or jump out of its block.
        Symbols are tokens that no class allows: they close a block."""
        inside = sorted(nodes)
        allowed = by_class[inside] + (legal[inside, -SYMBOLS:] & np.array(has_symbols)).sum(axis=1)
        moves = automaton.move[inside][legal[inside]]
        return rows - int(allowed.max()), rows - int(allowed.min()), STAY in moves, JUMP in moves

    def size(molecule: Molecule, program: Program) -> MaskSize:
        is_free = program.forced == NO_ID
        cells = []
        carried: frozenset[int] = frozenset()
        has_symbols = (program.symbols[is_free] != NO_ID).tolist()
        for entry, symbols in zip(program.entry[is_free].tolist(), has_symbols, strict=True):
            nodes = carried if entry == KEEP else frozenset({entry})
            if nodes:
                inside, carried = walk(nodes)
                cells.append(cell(inside, tuple(symbols)))
        least, most, stays, jumps = zip(*cells, strict=True) if cells else ((), (), (), ())
        return MaskSize(
            smiles=molecule.smiles,
            atoms=molecule.atoms,
            cells=len(program),
            free_cells=int(is_free.sum()),
            positions="open" if any(stays) else "at most" if any(jumps) else "fixed",
            forbidden_least=min(least, default=0),
            forbidden_most=max(most, default=0),
            masked=None if any(stays) else sum(most),
        )

    return size
