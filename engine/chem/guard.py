"""What is wrong with a conformer while it is being written: asked of each atom as soon as its position is known.

The checks are the verdict's own, each asked once all atoms that it needs have come: the distances to the atoms before,
a plane with its last atom, the hand of a centre with its last neighbour. So a molecule that passes atom by atom passes
the verdict's geometry and stereo. Stereo is judged as the text numbers its atoms: a conformer that is right by a
symmetry of the graph alone is wrong here, and could have been written with its atoms exchanged.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from engine.chem.frame import Array
from engine.chem.geometry import APART, GeometryChecks, wrong_planes
from engine.chem.heavy import heavy_of
from engine.chem.stereo import stereo_goals
from engine.errors import UnsupportedMoleculeError
from engine.lp_records import GUARD_CHECKS, GuardCheck

_OF_PAIRS: dict[str, GuardCheck] = dict(zip(APART, GUARD_CHECKS[:3], strict=True))


def pairs_of(checks: Collection[GuardCheck]) -> NDArray[np.bool_]:
    """By index in ``APART``: whether such pairs are among what is checked."""
    return np.array([_OF_PAIRS[apart] in checks for apart in APART])


@dataclass(frozen=True, slots=True)
class WrongPlace:
    """A check that an atom failed, and all atoms that it was made by."""

    check: GuardCheck
    atoms: tuple[int, ...]  # of the text


class MoleculeGuard:
    """The checks of one molecule, by the atom with which each can be made."""

    def __init__(self, mol: Chem.Mol, checks: Collection[GuardCheck] = GUARD_CHECKS) -> None:
        """``mol`` is in its text's order. ``UnsupportedMoleculeError`` where distance geometry knows no bounds."""
        heavy, self._text_atoms = heavy_of(Chem.Mol(mol))
        geometry = GeometryChecks(heavy)
        if geometry.bounds is None:
            raise UnsupportedMoleculeError("distance geometry has no bounds for the molecule", "Use the LP exact")
        wanted = pairs_of(checks)[geometry.bounds.apart]
        last = np.maximum(geometry.bounds.first, geometry.bounds.second)
        goals = stereo_goals(heavy) if "stereo" in checks else []
        self._by_atom = {
            text_atom: (
                geometry.bounds.only((last == atom) & wanted),
                tuple(plane for plane in geometry.planes if "flat" in checks and max(plane[1]) == atom),
                [goal for goal in goals if max(goal.spanned_by) == atom],
            )
            for atom, text_atom in enumerate(self._text_atoms)
        }

    def wrong_places(self, positions: Array, atom: int) -> list[WrongPlace]:
        """Of an atom of the text, given the positions [atoms, 3] of all up to it; nothing is asked of a hydrogen."""
        if atom not in self._by_atom:
            return []
        bounds, planes, goals = self._by_atom[atom]
        placed = positions[list(self._text_atoms)]
        wrong: list[tuple[GuardCheck, tuple[int, ...]]] = [
            (_OF_PAIRS[APART[bounds.apart[pair]]], (int(bounds.first[pair]), int(bounds.second[pair])))
            for pair in bounds.wrong(placed)[0]
        ]
        wrong += [("flat", failed.atoms) for failed in wrong_planes(planes, placed)]
        wrong += [("stereo", goal.spanned_by) for goal in goals if not goal.is_met(placed)]
        return [WrongPlace(check, tuple(self._text_atoms[other] for other in atoms)) for check, atoms in wrong]
