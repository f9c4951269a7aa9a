"""Whole ways to go on: places for all atoms up to a later one, right together, given those that stand.

They are found as distance geometry does it: the atoms are thrown about those that stand, in four dimensions, and pulled
until the distances are within their bounds, planes flat and hands right; meanwhile the fourth dimension is pressed
flat. What comes out is asked atom by atom by the checks of `places`. That no way is found does not mean that there is
none.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.chem.frame import Array
from engine.chem.geometry import Indices
from engine.chem.stereo import StereoGoal
from engine.lp.places import OTHER, TOLERANCES, MoleculePlaces, is_right_at

COUNT, STEPS, AGAIN, FLATTENED_FROM = 12, 220, 80, 0.4
"""Ways that are tried, steps of the pulling, steps for ways that were right before, and the share of them from which on
the fourth dimension is pressed hard."""
RATE, DECAY, MOMENTUM, SMALL = 0.12, 0.97, (0.9, 0.95), 1e-9
"""Of Adam; the rate falls in the last half."""
SPREAD_ANG, LOOSE_ANG = 1.5, 0.15
"""How far atoms are thrown about the one that they are bonded to, and about a way that was right before."""
HAND, TURN, FLAT, PRESSED = 1.2, 0.2, 0.5, (0.05, 1.0)
"""Least volume of a hand in cubic angstrom, and weights of hands, of planes and of the fourth dimension."""
NORMALS_EVERY = 4
"""Steps, after which the normal of a plane is sought anew: it turns little in one."""
MARGIN = 0.6
"""Of a tolerance: so much of it is used while atoms are pulled."""


@dataclass(frozen=True, slots=True, eq=False)
class _Hands:
    """Centres, each by three neighbours about a base: the fourth one, or the centre itself where it has three."""

    bases: Indices  # [hands]
    others: Indices  # [hands, 3]
    signs: Array  # [hands]
    moves: Array  # [atoms that move, 3 hands] what the push of an arm does to an atom: 1, -1 at the base

    @classmethod
    def of(cls, goals: Sequence[StereoGoal], first: int, count: int) -> _Hands:
        spanned_by = [goal.spanned_by for goal in goals]
        bases = np.array([atoms[-1] if len(atoms) == 5 else atoms[0] for atoms in spanned_by], dtype=np.int64)
        others = np.array([atoms[1:4] for atoms in spanned_by], dtype=np.int64).reshape(-1, 3)
        atoms = np.arange(first, first + count)[:, None]  # [atoms that move, 1]
        moves = (atoms == others.ravel()).astype(np.float64) - (atoms == np.repeat(bases, 3))
        return cls(bases, others, np.array([goal.sign for goal in goals]), moves)


@dataclass(slots=True, eq=False)
class _Planes:
    """Planes of as many atoms each."""

    atoms: Indices  # [planes, atoms]
    moves: Array  # [atoms that move, planes * atoms] 1 where it is that atom of the plane
    normals: Array | None = None  # [ways, planes, 3]

    @classmethod
    def of(cls, planes: Sequence[tuple[int, ...]], first: int, count: int) -> list[_Planes]:
        moving = np.arange(first, first + count)[:, None]  # [atoms that move, 1]
        made = []
        for size in sorted(set(map(len, planes))):
            atoms = np.array([plane for plane in planes if len(plane) == size])
            made.append(cls(atoms, (moving == atoms.ravel()).astype(np.float64)))
        return made


class Completion:
    """Of one molecule."""

    def __init__(self, places: MoleculePlaces) -> None:
        self.places = places
        self._parents = [int(checks.others[checks.parent]) if checks.parent >= 0 else -1 for checks in places.checks]

    @functools.cached_property
    def _bounds(self) -> tuple[Array, Array]:
        """Of all pairs [atoms, atoms], minus infinity and infinity where there are none."""
        count, step = self.places.atoms, TOLERANCES[1]
        lower, upper = np.full((count, count), -np.inf), np.full((count, count), np.inf)
        for checks in self.places.checks:
            near = np.where(checks.apart == OTHER, step.clash, step.bonded) * MARGIN
            far = np.where(checks.apart == OTHER, 0.0, step.bonded) * MARGIN
            lower[checks.atom, checks.others] = checks.bounds[0] * (1 - near)
            upper[checks.atom, checks.others] = checks.bounds[1] * (1 + far)
        return np.maximum(lower, lower.T), np.minimum(upper, upper.T)

    def ways(self, placed: Array, atom: int, until: int, before: Array | None = None) -> Array:
        """Right places of the atoms from one to another: [ways, atoms, 3].

        ``placed`` [atoms, 3]: those before stand there; ``before``: ways that were right when the atom before stood
        elsewhere, which are pulled right again.
        """
        draws = np.random.default_rng((atom, until))
        points, steps = self._thrown(placed, atom, until, draws), STEPS
        if before is not None:
            points[: len(before), :, :3], points[: len(before), :, 3] = before, 0.0
            near = before[np.arange(COUNT - len(before)) % len(before)]
            points[len(before) :, :, :3] = near + draws.normal(0, LOOSE_ANG, near.shape)
            points[len(before) :, :, 3] *= LOOSE_ANG
            steps = AGAIN
        found = self._pull(points, placed[:atom], atom, until, steps)  # [COUNT, atoms that move, 3]
        states = np.repeat(placed[None], COUNT, axis=0)  # [COUNT, atoms, 3]
        states[:, atom : until + 1] = found
        is_right = np.ones(COUNT, dtype=bool)
        for checks in self.places.checks[atom : until + 1]:
            if len(checks.others) and is_right.any():
                is_right[is_right] = is_right_at(checks, states[is_right], len(TOLERANCES) - 1)
        return found[is_right]

    def _thrown(self, placed: Array, atom: int, until: int, draws: np.random.Generator) -> Array:
        """[COUNT, atoms, 4] each near the atom that it is bonded to."""
        points = draws.normal(0, SPREAD_ANG, (COUNT, until + 1 - atom, 4))
        for index in range(until + 1 - atom):
            parent = self._parents[atom + index]
            if parent >= atom:
                points[:, index] += points[:, parent - atom]
            elif parent >= 0:
                points[:, index, :3] += placed[parent]
            elif atom:
                points[:, index, :3] += placed[:atom].mean(axis=0)
        return points

    def _pull(self, points: Array, fixed: Array, atom: int, until: int, steps: int) -> Array:
        rows = slice(atom, until + 1)
        moment = np.zeros_like(points)
        spread = np.zeros_like(points)
        lower, upper = (bounds[rows, : until + 1] for bounds in self._bounds)  # [m, n] each
        fixed = np.concatenate([fixed, np.zeros((len(fixed), 1))], axis=1)  # [atoms that stand, 4]
        stands = np.broadcast_to(fixed, (len(points), *fixed.shape))
        checks, count = self.places.checks[rows], until + 1 - atom
        hands = _Hands.of([goal for of in checks for goal in of.goals if not goal.is_bond], atom, count)
        planes = _Planes.of(
            [(*before, of.atom) for of in checks for is_ring, before in of.planes if not is_ring], atom, count
        )
        for step in range(steps):
            is_late = step > FLATTENED_FROM * steps
            everything = np.concatenate([stands, points], axis=1)  # [K, n, 4]
            off = points[:, :, None] - everything[:, None]  # [K, m, n, 4]
            distances = np.sqrt(np.einsum("kmnd,kmnd->kmn", off, off)) + SMALL
            pull = np.maximum(lower - distances, 0) - np.maximum(distances - upper, 0)
            force = np.einsum("kmn,kmnd->kmd", pull / distances, off)  # [K, m, 4]
            force[:, :, 3] -= PRESSED[is_late] * points[:, :, 3]
            if len(hands.bases):
                force[:, :, :3] += _turned(everything, hands)
            if is_late:
                for alike in planes:
                    force[:, :, :3] -= _off_planes(everything, alike, is_new=step % NORMALS_EVERY == 0)
            moment = MOMENTUM[0] * moment + (1 - MOMENTUM[0]) * force
            spread = MOMENTUM[1] * spread + (1 - MOMENTUM[1]) * force**2
            rate = RATE * DECAY ** max(0, step - steps // 2)
            points = points + rate * moment / (np.sqrt(spread) + 1e-3)
        return points[:, :, :3]


def _turned(points: Array, hands: _Hands) -> Array:
    """What pushes the neighbours of centres to the side of their hand: [K, m, 3]."""
    arms = points[:, hands.others, :3] - points[:, hands.bases, None, :3]  # [K, hands, 3 arms, 3]
    pushes = _cross(arms[:, :, [1, 2, 0]], arms[:, :, [2, 0, 1]])  # of each arm, by the two others
    volumes = hands.signs * np.einsum("khd,khd->kh", arms[:, :, 0], pushes[:, :, 0])  # [K, hands]
    pushes *= (TURN * hands.signs * np.maximum(HAND - volumes, 0))[:, :, None, None]
    return np.asarray(hands.moves @ pushes.reshape(len(points), -1, 3))


def _cross(left: Array, right: Array) -> Array:
    """Of vectors [any, 3]; numpy's own takes several times as long for few."""
    return np.asarray(left[..., [1, 2, 0]] * right[..., [2, 0, 1]] - left[..., [2, 0, 1]] * right[..., [1, 2, 0]])


def _off_planes(points: Array, planes: _Planes, *, is_new: bool) -> Array:
    """What atoms are off their planes, in parts of it: [K, m, 3]. A plane's normal is ``is_new`` or that of before."""
    group = points[:, planes.atoms, :3]  # [K, planes, atoms, 3]
    centred = group - group.mean(axis=2, keepdims=True)
    if is_new or planes.normals is None:
        planes.normals = np.linalg.eigh(centred.swapaxes(-1, -2) @ centred)[1][..., 0]  # of least spread
    off = FLAT * (centred @ planes.normals[..., None]) * planes.normals[:, :, None]
    return np.asarray(planes.moves @ off.reshape(len(points), -1, 3))
