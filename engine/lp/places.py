"""Where an atom may stand, given those before it: whether a box that is left of its coordinates holds a right place.

What is right is the verdict's own, asked in steps of tolerance: distances to the atoms before it within the bounds of
distance geometry (of the whole graph, so that a ring stays closable), hand and side as the SMILES has them, a plane
flat from its fourth atom on, a ring that must not be flat not flat with its last. Whether a box holds such a place is
asked by points about the bonded atom that stands already, at the ideal length and angle first, then wider. The points
are the same for every question, so an answer depends on nothing but the question. No right point does not mean that
there is no right place: a narrow one may be missed.

Many questions are asked at once, of different molecules: arrays of [questions, ...].
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from engine.chem.frame import Array
from engine.chem.geometry import APART, RINGS, GeometryChecks, Indices
from engine.chem.guard import pairs_of
from engine.chem.heavy import heavy_of
from engine.chem.stereo import StereoGoal, stereo_goals
from engine.errors import UnsupportedMoleculeError
from engine.lp_records import GUARD_CHECKS, GuardCheck

BOND, ANGLE, OTHER = range(len(APART))


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far from its bounds a place may be, relative to them; planes in angstrom, a hand in its volume."""

    bonded: float  # of bonds and angles
    clash: float  # nearer than the lower bound of any other pair
    far: float  # farther than its upper bound
    off_plane: float
    hand: float = 0.3


TOLERANCES = (
    Tolerance(0.05, 0.2, 0.0, 0.12),
    Tolerance(0.10, 0.2, 0.0, 0.15),
    Tolerance(0.20, 0.2, 0.05, 0.22),
    Tolerance(0.249, 0.29, 0.25, 0.24, 0.11),
)
LEAST_SIDE, LEAST_CORNER, LEAST_PUCKER = 0.5, 0.1, 0.06
NEAR = 0.01
"""Of a length: so near to its bounds lies what is asked first."""
SPREAD = 15.0
"""Where nothing is bonded, places are asked so far from the middle of the atoms before, in angstrom."""
MOVABLE = 0.012
"""By so much a right place may be moved where planes or hands are asked, in angstrom: their limits leave more."""
EVERYWHERE = 1e3
NONE = -1
AHEAD, MOST_TRIED, MOST_WAYS = 32, 8, 4
"""Looking ahead: points of an atom, places that are tried, and ways to go on that are kept of each."""
FAILING = 400
"""Points of which the best says what stands in the way."""
MOST_OFF_ANG, FAR_COUNTS = 1.0, 0.1
"""Where no place is right: as much counts a distance at most, and a hand, a side or a plane that is wrong; and what an
angstrom counts by which atoms without a bond or an angle are too far apart, which the verdict allows."""


def _halton(count: int) -> Array:
    """Points that fill the unit cube evenly: [count, 3]."""
    columns = []
    for base in (2, 3, 5):
        numbers, fraction = np.zeros(count), 1.0
        left = np.arange(1, count + 1)
        while left.any():
            fraction /= base
            numbers += fraction * (left % base)
            left = left // base
        columns.append(numbers)
    return np.stack(columns, axis=1)


CUBE = _halton(2048)
SIGN = np.where(np.arange(len(CUBE)) % 2, 1.0, -1.0)


@dataclass(frozen=True, slots=True, eq=False)
class AtomChecks:
    """What is asked of one heavy atom; ``others`` are those before it, bonded ones first."""

    atom: int
    others: Indices  # [n]
    apart: Indices  # [n] index in ``APART``
    lower: Array  # [tolerances, n]
    upper: Array  # [tolerances, n]
    bounds: Array  # [2, n] lower and upper as they are
    planes: tuple[tuple[bool, tuple[int, ...]], ...]  # whether it must *not* be flat, and its atoms so far but this one
    goals: tuple[StereoGoal, ...]
    parent: int  # in ``others``, -1 for none
    anchor: int  # another one, whose distance says the angle at the parent; -1 for none


class MoleculePlaces:
    """One molecule's checks, by heavy atom in the order of its text."""

    def __init__(self, mol: Chem.Mol, checks: Collection[GuardCheck] = GUARD_CHECKS) -> None:
        """``mol`` is in its text's order. ``UnsupportedMoleculeError`` where distance geometry knows no bounds."""
        heavy, self.text_atoms = heavy_of(Chem.Mol(mol))
        geometry = GeometryChecks(heavy)
        if geometry.bounds is None:
            raise UnsupportedMoleculeError("distance geometry has no bounds for the molecule", "Use the LP exact")
        self.atoms = heavy.GetNumAtoms()
        self._bounds = geometry.bounds.only(pairs_of(checks)[geometry.bounds.apart])
        self._planes = [(check == RINGS, tuple(sorted(plane))) for check, plane in geometry.planes if "flat" in checks]
        self._goals = stereo_goals(heavy) if "stereo" in checks else []
        self.checks = [self._checks_of(heavy, atom) for atom in range(self.atoms)]
        self.ring_ends = _ends_of_rings(heavy)
        self.system_ends = _ends_of_systems(heavy)

    def _checks_of(self, mol: Chem.Mol, atom: int) -> AtomChecks:
        bounds = self._bounds
        pairs = np.flatnonzero(np.maximum(bounds.first, bounds.second) == atom)
        pairs = pairs[np.argsort(bounds.apart[pairs], kind="stable")]
        others, apart = np.minimum(bounds.first, bounds.second)[pairs], bounds.apart[pairs]
        near = np.array([np.where(apart == OTHER, 1 - step.clash, 1 - step.bonded) for step in TOLERANCES])
        far = np.array([np.where(apart == OTHER, 1 + step.far, 1 + step.bonded) for step in TOLERANCES])
        planes = [(is_ring, plane) for is_ring, plane in self._planes if atom in plane]
        return AtomChecks(
            atom,
            others,
            apart,
            bounds.lower[pairs] * near,
            bounds.upper[pairs] * far,
            np.stack([bounds.lower[pairs], bounds.upper[pairs]]),
            tuple(
                (is_ring, tuple(other for other in plane if other < atom))
                for is_ring, plane in planes
                if plane[-1] == atom or (not is_ring and plane.index(atom) >= 3)
            ),
            tuple(goal for goal in self._goals if max(goal.spanned_by) == atom),
            *_frame_of(mol, others, apart),
        )


def _ends_of_systems(mol: Chem.Mol) -> list[int]:
    """Of each atom the last atom of all rings that hang together with it, or with a neighbour of it, and of what is
    bonded to these; else the atom itself."""
    systems: list[set[int]] = []
    for ring in map(set, mol.GetRingInfo().AtomRings()):
        apart = [system for system in systems if not system & ring]
        systems = [*apart, ring.union(*(system for system in systems if system & ring))]
    for system in systems:
        atoms = [mol.GetAtomWithIdx(atom) for atom in system]
        system |= {neighbour.GetIdx() for atom in atoms for neighbour in atom.GetNeighbors()}
    return [max([atom, *(max(system) for system in systems if atom in system)]) for atom in range(mol.GetNumAtoms())]


def _ends_of_rings(mol: Chem.Mol) -> list[int]:
    """Of each atom the last atom of all rings that are begun with it and not complete; else the atom itself."""
    rings = [sorted(ring) for ring in mol.GetRingInfo().AtomRings()]
    return [
        max([atom, *(ring[-1] for ring in rings if ring[0] <= atom < ring[-1])]) for atom in range(mol.GetNumAtoms())
    ]


def _frame_of(mol: Chem.Mol, others: Indices, apart: Indices) -> tuple[int, int]:
    """Of ``others`` a bonded atom, and one whose distance says the angle there: bonded too, or a neighbour of it."""
    bonded = np.flatnonzero(apart == BOND).tolist()
    if len(bonded) != 1:
        return (bonded[0], bonded[1]) if bonded else (NONE, NONE)
    neighbours = {other.GetIdx() for other in mol.GetAtomWithIdx(int(others[bonded[0]])).GetNeighbors()}
    angles = [index for index in np.flatnonzero(apart == ANGLE).tolist() if int(others[index]) in neighbours]
    return bonded[0], angles[0] if angles else NONE


class Atoms:
    """The atoms that some answers are at, as arrays [atoms, ...] padded to the one with most atoms before it."""

    def __init__(self, asked: Sequence[tuple[AtomChecks, Array, int]]) -> None:
        """Of each its checks, the positions of the molecule's atoms [atoms, 3], and the place in ``TOLERANCES``."""
        count, most = len(asked), max(1, *(len(checks.others) for checks, _, _ in asked))
        self.asked = list(asked)
        self.others = np.zeros((count, most, 3))
        self.lower, self.upper = np.full((count, most), -np.inf), np.full((count, most), np.inf)
        self.parent, self.anchor = np.zeros((count, 3)), np.zeros((count, 3))
        self.has_parent, self.has_anchor = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.bonded = np.array([TOLERANCES[tolerance].bonded for _, _, tolerance in asked])
        self.lengths, self.spans = np.zeros((count, 2)), np.zeros((count, 2))  # to parent and anchor, as bounds say
        self.alike = np.full(count, NONE)  # the first with the same checks and tolerance; none without hands and planes
        first: dict[tuple[int, int], int] = {}
        for index, (checks, placed, tolerance) in enumerate(asked):
            before = placed[checks.others]
            if checks.goals or checks.planes:
                self.alike[index] = first.setdefault((id(checks), tolerance), index)
            here = slice(len(before))
            self.others[index, here] = before
            self.lower[index, here], self.upper[index, here] = checks.lower[tolerance], checks.upper[tolerance]
            if checks.parent != NONE:
                self.has_parent[index], self.parent[index] = True, before[checks.parent]
                self.lengths[index] = checks.bounds[:, checks.parent]
            elif len(before):
                self.parent[index] = before.mean(axis=0)
            if checks.anchor != NONE:
                self.has_anchor[index], self.anchor[index] = True, before[checks.anchor]
                self.spans[index] = checks.bounds[:, checks.anchor]

    @classmethod
    def in_states(cls, checks: AtomChecks, states: Array, tolerance: int) -> Atoms:
        """One atom, in many states of the atoms before it [states, atoms, 3]."""
        atoms = cls([(checks, states[0], tolerance)])
        atoms.asked = [(checks, state, tolerance) for state in states]
        for name in ("lower", "upper", "has_parent", "has_anchor", "bonded", "lengths", "spans", "alike"):
            setattr(atoms, name, np.repeat(getattr(atoms, name), len(states), axis=0))
        atoms.others = states[:, checks.others]
        atoms.parent = atoms.others.mean(axis=1) if checks.parent == NONE else atoms.others[:, checks.parent]
        atoms.anchor = np.zeros((len(states), 3)) if checks.anchor == NONE else atoms.others[:, checks.anchor]
        return atoms

    def reach(self, index: int, known: Sequence[float]) -> tuple[float, float]:
        """Between which values the next axis of an atom must lie, for its bond; behind the known ones."""
        middle = float(self.parent[index, len(known)])
        if not self.has_parent[index]:
            return middle - SPREAD, middle + SPREAD
        farthest = self.lengths[index, 1] * (1 + self.bonded[index])
        left = farthest**2 - sum((value - at) ** 2 for value, at in zip(known, self.parent[index], strict=False))
        half = math.sqrt(left) if left >= 0 else -math.inf
        return middle - half, middle + half


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """What is left of coordinates: the first axes are known, of the next one an interval, of the rest nothing."""

    atom: Indices  # [boxes] in ``Atoms``
    axis: Indices  # [boxes] how many are known
    known: Array  # [boxes, 3]
    low: Array  # [boxes]
    high: Array  # [boxes]

    @classmethod
    def everywhere(cls, atoms: int) -> Boxes:
        """One of each atom, all of space."""
        far = np.full(atoms, EVERYWHERE)
        return cls(np.arange(atoms), np.zeros(atoms, dtype=np.int64), np.zeros((atoms, 3)), -far, far)

    @classmethod
    def at(cls, known: Sequence[float]) -> Boxes:
        """One, of the first atom, whose last known axis is a point."""
        last, axes = len(known) - 1, np.zeros((1, 3))
        axes[0, :last] = known[:last]
        return cls(np.zeros(1, dtype=np.int64), np.array([last]), axes, np.array(known[-1:]), np.array(known[-1:]))

    def only(self, kept: Indices) -> Boxes:
        return Boxes(*(getattr(self, name)[kept] for name in self.__slots__))


def find(atoms: Atoms, boxes: Boxes, count: int) -> tuple[Array, Array, Indices]:
    """Right places in the boxes: [places, 3], how far each may be moved, and the box of each.

    ``count`` points a box at the ideal lengths and angles, half as many within the tolerance.
    """
    return right_among(atoms, boxes, *_proposed(atoms, boxes, count))


def right_among(atoms: Atoms, boxes: Boxes, points: Array, box: Indices) -> tuple[Array, Array, Indices]:
    """Of points [P, 3] and their boxes [P]: the right ones, how far each may be moved, and the box of each."""
    room = _room(atoms, points, boxes.atom[box])  # [P] negative where a distance is wrong
    is_right = room >= 0
    points = points[is_right]
    box = box[is_right]
    room = room[is_right]
    is_held, is_limited = _held(atoms, points, boxes.atom[box])
    room = np.where(is_limited, np.minimum(room, MOVABLE), room)
    return points[is_held], room[is_held], box[is_held]


def continuing(
    places: MoleculePlaces, atom: int, placed: Array, points: Array, box: Indices, until: int
) -> NDArray[np.bool_]:
    """Which of some right places of an atom leave one for each atom behind it up to ``until``: [points].

    Few of the places of each box are tried, each with few ways to go on: False may be wrong, True is not.
    """
    tried = np.concatenate([_some(of_box, MOST_TRIED) for of_box in _by_value(box)])
    states = np.repeat(placed[None], len(tried), axis=0)  # [states, atoms, 3]
    states[:, atom] = points[tried]
    origin = tried  # of each state, the point that it goes back to
    for later in range(atom + 1, until + 1):
        checks = places.checks[later]
        if not len(checks.others):
            continue
        found, state = _next_places(checks, states, origin)
        if not len(found):
            return np.zeros(len(points), dtype=bool)
        chosen = np.concatenate([_some(ways, MOST_WAYS) for ways in _by_value(origin[state])])
        states, origin = states[state[chosen]], origin[state[chosen]]
        states[:, later] = found[chosen]
    return np.isin(np.arange(len(points)), origin)


def _some(indices: Indices, most: int) -> Indices:
    """At most so many of them, spread over all."""
    return indices[:: -(-len(indices) // most)]


def _by_value(values: Indices) -> list[Indices]:
    """Where each value is."""
    order = np.argsort(values, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(values[order])) + 1)


def _next_places(checks: AtomChecks, states: Array, origin: Indices) -> tuple[Array, Indices]:
    """Right places of the next atom, and the state of each; wider where no state of a point has one in the narrower."""
    places, of_state = np.zeros((0, 3)), np.zeros(0, dtype=np.int64)
    for tolerance in range(len(TOLERANCES)):
        left = np.flatnonzero(~np.isin(origin, origin[of_state]))
        if not len(left):
            break
        atoms = Atoms.in_states(checks, states[left], tolerance)
        found, _, state = find(atoms, Boxes.everywhere(len(left)), AHEAD)
        places, of_state = np.concatenate([places, found]), np.concatenate([of_state, left[state]])
    return places, of_state


def is_right_at(checks: AtomChecks, states: Array, tolerance: int) -> NDArray[np.bool_]:
    """Whether an atom is right where it stands in states of its molecule [states, atoms, 3]."""
    atoms, index = Atoms.in_states(checks, states, tolerance), np.arange(len(states))
    points = states[:, checks.atom]
    return np.asarray((_room(atoms, points, index) >= 0) & _held(atoms, points, index)[0])


def failing(checks: AtomChecks, placed: Array) -> tuple[GuardCheck, tuple[int, ...]]:
    """The check that leaves no place, and its atoms: what the best of many points fails by in the widest tolerance."""
    atoms = Atoms([(checks, placed, len(TOLERANCES) - 1)])
    points, _ = _proposed(atoms, Boxes.everywhere(1), FAILING)
    pair = max(checks.anchor, checks.parent)
    room = -1.0
    if len(points):
        distances = np.linalg.norm(points[:, None] - placed[checks.others], axis=-1)  # [points, n]
        rooms = np.minimum(distances - checks.lower[-1], checks.upper[-1] - distances)
        best = rooms[rooms.min(axis=1).argmax()]
        pair = int(best.argmin())
        room = float(best[pair])
    if room < 0:
        return GUARD_CHECKS[int(checks.apart[pair])], (int(checks.others[pair]), checks.atom)
    atoms_of = [goal.spanned_by for goal in checks.goals] or [(*before, checks.atom) for _, before in checks.planes]
    return "stereo" if checks.goals else "flat", atoms_of[0] if atoms_of else (checks.atom,)


def shortfalls(checks: AtomChecks, placed: Array, boxes: Boxes, count: int) -> Array:
    """How wrong the best of many points of each box is in the widest tolerance: the angstroms by which its distances
    are off, each up to `MOST_OFF_ANG`, so that an atom that is out of place itself does not count for more than those
    that are not. Infinite where the bond reaches no point."""
    tolerance = len(TOLERANCES) - 1
    atoms = Atoms([(checks, placed, tolerance)])
    near_ideal, box = _proposed(atoms, boxes, count)
    atoms.has_anchor[:] = False  # that angle may be what cannot be right
    anywhere, box_too = _proposed(atoms, boxes, count)
    points, box = np.concatenate([near_ideal, anywhere]), np.concatenate([box, box_too])
    distances = np.linalg.norm(points[:, None] - placed[checks.others], axis=-1)  # [points, n]
    too_near = np.clip(checks.lower[tolerance] - distances, 0, MOST_OFF_ANG)
    too_far = np.clip(distances - checks.upper[tolerance], 0, MOST_OFF_ANG)
    off = (too_near + too_far * np.where(checks.apart == OTHER, FAR_COUNTS, 1.0)).sum(axis=1)
    before = np.broadcast_to(placed, (len(points), *placed.shape))
    off += np.where(_is_held(checks, before, points, TOLERANCES[tolerance]), 0.0, MOST_OFF_ANG)
    least = np.full(len(boxes.atom), np.inf)
    np.minimum.at(least, box, off)
    return least


def _room(atoms: Atoms, points: Array, atom: Indices) -> Array:
    """By how much each point may be moved and keep its distances, in angstrom; negative where one is wrong.

    One earlier atom at a time and an array an axis: numbers that lie next to each other take half the time.
    """
    room = np.full(len(points), np.inf)
    axes, others = np.ascontiguousarray(points.T), np.ascontiguousarray(atoms.others.T)  # [3, P], [3, n, atoms]
    for place, (lower, upper) in enumerate(zip(atoms.lower.T.copy(), atoms.upper.T.copy(), strict=True)):
        x, y, z = (others[axis, place].take(atom) - axes[axis] for axis in range(3))
        distances = np.sqrt(x * x + y * y + z * z)
        room = np.minimum(room, np.minimum(distances - lower.take(atom), upper.take(atom) - distances))
    return room


def _held(atoms: Atoms, points: Array, atom: Indices) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether hands, sides and planes are as they should be, and whether there are any: [points] each."""
    is_held, alike = np.ones(len(points), dtype=bool), atoms.alike[atom]
    for first in set(alike.tolist()) - {NONE}:
        of_these = np.flatnonzero(alike == first)
        checks, _, tolerance = atoms.asked[first]
        members = np.flatnonzero(atoms.alike == first)
        placed = np.stack([atoms.asked[index][1] for index in members])  # [states, atoms, 3]
        before = placed[np.searchsorted(members, atom[of_these])]
        is_held[of_these] = _is_held(checks, before, points[of_these], TOLERANCES[tolerance])
    return is_held, alike != NONE


def _is_held(checks: AtomChecks, placed: Array, points: Array, tolerance: Tolerance) -> NDArray[np.bool_]:
    """``placed``: of each point the atoms of its molecule [points, atoms, 3]."""
    is_held = np.ones(len(points), dtype=bool)
    for goal in checks.goals:
        group = placed[:, list(goal.spanned_by)]
        group[:, goal.spanned_by.index(checks.atom)] = points
        is_held &= goal.measured(group) >= (LEAST_SIDE if goal.is_bond else tolerance.hand)
        if len(goal.spanned_by) == 5:
            is_held &= goal.least_corner(group) >= LEAST_CORNER
    for is_ring, before in checks.planes:
        group = np.concatenate([placed[:, list(before)], points[:, None]], axis=1)
        centred = group - group.mean(axis=1, keepdims=True)
        normals = np.linalg.eigh(centred.transpose(0, 2, 1) @ centred)[1][:, :, 0]
        off = np.einsum("pai,pi->pa", centred, normals)  # [points, atoms]
        # The verdict measures on one side of a plane, which may be either.
        is_bent = np.minimum(off.max(axis=1), -off.min(axis=1)) >= LEAST_PUCKER
        is_held &= is_bent if is_ring else np.abs(off).max(axis=1) <= tolerance.off_plane
    return is_held


def _proposed(atoms: Atoms, boxes: Boxes, count: int) -> tuple[Array, Indices]:
    parts = []
    has_parent, has_anchor = atoms.has_parent[boxes.atom], atoms.has_anchor[boxes.atom]
    groups = (
        (~has_parent, _anywhere),
        (has_parent & (boxes.axis == 0) & ~has_anchor, _on_shell),
        (has_parent & (boxes.axis == 0) & has_anchor, _on_ring),
        (has_parent & (boxes.axis == 1), _on_circle),
        (has_parent & (boxes.axis == 2), _on_line),
    )
    cube = np.concatenate([CUBE[:count], CUBE[: count // 2]])  # [P, 3]
    wide = np.arange(len(cube)) >= count
    for is_of, method in groups:
        of = np.flatnonzero(is_of)
        if len(of):
            some = boxes.only(of)
            width = np.where(wide, atoms.bonded[some.atom, None], NEAR)  # [boxes, P]
            points, is_there = method(atoms, some, width, cube)
            parts.append((points[is_there], np.broadcast_to(of[:, None], is_there.shape)[is_there]))
    if not parts:
        return np.zeros((0, 3)), np.zeros(0, dtype=np.int64)
    return np.concatenate([points for points, _ in parts]), np.concatenate([box for _, box in parts])


def _between(ends: Array, width: Array, uniform: Array) -> Array:
    """Lengths [boxes, P] between a lower and an upper one [boxes, 2], each wider by ``width``."""
    near, far = ends[:, :1] * (1 - width), ends[:, 1:] * (1 + width)
    return near + (far - near) * uniform


def _anywhere(atoms: Atoms, boxes: Boxes, width: Array, cube: Array) -> tuple[Array, NDArray[np.bool_]]:
    centre = atoms.parent[boxes.atom]
    points = centre[:, None] + (2 * cube - 1) * SPREAD
    is_known = np.arange(3) < boxes.axis[:, None]
    points = np.where(is_known[:, None], boxes.known[:, None], points)
    at = np.arange(len(centre))
    middle = centre[at, boxes.axis]
    first, last = np.maximum(boxes.low, middle - SPREAD), np.minimum(boxes.high, middle + SPREAD)
    points[at, :, boxes.axis] = first[:, None] + (last - first)[:, None] * cube[:, 0]
    return points, np.broadcast_to((first <= last)[:, None], points.shape[:2])


def _on_shell(atoms: Atoms, boxes: Boxes, width: Array, cube: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Nothing but the bond is known."""
    centre = atoms.parent[boxes.atom][:, None]  # [boxes, 1, 3]
    radius = _between(atoms.lengths[boxes.atom], width, cube[:, 0])
    first = np.maximum(boxes.low[:, None], centre[..., 0] - radius)
    last = np.minimum(boxes.high[:, None], centre[..., 0] + radius)
    x = first + (last - first) * cube[:, 1]
    height, turn = np.sqrt(np.maximum(radius**2 - (x - centre[..., 0]) ** 2, 0)), 2 * np.pi * cube[:, 2]
    y, z = centre[..., 1] + height * np.cos(turn), centre[..., 2] + height * np.sin(turn)
    return np.stack([x, y, z], axis=-1), first <= last


def _on_ring(atoms: Atoms, boxes: Boxes, width: Array, cube: Array) -> tuple[Array, NDArray[np.bool_]]:
    """On the circle that bond and angle leave, where it passes the slab of x."""
    centre, anchor = atoms.parent[boxes.atom], atoms.anchor[boxes.atom]
    radius = _between(atoms.lengths[boxes.atom], width, cube[:, 0])  # [boxes, P]
    distance = _between(atoms.spans[boxes.atom], width, cube[:, 1])
    along = anchor - centre
    apart = np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
    along = along / apart
    forward = (radius**2 + apart**2 - distance**2) / (2 * apart)
    squared = radius**2 - forward**2
    ring = np.sqrt(np.maximum(squared, 0))
    side = np.eye(3)[0] - along[:, :1] * along  # in the plane of the circle, where x grows most
    steep = np.linalg.norm(side, axis=1, keepdims=True)
    side = np.where(steep < 1e-6, np.eye(3)[1] - along[:, 1:2] * along, side)
    side = side / np.linalg.norm(side, axis=1, keepdims=True)
    third = np.cross(along, side)
    middle = centre[:, :1] + forward * along[:, :1]
    spread = np.maximum(ring * steep, 1e-12)
    least = np.arccos(np.clip((boxes.high[:, None] - middle) / spread, -1, 1))
    most = np.arccos(np.clip((boxes.low[:, None] - middle) / spread, -1, 1))
    turn = (least + (most - least) * cube[:, 2]) * SIGN[: len(cube)]
    across, up = ring * np.cos(turn), ring * np.sin(turn)
    points = np.empty((*turn.shape, 3))
    for axis in range(3):
        at, onward, sideward, upward = (part[:, axis : axis + 1] for part in (centre, along, side, third))
        points[..., axis] = at + forward * onward + (across * sideward + up * upward)
    return points, (squared > 0) & (most > least)


def _on_circle(atoms: Atoms, boxes: Boxes, width: Array, cube: Array) -> tuple[Array, NDArray[np.bool_]]:
    """x is known: on the circle of the shell there, every second point where the angle is met too."""
    centre, anchor = atoms.parent[boxes.atom][:, None], atoms.anchor[boxes.atom][:, None]  # [boxes, 1, 3]
    x = boxes.known[:, :1]
    low = boxes.low[:, None]
    high = boxes.high[:, None]
    radius = _between(atoms.lengths[boxes.atom], width, cube[:, 0])
    squared = radius**2 - (x - centre[..., 0]) ** 2
    circle = np.sqrt(np.maximum(squared, 0))
    sign = SIGN[: len(cube)]
    first, last = np.maximum(low, centre[..., 1] - circle), np.minimum(high, centre[..., 1] + circle)
    y = first + (last - first) * cube[:, 2]
    z = centre[..., 2] + sign * np.sqrt(np.maximum(circle**2 - (y - centre[..., 1]) ** 2, 0))
    distance = _between(atoms.spans[boxes.atom], width, cube[:, 1])
    to = centre - anchor
    wanted = distance**2 - (x - anchor[..., 0]) ** 2 - circle**2 - to[..., 1] ** 2 - to[..., 2] ** 2
    size = np.maximum(2 * circle * np.hypot(to[..., 1], to[..., 2]), 1e-12)
    turn = np.arctan2(to[..., 2], to[..., 1]) + sign * np.arccos(np.clip(wanted / size, -1, 1))
    met = centre[..., 1] + circle * np.cos(turn)
    is_met = atoms.has_anchor[boxes.atom][:, None] & (np.abs(wanted) <= size) & (met >= low) & (met <= high)
    is_met &= np.arange(len(cube)) % 4 < 2
    y, z = np.where(is_met, met, y), np.where(is_met, centre[..., 2] + circle * np.sin(turn), z)
    return np.stack([np.broadcast_to(x, y.shape), y, z], axis=-1), (squared > 0) & ((first <= last) | is_met)


def _on_line(atoms: Atoms, boxes: Boxes, width: Array, cube: Array) -> tuple[Array, NDArray[np.bool_]]:
    """x and y are known: where the line along z passes the shell, twice."""
    centre, lengths = atoms.parent[boxes.atom], atoms.lengths[boxes.atom]
    off = ((boxes.known[:, :2] - centre[:, :2]) ** 2).sum(axis=1, keepdims=True)
    near, far = lengths[:, :1] * (1 - width), lengths[:, 1:] * (1 + width)  # [boxes, P]
    inner, outer = np.sqrt(np.maximum(near**2 - off, 0)), np.sqrt(np.maximum(far**2 - off, 0))
    is_up = SIGN[: len(cube)] > 0
    middle = centre[:, 2:]
    first = np.maximum(boxes.low[:, None], np.where(is_up, middle + inner, middle - outer))
    last = np.minimum(boxes.high[:, None], np.where(is_up, middle + outer, middle - inner))
    points = np.repeat(boxes.known[:, None], len(cube), axis=1)
    points[..., 2] = first + (last - first) * cube[:, 2]
    return points, (first <= last) & (off <= far**2)
