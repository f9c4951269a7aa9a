"""Whether boxes hold a right place for an atom, given the atoms before it: proved by bounds, or shown by a place.

What is right is the verdict's own, at its own tolerance, of the checks for which this atom is the last one: distances
to the atoms before, planes, the hand or the side that the SMILES asks for. A box is *empty* where the bounds of one
check say that it fails everywhere in it; boxes that are not are halved until all are empty, or the middle of one is
right. Where neither comes within so many boxes, nothing is known. Bounds are never tighter than the truth: a box with a
right place is never empty.

It does not look ahead: a right place may leave none for the atoms behind. Of a centre and the two atoms of a double
bond nothing is bounded while they are written themselves, only whether a place is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from engine.chem.frame import Array
from engine.chem.geometry import (
    APART,
    LEAST_OFF,
    LEAST_OFF_PLANE_ANG,
    MOST_OFF,
    MOST_OFF_PLANE_ANG,
    OF_PAIRS,
    RINGS,
    PairBounds,
    wrong_planes,
)
from engine.chem.stereo import FLAT, TWISTED, StereoGoal, spanned_volume, unit_vectors

Flags = NDArray[np.bool_]
Plane = tuple[str, tuple[int, ...]]
SLACK, PLANE_SLACK = 1e-9, 1e-6
"""In angstrom, or of a value: what rounding may do to a bound."""
MOST_BOXES, MOST_ROUNDS = 3_000, 40
MOST_POINTS, ON_GRID = 5_000, 1e-9
"""Boxes at once, and halvings, after which nothing is known."""
CHORD = 1.4143
"""At most so much longer than the sine of an angle up to 90 degrees is the chord between its unit vectors."""


class Left(Enum):
    """What is known of places in boxes."""

    NONE = "proved: there is none"
    SOME = "there is one"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Failed:
    """A check that an atom fails where it stands."""

    kind: str  # bond, angle, other; plane or ring; centre or double bond
    check: str  # the verdict's name; "stereo" for hands and sides
    atoms: tuple[int, ...]
    index: int  # among the atom's pairs, planes or goals
    is_near: bool = False  # of a pair


@dataclass(frozen=True, slots=True)
class _Ratio:
    """A goal's value as a function of this atom's position p: alpha + gradient . (p - middle) / |matrix (p - middle)|,
    of which the second part is ``most`` at most."""

    alpha: float
    gradient: Array  # [3]
    matrix: Array  # [3, 3]
    middle: Array  # [3]
    most: float
    least: float  # value of a site that is right

    def is_below(self, low: Array, high: Array) -> Flags:
        """Boxes [B, 3] in which the value is nowhere right."""
        centre, half = (low + high) / 2 - self.middle, (high - low) / 2
        above = centre @ self.gradient + half @ np.abs(self.gradient)  # [B] the largest numerator
        size, play = np.abs(centre @ self.matrix.T), half @ np.abs(self.matrix).T
        nearest = np.linalg.norm(np.maximum(size - play, 0), axis=1)  # [B] of the boxes, to the middle
        farthest = np.linalg.norm(size + play, axis=1)
        divisor = np.maximum(np.where(above > 0, nearest, farthest), 1e-12)
        return np.asarray(self.alpha + np.minimum(above / divisor, self.most) < self.least - SLACK)


class AtomChecks:
    """What can be told of one atom by the atoms before it that have a place."""

    def __init__(
        self, atom: int, pairs: PairBounds, planes: Sequence[Plane], goals: Sequence[StereoGoal], positions: Array
    ) -> None:
        self.atom, self.pairs, self.planes, self.goals = atom, pairs, planes, goals
        self.positions = positions  # [atoms, 3]; this atom's own is where it was written
        self.others = np.where(pairs.first == atom, pairs.second, pairs.first)  # [n]
        self.lower = pairs.lower * (1 + LEAST_OFF[pairs.apart]) - SLACK  # [n]
        upper = np.where(pairs.apart == APART.index("other"), np.inf, pairs.upper)
        self.upper = upper * (1 + np.where(np.isinf(upper), 0, MOST_OFF[pairs.apart])) + SLACK  # [n]
        ratios = [_ratio_of(goal, atom, positions) for goal in goals]
        self._ratios = [ratio for ratio in ratios if ratio is not None]

    def set_tolerance(self, bonded: float, clash: float) -> None:
        """Of bonds and angles, and of other pairs, in place of the verdict's."""
        is_other = self.pairs.apart == APART.index("other")
        self.lower = self.pairs.lower * (1 - np.where(is_other, clash, bonded)) - SLACK
        self.upper = np.where(is_other, np.inf, self.pairs.upper * (1 + bonded)) + SLACK

    # --- where it stands ----------------------------------------------------------------------------------------------

    def failed(self) -> list[Failed]:
        """By the verdict's own checks, the pairs first, the worst of them first."""
        wrong, _, errors = self.pairs.wrong(self.positions)
        wrong = wrong[np.argsort(self.pairs.apart[wrong] - np.minimum(np.abs(errors[wrong]), 1e3) / 1e4, kind="stable")]
        pairs = (self._failed_pair(pair, errors[pair]) for pair in wrong.tolist())
        return [*pairs, *(check for check in self._others() if not self._is_met(check))]

    def all(self) -> Iterator[Failed]:
        """Every check as if it had failed, a pair by either bound; bonds and angles first."""
        for pair in np.argsort(self.pairs.apart, kind="stable").tolist():
            for error in (1.0, -1.0):
                yield self._failed_pair(pair, error)
        yield from self._others()

    def _failed_pair(self, pair: int, error: float) -> Failed:
        kind, pairs = APART[self.pairs.apart[pair]], self.pairs
        atoms = (int(self.others[pair]), int(pairs.centre[pair]), self.atom)
        return Failed(kind, OF_PAIRS[kind], tuple(atom for atom in atoms if atom >= 0), pair, error < 0)

    def _others(self) -> Iterator[Failed]:
        for index, goal in enumerate(self.goals):
            yield Failed("double bond" if goal.is_bond else "centre", "stereo", goal.atoms, index)
        for index, (check, atoms) in enumerate(self.planes):
            yield Failed("ring" if check == RINGS else "plane", check, atoms, index)

    def _is_met(self, other: Failed) -> bool:
        if other.check == "stereo":
            return self.goals[other.index].is_met(self.positions)
        return not any(wrong_planes([self.planes[other.index]], self.positions))

    # --- places in boxes ----------------------------------------------------------------------------------------------

    def left(self, low: Array, high: Array, unit: float, grid: Array | None = None) -> Left:
        """Of boxes [B, 3] together. Places are asked that are multiples of ``unit``, as they can be written; or those
        with all axes in ``grid``, ascending, which are all asked where they are few."""
        low, high = self._reached(low, high)
        for _ in range(MOST_ROUNDS):
            is_empty = self._is_empty(low, high)
            low, high = low[~is_empty], high[~is_empty]
            if not len(low):
                return Left.NONE
            if grid is not None and (points := _points(low, high, grid)) is not None:
                if self.is_right(points).any():
                    return Left.SOME
                return Left.NONE if self._is_empty(points, points).all() else Left.UNKNOWN
            middle = (low + high) / 2
            middle = np.clip(np.round(middle / unit) * unit, low, high) if grid is None else _nearest(middle, grid)
            if self.is_right(middle).any():
                return Left.SOME
            if 2 * len(low) > MOST_BOXES or (high - low).max() < unit:
                return Left.UNKNOWN
            low, high = _halved(low, high)
        return Left.UNKNOWN

    def _reached(self, low: Array, high: Array) -> tuple[Array, Array]:
        """What of boxes lies near enough to all atoms that this one is bonded to, or makes an angle with."""
        is_bound = np.isfinite(self.upper)
        if not is_bound.any():
            return low, high
        places, reach = self.positions[self.others[is_bound]], self.upper[is_bound, None]
        low = np.maximum(low, (places - reach).max(axis=0))
        high = np.minimum(high, (places + reach).min(axis=0))
        is_there = (low <= high).all(axis=1)
        return low[is_there], high[is_there]

    def _is_empty(self, low: Array, high: Array) -> Flags:
        nearest, farthest = self._distances(low, high)
        is_empty = ((nearest > self.upper) | (farthest < self.lower)).any(axis=1)  # [B]
        for ratio in self._ratios:
            is_empty |= ratio.is_below(low, high)
        for plane in self.planes:
            if (~is_empty).any():
                is_empty[~is_empty] = self._fails_plane(plane, low[~is_empty], high[~is_empty])
        return np.asarray(is_empty)

    def _distances(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Of boxes [B, 3] the least and the greatest distance to each atom before: [B, n]."""
        places = self.positions[self.others]
        below, above = low[:, None] - places, places - high[:, None]  # [B, n, 3]
        nearest = np.linalg.norm(np.maximum(np.maximum(below, above), 0), axis=-1)
        farthest = np.linalg.norm(np.maximum(np.abs(below), np.abs(above)), axis=-1)
        return nearest, farthest

    def _fails_plane(self, plane: Plane, low: Array, high: Array) -> Flags:
        """The best plane of the boxes' middles turns at most so far within them, by Davis and Kahan's theorem."""
        check, atoms = plane
        off, lengths, gap, from_rest = self._plane_at(plane, (low + high) / 2)  # [B, atoms], [B, atoms], [B], [B]
        count, radius = len(atoms), np.linalg.norm(high - low, axis=1) / 2
        change = (count - 1) / count * (2 * from_rest + radius) * radius  # of the scatter matrix
        with np.errstate(divide="ignore", invalid="ignore"):
            sine = np.where(gap > 2 * change, change / (gap - change), np.inf)
        moved = np.where(np.array(atoms) == self.atom, (count - 1) / count, 1 / count)
        play = np.where(np.isinf(sine)[:, None], np.inf, 0.0)
        play = play + CHORD * lengths * np.where(np.isinf(sine), 0, sine)[:, None] + radius[:, None] * moved
        if check == RINGS:
            most = np.maximum((off + play).max(axis=1), (-off + play).max(axis=1))
            return np.asarray(most < LEAST_OFF_PLANE_ANG - PLANE_SLACK)
        least = np.minimum((off - play).max(axis=1), (-off - play).max(axis=1))
        return np.asarray(least > MOST_OFF_PLANE_ANG + PLANE_SLACK)

    def _plane_at(self, plane: Plane, points: Array) -> tuple[Array, Array, Array, Array]:
        """With this atom at each of the points [B, 3]: how far each atom of the plane is off it, with its sign, and
        from the middle; the gap of the two least eigenvalues; how far the point is from the middle of the others."""
        atoms = list(plane[1])
        placed = self._with_me(tuple(atoms), points)
        centred = placed - placed.mean(axis=1, keepdims=True)  # [B, atoms, 3]
        values, vectors = np.linalg.eigh(np.einsum("bni,bnj->bij", centred, centred))  # [B, 3], [B, 3, 3]
        off = np.einsum("bni,bi->bn", centred, vectors[:, :, 0])  # along the normal: the least eigenvalue's
        rest = self.positions[[atom for atom in atoms if atom != self.atom]].mean(axis=0)
        lengths, gap = np.linalg.norm(centred, axis=-1), values[:, 1] - values[:, 0]
        return off, lengths, gap, np.linalg.norm(points - rest, axis=1)

    def _with_me(self, atoms: tuple[int, ...], points: Array) -> Array:
        """Positions of some atoms with this one at each of the points: [B, atoms, 3]."""
        placed = np.repeat(self.positions[None, list(atoms)], len(points), axis=0)
        placed[:, atoms.index(self.atom)] = points
        return placed

    def is_right(self, points: Array) -> Flags:
        """Which points [B, 3] pass every check for certain."""
        distances = np.linalg.norm(points[:, None] - self.positions[self.others], axis=-1)  # [B, n]
        is_right = ((distances >= self.lower + 2 * SLACK) & (distances <= self.upper - 2 * SLACK)).all(axis=1)
        for goal in self.goals:
            if is_right.any():
                least = (TWISTED if goal.is_bond else FLAT) + SLACK
                is_right &= goal.measured(self._with_me(goal.spanned_by, points)) >= least
        for plane in self.planes:
            if is_right.any():
                off = self._plane_at(plane, points)[0]
                up, down = off.max(axis=1), -off.min(axis=1)
                is_bent = np.minimum(up, down) >= LEAST_OFF_PLANE_ANG + PLANE_SLACK
                is_flat = np.maximum(up, down) <= MOST_OFF_PLANE_ANG - PLANE_SLACK
                is_right &= is_bent if plane[0] == RINGS else is_flat
        return np.asarray(is_right)

    # --- one check alone ----------------------------------------------------------------------------------------------

    def alone(self, failed: Failed, low: Array, high: Array) -> float | None:
        """Whether this check fails everywhere in the boxes; then the nearest distance to the other atom, of one that is
        too near the farthest, of anything else 0."""
        if failed.kind in APART:
            nearest, farthest = (part[:, failed.index] for part in self._distances(low, high))
            if failed.is_near:
                return float(farthest.max()) if (farthest < self.lower[failed.index]).all() else None
            return float(nearest.min()) if (nearest > self.upper[failed.index]).all() else None
        if failed.check == "stereo":
            ratio = _ratio_of(self.goals[failed.index], self.atom, self.positions)
            return 0.0 if ratio is not None and ratio.is_below(low, high).all() else None
        return 0.0 if self._fails_plane(self.planes[failed.index], low, high).all() else None

    def allowed(self, failed: Failed) -> float:
        """Of a pair, the distance up to which it is right."""
        return float((self.lower if failed.is_near else self.upper)[failed.index])


def _points(low: Array, high: Array, grid: Array) -> Array | None:
    """All points [N, 3] of the grid in the boxes; None where they are too many."""
    first = np.searchsorted(grid, low - ON_GRID, side="left")  # [B, 3]
    behind = np.searchsorted(grid, high + ON_GRID, side="right")
    if np.maximum(behind - first, 0).prod(axis=1).sum() > MOST_POINTS:
        return None
    of_each = [
        np.stack(np.meshgrid(*map(grid.__getitem__, map(slice, start, stop)), indexing="ij"), axis=-1).reshape(-1, 3)
        for start, stop in zip(first.tolist(), behind.tolist(), strict=True)
    ]
    return np.concatenate(of_each)


def _nearest(places: Array, grid: Array) -> Array:
    above = np.clip(np.searchsorted(grid, places), 1, len(grid) - 1)
    is_above = grid[above] - places < places - grid[above - 1]
    return np.asarray(np.where(is_above, grid[above], grid[above - 1]))


def _halved(low: Array, high: Array) -> tuple[Array, Array]:
    """Each box in two, across its longest side."""
    rows, side = np.arange(len(low)), (high - low).argmax(axis=1)
    middle = (low[rows, side] + high[rows, side]) / 2
    first, second = high.copy(), low.copy()
    first[rows, side], second[rows, side] = middle, middle
    return np.concatenate([low, second]), np.concatenate([first, high])


def _ratio_of(goal: StereoGoal, atom: int, positions: Array) -> _Ratio | None:
    """None where the goal's value is no such function of the atom: of a centre, and of a double bond's own atoms."""
    place = goal.spanned_by.index(atom)
    points = positions[list(goal.spanned_by)]
    if goal.is_bond:
        if place in (1, 2):
            return None
        first, begin, end, last = points
        bond = end - begin
        middle = begin if place == 0 else end
        fixed = np.cross((last - end) if place == 0 else (first - begin), bond)
        gradient = goal.sign * np.cross(bond, unit_vectors(fixed[None])[0])
        x, y, z = bond
        matrix = np.array([[0, z, -y], [-z, 0, x], [y, -x, 0]])  # of p -> p x bond
        return _Ratio(0.0, gradient, matrix, middle, 1.0, TWISTED)
    if place == 0:
        return None
    arms = np.repeat(unit_vectors(points[1:] - points[:1])[None], 4, axis=0)  # [4, arms, 3]
    arms[0, place - 1], arms[1:, place - 1] = 0, np.eye(3)
    values = goal.sign * spanned_volume(arms)  # of this arm at zero, and along each axis
    gradient = values[1:] - values[0]
    return _Ratio(float(values[0]), gradient, np.eye(3), points[0], float(np.linalg.norm(gradient)), FLAT)
