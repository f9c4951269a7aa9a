"""The stereo of a conformer: is each stereocentre and double bond in space as its SMILES says?

Only what the SMILES specifies is judged: a centre by the sign of the volume that its neighbours span, a double bond by
the side on which its stereo atoms lie. Of the symmetries of the graph that under which most is right counts: meso
tartaric acid is its own mirror image. RDKit's CIP labels and SMILES of the coordinates are not asked: both lose
centres. What this module does not know: allenes, atropisomers, and centres with more than four neighbours.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from engine.chem.enriched import MOST_ATOMS
from engine.chem.frame import Array
from engine.chem.rdkit_log import captured_log, matching
from engine.errors import GraphMismatchError

FLAT, NEARLY_PLANAR = 0.1, 0.3
"""Least volume of a centre that has a hand, and of a sound one. 0.77 is ideal: unit vectors to three corners."""
TWISTED = 0.5
"""Least cosine of a double bond's torsion that has a side: 60 degrees from flat."""
MOST_SYMMETRIES = 10_000

Word = Literal["right", "nearly planar", "flat", "mirrored", "twisted", "wrong side"]
SOUND: frozenset[Word] = frozenset({"right", "nearly planar"})

_HANDS = {Chem.ChiralType.CHI_TETRAHEDRAL_CCW: 1.0, Chem.ChiralType.CHI_TETRAHEDRAL_CW: -1.0}
_SIDES = {
    **dict.fromkeys((Chem.BondStereo.STEREOZ, Chem.BondStereo.STEREOCIS), 1.0),
    **dict.fromkeys((Chem.BondStereo.STEREOE, Chem.BondStereo.STEREOTRANS), -1.0),
}


@dataclass(frozen=True, slots=True)
class Site:
    """A centre or a double bond that the SMILES specifies, by atoms in its order.

    ``value`` is positive on the side that was asked for: a centre's volume, or the cosine of a bond's torsion.
    ``answer_atoms`` are the same atoms in the answer, hydrogens that SMILES leaves implicit not counted.
    """

    atoms: tuple[int, ...]
    value: float
    word: Word
    answer_atoms: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class StereoVerdict:
    """All sites of a molecule, and whether all symmetries of its graph were tried."""

    sites: tuple[Site, ...]
    complete: bool

    @property
    def wrong(self) -> tuple[Site, ...]:
        return tuple(site for site in self.sites if site.word not in SOUND)

    @property
    def right(self) -> bool | None:
        """None where the SMILES specifies nothing, or where an untried symmetry might have put it right."""
        return None if not self.sites or (self.wrong and not self.complete) else not self.wrong


@dataclass(frozen=True, slots=True)
class StereoGoal:
    """A site before it is measured: the atoms that span it, and the sign that it should have."""

    atoms: tuple[int, ...]
    spanned_by: tuple[int, ...]  # a centre and its neighbours; the four atoms of a torsion
    sign: float

    def measured(self, points: Array) -> Array:
        """Of a double bond the cosine of its torsion, of a centre its volume, positive where it is as asked for, by
        the points of the spanning atoms: [symmetries, atoms, 3] to [symmetries]. Zero where a centre with four
        neighbours lies outside of them: it has no hand then, and RDKit may take it for mirrored."""
        if self.is_bond:
            return self.sign * _torsion_cosine(points)
        value = self.sign * spanned_volume(unit_vectors(points[:, 1:] - points[:, :1]))
        if len(self.spanned_by) == 5:
            value = np.where((value > 0) & (self.least_corner(points) < 0), 0.0, value)
        return np.asarray(value)

    def least_corner(self, points: Array) -> Array:
        """Of a centre with four neighbours the least volume that it spans with three of them, with the sign of
        ``measured``; negative where it lies outside of them."""
        a, b, c, d = np.moveaxis(unit_vectors(points[:, 1:] - points[:, :1]), 1, 0)
        corners = [np.linalg.det(np.stack(three, axis=1)) for three in ((a, b, c), (a, c, d), (a, d, b), (b, d, c))]
        return np.asarray((self.sign * np.array(corners)).min(axis=0))

    @property
    def is_bond(self) -> bool:
        return len(self.atoms) > 1

    def word(self, value: float) -> Word:
        if self.is_bond and value >= TWISTED:
            return "right"
        if self.is_bond:
            return "twisted" if value > -TWISTED else "wrong side"
        if value >= FLAT:
            return "right" if value >= NEARLY_PLANAR else "nearly planar"
        return "flat" if value > -FLAT else "mirrored"

    def is_met(self, positions: Array) -> bool:
        """By positions [atoms, 3], whatever the molecule's symmetry would make of them."""
        return self.word(float(self.measured(positions[None, list(self.spanned_by)])[0])) in SOUND


def judge_stereo(expected: Chem.Mol, answer: Chem.Mol) -> StereoVerdict:
    """The sites of ``expected`` in the conformer of ``answer``, which is the same graph in any order of atoms."""
    if not stereo_goals(expected):
        return StereoVerdict((), complete=True)
    with captured_log():
        heavy = answer if answer.GetNumAtoms() == expected.GetNumAtoms() else Chem.RemoveHs(answer)
    asked = AskedStereo.of(expected, heavy)
    values, best = asked.measured(heavy.GetConformer().GetPositions())
    sites = (
        Site(goal.atoms, float(value), goal.word(float(value)), tuple(asked.maps[best, goal.atoms].tolist()))
        for goal, value in zip(asked.goals, values[:, best], strict=True)
    )
    return StereoVerdict(tuple(sites), asked.complete)


@dataclass(frozen=True, slots=True, eq=False)
class AskedStereo:
    """What a SMILES specifies, and by which atoms of an answer each symmetry of the graph has it."""

    goals: list[StereoGoal]  # by the atoms of the SMILES
    maps: NDArray[np.int64]  # by symmetry, the answer's atom for each
    complete: bool  # whether these are all

    @classmethod
    def of(cls, expected: Chem.Mol, answer: Chem.Mol) -> AskedStereo:
        """``GraphMismatchError`` where ``answer`` is another graph."""
        return cls(stereo_goals(expected), *_symmetries(expected, answer))

    def measured(self, positions: Array, is_known: NDArray[np.bool_] | None = None) -> tuple[Array, int]:
        """The goals' values by symmetry, of the answer's atoms, [sites, maps]; and that under which most is right. What
        needs an atom of unknown position counts as right."""
        values = np.array([goal.measured(positions[self.maps[:, goal.spanned_by]]) for goal in self.goals])
        sound = [[goal.word(value) in SOUND for value in row] for goal, row in zip(self.goals, values, strict=True)]
        is_sound = np.array(sound).reshape(values.shape)
        if is_known is not None:
            for row, goal in zip(is_sound, self.goals, strict=True):
                row |= ~is_known[self.maps[:, goal.spanned_by]].all(axis=1)
        return values, int(is_sound.sum(axis=0).argmax())

    def chosen(self, positions: Array, is_known: NDArray[np.bool_]) -> list[StereoGoal]:
        """The goals by the answer's own atoms, under the symmetry that the verdict chooses; none where it finds no site
        wrong for certain, since not every symmetry was tried."""
        if not (self.goals and self.complete):
            return []
        _, best = self.measured(positions, is_known)
        of_answer = self.maps[best]
        return [
            replace(
                goal,
                atoms=tuple(of_answer[list(goal.atoms)].tolist()),
                spanned_by=tuple(of_answer[list(goal.spanned_by)].tolist()),
            )
            for goal in self.goals
        ]


def stereo_goals(mol: Chem.Mol) -> list[StereoGoal]:
    """The sites that a molecule specifies; each is judged by the positions of four or five atoms."""
    goals = []
    for atom in mol.GetAtoms():
        spanned_by = (atom.GetIdx(), *(bond.GetOtherAtomIdx(atom.GetIdx()) for bond in atom.GetBonds()))
        if atom.GetChiralTag() in _HANDS and len(spanned_by) in (4, 5):
            goals.append(StereoGoal(spanned_by[:1], spanned_by, _HANDS[atom.GetChiralTag()]))
    for bond in mol.GetBonds():
        if bond.GetStereo() in _SIDES:
            ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            first, last = bond.GetStereoAtoms()
            goals.append(StereoGoal(ends, (first, *ends, last), _SIDES[bond.GetStereo()]))
    return goals


def _torsion_cosine(points: Array) -> Array:
    """Of first, begin, end and last [any, 4, 3]."""
    first, begin, end, last = np.moveaxis(points, 1, 0)
    left, right = unit_vectors(np.cross(first - begin, end - begin)), unit_vectors(np.cross(last - end, end - begin))
    return np.asarray((left * right).sum(axis=-1))


def spanned_volume(arms: Array) -> Array:
    """Of three or four unit vectors [any, arms, 3], positive counter-clockwise."""
    if arms.shape[1] == 4:
        return np.asarray(np.linalg.det(arms[:, :3] - arms[:, 3:]) / 4)
    return np.asarray(np.linalg.det(arms))


def unit_vectors(vectors: Array) -> Array:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9))


def _symmetries(expected: Chem.Mol, answer: Chem.Mol) -> tuple[NDArray[np.int64], bool]:
    """By row, the atom of ``answer`` for each atom of ``expected``; and whether these are all."""
    left, right = _skeleton(expected), _skeleton(answer)
    with matching():
        matches = right.GetSubstructMatches(left, uniquify=False, maxMatches=MOST_SYMMETRIES)
    if not matches or (left.GetNumAtoms(), left.GetNumBonds()) != (right.GetNumAtoms(), right.GetNumBonds()):
        raise GraphMismatchError("the conformer is of another molecule", "Give one of the same graph")
    return np.array(matches), len(matches) < MOST_SYMMETRIES


def _skeleton(mol: Chem.Mol) -> Chem.Mol:
    """The graph without stereo, its atoms distinguished by symmetry class, and equal leaves on an atom by their order.

    Fluorines of CF3 and methyls of tert-butyl span no site, but would multiply the symmetries by six each time.
    """
    plain = Chem.Mol(mol)
    Chem.RemoveStereochemistry(plain)
    leaves = Counter[tuple[int, ...]]()
    for atom, rank in zip(plain.GetAtoms(), list(Chem.CanonicalRankAtoms(plain, breakTies=False)), strict=True):
        leaf = (rank, *(neighbour.GetIdx() for neighbour in atom.GetNeighbors()))
        atom.SetIsotope(rank + 1 + (leaves[leaf] * MOST_ATOMS if len(leaf) == 2 else 0))
        leaves[leaf] += 1
    return plain
