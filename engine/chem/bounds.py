"""How far apart a molecule's atoms may lie: RDKit's distance-geometry bounds, with the tolerances of PoseBusters.

Made once per molecule from its graph alone; conformers are then judged by arithmetic. Only pairs of heavy atoms count.
As in PoseBusters, bonds of equal conjugated ends (both of a carboxylate, a nitro group) share their bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem.rdDistGeom import GetMoleculeBoundsMatrix

from engine.chem.rdkit_log import captured_log, matching

Apart = Literal["bond", "angle", "other"]
APART: tuple[Apart, ...] = get_args(Apart)
LEAST_OFF = np.array([-0.25, -0.25, -0.3])
"""Relative to the lower bound, by place in ``APART``: nearer than this is wrong."""
MOST_OFF = np.array([0.25, 0.25, np.inf])
"""Relative to the upper bound; atoms that neither a bond nor an angle joins may lie as far apart as they like."""

CONJUGATED_ENDS = Chem.MolFromSmarts("[O,N;D1;$([O,N;D1]-[*]=[O,N;D1]),$([O,N;D1]=[*]-[O,N;D1])]~[*]")
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PairBounds:
    """Pairs of heavy atoms, first < second, with what distance geometry allows them in angstrom; arrays of [pairs]."""

    first: Indices
    second: Indices
    apart: Indices  # place in ``APART``
    centre: Indices  # of an angle the atom in its middle, else -1
    lower: Floats
    upper: Floats

    def least(self, pair: int) -> float:
        """The shortest distance that passes, tolerance included."""
        return float(self.lower[pair] * (1 + LEAST_OFF[self.apart[pair]]))

    def most(self, pair: int) -> float:
        """The longest; infinite for a pair that can only clash."""
        return float(self.upper[pair] * (1 + MOST_OFF[self.apart[pair]]))

    def wrong(self, positions: Floats) -> tuple[Indices, Floats, Floats]:
        """Of positions [atoms, 3] the pairs beyond their bounds and tolerance; then, of all pairs, the distances and
        how far they are beyond, relative to the bound: negative for too near, 0 within, positive for too far."""
        distances = np.linalg.norm(positions[self.first] - positions[self.second], axis=-1)
        below, above = distances < self.lower, distances > self.upper
        bound = np.where(below, self.lower, self.upper)
        errors = np.where(below | above, (distances - bound) / bound, 0.0)
        is_wrong = (errors < LEAST_OFF[self.apart]) | (errors > MOST_OFF[self.apart])
        return np.flatnonzero(is_wrong), distances, errors

    def only(self, kept: NDArray[np.bool_]) -> PairBounds:
        columns = (self.first, self.second, self.apart, self.centre, self.lower, self.upper)
        return PairBounds(*(column[kept] for column in columns))


def pair_bounds(mol: Chem.Mol) -> PairBounds | None:
    """Bounds of a sanitised molecule; None where distance geometry has none for it."""
    atoms = mol.GetNumAtoms()
    matrix = np.zeros((atoms, atoms))
    if atoms > 1:
        try:
            with captured_log():
                matrix = GetMoleculeBoundsMatrix(mol, set15bounds=True, scaleVDW=True, doTriangleSmoothing=True)
        except RuntimeError:
            return None
    apart, centre = np.full((atoms, atoms), APART.index("other")), np.full((atoms, atoms), -1)
    for atom in mol.GetAtoms():
        for ends in combinations(sorted(neighbour.GetIdx() for neighbour in atom.GetNeighbors()), 2):
            apart[ends], centre[ends] = APART.index("angle"), atom.GetIdx()
    for bond in mol.GetBonds():
        ends = min(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()), max(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
        apart[ends], centre[ends] = APART.index("bond"), -1
    second, first = np.tril_indices(atoms, k=-1)
    lower, upper = matrix[second, first], matrix[first, second]
    _share_bounds(mol, first, second, lower, upper)
    heavy = np.array([atom.GetAtomicNum() != 1 for atom in mol.GetAtoms()], dtype=bool)
    pairs = PairBounds(first, second, apart[first, second], centre[first, second], lower, upper)
    return pairs.only(heavy[first] & heavy[second])


def _share_bounds(mol: Chem.Mol, first: Indices, second: Indices, lower: Floats, upper: Floats) -> None:
    """Of conjugated ends, all bonds between the same two elements get the widest bounds of any of them, in place."""
    symbols = [atom.GetSymbol() for atom in mol.GetAtoms()]
    place = {pair: index for index, pair in enumerate(zip(first.tolist(), second.tolist(), strict=True))}
    alike: dict[tuple[str, ...], set[int]] = {}
    with matching():
        ends = mol.GetSubstructMatches(CONJUGATED_ENDS)
    for match in ends:
        elements = tuple(sorted(symbols[atom] for atom in match))
        alike.setdefault(elements, set()).add(place[min(match), max(match)])
    for places in map(list, alike.values()):
        lower[places], upper[places] = lower[places].min(), upper[places].max()
