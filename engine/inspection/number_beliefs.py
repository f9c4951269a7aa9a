"""What a model believes of the numbers of a stored text by cell, and which cells ``shaped`` would strike.

``shaped`` is asked whether some right place is in a cell, given the atoms and the axes before it as written, in the
narrowest tolerance that has a right place anywhere on the axis, so that it is the same for cells of any width. As
there, it is asked by points, and a narrow place may be missed. Of a bin its middle alone is asked, the one place that
it means, in the narrowest tolerance that has a right bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from engine.errors import UnsupportedMoleculeError
from engine.figures.laws import Array, NumberLaw
from engine.lp.numbers import AXES
from engine.lp.places import EVERYWHERE, TOLERANCES, Atoms, Boxes, MoleculePlaces, find
from engine.records import BinFormat, Molecule, NumberFormat

if TYPE_CHECKING:
    from engine.decode.number_laws import BlockLaws

POINTS, AXIS_POINTS, LEAST_ASKED, LEAST_WIDE_ANG = 96, 1024, 1e-5, 0.01
"""Points of a cell that are asked, and of the whole axis; of the mass: cells with less are not asked. Narrower cells
are asked as if so wide, about the same middle: too few points lie in them."""
NOT_ASKED, WRONG, RIGHT = -1, 0, 1


def belief_cells(molecule: Molecule, blocks: Sequence[BlockLaws], form: NumberFormat) -> pa.Table:
    """A row each cell: block, axis, the number as written, the mass that no cell of it has (``rest``), the cell's ends
    in angstrom, its mass ``p``, and what ``shaped`` says of it (``right``)."""
    try:
        places = MoleculePlaces(molecule.mol)
    except UnsupportedMoleculeError:
        places = None
    rows: list[dict[str, Any]] = []
    for block in blocks:
        atom = block.block % molecule.atoms  # of its conformer
        positions = np.zeros((molecule.atoms, 3))
        positions[: atom + 1] = [before.written for before in blocks[block.block - atom : block.block + 1]]
        for axis, law in enumerate(block.laws):
            right = _right_cells(places, positions, atom, axis, law, only_middle=isinstance(form, BinFormat))
            of_number = {"block": block.block, "axis": AXES[axis], "written": block.written[axis], "rest": law.rest}
            cells = zip(law.low.tolist(), law.high.tolist(), law.p.tolist(), right, strict=True)
            for low, high, p, is_right in cells:
                rows.append({**of_number, "cell_low": low, "cell_high": high, "p": p, "right": is_right})
    return pa.Table.from_pylist(rows)


def _right_cells(
    places: MoleculePlaces | None, positions: Array, atom: int, axis: int, law: NumberLaw, *, only_middle: bool
) -> list[int]:
    right = np.full(len(law.p), NOT_ASKED)
    if places is None or atom not in places.text_atoms:
        return right.tolist()
    text_atoms = list(places.text_atoms)
    checks = places.checks[text_atoms.index(atom)]
    asked = np.flatnonzero((law.p > LEAST_ASKED) & (len(checks.others) > 0))  # a first atom has nothing to be off
    known = np.repeat(positions[atom][None], len(asked), axis=0)
    middle, width = (law.low[asked] + law.high[asked]) / 2, law.high[asked] - law.low[asked]
    half = np.zeros_like(width) if only_middle else np.maximum(width, LEAST_WIDE_ANG) / 2
    boxes = Boxes(np.zeros_like(asked), np.full_like(asked, axis), known, middle - half, middle + half)
    far = np.full(1, EVERYWHERE)
    whole_axis = Boxes(boxes.atom[:1], boxes.axis[:1], known[:1], -far, far)
    right[asked] = WRONG
    for tolerance in range(len(TOLERANCES) if len(asked) else 0):
        atoms = Atoms([(checks, positions[text_atoms], tolerance)])
        if len(find(atoms, boxes if only_middle else whole_axis, AXIS_POINTS)[2]):
            right[asked] = np.isin(np.arange(len(asked)), find(atoms, boxes, POINTS)[2])
            break
    return right.tolist()
