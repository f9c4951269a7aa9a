"""What a model believes of the numbers of a stored text, and which of it ``shaped`` would strike.

``shaped`` is asked of the cells of each law: whether some right place is in one, given the atoms and the axes before it
as written, in the narrowest tolerance that has a right cell. As there, it is asked by points, and a narrow place may be
missed. Of a bin its middle alone is asked, the one place that it means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.errors import UnsupportedMoleculeError
from engine.figures.laws import Array, NumberLaw
from engine.lp.places import TOLERANCES, Atoms, Boxes, MoleculePlaces, find
from engine.lp.prefixes import first_prefix
from engine.records import BinFormat, Molecule, NumberFormat
from engine.text.tokenizers import TextTokenizer

POINTS, LEAST_ASKED = 96, 1e-5
"""Points of a cell that are asked; of the mass: cells with less are not asked."""
NOT_ASKED, WRONG, RIGHT = -1, 0, 1


@dataclass(frozen=True, slots=True)
class NumberBelief:
    """One number. Its law as in ``NumberLaw``; ``right``: what ``shaped`` says of each cell."""

    block: int
    axis: int
    written: float
    low: Sequence[float]
    high: Sequence[float]
    p: Sequence[float]
    rest: float
    right: Sequence[int]

    @property
    def law(self) -> NumberLaw:
        return NumberLaw(np.array(self.low), np.array(self.high), np.array(self.p), self.rest)

    @property
    def struck(self) -> float | None:
        """The share of the mass in cells without a right place; None where nothing was asked."""
        right = np.array(self.right)
        return float(self.law.share[right == WRONG].sum()) if (right != NOT_ASKED).any() else None


def written_places(tokenizer: TextTokenizer, form: NumberFormat, ids: Iterable[int]) -> list[tuple[float, ...]]:
    """The three numbers of each block that a text closes, in order."""
    prefix, places = first_prefix(form), []
    for id_ in ids:
        prefix = prefix.read(tokenizer.raw(id_).decode("utf-8", "replace"))
        if prefix.closed is not None:
            places.append(prefix.closed)
    return places


def beliefs_of(
    molecule: Molecule, laws: Mapping[int, Sequence[NumberLaw]], written: Sequence[Sequence[float]], form: NumberFormat
) -> list[NumberBelief]:
    """Of the blocks that have three laws and three numbers."""
    try:
        places = MoleculePlaces(molecule.mol)
    except UnsupportedMoleculeError:
        places = None
    beliefs = []
    for block in [block for block in sorted(laws) if block < len(written) and len(laws[block]) == len(written[block])]:
        atom = block % molecule.atoms  # of its conformer
        positions = np.zeros((molecule.atoms, 3))
        positions[: atom + 1] = written[block - atom : block + 1]
        for axis, law in enumerate(laws[block]):
            middle = (law.low + law.high) / 2
            asked = replace(law, low=middle, high=middle) if isinstance(form, BinFormat) else law
            right = _right_cells(places, positions, atom, axis, asked)
            cells = law.low.tolist(), law.high.tolist(), law.p.tolist()
            beliefs.append(NumberBelief(block, axis, written[block][axis], *cells, law.rest, right))
    return beliefs


def _right_cells(places: MoleculePlaces | None, positions: Array, atom: int, axis: int, law: NumberLaw) -> list[int]:
    right = np.full(len(law.p), NOT_ASKED)
    if places is None or atom not in places.text_atoms:
        return right.tolist()
    text_atoms = list(places.text_atoms)
    checks = places.checks[text_atoms.index(atom)]
    asked = np.flatnonzero((law.p > LEAST_ASKED) & (len(checks.others) > 0))  # a first atom has nothing to be off
    known = np.repeat(positions[atom][None], len(asked), axis=0)
    boxes = Boxes(np.zeros_like(asked), np.full_like(asked, axis), known, law.low[asked], law.high[asked])
    right[asked] = WRONG
    for tolerance in range(len(TOLERANCES) if len(asked) else 0):
        _, _, box = find(Atoms([(checks, positions[text_atoms], tolerance)]), boxes, POINTS)
        if len(box):
            right[asked] = np.isin(np.arange(len(asked)), box)
            break
    return right.tolist()
