"""What is wrong with a conformer while it is being written: asked of each atom as soon as its place is known.

The checks are the verdict's own, each asked once all atoms that it needs have come: the distances to the atoms before,
a plane with its last atom, the hand of a centre with its last neighbour. So a molecule that passes atom by atom passes
the verdict's geometry and stereo. Stereo is judged as the text numbers its atoms: a conformer that is right by a
symmetry of the graph alone is wrong here, and could have been written with its atoms exchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from rdkit import Chem

from engine.chem.bounds import APART, Floats, PairBounds
from engine.chem.geometry import geometry_checks, wrong_planes
from engine.chem.stereo import StereoGoal, stereo_goals
from engine.chem.verdict import heavy_of
from engine.errors import UnsupportedMoleculeError
from engine.lp_records import GUARD_CHECKS, GuardCheck

_OF_PAIRS: dict[str, GuardCheck] = dict(zip(APART, GUARD_CHECKS[:3], strict=True))


@dataclass(frozen=True, slots=True)
class WrongPlace:
    """A check that an atom failed, and all atoms by whose places it was made."""

    check: GuardCheck
    atoms: tuple[int, ...]  # of the text


@dataclass(frozen=True, slots=True, eq=False)
class _AtomChecks:
    """What an atom has to meet among the atoms before it; atoms are those of the heavy molecule."""

    bounds: PairBounds
    planes: tuple[tuple[str, tuple[int, ...]], ...]
    goals: tuple[StereoGoal, ...]


class MoleculeGuard:
    """The checks of one molecule, by the atom with which each can be made."""

    def __init__(self, mol: Chem.Mol, checks: Collection[GuardCheck] = GUARD_CHECKS) -> None:
        """``mol`` is in its text's order. ``UnsupportedMoleculeError`` where distance geometry knows no bounds."""
        heavy, self._places = heavy_of(Chem.Mol(mol))
        geometry = geometry_checks(heavy)
        if geometry.bounds is None:
            raise UnsupportedMoleculeError("distance geometry has no bounds for the molecule", "Use the LP exact")
        self._atom_of = {place: atom for atom, place in enumerate(self._places)}
        self._checks = frozenset(checks)
        self._wanted = np.array([_OF_PAIRS[apart] in self._checks for apart in APART])
        planes = geometry.planes if "flat" in self._checks else ()
        goals = stereo_goals(heavy) if "stereo" in self._checks else []
        self._by_atom = [
            _AtomChecks(
                self._pairs_of(geometry.bounds, atom),
                tuple(plane for plane in planes if max(plane[1]) == atom),
                tuple(goal for goal in goals if max(goal.spanned_by) == atom),
            )
            for atom in range(heavy.GetNumAtoms())
        ]

    def wrong_places(self, positions: Floats, atom: int) -> list[WrongPlace]:
        """Of an atom of the text, given the places [atoms, 3] of all up to it; nothing is asked of a hydrogen."""
        if atom not in self._atom_of:
            return []
        placed = positions[list(self._places)]
        return [
            WrongPlace(check, tuple(self._places[other] for other in atoms))
            for check, atoms in self._wrong(self._by_atom[self._atom_of[atom]], placed)
        ]

    def _wrong(self, checks: _AtomChecks, positions: Floats) -> Iterator[tuple[GuardCheck, tuple[int, ...]]]:
        bounds = checks.bounds
        for pair in np.flatnonzero(bounds.wrong(bounds.errors(bounds.distances(positions)))):
            yield _OF_PAIRS[APART[bounds.apart[pair]]], (int(bounds.first[pair]), int(bounds.second[pair]))
        for failed in wrong_planes(checks.planes, positions):
            yield "flat", failed.atoms
        for goal in checks.goals:
            if not goal.is_met(positions):
                yield "stereo", goal.spanned_by

    def _pairs_of(self, bounds: PairBounds, atom: int) -> PairBounds:
        """The pairs of an atom with those before it, as far as they are asked for."""
        kept = (np.maximum(bounds.first, bounds.second) == atom) & self._wanted[bounds.apart]
        columns = (bounds.first, bounds.second, bounds.apart, bounds.centre, bounds.lower, bounds.upper)
        return PairBounds(*(column[kept] for column in columns))
